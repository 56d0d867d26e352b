"""Leaves and inner nodes of the tree are told apart by what they are hashed with."""

from __future__ import annotations

import base64
from collections.abc import Callable

from fairtrial.custody.trial import parse_receipt
from fairtrial.ledger.merkle import leaf_hash, node_hash, root_of

from .conftest import Case

Agreed = Callable[..., str]


def test_inner_nodes_are_no_entries(lines: Case, agreed: Agreed) -> None:
    """A shorter file whose "entries" are pairs of leaves has another root and isn't a ledger."""
    leaves = [leaf_hash(data) for data in lines.entries()[:4]]
    pairs = [leaves[0] + leaves[1], leaves[2] + leaves[3]]
    assert root_of(leaves) != root_of(map(leaf_hash, pairs))
    assert root_of(leaves) == root_of([node_hash(leaves[0], leaves[1]), node_hash(*leaves[2:])])


def test_receipt_of_a_smaller_tree_with_the_same_root_is_no_anchor(
    case: Case, agreed: Agreed
) -> None:
    """The size is part of what is compared: the root of 40 entries says nothing at size 20."""
    mine = parse_receipt(case.receipt)
    root = base64.b64encode(mine.root).decode()
    for size in (1, mine.size // 2, mine.size - 1):
        assert "forked" == agreed(case, f"fairtrial:{mine.ledger}@{size}#{root}")
    assert "rolled_back" == agreed(case, f"fairtrial:{mine.ledger}@{mine.size + 1}#{root}")

"""The RFC 6962 tree: published values, every proof of small trees, what must be refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.ledger.merkle import (
    EMPTY_ROOT,
    CompactRange,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    node_hash,
    root_of,
    verify_consistency,
    verify_inclusion,
)

DATA = Path(__file__).parent / "data"
RFC: dict[str, Any] = json.loads((DATA / "merkle_rfc6962.json").read_text(encoding="utf-8"))
NEGATIVE: list[dict[str, Any]] = json.loads(
    (DATA / "merkle_negative.json").read_text(encoding="utf-8")
)["cases"]
LEAVES = [leaf_hash(b"leaf %d" % n) for n in range(130)]


def naive_root(leaves: Sequence[bytes]) -> bytes:
    """Returns the tree hash by the definition, word for word."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    k = 1
    while 2 * k < len(leaves):
        k *= 2
    return sha256(b"\x01" + naive_root(leaves[:k]) + naive_root(leaves[k:])).digest()


def _hexes(values: Sequence[str]) -> list[bytes]:
    return [bytes.fromhex(value) for value in values]


def test_published_constants() -> None:
    """Empty root, leaves and a node are those of the public reference tests."""
    assert RFC["empty_root"] == EMPTY_ROOT.hex() == root_of([]).hex()
    assert RFC["leaf_empty"] == leaf_hash(b"").hex()
    assert RFC["leaf_L123456"] == leaf_hash(b"L123456").hex()
    assert RFC["node_N123_N456"] == node_hash(b"N123", b"N456").hex()


def test_published_roots() -> None:
    """The eight reference leaves give the reference roots at every size."""
    leaves = [leaf_hash(data) for data in _hexes(RFC["leaves"])]
    assert RFC["leaf_hashes"] == [leaf.hex() for leaf in leaves]
    tree = CompactRange()
    roots = [tree.root().hex()]
    for leaf in leaves:
        tree.append(leaf)
        roots.append(tree.root().hex())
    assert RFC["roots_by_size"] == roots


@pytest.mark.parametrize("case", RFC["inclusion"], ids=lambda c: f"{c['index']} of {c['size']}")
def test_published_inclusion_proofs(case: dict[str, Any]) -> None:
    """Every inclusion proof of sizes 1 to 8 is made and accepted as published."""
    leaves = _hexes(RFC["leaf_hashes"])[: case["size"]]
    proof = inclusion_proof(leaves, case["index"])
    assert _hexes(case["proof"]) == proof
    assert verify_inclusion(
        leaves[case["index"]],
        index=case["index"],
        size=case["size"],
        proof=proof,
        root=bytes.fromhex(RFC["roots_by_size"][case["size"]]),
    )


@pytest.mark.parametrize("case", RFC["consistency"], ids=lambda c: f"{c['old']} to {c['new']}")
def test_published_consistency_proofs(case: dict[str, Any]) -> None:
    """Every consistency proof of sizes 1 to 8 is made and accepted as published."""
    old, new = case["old"], case["new"]
    proof = consistency_proof(_hexes(RFC["leaf_hashes"])[:new], old)
    assert _hexes(case["proof"]) == proof
    roots = _hexes(RFC["roots_by_size"])
    assert verify_consistency(
        old_size=old, old_root=roots[old], size=new, root=roots[new], proof=proof
    )


def test_published_roots_of_a_large_tree() -> None:
    """Roots at sizes around powers of two, up to 1,000 leaves, are the published ones."""
    tree = CompactRange()
    roots = RFC["big"]["roots"]
    found: dict[str, str] = {}
    for n in range(1_000):
        tree.append(leaf_hash(b"leaf %d" % n))
        if str(n + 1) in roots:
            found[str(n + 1)] = tree.root().hex()
    assert roots == found


def test_published_proofs_of_a_large_tree() -> None:
    """Proofs in a tree of 1,000 leaves are made and accepted as published."""
    leaves = [leaf_hash(b"leaf %d" % n) for n in range(1_000)]
    for case in RFC["big"]["inclusion"]:
        size, index = case["size"], case["index"]
        proof = inclusion_proof(leaves[:size], index)
        assert _hexes(case["proof"]) == proof
        root = root_of(leaves[:size])
        assert verify_inclusion(leaves[index], index=index, size=size, proof=proof, root=root)
    for case in RFC["big"]["consistency"]:
        old, new = case["old"], case["new"]
        proof = consistency_proof(leaves[:new], old)
        assert _hexes(case["proof"]) == proof
        old_root, root = root_of(leaves[:old]), root_of(leaves[:new])
        assert verify_consistency(old_size=old, old_root=old_root, size=new, root=root, proof=proof)


def test_growth_from_nothing_is_no_proof() -> None:
    """From size 0 there is nothing to be consistent with: refused whatever the roots are."""
    root = root_of(LEAVES[:8])
    for given_root, size, end in (
        (EMPTY_ROOT, 8, root),
        (root, 8, root),
        (EMPTY_ROOT, 0, EMPTY_ROOT),
    ):
        assert not verify_consistency(
            old_size=0, old_root=given_root, size=size, root=end, proof=[]
        )


@pytest.mark.parametrize(
    "case",
    NEGATIVE,
    ids=lambda case: f"{case['kind']}: {case['why']}",
)
def test_published_false_proofs_are_refused(case: dict[str, Any]) -> None:
    """Every false proof is refused, those included that the bare text of the RFC accepts."""
    proof = _hexes(case["proof"])
    if case["kind"] == "inclusion":
        accepted = verify_inclusion(
            bytes.fromhex(case["leaf_hash"]),
            index=case["index"],
            size=case["size"],
            proof=proof,
            root=bytes.fromhex(case["root"]),
        )
    else:
        accepted = verify_consistency(
            old_size=case["old"],
            old_root=bytes.fromhex(case["root1"]),
            size=case["new"],
            root=bytes.fromhex(case["root2"]),
            proof=proof,
        )
    assert not accepted


def test_compact_range_is_the_definition_at_every_size() -> None:
    """Incremental roots equal the recursive definition for all sizes up to 130."""
    tree = CompactRange()
    for size in range(131):
        assert naive_root(LEAVES[:size]) == tree.root() == root_of(LEAVES[:size])
        assert size.bit_count() == len(tree.hashes)
        if size < 130:
            tree.append(LEAVES[size])


@pytest.mark.slow
def test_every_proof_of_every_small_tree_verifies_and_no_other() -> None:
    """For all sizes up to 40: right proofs pass, and fail for another place, size, leaf or root."""
    roots = [naive_root(LEAVES[:size]) for size in range(42)]
    for size in range(1, 41):
        for index in range(size):
            proof = inclusion_proof(LEAVES[:size], index)
            given_ = {"index": index, "size": size, "proof": proof, "root": roots[size]}
            assert verify_inclusion(LEAVES[index], **given_)  # type: ignore[arg-type]  # a table
            for wrong in (
                {"index": index + 1},
                {"index": index - 1},
                {"root": roots[size + 1]},
                {"proof": [*proof, LEAVES[0]]},
                {"proof": proof[:-1] if proof else [LEAVES[1]]},
            ):
                assert not verify_inclusion(LEAVES[index], **{**given_, **wrong})  # type: ignore[arg-type]  # a table
            assert not verify_inclusion(LEAVES[index + 1], **given_)  # type: ignore[arg-type]  # a table
        for old in range(1, size + 1):
            proof = consistency_proof(LEAVES[:size], old)
            given_ = {"old_size": old, "old_root": roots[old], "size": size, "root": roots[size]}
            assert verify_consistency(**given_, proof=proof)  # type: ignore[arg-type]  # a table
            for wrong in ({"old_size": old - 1}, {"old_root": roots[old - 1]}, {"root": roots[41]}):
                assert not verify_consistency(**{**given_, **wrong}, proof=proof)  # type: ignore[arg-type]  # a table
            for other in ([*proof, LEAVES[0]], proof[:-1] if proof else [LEAVES[0]]):
                assert not verify_consistency(**given_, proof=other)  # type: ignore[arg-type]  # a table


@given(st.data())
def test_flipped_bit_in_a_proof_is_refused(data: st.DataObject) -> None:
    """One flipped bit in any hash of a proof, in the leaf or in a root makes it false."""
    size = data.draw(st.integers(2, 130))
    index = data.draw(st.integers(0, size - 1))
    proof = inclusion_proof(LEAVES[:size], index)
    parts = [LEAVES[index], naive_root(LEAVES[:size]), *proof]
    place = data.draw(st.integers(0, len(parts) - 1))
    flipped = bytearray(parts[place])
    flipped[data.draw(st.integers(0, 31))] ^= 1 << data.draw(st.integers(0, 7))
    parts[place] = bytes(flipped)
    assert not verify_inclusion(parts[0], index=index, size=size, proof=parts[2:], root=parts[1])


def test_range_continues_from_its_hashes() -> None:
    """A range made again from size and hashes goes on to the same roots; a copy is independent."""
    tree = CompactRange()
    for leaf in LEAVES[:77]:
        tree.append(leaf)
    again, copy = CompactRange(tree.size, tree.hashes), tree.copy()
    for leaf in LEAVES[77:]:
        again.append(leaf)
    assert naive_root(LEAVES) == again.root()
    assert naive_root(LEAVES[:77]) == tree.root() == copy.root()


@pytest.mark.parametrize(
    ("size", "hashes"), [(-1, ()), (1, ()), (2, (b"x" * 32, b"y" * 32)), (1, (b"short",))]
)
def test_range_of_wrong_hashes_is_refused(size: int, hashes: tuple[bytes, ...]) -> None:
    """A size has one hash of 32 bytes for each of its set bits."""
    with pytest.raises(ValueError, match="hashes of 32 bytes"):
        CompactRange(size, hashes)


def test_proofs_outside_the_tree_are_refused() -> None:
    """A proof is asked for inside the tree only; from size 0 it is empty."""
    for index in (-1, 3):
        with pytest.raises(IndexError):
            inclusion_proof(LEAVES[:3], index)
    for old in (-1, 4):
        with pytest.raises(ValueError, match="no prefix"):
            consistency_proof(LEAVES[:3], old)
    assert [] == consistency_proof(LEAVES[:3], 0)


def test_node_is_never_a_leaf() -> None:
    """Leaves and nodes are hashed under different prefixes."""
    left, right = LEAVES[:2]
    assert leaf_hash(left + right) != node_hash(left, right)
    assert sha256(b"\x00" + b"x").digest() == leaf_hash(b"x")
    assert sha256(b"\x01" + left + right).digest() == node_hash(left, right)

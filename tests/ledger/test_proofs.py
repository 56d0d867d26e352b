"""Proofs from a stream of leaves against naive recursion, and the two files that carry them."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fairtrial.ledger.checkpoint import open_checkpoint
from fairtrial.ledger.errors import RefusedError
from fairtrial.ledger.merkle import leaf_hash, root_of, verify_consistency, verify_inclusion
from fairtrial.ledger.note import NOTE_BYTES_MAX, parse_vkey
from fairtrial.ledger.proofs import (
    HASHES_MAX,
    ConsistencyProof,
    InclusionProof,
    Span,
    consistency_spans,
    format_consistency,
    format_inclusion,
    inclusion_spans,
    is_consistent,
    is_included,
    parse_consistency,
    parse_inclusion,
    span_roots,
)

DATA = Path(__file__).parent / "data"
# Any: the vectors are plain JSON.
NOTES: dict[str, Any] = json.loads((DATA / "checkpoint_note.json").read_text(encoding="utf-8"))
TREE: dict[str, Any] = json.loads((DATA / "merkle_rfc6962.json").read_text(encoding="utf-8"))
BAD: list[dict[str, Any]] = json.loads((DATA / "merkle_negative.json").read_text(encoding="utf-8"))[
    "cases"
]
SIZE_MAX = 130
LEAVES = [leaf_hash(f"leaf {number}".encode()) for number in range(SIZE_MAX)]


def naive_root(leaves: list[bytes]) -> bytes:
    """Returns MTH(D[n]) by the letter of RFC 6962, section 2.1."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    k = naive_split(len(leaves))
    return sha256(b"\x01" + naive_root(leaves[:k]) + naive_root(leaves[k:])).digest()


def naive_split(size: int) -> int:
    """Returns the largest power of two below a size."""
    k = 1
    while 2 * k < size:
        k *= 2
    return k


def naive_path(index: int, leaves: list[bytes]) -> list[bytes]:
    """Returns PATH(m, D[n]) by the letter of RFC 6962, section 2.1.1."""
    if len(leaves) == 1:
        return []
    k = naive_split(len(leaves))
    if index < k:
        return [*naive_path(index, leaves[:k]), naive_root(leaves[k:])]
    return [*naive_path(index - k, leaves[k:]), naive_root(leaves[:k])]


def naive_subproof(old: int, leaves: list[bytes], whole: bool) -> list[bytes]:
    """Returns SUBPROOF(m, D[n], b) by the letter of RFC 6962, section 2.1.2."""
    if old == len(leaves):
        return [] if whole else [naive_root(leaves)]
    k = naive_split(len(leaves))
    if old <= k:
        return [*naive_subproof(old, leaves[:k], whole), naive_root(leaves[k:])]
    return [*naive_subproof(old - k, leaves[k:], False), naive_root(leaves[:k])]


@pytest.mark.slow
def test_every_inclusion_proof_equals_naive_recursion() -> None:
    """For every leaf of every tree up to 130 the streamed proof is the one of the RFC."""
    for size in range(1, SIZE_MAX + 1):
        leaves = LEAVES[:size]
        root = naive_root(leaves)
        for index in range(size):
            proof = span_roots(iter(leaves), inclusion_spans(index, size))
            assert naive_path(index, leaves) == list(proof)
            assert verify_inclusion(leaves[index], index=index, size=size, proof=proof, root=root)


@pytest.mark.slow
def test_every_consistency_proof_equals_naive_recursion() -> None:
    """For every prefix of every tree up to 130 the streamed proof is the one of the RFC."""
    roots = [naive_root(LEAVES[:size]) for size in range(SIZE_MAX + 1)]
    for size in range(1, SIZE_MAX + 1):
        leaves = LEAVES[:size]
        for old in range(1, size + 1):
            proof = span_roots(iter(leaves), consistency_spans(old, size))
            assert naive_subproof(old, leaves, True) == list(proof)
            assert verify_consistency(
                old_size=old, old_root=roots[old], size=size, root=roots[size], proof=proof
            )


def test_proofs_of_the_vectors() -> None:
    """Every proof of the published tree comes out the same."""
    leaves = [bytes.fromhex(one) for one in TREE["leaf_hashes"]]
    for one in TREE["inclusion"]:
        spans = inclusion_spans(one["index"], one["size"])
        assert one["proof"] == [root.hex() for root in span_roots(leaves, spans)]
    for one in TREE["consistency"]:
        spans = consistency_spans(one["old"], one["new"])
        assert one["proof"] == [root.hex() for root in span_roots(leaves, spans)]


@pytest.mark.parametrize("case", BAD, ids=lambda case: f"{case['kind']}: {case['why']}")
def test_bad_proof_is_refused(case: dict[str, Any]) -> None:
    """None of the 38 false proofs is taken."""
    hashes = tuple(bytes.fromhex(one) for one in case["proof"])
    if case["kind"] == "inclusion":
        inclusion = InclusionProof(case["index"], hashes, b"")
        leaf, root = bytes.fromhex(case["leaf_hash"]), bytes.fromhex(case["root"])
        assert not is_included(inclusion, leaf, size=case["size"], root=root)
    else:
        consistency = ConsistencyProof(case["old"], hashes, b"")
        old, new = bytes.fromhex(case["root1"]), bytes.fromhex(case["root2"])
        assert not is_consistent(consistency, old, size=case["new"], root=new)


def test_spans_part_the_leaves() -> None:
    """An inclusion proof and its leaf, or a consistency proof, hold each leaf at most once."""
    for size in range(1, 70):
        for index in range(size):
            spans = sorted([*inclusion_spans(index, size), Span(index, index + 1)])
            assert 0 == spans[0].start
            assert size == spans[-1].stop
            assert all(a.stop == b.start for a, b in pairwise(spans))


def test_no_proof_of_what_isnt_there() -> None:
    """A leaf or prefix outside the tree has no proof; an empty or whole prefix needs none."""
    for index, size in ((0, 0), (1, 1), (-1, 3)):
        with pytest.raises(IndexError):
            inclusion_spans(index, size)
    for old, size in ((2, 1), (-1, 3)):
        with pytest.raises(ValueError, match="prefix"):
            consistency_spans(old, size)
    assert [] == consistency_spans(0, 5)
    assert [] == consistency_spans(5, 5)


def test_too_few_leaves_are_said() -> None:
    """A stream that ends early gives no proof."""
    with pytest.raises(ValueError, match="end before"):
        span_roots(LEAVES[:5], inclusion_spans(0, 6))


@pytest.mark.slow
def test_memory_is_flat_in_the_number_of_leaves() -> None:
    """A proof over 200,000 streamed leaves holds a frontier, not the leaves."""

    def stream(count: int) -> Iterator[bytes]:
        return (number.to_bytes(32, "big") for number in range(count))

    size = 200_000
    tracemalloc.start()
    proof = span_roots(stream(size), inclusion_spans(77_777, size))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000
    leaf = (77_777).to_bytes(32, "big")
    root = root_of(stream(size))
    assert verify_inclusion(leaf, index=77_777, size=size, proof=proof, root=root)


def test_proof_of_the_vectors_reads_verifies_and_writes_back() -> None:
    """The published .tlog-proof holds, and its bytes are those that are written here."""
    data = NOTES["tlog_proof"].encode()
    proof = parse_inclusion(data)
    assert data == format_inclusion(proof)
    log, witness = parse_vkey(NOTES["log"]["vkey"]), parse_vkey(NOTES["witness"]["vkey"])
    opened = open_checkpoint(proof.note, log=log, cosigners=[witness])
    leaf = bytes.fromhex(TREE["leaf_hashes"][proof.seq])
    head = opened.checkpoint
    assert 2 == len(opened.signatures)
    assert is_included(proof, leaf, size=head.size, root=head.root)
    others = [bytes.fromhex(one) for one in TREE["leaf_hashes"] if bytes.fromhex(one) != leaf]
    assert not any(is_included(proof, one, size=head.size, root=head.root) for one in others)


def test_extra_data_is_carried_and_not_read() -> None:
    """An entry in the extra line comes back as it was."""
    proof = InclusionProof(0, (), b"note\n", b"\x00any bytes")
    assert proof == parse_inclusion(format_inclusion(proof))
    assert proof._replace(extra=b"") == parse_inclusion(format_inclusion(proof._replace(extra=b"")))


def test_consistency_file_reads_back() -> None:
    """Old size, hashes and the checkpoint come back as they were."""
    proof = ConsistencyProof(5, (bytes(32), b"\1" * 32), NOTES["cosigned"].encode())
    data = format_consistency(proof)
    assert data.startswith(b"old 5\nAAAA")
    assert proof == parse_consistency(data)
    nothing = ConsistencyProof(0, (), b"n\n")
    assert b"old 0\n\nn\n" == format_consistency(nothing)
    assert nothing == parse_consistency(b"old 0\n\nn\n")


HASH = "A" * 43 + "="


@pytest.mark.parametrize(
    "text",
    [
        "",
        "c2sp.org/tlog-proof@v1\nindex 0\n",
        "c2sp.org/tlog-proof@v2\nindex 0\n\nnote\n",
        "c2sp.org/tlog-proof@v1\n\nnote\n",
        "c2sp.org/tlog-proof@v1\nindex 00\n\nnote\n",
        "c2sp.org/tlog-proof@v1\nindex +1\n\nnote\n",
        "c2sp.org/tlog-proof@v1\nindex 1 \n\nnote\n",
        "c2sp.org/tlog-proof@v1\nindex \u0661\n\nnote\n",
        "c2sp.org/tlog-proof@v1\r\nindex 1\n\nnote\n",
        "c2sp.org/tlog-proof@v1\nindex 1\nextra AAAA\n\nnote\n",
        "c2sp.org/tlog-proof@v1\nextra A\nindex 1\n\nnote\n",
        "c2sp.org/tlog-proof@v1\nindex 1\nAAAA\n\nnote\n",
        f"c2sp.org/tlog-proof@v1\nindex 1\n{HASH[:-1]}\n\nnote\n",
        "c2sp.org/tlog-proof@v1\nindex 1\n" + f"{HASH}\n" * (HASHES_MAX + 1) + "\nnote\n",
        "c2sp.org/tlog-proof@v1\nindex 1\n\n" + "x" * (2 * NOTE_BYTES_MAX),
    ],
)
def test_malformed_inclusion_file_is_refused(text: str) -> None:
    """A proof file has one form."""
    with pytest.raises(RefusedError):
        parse_inclusion(text.encode())


@pytest.mark.parametrize(
    "text", ["old 1", "old 01\n\nn", "old\n\nn", "old 1\nA\n\nn", "index 1\n\nn"]
)
def test_malformed_consistency_file_is_refused(text: str) -> None:
    """A request has one form."""
    with pytest.raises(RefusedError):
        parse_consistency(text.encode())

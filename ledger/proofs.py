"""Proofs of the tree: which hashes one needs, their roots from a stream of leaves, and their files.

Leaves hashing and verification to `merkle.py`, signatures to `checkpoint.py`, and what an entry
says to whoever holds one.

Rules:
- A proof is a partition of the leaves into subtrees: each leaf is read and hashed once, and no more
  than one frontier is held.
- An inclusion proof is a C2SP tlog-proof; its `extra` line holds the entry, which only the proof
  itself authenticates.
- A consistency proof is the body of a C2SP tlog-witness add-checkpoint request: old size, hashes,
  and the newer checkpoint.
- Only the one form of each line is taken.

Source:
    RFC 6962, sections 2.1.1 and 2.1.2; C2SP tlog-proof (v1), tlog-witness (v1.0.0).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .errors import RefusedError
from .merkle import CompactRange, verify_consistency, verify_inclusion
from .note import NOTE_BYTES_MAX, decode_base64, encode_base64

__all__ = (
    "HASHES_MAX",
    "PROOF_BYTES_MAX",
    "ConsistencyProof",
    "InclusionProof",
    "Span",
    "consistency_spans",
    "format_consistency",
    "format_inclusion",
    "inclusion_spans",
    "is_consistent",
    "is_included",
    "parse_consistency",
    "parse_inclusion",
    "span_roots",
)

HASHES_MAX = 63
# A note, the hashes, and an entry of 65,535 bytes in base64.
PROOF_BYTES_MAX = NOTE_BYTES_MAX + HASHES_MAX * 45 + 90_000
_FIRST_LINE = "c2sp.org/tlog-proof@v1"
_DECIMAL = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)


class Span(NamedTuple):
    """The leaves from `start` up to `stop`, a subtree."""

    start: int
    stop: int


class InclusionProof(NamedTuple):
    """That the leaf at place `seq` stands in the tree of a checkpoint."""

    seq: int
    hashes: tuple[bytes, ...]
    note: bytes
    extra: bytes | None = None


class ConsistencyProof(NamedTuple):
    """That the first `old` leaves are a beginning of the tree of a checkpoint."""

    old: int
    hashes: tuple[bytes, ...]
    note: bytes


def inclusion_spans(index: int, size: int) -> list[Span]:
    """Returns the subtrees whose roots are the audit path of a leaf, its sibling first.

    Args:
        index: The leaf's place, 0-based.
        size: Leaves of the tree.

    Raises:
        IndexError: The tree has no such leaf.

    Source:
        RFC 6962, section 2.1.1, PATH(m, D[n]) from the top down.
    """
    if not 0 <= index < size:
        raise IndexError(f"leaf {index} of a tree of {size}")
    start, stop, path = 0, size, []
    while stop - start > 1:
        middle = start + _split(stop - start)
        if index < middle:
            path.append(Span(middle, stop))
            stop = middle
        else:
            path.append(Span(start, middle))
            start = middle
    return path[::-1]


def consistency_spans(old: int, size: int) -> list[Span]:
    """Returns the subtrees whose roots prove that `old` leaves begin a tree of `size`.

    Raises:
        ValueError: There is no such prefix.

    Source:
        RFC 6962, section 2.1.2, SUBPROOF(m, D[n], b) from the top down.
    """
    if not 0 <= old <= size:
        raise ValueError(f"no prefix of {old} in a tree of {size}")
    if old in (0, size):
        return []
    start, stop, path = 0, size, []
    while old != stop:
        middle = start + _split(stop - start)
        if old <= middle:
            path.append(Span(middle, stop))
            stop = middle
        else:
            path.append(Span(start, middle))
            start = middle
    # The old tree itself is known to the verifier; a part of it isn't.
    return [*([Span(start, stop)] if start else []), *path[::-1]]


def _split(size: int) -> int:
    """Returns the largest power of two below `size` (size >= 2)."""
    return 1 << (size - 1).bit_length() - 1


def span_roots(leaves: Iterable[bytes], spans: Sequence[Span]) -> tuple[bytes, ...]:
    """Returns the root of each span in the order given, reading the leaves once.

    Args:
        leaves: Leaf hashes from the first, each 32 bytes.
        spans: Spans that don't overlap.

    Raises:
        ValueError: There are fewer leaves than the spans need.
    """
    roots: dict[Span, bytes] = {}
    waiting = sorted(spans)
    tree = CompactRange()
    stream = enumerate(leaves)
    for span in waiting:
        for seq, leaf in stream:
            if seq >= span.start:
                tree.append(leaf)
            if seq + 1 == span.stop:
                break
        if tree.size != span.stop - span.start:
            raise ValueError(f"the leaves end before {span.stop}")
        roots[span], tree = tree.root(), CompactRange()
    return tuple(roots[span] for span in spans)


def is_included(proof: InclusionProof, leaf: bytes, *, size: int, root: bytes) -> bool:
    """Returns whether a proof shows a leaf hash in the tree of a head."""
    return verify_inclusion(leaf, index=proof.seq, size=size, proof=proof.hashes, root=root)


def is_consistent(proof: ConsistencyProof, old_root: bytes, *, size: int, root: bytes) -> bool:
    """Returns whether a proof shows an old root to begin the tree of a newer head.

    The empty tree begins every tree, so a proof from size 0 shows nothing and isn't taken.
    """
    return proof.old > 0 and verify_consistency(
        old_size=proof.old, old_root=old_root, size=size, root=root, proof=proof.hashes
    )


def format_inclusion(proof: InclusionProof) -> bytes:
    """Returns the bytes of a `.tlog-proof` file."""
    lines = [_FIRST_LINE]
    if proof.extra is not None:
        lines.append(f"extra {encode_base64(proof.extra)}")
    lines.append(f"index {proof.seq}")
    return _with_note(lines, proof.hashes, proof.note)


def format_consistency(proof: ConsistencyProof) -> bytes:
    """Returns the body of an add-checkpoint request."""
    return _with_note([f"old {proof.old}"], proof.hashes, proof.note)


def _with_note(lines: list[str], hashes: Sequence[bytes], note: bytes) -> bytes:
    whole = [*lines, *(encode_base64(one) for one in hashes), "", ""]
    return "\n".join(whole).encode() + note


def parse_inclusion(data: bytes) -> InclusionProof:
    """Returns the parts of a `.tlog-proof` file; verifies nothing.

    Raises:
        RefusedError: The bytes have another form.
    """
    lines, note = _head_lines(data)
    if not lines or lines.pop(0) != _FIRST_LINE:
        raise _refusal("the file isn't an inclusion proof", _FIRST_LINE, data)
    extra = None
    if lines and lines[0].startswith("extra "):
        extra = decode_base64(lines.pop(0).removeprefix("extra "), "the extra data of a proof")
    seq = _number(lines, "index", data)
    return InclusionProof(seq, _hashes(lines), note, extra)


def parse_consistency(data: bytes) -> ConsistencyProof:
    """Returns the parts of an add-checkpoint request; verifies nothing.

    Raises:
        RefusedError: The bytes have another form.
    """
    lines, note = _head_lines(data)
    return ConsistencyProof(_number(lines, "old", data), _hashes(lines), note)


def _head_lines(data: bytes) -> tuple[list[str], bytes]:
    """Returns the lines before the first empty one, and the note after it."""
    head, gap, note = data.partition(b"\n\n")
    if len(data) > PROOF_BYTES_MAX or not gap:
        raise _refusal("the file isn't a proof", "lines, an empty line, and a checkpoint", data)
    try:
        return head.decode("ascii").split("\n"), note
    except UnicodeDecodeError as error:
        raise _refusal("a proof holds ASCII before its checkpoint", "ASCII", data) from error


def _number(lines: list[str], word: str, data: bytes) -> int:
    name, _, number = (lines.pop(0) if lines else "").partition(" ")
    if name != word or not _DECIMAL.fullmatch(number):
        raise _refusal(f"the proof has no line `{word}`", f"{word} and a decimal number", data)
    return int(number)


def _hashes(lines: list[str]) -> tuple[bytes, ...]:
    if len(lines) > HASHES_MAX:
        raise RefusedError(
            "the proof has too many hashes", expected=f"at most {HASHES_MAX}", found=str(len(lines))
        )
    hashes = tuple(decode_base64(line, "a hash of a proof") for line in lines)
    if any(len(one) != 32 for one in hashes):
        raise RefusedError("a hash of a proof has another length", expected="32 bytes")
    return hashes


def _refusal(what: str, expected: str, data: bytes) -> RefusedError:
    return RefusedError(what, expected=expected, found=repr(data[:80]))

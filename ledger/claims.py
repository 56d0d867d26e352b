"""Compares the heads that others vouch for with a ledger: agreed, forked or rolled back. Pure.

Leaves finding such heads, and what vouches for each, to the engine (`custody/vouching.py`).

Rules:
- A head that contradicts the ledger counts whoever vouches for it; one that agrees counts as an
  anchor only when it is more than the ledger's own word.
- Each head covers the entries before it and says nothing of later ones.
- Of the heads that one key or one quorum vouches for, the largest is named: it covers the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from .findings import Claim, Finding

__all__ = ("BESIDE", "SELF_SIGNED", "Judged", "judge", "outside")

SELF_SIGNED = "self_signed"
# A head without a signature that lies in the ledger's own folder.
BESIDE = "beside"
_OWN = (SELF_SIGNED, BESIDE)
# Levels whose heads are each named: they were brought one by one, or each has a time of its own.
_EACH = ("receipt", "timestamp")


class Judged(NamedTuple):
    """What came of all claims: the word, how far each level covers, and by what."""

    word: str
    covered: dict[str, int]
    sources: tuple[str, ...]
    findings: tuple[Finding, ...]


def judge(claims: Sequence[Claim], *, ledger: str, size: int, roots: Mapping[int, bytes]) -> Judged:
    """Returns what the claims say of a ledger.

    Args:
        claims: Heads, with what vouches for them.
        ledger: The ledger's id.
        size: How many entries it has.
        roots: Its roots at the sizes of the claims, as far as it reaches.
    """
    word, findings = "", []
    covered: dict[str, int] = {}
    agreed: list[Claim] = []
    for claim in sorted(claims, key=lambda claim: (claim.size, claim.level)):
        found = roots.get(claim.size)
        if claim.ledger != ledger:
            word = "forked"
            findings.append(_finding("other_ledger", claim, claim.ledger, ledger))
        elif claim.size > size or found is None:
            word = word or "rolled_back"
            expected = f"{claim.size} entries"
            findings.append(_finding("rolled_back", claim, expected, f"{size} entries"))
        elif found != claim.root:
            word = "forked"
            findings.append(_finding("forked", claim, claim.root.hex(), found.hex()))
        else:
            covered[claim.level] = claim.size
            agreed.append(claim)
    return Judged(word, covered, tuple(_sources(agreed)), tuple(findings))


def _sources(agreed: Sequence[Claim]) -> Iterator[str]:
    """Yields what vouches for the ledger, with the range that each covers."""
    largest = {claim.level: claim for claim in agreed}
    for claim in agreed:
        if claim.level in _EACH or (claim.level not in _OWN and claim is largest[claim.level]):
            yield f"{claim.source} (entries 0-{claim.size - 1})"


def _finding(code: str, claim: Claim, expected: str, found: str) -> Finding:
    return Finding(
        level="anchors",
        code=code,
        seq=None,
        where=f"{claim.source} at size {claim.size}",
        expected=expected,
        found=found,
    )


def outside(covered: Mapping[str, int]) -> Iterator[int]:
    """Yields how far each level beyond the ledger's own word covers."""
    return (size for level, size in covered.items() if level not in _OWN)

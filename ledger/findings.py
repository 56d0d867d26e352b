"""What a replay can say: findings, the heads it is given, and the one word for all of it.

Leaves finding them to `replay.py`.

Rules:
- A note is said and changes no word: a second name of the file isn't a fault of its bytes, and a
  sentence in other words than this version's isn't a fault of the numbers that it speaks of.
- `record` is the first that holds of corrupt, forked, rolled_back, torn, numbers_differ,
  files_differ, newer, intact. A broken rule is corrupt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from .events import Amend, Anchor, Freeze, Key, Look, Open, Register, Result, Sign
from .port import StoreFinding
from .state import Experiment

__all__ = (
    "FINDINGS_MAX",
    "LEVELS",
    "NOTES",
    "UNCHECKED",
    "Claim",
    "Finder",
    "Finding",
    "Level",
    "NumbersCase",
    "ReplayReport",
    "SignedCase",
    "Since",
    "Stamped",
    "record_word",
)

Level: TypeAlias = Literal["bytes", "rules", "numbers", "files", "anchors"]
LEVELS: tuple[Level, ...] = ("bytes", "rules", "numbers", "files", "anchors")
# What has to be said and is no fault of the record.
NOTES = ("links", "long_form_erased", "words_differ", "not_said")
# What leaves a level unchecked and says nothing against it.
UNCHECKED = ("unknown_kind",)
FINDINGS_MAX = 1000
_WRONG_NUMBERS = ("number_differs", "not_recomputable")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that replay has to say, with its place."""

    level: Level
    code: str
    seq: int | None
    where: str
    expected: str
    found: str


class Finder:
    """Keeps what a replay finds; past the limit it is only counted."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.dropped = 0

    def find(
        self,
        level: Level,
        code: str,
        seq: int | None,
        expected: str,
        found: str,
        *,
        where: str = "",
    ) -> None:
        """Keeps a finding, cut to a readable length; it is of entry `seq` unless `where` says."""
        if len(self.findings) >= FINDINGS_MAX:
            self.dropped += 1
            return
        self.findings.append(
            Finding(
                level=level,
                code=code,
                seq=seq,
                where=where or f"entry {seq}",
                expected=expected[:300],
                found=found[:300],
            )
        )

    def take_found(self, found: list[StoreFinding]) -> None:
        """Keeps what a store found of itself, and empties the list."""
        for one in found:
            self.find("bytes", one.code, one.seq, one.expected, one.found, where=one.where)
        found.clear()


class Stamped(msgspec.Struct, frozen=True, kw_only=True):
    """A time stamp of a trusted authority: entry `seq` holds it, `size` entries existed at `time`.

    What stands after entry `seq` was written after `time`, since it stands on the stamp's bytes.
    """

    seq: int
    size: int
    time: str


class Claim(NamedTuple):
    """A head of a ledger that something vouches for.

    `level` is receipt, checkpoint, witness or timestamp, by what vouches; or self_signed or beside,
    which are the ledger's own word. `stamped` is set where an authority says when the head existed.
    """

    ledger: str
    size: int
    root: bytes
    source: str
    level: str = "receipt"
    stamped: Stamped | None = None


class NumbersCase(NamedTuple):
    """An event to compute again, and the experiment as it was just before it.

    `known` is None before a register.
    """

    seq: int
    event: Register | Freeze | Amend | Look | Result
    known: Experiment | None


class SignedCase(NamedTuple):
    """An event that is signed, or that signatures depend on, with its place and claimed time."""

    seq: int
    event: Open | Key | Anchor | Sign
    time: str


class Since(msgspec.Struct, frozen=True, kw_only=True):
    """From which head on entries were checked; `hashed` is whether those before it were too."""

    size: int
    source: str
    hashed: bool


class ReplayReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything one replay found.

    `covered` and `anchored` count what is more than the ledger's own word; `vouched` says how far
    each level covers. `content` is the size without the anchors at the end, which say nothing new.
    `stamps` are the time stamps of authorities that the caller trusts. `since` is set where only
    what follows a head was checked.
    """

    record: str
    anchored: Literal["no", "part", "yes"]
    anchored_by: tuple[str, ...]
    covered: int
    ledger: str
    size: int
    root: str
    levels: dict[str, str]
    skipped: dict[str, str]
    verdicts: dict[str, str]
    findings: tuple[Finding, ...]
    more_findings: int
    recomputed: int
    time_steps_back: tuple[int, ...]
    recoveries: int
    vouched: dict[str, int]
    self_signed: int
    content: int
    stamps: tuple[Stamped, ...]
    since: Since | None = None


def record_word(findings: Sequence[Finding], claimed: str) -> str:
    """Returns the first word that holds.

    Args:
        findings: All findings.
        claimed: `forked` or `rolled_back` when a head that someone vouches for says so, else "".
    """
    codes = {finding.code for finding in findings}
    levels = {finding.level for finding in findings if finding.code not in NOTES}
    corrupt = any(
        f.level in ("bytes", "rules") and f.code not in ("torn", "unknown_kind", *NOTES)
        for f in findings
    )
    for word, holds in (
        ("corrupt", corrupt),
        ("forked", claimed == "forked"),
        ("rolled_back", claimed == "rolled_back"),
        ("torn", "torn" in codes),
        ("numbers_differ", any(f.code in _WRONG_NUMBERS for f in findings)),
        # Numbers that lack a blob aren't wrong: the blob is.
        ("files_differ", "files" in levels or "numbers" in levels),
        ("newer", "unknown_kind" in codes),
    ):
        if holds:
            return word
    return "intact"

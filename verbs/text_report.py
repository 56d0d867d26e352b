"""A replay as a document that an auditor can file: Markdown that is read as it stands. Pure.

Leaves the checks to `ledger/replay.py` and `ledger/replay_since.py`, the words of single lines to
`text_replay.py`, and writing to the command line.

Rules:
- It holds every finding that the replay kept, not the first ones alone.
- Each level is in it with what it means and whether it was checked; a level that was skipped says
  why.
- The last section says what this verification can't show, this ledger's own gaps included.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fairtrial.custody.replay_inputs import ReplayInputs
from fairtrial.custody.trial import receipt_line
from fairtrial.engine.story import Story
from fairtrial.ledger.events import Head
from fairtrial.ledger.findings import Finding, ReplayReport

from .text_numbers import count, quantity
from .text_replay import NOT_SHOWN, record_line, replay_text
from .text_since import since_record_line, since_text

__all__ = ("report_text",)

_LEVELS = {
    "bytes": "form, place, chain and id of each entry; each event in its one JSON form; the store",
    "rules": "the order rules of the format; what events name; signatures inside the ledger",
    "numbers": "each look and result computed again from the entries before it",
    "files": "blobs, and registered files that are here, against their digests",
    "anchors": "heads from elsewhere against the tree of this ledger",
}
_VOUCHERS = {
    "receipt": "a receipt that was brought",
    "checkpoint": "a signed head that was brought, or one by a pinned key",
    "witness": "a quorum of the witnesses that were named",
    "timestamp": "an authority whose certificates were brought",
    "self_signed": "the ledger's own key: no anchor",
}


def report_text(
    report: ReplayReport, stories: Sequence[Story], inputs: ReplayInputs, lacking: Sequence[str]
) -> str:
    """Returns the whole document.

    Args:
        report: What the replay found.
        stories: What happened in the ledger; none where only a part was read.
        inputs: What the replay was given.
        lacking: What was required and isn't there.
    """
    sections = (
        _head(report, stories, lacking),
        _inputs(report, inputs),
        _checked(report),
        _anchors(report),
        _findings(report),
        _summary(report, stories),
        _limits(report, stories),
    )
    return "\n\n".join("\n".join(section) for section in sections) + "\n"


def _head(report: ReplayReport, stories: Sequence[Story], lacking: Sequence[str]) -> Iterator[str]:
    yield "# Verification of a fairtrial ledger"
    yield ""
    line = since_record_line(report) if report.since is not None else record_line(report, stories)
    yield from (f"**{part.strip()}**  " for part in line.split("     "))
    for each in lacking:
        yield f"**NOT AS REQUIRED: {each}**  "


def _inputs(report: ReplayReport, inputs: ReplayInputs) -> Iterator[str]:
    yield "## What was verified"
    yield ""
    yield f"- ledger: {_code(inputs.ledger)}, {inputs.ledger_bytes:,} bytes"
    yield f"- its SHA-256: `{inputs.ledger_sha256}`"
    if report.ledger:
        head = Head(size=report.size, root=report.root)
        yield f"- its head: `{receipt_line(report.ledger, head)}`"
    yield f"- when: {inputs.time} by the clock of this machine"
    yield f"- with: {inputs.tool}"
    for what, which in inputs.given:
        yield f"- {what}: {_code(which)}"
    if not inputs.given:
        yield "- nothing from outside the ledger was given"


def _checked(report: ReplayReport) -> Iterator[str]:
    yield "## What was checked"
    yield ""
    if report.since is not None:
        last = count(report.since.size - 1)
        how = "hashed and compared with it" if report.since.hashed else "taken from it, NOT read"
        yield f"Entries 0-{last} were {how} ({report.since.source}); later entries were read."
        yield ""
    yield "| level | outcome | what it means |"
    yield "|---|---|---|"
    for level, meaning in _LEVELS.items():
        outcome = report.levels[level]
        why = report.skipped.get(level)
        yield f"| {level} | {outcome}{f': {_cell(why)}' if why else ''} | {meaning} |"


def _anchors(report: ReplayReport) -> Iterator[str]:
    yield "## What vouches for it"
    yield ""
    for source in report.anchored_by:
        yield f"- {source}"
    if report.anchored_by:
        yield ""
    yield "| by | covers |"
    yield "|---|---|"
    for level, meaning in _VOUCHERS.items():
        covered = report.vouched.get(level, 0)
        yield f"| {meaning} | {_range(0, covered) if covered else 'nothing'} |"
    is_whole = report.covered == report.size
    rest = "no entry" if is_whole else _range(report.covered, report.size)
    yield f"| nothing outside this ledger | {rest} |"
    for stamp in report.stamps:
        yield ""
        yield (
            f"A time stamp of {stamp.time} stands as entry {count(stamp.seq)}:"
            f" {_range(0, stamp.size)} existed then, and what stands after it was written after it."
        )


def _range(start: int, stop: int) -> str:
    if stop - start == 1:
        return f"entry {count(start)}"
    return f"entries {count(start)}-{count(stop - 1)}"


def _findings(report: ReplayReport) -> Iterator[str]:
    yield "## Findings"
    yield ""
    if not report.findings:
        yield "None."
    for number, finding in enumerate(report.findings, 1):
        yield from _finding(number, finding)
    if report.more_findings:
        yield f"{quantity(report.more_findings, 'further finding')} of the same replay aren't kept."


def _finding(number: int, finding: Finding) -> Iterator[str]:
    place = "" if finding.seq is None else f"entry {count(finding.seq)}: "
    yield f"{number}. {place}{finding.code.replace('_', ' ')} ({finding.level})"
    yield f"   - where: {_code(finding.where)}"
    yield f"   - expected: {_code(finding.expected)}"
    yield f"   - found: {_code(finding.found)}"


def _summary(report: ReplayReport, stories: Sequence[Story]) -> Iterator[str]:
    yield "## As printed"
    yield ""
    text = since_text(report) if report.since is not None else replay_text(report, stories)
    yield from (f"    {line}" if line else "" for line in text.splitlines())


def _limits(report: ReplayReport, stories: Sequence[Story]) -> Iterator[str]:
    yield "## What this verification can't show"
    yield ""
    yield f"- {NOT_SHOWN}"
    if report.covered < report.size:
        rest = _range(report.covered, report.size)
        yield f"- That nobody who holds the ledger wrote {rest} anew: nothing outside vouches."
    if not report.stamps:
        yield "- All times are the writer's clock; no outside time was checked."
    for level, why in report.skipped.items():
        yield f"- The level {level} wasn't checked: {why}."
    absent = [file.path for story in stories for file in story.files if file.state == "absent"]
    if absent:
        yield f"- Files that are registered and not here: {', '.join(map(_code, absent))}."
    yield "- Whose a key is: a signature shows which key signed, not who held it."
    yield "- That this program is the released one: compare its digest, or use another verifier."


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _code(text: str) -> str:
    """Returns text that stands for itself, whatever is in it."""
    shown = "".join(one if one.isprintable() else "?" for one in text) or "nothing"
    fence = "``" if "`" in shown else "`"
    return f"{fence} {shown} {fence}" if "`" in shown else f"{fence}{shown}{fence}"

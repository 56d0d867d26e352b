"""What a replay from a head on found, as an auditor reads it. Pure.

Leaves the checks to `ledger/replay_since.py`, and a whole replay's text to `text_replay.py`.

Rules:
- What was checked and what was taken on the word of the head are told apart, with their ranges.
- The word for the record is only of what was read, and says so.
"""

from __future__ import annotations

from fairtrial.ledger.findings import ReplayReport

from .output import label
from .text_numbers import count, quantity
from .text_replay import NOT_SHOWN, anchors_text, finding_lines, record_words

__all__ = ("since_record_line", "since_text")


def since_text(report: ReplayReport) -> str:
    """Returns the whole report."""
    since = report.since
    assert since is not None, "a replay from a head on"
    taken = f"{since.source}: entries 0-{count(since.size - 1)}"
    if report.size < since.size:
        short = quantity(report.size, "entry", "entries")
        taken = f"{since.source}: the ledger ends before it, with {short}; none was checked"
    elif since.hashed:
        taken += " were hashed and compared with it; nothing else of them was checked"
    else:
        taken += " were taken from it and NOT read again"
    lines = [label("since", taken), label("record", _record_text(report))]
    lines.append(label("anchors", anchors_text(report)))
    lines.append(label("skipped", "rules, numbers, files: ledger replay without --since"))
    lines += list(finding_lines(report))
    lines += ["", since_record_line(report), NOT_SHOWN]
    return "\n".join(lines)


def _record_text(report: ReplayReport) -> str:
    assert report.since is not None, "a replay from a head on"
    start, end = report.since.size, report.size
    found = quantity(len(report.findings) + report.more_findings, "finding")
    if end <= start:
        return f"no entry after it, {found}"
    which = f"{count(start)}-{count(end - 1)}" if end - start > 1 else count(start)
    text = f"{quantity(end - start, 'entry', 'entries')} checked ({which}), {found}"
    if not any(finding.level == "anchors" for finding in report.findings):
        text += "; with those before they make the tree that grew from it"
    if report.time_steps_back:
        places = ", ".join(count(seq) for seq in report.time_steps_back)
        text += f"; the clock steps back at {places}"
    return text


def since_record_line(report: ReplayReport) -> str:
    """Returns the line of the record's word, bounded by what was read."""
    assert report.since is not None, "a replay from a head on"
    if report.size < report.since.size:
        return f"{record_words(report)}     CHECKED: nothing, the ledger ends before the head"
    return f"{record_words(report)}     CHECKED: entries from {count(report.since.size)} on alone"

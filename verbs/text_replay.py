"""What a replay found, and the story of the ledger, as an auditor reads it. Pure.

Leaves the checks to `ledger/replay.py`, the counts to `engine/story.py`.

Rules:
- Never a bare OK: the last line but one says whether anything outside the ledger vouches for it.
- A level that was skipped is printed as skipped; of rules or numbers the record's line says it too.
- So is a sentence on record that isn't this version's: a reader may have taken it for a number's.
- The last line says what no ledger shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fairtrial.custody.blinding import DISCIPLINE
from fairtrial.custody.file_findings import MISSING
from fairtrial.engine.story import Change, Story
from fairtrial.ledger.errors import visible
from fairtrial.ledger.events import Result
from fairtrial.ledger.findings import NOTES, Finding, ReplayReport, Stamped

from .output import label
from .text_numbers import clip, count, difference, interval, quantity

__all__ = (
    "NOT_SHOWN",
    "anchor_words",
    "anchors_text",
    "finding_lines",
    "finding_text",
    "record_line",
    "record_words",
    "replay_text",
    "worded",
)

NOT_SHOWN = (
    "Not shown by any ledger: other ledgers or runs that were not handed over; what the drivers"
    " really did; when, without an outside time stamp."
)
FINDINGS_SHOWN = 20
_RECORD_WORDS = {
    "numbers_differ": "NUMBERS DIFFER",
    "files_differ": "FILES DIFFER",
    "rolled_back": "ROLLED BACK",
}
_MEANINGS = {
    "corrupt": "bytes contradict their hashes, or an order rule was broken",
    "forked": "this ledger and what it is compared with differ",
    "rolled_back": "this ledger is shorter than what was seen before",
    "torn": "bytes follow the last whole entry, as after a crash",
    "numbers_differ": "a look or a result doesn't follow from the outcomes",
    "files_differ": "a registered file or a blob isn't the one that was registered",
    "newer": "written by a newer version than this tool knows",
}


# Findings of heads that can't be this ledger's.
_CONTRADICTIONS = ("forked", "rolled_back", "other_ledger", "other_origin", "other_key")


def replay_text(report: ReplayReport, stories: Sequence[Story]) -> str:
    """Returns the whole report."""
    lines = [label("record", _record_text(report)), label("anchors", anchors_text(report))]
    for story in stories:
        lines += ["", story.name] if len(stories) > 1 else []
        lines += _story_lines(story, report.stamps)
    lines += [""] if len(stories) > 1 else []
    lines.append(label("numbers", _numbers_text(report, stories)))
    lines.append(label("files", _files_text(report, stories)))
    lines += list(finding_lines(report))
    lines += ["", record_line(report, stories), NOT_SHOWN]
    return "\n".join(lines)


def _record_text(report: ReplayReport) -> str:
    found = len(report.findings) + report.more_findings
    text = f"{quantity(report.size, 'entry', 'entries')}, {quantity(found, 'finding')}"
    for level in ("bytes", "rules"):
        if level in report.skipped:
            text += f"; {level} skipped: {report.skipped[level]}"
    if report.recoveries:
        text += f"; {quantity(report.recoveries, 'recovery', 'recoveries')} after a crash"
    if report.time_steps_back:
        places = ", ".join(count(seq) for seq in report.time_steps_back)
        text += f"; the clock steps back at {places}"
    return text


def anchors_text(report: ReplayReport) -> str:
    """Returns what vouches for the record, how far, and which entries nothing vouches for."""
    own = f"\nself-signed to entry {count(report.self_signed - 1)}: the ledger's own key, no anchor"
    own = own if report.self_signed > report.covered else ""
    if report.anchored == "no":
        if any(one.code in _CONTRADICTIONS for one in report.findings):
            return "a head that is vouched for contradicts this ledger"
        return "none: nothing from outside this ledger was given (--against RECEIPT)" + own
    text = "; ".join(report.anchored_by) + ": an unchanged beginning of this ledger"
    if report.anchored == "part":
        first, last = report.covered, report.size - 1
        which = (
            f"Entry {count(last)} is"
            if first == last
            else (f"Entries {count(first)}-{count(last)} are")
        )
        text += f". {which} newer: not vouched for"
    return text + own


def _story_lines(story: Story, stamps: Sequence[Stamped]) -> Iterator[str]:
    yield label("order", _order_text(story, stamps))
    yield label("plan", _plan_text(story))
    yield label("counts", _counts_text(story))


def _order_text(story: Story, stamps: Sequence[Stamped]) -> str:
    if "freeze" not in story.first:
        return f"register ({story.first.get('register', '?')}); not frozen"
    began = [
        (story.first[kind], word)
        for kind, word in (("attempt", "attempt"), ("decision", "outcome"))
        if kind in story.first
    ]
    text = f"register ({story.first.get('register', '?')}) and freeze ({story.first['freeze']})"
    if not began:
        return f"{text}; nothing was tried yet"
    seq, word = min(began)
    comes = "come before" if story.first["freeze"] < seq else "DON'T COME BEFORE"
    clock = _clock_text(stamps, story.first["freeze"], seq, word)
    return f"{text} {comes} the first {word} ({seq}), by position. {clock}"


def _clock_text(stamps: Sequence[Stamped], freeze: int, seq: int, word: str) -> str:
    """Returns what an outside clock says of the freeze and of the first attempt or outcome."""
    over = [stamp for stamp in stamps if stamp.size > freeze]
    if not over:
        return "Clock: the writer's; no outside time"
    stamp = min(over, key=lambda one: one.seq)
    text = f"Outside time: a stamp of {stamp.time} (entry {count(stamp.seq)}) covers the freeze"
    if stamp.seq < seq:
        return f"{text} and stands before the first {word}"
    return f"{text}, but stands AFTER the first {word}: what was registered first isn't shown by it"


def _plan_text(story: Story) -> str:
    result = story.result
    if result is not None and result.existed_before:
        text = f"retrospective: outcomes of {' and '.join(result.existed_before)} existed before"
    elif result is not None and result.as_registered is False:
        early = ["arms unblinded early"] if story.unblinded_early else []
        text = f"NOT AS REGISTERED: {', '.join([*early, *result.amended])}"
    elif story.unblinded_early:
        text = "NOT AS REGISTERED: arms unblinded early"
    else:
        text = "as registered"
    if story.blinded:
        text += f"; arms blinded until `ledger unblind`, {DISCIPLINE}"
    if story.amendments:
        text += f"; {quantity(len(story.amendments), 'amendment')} " + _changes(story.amendments)
    if story.withdrawn is not None:
        text += f"; withdrawn: {clip(story.withdrawn, 120)}"
    return text


def _changes(changes: Sequence[Change]) -> str:
    texts = [
        f"{clip(change.text, 80)}, entry {count(change.seq)}"
        + (f", after look {change.after_looks}" if change.after_looks else "")
        for change in changes[:5]
    ]
    more = f"; {len(changes) - 5} more" if len(changes) > 5 else ""
    return f"({'; '.join(texts)}{more})"


def _counts_text(story: Story) -> str:
    if not story.slots:
        return "no slots yet"
    missing = story.slots - story.outcomes
    rest = "not run" if story.is_complete else "pending"
    text = (
        f"{quantity(story.slots, 'slot')} = {quantity(story.outcomes, 'outcome')}"
        f" + {count(missing)} {rest}"
    )
    if story.attempts:
        text += (
            f"; {quantity(story.attempts, 'attempt')}, {_ends_text(story)},"
            f" {count(story.open_attempts)} left open"
        )
    elif story.outcomes:
        text += "; recorded, no attempts"
    if story.refusals:
        text += f"; {quantity(len(story.refusals), 'refusal')} " + _changes(story.refusals)
    if story.invalidated:
        text += f"; {len(story.invalidated)} invalidated " + _changes(story.invalidated)
    return text


def _ends_text(story: Story) -> str:
    """Returns how many attempts gave no outcome, and how they ended: a stop isn't a failure."""
    ended = f"{count(story.ends.total())} without an outcome"
    if not story.ends:
        return ended
    each = ", ".join(f"{count(number)} {status}" for status, number in sorted(story.ends.items()))
    return f"{ended} ({each})"


def _numbers_text(report: ReplayReport, stories: Sequence[Story]) -> str:
    if "numbers" in report.skipped:
        return f"skipped: {report.skipped['numbers']}"
    looks = sum(story.looks for story in stories)
    results = sum(story.result is not None for story in stories)
    what = f"{quantity(looks, 'look')}, {quantity(results, 'result')} recomputed"
    if not looks + results:
        return "nothing to recompute yet"
    own = [one for one in report.findings if one.level == "numbers"]
    bad = [one for one in own if one.code not in NOTES]
    if any(one.code == "long_form_erased" for one in own):
        what += " (the long form was erased on record: not compared)"
    said = f"; {_worded_text(report)}" if worded(report) else ""
    return f"{what}: " + (f"{quantity(len(bad), 'value')} differ" if bad else "equal") + said


def worded(report: ReplayReport) -> list[Finding]:
    """Returns the notes of sentences that aren't this version's; numbers and codes are compared."""
    return [one for one in report.findings if one.code in ("words_differ", "not_said")]


def _worded_text(report: ReplayReport) -> str:
    number = len(worded(report))
    them = "it" if number == 1 else "them"
    return f"{quantity(number, 'sentence')} not as this version words {them}"


def _files_text(report: ReplayReport, stories: Sequence[Story]) -> str:
    if "files" in report.skipped:
        return f"skipped: {report.skipped['files']}"
    each = [(story.name, file) for story in stories for file in story.files]
    files = list({file.path: file for _, file in each if file.state != "replaced"}.values())
    parts = [
        f"{', '.join(names)} {word}"
        for state, word in (("equal", "equal"), ("different", "DIFFERENT"))
        if (names := [file.path for file in files if file.state == state])
    ]
    parts += [
        f"{file.path} of {name}: replaced on record by entry {count(file.by)}"
        for name, file in each
        if file.by is not None
    ]
    absent = [file.path for file in files if file.state == "absent"]
    if absent:
        be = "is" if len(absent) == 1 else "are"
        parts.append(f"{', '.join(absent)} {be} not here: not checked")
    blobs = [one for one in report.findings if one.code == "blob_differs"]
    parts.append(f"{quantity(len(blobs), 'blob')} missing or changed" if blobs else "blobs whole")
    return "; ".join(parts)


def finding_lines(report: ReplayReport) -> Iterator[str]:
    """Yields the first findings, all missing blobs as one, and how many more there are."""
    missing = [one for one in report.findings if _is_missing_blob(one)]
    others = [one for one in report.findings if not _is_missing_blob(one)]
    shown = others[:FINDINGS_SHOWN]
    if report.findings:
        yield ""
    for finding in shown:
        yield label("finding", finding_text(finding))
    if missing:
        yield label("finding", _missing_text(missing))
    more = len(others) - len(shown) + report.more_findings
    if more:
        yield label(
            "finding", f"and {quantity(more, 'further one', 'further ones')} (--json has more)"
        )


def _is_missing_blob(finding: Finding) -> bool:
    return finding.code == "blob_differs" and finding.found == MISSING


def _missing_text(missing: Sequence[Finding]) -> str:
    """Returns all missing blobs in one line, with what to bring."""
    places = list(dict.fromkeys(one.where for one in missing))
    be = "is" if len(places) == 1 else "are"
    return (
        f"{quantity(len(places), 'blob')} {be} missing, first one of entry {missing[0].seq}\n"
        f"expected  {visible(places[0])}\n"
        "do        bring the ledger's .d folder along with the ledger"
    )


def finding_text(finding: Finding) -> str:
    """Returns a finding with what was expected and found, below each other."""
    named = finding.seq is None or f"entry {finding.seq}" in finding.where
    place = finding.where if named else f"entry {finding.seq}, {finding.where}"
    return (
        f"{visible(place)}: {finding.code.replace('_', ' ')}\n"
        f"expected  {visible(finding.expected)}\nfound     {visible(finding.found)}"
    )


def anchor_words(report: ReplayReport) -> str:
    """Returns how far anything outside vouches for the record."""
    return {"no": "unanchored", "part": "anchored in part", "yes": "anchored"}[report.anchored]


def record_line(report: ReplayReport, stories: Sequence[Story]) -> str:
    """Returns the line of the verdicts: the record's, and what it holds."""
    text = record_words(report)
    verdicts = "; ".join(_verdict_text(report, story, len(stories) > 1) for story in stories)
    doubt = " (NOT RECOMPUTED)" if _unchecked(report) else ""
    doubt = doubt if report.record == "intact" else " (NOT TO BE RELIED ON)"
    return f"{text}     VERDICT IN IT{doubt}: {verdicts or 'none, no experiment is registered'}"


def record_words(report: ReplayReport) -> str:
    """Returns the record's word with what it means."""
    word = _RECORD_WORDS.get(report.record, report.record.upper())
    if report.record != "intact":
        return f"RECORD: {word} ({_meaning(report)})"
    text = f"RECORD: {word}, {anchor_words(report).upper()}"
    if _unchecked(report):
        text += f", {' AND '.join(_unchecked(report)).upper()} NOT CHECKED"
    if worded(report):
        text += f", {_worded_text(report).upper()}"
    if report.anchored == "no":
        text += " (nothing outside this ledger vouches for it)"
    return text


def _unchecked(report: ReplayReport) -> list[str]:
    """Returns which of the levels that a verdict stands on were skipped in a whole replay."""
    skipped = () if report.since is not None else report.skipped
    return [level for level in ("rules", "numbers") if level in skipped]


def _meaning(report: ReplayReport) -> str:
    codes = {one.code for one in report.findings}
    if report.record == "forked" and "other_ledger" in codes and "forked" not in codes:
        return "the receipt is of another ledger"
    return _MEANINGS[report.record]


def _verdict_text(report: ReplayReport, story: Story, named: bool) -> str:
    name = f"{story.name} " if named else ""
    if story.result is not None:
        return f"{name}{story.result.verdict}{_numbers_of(story.result, story)}"
    word = report.verdicts.get(story.name, "open")
    if word == "withdrawn":
        return f"{name}none, withdrawn"
    if story.is_complete:
        todo = "ledger unblind, then ledger result" if story.blinded else "ledger result"
        return f"{name}none yet (the run is complete: {todo})"
    return f"{name}none yet (no result on record: ask whether it goes on or was abandoned)"


def _numbers_of(result: Result, story: Story) -> str:
    """Returns the difference and interval of the first endpoint, in brackets."""
    endpoint = next((one for each in result.comparisons for one in each.endpoints), None)
    if endpoint is None:
        return ""
    if endpoint.name in story.targets:
        low, high = endpoint.bound_lower, endpoint.bound_upper
        if low is None or high is None:
            return ""
        target = 100 * story.targets[endpoint.name]
        return f" (precision {100 * low:.1f} to {100 * high:.1f} %, target {target:g} %)"
    if endpoint.difference is None:
        return ""
    points = story.in_points is not None and endpoint.name in story.in_points
    text = difference(endpoint.difference, points=points)
    if endpoint.lower is not None or endpoint.upper is not None:
        text += f", {interval(endpoint.lower, endpoint.upper, points=points)}"
    lacking = "unit not known without the plan: " if story.in_points is None else ""
    return f" ({lacking}{text})"

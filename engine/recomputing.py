"""Computes again what a ledger says, for replay: meaning, plan, looks, results and their long form.

Leaves the walk to `ledger.replay` and every number to the functions that the writer called too.

Rules:
- A register or amend must hold the meaning of its protocol's bytes; a freeze the plan, rules, arms
  and look table that follow from protocol and units. Anything else contradicts itself: a rule.
- Looks and results are computed from the prefix that they name, and compared field by field, the
  long form too, since that is what people are shown.
- Numbers by another method than the plan's are one finding, and none of them is compared.
- A result whose long form was erased on record is computed again all the same; only the long form
  isn't compared, and that is said.
- A sealed look is computed again once its arms are unblinded, and skipped before.
- What is compared, and of what only that it is there, says `differing.py`. Other words than this
  version's are a note with its places, after all that is wrong, and only so many: no number of
  notes leaves no room for a fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from fairtrial.custody.blinding import registered_identity
from fairtrial.custody.sealing import Seals
from fairtrial.custody.trial import Reader
from fairtrial.ledger.errors import IntegrityError, LedgerError, StoreError
from fairtrial.ledger.events import Amend, Blob, Freeze, Look, LookPlan, Redact, Register, Result
from fairtrial.ledger.findings import NOTES, Finding, Level, NumbersCase
from fairtrial.ledger.log import find_event
from fairtrial.ledger.protocol import (
    Protocol,
    changed_fields,
    coded_field,
    decode_resolved,
    encode_resolved,
    section_digests,
)
from fairtrial.ledger.state import Experiment
from fairtrial.protocols.assigning import plan_of
from fairtrial.protocols.file import parse_protocol
from fairtrial.protocols.plan import Plan, parse_plan, plan_lines
from fairtrial.protocols.terms import coded_looks, nominal_plan, terms_of
from fairtrial.protocols.units import Units
from fairtrial.verdicts.look_table import look_table

from .concluding import conclude_event, look_event
from .differing import Difference, differences
from .frozen_parts import frozen_parts, recorded_power
from .registering import amended_looks, rules_of

__all__ = ("NOTES_KEPT", "recompute")

# Notes that one replay keeps, far fewer than the findings that it does.
NOTES_KEPT: Final = 100
_PLACES_NAMED: Final = 3


def recompute(reader: Reader, cases: Sequence[NumbersCase]) -> Iterator[Finding]:
    """Yields how what is computed again differs from what is on record."""
    notes: list[Finding] = []
    for case in cases:
        try:
            for found in _check(reader, case):
                if found.code in NOTES:
                    notes.append(found)
                else:
                    yield found
        except (LedgerError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            yield Finding(
                level="numbers",
                code="blob_unreadable" if isinstance(error, StoreError) else "not_recomputable",
                seq=case.seq,
                where=f"entry {case.seq}",
                expected="what this entry says",
                found=str(error),
            )
    yield from notes[:NOTES_KEPT]
    if len(notes) > NOTES_KEPT:
        yield _more_notes(notes[NOTES_KEPT], len(notes) - NOTES_KEPT)


def _more_notes(first: Finding, count: int) -> Finding:
    """Returns that there are further notes, in a note of the kind of the first of them."""
    return msgspec.structs.replace(
        first, expected="no further note", found=f"{count} more, from here on"
    )


def _check(reader: Reader, case: NumbersCase) -> Iterator[Finding]:
    event, known = case.event, case.known
    if isinstance(event, Register):
        yield from _meaning(reader, case.seq, event, event.media)
        return
    assert known is not None, "only a register comes before its experiment"
    if isinstance(event, Amend):
        yield from _meaning(reader, case.seq, event, known.media)
        yield from _amendment(reader, case.seq, event, known)
    elif isinstance(event, Freeze):
        yield from _plan(reader, case.seq, event, known)
    elif isinstance(event, Look):
        yield from _look(reader, case.seq, event, known)
    else:
        yield from _result(reader, case.seq, event, known)


def _result(reader: Reader, seq: int, event: Result, known: Experiment) -> Iterator[Finding]:
    """Compares a result with its numbers; its long form too, unless that was erased on record."""
    erased = _erased_by(reader, event.detail)
    recorded = None if erased is not None else reader.get_json(event.detail)
    note = recorded.get("stop_note") if isinstance(recorded, dict) else None
    again = conclude_event(
        reader, known, event.basis, event.stopped_by, note if isinstance(note, str) else None
    )
    if again.event.method != event.method:
        yield _other_method(seq, again.event.method, event.method)
        return
    same_detail = msgspec.structs.replace(again.event, detail=event.detail)
    found = list(differences(same_detail, event))
    if erased is None:
        found += differences(msgspec.json.decode(again.detail), recorded, "detail")
    yield from _findings(seq, found, level="numbers")
    if erased is None:
        yield from _same_reason(seq, event, recorded)
        return
    yield Finding(
        level="numbers",
        code="long_form_erased",
        seq=seq,
        where=f"entry {seq} detail",
        expected="the long form of the result, to compare it with the numbers",
        found=f"erased on record by entry {erased}",
    )


def _same_reason(seq: int, event: Result, recorded: Any) -> Iterator[Finding]:
    """Yields that a result and its long form give two reasons: no version writes that."""
    # Any: a long form that somebody else wrote may be any JSON.
    shown = recorded.get("reason") if isinstance(recorded, dict) else None
    if shown != event.reason:
        yield _finding(seq, "numbers", "detail.reason", repr(event.reason), repr(shown))


def _erased_by(reader: Reader, blob: Blob) -> int | None:
    """Returns the entry that says that a blob, in each of its digests, was erased."""
    for entry, event in reader.read():
        if isinstance(event, Redact) and event.blob == blob:
            return entry.seq
    return None


def _look(reader: Reader, seq: int, event: Look, known: Experiment) -> Iterator[Finding]:
    """Compares a look with its numbers, sealed ones once the arms are unblinded."""
    if event.sealed is not None:
        if find_event(reader.store, event.experiment, "unblind", number=1) is None:
            # Replay says that the level is skipped: opening it is for `unblind`.
            return
        try:
            event = Seals(reader).look(event)
        except IntegrityError as error:
            yield _finding(seq, "numbers", "sealed", error.expected, error.found)
            return
    again = look_event(reader, known, event.number, event.basis)
    if again.method != event.method:
        yield _other_method(seq, again.method, event.method)
        return
    yield from _compared(seq, again, event, level="numbers")


def _meaning(reader: Reader, seq: int, event: Register | Amend, media: str) -> Iterator[Finding]:
    """Compares resolved form and digests with what the protocol's own bytes say."""
    toml = media == "toml"
    data = reader.blobs.get(event.protocol)
    protocol = parse_protocol(data, name="protocol", media="toml" if toml else "yaml")
    resolved = reader.blobs.get(event.resolved).decode()
    said = encode_resolved(protocol).decode()
    yield from _compared(seq, said, resolved, level="rules", path="resolved")
    digests = section_digests(protocol)
    yield from _compared(seq, digests, event.sections, level="rules", path="sections")


def _amendment(reader: Reader, seq: int, event: Amend, known: Experiment) -> Iterator[Finding]:
    protocol = decode_resolved(reader.blobs.get(event.resolved))
    rules = rules_of(protocol) if known.freeze_seq is not None else None
    yield from _compared(seq, rules, event.rules, level="rules", path="rules")
    changed = [
        name
        for name in known.sections.keys() | event.sections.keys()
        if known.sections.get(name) != event.sections.get(name)
    ]
    old = decode_resolved(reader.blobs.get(known.resolved))
    fields = tuple(coded_field(protocol, one.field) for one in changed_fields(old, protocol))
    yield from _compared(seq, fields, event.fields, level="rules", path="fields")
    looks = amended_looks(reader, known, protocol, changed)
    yield from _compared(seq, looks, event.looks, level="rules", path="looks")


def _plan(reader: Reader, seq: int, event: Freeze, known: Experiment) -> Iterator[Finding]:
    """Compares a freeze with what follows from protocol and units."""
    protocol = reader.protocol(known)
    frozen = msgspec.structs.replace(known, units_blob=event.units)
    units = reader.units(frozen)
    plan = plan_of(protocol, units)
    recorded = reader.blobs.get(event.plan)
    if plan_lines(plan) != recorded:
        first = _first_slot(plan_lines(plan), recorded)
        yield _finding(seq, "rules", "plan", *first)
        return
    for path, expected, found in (
        ("unit_count", len(units.ids), event.unit_count),
        ("cluster_count", plan.cluster_count, event.cluster_count),
        ("slot_count", plan.slot_count, event.slot_count),
        ("rules", rules_of(protocol), event.rules),
        ("looks", _table(protocol, plan, units), event.looks),
        ("arms", _terms(protocol), _frozen_terms(event)),
    ):
        yield from _compared(seq, expected, found, level="rules", path=path)
    yield from _openings(reader, seq, event, known)
    for part in frozen_parts(reader, event, protocol):
        yield from _compared(seq, part.expected, part.found, level="rules", path=part.path)
    power = recorded_power(reader, event, protocol, plan, units)
    if power is not None:
        yield from _compared(seq, *power, level="numbers", path="power")


def _openings(reader: Reader, seq: int, event: Freeze, known: Experiment) -> Iterator[Finding]:
    """Compares what the freeze kept of each blinded arm with its commitment, telling nothing."""
    frozen = msgspec.structs.replace(known, arms=event.arms)
    for arm in event.arms:
        if arm.commitment is None or not reader.blobs.has(arm.identity):
            # One that is missing is a finding of the files, or was erased on record.
            continue
        try:
            registered_identity(reader, frozen, arm)
        except IntegrityError as error:
            path = f"arms.{arm.name}.commitment"
            yield _finding(seq, "rules", path, error.expected, error.found)


def _table(protocol: Protocol, plan: Plan, units: Units) -> tuple[LookPlan, ...]:
    return coded_looks(protocol, look_table(protocol, nominal_plan(protocol, plan), units))


def _first_slot(expected: bytes, found: bytes) -> tuple[str, str]:
    """Returns the first line in which two plans differ."""
    parse_plan(found)
    lines = zip(expected.splitlines(), found.splitlines(), strict=False)
    for one, other in lines:
        if one != other:
            return one.decode(), other.decode()
    return f"{len(expected.splitlines())} slots", f"{len(found.splitlines())} slots"


def _terms(protocol: Protocol) -> dict[str, object]:
    return {name: tuple(terms) for name, terms in terms_of(protocol).items()}


def _frozen_terms(event: Freeze) -> dict[str, object]:
    return {
        arm.name: (arm.origin, arm.metered, arm.reserve_nanousd, arm.repeatable)
        for arm in event.arms
    }


def _finding(seq: int, level: Level, path: str, expected: str, found: str) -> Finding:
    return Finding(
        level=level,
        code="number_differs" if level == "numbers" else "contradiction",
        seq=seq,
        where=f"entry {seq} {path}".rstrip(),
        expected=expected,
        found=found,
    )


def _other_method(seq: int, expected: str, found: str) -> Finding:
    """Returns that numbers of another method, as an earlier version's, can't be compared."""
    return _finding(
        seq,
        "numbers",
        "method",
        f"{expected}, by which this version computes such a plan",
        f"{found}: what it computed isn't compared",
    )


def _compared(
    seq: int, expected: object, found: object, *, level: Level, path: str = ""
) -> Iterator[Finding]:
    """Yields how what an entry says differs from what was computed again."""
    yield from _findings(seq, differences(expected, found, path), level=level)


def _findings(seq: int, found: Iterable[Difference], *, level: Level) -> Iterator[Finding]:
    """Yields a finding for each difference, and a note for each sentence with all its places."""
    places: dict[tuple[str, str, str], list[str]] = {}
    for one in found:
        if one.kind == "differs":
            yield _finding(seq, level, one.path, one.expected, one.found)
        else:
            code = "words_differ" if one.kind == "words" else "not_said"
            places.setdefault((code, one.expected, one.found), []).append(one.path)
    for (code, expected, said), paths in places.items():
        more = len(paths) - _PLACES_NAMED
        yield Finding(
            level=level,
            code=code,
            seq=seq,
            where=f"entry {seq} {', '.join(paths[:_PLACES_NAMED])}"
            + (f" and {more} more" if more > 0 else ""),
            expected=expected,
            found=said,
        )

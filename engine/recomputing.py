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
- Floats agree within the tolerances below, everything else exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from fairtrial.custody.blinding import registered_identity
from fairtrial.custody.sealing import Seals
from fairtrial.custody.trial import Reader
from fairtrial.ledger.errors import IntegrityError, LedgerError, StoreError
from fairtrial.ledger.events import Amend, Blob, Freeze, Look, LookPlan, Redact, Register, Result
from fairtrial.ledger.findings import Finding, Level, NumbersCase
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
from .frozen_parts import frozen_parts, recorded_power
from .registering import amended_looks, rules_of

__all__ = ("ABSOLUTE_TOLERANCE", "RELATIVE_TOLERANCE", "recompute")

# Numbers of another numpy or another processor agree with the recorded ones within these.
RELATIVE_TOLERANCE = 1e-9
ABSOLUTE_TOLERANCE = 1e-12


def recompute(reader: Reader, cases: Sequence[NumbersCase]) -> Iterator[Finding]:
    """Yields how what is computed again differs from what is on record."""
    for case in cases:
        try:
            yield from _check(reader, case)
        except (LedgerError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            yield Finding(
                level="numbers",
                code="blob_unreadable" if isinstance(error, StoreError) else "not_recomputable",
                seq=case.seq,
                where=f"entry {case.seq}",
                expected="what this entry says",
                found=str(error),
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
    yield from _differences(seq, same_detail, event, level="numbers")
    if erased is None:
        long_form = msgspec.json.decode(again.detail)
        yield from _differences(seq, long_form, recorded, level="numbers", path="detail")
        return
    yield Finding(
        level="numbers",
        code="long_form_erased",
        seq=seq,
        where=f"entry {seq} detail",
        expected="the long form of the result, to compare it with the numbers",
        found=f"erased on record by entry {erased}",
    )


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
    yield from _differences(seq, again, event, level="numbers")


def _meaning(reader: Reader, seq: int, event: Register | Amend, media: str) -> Iterator[Finding]:
    """Compares resolved form and digests with what the protocol's own bytes say."""
    toml = media == "toml"
    data = reader.blobs.get(event.protocol)
    protocol = parse_protocol(data, name="protocol", media="toml" if toml else "yaml")
    resolved = reader.blobs.get(event.resolved).decode()
    said = encode_resolved(protocol).decode()
    yield from _differences(seq, said, resolved, level="rules", path="resolved")
    digests = section_digests(protocol)
    yield from _differences(seq, digests, event.sections, level="rules", path="sections")


def _amendment(reader: Reader, seq: int, event: Amend, known: Experiment) -> Iterator[Finding]:
    protocol = decode_resolved(reader.blobs.get(event.resolved))
    rules = rules_of(protocol) if known.freeze_seq is not None else None
    yield from _differences(seq, rules, event.rules, level="rules", path="rules")
    changed = [
        name
        for name in known.sections.keys() | event.sections.keys()
        if known.sections.get(name) != event.sections.get(name)
    ]
    old = decode_resolved(reader.blobs.get(known.resolved))
    fields = tuple(coded_field(protocol, one.field) for one in changed_fields(old, protocol))
    yield from _differences(seq, fields, event.fields, level="rules", path="fields")
    looks = amended_looks(reader, known, protocol, changed)
    yield from _differences(seq, looks, event.looks, level="rules", path="looks")


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
        yield from _differences(seq, expected, found, level="rules", path=path)
    yield from _openings(reader, seq, event, known)
    for part in frozen_parts(reader, event, protocol):
        yield from _differences(seq, part.expected, part.found, level="rules", path=part.path)
    power = recorded_power(reader, event, protocol, plan, units)
    if power is not None:
        yield from _differences(seq, *power, level="numbers", path="power")


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


def _differences(
    seq: int, expected: object, found: object, *, level: Level, path: str = ""
) -> Iterator[Finding]:
    """Yields the leaves in which two values differ."""
    old, new = _members(expected), _members(found)
    if old is None or new is None:
        if not _same(expected, found):
            yield _finding(seq, level, path, _shown(expected, found), _shown(found, expected))
        return
    for key in sorted(old.keys() | new.keys()):
        inner = f"{path}.{key}" if path else key
        yield from _differences(seq, old.get(key), new.get(key), level=level, path=inner)


def _members(value: object) -> dict[str, object] | None:
    """Returns the members of a container by name or index, None for anything else."""
    if isinstance(value, msgspec.Struct):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {str(key): item for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return {str(index): item for index, item in enumerate(value)}
    return None


def _shown(value: object, other: object) -> str:
    """Returns a value for a finding; of two long texts the part in which they part."""
    if not isinstance(value, str) or not isinstance(other, str) or len(value) < 200:
        return repr(value)
    pairs = zip(value, other, strict=False)
    place = next((i for i, (one, two) in enumerate(pairs) if one != two), 0)
    return f"…{value[max(0, place - 40) : place + 120]}…"


def _same(expected: object, found: object) -> bool:
    if isinstance(expected, float) and isinstance(found, float):
        return math.isclose(expected, found, rel_tol=RELATIVE_TOLERANCE, abs_tol=ABSOLUTE_TOLERANCE)
    return type(expected) is type(found) and expected == found

"""Two arms in a table of outcomes: the answer in one call, and the trial to record it. Pure.

Leaves the table to `outcome_table.py` and the plan it implies to `table_protocol.py`.

Rules:
- The numbers are those that registering, running and concluding the implied plan would give: the
  same functions compute them.
- Nothing is registered, so there is no verdict: what it would be is said, and that it is not one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, TypedDict, Unpack, cast

import msgspec

from fairtrial.drivers.recorded import parse_recorded
from fairtrial.ledger.events import Decision, Head
from fairtrial.ledger.protocol import Protocol, RecordedDriver
from fairtrial.protocols.assigning import plan_of
from fairtrial.protocols.file import parse_protocol
from fairtrial.protocols.plan import Plan
from fairtrial.protocols.units import Units, parse_units
from fairtrial.verdicts.beside import Json, tests_beside, warnings_of
from fairtrial.verdicts.conclude import conclude
from fairtrial.verdicts.evaluate import AnalysisContext, evaluate_look
from fairtrial.verdicts.finals import Final, ended
from fairtrial.verdicts.look_table import look_table, power_findings
from fairtrial.verdicts.outcomes import collect_decisions
from fairtrial.verdicts.result_body import ResultBody
from fairtrial.verdicts.wording import cluster_noun, in_points, plural, unit_noun

from .outcome_table import OutcomeTable, read_outcome_table
from .table_protocol import TableTrial, arm_names, table_trial

__all__ = ("Choices", "CompareReport", "TableTrial", "compare_table", "protocol_from_table")

_NOWHERE = Head(size=0, root="0" * 64)


class CompareReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a table says of two arms.

    Attributes:
        name: of the file; `layout` long or wide; `rows` in it.
        columns: what was read, by meaning.
        control: the incumbent's name in the file; `treatment` the other's.
        chosen: the caller named the control; else it is the first in the file.
        registered: always false: nothing here is on record.
        endpoint: name of the value; `in_points` says that differences are percentage points.
        planned: units; `paired` those with a value in both arms; `clusters` theirs.
        excluded: ids of the units that left, the first 1,000.
        missing: outcomes that didn't end as ok, by arm and status.
        arms: mean of each arm.
        difference: treatment minus control; `lower`, `upper` the interval at `level`.
        parts: limits of each method of the interval.
        only_control: pairs that only control passed; None where the value isn't 0 or 1.
        tests: p-values by name, with what belongs to them.
        would_be: the verdict that the implied plan would give, with `reason` and `reason_code`.
        notes: how the table was read; `warnings` what its numbers can't show.
    """

    name: str
    layout: str
    rows: int
    columns: dict[str, str]
    control: str
    treatment: str
    chosen: bool
    registered: bool = False
    endpoint: str
    in_points: bool
    unit_noun: str
    cluster_noun: str
    planned: int
    paired: int
    clusters: int
    excluded: tuple[str, ...]
    missing: dict[str, dict[str, int]]
    arms: dict[str, float | None]
    difference: float | None
    standard_error: float | None
    df: float | None
    lower: float | None
    upper: float | None
    level: float
    parts: dict[str, tuple[float, float]]
    only_control: int | None
    only_treatment: int | None
    tests: Json
    would_be: str
    reason: str
    reason_code: str
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


class _Implied(NamedTuple):
    """A table with the trial that it implies."""

    table: OutcomeTable
    trial: TableTrial
    protocol: Protocol
    units: Units
    plan: Plan


class Choices(TypedDict, total=False):
    """What a table can't say by itself; each may be left out.

    Attributes:
        arms: Two columns of a wide table, or two values of a long table's column `arm`.
        control: Which of the two is the incumbent; without it the first in the file.
        unit: Column of unit ids; without it `unit`.
        cluster: Column of clusters; without it `cluster` where there is one; "none" for none.
        value: Column of the value; without it `passed`, else `score`.
        overlap: Units that stand in one arm alone are left out; without it such tables are refused.
    """

    arms: Sequence[str] | None
    control: str | None
    unit: str | None
    cluster: str | None
    value: str | None
    overlap: bool


def compare_table(data: bytes, *, name: str, **choices: Unpack[Choices]) -> CompareReport:
    """Compares two arms in a table.

    Args:
        data: the bytes of the file, CSV or JSONL.
        name: of the file; its suffix tells JSONL.
        choices: what the table can't say by itself.

    Raises:
        ProtocolError: The table can't be understood; every problem names its line or column.
    """
    table = read_outcome_table(data, name=name, **choices)
    implied = _imply(table, data, "comparison")
    context = _concluded(implied)
    body = conclude(context)
    found = ended(context)
    final = found.finals[0][0]
    warnings = warnings_of(found.frame, found.endings[0], final)
    return _report(implied, body, final, tests_beside(found.frame, final), warnings)


def protocol_from_table(
    data: bytes, *, name: str, id: str | None = None, **choices: Unpack[Choices]
) -> TableTrial:
    """Returns protocol, units and outcomes of a trial made from a table.

    Args:
        data: the bytes of the file.
        name: of the file.
        id: of the experiment; without it made from the file's name.
        choices: as for `compare_table`.

    Raises:
        ProtocolError: The table can't be understood.
    """
    table = read_outcome_table(data, name=name, **choices)
    return _imply(table, data, id or _id(name)).trial


def _imply(table: OutcomeTable, data: bytes, id: str) -> _Implied:
    implied = _parsed(table, table_trial(table, data, id=id))
    if power_findings(implied.protocol, implied.plan, implied.units).refused:
        return _parsed(table, table_trial(table, data, id=id, is_hopeless=True))
    return implied


def _parsed(table: OutcomeTable, trial: TableTrial) -> _Implied:
    protocol = parse_protocol(trial.protocol.encode(), name=table.name, media="yaml")
    units = parse_units(trial.units, protocol.units, name=table.name, seed=protocol.design.seed)
    plan = plan_of(protocol, units)
    return _Implied(table, trial, protocol, units, plan)


def _concluded(implied: _Implied) -> AnalysisContext:
    """Returns what is known after the one look of the implied plan."""
    protocol, plan = implied.protocol, implied.plan
    context = AnalysisContext(
        protocol=protocol,
        plan=plan,
        units=implied.units,
        looks=look_table(protocol, plan, implied.units),
        taken=(),
        outcomes=collect_decisions(_decisions(implied), plan.slot_count),
        origins=dict.fromkeys(protocol.arms, "recorded"),
        stopped_by="last_look",
    )
    body = evaluate_look(context, 1)
    look = body.event(protocol.id, 1, _NOWHERE)
    return replace(context, taken=(look,))


def _decisions(implied: _Implied) -> Iterator[Decision]:
    """Yields the outcomes that a recorded run of the implied plan would have."""
    protocol, plan = implied.protocol, implied.plan
    answers = {
        name: parse_recorded(
            implied.trial.outcomes,
            cast("RecordedDriver", arm.driver),
            units=implied.units.ids,
            repeats=arm.repeats,
        )
        for name, arm in protocol.arms.items()
    }
    for slot in plan.slots():
        answer = answers[slot.arm].get((slot.unit, slot.replicate))
        yield Decision(
            experiment=protocol.id,
            position=slot.position,
            session=0,
            attempt=0,
            arm=slot.arm,
            unit=slot.unit,
            replicate=slot.replicate,
            status="replay_miss" if answer is None else answer.status,
            scores={} if answer is None else dict(answer.scores),
            origin="recorded",
        )


def _report(
    implied: _Implied, body: ResultBody, final: Final, tests: Json, warnings: Sequence[str]
) -> CompareReport:
    table, protocol = implied.table, implied.protocol
    numbers, pairs = final.scales[0], final.pairs
    counted = final.endpoint.type == "binary"
    return CompareReport(
        name=table.name,
        layout=table.layout,
        rows=table.row_count,
        columns=_columns(table),
        control=table.control,
        treatment=table.treatment,
        chosen=table.chosen,
        endpoint=final.endpoint.name,
        in_points=in_points(final.endpoint),
        unit_noun=plural(unit_noun(protocol)),
        cluster_noun=plural(cluster_noun(protocol)),
        planned=pairs.planned,
        paired=numbers.n,
        clusters=numbers.clusters,
        excluded=tuple(implied.plan.units[index] for index in pairs.excluded[:1000].tolist()),
        missing=_missing(implied, final),
        arms={table.control: numbers.control, table.treatment: numbers.treatment},
        difference=numbers.estimate,
        standard_error=numbers.standard_error,
        df=numbers.df,
        lower=numbers.lower,
        upper=numbers.upper,
        level=1.0 - final.nominal_p,
        parts=dict(numbers.parts),
        only_control=numbers.only_control if counted else None,
        only_treatment=numbers.only_treatment if counted else None,
        tests=tests,
        would_be=body.verdict,
        reason=_reason(body),
        reason_code=body.reason_code,
        notes=table.notes,
        warnings=tuple(warnings),
    )


def _reason(body: ResultBody) -> str:
    """Returns the reason in words of a comparison that has no protocol."""
    # The limit is that of the plan which `init --from` writes: nobody has registered one.
    return body.reason.replace("the protocol allows", "the plan of `init --from` allows")


def _columns(table: OutcomeTable) -> dict[str, str]:
    columns = {"unit": table.unit_column, "value": table.value_column}
    if table.layout == "long":
        columns["arm"] = "arm"
    else:
        columns["value"] = f"{table.control}, {table.treatment}"
    if table.cluster_column is not None:
        columns["cluster"] = table.cluster_column
    return columns


def _missing(implied: _Implied, final: Final) -> dict[str, dict[str, int]]:
    """Returns lost outcomes by arm and status.

    Where the table numbers replicates, not every unit has as many as the one that has most: then
    a row that isn't there is lost only where its unit is, and units are counted.
    """
    table, pairs = implied.table, final.pairs
    found: dict[str, dict[str, int]] = {}
    for arm, name in zip(arm_names(table), (table.control, table.treatment), strict=True):
        counts = dict(pairs.statuses[arm])
        if max(table.repeats) > 1:
            counts.pop("replay_miss", None)
            counts |= {"replay_miss": pairs.lost[arm]} if pairs.lost[arm] else {}
        found[name] = counts
    return found


def _id(name: str) -> str:
    stem = re.sub(r"\.[a-z]+$", "", name.rpartition("/")[2].lower())
    return re.sub(r"[^a-z0-9._-]+", "-", stem).strip("._-")[:64] or "comparison"

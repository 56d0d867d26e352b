"""Builds trials in memory for the tests of the bridge from outcomes to numbers.

Under FAIRTRIAL_REQUIRE_ALL=1 a test that is skipped because it "needs" something fails instead.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fairtrial.ledger.events import Decision, Head, Origin
from fairtrial.ledger.protocol import Protocol, RecordedDriver
from fairtrial.protocols.assigning import plan_of
from fairtrial.protocols.file import check_supported, parse_protocol
from fairtrial.protocols.plan import Plan
from fairtrial.protocols.units import Units, parse_units
from fairtrial.verdicts.evaluate import AnalysisContext, StoppedBy, evaluate_look
from fairtrial.verdicts.look_table import look_table
from fairtrial.verdicts.outcomes import Outcomes, collect_decisions

DEMO = Path(__file__).resolve().parents[1] / "examples" / "demo"
HEAD = Head(size=1, root="0" * 64)

# Every field that a test's endpoint may be about.
COLUMNS = (
    "{unit: unit, passed: passed, score: score, usd: usd, answer: answer, tokens: tokens, "
    "duration_seconds: s, scores.unsafe: unsafe}"
)
# Sections of a whole protocol; a test replaces the ones that it is about.
SECTIONS = {
    "about": "{hypothesis: B is better than A.}",
    "units": "{file: units.csv, id: unit, cluster: cluster}",
    "design": "{pairing: paired, seed: 7}",
    "arms": "{A: {label: a, driver: {kind: recorded, file: o.csv, where: {arm: a}, columns: "
    "*}}, B: {label: b, driver: {kind: recorded, file: o.csv, where: {arm: b}, columns: *}}}",
    "control": "A",
    "endpoints": "[{name: passed, role: primary, type: binary, value: passed, better: higher}]",
    "missing": "{rules: {failed: failure, timeout: failure, limit: failure, error: exclude_pair, "
    "ungraded: exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair}, limit: 0.02}",
    "analysis": "{estimand: unit_weighted, alpha: 0.05}",
    "looks": "{at: [1.0]}",
    "decision": "{rule: superiority, margin: 0.0}",
    "power": "{effect: none, accept: {not_assessed: a test}}",
    "budget": "{usd: 0}",
}

NEEDS = "Skipped: needs "


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turns a skip for want of a program or package into a failure where all are required."""
    report = yield
    if report.skipped and os.environ.get("FAIRTRIAL_REQUIRE_ALL") == "1":
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        if reason.startswith(NEEDS):
            report.outcome, report.longrepr = "failed", f"FAIRTRIAL_REQUIRE_ALL=1: {reason}"
    return report


Answer = Mapping[str, object]
Answers = Callable[[str, str, int], Answer]


def outcome(value: float | None = None, **fields: object) -> Answer:
    """Returns the fields of an outcome; a value is its `passed`."""
    scores = {} if value is None else {"passed": float(value)}
    return {"status": "ok", "scores": scores, **fields}


@dataclass(frozen=True, kw_only=True, eq=False)
class Trial:
    """A frozen trial with its outcomes."""

    context: AnalysisContext

    @property
    def protocol(self) -> Protocol:
        """The registered plan."""
        return self.context.protocol

    @property
    def plan(self) -> Plan:
        """The frozen run order."""
        return self.context.plan

    @property
    def units(self) -> Units:
        """The frozen units."""
        return self.context.units

    def with_outcomes(self, outcomes: Outcomes) -> Trial:
        """Returns the trial with other outcomes."""
        return Trial(context=replace(self.context, outcomes=outcomes))

    def take(self, number: int) -> Trial:
        """Returns the trial after one more look."""
        body = evaluate_look(self.context, number)
        look = body.event(self.protocol.id, number, HEAD)
        return Trial(context=replace(self.context, taken=(*self.context.taken, look)))

    def run(self) -> Trial:
        """Returns the trial after all its looks, or the one that stopped it."""
        trial = self
        for number in range(1, len(self.context.looks) + 1):
            trial = trial.take(number)
            if not trial.context.taken[-1].continues:
                break
        last = len(trial.context.taken) == len(self.context.looks)
        return trial.ended("last_look" if last else "boundary")

    def ended(self, stopped_by: StoppedBy) -> Trial:
        """Returns the trial as ended by something."""
        return Trial(context=replace(self.context, stopped_by=stopped_by))


class Bridge:
    """Makes trials."""

    outcome = staticmethod(outcome)

    def text(self, **sections: str) -> str:
        """Returns a protocol's text with some sections replaced."""
        parts = {"protocol": "1", "id": "trial", **SECTIONS, **sections}
        text = "".join(f"{name}: {part}\n" for name, part in parts.items() if part)
        return text.replace("columns: *", f"columns: {COLUMNS}")

    def protocol(self, **sections: str) -> Protocol:
        """Returns a protocol with some sections replaced."""
        protocol = parse_protocol(self.text(**sections).encode(), name="p.yaml", media="yaml")
        check_supported(protocol)
        return protocol

    def plan(self, protocol: Protocol, units: Units) -> Plan:
        """Returns the run order of units under a protocol."""
        return plan_of(protocol, units)

    def trial(
        self, table: str, answers: Answers, *, origin: Origin = "recorded", **sections: str
    ) -> Trial:
        """Returns a trial.

        Args:
            table: the units file.
            answers: the outcome of (unit, arm, replicate), an empty one for an unsettled slot.
            origin: of all arms.
            sections: sections of the protocol to replace.
        """
        protocol = self.protocol(**sections)
        known = parse_units(
            table.encode(), protocol.units, name="units.csv", seed=protocol.design.seed
        )
        plan = self.plan(protocol, known)
        return Trial(
            context=AnalysisContext(
                protocol=protocol,
                plan=plan,
                units=known,
                looks=look_table(protocol, plan, known),
                taken=(),
                outcomes=collect_decisions(self.decisions(plan, answers, origin), plan.slot_count),
                origins=dict.fromkeys(protocol.arms, origin),
                may_analyse=True,
            )
        )

    def decisions(self, plan: Plan, answers: Answers, origin: Origin) -> list[Decision]:
        """Returns the outcomes of all slots, in run order."""
        found: list[Decision] = []
        for slot in plan.slots():
            fields = dict(answers(slot.unit, slot.arm, slot.replicate))
            if fields:
                place = {"position": slot.position, "arm": slot.arm, "unit": slot.unit}
                base = {"session": 1, "attempt": 0, "replicate": slot.replicate, "origin": origin}
                # The test's mapping holds fields of a Decision, each with its type.
                found.append(
                    Decision(experiment="trial", **place, **base, **fields)  # type: ignore[arg-type]
                )
        return found

    def units(self, clusters: int, size: int) -> str:
        """Returns a units file of equal clusters."""
        rows = [f"u{c:03}-{u:03},c{c:03}" for c in range(clusters) for u in range(size)]
        return "unit,cluster\n" + "\n".join(rows) + "\n"

    def demo(self, name: str, *, seed: int | None = None) -> Trial:
        """Returns one of the two demos, with its outcomes and no look taken."""
        text = (DEMO / f"{name}.yaml").read_text(encoding="utf-8")
        if seed is not None:
            text = text.replace("20261129", str(seed))
        protocol = parse_protocol(text.encode(), name=name, media="yaml")
        units = parse_units(
            (DEMO / protocol.units.file).read_bytes(),
            protocol.units,
            name=protocol.units.file,
            seed=protocol.design.seed,
        )
        plan = self.plan(protocol, units)
        decisions = self.decisions(plan, _recorded(protocol, name), "recorded")
        return Trial(
            context=AnalysisContext(
                protocol=protocol,
                plan=plan,
                units=units,
                looks=look_table(protocol, plan, units),
                taken=(),
                outcomes=collect_decisions(decisions, plan.slot_count),
                origins=dict.fromkeys(protocol.arms, "recorded"),
                may_analyse=True,
            )
        )


def _recorded(protocol: Protocol, name: str) -> Answers:
    rows: dict[tuple[str, str], float] = {}
    with (DEMO / f"{name}-outcomes.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            rows[row["arm"], row["unit"]] = float(row["passed"])
    arms: dict[str, str] = {}
    for arm, spec in protocol.arms.items():
        assert isinstance(spec.driver, RecordedDriver)
        arms[arm] = spec.driver.where["arm"]

    def answers(unit: str, arm: str, replicate: int) -> Answer:
        value = rows.get((arms[arm], unit))
        return outcome(status="replay_miss") if value is None else outcome(value)

    return answers


@pytest.fixture(scope="session")
def bridge() -> Bridge:
    """Makes trials in memory."""
    return Bridge()

"""What a plan is, and what of it is on record: for `check`, `register`, `freeze`. Pure.

Leaves the plan's numbers to the engine.

Rules:
- Where looks really fall is said, not where they were asked for.
- What would be refused later is said now, with the act that would refuse it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from fairtrial.custody.blinding import DISCIPLINE
from fairtrial.engine.checking import Checked, GitCheck, Money
from fairtrial.engine.freezing import Design
from fairtrial.engine.registering import git_warning
from fairtrial.engine.session import Registered
from fairtrial.ledger.events import Freeze, RegisterGit
from fairtrial.protocols.assigning import is_assigned
from fairtrial.protocols.terms import planned_repeats
from fairtrial.verdicts.plan_warnings import plan_warnings
from fairtrial.verdicts.power_terms import power_terms
from fairtrial.verdicts.power_values import LookFacts
from fairtrial.verdicts.wording import cluster_noun, plural, unit_noun

from .output import label
from .text_formula import formula_text
from .text_numbers import clip, count, quantity, usd
from .text_rule import capacity_text

__all__ = ("check_text", "registered_text")


def check_text(checked: Checked, *, refused: bool) -> str:
    """Returns everything that `ledger check` has to say of a file that can be read.

    Args:
        checked: what was found.
        refused: whether `register` would refuse the plan; the first word says so.
    """
    design = checked.design
    lines = [
        label("refused" if refused else "ok", f"{design.protocol.id}: {_units_text(design)}"),
        label("looks", _looks_text(design)),
        *_power_lines(design),
        label("budget", _budget_text(checked.money)),
        *_blinded_lines(design),
        *(
            label("driver", f"{arm}: {clip(problem, 200)}     (run would refuse)")
            for arm, problems in checked.drivers.items()
            for problem in problems
        ),
        *_gap_lines(design, checked.without_row),
        *_required_lines(design),
        label("git", _git_text(checked.git)),
    ]
    undated = git_warning(design.protocol, has_git=checked.git is not None)
    if undated is not None:
        lines.append(label("warning", undated))
    if checked.existing:
        lines.append(label("note", _existing_text(checked.existing)))
    lines += _warning_lines(design)
    lines += [
        label("refused", f"{name}: {sentence}     (register would refuse)")
        for name, sentence in design.power.refused.items()
    ]
    return "\n".join(lines)


def _units_text(design: Design) -> str:
    slots = quantity(design.plan.slot_count, "slot")
    return f"{_clusters_text(design)}, {slots} ({_product(design)})"


def _clusters_text(design: Design) -> str:
    units, protocol = len(design.units.ids), design.protocol
    unit = unit_noun(protocol)
    text = quantity(units, unit, plural(unit))
    if protocol.units.cluster is None:
        return f"{text}, each its own cluster"
    cluster = cluster_noun(protocol)
    return f"{text} in {quantity(design.plan.cluster_count, cluster, plural(cluster))}"


def _product(design: Design) -> str:
    protocol = design.protocol
    if is_assigned(protocol):
        return _assigned_text(design)
    if protocol.kind == "decision_rule":
        return f"one score each; {quantity(len(protocol.arms), 'rule')} on the same scores"
    repeats = {arm.repeats for arm in protocol.arms.values()}
    text = f"{count(len(design.units.ids))} units x {len(protocol.arms)} arms"
    if len(repeats) == 1:
        each = repeats.pop()
        return f"{text} x {quantity(each, 'replicate')}"
    each_arm = ", ".join(f"{name} {arm.repeats}" for name, arm in protocol.arms.items())
    return f"{text}; replicates: {each_arm}"


def _assigned_text(design: Design) -> str:
    """Returns how many units each arm gets, and how many replicates of each."""
    plan, parts = design.plan, []
    for index, arm in enumerate(plan.arms):
        own = {unit for unit, met in zip(plan.unit_of, plan.arm_of, strict=True) if met == index}
        repeats = design.protocol.arms[arm].repeats
        times = f" x {quantity(repeats, 'replicate')}" if repeats > 1 else ""
        parts.append(f"{arm} {count(len(own))}{times}")
    return f"each assigned to one arm: {', '.join(parts)}"


def _looks_text(design: Design) -> str:
    """Returns where looks really fall; the clusters of a look are whole."""
    looks = design.power.looks
    if len(looks) == 1:
        return f"one, at the end ({_look_size(design, looks[0])})"
    if design.protocol.looks.kind == "anytime":
        first, last = _look_size(design, looks[0]), _look_size(design, looks[-1])
        noun = cluster_noun(design.protocol)
        return f"{count(len(looks))}, one after each {noun}: from {first} to {last}"
    falls = [f"{look.fraction:.2f} ({_look_size(design, look)})" for look in looks]
    planned = " ".join(f"{look.planned:.2f}" for look in looks)
    if len(looks) == 2:
        first, last = falls
        return (
            f"planned {planned} of the clusters; with this seed they fall at {first} and {last}"
            " of the information"
        )
    lines = [
        f"{look.number} of {len(looks)} at {fall}" for look, fall in zip(looks, falls, strict=True)
    ]
    return "\n".join([f"planned {planned}; with this seed, in shares of the information:", *lines])


def _look_size(design: Design, look: LookFacts) -> str:
    protocol = design.protocol
    text = quantity(look.units, unit_noun(protocol), plural(unit_noun(protocol)))
    if protocol.units.cluster is not None:
        cluster = cluster_noun(protocol)
        text += f", {quantity(look.clusters, cluster, plural(cluster))}"
    return text if look.eligible else f"{text}; cannot decide"


def _power_lines(design: Design) -> list[str]:
    report = design.power
    capacity = report.capacity
    if capacity is not msgspec.UNSET:
        lines = [label("capacity", capacity_text(capacity))]
    else:
        lines = [label("power", formula_text(report, power_terms(design.protocol)))]
    simulated = report.simulated
    if simulated is not None:
        lines.append(
            label(
                "simulated",
                f"power {100 * simulated.power:.1f} % in {count(simulated.runs)} runs;"
                f" type-I error {100 * simulated.type_i_error:.1f} %;"
                f" {simulated.expected_units:.0f} units on average",
            )
        )
    lines += [
        label("accepted", f"{name}: {clip(reason, 160)}")
        for name, reason in report.accepted.items()
    ]
    return lines


def _budget_text(money: Money) -> str:
    if money.ceiling_usd is None:
        return "no ceiling in usd"
    ceiling = f"ceiling {usd(money.ceiling_usd)} usd"
    if not money.reserved_usd:
        return f"{ceiling}; nothing is reserved"
    reserved = f"all slots reserve {usd(money.reserved_usd)} usd"
    if money.reserved_usd > money.ceiling_usd:
        return f"{reserved}, more than the {ceiling}: the run may stop before its end     (warning)"
    if money.reserved_with_retries_usd > money.ceiling_usd:
        with_retries = usd(money.reserved_with_retries_usd)
        return f"{ceiling}; {reserved}, with every retry {with_retries} usd"
    return f"{ceiling}; {reserved}"


def _required_lines(design: Design) -> list[str]:
    """Returns what people have to do beside running: sign, and anchor the record."""
    require = design.protocol.require
    waits = {"run": "the run starts", "result_counts": "the result counts"}
    lines = [
        label("signature", f"`{one.meaning}` by {one.role} before {waits[one.before]}")
        for one in require.signatures
    ]
    if require.anchor != "none":
        lines.append(
            label("anchor", f"register, freeze, looks and result wait for a {require.anchor}")
        )
    return lines


def _git_text(git: GitCheck | None) -> str:
    if git is None:
        return "not in git"
    if not git.uncommitted:
        return f"committed, at {git.commit[:12]}"
    names = ", ".join(git.uncommitted[:5])
    more = f" and {len(git.uncommitted) - 5} more" if len(git.uncommitted) > 5 else ""
    end = "     (register would refuse: commit them first)" if git.required else ""
    return f"not committed: {names}{more}{end}"


def _existing_text(arms: Sequence[str]) -> str:
    whose = f"of {' and '.join(arms)} " if len(arms) < 4 else ""
    return f'the outcomes {whose}exist already: the result will say "retrospective"'


def registered_text(done: Registered, *, ledger: str) -> str:
    """Returns what `register` and `freeze` put on record."""
    event = done.register
    lines = [
        label("opened" if done.opened else "ledger", f"{ledger}  {done.ledger}"),
        label(
            "register",
            f"{event.experiment}   protocol sha256 {event.protocol.sha256[:16]}…"
            f"   {_registered_git(event.git)}",
        ),
    ]
    if event.override is not None:
        lines.append(label("override", clip(event.override, 160)))
    if done.amended is not None:
        lines.append(label("amended", f"in force: protocol sha256 {done.amended.sha256[:16]}…"))
    lines += [label("warning", text) for text in done.warnings]
    if done.freeze is None or done.design is None:
        missing = done.missing_units
        why = f"{missing} isn't there yet" if missing is not None else "as --no-freeze says"
        lines.append(label("freeze", f"not yet: {why}"))
        lines += [
            label("warning", f"{clip(text, 300)}     (freeze would refuse)")
            for text in done.refusals
        ]
    else:
        lines += _frozen_lines(done.freeze, done.design)
        lines += _gap_lines(done.design, done.without_row)
    return "\n".join(lines)


def _registered_git(git: RegisterGit | None) -> str:
    if git is None:
        return "not in git"
    return f"git {git.commit[:12]}" + ("" if git.clean else ", with uncommitted changes")


def _frozen_lines(event: Freeze, design: Design) -> list[str]:
    existing = [arm.name for arm in event.arms if arm.origin != "live"]
    return [
        label("freeze", _units_text(design)),
        label("looks", _looks_text(design)),
        *_power_lines(design),
        *_warning_lines(design),
        *([label("note", _existing_text(existing))] if existing else []),
        *_blinded_lines(design),
    ]


def _gap_lines(design: Design, without_row: Mapping[str, int]) -> list[str]:
    """Returns that slots have no recorded outcome; of blinded arms none is named."""
    lost, slots = sum(without_row.values()), quantity(design.plan.slot_count, "slot")
    if not lost:
        return []
    parts = ", ".join(f"{arm} {count(number)}" for arm, number in without_row.items())
    whose = "" if design.protocol.blinding.arms else f" ({parts})"
    verb = "has" if lost == 1 else "have"
    text = f"{count(lost)} of {slots} {verb} no row in the table{whose}: missing, as replay_miss"
    return [label("warning", text)]


def _warning_lines(design: Design) -> list[str]:
    """Returns each warning once; several comparisons give the same one where it is of them all."""
    return [
        label("warning", text if number == 1 else f"{text} (of {number} comparisons)")
        for text, number in Counter(design.power.warnings).items()
    ] + [label("warning", one.text) for one in plan_warnings(design.protocol)]


def _blinded_lines(design: Design) -> list[str]:
    if not design.protocol.blinding.arms:
        return []
    labels = " and ".join(planned_repeats(design.protocol))
    return [label("blinded", f"arms are {labels} until `ledger unblind`; {DISCIPLINE}")]

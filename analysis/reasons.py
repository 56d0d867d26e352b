"""The reason of a verdict as one sentence, in words of the data.

Job: turn a reason code and the facts of a comparison into a clause that a reader without
statistics understands. Leaves choosing the code to `verdict`.

Rules:
    - The sentence names units, clusters and arms by their own names, never a method's.
    - It says what would help, where something would.
    - It has no full stop and no verdict word, so it can follow "inconclusive: ".
    - A fact that is not given is left out; nothing is invented.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from .verdict import Guards, ReasonCode

__all__ = ("Facts", "reason_sentence", "signed")


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """Holds what the sentences may mention.

    Attributes:
        control: name of the control arm; `treatment` of the other.
        endpoint: name of the endpoint.
        unit_noun: plural word for units; `cluster_noun` singular word for a cluster.
        n: complete pairs; `clusters` their clusters.
        largest_name: name of the largest cluster; `largest_units` its units.
        effective_clusters: number of equal clusters that weigh like these.
        discordant_clusters: clusters where the arms differ.
        estimate: difference; `lower`, `upper` the deciding interval; `margin` the registered one.
        in_points: differences are shares, to be shown in percentage points.
        missing: units without a usable outcome; `planned` those of the look;
            `missing_limit` the registered share.
        at_least: registered saving, as a share.
        bound: a one-sided bound; `target` what it is compared with.
        held: name of the method that makes the claim when two disagree.
        detail: what a diagnostic found, or why a run ended.
        from_even: the difference is a win rate's distance from one half.
        assigned: each unit is in one arm only.
        guards: the registered floors.
    """

    control: str = "control"
    treatment: str = "treatment"
    endpoint: str = ""
    unit_noun: str = "units"
    cluster_noun: str = "cluster"
    n: int = 0
    clusters: int = 0
    largest_name: str = ""
    largest_units: int = 0
    effective_clusters: float | None = None
    discordant_clusters: int | None = None
    estimate: float | None = None
    lower: float | None = None
    upper: float | None = None
    margin: float = 0.0
    in_points: bool = True
    missing: int = 0
    planned: int = 0
    missing_limit: float | None = None
    at_least: float = 0.0
    bound: float | None = None
    target: float | None = None
    held: str = ""
    detail: str = ""
    from_even: bool = False
    assigned: bool = False
    guards: Guards = field(default_factory=Guards)


def reason_sentence(code: ReasonCode, facts: Facts) -> str:
    """Returns the reason as a clause, without a full stop."""
    return _SENTENCES[code](facts)


def signed(value: float, *, in_points: bool) -> str:
    """Writes a difference with its sign: "+2.0 points" for 0.02, or "+0.0200"."""
    return f"{100.0 * value:+.1f} points" if in_points else f"{value:+.4g}"


def _plural(noun: str) -> str:
    if noun.endswith("y") and noun[-2:-1] not in tuple("aeiou"):
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")


def _range(facts: Facts) -> str:
    if facts.lower is None or facts.upper is None:
        return ""
    low = signed(facts.lower, in_points=facts.in_points).removesuffix(" points")
    return f"{low} to {signed(facts.upper, in_points=facts.in_points)}"


def _interval(facts: Facts) -> str:
    span = _range(facts)
    if not span or facts.estimate is None:
        return ""
    return f" ({signed(facts.estimate, in_points=facts.in_points)}{_from(facts)}, interval {span})"


def _from(facts: Facts) -> str:
    return " from a win rate of 50 %" if facts.from_even else ""


def _margin(facts: Facts) -> str:
    return signed(facts.margin, in_points=facts.in_points).lstrip("+")


def _by_more(facts: Facts) -> str:
    # A rule may claim less than its margin: say so much only where the interval shows it.
    nearest = min(abs(facts.lower or 0.0), abs(facts.upper or 0.0))
    return f" by more than {_margin(facts)}" if 0.0 < facts.margin < nearest else ""


def _favours(facts: Facts) -> str:
    return f"{facts.treatment} is better than {facts.control}{_by_more(facts)}{_interval(facts)}"


def _against(facts: Facts) -> str:
    return f"{facts.treatment} is worse than {facts.control}{_by_more(facts)}{_interval(facts)}"


def _spans(facts: Facts) -> str:
    if not _range(facts):
        return "the data do not tell which arm is better"
    question = f"a margin of {_margin(facts)} is" if facts.margin > 0.0 else "either arm may be"
    what = f"the difference{_from(facts)} may be {_range(facts)}"
    if facts.margin > 0.0:
        return f"{what}, so {question} neither met nor ruled out"
    return f"{what}, so {question} the better one"


def _harm(facts: Facts) -> str:
    what = f"harm endpoint {facts.endpoint}" if facts.endpoint else "the harm endpoint"
    return f"{what} is worse with {facts.treatment}{_by_more(facts)}{_interval(facts)}"


def _within(facts: Facts) -> str:
    return f"{facts.treatment} is within {_margin(facts)} of {facts.control}{_interval(facts)}"


def _worse_inside(facts: Facts) -> str:
    return (
        f"{facts.treatment} is within {_margin(facts)} of {facts.control} and yet shown worse"
        f"{_interval(facts)}"
    )


def _no_saving(facts: Facts) -> str:
    share = f" of {100.0 * facts.at_least:g} %" if facts.at_least > 0.0 else ""
    what = f" on {facts.endpoint}" if facts.endpoint else ""
    return f"the rule holds, but a saving{share}{what} is not shown"


def _few_clusters(facts: Facts) -> str:
    nouns = _plural(facts.cluster_noun)
    if facts.clusters < facts.guards.min_clusters:
        need = f"a verdict needs at least {facts.guards.min_clusters}"
    else:
        need = "this look asks for more than so few could ever show"
    one = facts.cluster_noun if facts.clusters == 1 else nouns
    return f"the {facts.n} {facts.unit_noun} come from only {facts.clusters} {one}; {need}"


def _low_df(facts: Facts) -> str:
    nouns = _plural(facts.cluster_noun)
    name = f" ({facts.largest_name})" if facts.largest_name else ""
    weigh = ""
    if facts.effective_clusters is not None:
        weigh = f", so the data weigh like about {facts.effective_clusters:.0f} independent {nouns}"
    return (
        f"{facts.largest_units} of {facts.n} {facts.unit_noun} are one {facts.cluster_noun}{name}"
        f"{weigh}; more {nouns} are needed, more {facts.unit_noun} from the same one do not help"
    )


def _few_discordant(facts: Facts) -> str:
    nouns = _plural(facts.cluster_noun)
    return (
        f"the arms differ in only {facts.discordant_clusters or 0} of {facts.clusters} {nouns}; "
        f"a verdict needs at least {facts.guards.min_discordant_clusters}"
    )


def _zero_variance(facts: Facts) -> str:
    if facts.assigned:
        return (
            f"within each arm every {facts.cluster_noun} shows the same, so nothing says how much "
            "it would vary in others"
        )
    return (
        f"every {facts.cluster_noun} shows the same difference, so nothing says how much it "
        "would vary in others"
    )


def _missing_over(facts: Facts) -> str:
    share = f" ({100.0 * facts.missing / facts.planned:.1f} %)" if facts.planned else ""
    limit = ""
    if facts.missing_limit is not None:
        limit = f"; the protocol allows {100.0 * facts.missing_limit:g} %"
    return (
        f"{facts.missing} of {facts.planned} {facts.unit_noun}{share} have no usable outcome{limit}"
    )


def _missing_refused(facts: Facts) -> str:
    return f"{facts.missing} {facts.unit_noun} have an outcome that the protocol refuses to count"


def _disagree(facts: Facts) -> str:
    held = f"only {facts.held} would make" if facts.held else "only one of the two would make"
    return f"the registered methods disagree: {held} the claim{_interval(facts)}"


def _diagnostic(facts: Facts) -> str:
    return f"a registered check failed{': ' + facts.detail if facts.detail else ''}"


def _invalidated(facts: Facts) -> str:
    return facts.detail or "the verdict changes without the outcomes that were declared invalid"


def _under_run(facts: Facts) -> str:
    why = f" ({facts.detail})" if facts.detail else ""
    return f"the run ended{why} before its last planned look, and no boundary was crossed"


def _stopped(facts: Facts) -> str:
    why = f" ({facts.detail})" if facts.detail else ""
    return f"a person stopped the run{why} before a boundary was crossed"


def _bound(facts: Facts, relation: str) -> str:
    what = facts.endpoint or "the rate"
    if facts.bound is None or facts.target is None:
        return f"the bound of {what} is {relation} its target"
    return f"the bound of {what}, {facts.bound:.3f}, is {relation} the target {facts.target:.3f}"


def _no_flags(facts: Facts) -> str:
    return f"{facts.treatment} flagged nothing, so its precision is unknown"


_SENTENCES: Final[Mapping[ReasonCode, Callable[[Facts], str]]] = {
    "interval_favours": _favours,
    "interval_against": _against,
    "interval_spans": _spans,
    "harm": _harm,
    "within_margin": _within,
    "worse_inside_margin": _worse_inside,
    "no_saving": _no_saving,
    "few_clusters": _few_clusters,
    "low_df": _low_df,
    "few_discordant_clusters": _few_discordant,
    "zero_variance": _zero_variance,
    "missing_over_limit": _missing_over,
    "missing_refused": _missing_refused,
    "methods_disagree": _disagree,
    "diagnostic": _diagnostic,
    "invalidated": _invalidated,
    "under_run": _under_run,
    "stopped_by_person": _stopped,
    "bound_reached": lambda facts: _bound(facts, "at or above"),
    "bound_below": lambda facts: _bound(facts, "below"),
    "no_flags": _no_flags,
}

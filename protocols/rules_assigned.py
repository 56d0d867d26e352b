"""Rules between fields of a design in which each unit is in one arm, and of what is not for it.

Leaves the shape of `design.assign` to `fields.py`, what only the units can tell to
`assigning.py`.

Rules:
- A rule names every field it reads; it says nothing when one of them is bad and said so already.
- What compares the two outcomes of one unit (discordance, sign flips, the order of the arms) has no
  meaning where there is one outcome; it is refused where it was written, and left out where not.
"""

from __future__ import annotations

from fairtrial.ledger.protocol import Assign, Protocol

from .nodes import Reading, nearest

__all__ = ("check_design",)

_OF_PAIRS = ("mcnemar", "sign_flip", "bootstrap", "wild_bootstrap")


def check_design(p: Protocol, reading: Reading) -> None:
    """Reports every broken rule about how units are shared out among arms."""
    assign = p.design.assign
    if p.design.pairing == "paired":
        _check_paired(p, reading)
    elif assign is None:
        reading.missing("design.assign", "by, ratio and within", "design.pairing")
    if assign is None:
        return
    _check_ratio(p, assign, reading)
    _check_columns(p, assign, reading)
    if p.design.pairing == "assigned":
        _check_estimand(p, assign, reading)
        _check_of_pairs(p, reading)


def _check_paired(p: Protocol, reading: Reading) -> None:
    if reading.is_given("design.assign"):
        todo = "leave it out: each unit is in every arm"
        reading.refuse("design.assign", "given while paired", todo=todo, needs=["design.pairing"])
    if p.diagnostics.sample_ratio != "show":
        what = "the sample ratio is about units that are assigned to one arm"
        todo = "leave it out: each unit is in every arm"
        found = p.diagnostics.sample_ratio
        reading.refuse(
            "diagnostics.sample_ratio", what, found=found, todo=todo, needs=["design.pairing"]
        )


def _check_ratio(p: Protocol, assign: Assign, reading: Reading) -> None:
    for name in assign.ratio:
        if name not in p.arms:
            expected, path = f"one of {', '.join(p.arms)}", f"design.assign.ratio.{name}"
            near = nearest(name, p.arms)
            reading.refuse(
                path,
                "there is no such arm",
                expected=expected,
                found=name,
                todo=f"did you mean {near}?" if near else "",
                needs=["arms"],
            )
    for name in p.arms:
        if name not in assign.ratio:
            expected = "a whole number for every arm"
            reading.missing(f"design.assign.ratio.{name}", expected, "arms")


def _check_columns(p: Protocol, assign: Assign, reading: Reading) -> None:
    path, needs = "design.assign", ["units.cluster", "units.stratum"]
    if assign.by == "cluster" and assign.within == "cluster":
        what = "clusters can't be assigned within clusters"
        reading.refuse(f"{path}.within", what, expected="stratum or none")
    if p.units.cluster is None and assign.by == "cluster":
        what = "there are no clusters to assign"
        reading.refuse(f"{path}.by", what, expected="unit", found="cluster", needs=needs)
    if p.units.cluster is None and assign.within == "cluster":
        what = "there are no clusters to assign within"
        reading.refuse(f"{path}.within", what, expected="stratum or none", needs=needs)
    if p.units.stratum is None and assign.within == "stratum":
        what = "units are assigned within strata that they don't have"
        reading.refuse(f"{path}.within", what, expected="a column under units.stratum", needs=needs)


def _check_estimand(p: Protocol, assign: Assign, reading: Reading) -> None:
    if p.analysis.estimand != "cluster_weighted" or p.units.cluster is None:
        return
    if assign.by == "unit" and assign.within != "cluster":
        reading.refuse(
            "analysis.estimand",
            "some clusters would have units in one arm only, so no mean over clusters compares "
            "the arms",
            expected="unit_weighted",
            found="cluster_weighted",
            todo="choose unit_weighted, assign by cluster, or assign units within cluster",
            needs=["design.assign"],
        )


def _check_of_pairs(p: Protocol, reading: Reading) -> None:
    needs = ["design.pairing"]
    if p.power.assume.discordance is not None:
        what = "discordance is about one unit in two arms"
        todo = "write `sd`, the standard deviation of a unit's outcome within an arm"
        reading.refuse("power.assume.discordance", what, todo=todo, needs=needs)
    if reading.is_given("analysis.also"):
        for name in p.analysis.also:
            if name in _OF_PAIRS:
                what = f"{name} compares the two outcomes of one unit"
                reading.refuse("analysis.also", what, found=name, todo="leave it out", needs=needs)
    for endpoint in p.endpoints:
        if endpoint.type == "win_rate":
            path = f"endpoints.{endpoint.name}.type"
            what = "a win rate compares the two outcomes of one unit"
            todo = "compare means: bounded, continuous or cost"
            reading.refuse(path, what, found="win_rate", todo=todo, needs=needs)
    for field in ("order_effect", "time_drift"):
        if getattr(p.diagnostics, field) != "show":
            what = f"{field} is looked for in differences of pairs"
            reading.refuse(f"diagnostics.{field}", what, todo="leave it out", needs=needs)

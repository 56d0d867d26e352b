"""A result as people read it: numbers, looks, what is missing, the verdict and its reason. Pure.

Leaves every number to the engine: the input is the long form of a result, version 1.

Rules:
- The verdict comes last, with its reason; "retrospective" stands beside it where it belongs.
- A test that ignores clusters says so.
- Where outcomes were declared invalid, both analyses are shown, each with its verdict.
- What is missing is shown even when it is nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .output import label
from .text_designs import assigned_lines, saving_lines, second_head, win_rate_lines
from .text_numbers import (
    clip,
    count,
    difference,
    interval,
    named,
    p_value,
    quantity,
    usd_alike,
    value,
)
from .text_rule import reason_words, rule_lines
from .text_tests import (
    METHODS,
    T_METHODS,
    against_text,
    beside_line,
    deciding_tests,
    pairs_line,
)
from .text_tipping import tipping_lines
from .text_why import why_text

__all__ = (
    "Detail",
    "comparison_lines",
    "endpoint_lines",
    "evidence_text",
    "look_lines",
    "missing_text",
    "result_text",
    "table_lines",
    "verdict_line",
)

Detail = Mapping[str, Any]

_STOPS = {
    "last_look": "",
    "boundary": "the run ended at a boundary",
    "ceiling": "the run ended at its ceiling",
    "wall_time": "the run ended when its time was up",
    "person": "a person ended the run",
}


def result_text(detail: Detail, *, kept: str = "") -> str:
    """Returns the whole result, the line of the verdict last.

    Args:
        detail: The long form.
        kept: What of the spend is reservations, in lines of their own.
    """
    lines = [label("result", _title(detail)), ""]
    for comparison in detail["comparisons"]:
        rule = detail.get("rule")
        if rule is not None:
            lines += [*rule_lines(rule, detail["units"]), ""]
        shown = comparison_lines(comparison, detail["labels"], with_looks=rule is None)
        lines += [*shown, ""]
    invalid = f"; {count(detail['invalidated'])} declared invalid" * bool(detail["invalidated"])
    lines += [label("missing", missing_text(detail["units"]) + invalid)]
    lines += [label("spent", _spent_text(detail) + kept)]
    lines += [label("warning", text) for text in detail["warnings"]]
    lines += [label("amended", _deviation(one)) for one in detail["deviations"]]
    if len(detail["comparisons"]) > 1:
        lines += [
            label("", f"{one['name']}: {one['verdict']}, {_reason(detail, one)}")
            for one in detail["comparisons"]
        ]
    return "\n".join([*lines, verdict_line(detail)])


def _title(detail: Detail) -> str:
    units = detail["units"]
    text = (
        f"{detail['experiment']}   {count(units['paired'])} of {count(units['planned'])}"
        f" {units['noun']}"
    )
    if units["cluster_noun"] != units["noun"]:
        text += f" in {count(units['clusters'])} {units['cluster_noun']}"
    stop = _STOPS[detail["stopped_by"]] if units["not_run_slots"] else ""
    note = clip(detail.get("stop_note") or "", 160)
    if note and detail["stopped_by"] in ("ceiling", "wall_time"):
        return f"{text}; {stop}, and a person ended the experiment there: {note}"
    return f"{text}; {stop}{f': {note}' if note else ''}" if stop else text


def comparison_lines(
    comparison: Detail, labels: Mapping[str, str], *, with_looks: bool = True
) -> Iterator[str]:
    """Yields the table of a comparison, its tests and its looks."""
    control, treatment = comparison["control"], comparison["treatment"]
    yield f"{_named(treatment, labels)} minus {_named(control, labels)}"
    yield from assigned_lines(comparison)
    yield from table_lines(comparison["endpoints"], control, treatment)
    for endpoint in comparison["endpoints"]:
        lines = list(endpoint_lines(endpoint, control, treatment))
        if lines:
            yield label(endpoint["name"], "\n".join(lines))
    if with_looks:
        yield from look_lines(comparison)
    yield from _diagnostic_lines(comparison)
    yield from second_lines(comparison)


def second_lines(comparison: Detail) -> Iterator[str]:
    """Yields the second analysis, where outcomes were declared invalid."""
    second = comparison.get("without_invalidated")
    if second is None:
        return
    yield ""
    yield from second_head(second)
    yield from table_lines(second["endpoints"], comparison["control"], comparison["treatment"])


def _diagnostic_lines(comparison: Detail) -> Iterator[str]:
    """Yields what was looked at before the verdict; what was found has a label of its own."""
    for one in comparison.get("diagnostics", ()):
        if one["positive"]:
            does = (
                "shown, does not touch the verdict"
                if one["effect"] == "show"
                else "registered to leave the verdict open"
            )
            yield label("found", f"{one['name'].replace('_', ' ')}: {one['text']}; {does}")
    clear = [one["text"] for one in comparison.get("diagnostics", ()) if not one["positive"]]
    if clear:
        yield label("checked", "\n".join(clear))


def _named(arm: str, labels: Mapping[str, str]) -> str:
    """Returns an arm with its label, where that says more."""
    words = labels.get(arm, arm)
    return arm if words == arm else f"{arm} ({clip(words, 60)})"


def table_lines(endpoints: Sequence[Detail], control: str, treatment: str) -> Iterator[str]:
    """Yields the table of arms, difference and interval, a row an endpoint."""
    rows = [["", control, treatment, "difference", "interval", ""]]
    for endpoint in endpoints:
        name = named(endpoint["name"], endpoint.get("measured_in"))
        rows += [_row(name, endpoint, endpoint, control, treatment)]
        if "log" in endpoint:
            rows += [_row("  as a ratio", endpoint["log"], endpoint, control, treatment)]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        cells = [f"{row[0]:<{widths[0]}}"]
        cells += [f"{cell:>{width}}" for cell, width in zip(row[1:5], widths[1:], strict=True)]
        yield ("   ".join(cells) + (f"   {row[5]}" if row[5] else "")).rstrip()


def _row(name: str, numbers: Detail, endpoint: Detail, control: str, treatment: str) -> list[str]:
    points = endpoint["in_points"] and numbers["scale"] == "raw"
    limits = numbers["interval"]
    row = [name, *(value(numbers["arms"][arm], points=points) for arm in (control, treatment))]
    if numbers["scale"] == "log":
        # On this scale a difference is the logarithm of a ratio, and the ratio is what people read.
        row += [_ratio(numbers["difference"]), _ratios(limits)]
    else:
        row += [difference(numbers["difference"], points=points), _between(limits, points)]
        if endpoint.get("type") == "win_rate":
            # Beside two rates, their difference would be taken for it: it is half of that.
            row[-2] += " from 50 %"
    return [*row, _basis(numbers, endpoint, limits)]


def _between(limits: Detail | None, points: bool) -> str:
    return interval(limits["lower"], limits["upper"], points=points) if limits else "none"


def _ratio(logarithm: float | None) -> str:
    return "none" if logarithm is None else f"x {math.exp(logarithm):.3g}"


def _ratios(limits: Detail | None) -> str:
    if limits is None:
        return "none"
    return " to ".join(_ratio(limits[side]).removeprefix("x ") for side in ("lower", "upper"))


def _basis(numbers: Detail, endpoint: Detail, limits: Detail | None) -> str:
    """Returns what an interval rests on, in brackets."""
    if limits is None:
        return f"({endpoint['undetermined']})" if endpoint.get("undetermined") else ""
    parts = [f"{_level(limits['level'])} %"]
    named = [_method(name, numbers["df"]) for name in limits["parts"]]
    # Where each unit is its own cluster, saying so twice tells nobody more.
    clusters, n = endpoint["units"]["clusters"], endpoint["units"].get("paired")
    parts.append(f"covers {' and '.join(named)}" if len(named) > 1 else "".join(named))
    alone = "units" if endpoint.get("assigned") else "pairs"
    parts.append(f"{count(clusters)} {alone if clusters == n else 'clusters'}")
    return f"({', '.join(part for part in parts if part)})"


def _method(name: str, df: float | None) -> str:
    words = METHODS.get(name, name)
    return f"{words} with {df:.1f} df" if df is not None and name in T_METHODS else words


def _level(level: float) -> str:
    return f"{100 * level:.1f}".removesuffix(".0")


def endpoint_lines(endpoint: Detail, control: str, treatment: str) -> Iterator[str]:
    """Yields what stands behind an endpoint's numbers, and what to know of them."""
    parts = endpoint["interval"]["parts"] if endpoint["interval"] else {}
    if len(parts) > 1:
        texts = [
            f"{METHODS.get(name, name)} {_limits(limits, endpoint)}"
            for name, limits in parts.items()
        ]
        yield f"a claim needs both {' and '.join(texts)}"
    yield from deciding_tests(endpoint)
    yield from pairs_line(endpoint, control, treatment)
    yield from win_rate_lines(endpoint.get("win_rate"), treatment)
    yield from saving_lines(endpoint.get("saving"), control)
    yield from beside_line(endpoint)
    if endpoint["units"]["excluded_count"] or sum(endpoint["units"]["lost"].values()):
        yield f"from all lost outcomes for {treatment} to all against it, {_bounds(endpoint)}"
    yield from tipping_lines(endpoint.get("tipping"), treatment)
    yield from _after_stopping(endpoint)
    said = ("mcnemar ignores clusters", endpoint.get("undetermined"))
    yield from (one for one in endpoint["warnings"] if one not in said)


def _after_stopping(endpoint: Detail) -> Iterator[str]:
    """Yields the stage-wise inference, where more than one look could have ended the experiment."""
    found = endpoint.get("after_stopping")
    if found is None or found["looks"] < 2:
        return
    points, null = endpoint["in_points"], endpoint.get("against")
    estimate = difference(found["estimate"], points=points)
    held = against_text(null, points=points, ratio=endpoint["scale"] == "log")
    yield (
        f"stage-wise, over {count(found['looks'])} looks: median-unbiased {estimate}"
        f" ({_limits(found, endpoint)}), one-sided p {p_value(found['p_one_sided'])}{held}"
    )


def _limits(limits: Detail, endpoint: Detail) -> str:
    return interval(limits["lower"], limits["upper"], points=endpoint["in_points"])


def _bounds(endpoint: Detail) -> str:
    bounds = endpoint["bounds"]
    if bounds["lower"] is None and bounds["upper"] is None:
        return "no bounds can be given"
    holds = {True: "; what is claimed holds", False: "; what is claimed may NOT hold", None: ""}
    return f"the limits lie within {_limits(bounds, endpoint)}{holds[bounds['claim_holds']]}"


def look_lines(comparison: Detail) -> Iterator[str]:
    """Yields the looks of a comparison, a line each."""
    for look in comparison["looks"]:
        endpoint = next(one for one in comparison["endpoints"] if one["name"] == look["endpoint"])
        yield _look_row_text(look, endpoint)


def _look_row_text(look: Detail, endpoint: Detail) -> str:
    """Returns one endpoint at one look in a line."""
    points, unit = endpoint["in_points"], endpoint.get("measured_in")
    name = named(look["endpoint"], None if endpoint["scale"] == "log" else unit)
    head = label(
        f"look {look['look']}",
        f"{count(look['n'])} units   {name} {difference(look['estimate'], points=points)}",
    )
    if not look["eligible"]:
        return f"{head}   cannot decide ({why_text(look['why_not'])})"
    crossed = {"no": "not crossed", "favourable": "CROSSED", "against": "CROSSED, against"}
    if look["p_value"] is None:
        limits = interval(look["lower"], look["upper"], points=points)
        return f"{head}   interval {limits}   {crossed[look['crossed']]}"
    # Against no difference goes without saying here: the line under the table says it.
    null = endpoint.get("against")
    plain = null is None or null["difference"] == 0.0
    held = "" if plain else against_text(null, points=points, ratio=endpoint["scale"] == "log")
    return (
        f"{head}   p {p_value(look['p_value'])}{held}, needed {p_value(look['nominal_p'])}"
        f"   {crossed[look['crossed']]}"
    )


def missing_text(units: Detail) -> str:
    """Returns what didn't end as an answer, by arm and status."""
    arms = [
        f"{arm}: " + ", ".join(f"{count(number)} {status}" for status, number in counts.items())
        for arm, counts in units["missing"].items()
        if counts
    ]
    text = "; ".join(arms) or "none"
    if units["not_run_slots"]:
        text += f"   ({quantity(units['not_run_slots'], 'slot')} not run, not counted as missing)"
    return text


def _spent_text(detail: Detail) -> str:
    spend = detail["spend_usd"]
    if not any(spend.values()):
        before = " and ".join(arm for arm in spend if arm in detail["existed_before"])
        # What a table says of costs may be an endpoint; this plan has spent none of it.
        return (
            f"nothing by this plan: the outcomes of {before} existed before"
            if before
            else ("nothing recorded")
        )
    whole, *each = usd_alike(sum(spend.values()), *spend.values())
    arms = ", ".join(f"{arm} {amount}" for arm, amount in zip(spend, each, strict=True))
    return f"{whole} usd ({arms})"


def _deviation(one: Detail) -> str:
    fields = ", ".join(one["fields"])
    return (
        f"{fields} ({one['class']}; entry {count(one['seq'])},"
        f" after {quantity(one['outcomes'], 'outcome')} and"
        f" {quantity(one['looks_taken'], 'look')}): {clip(one['reason'], 160)}"
    )


def verdict_line(detail: Detail) -> str:
    """Returns the verdict with its reason and its evidence."""
    text = f"{detail['verdict'].upper()}: {_reason(detail, detail)}"
    return label("VERDICT", f"{text}\n{evidence_text(detail)}")


def _reason(detail: Detail, one: Detail) -> str:
    return str(one["reason"]) if detail.get("rule") is None else reason_words(one["reason"])


def evidence_text(detail: Detail) -> str:
    """Returns how far the plan came before the data."""
    existed = detail["existed_before"]
    if existed or detail["evidence"] != "live":
        whose = f"the outcomes of {' and '.join(existed)}" if existed else "the outcomes"
        return f"retrospective: {whose} existed before the protocol was registered"
    if detail["as_registered"]:
        early = ", but ended by a person before its last look"
        return "as registered" + early * bool(detail.get("stop_note"))
    why = ["arms unblinded early"] * bool(detail.get("unblinded_early"))
    why += [f"amended {', '.join(detail['amended'])}"] * bool(detail["amended"])
    return f"NOT AS REGISTERED: {'; '.join(why)}"

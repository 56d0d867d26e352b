"""The members of a result's long form that say one endpoint's numbers. Pure.

Leaves the form itself to `result_detail.py`, and the numbers to `finals.py`.

Rules:
- Both analyses of a result say their numbers in the same members.
- Every number that doesn't exist is null; nothing here is rounded.
"""

from __future__ import annotations

from fairtrial.ledger.protocol import Comparison

from .beside import Json
from .boundaries import discordance_counts
from .estimates import Numbers
from .finals import Final
from .slot_values import ONE_OR_NONE
from .winning import EVEN, wins_of
from .wording import in_points

__all__ = (
    "discordant_member",
    "identity_members",
    "number_members",
    "saving_member",
    "second_endpoint",
    "standing_members",
    "units_members",
    "win_rate_member",
)


def second_endpoint(comparison: Comparison, final: Final) -> Json:
    """Returns an endpoint of the second analysis: what differs from the first, in its shape."""
    control, treatment = comparison.control, comparison.treatment
    shape: Json = {
        **identity_members(final),
        **number_members(final, final.scales[0], control, treatment),
        "p_value": final.p_value,
        "win_rate": win_rate_member(final, final.scales[0]),
        "units": units_members(final),
        **standing_members(final),
    }
    saving = saving_member(final)
    if saving is not None:
        shape["saving"] = saving
    if len(final.scales) > 1:
        shape["log"] = number_members(final, final.scales[1], control, treatment)
    return shape


def identity_members(final: Final) -> Json:
    """Returns what an endpoint is."""
    return {
        "name": final.endpoint.name,
        "role": final.endpoint.role,
        "type": final.endpoint.type,
        "in_points": in_points(final.endpoint),
        "assigned": final.pairs.treated is not None,
    }


def number_members(final: Final, numbers: Numbers, control: str, treatment: str) -> Json:
    """Returns the numbers on one scale."""
    return {
        "scale": numbers.scale,
        "arms": {control: numbers.control, treatment: numbers.treatment},
        "difference": numbers.estimate,
        "standard_error": numbers.standard_error,
        "df": numbers.df,
        "interval": _interval(final, numbers),
        "discordant_clusters": numbers.discordant_clusters
        if discordance_counts(final.endpoint) and final.pairs.treated is None
        else None,
    }


def discordant_member(final: Final, numbers: Numbers) -> Json | None:
    """Returns how many pairs only one arm has, where an outcome is one or none."""
    if final.endpoint.type not in ONE_OR_NONE or final.pairs.treated is not None:
        return None
    return {
        "only_control": numbers.only_control,
        "only_treatment": numbers.only_treatment,
    }


def win_rate_member(final: Final, numbers: Numbers) -> Json | None:
    """Returns the treatment's win rate with its limits, and what it is made of."""
    if final.endpoint.type != "win_rate":
        return None
    limits = (numbers.lower, numbers.upper)
    lower, upper = (None if limit is None else EVEN + limit for limit in limits)
    counts = wins_of(final.pairs)._asdict()
    return {"estimate": numbers.treatment, "lower": lower, "upper": upper, **counts}


def saving_member(final: Final) -> Json | None:
    """Returns what decided a saving on the raw scale; None for any other endpoint."""
    saved = final.scales[0].saved
    if saved is None:
        return None
    return {
        "share": saved.share,
        "lower": saved.share_lower,
        "upper": saved.share_upper,
        "level": 1.0 - final.nominal_p,
        "method": "fieller",
        "why_not": saved.why_not,
        "control_above_zero": saved.has_level,
        "contrast": {
            "estimate": saved.contrast,
            "standard_error": saved.standard_error,
            "lower": saved.lower,
            "upper": saved.upper,
        },
    }


def units_members(final: Final, excluded: list[str] | None = None) -> Json:
    """Returns how many units count, and what was lost; with the ids that left where given."""
    pairs = final.pairs
    named = {} if excluded is None else {"excluded": excluded}
    return {
        "planned": pairs.planned,
        "paired": int(pairs.units.size),
        "clusters": final.scales[0].clusters,
        "excluded_count": int(pairs.excluded.size),
        **named,
        "lost": dict(pairs.lost),
        "missing": {arm: dict(counts) for arm, counts in pairs.statuses.items()},
    }


def standing_members(final: Final) -> Json:
    """Returns whether an endpoint may decide, and why not."""
    return {
        "eligible": None if final.reading is None else final.reading.eligible,
        "why_not": [] if final.reading is None else list(final.reading.why_not),
        "undetermined": final.undetermined,
    }


def _interval(final: Final, numbers: Numbers) -> Json | None:
    if numbers.lower is None or numbers.upper is None:
        return None
    return {
        "lower": numbers.lower,
        "upper": numbers.upper,
        "level": 1.0 - final.nominal_p,
        "method": "+".join(numbers.parts),
        "parts": {
            name: {"lower": lower, "upper": upper} for name, (lower, upper) in numbers.parts.items()
        },
    }

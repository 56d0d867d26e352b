"""The numbers of a saving: those of its endpoint, and what decides whether enough is saved. Pure.

Leaves the formula of the share to `analysis/saving.py`, the claim and its guards to `readings.py`.

Rules:
- On the raw scale a saving of a share s is a contrast: treatment - (1 - s) x control, unit by
  unit. Its interval is that of any mean, in which control's mean is estimated, not taken as known.
- Estimate, error and limits of the endpoint stay those of the difference. Tests and p are of the
  contrast, and have names of their own.
- Without an interval of the difference or of the contrast there is no saving.
- A share of a mean that may be negative means nothing. A cost, or what has bounds from 0 up, has a
  mean above 0 once it is measured so; of any other endpoint the limits must show it, and the larger
  p counts. A saving of any size (s = 0) is the plain difference and asks for no level.
- Of two completions the hull counts, as everywhere.
- On the log scale the least share is a fixed number, and the test stands at it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from fairtrial.analysis.guarded import all_finite, computed
from fairtrial.analysis.saving import ShareSaved, share_saved, share_saved_between_arms
from fairtrial.analysis.values import Undetermined
from fairtrial.ledger.protocol import Endpoint, Protocol

from .assigned_arrays import in_arm
from .boundaries import NOMINAL_P_MIN
from .estimates import Numbers, Saved, ScaleName, estimate
from .frames import Completion, Pairs

__all__ = ("is_saved", "numbers_of_saving")

# Stands in where the boundary's own p is out of reach: no limit made with it is shown.
_ANY_P: Final = 0.05


def numbers_of_saving(
    pairs: Pairs, protocol: Protocol, endpoint: Endpoint, scale: ScaleName, *, nominal_p: float
) -> Numbers:
    """Computes the numbers of the saving's endpoint.

    Args:
        pairs: its pairs.
        protocol: the least share, the estimand, and whether each unit is its own cluster.
        endpoint: the endpoint.
        scale: raw or log.
        nominal_p: two-sided p that the look allows.
    """
    least = _least(protocol)
    if scale == "log":
        null = math.log1p(-least)
        return estimate(pairs, protocol, endpoint, scale, nominal_p=nominal_p, null=null)
    numbers = estimate(pairs, protocol, endpoint, scale, nominal_p=nominal_p)
    contrast = estimate(_contrasted(pairs, least), protocol, endpoint, scale, nominal_p=nominal_p)
    flat = numbers.zero_variance or contrast.zero_variance
    undetermined = numbers.undetermined or contrast.undetermined
    if numbers.p_value is None or contrast.p_value is None:
        none = replace(numbers, lower=None, upper=None, t_critical=None, parts={})
        return replace(none, tests={}, p_value=None, zero_variance=flat, undetermined=undetermined)
    shares = _shares(pairs, protocol, nominal_p)
    tests = {f"{name}_saving": p for name, p in contrast.tests.items()}
    level_p = _level_p(endpoint, shares) if least > 0.0 else 0.0
    if level_p > 0.0:
        tests["control_level"] = level_p
    return replace(
        numbers,
        tests=tests,
        p_value=max(contrast.p_value, level_p),
        zero_variance=flat,
        undetermined=undetermined,
        saved=_saved(contrast, shares, has_level=level_p < nominal_p),
    )


def is_saved(protocol: Protocol, numbers: Numbers) -> bool:
    """Returns whether the limits show the registered saving on one scale."""
    if numbers.lower is None or numbers.upper is None:
        return False
    if numbers.scale == "log":
        return numbers.upper < math.log1p(-_least(protocol))
    saved = numbers.saved
    return saved is not None and saved.has_level and saved.upper < 0.0


def _least(protocol: Protocol) -> float:
    assert protocol.decision.saving is not None, "its endpoint is tested"
    return protocol.decision.saving.at_least


def _contrasted(pairs: Pairs, least: float) -> Pairs:
    """Returns the pairs with control's values at the most that a saving leaves of them."""
    kept = 1.0 - least
    return replace(
        pairs,
        completions=tuple(
            Completion(control=kept * each.control, treatment=each.treatment)
            for each in pairs.completions
        ),
    )


def _level_p(endpoint: Endpoint, shares: Sequence[ShareSaved]) -> float:
    """Returns the p of a control mean of 0; 0 where it is above 0 by what is measured."""
    if not shares or any(each.share is None for each in shares):
        return 1.0
    if endpoint.type == "cost" or (endpoint.bounds is not None and endpoint.bounds[0] >= 0.0):
        return 0.0
    return max(each.level_p for each in shares)


def _shares(pairs: Pairs, protocol: Protocol, nominal_p: float) -> list[ShareSaved]:
    """Returns the share of each completion; none where one can't be computed."""
    alpha = nominal_p if NOMINAL_P_MIN <= nominal_p < 1.0 else _ANY_P
    found = [computed(partial(_share, each, pairs, protocol, alpha)) for each in pairs.completions]
    known = [each for each in found if isinstance(each, ShareSaved) and _is_finite(each)]
    return known if len(known) == len(found) else []


def _share(
    completion: Completion, pairs: Pairs, protocol: Protocol, alpha: float
) -> ShareSaved | Undetermined:
    estimand = protocol.analysis.estimand
    if pairs.treated is not None:
        return share_saved_between_arms(
            in_arm(completion, pairs),
            pairs.treated,
            pairs.clusters,
            estimand=estimand,
            alpha=alpha,
        )
    return share_saved(
        completion.control,
        completion.treatment,
        pairs.clusters,
        estimand=estimand,
        alpha=alpha,
    )


def _is_finite(found: ShareSaved) -> bool:
    return all_finite((found.share, found.lower, found.upper, found.level_p))


def _saved(contrast: Numbers, shares: Sequence[ShareSaved], *, has_level: bool) -> Saved | None:
    """Returns what decides, with the hull of the shares; None without limits of the contrast."""
    if contrast.lower is None or contrast.upper is None or contrast.estimate is None:
        return None
    middles = [each.share for each in shares if each.share is not None]
    lowers = [each.lower for each in shares if each.lower is not None]
    uppers = [each.upper for each in shares if each.upper is not None]
    has_share = bool(shares) and len(middles) == len(shares)
    has_limits = bool(shares) and len(lowers) == len(uppers) == len(shares)
    return Saved(
        contrast=contrast.estimate,
        standard_error=contrast.standard_error,
        lower=contrast.lower,
        upper=contrast.upper,
        has_level=has_level,
        share=(min(middles) + max(middles)) / 2.0 if has_share else None,
        share_lower=min(lowers) if has_limits else None,
        share_upper=max(uppers) if has_limits else None,
        why_not=None if has_limits else _why_not(shares),
    )


def _why_not(shares: Sequence[ShareSaved]) -> str:
    known = (each.why_not for each in shares if each.why_not is not None)
    return next(known, "the share saved can't be computed from these values")

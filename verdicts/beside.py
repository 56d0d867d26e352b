"""Tests that are shown beside the deciding ones, and what a reader has to be warned of. Pure.

Leaves the deciding tests to `estimates.py`.

Rules:
- Nothing here decides. A test that ignores clusters says so wherever there are clusters.
- Monte Carlo draws come from the registered seed.
- The other estimand is shown where units are in clusters; a difference between the two of more
  than one standard error means that the size of a cluster carries information.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final as Constant
from typing import TypeAlias

from fairtrial.analysis.grouping import group
from fairtrial.analysis.guarded import computed
from fairtrial.analysis.mcnemar import mcnemar_exact, mcnemar_midp
from fairtrial.analysis.paired import (
    ClusteredMean,
    clustered_mean,
    equal_weight_mean,
    t_interval,
    t_test,
)
from fairtrial.analysis.reasons import signed
from fairtrial.analysis.signflip import sign_flip
from fairtrial.analysis.values import Estimand, Undetermined
from fairtrial.ledger.protocol import Protocol

from .assigned_arrays import arm_difference, sample_ratio
from .boundaries import NOMINAL_P_MIN
from .endings import Ending
from .estimates import BY_LABEL
from .finals import Final
from .frames import Frame, Pairs
from .resampled import auc_bootstrap_beside, bootstrap_beside, wild_beside
from .slot_values import ONE_OR_NONE
from .wording import cluster_noun, in_points, plural, unit_noun

__all__ = ("Json", "tests_beside", "warnings_of")

Json: TypeAlias = dict[str, object]

_ANY_P: Constant = 0.05
_DIFFERS_P: Constant = 0.05


def tests_beside(frame: Frame, final: Final) -> Json:
    """Returns all tests of an endpoint by name, the deciding ones first."""
    tests: Json = {
        name if numbers.scale == "raw" else f"log_{name}": {"p_value": p}
        for numbers in final.scales
        for name, p in numbers.tests.items()
    }
    also = frame.protocol.analysis.also
    if final.pairs.treated is not None:
        return {**tests, **_of_arms(frame.protocol, final)}
    if "mcnemar" in also and final.endpoint.type in ONE_OR_NONE:
        tests["mcnemar"] = _mcnemar(frame.protocol, final)
    if "bootstrap" in also and final.endpoint.type == "auc" and final.pairs.units.size:
        tests["bootstrap"] = _beside(
            lambda: auc_bootstrap_beside(frame.protocol, final.pairs, _alpha(final))
        )
    if not _has_differences(final):
        return tests
    if "sign_flip" in also:
        tests["sign_flip"] = _beside(lambda: _sign_flip(frame.protocol, final.pairs))
    if "bootstrap" in also:
        tests["bootstrap"] = _beside(lambda: _bootstrap(frame.protocol, final))
    if "wild_bootstrap" in also:
        differences = final.pairs.differences
        tests["wild_bootstrap"] = _beside(
            lambda: wild_beside(frame.protocol, final.pairs, differences)
        )
    if "cluster_weighted" in also and frame.protocol.units.cluster is not None:
        name = _other_name(frame.protocol)
        tests[name] = _beside(
            lambda: _mean_test(_other_estimand(frame.protocol, final.pairs), final)
        )
    return tests


def _of_arms(protocol: Protocol, final: Final) -> Json:
    """Returns what is shown beside where each unit is in one arm: no test compares its outcomes."""
    wanted = "cluster_weighted" in protocol.analysis.also and protocol.units.cluster is not None
    if not wanted or not _has_differences(final):
        return {}
    other = _beside(lambda: _mean_test(_other_estimand(protocol, final.pairs), final))
    return {_other_name(protocol): other}


def _beside(test: Callable[[], Json]) -> Json:
    """Returns what a test shows, or that it can't be computed from these values."""
    found = computed(test)
    if isinstance(found, Undetermined):
        return {"p_value": None, "undetermined": found.reason}
    return found


def _bootstrap(protocol: Protocol, final: Final) -> Json:
    return bootstrap_beside(protocol, final.pairs, final.pairs.differences, _alpha(final))


def _alpha(final: Final) -> float:
    """Returns the two-sided error of what is shown beside: that of the deciding interval."""
    return final.nominal_p if final.nominal_p >= NOMINAL_P_MIN else _ANY_P


def warnings_of(frame: Frame, ending: Ending, final: Final) -> list[str]:
    """Returns what a reader of an endpoint's numbers has to know."""
    found = list(_pair_warnings(frame, final))
    if final.reading is None:
        found.append("shown beside: it does not decide")
    if not ending.planned:
        found.append("the run did not end as planned, so the interval does not keep its level")
    shown = "mcnemar" in frame.protocol.analysis.also and final.endpoint.type in ONE_OR_NONE
    if shown and final.pairs.treated is None and frame.protocol.units.cluster is not None:
        found.append("mcnemar ignores clusters")
    if _has_differences(final):
        found.extend(_estimand_warnings(frame.protocol, final))
    return found


def _has_differences(final: Final) -> bool:
    """Returns whether the endpoint is a mean of one difference a pair."""
    means = final.endpoint.type not in BY_LABEL and final.scales[0].scale == "raw"
    return means and bool(final.pairs.units.size)


def _mcnemar(protocol: Protocol, final: Final) -> Json:
    only_control, only_treatment = final.scales[0].only_control, final.scales[0].only_treatment
    return {
        "p_value": mcnemar_exact(only_control, only_treatment),
        "mid_p": mcnemar_midp(only_control, only_treatment),
        "ignores_clusters": protocol.units.cluster is not None,
    }


def _sign_flip(protocol: Protocol, pairs: Pairs) -> Json:
    groups = group(pairs.differences, pairs.clusters)
    by_unit = protocol.analysis.estimand == "unit_weighted"
    sums = groups.sums if by_unit else groups.sums / groups.sizes
    found = sign_flip(sums, seed=protocol.design.seed, resamples=protocol.analysis.resamples)
    shape: Json = {"p_value": found.p_value, "exact": found.exact}
    return shape if found.exact else {**shape, "draws": protocol.analysis.resamples}


def _other_name(protocol: Protocol) -> Estimand:
    by_unit = protocol.analysis.estimand == "unit_weighted"
    return "cluster_weighted" if by_unit else "unit_weighted"


def _other_estimand(protocol: Protocol, pairs: Pairs) -> ClusteredMean | Undetermined:
    name = _other_name(protocol)
    if pairs.treated is not None:
        return arm_difference(pairs, name)
    other = equal_weight_mean if name == "cluster_weighted" else clustered_mean
    return other(pairs.differences, pairs.clusters)


def _mean_test(mean: ClusteredMean | Undetermined, final: Final) -> Json:
    if isinstance(mean, Undetermined):
        return {"p_value": None, "estimate": None, "lower": None, "upper": None}
    interval, p_value = t_interval(mean, alpha=_alpha(final)), t_test(mean)
    limits = None if isinstance(interval, Undetermined) else interval
    return {
        "p_value": None if isinstance(p_value, Undetermined) else p_value,
        "estimate": mean.estimate,
        "lower": limits.lower if limits else None,
        "upper": limits.upper if limits else None,
    }


def _pair_warnings(frame: Frame, final: Final) -> Iterator[str]:
    pairs, nouns = final.pairs, plural(unit_noun(frame.protocol))
    if pairs.excluded.size:
        where = "in both arms" if pairs.treated is None else "from the arm that they are in"
        yield f"excluded {where}: {pairs.excluded.size} of {pairs.planned} {nouns}"
    if len(pairs.completions) > 1:
        yield "lost outcomes were filled in both ways; the interval holds for either"
    if any(pairs.lost.values()) and _arms_differ(frame, pairs):
        yield "the arms lost outcomes at different rates"
    if final.undetermined is not None:
        yield final.undetermined


def _arms_differ(frame: Frame, pairs: Pairs) -> bool:
    protocol = frame.protocol
    if pairs.treated is not None:
        return all(pairs.planned_of.values()) and sample_ratio(frame.protocol, pairs) < _DIFFERS_P
    sums = group(pairs.lost_difference, pairs.planned_clusters).sums
    found = sign_flip(sums, seed=protocol.design.seed, resamples=protocol.analysis.resamples)
    return found.p_value < _DIFFERS_P


def _shown(final: Final, estimate: float) -> str:
    return signed(estimate, in_points=in_points(final.endpoint))


def _estimand_warnings(protocol: Protocol, final: Final) -> Iterator[str]:
    if protocol.units.cluster is None:
        return
    numbers = final.scales[0]
    mean = computed(lambda: _other_estimand(protocol, final.pairs))
    if isinstance(mean, Undetermined) or numbers.estimate is None or not numbers.standard_error:
        return
    if abs(mean.estimate - numbers.estimate) > numbers.standard_error:
        words = _other_name(protocol).replace("_", "-")
        yield (
            f"the {words} difference is {_shown(final, mean.estimate)}: how large a "
            f"{cluster_noun(protocol)} is carries information"
        )

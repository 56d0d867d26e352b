"""Resampling that is shown beside the deciding test: cluster bootstrap, wild bootstrap-t. Pure.

Leaves the draws to `analysis/resampling.py`, `analysis/auc_bootstrap.py` and `analysis/wild.py`.

Rules:
- Whole clusters are resampled, by the registered estimand; draws come from the registered seed.
- Percentile and BCa intervals are too narrow for few clusters: they are a description, and the
  result says so of them.
- Nothing here decides.
"""

from __future__ import annotations

from typing import TypeAlias

from fairtrial.analysis.auc_bootstrap import auc_bootstrap
from fairtrial.analysis.grouping import FloatArray, group
from fairtrial.analysis.resampling import Bootstrap, cluster_bootstrap
from fairtrial.analysis.values import Interval, Undetermined
from fairtrial.analysis.wild import wild_bootstrap_t
from fairtrial.ledger.protocol import Protocol

from .frames import Pairs

__all__ = ("auc_bootstrap_beside", "bootstrap_beside", "wild_beside")

Json: TypeAlias = dict[str, object]


def bootstrap_beside(
    protocol: Protocol, pairs: Pairs, differences: FloatArray, alpha: float
) -> Json:
    """Returns three bootstrap intervals of the mean difference; the studentised one leads."""
    sums, sizes = _clusters(protocol, pairs, differences)
    found = cluster_bootstrap(
        sums,
        sizes,
        seed=protocol.design.seed,
        resamples=protocol.analysis.resamples,
        alpha=alpha,
    )
    return _shown(found)


def auc_bootstrap_beside(protocol: Protocol, pairs: Pairs, alpha: float) -> Json:
    """Returns three bootstrap intervals of the difference of two areas under the curve.

    Lost outcomes that are completed in two ways have none: the intervals are of one set of scores.
    """
    assert pairs.labels is not None
    first, *others = pairs.completions
    if others:
        return _shown(Undetermined("lost outcomes were filled in both ways"))
    found = auc_bootstrap(
        first.control,
        first.treatment,
        pairs.labels,
        pairs.clusters,
        seed=protocol.design.seed,
        resamples=protocol.analysis.resamples,
        alpha=alpha,
    )
    return _shown(found)


def _shown(found: Bootstrap | Undetermined) -> Json:
    if isinstance(found, Undetermined):
        return {"estimate": None, "lower": None, "upper": None, "undetermined": found.reason}
    return {
        "estimate": found.estimate,
        **_limits(found.studentised),
        "method": "studentised",
        "resamples": found.resamples,
        "description_only": _described(found),
    }


def wild_beside(protocol: Protocol, pairs: Pairs, differences: FloatArray) -> Json:
    """Returns the p of the wild cluster bootstrap-t."""
    sums, sizes = _clusters(protocol, pairs, differences)
    found = wild_bootstrap_t(
        sums, sizes, seed=protocol.design.seed, resamples=protocol.analysis.resamples
    )
    if isinstance(found, Undetermined):
        return {"p_value": None, "undetermined": found.reason}
    return {"p_value": found.p_value, "exact": found.exact}


def _clusters(
    protocol: Protocol, pairs: Pairs, differences: FloatArray
) -> tuple[FloatArray, FloatArray]:
    groups = group(differences, pairs.clusters)
    if protocol.analysis.estimand == "cluster_weighted":
        return groups.sums / groups.sizes, groups.sizes / groups.sizes
    return groups.sums, groups.sizes


def _described(found: Bootstrap) -> Json:
    return {"percentile": _limits(found.percentile), "bca": _limits(found.bca)}


def _limits(found: Interval | Undetermined) -> Json:
    if isinstance(found, Undetermined):
        return {"lower": None, "upper": None}
    return {"lower": found.lower, "upper": found.upper}

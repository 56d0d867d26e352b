"""Every number of statistics.json, computed elsewhere, is met within its tolerance.

README.md beside it says what each method and input means. FAIRTRIAL_REFERENCE names another file
of the same shape, so that no method can lean on the cases at hand.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairtrial.analysis import auc as area
from fairtrial.analysis import (
    calibration,
    classical,
    confidence_sequences,
    correlation,
    distributions,
    equivalence,
    intervals,
    multiplicity,
    paired,
    passk,
    resampling,
    riskcontrol,
    samplesize,
    sequential,
    stagewise,
)
from fairtrial.analysis.clustered_mcnemar import clustered_mcnemar
from fairtrial.analysis.grouping import FloatArray, IntArray
from fairtrial.analysis.signflip import min_attainable_p
from fairtrial.analysis.values import Undetermined
from fairtrial.analysis.wild import wild_bootstrap_t

FILE = os.environ.get("FAIRTRIAL_REFERENCE") or Path(__file__).with_name("statistics.json")
CASES: list[dict[str, Any]] = json.loads(Path(FILE).read_text(encoding="utf-8"))

Inputs = Mapping[str, Any]
Found = dict[str, Any]


def _codes(names: Sequence[str]) -> IntArray:
    return np.unique(np.array(names), return_inverse=True)[1].astype(np.int64)


def _floats(values: Sequence[float]) -> FloatArray:
    return np.array(values, dtype=np.float64)


def _alpha(i: Inputs) -> float:
    return float(1.0 - i["confidence"])


def _limits(interval: Any) -> Found:
    assert not isinstance(interval, Undetermined), interval
    return {"lower": interval.lower, "upper": interval.upper}


def _fields(value: Any) -> Found:
    assert is_dataclass(value), value
    assert not isinstance(value, type)
    return asdict(value)


_SPENDING: dict[str, Any] = {
    "obrien_fleming": "lan_demets_obrien_fleming",
    "pocock": "lan_demets_pocock",
}


def _spending(i: Inputs) -> Found:
    return _fields(
        sequential.spending_boundary(
            i["information"],
            alpha=i["alpha"],
            sides=i["sided"],
            spending=_SPENDING.get(i["spending"]) or i["spending"],
            parameter=i.get("parameter"),
        )
    )


def _classical(i: Inputs) -> Found:
    return _fields(
        classical.classical_boundary(
            i["family"],
            i["information"],
            alpha=i["alpha"],
            sides=i["sided"],
            delta=i.get("delta"),
        )
    )


def _inflation(i: Inputs) -> Found:
    boundary = classical.classical_boundary(
        i["family"], i["information"], alpha=i["alpha"], sides=i["sided"]
    )
    return _fields(
        classical.inflation(
            boundary.critical_values,
            i["information"],
            alpha=i["alpha"],
            power=i["power"],
            sides=i["sided"],
        )
    )


def _haybittle(i: Inputs) -> Found:
    return {
        "critical_values": classical.haybittle_peto(
            i["interim"], i["information"], alpha=i["alpha"], sides=i["sided"]
        )
    }


def _exit(i: Inputs) -> Found:
    return _fields(
        sequential.exit_probability(
            i["critical_values"], i["information"], sides=i["sided"], drift=i.get("drift", 0.0)
        )
    )


def _repeated(i: Inputs) -> Found:
    pairs = [
        sequential.repeated_interval(*each)
        for each in zip(i["estimates"], i["standard_errors"], i["critical_values"], strict=True)
    ]
    return {"lower": [p[0] for p in pairs], "upper": [p[1] for p in pairs]}


def _stagewise(i: Inputs) -> Found:
    return _fields(
        stagewise.stagewise(
            i["critical_values"],
            i["information"],
            look=i["look"],
            z=i["z"],
            sides=i["sided"],
            alpha=_alpha(i),
        )
    )


def _mean_difference(i: Inputs) -> Found:
    mean = paired.clustered_mean(_floats(i["differences"]), _codes(i["clusters"]))
    assert not isinstance(mean, Undetermined)
    found: dict[str, Any] = {
        "mean": mean.estimate,
        "n": mean.n,
        "clusters": mean.clusters,
        "se_cr0": mean.cr0,
        "se_cr1": mean.cr1,
        "se_cr2": mean.cr2,
        "se_cr3": mean.cr3,
        "df_cr2": mean.df,
        "degenerate": mean.degenerate,
    }
    interval = paired.t_interval(mean, alpha=_alpha(i))
    if isinstance(interval, Undetermined):
        return found
    half = distributions.t_upper_quantile(_alpha(i) / 2.0, mean.clusters - 1) * mean.cr1
    return found | {
        "t_cr2": mean.estimate / mean.standard_error,
        "p_cr2": paired.t_test(mean),
        "lower_cr2": interval.lower,
        "upper_cr2": interval.upper,
        "lower_cr1_t": mean.estimate - half,
        "upper_cr1_t": mean.estimate + half,
    }


def _equal_weight(i: Inputs) -> Found:
    mean = paired.equal_weight_mean(_floats(i["differences"]), _codes(i["clusters"]))
    assert not isinstance(mean, Undetermined)
    df = int(mean.df)
    assert df == mean.df
    return _limits(paired.t_interval(mean, alpha=_alpha(i))) | {
        "mean": mean.estimate,
        "se": mean.standard_error,
        "df": df,
        "p_value": paired.t_test(mean),
    }


def _t_mean(i: Inputs) -> Found:
    found = intervals.t_mean(_floats(i["values"]), alpha=_alpha(i))
    assert not isinstance(found, Undetermined)
    return _limits(found.interval) | _fields(found) | {"se": found.standard_error}


def _tango(i: Inputs) -> Found:
    n = i["n11"] + i["n10"] + i["n01"] + i["n00"]
    found = intervals.tango(i["n10"], i["n01"], n, alpha=_alpha(i))
    return _limits(found) | {"estimate": (i["n01"] - i["n10"]) / n}


def _newcombe(i: Inputs) -> Found:
    counts = (i["n11"], i["n10"], i["n01"], i["n00"])
    found = intervals.newcombe_paired(*counts, alpha=_alpha(i), phi_correction=i["phi_correction"])
    return _limits(found) | {"estimate": (i["n01"] - i["n10"]) / sum(counts)}


def _bonett(i: Inputs) -> Found:
    n = i["n11"] + i["n10"] + i["n01"] + i["n00"]
    return _limits(intervals.bonett_price(i["n10"], i["n01"], n, alpha=_alpha(i)))


def _tango_adjusted(i: Inputs) -> Found:
    found = intervals.tango_cluster_adjusted(
        _floats(i["differences"]), _codes(i["clusters"]), alpha=_alpha(i)
    )
    assert not isinstance(found, Undetermined)
    return _fields(found) | {"design_effect": found.deff}


def _wilson(i: Inputs) -> Found:
    return _limits(
        intervals.wilson(
            i["successes"],
            i["n"],
            alpha=_alpha(i),
            continuity_correction=i.get("continuity_correction", False),
        )
    )


def _hoeffding(i: Inputs) -> Found:
    found = intervals.hoeffding(i["mean"], i["n"], low=i["low"], high=i["high"], alpha=_alpha(i))
    half = intervals.hoeffding_half_width(i["n"], low=i["low"], high=i["high"], alpha=_alpha(i))
    return _limits(found) | {"half_width": half}


def _bernstein(i: Inputs) -> Found:
    values = _floats(i["values"])
    bounds = {"low": i["low"], "high": i["high"], "alpha": _alpha(i)}
    found = intervals.empirical_bernstein(values, **bounds)
    half = intervals.bernstein_half_width(values.var(ddof=1), values.size, **bounds)
    return _limits(found) | {"mean": values.mean(), "half_width": half}


def _sign_flip(i: Inputs) -> Found:
    return _fields(paired.sign_flip(_floats(i["cluster_sums"]), seed=1))


def _wild(i: Inputs) -> Found:
    return _fields(
        wild_bootstrap_t(
            _floats(i["cluster_sums"]),
            _floats(i["cluster_sizes"]),
            seed=1,
            weights="rademacher",
        )
    )


def _bootstrap(i: Inputs) -> Found:
    found = resampling.cluster_bootstrap(
        _floats(i["cluster_sums"]),
        _floats(i["cluster_sizes"]),
        seed=20261129,
        resamples=20_000,
        alpha=_alpha(i),
    )
    assert not isinstance(found, Undetermined)
    return _limits(found.percentile) | {
        "estimate": found.estimate,
        "bootstrap_se": found.standard_error,
    }


def _percentile(i: Inputs) -> Found:
    half = _alpha(i) / 2.0
    found = resampling.percentile_limits(_floats(i["replicates"]), half, 1.0 - half)
    assert not isinstance(found, Undetermined)
    return {"lower": found[0], "upper": found[1]}


def _bca(i: Inputs) -> Found:
    return _fields(
        resampling.bca_levels(
            i["estimate"], _floats(i["replicates"]), _floats(i["jackknife"]), alpha=_alpha(i)
        )
    )


def _delong(i: Inputs) -> Found:
    found = area.auc_delong(_floats(i["positives"]), _floats(i["negatives"]), alpha=_alpha(i))
    assert not isinstance(found, Undetermined)
    return _limits(found.interval) | {"auc": found.auc, "variance": found.variance}


def _obuchowski(i: Inputs) -> Found:
    found = area.auc_clustered(_floats(i["scores"]), np.array(i["labels"]), _codes(i["clusters"]))
    assert not isinstance(found, Undetermined)
    return {"auc": found.estimate, "variance": found.variance}


def _sequence(function: Callable[..., confidence_sequences.Limits]) -> Callable[[Inputs], Found]:
    def run(i: Inputs) -> Found:
        found = function(_floats(i["values"]), alpha=i["alpha"])
        places = [t - 1 for t in i["report_at"]]
        return {"lower": found.lower[places].tolist(), "upper": found.upper[places].tolist()}

    return run


def _asymptotic(i: Inputs) -> Found:
    found = confidence_sequences.asymptotic(
        i["mean"], i["sd"], i["n"], rho=i["rho"], alpha=i["alpha"]
    )
    return _limits(found) | {"half_width": (found.upper - found.lower) / 2.0}


def _mixture(i: Inputs) -> Found:
    assert i["sided"] == 1
    return {
        "bound": confidence_sequences.normal_mixture_bound(
            i["v"], alpha=i["alpha"], v_opt=i["v_opt"]
        )
    }


def _family(i: Inputs) -> Found:
    return _fields(clustered_mcnemar(*(np.array(i[k]) for k in "abcd")))


def _miller(i: Inputs) -> Found:
    return _fields(correlation.miller_clustered(_floats(i["values"]), _codes(i["clusters"])))


def _tost_mean(i: Inputs) -> Found:
    found = equivalence.tost_paired_mean(
        _floats(i["differences"]), low=i["low"], high=i["high"], alpha=i["alpha"]
    )
    assert not isinstance(found, Undetermined)
    return _fields(found) | _limits(found.interval)


def _samplesize_miller(i: Inputs) -> Found:
    return _fields(samplesize.samplesize_miller(i["delta"], **_without(i, "delta")))


def _without(i: Inputs, *names: str) -> dict[str, Any]:
    return {key: value for key, value in i.items() if key not in names}


def _value(number: Any) -> Found:
    return {"value": number}


def _p(number: Any) -> Found:
    return {"p_value": number}


FUNCTIONS: Mapping[str, Callable[[Inputs], Found]] = {
    "adjust_p": lambda i: {"adjusted": multiplicity.adjust_p(i["p_values"], i["method_name"])},
    "auc": lambda i: {"auc": area.auc(_floats(i["positives"]), _floats(i["negatives"]))},
    "auc.delong": _delong,
    "auc.delong_paired": lambda i: _fields(
        area.auc_delong_paired(**{key: _floats(value) for key, value in i.items()})
    ),
    "auc.obuchowski_clustered": _obuchowski,
    "bootstrap.bca_levels": _bca,
    "bootstrap.cluster_exact": _bootstrap,
    "bootstrap.percentile_from_replicates": _percentile,
    "bound.clopper_pearson_lower": lambda i: {
        "lower": intervals.clopper_pearson_lower(i["successes"], i["n"], alpha=_alpha(i))
    },
    "bound.wilson_lower": lambda i: {
        "lower": intervals.wilson_lower(i["successes"], i["n"], alpha=_alpha(i))
    },
    "brier": lambda i: {
        "brier": calibration.brier(_floats(i["probabilities"]), np.array(i["labels"]))
    },
    "cluster.mcnemar_family": _family,
    "cluster.min_attainable_p": lambda i: _p(min_attainable_p(i["clusters"])),
    "cluster.sign_flip": _sign_flip,
    "cluster.wild_bootstrap_t": _wild,
    "clustered.equal_weight": _equal_weight,
    "clustered.mean_difference": _mean_difference,
    "conformal_risk_control": lambda i: _fields(riskcontrol.conformal_risk_control(**i)),
    "cs.asymptotic": _asymptotic,
    "cs.asymptotic_rho": lambda i: {
        "rho": confidence_sequences.asymptotic_rho(i["n_opt"], alpha=i["alpha"])
    },
    "cs.betting_hedged": _sequence(confidence_sequences.betting_hedged),
    "cs.empirical_bernstein_predmix": _sequence(confidence_sequences.empirical_bernstein_predmix),
    "cs.hoeffding_predmix": _sequence(confidence_sequences.hoeffding_predmix),
    "cs.normal_mixture_bound": _mixture,
    "design_effect": lambda i: _fields(
        correlation.design_effect(_floats(i["cluster_sizes"]), i["icc"])
    ),
    "ece": lambda i: {
        "ece": calibration.ece(_floats(i["probabilities"]), np.array(i["labels"]), bins=i["bins"])
    },
    "eprocess.mcnemar_beta": lambda i: _fields(confidence_sequences.mcnemar_eprocess(**i)),
    "gatekeeping.fallback": lambda i: _fields(multiplicity.fallback(**i)),
    "gatekeeping.fixed_sequence": lambda i: _fields(multiplicity.fixed_sequence(**i)),
    "gs.boundary.classical": _classical,
    "gs.boundary.haybittle_peto": _haybittle,
    "gs.boundary.spending": _spending,
    "gs.conditional_power": lambda i: {"conditional_power": stagewise.conditional_power(**i)},
    "gs.exit_probability": _exit,
    "gs.inflation_factor": _inflation,
    "gs.repeated_ci": _repeated,
    "gs.stagewise": _stagewise,
    "gs.t_critical": lambda i: _fields(sequential.t_critical(**i)),
    "icc.anova": lambda i: _fields(
        correlation.icc_anova(_floats(i["values"]), _codes(i["clusters"]))
    ),
    "interval.bonett_price": _bonett,
    "interval.clopper_pearson": lambda i: _limits(
        intervals.clopper_pearson(i["successes"], i["n"], alpha=_alpha(i))
    ),
    "interval.empirical_bernstein": _bernstein,
    "interval.hoeffding": _hoeffding,
    "interval.jeffreys": lambda i: _limits(
        intervals.jeffreys(i["successes"], i["n"], alpha=_alpha(i))
    ),
    "interval.newcombe_paired": _newcombe,
    "interval.t_mean": _t_mean,
    "interval.tango": _tango,
    "interval.tango_cluster_adjusted": _tango_adjusted,
    "interval.wilson": _wilson,
    "isotonic": lambda i: _fields(calibration.isotonic(_floats(i["x"]), _floats(i["y"]))),
    "log_loss": lambda i: {
        "log_loss": calibration.log_loss(_floats(i["probabilities"]), np.array(i["labels"]))
    },
    "ltt.fixed_sequence": lambda i: _fields(riskcontrol.learn_then_test(**i)),
    "mcnemar.asymptotic": lambda i: _fields(paired.mcnemar_asymptotic(**i)),
    "mcnemar.exact": lambda i: _p(paired.mcnemar_exact(**i)),
    "mcnemar.midp": lambda i: _p(paired.mcnemar_midp(**i)),
    "mde.cluster_t": lambda i: {
        "mde": samplesize.mde_cluster_t(
            i["sd"],
            i["icc"],
            i["clusters"],
            i["cluster_size"],
            alpha=i["alpha"],
            power=i["power"],
        )
    },
    "mde.paired_binary": lambda i: {
        "mde": samplesize.mde_paired_binary(
            i["n"],
            i["discordant"],
            alpha=i["alpha"],
            power=i["power"],
            deff=i["design_effect"],
        )
    },
    "min_flagged": lambda i: {
        "n": riskcontrol.min_flagged(
            i["target"],
            bound=i["bound"],
            alpha=1.0 - i["one_sided_confidence"],
            errors=i["errors"],
        )
    },
    "pass_at_k": lambda i: _value(passk.pass_at_k(**i)),
    "pass_at_k.macro": lambda i: _fields(passk.macro_pass(i["tasks"], i["k"])),
    "pass_hat_k": lambda i: _value(passk.pass_hat_k(**i)),
    "platt": lambda i: _fields(calibration.platt(_floats(i["scores"]), np.array(i["labels"]))),
    "power.cluster_t": lambda i: {
        "power": samplesize.power_cluster_t(
            i["delta"], i["sd"], i["icc"], i["clusters"], i["cluster_size"], alpha=i["alpha"]
        )
    },
    "power.mcnemar_exact": lambda i: {"power": samplesize.power_mcnemar_exact(**i)},
    "power.paired_t": lambda i: {"power": samplesize.power_paired_t(**i)},
    "pvalue.hoeffding_bentkus": lambda i: _p(riskcontrol.hoeffding_bentkus(**i)),
    "samplesize.miller": _samplesize_miller,
    "samplesize.paired_binary": lambda i: _fields(samplesize.samplesize_paired_binary(**i)),
    "se.miller_clustered": _miller,
    "special.beta_quantile": lambda i: _value(distributions.beta_quantile(**i)),
    "special.binomial_cdf": lambda i: _value(distributions.binomial_cdf(**i)),
    "special.chi2_sf": lambda i: _value(distributions.chi2_sf(**i)),
    "special.noncentral_t_cdf": lambda i: _value(distributions.noncentral_t_cdf(**i)),
    "special.normal_quantile": lambda i: _value(distributions.normal_quantile(**i)),
    "special.t_quantile": lambda i: _value(distributions.t_quantile(**i)),
    "special.t_sf": lambda i: _value(distributions.t_sf(**i)),
    "test.tango_score": lambda i: _fields(
        intervals.tango_score(i["n10"], i["n01"], i["n"], null=i["delta0"])
    ),
    "tost.estimate": lambda i: _fields(
        equivalence.tost_estimate(i["estimate"], i["se"], i["df"], low=i["low"], high=i["high"])
    ),
    "tost.paired_binary_tango": lambda i: _fields(equivalence.tost_paired_binary(**i)),
    "tost.paired_mean": _tost_mean,
}


def _compare(expected: Any, found: Any, tolerance: float, where: str) -> None:
    if isinstance(expected, dict):
        for key, value in expected.items():
            assert key in found, f"{where}: {key} was not computed"
            _compare(value, found[key], tolerance, f"{where}.{key}")
    elif isinstance(expected, list):
        assert len(expected) == len(found), where
        for k, value in enumerate(expected):
            _compare(value, found[k], tolerance, f"{where}[{k}]")
    elif isinstance(expected, float):
        assert isinstance(found, (int, float)), f"{where}: {found}"
        assert abs(expected - found) <= tolerance, f"{where}: expected {expected}, found {found}"
    else:
        assert expected == found, where


@pytest.mark.parametrize(
    "case", CASES, ids=[f"{case['method']}-{k}" for k, case in enumerate(CASES)]
)
def test_case_is_met_within_its_tolerance(case: dict[str, Any]) -> None:
    """A function meets each number that was computed by other tools."""
    method = case["method"]
    assert method in FUNCTIONS, f"no function for {method}"
    _compare(case["expected"], FUNCTIONS[method](case["inputs"]), case["tolerance"], method)

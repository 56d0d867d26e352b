"""Every endpoint that a protocol can name, from outcomes to result, against a count by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from hashlib import sha256
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from fairtrial.ledger.errors import ProtocolError
from fairtrial.ledger.events import Head
from fairtrial.verdicts.conclude import conclude
from fairtrial.verdicts.result_detail import detail

if TYPE_CHECKING:
    from tests.conftest import Bridge

REPEATS = 4
UNITS = [f"u{c:02}-{n}" for c in range(12) for n in range(6)]
FILE = "{file: units.csv, id: unit, cluster: cluster, label: l, stratum: s, twin: t, split: p}"
MISSING = (
    "{rules: {failed: refuse, timeout: refuse, limit: refuse, error: exclude_pair,"
    " ungraded: exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair}, limit: 0.02}"
)


def _draw(*parts: object) -> float:
    text = "/".join(str(part) for part in parts)
    return int.from_bytes(sha256(text.encode()).digest()[:4], "big") / 2**32


def label(unit: str) -> int:
    """The truth of a unit: one of each in a couple of twins."""
    return int(unit[-1]) % 2


def passed(unit: str, arm: str, replicate: int) -> float:
    """Whether one replicate passes."""
    return float(_draw("p", unit, arm, replicate) < (0.75 if arm == "B" else 0.55))


def score(unit: str, arm: str) -> float:
    """A score that follows the label, more so in arm B."""
    return round(_draw("s", unit, arm) + label(unit) * (0.5 if arm == "B" else 0.2), 3)


def usd(unit: str, arm: str) -> int:
    """A price in nano-USD."""
    return int(1e6 * (1 + _draw("c", unit, arm) + (arm == "A")))


def answer(unit: str, arm: str) -> str:
    """A word that an arm says."""
    return ("block", "warn", "allow")[int(3 * _draw("a", unit, arm))]


def _table() -> str:
    rows = [
        f"{u},{u[:3]},{label(u)},{'easy' if u[1:3] < '06' else 'hard'},{u[:4]}{int(u[-1]) // 2},"
        f"{'dev' if u[-1] == '5' else 'test'}"
        for u in UNITS
    ]
    return "unit,cluster,l,s,t,p\n" + "\n".join(rows) + "\n"


def _result(bridge: Bridge, endpoint: str, repeats: int = 1, **sections: str) -> Any:
    """The first endpoint of the long form of a result."""

    def answers(unit: str, arm: str, replicate: int) -> Mapping[str, object]:
        return {
            "status": "ok",
            "scores": {"passed": passed(unit, arm, replicate), "score": score(unit, arm)},
            "answer": answer(unit, arm),
            "cost_nanousd": usd(unit, arm),
            "duration_ms": usd(unit, arm) // 1000,
        }

    driver = (
        "driver: {kind: recorded, file: o.csv, where: {arm: a}, columns: {unit: unit, replicate: r,"
        " passed: passed, score: score, usd: usd, answer: answer, duration_seconds: s}}"
    )
    arms = ", ".join(
        f"{arm}: {{label: {arm}, repeats: {repeats}, {driver.replace('arm: a', f'arm: {arm}')}}}"
        for arm in "AB"
    )
    given = {
        "units": FILE,
        "arms": f"{{{arms}}}",
        "missing": MISSING,
        "endpoints": f"[{{name: it, role: primary, better: higher, {endpoint}}}]",
        **sections,
    }
    trial = bridge.trial(_table(), answers, origin="recorded", **given).run()
    blob = detail(
        trial.context,
        conclude(trial.context),
        experiment="trial",
        basis=Head(size=1, root="0" * 64),
        spend_nanousd={},
    )
    return msgspec.json.decode(blob)["comparisons"][0]["endpoints"][0]


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def _over_units(
    value: Callable[[str, str], float], keep: Callable[[str], bool]
) -> dict[str, float]:
    return {arm: _mean([value(u, arm) for u in UNITS if keep(u)]) for arm in "AB"}


def _counts(unit: str, arm: str) -> list[float]:
    return [passed(unit, arm, replicate) for replicate in range(1, REPEATS + 1)]


def _choices(unit: str, arm: str, k: int, holds: Callable[[tuple[float, ...]], bool]) -> float:
    chosen = list(combinations(_counts(unit, arm), k))
    return sum(holds(each) for each in chosen) / len(chosen)


def _everyone(_: str) -> bool:
    return True


MEANS: dict[str, tuple[str, int, Callable[[str, str], float], Callable[[str], bool]]] = {
    "binary": ("type: binary, value: passed", 1, lambda u, a: passed(u, a, 1), _everyone),
    "bounded": (
        "type: bounded, bounds: [0, 1], value: passed, reducer: mean",
        REPEATS,
        lambda u, a: _mean(_counts(u, a)),
        _everyone,
    ),
    "continuous": ("type: continuous, value: score", 1, score, _everyone),
    "time": (
        "type: continuous, value: duration_seconds",
        1,
        lambda u, a: usd(u, a) // 1000 / 1e3,
        _everyone,
    ),
    "recall": (
        "type: binary, value: passed, where: {label: ['1']}",
        1,
        lambda u, a: passed(u, a, 1),
        lambda u: label(u) == 1,
    ),
    "flag rate": (
        "type: binary, value: answer, positive: [block, warn]",
        1,
        lambda u, a: float(answer(u, a) in ("block", "warn")),
        _everyone,
    ),
    "false flag rate": (
        "type: binary, value: answer, positive: [block], where: {label: ['0']}",
        1,
        lambda u, a: float(answer(u, a) == "block"),
        lambda u: label(u) == 0,
    ),
    "in a stratum": (
        "type: binary, value: passed, where: {stratum: [easy]}",
        1,
        lambda u, a: passed(u, a, 1),
        lambda u: u[1:3] < "06",
    ),
    "in a split": (
        "type: binary, value: passed, where: {split: [test]}",
        1,
        lambda u, a: passed(u, a, 1),
        lambda u: u[-1] != "5",
    ),
    "agreement": (
        "type: agreement, value: passed",
        REPEATS,
        lambda u, a: _choices(u, a, 2, lambda pair: pair[0] == pair[1]),
        _everyone,
    ),
    "pass@k": ("type: pass_at_k, k: 2, value: passed", REPEATS,
               lambda u, a: _choices(u, a, 2, any), _everyone),
    "pass^k": ("type: pass_hat_k, k: 2, value: passed", REPEATS,
               lambda u, a: _choices(u, a, 2, all), _everyone),
    "all pass": ("type: all_pass, value: passed", REPEATS,
                 lambda u, a: float(all(_counts(u, a))), _everyone),
}  # fmt: skip


@pytest.mark.parametrize("name", MEANS)
def test_mean_of_each_kind_is_counted_by_hand(bridge: Bridge, name: str) -> None:
    """Arms, difference, interval and the other estimand are there, over the right units."""
    endpoint, repeats, value, keep = MEANS[name]
    found = _result(bridge, endpoint, repeats)
    expected = _over_units(value, keep)
    assert found["arms"] == pytest.approx(expected)
    assert found["difference"] == pytest.approx(expected["B"] - expected["A"])
    assert found["interval"]["lower"] < found["difference"] < found["interval"]["upper"]
    clusters = sorted({u[:3] for u in UNITS if keep(u)})
    other = _mean(
        [
            _mean([value(u, "B") - value(u, "A") for u in UNITS if keep(u) and u[:3] == cluster])
            for cluster in clusters
        ]
    )
    assert found["tests"]["cluster_weighted"]["estimate"] == pytest.approx(other)


def test_plug_in_of_pass_hat_k_stands_beside_under_its_own_name(bridge: Bridge) -> None:
    """The plug-in (c/n)^k is shown, is larger than the unbiased form, and can't decide."""
    endpoint = (
        "type: pass_hat_k, k: 2, value: passed},"
        " {name: plug, role: secondary, better: higher, type: pass_hat_k_plugin, k: 2,"
        " value: passed"
    )
    unbiased = _result(bridge, endpoint, REPEATS)["arms"]
    swapped = (
        "type: pass_hat_k, k: 2, value: passed}, {name: plug, role: primary, better: higher,"
        " type: pass_hat_k_plugin, k: 2, value: passed"
    )
    with pytest.raises(ProtocolError, match="biased upwards"):
        _result(bridge, swapped, REPEATS, decision="{rule: superiority, primaries: all}")
    expected = _over_units(lambda u, a: _mean(_counts(u, a)) ** 2, _everyone)
    assert all(unbiased[arm] < expected[arm] for arm in "AB")
    first = "name: it, role: primary, better: higher, type: pass_hat_k, k: 2, value: passed"
    plug = "name: plug, role: secondary, better: higher, type: pass_hat_k_plugin, k: 2"
    found = _result(bridge, "", REPEATS, endpoints=f"[{{{plug}, value: passed}}, {{{first}}}]")
    assert found["arms"] == pytest.approx(expected)


def test_all_pass_is_the_binary_endpoint_of_reducer_all(bridge: Bridge) -> None:
    """Under its own name it decides by the same two methods as yes or no."""
    named = _result(bridge, "type: all_pass, value: passed", REPEATS)
    reduced = _result(bridge, "type: binary, value: passed, reducer: all", REPEATS)
    for field in ("arms", "difference", "interval", "tests", "discordant", "discordant_clusters"):
        assert named[field] == reduced[field]
    assert set(named["interval"]["parts"]) == {"cr2_t", "tango_cluster_adjusted"}


def test_cost_is_compared_as_difference_and_as_ratio(bridge: Bridge) -> None:
    """Both scales of a cost are there: means, and geometric means."""
    found = _result(bridge, "type: cost, value: usd")
    assert found["arms"] == pytest.approx(_over_units(lambda u, a: usd(u, a) / 1e9, _everyone))
    logs = _over_units(lambda u, a: math.log(usd(u, a) / 1e9), _everyone)
    assert found["log"]["difference"] == pytest.approx(logs["B"] - logs["A"])
    assert found["log"]["arms"] == pytest.approx({arm: math.exp(logs[arm]) for arm in "AB"})


def test_auc_is_the_share_of_pairs_in_order(bridge: Bridge) -> None:
    """AUC and within-twin AUC are shares of couples whose true unit scores higher."""
    true, false = ([u for u in UNITS if label(u) == which] for which in (1, 0))

    def above(one: str, other: str, arm: str) -> float:
        a, b = score(one, arm), score(other, arm)
        return float(a > b) + 0.5 * (a == b)

    found = _result(bridge, "type: auc, value: score")
    assert found["arms"] == pytest.approx(
        {arm: _mean([above(a, b, arm) for a, b in product(true, false)]) for arm in "AB"}
    )
    twins = _result(bridge, "type: within_twin_auc, value: score")
    assert twins["arms"] == pytest.approx(
        {arm: _mean([above(u, f"{u[:-1]}{int(u[-1]) - 1}", arm) for u in true]) for arm in "AB"}
    )


def test_precision_is_the_true_share_of_what_is_flagged(bridge: Bridge) -> None:
    """Precision counts the units that an arm flags, each arm its own."""
    found = _result(bridge, "type: precision, value: answer, positive: [block]")
    expected = {
        arm: _mean([float(label(u)) for u in UNITS if answer(u, arm) == "block"]) for arm in "AB"
    }
    assert found["arms"] == pytest.approx(expected)


def test_estimands_that_part_are_said(bridge: Bridge) -> None:
    """Where large clusters differ from small ones the result has both numbers and a warning."""
    sizes = [40, 35, *[4] * 12]
    units = [f"u{c:03}-{n:03}" for c, size in enumerate(sizes) for n in range(size)]
    table = "unit,cluster\n" + "".join(f"{u},{u[:4]}\n" for u in units)

    def answers(unit: str, arm: str, replicate: int) -> Mapping[str, object]:
        better = unit[1:4] > "001"
        chance = 0.5 if arm == "A" else 0.9 if better else 0.45
        return bridge.outcome(float(_draw(unit, "" if not better else arm) < chance))

    trial = bridge.trial(table, answers).run()
    blob = detail(
        trial.context,
        conclude(trial.context),
        experiment="trial",
        basis=Head(size=1, root="0" * 64),
        spend_nanousd={},
    )
    found = msgspec.json.decode(blob)["comparisons"][0]["endpoints"][0]
    assert found["tests"]["cluster_weighted"]["estimate"] > found["difference"]
    assert any("carries information" in text for text in found["warnings"])

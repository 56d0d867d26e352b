"""From limits to a verdict: every rule on a grid, mirror images, guards, several endpoints."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest

from fairtrial.analysis.reasons import Facts, reason_sentence, signed
from fairtrial.analysis.verdict import (
    Guards,
    ReasonCode,
    Rule,
    Verdict,
    combine,
    decide,
    guard_findings,
    harm_verdict,
    with_saving,
)

ADOPT = Verdict("adopt", "interval_favours")
REJECT = Verdict("reject", "interval_against")
SPANS = Verdict("inconclusive", "interval_spans")
EQUIVALENT = Verdict("equivalent", "within_margin")
LIMITS = [
    (low, high)
    for low, high in product([-0.2, -0.1, -0.05, -0.01, 0.0, 0.01, 0.05, 0.1, 0.2], repeat=2)
    if low < high
]


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (0.01, 0.2, "adopt"),
        (0.0, 0.2, "inconclusive"),
        (-0.1, 0.2, "inconclusive"),
        (-0.2, 0.0, "inconclusive"),
        (-0.2, -0.01, "reject"),
    ],
)
def test_superiority_needs_the_whole_interval(low: float, high: float, word: str) -> None:
    """A limit at the null is not beyond it."""
    assert decide("superiority", 0.0, low, high, "higher").verdict == word


@pytest.mark.parametrize(("low", "high"), LIMITS)
def test_rules_are_those_of_the_table(low: float, high: float) -> None:
    """Each rule on a grid of limits, written out a second time."""
    m = 0.05
    superiority = "adopt" if low > m else "reject" if high < -m else "inconclusive"
    assert decide("superiority", m, low, high, "higher").verdict == superiority
    if low > -m and not high < 0.0:
        non_inferiority = "adopt"
    else:
        non_inferiority = "reject" if high < -m else "inconclusive"
    assert decide("non_inferiority", m, low, high, "higher").verdict == non_inferiority
    if low > m:
        equivalence = "adopt"
    elif low > -m and high < m:
        equivalence = "equivalent"
    else:
        equivalence = "reject" if high < -m else "inconclusive"
    assert decide("equivalence", m, low, high, "higher").verdict == equivalence


@pytest.mark.parametrize(("low", "high"), LIMITS)
@pytest.mark.parametrize("rule", ["superiority", "non_inferiority", "equivalence"])
def test_direction_is_symmetric(rule: Rule, low: float, high: float) -> None:
    """Lower is better on the mirrored interval: the same verdict and reason."""
    for margin in (0.0, 0.05):
        assert decide(rule, margin, low, high, "higher") == decide(
            rule, margin, -high, -low, "lower"
        )


def test_worse_inside_the_margin_is_not_adopted_by_default() -> None:
    """Shown worse and yet within the margin: inconclusive, or adopt where registered."""
    found = decide("non_inferiority", 0.05, -0.04, -0.01, "higher")
    assert found == Verdict("inconclusive", "worse_inside_margin")
    asked = decide("non_inferiority", 0.05, -0.04, -0.01, "higher", worse_inside_margin="adopt")
    assert asked == Verdict("adopt", "within_margin")


def test_a_list_of_rules_takes_the_first_that_concludes() -> None:
    """Superiority at margin 0, then equivalence within the margin."""
    rules: tuple[Rule, ...] = ("superiority", "equivalence")
    assert decide(rules, 0.05, 0.01, 0.04, "higher") == ADOPT
    assert decide(rules, 0.05, -0.01, 0.04, "higher") == EQUIVALENT
    assert decide(rules, 0.05, -0.04, -0.01, "higher") == REJECT
    assert decide(rules, 0.05, -0.06, 0.04, "higher") == SPANS


def test_one_sided_analysis_cannot_reject() -> None:
    """Only the favourable claim was registered."""
    assert decide("superiority", 0.0, -0.2, -0.1, "higher", sides=1) == SPANS
    assert decide("superiority", 0.0, 0.1, 0.2, "higher", sides=1) == ADOPT


def test_disagreeing_methods_are_named() -> None:
    """One part alone would claim, the hull does not."""
    found = decide("superiority", 0.0, -0.01, 0.2, "higher", parts=[(0.01, 0.18), (-0.01, 0.2)])
    assert found == Verdict("inconclusive", "methods_disagree")
    both = decide("superiority", 0.0, -0.02, 0.2, "higher", parts=[(-0.02, 0.18), (-0.01, 0.2)])
    assert both == SPANS


def test_guards_name_the_first_reason_first() -> None:
    """Clusters, df, discordant clusters, variance; at and below each floor."""
    enough = {"clusters": 6, "df": 4.0, "discordant_clusters": 8}
    assert guard_findings(**enough) == ()  # type: ignore[arg-type]  # numbers of one dict
    found = guard_findings(clusters=5, df=3.99, discordant_clusters=7, zero_variance=True)
    assert found == ("few_clusters", "low_df", "few_discordant_clusters", "zero_variance")
    assert guard_findings(clusters=40, df=None, discordant_clusters=None) == ()


def test_guards_carry_the_attainable_p_to_every_look() -> None:
    """2^(1-G) must not exceed the nominal p: ten clusters at half the information."""
    nominal = 0.0030506
    assert guard_findings(clusters=9, df=8.0, discordant_clusters=9, nominal_p=nominal) == (
        "few_clusters",
    )
    assert guard_findings(clusters=10, df=8.0, discordant_clusters=9, nominal_p=nominal) == ()
    assert guard_findings(clusters=90, df=80.0, discordant_clusters=9, nominal_p=1e-13) == (
        "few_clusters",
    )


def test_guards_may_be_raised() -> None:
    """A protocol may ask for more."""
    strict = Guards(min_clusters=20, min_df=10.0, min_discordant_clusters=12)
    found = guard_findings(clusters=19, df=9.0, discordant_clusters=11, guards=strict)
    assert found == ("few_clusters", "low_df", "few_discordant_clusters")


def test_all_primaries_must_win() -> None:
    """One that is rejected rejects, one that is open leaves it open."""
    assert combine([ADOPT, ADOPT], "all") == ADOPT
    assert combine([ADOPT, SPANS], "all") == SPANS
    assert combine([SPANS, REJECT], "all") == REJECT
    assert combine([ADOPT, EQUIVALENT], "all") == EQUIVALENT


def test_any_primary_may_win_unless_one_loses() -> None:
    """Reject before adopt."""
    assert combine([SPANS, ADOPT], "any") == ADOPT
    assert combine([ADOPT, REJECT], "any") == REJECT
    assert combine([SPANS, SPANS], "any") == SPANS


def test_ordered_primaries_stop_at_the_first_that_is_not_adopted() -> None:
    """What comes after the stop has no say."""
    assert combine([ADOPT, SPANS, REJECT], "ordered") == ADOPT
    assert combine([SPANS, ADOPT], "ordered") == SPANS
    assert combine([ADOPT, REJECT], "ordered") == REJECT


def test_harm_comes_before_everything() -> None:
    """A shown harm rejects an adopted primary; a harm endpoint without evidence leaves it open."""
    harm = harm_verdict(0.01, 0.02, 0.05, "lower")
    assert harm == Verdict("reject", "harm")
    assert harm_verdict(0.01, 0.005, 0.05, "lower") == SPANS
    assert combine([ADOPT], "all", harm=[SPANS, harm]) == harm
    assert combine([ADOPT], "all", harm=[SPANS]) == ADOPT
    poor = Verdict("inconclusive", "few_clusters")
    assert combine([ADOPT], "all", harm=[poor]) == poor


def test_a_registered_saving_is_demanded_on_every_scale() -> None:
    """Adopt and equivalent need it, the rest is unchanged."""
    assert with_saving(ADOPT, True, True) == ADOPT
    assert with_saving(ADOPT, True, False) == Verdict("inconclusive", "no_saving")
    assert with_saving(EQUIVALENT, False) == Verdict("inconclusive", "no_saving")
    assert with_saving(REJECT, False) == REJECT


def test_bad_arguments_are_refused() -> None:
    """Crossed limits, NaN, a negative margin, nothing to combine."""
    for low, high, margin in ((0.1, 0.0, 0.0), (float("nan"), 0.1, 0.0), (0.0, 0.1, -0.1)):
        with pytest.raises(ValueError, match="expected"):
            decide("superiority", margin, low, high, "higher")
    with pytest.raises(ValueError, match="at least one"):
        combine([], "all")
    with pytest.raises(ValueError, match="at least one"):
        decide((), 0.0, 0.0, 0.1, "higher")


FACTS = Facts(
    control="haiku",
    treatment="consultation",
    endpoint="resolved",
    cluster_noun="repository",
    n=500,
    clusters=12,
    largest_name="django/django",
    largest_units=231,
    effective_clusters=3.9,
    discordant_clusters=5,
    estimate=0.02,
    lower=-0.122,
    upper=0.162,
    missing=12,
    planned=500,
    missing_limit=0.02,
)


@pytest.mark.parametrize("code", get_args(ReasonCode))
def test_every_reason_is_a_sentence_in_words_of_the_data(code: ReasonCode) -> None:
    """With all facts or none: no full stop, no placeholder, no name of a method."""
    for facts in (FACTS, Facts()):
        text = reason_sentence(code, facts)
        assert text == text.strip()
        assert not text.endswith(".")
        for word in ("None", "nan", "df", "CR2", "Tango", "Satterthwaite", "{"):
            assert word not in text


def test_low_df_says_which_cluster_and_what_would_help() -> None:
    """The demonstration's reason."""
    assert reason_sentence("low_df", FACTS) == (
        "231 of 500 units are one repository (django/django), so the data weigh like about 4 "
        "independent repositories; more repositories are needed, more units from the same one do "
        "not help"
    )


def test_reasons_name_arms_and_numbers() -> None:
    """Arms by their names, differences in points or in their own unit."""
    favours = Facts(control="a", treatment="b", estimate=0.074, lower=0.015, upper=0.133)
    assert reason_sentence("interval_favours", favours) == (
        "b is better than a (+7.4 points, interval +1.5 to +13.3 points)"
    )
    margin = Facts(control="a", treatment="b", estimate=0.1, lower=0.06, upper=0.13, margin=0.05)
    assert "by more than 5.0 points" in reason_sentence("interval_favours", margin)
    within = Facts(control="a", treatment="b", estimate=0.04, lower=0.01, upper=0.06, margin=0.05)
    assert "by more than" not in reason_sentence("interval_favours", within)
    assert (signed(-0.0123, in_points=False), signed(0.02, in_points=True)) == (
        "-0.0123",
        "+2.0 points",
    )

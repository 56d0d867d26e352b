"""Amend: what may change, when, and what is said of it."""

from __future__ import annotations

import pytest

from fairtrial.ledger.plan_rules import amend_class

from .fold_bench import Bench
from .fold_drafts import RESERVE, blob, digest, make_arm, make_design, make_looks, make_rules
from .fold_pairs import Pair, check_pair, each_pair

TWO_LOOKS = make_design(4, lasts=(4, 8))


def _fixed(section: str) -> Pair:
    return Pair(
        f"{section} is fixed after the freeze",
        lambda b: b.frozen().amendment(section, "analysis"),
        f"fixed after the freeze: {section}",
        lambda b: b.registered().amendment(section, "analysis"),
    )


def _class_of(section: str, class_: str, wrong: str) -> Pair:
    return Pair(
        f"{section} is of class {class_}, not {wrong}",
        lambda b: b.frozen().amendment(section, wrong),
        f"an amendment of class {class_}",
        lambda b: b.frozen().amendment(section, class_),
    )


def _beyond_budget(name: str, value: object) -> Pair:
    rules = make_rules(**{name: value})
    return Pair(
        f"an operational amendment leaves {name} alone",
        lambda b: b.frozen().amendment("budget", "operational", rules=rules),
        f"can't change {name}",
        lambda b: b.frozen().amendment("attempts", "analysis", rules=rules),
    )


AMENDMENTS = (
    Pair(
        "amend needs register",
        lambda b: b.opened().draft("amend"),
        "isn't registered",
        lambda b: b.registered().draft("amend"),
    ),
    Pair(
        "amend isn't for what has ended",
        lambda b: b.registered().do("withdraw").draft("amend"),
        "has ended",
        lambda b: b.registered().draft("amend"),
    ),
    Pair(
        "the subject is the newest protocol",
        lambda b: b.registered().do("amend").draft("amend", subject=b.reference(1)),
        "amends the newest protocol",
        lambda b: b.registered().do("amend").draft("amend", subject=b.reference(2)),
    ),
    *(_fixed(name) for name in ("identity", "units", "design", "arms.a", "arms.new", "scoring")),
    Pair(
        "a section that disappears has changed",
        lambda b: b.frozen().draft(
            "amend",
            class_="analysis",
            sections={k: v for k, v in b.known().sections.items() if k != "units"},
        ),
        "fixed after the freeze: units",
        lambda b: b.frozen().draft("amend"),
    ),
    _class_of("about", "text", "operational"),
    _class_of("budget", "operational", "text"),
    _class_of("attempts", "analysis", "operational"),
    _class_of("endpoints.main", "analysis", "text"),
    Pair(
        "an amendment states how many outcomes there are",
        lambda b: b.running().settled(1).draft("amend", outcomes=0),
        "how many outcomes",
        lambda b: b.running().settled(1).draft("amend", outcomes=1),
    ),
    Pair(
        "an amendment states how many looks there are",
        lambda b: b.running(TWO_LOOKS).looked().draft("amend", looks_taken=0),
        "how many outcomes and looks",
        lambda b: b.running(TWO_LOOKS).looked().draft("amend", looks_taken=1),
    ),
    Pair(
        "an analysis amendment needs an idle experiment",
        lambda b: b.running().amendment("attempts", "analysis"),
        "a run is going on",
        lambda b: b.running().idle().amendment("attempts", "analysis"),
    ),
    Pair(
        "an analysis amendment isn't for a due look",
        lambda b: b.running(TWO_LOOKS).settled(1, 2, 3, 4).idle().amendment("looks", "analysis"),
        "a look is due",
        lambda b: b.running(TWO_LOOKS).looked().idle().amendment("looks", "analysis"),
    ),
    Pair(
        "an analysis amendment isn't for complete data",
        lambda b: b.complete().amendment("looks", "analysis"),
        "the data are complete",
        lambda b: b.complete().amendment("about", "text"),
    ),
    Pair(
        "an operational amendment may come in mid-run",
        lambda b: b.running().amendment("attempts", "analysis"),
        "a run is going on",
        lambda b: b.running().amendment("budget", "operational", rules=make_rules(usd_nanousd=1)),
    ),
    Pair(
        "rules change only after the freeze",
        lambda b: b.registered().amendment("budget", "operational", rules=make_rules()),
        "only after the freeze",
        lambda b: b.frozen().amendment("budget", "operational", rules=make_rules()),
    ),
    Pair(
        "a text amendment leaves the rules alone",
        lambda b: b.frozen().amendment("about", "text", rules=make_rules(calls=5)),
        "can't change calls",
        lambda b: b.frozen().amendment("about", "text", rules=make_rules()),
    ),
    _beyond_budget("attempts_max", 3),
    _beyond_budget("retry_on", ("error", "timeout")),
    _beyond_budget("on_crossing", "continue"),
    _beyond_budget("on_under_run", "analyse"),
    _beyond_budget("anchor", "witness"),
    _beyond_budget("primaries", ("other",)),
    Pair(
        "an amended slot is tried 1 to 20 times",
        lambda b: b.frozen().amendment("attempts", "analysis", rules=make_rules(attempts_max=99)),
        "1 to 20 times",
        lambda b: b.frozen().amendment("attempts", "analysis", rules=make_rules(attempts_max=9)),
    ),
    Pair(
        "an operational amendment leaves the looks alone",
        lambda b: b.frozen().amendment("budget", "operational", looks=make_looks((4, 8))),
        "leaves the looks alone",
        lambda b: b.frozen().amendment("looks", "analysis", looks=make_looks((4, 8))),
    ),
    Pair(
        "a look that is taken doesn't change",
        lambda b: (
            b.running(TWO_LOOKS).looked().idle()
            .amendment("looks", "analysis", looks=make_looks((5, 8)))
        ),
        "looks already taken",
        lambda b: (
            b.running(TWO_LOOKS).looked().idle()
            .amendment("looks", "analysis", looks=make_looks((4, 6, 8)))
        ),
    ),
    Pair(
        "a look to come ends at or after the highest slot that was attempted",
        lambda b: (
            b.running().tried(5, "interrupted").idle()
            .amendment("looks", "analysis", looks=make_looks((4, 8)))
        ),
        "the highest attempted slot",
        lambda b: (
            b.running().tried(5, "interrupted").idle()
            .amendment("looks", "analysis", looks=make_looks((5, 8)))
        ),
    ),
    Pair(
        "a look to come ends at or after the highest slot that is settled",
        lambda b: (
            b.running(make_design(4, arms=(make_arm("a", "recorded"),))).settled(3).idle()
            .amendment("looks", "analysis", looks=make_looks((2, 4)))
        ),
        "the highest attempted slot",
        lambda b: (
            b.running(make_design(4, arms=(make_arm("a", "recorded"),))).settled(3).idle()
            .amendment("looks", "analysis", looks=make_looks((3, 4)))
        ),
    ),
    Pair(
        "amended looks rise to the last slot",
        lambda b: b.frozen().amendment("looks", "analysis", looks=make_looks((4, 9))),
        "looks rise",
        lambda b: b.frozen().amendment("looks", "analysis", looks=make_looks((4, 8))),
    ),
    Pair(
        "what a crossing does isn't amended after one",
        lambda b: (
            b.running(TWO_LOOKS._replace(rules=make_rules(on_crossing="continue")))
            .looked(crossed="favourable").idle()
            .amendment("looks", "analysis", rules=make_rules(on_crossing="stop"))
        ),
        "can't change on_crossing",
        lambda b: (
            b.running(TWO_LOOKS._replace(rules=make_rules(on_crossing="continue")))
            .looked().idle()
            .amendment("looks", "analysis", rules=make_rules(on_crossing="stop"))
        ),
    ),
)  # fmt: skip


@each_pair(AMENDMENTS)
def test_amending_follows_the_table(pair: Pair) -> None:
    """An amendment changes what its class lets it change, and nothing that was seen."""
    check_pair(pair)


def test_amendment_puts_protocol_rules_and_looks_in_force() -> None:
    """After an amendment its sections, rules and looks are the ones that count."""
    bench = Bench().frozen()
    looks, rules = make_looks((4, 8)), make_rules(attempts_max=3)
    event = bench.amendment("looks", "analysis", looks=looks, rules=rules)
    known = bench.append(event).known()
    assert (looks, rules) == (known.looks, known.rules)
    assert (blob("amended protocol"), blob("amended resolved")) == (known.protocol, known.resolved)
    assert digest("3 looks") == known.sections["looks"]
    assert bench.log.state.size - 1 == known.plan_seq == known.amends[0].seq


def test_money_that_is_amended_counts_at_once() -> None:
    """A raised ceiling lets the next attempt start in the same session."""
    bench = Bench().running(make_design(usd_nanousd=RESERVE)).tried(1, "interrupted")
    raised = make_rules(usd_nanousd=3 * RESERVE)
    bench.append(bench.amendment("budget", "operational", rules=raised)).do("attempt", position=2)
    assert bench.known().budget_moved


def test_budget_is_moved_only_by_amending_it_after_the_first_attempt() -> None:
    """Other amendments, and one of the budget before anything was tried, move nothing."""
    bench = Bench().frozen()
    bench.append(bench.amendment("budget", "operational")).do("start").tried(1, "interrupted")
    bench.append(bench.amendment("about", "text"))
    assert not bench.known().budget_moved


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ([], "text"),
        (["about"], "text"),
        (["about", "budget"], "operational"),
        (["budget", "looks"], "analysis"),
        (["endpoints.resolved"], "analysis"),
        (["attempts"], "analysis"),
        (["blinding", "require", "diagnostics", "missing", "power", "decision"], "analysis"),
    ],
)
def test_class_of_an_amendment_is_the_gravest(sections: list[str], expected: str) -> None:
    """The class of an amendment follows from its sections; the gravest wins."""
    assert expected == amend_class(sections)

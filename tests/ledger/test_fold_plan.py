"""Open, adopt, register, freeze, amend: each need and each prohibition of the transition table."""

from __future__ import annotations

import pytest

from fairtrial.ledger.entry import parse_entry
from fairtrial.ledger.errors import ConflictError, TransitionError
from fairtrial.ledger.fold import apply
from fairtrial.ledger.state import State

from .fold_bench import Bench
from .fold_drafts import (
    RESERVE,
    Design,
    blob,
    digest,
    make_arm,
    make_design,
    make_looks,
    make_rules,
)
from .fold_pairs import Pair, check_pair, each_pair

TWO_LOOKS = make_design(4, lasts=(4, 8))


def _looks(*lasts: int) -> Design:
    return make_design(4)._replace(looks=make_looks(lasts))


def _freeze(design: Design, bench: Bench) -> Bench:
    bench.designs["e"] = design
    return bench.registered()


def _rising(*lasts: int) -> Pair:
    return Pair(
        f"looks rise to the last slot, not {lasts}",
        lambda b: _freeze(_looks(*lasts), b).draft("freeze"),
        "looks rise",
        lambda b: _freeze(_looks(4, 8), b).draft("freeze"),
    )


def _tried(times: int) -> Pair:
    return Pair(
        f"a slot isn't tried {times} times",
        lambda b: b.registered().draft("freeze", rules=make_rules(attempts_max=times)),
        "1 to 20 times",
        lambda b: b.registered().draft("freeze", rules=make_rules(attempts_max=20)),
    )


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


BEFORE_THE_RUN = (
    Pair(
        "open needs an empty ledger",
        lambda b: b.opened().draft("open", tool="t 2"),
        "the slot holds another event",
        lambda b: b.draft("open"),
        ConflictError,
    ),
    Pair(
        "a ledger begins with open",
        lambda b: b.draft("key"),
        "a ledger begins with `open`",
        lambda b: b.opened().draft("key"),
    ),
    Pair(
        "adopt needs another tool",
        lambda b: b.opened().draft("adopt", tool="t 1", schemas=digest("1")),
        "already writes here",
        lambda b: b.opened().draft("adopt"),
    ),
    Pair(
        "another tool with the same events is another tool",
        lambda b: b.opened().draft("adopt", tool="t 1", schemas=digest("1")),
        "already writes here",
        lambda b: b.opened().draft("adopt", tool="t 2", schemas=digest("1")),
    ),
    Pair(
        "the same tool with other events is another tool",
        lambda b: b.opened().draft("adopt", tool="t 1", schemas=digest("1")),
        "already writes here",
        lambda b: b.opened().draft("adopt", tool="t 1", schemas=digest("2")),
    ),
    Pair(
        "what adopt is compared with is the newest tool",
        lambda b: b.opened().do("adopt").draft("adopt"),
        "already writes here",
        lambda b: b.opened().do("adopt").draft("adopt", tool="t 1", schemas=digest("1")),
    ),
    Pair(
        "adopt isn't for a closed ledger",
        lambda b: b.opened().do("close").draft("adopt"),
        "the ledger is closed",
        lambda b: b.opened().draft("adopt"),
    ),
    Pair(
        "register needs a new id",
        lambda b: b.registered().draft("register", media="toml"),
        "the slot holds another event",
        lambda b: b.registered().draft("register", "f", media="toml"),
        ConflictError,
    ),
    Pair(
        "register isn't for a closed ledger",
        lambda b: b.opened().do("close").draft("register"),
        "the ledger is closed",
        lambda b: b.opened().draft("register"),
    ),
    Pair(
        "what is superseded is withdrawn",
        lambda b: b.registered().draft("register", "f", supersedes="e"),
        "must be withdrawn",
        lambda b: b.registered().do("withdraw").draft("register", "f", supersedes="e"),
    ),
    Pair(
        "what is superseded is registered",
        lambda b: b.registered().do("withdraw").draft("register", "f", supersedes="g"),
        "must be withdrawn",
        lambda b: b.registered().do("withdraw").draft("register", "f", supersedes="e"),
    ),
    Pair(
        "an experiment doesn't supersede itself",
        lambda b: b.opened().draft("register", supersedes="e"),
        "must be withdrawn",
        lambda b: b.opened().draft("register"),
    ),
    Pair(
        "an experiment is superseded once",
        lambda b: (
            b.registered()
            .do("withdraw")
            .do("register", "f", supersedes="e")
            .draft("register", "g", supersedes="e")
        ),
        "not yet superseded",
        lambda b: b.registered().do("withdraw").draft("register", "g", supersedes="e"),
    ),
    Pair(
        "freeze needs register",
        lambda b: b.opened().draft("freeze"),
        "isn't registered",
        lambda b: b.registered().draft("freeze"),
    ),
    Pair(
        "freeze comes once",
        lambda b: b.frozen().draft("freeze", cluster_count=1),
        "the slot holds another event",
        lambda b: b.registered().draft("freeze", cluster_count=1),
        ConflictError,
    ),
    Pair(
        "freeze isn't for what has ended",
        lambda b: b.registered().do("withdraw").draft("freeze"),
        "has ended",
        lambda b: b.registered().draft("freeze"),
    ),
    *(_rising(*lasts) for lasts in ((), (4,), (4, 9), (8, 4), (4, 4, 8), (0, 8))),
    Pair(
        "the plan has as many lines as slots",
        lambda b: b.registered().draft("freeze", slot_count=7),
        "as many lines as slots",
        lambda b: b.registered().draft("freeze", slot_count=8),
    ),
    Pair(
        "the plan is at hand",
        lambda b: b.registered().draft("freeze", plan=blob("elsewhere")),
        "isn't at hand",
        lambda b: b.registered().draft("freeze"),
    ),
    Pair(
        "arms have names of their own",
        lambda b: b.registered().draft("freeze", arms=(make_arm("a"), make_arm("a"))),
        "names of their own",
        lambda b: b.registered().draft("freeze", arms=(make_arm("b"), make_arm("a"))),
    ),
    Pair(
        "the plan holds only frozen arms",
        lambda b: b.registered().draft("freeze", arms=(make_arm("a"), make_arm("c"))),
        "only the frozen arms",
        lambda b: b.registered().draft(
            "freeze", arms=(make_arm("a"), make_arm("b"), make_arm("c"))
        ),
    ),
    _tried(0),
    _tried(21),
    Pair(
        "all arms are blinded or none",
        lambda b: b.registered().draft(
            "freeze", arms=(make_arm("a", commitment=digest("a")), make_arm("b"))
        ),
        "blinded arms",
        lambda b: b.registered().draft(
            "freeze",
            arms=(
                make_arm("a", commitment=digest("a")),
                make_arm("b", commitment=digest("b")),
            ),
        ),
    ),
    Pair(
        "blinded arms reserve the same",
        lambda b: b.registered().draft(
            "freeze",
            arms=(
                make_arm("a", commitment=digest("a"), reserve_nanousd=1),
                make_arm("b", commitment=digest("b"), reserve_nanousd=2),
            ),
        ),
        "the same reservation",
        lambda b: b.registered().draft(
            "freeze",
            arms=(make_arm("a", reserve_nanousd=1), make_arm("b", reserve_nanousd=2)),
        ),
    ),
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


@each_pair(BEFORE_THE_RUN)
def test_registering_and_freezing_follow_the_table(pair: Pair) -> None:
    """What comes before a run stands only where the table lets it stand."""
    check_pair(pair)


@each_pair(AMENDMENTS)
def test_amending_follows_the_table(pair: Pair) -> None:
    """An amendment changes what its class lets it change, and nothing that was seen."""
    check_pair(pair)


def test_fold_knows_the_first_event_without_a_log() -> None:
    """The fold itself refuses a second `open` and any other first event."""
    bench = Bench().opened().do("key")
    first, second = (parse_entry(data) for data in bench.medium.entries)
    events = [event for _, event in bench.log.read()]
    with pytest.raises(TransitionError, match="begins with `open`"):
        apply(State(), second, events[1], plan_of=lambda _: None)
    state = apply(State(), first, events[0], plan_of=lambda _: None)
    with pytest.raises(TransitionError, match="comes only once"):
        apply(state, second, events[0], plan_of=lambda _: None)


@pytest.mark.parametrize(
    ("kind", "experiment", "position", "says"),
    [
        ("key", "e", 0, "has no experiment"),
        ("start", "", 0, "needs an experiment"),
        ("attempt", "e", 0, "needs a position"),
        ("start", "e", 1, "has no position"),
    ],
)
def test_slot_has_the_parts_of_its_kind(
    kind: str, experiment: str, position: int, says: str
) -> None:
    """Experiment and position are there exactly where the kind has them."""
    bench = Bench().running()
    with pytest.raises(TransitionError, match=says):
        bench.do(kind, experiment, position, number=1)


@pytest.mark.parametrize("kind", ["start", "amend", "refuse", "anchor", "sign", "redact"])
def test_numbers_follow_without_gap(kind: str) -> None:
    """A number that leaves one out, or 0 where they count from 1, is refused."""
    bench = Bench().running()
    expected = bench.draft(kind).number
    for number in (expected + 1, 0):
        with pytest.raises(TransitionError, match="follow without gap"):
            bench.do(kind, number=number)
    bench.do(kind, number=expected)


def test_freeze_puts_the_plan_in_force() -> None:
    """After a freeze the state knows what was frozen and how much of it there is."""
    design = make_design(3)
    known = Bench().frozen(design).known()
    assert (3, 3, 6) == (known.unit_count, known.cluster_count, len(known.slots or ()))
    assert (design.blob, blob("units"), blob("files")) == (
        known.plan_blob,
        known.units_blob,
        known.files_blob,
    )
    assert (design.arms, design.rules, design.looks) == (known.arms, known.rules, known.looks)


def test_amendment_puts_protocol_rules_and_looks_in_force() -> None:
    """After an amendment its sections, rules and looks are the ones that count."""
    bench = Bench().frozen()
    looks, rules = make_looks((4, 8)), make_rules(attempts_max=3)
    event = bench.amendment("looks", "analysis", looks=looks, rules=rules)
    known = bench.append(event).known()
    assert (looks, rules) == (known.looks, known.rules)
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

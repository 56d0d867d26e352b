"""What people read: numbers, progress, lines of the log; functions of values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, get_args

import msgspec
import pytest

from fairtrial.analysis.verdict import Finding
from fairtrial.engine.look_view import LookView
from fairtrial.engine.progress import Progress
from fairtrial.ledger.events import Head, Look
from fairtrial.verbs import text_numbers as numbers
from fairtrial.verbs.output import label
from fairtrial.verbs.progress import LINE_SECONDS, LinesSink
from fairtrial.verbs.text_log import entry_line, read_entry
from fairtrial.verbs.text_look import look_text
from fairtrial.verbs.text_rule import reason_words
from fairtrial.verbs.text_run import progress_line, progress_lines
from fairtrial.verbs.text_tipping import tipping_lines
from fairtrial.verbs.text_why import WHY_WORDS, why_text


def test_codes_that_keep_a_look_from_deciding_have_words() -> None:
    """Every code that the guards and readings give is said in words, none as a code."""
    codes = {*get_args(Finding), "missing_over_limit", "missing_refused", "no_interval"}
    assert set() == (codes | {"little_information"}) - set(WHY_WORDS)
    assert "weighs like too few independent clusters" in why_text(["few_clusters", "low_df"])


RUNNING = Progress(
    experiment="router-ab",
    settled=599,
    planned=1200,
    settled_here=599,
    arms={"candidate": (301, 600), "baseline": (298, 600)},
    in_flight=16,
    errors=4,
    retries=2,
    spent_usd=2078.5,
    reserved_usd=64.0,
    ceiling_usd=4000.0,
    expected_usd=4160.0,
    looks_taken=0,
    looks_planned=2,
    waiting_for_look=37,
    seconds=100000.0,
    seconds_left=111600.0,
    stopping=None,
)


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (0.71, "0.71"),
        (0.0979, "0.098"),
        (0.0454, "0.045"),
        (0.05, "0.050"),
        (0.00302, "0.0030"),
        (4.7e-5, "0.000047"),
        (1e-9, "under 0.000001"),
        (1.0, "1.00"),
        (None, "none"),
    ],
)
def test_p_values_have_two_significant_digits(p: float | None, text: str) -> None:
    """Two digits wherever the first of them stands."""
    assert text == numbers.p_value(p)


@pytest.mark.parametrize(
    ("value", "points", "text"),
    [
        (0.02, True, "+2.0 points"),
        (-0.122, True, "-12.2 points"),
        (-0.0001, True, "+0.0 points"),
        (1.25, False, "+1.25"),
        (None, True, "none"),
    ],
)
def test_differences_carry_their_sign(value: float | None, points: bool, text: str) -> None:
    """A difference is signed; one that doesn't exist is a word."""
    assert text == numbers.difference(value, points=points)


def test_intervals_money_and_time_are_short() -> None:
    """What stands in tables fits there."""
    assert "-12.2 to +16.2" == numbers.interval(-0.122, 0.162, points=True)
    assert "open to +16.2" == numbers.interval(None, 0.162, points=True)
    assert ["2,078.50", "0.00", "0.0360", "0.50"] == [
        numbers.usd(amount) for amount in (2078.5, 0, 0.036, 0.5)
    ]
    assert ["0.4 s", "31 h 0 min", "3 days 2 h", "5 min 3 s"] == [
        numbers.duration(seconds) for seconds in (0.4, 111600, 266400, 303)
    ]


def test_text_of_strangers_holds_no_control_characters() -> None:
    """A driver's message can't move the cursor or end a line."""
    assert "red [31mtext" == numbers.clip("red\x1b[31mtext\r\n", 80)
    assert 10 == len(numbers.clip("x" * 50, 10))


def test_label_keeps_further_lines_below_the_first() -> None:
    """A text of two lines stands in one column."""
    assert "note      a\n          b" == label("note", "a\nb")


def test_display_says_what_is_left_and_what_it_will_cost() -> None:
    """Arms, errors, money, the end of the money, the next look, the end."""
    text = "\n".join(progress_lines(RUNNING, width=200))
    for part in (
        "router-ab   candidate [######......] 301/600   baseline [#####.......] 298/600",
        "errors 4 (2 retried)   16 in flight",
        "spent 2,078.50 + 64.00 reserved of 4,000.00 usd",
        "EXPECTED AT THE END 4,160.00: will stop near slot 1,153",
        "next look in 1 h 54 min",
        "end in 31 h 0 min",
    ):
        assert part in text
    assert progress_line(RUNNING).startswith("router-ab   599 of 1,200 slots   errors 4")
    assert 1 == len(progress_line(RUNNING).splitlines())


@pytest.mark.parametrize("width", [40, 60, 80])
def test_display_fits_the_terminal(width: int) -> None:
    """No line is longer than the terminal is wide, unless one part alone is."""
    for line in progress_lines(RUNNING, width=width):
        assert len(line) <= max(width, 60)


def test_display_tells_no_estimate() -> None:
    """Who runs an experiment isn't told how it goes: progress has no field for it."""
    fields = set(Progress.__struct_fields__)
    assert not fields & {"score", "passed", "estimate", "rate", "difference", "scores"}


def test_waiting_for_the_last_slots_of_a_look_is_said() -> None:
    """A slow unit that holds the barrier is named by what waits for it."""
    late = msgspec.structs.replace(RUNNING, waiting_for_look=2)
    assert "waiting for 2 slots before look 1" in progress_line(late)


@dataclass
class Clock:
    """A clock that stands until it is moved."""

    now: float = 0.0
    lines: list[str] = field(default_factory=list)

    def __call__(self) -> float:
        """Returns where the clock stands."""
        return self.now


def test_lines_come_at_most_every_few_seconds() -> None:
    """A log isn't flooded: notes come at once, counts when a line is due."""
    clock = Clock()
    sink = LinesSink(clock.lines.append, clock=clock)
    for tenth in range(200):
        clock.now = tenth / 10
        sink.progress(RUNNING)
    sink.note("look 1 of 2 taken")
    assert int(20 // LINE_SECONDS) - 1 == len(clock.lines) - 1
    assert "look 1 of 2 taken" == clock.lines[-1]


def test_broken_display_stops_no_run() -> None:
    """A terminal that went away is given up; nothing is raised."""
    clock = Clock()

    def gone(line: str) -> None:
        raise BrokenPipeError

    sink = LinesSink(gone, clock=clock)
    clock.now = 100.0
    sink.note("a")
    sink.progress(RUNNING)


@pytest.mark.parametrize(
    "data",
    [b"", b"not json", b"[]", b'{"seq":1}', b'{"seq":3,"event":{"kind":"look/9"}}', b"\xff\xfe"],
)
def test_log_prints_damaged_entries_too(data: bytes) -> None:
    """Whatever stands in a ledger has its line."""
    assert entry_line(read_entry(data))


def entry_of(event: dict[str, Any]) -> str:
    """Returns the line of an entry with this event."""
    head = {"seq": 517, "time": "2026-11-29T10:00:00.000000Z", "actor": "ada"}
    return entry_line(read_entry(msgspec.json.encode({**head, "event": event})))


def test_log_line_of_an_outcome_has_its_slot_in_words() -> None:
    """Arm, unit, replicate, status, scores and cost stand in the line."""
    line = entry_of(
        {
            "kind": "decision/1", "experiment": "e", "position": 9, "number": 0, "arm": "B",
            "unit": "django-11099", "replicate": 2, "status": "ok", "code": None,
            "scores": {"passed": 1.0, "score": None}, "cost_nanousd": 2_910_000_000,
        }
    )  # fmt: skip
    expected = "slot 9  B  django-11099 #2  ok  passed=1 score=null  usd 2.91"
    assert line.endswith(f"outcome     e  {expected}")


def test_intervals_of_rates_end_where_rates_end() -> None:
    """A difference of shares is never shown beyond 100 points; other numbers aren't cut."""
    assert "-100.0 to +100.0" == numbers.interval(-1.458, 2.458, points=True)
    assert "-1.458 to +2.458" == numbers.interval(-1.458, 2.458, points=False)


@pytest.mark.parametrize(
    ("number", "continues", "ended", "kind", "goes"),
    [
        (2, False, False, "interim", "no: a boundary was crossed"),
        (2, True, False, "interim", "yes"),
        (2, True, True, "interim", "it did; the experiment has ended since"),
        (21, False, False, "final", "no: this was the last look"),
    ],
)
def test_look_says_why_a_run_goes_on_or_not(
    number: int, continues: bool, ended: bool, kind: str, goes: str
) -> None:
    """A look that crossed isn't the last planned one, and an experiment that ended goes nowhere."""
    look = Look(
        experiment="e", number=number, basis=Head(size=1, root="0" * 64), data="0" * 64, last=4,
        continues=continues, method="m", units=2, clusters=2, comparisons=(),
    )  # fmt: skip
    view = LookView(
        planned=21, ended=ended, next="", fraction=0.1, eligible=True, blinded=False, hidden=False,
        in_points=frozenset(), notes=(), noun="pairs",
    )  # fmt: skip
    text = look_text(look, view)
    assert f"look {number} of 21 (planned {kind} analysis)" in text
    assert text.endswith(label("goes on", goes))


@pytest.mark.parametrize(
    ("recorded", "printed"),
    [
        ("lower bound 0.969 reaches the target 0.95", "lower bound 96.9 % reaches the target 95 %"),
        ("bound 0.070 is below the target 0.07; a b", "bound 7.0 % is below the target 7 %; a b"),
        (
            "may be, 0.900 to 1.000, spans the target 1",
            "may be, 90.0 % to 100.0 %, spans the target 100 %",
        ),
        ("A's flags reaches the target 0.9 in b, c", "A's flags reaches the target 90 % in b, c"),
        ("v0.9 bound: 0.5 degrees, 5 are needed", "v0.9 bound: 0.5 degrees, 5 are needed"),
    ],
)
def test_reason_of_a_rule_has_percent_as_its_tables_have(recorded: str, printed: str) -> None:
    """Bounds and targets on record are shares; printed they are percent, and nothing else is."""
    assert printed == reason_words(recorded)


def test_tipping_point_says_where_fewer_might_do() -> None:
    """A number that was not shown to be the smallest says so; the walk says it is in run order."""
    fewest = {"way": "against", "count": 4, "exact": True, "verdict": "inconclusive"}
    change = {"verdict": "inconclusive", "at_least": 5, "at_most": 20}
    shown = {"lost": 20, "fewest": [fewest], "changes": [change]}
    first, second = tipping_lines(shown, "B")
    assert first.endswith("inconclusive with as few as 4 of 20 lost outcomes against B")
    assert second.startswith("in run order:")
    open_one = {**shown, "fewest": [{**fewest, "exact": False}]}
    assert next(tipping_lines(open_one, "B")).endswith("against B, perhaps with fewer")
    (none,) = tipping_lines({"lost": 20, "fewest": [], "changes": []}, "B")
    assert "none" in none

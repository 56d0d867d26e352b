"""Says why an experiment has no end yet: how its newest session stopped, and which slots are open.

Leaves to `concluding.py` when to say it and to `status.py` the command that goes on.

Rules:
- Every slot before the next look that isn't settled is named, by its position in the run order and
  by how its newest attempt ended; where all are settled the look itself is due.
- How a session stopped is said in the word on record: a host that was sent SIGTERM while it ran an
  experiment may have missed it.
- No arm is named: what is said here may be read while arms are blinded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from fairtrial.ledger.errors import TransitionError
from fairtrial.ledger.slots import Slots
from fairtrial.ledger.state import Experiment, next_look_last
from fairtrial.ledger.tries import ended_in, is_exhausted

from .status import next_command, state_word

__all__ = ("check_frozen", "check_standing", "unfinished")

_RANGES_MAX = 5


def check_standing(known: Experiment) -> None:
    """Refuses an act that goes on with an experiment which was withdrawn.

    Raises:
        TransitionError: It was.
    """
    if known.withdrawn_seq is not None:
        raise TransitionError(
            "the experiment was withdrawn",
            where=known.name,
            expected="an experiment that goes on, or has a result",
            found=f"its withdrawal, entry {known.withdrawn_seq}",
            todo=f"ledger show {known.withdrawn_seq} says why; {_successor(known)}",
        )


def _successor(known: Experiment) -> str:
    if known.superseded_by:
        return f"{known.superseded_by} has taken its place: ledger status {known.superseded_by}"
    return f"a new plan takes its place: ledger register PROTOCOL --supersedes {known.name}"


def check_frozen(known: Experiment) -> None:
    """Refuses a result of an experiment of which nothing is fixed yet.

    Raises:
        TransitionError: It isn't frozen.
    """
    if known.freeze_seq is None:
        raise TransitionError(
            "the experiment isn't frozen, so there is nothing that a result could be about",
            where=known.name,
            expected="a freeze, then outcomes",
            found=f"its registration alone, entry {known.register_seq}",
            todo=(
                f"ledger freeze {known.name}; or, to give it up:"
                f" ledger withdraw {known.name} --reason TEXT"
            ),
        )


def unfinished(known: Experiment) -> TransitionError:
    """Returns why there is no end yet, with the ways to go on."""
    planned = len(known.slots) if known.slots is not None else 0
    go_on = next_command(known, state_word(known, running=False), known.name)
    if go_on.startswith("ledger amend"):
        go_on += f", then: ledger run {known.name}"
    return TransitionError(
        "the experiment isn't finished",
        where=known.name,
        expected=f"{planned} outcomes and {len(known.looks)} looks",
        found=f"{known.settled} outcomes and {len(known.taken)} looks{_why(known)}",
        todo=f"go on: {go_on}; or end it early: ledger result {known.name} --stop --reason TEXT",
    )


def _why(known: Experiment) -> str:
    """Returns how the newest session stopped, and the slots that keep the next look away."""
    if known.slots is None:
        return ""
    look, open_ones = f"look {len(known.taken) + 1}", _open_slots(known, known.slots)
    what = f"before {look}: {open_ones}" if open_ones else f"{look} is due"
    return f"; {_session(known)}; {what}"


def _session(known: Experiment) -> str:
    if not known.sessions:
        return "no session yet"
    how = "hasn't stopped" if known.live else f"stopped: {known.last_stop}"
    return f"session {known.sessions} {how}"


def _open_slots(known: Experiment, slots: Slots) -> str:
    """Returns the unsettled slots before the next look, those of one state together."""
    by_state: dict[str, list[int]] = {}
    for position in slots.pending(1, next_look_last(known)):
        by_state.setdefault(_state(known, slots, position), []).append(position)
    return ", ".join(
        f"{len(positions)} {state} ({_places(positions)})" for state, positions in by_state.items()
    )


def _state(known: Experiment, slots: Slots, position: int) -> str:
    """Returns what became of an unsettled slot so far."""
    if slots.is_open[position]:
        return "in flight"
    ended = ended_in(known, position) or ("excused" if slots.attempts[position] else "")
    if not ended:
        return "not started"
    return f"{ended}, tries used up" if is_exhausted(known, position) else f"{ended}, to try again"


def _places(positions: Sequence[int]) -> str:
    """Returns positions in words, neighbours as a range."""
    ranges = [f"{a}" if a == z else f"{a} to {z}" for a, z in _ranges(positions)]
    more = ["..."] if len(ranges) > _RANGES_MAX else []
    word = "position" if len(positions) == 1 else "positions"
    return f"{word} {', '.join(ranges[:_RANGES_MAX] + more)}"


def _ranges(positions: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yields first and last of each run of neighbours."""
    for _, run in groupby(enumerate(positions), key=lambda one: one[1] - one[0]):
        found = [position for _, position in run]
        yield found[0], found[-1]

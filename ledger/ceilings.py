"""Ceilings of an experiment: money, calls, tokens and time, against what was spent and reserved.

Part of the fold. Leaves it to `run_rules.py` when to ask, and to the engine what to reserve
together.

Rules:
- An attempt needs room for its whole reservation beside all that is spent and open.
- A cost that isn't reported is the reservation.
- Tokens aren't reserved: nothing starts once they are used up.
- Time runs from each start to its stop, or to the last event of a session that never stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from .errors import TransitionError
from .state import Experiment, next_look_last, slots_of
from .tries import Unpriced, is_exhausted

__all__ = (
    "ceiling_reached",
    "charge_nanousd",
    "is_at_ceiling",
    "is_out_of_time",
    "may_analyse",
    "room_for",
    "seconds_between",
    "seconds_run",
)


def charge_nanousd(cost: int | None, reserve: int) -> int:
    """Returns what an ended attempt costs: what was reported, else what was reserved."""
    return Unpriced(reserve) if cost is None else cost


def room_for(known: Experiment, arms: Sequence[int], *, spared: Sequence[int] = ()) -> str:
    """Returns which ceiling leaves no room for one attempt in each of `arms`; "" when all fit.

    Args:
        known: The experiment.
        arms: Indices of arms.
        spared: Per arm, nano-USD that are taken as not spent.
    """
    short = _short(known, arms, spared)
    return short.text if short is not None else ""


class _Short(NamedTuple):
    """A ceiling that leaves no room: its field in the protocol, and the numbers."""

    field: str
    text: str


class _Use(NamedTuple):
    """What is used of some ceilings, and what is to start."""

    spent: int
    reserved: int
    wanted: int
    calls: int
    tokens: int


def _short(known: Experiment, arms: Sequence[int], spared: Sequence[int] = ()) -> _Short | None:
    rules = known.rules
    assert rules is not None
    # Plain sums: each attempt that is folded comes through here.
    spent = reserved = wanted = calls = tokens = 0
    for index, tally in enumerate(known.tallies):
        starting = arms.count(index)
        if starting and rules.arms:
            short = _short_of_arm(known, index, starting, spared)
            if short is not None:
                return short
        spent += tally.spent_nanousd - (spared[index] if spared else 0)
        reserved += tally.reserved_nanousd
        wanted += starting * known.arms[index].reserve_nanousd
        calls += tally.calls + starting
        tokens += tally.tokens
    use = _Use(spent, reserved, wanted, calls, tokens)
    short = _over(use, rules.usd_nanousd, rules.calls, rules.tokens)
    return None if short is None else _Short(f"budget.{short.field}", short.text)


def _short_of_arm(
    known: Experiment, index: int, starting: int, spared: Sequence[int]
) -> _Short | None:
    rules, tally, frozen = known.rules, known.tallies[index], known.arms[index]
    assert rules is not None
    own = rules.arms.get(frozen.name)
    if own is None:
        return None
    use = _Use(
        tally.spent_nanousd - (spared[index] if spared else 0),
        tally.reserved_nanousd,
        starting * frozen.reserve_nanousd,
        tally.calls + starting,
        tally.tokens,
    )
    short = _over(use, own.usd_nanousd, own.calls, own.tokens)
    if short is None:
        return None
    return _Short(f"budget.arms.{frozen.name}.{short.field}", f"arm {frozen.name}: {short.text}")


def _over(
    use: _Use, usd_max: int | None, calls_max: int | None, tokens_max: int | None
) -> _Short | None:
    if usd_max is not None and use.spent + use.reserved + use.wanted > usd_max:
        held = f" and reserved {_usd(use.reserved)}" if use.reserved else ""
        return _Short(
            "usd",
            f"spent {_usd(use.spent)}{held}, what comes next reserves {_usd(use.wanted)},"
            f" ceiling {_usd(usd_max)} usd",
        )
    if calls_max is not None and use.calls > calls_max:
        return _Short("calls", f"calls {use.calls} of {calls_max}")
    if tokens_max is not None and use.tokens >= tokens_max:
        return _Short("tokens", f"tokens {use.tokens} of {tokens_max}")
    return None


def _usd(nano: int) -> str:
    """Returns an amount with all its decimals, two at least."""
    whole, _, rest = f"{nano / 1e9:.9f}".partition(".")
    return f"{whole}.{rest.rstrip('0').ljust(2, '0')}"


def ceiling_reached(known: Experiment) -> str:
    """Returns the field of the ceiling that keeps a slot before the next look from an attempt."""
    waiting = _waiting_arms(known)
    short = _short(known, waiting) if waiting else None
    return short.field if short is not None else ""


def is_at_ceiling(known: Experiment, *, without_lost: bool = False) -> bool:
    """Returns whether some slot before the next look can't be attempted for a ceiling.

    Args:
        known: The experiment.
        without_lost: Whether to ask as if lost attempts, whose true cost nobody has stated, had
            cost nothing.
    """
    waiting = _waiting_arms(known)
    spared = _unsettled_nanousd(known) if without_lost else ()
    return bool(waiting) and bool(room_for(known, waiting, spared=spared))


def _waiting_arms(known: Experiment) -> list[int]:
    """Returns the arms that have a slot to attempt before the next look."""
    slots = slots_of(known)
    waiting: set[int] = set()
    for position in slots.pending(1, next_look_last(known)):
        arm = slots.arm[position]
        live = known.arms[arm].origin == "live"
        if arm not in waiting and live and not is_exhausted(known, position):
            waiting.add(arm)
    return sorted(waiting)


def _unsettled_nanousd(known: Experiment) -> list[int]:
    """Returns per arm what lost attempts were charged and nobody has settled."""
    sums = [0] * len(known.arms)
    for attempts in known.lost.values():
        for lost in attempts:
            sums[lost.arm] += 0 if lost.settled else lost.charged
    return sums


def may_analyse(known: Experiment) -> bool:
    """Returns whether data cut short by a ceiling may be analysed instead of being inconclusive.

    The protocol has to say so, nobody may have moved the budget after the first attempt, and lost
    attempts, which cost a full reservation each, must not be what reached the ceiling.
    """
    rules = known.rules
    if rules is None or rules.on_under_run != "analyse" or known.budget_moved:
        return False
    return known.last_stop == "wall_time" or is_at_ceiling(known, without_lost=True)


def seconds_between(earlier: str, later: str) -> float:
    """Returns the seconds between two entry times.

    Raises:
        TransitionError: One of them is no date.
    """
    try:
        return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()
    except ValueError as error:
        raise TransitionError("the time of an entry is no date", found=str(error)) from error


def seconds_run(known: Experiment, time: str) -> float:
    """Returns for how long sessions ran up to an entry time, all of them together."""
    if not known.live:
        return known.ran_seconds
    return known.ran_seconds + max(0.0, seconds_between(known.start_time, time))


def is_out_of_time(known: Experiment, time: str) -> bool:
    """Returns whether sessions have run as long as some ceiling of wall time allows."""
    rules = known.rules
    assert rules is not None
    limits = [rules.wall_seconds, *(own.wall_seconds for own in rules.arms.values())]
    allowed = [limit for limit in limits if limit is not None]
    return bool(allowed) and seconds_run(known, time) >= min(allowed)

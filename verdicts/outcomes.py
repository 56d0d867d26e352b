"""The outcomes of one experiment as columns over positions, read from its entries. Pure.

Leaves what an outcome is worth to `arrays.py`, and what may follow what to the fold: entries come
here only after it accepted them.

Rules:
- Column entry p - 1 belongs to position p of the plan; an unsettled slot holds "nothing" in each.
- What a slot cost is the sum over all its attempts, crashed ones too, as `settle` corrected them.
  An attempt of a metered arm that reported no cost is charged its reservation. A cost that nobody
  reported is unknown, not 0.
- Tokens are summed over the attempts as well; duration and scores are those of the outcome alone.
- An invalidated outcome keeps its value here; who computes decides what stands for it.
- The digest covers what numbers are computed from and no place in the log: it is equal for any
  order of completion.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import compress, repeat
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec

from fairtrial.ledger.entry import Entry
from fairtrial.ledger.events import (
    Attempt,
    AttemptEnd,
    Decision,
    Event,
    Freeze,
    Invalidate,
    Origin,
    Settle,
)
from fairtrial.ledger.run_rules import charge_nanousd
from fairtrial.ledger.slots import STATUSES
from fairtrial.protocols.plan import Plan

__all__ = (
    "Measures",
    "Outcomes",
    "collect_decisions",
    "data_digest",
    "read_outcomes",
    "spent_by_arm",
)

if TYPE_CHECKING:
    IntColumn: TypeAlias = array[int]
    FloatColumn: TypeAlias = array[float]
else:
    # At run time array takes no parameter before Python 3.12.
    IntColumn = FloatColumn = array

_NOTHING: Final = -1
_ABSENT, _NULL, _NUMBER = 0, 1, 2
_BATCH: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreColumn:
    """One score over all slots.

    Attributes:
        values: the numbers; 0.0 where there is none.
        given: 0 where the outcome doesn't have this score, 1 where it is null, 2 for a number.
    """

    values: FloatColumn
    given: bytearray


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """What is known of every slot; -1 stands for "nothing" in the integer columns.

    Attributes:
        status: index + 1 of the status in `STATUSES`, 0 for an unsettled slot.
        codes: code by position, where there is one.
        scores: columns by name of the score; `passed` and `score` are among them.
        flag: 1 yes, 0 no.
        answers: the answer as text.
        long_answers: positions whose answer is kept as an artifact for its length.
        cost_nanousd: price of the slot as if nothing were cached.
        incurred_nanousd: what was really paid for the slot.
        tokens: columns by kind of token.
        duration_ms: duration of the outcome.
        seq: place of the outcome's entry in the log.
        leaves: 32 bytes a slot, the leaf of that entry.
        invalidated: position to the seq of the first event that declared it invalid.
        other_model: positions that another model answered than was requested.
    """

    status: bytearray
    codes: dict[int, str]
    scores: dict[str, ScoreColumn]
    flag: IntColumn
    answers: list[str | None]
    long_answers: set[int]
    cost_nanousd: IntColumn
    incurred_nanousd: IntColumn
    tokens: dict[str, IntColumn]
    duration_ms: IntColumn
    seq: IntColumn
    leaves: bytearray
    invalidated: dict[int, int]
    other_model: set[int]

    @property
    def slot_count(self) -> int:
        """How many slots the plan has."""
        return len(self.status)

    def leaf_at(self, position: int) -> bytes:
        """Returns the leaf of the entry that holds a slot's outcome."""
        return bytes(self.leaves[32 * position - 32 : 32 * position])


def read_outcomes(
    pairs: Iterable[tuple[Entry, Event]], experiment: str, slot_count: int
) -> Outcomes:
    """Returns the outcomes of one experiment.

    Args:
        pairs: entries with their events, in the order of the log; other experiments are skipped.
        experiment: name of the experiment.
        slot_count: slots of its frozen plan.
    """
    reader = _Reader(slot_count)
    for entry, event in pairs:
        if event.experiment == experiment:
            reader.read(entry, event)
    return reader.outcomes


def spent_by_arm(outcomes: Outcomes, plan: Plan, origins: Mapping[str, Origin]) -> dict[str, int]:
    """Returns what each arm has cost, in nano-USD, as ceilings count it."""
    spent = dict.fromkeys(origins, 0)
    for index, place in enumerate(plan.arm_of):
        arm = plan.arms[place]
        live = origins[arm] == "live"
        column = outcomes.cost_nanousd if live else outcomes.incurred_nanousd
        spent[arm] += max(0, column[index])
    return spent


def collect_decisions(decisions: Iterable[Decision], slot_count: int) -> Outcomes:
    """Returns outcomes that stand in no log: no leaf, cost as each decision states it."""
    reader = _Reader(slot_count)
    for decision in decisions:
        reader.keep(decision)
    return reader.outcomes


# Keys come sorted: names of scores and of tokens.
_ENCODER = msgspec.json.Encoder()


class Measures(NamedTuple):
    """Which measured values an endpoint uses, and so which of them belong to the data."""

    cost: bool = False
    tokens: bool = False
    duration: bool = False


def data_digest(outcomes: Outcomes, *, last: int, measures: Measures) -> str:
    """Returns the SHA-256 over the settled slots up to a position, in hex.

    One line a slot in order of position, a JSON array of position, status, scores, answer, flag,
    and, where an endpoint uses them, cost in nano-USD, tokens, duration in milliseconds. What a
    crash adds to cost or time is no part of data that no endpoint looks at.
    """
    hasher = sha256()
    for first in range(0, last, _BATCH):
        rows = _rows(outcomes, slice(first, min(first + _BATCH, last)), measures)
        settled = compress(rows, outcomes.status[first : first + _BATCH])
        hasher.update(_ENCODER.encode_lines(settled))
    return hasher.hexdigest()


def _rows(outcomes: Outcomes, part: slice, measures: Measures) -> Iterator[tuple[object, ...]]:
    """Returns what the digest covers of each slot in a range, unsettled ones included."""
    # An unsettled slot has the index 0, so its name is the last one: its row is left out.
    columns: list[Iterable[object]] = [
        range(part.start + 1, part.stop + 1),
        [STATUSES[status - 1] for status in outcomes.status[part]],
        _score_rows(outcomes, part),
        outcomes.answers[part],
        [_flag(flag) for flag in outcomes.flag[part]],
    ]
    if measures.cost:
        columns.append(_known(value) for value in outcomes.cost_nanousd[part])
    if measures.tokens:
        columns.append(_token_rows(outcomes, part))
    if measures.duration:
        columns.append(_known(value) for value in outcomes.duration_ms[part])
    return zip(*columns, strict=True)


def _score_rows(outcomes: Outcomes, part: slice) -> Iterator[object]:
    """Returns the scores of each slot in a range, in order of their names."""
    names = sorted(outcomes.scores)
    columns = [outcomes.scores[name] for name in names]
    if all(min(column.given[part], default=_NUMBER) == _NUMBER for column in columns):
        # A Struct encodes as a mapping and is made in a fraction of the time.
        fields = {f"score_{place}": name for place, name in enumerate(names)}
        row = msgspec.defstruct("Scores", list(fields), rename=fields, gc=False)
        if not names:
            return repeat(row(), part.stop - part.start)
        return map(row, *(column.values[part] for column in columns))
    return (
        {
            name: column.values[index] if column.given[index] == _NUMBER else None
            for name, column in zip(names, columns, strict=True)
            if column.given[index]
        }
        for index in range(part.start, part.stop)
    )


def _token_rows(outcomes: Outcomes, part: slice) -> Iterator[dict[str, int]]:
    tokens = sorted(outcomes.tokens.items())
    for index in range(part.start, part.stop):
        yield {name: column[index] for name, column in tokens if column[index] != _NOTHING}


def _known(value: int) -> int | None:
    return None if value == _NOTHING else value


def _flag(value: int) -> bool | None:
    return None if value == _NOTHING else bool(value)


def _column(code: str, size: int, value: int) -> IntColumn:
    return array(code, [value]) * size


def _empty(size: int) -> Outcomes:
    return Outcomes(
        status=bytearray(size),
        codes={},
        scores={},
        flag=_column("b", size, _NOTHING),
        answers=[None] * size,
        long_answers=set(),
        cost_nanousd=_column("q", size, _NOTHING),
        incurred_nanousd=_column("q", size, _NOTHING),
        tokens={},
        duration_ms=_column("q", size, _NOTHING),
        seq=_column("q", size, _NOTHING),
        leaves=bytearray(32 * size),
        invalidated={},
        other_model=set(),
    )


@dataclass(slots=True)
class _LostCost:
    """What a lost or interrupted attempt was charged, until a person corrects it."""

    position: int
    cost: int
    incurred: int


@dataclass(slots=True)
class _Arm:
    metered: bool
    reserve: int


@dataclass(slots=True)
class _Reader:
    """Fills the columns; keeps what only reading needs."""

    slot_count: int
    outcomes: Outcomes = field(init=False)
    arms: dict[str, _Arm] = field(init=False, default_factory=dict[str, _Arm])
    open: dict[int, _Arm] = field(init=False, default_factory=dict[int, _Arm])
    lost: dict[int, _LostCost] = field(init=False, default_factory=dict[int, _LostCost])
    texts: dict[str, str] = field(init=False, default_factory=dict[str, str])

    def __post_init__(self) -> None:
        self.outcomes = _empty(self.slot_count)

    def read(self, entry: Entry, event: Event) -> None:
        """Takes in one event of the experiment."""
        if isinstance(event, Decision):
            self.keep(event)
            index = event.position - 1
            self.outcomes.seq[index] = entry.seq
            self.outcomes.leaves[32 * index : 32 * index + 32] = entry.leaf()
        elif isinstance(event, Attempt):
            self.open[event.position] = self.arms[event.arm]
        elif isinstance(event, AttemptEnd):
            self._end(entry, event)
        elif isinstance(event, Settle):
            self._settle(event)
        elif isinstance(event, Invalidate):
            self.outcomes.invalidated.setdefault(event.position, entry.seq)
        elif isinstance(event, Freeze):
            self.arms = {arm.name: _Arm(arm.metered, arm.reserve_nanousd) for arm in event.arms}

    def keep(self, event: Decision) -> None:
        """Takes in one outcome."""
        outcomes, index = self.outcomes, event.position - 1
        outcomes.status[index] = STATUSES.index(event.status) + 1
        if event.code is not None:
            outcomes.codes[event.position] = event.code
        for name, value in event.scores.items():
            self._score(name, index, value)
        if event.flag is not None:
            outcomes.flag[index] = event.flag
        if event.answer is not None:
            outcomes.answers[index] = self.texts.setdefault(event.answer, event.answer)
        elif "answer" in event.artifacts:
            outcomes.long_answers.add(event.position)
        if event.duration_ms is not None:
            outcomes.duration_ms[index] = event.duration_ms
        if event.served_model and event.requested_model not in (None, event.served_model):
            outcomes.other_model.add(event.position)
        self._charge(event, self.open.pop(event.position, None))

    def _score(self, name: str, index: int, value: float | None) -> None:
        column = self.outcomes.scores.get(name)
        if column is None:
            values = array("d", bytes(8 * self.slot_count))
            column = ScoreColumn(values=values, given=bytearray(self.slot_count))
            self.outcomes.scores[name] = column
        column.given[index] = _NULL if value is None else _NUMBER
        column.values[index] = 0.0 if value is None else value

    def _end(self, entry: Entry, event: AttemptEnd) -> None:
        arm = self.open.pop(event.position)
        cost, incurred = self._charge(event, arm)
        if event.status in ("lost", "interrupted"):
            self.lost[entry.seq] = _LostCost(event.position, cost, incurred)

    def _charge(self, event: Decision | AttemptEnd, arm: _Arm | None) -> tuple[int, int]:
        """Adds cost and tokens of an attempt to its slot; returns what it was charged."""
        cost = event.cost_nanousd
        if arm is not None and arm.metered:
            cost = charge_nanousd(cost, arm.reserve)
        incurred = cost if event.incurred_nanousd is None else event.incurred_nanousd
        index = event.position - 1
        _add(self.outcomes.cost_nanousd, index, cost)
        _add(self.outcomes.incurred_nanousd, index, incurred)
        for name, count in event.tokens.items():
            column = self.outcomes.tokens.get(name)
            if column is None:
                column = self.outcomes.tokens[name] = _column("q", self.slot_count, _NOTHING)
            _add(column, index, count)
        return cost or 0, incurred or 0

    def _settle(self, event: Settle) -> None:
        lost = self.lost[event.subject.seq]
        index = lost.position - 1
        _add(self.outcomes.cost_nanousd, index, event.cost_nanousd - lost.cost)
        _add(self.outcomes.incurred_nanousd, index, event.cost_nanousd - lost.incurred)
        lost.cost = lost.incurred = event.cost_nanousd


def _add(column: IntColumn, index: int, amount: int | None) -> None:
    if amount is not None:
        column[index] = max(column[index], 0) + amount

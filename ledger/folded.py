"""What is folded of a log, and how it goes on: its state, its tree, its last leaf, its segments.

Leaves storing to `log.py`, recognising to `following.py` and the rules to `fold.py`.

Rules:
- All four stand at the same entry, but for the moment in which events are folded whose entries are
  still to be built.
- What stands in the log and breaks a rule is an IntegrityError: it should never have got there.
"""

from __future__ import annotations

from collections.abc import Sequence

from .entry import Entry, check_entry, parse_entry
from .errors import IntegrityError, LedgerError, NewerError, PlanMissingError
from .events import Event
from .fold import apply
from .following import Followed, Follower, decode_to_fold, pieces
from .merkle import CompactRange
from .port import Block
from .projection import Projection
from .run_fold import fold_run
from .segments import Segments
from .state import PlanReader, State

__all__ = ("Folded",)


class Folded:
    """The fold of a log's entries from the first one on.

    Args:
        plan_of: Reads a plan blob.
    """

    def __init__(self, plan_of: PlanReader) -> None:
        self.state, self.tree, self.leaf = State(), CompactRange(), bytes(32)
        self.segments = Segments()
        self._follower = Follower()
        self._plan_of = plan_of

    def go_on_from(self, projection: Projection, segments: Segments) -> None:
        """Takes over what was folded before."""
        self.state, self.tree, self.leaf = projection.state, projection.tree(), projection.leaf
        self.segments = segments

    def take_block(self, block: Block) -> None:
        """Checks and folds the next entries as they are stored.

        Raises:
            IntegrityError: They contradict their hashes, or break a rule.
            NewerError: One is of a kind or version that this tool doesn't know.
            PlanMissingError: The blob of a frozen plan isn't there.
        """
        for piece in pieces(self._follower, block, seq=self.state.size, prev=self.leaf):
            if isinstance(piece, bytes):
                self._take(piece)
            else:
                self._take_run(piece)

    def fold(self, events: Sequence[Event], times: Sequence[bytes], start: int) -> int:
        """Folds events from an index on while they plainly are the next; returns how many.

        Their entries are due to `take_in`.
        """
        return fold_run(self.state, events, times, start=start, plan_of=self._plan_of)

    def take_in(self, block: Block) -> None:
        """Adds entries that are folded to the tree."""
        self.tree.extend(block.leaves)
        self.segments.add(block.entries)
        self.leaf = block.leaves[-1]

    def advance(self, entry: Entry, event: Event) -> bytes:
        """Folds a checked entry; returns its leaf."""
        self.state = apply(self.state, entry, event, plan_of=self._plan_of)
        self.leaf = entry.leaf()
        self.tree.append(self.leaf)
        self.segments.add((entry.data,))
        return self.leaf

    def _take_run(self, run: Followed) -> None:
        done = 0
        while done < len(run.events):
            if taken := self.fold(run.events, run.times, done):
                stop = done + taken
                self.take_in(Block(run.block.entries[done:stop], run.block.leaves[done:stop]))
                done = stop
            else:
                self._take(run.block.entries[done])
                done += 1

    def _take(self, data: bytes) -> None:
        state, prev = self.state, self.leaf
        entry = self._follower.follow(data, seq=state.size, prev=prev)
        if entry is None:
            entry = parse_entry(data)
            check_entry(entry, ledger=state.ledger or None, seq=state.size, prev=prev)
            self._follower.learn(entry)
        try:
            self.advance(entry, decode_to_fold(entry.event))
        except (IntegrityError, NewerError, PlanMissingError):
            raise
        except LedgerError as error:
            raise IntegrityError(
                f"the entry breaks a rule: {error.what}",
                where=f"entry {entry.seq}",
                expected=error.expected,
                found=error.found,
                todo="ledger replay",
            ) from error

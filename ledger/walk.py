"""One pass of `replay` over all entries: bytes, chain, canonical form, fold, and what events name.

Leaves the levels after it and the word for all to `replay.py`, and what is recognised at once to
`following.py`.

Rules:
- Every entry is checked, whatever is wrong with those before it; the fold ends at the first entry
  whose event isn't known for certain.
- Memory doesn't grow with the number of entries but for what later levels need.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from .borders import not_borders
from .canonical import event_id, unknown_kind
from .entry import FIRST_PREV, Entry, may_be_entry, parse_entry
from .errors import LedgerError, NewerError, PlanMissingError
from .events import (
    Amend,
    Anchor,
    Decision,
    Event,
    Freeze,
    Key,
    Look,
    Open,
    Recover,
    Redact,
    Register,
    Result,
    Sign,
)
from .findings import FINDINGS_MAX, Finder, NumbersCase, SignedCase
from .fold import apply
from .following import Followed, Follower, decode_to_fold, pieces
from .merkle import EMPTY_ROOT, CompactRange, leaf_hash
from .pointers import basis_of, reference_of
from .port import Block, LogStore, StoreFinding
from .run_fold import RUN, fold_run
from .state import Experiment, PlanReader, State

__all__ = (
    "Walk",
    "check_borders",
    "check_pointers",
    "check_redacted",
    "misplaced",
    "walk_entries",
)

_STEPS_MAX = 20


class Walk(Finder):
    """The running state of one replay."""

    def __init__(self, plan_of: PlanReader, sizes: Iterable[int]) -> None:
        super().__init__()
        self.plan_of = plan_of
        self.state, self.tree, self.prev = State(), CompactRange(), FIRST_PREV
        self.follower = Follower()
        self.skipped: dict[str, str] = {}
        self.cases: list[NumbersCase] = []
        self.roots_due: dict[int, list[tuple[int, str]]] = {}
        self.leaves_due: dict[int, list[tuple[int, str]]] = {}
        self.sizes = sorted(set(sizes))
        self.claim_roots: dict[int, bytes] = {}
        self.signed: list[SignedCase] = []
        self.time = ""
        self.steps_back: list[int] = []
        self.recoveries = self.bytes = 0
        self.torn_at: dict[int, int] = {}
        self.ledger = ""
        self.rules_stopped = False
        self.without_plan: tuple[int, str] | None = None
        self.redacted: dict[bytes, int] = {}


def walk_entries(walk: Walk, store: LogStore) -> None:
    """Goes over all entries once, and keeps the roots at the sizes that were asked for."""
    wanted, found = [size for size in walk.sizes if size], list[StoreFinding]()
    walk.claim_roots[0] = EMPTY_ROOT
    try:
        for block in store.blocks(report=found.append):
            walk.take_found(found)
            for part in _parts(block, walk.tree.size, wanted):
                _walk_block(walk, part)
                while wanted and wanted[0] <= walk.tree.size:
                    size = wanted.pop(0)
                    walk.claim_roots[size] = walk.tree.root()
    except LedgerError as error:
        walk.take_found(found)
        size = walk.tree.size
        walk.find("bytes", "unreadable", size, "readable entries", str(error))


def _parts(block: Block, seq: int, wanted: Sequence[int]) -> Iterator[Block]:
    """Yields a block in parts that end where a root is wanted."""
    start, stop = 0, len(block.entries)
    ends = [size - seq for size in wanted if 0 < size - seq < stop]
    for end in (*ends, stop):
        yield Block(block.entries[start:end], block.leaves[start:end])
        start = end


def _walk_block(walk: Walk, block: Block) -> None:
    """Takes in a block: what plainly is right together, all else one by one."""
    for piece in pieces(walk.follower, block, seq=walk.tree.size, prev=walk.prev):
        if isinstance(piece, bytes):
            _walk_one(walk, walk.tree.size, piece)
        else:
            _walk_run(walk, piece)


def _walk_run(walk: Walk, run: Followed) -> None:
    """Takes in events of a run whose bytes were checked."""
    _note_times(walk, run)
    for seq, event in enumerate(run.events, run.seq):
        if getattr(event, "source", None) is not None:
            _note_pointers(walk, seq, event)
    done = 0
    while done < len(run.events) and not walk.rules_stopped:
        done += fold_run(walk.state, run.events, run.times, start=done, plan_of=walk.plan_of)
        if done < len(run.events):
            _fold(walk, parse_entry(run.block.entries[done]), run.events[done])
            done += 1
    walk.tree.extend(run.block.leaves)
    walk.prev = run.block.leaves[-1]
    walk.bytes += sum(map(len, run.block.entries)) + len(run.block.entries)


def _note_times(walk: Walk, run: Followed) -> None:
    if run.times[0].decode() < walk.time or run.times != sorted(run.times):
        for seq, time in enumerate(run.times, run.seq):
            _note_time(walk, seq, time.decode())
    walk.time = run.times[-1].decode()


def _note_time(walk: Walk, seq: int, time: str) -> None:
    if time < walk.time and len(walk.steps_back) < _STEPS_MAX:
        walk.steps_back.append(seq)
    walk.time = time


def _walk_one(walk: Walk, seq: int, data: bytes) -> None:
    leaf = leaf_hash(data)
    entry = walk.follower.follow(data, seq=seq, prev=walk.prev)
    if entry is None:
        entry = _parsed(walk, seq, data)
    if entry is not None:
        _note_time(walk, seq, entry.time)
        event = _decoded(walk, seq, entry)
        if event is not None:
            _take(walk, seq, entry, event)
    walk.tree.append(leaf)
    walk.prev = leaf
    walk.bytes += len(data) + 1


def _parsed(walk: Walk, seq: int, data: bytes) -> Entry | None:
    """Returns an entry the slow way, with all that is wrong with its header; None for none."""
    if len(walk.findings) >= FINDINGS_MAX and not may_be_entry(data):
        # What is only counted needs no words.
        walk.dropped, walk.rules_stopped = walk.dropped + 1, True
        return None
    try:
        entry = parse_entry(data)
    except LedgerError as error:
        walk.find("bytes", "not_an_entry", seq, error.expected, error.found)
        walk.rules_stopped = True
        return None
    walk.ledger = walk.ledger or entry.ledger
    is_sound = True
    for code, expected, found in misplaced(entry, ledger=walk.ledger, seq=seq, prev=walk.prev):
        is_sound = False
        walk.find("bytes", code, seq, expected, found)
    if is_sound:
        walk.follower.learn(entry)
    return entry


def misplaced(
    entry: Entry, *, ledger: str, seq: int, prev: bytes
) -> Iterator[tuple[str, str, str]]:
    """Yields code, expected and found of each part of a header that contradicts its place."""
    for code, expected, found in (
        ("wrong_place", str(seq), str(entry.seq)),
        ("wrong_ledger", ledger, entry.ledger),
        ("broken_chain", prev.hex(), entry.prev.hex()),
        ("wrong_id", event_id(entry.event), entry.id),
    ):
        if expected != found:
            yield code, expected, found


def _decoded(walk: Walk, seq: int, entry: Entry) -> Event | None:
    try:
        return decode_to_fold(entry.event)
    except LedgerError as error:
        kind, where = unknown_kind(entry.event), f"entry {seq}"
        if kind:
            walk.find("rules", "unknown_kind", seq, "a kind of this version", kind)
            walk.skipped.setdefault("rules", f"from {where} on, which is newer than this tool")
        else:
            walk.find("bytes", "noncanonical", seq, error.expected, f"{error.found}")
        walk.rules_stopped = True
        return None


def _take(walk: Walk, seq: int, entry: Entry, event: Event) -> None:
    """Notes what other levels need of an event, and folds it while the rules can be followed."""
    is_of_run = isinstance(event, RUN)
    if not is_of_run:
        _note(walk, entry, seq, event)
    elif isinstance(event, Decision) and event.source is not None:
        _note_pointers(walk, seq, event)
    if walk.rules_stopped or entry.seq != seq:
        walk.rules_stopped = True
        return
    if not is_of_run:
        _keep_case(walk, seq, event)
    _fold(walk, entry, event)


def _fold(walk: Walk, entry: Entry, event: Event) -> None:
    """Folds an event of an entry that stands at its place."""
    seq = entry.seq
    try:
        walk.state = apply(walk.state, entry, event, plan_of=walk.plan_of)
    except PlanMissingError as error:
        walk.skipped["rules"] = f"entry {seq}: {error.what}"
        walk.without_plan = (seq, error.where)
        walk.rules_stopped = True
    except NewerError as error:
        walk.find("rules", "unknown_kind", seq, error.expected, error.found)
        walk.skipped.setdefault("rules", f"from entry {seq} on, which is newer than this tool")
        walk.rules_stopped = True
    except LedgerError as error:
        # A refused entry leaves the state as it was, but it still holds its place.
        walk.state.size = seq + 1
        found = f"{error.what} ({error.where})" if error.where else error.what
        walk.find("rules", "broken_rule", seq, error.expected, found)


def _note(walk: Walk, entry: Entry, seq: int, event: Event) -> None:
    if isinstance(event, Redact):
        walk.redacted.setdefault(msgspec.json.encode(event.blob), seq)
    if isinstance(event, Recover) and not event.experiment:
        walk.recoveries += 1
        if event.offset > walk.bytes:
            expected = f"torn bytes after at most {walk.bytes} bytes of entries"
            walk.find("rules", "broken_rule", seq, expected, f"byte {event.offset}")
        elif event.offset < walk.bytes:
            walk.torn_at.setdefault(event.offset, seq)
    if isinstance(event, (Open, Key, Anchor, Sign)):
        walk.signed.append(SignedCase(seq, event, entry.time))
    _note_pointers(walk, seq, event)


def _keep_case(walk: Walk, seq: int, event: Event) -> None:
    if isinstance(event, (Register, Freeze, Amend, Look, Result)):
        known = walk.state.experiments.get(event.experiment)
        walk.cases.append(NumbersCase(seq, event, _snapshot(known) if known else None))


def _snapshot(known: Experiment) -> Experiment:
    """Returns the experiment as it is now, safe from what the fold does next but for its slots."""
    now = copy.copy(known)
    now.taken, now.amends = list(known.taken), list(known.amends)
    now.invalidated = dict(known.invalidated)
    now.tallies = [copy.copy(tally) for tally in known.tallies]
    now.lost = {place: [copy.copy(one) for one in lost] for place, lost in known.lost.items()}
    return now


def _note_pointers(walk: Walk, seq: int, event: Event) -> None:
    """Checks a basis at the present head at once; keeps the others for a second pass."""
    basis, subject = basis_of(event), reference_of(event)
    if basis is not None:
        if basis.size == walk.tree.size:
            walk.claim_roots[basis.size] = walk.tree.root()
            if walk.tree.root().hex() != basis.root:
                _wrong_basis(walk, seq, walk.tree.root().hex(), basis.root)
        else:
            walk.roots_due.setdefault(basis.size, []).append((seq, basis.root))
    if subject is not None:
        walk.leaves_due.setdefault(subject.seq, []).append((seq, subject.leaf))


def _wrong_basis(walk: Walk, seq: int, expected: str, found: str) -> None:
    walk.find("rules", "wrong_basis", seq, expected, found)


_BLOB = re.compile(rb'\{"size":[0-9]+,"blake3":"[0-9a-f]{64}","sha256":"[0-9a-f]{64}"\}')
_KEPT = re.compile(rb'"event":\{"kind":"(?:amend|anchor|freeze|look|register)/')
_REDACT, _SEALED = b'"event":{"kind":"redact/', b'"sealed":"'


def check_redacted(walk: Walk, store: LogStore) -> None:
    """Checks that what was erased on record had been named by an earlier entry, all of it.

    What a sealed ending names can't be seen here: after one the blob is taken on the writer's word.
    """
    due = dict(walk.redacted)
    try:
        for seq, data in enumerate(store.read() if due else ()):
            for blob in () if _REDACT in data else _BLOB.findall(data):
                if due.get(blob, -1) > seq:
                    _check_erasable(walk, data, due.pop(blob))
            if _SEALED in data:
                due = {blob: user for blob, user in due.items() if user <= seq}
            if not due:
                return
    except LedgerError:
        # What can't be read is a finding of the walk.
        return
    for blob, user in due.items():
        where, expected = f"entry {user} blob", "a blob that an earlier entry names"
        walk.find("rules", "wrong_reference", user, expected, blob.decode(), where=where)


def _check_erasable(walk: Walk, data: bytes, user: int) -> None:
    """Finds the erasure of what an entry needs, where the fold stopped before it for a plan."""
    if walk.without_plan is not None and _KEPT.search(data):
        expected = "no redact of what the record is checked by"
        walk.find("rules", "broken_rule", user, expected, "a blob that can't be erased")


def check_borders(walk: Walk, store: LogStore) -> None:
    """Checks that torn bytes which were set aside had followed a whole entry."""
    try:
        wrong = not_borders(store.read() if walk.torn_at else (), walk.torn_at)
    except LedgerError:
        # What can't be read is a finding of the walk.
        return
    for offset in sorted(wrong):
        expected = "torn bytes where an entry ends"
        walk.find("rules", "broken_rule", walk.torn_at[offset], expected, f"byte {offset}")


def check_pointers(walk: Walk, store: LogStore) -> None:
    """Goes over the leaves once more for bases and references that lay further back."""
    if not walk.roots_due and not walk.leaves_due:
        return
    tree = CompactRange()
    try:
        for seq, leaf in enumerate(store.leaves()):
            tree.append(leaf)
            for user, expected in walk.leaves_due.pop(seq, ()):
                if leaf.hex() != expected or user <= seq:
                    walk.find("rules", "wrong_reference", user, leaf.hex(), expected)
            if tree.size in walk.roots_due:
                walk.claim_roots[tree.size] = tree.root()
            for user, root in walk.roots_due.pop(seq + 1, ()):
                if tree.root().hex() != root or user < seq + 1:
                    _wrong_basis(walk, user, tree.root().hex(), root)
    except LedgerError as error:
        walk.find("bytes", "unreadable", tree.size, "entries", str(error))
    for size, users in walk.roots_due.items():
        for user, root in users:
            _wrong_basis(walk, user, f"a prefix of {tree.size} entries", f"{size} entries {root}")
    for subject, users in walk.leaves_due.items():
        for user, wanted in users:
            walk.find("rules", "wrong_reference", user, f"an entry {subject}", wanted)

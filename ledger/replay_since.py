"""Verifies what a ledger added to a head that the caller knows, without reading what came before.

Leaves a whole replay to `replay.py`: the rules need the fold from the first entry on, numbers and
files need the rules.

Rules:
- The head is the caller's: its entries are taken on its word and are not read. Where no frontier of
  it is kept they are hashed, so that they are checked against its root after all; both are said.
- Every later entry is checked as in a whole replay: form, place, chain, id, canonical event; and
  the tree that they make on top of the head is compared with every other head that was brought.
- A level that isn't checked says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .canonical import decode_event, unknown_kind
from .claims import SELF_SIGNED, judge, outside
from .entry import Entry, parse_entry
from .errors import LedgerError
from .events import Anchor
from .findings import (
    LEVELS,
    NOTES,
    UNCHECKED,
    Claim,
    Finder,
    Finding,
    ReplayReport,
    Since,
    record_word,
)
from .merkle import CompactRange, leaf_hash
from .port import LogStore, StoreFinding
from .walk import misplaced

__all__ = ("replay_since",)

_UNREAD = ("rules", "numbers", "files")


class _Growth(Finder):
    """What was seen of the entries after a head."""

    def __init__(self, tree: CompactRange, prev: bytes, ledger: str) -> None:
        super().__init__()
        self.tree, self.prev, self.ledger = tree, prev, ledger
        self.time, self.steps_back = "", list[int]()
        self.roots = {tree.size: tree.root()}
        self.content = tree.size


def replay_since(
    store: LogStore,
    head: Claim,
    *,
    frontier: CompactRange | None = None,
    claims: Sequence[Claim] = (),
    findings: Sequence[Finding] = (),
) -> ReplayReport:
    """Returns what the entries after a head say of themselves.

    Args:
        store: The ledger, opened for reading.
        head: The head that the caller knows; at least one entry.
        frontier: The tree kept of that head, checked to make its root; None: its entries are
            hashed.
        claims: Further heads from outside the ledger, none smaller.
        findings: What the caller found already.

    Raises:
        StoreError: The ledger can't be read at all.
    """
    size = store.tail().size
    start = min(head.size, size)
    tree = frontier.copy() if frontier is not None and size >= head.size else CompactRange()
    is_hashed = tree.size < start
    for leaf in store.leaves(tree.size, start) if is_hashed else ():
        tree.append(leaf)
    growth = _Growth(tree, *_last_before(store, start))
    growth.take_found(list(store.check(start)))
    if size >= head.size:
        _walk(growth, store, {claim.size for claim in claims})
    torn = store.torn()
    if torn is not None:
        where, found_bytes = (
            f"byte {torn.offset}",
            f"{torn.length} bytes after the last whole entry",
        )
        growth.find("bytes", "torn", None, "a whole entry", found_bytes, where=where)
    growth.findings += findings
    since = Since(size=head.size, source=head.source, hashed=is_hashed)
    return _report(growth, since, [head, *claims])


def _last_before(store: LogStore, start: int) -> tuple[bytes, str]:
    """Returns the leaf of the last entry that isn't checked, and the ledger's id as the first says.

    Both only begin the comparison: the tree decides whether what follows belongs to the head.
    """
    ledger, leaf = "", bytes(32)
    for data in store.read(0, 1):
        ledger = parse_entry(data).ledger
    for data in store.read(start - 1, start) if start else ():
        leaf = leaf_hash(data)
    return leaf, ledger


def _walk(growth: _Growth, store: LogStore, sizes: set[int]) -> None:
    found = list[StoreFinding]()
    try:
        for block in store.blocks(growth.tree.size, report=found.append):
            growth.take_found(found)
            for data, leaf in zip(*block, strict=True):
                _walk_one(growth, data, leaf, sizes)
    except LedgerError as error:
        growth.take_found(found)
        size = growth.tree.size
        growth.find("bytes", "unreadable", size, "readable entries", str(error))


def _walk_one(growth: _Growth, data: bytes, leaf: bytes, sizes: set[int]) -> None:
    seq = growth.tree.size
    try:
        entry = parse_entry(data)
    except LedgerError as error:
        growth.find("bytes", "not_an_entry", seq, error.expected, error.found)
    else:
        _check_entry(growth, seq, entry)
    growth.prev = leaf
    growth.tree.append(leaf)
    if growth.tree.size in sizes:
        growth.roots[growth.tree.size] = growth.tree.root()


def _check_entry(growth: _Growth, seq: int, entry: Entry) -> None:
    for code, expected, found in misplaced(entry, ledger=growth.ledger, seq=seq, prev=growth.prev):
        growth.find("bytes", code, seq, expected, found)
    if entry.time < growth.time:
        growth.steps_back.append(seq)
    growth.time = entry.time
    try:
        event = decode_event(entry.event)
    except LedgerError as error:
        kind = unknown_kind(entry.event)
        if kind:
            growth.find("rules", "unknown_kind", seq, "a kind of this version", kind)
        else:
            growth.find("bytes", "noncanonical", seq, error.expected, error.found)
        growth.content = seq + 1
    else:
        if not isinstance(event, Anchor):
            growth.content = seq + 1


def _skipped(growth: _Growth, since: Since) -> Iterator[tuple[str, str]]:
    for level in _UNREAD:
        yield level, f"only entries from {since.size} on were read; a whole replay checks them"


def _report(growth: _Growth, since: Since, claims: Sequence[Claim]) -> ReplayReport:
    size, root = growth.tree.size, growth.tree.root()
    judged = judge(claims, ledger=growth.ledger, size=size, roots=growth.roots)
    findings = (*growth.findings, *judged.findings)
    other = any(finding.code in ("other_origin", "other_key") for finding in findings)
    word = "forked" if other else judged.word
    record = record_word(findings, word)
    # A head is only believed where the entries after it stand on it.
    is_whole = record in ("intact", "torn", "newer")
    covered = max(outside(judged.covered), default=0) if is_whole else 0
    skipped = dict(_skipped(growth, since))
    bad = {finding.level for finding in findings if finding.code not in (*NOTES, *UNCHECKED)}
    return ReplayReport(
        record=record,
        anchored="no" if not covered else "yes" if covered == size else "part",
        anchored_by=judged.sources if covered else (),
        covered=covered,
        ledger=growth.ledger,
        size=size,
        root=root.hex(),
        levels={
            level: "failed" if level in bad else "skipped" if level in skipped else "ok"
            for level in LEVELS
        },
        skipped=skipped,
        verdicts={},
        findings=findings,
        more_findings=growth.dropped,
        recomputed=0,
        time_steps_back=tuple(growth.steps_back[:20]),
        recoveries=0,
        vouched=judged.covered if covered else {},
        self_signed=judged.covered.get(SELF_SIGNED, 0),
        content=growth.content,
        stamps=(),
        since=since,
    )

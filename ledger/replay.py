"""The read-only verifier: walks a ledger once and reports every finding, with one word for all.

Leaves the recomputation of numbers and the look at files to functions that are passed in, since
they need the engine; leaves exit codes to the command line.

Levels:
    bytes    each entry's form, place, chain, id and canonical event; the store's own structure
    rules    the fold, and every basis and reference that an event names
    numbers  looks and results recomputed
    files    registered files and blobs against their digests
    anchors  receipts that the caller brings

Rules:
- Nothing is written; every finding is reported, up to a limit that is said.
- `anchored` counts only what the caller brings from elsewhere.
- A level that couldn't be checked is skipped and says so.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from .canonical import decode_event, event_id, unknown_kind
from .claims import SELF_SIGNED, judge, outside
from .entry import FIRST_PREV, Entry, parse_entry
from .errors import LedgerError, PlanMissingError
from .events import (
    Amend,
    Anchor,
    Event,
    Freeze,
    Key,
    Look,
    Open,
    Register,
    Result,
    Sign,
)
from .findings import (
    LEVELS,
    NOTES,
    Claim,
    Finding,
    Level,
    NumbersCase,
    ReplayReport,
    SignedCase,
    record_word,
)
from .fold import apply
from .log import LogStore, basis_of, reference_of
from .merkle import CompactRange, leaf_hash
from .state import Experiment, PlanReader, State

__all__ = (
    "FINDINGS_MAX",
    "LEVELS",
    "Claim",
    "Finding",
    "NumbersCase",
    "ReplayReport",
    "replay",
)

FINDINGS_MAX = 1000


# Checks signatures; returns what is wrong with them and the heads that they vouch for.
Voucher: TypeAlias = Callable[[str, Sequence[SignedCase]], Iterable[Finding | Claim]]
# Findings that say that another ledger was brought in the place of the one that was meant.
_OTHER = ("other_origin", "other_key")


class _Walk:
    """The running state of one replay."""

    def __init__(self, plan_of: PlanReader, sizes: Iterable[int]) -> None:
        self.plan_of = plan_of
        self.state, self.tree, self.prev = State(), CompactRange(), FIRST_PREV
        self.findings: list[Finding] = []
        self.dropped = 0
        self.skipped: dict[str, str] = {}
        self.cases: list[NumbersCase] = []
        self.roots_due: dict[int, list[tuple[int, str]]] = {}
        self.leaves_due: dict[int, list[tuple[int, str]]] = {}
        self.sizes = sorted(set(sizes))
        self.claim_roots: dict[int, bytes] = {}
        self.signed: list[SignedCase] = []
        self.time = ""
        self.steps_back: list[int] = []
        self.recoveries = 0
        self.ledger = ""
        self.rules_stopped = False

    def find(
        self, level: Level, code: str, seq: int | None, where: str, expected: str, found: str
    ) -> None:
        if len(self.findings) >= FINDINGS_MAX:
            self.dropped += 1
            return
        self.findings.append(
            Finding(
                level=level,
                code=code,
                seq=seq,
                where=where,
                expected=expected[:300],
                found=found[:300],
            )
        )


def replay(
    store: LogStore,
    *,
    plan_of: PlanReader,
    claims: Sequence[Claim] = (),
    sizes: Iterable[int] = (),
    vouch: Voucher | None = None,
    numbers: Callable[[Sequence[NumbersCase]], Iterator[Finding]] | None = None,
    files: Callable[[State], Iterator[Finding]] | None = None,
) -> ReplayReport:
    """Returns what a ledger says of itself when every byte of it is checked.

    Args:
        store: The ledger, opened for reading.
        plan_of: Reads plan blobs; without them the rules level is skipped.
        claims: Heads from outside the ledger.
        sizes: Sizes of further heads that `vouch` may return.
        vouch: Checks the ledger's signatures, and returns the heads that are vouched for; it is
            given the ledger's id. None: signatures aren't checked.
        numbers: Computes again what registers, freezes, looks and results say; None skips that.
        files: Compares files and blobs with their digests; None skips that level.

    Raises:
        StoreError: The ledger can't be read at all.
    """
    walk = _Walk(plan_of, {*sizes, *(claim.size for claim in claims)})
    for found in store.check():
        walk.find("bytes", found.code, found.seq, found.where, found.expected, found.found)
    _walk_entries(walk, store)
    torn = store.torn()
    if walk.tree.size == 0:
        walk.find("bytes", "empty", None, "the ledger", "at least an `open`", "no entry")
    if torn is not None:
        walk.find(
            "bytes",
            "torn",
            None,
            f"byte {torn.offset}",
            "a whole entry",
            f"{torn.length} bytes after the last whole entry",
        )
    _check_pointers(walk, store)
    vouched = _vouched(walk, claims, vouch)
    if numbers is None:
        walk.skipped["numbers"] = "not asked for"
    elif _is_broken(walk) or "rules" in walk.skipped:
        walk.skipped["numbers"] = "the levels before it have findings or were skipped"
    else:
        _take_numbers(walk, numbers(walk.cases))
    if files is None:
        walk.skipped["files"] = "not asked for"
    else:
        _take(walk, files(walk.state))
    return _report(walk, vouched)


def _is_broken(walk: _Walk) -> bool:
    """Returns whether bytes or rules have findings that are no mere notes."""
    faults = (found for found in walk.findings if found.code not in NOTES)
    return any(found.level in ("bytes", "rules") for found in faults)


def _take(walk: _Walk, findings: Iterable[Finding]) -> None:
    for one in findings:
        walk.find(one.level, one.code, one.seq, one.where, one.expected, one.found)


def _vouched(walk: _Walk, claims: Sequence[Claim], vouch: Voucher | None) -> list[Claim]:
    """Returns all claims; what else the signatures say becomes findings."""
    found = list(vouch(walk.ledger, walk.signed)) if vouch is not None else []
    _take(walk, (one for one in found if isinstance(one, Finding)))
    return [*claims, *(one for one in found if isinstance(one, Claim))]


def _take_numbers(walk: _Walk, findings: Iterator[Finding]) -> None:
    """Takes what is wrong with the numbers; those that lack an erased blob can't be computed."""
    for one in findings:
        if one.code == "blob_erased":
            walk.skipped["numbers"] = f"{one.where} needs a blob that was erased on record"
        else:
            _take(walk, iter((one,)))


def _walk_entries(walk: _Walk, store: LogStore) -> None:
    wanted = list(walk.sizes)
    try:
        for seq, data in enumerate(store.read()):
            _walk_one(walk, seq, data)
            while wanted and wanted[0] <= walk.tree.size:
                size = wanted.pop(0)
                walk.claim_roots[size] = walk.tree.root()
    except LedgerError as error:
        size = walk.tree.size
        walk.find("bytes", "unreadable", size, f"entry {size}", "readable entries", str(error))


def _walk_one(walk: _Walk, seq: int, data: bytes) -> None:
    leaf = leaf_hash(data)
    try:
        entry = parse_entry(data)
    except LedgerError as error:
        walk.find("bytes", "not_an_entry", seq, f"entry {seq}", error.expected, error.found)
        walk.rules_stopped = True
    else:
        _check_header(walk, seq, entry)
        _fold(walk, seq, entry)
    walk.tree.append(leaf)
    walk.prev = leaf


def _check_header(walk: _Walk, seq: int, entry: Entry) -> None:
    walk.ledger = walk.ledger or entry.ledger
    for code, expected, found in (
        ("wrong_place", str(seq), str(entry.seq)),
        ("wrong_ledger", walk.ledger, entry.ledger),
        ("broken_chain", walk.prev.hex(), entry.prev.hex()),
        ("wrong_id", event_id(entry.event), entry.id),
    ):
        if expected != found:
            walk.find("bytes", code, seq, f"entry {seq}", expected, found)
    if entry.time < walk.time:
        walk.steps_back.append(seq)
    walk.time = entry.time


def _fold(walk: _Walk, seq: int, entry: Entry) -> None:
    try:
        event = decode_event(entry.event)
    except LedgerError as error:
        kind = unknown_kind(entry.event)
        if kind:
            walk.find("rules", "unknown_kind", seq, f"entry {seq}", "a kind of this version", kind)
        else:
            walk.find(
                "bytes", "noncanonical", seq, f"entry {seq}", error.expected, f"{error.found}"
            )
        walk.rules_stopped = True
        return
    if event.experiment == "" and entry.event.startswith(b'{"kind":"recover/'):
        walk.recoveries += 1
    if isinstance(event, (Open, Key, Anchor, Sign)):
        walk.signed.append(SignedCase(seq, event, entry.time))
    _note_pointers(walk, seq, event)
    if walk.rules_stopped or entry.seq != seq:
        walk.rules_stopped = True
        return
    _apply(walk, seq, entry, event)


def _apply(walk: _Walk, seq: int, entry: Entry, event: Event) -> None:
    known = walk.state.experiments.get(event.experiment)
    if isinstance(event, (Register, Freeze, Amend, Look, Result)):
        walk.cases.append(NumbersCase(seq, event, _snapshot(known) if known else None))
    try:
        walk.state = apply(walk.state, entry, event, plan_of=walk.plan_of)
    except PlanMissingError as error:
        walk.skipped["rules"] = f"entry {seq}: {error.what}"
        walk.rules_stopped = True
    except LedgerError as error:
        # A refused entry leaves the state as it was, but it still holds its place.
        walk.state.size = seq + 1
        found = f"{error.what} ({error.where})" if error.where else error.what
        walk.find("rules", "broken_rule", seq, f"entry {seq}", error.expected, found)


def _snapshot(known: Experiment) -> Experiment:
    """Returns the experiment as it is now, safe from what the fold does next but for its slots."""
    now = copy.copy(known)
    now.taken, now.amends = list(known.taken), list(known.amends)
    now.invalidated = dict(known.invalidated)
    now.tallies = [copy.copy(tally) for tally in known.tallies]
    now.lost = {place: [copy.copy(one) for one in lost] for place, lost in known.lost.items()}
    return now


def _note_pointers(walk: _Walk, seq: int, event: Event) -> None:
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


def _wrong_basis(walk: _Walk, seq: int, expected: str, found: str) -> None:
    walk.find("rules", "wrong_basis", seq, f"entry {seq}", expected, found)


def _check_pointers(walk: _Walk, store: LogStore) -> None:
    """Goes over the leaves once more for bases and references that lay further back."""
    if not walk.roots_due and not walk.leaves_due:
        return
    tree = CompactRange()
    try:
        for seq, leaf in enumerate(store.leaves()):
            tree.append(leaf)
            for user, expected in walk.leaves_due.pop(seq, ()):
                if leaf.hex() != expected or user <= seq:
                    walk.find(
                        "rules", "wrong_reference", user, f"entry {user}", leaf.hex(), expected
                    )
            if tree.size in walk.roots_due:
                walk.claim_roots[tree.size] = tree.root()
            for user, root in walk.roots_due.pop(seq + 1, ()):
                if tree.root().hex() != root or user < seq + 1:
                    _wrong_basis(walk, user, tree.root().hex(), root)
    except LedgerError as error:
        walk.find("bytes", "unreadable", tree.size, f"entry {tree.size}", "entries", str(error))
    for size, users in walk.roots_due.items():
        for user, root in users:
            _wrong_basis(walk, user, f"a prefix of {tree.size} entries", f"{size} entries {root}")
    for subject, users in walk.leaves_due.items():
        for user, wanted in users:
            where = f"entry {user}"
            walk.find("rules", "wrong_reference", user, where, f"an entry {subject}", wanted)


def _report(walk: _Walk, claims: Sequence[Claim]) -> ReplayReport:
    size, root = walk.tree.size, walk.tree.root()
    judged = judge(claims, ledger=walk.ledger, size=size, roots=walk.claim_roots)
    _take(walk, judged.findings)
    other = any(finding.code in _OTHER for finding in walk.findings)
    word = "forked" if other else judged.word
    covered = 0 if word else max(outside(judged.covered), default=0)
    if not judged.findings and not covered and not other:
        walk.skipped["anchors"] = "nothing from outside this ledger was given"
    bad = {finding.level for finding in walk.findings if finding.code not in NOTES}
    return ReplayReport(
        record=record_word(walk.findings, word),
        anchored="no" if not covered else "yes" if covered == size else "part",
        anchored_by=() if word else judged.sources,
        covered=covered,
        ledger=walk.ledger,
        size=size,
        root=root.hex(),
        levels={
            level: "failed" if level in bad else "skipped" if level in walk.skipped else "ok"
            for level in LEVELS
        },
        skipped=walk.skipped,
        verdicts={
            name: known.result.verdict if known.result else _without_verdict(known)
            for name, known in walk.state.experiments.items()
        },
        findings=tuple(walk.findings),
        more_findings=walk.dropped,
        recomputed=0
        if "numbers" in walk.skipped
        else sum(isinstance(case.event, (Look, Result)) for case in walk.cases),
        time_steps_back=tuple(walk.steps_back[:20]),
        recoveries=walk.recoveries,
        vouched={} if word else judged.covered,
        self_signed=judged.covered.get(SELF_SIGNED, 0),
        content=_content(walk),
        stamps=() if word else tuple(one.stamped for one in claims if one.stamped is not None),
    )


def _content(walk: _Walk) -> int:
    """Returns the size without the anchors that stand last."""
    anchors = {case.seq for case in walk.signed if isinstance(case.event, Anchor)}
    size = walk.tree.size
    while size and size - 1 in anchors:
        size -= 1
    return size


def _without_verdict(known: Experiment) -> str:
    return "withdrawn" if known.withdrawn_seq is not None else "open"

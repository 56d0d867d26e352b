"""The read-only verifier: walks a ledger once and reports every finding, with one word for all.

Leaves the pass over the entries to `walk.py`; the recomputation of numbers and the look at files to
functions that are passed in, since they need the engine; exit codes to the command line.

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

from collections.abc import Callable, Iterable, Iterator, Sequence
from queue import Queue
from threading import Thread
from typing import TypeAlias

from .claims import SELF_SIGNED, judge, outside
from .events import Anchor, Look, Result
from .findings import (
    FINDINGS_MAX,
    LEVELS,
    NOTES,
    UNCHECKED,
    Claim,
    Finding,
    NumbersCase,
    ReplayReport,
    SignedCase,
    record_word,
)
from .port import LogStore, StoreFinding
from .state import Experiment, PlanReader, State, is_blinded
from .walk import Walk, check_borders, check_pointers, check_redacted, walk_entries

__all__ = (
    "FINDINGS_MAX",
    "LEVELS",
    "Claim",
    "Finding",
    "NumbersCase",
    "ReplayReport",
    "replay",
)

# Checks signatures; returns what is wrong with them and the heads that they vouch for.
Voucher: TypeAlias = Callable[[str, Sequence[SignedCase]], Iterable[Finding | Claim]]
# Findings that say that another ledger was brought in the place of the one that was meant.
_OTHER = ("other_origin", "other_key")


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
    walk = Walk(plan_of, {*sizes, *(claim.size for claim in claims)})
    _read(walk, store)
    check_pointers(walk, store)
    check_redacted(walk, store)
    check_borders(walk, store)
    vouched = _vouched(walk, claims, vouch)
    if numbers is None:
        walk.skipped["numbers"] = "not asked for"
    elif _is_broken(walk) or "rules" in walk.skipped:
        walk.skipped["numbers"] = "the levels before it have findings or were skipped"
    else:
        _take_numbers(walk, numbers(walk.cases))
    if files is None:
        walk.skipped["files"] = "not asked for"
        if walk.without_plan is not None:
            # Which blobs are here wasn't asked; that this one isn't leaves the rules unchecked.
            seq, name = walk.without_plan
            walk.find("files", "blob_differs", seq, "the frozen plan", "nothing", where=name)
    else:
        _take(walk, files(walk.state))
    return _report(walk, vouched)


def _read(walk: Walk, store: LogStore) -> None:
    """Goes over the entries, and looks at what holds them."""
    checked: Queue[list[StoreFinding] | Exception] = Queue()
    # What a store checks of itself takes long and needs none of us; who breaks off doesn't wait.
    Thread(target=_check, args=(store, checked), daemon=True).start()
    walk_entries(walk, store)
    of_store = checked.get()
    if isinstance(of_store, Exception):
        raise of_store
    _put_first(walk, of_store)
    torn = store.torn()
    if walk.tree.size == 0:
        walk.find("bytes", "empty", None, "at least an `open`", "no entry", where="the ledger")
    if torn is not None:
        where, found = f"byte {torn.offset}", f"{torn.length} bytes after the last whole entry"
        walk.find("bytes", "torn", None, "a whole entry", found, where=where)


def _check(store: LogStore, checked: Queue[list[StoreFinding] | Exception]) -> None:
    try:
        checked.put(list(store.check()))
    except Exception as error:
        checked.put(error)


def _put_first(walk: Walk, found: list[StoreFinding]) -> None:
    """Puts what the store says of itself before what was found in its entries."""
    later, walk.findings = walk.findings, []
    walk.take_found(found)
    _take(walk, later)


def _is_broken(walk: Walk) -> bool:
    """Returns whether bytes or rules have findings that are no mere notes."""
    faults = (found for found in walk.findings if found.code not in NOTES)
    return any(found.level in ("bytes", "rules") for found in faults)


def _take(walk: Walk, findings: Iterable[Finding]) -> None:
    for one in findings:
        walk.find(one.level, one.code, one.seq, one.expected, one.found, where=one.where)


def _vouched(walk: Walk, claims: Sequence[Claim], vouch: Voucher | None) -> list[Claim]:
    """Returns all claims; what else the signatures say becomes findings."""
    found = list(vouch(walk.ledger, walk.signed)) if vouch is not None else []
    _take(walk, (one for one in found if isinstance(one, Finding)))
    return [*claims, *(one for one in found if isinstance(one, Claim))]


def _take_numbers(walk: Walk, findings: Iterator[Finding]) -> None:
    """Takes what is wrong with the numbers; says where they are sealed still."""
    _take(walk, findings)
    for known in walk.state.experiments.values():
        if is_blinded(known):
            walk.skipped["numbers"] = f"sealed: {known.name} is blinded until `ledger unblind`"


def _report(walk: Walk, claims: Sequence[Claim]) -> ReplayReport:
    size, root = walk.tree.size, walk.tree.root()
    judged = judge(claims, ledger=walk.ledger, size=size, roots=walk.claim_roots)
    _take(walk, judged.findings)
    other = any(finding.code in _OTHER for finding in walk.findings)
    word = "forked" if other else judged.word
    covered = 0 if word else max(outside(judged.covered), default=0)
    if not judged.findings and not covered and not other:
        walk.skipped["anchors"] = "nothing from outside this ledger was given"
    bad = {finding.level for finding in walk.findings if finding.code not in (*NOTES, *UNCHECKED)}
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
        time_steps_back=tuple(walk.steps_back),
        recoveries=walk.recoveries,
        vouched={} if word else judged.covered,
        self_signed=judged.covered.get(SELF_SIGNED, 0),
        content=_content(walk),
        stamps=() if word else tuple(one.stamped for one in claims if one.stamped is not None),
    )


def _content(walk: Walk) -> int:
    """Returns the size without the anchors that stand last."""
    anchors = {case.seq for case in walk.signed if isinstance(case.event, Anchor)}
    size = walk.tree.size
    while size and size - 1 in anchors:
        size -= 1
    return size


def _without_verdict(known: Experiment) -> str:
    return "withdrawn" if known.withdrawn_seq is not None else "open"

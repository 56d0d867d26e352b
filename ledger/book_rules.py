"""Rules of keeping the book: refuse, sign, import, anchor, key, redact, recover, close.

Part of the fold (`fold.py`). Leaves signatures and notes to whoever verifies them: here they are
places.

Rules:
- A refusal is evidence only: the same one is recorded once, and 1,000 of an experiment at most, of
  which the last only says that the record is full.
- What the record needs to be checked can't be erased: whatever a register, freeze, amend, look or
  anchor names, and unopened seals; nor does one of these name what was erased before.
"""

from __future__ import annotations

from typing import cast

from .entry import Entry
from .events import Anchor, Close, Event, Import, Key, Recover, Redact, Refuse, Sign
from .kept_blobs import check_unerased, keep_blobs
from .state import (
    PlanReader,
    Signature,
    State,
    experiment_of,
    is_blinded,
    is_ended,
    require,
)

__all__ = ("HANDLERS", "REFUSALS_FULL", "REFUSALS_MAX", "refusal_key")

REFUSALS_MAX = 1000
REFUSALS_FULL = "full"


def refusal_key(event: Refuse) -> str:
    """Returns what makes two refusals the same one."""
    return " ".join((event.act, event.field, event.expected, event.found))


def _refuse(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("Refuse", event)
    known = experiment_of(state, event)
    require(
        refusal_key(event) not in known.refusals,
        "this refusal is on record already",
        where=known.name,
    )
    require(len(known.refusals) < REFUSALS_MAX, "the record of refusals is full", where=known.name)
    require(
        (event.field == REFUSALS_FULL) == (len(known.refusals) == REFUSALS_MAX - 1),
        f"the last refusal that fits, and only that one, names the field {REFUSALS_FULL}",
        where=known.name,
    )
    known.refusals.add(refusal_key(event))
    known.counters["refuse"] = event.number


def _sign(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("Sign", event)
    require(event.subject.seq < entry.seq, "the subject of a signature comes before it")
    state.signatures.append(
        Signature(seq=entry.seq, subject=event.subject.seq, role=event.role, meaning=event.meaning)
    )
    state.counters["sign"] = event.number


def _import(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("Import", event)
    require(
        any(k.freeze_seq is not None and not is_ended(k) for k in state.experiments.values()),
        "an import needs a frozen experiment that hasn't ended",
    )
    state.imported_seq = entry.seq
    state.counters["import"] = event.number


def _anchor(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("Anchor", event)
    require(0 < event.basis.size <= entry.seq, "an anchor covers earlier entries")
    check_unerased(state, event.note, event.token)
    keep_blobs(state, event.note, event.token)
    # A stronger level also stands for the weaker ones.
    levels = ("checkpoint", "witness", "timestamp")
    for level in levels[: levels.index(event.level) + 1]:
        state.anchored[level] = max(state.anchored.get(level, 0), event.basis.size)
    state.counters["anchor"] = event.number


def _key(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("Key", event)
    require(event.previous == state.vkey, "a new key names the one before it")
    require(
        (event.previous is None) == (event.previous_signature is None),
        "the previous key signs the new one",
    )
    state.vkey = event.vkey
    state.counters["key"] = event.number


def _redact(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("Redact", event)
    sha256 = event.blob.sha256
    require(
        not any(
            sha256 in known.seals and is_blinded(known) for known in state.experiments.values()
        ),
        "the blob is a seal that isn't opened yet: it can't be erased",
    )
    require(
        sha256 not in state.kept,
        "the record needs this blob to be checked: it can't be erased",
        todo="outputs, environments and the long form of a result can be; for personal data in"
        " units write coded ids, and keep the key elsewhere",
    )
    state.erased.setdefault(sha256, entry.seq)
    state.counters["redact"] = event.number


def _recover(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("Recover", event)
    state.counters["recover"] = event.number


def _close(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("Close", event)
    require(event.basis.size == entry.seq, "a close covers every entry before it")
    running = [k.name for k in state.experiments.values() if not is_ended(k)]
    require(
        not running, f"not ended: {', '.join(running)}", todo="ledger result or ledger withdraw"
    )
    state.closed = True


HANDLERS = {
    "refuse": _refuse,
    "sign": _sign,
    "import": _import,
    "anchor": _anchor,
    "key": _key,
    "redact": _redact,
    "recover": _recover,
    "close": _close,
}

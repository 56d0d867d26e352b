"""Where an experiment stands, as `ledger status` shows it. Pure.

Leaves the counts to `engine/status.py`.

Rules:
- planned = settled + pending + not run: the line of slots adds up.
- A stop says its reason in words; what comes next is a command.
- Spend that is a reservation and no price is told apart, with whether it can be corrected.
"""

from __future__ import annotations

from fairtrial.custody.blinding import DISCIPLINE
from fairtrial.engine.status import Status

from .output import label
from .text_numbers import clip, count, quantity, usd

__all__ = ("BLINDED_TEXT", "STOP_WORDS", "kept_text", "status_text")

# The reason of a stop event, as people read it.
STOP_WORDS = {
    "complete": "nothing left to do",
    "boundary": "boundary crossed",
    "ceiling": "ceiling reached",
    "wall_time": "the time allowed is over",
    "arm_failing": "an arm is failing",
    "interrupted": "interrupted",
    "terminated": "terminated",
    "crashed": "crashed",
}
_STATE_WORDS = {
    "registered": "registered, units not frozen",
    "frozen": "frozen, not begun",
    "running": "RUNNING",
    "interrupted": "INTERRUPTED",
    "look_due": "a look (planned interim analysis) is due",
    "unfinished": "STOPPED",
    "complete": "complete, no result yet",
    "closed": "closed",
    "withdrawn": "withdrawn",
}


BLINDED_TEXT = f"blinded until `ledger unblind`; {DISCIPLINE}"


def status_text(status: Status) -> str:
    """Returns the status of one experiment in lines."""
    lines = [_first_line(status)]
    if status.state != "registered":
        lines += [label("slots", _slots_text(status)), label("looks", _looks_text(status))]
        lines += [label("spent", _spent_text(status) + kept_text(status))]
    if status.blinded:
        lines.append(label("arms", BLINDED_TEXT))
    if status.waiting:
        lines.append(label("waiting", "the protocol wants " + "; ".join(status.waiting)))
    lines.append(label("record", _record_text(status)))
    return "\n".join(lines)


def _first_line(status: Status) -> str:
    parts = [status.experiment, _state_text(status), _session_text(status), _plan_text(status)]
    return "   ".join(part for part in parts if part)


def _state_text(status: Status) -> str:
    text = _STATE_WORDS[status.state]
    if status.state == "closed":
        return f"{text}: {status.verdict}"
    if status.state == "unfinished" and status.last_stop is not None:
        note = status.session.note if status.session is not None else None
        if status.last_stop in ("ceiling", "wall_time") and not status.ceiling:
            note = f"{STOP_WORDS[status.last_stop]}; it was moved since"
        return f"{text} ({clip(note or STOP_WORDS[status.last_stop], 120)})"
    if status.state == "running" and status.running:
        return f"{text} ({status.running})"
    return text


def _session_text(status: Status) -> str:
    session = status.session
    if session is None or status.state == "running":
        return ""
    if session.stopped is None:
        return f"session {session.number} on {session.host} left no word"
    return f"session {session.number} ended {_clock(session.stopped)} on {session.host}"


def _clock(time: str) -> str:
    """Returns the time of an entry to the minute."""
    return f"{time[:10]} {time[11:16]} UTC"


def _plan_text(status: Status) -> str:
    sections = ", ".join(status.amendments)
    if status.as_registered is not False:
        word = "as registered" if status.as_registered else "retrospective"
        return f"{word}, amended: {sections}" if sections else word
    why = ["arms unblinded early"] * status.unblinded_early
    why += [f"amended {', '.join(status.amended)}"] * bool(status.amended)
    rest = [name for name in status.amendments if name not in status.amended]
    more = f" (also amended, without weight: {', '.join(rest)})" if rest else ""
    return f"NOT AS REGISTERED: {'; '.join(why)}{more}"


def _slots_text(status: Status) -> str:
    kinds = ", ".join(
        f"{count(number)} {name}" for name, number in status.statuses.items() if number
    )
    text = f"{count(status.planned)} = {count(status.settled)} settled"
    text += f" ({kinds})" if kinds else ""
    text += f" + {count(status.pending)} pending"
    if status.pending:
        were = "" if status.state == "running" or not status.in_flight else "were "
        text += f" ({count(status.in_flight)} {were}in flight, {count(status.failing)} failing)"
    return text + (f" + {count(status.not_run)} not run" if status.not_run else "")


def _looks_text(status: Status) -> str:
    looks, fractions = status.looks, status.look_fractions
    taken = " ".join(f"{fraction:.2f}" for fraction in fractions[: looks.taken])
    text = f"{looks.taken} of {looks.planned} taken"
    text += f" ({taken} of the information)" if taken else ""
    if status.next_look_last is None or looks.taken == looks.planned:
        return text
    text += f"; next at {fractions[looks.taken]:.2f} of the information"
    if looks.planned > 1:
        reached, whole = status.look_clusters[looks.taken], status.look_clusters[-1]
        text += f" ({count(reached)} of {quantity(whole, 'cluster')})"
    waiting = status.waiting_for_look
    if 0 < waiting <= 16:
        text += f", waiting for {quantity(waiting, 'slot')}"
    return text


def _spent_text(status: Status) -> str:
    if not status.spent_usd and not status.reserved_usd and not status.expected_usd:
        ceiling = status.ceiling_usd
        return "nothing recorded" + ("" if ceiling is None else f"; ceiling {usd(ceiling)} usd")
    text = f"{usd(status.spent_usd)} + {usd(status.reserved_usd)} reserved"
    if status.ceiling_usd is not None:
        text += f" of {usd(status.ceiling_usd)}"
    text += " usd"
    if status.blinded:
        # What a blinded arm really costs would tell which one it is.
        return f"{text}, counted as reserved; costs are sealed"
    expected = status.expected_usd
    if expected is None or status.state in ("closed", "complete", "withdrawn"):
        return text
    over = status.ceiling_usd is not None and expected > status.ceiling_usd
    return f"{text};   expected at the end {usd(expected)}" + (" (over)" if over else "")


def kept_text(status: Status) -> str:
    """Returns what of the spend is reservations of ended attempts, in lines of their own."""
    text, unpriced, unsettled = "", status.unpriced, status.unsettled
    if unpriced is not None and unpriced.attempts:
        many = quantity(unpriced.attempts, "attempt")
        text += f"\nof it {usd(unpriced.usd)} was reserved and stays: {many} reported no price"
    if unsettled is not None and unsettled.attempts:
        many = quantity(unsettled.attempts, "lost attempt")
        text += f"\nof it {usd(unsettled.usd)} was reserved for {many}"
        if status.state != "closed":
            text += ": ledger settle SEQ corrects it (SEQ: ledger log --kind attempt_end)"
    return text


def _record_text(status: Status) -> str:
    size = status.head.size
    kept = status.receipt_kept
    closed = "LEDGER CLOSED, " if status.ledger_closed else ""
    text = f"{closed}{quantity(size, 'entry', 'entries')}, head {status.receipt}"
    if kept is not None and kept != size:
        text += f"; last receipt written: {count(kept)}"
    if status.refusals:
        text += f"; {quantity(status.refusals, 'refusal')} on record"
    if status.folded_from < size:
        text += f"\nread on from entry {count(status.folded_from)}"
    return text

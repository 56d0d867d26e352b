"""An entry as a line, and as a page. Pure.

Leaves reading to the facade; nothing is checked here, since `log` also serves damaged ledgers.

Rules:
- The kind `decision` is shown as outcome; money is in usd, times in UTC.
- Bytes that are no entry are shown as they are, cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from fairtrial.ledger.events import EVENT_KINDS

from .text_numbers import clip, count, quantity, usd

__all__ = ("KINDS", "ReadEntry", "entry_line", "entry_page", "read_entry", "with_names")

KINDS = tuple(kind.partition("/")[0] for kind in EVENT_KINDS)
# Kinds that are shown under another word.
_SHOWN_KINDS = {"decision": "outcome"}
Event = Mapping[str, Any]


class ReadEntry(NamedTuple):
    """An entry as far as its JSON can be read."""

    seq: int | None
    time: str
    actor: str
    kind: str
    experiment: str
    id: str
    prev: str
    event: Event
    data: bytes


def read_entry(data: bytes) -> ReadEntry:
    """Returns the parts of stored bytes; empty ones where they can't be read."""
    try:
        found = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        found = {}
    entry = found if isinstance(found, dict) else {}
    event = entry.get("event")
    event = event if isinstance(event, dict) else {}
    seq = entry.get("seq")
    return ReadEntry(
        seq=seq if isinstance(seq, int) else None,
        time=str(entry.get("time", "")),
        actor=str(entry.get("actor", "")),
        kind=str(event.get("kind", "")).partition("/")[0],
        experiment=str(event.get("experiment", "")),
        id=str(entry.get("id", "")),
        prev=str(entry.get("prev", "")),
        event=event,
        data=data,
    )


def with_names(entry: ReadEntry, names: Mapping[str, str]) -> ReadEntry:
    """Returns an entry whose arm is called by its name, where people may know it."""
    arm = entry.event.get("arm")
    if not isinstance(arm, str) or arm not in names:
        return entry
    return entry._replace(event={**entry.event, "arm": names[arm]})


def entry_line(entry: ReadEntry) -> str:
    """Returns an entry in one line."""
    if entry.seq is None:
        return f"{'?':>6}  not an entry: {clip(repr(entry.data), 120)}"
    kind = _SHOWN_KINDS.get(entry.kind, entry.kind)
    time = entry.time[:19].replace("T", " ")
    head = f"{entry.seq:>6}  {time}  {clip(entry.actor, 16):<10}  {kind:<11}"
    place = f"{entry.experiment}  " if entry.experiment else ""
    return f"{head} {place}{_summary(entry)}".rstrip()


def _summary(entry: ReadEntry) -> str:
    describe = _SUMMARIES.get(entry.kind)
    try:
        return clip(describe(entry.event), 160) if describe else ""
    except (KeyError, TypeError, ValueError, AttributeError):
        # A damaged or newer event has other fields; its bytes are in `show`.
        return clip(entry.data.decode("utf-8", "replace"), 160)


def _open(event: Event) -> str:
    return f"{event['tool']}, format {event['format']}"


def _register(event: Event) -> str:
    git = event["git"]
    return f"protocol {event['protocol']['sha256'][:16]}…  " + (
        "not in git" if git is None else f"git {git['commit'][:12]}"
    )


def _freeze(event: Event) -> str:
    return (
        f"{quantity(event['unit_count'], 'unit')}, {quantity(event['cluster_count'], 'cluster')},"
        f" {quantity(event['slot_count'], 'slot')}, {quantity(len(event['looks']), 'look')}"
        + (", arms blinded" if event["arms"][0].get("commitment") else "")
    )


def _start(event: Event) -> str:
    settings = " ".join(f"{name}={value}" for name, value in event["settings"].items())
    return f"session {event['number']} on {event['host']}  {settings}"


def _stop(event: Event) -> str:
    return f"session {event['number']}: {event['reason']}" + _after(event["note"])


def _attempt(event: Event) -> str:
    reserved = usd(event["reserved_nanousd"] / 1e9)
    return f"slot {event['position']} try {event['number']}  {event['arm']}  reserves {reserved}"


def _attempt_end(event: Event) -> str:
    return f"slot {event['position']} try {event['number']}  {event['status']}" + _more(event)


def _decision(event: Event) -> str:
    place = f"slot {event['position']}  {event['arm']}  {event['unit']}"
    replicate = f" #{event['replicate']}" if event["replicate"] > 1 else ""
    scores = " ".join(
        f"{name}={'null' if value is None else f'{value:g}'}"
        for name, value in event["scores"].items()
    )
    return f"{place}{replicate}  {event['status']}  {scores}{_more(event)}"


def _more(event: Event) -> str:
    """Returns code and cost, where there are any."""
    code = f"  {event['code']}" if event["code"] else ""
    cost = event["cost_nanousd"]
    return code + (f"  usd {usd(cost / 1e9)}" if cost is not None else "")


def _look(event: Event) -> str:
    goes = "going on" if event["continues"] else "end"
    if event.get("sealed") is not None:
        return f"look {event['number']}: {quantity(event['units'], 'unit')}, numbers sealed, {goes}"
    crossed = {
        endpoint["crossed"]
        for comparison in event["comparisons"]
        for endpoint in comparison["endpoints"]
    } - {"no"}
    went = f"boundary crossed ({', '.join(sorted(crossed))})" if crossed else "no boundary crossed"
    return f"look {event['number']}: {quantity(event['units'], 'unit')}, {went}, {goes}"


def _result(event: Event) -> str:
    return f"{event['verdict']}: {event['reason']}"


def _amend(event: Event) -> str:
    fields = ", ".join(event["fields"])
    return f"{event['class']}: {fields}  after {count(event['outcomes'])} outcomes" + _after(
        event["reason"]
    )


def _subject(event: Event) -> str:
    return f"entry {event['subject']['seq']}" + _after(event["reason"])


def _settle(event: Event) -> str:
    return f"{_subject(event)}  usd {usd(event['cost_nanousd'] / 1e9)}"


def _reason(event: Event) -> str:
    return str(event["reason"])


def _unblind(event: Event) -> str:
    arms = ", ".join(f"{arm['name']} is {arm['arm']}" for arm in event["arms"])
    return arms + _after(event["reason"])


def _refuse(event: Event) -> str:
    if event["act"] == "look":
        return f"look refused: {event['field'].removeprefix('looks.')} wasn't due"
    return f"{event['act']} refused: {event['field']} differs"


def _recover(event: Event) -> str:
    return f"{count(event['length'])} torn bytes set aside at byte {count(event['offset'])}"


def _after(text: str | None) -> str:
    return f"  {text}" if text else ""


def _anchor(event: Event) -> str:
    size = event["basis"]["size"]
    # The writer's word: who signed or stamped it, a replay judges by keys from elsewhere.
    claimed = "" if event["level"] == "checkpoint" else " claimed"
    return (
        f"{event['level']}{claimed} over {count(size)} entries, root {event['basis']['root'][:16]}…"
    )


def _key(event: Event) -> str:
    after = "the first key" if event["previous"] is None else f"after {clip(event['previous'], 60)}"
    return f"{clip(event['vkey'], 60)}, {after}"


def _sign(event: Event) -> str:
    subject = event["subject"]["seq"]
    return f"entry {count(subject)} {event['meaning']} by {event['signer']}, {event['role']}"


_SUMMARIES = {
    "open": _open,
    "register": _register,
    "freeze": _freeze,
    "start": _start,
    "stop": _stop,
    "attempt": _attempt,
    "attempt_end": _attempt_end,
    "decision": _decision,
    "look": _look,
    "result": _result,
    "amend": _amend,
    "settle": _settle,
    "invalidate": _subject,
    "unblind": _unblind,
    "withdraw": _reason,
    "refuse": _refuse,
    "recover": _recover,
    "anchor": _anchor,
    "key": _key,
    "sign": _sign,
}


def entry_page(
    entry: ReadEntry,
    leaf: str,
    opened: Event | None = None,
    names: Mapping[str, str] | None = None,
) -> str:
    """Returns an entry with everything in it, a field a line.

    Args:
        entry: The entry.
        leaf: Its leaf.
        opened: The event with what was sealed in it, where people may see that.
        names: Which arm was behind each label, where people may know.
    """
    kind = _SHOWN_KINDS.get(entry.kind, entry.kind)
    head = [
        ("entry", f"{entry.seq}  {kind}" + (f"  {entry.experiment}" if entry.experiment else "")),
        ("time", f"{entry.time}  (the writer's clock)"),
        ("actor", f"{entry.actor}  (claimed)"),
        ("id", entry.id),
        ("leaf", leaf),
        ("prev", entry.prev),
    ]
    hidden = ("experiment",)
    body = [(name, value) for name, value in entry.event.items() if name not in hidden]
    width = max(len(name) for name, _ in (*head, *body)) + 2
    lines = [f"{name:<{width}}{text}" for name, text in head]
    lines += ["", *(line for name, v in body for line in _field(name, v, width))]
    lines += _opened_lines(entry.event, opened or {}, names or {}, width)
    return "\n".join(lines)


def _opened_lines(
    event: Event, opened: Event, names: Mapping[str, str], width: int
) -> Iterator[str]:
    """Yields what was sealed, and who was behind a label."""
    fresh = [(name, v) for name, v in opened.items() if v != event.get(name) and name != "sealed"]
    own = {name: arm for name, arm in names.items() if name == event.get("arm")}
    if fresh or own:
        yield ""
        yield "since unblinded"
    for name, arm in own.items():
        yield f"{'arm ' + name:<{width}}{arm}"
    for name, value in fresh:
        yield from _field(name, value, width)


def _field(name: str, value: Any, width: int) -> list[str]:
    """Returns a field as lines; money beside its integer of nano-USD."""
    if isinstance(value, (dict, list)) and value and not _is_blob(value):
        return [name, *_nested(value, 2)]
    text = _plain(value)
    if name.endswith("_nanousd") and isinstance(value, int):
        text += f"  ({usd(value / 1e9)} usd)"
    return [f"{name:<{width}}{text}".rstrip()]


def _nested(value: Any, indent: int) -> list[str]:
    """Returns the members of a mapping or list, a line each, deeper ones further in."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value, start=1)
    lines: list[str] = []
    for name, member in pairs:
        head = f"{' ' * indent}{name}"
        if isinstance(member, (dict, list)) and member and not _is_blob(member):
            lines += [head, *_nested(member, indent + 2)]
        else:
            lines.append(f"{head}  {_plain(member)}")
    return lines


def _is_blob(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"size", "blake3", "sha256"}


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return clip(value, 2000)
    if _is_blob(value):
        return f"sha256 {value['sha256']}, {count(value['size'])} bytes"
    return msgspec.json.encode(value).decode()

"""Values <-> bytes and digests: the only place that encodes, decodes or hashes an event.

Leaves the place of an event to `entry.py` and the meaning of its fields to `state.py`.

Rules:
- Bytes are compact JSON in declared field order; objects with free keys are sorted by code point.
- What is stored is what was checked: encode, decode strictly, encode again, same bytes, same value.
- NaN, infinities, wrong types, lone surrogates and text outside the grammar are refused by field
  path.
- An event's id is "b3:" and BLAKE3 in derive_key mode over exactly the stored bytes; security
  rests on the SHA-256 leaf over the entry, the id only names.
"""

from __future__ import annotations

import math
import re
import unicodedata
from binascii import hexlify
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import cast

import msgspec
from blake3 import blake3

from .errors import IntegrityError, LedgerError, NewerError
from .events import EVENT_KINDS, Blob, Event
from .upcasting import STEPS, Upcasts

__all__ = (
    "EVENT_CONTEXT",
    "EVENT_ENCODER",
    "NAME_BYTES_MAX",
    "TEXT_BYTES_MAX",
    "UPCASTS",
    "blake3_hex",
    "blob_of",
    "check_name",
    "check_text",
    "decode_event",
    "encode_event",
    "encode_events",
    "event_digits",
    "event_id",
    "needs_walk",
    "sha256_hex",
    "unknown_kind",
)

EVENT_CONTEXT = "fairtrial 2026-12-01 event id v1"
NAME_BYTES_MAX = 200
TEXT_BYTES_MAX = 2000

# A step that is missing stops the program here, before it reads anything.
UPCASTS = Upcasts(EVENT_KINDS, STEPS)
EVENT_ENCODER = msgspec.json.Encoder(order="deterministic")
_DECODER: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
_DECODERS = {kind: msgspec.json.Decoder(kind) for kind in EVENT_KINDS.values()}
_HASHER = blake3(derive_key_context=EVENT_CONTEXT)
_BACKSLASH, _DEL, _BLANK = b"\\\x7f "
# Category Cc of Unicode, which never changes, and the marks that turn the direction of text.
_BIDI = "\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c"
_IN_NAMES = re.compile(f"[\x00-\x1f\x7f-\x9f{_BIDI}]")
_IN_TEXTS = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_BIDI}]")
# Fields that hold free text (LF and TAB allowed); every other string is a name.
_TEXT_FIELDS = frozenset(
    {"answer", "reason", "note", "path", "override", "undetermined", "settings", "vkey", "previous"}
    | {"signature", "previous_signature"}
)


def sha256_hex(data: bytes) -> str:
    """Returns the SHA-256 of bytes in lower-case hex."""
    return sha256(data).hexdigest()


def blake3_hex(data: bytes) -> str:
    """Returns the plain BLAKE3 of bytes in lower-case hex, as `b3sum` prints it."""
    return blake3(data).hexdigest()


def blob_of(data: bytes) -> Blob:
    """Returns the reference that names these bytes."""
    return Blob(size=len(data), blake3=blake3_hex(data), sha256=sha256_hex(data))


def event_id(data: bytes) -> str:
    """Returns the id of an event's stored bytes: "b3:" and 64 hex digits."""
    hasher = _HASHER.copy()
    hasher.update(data)
    return "b3:" + hasher.digest().hex()


def event_digits(events: Iterable[bytes]) -> list[bytes]:
    """Returns the 64 hex digits of each event's id, as `event_id` has them."""
    hasher, digits = _HASHER.copy(), list[bytes]()
    for data in events:
        hasher.update(data)
        digits.append(hexlify(hasher.digest()))
        hasher.reset()
    return digits


def encode_event(event: Event) -> bytes:
    """Returns the bytes that are stored for ever.

    Raises:
        LedgerError: A value can't be stored; `where` is its field path.
    """
    kind = type(event)
    assert not UPCASTS.is_old(kind), f"{kind.__name__} is read for ever and never written again"
    try:
        data = EVENT_ENCODER.encode(event)
        back = _DECODERS[kind].decode(data)
    except (msgspec.MsgspecError, TypeError, UnicodeEncodeError, RecursionError) as error:
        _check_values(event, "")
        what, _, path = str(error).partition(" - at `$.")
        raise LedgerError(
            f"an event of kind {kind.__struct_config__.tag} can't be encoded: {what}",
            where=path.rstrip("`"),
            todo="give every field a value of its declared type",
        ) from error
    same = back == event and EVENT_ENCODER.encode(back) == data
    if not same or needs_walk(data):
        _check_values(event, "")
    if not same:
        raise LedgerError(
            f"an event of kind {kind.__struct_config__.tag} changes when it is read back",
            where=_first_change(event, back, ""),
            expected=repr(event)[:200],
            found=repr(back)[:200],
            todo="give every field a value of exactly its declared type (1.0, not 1, for a float)",
        )
    return data


def encode_events(events: Sequence[Event]) -> list[bytes] | None:
    """Returns what `encode_event` returns of each, None where one of them has to be asked of it.

    Args:
        events: Events of the newest version of their kinds.
    """
    given = list(events)
    try:
        joined = EVENT_ENCODER.encode_lines(given)
        back = _DECODER.decode_lines(joined)
    except (msgspec.MsgspecError, TypeError, UnicodeEncodeError, RecursionError):
        return None
    if back != given or EVENT_ENCODER.encode_lines(back) != joined or needs_walk(joined):
        return None
    return joined.split(b"\n")[:-1]


def decode_event(data: bytes) -> Event:
    """Returns the event whose canonical bytes these are, as the newest version of its kind.

    Raises:
        IntegrityError: The bytes are not those of an event in canonical form.
        NewerError: They are of a kind or version that this tool doesn't know.
    """
    try:
        event = _DECODER.decode(data)
        again = EVENT_ENCODER.encode(event)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        kind = unknown_kind(data)
        if kind:
            raise NewerError(
                "the ledger was written by a newer version than this tool, which can't tell what"
                " follows from it: nothing is read of its meaning, and nothing is written to it",
                expected="kinds of this version",
                found=kind,
                todo="use a newer version of fairtrial; ledger replay checks the bytes as ever",
            ) from error
        raise IntegrityError(
            "the bytes are not an event of this format", found=f"{error}: {data[:80]!r}"
        ) from error
    if again != data:
        raise IntegrityError(
            "the event is not in canonical form", expected=repr(again[:200]), found=repr(data[:200])
        )
    if needs_walk(data):
        try:
            _check_values(event, "")
        except LedgerError as error:
            raise IntegrityError(error.what, where=error.where, found=error.found) from error
    return UPCASTS.newest(event)


def _first_change(given: object, back: object, where: str) -> str:
    """Returns the path of the first value that isn't exactly what was read back."""
    if isinstance(given, msgspec.Struct) and isinstance(back, msgspec.Struct):
        pairs = [
            (f"{where}.{name}".lstrip("."), getattr(given, name), getattr(back, name))
            for name in given.__struct_fields__
        ]
    elif isinstance(given, dict) and isinstance(back, dict):
        pairs = [(f"{where}.{key}", item, back.get(key)) for key, item in given.items()]
    elif isinstance(given, (tuple, list)) and isinstance(back, (tuple, list)):
        items = zip(given, back, strict=False)
        pairs = [(f"{where}[{index}]", *pair) for index, pair in enumerate(items)]
    else:
        return "" if type(given) is type(back) and given == back else where
    found = (_first_change(one, other, path) for path, one, other in pairs)
    return next((path for path in found if path), "")


def needs_walk(data: bytes) -> bool:
    """Returns whether any text in these bytes could break the grammar of names and texts."""
    # Plain ASCII without an escape, DEL or a blank beside a quotation mark can't break it.
    # One byte, as a number, is found many times faster than two.
    if not data.isascii() or _BACKSLASH in data or _DEL in data:
        return True
    return _BLANK in data and (b' "' in data or b'" ' in data)


def unknown_kind(event: bytes) -> str:
    """Returns the kind of well-formed event bytes that this version doesn't know, or ""."""
    try:
        value = msgspec.json.decode(event)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    kind = value.get("kind") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) and kind not in EVENT_KINDS else ""


def check_name(value: str, where: str) -> None:
    """Refuses what is not a name: NFC, 1 to 200 bytes, no control character, no blank at an end.

    Raises:
        LedgerError: The text breaks the rule; says how.
    """
    if value != value.strip():
        raise _refusal("a name has a blank at an end", where, value)
    if not value:
        raise _refusal("a name is empty", where, value)
    _check_characters(value, where, NAME_BYTES_MAX, _IN_NAMES)


def check_text(value: str, where: str) -> None:
    """Refuses what is not free text: NFC, at most 2,000 bytes, no control character but LF, TAB.

    Raises:
        LedgerError: The text breaks the rule; says how.
    """
    _check_characters(value, where, TEXT_BYTES_MAX, _IN_TEXTS)


def _check_characters(value: str, where: str, bytes_max: int, refused: re.Pattern[str]) -> None:
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise _refusal("the text holds a lone surrogate", where, ascii(value)) from error
    if size > bytes_max:
        raise _refusal(f"the text has {size} bytes, at most {bytes_max} fit", where, value[:60])
    if not unicodedata.is_normalized("NFC", value):
        raise _refusal("the text is not in Unicode form NFC", where, ascii(value))
    if refused.search(value):
        raise _refusal("the text holds a control character", where, ascii(value))


def _refusal(what: str, where: str, found: str) -> LedgerError:
    return LedgerError(what, where=where, found=found, todo="change the value")


def _check_values(value: object, where: str) -> None:
    """Walks a value and refuses the first leaf that can't be stored, by its path."""
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            item = getattr(value, name)
            if not _is_plain(item):
                _check_values(item, f"{where}.{name}" if where else name)
    elif isinstance(value, dict):
        for key, item in cast("dict[object, object]", value).items():
            if not (isinstance(key, str) and _is_plain(key)):
                _check_name_like(key, f"{where} key")
            if not _is_plain(item):
                _check_values(item, f"{where}.{key}")
    elif isinstance(value, (tuple, list)):
        for index, item in enumerate(cast("tuple[object, ...]", value)):
            _check_values(item, f"{where}[{index}]")
    else:
        _check_leaf(value, where)


def _is_plain(value: object) -> bool:
    """Returns whether a value can stand in every field, so that its path need not be made."""
    if type(value) is str:
        is_ascii = 0 < len(value) <= NAME_BYTES_MAX and value.isascii() and value.isprintable()
        return is_ascii and value[0] != " " and value[-1] != " "
    return value is None or type(value) in (int, bool)


def _check_name_like(value: object, where: str) -> None:
    if not isinstance(value, str):
        raise _refusal("a key is not text", where, repr(value))
    check_name(value, where)


def _check_leaf(value: object, where: str) -> None:
    field = where.partition(".")[0] if where.startswith("settings") else where.rpartition(".")[2]
    if isinstance(value, str):
        if field == "answer" and len(value.encode("utf-8", "replace")) > NAME_BYTES_MAX:
            raise _refusal(f"an answer has more than {NAME_BYTES_MAX} bytes", where, value[:60])
        if not value or field in _TEXT_FIELDS:
            check_text(value, where)
        else:
            check_name(value, where)
    elif isinstance(value, float) and not math.isfinite(value):
        raise _refusal("a number is not finite", where, repr(value))
    elif value is not None and not isinstance(value, (bool, int, float)):
        raise _refusal(f"a value has type {type(value).__name__}", where, repr(value)[:80])

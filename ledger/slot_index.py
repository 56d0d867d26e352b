"""Which event fills which slot, read from the bytes without decoding the event.

Leaves the meaning of slots to `state.py`, their columns to `slots.py` and the medium to the stores.

Rules:
- A slot is (experiment, position, kind, number); the kind is taken without its version.
- The four are members of every event of every version, so that a store can index what it can't decode.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from .errors import IntegrityError

__all__ = ("Slot", "parse_slot")


class Slot(NamedTuple):
    """What an event fills at most once."""

    experiment: str
    position: int
    kind: str
    number: int


class _SlotMembers(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    experiment: str
    position: int
    number: int


_DECODER = msgspec.json.Decoder(_SlotMembers)


def parse_slot(event: bytes) -> Slot:
    """Returns the slot of an event from its bytes.

    Raises:
        IntegrityError: The bytes are not JSON or lack one of the four members.
    """
    try:
        members = _DECODER.decode(event)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise IntegrityError(
            "the event has no slot", found=f"{error}: {event[:80]!r}"
        ) from error
    kind = members.kind.partition("/")[0]
    return Slot(members.experiment, members.position, kind, members.number)

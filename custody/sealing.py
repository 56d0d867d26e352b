"""Seals what would tell blinded arms apart, and opens it again: endings of attempts, and looks.

Leaves who is behind a label to `blinding.py`, when people may see it to the verbs.

Rules:
- The readable event holds the SHA-256 of the sealed bytes; these are a blob beside the ledger that
  begins with a salt of 32 random bytes, so that nobody finds a price by trying prices.
- Sealed are cost, tokens, duration, models and artifacts of an ending; the numbers of a look.
- Opening gives back the event that would have been appended had nothing been blinded, under the
  arm's name; numbers come from opened events alone.
- Sealed blobs of endings have sizes that few others have: they are found by their SHA-256 among
  those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from hashlib import sha256
from typing import NamedTuple

import msgspec

from fairtrial.ledger.blinding import new_salt
from fairtrial.ledger.canonical import blob_of, sha256_hex
from fairtrial.ledger.entry import Entry
from fairtrial.ledger.errors import IntegrityError, StoreError, TransitionError
from fairtrial.ledger.events import (
    Attempt,
    AttemptEnd,
    Blob,
    Decision,
    Event,
    Freeze,
    Look,
    LookComparison,
)
from fairtrial.ledger.state import Experiment, State, is_blinded
from fairtrial.protocols.terms import arm_terms

from .blinding import PAD_BYTES, has_labels, names_of, padded
from .trial import Reader

__all__ = (
    "Sealed",
    "Seals",
    "check_no_crossing",
    "opened_events",
    "opened_looks",
    "seal_ending",
    "seal_look",
    "seal_of",
)


class _SealedEnding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an attempt or outcome says that could tell arms apart."""

    salt: str
    v: int = 1
    cost_nanousd: int | None
    incurred_nanousd: int | None
    tokens: dict[str, int]
    duration_ms: int | None
    requested_model: str | None = None
    served_model: str | None = None
    artifacts: dict[str, Blob]


class _SealedLook(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a look says in numbers."""

    salt: str
    v: int = 1
    data: str
    comparisons: tuple[LookComparison, ...]


class Sealed(NamedTuple):
    """An event whose readable part names its sealed part, and that part's bytes."""

    event: Event
    content: bytes


_ENCODER = msgspec.json.Encoder(order="deterministic")
_NOTHING: dict[str, object] = {
    "cost_nanousd": None,
    "incurred_nanousd": None,
    "tokens": {},
    "duration_ms": None,
    "artifacts": {},
}
_MODELS = ("requested_model", "served_model")


def seal_ending(event: Decision | AttemptEnd) -> Sealed:
    """Returns an outcome, or the end of an attempt, with a sealed part."""
    models = _MODELS if isinstance(event, Decision) else ()
    values = {name: getattr(event, name) for name in (*_NOTHING, *models)}
    content = padded(_ENCODER.encode(_SealedEnding(salt=new_salt(), **values)))
    hidden = msgspec.structs.replace(
        event, **_NOTHING, **dict.fromkeys(models), sealed=sha256_hex(content)
    )
    return Sealed(hidden, content)


def seal_of(known: Experiment) -> Callable[[Decision | AttemptEnd], Sealed] | None:
    """Returns what seals an experiment's endings; None when nothing is blinded."""
    return seal_ending if is_blinded(known) else None


def seal_look(event: Look) -> tuple[Look, bytes]:
    """Returns a look that says only whether the run goes on, with its numbers sealed."""
    salt = new_salt()
    sealed = _SealedLook(salt=salt, data=event.data, comparisons=event.comparisons)
    content = padded(_ENCODER.encode(sealed))
    hidden = msgspec.structs.replace(
        event, data=_salted(salt, event.data), comparisons=(), sealed=blob_of(content)
    )
    return hidden, content


def _salted(salt: str, data: str) -> str:
    # The digest of costs that take few values could be found by trying them.
    return sha256(f"fairtrial/1/look data\0{salt}\0{data}".encode()).hexdigest()


class Seals:
    """The sealed values beside a ledger.

    Args:
        reader: The ledger.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    @cached_property
    def _places(self) -> dict[str, Blob]:
        return self._reader.blobs.by_sha256(multiple_of=PAD_BYTES)

    def has(self, sha256: str) -> bool:
        """Returns whether the sealed bytes with this digest are there."""
        return sha256 in self._places

    def shown(self, state: State, seq: int, event: Event) -> Event:
        """Returns an event with what was sealed in it, once that may be seen."""
        known = state.experiments.get(event.experiment)
        if known is None or is_blinded(known):
            return event
        if isinstance(event, (AttemptEnd, Decision)):
            return self.ending(event, seq=seq)
        return self.look(event) if isinstance(event, Look) else event

    def blobs(self, event: Decision | AttemptEnd) -> Iterator[Blob]:
        """Yields the sealed blob of an ending, if it is there, and the artifacts it names."""
        place = self._places.get(event.sealed or "")
        if place is not None:
            yield place
            yield from self.ending(event, seq=0).artifacts.values()

    def ending(self, event: Decision | AttemptEnd, *, seq: int) -> Decision | AttemptEnd:
        """Returns an ending with what was sealed; unsealed ones as they are.

        Raises:
            StoreError: Its sealed bytes are missing or were changed.
            IntegrityError: They hold no ending.
        """
        if event.sealed is None:
            return event
        place = self._places.get(event.sealed)
        if place is None:
            raise StoreError(
                "a sealed value is missing or was changed",
                where=f"entry {seq} sealed",
                expected=f"a blob with SHA-256 {event.sealed}",
                found="none beside the ledger",
                todo="bring the ledger's .d folder along with the ledger",
            )
        try:
            sealed = msgspec.json.decode(self._reader.blobs.get(place), type=_SealedEnding)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise _no_seal(f"entry {seq}", str(error)) from error
        models = _MODELS if isinstance(event, Decision) else ()
        values = {name: getattr(sealed, name) for name in (*_NOTHING, *models)}
        return msgspec.structs.replace(event, **values, sealed=None)

    def look(self, event: Look) -> Look:
        """Returns a look with its numbers; an unsealed one as it is.

        Raises:
            StoreError: Its sealed bytes are missing.
            IntegrityError: They differ from what the look names.
        """
        if event.sealed is None:
            return event
        where = f"{event.experiment} look {event.number}"
        try:
            sealed = msgspec.json.decode(self._reader.blobs.get(event.sealed), type=_SealedLook)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise _no_seal(where, str(error)) from error
        if _salted(sealed.salt, sealed.data) != event.data:
            raise _no_seal(where, f"data {sealed.data} with another salt")
        return msgspec.structs.replace(
            event, data=sealed.data, comparisons=sealed.comparisons, sealed=None
        )


def _no_seal(where: str, found: str) -> IntegrityError:
    return IntegrityError(
        "a sealed value isn't what its event says",
        where=where,
        expected="what the writer sealed",
        found=found,
        todo="ledger replay",
    )


def opened_looks(reader: Reader, known: Experiment) -> tuple[Look, ...]:
    """Returns the looks taken with their numbers, for computing; people may not see them yet."""
    seals = Seals(reader)
    return tuple(seals.look(look) for look in reader.looks(known))


def check_no_crossing(reader: Reader, known: Experiment) -> None:
    """Refuses to leave an experiment in which something was shown, though a seal hides what.

    Raises:
        TransitionError: A sealed look crossed a boundary.
    """
    for look in opened_looks(reader, known) if has_labels(known) else ():
        for comparison in look.comparisons:
            if any(endpoint.crossed != "no" for endpoint in comparison.endpoints):
                raise TransitionError(
                    "the experiment ends with its result: a look can't be made undone",
                    where=known.name,
                    todo="ledger unblind --reason TEXT, then: ledger result",
                )


def opened_events(reader: Reader, known: Experiment, size: int) -> Iterator[tuple[Entry, Event]]:
    """Yields the first entries with their events, as if nothing had been blinded.

    Other experiments' events are as they stand.

    Raises:
        StoreError: A sealed value, or the opening of an arm, is missing.
    """
    if not has_labels(known):
        yield from reader.read(0, size)
        return
    names, protocol, seals = names_of(reader, known), reader.protocol(known), Seals(reader)
    replace = msgspec.structs.replace
    for entry, event in reader.read(0, size):
        if event.experiment != known.name:
            yield entry, event
        elif isinstance(event, (Decision, AttemptEnd)):
            opened = seals.ending(event, seq=entry.seq)
            if isinstance(opened, Decision):
                opened = replace(opened, arm=names[opened.arm])
            yield entry, opened
        elif isinstance(event, Attempt):
            yield entry, replace(event, arm=names[event.arm])
        elif isinstance(event, Freeze):
            # Each arm on its own terms: the common reservation stood for all of them.
            own = (
                replace(arm, name=names[arm.name], **arm_terms(protocol, names[arm.name])._asdict())
                for arm in event.arms
            )
            yield entry, replace(event, arms=tuple(own))
        else:
            yield entry, event

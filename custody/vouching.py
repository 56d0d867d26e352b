"""What a ledger's signatures and the notes around it are worth to whoever replays it.

Leaves the comparison of heads with the ledger to `ledger.claims`, cryptography to
`ledger.checkpoint`, and time stamps to `timestamping.py`.

Rules:
- An `anchor` event whose note isn't a signed head of this very ledger, a `key` event that isn't
  signed by both keys, and a `sign` event that its key didn't sign break the rules of the record.
- An anchor of the level `timestamp` holds a stamp over its note, one of the level `witness` a line
  of a witness, whoever that is.
- A note counts for more than the ledger's own word when the caller brought it from elsewhere, when
  a key that the caller pinned signed it, when the witnesses of the caller's policy are a quorum, or
  when an authority that the caller trusts stamped it.
- A pinned key hands its trust on to the key that it signed a rotation to, never back.
- What lies beside the ledger isn't from elsewhere, even when it is named.
- An entry that holds a stamp was written after it: a claimed time well before it is a finding.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from fairtrial.ledger.checkpoint import Checkpoint, Signature, parse_checkpoint, verify_note
from fairtrial.ledger.errors import LedgerError, RefusedError, visible
from fairtrial.ledger.events import Anchor, Key, Open, Sign
from fairtrial.ledger.findings import Claim, Finding, Level, SignedCase, Stamped
from fairtrial.ledger.given import read_given
from fairtrial.ledger.note import NOTE_BYTES_MAX, VerifierKey, format_vkey, parse_note, parse_vkey
from fairtrial.ledger.opening import side_folder
from fairtrial.ledger.policy import Policy, parse_policy

from .anchoring import notes_folder
from .approving import is_sign_signed
from .key_events import is_key_signed
from .timestamping import check_stamp, is_available, read_certificates
from .trial import Reader

__all__ = (
    "NoteFile",
    "Pins",
    "Vouching",
    "is_named_beside",
    "notes_beside",
    "read_note",
    "read_pins",
)

# A time of 8 bytes and an Ed25519 signature.
_COSIGNATURE = 72
# How far a writer's clock may lag behind an authority's before the two contradict each other.
CLOCK_MAY_LAG = timedelta(minutes=10)


class Pins(NamedTuple):
    """What the caller holds on to from outside the ledger."""

    keys: tuple[VerifierKey, ...] = ()
    origin: str | None = None
    policy: Policy | None = None
    stamp_roots: bytes = b""

    def trusted(self, origin: str) -> set[VerifierKey]:
        """Returns the pinned keys of one origin."""
        logs = self.policy.logs if self.policy is not None else ()
        return {key for key in (*self.keys, *logs) if key.name == origin}

    def is_pinned(self) -> bool:
        """Returns whether any log key is pinned at all."""
        return bool(self.keys or (self.policy is not None and self.policy.logs))


def read_pins(
    *,
    vkeys: Sequence[str] = (),
    origin: str | None = None,
    policy: Path | None = None,
    stamp_roots: Path | None = None,
) -> Pins:
    """Returns what a caller pins by text and by files.

    Raises:
        RefusedError: A key, the policy or a file isn't acceptable.
    """
    return Pins(
        keys=tuple(parse_vkey(vkey, where="--vkey") for vkey in vkeys),
        origin=origin,
        policy=None if policy is None else parse_policy(read_given(policy, what="the policy")),
        stamp_roots=b"" if stamp_roots is None else read_certificates(stamp_roots),
    )


class NoteFile(NamedTuple):
    """A signed head in a file; `brought` says that it is from elsewhere."""

    source: str
    data: bytes
    head: Checkpoint
    brought: bool


def read_note(path: Path, side: Path) -> NoteFile:
    """Returns the note in a file that the caller names.

    Raises:
        RefusedError: The file can't be read, or holds no checkpoint.
    """
    data = read_given(path, what="the signed head", bytes_max=NOTE_BYTES_MAX)
    try:
        head = parse_checkpoint(parse_note(data).text)
    except RefusedError as error:
        error.where = str(path)
        raise
    return NoteFile(f"checkpoint in {visible(path.name)}", data, head, not _is_beside(path, side))


def _is_beside(path: Path, side: Path) -> bool:
    """Returns whether a file, links followed, lies in the folder of a ledger's own things."""
    # Not `resolve`, which fails at links that lead to themselves.
    return Path(os.path.realpath(side)) in Path(os.path.realpath(path)).parents


def is_named_beside(text: str, ledger: Path) -> bool:
    """Returns whether a text that may be a receipt is the name of a file beside the ledger."""
    return len(text) < 4096 and _is_beside(Path(text), side_folder(ledger.absolute()))


def notes_beside(side: Path) -> list[NoteFile]:
    """Returns the signed heads beside a ledger; files that hold none are passed over."""
    notes: list[NoteFile] = []
    for path in sorted(notes_folder(side).glob("*.note")):
        try:
            notes.append(read_note(path, side))
        except RefusedError:
            # Whoever can put a file there could also leave it out: it isn't evidence.
            continue
    return notes


class Vouching:
    """Judges signatures; given to `replay` as its voucher.

    Args:
        reader: The ledger with its blobs.
        pins: What the caller holds on to.
        notes: Signed heads in files.
    """

    def __init__(self, reader: Reader, pins: Pins, notes: Sequence[NoteFile]) -> None:
        self._reader, self._pins = reader, pins
        # The empty tree begins every ledger; a note that is named and lies beside counts once.
        unique = {note.data: note for note in reversed(notes) if note.head.size > 0}
        self._notes = list(reversed(unique.values()))

    def sizes(self) -> set[int]:
        """Returns the sizes of the heads in files."""
        return {note.head.size for note in self._notes}

    def __call__(self, ledger: str, cases: Sequence[SignedCase]) -> Iterator[Finding | Claim]:
        """Yields what is wrong with the signatures, and the heads that they vouch for."""
        opened = next((case.event for case in cases if isinstance(case.event, Open)), None)
        if opened is None:
            return
        keys = _KeyHistory(opened, self._pins.trusted(opened.origin))
        yield from self._check_pins(opened.origin, cases)
        for case in cases:
            match case.event:
                case Key():
                    yield from keys.take(case.seq, case.event, ledger)
                case Sign() if not is_sign_signed(case.event, ledger):
                    yield _broken(case.seq, "a signature by the key that it names", "another one")
                case Anchor():
                    yield from self._anchor(case, case.event, ledger, keys)
                case _:
                    continue
        for note in self._notes:
            yield from self._note(note, ledger, keys)

    def _check_pins(self, origin: str, cases: Sequence[SignedCase]) -> Iterator[Finding]:
        if self._pins.origin is not None and self._pins.origin != origin:
            yield _other("other_origin", self._pins.origin, origin)
        if not self._pins.is_pinned():
            return
        own = [case.event.vkey for case in cases if isinstance(case.event, (Open, Key))]
        pinned = {format_vkey(key) for key in self._pins.trusted(origin)}
        if not pinned & {vkey for vkey in own if vkey is not None}:
            wanted = self._pins.keys or (self._pins.policy.logs if self._pins.policy else ())
            expected = ", ".join(format_vkey(key) for key in wanted)
            found = ", ".join(vkey for vkey in own if vkey is not None)
            yield _other("other_key", expected, found or "a ledger without a key")

    def _anchor(
        self, case: SignedCase, event: Anchor, ledger: str, keys: _KeyHistory
    ) -> Iterator[Finding | Claim]:
        seq = case.seq
        try:
            data = self._reader.blobs.get(event.note)
            token = None if event.token is None else self._reader.blobs.get(event.token)
        except LedgerError as error:
            # Whether it was erased on record is for the level `files` to say.
            where = f"anchor at entry {seq}"
            yield _finding("anchors", "note_unreadable", seq, "its note", error.what, where=where)
            return
        try:
            head = parse_checkpoint(parse_note(data).text)
            signed = verify_note(parse_note(data), keys.now())
        except LedgerError as error:
            yield _broken(seq, "a head signed by the ledger's key", error.what)
            return
        expected = Checkpoint(keys.origin, event.basis.size, bytes.fromhex(event.basis.root))
        if head != expected or (token is None) != (event.level != "timestamp"):
            yield _broken(seq, "a note of the head that it names", "a note of something else")
            return
        if token is not None and not _is_stamp_of(token, data):
            yield _broken(seq, "a time stamp over its note", "bytes that don't hold its digest")
            return
        if event.level == "witness" and not _is_cosigned(data):
            yield _broken(seq, "a cosignature of a witness on its note", "none")
            return
        source = f"checkpoint embedded as entry {seq}"
        note = NoteFile(source, data, head, brought=False)
        yield from self._claims(note, ledger, keys, signed)
        if token is not None and self._pins.stamp_roots:
            yield from self._stamped(case, note, token, ledger)

    def _stamped(
        self, case: SignedCase, note: NoteFile, token: bytes, ledger: str
    ) -> Iterator[Finding | Claim]:
        seq, size = case.seq, note.head.size
        where = f"time stamp embedded as entry {seq}"
        try:
            stamp = check_stamp(token, note.data, self._pins.stamp_roots)
        except RefusedError as error:
            code = "stamp_refused" if is_available() else "stamp_unchecked"
            yield _finding("anchors", code, seq, error.expected, error.found, where=where)
            return
        if datetime.fromisoformat(case.time) < datetime.fromisoformat(stamp.time) - CLOCK_MAY_LAG:
            expected = f"a time not before the stamp that it holds, {stamp.time}"
            yield _finding("anchors", "clock_contradicted", seq, expected, case.time)
        source = f"time stamp of {stamp.time} by {stamp.authority}, embedded as entry {seq}"
        stamped = Stamped(seq=seq, size=size, time=stamp.time)
        yield Claim(ledger, size, note.head.root, source, "timestamp", stamped)

    def _note(self, note: NoteFile, ledger: str, keys: _KeyHistory) -> Iterator[Finding | Claim]:
        """Judges a head in a file."""
        try:
            signed = verify_note(parse_note(note.data), keys.ever())
        except LedgerError as error:
            lines = {(line.name, line.key_id) for line in parse_note(note.data).lines}
            is_known = any((key.name, key.key_id()) in lines for key in keys.ever())
            if not note.brought:
                # Anyone could have put it there.
                return
            if is_known or self._pins.is_pinned():
                code = "bad_checkpoint" if is_known else "untrusted_checkpoint"
                yield _finding("anchors", code, None, error.expected, error.what, where=note.source)
                return
            signed = ()
        if note.head.origin == keys.origin:
            yield from self._claims(note, ledger, keys, signed)
        elif note.brought:
            yield Claim(note.head.origin, note.head.size, note.head.root, note.source)

    def _claims(
        self, note: NoteFile, ledger: str, keys: _KeyHistory, signed: Sequence[Signature]
    ) -> Iterator[Claim]:
        """Yields one claim for each thing that vouches for a head of this ledger."""
        size, root = note.head.size, note.head.root
        witnesses = self._witnesses(note)
        if witnesses:
            yield Claim(ledger, size, root, f"{note.source}, cosigned by {witnesses}", "witness")
        if {one.key for one in signed} & keys.trusted:
            source = f"{note.source}, signed by the pinned key"
            yield Claim(ledger, size, root, source, "checkpoint")
        elif note.brought and not self._pins.is_pinned():
            yield Claim(ledger, size, root, note.source)
        elif not witnesses:
            yield Claim(ledger, size, root, f"{note.source}, self-signed", "self_signed")

    def _witnesses(self, note: NoteFile) -> str:
        """Returns the witnesses of a note when they are a quorum, else ""."""
        policy = self._pins.policy
        if policy is None or not policy.has_quorum():
            return ""
        try:
            found = verify_note(parse_note(note.data), policy.witnesses.values())
        except LedgerError:
            return ""
        agreed = {one.key for one in found}
        return ", ".join(sorted(key.name for key in agreed)) if policy.is_met(agreed) else ""


def _is_stamp_of(token: bytes, note: bytes) -> bool:
    """Returns whether bytes can be a time stamp over a note; who stamped it needs certificates."""
    return token[:1] == b"\x30" and sha256(note).digest() in token


def _is_cosigned(note: bytes) -> bool:
    """Returns whether a note has a line as witnesses write them; whose it is needs a policy."""
    own = parse_checkpoint(parse_note(note).text).origin
    lines = parse_note(note).lines
    return any(line.name != own and len(line.signature) == _COSIGNATURE for line in lines)


class _KeyHistory:
    """The keys of a ledger in their order, and those that the caller's pins reach."""

    def __init__(self, opened: Open, pinned: set[VerifierKey]) -> None:
        self.origin = opened.origin
        self.trusted = set(pinned)
        self._keys: list[VerifierKey] = []
        if opened.vkey is not None:
            self._add(opened.vkey)

    def _add(self, vkey: str) -> None:
        try:
            self._keys.append(parse_vkey(vkey))
        except LedgerError:
            # A key that can't be read signs nothing: what needs it is refused.
            return

    def now(self) -> list[VerifierKey]:
        """Returns the key in force, as a list of at most one."""
        return self._keys[-1:]

    def ever(self) -> set[VerifierKey]:
        """Returns every key that the ledger had, and every key that is trusted."""
        return {*self._keys, *self.trusted}

    def take(self, seq: int, event: Key, ledger: str) -> Iterator[Finding]:
        """Takes a new key that is signed as it has to be."""
        if not is_key_signed(event, ledger) or not event.vkey.startswith(f"{self.origin}+"):
            expected = "a key of this origin, signed by itself and the one before it"
            yield _broken(seq, expected, "signatures that don't fit")
            return
        is_handed_on = event.previous is not None and bool(self.trusted & set(self.now()))
        self._add(event.vkey)
        if is_handed_on:
            self.trusted |= set(self.now())


def _broken(seq: int, expected: str, found: str) -> Finding:
    return _finding("rules", "bad_signature", seq, expected, found)


def _other(code: str, expected: str, found: str) -> Finding:
    return _finding("anchors", code, 0, expected, found)


def _finding(
    level: Level, code: str, seq: int | None, expected: str, found: str, *, where: str = ""
) -> Finding:
    where = where or f"entry {seq}"
    return Finding(level=level, code=code, seq=seq, where=where, expected=expected, found=found)

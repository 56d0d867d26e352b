"""A witness: cosigns heads of other ledgers that only grow; and how a ledger asks one.

Leaves the forms of requests and cosignatures to the ledger package, the server to
`witness_server.py`, and what a quorum is to `ledger.policy`.

Rules:
- A head is cosigned only when its log's known key signed it and it is proved to have grown from the
  head that was cosigned last. That record is replaced under a lock, whole and synced, before the
  answer is given.
- A head that contradicts the record is kept as evidence: two signed heads that don't fit together
  are proof to anyone.
- A witness whose record is lost must get a new key: it can't know any more what it said.

Source:
    C2SP tlog-witness, add-checkpoint; two roots of one size are answered with 422 as in v1.1.0 (409
    in v1.0.0; whoever asks takes both).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from fairtrial.ledger.checkpoint import Checkpoint, parse_checkpoint, verify_note
from fairtrial.ledger.durable import create_folder, write_file
from fairtrial.ledger.errors import RefusedError, StoreError
from fairtrial.ledger.locks import file_lock
from fairtrial.ledger.merkle import EMPTY_ROOT
from fairtrial.ledger.note import (
    Note,
    SignatureLine,
    VerifierKey,
    format_lines,
    format_note,
    parse_lines,
    parse_note,
)
from fairtrial.ledger.proofs import (
    ConsistencyProof,
    format_consistency,
    is_consistent,
    parse_consistency,
)

from .keys import Key
from .posting import post

__all__ = ("Answer", "Witness", "ask_witness", "with_lines")

SIZE_MEDIA = "text/x.tlog.size"
TEXT_MEDIA = "text/plain"
LOCK_SECONDS = 30.0
ASKED_MAX = 3
_MEANINGS = {
    400: "it finds the request malformed",
    403: "it knows no key that signed this head",
    404: "it doesn't know this ledger: hand it the ledger's verifier key",
    409: "it has cosigned another head of this size",
    422: "this head didn't grow from the one that it cosigned last",
}


class Answer(NamedTuple):
    """The answer to add-checkpoint: an HTTP status and a body."""

    status: int
    body: bytes
    media: str = TEXT_MEDIA


class _Seen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The head of one log that was cosigned last, with its signed note."""

    v: Literal[1]
    origin: str
    size: int
    root: str
    note: str


class _RefusalError(Exception):
    """Ends a request with an answer that isn't a cosignature."""

    def __init__(self, status: int, body: str, media: str = TEXT_MEDIA) -> None:
        super().__init__(status)
        self.answer = Answer(status, body.encode() + b"\n", media)


class Witness:
    """A witness with its key, the logs that it knows, and what it has cosigned.

    Args:
        key: A key for the use `witness`.
        logs: The keys of known logs; each name is an origin.
        folder: What it has cosigned; must be this key's alone.
    """

    def __init__(self, key: Key, logs: Sequence[VerifierKey], folder: Path) -> None:
        self.key, self._folder = key, folder
        self._logs: Mapping[str, list[VerifierKey]] = {
            log.name: [one for one in logs if one.name == log.name] for log in logs
        }

    def add_checkpoint(self, body: bytes, *, time: int) -> Answer:
        """Answers one request.

        Args:
            body: The request, as add-checkpoint has it.
            time: Seconds since 1970, for the cosignature.

        Raises:
            StoreError: The record can't be read or written; nothing was cosigned.
        """
        try:
            proof, note, head = self._read(body)
            create_folder(self._folder)
            place = sha256(head.origin.encode()).hexdigest()
            lock = self._folder / f"{place}.lock"
            with file_lock(lock, timeout_seconds=LOCK_SECONDS, what="witness add-checkpoint"):
                path = self._folder / f"{place}.json"
                self._check_grown(proof, head, _read_seen(path), path)
                line = self.key.signer.cosign(note.text, self.key.signs_as, time=time)
                _write_seen(path, head, proof.note)
        except _RefusalError as refusal:
            return refusal.answer
        return Answer(200, format_lines((line,)).encode())

    def _read(self, body: bytes) -> tuple[ConsistencyProof, Note, Checkpoint]:
        try:
            proof = parse_consistency(body)
            note = parse_note(proof.note)
        except RefusedError as error:
            raise _RefusalError(400, error.what) from error
        keys = self._logs.get(note.text.partition("\n")[0])
        if keys is None:
            raise _RefusalError(404, "this origin isn't known here")
        try:
            verify_note(note, keys)
        except RefusedError as error:
            raise _RefusalError(403, error.what) from error
        try:
            head = parse_checkpoint(note.text)
        except RefusedError as error:
            is_empty = note.text.split("\n")[1:2] == ["0"]
            raise _RefusalError(422 if is_empty else 400, error.what) from error
        if proof.old > head.size:
            raise _RefusalError(400, "the old size is larger than the new one")
        return proof, note, head

    def _check_grown(
        self, proof: ConsistencyProof, head: Checkpoint, seen: _Seen | None, path: Path
    ) -> None:
        size = 0 if seen is None else seen.size
        root = EMPTY_ROOT if seen is None else bytes.fromhex(seen.root)
        if proof.old != size:
            raise _RefusalError(409, str(size), SIZE_MEDIA)
        if head.size == size:
            fits = head.root == root and not proof.hashes
        elif size == 0:
            fits = not proof.hashes
        else:
            fits = is_consistent(proof, root, size=head.size, root=head.root)
        if not fits:
            if seen is not None:
                name = sha256(proof.note).hexdigest()[:16]
                write_file(path.with_name(f"{path.stem}-{name}.evidence"), proof.note)
            raise _RefusalError(422, "the proof doesn't show that this head grew from the last one")


def _read_seen(path: Path) -> _Seen | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Seen)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise StoreError(
            "the witness's record can't be read, so it cosigns nothing",
            where=str(path),
            found=str(error),
            todo="restore it from a copy, or begin a new witness with a new key",
        ) from error


def _write_seen(path: Path, head: Checkpoint, note: bytes) -> None:
    seen = _Seen(v=1, origin=head.origin, size=head.size, root=head.root.hex(), note=note.decode())
    write_file(path, msgspec.json.encode(seen) + b"\n")


def with_lines(note: bytes, lines: Sequence[SignatureLine]) -> bytes:
    """Returns a note with further signature lines, each once, in the place of older ones."""
    parsed = parse_note(note)
    fresh = {(line.name, line.key_id): line for line in lines}
    kept = [line for line in parsed.lines if (line.name, line.key_id) not in fresh]
    return format_note(Note(parsed.text, (*kept, *fresh.values())))


def ask_witness(
    url: str, note: bytes, witness: VerifierKey, prove: Callable[[int], tuple[bytes, ...]]
) -> SignatureLine:
    """Returns a witness's cosignature of a head, asked for over HTTP.

    Args:
        url: Its submission prefix.
        note: The signed head.
        witness: Its key.
        prove: Returns the consistency proof from a size to this head.

    Raises:
        RefusedError: It doesn't answer, doesn't cosign, or its line doesn't verify.
    """
    size = parse_checkpoint(parse_note(note).text).size
    address, old = url.rstrip("/") + "/add-checkpoint", 0
    for _ in range(ASKED_MAX):
        hashes = prove(old) if old else ()
        body = format_consistency(ConsistencyProof(old, hashes, note))
        reply = post(address, body, media=TEXT_MEDIA)
        if reply.status == 200:
            return _verified(reply.body, note, witness)
        if reply.status != 409 or reply.media != SIZE_MEDIA:
            raise _not_cosigned(url, _MEANINGS.get(reply.status, f"status {reply.status}"))
        asked, old = old, _size(reply.body, url)
        if old > size:
            raise _not_cosigned(
                url, f"it has cosigned {old} entries already and this head has {size}"
            )
        if old == asked:
            # How a witness of version 1.0.0 says what later ones say with 422.
            raise _not_cosigned(url, _MEANINGS[409])
    raise _not_cosigned(url, "its last size changes while it is asked")


def _verified(body: bytes, note: bytes, witness: VerifierKey) -> SignatureLine:
    try:
        lines = parse_lines(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise RefusedError(
            "a witness's answer isn't UTF-8",
            where=witness.name,
            expected="lines of signatures",
            found=repr(body[:80]),
            todo="see whether the policy has the right address for it",
        ) from error
    own = [one for one in lines if (one.name, one.key_id) == (witness.name, witness.key_id())]
    verify_note(Note(parse_note(note).text, tuple(own)), [witness])
    return own[0]


def _size(body: bytes, url: str) -> int:
    text = body.decode("ascii", "replace").removesuffix("\n")
    if not text.isdecimal() or len(text) > 19:
        raise _not_cosigned(url, "it names no size")
    return int(text)


def _not_cosigned(url: str, why: str) -> RefusedError:
    return RefusedError(
        "a witness didn't cosign",
        where=url[:200],
        expected="a cosignature of this head",
        found=why,
        todo="ask whoever keeps the witness, or go on without it",
    )

"""The facade's acts of anchoring: checkpoint, time stamp, prove, verify a proof, sign an entry.

Leaves each act to its own module; opens the ledger, does the act, closes it and returns a value.

Rules:
- What writes to the ledger returns the receipt of the head it left behind; nothing is printed.
- A file that was asked for is written whole or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from fairtrial.ledger.checkpoint import parse_checkpoint
from fairtrial.ledger.durable import write_file
from fairtrial.ledger.errors import RefusedError
from fairtrial.ledger.events import Anchor, Event, Reference, Sign
from fairtrial.ledger.given import read_given
from fairtrial.ledger.log import utc_now
from fairtrial.ledger.note import format_vkey, parse_note
from fairtrial.ledger.opening import open_store
from fairtrial.ledger.proofs import parse_consistency, parse_inclusion

from .anchor_setup import anchor_setup
from .anchoring import (
    Level,
    Sealed,
    anchor_now,
    cosigners,
    embed_note,
    notes_folder,
    write_checkpoint,
)
from .approving import Meaning, sign_entry
from .keys import load_key
from .own_keys import own_keys, signer_of
from .proof_check import ProofReport, check_proof
from .proving import find_entry, parse_old, prove, prove_growth
from .rotations import prove_rotations
from .timestamping import stamp_request
from .trial import Reader, Trial, open_trial
from .vouching import Pins

__all__ = (
    "Checkpointed",
    "Proved",
    "Signed",
    "checkpoint_ledger",
    "prove_entry",
    "prove_from",
    "request_stamp",
    "sign_event",
    "verify_proof",
)

# What a protocol can require beyond a checkpoint, the strongest first.
_STRONGER: tuple[Level, ...] = ("timestamp", "witness")


class Checkpointed(NamedTuple):
    """A signed head beside the ledger, the event that embeds it, if any, and the receipt.

    `cosigned` names the witnesses of the caller's policy that cosigned it, when they are a quorum.
    """

    path: Path
    size: int
    event: Anchor | None
    problem: str
    receipt: str
    cosigned: tuple[str, ...] = ()


class Proved(NamedTuple):
    """A proof in a file, what it is about, and the head that it leads to: size and who signed.

    `rotations` are the proofs that lead there from `first_vkey`, the ledger's first key.
    """

    path: Path
    about: str
    size: int
    vkey: str
    rotations: tuple[Path, ...]
    first_vkey: str


class Signed(NamedTuple):
    """A person's signature on record, the event that it is over, and the receipt."""

    event: Sign
    subject: Event
    receipt: str


def checkpoint_ledger(
    ledger: Path,
    *,
    actor: str,
    key: str | None = None,
    embed: bool = False,
    note: Path | None = None,
    token: Path | None = None,
    policy: Path | None = None,
    authority: Path | None = None,
) -> Checkpointed:
    """Signs the present head, or embeds a note that was signed before.

    Args:
        ledger: The ledger's file.
        actor: Who acts, as claimed.
        key: The name of the key; None: the one in FAIRTRIAL_KEY.
        embed: Whether the present head is embedded too, at the level that the protocols want.
        note: A note to embed, such as one that witnesses have cosigned.
        token: A time stamp over that note.
        policy: The quorum policy; None: the one in FAIRTRIAL_POLICY.
        authority: Certificates of time stamp authorities; None: those in FAIRTRIAL_TSA_ROOTS.

    Raises:
        RefusedError: No key is named, or the note isn't a head of this ledger.
        IntegrityError: The ledger isn't a continuation of what was signed before.
    """
    setup = anchor_setup(key, os.environ, policy=policy, authority=authority)
    with open_trial(ledger, actor=actor) as trial:
        if note is not None:
            stamp = None if token is None else read_given(token, what="the time stamp")
            data = read_given(note, what="the signed head")
            event = embed_note(trial, data, setup=setup, token=stamp)
            sealed = Sealed(note, event.basis.size, event, "")
            cosigned = cosigners(data, setup.policy)
        elif embed:
            sealed = anchor_now(trial, setup, _wanted(trial))
            cosigned = cosigners(sealed.path.read_bytes(), setup.policy)
        else:
            sealed, cosigned = write_checkpoint(trial, setup), ()
        return Checkpointed(*sealed, trial.keep_receipt("checkpoint"), cosigned)


def _wanted(trial: Trial) -> Level:
    """Returns the highest level that an experiment of the ledger requires, at least checkpoint."""
    known = trial.log.state.experiments.values()
    wanted = [trial.protocol(one).require.anchor for one in known]
    for level in _STRONGER:
        if level in wanted:
            return level
    return "checkpoint"


def request_stamp(ledger: Path, note: Path | None, target: Path) -> Path:
    """Writes a request for a time stamp over a signed head; returns the note that it is over.

    Args:
        ledger: The ledger's file.
        note: The note; None: the newest one beside the ledger.
        target: Where the request goes.

    Raises:
        RefusedError: There is no note, or the extra `timestamp` is missing.
    """
    if note is None:
        with open_trial(ledger, read_only=True, rehash=False) as trial:
            numbered = (
                one for one in notes_folder(trial.side).glob("*.note") if one.stem.isdecimal()
            )
            notes = sorted(numbered, key=lambda one: int(one.stem))
        if not notes:
            raise RefusedError("nothing is signed yet", todo="ledger checkpoint --key NAME")
        note = notes[-1]
    write_file(target.absolute(), stamp_request(read_given(note)), mode=0o644)
    return note


def prove_entry(
    ledger: Path,
    name: str,
    *,
    checkpoint: Path | None = None,
    target: Path | None = None,
    rotations: bool = False,
) -> Proved:
    """Writes a proof that an entry is in the ledger, with the entry in it.

    Args:
        ledger: The ledger's file.
        name: The entry's seq, or the id of its event.
        checkpoint: The signed head to prove it for; None: the newest beside the ledger.
        target: The file; None: `entry-SEQ.tlog-proof` in this folder.
        rotations: Whether proofs of the rotations before that head are written beside it.

    Raises:
        RefusedError: There is no such entry, or no signed head covers it.
    """
    with _reading(ledger) as reader:
        entry = find_entry(reader, name)
        data = prove(reader, entry, checkpoint)
        path = target or Path(f"entry-{entry.seq}.tlog-proof")
        note = parse_inclusion(data).note
        return _proved(reader, path, data, note, f"entry {entry.seq}", rotations=rotations)


def prove_from(
    ledger: Path,
    old: str,
    *,
    checkpoint: Path | None = None,
    target: Path | None = None,
    rotations: bool = False,
) -> Proved:
    """Writes a proof that the ledger grew from an earlier head.

    Args:
        ledger: The ledger's file.
        old: A receipt, a file with a receipt or checkpoint, or a size.
        checkpoint: The newer head; None: the newest beside the ledger.
        target: The file; None: `growth-OLD-SIZE.proof` in this folder.
        rotations: Whether proofs of the rotations before that head are written beside it.

    Raises:
        RefusedError: It didn't, or no signed head is as new.
    """
    head = parse_old(old)
    with _reading(ledger) as reader:
        size, data = prove_growth(reader, head, checkpoint)
        path = target or Path(f"growth-{head.size}-{size}.proof")
        note, about = parse_consistency(data).note, f"growth from {head.size} entries"
        return _proved(reader, path, data, note, about, rotations=rotations)


@contextmanager
def _reading(ledger: Path) -> Generator[Reader]:
    store = open_store(ledger.absolute(), read_only=True)
    try:
        yield Reader(ledger.absolute(), store)
    finally:
        store.close()


def _proved(
    reader: Reader, path: Path, data: bytes, note: bytes, about: str, *, rotations: bool
) -> Proved:
    """Writes a proof, and what leads to the key that signed its head."""
    keys, parsed = own_keys(reader), parse_note(note)
    found = prove_rotations(reader, note) if rotations else ()
    beside = {path.with_name(f"{path.stem}.rotation-{seq}.tlog-proof"): one for seq, one in found}
    for file, one in (*beside.items(), (path, data)):
        write_file(file.absolute(), one, mode=0o644)
    signer, first = format_vkey(signer_of(parsed, keys)), format_vkey(keys[0].key)
    return Proved(path, about, parse_checkpoint(parsed.text).size, signer, tuple(beside), first)


def verify_proof(
    proof: Path,
    *,
    pins: Pins,
    against: Sequence[str] = (),
    entry: Path | None = None,
    rotations: Sequence[Path] = (),
) -> ProofReport:
    """Checks a proof without the ledger.

    Raises:
        RefusedError: The file isn't a proof, or something is missing to check it.
    """
    return check_proof(
        read_given(proof),
        pins=pins,
        against=[parse_old(one) for one in against],
        entry=None if entry is None else read_given(entry).removesuffix(b"\n"),
        rotations=[read_given(one) for one in rotations],
    )


def sign_event(
    ledger: Path, name: str, *, actor: str, meaning: Meaning, role: str, signer: str, key: str
) -> Signed:
    """Puts a person's signature over an entry on record.

    Args:
        ledger: The ledger's file.
        name: The entry's seq, or the id of its event.
        actor: Who acts, as claimed.
        meaning: What the signature says.
        role: In which role the person signs.
        signer: The person's name.
        key: The name of the person's key.

    Raises:
        RefusedError: There is no such entry or key, or the key has another use.
    """
    own = load_key(key, "person", environment=os.environ)
    with open_trial(ledger, actor=actor) as trial:
        entry = find_entry(trial, name)
        subject = Reference(seq=entry.seq, leaf=entry.leaf().hex())
        event = sign_entry(
            trial, subject, meaning=meaning, signer=signer, role=role, key=own, clock=utc_now
        )
        ((_, signed),) = trial.log.read(entry.seq, entry.seq + 1)
        return Signed(event, signed, trial.keep_receipt("sign"))

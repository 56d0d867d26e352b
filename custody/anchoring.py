"""Checkpoints of a ledger: signed, written beside it, and embedded as `anchor` events.

Leaves signing to `heads.py`, witnesses to `witnessing.py`, time stamps to `timestamping.py`, and
what an anchor is worth to whoever replays (`vouching.py`).

Rules:
- A key that is named signs at register, freeze, every look, result and the end of a run, into
  <ledger>.d/checkpoints/SIZE.note.
- Where the protocol requires an anchor, the checkpoint is embedded too, at the level that could be
  reached: without its own witness or time stamp a checkpoint is a checkpoint and says so.
- Without the key, policy or certificates that a requirement needs, the act is refused before
  anything is on record.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from fairtrial.ledger.checkpoint import (
    Checkpoint,
    open_checkpoint,
    parse_checkpoint,
    verify_note,
)
from fairtrial.ledger.durable import create_folder, write_file
from fairtrial.ledger.errors import LedgerError, RefusedError
from fairtrial.ledger.events import Anchor, Head
from fairtrial.ledger.note import NOTE_BYTES_MAX, VerifierKey, parse_note, parse_vkey
from fairtrial.ledger.policy import Policy
from fairtrial.ledger.proofs import consistency_spans, span_roots
from fairtrial.ledger.regular import is_regular, read_regular
from fairtrial.ledger.state import Experiment, State, next_number

from .anchor_setup import AnchorSetup, anchor_setup
from .heads import sign_head
from .key_events import origin_of, take_key
from .timestamping import check_stamp, fetch_stamp
from .trial import Trial
from .witnessing import ask_witness, with_lines

__all__ = (
    "Level",
    "Sealed",
    "anchor_now",
    "cosigners",
    "embed_note",
    "notes_folder",
    "open_own_note",
    "seal",
    "setup_for",
    "witness_note",
    "write_checkpoint",
)

Level: TypeAlias = Literal["checkpoint", "witness", "timestamp"]


class Sealed(NamedTuple):
    """A head that was signed, where its note lies, and the event that embeds it, if any.

    `problem` says why a required level wasn't reached.
    """

    path: Path
    size: int
    event: Anchor | None
    problem: str


def notes_folder(side: Path) -> Path:
    """Returns the folder of the signed heads beside a ledger."""
    return side / "checkpoints"


def write_checkpoint(trial: Trial, setup: AnchorSetup) -> Sealed:
    """Signs the present head and writes its note beside the ledger.

    Raises:
        RefusedError: No key is named, or the ledger has another one.
        IntegrityError: The ledger isn't a continuation of what was signed before.
    """
    if setup.key is None:
        raise RefusedError(
            "a checkpoint needs a key",
            todo="ledger key new NAME, then --key NAME or FAIRTRIAL_KEY=NAME",
        )
    origin = origin_of(trial)
    take_key(trial, setup.key, origin)
    log = setup.key.signer.verifier(origin)
    head = trial.log.head()
    newest = _newest_note(notes_folder(trial.side), log)
    note = sign_head(
        trial.store,
        head,
        ledger=trial.log.ledger,
        origin=origin,
        key=setup.key.signer,
        folder=setup.folder,
        known=() if newest is None else (newest,),
    )
    return Sealed(_write_note(trial.side, note), head.size, None, "")


def _newest_note(folder: Path, log: VerifierKey) -> Checkpoint | None:
    """Returns the largest head beside the ledger that this key signed."""
    numbered = [path for path in folder.glob("*.note") if path.stem.isdecimal()]
    for path in sorted(numbered, key=lambda path: int(path.stem), reverse=True):
        try:
            return open_checkpoint(read_regular(path, bytes_max=NOTE_BYTES_MAX), log=log).checkpoint
        except (LedgerError, OSError):
            # A file that this key didn't sign says nothing of what it signed.
            continue
    return None


def _write_note(side: Path, note: bytes) -> Path:
    """Puts a note beside the ledger; lines that others added to it stay."""
    parsed = parse_note(note)
    path = notes_folder(side) / f"{parse_checkpoint(parsed.text).size:06d}.note"
    there = path.read_bytes() if is_regular(path) else b""
    if _text_of(there) == parsed.text:
        note = with_lines(there, parsed.lines)
    create_folder(path.parent)
    write_file(path, note, mode=0o644)
    return path


def _text_of(note: bytes) -> str | None:
    """Returns the signed text of a note; None for what is no note."""
    try:
        return parse_note(note).text
    except RefusedError:
        return None


def open_own_note(trial: Trial, note: bytes) -> Checkpoint:
    """Returns the head of a note, checked to be signed by this ledger's key and a head of it.

    Raises:
        RefusedError: It is another ledger's, or isn't a head of this one.
    """
    if trial.log.state.vkey is None:
        raise RefusedError("the ledger has no key yet", todo="ledger checkpoint --key NAME")
    head = open_checkpoint(note, log=parse_vkey(trial.log.state.vkey)).checkpoint
    size = trial.log.state.size
    root = trial.log.root_at(head.size) if 0 < head.size <= size else b""
    if root != head.root:
        raise RefusedError(
            "the checkpoint isn't a head of this ledger: one of them was cut, rewritten or forked",
            expected=f"{head.size} entries, root {root.hex() or 'none'}",
            found=f"{head.size} entries, root {head.root.hex()}",
            todo="ledger replay --checkpoint FILE",
        )
    return head


def embed_note(
    trial: Trial, note: bytes, *, setup: AnchorSetup, token: bytes | None = None
) -> Anchor:
    """Embeds a signed head, at the highest level that it earns.

    Args:
        trial: The ledger, opened for writing.
        note: The note, with the lines of witnesses where there are any.
        setup: The policy and the certificates that a level is judged by.
        token: A time stamp over the note.

    Raises:
        RefusedError: The note isn't a head of this ledger, or the stamp isn't over it.
    """
    head = open_own_note(trial, note)
    level: Level = "checkpoint"
    if cosigners(note, setup.policy):
        level = "witness"
    if token is not None:
        check_stamp(token, note, setup.stamp_roots)
        level = "timestamp"
    blob = trial.blobs.put(note)
    stamp = None if token is None else trial.blobs.put(token)

    def anchor(state: State) -> Anchor:
        return Anchor(
            number=next_number(state, "anchor", ""),
            basis=Head(size=head.size, root=head.root.hex()),
            level=level,
            note=blob,
            token=stamp,
        )

    event = trial.append(anchor).event
    assert isinstance(event, Anchor)
    return event


def cosigners(note: bytes, policy: Policy | None) -> tuple[str, ...]:
    """Returns the witnesses of a policy that cosigned a note, none where they aren't a quorum."""
    if policy is None or not policy.has_quorum():
        return ()
    try:
        signed = verify_note(parse_note(note), policy.witnesses.values())
    except RefusedError:
        return ()
    found = {one.key for one in signed}
    return tuple(sorted(key.name for key in found)) if policy.is_met(found) else ()


def setup_for(trial: Trial, known: Experiment, key: str | None) -> AnchorSetup:
    """Returns what can be anchored with, checked to be enough; looks are anchored as they come.

    Raises:
        RefusedError: The protocol requires an anchor that can't be made here.
    """
    setup = anchor_setup(key, os.environ)
    setup.check(trial.protocol(known).require.anchor, known.name)

    def after_look(looked: Experiment) -> None:
        seal(trial, setup, looked)

    trial.after_look = after_look
    return setup


def seal(trial: Trial, setup: AnchorSetup, known: Experiment | None) -> Sealed | None:
    """Signs the present head when a key is named, and embeds it where that is required.

    Args:
        trial: The ledger, opened for writing.
        setup: What can be anchored with.
        known: The experiment that may require an anchor; None: nothing is embedded.
    """
    if setup.key is None:
        return None
    wanted = "none" if known is None else trial.protocol(known).require.anchor
    if wanted == "none":
        return write_checkpoint(trial, setup)
    return None if _is_covered(trial, wanted) else anchor_now(trial, setup, wanted)


def anchor_now(trial: Trial, setup: AnchorSetup, wanted: Level) -> Sealed:
    """Signs the present head and embeds it, at the level wanted if that can be reached from here.

    Args:
        trial: The ledger, opened for writing.
        setup: What can be anchored with.
        wanted: The level to reach; a lower one is embedded where it isn't, and `problem` says why.
    """
    sealed = write_checkpoint(trial, setup)
    note, token, problem = sealed.path.read_bytes(), None, ""
    try:
        if wanted == "witness":
            sealed = witness_note(trial, setup, sealed)
            note = sealed.path.read_bytes()
        elif wanted == "timestamp":
            token = _stamped(setup, note)
    except RefusedError as error:
        problem = f"not a {wanted} yet: {error.what} ({error.found or error.where})"
    event = embed_note(trial, note, setup=setup, token=token)
    # Signed once more, so that a note beside the ledger covers the anchor too.
    write_checkpoint(trial, setup)
    return sealed._replace(event=event, problem=problem)


def _is_covered(trial: Trial, level: str) -> bool:
    """Returns whether nothing but anchors came after what this level covers."""
    size = trial.log.state.anchored.get(level, 0)
    rest = trial.read(size) if size else None
    return rest is not None and all(isinstance(event, Anchor) for _, event in rest)


def witness_note(trial: Trial, setup: AnchorSetup, sealed: Sealed) -> Sealed:
    """Has a signed head cosigned by the witnesses of the policy that have an address.

    Raises:
        RefusedError: They aren't a quorum.
    """
    if setup.policy is None:
        raise RefusedError(
            "no policy names witnesses",
            expected="a policy with a `witness` line for each and their quorum",
            found="FAIRTRIAL_POLICY isn't set",
            todo="--policy FILE, or FAIRTRIAL_POLICY=FILE",
        )
    note, size = sealed.path.read_bytes(), sealed.size

    def prove(old: int) -> tuple[bytes, ...]:
        return span_roots(trial.store.leaves(0, size), consistency_spans(min(old, size), size))

    failed = ""
    for name, key in setup.policy.witnesses.items():
        if name in setup.policy.urls:
            try:
                note = with_lines(note, [ask_witness(setup.policy.urls[name], note, key, prove)])
            except RefusedError as error:
                failed = failed or f"{name}: {error.found or error.what}"
    path = _write_note(trial.side, note)
    if not cosigners(note, setup.policy):
        raise RefusedError(
            "no quorum of witnesses",
            expected="cosignatures of as many witnesses as the policy wants",
            found=failed or "no witness of the policy has an address",
            todo="try again later, or hand each the note: ledger witness cosign NOTE",
        )
    return sealed._replace(path=path, problem=f"not cosigned by {failed}" if failed else "")


def _stamped(setup: AnchorSetup, note: bytes) -> bytes:
    if not setup.stamp_url:
        raise RefusedError(
            "no authority has an address",
            expected="the address of a time stamp authority (RFC 3161)",
            found="FAIRTRIAL_TSA isn't set",
            todo="FAIRTRIAL_TSA=https://...",
        )
    return fetch_stamp(setup.stamp_url, note, setup.stamp_roots)

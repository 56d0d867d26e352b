"""Who pinned a key that was replaced since is led on by proofs of the rotations alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from fairtrial.custody.anchor_acts import prove_entry, prove_from, verify_proof
from fairtrial.custody.key_acts import rotate_ledger_key
from fairtrial.custody.key_events import key_message
from fairtrial.custody.keys import load_key
from fairtrial.custody.proof_check import ProofReport, check_proof
from fairtrial.custody.proving import find_entry, prove
from fairtrial.custody.rotations import Rotation, follow_rotations
from fairtrial.custody.trial import Reader
from fairtrial.custody.vouching import Pins, read_pins
from fairtrial.ledger.checkpoint import Checkpoint, SigningKey, sign_checkpoint
from fairtrial.ledger.errors import RefusedError
from fairtrial.ledger.events import Key, Open
from fairtrial.ledger.note import encode_base64, format_vkey, parse_vkey
from fairtrial.ledger.opening import open_store
from fairtrial.ledger.proofs import format_inclusion, parse_inclusion

from .anchor_trial import ACTOR, AnchorTrial, make_trial

ORIGIN, LEDGER = "example.org/x", "0" * 32
A, B, C = (SigningKey(letter * 32) for letter in (b"a", b"b", b"c"))


def rotation(seq: int, before: SigningKey, after: SigningKey, origin: str = ORIGIN) -> Rotation:
    """Returns a rotation that both keys signed."""
    old, new = (format_vkey(key.verifier(origin)) for key in (before, after))
    message = key_message(LEDGER, seq, old, new)
    event = Key(
        number=seq,
        vkey=new,
        previous=old,
        signature=encode_base64(after.sign(message)),
        previous_signature=encode_base64(before.sign(message)),
    )
    return Rotation(seq, LEDGER, event)


def led(pinned: Sequence[SigningKey], *rotations: Rotation) -> set[tuple[SigningKey, int | None]]:
    """Returns the keys that may sign, with the entries that brought them."""
    keys = [key.verifier(ORIGIN) for key in pinned]
    now = follow_rotations(keys, rotations, ORIGIN).now
    return {(key, now[own]) for key in (A, B, C) if (own := key.verifier(ORIGIN)) in now}


def test_rotations_lead_forwards_in_the_order_of_their_entries() -> None:
    """Each replaced key hands on to the next, whatever the order of the files; none hands back."""
    first, second = rotation(3, A, B), rotation(8, B, C)
    assert {(A, None)} == led([A])
    assert {(B, 3)} == led([A], first) == led([A, B], first, first)
    assert {(C, 8)} == led([A], second, first) == led([A], first, second)
    assert {(A, None)} == led([A], second)
    assert {(C, None)} == led([C], first, second)
    assert {(A, 9)} == led([A], first, rotation(9, B, A))
    # A second heir of a key that has one already comes too late.
    assert {(B, 3)} == led([A], first, rotation(4, A, C))


def test_rotation_that_both_keys_did_not_sign_is_refused() -> None:
    """Neither an entry of another ledger, nor a changed key or signature, nor another origin."""
    seq, _, event = good = rotation(3, A, B)
    other = rotation(3, A, C).event
    for bad in (
        good._replace(ledger="1" * 32),
        Rotation(seq, LEDGER, replace(event, vkey=other.vkey)),
        Rotation(seq, LEDGER, replace(event, signature=other.signature)),
        Rotation(seq, LEDGER, replace(event, previous_signature=None)),
        rotation(3, A, B, origin="example.org/other"),
    ):
        with pytest.raises(RefusedError, match="entry 3"):
            led([A], bad)


class Twice(NamedTuple):
    """A trial whose key was replaced twice, its three keys, and where the rotations stand."""

    trial: AnchorTrial
    vkeys: list[str]
    places: list[int]

    def pins(self, number: int) -> Pins:
        """Pins one of its keys."""
        return read_pins(vkeys=[self.vkeys[number]])


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twice]:
    """Makes that trial; the tests only read it."""
    with pytest.MonkeyPatch.context() as patch:
        made = make_trial(tmp_path_factory.mktemp("rotations"), patch)
        for name in ("one", "two", "three"):
            made.key(name)
        made.register(key="one")
        rotate_ledger_key(made.ledger, actor=ACTOR, old="one", new="two")
        rotate_ledger_key(made.ledger, actor=ACTOR, old="two", new="three")
        made.finish(key="three")
        events = made.events()
        opened = events[0]
        assert isinstance(opened, Open)
        assert opened.vkey is not None
        later = [(seq, event.vkey) for seq, event in enumerate(events) if isinstance(event, Key)]
        keys = [opened.vkey, *(vkey for _, vkey in later)]
        yield Twice(made, keys, [seq for seq, _ in later])


@pytest.mark.slow
def test_who_pinned_a_replaced_key_needs_no_ledger(twice: Twice, tmp_path: Path) -> None:
    """Entry and growth hold for the first, the second and the last key, with the same files."""
    done = prove_entry(twice.trial.ledger, "1", target=tmp_path / "e.tlog-proof", rotations=True)
    names = [f"e.rotation-{seq}.tlog-proof" for seq in twice.places]
    assert names == [path.name for path in done.rotations]
    assert (twice.vkeys[0], twice.vkeys[2]) == (done.first_vkey, done.vkey)
    old = str(twice.trial.notes[0])
    grown = prove_from(twice.trial.ledger, old, target=tmp_path / "g.proof", rotations=True)
    for number in range(3):
        for proof, against in ((done, []), (grown, [old])):

            def report(
                rotations: Sequence[Path], proof: Path = proof.path, number: int = number,
                against: Sequence[str] = against,
            ) -> ProofReport:  # fmt: skip
                pins = twice.pins(number)
                return verify_proof(proof, pins=pins, against=against, rotations=rotations)

            assert ("holds" if number == 2 else "forked") == report([]).record
            holds = report(proof.rotations)
            assert ("holds", "") == (holds.record, holds.reason)
            assert (number != 2) == (f"since entry {twice.places[1]}" in holds.vouched_by[0])
            assert ("forked" if number == 0 else "holds") == report(proof.rotations[1:]).record
    stranger = read_pins(vkeys=[format_vkey(SigningKey(b"s" * 32).verifier("x.example/y"))])
    report_of = verify_proof(done.path, pins=stranger, rotations=done.rotations)
    assert "forked" == report_of.record


@pytest.mark.slow
def test_proof_under_a_head_of_the_first_key_needs_no_rotation(
    twice: Twice, tmp_path: Path
) -> None:
    """Only rotations that the head covers are written."""
    first = twice.trial.notes[0]
    done = prove_entry(
        twice.trial.ledger, "1", checkpoint=first, target=tmp_path / "e", rotations=True
    )
    assert ((), ["e"]) == (done.rotations, [path.name for path in tmp_path.iterdir()])


@pytest.mark.slow
def test_key_that_was_replaced_signs_for_no_later_head(twice: Twice) -> None:
    """A head that the first key signed doesn't count where the proof of its rotation is given."""
    key = load_key("one", "ledger", environment=twice.trial.home)
    with closing(open_store(twice.trial.ledger, read_only=True)) as store:
        reader = Reader(twice.trial.ledger, store)
        entries = [find_entry(reader, str(seq)) for seq in (1, twice.places[0])]
        proofs = [parse_inclusion(prove(reader, entry, None)) for entry in entries]
    good = check_proof(format_inclusion(proofs[0]), pins=Pins())
    head = Checkpoint(good.origin, good.size, bytes.fromhex(good.root))
    note = sign_checkpoint(head, key.signer)
    data, by = (format_inclusion(proof._replace(note=note)) for proof in proofs)
    report = check_proof(data, pins=twice.pins(0), rotations=[by])
    assert "forked" == report.record
    assert f"entry {twice.places[0]}" in report.reason


@pytest.mark.slow
def test_every_changed_byte_of_a_rotation_is_noticed(twice: Twice) -> None:
    """No changed byte of a proof of a rotation leads on, save in signatures nobody asks for."""
    with closing(open_store(twice.trial.ledger, read_only=True)) as store:
        reader = Reader(twice.trial.ledger, store)
        data = prove(reader, find_entry(reader, "1"), None)
        rotations = [prove(reader, find_entry(reader, str(seq)), None) for seq in twice.places]
    pins, whole = twice.pins(0), rotations[0]
    assert "holds" == check_proof(data, pins=pins, rotations=rotations).record
    signatures = whole.index("—".encode())
    for place in range(signatures):
        changed = bytearray(whole)
        changed[place] ^= 0x01
        try:
            report = check_proof(data, pins=pins, rotations=[bytes(changed), rotations[1]])
        except RefusedError:
            continue
        assert "corrupt" == report.record


@pytest.mark.slow
def test_what_is_no_rotation_is_refused(twice: Twice) -> None:
    """A proof of another entry, one under another head, and a rotation without a pinned key."""
    with closing(open_store(twice.trial.ledger, read_only=True)) as store:
        reader = Reader(twice.trial.ledger, store)
        data = prove(reader, find_entry(reader, "1"), None)
        entry = find_entry(reader, str(twice.places[0]))
        here = prove(reader, entry, None)
        notes = [note for note in twice.trial.notes if int(note.stem) > twice.places[1]]
        earlier = prove(reader, entry, notes[0])
    pins = twice.pins(0)
    for rotations, held, match in (
        ([data], pins, "replaced a key"),
        ([earlier], pins, "another head"),
        ([here], Pins(), "pinned key"),
        ([here], read_pins(origin=parse_vkey(twice.vkeys[0]).name), "pinned key"),
    ):
        with pytest.raises(RefusedError, match=match):
            check_proof(data, pins=held, rotations=rotations)

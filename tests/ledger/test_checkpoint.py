"""Signed notes and checkpoints against the vectors, and each rule of the form by itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairtrial.ledger.checkpoint import (
    Checkpoint,
    SigningKey,
    checkpoint_text,
    is_signed,
    open_checkpoint,
    parse_checkpoint,
    sign_checkpoint,
    verify_note,
)
from fairtrial.ledger.errors import RefusedError
from fairtrial.ledger.merkle import EMPTY_ROOT
from fairtrial.ledger.note import (
    COSIGNATURE,
    NOTE_BYTES_MAX,
    SIGNATURES_MAX,
    Note,
    SignatureLine,
    VerifierKey,
    check_key_name,
    format_note,
    format_vkey,
    parse_note,
    parse_vkey,
)

# Any: the vectors are plain JSON.
VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parent / "data/checkpoint_note.json").read_text(encoding="utf-8")
)
LOG = parse_vkey(VECTORS["log"]["vkey"])
WITNESS = parse_vkey(VECTORS["witness"]["vkey"])
LOG_KEY = SigningKey(bytes.fromhex(VECTORS["log"]["seed_hex"]))
WITNESS_KEY = SigningKey(bytes.fromhex(VECTORS["witness"]["seed_hex"]))
GOOD = VECTORS["checkpoints"][-1]["note"].encode()


def note_with(line: SignatureLine) -> bytes:
    """Returns the good checkpoint with one more signature line."""
    note = parse_note(GOOD)
    return format_note(Note(note.text, (*note.lines, line)))


@pytest.mark.parametrize("vector", VECTORS["checkpoints"], ids=lambda v: f"size-{v['size']}")
def test_signing_reproduces_the_vector(vector: dict[str, str]) -> None:
    """Ed25519 is deterministic: the same head and key give the bytes of the vector."""
    opened = open_checkpoint(vector["note"].encode(), log=LOG)
    assert int(vector["size"]) == opened.checkpoint.size
    assert vector["text"] == checkpoint_text(opened.checkpoint)
    assert vector["note"].encode() == sign_checkpoint(opened.checkpoint, LOG_KEY)
    assert vector["note"].encode() == format_note(opened.note)


def test_verifier_keys_are_those_of_the_vectors() -> None:
    """A verifier key follows from name, type and seed, and reads back from its text."""
    assert LOG == LOG_KEY.verifier("ledger.example/trial-1")
    assert WITNESS == WITNESS_KEY.verifier("witness.example/w1", cosigner=True)
    assert VECTORS["log"]["vkey"] == format_vkey(LOG)
    assert VECTORS["witness"]["vkey"] == format_vkey(WITNESS)


def test_cosigned_checkpoint_names_both_signers() -> None:
    """A cosignature verifies with its time beside the log's signature."""
    opened = open_checkpoint(VECTORS["cosigned"].encode(), log=LOG, cosigners=[WITNESS])
    time = int(VECTORS["witness"]["time"])
    assert [(LOG, None), (WITNESS, time)] == [tuple(one) for one in opened.signatures]


def test_cosigning_reproduces_the_vector() -> None:
    """The cosignature line of the vector is made again from seed and time."""
    line = WITNESS_KEY.cosign(
        parse_note(GOOD).text, WITNESS.name, time=int(VECTORS["witness"]["time"])
    )
    assert VECTORS["cosigned"].encode() == note_with(line)


@pytest.mark.parametrize("vector", VECTORS["reject"], ids=lambda v: v["why"])
def test_bad_note_is_refused(vector: dict[str, str]) -> None:
    """Each of the 18 bad notes is refused by a verifier that knows the log's key."""
    with pytest.raises(RefusedError):
        open_checkpoint(vector["note"].encode(), log=LOG, cosigners=[WITNESS])


def test_there_are_18_bad_notes() -> None:
    """The vectors are whole."""
    assert 18 == len(VECTORS["reject"])


def test_fork_verifies_alone() -> None:
    """A fork's checkpoint is as good as any until the two are compared."""
    fork = open_checkpoint(VECTORS["fork_same_size"].encode(), log=LOG).checkpoint
    good = open_checkpoint(GOOD, log=LOG).checkpoint
    assert (good.origin, good.size) == (fork.origin, fork.size)
    assert good.root != fork.root


def test_unknown_lines_are_kept_and_passed_over() -> None:
    """A line by another name, another id, or of an unknown type changes nothing and stays."""
    for line in (
        SignatureLine("other.example/x", b"\0\0\0\1", b"any bytes"),
        SignatureLine(LOG.name, b"\0\0\0\1", b"same name, other id"),
        SignatureLine("other.example/x", LOG.key_id(), b"same id, other name"),
        SignatureLine("pq.example/x", b"\1\2\3\4", bytes(8 + 2420)),
    ):
        opened = open_checkpoint(note_with(line), log=LOG)
        assert line == opened.note.lines[-1]
        assert [LOG] == [one.key for one in opened.signatures]


def test_known_line_that_fails_makes_the_note_invalid() -> None:
    """One bad line of a known key spoils a note that is otherwise signed."""
    bad = SignatureLine(WITNESS.name, WITNESS.key_id(), bytes(72))
    with pytest.raises(RefusedError, match="doesn't fit"):
        open_checkpoint(note_with(bad), log=LOG, cosigners=[WITNESS])
    open_checkpoint(note_with(bad), log=LOG)


@pytest.mark.parametrize("size", [0, 63, 64, 71, 73])
def test_signature_of_a_known_key_has_its_length(size: int) -> None:
    """A cosignature has 72 bytes; a bare signature isn't one."""
    line = SignatureLine(WITNESS.name, WITNESS.key_id(), bytes(size) or b"\0")
    with pytest.raises(RefusedError, match="length"):
        verify_note(parse_note(note_with(line)), [LOG, WITNESS])


def test_second_line_of_a_known_key_is_verified_too() -> None:
    """A good line doesn't hide a bad one of the same key."""
    bad = SignatureLine(LOG.name, LOG.key_id(), bytes(64))
    with pytest.raises(RefusedError, match="doesn't fit"):
        open_checkpoint(note_with(bad), log=LOG)


def test_every_changed_bit_of_a_checkpoint_is_refused() -> None:
    """No bit of a signed note with one signature can change."""
    for place in range(len(GOOD)):
        for bit in range(8):
            changed = bytearray(GOOD)
            changed[place] ^= 1 << bit
            with pytest.raises(RefusedError):
                open_checkpoint(bytes(changed), log=LOG)


def test_every_cut_note_is_refused() -> None:
    """A note that lost its end is none."""
    for length in range(len(GOOD)):
        with pytest.raises(RefusedError):
            open_checkpoint(GOOD[:length], log=LOG)


def test_cosignatures_alone_are_no_checkpoint_of_the_log() -> None:
    """A witness can't speak for the log."""
    note = parse_note(GOOD)
    line = WITNESS_KEY.cosign(note.text, WITNESS.name, time=1)
    with pytest.raises(RefusedError, match="log hasn't signed"):
        open_checkpoint(format_note(Note(note.text, (line,))), log=LOG, cosigners=[WITNESS])


def test_log_signature_isnt_taken_as_cosignature() -> None:
    """The type is part of the key's id: the same key under the other type is another key."""
    as_witness = VerifierKey(LOG.name, COSIGNATURE, LOG.key)
    with pytest.raises(RefusedError, match="no known key"):
        verify_note(parse_note(GOOD), [as_witness])


def test_extension_lines_are_kept() -> None:
    """Lines after the root are signed, kept and not read."""
    checkpoint = Checkpoint(LOG.name, 1, bytes(32), ("more", "and more"))
    assert checkpoint == open_checkpoint(sign_checkpoint(checkpoint, LOG_KEY), log=LOG).checkpoint


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "o\n1\n",
        f"o\n-1\n{'A' * 43}=\n",
        f"o\n1 \n{'A' * 43}=\n",
        f"o\n\u0661\n{'A' * 43}=\n",
        f"o\n9223372036854775808\n{'A' * 43}=\n",
        f"o\n1\n{'A' * 43}=\n\n",
        f"o\n1\n{'A' * 43}=",
        f"o\n1\n{'A' * 42}B=\n",
    ],
)
def test_text_that_isnt_a_checkpoint_is_refused(text: str) -> None:
    """Sizes, roots and lines have one form."""
    with pytest.raises(RefusedError):
        parse_checkpoint(text)


def test_empty_tree_has_one_root() -> None:
    """Size 0 goes with SHA-256 of nothing."""
    text = checkpoint_text(Checkpoint("o", 0, EMPTY_ROOT))
    assert EMPTY_ROOT == parse_checkpoint(text).root
    with pytest.raises(RefusedError, match="empty tree"):
        parse_checkpoint(checkpoint_text(Checkpoint("o", 0, bytes(32))))


def test_text_of_a_note_may_hold_empty_lines() -> None:
    """The last empty line divides text and signatures."""
    line = LOG_KEY.sign_note("one\n\ntwo\n", LOG.name)
    data = format_note(Note("one\n\ntwo\n", (line,)))
    assert "one\n\ntwo\n" == parse_note(data).text
    assert [LOG] == [one.key for one in verify_note(parse_note(data), [LOG])]


def test_sixteen_signatures_are_taken_and_too_many_refused() -> None:
    """At least 16 signatures have to be taken; a limit stands above."""
    text = parse_note(GOOD).text
    lines = tuple(LOG_KEY.sign_note(text, f"n{number}") for number in range(SIGNATURES_MAX + 1))
    assert 16 == len(parse_note(format_note(Note(text, lines[:16]))).lines)
    assert SIGNATURES_MAX == len(parse_note(format_note(Note(text, lines[:-1]))).lines)
    with pytest.raises(RefusedError, match="too many"):
        parse_note(format_note(Note(text, lines)))


def test_note_over_the_size_limit_is_refused_unread() -> None:
    """What is too large isn't parsed."""
    with pytest.raises(RefusedError, match="too large"):
        parse_note(b"\xff" * (NOTE_BYTES_MAX + 1))


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\u00a0b", "a\nb", "a\x00", "\u2003"])
def test_key_name_with_blank_or_plus_is_refused(name: str) -> None:
    """Key names hold no Unicode blank, no plus and no control character."""
    with pytest.raises(RefusedError, match="name"):
        check_key_name(name)


def test_every_part_of_a_verifier_key_counts() -> None:
    """No character of a verifier key can be changed or left out."""
    text = VECTORS["log"]["vkey"]
    for place in range(len(text)):
        changed = text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :]
        for bad in (changed, text[:place], text[place + 1 :]):
            with pytest.raises(RefusedError):
                parse_vkey(bad)


def test_key_of_another_size_or_type_is_refused() -> None:
    """A key id alone doesn't make a key: its type has a size."""
    for key in (VerifierKey("n", 1, bytes(31)), VerifierKey("n", 6, bytes(1312))):
        with pytest.raises(RefusedError, match="kind"):
            parse_vkey(format_vkey(key))


def test_verification_never_raises_for_bad_keys() -> None:
    """A key or signature of another length is simply not the signer's."""
    assert not is_signed(b"m", bytes(64), bytes(31))
    assert not is_signed(b"m", bytes(63), LOG.key)
    assert is_signed(b"m", LOG_KEY.sign(b"m"), LOG.key)


def test_seed_has_32_bytes() -> None:
    """Another length is a bug of the caller."""
    with pytest.raises(ValueError, match="32"):
        SigningKey(bytes(31))

"""What checkpoints and a pinned key show that the file alone doesn't, and what they don't show."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from fairtrial.custody.anchor_acts import checkpoint_ledger
from fairtrial.custody.anchor_setup import anchor_setup
from fairtrial.custody.anchoring import embed_note
from fairtrial.custody.approving import sign_message
from fairtrial.custody.proof_check import check_proof
from fairtrial.custody.proving import OldHead, parse_old
from fairtrial.custody.trial import open_trial
from fairtrial.custody.vouching import read_pins
from fairtrial.engine.session import register_protocol, result_of
from fairtrial.engine.story import read_stories
from fairtrial.ledger.checkpoint import (
    SigningKey,
    checkpoint_text,
    open_checkpoint,
    parse_checkpoint,
    verify_note,
)
from fairtrial.ledger.errors import IntegrityError, RefusedError, RolledBackError
from fairtrial.ledger.events import Reference, Sign
from fairtrial.ledger.merkle import leaf_hash
from fairtrial.ledger.note import (
    COSIGNATURE,
    Note,
    SignatureLine,
    VerifierKey,
    format_note,
    format_vkey,
    parse_note,
)
from fairtrial.ledger.proofs import (
    InclusionProof,
    format_inclusion,
    inclusion_spans,
    span_roots,
)
from fairtrial.verbs.text_replay import replay_text

from .conftest import Case, Verify, place_of, rechained, successful, write_trial
from .signed_trial import SignedTrial, exit_code

Agreed = Callable[..., str]
STRANGER = SigningKey(b"s" * 32)


def forged(case: Case) -> list[bytes]:
    """Returns the entries with one success turned into a failure and every hash made again."""
    entries = case.entries()
    seq = successful(entries)
    flip = (b'"passed":1.0', b'"passed":0.0')
    return rechained(entries, lambda at, event: event.replace(*flip) if at == seq else event)


def both_say(signed: SignedTrial, verify: Verify, *notes: Path) -> str:
    """Returns the word that both verifiers give when they are handed checkpoints."""
    word, said = verify(signed, *map(str, notes))
    assert word == signed.judge(*notes).record, said
    return word


def test_honest_trial_is_anchored_by_what_was_kept(signed: SignedTrial, verify: Verify) -> None:
    """Checkpoint and key from elsewhere: intact and anchored, so the findings below are real."""
    report = signed.judge(signed.newest(), pins=signed.pins)
    assert ("intact", "yes", ()) == (report.record, report.anchored, report.findings)
    assert "intact" == both_say(signed, verify, signed.newest())


def test_rechained_edit_contradicts_a_kept_checkpoint(signed: SignedTrial, verify: Verify) -> None:
    """A signed head from before the edit, at or after it, has another root."""
    signed.put(forged(signed))
    signed.drop_evidence()
    assert "forked" == signed.judge(signed.newest(), pins=signed.pins).record
    assert "forked" == both_say(signed, verify, signed.newest())


def test_rechained_edit_contradicts_the_checkpoints_beside_it(signed: SignedTrial) -> None:
    """An attacker who forgets the notes beside the ledger is found without any help."""
    signed.put(forged(signed))
    assert ("forked", "no") == (signed.judge().record, signed.judge().anchored)
    assert "forked" == signed.judge(pins=signed.pins).record


@pytest.mark.parametrize("act", ["delete", "insert", "reorder"])
def test_moved_entries_contradict_a_kept_checkpoint(
    signed: SignedTrial, verify: Verify, act: str
) -> None:
    """In the middle, with the chain made again and the notes deleted."""
    entries = signed.entries()
    stop = place_of(entries, "stop")
    seq = successful(entries)
    moved = {
        "delete": [*entries[:stop], *entries[stop + 1 :]],
        "insert": [*entries[: stop + 1], *entries[stop:]],
        "reorder": [*entries[:seq], entries[seq + 1], entries[seq], *entries[seq + 2 :]],
    }[act]
    if act == "insert" and not signed.is_jsonl:
        with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
            signed.put(rechained(moved))
        return
    signed.put(rechained(moved))
    signed.drop_evidence()
    report = signed.judge(signed.newest(), pins=signed.pins)
    assert ("no", True) == (report.anchored, report.record != "intact")
    assert {"forked", "rolled_back"} & {one.code for one in report.findings}
    # The one-file verifier knows no order rules, which find these before any checkpoint does.
    assert verify(signed, str(signed.newest()))[0] in ("corrupt", "forked", "rolled_back")


def test_edit_without_any_checkpoint_is_unanchored_and_fails_where_one_is_required(
    signed: SignedTrial, agreed: Agreed, verify: Verify
) -> None:
    """Checkpoints deleted too: alone it is intact, never anchored, and `--require` says no."""
    signed.put(forged(signed))
    signed.drop_evidence()
    assert "intact" == agreed(signed)
    report = signed.judge(pins=signed.pins)
    assert ("intact", "no", 0) == (report.record, report.anchored, report.self_signed)
    assert "UNANCHORED" in verify(signed)[1]
    words = ("replay", signed.ledger, "--no-numbers", "--no-files", "--vkey", signed.vkey)
    assert 0 == exit_code(*words)
    assert 10 == exit_code(*words, "--require", "anchored")


def test_edit_signed_again_is_not_found_by_key_and_said_to_be_the_owners_word(
    signed: SignedTrial, agreed: Agreed, verify: Verify
) -> None:
    """Whoever holds the log's key can sign a rewrite: pinning the key says only whose word it is.

    A receipt, or a checkpoint that was kept before, finds it.
    """
    path = signed.put_signed(forged(signed), signed.key().signer)
    assert "intact" == agreed(signed)
    report = signed.judge(pins=signed.pins)
    assert ("intact", "yes") == (report.record, report.anchored)
    assert all("signed by the pinned key" in source for source in report.anchored_by)
    assert {"checkpoint": report.size} == report.vouched
    words = ("replay", signed.ledger, "--no-numbers", "--no-files", "--vkey", signed.vkey)
    for level in ("witnessed", "timestamped"):
        assert 10 == exit_code(*words, "--require", level)
    assert "forked" == agreed(signed, signed.receipt)
    assert "forked" == signed.judge(signed.newest(), pins=signed.pins).record
    assert "forked" == both_say(signed, verify, signed.newest(), path)


def test_signature_of_another_key_is_found_by_the_pinned_one(
    signed: SignedTrial, agreed: Agreed
) -> None:
    """A rewrite under a key of the attacker's own passes alone, and never for the pinned key's."""
    entries = signed.entries()
    own = format_vkey(STRANGER.verifier(signed.origin))
    swap = (signed.vkey.encode(), own.encode())
    entries = rechained(entries, lambda at, event: event.replace(*swap) if at == 0 else event)
    signed.put_signed(entries, STRANGER)
    assert "intact" == agreed(signed)
    assert "no" == signed.judge().anchored
    report = signed.judge(pins=signed.pins)
    assert ("forked", "no") == (report.record, report.anchored)
    assert ["other_key"] == [one.code for one in report.findings]


def test_signature_of_another_key_on_the_old_ledger_counts_for_nothing(
    signed: SignedTrial, tmp_path: Path
) -> None:
    """The entries untouched, a head signed by a stranger under the ledger's name."""
    brought = tmp_path / "brought.note"
    brought.write_bytes(signed.sign(signed.entries(), STRANGER))
    signed.drop_evidence()
    report = signed.judge(brought, pins=signed.pins)
    assert ["untrusted_checkpoint"] == [one.code for one in report.findings]
    assert "no" == report.anchored


@pytest.mark.parametrize("where", ["beside", "kept"])
def test_cut_tail_contradicts_a_later_checkpoint(
    signed: SignedTrial, verify: Verify, where: str
) -> None:
    """A signed head of a larger size, wherever it survived, shows that the end is gone."""
    signed.put(signed.entries()[:-3])
    if where == "beside":
        assert "rolled_back" == signed.judge().record
        assert "rolled_back" == signed.judge(pins=signed.pins).record
        return
    signed.drop_evidence()
    assert "rolled_back" == signed.judge(signed.newest(), pins=signed.pins).record
    assert "rolled_back" == both_say(signed, verify, signed.newest())


def test_older_copy_gets_no_signature_and_is_rolled_back(
    signed: SignedTrial, agreed: Agreed, verify: Verify
) -> None:
    """A full copy from before, its checkpoints with it: alone intact, as it once was.

    The signer's record lies elsewhere and refuses; the checkpoint that others hold contradicts.
    """
    size = place_of(signed.entries(), "start")
    signed.put(signed.entries()[:size])
    early = [one.read_bytes() for one in signed.notes.glob("*.note") if int(one.stem) <= size]
    signed.drop_evidence()
    signed.notes.mkdir()
    for number, note in enumerate(early):
        (signed.notes / f"{number:06d}.note").write_bytes(note)
    assert early
    assert "intact" == agreed(signed)
    assert "no" == signed.judge().anchored
    assert "rolled_back" == both_say(signed, verify, signed.newest())
    with pytest.raises(RolledBackError, match="signed on this machine"):
        checkpoint_ledger(signed.ledger, actor="ada", key="lab")


def test_deleted_ledger_fails_whatever_the_verifier_holds(
    signed: SignedTrial, verify: Verify
) -> None:
    """A verifier that was given an origin, a key, a receipt or a checkpoint and finds nothing."""
    signed.ledger.unlink()
    held: tuple[tuple[str | Path, ...], ...] = (
        (),
        ("--origin", signed.origin),
        ("--vkey", signed.vkey),
        ("--against", signed.receipt),
        ("--checkpoint", signed.newest()),
    )
    for more in held:
        assert 8 == exit_code("replay", signed.ledger, *more)
    assert "unreadable" == verify(signed, str(signed.newest()))[0]
    assert not signed.ledger.exists(), "a verifier creates nothing"


def test_restarted_ledger_is_not_the_one_that_is_pinned(
    signed: SignedTrial, verify: Verify, tmp_path: Path
) -> None:
    """Begun anew by the same people with the same key: another ledger has another origin."""
    folder = tmp_path / "anew"
    folder.mkdir()
    anew = SignedTrial(
        folder / signed.ledger.name, signed.receipt, signed.home, signed.kept, signed.vkey
    )
    register_protocol(anew.ledger, write_trial(folder), actor="ada", key="lab")
    assert "intact" == anew.judge().record
    for pins in (anew.pins, read_pins(origin=signed.origin)):
        assert ("forked", "no") == (anew.judge(pins=pins).record, anew.judge(pins=pins).anchored)
    assert "forked" == both_say(anew, verify, signed.newest())


def test_two_signed_heads_of_one_size_prove_the_fork(signed: SignedTrial, tmp_path: Path) -> None:
    """Both notes verify by themselves; together they convict the key, and no ledger is needed."""
    rewritten = forged(signed)
    entries = signed.entries()
    heads = []
    for number, history in enumerate((entries, rewritten)):
        path = tmp_path / f"{number}.note"
        path.write_bytes(signed.sign(history, signed.key().signer))
        opened = open_checkpoint(path.read_bytes(), log=signed.log)
        heads.append((path, opened.checkpoint))
    (first, mine), (second, theirs) = heads
    assert (mine.origin, mine.size) == (theirs.origin, theirs.size)
    assert mine.root != theirs.root
    report = signed.judge(first, second, pins=signed.pins)
    assert ("forked", "no") == (report.record, report.anchored)
    hashes = span_roots(map(leaf_hash, rewritten), inclusion_spans(3, len(rewritten)))
    proof = format_inclusion(InclusionProof(3, hashes, second.read_bytes(), rewritten[3]))
    held: OldHead = parse_old(str(first))
    assert "holds" == check_proof(proof, pins=signed.pins).record
    assert "forked" == check_proof(proof, pins=signed.pins, against=[held]).record


def test_fork_is_never_mended(signed: SignedTrial, tmp_path: Path) -> None:
    """Neither signing nor embedding joins two histories: each act is refused."""
    other = tmp_path / "other.note"
    other.write_bytes(signed.sign(forged(signed), signed.key().signer))
    before = signed.entries()
    with open_trial(signed.ledger, actor="ada") as trial, pytest.raises(RefusedError, match="fork"):
        embed_note(trial, other.read_bytes(), setup=anchor_setup(None, signed.home))
    assert before == signed.entries()
    signed.put(forged(signed))
    signed.drop_evidence()
    with pytest.raises(IntegrityError, match="isn't the one that was signed"):
        checkpoint_ledger(signed.ledger, actor="ada", key="lab")


def test_signature_of_another_kind_is_no_log_signature(signed: SignedTrial, tmp_path: Path) -> None:
    """The same key's cosignature, or its signature under a person's act, isn't a signed head."""
    signer = signed.key().signer
    head = parse_checkpoint(parse_note(signed.newest().read_bytes()).text)
    text = checkpoint_text(head)
    cosigned = signer.cosign(text, signed.origin, time=1_800_000_000)
    event = Sign(
        number=1,
        subject=Reference(seq=1, leaf="0" * 64),
        meaning="approved",
        signer="Ada",
        role="",
        time="2026-12-01T08:00:00.000000Z",
        vkey="",
        signature="",
    )
    personal = signer.sign(sign_message(signed.origin, event))
    relabelled = VerifierKey(signed.origin, COSIGNATURE, signer.public())
    lines = {
        "cosignature": cosigned,
        "cosignature under the log's key id": SignatureLine(
            signed.origin, signed.log.key_id(), cosigned.signature
        ),
        "a person's": SignatureLine(signed.origin, signed.log.key_id(), personal),
        "log signature under a cosigner's key id": SignatureLine(
            signed.origin, relabelled.key_id(), signer.sign(text.encode())
        ),
    }
    for kind, line in lines.items():
        note = format_note(Note(text, (line,)))
        with pytest.raises(RefusedError):
            verify_note(parse_note(note), [signed.log])
        brought = tmp_path / "brought.note"
        brought.write_bytes(note)
        shutil.rmtree(signed.notes, ignore_errors=True)
        report = signed.judge(brought, pins=signed.pins)
        assert "no" == report.anchored, kind
        assert {one.code for one in report.findings} <= {"bad_checkpoint", "untrusted_checkpoint"}
        assert report.findings, kind


def test_lost_entries_of_an_unclosed_store_contradict_a_later_checkpoint(
    signed: SignedTrial, verify: Verify
) -> None:
    """Whatever lost acknowledged entries - a journal, a copy, a -wal file - looks like a cut."""
    signed.put(signed.entries()[: len(signed.entries()) // 2])
    signed.drop_evidence()
    assert "intact" == signed.judge().record
    assert "rolled_back" == both_say(signed, verify, signed.newest())


def test_many_ledgers_are_not_shown_and_the_text_says_so(signed: SignedTrial) -> None:
    """Signed, pinned and whole: how many other ledgers there are is in none of them."""
    text = replay_text(signed.judge(signed.newest(), pins=signed.pins), read_stories(signed.ledger))
    assert "ANCHORED" in text
    assert text.endswith("when, without an outside time stamp.")
    assert "Not shown by any ledger: other ledgers or runs that were not handed over" in text


def test_result_is_not_appended_to_a_rolled_back_copy(signed: SignedTrial) -> None:
    """With the key at hand the record of what was signed stops a second ending of the story."""
    entries = signed.entries()
    signed.put(entries[: place_of(entries, "result")])
    signed.drop_evidence()
    with pytest.raises(RolledBackError, match="signed on this machine"):
        checkpoint_ledger(signed.ledger, actor="ada", key="lab")
    shutil.rmtree(signed.ledger.parents[1] / "state")
    result_of(signed.ledger, None, actor="ada", key="lab")
    assert "forked" == signed.judge(signed.newest(), pins=signed.pins).record

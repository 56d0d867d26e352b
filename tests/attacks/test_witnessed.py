"""What a witness shows that neither file nor key does: whoever holds the key can't rewrite or fork.

A witness keeps its own record of each ledger's last head, on a machine that the attacker doesn't
have; here that is a folder of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from fairtrial.custody.vouching import Pins, read_pins
from fairtrial.custody.witnessing import Answer, Witness, with_lines
from fairtrial.ledger.merkle import leaf_hash
from fairtrial.ledger.note import format_vkey, parse_lines
from fairtrial.ledger.proofs import (
    ConsistencyProof,
    consistency_spans,
    format_consistency,
    span_roots,
)

from .conftest import Verify, place_of, rechained, successful
from .signed_trial import SignedTrial, exit_code

TIME = 1_800_000_000


@dataclass(frozen=True)
class Watched:
    """The signed trial and a witness that cosigned its end; `cosigned` is what it gave back."""

    trial: SignedTrial
    witness: Witness
    cosigned: Path
    policy: Path

    @property
    def pins(self) -> Pins:
        """The caller's policy: a quorum of this witness."""
        return read_pins(policy=self.policy)

    def ask(self, entries: list[bytes], *, old: int) -> Answer:
        """Asks the witness, with the log's own key, to cosign the head of some entries."""
        note = self.trial.sign(entries, self.trial.key().signer)
        hashes = span_roots(
            map(leaf_hash, entries),
            consistency_spans(old, len(entries)) if 0 < old <= len(entries) else [],
        )
        body = format_consistency(ConsistencyProof(old, hashes, note))
        return self.witness.add_checkpoint(body, time=TIME)


@pytest.fixture
def watched(signed: SignedTrial, tmp_path: Path) -> Watched:
    """A trial whose end was cosigned."""
    key = signed.new_key("w1", "witness", "witness.example/w1")
    witness = Witness(key, [signed.log], tmp_path / "witness")
    policy = tmp_path / "policy"
    policy.write_text(f"witness one {format_vkey(key.verifier())}\nquorum one\n")
    made = Watched(signed, witness, tmp_path / "cosigned.note", policy)
    answer = made.ask(signed.entries(), old=0)
    assert 200 == answer.status
    note = signed.sign(signed.entries(), signed.key().signer)
    made.cosigned.write_bytes(with_lines(note, parse_lines(answer.body.decode())))
    return made


def forged(signed: SignedTrial) -> list[bytes]:
    """Returns the entries with one success turned into a failure and every hash made again."""
    entries = signed.entries()
    seq = successful(entries)
    flip = (b'"passed":1.0', b'"passed":0.0')
    return rechained(entries, lambda at, event: event.replace(*flip) if at == seq else event)


def test_honest_trial_is_witnessed(watched: Watched) -> None:
    """With the cosigned head the caller's policy is met to the last entry."""
    report = watched.trial.judge(watched.cosigned, pins=watched.pins)
    assert ("intact", "yes", ()) == (report.record, report.anchored, report.findings)
    assert report.size == report.vouched["witness"]


def test_edit_signed_again_gets_no_cosignature_and_contradicts_the_one_given(
    watched: Watched, verify: Verify
) -> None:
    """The attacker has the log's key and not the witness's: a rewrite stays without a quorum."""
    rewritten = forged(watched.trial)
    watched.trial.put_signed(rewritten, watched.trial.key().signer)
    report = watched.trial.judge(watched.cosigned, pins=watched.pins)
    assert ("forked", "no") == (report.record, report.anchored)
    assert "forked" == verify(watched.trial, str(watched.cosigned))[0]
    assert 422 == watched.ask(rewritten, old=len(rewritten)).status
    words = ("replay", watched.trial.ledger, "--no-numbers", "--no-files")
    assert 10 == exit_code(*words, "--policy", watched.policy, "--require", "witnessed")


@pytest.mark.parametrize("act", ["delete", "reorder"])
def test_moved_entries_signed_again_contradict_the_cosigned_head(
    watched: Watched, act: str
) -> None:
    """In the middle, with chain and signatures made again."""
    entries = watched.trial.entries()
    seq = successful(entries)
    moved = {
        "delete": [*entries[:seq], *entries[seq + 1 :]],
        "reorder": [*entries[:seq], entries[seq + 1], entries[seq], *entries[seq + 2 :]],
    }[act]
    watched.trial.put_signed(rechained(moved), watched.trial.key().signer)
    report = watched.trial.judge(watched.cosigned, pins=watched.pins)
    assert {"forked", "rolled_back"} & {one.code for one in report.findings}
    assert "no" == report.anchored


def test_cut_tail_signed_again_is_rolled_back_by_the_cosigned_head(watched: Watched) -> None:
    """Without any later checkpoint beside it, and with a fresh signature over the rest."""
    entries = watched.trial.entries()[:-3]
    watched.trial.put_signed(entries, watched.trial.key().signer)
    assert "intact" == watched.trial.judge().record
    assert "rolled_back" == watched.trial.judge(watched.cosigned, pins=watched.pins).record


def test_older_copy_is_answered_with_the_larger_size(watched: Watched) -> None:
    """A rolled-back ledger that asks as if nothing had been: 409, and the size that was cosigned.

    What grows from it afterwards, in another way, is never cosigned either.
    """
    entries = watched.trial.entries()
    older = entries[: place_of(entries, "start")]
    for old in (0, 1, len(older)):
        answer = watched.ask(older, old=old)
        assert (409, b"%d\n" % len(entries)) == (answer.status, answer.body)
    other = rechained([*older, *entries[len(older) + 1 :], entries[-1], entries[-1]])
    assert len(other) > len(entries)
    assert 422 == watched.ask(other, old=len(entries)).status


def test_restarted_ledger_is_unknown_to_the_witness(watched: Watched) -> None:
    """A fresh ledger has another origin: the witness wasn't told of it, and no quorum covers it."""
    entries = watched.trial.entries()
    stranger = watched.trial.origin.encode()
    anew = [data.replace(stranger, b"x" * len(stranger)) for data in entries]
    note = watched.trial.sign(anew, watched.trial.key().signer)
    renamed = note.replace(stranger, b"x" * len(stranger))
    assert 404 == watched.witness.add_checkpoint(b"old 0\n\n" + renamed, time=TIME).status


def test_second_history_is_refused_and_its_signed_head_kept(
    watched: Watched, tmp_path: Path
) -> None:
    """Split view: of two histories a witness cosigns one, and keeps the other's head as proof."""
    rewritten = forged(watched.trial)
    assert 422 == watched.ask(rewritten, old=len(rewritten)).status
    (evidence,) = (tmp_path / "witness").glob("*.evidence")
    brought = tmp_path / "evidence.note"
    brought.write_bytes(evidence.read_bytes())
    for pins in (watched.trial.pins, watched.pins):
        report = watched.trial.judge(brought, watched.cosigned, pins=pins)
        assert ("forked", "no") == (report.record, report.anchored)


def test_unwitnessed_ledger_beside_the_witnessed_one_is_not_shown(watched: Watched) -> None:
    """Only who asks the witness for all that it cosigned learns of other ledgers.

    The record of one witness names each ledger that it has seen; no ledger does.
    """
    seen = list((watched.cosigned.parent / "witness").glob("*.json"))
    assert 1 == len(seen)
    assert watched.trial.origin in seen[0].read_text()
    assert b"witness.example" not in watched.trial.ledger.read_bytes()

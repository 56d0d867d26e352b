"""Signatures by people: bound to what they are over, and waited for where a protocol wants them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from fairtrial.custody.anchor_acts import sign_event
from fairtrial.custody.approving import Meaning, is_sign_signed
from fairtrial.engine.inspecting import status
from fairtrial.engine.session import run
from fairtrial.ledger.errors import RefusedError, TransitionError
from fairtrial.ledger.events import Sign, Start

from .anchor_trial import ACTOR, AnchorTrial, make_trial

pytestmark = pytest.mark.slow
WANTED = (
    "{signatures: [{meaning: approved, role: statistician, before: run},"
    " {meaning: reviewed, role: owner, before: result_counts}]}"
)


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AnchorTrial:
    """A frozen trial that wants two signatures, and a person's key."""
    made = make_trial(tmp_path, monkeypatch)
    made.key("ada", "person")
    made.register(WANTED)
    return made


def sign(
    trial: AnchorTrial, entry: str, meaning: Meaning = "approved", role: str = "statistician"
) -> Sign:
    """Signs an entry as the tests' person."""
    return sign_event(
        trial.ledger,
        entry,
        actor=ACTOR,
        meaning=meaning,
        role=role,
        signer="Ada Example",
        key="ada",
    ).event


def test_run_waits_for_the_signature_over_the_freeze(trial: AnchorTrial) -> None:
    """No session begins before the approval; status and the refusal name what to type."""
    (before,) = status(trial.ledger)
    assert ("`approved` by statistician over entry 2",) == before.waiting
    assert before.next.startswith("ledger sign 2 --meaning approved --role statistician")
    with pytest.raises(TransitionError, match="approved") as caught:
        run(trial.ledger, None, actor=ACTOR)
    assert before.next == caught.value.todo
    assert not any(isinstance(event, Start) for event in trial.events())
    sign(trial, "2")
    assert () == status(trial.ledger)[0].waiting
    trial.finish()


@pytest.mark.parametrize(
    ("entry", "meaning", "role"),
    [("1", "approved", "statistician"), ("2", "reviewed", "statistician"), ("2", "approved", "x")],
)
def test_other_signatures_allow_nothing(
    trial: AnchorTrial, entry: str, meaning: Meaning, role: str
) -> None:
    """A signature over another entry, of another meaning or role, isn't the one that is wanted."""
    sign(trial, entry, meaning, role)
    with pytest.raises(TransitionError, match="approved"):
        run(trial.ledger, None, actor=ACTOR)


def test_rejection_takes_an_approval_back(trial: AnchorTrial) -> None:
    """The newest word of a role counts."""
    sign(trial, "2")
    sign(trial, "2", "rejected")
    with pytest.raises(TransitionError, match="approved"):
        run(trial.ledger, None, actor=ACTOR)
    sign(trial, "2")
    run(trial.ledger, None, actor=ACTOR)


def test_verdict_waits_for_its_signature(trial: AnchorTrial) -> None:
    """Until the owner has reviewed the result, status says that it is waited for."""
    sign(trial, "2")
    trial.finish()
    (closed,) = status(trial.ledger)
    subject = len(trial.events()) - 1
    assert (f"`reviewed` by owner over entry {subject}",) == closed.waiting
    sign(trial, str(subject), "reviewed", "owner")
    assert () == status(trial.ledger)[0].waiting
    assert "intact" == trial.replay().record


def test_signature_is_over_all_that_it_says(trial: AnchorTrial) -> None:
    """Each field of the event, and the ledger, is bound."""
    event = sign(trial, "2")
    with trial.open() as opened:
        ledger = opened.log.ledger
    assert is_sign_signed(event, ledger)
    assert not is_sign_signed(event, "0" * 32)
    for change in (
        {"subject": msgspec.structs.replace(event.subject, seq=1)},
        {"subject": msgspec.structs.replace(event.subject, leaf="0" * 64)},
        {"meaning": "reviewed"},
        {"signer": "Eve Example"},
        {"role": "owner"},
        {"time": "2020-01-01T00:00:00.000000Z"},
        {"signature": "A" * 86 + "=="},
        {"signature": ""},
        {"vkey": "no key"},
    ):
        assert not is_sign_signed(msgspec.structs.replace(event, **change), ledger)


def test_forged_signature_breaks_the_rules(trial: AnchorTrial) -> None:
    """The fold takes a signature at its word; replay doesn't."""
    event = sign(trial, "2")
    with trial.open() as opened:
        opened.append(msgspec.structs.replace(event, number=2, meaning="reviewed"))
    report = trial.replay()
    assert "corrupt" == report.record
    assert [("bad_signature", 4)] == [(one.code, one.seq) for one in report.findings]


def test_person_signs_with_a_key_of_their_own(trial: AnchorTrial) -> None:
    """A ledger's or witness's key isn't a person's."""
    trial.key("lab")
    trial.key("w1", "witness")
    for key in ("lab", "w1", "nobody"):
        with pytest.raises(RefusedError):
            sign_event(
                trial.ledger,
                "2",
                actor=ACTOR,
                meaning="approved",
                role="statistician",
                signer="Ada Example",
                key=key,
            )
    assert 3 == len(trial.events())


def test_only_an_entry_that_is_there_is_signed(trial: AnchorTrial) -> None:
    """A signature needs its subject."""
    for entry in ("3", "99", "b3:" + "0" * 64):
        with pytest.raises(RefusedError, match="no such entry"):
            sign(trial, entry)

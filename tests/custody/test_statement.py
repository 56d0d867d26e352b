"""A result as a signed statement: the encoding of DSSE, its content, and when it is refused."""

from __future__ import annotations

import json
from base64 import b64decode
from hashlib import sha256
from pathlib import Path

import pytest

from fairtrial.custody.statement import (
    PAYLOAD_TYPE,
    PREDICATE_TYPE,
    export_statement,
    signed_bytes,
)
from fairtrial.engine.inspecting import read_log
from fairtrial.ledger.checkpoint import is_signed
from fairtrial.ledger.entry import parse_entry
from fairtrial.ledger.errors import RefusedError, TransitionError
from fairtrial.ledger.events import Open
from fairtrial.ledger.note import parse_vkey

from .anchor_trial import AnchorTrial, make_trial

VECTOR = json.loads((Path(__file__).parents[1] / "ledger/data/dsse_pae.json").read_text())


def test_signed_bytes_are_those_of_the_specification() -> None:
    """The published vector, and lengths in bytes, not in characters."""
    payload = VECTOR["payload"].encode()
    assert VECTOR["pae"].encode() == signed_bytes(VECTOR["payloadType"], payload)
    assert b"DSSEv1 2 \xc3\xa9 0 " == signed_bytes("é", b"")


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AnchorTrial:
    """A registered trial with a key."""
    made = make_trial(tmp_path, monkeypatch)
    made.key("lab")
    made.register(key="lab")
    return made


@pytest.mark.slow
def test_statement_holds_the_result_and_is_signed_by_the_ledgers_key(
    trial: AnchorTrial, tmp_path: Path
) -> None:
    """Envelope, signature, subjects by digest, and the event as it stands in the ledger."""
    trial.finish(key="lab")
    before = list(read_log(trial.ledger))
    done = export_statement(trial.ledger, tmp_path / "out/result.json", name=None, key="lab")
    assert before == list(read_log(trial.ledger))
    envelope = json.loads((tmp_path / "out/result.json").read_bytes())
    payload = b64decode(envelope["payload"])
    (signature,) = envelope["signatures"]
    opened = trial.events()[0]
    assert isinstance(opened, Open)
    assert (PAYLOAD_TYPE, opened.vkey) == (envelope["payloadType"], signature["keyid"])
    public = parse_vkey(signature["keyid"]).key
    assert is_signed(signed_bytes(PAYLOAD_TYPE, payload), b64decode(signature["sig"]), public)
    assert not is_signed(payload, b64decode(signature["sig"]), public)
    statement = json.loads(payload)
    assert ("https://in-toto.io/Statement/v1", PREDICATE_TYPE) == (
        statement["_type"],
        statement["predicateType"],
    )
    entry = parse_entry(before[done.seq])
    digests = [one["digest"]["sha256"] for one in statement["subject"]]
    protocol = (trial.folder / "protocol.yaml").read_bytes()
    assert [sha256(entry.data).hexdigest(), sha256(protocol).hexdigest()] == digests
    assert b'"event":' + entry.event in payload
    assert (entry.leaf().hex(), entry.id) == (
        statement["predicate"]["leaf"],
        statement["predicate"]["id"],
    )
    assert f"@{len(before)}#" in statement["predicate"]["receipt"]
    with pytest.raises(RefusedError, match="there already"):
        export_statement(trial.ledger, tmp_path / "out/result.json", name=None, key="lab")


@pytest.mark.slow
def test_statement_needs_a_result_and_the_ledgers_own_key(
    trial: AnchorTrial, tmp_path: Path
) -> None:
    """Before the result, with another key or with none there is nothing to sign."""
    target = tmp_path / "result.json"
    with pytest.raises(TransitionError, match="no result that counts"):
        export_statement(trial.ledger, target, name=None, key="lab")
    trial.finish(key="lab")
    trial.key("other")
    for key in ("other", None):
        with pytest.raises(RefusedError, match="ledger's own key"):
            export_statement(trial.ledger, target, name=None, key=key)
    assert not target.exists()


@pytest.mark.slow
def test_result_that_wants_a_signature_is_not_stated(trial: AnchorTrial, tmp_path: Path) -> None:
    """A verdict that doesn't count yet isn't handed to tools that would take it as one."""
    folder = tmp_path / "second"
    folder.mkdir()
    other = AnchorTrial(folder, trial.home, trial.patch)
    other.register(
        "{signatures: [{meaning: approved, role: reviewer, before: result_counts}]}", key="lab"
    )
    other.finish(key="lab")
    with pytest.raises(TransitionError, match="no result that counts") as caught:
        export_statement(other.ledger, tmp_path / "result.json", name=None, key="lab")
    assert "ledger sign" in caught.value.todo

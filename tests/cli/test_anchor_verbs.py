"""The verbs that anchor, prove and sign, and their exit codes."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
import signal
import stat
from pathlib import Path
from typing import Any

import pytest

from fairtrial.custody.timestamping import is_available
from fairtrial.custody.trial import open_trial
from fairtrial.custody.witnessing import with_lines
from fairtrial.ledger.checkpoint import parse_checkpoint
from fairtrial.ledger.events import Anchor, Head
from fairtrial.ledger.note import SignatureLine, parse_note

from .conftest import BETTER, Shell

pytestmark = pytest.mark.slow


@pytest.fixture
def keyed(shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shell:
    """A folder whose trial isn't registered yet, and a key of each use."""
    for name, folder in (("FAIRTRIAL_KEYS", "keys"), ("FAIRTRIAL_STATE", "state")):
        monkeypatch.setenv(name, str(tmp_path / folder))
        shell.environment[name] = str(tmp_path / folder)
    monkeypatch.delenv("FAIRTRIAL_KEY", raising=False)
    shell.ok("key", "new", "lab")
    shell.ok("key", "new", "ada", "--use", "person")
    shell.ok("key", "new", "w1", "--use", "witness", "--signs-as", "witness.example/w1")
    shell.recorded(BETTER, register=False)
    return shell


def require(shell: Shell, text: str) -> None:
    """Lets the protocol require something."""
    path = shell.folder / "protocol.yaml"
    lines = [one for one in path.read_text().splitlines() if not one.startswith("require")]
    path.write_text("\n".join([*lines, f"require: {text}", ""]))


def vkey(shell: Shell, key: str | None = None) -> str:
    """Returns the verifier key of the ledger, or of a witness or person."""
    shown: dict[str, Any] = shell.ok("key", "show", "--ledger", "ledger.db", "--json").json
    if key is None:
        return str(shown["vkey"])
    return next(str(one["vkey"]) for one in shown["keys"] if one["name"] == key)


def test_keys_are_made_and_shown_without_their_secret(keyed: Shell) -> None:
    """A key has its file for its owner alone; what is printed doesn't hold the seed."""
    keys = sorted((keyed.folder / "keys").glob("*.key"))
    assert ["ada.key", "lab.key", "w1.key"] == [path.name for path in keys]
    said = keyed.ok("key", "show", "--json")
    for path in keys:
        assert 0o600 == stat.S_IMODE(path.stat().st_mode)
        assert json.loads(path.read_text())["seed"] not in said.out
    assert ["person", "ledger", "witness"] == [one["use"] for one in said.json["keys"]]
    assert 3 == keyed.ledger("key", "new", "lab").code
    assert 2 == keyed.ledger("key", "new").code
    assert 3 == keyed.ledger("key", "show", "nobody").code


def test_whole_trial_under_a_key(keyed: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one variable set each act is signed, and who has the key finds all of it anchored."""
    require(keyed, "{anchor: checkpoint}")
    refused = keyed.ledger("register")
    assert 3 == refused.code
    assert "ledger key new" in refused.err
    assert not (keyed.folder / "ledger.db").exists()
    monkeypatch.setenv("FAIRTRIAL_KEY", "lab")
    registered = keyed.ok("register")
    assert "on record as checkpoint" in registered.out
    keyed.ok("run")
    keyed.ok("result")
    pinned = vkey(keyed)
    alone = keyed.ledger("replay", "--require", "anchored")
    assert 10 == alone.code
    assert "self-signed" in alone.out
    said = keyed.ok("replay", "--vkey", pinned, "--require", "anchored", "--json")
    assert ("intact", "yes") == (said.json["record"], said.json["anchored"])
    origin = pinned.partition("+")[0]
    assert 0 == keyed.ledger("replay", "--origin", origin).code
    assert 13 == keyed.ledger("replay", "--origin", "other.example/x").code
    assert 13 == keyed.ledger("replay", "--vkey", vkey(keyed, "ada")).code
    assert 10 == keyed.ledger("replay", "--vkey", pinned, "--require", "witnessed").code


def test_checkpoint_from_elsewhere(keyed: Shell) -> None:
    """A checkpoint that was mailed away anchors what it covers, and shows a cut."""
    keyed.ok("register")
    refused = keyed.ledger("checkpoint")
    assert 3 == refused.code
    done = keyed.ok("checkpoint", "--key", "lab", "--json").json
    kept = keyed.folder / "mail.note"
    kept.write_bytes(Path(done["note"]).read_bytes())
    said = keyed.ok("replay", "--checkpoint", "mail.note", "--require", "anchored")
    assert "checkpoint in mail.note" in said.out
    assert 10 == keyed.ledger("replay", "--checkpoint", done["note"], "--require", "anchored").code
    kept.write_bytes(b"no note")
    assert 3 == keyed.ledger("replay", "--checkpoint", "mail.note").code


def test_proof_of_an_entry(keyed: Shell) -> None:
    """Exit codes tell what holds, what is unvouched, what is broken and what is another's."""
    keyed.ok("register")
    assert 3 == keyed.ledger("prove", "1").code
    keyed.ok("checkpoint", "--key", "lab")
    keyed.ok("prove", "1")
    path = keyed.folder / "entry-1.tlog-proof"
    pinned = vkey(keyed)
    (keyed.folder / "ledger.db").rename(keyed.folder / "elsewhere.db")
    unvouched = keyed.ledger("verify-proof", path.name)
    assert (10, True) == (unvouched.code, "UNVOUCHED" in unvouched.out)
    holds = keyed.ok("verify-proof", path.name, "--vkey", pinned)
    assert "PROOF: HOLDS" in holds.out
    assert "register/1" in holds.out
    assert "holds" == keyed.ok("verify-proof", path.name, "--vkey", pinned, "--json").json["record"]
    assert 13 == keyed.ledger("verify-proof", path.name, "--vkey", vkey_of_another()).code
    lines = path.read_text().split("\n")
    lines[3] = "A" * 43 + "="
    path.write_text("\n".join(lines))
    broken = keyed.ledger("verify-proof", path.name, "--vkey", pinned)
    assert 12 == broken.code
    assert "register/1" not in broken.out


def test_next_command_after_a_new_key_is_one_that_works_then(keyed: Shell) -> None:
    """Before a ledger it is the registration, beside a ledger with a key the rotation."""
    said = keyed.ok("key", "new", "first")
    assert "next: ledger register PROTOCOL --key first\n" in said.err
    keyed.ok("register")
    assert "next: ledger checkpoint --key second\n" in keyed.ok("key", "new", "second").err
    keyed.ok("checkpoint", "--key", "lab")
    said = keyed.ok("key", "new", "third")
    assert "next: ledger key rotate --key OLD --to third\n" in said.err
    said = keyed.ok("key", "new", "zoe", "--use", "person")
    assert "--meaning approved --role ROLE --name NAME --key zoe\n" in said.err


def test_proof_of_growth_names_what_it_is_checked_with(keyed: Shell) -> None:
    """The receipt that was given stands in the next command; of a size one is to be found."""
    receipt = keyed.ok("register", "--json").json["receipt"]
    keyed.ok("checkpoint", "--key", "lab")
    said = keyed.ok("prove", "--consistency", receipt)
    command = shlex.split(said.err.partition("next: ledger ")[2])
    assert receipt == command[-1]
    assert "PROOF: HOLDS" in keyed.ok(*command).out
    said = keyed.ok("prove", "--consistency", "2", "--output", "two.proof")
    assert "with a receipt or checkpoint of exactly 2 entries" in said.out
    assert "--against RECEIPT\n" in said.err


def test_proof_across_rotations(keyed: Shell) -> None:
    """Who pinned the key before is led on by a file beside the proof, and told so without it."""
    keyed.ok("register", "--key", "lab")
    pinned = vkey(keyed)
    assert "none" in keyed.ok("prove", "1", "--rotations").out
    keyed.ok("key", "new", "lab2")
    keyed.ok("key", "rotate", "--key", "lab", "--to", "lab2")
    keyed.ok("checkpoint", "--key", "lab2")
    said = keyed.ok("prove", "1", "--rotations", "--output", "e.tlog-proof", "--json").json
    (rotation,) = said["rotations"]
    assert keyed.ok(*said["next"].split()[1:]).out.endswith("PROOF: HOLDS\n")
    words = ("verify-proof", "e.tlog-proof", "--vkey", pinned)
    alone = keyed.ledger(*words)
    assert (13, True) == (alone.code, "--rotation" in alone.out)
    assert "PROOF: AT ODDS WITH WHAT WAS GIVEN (no key that was given has signed" in alone.out
    holds = keyed.ok(*words, "--rotation", rotation)
    assert "handed on by the pinned one" in holds.out
    assert 3 == keyed.ledger(*words, "--rotation", "e.tlog-proof").code
    path = keyed.folder / rotation
    lines = path.read_text().split("\n")
    path.write_text("\n".join([*lines[:3], "A" * 43 + "=", *lines[4:]]))
    assert 12 == keyed.ledger(*words, "--rotation", rotation).code


def vkey_of_another() -> str:
    """Returns a verifier key that signed nothing here."""
    from fairtrial.ledger.checkpoint import SigningKey
    from fairtrial.ledger.note import format_vkey

    return format_vkey(SigningKey(b"s" * 32).verifier("other.example/x"))


def test_proof_of_growth(keyed: Shell) -> None:
    """From a receipt that someone kept, a proof leads to the newest head."""
    keyed.ok("register")
    receipt = keyed.ok("status", "--json").json["receipt"]
    (keyed.folder / "receipt.txt").write_text(receipt + "\n")
    keyed.ok("run", "--key", "lab")
    keyed.ok("checkpoint", "--key", "lab")
    assert 2 == keyed.ledger("prove").code
    keyed.ok("prove", "--consistency", "receipt.txt", "--output", "growth.proof")
    pinned = ("--vkey", vkey(keyed))
    said = keyed.ok("verify-proof", "growth.proof", *pinned, "--against", "receipt.txt")
    assert "the first 3 entries are unchanged" in said.out
    assert 3 == keyed.ledger("verify-proof", "growth.proof", *pinned).code
    other = receipt.partition("#")[0] + "#" + "A" * 43 + "="
    assert 12 == keyed.ledger("verify-proof", "growth.proof", *pinned, "--against", other).code
    assert 3 == keyed.ledger("prove", "--consistency", other).code


def test_two_departments_by_files(keyed: Shell) -> None:
    """One signs, the other cosigns what grew, the first embeds, and anyone with the policy sees."""
    keyed.ok("register", "--key", "lab")
    note = keyed.ok("checkpoint", "--key", "lab", "--json").json["note"]
    log = ("--key", "w1", "--log", vkey(keyed))
    assert 2 == keyed.ledger("witness", "cosign", *log).code
    assert 3 == keyed.ledger("witness", "cosign", note, "--key", "w1").code
    assert 3 == keyed.ledger("witness", "cosign", note, "--key", "lab", *log[2:]).code
    said = keyed.ok("witness", "cosign", note, *log, "--output", "first.note")
    # Without the policy a cosignature doesn't count on the ledger's side.
    assert "next: ledger checkpoint --note first.note --policy FILE" in said.err
    keyed.ok("run", "--key", "lab")
    keyed.ok("result", "--key", "lab")
    note = keyed.ok("checkpoint", "--key", "lab", "--json").json["note"]
    jumped = keyed.ledger("witness", "cosign", note, *log)
    assert 3 == jumped.code
    assert "cosigned 3 entries last" in jumped.err
    keyed.ok("prove", "--consistency", "first.note", "--output", "growth.proof")
    keyed.ok("witness", "cosign", note, *log, "--proof", "growth.proof", "--output", "second.note")
    policy = keyed.folder / "policy.txt"
    policy.write_text(f"witness a {vkey(keyed, 'w1')}\nquorum a\n")
    required = ("replay", "--policy", "policy.txt", "--require", "witnessed")
    assert 10 == keyed.ledger(*required).code
    assert 0 == keyed.ledger(*required, "--checkpoint", "second.note").code
    keyed.ok("checkpoint", "--note", "second.note")
    assert 0 == keyed.ledger(*required).code


def test_witness_serves_until_it_is_interrupted(keyed: Shell) -> None:
    """`witness serve` cosigns over HTTP for `witness ask`, and Ctrl-C ends it."""
    keyed.ok("register", "--key", "lab")
    witness = ("witness", "serve", "--key", "w1", "--log", vkey(keyed), "--port", "0")
    server = keyed.start(*witness)
    try:
        assert server.stderr is not None
        address = server.stderr.readline().split(" ")[3].removesuffix("/add-checkpoint;")
        policy = keyed.folder / "policy.txt"
        policy.write_text(f"witness a {vkey(keyed, 'w1')} {address}\nquorum a\n")
        done = keyed.ok("witness", "ask", "--key", "lab", "--policy", "policy.txt", "--json")
        assert ["witness.example/w1"] == done.json["cosigned"]
        assert "— witness.example/w1 " in Path(done.json["note"]).read_text()
        keyed.ok("replay", "--policy", "policy.txt", "--require", "witnessed")
        server.send_signal(signal.SIGINT)
        assert 130 == server.wait(timeout=30)
    finally:
        server.kill()
        server.communicate()


def test_anchors_of_form_alone_are_called_nothing_more(keyed: Shell) -> None:
    """A line or stamp by nobody passes for its form, and no output says witnessed or stamped."""
    keyed.ok("register", "--key", "lab")
    data = Path(keyed.ok("checkpoint", "--key", "lab", "--json").json["note"]).read_bytes()
    lined = with_lines(data, [SignatureLine("witness.example/w1", b"1234", bytes(72))])
    stamp = b"\x30" + hashlib.sha256(data).digest()
    head = parse_checkpoint(parse_note(data).text)
    with open_trial(keyed.folder / "ledger.db", actor="forger") as trial:
        for number, note, token in ((1, lined, None), (2, data, stamp)):
            trial.append(
                Anchor(
                    number=number,
                    basis=Head(size=head.size, root=head.root.hex()),
                    level="witness" if token is None else "timestamp",
                    note=trial.blobs.put(note),
                    token=None if token is None else trial.blobs.put(token),
                )
            )
    said = keyed.ok("replay", "--report", "report.md").out + keyed.ok("status").out
    said += keyed.ok("log").out + (keyed.folder / "report.md").read_text()
    assert "INTACT, UNANCHORED" in said
    assert ["witness claimed", "timestamp claimed"] == re.findall(r"\w+ claimed", said)
    assert [] == re.findall(r"(?i)witnessed|timestamped|cosigned by|stamp of \d", said)
    for level in ("witnessed", "timestamped"):
        assert 10 == keyed.ledger("replay", "--require", level).code


def test_older_head_needs_no_proof_but_a_newer_one(keyed: Shell) -> None:
    """A witness that has cosigned a newer head says that no proof helps an older one."""
    keyed.ok("register", "--key", "lab")
    log = ("--key", "w1", "--log", vkey(keyed))
    old = keyed.ok("checkpoint", "--embed", "--key", "lab", "--json").json["note"]
    new = keyed.ok("checkpoint", "--key", "lab", "--json").json["note"]
    keyed.ok("witness", "cosign", new, *log)
    refused = keyed.ledger("witness", "cosign", old, *log)
    assert 3 == refused.code
    assert "no proof helps" in refused.err
    assert "expected  nothing" not in refused.err


def test_stamp_that_cannot_be_judged_says_what_is_missing(keyed: Shell) -> None:
    """A token that isn't there, and certificates that aren't named, are told with what to give."""
    keyed.ok("register", "--key", "lab")
    note = keyed.ok("checkpoint", "--key", "lab", "--json").json["note"]
    absent = keyed.ledger("checkpoint", "--note", note, "--token", "none.tsr")
    assert "the time stamp can't be read" in absent.err
    (keyed.folder / "any.tsr").write_bytes(b"0")
    unnamed = keyed.ledger("checkpoint", "--note", note, "--token", "any.tsr")
    assert (3, 3) == (absent.code, unnamed.code)
    if is_available():
        assert "--authority FILE.pem, or FAIRTRIAL_TSA_ROOTS=FILE.pem" in unnamed.err
    assert "cryptography.io" not in unnamed.err


def test_signatures_that_a_protocol_wants(keyed: Shell) -> None:
    """A run waits for its approval, a verdict for its review; a gate is passed by what counts."""
    require(
        keyed,
        "{signatures: [{meaning: approved, role: statistician, before: run},"
        " {meaning: reviewed, role: owner, before: result_counts}]}",
    )
    keyed.ok("register")
    waits = keyed.ledger("run")
    assert 3 == waits.code
    assert "ledger sign 2 --meaning approved --role statistician" in waits.err
    person = ("--name", "Ada Example", "--key", "ada")
    assert 3 == keyed.ledger("sign", "9", "--meaning", "approved", "--role", "x", *person).code
    keyed.ok("sign", "2", "--meaning", "approved", "--role", "statistician", *person)
    keyed.ok("run")
    said = keyed.ledger("result", "--gate=adopt")
    assert (6, True) == (said.code, "doesn't count yet" in said.out)
    signed = keyed.ok("log", "--kind", "sign").out
    assert "entry 2 approved by Ada Example, statistician" in signed
    closed = keyed.ledger("result", "--json").json
    assert False is closed["counts"]
    seq = keyed.ok("status", "--json").json["head"]["size"] - 1
    keyed.ok("sign", str(seq), "--meaning", "reviewed", "--role", "owner", *person)
    keyed.ok("result", "--gate=adopt")
    assert "counts" not in keyed.ok("result", "--json").json
    assert "intact" == keyed.ok("replay", "--json").json["record"]


def test_rotation(keyed: Shell) -> None:
    """A new key takes over on record; the old one signs no head after it."""
    keyed.ok("register", "--key", "lab")
    first = vkey(keyed)
    keyed.ok("key", "new", "next")
    assert 2 == keyed.ledger("key", "rotate", "--key", "lab").code
    keyed.ok("key", "rotate", "--key", "lab", "--to", "next")
    assert first != vkey(keyed)
    assert 3 == keyed.ledger("checkpoint", "--key", "lab").code
    keyed.ok("checkpoint", "--embed", "--key", "next")
    assert f"after {first[:40]}" in keyed.ok("log", "--kind", "key").out
    assert "checkpoint over 4 entries" in keyed.ok("log", "--kind", "anchor").out
    keyed.ok("replay", "--vkey", first, "--require", "anchored")


def test_tiles_are_exported_under_a_signed_head(keyed: Shell) -> None:
    """A folder to serve, added to by the next export; without a signed head the way to one."""
    keyed.ok("register", "--key", "lab")
    said = keyed.ok("export", "--tiles", "log")
    assert "3 entries of ledger.db in log, 3 files new of 3" in said.out
    assert "every entry is in it in full" in said.out
    keyed.ok("run")
    again = keyed.ok("export", "--tiles", "log", "--json")
    assert (3, 0) == (again.json["size"], again.json["written"])
    assert again.json["newer"] > 0
    assert "newer than the signed head" in keyed.ok("export", "--tiles", "log").err
    keyed.ok("checkpoint", "--key", "lab")
    grown = keyed.ok("export", "--tiles", "log", "--json").json
    assert (0, True) == (grown["newer"], grown["written"] > 1)
    note = (keyed.folder / "log/checkpoint").read_text()
    assert f"\n{grown['size']}\n" in note
    first = "ledger.db.d/checkpoints/000003.note"
    refused = keyed.ledger("export", "--tiles", "log", "--checkpoint", first)
    assert (3, True) == (refused.code, "nothing is written" in refused.err)
    for words in (("--tiles", "log", "copy.jsonl"), ("--checkpoint", first), ()):
        assert 2 == keyed.ledger("export", *words).code


def test_tiles_without_a_signed_head_are_refused(keyed: Shell) -> None:
    """Nobody's word is no head to serve."""
    keyed.ok("register")
    refused = keyed.ledger("export", "--tiles", "log")
    assert (3, True) == (refused.code, "ledger checkpoint --key" in refused.err)
    assert not (keyed.folder / "log").exists()


def test_statement_of_a_result_is_exported(keyed: Shell) -> None:
    """In words and in JSON; refused before the result, and used with nothing else."""
    keyed.ok("register", "--key", "lab")
    early = keyed.ledger("export", "--statement", "s.json", "--key", "lab")
    assert (3, True) == (early.code, "no result that counts" in early.err)
    keyed.ok("run", "--key", "lab")
    keyed.ok("result", "--key", "lab")
    said = keyed.ok("export", "--statement", "s.json", "--key", "lab")
    assert "statement s.json   the result of " in said.out
    assert vkey(keyed) in said.out
    value = keyed.ok("export", "--statement", "t.json", "--key", "lab", "--json").json
    assert ("t.json", "adopt") == (value["path"], value["verdict"])
    assert (keyed.folder / "s.json").read_bytes() == (keyed.folder / "t.json").read_bytes()
    assert 2 == keyed.ledger("export", "copy.db", "--experiment", "x").code
    assert 2 == keyed.ledger("export", "copy.db", "--statement", "u.json").code


@pytest.mark.parametrize(
    "words", [("run",), ("run", "--key", "lab"), ("withdraw", "--reason", "x")]
)
def test_older_copy_spends_nothing(keyed: Shell, words: tuple[str, ...]) -> None:
    """A rolled-back ledger is refused before an act adds anything: 14; one that forked: 13."""
    keyed.ok("register", "--key", "lab")
    copies = {name: keyed.folder / name for name in ("older", "other")}
    records = keyed.folder / "state"
    for copy in copies.values():
        copy.mkdir()
        for path in keyed.folder.iterdir():
            if path.name not in ("keys", "state", *copies):
                (shutil.copytree if path.is_dir() else shutil.copy)(path, copy / path.name)
    # The fork grows where nothing is remembered.
    keyed.environment["FAIRTRIAL_STATE"] = str(keyed.folder / "elsewhere")
    fork = Shell(copies["other"], keyed.environment)
    assert 0 == fork.process("run").code
    assert 0 == fork.process("result").code
    keyed.ok("run", "--key", "lab")
    assert records.is_dir()
    for copy, code in ((copies["older"], 14), (copies["other"], 13)):
        before = (copy / "ledger.db").read_bytes()
        for words in (("run",), ("run", "--key", "lab"), ("withdraw", "--reason", "x")):
            said = Shell(copy).ledger(*words)
            assert code == said.code, said.err
            assert "nothing is added to it" in said.err
        assert before == (copy / "ledger.db").read_bytes()


@pytest.mark.parametrize("place", ["heads/{ledger}.json", "heads", ""])
def test_record_that_leads_nowhere_is_refused(keyed: Shell, place: str) -> None:
    """A dangling link where the record of signed heads is isn't the same as nothing signed: 8."""
    keyed.ok("register", "--key", "lab")
    (record,) = (keyed.folder / "state" / "heads").glob("*.json")
    path = keyed.folder / "state" / place.format(ledger=record.stem)
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    path.symlink_to(keyed.folder / "nothing")
    said = keyed.ledger("run", "--key", "lab")
    assert (8, True) == (said.code, "link that leads nowhere" in said.err), said.err

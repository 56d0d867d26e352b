"""Anchors of a ledger: when they are signed and embedded, and what they are worth to replay."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fairtrial.custody.anchor_setup import anchor_setup
from fairtrial.custody.anchoring import embed_note, seal, write_checkpoint
from fairtrial.custody.key_events import rotate_key
from fairtrial.custody.keys import load_key
from fairtrial.custody.vouching import Pins, read_pins
from fairtrial.custody.witness_server import WitnessServer
from fairtrial.custody.witnessing import Witness, with_lines
from fairtrial.engine.concluding import result
from fairtrial.engine.freezing import freeze
from fairtrial.engine.inspecting import replay_ledger
from fairtrial.engine.registering import amend, load_protocol
from fairtrial.engine.session import amend_protocol, register_protocol, result_of, run
from fairtrial.ledger.checkpoint import Checkpoint, SigningKey, open_checkpoint, sign_checkpoint
from fairtrial.ledger.errors import RefusedError, RolledBackError, TransitionError
from fairtrial.ledger.events import Amend, Anchor, Freeze, Head, Key, Look, Open, Register, Result
from fairtrial.ledger.merkle import leaf_hash
from fairtrial.ledger.note import format_vkey, parse_lines, parse_note, parse_vkey
from fairtrial.ledger.opening import open_store
from fairtrial.ledger.proofs import ConsistencyProof, format_consistency

from .anchor_trial import ACTOR, PROTOCOL, AnchorTrial, make_trial

pytestmark = pytest.mark.slow
REQUIRED = "{anchor: checkpoint}"


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AnchorTrial:
    """An empty trial with a key of the name `lab`."""
    made = make_trial(tmp_path, monkeypatch)
    made.key("lab")
    return made


@pytest.fixture(scope="module")
def _concluded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("concluded")
    with pytest.MonkeyPatch.context() as patch:
        made = make_trial(folder, patch)
        made.key("lab")
        made.register(REQUIRED, key="lab")
        made.finish(key="lab")
    return folder


@pytest.fixture
def concluded(_concluded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AnchorTrial:
    """A concluded trial that required checkpoints, in a folder of its own."""
    made = make_trial(tmp_path, monkeypatch)
    for name in ("trial", "keys", "state"):
        shutil.rmtree(tmp_path / name, ignore_errors=True)
        shutil.copytree(_concluded / name, tmp_path / name)
    return made


def vkey_of(trial: AnchorTrial) -> str:
    """Returns the key that the ledger was opened with."""
    opened = trial.events()[0]
    assert isinstance(opened, Open)
    assert opened.vkey is not None
    return opened.vkey


def test_register_is_refused_without_the_key_that_it_needs(trial: AnchorTrial) -> None:
    """A requirement that can't be met is found before anything is on record."""
    for require, word in (
        ("{anchor: checkpoint}", "key"),
        ("{anchor: witness}", "key"),
        ("{anchor: timestamp}", "key"),
    ):
        with pytest.raises(RefusedError, match="wants a") as caught:
            trial.register(require)
        assert word in caught.value.expected
    trial.setenv(FAIRTRIAL_KEY="lab")
    for require, word in (("{anchor: witness}", "policy"), ("{anchor: timestamp}", "TSA_ROOTS")):
        with pytest.raises(RefusedError, match="wants a") as caught:
            trial.register(require)
        assert word in caught.value.expected
    assert not trial.ledger.exists()


def test_every_required_act_is_anchored_at_once(concluded: AnchorTrial) -> None:
    """Each of freeze, look and result is followed by an anchor that covers just up to it."""
    events = concluded.events()
    kinds = [type(event) for event in events]
    assert [Open, Register, Freeze, Anchor] == kinds[:4]
    for kind in (Look, Result):
        for seq in (seq for seq, one in enumerate(kinds) if one is kind):
            assert Anchor is kinds[seq + 1]
    for seq, anchor in concluded.anchors():
        assert ("checkpoint", seq) == (anchor.level, anchor.basis.size)


def test_ledger_opens_with_the_key(concluded: AnchorTrial) -> None:
    """The first entry names the verifier key, and it is that of the key file."""
    key = load_key("lab", "ledger", environment=concluded.home)
    opened = concluded.events()[0]
    assert isinstance(opened, Open)
    assert opened.vkey == format_vkey(key.signer.verifier(opened.origin))


def test_newest_note_covers_the_whole_ledger(concluded: AnchorTrial) -> None:
    """After the last act a note beside the ledger covers its anchor too."""
    size = len(concluded.events())
    newest = open_checkpoint(concluded.notes[-1].read_bytes(), log=parse_vkey(vkey_of(concluded)))
    assert size == newest.checkpoint.size
    assert f"{size:06d}.note" == concluded.notes[-1].name


def test_run_waits_for_its_anchor(trial: AnchorTrial) -> None:
    """Without the anchor over the freeze no attempt is made and no session begins."""
    path = trial.write(REQUIRED)
    register_protocol(trial.ledger, path, actor=ACTOR, key="lab", with_freeze=False)
    with trial.open() as opened:
        freeze(opened, opened.experiment(None))
    with pytest.raises(RefusedError, match="wants a checkpoint"):
        run(trial.ledger, None, actor=ACTOR)
    with pytest.raises(TransitionError, match="newest freeze or amendment"):
        run(trial.ledger, None, actor=ACTOR, key="lab")
    assert "Start" not in {type(event).__name__ for event in trial.events()}
    with trial.open() as opened:
        setup = anchor_setup("lab", trial.home)
        sealed = seal(opened, setup, opened.experiment(None))
        assert sealed is not None
        assert sealed.event is not None
        assert seal(opened, setup, opened.experiment(None)) is None
    trial.finish(key="lab")


def test_amendment_is_anchored_before_the_run_goes_on(trial: AnchorTrial) -> None:
    """What changes the protocol is covered like the freeze: by key at once, else the run waits."""
    trial.register(REQUIRED, key="lab")
    path = trial.write(REQUIRED, PROTOCOL.replace("solves more", "solves many more"))
    with pytest.raises(RefusedError, match="wants a checkpoint"):
        amend_protocol(trial.ledger, None, actor=ACTOR, reason="a word", protocol=path)
    with trial.open() as opened:
        amend(opened, opened.experiment(None), load_protocol(path), reason="a word")
    with pytest.raises(TransitionError, match="amendment"):
        run(trial.ledger, None, actor=ACTOR, key="lab")
    path = trial.write(REQUIRED, PROTOCOL.replace("solves more", "solves the most"))
    amend_protocol(trial.ledger, None, actor=ACTOR, reason="a word", protocol=path, key="lab")
    assert [Amend, Anchor] == [type(event) for event in trial.events()[-2:]]
    trial.finish(key="lab")


def test_anchor_that_a_crash_cut_off_is_made_up_for(trial: AnchorTrial) -> None:
    """Asking for the result again, with the key, anchors it; without the key it is just shown."""
    trial.register(REQUIRED, key="lab")
    run(trial.ledger, None, actor=ACTOR, key="lab")
    with trial.open() as opened:
        opened.after_look = None
        result(opened, opened.experiment(None))
    size = len(trial.events())
    result_of(trial.ledger, None, actor=ACTOR)
    assert size == len(trial.events())
    for _ in range(2):
        result_of(trial.ledger, None, actor=ACTOR, key="lab")
        assert size + 1 == len(trial.events())
    assert (size, size) == (trial.anchors()[-1][0], trial.anchors()[-1][1].basis.size)


def test_key_without_requirement_signs_and_embeds_nothing(trial: AnchorTrial) -> None:
    """Notes are written at register, looks, run end and result; the ledger holds no anchor."""
    trial.setenv(FAIRTRIAL_KEY="lab")
    trial.register()
    trial.finish()
    assert [] == trial.anchors()
    events = trial.events()
    sizes = {int(path.stem) for path in trial.notes}
    looks = {seq + 1 for seq, event in enumerate(events) if isinstance(event, Look)}
    assert sizes >= {3, len(events), *looks}


def test_without_a_key_nothing_is_signed(trial: AnchorTrial) -> None:
    """The only key in the folder isn't picked: a key signs when it is named."""
    trial.register()
    trial.finish()
    assert [] == trial.notes
    opened = trial.events()[0]
    assert isinstance(opened, Open)
    assert opened.vkey is None


def test_first_key_may_come_later(trial: AnchorTrial) -> None:
    """A ledger without a key takes the first one that signs, on record, and no other."""
    trial.register()
    trial.key("other")
    with trial.open() as opened:
        write_checkpoint(opened, anchor_setup("lab", trial.home))
    event = trial.events()[-1]
    assert isinstance(event, Key)
    assert (None, 1) == (event.previous, event.number)
    with trial.open() as opened, pytest.raises(RefusedError, match="another key"):
        write_checkpoint(opened, anchor_setup("other", trial.home))
    report = trial.replay(pins=read_pins(vkeys=[event.vkey]))
    assert ("intact", "yes") == (report.record, report.anchored)


def test_checkpoint_needs_a_key(trial: AnchorTrial) -> None:
    """Without a name nothing is signed, and the way to a key is said."""
    trial.register()
    with trial.open() as opened, pytest.raises(RefusedError, match="needs a key") as caught:
        write_checkpoint(opened, anchor_setup(None, trial.home))
    assert "ledger key new" in caught.value.todo


def test_rolled_back_ledger_is_not_signed(trial: AnchorTrial) -> None:
    """An older copy of the whole folder gets no signature: the record is outside it."""
    trial.register(key="lab")
    shutil.copytree(trial.folder, trial.folder.with_name("older"))
    trial.finish(key="lab")
    shutil.rmtree(trial.folder)
    trial.folder.with_name("older").rename(trial.folder)
    with pytest.raises(RolledBackError, match="signed on this machine"), trial.open():
        pytest.fail("an older copy is refused when it is opened for writing")
    heads = anchor_setup("lab", trial.home).folder / "heads"
    heads.rename(heads.with_name("away"))
    with trial.open() as opened:
        shutil.rmtree(heads, ignore_errors=True)
        heads.with_name("away").rename(heads)
        with pytest.raises(RolledBackError, match="cut"):
            write_checkpoint(opened, anchor_setup("lab", trial.home))


def test_own_word_is_no_anchor(concluded: AnchorTrial) -> None:
    """Signatures beside and inside the ledger alone leave it unanchored, and say how far."""
    report = concluded.replay()
    assert ("intact", "no", ()) == (report.record, report.anchored, report.anchored_by)
    assert report.size == report.self_signed
    assert "skipped" == report.levels["anchors"]


def test_pinned_key_anchors_what_it_signed(concluded: AnchorTrial) -> None:
    """With the key from elsewhere the notes count, up to the last entry."""
    report = concluded.replay(pins=read_pins(vkeys=[vkey_of(concluded)]))
    assert ("intact", "yes", report.size) == (report.record, report.anchored, report.covered)
    assert {"checkpoint": report.size} == report.vouched
    assert "ok" == report.levels["anchors"]


def test_embedded_anchors_count_without_the_notes(concluded: AnchorTrial) -> None:
    """Notes that are deleted leave the anchors in the ledger: all but the last anchor."""
    shutil.rmtree(concluded.folder / "ledger.db.d/checkpoints")
    report = concluded.replay(pins=read_pins(vkeys=[vkey_of(concluded)]))
    assert ("intact", "part") == (report.record, report.anchored)
    assert report.size - 1 == report.covered == report.content


def test_another_pinned_key_or_origin_is_a_fork(concluded: AnchorTrial) -> None:
    """Who was told another key or origin is shown another ledger."""
    origin = vkey_of(concluded).partition("+")[0]
    stranger = SigningKey(b"s" * 32)
    for pins in (
        read_pins(vkeys=[format_vkey(stranger.verifier(origin))]),
        read_pins(vkeys=[format_vkey(stranger.verifier("other.example/x"))]),
        read_pins(origin="other.example/x"),
    ):
        report = concluded.replay(pins=pins)
        assert ("forked", "no") == (report.record, report.anchored)
    assert "intact" == concluded.replay(pins=read_pins(origin=origin)).record


def test_ledger_without_a_key_isnt_the_one_that_was_pinned(trial: AnchorTrial) -> None:
    """A ledger that lost its key by being written anew doesn't pass for the pinned one."""
    trial.register()
    trial.finish()
    opened = trial.events()[0]
    assert isinstance(opened, Open)
    pinned = format_vkey(SigningKey(b"s" * 32).verifier(opened.origin))
    report = trial.replay(pins=read_pins(vkeys=[pinned]))
    assert "forked" == report.record
    assert ["other_key"] == [one.code for one in report.findings]


def cut(trial: AnchorTrial, size: int) -> None:
    """Cuts the ledger to its first entries, keeping what lies beside it."""
    entries = read_entries(trial)[:size]
    write_entries(trial, entries)


def read_entries(trial: AnchorTrial) -> list[bytes]:
    """Returns the stored entries."""
    store = open_store(trial.ledger, read_only=True)
    try:
        return list(store.read())
    finally:
        store.close()


def write_entries(trial: AnchorTrial, entries: list[bytes]) -> None:
    """Writes a ledger anew from entries."""
    trial.ledger.unlink()
    store = open_store(trial.ledger, create=True)
    with store.writer() as writer:
        writer.write(entries, [leaf_hash(one) for one in entries])
    store.close()


def test_cut_tail_contradicts_the_notes(concluded: AnchorTrial) -> None:
    """A note of a larger size than the ledger shows the cut, pinned or not."""
    cut(concluded, 60)
    for pins in (Pins(), read_pins(vkeys=[vkey_of(concluded)])):
        report = concluded.replay(pins=pins)
        assert ("rolled_back", "no") == (report.record, report.anchored)


def test_cut_tail_without_the_notes_is_not_seen_and_not_anchored(concluded: AnchorTrial) -> None:
    """What nothing outside vouches for can be cut unseen: the output says so."""
    newest = concluded.notes[-1].read_bytes()
    cut(concluded, 50)
    shutil.rmtree(concluded.folder / "ledger.db.d/checkpoints")
    assert ("intact", "no") == (concluded.replay().record, concluded.replay().anchored)
    kept = concluded.folder.parent / "kept.note"
    kept.write_bytes(newest)
    assert "rolled_back" == concluded.replay(kept).record


def test_checkpoint_from_elsewhere_counts(concluded: AnchorTrial, tmp_path: Path) -> None:
    """A note that the caller brings anchors what it covers; one from beside the ledger doesn't."""
    first = concluded.notes[0]
    kept = tmp_path / "kept.note"
    shutil.copy(first, kept)
    report = concluded.replay(kept)
    assert ("intact", "part", 3) == (report.record, report.anchored, report.covered)
    assert ("checkpoint in kept.note (entries 0-2)",) == report.anchored_by
    assert "no" == concluded.replay(first).anchored


def test_checkpoint_from_elsewhere_that_contradicts_is_a_fork(
    concluded: AnchorTrial, tmp_path: Path
) -> None:
    """Another root, or another ledger's note, is a fork."""
    key = load_key("lab", "ledger", environment=concluded.home).signer
    origin = vkey_of(concluded).partition("+")[0]
    kept = tmp_path / "kept.note"
    for head in (Checkpoint(origin, 5, bytes(32)), Checkpoint("other.example/x", 5, bytes(32))):
        kept.write_bytes(sign_checkpoint(head, key))
        report = concluded.replay(kept)
        assert ("forked", "no") == (report.record, report.anchored)


def test_changed_checkpoint_is_not_believed(concluded: AnchorTrial, tmp_path: Path) -> None:
    """A note whose known signature fails is a finding and anchors nothing."""
    note = concluded.notes[0].read_bytes()
    kept = tmp_path / "kept.note"
    kept.write_bytes(note.replace(b"\n3\n", b"\n4\n"))
    report = concluded.replay(kept)
    assert "no" == report.anchored
    assert ["bad_checkpoint"] == [one.code for one in report.findings]


def test_note_of_a_stranger_counts_for_nothing_beside_a_pinned_key(
    concluded: AnchorTrial, tmp_path: Path
) -> None:
    """With a pinned key a brought note has to be signed by it; one beside is passed over."""
    origin = vkey_of(concluded).partition("+")[0]
    head = open_checkpoint(concluded.notes[0].read_bytes(), log=parse_vkey(vkey_of(concluded)))
    forged = sign_checkpoint(head.checkpoint._replace(size=4), SigningKey(b"s" * 32))
    kept = tmp_path / "kept.note"
    kept.write_bytes(forged)
    (concluded.notes[0].parent / "000999.note").write_bytes(forged)
    report = concluded.replay(kept, pins=read_pins(vkeys=[vkey_of(concluded)]))
    assert ["untrusted_checkpoint"] == [one.code for one in report.findings]
    assert "yes" == report.anchored
    assert "intact" == concluded.replay(pins=read_pins(origin=origin)).record


def test_rotation_is_signed_by_both_and_hands_trust_on(trial: AnchorTrial) -> None:
    """Who pinned the first key trusts the second; who pinned the second trusts only that one."""
    trial.register(key="lab")
    trial.key("next")
    first = vkey_of(trial)
    with trial.open() as opened:
        keys = [load_key(name, "ledger", environment=trial.home) for name in ("lab", "next")]
        event = rotate_key(opened, keys[0], keys[1])
        with pytest.raises(RefusedError, match="another key"):
            write_checkpoint(opened, anchor_setup("lab", trial.home))
    trial.finish(key="next")
    for vkey in (first, event.vkey):
        report = trial.replay(pins=read_pins(vkeys=[vkey]))
        assert ("intact", "yes") == (report.record, report.anchored)
    for path in trial.notes[1:]:
        path.unlink()
    assert 3 == trial.replay(pins=read_pins(vkeys=[first])).covered
    assert 0 == trial.replay(pins=read_pins(vkeys=[event.vkey])).covered


def test_rotation_by_one_key_is_refused(trial: AnchorTrial) -> None:
    """The new key has to be another one, and the old key the ledger's."""
    trial.register(key="lab")
    lab, other = load_key("lab", "ledger", environment=trial.home), trial.key("other")
    with trial.open() as opened:
        with pytest.raises(RefusedError, match="is the old one"):
            rotate_key(opened, lab, lab)
        with pytest.raises(RefusedError, match="another key"):
            rotate_key(opened, other, lab)


@pytest.mark.parametrize("field", ["signature", "previous_signature", "vkey"])
def test_forged_rotation_breaks_the_rules(trial: AnchorTrial, field: str) -> None:
    """A key that the one before it didn't sign is found by replay, pinned or not."""
    trial.register(key="lab")
    stranger = SigningKey(b"s" * 32)
    opened = trial.events()[0]
    assert isinstance(opened, Open)
    assert opened.vkey is not None
    fields = {
        "vkey": format_vkey(stranger.verifier(opened.origin)),
        "signature": "A" * 86 + "==",
        "previous_signature": "A" * 86 + "==",
    }
    if field == "vkey":
        fields["vkey"] = format_vkey(stranger.verifier("other.example/x"))
    with trial.open() as written:
        written.append(
            Key(
                number=1,
                previous=opened.vkey,
                vkey=fields["vkey"],
                signature=fields["signature"],
                previous_signature=fields["previous_signature"],
            )
        )
    report = trial.replay()
    assert "corrupt" == report.record
    assert [("bad_signature", 3)] == [(one.code, one.seq) for one in report.findings]


@pytest.mark.parametrize("change", ["stranger", "other head", "no note", "no stamp", "origin"])
def test_false_anchor_breaks_the_rules(trial: AnchorTrial, change: str) -> None:
    """An embedded note has to be this ledger's signed head of just the size that it claims."""
    trial.register(key="lab")
    lab = load_key("lab", "ledger", environment=trial.home).signer
    with trial.open() as opened:
        origin = vkey_of(trial).partition("+")[0]
        root = opened.log.root_at(2)
        note = sign_checkpoint(Checkpoint(origin, 2, root), lab)
        if change == "stranger":
            note = sign_checkpoint(Checkpoint(origin, 2, root), SigningKey(b"s" * 32))
        elif change == "other head":
            note = sign_checkpoint(Checkpoint(origin, 3, opened.log.root_at(3)), lab)
        elif change == "no note":
            note = b"no note"
        elif change == "origin":
            note = sign_checkpoint(Checkpoint("other.example/x", 2, root), lab)
        opened.append(
            Anchor(
                number=1,
                basis=Head(size=2, root=root.hex()),
                level="timestamp" if change == "no stamp" else "checkpoint",
                note=opened.blobs.put(note),
            )
        )
    report = trial.replay()
    assert "corrupt" == report.record
    assert [("bad_signature", 3)] == [(one.code, one.seq) for one in report.findings]


def test_anchor_without_its_note_is_told(concluded: AnchorTrial) -> None:
    """A note that is gone leaves the anchor unchecked, and that is a finding even without files."""
    seq, anchor = concluded.anchors()[1]
    with concluded.open() as opened:
        path = opened.blobs.path_of(anchor.note)
    assert path is not None
    path.unlink()
    report = replay_ledger(concluded.ledger, with_files=False)
    assert [("note_unreadable", seq)] == [(one.code, one.seq) for one in report.findings]
    assert "failed" == report.levels["anchors"]


def test_only_a_head_of_this_ledger_is_embedded(trial: AnchorTrial) -> None:
    """A note of another head, key or ledger is refused before it is on record."""
    trial.register(key="lab")
    lab = load_key("lab", "ledger", environment=trial.home).signer
    origin = vkey_of(trial).partition("+")[0]
    setup = anchor_setup(None, trial.home)
    with trial.open() as opened:
        for head, key in (
            (Checkpoint(origin, 2, bytes(32)), lab),
            (Checkpoint(origin, 99, bytes(32)), lab),
            (Checkpoint("other.example/x", 2, opened.log.root_at(2)), lab),
            (Checkpoint(origin, 2, opened.log.root_at(2)), SigningKey(b"s" * 32)),
        ):
            with pytest.raises(RefusedError):
                embed_note(opened, sign_checkpoint(head, key), setup=setup)
        assert 3 == opened.log.state.size


def witness_of(trial: AnchorTrial, name: str) -> Witness:
    """Returns a witness that knows the ledger's key."""
    key = trial.key(name, "witness", f"witness.example/{name}")
    return Witness(key, [parse_vkey(vkey_of(trial))], trial.folder.parent / name)


def test_quorum_of_witnesses_anchors(trial: AnchorTrial, tmp_path: Path) -> None:
    """Cosigned by files: one of two is no quorum, both are, and the caller's policy decides."""
    trial.register(key="lab")
    one, two = witness_of(trial, "w1"), witness_of(trial, "w2")
    keys = [format_vkey(each.key.verifier()) for each in (one, two)]
    policy = tmp_path / "policy"
    policy.write_text(
        f"witness a {keys[0]}\nwitness b {keys[1]}\ngroup both all a b\nquorum both\n"
    )
    trial.setenv(FAIRTRIAL_POLICY=str(policy))
    note = trial.notes[-1].read_bytes()
    levels = []
    for witness in (one, two):
        body = format_consistency(ConsistencyProof(0, (), note))
        answer = witness.add_checkpoint(body, time=1_800_000_000)
        note = with_lines(note, parse_lines(answer.body.decode()))
        with trial.open() as opened:
            setup = anchor_setup("lab", {**trial.home, "FAIRTRIAL_POLICY": str(policy)})
            levels.append(embed_note(opened, note, setup=setup).level)
    assert ["checkpoint", "witness"] == levels
    report = trial.replay(pins=read_pins(policy=policy))
    assert ("part", {"witness": 3, "self_signed": 3}) == (report.anchored, report.vouched)
    assert (
        "checkpoint embedded as entry 4, cosigned by witness.example/w1, witness.example/w2"
        " (entries 0-2)",
    ) == report.anchored_by
    lone = tmp_path / "lone"
    lone.write_text(f"witness a {keys[0]}\nquorum a\n")
    assert "part" == trial.replay(pins=read_pins(policy=lone)).anchored
    stranger = format_vkey(SigningKey(b"s" * 32).verifier("witness.example/w1", cosigner=True))
    lone.write_text(f"witness a {stranger}\nquorum a\n")
    assert "no" == trial.replay(pins=read_pins(policy=lone)).anchored


def test_log_line_of_a_policy_pins_the_key(concluded: AnchorTrial, tmp_path: Path) -> None:
    """A policy without witnesses is a pinned key."""
    policy = tmp_path / "policy"
    policy.write_text(f"log {vkey_of(concluded)}\nquorum none\n")
    assert "yes" == concluded.replay(pins=read_pins(policy=policy)).anchored
    stranger = format_vkey(SigningKey(b"s" * 32).verifier("other.example/x"))
    policy.write_text(f"log {stranger}\nquorum none\n")
    assert "forked" == concluded.replay(pins=read_pins(policy=policy)).record


@pytest.fixture
def served() -> Iterator[Callable[[Witness], str]]:
    """Serves witnesses until the test has ended; returns their addresses."""
    servers: list[tuple[WitnessServer, threading.Thread]] = []

    def serve(witness: Witness) -> str:
        server = WitnessServer(witness, host="127.0.0.1", port=0, clock=lambda: 1_800_000_000)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        servers.append((server, thread))
        return server.url

    yield serve
    for server, thread in servers:
        server.shutdown()
        server.server_close()
        thread.join()


def test_required_witness_is_asked_at_every_act(
    trial: AnchorTrial, tmp_path: Path, served: Callable[[Witness], str]
) -> None:
    """With an address in the policy every act is cosigned before the next; without it run waits."""
    witness_key = trial.key("w1", "witness", "witness.example/w1")
    policy = tmp_path / "policy"
    line = f"witness a {format_vkey(witness_key.verifier())}"
    policy.write_text(f"{line}\nquorum a\n")
    trial.setenv(FAIRTRIAL_POLICY=str(policy), FAIRTRIAL_KEY="lab")
    trial.register("{anchor: witness}")
    assert ["checkpoint"] == [anchor.level for _, anchor in trial.anchors()]
    with pytest.raises(TransitionError, match="wants a witness") as caught:
        run(trial.ledger, None, actor=ACTOR)
    assert "cosigned" in caught.value.todo
    witness = Witness(witness_key, [parse_vkey(vkey_of(trial))], tmp_path / "w1")
    policy.write_text(f"{line} {served(witness)}\nquorum a\n")
    environment = {**trial.home, "FAIRTRIAL_KEY": "lab", "FAIRTRIAL_POLICY": str(policy)}
    with trial.open() as opened:
        seal(opened, anchor_setup(None, environment), opened.experiment(None))
    trial.finish()
    levels = [anchor.level for _, anchor in trial.anchors()]
    assert ["checkpoint", *["witness"] * (len(levels) - 1)] == levels
    assert len(levels) >= 5
    report = trial.replay(pins=read_pins(policy=policy))
    assert ("intact", report.content) == (report.record, report.vouched["witness"])


def test_lines_of_witnesses_stay_when_the_head_is_signed_again(trial: AnchorTrial) -> None:
    """Signing the same head again keeps what others added to its note."""
    trial.register(key="lab")
    witness = witness_of(trial, "w1")
    path = trial.notes[-1]
    body = format_consistency(ConsistencyProof(0, (), path.read_bytes()))
    lines = parse_lines(witness.add_checkpoint(body, time=1).body.decode())
    path.write_bytes(with_lines(path.read_bytes(), lines))
    with trial.open() as opened:
        write_checkpoint(opened, anchor_setup("lab", trial.home))
    assert 2 == len(parse_note(path.read_bytes()).lines)

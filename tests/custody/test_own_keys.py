"""After a rotation the new key's heads serve proofs, tiles and replays; the old key's don't."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from fairtrial.custody.incremental import replay_from
from fairtrial.custody.key_acts import rotate_ledger_key
from fairtrial.custody.keys import load_key
from fairtrial.custody.own_keys import own_keys
from fairtrial.custody.proof_check import check_proof
from fairtrial.custody.proving import find_entry, parse_old, prove, prove_growth
from fairtrial.custody.tiling import export_tiles
from fairtrial.custody.trial import Reader
from fairtrial.custody.vouching import Pins, read_pins
from fairtrial.ledger.checkpoint import Checkpoint, sign_checkpoint
from fairtrial.ledger.errors import RefusedError
from fairtrial.ledger.events import Key, Open
from fairtrial.ledger.note import parse_vkey
from fairtrial.ledger.opening import open_store

from .anchor_trial import ACTOR, AnchorTrial, make_trial

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> AnchorTrial:
    """A trial whose key was replaced after the freeze; exported before and after that."""
    with pytest.MonkeyPatch.context() as patch:
        made = make_trial(tmp_path_factory.mktemp("rotated"), patch)
        made.key("old1")
        made.key("new1")
        made.register(key="old1")
        export_tiles(made.ledger, made.folder / "public")
        rotate_ledger_key(made.ledger, actor=ACTOR, old="old1", new="new1")
        made.finish(key="new1")
        return made


def vkeys(trial: AnchorTrial) -> list[str]:
    """Returns the first and the second key."""
    opened, *rest = trial.events()
    assert isinstance(opened, Open)
    assert opened.vkey is not None
    return [opened.vkey, *(event.vkey for event in rest if isinstance(event, Key))]


def test_each_key_speaks_for_the_sizes_of_its_time(trial: AnchorTrial) -> None:
    """The old key signs heads up to the entry that replaced it, the new one those after it."""
    place = next(seq for seq, event in enumerate(trial.events()) if isinstance(event, Key))
    old, new = (parse_vkey(vkey) for vkey in vkeys(trial))
    with closing(open_store(trial.ledger, read_only=True)) as store:
        keys = own_keys(Reader(trial.ledger, store))
        assert [(old, 1, place), (new, place + 1, None)] == [tuple(one) for one in keys]


def test_proofs_lead_to_heads_of_either_key(trial: AnchorTrial) -> None:
    """The newest head is taken, a named one of either key too, and the key has to be its own."""
    old, new = (read_pins(vkeys=[vkey]) for vkey in vkeys(trial))
    size = len(trial.events())
    with closing(open_store(trial.ledger, read_only=True)) as store:
        reader = Reader(trial.ledger, store)
        late, early = find_entry(reader, str(size - 1)), find_entry(reader, "1")
        data = prove(reader, late, None)
        assert ("holds", size) == (
            check_proof(data, pins=new).record,
            check_proof(data, pins=new).size,
        )
        refused = check_proof(data, pins=old)
        assert "forked" == refused.record
        assert new.keys[0].key_id().hex() in refused.reason
        for note, pins in ((trial.notes[0], old), (trial.notes[-1], new)):
            assert "holds" == check_proof(prove(reader, early, note), pins=pins).record
        grown, growth = prove_growth(reader, parse_old(str(trial.notes[0])), None)
        before = parse_old(str(trial.notes[0]))
        assert size == grown
        assert "holds" == check_proof(growth, pins=new, against=[before]).record


def test_tiles_go_on_under_the_new_key(trial: AnchorTrial, tmp_path: Path) -> None:
    """A folder exported under the old key grows to the newest head, as a new folder does."""
    size = len(trial.events())
    for target in (trial.folder / "public", tmp_path / "fresh"):
        done = export_tiles(trial.ledger, target)
        assert (size, 0) == (done.size, done.newer)


def test_since_follows_a_pinned_key_forwards(trial: AnchorTrial, tmp_path: Path) -> None:
    """A head of the new key is taken by whoever pinned the old one; never the other way round."""
    first, last = tmp_path / "first.note", tmp_path / "last.note"
    first.write_bytes(trial.notes[0].read_bytes())
    last.write_bytes(trial.notes[-1].read_bytes())
    old, new = (read_pins(vkeys=[vkey]) for vkey in vkeys(trial))
    for note, pins in ((first, old), (last, old), (last, new)):
        report = replay_from(trial.ledger, str(note), pins=pins)
        assert "intact" == report.record
    with pytest.raises(RefusedError, match="no known key"):
        replay_from(trial.ledger, str(first), pins=new)


def test_replaced_key_signs_nothing_new(trial: AnchorTrial, tmp_path: Path) -> None:
    """A head of the present size that the old key signed is refused for proofs and tiles."""
    key = load_key("old1", "ledger", environment=trial.home)
    with closing(open_store(trial.ledger, read_only=True)) as store:
        reader = Reader(trial.ledger, store)
        report = check_proof(prove(reader, find_entry(reader, "1"), None), pins=Pins())
        head = Checkpoint(report.origin, report.size, bytes.fromhex(report.root))
        note = tmp_path / "stolen.note"
        note.write_bytes(sign_checkpoint(head, key.signer))
        with pytest.raises(RefusedError, match="no known key"):
            prove(reader, find_entry(reader, "1"), note)
    with pytest.raises(RefusedError, match="no known key"):
        export_tiles(trial.ledger, tmp_path / "public", checkpoint=note)

"""A folder of tiles: enough to check the whole ledger without it, added to and never rewritten."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fairtrial.custody import tiling
from fairtrial.custody.keys import load_key
from fairtrial.custody.tiling import export_tiles
from fairtrial.engine.inspecting import read_log
from fairtrial.engine.session import register_protocol, run
from fairtrial.ledger.checkpoint import Checkpoint, open_checkpoint, sign_checkpoint
from fairtrial.ledger.errors import ConflictError, RefusedError
from fairtrial.ledger.events import Open
from fairtrial.ledger.merkle import leaf_hash, root_of
from fairtrial.ledger.note import Note, SignatureLine, format_note, parse_note, parse_vkey

from .anchor_trial import ACTOR, AnchorTrial, make_trial

pytestmark = pytest.mark.slow
# Enough units that the leaves fill a tile.
UNITS = 140


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AnchorTrial:
    """A registered trial with a key and enough slots for a full tile."""
    made = make_trial(tmp_path, monkeypatch)
    made.key("lab")
    made.setenv(FAIRTRIAL_KEY="lab")
    register_protocol(made.ledger, made.write_many(UNITS), actor=ACTOR)
    return made


def checked(folder: Path, vkey: str) -> list[bytes]:
    """Returns the entries of a folder of tiles, everything checked from its files alone."""
    head = open_checkpoint((folder / "checkpoint").read_bytes(), log=parse_vkey(vkey)).checkpoint
    entries: list[bytes] = []
    for data in parts(folder / "tile/entries", head.size):
        while data:
            length = int.from_bytes(data[:2], "big")
            entries.append(data[2 : 2 + length])
            data = data[2 + length :]
    assert head.size == len(entries)
    hashes, level, size = [leaf_hash(one) for one in entries], 0, head.size
    assert head.root == root_of(hashes)
    while size:
        assert b"".join(hashes) == b"".join(parts(folder / f"tile/{level}", size))
        hashes = [root_of(hashes[at : at + 256]) for at in range(0, size - size % 256, 256)]
        level, size = level + 1, len(hashes)
    assert not (folder / f"tile/{level}").exists()
    return entries


def parts(folder: Path, size: int) -> list[bytes]:
    """Returns the tiles of one level of a tree, as a client asks for them."""
    full = [folder / f"{number:03}" for number in range(size // 256)]
    rest = [folder / f"{size // 256:03}.p/{size % 256}"] if size % 256 else []
    return [path.read_bytes() for path in (*full, *rest)]


def vkey_of(trial: AnchorTrial) -> str:
    """Returns the ledger's key."""
    opened = trial.events()[0]
    assert isinstance(opened, Open)
    assert opened.vkey is not None
    return opened.vkey


def files_in(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Returns each file with its change time and bytes."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in found
    }


def test_tiles_alone_give_entries_root_and_signed_head(trial: AnchorTrial, tmp_path: Path) -> None:
    """Whoever has the folder and the key needs no ledger; the same again writes nothing."""
    run(trial.ledger, None, actor=ACTOR)
    done = export_tiles(trial.ledger, tmp_path / "log")
    entries = list(read_log(trial.ledger))
    assert entries == checked(tmp_path / "log", vkey_of(trial))
    assert (len(entries), 0) == (done.size, done.newer)
    before = files_in(tmp_path / "log")
    assert (len(before), len(before)) == (done.written, done.files)
    assert {"tile/0/000", "tile/1/000.p/1", "tile/entries/000"} < set(before)
    assert 0 == export_tiles(trial.ledger, tmp_path / "log").written
    assert before == files_in(tmp_path / "log")


def test_later_export_adds_and_rewrites_no_tile(trial: AnchorTrial, tmp_path: Path) -> None:
    """The head alone is replaced; partial tiles of the earlier head stay for who still has it."""
    export_tiles(trial.ledger, tmp_path / "log")
    before = files_in(tmp_path / "log")
    assert {"checkpoint", "tile/0/000.p/3", "tile/entries/000.p/3"} == set(before)
    run(trial.ledger, None, actor=ACTOR)
    done = export_tiles(trial.ledger, tmp_path / "log")
    after = files_in(tmp_path / "log")
    assert {"checkpoint"} == {name for name in before if before[name] != after[name]}
    assert len(after) - len(before) + 1 == done.written
    assert list(read_log(trial.ledger)) == checked(tmp_path / "log", vkey_of(trial))


def test_killed_export_is_taken_up_again(
    trial: AnchorTrial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is there stays; the old head is served until everything under the new one is there."""
    export_tiles(trial.ledger, tmp_path / "log")
    old = (tmp_path / "log/checkpoint").read_bytes()
    run(trial.ledger, None, actor=ACTOR)
    written: list[Path] = []

    def write(path: Path, data: bytes, *, mode: int) -> None:
        if len(written) == 2:
            raise OSError(28, "No space left on device", str(path))
        path.write_bytes(data)
        written.append(path)

    with monkeypatch.context() as patch:
        patch.setattr(tiling, "write_file", write)
        with pytest.raises(OSError, match="No space"):
            export_tiles(trial.ledger, tmp_path / "log")
    assert old == (tmp_path / "log/checkpoint").read_bytes()
    times = {path: path.stat().st_mtime_ns for path in written}
    export_tiles(trial.ledger, tmp_path / "log")
    assert times == {path: path.stat().st_mtime_ns for path in written}
    assert list(read_log(trial.ledger)) == checked(tmp_path / "log", vkey_of(trial))


def test_nothing_is_exported_without_a_signed_head(trial: AnchorTrial, tmp_path: Path) -> None:
    """No note beside the ledger: refused, with the command that makes one."""
    shutil.rmtree(trial.folder / "ledger.db.d/checkpoints")
    with pytest.raises(RefusedError, match="no signed head") as caught:
        export_tiles(trial.ledger, tmp_path / "log")
    assert "ledger checkpoint --key" in caught.value.todo
    assert not (tmp_path / "log").exists()


def test_entries_after_the_signed_head_are_counted_and_left_out(
    trial: AnchorTrial, tmp_path: Path
) -> None:
    """What nothing signed covers isn't served."""
    trial.patch.delenv("FAIRTRIAL_KEY")
    run(trial.ledger, None, actor=ACTOR)
    done = export_tiles(trial.ledger, tmp_path / "log")
    assert (3, len(list(read_log(trial.ledger))) - 3) == (done.size, done.newer)
    assert list(read_log(trial.ledger, stop=3)) == checked(tmp_path / "log", vkey_of(trial))


@pytest.mark.parametrize("what", ["tile", "bundle", "larger", "fork", "stranger", "no head"])
def test_folder_of_something_else_is_refused_untouched(
    trial: AnchorTrial, tmp_path: Path, what: str
) -> None:
    """Another ledger's tiles, a later or forked head, a changed tile: nothing is written."""
    folder = tmp_path / "log"
    export_tiles(trial.ledger, folder)
    signer = load_key("lab", "ledger", environment=trial.home).signer
    origin = vkey_of(trial).partition("+")[0]
    if what == "tile":
        (folder / "tile/0/000.p/3").write_bytes(bytes(96))
    elif what == "bundle":
        (folder / "tile/entries/000.p/3").write_bytes(b"\0\1x")
    elif what == "larger":
        head = Checkpoint(origin, 10_000, bytes(32))
        (folder / "checkpoint").write_bytes(sign_checkpoint(head, signer))
    elif what == "fork":
        (folder / "checkpoint").write_bytes(
            sign_checkpoint(Checkpoint(origin, 2, b"x" * 32), signer)
        )
    elif what == "stranger":
        head = Checkpoint("other.example/log", 3, bytes(32))
        (folder / "checkpoint").write_bytes(sign_checkpoint(head, signer))
    else:
        (folder / "checkpoint").write_text("my own file\n")
    run(trial.ledger, None, actor=ACTOR)
    # A tile is met where the same head is exported again.
    note = trial.notes[0] if what in ("tile", "bundle") else None
    before = files_in(folder)
    with pytest.raises(ConflictError, match="nothing is written") as caught:
        export_tiles(trial.ledger, folder, checkpoint=note)
    assert str(folder) in caught.value.where
    assert before == files_in(folder)


def test_lines_of_others_stay_with_the_head(trial: AnchorTrial, tmp_path: Path) -> None:
    """A cosignature that was added to the served head isn't lost by exporting again."""
    folder = tmp_path / "log"
    export_tiles(trial.ledger, folder)
    note = parse_note((folder / "checkpoint").read_bytes())
    other = SignatureLine("witness.example/w1", b"abcd", b"kept")
    (folder / "checkpoint").write_bytes(format_note(Note(note.text, (*note.lines, other))))
    assert 0 == export_tiles(trial.ledger, folder).written
    assert other in parse_note((folder / "checkpoint").read_bytes()).lines


def test_named_head_is_the_one_that_is_written(trial: AnchorTrial, tmp_path: Path) -> None:
    """An older or cosigned note may be exported by name; another ledger's may not."""
    first = trial.notes[0]
    run(trial.ledger, None, actor=ACTOR)
    done = export_tiles(trial.ledger, tmp_path / "log", checkpoint=first)
    assert 3 == done.size
    assert list(read_log(trial.ledger, stop=3)) == checked(tmp_path / "log", vkey_of(trial))
    other = tmp_path / "other.note"
    other.write_bytes(first.read_bytes().replace(b"\n3\n", b"\n2\n"))
    with pytest.raises(RefusedError):
        export_tiles(trial.ledger, tmp_path / "other", checkpoint=other)


def test_served_head_never_goes_back(trial: AnchorTrial, tmp_path: Path) -> None:
    """A folder that holds a larger head of this ledger keeps it, whichever older one is named."""
    first = trial.notes[0]
    run(trial.ledger, None, actor=ACTOR)
    export_tiles(trial.ledger, tmp_path / "log")
    before = files_in(tmp_path / "log")
    with pytest.raises(ConflictError, match="nothing is written"):
        export_tiles(trial.ledger, tmp_path / "log", checkpoint=first)
    assert before == files_in(tmp_path / "log")

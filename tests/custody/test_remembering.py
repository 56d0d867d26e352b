"""A ledger that lacks what is remembered of it is refused as it is: nothing changes first."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fairtrial.custody.trial import open_trial
from fairtrial.engine.inspecting import replay_ledger
from fairtrial.ledger.canonical import sha256_hex
from fairtrial.ledger.errors import IntegrityError, RolledBackError
from fairtrial.ledger.events import Adopt, Recover
from fairtrial.ledger.opening import side_folder

STORES = ["ledger.db", "ledger.jsonl"]


def grown(path: Path, *, receipt_at: int = 5) -> None:
    """Makes a ledger of five entries and one receipt, of the first `receipt_at`."""
    with open_trial(path, actor="tester", create=True) as trial:
        for number in range(1, 5):
            if trial.log.state.size == receipt_at:
                trial.keep_receipt("run")
            trial.append(Adopt(number=number, tool="fairtrial 9", schemas=f"{number:064}"))
        if trial.log.state.size == receipt_at:
            trial.keep_receipt("run")


def files(folder: Path) -> dict[str, bytes]:
    """Returns every file of a folder with its bytes; SQLite's own side files left out."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(("-wal", "-shm", ".lock"))
    }


def refused(path: Path, error: type[IntegrityError] = RolledBackError) -> None:
    """Checks that opening for writing is refused and changes no file."""
    before = files(path.parent)
    with pytest.raises(error), open_trial(path, actor="tester"):
        pytest.fail("a ledger that lost entries was opened for writing")
    assert before == files(path.parent)


def inside_entry(count: int) -> Callable[[bytes], bytes]:
    """Returns what keeps whole lines, and half of the one after."""
    return lambda data: (
        b"".join(data.splitlines(keepends=True)[:count]) + (data.splitlines()[count][:40])
    )


def put_in_quarantine(path: Path, data: bytes, *, offset: int) -> None:
    """Leaves torn bytes as an opening does that is killed before it puts them on record."""
    name = f"{path.name}-{offset}-{sha256_hex(data)[:16]}.torn"
    quarantine = side_folder(path) / "quarantine"
    quarantine.mkdir(exist_ok=True)
    (quarantine / name).write_bytes(data)


CUTS: dict[str, Callable[[bytes], bytes]] = {
    "inside entry 2": inside_entry(2),
    "inside entry 4": inside_entry(4),
    "inside entry 0": inside_entry(0),
    "newline of entry 3": lambda data: b"".join(data.splitlines(keepends=True)[:4])[:-1],
}


@pytest.mark.parametrize("with_cache", [True, False])
@pytest.mark.parametrize("cut", CUTS)
def test_rolled_back_lines_stay_as_they_are(tmp_path: Path, cut: str, with_cache: bool) -> None:
    """Torn bytes of a rolled-back ledger are neither cut nor set aside, nor put on record."""
    path = tmp_path / "ledger.jsonl"
    grown(path)
    path.write_bytes(CUTS[cut](path.read_bytes()))
    if not with_cache:
        shutil.rmtree(side_folder(path) / "cache")
    is_begun = cut != "inside entry 0"
    refused(path, RolledBackError if is_begun and not with_cache else IntegrityError)


@pytest.mark.parametrize("name", STORES)
def test_rolled_back_ledger_gets_no_recovery_on_record(tmp_path: Path, name: str) -> None:
    """Quarantined bytes of a killed opening go on record only in a ledger that is accepted."""
    path = tmp_path / name
    with open_trial(path, actor="tester", create=True):
        pass
    older = path.read_bytes()
    grown(path)
    path.write_bytes(older)
    shutil.rmtree(side_folder(path) / "cache")
    put_in_quarantine(path, b"{", offset=0)
    refused(path)


def test_quarantine_of_an_earlier_ledger_is_not_put_on_record(tmp_path: Path) -> None:
    """Torn bytes at a place where no entry of this ledger ends are left to the one before it."""
    path = tmp_path / "ledger.jsonl"
    with open_trial(path, actor="tester", create=True):
        pass
    size = path.stat().st_size
    for offset in (1, size - 1, size + 1, 9 * size):
        put_in_quarantine(path, b"{", offset=offset)
    put_in_quarantine(path, b'{"v":', offset=size)
    with open_trial(path, actor="tester") as trial:
        found = [event.offset for _, event in trial.read() if isinstance(event, Recover)]
    assert [size] == found
    assert "intact" == replay_ledger(path).record
    with open_trial(path, actor="tester") as trial:
        assert 2 == trial.log.state.size


@pytest.mark.parametrize("with_cache", [True, False])
@pytest.mark.parametrize(
    ("cut", "receipt_at", "recovered"),
    [("inside entry 4", 4, 1), ("newline of entry 4", 5, 0), ("newline of entry 4", 4, 0)],
)
def test_torn_tail_behind_all_that_is_remembered_recovers(
    tmp_path: Path, cut: str, receipt_at: int, recovered: int, with_cache: bool
) -> None:
    """What no receipt covers may be torn; an entry that lacks its newline counts as there."""
    path = tmp_path / "ledger.jsonl"
    grown(path, receipt_at=receipt_at)
    data = path.read_bytes()
    path.write_bytes(data[:-1] if cut.startswith("newline") else CUTS[cut](data))
    if not with_cache or recovered:
        shutil.rmtree(side_folder(path) / "cache")
    with open_trial(path, actor="tester") as trial:
        events = [event for _, event in trial.read()]
    assert recovered == sum(isinstance(event, Recover) for event in events)
    assert 6 == len(events)

"""The cached projection: what it keeps, and when it isn't trusted."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from blake3 import blake3

import fairtrial.ledger.prefix as prefix_module
import fairtrial.ledger.segments as segments_module
from fairtrial.ledger.errors import IntegrityError
from fairtrial.ledger.merkle import CompactRange
from fairtrial.ledger.projection import (
    encode_projection,
    load_projection,
    parse_projection,
    save_projection,
)

from .fold_bench import CACHE_KEY, Bench
from .fold_drafts import make_arm, make_design


def _rich(cache: Path | None = None) -> Bench:
    """A ledger in which every part of a state holds something."""
    arms = (make_arm("a"), make_arm("b"), make_arm("r", "recorded"))
    bench = Bench(cache=cache).running(make_design(4, arms=arms, lasts=(6, 12), attempts_max=2))
    bench.tried(1, "error").tried(1, "lost").do("settle", position=1, cost_nanousd=3)
    bench.tried(2, "interrupted").looked().do("invalidate", position=3).do("amend").do("refuse")
    bench.do("anchor").do("key").do("sign").do("import").do("redact").do("attempt", position=7)
    return bench.registered("f").do("withdraw", "f").do("register", "g", supersedes="f")


def _cached(path: Path) -> Bench:
    """A ledger whose projection is saved."""
    bench = _rich(path)
    bench.log.save()
    return bench


def test_projection_keeps_the_state(tmp_path: Path) -> None:
    """What is loaded equals what was saved, in every field and column."""
    bench = _cached(tmp_path / "cache" / "fold")
    loaded = load_projection(tmp_path / "cache" / "fold", key=CACHE_KEY)
    assert loaded is not None
    assert bench.log.state == loaded.state
    assert list(bench.log.state.experiments) == list(loaded.state.experiments)
    assert bench.log.head().root == loaded.root.hex() == loaded.tree().root().hex()
    assert bench.log.leaf_at(loaded.state.size - 1) == loaded.leaf


def test_log_goes_on_from_a_projection(tmp_path: Path) -> None:
    """Only the tail is folded, and everything comes out as if all had been."""
    path = tmp_path / "fold"
    bench = _cached(path)
    size = bench.log.state.size
    bench.do("decision", position=7)
    warm = Bench(bench, cache=path)
    assert (size, size + 1) == (warm.log.folded_from, warm.log.state.size)
    cold = Bench(bench)
    assert (0, cold.log.state, cold.log.head()) == (
        cold.log.folded_from,
        warm.log.state,
        warm.log.head(),
    )
    warm.settled(8).do("sign").do("refuse")
    bench.log.refresh()
    assert bench.log.state == warm.log.state


def test_projection_is_written_only_when_it_is_behind(tmp_path: Path) -> None:
    """Saving twice writes once."""
    path = tmp_path / "fold"
    bench = _cached(path)
    path.unlink()
    bench.log.save()
    assert not path.exists()
    bench.do("key")
    bench.log.save()
    assert path.exists()


def test_log_without_a_cache_saves_nothing(tmp_path: Path) -> None:
    """Without a path there is no projection."""
    _rich().log.save()
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "checksum", "missing", "folder"])
def test_damaged_projection_is_no_projection(tmp_path: Path, damage: str) -> None:
    """Anything odd about the file means that the ledger is folded from its first entry."""
    path = tmp_path / "fold"
    bench = _cached(path)
    data = path.read_bytes()
    path.unlink()
    if damage == "folder":
        path.mkdir()
    elif damage != "missing":
        flipped = data[:100] + bytes([data[100] ^ 1]) + data[101:]
        damaged = {"cut": data[:-1], "flip": flipped, "empty": b"", "checksum": b"\0" + data[1:]}
        path.write_bytes(damaged[damage])
    assert None is load_projection(path, key=CACHE_KEY)
    fresh = Bench(bench, cache=path)
    assert (0, bench.log.state) == (fresh.log.folded_from, fresh.log.state)


def _sealed(value: object) -> bytes:
    """Returns a value as the bytes of a projection, with a right checksum."""
    data = msgspec.msgpack.encode(value)
    return blake3(data, key=CACHE_KEY).digest() + data


def test_projection_of_other_code_is_no_projection(tmp_path: Path) -> None:
    """A state that another version of the fold made is never taken over."""
    path = tmp_path / "fold"
    bench = _cached(path)
    value = msgspec.msgpack.decode(path.read_bytes()[32:])
    assert parse_projection(_sealed(value), key=CACHE_KEY) is not None
    path.write_bytes(_sealed({**value, "code": "0" * 64}))
    assert None is load_projection(path, key=CACHE_KEY)
    assert 0 == Bench(bench, cache=path).log.folded_from


def test_projection_with_another_shape_is_no_projection() -> None:
    """Bytes with a right checksum that hold something else are no projection."""
    assert None is parse_projection(_sealed({"code": 1}), key=CACHE_KEY)


def test_projection_of_another_ledger_is_no_projection(tmp_path: Path) -> None:
    """A new ledger in the place of an old one is folded afresh, whatever the cache says."""
    path = tmp_path / "fold"
    _cached(path)
    other = Bench()
    other.log.append(other.draft("open"), actor="tester", ledger="f" * 32)
    other.registered("other")
    fresh = Bench(other, cache=path)
    assert (0, "f" * 32) == (fresh.log.folded_from, fresh.log.ledger)
    assert 0 == Bench(cache=path).log.state.size


def _tamper(bench: Bench, seq: int, old: bytes, new: bytes) -> None:
    assert old in bench.medium.entries[seq]
    bench.medium.entries[seq] = bench.medium.entries[seq].replace(old, new)


@pytest.mark.parametrize("rehash", [True, False])
def test_ledger_that_lost_its_tail_is_refused(tmp_path: Path, rehash: bool) -> None:
    """A shorter chain verifies by itself; what was read here before was longer."""
    path = tmp_path / "fold"
    bench = _cached(path)
    del bench.medium.entries[-1]
    Bench(bench)
    with pytest.raises(IntegrityError, match="has lost entries") as caught:
        Bench(bench, cache=path, rehash=rehash)
    assert str(path) in caught.value.todo


@pytest.mark.parametrize("rehash", [True, False])
def test_ledger_whose_last_entry_has_changed_is_refused(tmp_path: Path, rehash: bool) -> None:
    """Nothing follows the last entry, so that only the projection tells that it has changed."""
    path = tmp_path / "fold"
    bench = _cached(path)
    _tamper(bench, -1, b'"actor":"tester"', b'"actor":"another"')
    Bench(bench)
    with pytest.raises(IntegrityError, match="has changed since"):
        Bench(bench, cache=path, rehash=rehash)


@pytest.mark.parametrize("segment", [3, 16_384])
def test_changed_prefix_is_found_by_rehashing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, segment: int
) -> None:
    """A byte that changed under the projection is found before anything is run or concluded.

    Without rehashing only the last segment is looked at.
    """
    for module in (segments_module, prefix_module):
        monkeypatch.setattr(module, "SEGMENT_ENTRIES", segment)
    path = tmp_path / "fold"
    bench = _cached(path)
    _tamper(bench, 5, b'"session":1', b'"session":2')
    first = 3 if segment == 3 else 0
    with pytest.raises(IntegrityError, match="has changed since") as caught:
        Bench(bench, cache=path, rehash=True)
    assert (
        f"entries {first} to {min(first + segment, bench.log.state.size) - 1}" == caught.value.where
    )
    if segment == 3:
        assert bench.log.state.size == Bench(bench, cache=path, rehash=False).log.folded_from
    else:
        with pytest.raises(IntegrityError, match="has changed since"):
            Bench(bench, cache=path, rehash=False)


def test_projection_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    """A place that can't be written costs the next start time and nothing else."""
    bench = _rich()
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "file" / "fold", tmp_path):
        save_projection(path, bench.log.state, CompactRange(), bytes(32), key=CACHE_KEY)
    assert ["file"] == [path.name for path in tmp_path.iterdir()]


def test_projection_is_small() -> None:
    """A slot takes under 40 bytes, so that a large plan doesn't make a large file."""
    bench = Bench().frozen(make_design(1000))
    small = Bench().frozen(make_design(1))
    sizes = [
        len(encode_projection(one.log.state, CompactRange(), bytes(32), key=CACHE_KEY))
        for one in (small, bench)
    ]
    assert sizes[1] - sizes[0] < 40 * 1998


def test_projection_of_another_key_is_no_projection(tmp_path: Path) -> None:
    """Whoever can write beside a ledger, but hasn't the key, can't make a fold that is believed."""
    path = tmp_path / "fold"
    bench = _cached(path)
    data = path.read_bytes()[32:]
    for key in (bytes(32), bytes(reversed(CACHE_KEY))):
        path.write_bytes(blake3(data, key=key).digest() + data)
        assert None is load_projection(path, key=CACHE_KEY)
        assert 0 == Bench(bench, cache=path).log.folded_from
    path.write_bytes(blake3(data).digest() + data)
    assert None is load_projection(path, key=CACHE_KEY)

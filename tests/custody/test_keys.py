"""Key files, and what is remembered of the last head that was signed."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from threading import Thread

import pytest

from fairtrial.custody.heads import read_record, sign_head
from fairtrial.custody.keys import create_key, list_keys, load_key
from fairtrial.custody.places import key_folder, state_folder
from fairtrial.ledger.canonical import encode_event, event_id
from fairtrial.ledger.checkpoint import Checkpoint, SigningKey, open_checkpoint
from fairtrial.ledger.entry import FIRST_PREV, build_entry
from fairtrial.ledger.errors import IntegrityError, RefusedError, StoreError
from fairtrial.ledger.events import Decision, Head
from fairtrial.ledger.memory import MemoryMedium, MemoryStore
from fairtrial.ledger.merkle import leaf_hash, root_of
from fairtrial.ledger.note import COSIGNATURE, ED25519

LEDGER = "0123456789abcdef0123456789abcdef"
ORIGIN = f"fairtrial.invalid/{LEDGER}"
KEY = SigningKey(b"k" * 32)


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """Folders of their own for keys and for what is remembered."""
    return {"FAIRTRIAL_KEYS": str(tmp_path / "keys"), "FAIRTRIAL_STATE": str(tmp_path / "state")}


def chain(*names: bytes) -> list[bytes]:
    """Returns entries that follow each other, each with an outcome of the unit so named."""
    entries: list[bytes] = []
    for seq, name in enumerate(names):
        event = encode_event(
            Decision(
                experiment="exp-1",
                position=seq + 1,
                session=1,
                attempt=1,
                arm="a",
                unit=name.decode(),
                replicate=1,
                status="ok",
                origin="live",
            )
        )
        entries.append(
            build_entry(
                event,
                ledger=LEDGER,
                seq=seq,
                prev=leaf_hash(entries[-1]) if entries else FIRST_PREV,
                time="2026-12-01T08:00:00.000000Z",
                actor="tester",
                id=event_id(event),
            )
        )
    return entries


def store_of(*names: bytes) -> MemoryStore:
    """Returns a store that holds a chain."""
    store, entries = MemoryStore(MemoryMedium()), chain(*names)
    with store.writer() as writer:
        writer.write(entries, [leaf_hash(one) for one in entries])
    return store


def head_of(*names: bytes) -> Head:
    """Returns the head over a chain."""
    return Head(size=len(names), root=root_of(leaf_hash(one) for one in chain(*names)).hex())


def sign(
    store: MemoryStore, head: Head, folder: Path, *, known: tuple[Checkpoint, ...] = ()
) -> bytes:
    """Signs a head with the key of the tests."""
    return sign_head(store, head, ledger=LEDGER, origin=ORIGIN, key=KEY, folder=folder, known=known)


def test_key_is_kept_for_its_owner_alone(home: dict[str, str]) -> None:
    """The file has mode 0600, its folder 0700, and it reads back as it was made."""
    key = create_key("lab", "ledger", environment=home)
    path = key_folder(home) / "lab.key"
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert 0o700 == stat.S_IMODE(path.parent.stat().st_mode)
    again = load_key("lab", "ledger", environment=home)
    assert key.signer.public() == again.signer.public()
    assert ["lab"] == [one.name for one in list_keys(home)]


def test_two_keys_differ(home: dict[str, str]) -> None:
    """A key is random."""
    keys = [create_key(name, "ledger", environment=home) for name in ("a", "b")]
    assert keys[0].signer.public() != keys[1].signer.public()


def test_key_is_never_replaced(home: dict[str, str]) -> None:
    """A second key of one name is refused and the first one stays."""
    first = create_key("lab", "ledger", environment=home)
    with pytest.raises(RefusedError, match="exists"):
        create_key("lab", "person", environment=home)
    assert first.signer.public() == load_key("lab", "ledger", environment=home).signer.public()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o700, 0o4600])
def test_key_that_others_can_reach_is_refused(home: dict[str, str], mode: int) -> None:
    """Any permission beyond 0600 is refused with the command that takes it away."""
    create_key("lab", "ledger", environment=home)
    path = key_folder(home) / "lab.key"
    path.chmod(mode)
    with pytest.raises(RefusedError, match="others") as caught:
        load_key("lab", "ledger", environment=home)
    assert f"chmod 600 {path}" == caught.value.todo
    assert f"mode {mode:04o}" == caught.value.found
    path.chmod(0o400)
    load_key("lab", "ledger", environment=home)


@pytest.mark.parametrize("mode", [0o750, 0o705, 0o777])
def test_folder_that_others_can_reach_is_refused(home: dict[str, str], mode: int) -> None:
    """Who can write to the folder can put another key in the place of one."""
    create_key("lab", "ledger", environment=home)
    key_folder(home).chmod(mode)
    with pytest.raises(RefusedError, match="others"):
        load_key("lab", "ledger", environment=home)
    with pytest.raises(RefusedError, match="others"):
        create_key("new", "ledger", environment=home)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_key_of_another_owner_is_refused(home: dict[str, str]) -> None:
    """A key that someone else could change isn't one's own."""
    create_key("lab", "ledger", environment=home)
    os.chown(key_folder(home) / "lab.key", 12345, -1)
    with pytest.raises(RefusedError, match="others") as caught:
        load_key("lab", "ledger", environment=home)
    assert "owner 12345" == caught.value.found


def test_link_is_no_key(home: dict[str, str], tmp_path: Path) -> None:
    """A key file is a regular file, not a way to another one."""
    create_key("lab", "ledger", environment=home)
    path = key_folder(home) / "lab.key"
    path.rename(tmp_path / "elsewhere.key")
    path.symlink_to(tmp_path / "elsewhere.key")
    with pytest.raises(RefusedError, match="others"):
        load_key("lab", "ledger", environment=home)


def test_pipe_is_no_key(home: dict[str, str]) -> None:
    """What stands in a key's place is looked at without waiting for what comes through it."""
    create_key("lab", "ledger", environment=home)
    path = key_folder(home) / "lab.key"
    path.unlink()
    os.mkfifo(path, 0o600)
    said: list[str] = []

    def load() -> None:
        with pytest.raises(RefusedError) as caught:
            load_key("lab", "ledger", environment=home)
        said.append(caught.value.expected)

    loading = Thread(target=load, daemon=True)
    loading.start()
    loading.join(timeout=10.0)
    assert ["a regular file"] == said


def test_key_has_one_use(home: dict[str, str]) -> None:
    """A witness's key doesn't sign a ledger's head, nor the other way round."""
    witness = create_key("w", "witness", environment=home, signs_as="witness.example/w1")
    person = create_key("ada", "person", environment=home)
    assert ("witness.example/w1", COSIGNATURE) == witness.verifier()[:2]
    assert ("ada", ED25519) == person.verifier()[:2]
    for name, use in (("w", "ledger"), ("ada", "witness"), ("ada", "ledger")):
        with pytest.raises(RefusedError, match="one use"):
            load_key(name, use, environment=home)  # type: ignore[arg-type]  # one of the three


@pytest.mark.parametrize("name", ["", "../lab", "a/b", ".hidden", "a b", "x" * 65, "lab\n"])
def test_name_of_a_key_is_no_path(home: dict[str, str], name: str) -> None:
    """A name can't lead out of the folder."""
    with pytest.raises(RefusedError, match="name of a key file"):
        load_key(name, "ledger", environment=home)


def test_missing_key_says_how_to_make_one(home: dict[str, str]) -> None:
    """An absent key is named with those that are there."""
    create_key("lab", "ledger", environment=home)
    with pytest.raises(RefusedError, match="no such key") as caught:
        load_key("labs", "ledger", environment=home)
    assert ("lab", "ledger key new labs") == (caught.value.expected, caught.value.todo)


@pytest.mark.parametrize(
    "data", [b"", b"{}", b'{"v":1,"use":"ledger","signs_as":"x","seed":"c2VjcmV0"}', b"\xff"]
)
def test_damaged_key_is_refused_without_its_content(home: dict[str, str], data: bytes) -> None:
    """The refusal shows nothing of the file."""
    create_key("lab", "ledger", environment=home)
    (key_folder(home) / "lab.key").write_bytes(data)
    with pytest.raises(RefusedError, match="holds no key") as caught:
        load_key("lab", "ledger", environment=home)
    assert caught.value.__cause__ is None
    assert "c2VjcmV0" not in str(caught.value)


def test_folders_follow_the_environment(tmp_path: Path) -> None:
    """The own variable, then XDG, then the home; a relative XDG path is ignored."""
    assert tmp_path / "x" == key_folder({"FAIRTRIAL_KEYS": str(tmp_path / "x")})
    xdg = {"XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "s")}
    assert tmp_path / "fairtrial/keys" == key_folder(xdg)
    assert tmp_path / "s/fairtrial" == state_folder(xdg)
    assert Path.home() / ".config/fairtrial/keys" == key_folder({"XDG_CONFIG_HOME": "relative"})
    assert Path.home() / ".local/state/fairtrial" == state_folder({})


def test_signed_head_is_remembered(tmp_path: Path) -> None:
    """The note verifies, and size and root are on record outside the ledger."""
    head = head_of(b"one", b"two")
    note = sign(store_of(b"one", b"two"), head, tmp_path)
    opened = open_checkpoint(note, log=KEY.verifier(ORIGIN))
    assert (2, head.root) == (opened.checkpoint.size, opened.checkpoint.root.hex())
    record = read_record(tmp_path, LEDGER)
    assert record is not None
    assert (2, head.root) == (record.size, record.root)


def test_same_head_and_a_longer_one_are_signed_again(tmp_path: Path) -> None:
    """The same head gives the same bytes; what grew from it is signed."""
    first = sign(store_of(b"one"), head_of(b"one"), tmp_path)
    assert first == sign(store_of(b"one"), head_of(b"one"), tmp_path)
    sign(store_of(b"one", b"two", b"three"), head_of(b"one", b"two", b"three"), tmp_path)
    record = read_record(tmp_path, LEDGER)
    assert record is not None
    assert 3 == record.size


def test_shorter_ledger_is_not_signed(tmp_path: Path) -> None:
    """A rolled-back copy gets no signature, and the record stays."""
    sign(store_of(b"one", b"two"), head_of(b"one", b"two"), tmp_path)
    with pytest.raises(IntegrityError, match="cut"):
        sign(store_of(b"one"), head_of(b"one"), tmp_path)
    record = read_record(tmp_path, LEDGER)
    assert record is not None
    assert 2 == record.size


@pytest.mark.parametrize("entries", [(b"one", b"TWO"), (b"ONE", b"two", b"three")])
def test_rewritten_ledger_is_not_signed(tmp_path: Path, entries: tuple[bytes, ...]) -> None:
    """Another history of the same or greater length gets no signature."""
    sign(store_of(b"one", b"two"), head_of(b"one", b"two"), tmp_path)
    with pytest.raises(IntegrityError, match="signed before"):
        sign(store_of(*entries), head_of(*entries), tmp_path)


def test_bytes_are_read_back_before_they_are_signed(tmp_path: Path) -> None:
    """A head that isn't that of the stored bytes is never signed, and nothing is recorded."""
    with pytest.raises(IntegrityError, match="folded"):
        sign(store_of(b"one", b"2wo"), head_of(b"one", b"two"), tmp_path)
    assert read_record(tmp_path, LEDGER) is None


def test_note_beside_the_ledger_counts_where_the_record_is_lost(tmp_path: Path) -> None:
    """A head that this key is known to have signed stands in for the record."""
    longer = head_of(b"one", b"two")
    known = (Checkpoint(ORIGIN, 2, bytes.fromhex(longer.root)),)
    with pytest.raises(IntegrityError, match="cut"):
        sign(store_of(b"one"), head_of(b"one"), tmp_path, known=known)
    with pytest.raises(IntegrityError, match="signed before"):
        sign(store_of(b"one", b"x", b"y"), head_of(b"one", b"x", b"y"), tmp_path, known=known)


def test_unreadable_record_stops_the_signing(tmp_path: Path) -> None:
    """What was signed must not be forgotten because a file is damaged."""
    sign(store_of(b"one"), head_of(b"one"), tmp_path)
    (tmp_path / "heads" / f"{LEDGER}.json").write_bytes(b"{")
    with pytest.raises(StoreError, match="nothing is signed"):
        sign(store_of(b"one"), head_of(b"one"), tmp_path)

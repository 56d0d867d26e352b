"""A batch is checked at once as each of its entries is by itself."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.ledger import slot_index
from fairtrial.ledger.entry import parse_entry
from fairtrial.ledger.errors import ConflictError, IntegrityError
from fairtrial.ledger.merkle import leaf_hash
from fairtrial.ledger.slot_index import Slot, check_batch, key_in, key_of, slot_of

from .chains import EMPTY, LEDGER
from .test_following import GOLDEN, LEDGERS, RUN, chain, mutated, swapped

BATCH = LEDGERS[1]


def checked(entries: Sequence[bytes], *, quickly: bool) -> list[bytes] | None:
    """Returns the keys of a batch, None where it is refused or the quick way is unsure."""
    leaves = [leaf_hash(data) for data in entries]
    if quickly:
        return slot_index.keys_at_once(entries, leaves, EMPTY, LEDGER)
    try:
        return slot_index.keys_one_by_one(entries, leaves, EMPTY, LEDGER)
    except IntegrityError:
        return None


@given(place=st.integers(0, len(BATCH) - 1), given_data=st.data())
def test_batch_is_taken_at_once_only_where_each_entry_is(
    place: int, given_data: st.DataObject
) -> None:
    """Whatever is done to one of its entries: what is taken at once fills the same slots."""
    data = given_data.draw(mutated(BATCH[place]))
    entries = [*BATCH[:place], data]
    assert checked(entries, quickly=True) in (None, checked(entries, quickly=False))


@pytest.mark.parametrize("place", range(len(BATCH)))
def test_each_swap_in_a_batch_is_seen_by_both_ways(place: int) -> None:
    """What JSON takes for the same is taken at once only where the slow way takes it."""
    for data in swapped(BATCH[place]):
        entries = [*BATCH[:place], data]
        assert checked(entries, quickly=True) in (None, checked(entries, quickly=False))


def test_value_that_spans_two_entries_is_none() -> None:
    """Two lines that hold two values only together are no entries."""
    event = parse_entry(BATCH[0]).event
    header = BATCH[0].removesuffix(event + b"}")
    first = header + event[:-1] + b',"x":' + b"}"
    header = header.replace(b'"seq":0', b'"seq":1')
    header = header.replace(b"0" * 64, leaf_hash(first).hex().encode())
    lines = [first, header + b"1}" + event + b"}"]
    both = b"\n".join(parse_entry(data).event for data in lines)
    assert 2 == len(msgspec.json.Decoder().decode_lines(both))
    assert checked(lines, quickly=True) is checked(lines, quickly=False) is None


@pytest.mark.parametrize("size", range(1, len(RUN)))
def test_plain_batch_is_taken_at_once(size: int) -> None:
    """The slow way is asked for nothing of a run whose text is plain."""
    keys = [b"attempt/exp-1/1/1", b"attempt_end/exp-1/1/1", b"attempt/exp-1/1/2",
            b"decision/exp-1/1/0"]  # fmt: skip
    assert keys[:size] == checked(BATCH[:size], quickly=True)
    assert keys[:size] == checked(BATCH[:size], quickly=False)


def test_key_names_its_slot() -> None:
    """A key and a slot say the same, and an entry is known by either."""
    for data in GOLDEN:
        slot = slot_of(key_in(data))
        assert key_of(slot) == key_in(data)
    odd = Slot("a/b", 1, "look", 2)
    assert odd == slot_of(key_of(odd))


@pytest.mark.parametrize("taken", [b"decision/exp-1/1/0", b"attempt/exp-1/1/2"])
def test_slot_is_filled_once(taken: bytes) -> None:
    """An entry whose slot is filled before the batch is named as the conflict."""
    leaves = [leaf_hash(data) for data in BATCH]
    keys = check_batch(BATCH, leaves, tail=EMPTY, ledger=LEDGER, is_taken=lambda _: False)
    assert len(set(keys)) == len(BATCH)
    with pytest.raises(ConflictError) as caught:
        check_batch(BATCH, leaves, tail=EMPTY, ledger=LEDGER, is_taken=taken.__eq__)
    assert f"entry {keys.index(taken)}" == caught.value.where
    twice = chain(*RUN[:1], *RUN[:1])
    leaves = [leaf_hash(data) for data in twice]
    with pytest.raises(ConflictError, match="the slot is taken"):
        check_batch(twice, leaves, tail=EMPTY, ledger=LEDGER, is_taken=lambda _: False)

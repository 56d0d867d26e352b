"""Digests of entries by segments: the same however entries come, different when any of them is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

import fairtrial.ledger.segments as segments_module
from fairtrial.ledger.segments import Segments

ENTRIES = [b"entry %d" % place for place in range(23)]


@pytest.fixture(autouse=True, scope="module")
def short_segments() -> Iterator[None]:
    """Segments of five entries."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments_module, "SEGMENT_ENTRIES", 5)
        yield


def expected(entries: list[bytes]) -> tuple[bytes, ...]:
    """Returns the digests as they are described."""
    parts = [entries[start : start + 5] for start in range(0, len(entries), 5)]
    return tuple(blake3(b"".join(data + b"\n" for data in part)).digest() for part in parts)


@given(cuts=st.sets(st.integers(1, 22)), stop=st.integers(0, 23))
def test_digests_are_the_same_however_entries_come(cuts: set[int], stop: int) -> None:
    """Batches of any size, across borders, give the digests of the segments."""
    segments, start = Segments(), 0
    for end in (*sorted(cut for cut in cuts if cut < stop), stop):
        segments.add(ENTRIES[start:end])
        start = end
    assert (stop, expected(ENTRIES[:stop])) == (segments.size, segments.digests())


@given(whole=st.integers(0, 4))
def test_whole_segments_are_taken_over(whole: int) -> None:
    """What goes on from whole segments ends as what began with the first entry."""
    segments = Segments(expected(ENTRIES)[:whole])
    segments.add(ENTRIES[segments.size :])
    assert expected(ENTRIES) == segments.digests()


@pytest.mark.parametrize("place", range(23))
def test_any_other_entry_changes_its_segment_alone(place: int) -> None:
    """A changed entry is found in the segment where it stands."""
    segments = Segments()
    segments.add([*ENTRIES[:place], b"other", *ENTRIES[place + 1 :]])
    pairs = zip(expected(ENTRIES), segments.digests(), strict=True)
    assert [place // 5] == [at for at, (old, new) in enumerate(pairs) if old != new]

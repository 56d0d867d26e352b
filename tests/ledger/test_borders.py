"""Where entries end in the JSON Lines form of a ledger."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fairtrial.ledger.borders import not_borders

ENTRIES = [b"one", b"", b"three"]
ENDS = {0, 4, 5, 11}


def test_only_ends_of_entries_are_borders() -> None:
    """Of every place in and behind the entries, those are left at which none ends."""
    assert set(range(20)) - ENDS == not_borders(ENTRIES, range(20))
    for place in range(20):
        assert (set() if place in ENDS else {place}) == not_borders(ENTRIES, [place])


@pytest.mark.parametrize(("places", "read"), [([], 0), ([0], 0), ([4], 1), ([2], 1), ([5, 1], 2)])
def test_no_more_is_read_than_the_places_need(places: list[int], read: int) -> None:
    """Entries behind the last place aren't read."""
    seen: list[bytes] = []

    def entries() -> Iterator[bytes]:
        for data in ENTRIES:
            seen.append(data)
            yield data

    not_borders(entries(), places)
    assert read == len(seen)

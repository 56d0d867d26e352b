"""Old versions of events are read as the newest; only these tests have more than one version."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from fairtrial.ledger import canonical
from fairtrial.ledger.canonical import decode_event, encode_event, event_id
from fairtrial.ledger.entry import FIRST_PREV, build_entry, parse_entry
from fairtrial.ledger.events import EVENT_KINDS, Close, Head
from fairtrial.ledger.following import decode_to_fold
from fairtrial.ledger.merkle import leaf_hash
from fairtrial.ledger.upcasting import STEPS, Step, Upcasts

HEAD = Head(size=3, root="ab" * 32)


class CloseTwo(msgspec.Struct, frozen=True, kw_only=True, tag="close/2", tag_field="kind"):
    """A second version of `close`, of these tests' own: why is a code and a text."""

    basis: Head
    code: str
    reason: str


class CloseThree(msgspec.Struct, frozen=True, kw_only=True, tag="close/3", tag_field="kind"):
    """A third one: it has names for both."""

    basis: Head
    why: tuple[str, str]


def two_of_one(event: Close) -> CloseTwo:
    """Takes a closing of version 1 to version 2."""
    return CloseTwo(basis=event.basis, code="", reason=event.reason)


def three_of_two(event: CloseTwo) -> CloseThree:
    """Takes a closing of version 2 to version 3."""
    return CloseThree(basis=event.basis, why=(event.code, event.reason))


KINDS: Mapping[str, type] = {**EVENT_KINDS, "close/2": CloseTwo, "close/3": CloseThree}
STEPS_OF_TESTS: Mapping[str, Step] = {"close/1": two_of_one, "close/2": three_of_two}


def test_every_old_version_has_its_step() -> None:
    """What this package reads is whole: it starts, and so has no gap."""
    Upcasts(EVENT_KINDS, STEPS)


def test_steps_are_chained() -> None:
    """From the first version over the second to the third; the newest is returned itself."""
    upcasts = Upcasts(KINDS, STEPS_OF_TESTS)
    old = Close(basis=HEAD, reason="done")
    newest = CloseThree(basis=HEAD, why=("", "done"))
    found: list[object] = [upcasts.newest(old), upcasts.newest(two_of_one(old))]
    assert [newest, newest] == found
    assert newest is upcasts.newest(newest)
    assert [True, True, False] == [upcasts.is_old(cls) for cls in (Close, CloseTwo, CloseThree)]


@pytest.mark.parametrize(
    ("kinds", "steps"),
    [
        (KINDS, {"close/1": two_of_one}),
        (KINDS, {"close/2": three_of_two}),
        (KINDS, {}),
        (KINDS, {**STEPS_OF_TESTS, "open/1": two_of_one}),
        (KINDS, {**STEPS_OF_TESTS, "nothing/1": two_of_one}),
        ({**EVENT_KINDS, "close/3": CloseThree}, {}),
    ],
    ids=["last missing", "first missing", "none", "from the newest", "unknown", "version missing"],
)
def test_gap_or_stray_step_is_found_at_the_start(
    kinds: Mapping[str, type], steps: Mapping[str, Step]
) -> None:
    """No replay is needed to find that a version can't be read."""
    with pytest.raises(ValueError, match=r"close|steps lead"):
        Upcasts(kinds, steps)


def test_step_that_makes_another_version_is_a_bug() -> None:
    """A step leads to the next version and nowhere else."""
    upcasts = Upcasts(KINDS, {"close/1": two_of_one, "close/2": lambda event: event})
    with pytest.raises(AssertionError, match="a step to CloseThree made a CloseTwo"):
        upcasts.newest(Close(basis=HEAD, reason="done"))


def test_entry_keeps_bytes_id_and_place_of_the_version_that_was_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both readers hand out the newest; nothing of the entry changes; it isn't written again."""
    old = Close(basis=HEAD, reason="done")
    data = encode_event(old)
    entry = build_entry(
        data,
        ledger="ab" * 16,
        seq=0,
        prev=FIRST_PREV,
        time="2026-12-01T08:00:00.000000Z",
        actor="ada",
        id=event_id(data),
    )
    leaf = leaf_hash(entry)
    monkeypatch.setattr(canonical, "UPCASTS", Upcasts(KINDS, STEPS_OF_TESTS))
    monkeypatch.setattr("fairtrial.ledger.following.UPCASTS", Upcasts(KINDS, STEPS_OF_TESTS))
    found = parse_entry(entry)
    newest = CloseThree(basis=HEAD, why=("", "done"))
    read: list[object] = [decode_event(found.event), decode_to_fold(found.event)]
    assert [newest, newest] == read
    assert (data, event_id(data), leaf) == (found.event, found.id, found.leaf())
    with pytest.raises(AssertionError, match="never written again"):
        encode_event(old)

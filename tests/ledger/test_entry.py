"""An entry has one form: an ASCII header and the event verbatim."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.ledger.canonical import encode_event, event_id
from fairtrial.ledger.entry import (
    ENTRY_BYTES_MAX,
    FIRST_PREV,
    build_entry,
    check_actor,
    check_entry,
    parse_entry,
)
from fairtrial.ledger.errors import IntegrityError, LedgerError
from fairtrial.ledger.merkle import leaf_hash

from .chains import LEDGER, decision

EVENT = encode_event(decision(1, unit='é "quoted"'))
ID = event_id(EVENT)
TIME = "2026-12-01T08:00:00.123456Z"


def _entry(
    event: bytes = EVENT,
    *,
    seq: int = 7,
    prev: bytes = b"\x01" * 32,
    time: str = TIME,
    actor: str = "someone",
) -> bytes:
    return build_entry(
        event, ledger=LEDGER, seq=seq, prev=prev, time=time, actor=actor, id=event_id(event)
    )


def test_entry_is_the_written_form() -> None:
    """Members stand in the order of the format, the event last and verbatim."""
    expected = (
        f'{{"v":1,"ledger":"{LEDGER}","seq":7,"prev":"{"01" * 32}","time":"{TIME}",'
        f'"actor":"someone","id":"{ID}","event":'
    ).encode() + EVENT
    assert expected + b"}" == _entry()


@given(
    seq=st.integers(0, 10**16 - 1),
    prev=st.binary(min_size=32, max_size=32),
    actor=st.text("abcXYZ019!#$%&()*+,-./:;<=>?@[]^_`{|}~", min_size=1, max_size=64),
)
def test_what_is_built_is_what_is_parsed(seq: int, prev: bytes, actor: str) -> None:
    """Every part of a header comes back as it was given."""
    data = _entry(seq=seq, prev=prev, actor=actor)
    found = parse_entry(data)
    assert (LEDGER, seq, prev, TIME, actor, ID, EVENT, data) == found
    assert leaf_hash(data) == found.leaf()


_OTHER_FORMS: list[Callable[[bytes], bytes]] = [
    lambda data: data + b"\n",
    lambda data: data + b" ",
    lambda data: b" " + data,
    lambda data: data[:-1],
    lambda data: data.replace(b'"v":1', b'"v":2'),
    lambda data: data.replace(b'"v":1', b'"v": 1'),
    lambda data: data.replace(b'"seq":7', b'"seq":07'),
    lambda data: data.replace(b'"seq":7', b'"seq":-7'),
    lambda data: data.replace(b'"seq":7', b'"seq":7.0'),
    lambda data: data.replace(b'"seq":7', b'"seq":"7"'),
    lambda data: data.replace(b'"seq":7', b'"seq":' + b"9" * 17),
    lambda data: data.replace(b"01" * 32, b"0A" * 32),
    lambda data: data.replace(b"01" * 32, b"01" * 31),
    lambda data: data.replace(LEDGER.encode(), LEDGER.upper().encode()),
    lambda data: data.replace(b".123456Z", b".12345Z"),
    lambda data: data.replace(b".123456Z", b".123456+00:00"),
    lambda data: data.replace(b"T08", b" 08"),
    lambda data: data.replace(b"someone", "sömeone".encode()),
    lambda data: data.replace(b"someone", b"some one"),
    lambda data: data.replace(b"someone", b""),
    lambda data: data.replace(b'"id":"b3:', b'"id":"sha256:'),
    lambda data: data.replace(b'"actor":"someone",', b""),
    lambda data: data.replace(b'"actor"', b'"extra":1,"actor"'),
    lambda data: data.replace(b'{"v":1,', b'{"v":1,"v":1,'),
    lambda data: data.replace(b'"event":', b'"event": '),
    lambda data: b"",
    lambda data: b"\xef\xbb\xbf" + data,
    lambda data: data[:-1] + b"x" * ENTRY_BYTES_MAX + b"}",
]


@pytest.mark.parametrize("spoil", _OTHER_FORMS)
def test_other_form_is_no_entry(spoil: Callable[[bytes], bytes]) -> None:
    """Anything but the one form is refused; what only reaches the event spoils its id."""
    data = _entry()
    spoiled = spoil(data)
    assert data != spoiled
    try:
        found = parse_entry(spoiled)
    except IntegrityError:
        return
    assert event_id(found.event) != found.id


@given(st.integers(0, 10_000), st.integers(0, 7))
def test_flipped_bit_is_found_by_form_chain_id_or_leaf(place: int, bit: int) -> None:
    """A flipped bit spoils the form, a check against the neighbours, or at least the leaf."""
    data = bytearray(_entry())
    place %= len(data)
    data[place] ^= 1 << bit
    assert leaf_hash(bytes(data)) != leaf_hash(_entry())
    try:
        found = parse_entry(bytes(data))
        check_entry(found, ledger=LEDGER, seq=7, prev=b"\x01" * 32)
    except IntegrityError:
        return
    # Time and actor are covered by the leaf alone.
    head = _entry()[: _entry().index(b'"id"')]
    assert head.index(b'"time"') < place < len(head)


@pytest.mark.parametrize(
    ("ledger", "seq", "prev", "message"),
    [
        (LEDGER, 8, b"\x01" * 32, "another place"),
        ("f" * 32, 7, b"\x01" * 32, "another ledger"),
        (LEDGER, 7, FIRST_PREV, "doesn't follow"),
    ],
)
def test_entry_out_of_place_is_refused(ledger: str, seq: int, prev: bytes, message: str) -> None:
    """Place, ledger and chain are checked, each with what was expected and found."""
    with pytest.raises(IntegrityError, match=message) as caught:
        check_entry(parse_entry(_entry()), ledger=ledger, seq=seq, prev=prev)
    assert f"entry {seq}" == caught.value.where
    assert caught.value.expected != caught.value.found != ""


def test_event_of_another_id_is_refused() -> None:
    """An event whose bytes changed under its id is found."""
    data = _entry().replace(b'"passed":1.0', b'"passed":0.0')
    with pytest.raises(IntegrityError, match="id isn't"):
        check_entry(parse_entry(data), ledger=LEDGER, seq=7, prev=b"\x01" * 32)


def test_first_entry_may_name_any_ledger() -> None:
    """At seq 0 the ledger's id isn't known yet, and what comes before is 64 zeros."""
    data = _entry(seq=0, prev=FIRST_PREV)
    assert b'"prev":"' + b"0" * 64 + b'"' in data
    check_entry(parse_entry(data), ledger=None, seq=0, prev=FIRST_PREV)


def test_entry_has_a_largest_size() -> None:
    """65,535 bytes fit; one more is refused with both sizes and the way out."""
    room = ENTRY_BYTES_MAX - len(_entry())
    event = EVENT.replace(b'"quoted', b'"quoted' + b"x" * room)
    assert ENTRY_BYTES_MAX == len(_entry(event))
    assert event == parse_entry(_entry(event)).event
    with pytest.raises(LedgerError, match="too large") as caught:
        _entry(event.replace(b"quoted", b"quoted+"))
    assert ("65,535" in caught.value.expected, "65,536 bytes") == (True, caught.value.found)


@pytest.mark.parametrize(
    "actor", ["", "a b", 'a"b', "a\\b", "a'b", "ä", "a\n", "x" * 65, "\x7f", "a\x00"]
)
def test_actor_outside_the_grammar_is_refused(actor: str) -> None:
    """An actor is 1 to 64 printable ASCII characters without blank, quote or backslash."""
    for refuse in (check_actor, lambda name: _entry(actor=name)):
        with pytest.raises(LedgerError, match="actor"):
            refuse(actor)


def test_longest_actor_passes() -> None:
    """64 characters, punctuation included, are an actor."""
    check_actor("ci@build/runner-1+x=y;{}[]<>|~`!#$%^&*()_.,?:-".ljust(64, "z"))


@pytest.mark.parametrize(
    "time",
    [
        "2026-12-01T08:00:00Z",
        "2026-12-01T08:00:00.123Z",
        "2026-12-01 08:00:00.123456Z",
        "2026-12-01T08:00:00.123456",
        "2026-12-01T08:00:00.123456Z\n",
        "\uff12026-12-01T08:00:00.123456Z",
    ],
)
def test_time_of_another_form_is_refused(time: str) -> None:
    """A time is UTC with 6 decimals and a Z, in ASCII digits."""
    with pytest.raises(LedgerError, match="6 decimals"):
        _entry(time=time)

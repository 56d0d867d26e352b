"""Reading a JSON Lines ledger: its lines, where they end, what is torn, where each slot stands.

Leaves writing and locks to `jsonl.py`; checks no chain but that of a last line without newline.

Rules:
- Lines end at LF and nowhere else: U+2028 and CR are ordinary characters.
- Memory is flat whatever the file holds: a line longer than an entry can be is shortened to one
  byte more than that, so that it can't be taken for an entry.
- What was seen once is known by its size and its last line; a file where they differ is refused.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import accumulate
from typing import BinaryIO, NamedTuple

import msgspec

from .entry import ENTRY_BYTES_MAX, FIRST_PREV, check_entry, parse_entry
from .errors import IntegrityError
from .merkle import leaf_hash
from .port import Tail, Torn
from .slot_index import Slot, key_in, key_of, parse_slot

__all__ = (
    "BUFFER_BYTES",
    "End",
    "SlotOffsets",
    "advance",
    "after_lines",
    "before_lines",
    "end_at",
    "end_of_lines",
    "line_blocks",
    "lines",
    "search",
    "torn_after",
)

BUFFER_BYTES = 1 << 16
_CHUNK_BYTES = 1 << 20
# What a slot is remembered by; two may share one.
_hash = hash
(_NEWLINE,) = b"\n"


class End(NamedTuple):
    """Where the whole lines of a file end: just after the last LF.

    `line` is the offset of the last whole line, `size` the count of lines.
    """

    offset: int = 0
    size: int = 0
    line: int = 0
    leaf: bytes = FIRST_PREV

    @property
    def tail(self) -> Tail:
        """The same in the terms of the log."""
        return Tail(self.size, self.leaf)


def advance(file: BinaryIO, known: End) -> End:
    """Returns the end of a file of which `known` was seen before; reads only what is new.

    Raises:
        IntegrityError: The file is shorter than it was, or its last known line has changed.
    """
    _check_known(file, known)
    offset, size, line = known.offset, known.size, known.line
    position = offset
    file.seek(position)
    while chunk := file.read(_CHUNK_BYTES):
        count = chunk.count(b"\n")
        if count:
            last = chunk.rfind(b"\n")
            before = chunk.rfind(b"\n", 0, last)
            line = position + before + 1 if before >= 0 else offset
            offset, size = position + last + 1, size + count
        position += len(chunk)
    if size == known.size:
        return known
    return End(offset, size, line, leaf_hash(_line_at(file, line)))


def end_of_lines(file: BinaryIO, known: End) -> int:
    """Returns the offset just after the last LF, found from the end of the file; counts nothing.

    Raises:
        IntegrityError: As `advance` says.
    """
    _check_known(file, known)
    stop = file.seek(0, 2)
    while stop > known.offset:
        start = max(known.offset, stop - BUFFER_BYTES)
        file.seek(start)
        last = file.read(stop - start).rfind(b"\n")
        if last >= 0:
            return start + last + 1
        stop = start
    return known.offset


def end_at(file: BinaryIO, size: int, offset: int) -> End | None:
    """Returns the end of the first `size` lines, None unless the bytes before `offset` say so."""
    start = max(0, offset - ENTRY_BYTES_MAX - 2)
    file.seek(start)
    data = file.read(max(0, offset - start))
    line = data.rfind(b"\n", 0, -1) + 1
    if start + len(data) != offset or data[-1:] != b"\n" or (start and not line):
        return None
    try:
        entry = parse_entry(data[line:-1])
    except IntegrityError:
        return None
    return End(offset, size, start + line, entry.leaf()) if entry.seq == size - 1 else None


def lines(file: BinaryIO, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
    """Yields offset and content of each whole line between two offsets, without its LF."""
    file.seek(start)
    offset = start
    while offset < stop:
        line = rest = file.readline(ENTRY_BYTES_MAX + 2)
        length = len(line)
        while rest and rest[-1] != _NEWLINE:
            rest = file.readline(_CHUNK_BYTES)
            length += len(rest)
        if not rest:
            return
        yield offset, line[: min(length, ENTRY_BYTES_MAX + 2) - 1]
        offset += length


def line_blocks(file: BinaryIO, start: int, stop: int) -> Iterator[list[bytes]]:
    """Yields the whole lines between two offsets in lists, without their LF.

    The first list is short, so that whoever wants one line doesn't read many.
    """
    file.seek(start)
    left, size, rest = stop - start, BUFFER_BYTES, b""
    while left > 0 and (chunk := file.read(min(size, left))):
        left, size = left - len(chunk), _CHUNK_BYTES // 4
        found = (rest + chunk).split(b"\n")
        rest = found.pop()[: ENTRY_BYTES_MAX + 1]
        if found and max(map(len, found)) > ENTRY_BYTES_MAX:
            found = [line[: ENTRY_BYTES_MAX + 1] for line in found]
        if found:
            yield found


def after_lines(file: BinaryIO, start: int, count: int) -> int | None:
    """Returns the offset just after so many lines from an offset on, None if there are fewer."""
    file.seek(start)
    position = start
    while count and (chunk := file.read(_CHUNK_BYTES)):
        found = chunk.count(b"\n")
        if found < count:
            count, position = count - found, position + len(chunk)
            continue
        place = 0
        for _ in range(count):
            place = chunk.index(b"\n", place) + 1
        return position + place
    return None if count else position


def before_lines(file: BinaryIO, stop: int, count: int) -> int:
    """Returns where the line begins that lies so many lines before an offset where one begins."""
    position = stop
    while position:
        start = max(0, position - _CHUNK_BYTES)
        file.seek(start)
        chunk = file.read(position - start)
        found = chunk.count(b"\n")
        if found > count:
            place = len(chunk)
            for _ in range(count + 1):
                place = chunk.rindex(b"\n", 0, place)
            return start + place + 1
        count, position = count - found, start
    return 0


def torn_after(file: BinaryIO, end: End) -> Torn | None:
    """Returns what follows the last whole line, if anything."""
    length = file.seek(0, 2) - end.offset
    if length <= 0:
        return None
    file.seek(end.offset)
    digest = sha256()
    while chunk := file.read(_CHUNK_BYTES):
        digest.update(chunk)
    return Torn(end.offset, length, digest.hexdigest(), _is_whole(file, end, length))


def _is_whole(file: BinaryIO, end: End, length: int) -> bool:
    if length > ENTRY_BYTES_MAX:
        return False
    ledger = parse_entry(_line_at(file, 0)).ledger if end.size else None
    file.seek(end.offset)
    try:
        entry = parse_entry(file.read(length))
        check_entry(entry, ledger=ledger, seq=end.size, prev=end.leaf)
        parse_slot(entry.event)
    except IntegrityError:
        return False
    return True


class SlotOffsets:
    """Where each entry and each slot stands, while a store is open; about 110 bytes an entry."""

    def __init__(self) -> None:
        # Keyed by a hash: what it is made of would take five times the memory.
        self._by_slot: dict[int, int] = {}
        self._by_seq = array("q")
        self._seen = 0
        self.ledger: str | None = None

    def advance(self, file: BinaryIO, end: End) -> None:
        """Reads the lines up to `end` that were not read before.

        Raises:
            IntegrityError: A line is not an entry.
        """
        for offset, line in lines(file, self._seen, end.offset):
            try:
                key = key_in(line)
                self.ledger = self.ledger or parse_entry(line).ledger
            except IntegrityError as error:
                error.where = f"entry {len(self._by_seq)}"
                raise
            self._add(_hash(key), offset, len(line))

    def add(self, keys: Sequence[bytes], lines: Sequence[bytes]) -> None:
        """Takes in lines that were just appended, each with the key of its slot, which was free."""
        self.ledger = self.ledger or parse_entry(lines[0]).ledger
        ends = list(accumulate((len(line) + 1 for line in lines), initial=self._seen))
        self._seen = ends.pop()
        self._by_seq.extend(ends)
        for key, offset in zip(map(_hash, keys), ends, strict=True):
            self._by_slot.setdefault(key, offset)

    def _add(self, key: int, offset: int, length: int) -> None:
        self._by_slot.setdefault(key, offset)
        self._by_seq.append(offset)
        self._seen = offset + length + 1

    def nearest(self, seq: int) -> tuple[int, int]:
        """Returns the last known place at or before `seq`: its seq and its offset."""
        if seq < len(self._by_seq):
            return seq, self._by_seq[seq]
        return len(self._by_seq), self._seen

    def find(self, file: BinaryIO, slot: Slot) -> bytes | None:
        """Returns the line that fills a slot, or None; `advance` was called before."""
        offset = self._by_slot.get(_hash(key_of(slot)))
        if offset is None:
            return None
        line = _line_at(file, offset)
        if _fills(line, slot):
            return line
        # Two slots with one hash: only reading everything can tell.
        return search(file, self._seen, slot)

    def is_empty(self) -> bool:
        """Returns whether no line was read yet."""
        return not self._by_seq

    def is_at(self, end: End) -> bool:
        """Returns whether all lines up to `end` were read."""
        return self._seen == end.offset

    def is_known(self, key: bytes) -> bool:
        """Returns whether a line that was read may fill the slot of a key; `find` knows it."""
        return _hash(key) in self._by_slot


def search(file: BinaryIO, stop: int, slot: Slot) -> bytes | None:
    """Returns the first line before the offset `stop` that fills a slot, or None."""
    name = msgspec.json.encode(slot.experiment)
    needle = b'"experiment":%b,"position":%d,"number":%d' % (name, slot.position, slot.number)
    offset = 0
    while offset < stop:
        file.seek(offset)
        chunk = file.read(_CHUNK_BYTES)
        chunk += file.readline(ENTRY_BYTES_MAX + 2)
        for match in re.finditer(re.escape(needle), chunk):
            start = chunk.rfind(b"\n", 0, match.start()) + 1
            line = chunk[start:].partition(b"\n")[0]
            if offset + start + len(line) < stop and _fills(line, slot):
                return line
        offset += len(chunk)
    return None


def _slot_of(line: bytes) -> Slot:
    return parse_slot(parse_entry(line).event)


def _fills(line: bytes, slot: Slot) -> bool:
    try:
        return _slot_of(line) == slot
    except IntegrityError:
        return False


def _line_at(file: BinaryIO, offset: int) -> bytes:
    file.seek(offset)
    return file.readline(ENTRY_BYTES_MAX + 2).removesuffix(b"\n")[: ENTRY_BYTES_MAX + 1]


def _check_known(file: BinaryIO, known: End) -> None:
    size = file.seek(0, 2)
    if size < known.offset:
        raise IntegrityError(
            "the file has become shorter since it was opened: entries are lost",
            expected=f"at least {known.offset:,} bytes",
            found=f"{size:,} bytes",
            todo="ledger replay --against RECEIPT shows from where on",
        )
    if known.size and leaf_hash(_line_at(file, known.line)) != known.leaf:
        raise IntegrityError(
            "an entry has changed since it was read",
            where=f"entry {known.size - 1}",
            todo="ledger replay shows what differs",
        )

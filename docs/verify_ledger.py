#!/usr/bin/env python3
"""Checks a fairtrial ledger with the standard library alone; writes nothing.

    python3 -I verify_ledger.py ledger.db --against "fairtrial:8c1f...@2361#Kd2..."
Made from docs/format.md alone. Needs Python 3.9; for a SQLite ledger SQLite 3.31. Compare its
SHA-256 with the repository's docs/verify_ledger.sha256. Checked: form, place, chain, time and id of
entries; their JSON (names twice, blanks, numbers, grammar of texts); slots filled once; root; a
database's schema, rows and structure; blobs by SHA-256 and what is erased; heads that you bring.
Not: other order rules, numbers, signatures, files, schemas of events. Exit code: 0 intact (the text
says whether anything vouches for it), 2 usage, 3 no receipt, 8 no ledger, 11 torn, 12 corrupt, 13
forked, 14 rolled back, 16 files differ, 17 newer than this program. HEAD: a receipt or checkpoint.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import shutil
import sqlite3
import struct
import sys
import tempfile
import unicodedata
from contextlib import closing
from datetime import datetime
from decimal import Decimal
from hashlib import sha256
from pathlib import Path

EXIT = {"corrupt": 12, "forked": 13, "rolled_back": 14, "torn": 11, "files_differ": 16, "newer": 17}
HEADER = re.compile(
    rb'\{"v":1,"ledger":"([0-9a-f]{32})","seq":(0|[1-9][0-9]{0,15}),"prev":"([0-9a-f]{64})",'
    rb'"time":"([0-9]{4}(?:-[0-9]{2}){2}T[0-9]{2}(?::[0-9]{2}){2}\.[0-9]{6}Z)",'
    rb'"actor":"[!#-&(-\[\]-~]{1,64}","id":"(b3:[0-9a-f]{64})","event":'
)
KNOWN = """adopt amend anchor attempt attempt_end close decision freeze import invalidate key look
open reanalysis recover redact refuse register result settle sign start stop unblind withdraw"""
KNOWN = [f"{kind}/1" for kind in KNOWN.split()]
TEXTS = """answer note override path previous previous_signature reason settings signature
undetermined vkey""".split()  # noqa: SIM905 - a list to be read
KEPT = ("amend", "anchor", "freeze", "look", "register")
FIRST = ["kind", "experiment", "position", "number"]
FREE = ("arms", "artifacts", "cost_nanousd", "missing", "scores", "sections", "settings", "tests")
ODD = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
SCHEMA = "310981c8c753b44de32808012b5fecc7763736522a96759e90f1bfe878b65b33"
BLOB = re.compile(rb'\{"size":([0-9]{1,15}),"blake3":"([0-9a-f]{64})","sha256":"([0-9a-f]{64})"\}')
PACKED = re.compile(rb'\["([0-9a-f]{64})",([0-9]{1,15})\]')
RECEIPT = re.compile(r"fairtrial:([0-9a-f]{32})@([1-9][0-9]{0,15})#([A-Za-z0-9+/]{43}=)")
NOTE = re.compile(r"\A([^\n]+)\n([1-9][0-9]{0,15})\n([A-Za-z0-9+/]{43}=)\n")


def stop(code: int, message: str):
    """Ends the program where there is nothing to report on."""
    print(ODD.sub("?", message), file=sys.stderr)
    sys.exit(code)


# BLAKE3 in derive_key mode (specification, 2.1 to 2.4); each 64-bit lane of an integer is an event.
IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A)
IV += (0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
PERMUTATION = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
MIXED = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
MIXED += ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))
CHUNK_START, CHUNK_END, PARENT, ROOT, KEY, MATERIAL = 1, 2, 4, 8, 32, 64


def compress(v: list[int], m: list[int], lanes: int) -> list[int]:
    """Returns the 8 words that come of one compression in each lane."""
    mask = int.from_bytes(b"\xff\xff\xff\xff\0\0\0\0" * lanes, "little")
    for _ in range(7):
        for i, (a, b, c, d) in enumerate(MIXED):
            for word, first, second in ((m[2 * i], 16, 12), (m[2 * i + 1], 8, 7)):
                v[a] = (v[a] + v[b] + word) & mask
                x = v[d] ^ v[a]
                v[d] = (x >> first | x << 32 - first) & mask
                v[c] = (v[c] + v[d]) & mask
                x = v[b] ^ v[c]
                v[b] = (x >> second | x << 32 - second) & mask
        m = [m[i] for i in PERMUTATION]
    return [v[i] ^ v[i + 8] for i in range(8)]


def steps(key, data: bytes, flags: int, first: int = 0, root: int = ROOT):
    """Yields each compression that a hash needs, is sent its words, returns the last ones."""
    if len(data) > 1024:
        left = 1 << (-(-len(data) // 1024) - 1).bit_length() - 1
        value = yield from steps(key, data[: left * 1024], flags, first, 0)
        value += yield from steps(key, data[left * 1024 :], flags, first + left, 0)
        return (yield key, struct.pack("<16I", *value), 0, 64, flags | PARENT | root)
    value, last = key, max(0, (len(data) - 1) // 64)
    for i in range(last + 1):
        block = data[64 * i : 64 * i + 64]
        ends = (CHUNK_START if i == 0 else 0) | (CHUNK_END | root if i == last else 0)
        value = yield value, block.ljust(64, b"\0"), first, len(block), flags | ends
    return value


def blake3_each(key, messages: list[bytes], flags: int) -> list[tuple[int, ...]]:
    """Returns the 8 words of the hash of each message."""
    jobs = [(i, steps(key, data, flags)) for i, data in enumerate(messages)]
    asked, done = [next(job) for _, job in jobs], {}
    while jobs:
        rows = [(*v, *IV[:4], n, 0, ln, f, *struct.unpack("<16I", m)) for v, m, n, ln, f in asked]
        form, size = f"<{len(rows)}Q", 8 * len(rows)
        words = [int.from_bytes(struct.pack(form, *each), "little") for each in zip(*rows)]
        words = compress(words[:16], words[16:], len(rows))
        values = zip(*(struct.unpack(form, word.to_bytes(size, "little")) for word in words))
        running, jobs, asked = zip(jobs, values), [], []
        for (i, job), value in running:
            try:
                asked.append(job.send(value))
                jobs.append((i, job))
            except StopIteration as end:
                done[i] = end.value
    return [done[i] for i in range(len(messages))]


def number(value) -> str:
    """Returns the one form of a number: plain from 1e-5 up to below 1e16, else with an exponent."""
    if isinstance(value, int) and abs(value) >= 2**53:
        raise ValueError("an integer beyond 2^53 - 1")
    mantissa, _, power = repr(value).partition("e")
    plain = f"{Decimal(repr(value)):f}" if power == "-05" else mantissa
    return f"{mantissa}e{int(power)}" if power not in ("", "-05") else plain


def text(value: str, field: str) -> str:
    """Returns the one form of a text; refuses what the grammar of names and texts doesn't allow."""
    free = field in TEXTS or not value
    odd = set(ODD.findall(value)) - set("\n\t" if free else "")
    fits = len(value.encode()) <= (2000 if free else 200) and (free or value == value.strip())
    if odd or not fits or unicodedata.normalize("NFC", value) != value:
        raise ValueError(f"{field}: not a name or text as the grammar has it")
    return json.dumps(value, ensure_ascii=False)


def written(value, field: str) -> str:
    """Returns the one form of a value, its members in the order in which they stand."""
    if isinstance(value, dict):
        free = field in (*FREE, "tokens")
        if free and (list(value) != sorted(value) or "" in value):
            raise ValueError(f"{field}: names aren't sorted, or one is empty")
        inner = field if field in ("missing", "settings") else ""
        each = [(text(k, "a name"), written(v, inner if free else k)) for k, v in value.items()]
        return "{" + ",".join(f"{name}:{item}" for name, item in each) + "}"
    if isinstance(value, list):
        return "[" + ",".join(written(item, "") for item in value) + "]"
    if isinstance(value, str):
        return text(value, field)
    return json.dumps(value) if value is None or isinstance(value, bool) else number(value)


def parse_event(data: bytes):
    """Returns an event; raises what is wrong with its bytes, but for kinds that aren't known."""
    event = json.loads(data.decode())
    if isinstance(event["kind"], str) and event["kind"] not in KNOWN:
        return event
    if [*event][:4] != FIRST or written(event, "").encode() != data:
        raise ValueError("not in the one form that an event has")
    return event


def lines_of(path: Path, ledger: Ledger):
    """Yields the entries of a JSON Lines ledger."""
    with path.open("rb") as file:
        head = file.read(64)
        if head[:5] == b'{"v":' and head[:7] != b'{"v":1,'[: len(head)]:
            stop(17, f"{path} has a newer format than this program knows")
        begun = b'{"v":1,"ledger":"'.startswith(head[:17]) or not head.strip(b"\0")
        if not begun and b'"ledger":"' not in head:
            stop(8, f"{path} is not a ledger")
        file.seek(0)
        while line := file.readline(65_537):
            rest = line  # no more of it is held than an entry can have
            while len(rest) == 65_537 and rest[-1:] != b"\n":
                rest = file.readline(65_537)
            if rest[-1:] != b"\n":
                return ledger.find("bytes", "torn", None, "a newline", f"{len(line)} bytes or more")
            yield line[:-1]


def rows_of(path: Path, ledger: Ledger):
    """Yields the entries of a SQLite ledger, opened so that nothing is written."""
    path = path.resolve()  # SQLite keeps its files beside the database, not beside a link to it
    with path.open("rb") as file:
        head = file.read(100).ljust(100, b"\0")
    if head[:16] != b"SQLite format 3\0" or head[68:72] != b"FTRl":
        stop(8, f"{path} is not a ledger")
    if int.from_bytes(head[60:64], "big") > 1:
        stop(17, f"{path} has a newer format than this program knows")
    if os.path.lexists(f"{path}-wal") or 2 in head[18:20] or sqlite3.sqlite_version_info < (3, 31):
        stop(8, f"{path}: write-ahead mode, or SQLite older than 3.31; ask for a .jsonl copy")
    journal, uri = Path(f"{path}-journal"), path.as_uri() + "?mode=ro&immutable=1"
    with tempfile.TemporaryDirectory() as folder:
        if journal.exists() and journal.stat().st_size:
            print("note      a commit was killed half-way: read as SQLite undoes it, in a copy")
            copies = [shutil.copyfile(one, Path(folder, one.name)) for one in (path, journal)]
            uri = copies[0].as_uri()
        with closing(sqlite3.connect(uri, uri=True)) as database:
            try:
                yield from checked_rows(database, ledger)
            except (sqlite3.Error, UnicodeDecodeError) as error:
                ledger.find("bytes", "unreadable", None, "a readable database", error)


def checked_rows(database: sqlite3.Connection, ledger: Ledger):
    """Yields each row's entry; finds what is wrong with schema, rows and structure."""
    database.execute("PRAGMA cell_size_check=ON")
    objects = "SELECT name, type, coalesce(sql, '') FROM sqlite_master WHERE name NOT IN"
    every = database.execute(objects + " ('sqlite_stat1', 'sqlite_stat4') ORDER BY name").fetchall()
    found = sha256(json.dumps(every).encode()).hexdigest()
    found = [found, *database.execute("PRAGMA user_version"), *database.execute("PRAGMA encoding")]
    if found != [SCHEMA, (1,), ("UTF-8",)]:
        ledger.find("bytes", "schema", None, f"{SCHEMA}, 1, UTF-8", found)
    rows = "seq, leaf, typeof(entry), coalesce(CAST(entry AS BLOB), x'') FROM entry ORDER BY seq"
    for place, (seq, leaf, kind, data) in enumerate(database.execute(f"SELECT {rows}")):
        if (seq, kind, leaf) != (place, "text", sha256(b"\0" + data).digest()):
            ledger.find("bytes", "wrong_row", place, "its text and leaf", f"{seq} {kind} {leaf!r}")
        yield data
    for (message,) in sorted({*database.execute("PRAGMA integrity_check")} - {("ok",)}):
        ledger.find("bytes", "structure", None, "ok", message)


def roots_at(leaves: bytes, sizes: set[int]) -> dict[int, str]:
    """Returns the root of the tree over the first leaves, for each size that there is."""
    stack, roots = [], {0: sha256(b"").hexdigest()}
    for size, (node,) in enumerate(struct.iter_unpack("32s", leaves), 1):
        for _ in range((size & -size).bit_length() - 1):
            node = sha256(b"\1" + stack.pop() + node).digest()
        stack.append(node)
        if size in sizes:
            for left in stack[-2::-1]:
                node = sha256(b"\1" + left + node).digest()
            roots[size] = node.hex()
    return roots


class Ledger:
    """What is known of a ledger, and what is wrong with it."""

    def __init__(self) -> None:
        self.name = self.origin = self.clock = ""
        self.kept, self.found, self.words, self.leaves = [], 0, set(), bytearray()
        self.slots, self.erased, self.needed = set(), set(), set()
        self.blobs, self.waiting, self.ids, self.sealed = {}, [], 0, False

    def find(self, level: str, code: str, seq: int | None, expected, found) -> None:
        """Adds a finding, past the first ones only their number; shows no control characters."""
        self.words.add(code if code in EXIT else "corrupt")
        self.found += 1
        if self.found <= 50:
            shown = [re.sub(r"[^ -~]", "?", str(each)[:200]) for each in (expected, found)]
            self.kept.append((level, code, "the ledger" if seq is None else f"entry {seq}", *shown))

    def take(self, seq: int, data: bytes, ids_max: int) -> None:
        """Checks one entry; notes what needs other entries or files."""
        match, before = HEADER.match(data), self.leaves[-32:].hex() if seq else "0" * 64
        self.leaves += sha256(b"\0" + data).digest()
        if not match or data[-1:] != b"}" or len(data) > 65_535 or b"\n" in data:
            return self.find("bytes", "not_an_entry", seq, "an entry in its one form", data[:80])
        name, place, prev, clock, event_id = (part.decode() for part in match.groups())
        self.name, event = self.name or name, data[match.end() : -1]
        if (place, name, prev) != (str(seq), self.name, before):
            wanted = f"entry {seq} of {self.name} after {before}"
            self.find("bytes", "broken_chain", seq, wanted, f"entry {place} of {name} after {prev}")
        if clock < self.clock:
            print(f"note      the clock steps back at entry {seq}")
        self.clock = clock
        self.waiting += [(seq, event_id, event)] if seq < ids_max else []
        if len(self.waiting) == 512:
            self.check_ids()
        return self.take_event(seq, event)

    def take_event(self, seq: int, data: bytes) -> None:
        """Checks one event; notes its slot and the blobs that it names."""
        try:
            event = parse_event(data)
            kind = event["kind"].partition("/")[0]
            slot = hash((event["experiment"], int(event["position"]), kind, int(event["number"])))
            datetime.fromisoformat(self.clock[:-1])
            self.sealed |= isinstance(event.get("sealed"), str)
            self.origin = event["origin"] if kind == "open" else self.origin
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            return self.find("bytes", "noncanonical", seq, "an event in its one form", error)
        if event["kind"] not in KNOWN or (kind == "open" and event["format"] != "fairtrial/1"):
            self.find("rules", "newer", seq, "a kind of format 1", event["kind"])
        if slot in self.slots:
            self.find("bytes", "slot_taken", seq, "a slot filled once", data[:120])
        self.slots.add(slot)
        named = {d.decode(): (int(size), b.decode()) for size, b, d in BLOB.findall(data)}
        wrong = self.erased & named.keys() if kind in (*KEPT, "result") else set()
        if kind == "redact":  # what is named inside a sealed blob can't be seen here
            unnamed = {d for d in named if self.blobs.get(d, ())[:2] != named[d]}
            wrong = self.needed & named.keys() | (set() if self.sealed else unnamed)
        for digest in wrong:
            self.find("rules", "redacted", seq, "what isn't erased, or may be", digest)
        (self.erased if kind == "redact" else self.needed if kind in KEPT else set()).update(named)
        self.blobs.update((d, (*named[d], seq)) for d in named.keys() - self.blobs.keys())
        return None

    def check_ids(self) -> None:
        """Compares the ids of the events that wait for it with the hashes of their bytes."""
        key = blake3_each(IV, [b"fairtrial 2026-12-01 event id v1"], KEY)[0]
        hashes = blake3_each(key, [event for _, _, event in self.waiting], MATERIAL)
        for (seq, said, _), words in zip(self.waiting, hashes):
            if said != (expected := "b3:" + struct.pack("<8I", *words).hex()):
                self.find("bytes", "wrong_id", seq, expected, said)
        self.ids, self.waiting = self.ids + len(self.waiting), []

    def check_blobs(self, folder: Path) -> str:
        """Compares the blobs in a folder with their SHA-256; returns a summary."""
        packed, kept = {}, 0
        for pack in filter(os.path.isfile, sorted(folder.glob("packs/*.pack"))):
            with pack.open("rb") as file:
                for name, size in PACKED.findall(file.readline(1 << 26)):
                    part = file.read(min(int(size), 65_537))
                    packed[name.decode()] = len(part), sha256(part).hexdigest()
        for digest, (size, name, seq) in self.blobs.items():
            data = file.read_bytes() if os.path.isfile(file := folder / name[:2] / name) else None
            here = packed.get(name) if data is None else (len(data), sha256(data).hexdigest())
            if here == (size, digest):
                kept += 1
            elif digest not in self.erased:
                self.find("files", "files_differ", seq, f"blob {name}, SHA-256 {digest}", here)
        return f"{kept:,} of {len(self.blobs):,} by SHA-256, {len(self.erased):,} erased on record"

    def judge(self, claims) -> tuple[int, list[str]]:
        """Compares the heads that were brought; returns how far they vouch, and by what."""
        covered, sources, size = 0, [], len(self.leaves) // 32
        roots = roots_at(self.leaves, {claim[1] for claim in claims})
        for name, at, root, source in sorted(claims, key=lambda claim: claim[1]):
            if name != self.name or roots.get(at) != root:
                code = "rolled_back" if name == self.name and at > size else "forked"
                found = f"{self.name}, size {size}, root {roots.get(at, 'unknown')}"
                self.find("anchors", code, None, f"{source}: {name}, size {at}, root {root}", found)
            else:
                covered = covered if "NOT COUNTED" in source else at
                sources.append(ODD.sub("?", f"{source} (entries 0-{at - 1:,})"))
        return covered, sources


def claims_of(ledger: Ledger, brought: list[str], side: Path) -> list[tuple[str, int, str, str]]:
    """Returns the heads that the caller brings: ledger, size, root, and what says so."""
    claims = []
    for each in brought:
        is_file = os.path.isfile(each)
        text = Path(each).read_text("utf-8", "replace") if is_file else each
        source = f"{Path(each).name} given by you" if is_file else "receipt given by you"
        if is_file and side.resolve() in Path(each).resolve().parents:
            source = f"{Path(each).name} beside the ledger: its own word, NOT COUNTED"
        found = RECEIPT.findall(text)
        for origin, size, root in NOTE.findall(text):
            source += " (a checkpoint, signature NOT checked)"
            found.append((ledger.name if origin == ledger.origin else origin, size, root))
        if not found:
            stop(3, f"neither a receipt nor a checkpoint: {each[:80]!r}")
        claims += [(a, int(b), base64.b64decode(c).hex(), source) for a, b, c in found]
    return claims


def main(arguments: list[str] | None = None) -> int:
    """Carries out the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ledger", type=Path)
    parser.add_argument("--against", "--checkpoint", action="append", default=[], metavar="HEAD")
    parser.add_argument("--ids", type=int, default=200_000, help="compute at most so many ids")
    given, ledger, size = parser.parse_args(arguments), Ledger(), 0
    path, side = given.ledger, Path(f"{given.ledger}.d")
    if not os.path.isfile(path):
        stop(8, f"there is no ledger at {str(path.absolute())[:300]}")
    for size, data in enumerate((rows_of, lines_of)[path.suffix == ".jsonl"](path, ledger), 1):
        ledger.take(size - 1, data, given.ids)
    ledger.check_ids()
    if not size:
        ledger.find("bytes", "empty", None, "at least an `open`", "no entry")
    covered, sources = ledger.judge(claims_of(ledger, given.against, side))
    blobs = ledger.check_blobs(side / "blobs")
    word = next((word for word in EXIT if word in ledger.words), "intact")
    root = base64.b64encode(bytes.fromhex(roots_at(ledger.leaves, {size})[size])).decode()
    count = f"{size:,} entr{'y' if size == 1 else 'ies'}, {ledger.found:,} finding"
    print(f"record    {count}{'s' * (ledger.found != 1)}, root {root}")
    for level, code, where, expected, found in ledger.kept:
        print(f"finding   {where}: {code} ({level})\n  expected  {expected}\n  found     {found}")
    by = "; ".join(sources) or ("nothing given agrees" if given.against else "nothing was given")
    print(f"against   {by}\nids       {ledger.ids:,} of {size:,} computed\nblobs     {blobs}")
    end = f"ANCHORED{'' if covered == size else ' IN PART'} by {by}"
    end += f"; entries {covered:,}-{size - 1:,} aren't vouched for" if covered < size else ""
    none = "UNANCHORED: nothing outside this ledger vouches for it (--against RECEIPT)"
    bad = f"{word.replace('_', ' ').upper()}: not to be relied on"
    print(f"INTACT, {end if covered else none}" if word == "intact" else bad)
    print("not checked: rules, numbers, signatures, files.  pip install fairtrial; ledger replay")
    return EXIT.get(word, 0)


if __name__ == "__main__":
    sys.exit(main())

"""Trust policies: which logs and witnesses are known, and how many of them have to agree. Pure.

Leaves signatures to `checkpoint.py`.

Rules:
- Lines `log VKEY [URL]`, `witness NAME VKEY [URL]`, `group NAME all|any|K MEMBER...`, one `quorum
  NAME|none`; a name is defined before it is used, and is a member of at most one group.
- A key stands for one log or one witness, however it is named.
- A key that this version can't verify is refused: a quorum that nobody can check is none.

Source:
    C2SP tlog-policy (draft of 2026).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import NamedTuple

from .errors import RefusedError
from .note import COSIGNATURE, ED25519, VerifierKey, parse_vkey

__all__ = ("POLICY_BYTES_MAX", "Group", "Policy", "parse_policy")

POLICY_BYTES_MAX = 1 << 20
# Groups may nest, each in the one below it; the format asks for 32 at least.
GROUPS_MAX = 256
NO_QUORUM = "none"
_COUNT = re.compile(r"[1-9][0-9]{0,3}", re.ASCII)


class Group(NamedTuple):
    """Members of whom at least `needed` have to agree."""

    needed: int
    members: tuple[str, ...]


class Policy(NamedTuple):
    """A parsed policy; `quorum` is a witness, a group or `none`."""

    logs: tuple[VerifierKey, ...]
    witnesses: dict[str, VerifierKey]
    groups: dict[str, Group]
    quorum: str
    urls: dict[str, str]

    def has_quorum(self) -> bool:
        """Returns whether the policy asks for any witness at all."""
        return self.quorum != NO_QUORUM

    def is_met(self, keys: Collection[VerifierKey]) -> bool:
        """Returns whether the witnesses among these keys are a quorum; without one, always."""
        return not self.has_quorum() or self._agrees(self.quorum, keys)

    def _agrees(self, name: str, keys: Collection[VerifierKey]) -> bool:
        if name in self.witnesses:
            return self.witnesses[name] in keys
        group = self.groups[name]
        return sum(self._agrees(member, keys) for member in group.members) >= group.needed


class _Draft:
    """A policy as far as it is read."""

    def __init__(self) -> None:
        self.logs: list[VerifierKey] = []
        self.witnesses: dict[str, VerifierKey] = {}
        self.groups: dict[str, Group] = {}
        self.members: set[str] = set()
        self.urls: dict[str, str] = {}
        self.quorum: str | None = None

    def log(self, vkey: str, url: str = "") -> None:
        key = _key(vkey, ED25519, "a log")
        _require(all(key.key != other.key for other in self.logs), "this log stands twice")
        self.logs.append(key)
        self.urls |= {key.name: url} if url else {}

    def witness(self, name: str, vkey: str, url: str = "") -> None:
        key = _key(vkey, COSIGNATURE, "a witness")
        self._check_new(name)
        known = self.witnesses.values()
        _require(all(key.key != other.key for other in known), "this key is a witness already")
        self.witnesses[name] = key
        self.urls |= {name: url} if url else {}

    def group(self, name: str, needed: str, *members: str) -> None:
        self._check_new(name)
        _require(len(self.groups) < GROUPS_MAX, f"more than {GROUPS_MAX} groups")
        for member in members:
            self._check_known(member)
            _require(member not in self.members, f"{member} is a member already")
            self.members.add(member)
        words = {"any": 1, "all": len(members)}
        _require(needed in words or _COUNT.fullmatch(needed) is not None, "no such number")
        least = words[needed] if needed in words else int(needed)
        _require(1 <= least <= len(members), f"{least} of {len(members)} can't be had")
        self.groups[name] = Group(least, members)

    def set_quorum(self, name: str) -> None:
        _require(self.quorum is None, "there is one quorum")
        if name != NO_QUORUM:
            self._check_known(name)
        self.quorum = name

    def _check_new(self, name: str) -> None:
        taken = name == NO_QUORUM or name in self.witnesses or name in self.groups
        _require(not taken, f"the name {name} is taken")

    def _check_known(self, name: str) -> None:
        _require(name in self.witnesses or name in self.groups, f"{name} isn't defined before")


def parse_policy(data: bytes) -> Policy:
    """Returns the policy in a file.

    Raises:
        RefusedError: A line isn't acceptable; names it.
    """
    if len(data) > POLICY_BYTES_MAX:
        raise RefusedError(
            "the policy is too large",
            expected=f"at most {POLICY_BYTES_MAX:,} bytes",
            found=f"{len(data):,} bytes",
            todo="name a policy file: lines log, witness, group, quorum",
        )
    draft = _Draft()
    acts: dict[str, tuple[Callable[..., None], range]] = {
        "log": (draft.log, range(1, 3)),
        "witness": (draft.witness, range(2, 4)),
        "group": (draft.group, range(3, 1000)),
        "quorum": (draft.set_quorum, range(1, 2)),
    }
    for number, line in enumerate(_decode(data).split("\n"), start=1):
        word, *rest = re.split("[ \t]+", line.strip(" \t"))
        if not word or word.startswith("#"):
            continue
        act, count = acts.get(word, (None, range(0)))
        try:
            if act is None or len(rest) not in count:
                raise RefusedError("no such line", expected="log, witness, group or quorum")
            act(*rest)
        except RefusedError as error:
            error.where = f"policy, line {number}"
            error.found = error.found or line.strip()[:200]
            error.todo = error.todo or "correct the line"
            raise
    if draft.quorum is None:
        raise RefusedError(
            "a policy has one line `quorum`",
            expected="quorum NAME, or quorum none",
            found="no such line",
            todo="add it at the end of the policy",
        )
    return Policy(tuple(draft.logs), draft.witnesses, draft.groups, draft.quorum, draft.urls)


def _decode(data: bytes) -> str:
    text = data.decode("utf-8", "surrogateescape")
    for number, line in enumerate(text.split("\n"), start=1):
        if any((ord(one) < 0x20 and one != "\t") or ord(one) == 0x7F for one in line):
            raise RefusedError(
                "a policy holds a control character",
                where=f"policy, line {number}",
                expected="text and tabs",
                found=repr(line[:80]),
                todo="take it out",
            )
    return text


def _key(vkey: str, type_: int, whose: str) -> VerifierKey:
    key = parse_vkey(vkey)
    _require(key.type == type_, f"the key of {whose} has another type", f"type {type_}")
    return key


def _require(condition: bool, what: str, expected: str = "") -> None:
    if not condition:
        raise RefusedError(what, expected=expected)

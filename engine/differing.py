"""Holds what a ledger says against what is computed again, leaf by leaf. Pure.

Leaves computing to `recomputing.py`, and what a difference is called to it too.

Rules:
- Codes, numbers, names and structure are compared: floats within the tolerances below, everything
  else exactly. What a person wrote (a note, an amendment's reason) is a quotation: compared too.
- Of a sentence that this project words itself, whether there is one is compared. Other words are
  a difference of a lower kind: later versions may say the same better.
- In a list of warnings no code stands beside a sentence, so one more or less is of that kind too.
- What was added after the numbers got their name is compared where it stands; where it doesn't,
  that is of a kind of its own. So is a member that is null and isn't there.
- A place that isn't named below is compared exactly. A list is no object, whatever it holds: who
  reads its items would be shown names.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Literal, NamedTuple, TypeAlias

import msgspec

__all__ = ("ABSOLUTE_TOLERANCE", "RELATIVE_TOLERANCE", "Difference", "differences")

# Numbers of another numpy or another processor agree with the recorded ones within these.
RELATIVE_TOLERANCE = 1e-9
ABSOLUTE_TOLERANCE = 1e-12

_NOTHING = "no such member"
Kind: TypeAlias = Literal["differs", "words", "unsaid"]
Path: TypeAlias = tuple[str, ...]


class Difference(NamedTuple):
    """One place at which two values differ.

    `kind` is differs; words where only a sentence is another; unsaid where an addition is lacking.
    """

    path: str
    expected: str
    found: str
    kind: Kind


def _paths(*texts: str) -> tuple[Path, ...]:
    return tuple(tuple(text.split(".")) for text in texts)


_ENDPOINTS = (
    "detail.comparisons.*.endpoints.*",
    "detail.comparisons.*.without_invalidated.endpoints.*",
)
# Sentences and nouns that this project words itself; a star is any one member.
_SENTENCES = _paths(
    "reason",
    "comparisons.*.endpoints.*.undetermined",
    "detail.reason",
    "detail.units.noun",
    "detail.units.cluster_noun",
    "detail.comparisons.*.reason",
    "detail.comparisons.*.assigned.noun",
    "detail.comparisons.*.diagnostics.*.text",
    "detail.rule.arms.*.thresholds.*.why_not",
    "power.refused.*",
    *(
        f"{endpoint}.{member}"
        for endpoint in _ENDPOINTS
        for member in ("undetermined", "tests.*.undetermined", "saving.why_not")
    ),
)
_WARNINGS = _paths("detail.warnings", "power.warnings", f"{_ENDPOINTS[0]}.warnings")

# Added after the numbers that they stand beside got their names.
_DIAGNOSES = _paths("detail.comparisons.*.diagnostics.*")
_ADDED_DIAGNOSES = ("skewed_saving",)
_ADDED = _paths("power.saving_error")


def differences(expected: object, found: object, path: str = "") -> Iterator[Difference]:
    """Yields the places at which what is found differs from what is expected.

    Args:
        expected: what was computed again.
        found: what is on record.
        path: where both stand in an event or in what it names; "" for the event itself.
    """
    yield from _differences(expected, found, tuple(path.split(".")) if path else ())


def _differences(expected: object, found: object, path: Path) -> Iterator[Difference]:
    if isinstance(expected, str) and isinstance(found, str) and _is_any(path, _SENTENCES):
        if expected != found:
            yield _difference(path, expected, found, "words")
        return
    old, new = _members(expected), _members(found)
    if old is None or new is None or _is_list(expected) is not _is_list(found):
        if not _same(expected, found):
            yield _difference(path, expected, found, "differs")
        return
    if _is_any(path, _WARNINGS):
        yield from _warnings(list(old.values()), list(new.values()), path)
        return
    for key in sorted(old.keys() | new.keys()):
        inner = (*path, key)
        if key in old and key in new:
            yield from _differences(old[key], new[key], inner)
        elif key in new:
            yield _difference(inner, _NOTHING, new[key], "differs")
        else:
            is_null = old[key] is None and not isinstance(found, (list, tuple))
            kind: Kind = "unsaid" if is_null or _is_added(old[key], inner) else "differs"
            yield _difference(inner, old[key], _NOTHING, kind)


def _warnings(old: Sequence[object], new: Sequence[object], path: Path) -> Iterator[Difference]:
    """Yields which sentences only one of two lists has, whatever their order."""
    if not all(isinstance(one, str) for one in new):
        yield _difference(path, old, new, "differs")
        return
    lacking = Counter(map(str, old)) - Counter(map(str, new))
    more = Counter(map(str, new)) - Counter(map(str, old))
    for one, other in zip_longest(lacking.elements(), more.elements()):
        yield _difference(path, one, other, "words")


def _is_added(value: object, path: Path) -> bool:
    if _is_any(path, _DIAGNOSES):
        return isinstance(value, dict) and value.get("name") in _ADDED_DIAGNOSES
    return _is_any(path, _ADDED)


def _is_any(path: Path, patterns: Sequence[Path]) -> bool:
    return any(
        len(path) == len(pattern)
        and all(want in ("*", have) for have, want in zip(path, pattern, strict=True))
        for pattern in patterns
    )


def _difference(path: Path, expected: object, found: object, kind: Kind) -> Difference:
    return Difference(".".join(path), _shown(expected, found), _shown(found, expected), kind)


def _members(value: object) -> dict[str, object] | None:
    """Returns the members of a container by name or index, None for anything else."""
    if isinstance(value, msgspec.Struct):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {str(key): item for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return {str(index): item for index, item in enumerate(value)}
    return None


def _is_list(value: object) -> bool:
    return isinstance(value, (tuple, list))


def _shown(value: object, other: object) -> str:
    """Returns a value for a finding; of two long texts the part in which they part."""
    if not isinstance(value, str) or not isinstance(other, str) or len(value) < 200:
        return repr(value)
    pairs = zip(value, other, strict=False)
    place = next((i for i, (one, two) in enumerate(pairs) if one != two), 0)
    return f"…{value[max(0, place - 40) : place + 120]}…"


def _same(expected: object, found: object) -> bool:
    if isinstance(expected, float) and isinstance(found, float):
        return math.isclose(expected, found, rel_tol=RELATIVE_TOLERANCE, abs_tol=ABSOLUTE_TOLERANCE)
    return type(expected) is type(found) and expected == found

"""Old versions of events as their newest, in memory: what a fold sees is always of today.

Leaves the bytes of every version to `events.py` and `canonical.py`, which read them for ever.

Rules:
- A step leads from one version of a kind to the next one, is a pure function of the event alone and
  takes every event of its version; steps are chained, never skipped.
- Every version but the newest has its step, or nothing starts: the gap isn't found by a replay.
- An upcast event has no bytes, no id and no place of its own: those stay the entry's, and an event
  of an old version is never written again.
- A new version that can't be derived from the old one is another kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar, cast

import msgspec

__all__ = ("STEPS", "Step", "Upcasts")

# Any: a step takes its own version of a kind, and all steps are kept together.
Step: TypeAlias = Callable[[Any], msgspec.Struct]
_Event = TypeVar("_Event")

# By the old version, such as `decision/1`. No kind has a second version yet.
STEPS: Mapping[str, Step] = MappingProxyType({})


class Upcasts:
    """The steps between all versions of all kinds.

    Args:
        kinds: Every kind with its version, and its type.
        steps: The step from each version that isn't the newest.

    Raises:
        ValueError: A step is missing, or leads from something that isn't an old version.
    """

    def __init__(self, kinds: Mapping[str, type], steps: Mapping[str, Step]) -> None:
        following = {old: new for old in kinds if (new := _next(old)) in kinds}
        for kind in kinds:
            name, _, version = kind.partition("/")
            if version != "1" and f"{name}/{int(version) - 1}" not in kinds:
                raise ValueError(f"{kind}: the version before it isn't known any more")
        if set(following) != set(steps):
            raise ValueError(
                f"steps lead from {sorted(steps)}, versions to leave are {sorted(following)}"
            )
        self._steps = {kinds[old]: (steps[old], kinds[new]) for old, new in following.items()}

    def is_old(self, cls: type) -> bool:
        """Returns whether a newer version of an event's class is known."""
        return cls in self._steps

    def all_newest(self, events: list[_Event]) -> list[_Event]:
        """Returns events as `newest` returns each."""
        return [self.newest(event) for event in events] if self._steps else events

    def newest(self, event: _Event) -> _Event:
        """Returns an event as its newest version; itself where it is of that one."""
        found: object = event
        while (step := self._steps.get(type(found))) is not None:
            upcast, cls = step
            found = upcast(found)
            assert type(found) is cls, f"a step to {cls.__name__} made a {type(found).__name__}"
        return cast("_Event", found)


def _next(kind: str) -> str:
    name, _, version = kind.partition("/")
    return f"{name}/{int(version) + 1}"

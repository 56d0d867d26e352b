"""What makes a result other than registered: old outcomes, amendments, arms unblinded early. Pure.

Leaves the record of each to the fold, and words for people to the verbs.

Rules:
- Outcomes of recorded and imported arms existed before the protocol: nothing is said of those.
- An answer from the cache is live.
- An amendment of class analysis, or unblinding before the data are complete, is a deviation that
  ends "as registered"; an operational amendment is named and doesn't.
- The fold, the status, the story of a replay and the result ask the same functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .events import Origin
from .state import AmendNote, Experiment

__all__ = ("amended_sections", "existed_before", "is_as_registered", "is_early", "origins_of")


def origins_of(known: Experiment) -> dict[str, Origin]:
    """Returns where the outcomes of each frozen arm come from."""
    return {arm.name: arm.origin for arm in known.arms}


def existed_before(origins: Mapping[str, Origin]) -> tuple[str, ...]:
    """Returns the arms whose outcomes existed before the protocol, sorted."""
    return tuple(name for name in sorted(origins) if origins[name] in ("recorded", "imported"))


def amended_sections(amends: Iterable[AmendNote]) -> tuple[str, ...]:
    """Returns the sections that amendments of class analysis changed, sorted."""
    sections = {name for note in amends if note.class_ == "analysis" for name in note.sections}
    return tuple(sorted(sections - {"about", "budget"}))


def is_early(continues: bool | None, *, withdrawn: bool) -> bool:
    """Returns whether arms that are unblinded now are so before the data are complete.

    Args:
        continues: the run went on after the newest look, which it never does after the last one;
            None before the first.
        withdrawn: the experiment was, and no outcome is to come.
    """
    return continues is not False and not withdrawn


def is_as_registered(
    origins: Mapping[str, Origin], amends: Iterable[AmendNote], *, unblinded_early: bool
) -> bool | None:
    """Returns whether a result is as registered; None where outcomes existed before.

    Args:
        origins: where each arm's outcomes come from.
        amends: amendments so far.
        unblinded_early: the arms were unblinded before the data were complete.
    """
    if existed_before(origins):
        return None
    return not (unblinded_early or any(note.class_ == "analysis" for note in amends))

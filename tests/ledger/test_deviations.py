"""As registered is one question: old outcomes, amendments of the analysis, unblinding early."""

from __future__ import annotations

import pytest

from fairtrial.ledger.deviations import amended_sections, existed_before, is_as_registered
from fairtrial.ledger.errors import TransitionError
from fairtrial.ledger.state import AmendNote

from .fold_bench import Bench
from .fold_drafts import make_arm, make_design

RECORDED = make_design(2, arms=(make_arm("a", "recorded"),))


def note(class_: str, *sections: str) -> AmendNote:
    """Returns one amendment."""
    return AmendNote(
        seq=5, class_=class_, sections=sections, fields=(), outcomes=3, looks_taken=0, reason="why"
    )


@pytest.mark.parametrize(
    ("origins", "amends", "early", "expected"),
    [
        (("live", "cached"), (), False, True),
        (("live", "live"), (note("operational", "budget"),), False, True),
        (("live", "live"), (note("analysis", "decision"),), False, False),
        (("live", "live"), (), True, False),
        (("live", "recorded"), (), False, None),
        (("imported", "live"), (note("analysis", "decision"),), True, None),
    ],
)
def test_as_registered_weighs_all_three(
    origins: tuple[str, str], amends: tuple[AmendNote, ...], early: bool, expected: bool | None
) -> None:
    """True of live outcomes under the plan alone; None where outcomes came before it."""
    found = dict(zip("AB", origins, strict=True))
    assert expected is is_as_registered(found, amends, unblinded_early=early)  # type: ignore[arg-type]  # parametrised origins are plain strings


def test_sections_are_those_of_the_analysis() -> None:
    """An operational amendment names none; a section is named once, in order."""
    amends = (note("operational", "budget"), note("analysis", "missing", "budget", "decision"))
    assert ("decision", "missing") == amended_sections((*amends, *amends))
    assert ("b", "c") == existed_before({"c": "imported", "a": "cached", "b": "recorded"})


def test_fold_refuses_what_the_functions_deny() -> None:
    """A result of outcomes that existed before can't be put on record as registered."""
    ended = Bench().running(RECORDED).looked().idle()
    with pytest.raises(TransitionError, match="isn't as registered"):
        ended.do("result", as_registered=True)

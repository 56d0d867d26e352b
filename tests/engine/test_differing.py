"""What replay compares, and of what it only says that the words are others."""

from __future__ import annotations

import pytest

from fairtrial.engine.differing import Difference, differences

ENDPOINT = "detail.comparisons.0.endpoints.0"


def _nested(path: str, value: object) -> object:
    """Returns a value at a place, in lists where the place is a number."""
    for key in reversed(path.split(".")):
        value = [value] if key == "0" else {key: value}
    return value


def _kinds(path: str, expected: object, found: object) -> list[str]:
    each = differences(_nested(path, expected), _nested(path, found))
    return [one.kind for one in each]


@pytest.mark.parametrize(
    "path",
    [
        "reason",
        "comparisons.0.endpoints.0.undetermined",
        "detail.comparisons.0.reason",
        "detail.comparisons.0.diagnostics.0.text",
        f"{ENDPOINT}.undetermined",
        f"{ENDPOINT}.tests.sign_flip.undetermined",
        f"{ENDPOINT}.saving.why_not",
        "detail.comparisons.0.without_invalidated.endpoints.0.undetermined",
        "detail.rule.arms.A.thresholds.0.why_not",
        "power.refused.underpowered",
    ],
)
def test_sentence_is_told_from_another_and_never_from_none(path: str) -> None:
    """Other words are other words; a sentence too many or too few is a difference."""
    assert [] == _kinds(path, "too few", "too few")
    assert ["words"] == _kinds(path, "too few", "not enough")
    assert ["differs"] == _kinds(path, None, "not enough")
    assert ["differs"] == _kinds(path, "too few", None)
    assert ["differs"] == _kinds(path, "too few", 3)


@pytest.mark.parametrize(
    "path",
    [
        "reason_code",
        "detail.reason_code",
        "detail.stop_note",
        "detail.labels.A",
        "detail.deviations.0.reason",
        "detail.comparisons.0.name",
        "detail.comparisons.0.diagnostics.0.name",
        f"{ENDPOINT}.why_not.0",
        f"{ENDPOINT}.interval.method",
        "power.accepted.underpowered",
        "comparisons.0.reason",
        "detail.comparisons.0.endpoints.0.reason",
    ],
)
def test_code_name_or_quotation_is_compared(path: str) -> None:
    """What isn't worded here, and what stands where no sentence is known, is as it is."""
    assert ["differs"] == _kinds(path, "one", "other")


@pytest.mark.parametrize("path", ["detail.warnings", "power.warnings", f"{ENDPOINT}.warnings"])
def test_warnings_are_told_apart_in_any_order(path: str) -> None:
    """Each sentence that only one list has is said; a list of other things is a difference."""
    assert [] == _kinds(path, ["a", "b"], ["b", "a"])
    assert ["words", "words"] == _kinds(path, ["a", "b"], ["b", "c", "d"])
    assert ["words"] == _kinds(path, ["a", "a"], ["a"])
    assert ["differs"] == _kinds(path, ["a"], [{"a": 1}])
    assert ["differs"] == _kinds(path, ["a"], None)


def test_addition_may_lack_and_not_be_another() -> None:
    """An entry or member that older numbers don't have isn't missed, but read where it stands."""
    added = {"name": "skewed_saving", "value": 1.0}
    known = {"name": "time_drift", "value": 1.0}
    path = "detail.comparisons"
    (lacking,) = differences([{"diagnostics": [known, added]}], [{"diagnostics": [known]}], path)
    assert ("unsaid", "detail.comparisons.0.diagnostics.1") == (lacking.kind, lacking.path)
    (other,) = differences([{"diagnostics": [added]}], [{"diagnostics": [known]}], path)
    assert ("differs", "detail.comparisons.0.diagnostics.0.name") == (other.kind, other.path)
    (dropped,) = differences([{"diagnostics": [known]}], [{"diagnostics": []}], path)
    assert "differs" == dropped.kind
    (more,) = differences([{"diagnostics": [known]}], [{"diagnostics": [known, added]}], path)
    assert "differs" == more.kind


def test_floats_agree_within_the_tolerance() -> None:
    """Another processor's last digits are no difference; a whole number is no float."""
    assert [] == list(differences({"x": 1.0}, {"x": 1.0 + 1e-12}))
    found = differences({"x": 1.0}, {"x": 1.00001}, "detail")
    assert [Difference("detail.x", "1.0", "1.00001", "differs")] == list(found)
    assert ["differs"] == [one.kind for one in differences([1.0], [1])]


def test_member_that_is_null_is_not_one_that_is_not_there() -> None:
    """A null that lacks is said; one too many, and an item of a list, is a difference."""
    (lacking,) = differences({"note": None, "n": 1}, {"n": 1}, "detail")
    assert ("unsaid", "detail.note") == (lacking.kind, lacking.path)
    (more,) = differences({"n": 1}, {"note": None, "n": 1}, "detail")
    assert ("differs", "detail.note") == (more.kind, more.path)
    assert more.expected != more.found
    assert ["differs"] == [one.kind for one in differences([None], [], "detail")]
    assert ["differs"] == [one.kind for one in differences([], [None], "detail")]

"""A file of assumptions says all that is asked for, and nothing that would not be used."""

from __future__ import annotations

from typing import Any

import pytest

from fairtrial.engine.assumptions_file import Stated, parse_assumptions
from fairtrial.ledger.errors import ProtocolError

EXCLUDED = (
    "{rules: {failed: exclude_pair, timeout: exclude_pair, limit: exclude_pair, error: "
    "exclude_pair, ungraded: exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair}, "
    "limit: 0.2}"
)
ENDPOINTS = (
    "[{name: passed, role: primary, type: binary, value: passed, better: higher}, "
    "{name: usd, role: secondary, type: cost, value: usd, better: lower, scale: %s}]"
)
SAVED = "{rule: non_inferiority, margin: 0.1, saving: {endpoint: usd, at_least: 0.2}}"
LOG = "{scale: log, ratio: 0.7, sd: 0.5, icc: 0.1, level: {sd: 0.8, icc: 0.3}}"


def parsed(bridge: Any, text: str, *, scale: str = "both", **sections: str) -> Stated:
    """Returns what a file says of a protocol with a saving."""
    sections = {
        "endpoints": ENDPOINTS % scale,
        "missing": EXCLUDED,
        "decision": SAVED,
        **sections,
    }
    protocol = bridge.protocol(**sections)
    data = f"assumptions: 1\nsource: a test\n{text}".encode()
    return parse_assumptions(data, protocol, name="assume.yaml", media="yaml")


def refused(bridge: Any, text: str, **options: str) -> str:
    """Returns what is said of a file that isn't acceptable."""
    with pytest.raises(ProtocolError) as error:
        parsed(bridge, text, **options)
    return str(error.value)


def test_a_whole_file_is_read(bridge: Any) -> None:
    """A saving of all comparisons, and what one comparison states for itself."""
    text = f"saving: {LOG}\ncomparisons: {{B: {{effect: -0.02, discordance: 0.2, icc: 0.05}}}}"
    found = parsed(bridge, text)
    assert found.saving is not None
    assert ("log", 0.7, 0.3) == (found.saving.scale, found.saving.ratio, found.saving.level.icc)
    own = found.comparisons["B"]
    assert (-0.02, 0.2, 0.05, None) == (own.effect, own.discordance, own.icc, own.missing)


@pytest.mark.parametrize(
    ("text", "words", "options"),
    [
        ("saving: {scale: log, ratio: 0.7}", "saving.sd: the field is missing", {}),
        ("saving: {scale: log, ratio: 0.7, sd: 1, icc: 0}", "saving.level.sd: the field", {}),
        ("saving: {scale: log, ratio: 0.7, sd: 1, icc: 0}", "saving.level.icc: the field", {}),
        (f"saving: {LOG}", "saving.level.sd: nothing depends on it here", {"scale": "log"}),
        (f"saving: {LOG}", "saving.level.mean: the field is missing",
         {"scale": "both, missing: {error: 0.5}"}),
        (f"saving: {LOG.replace('log', 'raw')}", "saving.scale: a claim on usd holds on", {}),
        ("saving: {scale: log, ratio: 0, sd: 1}", "saving.ratio: the value is not", {}),
        (f"saving: {LOG}", "saving: the protocol asks for no saving",
         {"decision": "{rule: superiority}"}),
        ("comparisons: {C: {effect: 0.1}}", "comparisons.C: there is no such comparison", {}),
        ("comparisons: {B: {discordance: 0.2}}", "comparisons.B.icc: the field is missing", {}),
        ("comparisons: {B: {sd: 1, discordance: 0.2, icc: 0}}", "two ways to say one thing", {}),
        ("comparisons: {B: {icc: 0.2}}", "comparisons.B.icc: icc is given without a spread", {}),
        ("comparisons: {B: {usd: 3}}", "the key 'usd' is unknown", {}),
    ],
)  # fmt: skip
def test_what_is_missing_or_unused_is_named(
    bridge: Any, text: str, words: str, options: dict[str, str]
) -> None:
    """A field that a claim depends on is asked for; one that nothing would read is refused."""
    assert words in refused(bridge, text, **options)


def test_problems_have_lines_and_come_together(bridge: Any) -> None:
    """All that is wrong is said at once, with its line; a file without a source too."""
    text = "saving:\n  scale: log\n  ratio: 0.7\n  sd: 0\ncomparisons:\n  C: {effect: 0.1}"
    said = refused(bridge, text)
    assert "assume.yaml:6: saving.sd" in said
    assert "assume.yaml:8: comparisons.C" in said
    protocol = bridge.protocol()
    with pytest.raises(ProtocolError, match="source: the field is missing"):
        parse_assumptions(b"assumptions: 1", protocol, name="a.yaml", media="yaml")
    for data, found in ((b"- 1", "a list"), (b"word", "text 'word'"), (b"", "no value")):
        with pytest.raises(ProtocolError, match=f"not a mapping(.|\n)*found +{found}"):
            parse_assumptions(data, protocol, name="a.yaml", media="yaml")


def test_single_units_have_no_correlation_to_state(bridge: Any) -> None:
    """Without clusters an icc would be read by nothing, and is refused."""
    single = {"units": "{file: units.csv, id: unit, cluster: none}"}
    plain = "{scale: log, ratio: 0.7, sd: 0.5, level: {sd: 0.8}}"
    assert parsed(bridge, f"saving: {plain}", **single).saving is not None
    said = refused(bridge, f"saving: {LOG}", **single)
    assert "saving.icc: nothing depends on it here" in said
    own = "comparisons: {B: {sd: 0.4, icc: 0.1}}"
    assert "units are single" in refused(bridge, own, **single)


def test_a_comparison_that_follows_from_others_states_nothing(bridge: Any) -> None:
    """What is assumed of the others says it already."""
    protocol = bridge.protocol()
    text = b"{assumptions: 1, source: a test, comparisons: {B: {effect: 0.1}}}"
    with pytest.raises(ProtocolError, match="from which this one follows"):
        parse_assumptions(text, protocol, name="a.yaml", media="yaml", implied={"B"})

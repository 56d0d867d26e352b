"""The registered plan as values: bytes, digests per section, differences, classes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
from msgspec.structs import replace

import fairtrial.ledger.protocol as module
import fairtrial.ledger.sections as sections_module
from fairtrial.ledger.errors import IntegrityError
from fairtrial.ledger.protocol import (
    ChangedField,
    Comparison,
    Endpoint,
    Protocol,
    RecordedDriver,
    changed_fields,
    decode_resolved,
    encode_resolved,
    is_live,
    missing_rule,
    nano_usd,
    primaries,
    score_name,
    section_digests,
)
from fairtrial.protocols.file import parse_protocol

ROUTER = Path(__file__).parent.parent / "protocols" / "data" / "router.yaml"


@pytest.fixture(scope="module")
def router() -> Protocol:
    """A protocol that uses nearly every section."""
    return parse_protocol(ROUTER.read_bytes(), name="router.yaml", media="yaml")


def test_resolved_bytes_round_trip(router: Protocol) -> None:
    """Decoding the resolved form gives an equal value, encoding it again the same bytes."""
    data = encode_resolved(router)
    assert router == decode_resolved(data)
    assert data == encode_resolved(decode_resolved(data))


def test_resolved_form_holds_fields_in_declared_order(router: Protocol) -> None:
    """The order of the resolved bytes is the declared one, so that digests never move."""
    names = list(msgspec.json.decode(encode_resolved(router)))
    assert names == list(Protocol.__struct_fields__)


def test_a_whole_number_and_a_float_are_one_value(router: Protocol) -> None:
    """1 and 1.0 in a number field have the same bytes."""
    text = ROUTER.read_text()
    assert "at: [0.5, 1.0]" in text
    other = text.replace("at: [0.5, 1.0]", "at: [0.5, 1]")
    parsed = parse_protocol(other.encode(), name="router.yaml", media="yaml")
    assert encode_resolved(router) == encode_resolved(parsed)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: b" " + data,
        lambda data: data.replace(b'"protocol":1,', b'"protocol":1,"extra":1,'),
        lambda data: data.replace(b'"protocol":1', b'"protocol":2'),
        lambda data: data.replace(b'"alpha":0.05', b'"alpha":5e-2', 1),
        lambda data: data[:-1],
        lambda data: data.replace(b"release", b"\xff\xff", 1),
    ],
    ids=["blank", "unknown field", "version", "other spelling", "cut", "not UTF-8"],
)
def test_decode_resolved_refuses_anything_else(
    router: Protocol, change: Callable[[bytes], bytes]
) -> None:
    """Only the canonical bytes of version 1 are a resolved protocol."""
    data = encode_resolved(router)
    changed = change(data)
    assert changed != data
    with pytest.raises(IntegrityError):
        decode_resolved(changed)


def test_section_digests_name_every_section(router: Protocol) -> None:
    """One digest a section, one for each arm and endpoint; an absent section has one too."""
    assert list(section_digests(router)) == [
        "identity", "about", "units", "design", "arms.1", "arms.2", "attempts",
        "endpoints.resolved", "endpoints.unsafe", "endpoints.usd_per_ticket", "endpoints.seconds",
        "missing", "analysis", "looks", "decision", "power", "budget", "blinding", "require",
        "diagnostics", "scoring",
    ]  # fmt: skip


def test_section_digest_is_sha256_of_the_resolved_part(router: Protocol) -> None:
    """Anyone can recompute a digest from the resolved form with any SHA-256."""
    whole = encode_resolved(router)
    budget = re.search(rb'"budget":(\{.*?\}),"blinding"', whole)
    assert budget is not None
    assert hashlib.sha256(budget[1]).hexdigest() == section_digests(router)["budget"]
    nothing = b'{"populations":null,"scoring":null}'
    assert hashlib.sha256(nothing).hexdigest() == section_digests(router)["scoring"]


def test_a_change_moves_the_digest_of_its_section_alone(router: Protocol) -> None:
    """A refusal can name what changed because no other digest moves."""
    changed = replace(router, control="B")
    before, after = section_digests(router), section_digests(changed)
    assert [name for name in before if before[name] != after[name]] == ["design"]


def test_order_of_primaries_counts_only_when_ordered(router: Protocol) -> None:
    """The walk of `ordered` depends on the order of endpoints, so `decision` digests it then."""
    second = replace(router.endpoints[0], name="second")
    endpoints = (router.endpoints[0], second)
    one = replace(router, endpoints=endpoints)
    two = replace(router, endpoints=endpoints[::-1])
    assert section_digests(one) == section_digests(two)
    one, two = (replace(p, decision=replace(p.decision, primaries="ordered")) for p in (one, two))
    assert section_digests(one)["decision"] != section_digests(two)["decision"]
    assert changed_fields(one, two) == [
        ChangedField(
            section="decision",
            field="endpoints",
            registered='["resolved","second"]',
            found='["second","resolved"]',
        )
    ]


def test_changed_fields_names_field_and_both_values(router: Protocol) -> None:
    """Paths are dotted, through mappings and named endpoints; values are JSON text."""
    text = ROUTER.read_text()
    for old, new in (
        ("alpha: 0.05                        # each", "alpha: 0.01                        # each"),
        ("value: passed\n    reducer: mean", "value: score\n    reducer: mean"),
        ("small-2026-11]", "small-2026-12]"),
        ("seed: 41507", "seed: 1"),
        ("usd: 90 ", "usd: 91 "),
        ("id: support-router-2026-12", "id: another"),
    ):
        assert old in text
        text = text.replace(old, new)
    second = text.rindex("config: {temperature: 0.7}")
    text = text[:second] + "config: {temperature: 0.8}" + text[second + 26 :]
    found = changed_fields(router, parse_protocol(text.encode(), name="r", media="yaml"))
    assert [(item.section, item.field, item.registered, item.found) for item in found] == [
        ("identity", "id", '"support-router-2026-12"', '"another"'),
        ("design", "design.seed", "41507", "1"),
        (
            "arms.B",
            "arms.B.driver.argv",
            '["python","answer.py","--model","small-2026-11"]',
            '["python","answer.py","--model","small-2026-12"]',
        ),
        ("arms.B", "arms.B.driver.config.temperature", "0.7", "0.8"),
        ("endpoints.resolved", "endpoints.resolved.value", '"passed"', '"score"'),
        ("analysis", "analysis.alpha", "0.05", "0.01"),
        ("budget", "budget.usd", "90.0", "91.0"),
    ]


def test_changed_fields_tells_added_and_removed_parts(router: Protocol) -> None:
    """A part that is on one side only is one change, with None on the other."""
    arms = {"A": router.arms["A"], "C": router.arms["B"]}
    found = changed_fields(router, replace(router, arms=arms))
    assert [(item.section, item.field) for item in found] == [
        ("arms.B", "arms.B"),
        ("arms.C", "arms.C"),
    ]
    assert found[0].found is None
    assert found[1].registered is None


def test_changed_fields_of_equal_protocols_is_empty(router: Protocol) -> None:
    """Equal values differ nowhere."""
    assert changed_fields(router, decode_resolved(encode_resolved(router))) == []


@pytest.mark.parametrize(
    ("amount", "nano"),
    [
        (0.1, 100_000_000),
        (0.1 + 0.2, None),
        (4000, 4_000_000_000_000),
        ("0.000000001", 1),
        (1e-9, 1),
        ("1e-10", None),
        (float("nan"), None),
        (float("inf"), None),
        ("12,50", None),
        (0.017961, 17_961_000),
    ],
)
def test_nano_usd_is_exact_or_refused(amount: float | str, nano: int | None) -> None:
    """An amount is exact in nano-USD as written in decimal, or it is refused."""
    if nano is None:
        with pytest.raises(ValueError, match="usd"):
            nano_usd(amount)
    else:
        assert nano == nano_usd(amount)


def test_missing_rule_prefers_the_endpoint(router: Protocol) -> None:
    """An endpoint's own rule comes before the protocol's, and zero is a declared value."""
    resolved, unsafe = router.endpoints[0], router.endpoints[1]
    assert missing_rule(router, resolved, "timeout") == "failure"
    assert missing_rule(router, unsafe, "timeout") == 0.0
    assert missing_rule(router, unsafe, "failed") == "worst_case"


def test_is_live_is_about_who_makes_outcomes(router: Protocol) -> None:
    """A recorded arm and one that only replays make no outcome during the run."""
    arm = router.arms["A"]
    recorded = RecordedDriver(file="o.csv", columns={"unit": "unit"})
    assert is_live(arm)
    assert not is_live(replace(arm, replay_only=True))
    assert not is_live(replace(arm, driver=recorded))


def test_primaries_and_score_name(router: Protocol) -> None:
    """Primaries come in the order of the file; only scores.NAME has a score's name."""
    assert [endpoint.name for endpoint in primaries(router)] == ["resolved"]
    assert score_name("scores.unsafe") == "unsafe"
    assert score_name("score") is None


def test_values_are_frozen_and_closed() -> None:
    """No field of a plan can be set, and no unknown one decoded."""
    comparison = Comparison(name="B", treatment="B", control="A", share=1.0)
    with pytest.raises(AttributeError):
        comparison.name = "C"  # type: ignore[misc]
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"name": "x", "apha": 1}, Endpoint)


@pytest.mark.parametrize("found", [module, sections_module])
def test_all_lists_what_exists(found: ModuleType) -> None:
    """`__all__` is a tuple without repeats, and every name in it is there."""
    assert isinstance(found.__all__, tuple)
    assert len(set(found.__all__)) == len(found.__all__)
    assert [name for name in found.__all__ if not hasattr(found, name)] == []

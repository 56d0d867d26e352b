"""The registered plan as frozen values, schema version 1, with every default filled in.

Leaves the values of the single sections to `sections.py`, the file's syntax and what is refused to
`protocols/file.py`.

Rules:
- The resolved bytes are compact JSON in declared field order, free keys by code point; the same
  values have the same bytes on every machine.
- A section's digest is the SHA-256 of its part of the resolved form, encoded alike. Of identity,
  design (with control and aa), decision and scoring (with populations) it is an object that holds
  the parts under their names, by code point; a part without a value is `null`.
- The order of primaries decides when it is `ordered`; then `decision` holds it under `endpoints`.
- Money is usd as written; sums are integers of nano-USD (`nano_usd`).

How an outcome becomes one number of a unit (what `verdicts/evaluate.py` reads):

    Endpoint.value      field of the outcome: passed, score, answer, usd, usd_incurred, tokens,
                        duration_seconds, or scores.NAME (`score_name` gives NAME)
    Endpoint.positive   with value answer: the answers that count as 1, all others as 0
    Endpoint.where      keeps units whose label, stratum or split is among the texts
    Endpoint.reducer    replicates of one unit to one value; None where the type takes them all
                        (agreement, pass_at_k, pass_hat_k, auc and its kin keep `first` at 1 repeat)
    Endpoint.k          at_least: at least k of the replicates are 1; pass types: their k
    missing_rule(...)   the rule for a status, the endpoint's own before the protocol's; a float is
                        the declared value, the other rules are the words of `MissingRule`
    Missing.replicates  "all", or the number of replicates a unit needs
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Literal, TypeAlias

import msgspec

from .canonical import sha256_hex
from .errors import IntegrityError
from .sections import (
    MISSING_STATUSES,
    SEED_MAX,
    About,
    Accept,
    Also,
    Analysis,
    Arm,
    ArmBudget,
    Assign,
    Assume,
    Attempts,
    Blinding,
    Budget,
    CommandDriver,
    Comparison,
    Decision,
    DecisionRule,
    Design,
    DiagnosticEffect,
    Diagnostics,
    Driver,
    Endpoint,
    EndpointRole,
    EndpointType,
    FlagBound,
    Futility,
    Guards,
    Harm,
    Limits,
    Looks,
    Missing,
    MissingRule,
    MissingStatus,
    MissingWord,
    Population,
    Populations,
    Power,
    PythonDriver,
    RecordedDriver,
    Reducer,
    Require,
    Rule,
    Saving,
    Scale,
    Scoring,
    Section,
    Seed,
    Signature,
    Spending,
    UnitsSpec,
)  # fmt: skip

__all__ = (
    "MISSING_STATUSES",
    "NANO_USD",
    "NANO_USD_MAX",
    "SCORE_ARM",
    "SCORE_MAX",
    "SEED_MAX",
    "About",
    "Accept",
    "Also",
    "Analysis",
    "Arm",
    "ArmBudget",
    "Assign",
    "Assume",
    "Attempts",
    "Blinding",
    "Budget",
    "ChangedField",
    "CommandDriver",
    "Comparison",
    "Decision",
    "DecisionRule",
    "Design",
    "DiagnosticEffect",
    "Diagnostics",
    "Driver",
    "Endpoint",
    "EndpointRole",
    "EndpointType",
    "FlagBound",
    "Futility",
    "Guards",
    "Harm",
    "Limits",
    "Looks",
    "Missing",
    "MissingRule",
    "MissingStatus",
    "MissingWord",
    "Population",
    "Populations",
    "Power",
    "Protocol",
    "PythonDriver",
    "RecordedDriver",
    "Reducer",
    "Require",
    "Rule",
    "Saving",
    "Scale",
    "Scoring",
    "Seed",
    "Signature",
    "Spending",
    "UnitsSpec",
    "asked_arms",
    "changed_fields",
    "coded_field",
    "decode_resolved",
    "driver_path",
    "encode_resolved",
    "is_live",
    "missing_rule",
    "nano_usd",
    "primaries",
    "score_name",
    "section_digests",
    "unnamed_field",
)  # fmt: skip

NANO_USD = 10**9
# The one arm of a decision_rule plan: its outcomes are the scores that all rules share.
SCORE_ARM = "score"
# The largest integer that every reader of JSON keeps exact.
NANO_USD_MAX = 2**53 - 1
# Far above any measure, and far enough below the largest float that sums of squares can't overflow.
SCORE_MAX = 1e100


class Protocol(Section, frozen=True, kw_only=True):
    """The whole registered plan."""

    protocol: Literal[1]
    id: str
    kind: Literal["comparison", "decision_rule"] = "comparison"
    about: About
    units: UnitsSpec
    design: Design
    arms: dict[str, Arm]
    control: str
    aa: bool = False
    attempts: Attempts = Attempts()
    endpoints: tuple[Endpoint, ...]
    missing: Missing
    analysis: Analysis
    looks: Looks = Looks()
    decision: Decision
    power: Power
    budget: Budget = Budget()
    blinding: Blinding = Blinding()
    require: Require = Require()
    diagnostics: Diagnostics = Diagnostics()
    scoring: Scoring | None = None
    populations: Populations | None = None


_ENCODER = msgspec.json.Encoder(order="deterministic")
_DECODER = msgspec.json.Decoder(Protocol)


def encode_resolved(protocol: Protocol) -> bytes:
    """Returns the resolved form: compact JSON in declared field order, free keys by code point."""
    return _ENCODER.encode(protocol)


def decode_resolved(data: bytes) -> Protocol:
    """Returns the protocol whose resolved form these bytes are.

    Raises:
        IntegrityError: The bytes are not a resolved protocol of version 1 in canonical form.
    """
    try:
        protocol = _DECODER.decode(data)
        again = encode_resolved(protocol)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise IntegrityError(
            "the bytes are not a resolved protocol of version 1", found=str(error)
        ) from error
    if again != data:
        raise IntegrityError(
            "the resolved protocol is not in canonical form",
            expected=repr(again[:200]),
            found=repr(data[:200]),
        )
    return protocol


def nano_usd(amount: float | str) -> int:
    """Returns an amount of usd in integers of nano-USD, exact for what was written in decimal.

    Raises:
        ValueError: The amount is not a decimal number up to what an event can hold, or has more
            than nine decimals.
    """
    text = amount if isinstance(amount, str) else repr(amount)
    try:
        nano = Decimal(text) * NANO_USD
        exact = nano.is_finite() and nano == nano.to_integral_value()
    except ArithmeticError as error:
        raise ValueError(f"not an amount of usd: {text!r}") from error
    if not exact:
        raise ValueError(f"an amount of usd has at most nine decimals and is finite, not {text!r}")
    if abs(nano) > NANO_USD_MAX:
        raise ValueError(f"an amount of usd is at most {NANO_USD_MAX // NANO_USD:,}, not {text!r}")
    return int(nano)


def is_live(arm: Arm) -> bool:
    """Returns whether the arm's outcomes are made during the run."""
    return not (arm.driver is None or isinstance(arm.driver, RecordedDriver) or arm.replay_only)


def asked_arms(protocol: Protocol) -> dict[str, Arm]:
    """Returns the arms that a run asks: those of the file, or the one scoring pass of all rules."""
    scoring = protocol.scoring
    if protocol.kind == "comparison" or scoring is None:
        return protocol.arms
    arm = Arm(label="the scoring pass", driver=scoring.driver, replay_only=scoring.replay_only)
    return {SCORE_ARM: arm}


def driver_path(protocol: Protocol, arm: str) -> str:
    """Returns the field path of the driver of an arm that a run asks."""
    return "scoring.driver" if protocol.kind == "decision_rule" else f"arms.{arm}.driver"


def primaries(protocol: Protocol) -> tuple[Endpoint, ...]:
    """Returns the primary endpoints in the order of the file."""
    return tuple(endpoint for endpoint in protocol.endpoints if endpoint.role == "primary")


def missing_rule(protocol: Protocol, endpoint: Endpoint, status: MissingStatus) -> MissingRule:
    """Returns the rule for outcomes of this status: the endpoint's own before the protocol's."""
    own = endpoint.missing.get(status)
    return protocol.missing.rules[status] if own is None else own


def score_name(value: str) -> str | None:
    """Returns NAME of an endpoint value `scores.NAME`, None of any other."""
    return value.removeprefix("scores.") if value.startswith("scores.") else None


class ChangedField(msgspec.Struct, frozen=True, kw_only=True):
    """A field that differs; values are JSON text, None where the field isn't there at all."""

    section: str
    field: str
    registered: str | None
    found: str | None


def section_digests(protocol: Protocol) -> dict[str, str]:
    """Returns the hex SHA-256 of each section: `arms.<arm>` and `endpoints.<name>` one each.

    Of blinded arms the sections are `arms.1`, `arms.2`, ... in the order of the arms' names, since
    these names stand in readable events.
    """
    return {
        coded_field(protocol, name): sha256_hex(_ENCODER.encode(part))
        for name, part in _sections(protocol)
    }


def coded_field(protocol: Protocol, field: str) -> str:
    """Returns a section or field path in which no blinded arm is named; others as they are."""
    if not protocol.blinding.arms:
        return field
    codes = {name: str(place) for place, name in enumerate(sorted(protocol.arms), start=1)}
    before, arms, after = field.partition("arms.")
    name, dot, rest = after.partition(".")
    is_arm = arms and before in ("", "budget.") and name in codes
    return f"{before}arms.{codes[name]}{dot}{rest}" if is_arm else field


def unnamed_field(protocol: Protocol, field: str) -> str:
    """Returns a field path that tells no blinded arm, not even by its place; others as they are."""
    coded = coded_field(protocol, field)
    return coded.partition("arms.")[0] + "arms" if coded != field else field


def changed_fields(old: Protocol, new: Protocol) -> list[ChangedField]:
    """Returns every field whose value differs, with its dotted path, in the order of the sections.

    A field inside a mapping has a path of its own (`arms.B.driver.config.temperature`); a list is
    one field.
    """
    before, after = dict(_sections(old)), dict(_sections(new))
    return [
        changed
        for name in (*before, *(name for name in after if name not in before))
        for changed in _section_changes(name, before.get(name, _ABSENT), after.get(name, _ABSENT))
    ]


# Stands for a section or field that one of two protocols doesn't have at all.
_ABSENT = msgspec.UNSET

# Sections whose members stand at the top of the file: their paths carry no section name.
_TOP_LEVEL = frozenset(("identity", "design", "decision", "scoring"))


def _sections(protocol: Protocol) -> Iterator[tuple[str, object]]:
    p = protocol
    yield "identity", {"protocol": p.protocol, "id": p.id, "kind": p.kind}
    yield "about", p.about
    yield "units", p.units
    yield "design", {"design": p.design, "control": p.control, "aa": p.aa}
    for name in sorted(p.arms):
        yield f"arms.{name}", p.arms[name]
    yield "attempts", p.attempts
    for endpoint in p.endpoints:
        yield f"endpoints.{endpoint.name}", endpoint
    yield "missing", p.missing
    yield "analysis", p.analysis
    yield "looks", p.looks
    yield "decision", {"decision": p.decision, "endpoints": _deciding_order(p)}
    yield "power", p.power
    yield "budget", p.budget
    yield "blinding", p.blinding
    yield "require", p.require
    yield "diagnostics", p.diagnostics
    yield "scoring", {"scoring": p.scoring, "populations": p.populations}


def _deciding_order(protocol: Protocol) -> list[str]:
    ordered = protocol.decision.primaries == "ordered"
    return [endpoint.name for endpoint in primaries(protocol)] if ordered else []


def _section_changes(name: str, old: object, new: object) -> Iterator[ChangedField]:
    path = "" if name in _TOP_LEVEL else name
    for field, registered, found in _differences(path, _plain(old), _plain(new)):
        yield ChangedField(section=name, field=field, registered=registered, found=found)


def _plain(part: object) -> object:
    return _ABSENT if part is _ABSENT else msgspec.json.decode(_ENCODER.encode(part))


_Difference: TypeAlias = tuple[str, str | None, str | None]


def _differences(path: str, old: object, new: object) -> Iterator[_Difference]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in (*old, *(key for key in new if key not in old)):
            inner = f"{path}.{key}" if path else str(key)
            yield from _differences(inner, old.get(key, _ABSENT), new.get(key, _ABSENT))
    elif old is _ABSENT or new is _ABSENT or _ENCODER.encode(old) != _ENCODER.encode(new):
        yield path, _text(old), _text(new)


def _text(value: object) -> str | None:
    return None if value is _ABSENT else _ENCODER.encode(value).decode()

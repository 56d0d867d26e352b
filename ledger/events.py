"""The wire types of every event kind, version 1; nothing here computes or decides.

An event says what happened. Where it sits in the log, when and by whom is the entry's (`entry.py`);
which events may follow which is the fold's (`fold.py`); bytes and ids are `canonical.py`'s.

Rules:
- Each event begins with `kind` ("decision/1") and its slot's `experiment`, `position`, `number`.
- Any change of a Struct is a new `kind/version`; the old one stays for ever.
- Money is integers of nano-USD, digests are hex, a nullable field is always present.
- Events of the whole ledger (open, adopt, import, anchor, key, recover, redact, sign, close) have
  experiment "".
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

__all__ = (
    "ARM_PATTERN",
    "EVENT_KINDS",
    "EXPERIMENT_PATTERN",
    "Adopt",
    "Amend",
    "Anchor",
    "ArmCeiling",
    "Attempt",
    "AttemptEnd",
    "Blob",
    "Ceilings",
    "Close",
    "Decision",
    "Event",
    "Freeze",
    "FrozenArm",
    "GitState",
    "Head",
    "Import",
    "Invalidate",
    "Key",
    "Look",
    "LookComparison",
    "LookEndpoint",
    "LookPlan",
    "LookTest",
    "Open",
    "Reanalysis",
    "Recover",
    "Redact",
    "Reference",
    "Refuse",
    "Register",
    "RegisterGit",
    "Result",
    "ResultComparison",
    "ResultEndpoint",
    "Rules",
    "Settle",
    "Sign",
    "SignatureRule",
    "Start",
    "Stop",
    "Unblind",
    "UnblindArm",
    "Withdraw",
    "event_kind",
)

EXPERIMENT_PATTERN = r"^([a-z0-9][a-z0-9._-]{0,63})?$"
ARM_PATTERN = "^[A-Za-z0-9_-]{1,32}$"
_INT_MAX = 2**53 - 1
Count: TypeAlias = Annotated[int, Meta(ge=0, le=_INT_MAX)]
Integer: TypeAlias = Annotated[int, Meta(ge=-_INT_MAX, le=_INT_MAX)]
Hex: TypeAlias = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
LedgerId: TypeAlias = Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
Experiment: TypeAlias = Annotated[str, Meta(pattern=EXPERIMENT_PATTERN)]
Arm: TypeAlias = Annotated[str, Meta(pattern=ARM_PATTERN)]
Code: TypeAlias = Annotated[str, Meta(pattern="^[a-z][a-z0-9_]{0,63}$")]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
Text: TypeAlias = Annotated[str, Meta(max_length=2000)]

AttemptStatus: TypeAlias = Literal["error", "timeout", "lost", "interrupted"]
Status: TypeAlias = Literal["ok", "failed", "timeout", "limit", "error", "ungraded", "replay_miss"]
Origin: TypeAlias = Literal["live", "cached", "recorded", "imported"]
StopReason: TypeAlias = Literal[
    "complete",
    "boundary",
    "ceiling",
    "wall_time",
    "arm_failing",
    "interrupted",
    "terminated",
    "crashed",
]
Verdict: TypeAlias = Literal["adopt", "equivalent", "reject", "inconclusive"]
Crossed: TypeAlias = Literal["no", "favourable", "against"]


class _Wire(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all values inside an event."""


class Blob(_Wire, frozen=True, kw_only=True):
    """Bytes kept beside the ledger, named by what they are; no place is stored."""

    size: Count
    blake3: Hex
    sha256: Hex


class Head(_Wire, frozen=True, kw_only=True):
    """A prefix of the ledger: its size and its RFC 6962 root."""

    size: Count
    root: Hex


class Reference(_Wire, frozen=True, kw_only=True):
    """One earlier entry: its place and its leaf."""

    seq: Count
    leaf: Hex


class Predecessor(_Wire, frozen=True, kw_only=True):
    """The ledger that this one continues."""

    ledger: LedgerId
    size: Count
    root: Hex


class RegisterGit(_Wire, frozen=True, kw_only=True):
    """Where the protocol stood in git when it was registered."""

    commit: Name
    path: Text
    clean: bool


class GitState(_Wire, frozen=True, kw_only=True):
    """The git state of the folder a session ran in."""

    commit: Name
    clean: bool


class ArmCeiling(_Wire, frozen=True, kw_only=True):
    """Ceilings of one arm; null: none."""

    usd_nanousd: Count | None = None
    calls: Count | None = None
    tokens: Count | None = None
    wall_seconds: Count | None = None


class Ceilings(ArmCeiling, frozen=True, kw_only=True):
    """Ceilings of an experiment, in all and per arm."""

    arms: dict[Arm, ArmCeiling]


class SignatureRule(_Wire, frozen=True, kw_only=True):
    """A signature that has to stand before something happens."""

    meaning: Literal["reviewed", "approved", "rejected"]
    role: Name
    before: Literal["run", "result_counts"]


class Rules(Ceilings, frozen=True, kw_only=True):
    """What the fold needs of the protocol, so that it opens no blob."""

    attempts_max: Count
    retry_on: tuple[Literal["error", "timeout"], ...]
    on_crossing: Literal["stop", "continue"]
    on_under_run: Literal["inconclusive", "analyse"]
    anchor: Literal["none", "checkpoint", "witness", "timestamp"]
    signatures: tuple[SignatureRule, ...]
    primaries: tuple[Name, ...]


class FrozenArm(_Wire, frozen=True, kw_only=True):
    """An arm as frozen: what its outcomes come from and what an attempt reserves."""

    name: Arm
    origin: Origin
    identity: Blob
    metered: bool
    reserve_nanousd: Count
    repeatable: bool
    commitment: Hex | None = None


class LookTest(_Wire, frozen=True, kw_only=True):
    """The boundary of one comparison and endpoint at one look, as known at freeze."""

    comparison: Name
    endpoint: Name
    fraction: float
    df: float | None
    nominal_p: float
    z: float | None
    eligible: bool


class LookPlan(_Wire, frozen=True, kw_only=True):
    """One planned look: its last slot, what it holds, its boundaries."""

    last: Count
    clusters: Count
    units: Count
    tests: tuple[LookTest, ...]


class _Event(_Wire, frozen=True, kw_only=True, tag_field="kind"):
    """Base of all events: the slot."""

    experiment: Experiment = ""
    position: Count = 0
    number: Count = 0


class Open(_Event, frozen=True, kw_only=True, tag="open/1"):
    """The first entry of a ledger."""

    format: Name
    tool: Name
    schemas: Hex
    origin: Name
    vkey: Text | None = None
    predecessor: Predecessor | None = None


class Adopt(_Event, frozen=True, kw_only=True, tag="adopt/1"):
    """A newer tool writes here for the first time."""

    tool: Name
    schemas: Hex


class Register(_Event, frozen=True, kw_only=True, tag="register/1"):
    """A protocol is put on record."""

    protocol: Blob
    resolved: Blob
    media: Literal["yaml", "toml"]
    sections: dict[Name, Hex]
    files: Blob
    git: RegisterGit | None = None
    supersedes: Experiment | None = None
    override: Text | None = None


class Freeze(_Event, frozen=True, kw_only=True, tag="freeze/1"):
    """Units, run order, arms, looks and rules are fixed."""

    units: Blob
    plan: Blob
    files: Blob
    unit_count: Count
    cluster_count: Count
    slot_count: Count
    arms: tuple[FrozenArm, ...]
    rules: Rules
    looks: tuple[LookPlan, ...]
    power: Blob | None = None


class Start(_Event, frozen=True, kw_only=True, tag="start/1"):
    """A session begins; it fences every earlier one."""

    nonce: Name
    tool: Name
    host: Name
    environment: Blob
    settings: dict[Name, Text]
    git: GitState | None = None


class Stop(_Event, frozen=True, kw_only=True, tag="stop/1"):
    """A session ends, and why."""

    reason: StopReason
    note: Text | None = None


class Attempt(_Event, frozen=True, kw_only=True, tag="attempt/1"):
    """A try begins; appended before anything is paid."""

    session: Count
    arm: Arm
    reserved_nanousd: Count
    sealed: Hex | None = None


class AttemptEnd(_Event, frozen=True, kw_only=True, tag="attempt_end/1"):
    """A try ended without settling its slot; `retry` false: another try would be of no use."""

    session: Count
    status: AttemptStatus
    retry: bool = True
    code: Code | None = None
    cost_nanousd: Count | None = None
    incurred_nanousd: Count | None = None
    tokens: dict[Name, Count] = {}
    duration_ms: Count | None = None
    artifacts: dict[Name, Blob] = {}
    sealed: Hex | None = None


class Decision(_Event, frozen=True, kw_only=True, tag="decision/1"):
    """The outcome of one slot."""

    session: Count
    attempt: Count
    arm: Arm
    unit: Name
    replicate: Count
    status: Status
    code: Code | None = None
    scores: dict[Name, float | None] = {}
    flag: bool | None = None
    answer: Annotated[str, Meta(max_length=200)] | None = None
    cost_nanousd: Count | None = None
    incurred_nanousd: Count | None = None
    tokens: dict[Name, Count] = {}
    duration_ms: Count | None = None
    requested_model: Name | None = None
    served_model: Name | None = None
    origin: Origin
    source: Reference | None = None
    artifacts: dict[Name, Blob] = {}
    sealed: Hex | None = None


class LookEndpoint(_Wire, frozen=True, kw_only=True):
    """What one look says of one endpoint of one comparison."""

    name: Name
    information_fraction: float
    eligible: bool
    why_not: tuple[Code, ...]
    n: Count
    clusters: Count
    discordant_clusters: Count | None
    estimate: float | None
    standard_error: float | None
    df: float | None
    tests: dict[Name, float | None]
    p_value: float | None
    nominal_p: float | None
    t_critical: float | None
    z: float | None
    lower: float | None
    upper: float | None
    crossed: Crossed
    undetermined: Text | None = None


class LookComparison(_Wire, frozen=True, kw_only=True):
    """All endpoints of one comparison at one look."""

    name: Name
    treatment: Arm
    control: Arm
    endpoints: tuple[LookEndpoint, ...]


class Look(_Event, frozen=True, kw_only=True, tag="look/1"):
    """A planned analysis was taken."""

    basis: Head
    data: Hex
    last: Count
    continues: bool
    method: Name
    units: Count
    clusters: Count
    comparisons: tuple[LookComparison, ...]
    sealed: Blob | None = None


class ResultEndpoint(_Wire, frozen=True, kw_only=True):
    """The final numbers of one endpoint."""

    name: Name
    difference: float | None
    lower: float | None
    upper: float | None
    p_value: float | None
    bound_lower: float | None
    bound_upper: float | None
    undetermined: Text | None = None


class ResultComparison(_Wire, frozen=True, kw_only=True):
    """The final numbers and the verdict of one comparison."""

    name: Name
    verdict: Verdict
    endpoints: tuple[ResultEndpoint, ...]


class Result(_Event, frozen=True, kw_only=True, tag="result/1"):
    """The experiment ends with a verdict."""

    basis: Head
    data: Hex
    method: Name
    verdict: Verdict
    reason: Text
    reason_code: Code
    stopped_by: Literal["last_look", "boundary", "ceiling", "wall_time", "person"]
    look: Count
    as_registered: bool | None
    evidence: Literal["live", "recorded", "imported"]
    existed_before: tuple[Arm, ...]
    amended: tuple[Name, ...]
    missing: dict[Arm, dict[Name, Count]]
    cost_nanousd: dict[Arm, Count]
    comparisons: tuple[ResultComparison, ...]
    detail: Blob


class Amend(_Event, frozen=True, kw_only=True, tag="amend/1"):
    """The protocol changes after it was registered; the earlier one stays on record."""

    subject: Reference
    protocol: Blob
    resolved: Blob
    sections: dict[Name, Hex]
    fields: tuple[Name, ...]
    rules: Rules | None
    looks: tuple[LookPlan, ...] | None
    outcomes: Count
    looks_taken: Count
    class_: Literal["operational", "text", "analysis"] = msgspec.field(name="class")
    reason: Text


class Invalidate(_Event, frozen=True, kw_only=True, tag="invalidate/1"):
    """An outcome is declared invalid; its value stays on record."""

    subject: Reference
    reason: Text


class Settle(_Event, frozen=True, kw_only=True, tag="settle/1"):
    """A person corrects the cost of a crashed attempt."""

    subject: Reference
    cost_nanousd: Count
    reason: Text


class Withdraw(_Event, frozen=True, kw_only=True, tag="withdraw/1"):
    """An experiment ends without a result."""

    reason: Text


class Reanalysis(_Event, frozen=True, kw_only=True, tag="reanalysis/1"):
    """An analysis after the result."""

    basis: Head
    reason: Text
    detail: Blob


class Sign(_Event, frozen=True, kw_only=True, tag="sign/1"):
    """A person signs an entry with a meaning."""

    subject: Reference
    signer: Name
    role: Name
    meaning: Literal["reviewed", "approved", "rejected"]
    time: Name
    vkey: Text
    signature: Text


class Import(_Event, frozen=True, kw_only=True, tag="import/1"):
    """Outcomes from another tool follow."""

    source: Blob
    format: Name
    tool: Name
    rows: Count


class Refuse(_Event, frozen=True, kw_only=True, tag="refuse/1"):
    """Something was refused because a registered value had changed."""

    act: Code
    field: Name
    expected: Hex
    found: Hex


class Anchor(_Event, frozen=True, kw_only=True, tag="anchor/1"):
    """A checkpoint, cosignature or time stamp of an earlier head, embedded."""

    basis: Head
    level: Literal["checkpoint", "witness", "timestamp"]
    note: Blob
    token: Blob | None = None


class Recover(_Event, frozen=True, kw_only=True, tag="recover/1"):
    """Torn bytes were set aside."""

    offset: Count
    length: Count
    sha256: Hex


class Key(_Event, frozen=True, kw_only=True, tag="key/1"):
    """The ledger's signing key begins or changes."""

    vkey: Text
    previous: Text | None
    signature: Text
    previous_signature: Text | None


class UnblindArm(_Wire, frozen=True, kw_only=True):
    """One opened commitment."""

    name: Arm
    arm: Arm
    salt: Hex


class Unblind(_Event, frozen=True, kw_only=True, tag="unblind/1"):
    """Arm labels are opened."""

    arms: tuple[UnblindArm, ...]
    reason: Text


class Redact(_Event, frozen=True, kw_only=True, tag="redact/1"):
    """A blob is erased."""

    blob: Blob
    reason: Text


class Close(_Event, frozen=True, kw_only=True, tag="close/1"):
    """The ledger ends."""

    basis: Head
    reason: Text
    successor: LedgerId | None = None


Event: TypeAlias = (
    Open
    | Adopt
    | Register
    | Freeze
    | Start
    | Stop
    | Attempt
    | AttemptEnd
    | Decision
    | Look
    | Result
    | Amend
    | Invalidate
    | Settle
    | Withdraw
    | Reanalysis
    | Sign
    | Import
    | Refuse
    | Anchor
    | Recover
    | Key
    | Unblind
    | Redact
    | Close
)

EVENT_KINDS: dict[str, type[Event]] = {
    str(kind.__struct_config__.tag): kind for kind in Event.__args__
}


class _Kinds(dict[type[Event], str]):
    """The kind of each class without its version; a class derived from one has that one's kind."""

    def __missing__(self, cls: type[Event]) -> str:
        kind = self[cls] = str(cls.__struct_config__.tag).partition("/")[0]
        return kind


_KIND_OF = _Kinds()


def event_kind(event: Event) -> str:
    """Returns the kind of an event without its version, such as `decision`."""
    return _KIND_OF[type(event)]

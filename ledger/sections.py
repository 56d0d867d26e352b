"""The sections of the registered plan as frozen values, schema version 1.

Leaves the whole plan, its bytes and its digests to `protocol.py`, the file's syntax and what is
refused to `protocols/file.py`.

Rules:
- The declared order of fields is the order of the resolved bytes; it never changes in version 1.
- A value that the author left out holds version 1's default; None means "none" or "has no meaning
  here", never "look it up later".
- A number field is a float (1 and 1.0 are one value); money is usd as written.
- A cell that a units or outcomes file is compared with (`select`, `where`) is text.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, get_args

import msgspec
from msgspec import Meta

__all__ = (
    "MISSING_STATUSES", "SEED_MAX", "About", "Accept", "Also", "Analysis", "Arm", "ArmBudget",
    "Assign", "Assume", "Attempts", "Blinding", "Budget", "CommandDriver", "Comparison",
    "Decision", "DecisionRule", "Design", "DiagnosticEffect", "Diagnostics", "Driver",
    "Endpoint", "EndpointRole", "EndpointType", "FlagBound", "Futility", "Guards",
    "Harm", "Limits", "Looks", "Missing", "MissingRule", "MissingStatus", "MissingWord",
    "Population", "Populations",
    "Power", "PythonDriver", "RecordedDriver", "Reducer", "Require", "Rule", "Saving", "Scale",
    "Scoring", "Section", "Seed", "Signature", "Spending", "UnitsSpec",
)  # fmt: skip

SEED_MAX = 2**53 - 1

EndpointRole: TypeAlias = Literal["primary", "secondary", "harm"]
EndpointType: TypeAlias = Literal[
    "binary", "bounded", "continuous", "cost", "auc", "within_twin_auc", "precision", "agreement",
    "pass_at_k", "pass_hat_k", "win_rate", "pass_hat_k_plugin", "all_pass",
]  # fmt: skip
Reducer: TypeAlias = Literal["first", "mean", "median", "majority", "any", "all", "at_least"]
Scale: TypeAlias = Literal["raw", "log", "both"]
MissingStatus: TypeAlias = Literal[
    "failed", "timeout", "limit", "error", "ungraded", "replay_miss", "invalidated"
]
MissingWord: TypeAlias = Literal["failure", "value", "exclude_pair", "worst_case", "refuse"]
MissingRule: TypeAlias = MissingWord | float
Also: TypeAlias = Literal["mcnemar", "sign_flip", "cluster_weighted", "bootstrap", "wild_bootstrap"]
Spending: TypeAlias = Literal[
    "lan_demets_obrien_fleming", "lan_demets_pocock", "hwang_shih_decani", "power"
]
DecisionRule: TypeAlias = Literal[
    "superiority", "non_inferiority", "equivalence", "precision_bound"
]
DiagnosticEffect: TypeAlias = Literal["show", "inconclusive"]
FlagBound: TypeAlias = Literal["clopper_pearson", "learn_then_test", "cluster_aware", "wilson"]
Population: TypeAlias = Literal["twins", "all"]
Seed: TypeAlias = Annotated[int, Meta(ge=0, le=SEED_MAX)]

MISSING_STATUSES: tuple[MissingStatus, ...] = get_args(MissingStatus)


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every part of the plan is: frozen, by name only, without unknown fields."""


class About(Section, frozen=True, kw_only=True):
    """Text for people: digested, never changes a number."""

    title: str = ""
    hypothesis: str
    owner: str = ""
    notes: str = ""
    links: tuple[str, ...] = ()


class UnitsSpec(Section, frozen=True, kw_only=True):
    """Where the units are and which columns mean what; `cluster` None: each unit its own."""

    file: str
    format: Literal["csv", "jsonl"]
    id: str
    cluster: str | None
    stratum: str | None = None
    twin: str | None = None
    label: str | None = None
    split: str | None = None
    fold: str | None = None
    select: dict[str, tuple[str, ...]] = {}
    limit: int | None = None
    input: tuple[str, ...] | None = None
    allow_label: str | None = None
    pilot: str | None = None


class Assign(Section, frozen=True, kw_only=True):
    """How units are shared out among arms when each unit is in one arm only."""

    by: Literal["unit", "cluster"]
    ratio: dict[str, int]
    within: Literal["cluster", "stratum"] | None = None


class Design(Section, frozen=True, kw_only=True):
    """Each unit in every arm, or in one; and the seed behind every order."""

    pairing: Literal["paired", "assigned"]
    seed: Seed
    assign: Assign | None = None


class RecordedDriver(Section, frozen=True, kw_only=True, tag_field="kind", tag="recorded"):
    """Outcomes that exist already: `columns` maps outcome fields to columns of the file."""

    file: str
    where: dict[str, str] = {}
    columns: dict[str, str]
    files: tuple[str, ...] = ()


class PythonDriver(Section, frozen=True, kw_only=True, tag_field="kind", tag="python"):
    """A callable `module:function` in this process."""

    call: str
    files: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    config: dict[str, object] = {}
    reserve_usd: float | None = None
    repeatable: bool = True


class CommandDriver(Section, frozen=True, kw_only=True, tag_field="kind", tag="command"):
    """A program that speaks driver protocol 1, or answers by its output or exit status."""

    argv: tuple[str, ...]
    files: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    config: dict[str, object] = {}
    output: Literal["json", "text", "exit"] = "json"
    home: Literal["temporary", "inherit"] = "temporary"
    reserve_usd: float | None = None
    repeatable: bool = True


Driver: TypeAlias = RecordedDriver | PythonDriver | CommandDriver


class Limits(Section, frozen=True, kw_only=True):
    """Limits of one attempt; part of the treatment. `seconds` ends as timeout, others as limit."""

    seconds: float | None = None
    usd: float | None = None
    tokens: int | None = None
    turns: int | None = None
    output_bytes: int | None = None


class Rule(Section, frozen=True, kw_only=True):
    """A threshold rule over one scoring pass (decision_rule only); None: not given."""

    name: Literal["calibrated_block", "precision_bound_block", "pooled_block_gate"]
    precision: float | None = None
    recall: float | None = None
    bound: FlagBound | None = None
    min_flagged: int | None = None
    family_floor: int | None = None
    normalise: Literal["platt", "isotonic"] | None = None
    select_on: Population | None = None


class Arm(Section, frozen=True, kw_only=True):
    """One side of the comparison; `driver` for a comparison, `rule` for a decision rule."""

    label: str
    driver: Driver | None = None
    replay_only: bool = False
    repeats: int = 1
    limits: Limits = Limits()
    rule: Rule | None = None


class Attempts(Section, frozen=True, kw_only=True):
    """Tries per slot, and the statuses that are tried again."""

    max: int = 1
    retry_on: tuple[Literal["error", "timeout"], ...] = ("error",)


class Endpoint(Section, frozen=True, kw_only=True):
    """One number per unit, how replicates become it, and how arms are compared on it."""

    name: str
    role: EndpointRole
    type: EndpointType
    value: str
    positive: tuple[str, ...] | None = None
    where: dict[Literal["label", "stratum", "split"], tuple[str, ...]] = {}
    better: Literal["higher", "lower"]
    bounds: tuple[float, float] | None = None
    reducer: Reducer | None = None
    k: int | None = None
    scale: Scale = "raw"
    target: float | None = None
    missing: dict[MissingStatus, MissingRule] = {}


class Missing(Section, frozen=True, kw_only=True):
    """What stands for a lost outcome, and how much may be lost before no verdict is given."""

    rules: dict[MissingStatus, MissingRule]
    replicates: int | Literal["all"] = "all"
    limit: float


class Comparison(Section, frozen=True, kw_only=True):
    """Treatment minus control, with its share of alpha."""

    name: str
    treatment: str
    control: str
    share: float | Literal["holm"]


class Analysis(Section, frozen=True, kw_only=True):
    """Estimand, error rate and what is compared; `also` is shown and never decides."""

    estimand: Literal["unit_weighted", "cluster_weighted"]
    alpha: float = 0.05
    sides: Literal[1, 2] = 2
    comparisons: tuple[Comparison, ...]
    also: tuple[Also, ...] = ("mcnemar", "sign_flip", "cluster_weighted")
    resamples: int = 9999


class Futility(Section, frozen=True, kw_only=True):
    """A note for people when the conditional power falls below this."""

    conditional_power: float


class Looks(Section, frozen=True, kw_only=True):
    """When data are analysed.

    Planned: `at`, `on_crossing` and either `spending` (with `parameter`) or `boundary`.
    Anytime: `at` is empty, `spending` None, `method` and `min_clusters` are set.
    """

    kind: Literal["planned", "anytime"] = "planned"
    at: tuple[float, ...] = (1.0,)
    icc: float | None = None
    spending: Spending | None = "lan_demets_obrien_fleming"
    parameter: float | None = None
    boundary: tuple[float, ...] | None = None
    futility: Futility | None = None
    on_crossing: Literal["stop", "continue"] = "stop"
    method: Literal["betting", "empirical_bernstein", "beta", "asymptotic"] | None = None
    min_clusters: int | None = None


class Saving(Section, frozen=True, kw_only=True):
    """Adopt and equivalent also need a shown saving on this endpoint."""

    endpoint: str
    at_least: float


class Harm(Section, frozen=True, kw_only=True):
    """When a harm endpoint alone rejects."""

    alpha: float
    margin: float


class Guards(Section, frozen=True, kw_only=True):
    """Below these there is too little evidence for a verdict."""

    min_clusters: int = 6
    min_df: float = 4.0
    min_discordant_clusters: int = 8


class Decision(Section, frozen=True, kw_only=True):
    """How intervals become a verdict; `rule` lists what is tried, in order."""

    rule: tuple[DecisionRule, ...]
    margin: float | None = None
    primaries: Literal["all", "any", "ordered"] | None = None
    saving: Saving | None = None
    harm: Harm | None = None
    worse_inside_margin: Literal["inconclusive", "adopt"] = "inconclusive"
    on_under_run: Literal["inconclusive", "analyse"] = "inconclusive"
    guards: Guards = Guards()
    arm: str | None = None
    bound: FlagBound | None = None
    strata: Literal["pooled", "each"] | None = None
    gate: str


class Assume(Section, frozen=True, kw_only=True):
    """What is assumed of the reduced paired difference; None: not given."""

    discordance: float | None = None
    sd: float | None = None
    icc: float | None = None
    missing: float | None = None


class Accept(Section, frozen=True, kw_only=True):
    """Findings of the power check that are accepted, each with its reason."""

    no_verdict_possible: str | None = None
    impossible: str | None = None
    underpowered: str | None = None
    not_assessed: str | None = None


class Power(Section, frozen=True, kw_only=True):
    """The difference worth finding; `effect` None: not assessed."""

    effect: float | None
    target: float = 0.8
    assume: Assume = Assume()
    source: str = "guess"
    accept: Accept = Accept()


class ArmBudget(Section, frozen=True, kw_only=True):
    """Ceilings of one arm over all sessions; None: no ceiling."""

    usd: float | None = None
    calls: int | None = None
    tokens: int | None = None
    wall_seconds: float | None = None


class Budget(ArmBudget, frozen=True, kw_only=True):
    """Ceilings of the experiment over all sessions, and of single arms."""

    arms: dict[str, ArmBudget] = {}
    unpriced: Literal["refuse", "count_calls"] = "refuse"


class Blinding(Section, frozen=True, kw_only=True):
    """Whether labels are hidden, and what a look shows people."""

    arms: bool = False
    looks: Literal["full", "continue_or_stop"] = "full"


class Signature(Section, frozen=True, kw_only=True):
    """A signature that has to exist before something happens."""

    meaning: Literal["reviewed", "approved"]
    role: str
    before: Literal["run", "result_counts"]


class Require(Section, frozen=True, kw_only=True):
    """What has to hold around the experiment: git, anchors, signatures."""

    commit: bool = True
    anchor: Literal["none", "checkpoint", "witness", "timestamp"] = "none"
    signatures: tuple[Signature, ...] = ()


class Diagnostics(Section, frozen=True, kw_only=True):
    """What a positive diagnostic does to the verdict."""

    served_model: DiagnosticEffect = "show"
    order_effect: DiagnosticEffect = "show"
    time_drift: DiagnosticEffect = "show"
    sample_ratio: DiagnosticEffect = "show"
    informative_size: DiagnosticEffect = "show"


class Scoring(Section, frozen=True, kw_only=True):
    """The one scoring pass that all rules of a decision_rule protocol share."""

    driver: Driver
    replay_only: bool
    fold_role: Literal["outer"]


class Populations(Section, frozen=True, kw_only=True):
    """Which candidates decide, and which are shown beside (decision_rule only)."""

    primary: Population
    secondary: tuple[Population, ...] = ()

"""The fields of the protocol file that make up the numbers: endpoints to power.

Leaves version 1's defaults to `ledger/sections.py`, all other fields to `fields.py`, rules
between fields to `rules_endpoints.py` and its neighbours.

Rules:
- One entry a field, in the order of the sections.
- A field is `required`, `optional` (its default stands in `ledger/sections.py`) or `derived`.
"""

from __future__ import annotations

from typing import get_args

from fairtrial.ledger.protocol import (
    MISSING_STATUSES,
    Also,
    DecisionRule,
    EndpointRole,
    EndpointType,
    MissingWord,
    Reducer,
    Scale,
    Spending,
)

from .records import (
    Either,
    ListOf,
    MapOf,
    OneOrMany,
    Record,
    derived,
    optional,
    required,
)
from .shapes import Cell, Choice, Integer, Number, Text

__all__ = (
    "ALPHA_MIN",
    "AMOUNT",
    "ANALYSIS",
    "ARM_NAME",
    "COUNT",
    "DECISION",
    "ENDPOINT",
    "LOOKS",
    "MISSING",
    "POSITIVE",
    "POWER",
    "REASON",
    "SHARE",
)

# Below it, no boundary of a look can be computed to its last digit.
ALPHA_MIN = 1e-6
REASON = Text(pattern=r"(?s).*\S.*", multiline=True, expected="a reason in words")
ARM_NAME = Text(
    pattern=r"[A-Za-z0-9_-]{1,32}",
    expected="an arm's name: 1 to 32 letters, digits, _ or -",
)
SHARE = Number(low=0, high=1, expected="a number from 0 to 1")
POSITIVE = Number(above=0, expected="a number above 0")
AMOUNT = Number(low=0, expected="a number, 0 or more")
COUNT = Integer(low=1)
_VALUES = (
    "passed", "score", "answer", "usd", "usd_incurred", "tokens", "duration_seconds", "flagged",
)  # fmt: skip

_RULE = Either(
    words={word: word for word in get_args(MissingWord)},
    other=Number(),
    expected=f"{', '.join(get_args(MissingWord))} or a number",
)
_DERIVED_STATUSES = {
    "not_run": "slots never started follow decision.on_under_run",
    "interrupted": "an interrupted attempt leaves its slot pending",
    "ok": "an outcome that is ok is not missing",
}

ENDPOINT = Record(
    fields={
        "name": required(
            Text(pattern=r"[a-z][a-z0-9_]{0,63}", expected="a name: a-z, then a-z, 0-9 or _")
        ),
        "role": required(Choice(words=get_args(EndpointRole))),
        "type": required(Choice(words=get_args(EndpointType))),
        "value": required(
            Text(
                pattern=rf"{'|'.join(_VALUES)}|scores\.\S(.*\S)?",
                expected=f"one of {', '.join(_VALUES)} or scores.NAME",
                blank="passed",
            )
        ),
        "positive": optional(ListOf(item=Cell(), least=1)),
        "where": optional(
            MapOf(value=ListOf(item=Cell(), least=1), known=("label", "stratum", "split"))
        ),
        "better": required(Choice(words=("higher", "lower"))),
        "bounds": optional(ListOf(item=Number(), least=2, most=2, distinct=False)),
        "reducer": derived(Choice(words=get_args(Reducer)), None),
        "k": optional(COUNT),
        "scale": derived(Choice(words=get_args(Scale)), "raw"),
        "target": optional(Number()),
        "missing": optional(
            Record(
                fields={status: optional(_RULE) for status in MISSING_STATUSES},
                others=_DERIVED_STATUSES,
            )
        ),
    }
)

MISSING = Record(
    fields={
        "rules": required(
            Record(
                fields={status: required(_RULE) for status in MISSING_STATUSES},
                others=_DERIVED_STATUSES,
            )
        ),
        "replicates": optional(
            Either(words={"all": "all"}, other=COUNT, expected="all or an integer, 1 or more")
        ),
        "limit": required(Number(low=0, high=0.2, expected="a number from 0 to 0.2")),
    }
)

_ALPHA = Number(low=ALPHA_MIN, high=0.2, expected="a number from 0.000001 to 0.2")
ANALYSIS = Record(
    fields={
        "estimand": required(Choice(words=("unit_weighted", "cluster_weighted"))),
        "alpha": optional(_ALPHA),
        "sides": optional(Integer(low=1, high=2)),
        "comparisons": derived(
            ListOf(
                item=Record(
                    fields={
                        "name": required(ARM_NAME),
                        "treatment": required(ARM_NAME),
                        "control": required(ARM_NAME),
                        "share": required(
                            Either(
                                words={"holm": "holm"},
                                other=Number(above=0, high=1, expected="holm or a share"),
                                expected="holm, or a number above 0 and at most 1",
                            )
                        ),
                    }
                ),
                least=1,
                key="name",
            ),
            (),
        ),
        "also": optional(ListOf(item=Choice(words=get_args(Also)))),
        "resamples": optional(Integer(low=999)),
    }
)

LOOKS = Record(
    fields={
        "kind": optional(Choice(words=("planned", "anytime"))),
        "at": optional(
            ListOf(
                item=Number(above=0, high=1, expected="a share of the clusters, above 0 to 1"),
                least=1,
                most=20,
                distinct=False,
            )
        ),
        "icc": optional(SHARE),
        "spending": optional(
            Choice(
                words=get_args(Spending),
                hints={
                    "obrien_fleming": "ambiguous; write lan_demets_obrien_fleming",
                    "pocock": "ambiguous; write lan_demets_pocock",
                },
            )
        ),
        "parameter": optional(Number()),
        "boundary": optional(ListOf(item=POSITIVE, least=1, distinct=False)),
        "futility": optional(
            Record(
                fields={
                    "conditional_power": required(
                        Number(above=0, below=0.5, expected="a number between 0 and 0.5")
                    )
                }
            )
        ),
        "on_crossing": optional(Choice(words=("stop", "continue"))),
        "method": optional(Choice(words=("betting", "empirical_bernstein", "beta", "asymptotic"))),
        "min_clusters": optional(COUNT),
    }
)

DECISION = Record(
    fields={
        "rule": required(OneOrMany(item=Choice(words=get_args(DecisionRule)))),
        "margin": optional(AMOUNT),
        "primaries": optional(Choice(words=("all", "any", "ordered"))),
        "saving": optional(
            Record(
                fields={
                    "endpoint": required(Text()),
                    "at_least": required(
                        Number(low=0, below=1, expected="a number from 0 to below 1")
                    ),
                }
            )
        ),
        "harm": optional(Record(fields={"alpha": required(_ALPHA), "margin": required(AMOUNT)})),
        "worse_inside_margin": optional(Choice(words=("inconclusive", "adopt"))),
        "on_under_run": optional(Choice(words=("inconclusive", "analyse"))),
        "guards": optional(
            Record(
                fields={
                    "min_clusters": optional(Integer(low=6, hint="guards may only be raised")),
                    "min_df": optional(Number(low=4, expected="a number, 4 or more")),
                    "min_discordant_clusters": optional(
                        Integer(low=8, hint="guards may only be raised")
                    ),
                }
            )
        ),
        "arm": optional(ARM_NAME),
        "bound": optional(
            Choice(words=("clopper_pearson", "learn_then_test", "cluster_aware", "wilson"))
        ),
        "strata": optional(Choice(words=("pooled", "each"))),
        "gate": derived(ARM_NAME, ""),
    }
)

_FINDINGS = ("no_verdict_possible", "impossible", "underpowered", "not_assessed")
POWER = Record(
    fields={
        "effect": required(
            Either(words={"none": None}, other=Number(), expected="a number or none")
        ),
        "target": optional(Number(above=0.5, below=1, expected="a number between 0.5 and 1")),
        "assume": optional(
            Record(
                fields={
                    "discordance": optional(
                        Number(above=0, high=1, expected="a number above 0, at most 1")
                    ),
                    "sd": optional(POSITIVE),
                    "icc": optional(SHARE),
                    "missing": optional(
                        Number(low=0, below=1, expected="a number from 0 to below 1")
                    ),
                }
            )
        ),
        "source": optional(REASON),
        "accept": optional(Record(fields={name: optional(REASON) for name in _FINDINGS})),
    }
)

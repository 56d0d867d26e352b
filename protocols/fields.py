"""Every field of the protocol file, schema version 1: its shape and whether it has to be written.

Leaves endpoints to power to `fields_numbers.py`, version 1's defaults to
`ledger/sections.py`, derived defaults to `defaults.py`, rules between fields to
`rules.py`.

Rules:
- One entry a field, in the order of the sections; `PROTOCOL` is the whole file.
- A field is `required`, `optional` (its default stands in `ledger/sections.py`) or `derived`.
"""

from __future__ import annotations

from typing import get_args

from fairtrial.ledger.protocol import SEED_MAX, DiagnosticEffect, FlagBound, Population

from .fields_numbers import (
    ANALYSIS,
    ARM_NAME,
    COUNT,
    DECISION,
    ENDPOINT,
    LOOKS,
    MISSING,
    POWER,
    REASON,
    SHARE,
)
from .records import (
    Either,
    Free,
    ListOf,
    MapOf,
    Record,
    Tagged,
    derived,
    optional,
    required,
)
from .shapes import Cell, Choice, Flag, Integer, Money, Number, Text

__all__ = ("OUTCOME_FIELDS", "PROTOCOL")

OUTCOME_FIELDS = (
    "unit", "replicate", "status", "passed", "score", "answer", "usd", "tokens", "duration_seconds",
)  # fmt: skip

_LINE = Text(pattern=r"(?s).*", expected="one line of text")
_PROSE = Text(pattern=r"(?s).*", multiline=True)
_COLUMN = Text(pattern=r"(?is)(?!none$).+", expected="a column name (`none` is for cluster alone)")
_PATH = Text(
    pattern=r"(?![/~])(?![A-Za-z]:)[^\\]+", expected="a path relative to the protocol file, with /"
)
_EFFECT = optional(Choice(words=get_args(DiagnosticEffect)))
_SECONDS = Number(above=0, high=1e7, expected="a number of seconds above 0, at most 10,000,000")
_WALL_SECONDS = Number(low=0, high=1e9, expected="a number of seconds from 0 to 1,000,000,000")
_VARIABLES = ListOf(
    item=Text(
        pattern=r"[A-Za-z_][A-Za-z0-9_]*",
        expected="the name of a variable, without a value: values are never stored",
    )
)

_ABOUT = Record(
    fields={
        "title": optional(_LINE),
        "hypothesis": required(
            Text(pattern=r"(?s).*\S.*", multiline=True, expected="the question in a sentence")
        ),
        "owner": optional(_LINE),
        "notes": optional(_PROSE),
        "links": optional(ListOf(item=Text(pattern=r"https?://\S+", expected="an http(s) link"))),
    }
)

_UNITS = Record(
    fields={
        "file": required(_PATH),
        "format": derived(Choice(words=("csv", "jsonl")), "csv"),
        "id": required(_COLUMN),
        "cluster": required(
            Either(words={"none": None}, other=_COLUMN, expected="a column name or none")
        ),
        "stratum": optional(_COLUMN),
        "twin": optional(_COLUMN),
        "label": optional(_COLUMN),
        "split": optional(_COLUMN),
        "fold": optional(_COLUMN),
        "select": optional(MapOf(value=ListOf(item=Cell(), least=1), key=_COLUMN)),
        "limit": optional(Integer(low=2)),
        "input": optional(ListOf(item=_COLUMN)),
        "allow_label": optional(REASON),
        "pilot": optional(_PATH),
    }
)

_DESIGN = Record(
    fields={
        "pairing": required(Choice(words=("paired", "assigned"))),
        "seed": required(Integer(high=SEED_MAX)),
        "assign": optional(
            Record(
                fields={
                    "by": required(Choice(words=("unit", "cluster"))),
                    "ratio": required(MapOf(value=COUNT, key=ARM_NAME)),
                    "within": optional(
                        Either(
                            words={"none": None},
                            other=Choice(words=("cluster", "stratum")),
                            expected="cluster, stratum or none",
                        )
                    ),
                }
            )
        ),
    }
)

_LIVE = {
    "files": optional(ListOf(item=_PATH)),
    "env": optional(_VARIABLES),
    "secrets": optional(_VARIABLES),
    "config": optional(Free()),
    "reserve_usd": optional(Money()),
    "repeatable": optional(Flag()),
}
_NOT_LIVE = dict.fromkeys(_LIVE, "a recorded driver starts nothing: leave it out")
_COMMAND_ONLY: dict[str, str] = dict.fromkeys(
    ("argv", "output", "home"), "it belongs to a command driver"
)

_DRIVER = Tagged(
    tag="kind",
    records={
        "recorded": Record(
            fields={
                "kind": required(Choice(words=("recorded",))),
                "file": required(_PATH),
                "where": optional(MapOf(value=Cell(), key=_COLUMN)),
                "columns": required(
                    MapOf(
                        value=_COLUMN,
                        known=OUTCOME_FIELDS,
                        prefix="scores.",
                        example="a field stands before its column",
                    )
                ),
                "files": optional(ListOf(item=_PATH)),
            },
            others=_NOT_LIVE | _COMMAND_ONLY,
        ),
        "python": Record(
            fields={
                "kind": required(Choice(words=("python",))),
                "call": required(
                    Text(pattern=r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", expected="module:function")
                ),
                **_LIVE,
            },
            others=_COMMAND_ONLY,
        ),
        "command": Record(
            fields={
                "kind": required(Choice(words=("command",))),
                "argv": required(ListOf(item=Text(), least=1, distinct=False)),
                **_LIVE,
                "output": optional(Choice(words=("json", "text", "exit"))),
                "home": optional(Choice(words=("temporary", "inherit"))),
            },
        ),
    },
    later=("chat", "agent", "inspect", "container"),
)

_ARMS = MapOf(
    key=ARM_NAME,
    value=Record(
        fields={
            "label": derived(Text(expected="one line of text"), ""),
            "driver": optional(_DRIVER),
            "replay_only": optional(Flag()),
            "repeats": optional(COUNT),
            "limits": optional(
                Record(
                    fields={
                        "seconds": optional(_SECONDS),
                        "usd": optional(Money(above=0)),
                        "tokens": optional(COUNT),
                        "turns": optional(COUNT),
                        "output_bytes": optional(COUNT),
                    }
                )
            ),
            "rule": optional(
                Record(
                    fields={
                        "name": required(
                            Choice(
                                words=(
                                    "calibrated_block",
                                    "precision_bound_block",
                                    "pooled_block_gate",
                                )
                            )
                        ),
                        "precision": optional(SHARE),
                        "recall": optional(SHARE),
                        "bound": optional(Choice(words=get_args(FlagBound))),
                        "min_flagged": optional(COUNT),
                        "family_floor": optional(COUNT),
                        "normalise": optional(Choice(words=("platt", "isotonic"))),
                        "select_on": optional(Choice(words=get_args(Population))),
                    }
                )
            ),
        }
    ),
)

_DRAWS = "a bad answer that is tried again would be a second draw"
_ATTEMPTS = Record(
    fields={
        "max": optional(Integer(low=1, high=20)),
        "retry_on": optional(
            ListOf(
                item=Choice(
                    words=("error", "timeout"),
                    hints=dict.fromkeys(("ok", "failed", "limit", "ungraded"), _DRAWS),
                )
            )
        ),
    }
)

_CEILINGS = {
    "usd": optional(Money()),
    "calls": optional(Integer()),
    "tokens": optional(Integer()),
    "wall_seconds": optional(_WALL_SECONDS),
}
_BUDGET = Record(
    fields={
        **_CEILINGS,
        "arms": optional(MapOf(value=Record(fields=_CEILINGS), key=ARM_NAME)),
        "unpriced": optional(Choice(words=("refuse", "count_calls"))),
    }
)

_REQUIRE = Record(
    fields={
        "commit": optional(Flag()),
        "anchor": optional(Choice(words=("none", "checkpoint", "witness", "timestamp"))),
        "signatures": optional(
            ListOf(
                item=Record(
                    fields={
                        "meaning": required(Choice(words=("reviewed", "approved"))),
                        "role": required(Text()),
                        "before": required(Choice(words=("run", "result_counts"))),
                    }
                )
            )
        ),
    }
)

PROTOCOL = Record(
    fields={
        "protocol": required(
            Integer(low=1, high=1, hint="a version above 1 is newer than this tool")
        ),
        "id": required(
            Text(
                pattern=r"[a-z0-9][a-z0-9._-]{0,63}",
                expected="1 to 64 of a-z, 0-9, ., _ and -, beginning with a letter or digit",
            )
        ),
        "kind": optional(Choice(words=("comparison", "decision_rule"))),
        "about": required(_ABOUT),
        "units": required(_UNITS),
        "design": required(_DESIGN),
        "arms": required(_ARMS),
        "control": derived(ARM_NAME, ""),
        "aa": optional(Flag()),
        "attempts": optional(_ATTEMPTS),
        "endpoints": required(ListOf(item=ENDPOINT, least=1, key="name")),
        "missing": required(MISSING),
        "analysis": required(ANALYSIS),
        "looks": optional(LOOKS),
        "decision": required(DECISION),
        "power": required(POWER),
        "budget": optional(_BUDGET),
        "blinding": optional(
            Record(
                fields={
                    "arms": optional(Flag()),
                    "looks": optional(Choice(words=("full", "continue_or_stop"))),
                }
            )
        ),
        "require": optional(_REQUIRE),
        "diagnostics": optional(
            Record(
                fields=dict.fromkeys(
                    (
                        "served_model",
                        "order_effect",
                        "time_drift",
                        "sample_ratio",
                        "informative_size",
                    ),
                    _EFFECT,
                )
            )
        ),
        "scoring": optional(
            Record(
                fields={
                    "driver": required(_DRIVER),
                    "replay_only": required(Flag()),
                    "fold_role": required(Choice(words=("outer",))),
                }
            )
        ),
        "populations": optional(
            Record(
                fields={
                    "primary": required(Choice(words=get_args(Population))),
                    "secondary": optional(ListOf(item=Choice(words=get_args(Population)))),
                }
            )
        ),
    },
    others={"scorers": "reserved: scoring apart from deciding is not in this version"},
)

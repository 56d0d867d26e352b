"""The plan that a table of outcomes implies: a protocol with recorded arms, and its files. Pure.

Leaves understanding the table to `outcome_table.py`, the comparison itself to `compare.py`.

Rules:
- One look at the end, superiority, alpha 0.05; lost outcomes leave their pair, the arms' own
  failures count as failures; more than 2 % lost give no verdict.
- The same table gives the same bytes. The seed, which only orders units and draws Monte Carlo
  patterns here, comes from the outcomes that are compared: an unused column doesn't change it.
- A table that was long CSV with 0 and 1 or numbers is kept as it is; any other is written out long.
- Findings of the power check are accepted with the reason that the outcomes exist already.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from .outcome_table import OutcomeTable

__all__ = ("TableTrial", "arm_names", "table_trial")

_EXISTS = "The outcomes exist already: the design is what the table has."


class TableTrial(NamedTuple):
    """The files of a trial: protocol.yaml, units.csv, outcomes.csv."""

    protocol: str
    units: bytes
    outcomes: bytes


def arm_names(table: OutcomeTable) -> tuple[str, str]:
    """Returns names for control and treatment that a protocol can use, near to the table's own."""
    names = [_arm_name(arm) for arm in (table.control, table.treatment)]
    if names[0] == names[1] or not all(names):
        return "control", "treatment"
    return names[0], names[1]


def table_trial(
    table: OutcomeTable, data: bytes, *, id: str, is_hopeless: bool = False
) -> TableTrial:
    """Returns the files of a trial made from a table.

    Args:
        table: what the table holds.
        data: its bytes.
        id: of the experiment.
        is_hopeless: the units allow no verdict, which the protocol then accepts with a reason.
    """
    is_csv = not table.name.endswith((".jsonl", ".ndjson"))
    verbatim = table.layout == "long" and is_csv and not table.translated and not table.overlap
    return TableTrial(
        protocol=_protocol(table, id, verbatim, is_hopeless),
        units=_units(table),
        outcomes=data if verbatim else _outcomes(table),
    )


def _protocol(table: OutcomeTable, id: str, verbatim: bool, is_hopeless: bool) -> str:
    control, treatment = arm_names(table)
    columns = _columns(table, verbatim)
    seed = _seed(table)
    lines = [
        f"# Made from {_plain(table.name)}. The outcomes came first, as the result will say.",
        "protocol: 1",
        f"id: {id}",
        "",
        "about:",
        f"  hypothesis: {_quoted(f'{table.treatment} does better than {table.control}.')}",
        "",
        "units:",
        "  file: units.csv",
        "  id: unit",
        f"  cluster: {_cluster(table)}",
        "",
        "design:",
        "  pairing: paired                # each unit in both arms",
        f"  seed: {seed}",
        "",
        "arms:",
        *_arm(control, table.control, table.repeats[0], columns),
        *_arm(treatment, table.treatment, table.repeats[1], columns),
        f"control: {control}".ljust(33) + "# differences are the other arm minus this one",
        "",
        *_endpoint(table),
        "",
        *_missing(table),
        "",
        "analysis:",
        "  estimand: unit_weighted        # or cluster_weighted: each cluster counts once",
        "  alpha: 0.05",
        "",
        "looks: {at: [1.0]}               # one, at the end",
        "",
        "decision: {rule: superiority, margin: 0.0}",
        "",
        *_power(table, is_hopeless),
        "",
        "budget: {usd: 0}                 # nothing is asked again",
    ]
    return "\n".join(lines) + "\n"


def _seed(table: OutcomeTable) -> int:
    """Returns a number made from what is compared, whatever else and in what order it stood."""
    rows = [(row.unit, row.arm, row.replicate, row.status, row.value) for row in table.rows]
    used = json.dumps([sorted(table.units), sorted(rows)]).encode()
    return int.from_bytes(sha256(used).digest()[:4], "big")


def _cluster(table: OutcomeTable) -> str:
    if table.cluster_column is None:
        return "none                  # each unit its own; name a column if units share something"
    return "cluster               # units that move together"


def _columns(table: OutcomeTable, verbatim: bool) -> dict[str, str]:
    """Returns the columns of outcomes.csv by field."""
    field = "passed" if table.binary else "score"
    columns = {"unit": "unit", "replicate": "replicate", "status": "status", field: "value"}
    if verbatim:
        columns |= {"unit": table.unit_column, field: table.value_column}
    if max(table.repeats) == 1:
        del columns["replicate"]
    if not table.has_status:
        del columns["status"]
    return columns


def _arm(name: str, label: str, repeats: int, columns: dict[str, str]) -> list[str]:
    mapped = ", ".join(f"{field}: {_quoted(column)}" for field, column in columns.items())
    return [
        f"  {name}:",
        f"    label: {_quoted(label)}",
        *([f"    repeats: {repeats}"] if repeats > 1 else []),
        "    driver:",
        "      kind: recorded",
        "      file: outcomes.csv",
        f"      where: {{arm: {_quoted(label)}}}",
        f"      columns: {{{mapped}}}",
    ]


def _endpoint(table: OutcomeTable) -> list[str]:
    value = "passed" if table.binary else "score"
    several = max(table.repeats) > 1
    kind = "continuous" if not table.binary else "bounded" if several else "binary"
    lines = [
        "endpoints:",
        f"  - name: {_endpoint_name(table)}",
        "    role: primary",
        f"    type: {kind}",
        f"    value: {value}",
        "    better: higher",
    ]
    if kind == "bounded":
        lines.append("    bounds: [0, 1]")
    if several:
        lines.append("    reducer: mean                # of the replicates of a unit")
    return lines


def _endpoint_name(table: OutcomeTable) -> str:
    name = table.value_column.lower()
    return name if re.fullmatch(r"[a-z][a-z0-9_]*", name) else "outcome"


def _missing(table: OutcomeTable) -> list[str]:
    own = "failure" if table.binary else "exclude_pair"
    replicates = ["  replicates: 1                  # a unit counts with the replicates it has"]
    return [
        "missing:",
        "  rules:",
        *(f"    {status}: {own}" for status in ("failed", "timeout", "limit")),
        *(
            f"    {status}: exclude_pair"
            for status in ("error", "ungraded", "replay_miss", "invalidated")
        ),
        *(replicates if max(table.repeats) > 1 else []),
        "  limit: 0.02                    # more lost than this: no verdict",
    ]


def _power(table: OutcomeTable, is_hopeless: bool) -> list[str]:
    assume = "{discordance: 0.2, icc: 0.05}" if table.binary else "{}"
    return [
        "power:",
        "  effect: none                   # nothing was planned",
        f"  assume: {assume}",
        "  source: guess",
        "  accept:",
        f"    not_assessed: {_quoted(_EXISTS)}",
        *([f"    no_verdict_possible: {_quoted(_EXISTS)}"] if is_hopeless else []),
    ]


def _units(table: OutcomeTable) -> bytes:
    rows: list[tuple[str, ...]]
    if table.cluster_column is not None:
        rows = [("unit", "cluster"), *table.units]
    else:
        rows = [("unit",), *((unit,) for unit, _ in table.units)]
    return _csv(rows)


def _outcomes(table: OutcomeTable) -> bytes:
    head = ("unit", "arm", "replicate", "status", "value")
    return _csv(
        [head, *((row.unit, row.arm, row.replicate, row.status, row.value) for row in table.rows)]
    )


def _csv(rows: Sequence[tuple[str, ...]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _arm_name(arm: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", arm).strip("-")[:32]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _plain(text: str) -> str:
    return re.sub(r"[^ -~]", "?", text)

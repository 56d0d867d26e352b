"""What `ledger init` writes: a commented protocol with units, an agent and a .gitignore.

Leaves protocols made from a table to `compare.py`.

Rules:
- The example passes `ledger check` and runs as it stands; everything in it is meant to be replaced.
- No file is ever overwritten: either all are new, or none is written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from fairtrial.ledger.durable import write_new
from fairtrial.ledger.errors import RefusedError

__all__ = ("GITIGNORE", "example_files", "experiment_id", "write_new_files")

GITIGNORE = """\
# The ledger and what lies beside it: back it up, keep its receipts elsewhere, don't commit it.
ledger.db*
ledger.jsonl*
__pycache__/
"""

_PROTOCOL = """\
# The plan. It is registered before anyone sees an answer; from then on every change is on record.
#   ledger check protocol.yaml      what is wrong with it, where its looks fall, what it can find
#   ledger register protocol.yaml   puts it on record and freezes the units
protocol: 1                     # version of the rules for this file
id: {id}

about:
  title: Adding with and without the carry
  hypothesis: An agent that carries adds more sums correctly than one that doesn't.

units:                          # unit (task, case, question): what both arms are asked
  file: units.csv
  id: unit                      # column names
  cluster: sheet                # units that resemble each other: one document, repository, author.
                                # They count as less evidence. `none`: each unit stands alone
  input: [question]             # what an agent gets to see beside the id
  pilot: pilot.csv              # for `ledger try`; never part of the experiment

design:
  pairing: paired               # each unit in both arms
  seed: 20260101                # any number: fixes the order, and the agents' seeds

arms:
  baseline:
    label: adds digit by digit
    driver:
      kind: command             # a program; `python` calls a function, `recorded` reads a table
      argv: [python3, agent.py] # gets one JSON line on stdin, answers with one on stdout
      files: [agent.py]         # what the arm is made of: a change after the freeze is refused
      config: {{carry: false}}    # passed on as it stands
      env: []                   # names of variables to let through; a key goes under `secrets`
      reserve_usd: 0.01         # the largest price of one attempt, held back before it starts
    limits: {{seconds: 30, usd: 0.01}}
  candidate:
    label: carries
    driver:
      kind: command
      argv: [python3, agent.py]
      files: [agent.py]
      config: {{carry: true}}
      reserve_usd: 0.01
    limits: {{seconds: 30, usd: 0.01}}
control: baseline               # the incumbent; differences are candidate minus baseline

attempts:
  max: 2                        # tries a slot; a second one follows a fault, never a wrong answer

endpoints:
  - name: correct
    role: primary               # primary decides; secondary is shown; harm can reject
    type: binary
    value: passed               # the field of the answer
    better: higher

missing:                        # what stands for an outcome that can't count; no default
  rules:
    failed: failure             # the agent's own fault: counts as wrong
    timeout: failure
    limit: failure
    error: exclude_pair         # not its fault: the pair leaves, and is counted
    ungraded: exclude_pair
    replay_miss: exclude_pair
    invalidated: exclude_pair
  limit: 0.1                    # more than a tenth lost: no verdict

analysis:
  estimand: unit_weighted       # the mean over units; `cluster_weighted`: over clusters
  alpha: 0.05                   # chance of a false verdict, over all looks together

looks:
  at: [0.75, 1.0]               # planned interim analyses, in shares of the clusters
  icc: 0.05                     # how much units of one cluster resemble each other

decision:
  rule: superiority             # or non_inferiority, equivalence, each with a margin

power:
  effect: 0.5                   # the smallest difference worth finding: 50 points
  assume: {{discordance: 0.5, icc: 0.05}}
  source: guess

budget:
  usd: 1.00                     # no attempt starts that could go beyond it
"""

_AGENT = '''\
"""Stands in for your agent: reads one job, answers it, says what that cost.

The job has the keys v, experiment, arm, unit, replicate, attempt, seed, input, config, limits, out.
Anything printed before the last line is kept as a log. Exit with another status than 0 when the
fault isn't the agent's (a network, a full disk): it is tried again and never counts as wrong.
"""

import json
import sys

job = json.load(sys.stdin)
left, right = (int(word) for word in job["input"]["question"].split("+"))

if job["config"]["carry"]:
    answer = left + right
else:
    tens = (left // 10 + right // 10) % 10
    answer = 10 * tens + (left + right) % 10

# Here the right answer can be computed. Yours may come from tests, a reference or a grader.
print(json.dumps({"v": 1, "answer": str(answer), "passed": answer == left + right, "usd": 0.001}))
'''

# Two sums a sheet; those whose digits add up to ten or more need the carry.
_SUMS = (
    "12+25 17+25", "18+34 29+46", "31+44 26+37", "15+15 40+17", "38+27 22+61", "11+16 45+39",
    "19+52 28+33", "13+24 32+41", "27+36 50+20", "48+14 35+28", "21+43 16+66", "37+47 14+73",
)  # fmt: skip


def example_files(id: str) -> dict[str, str]:
    """Returns the files of the example by name.

    Args:
        id: The experiment's name, in the grammar of a protocol's `id`.
    """
    return {
        "protocol.yaml": _PROTOCOL.format(id=id),
        "units.csv": "unit,sheet,question\n" + "".join(_unit_rows()),
        "pilot.csv": "unit,question\npilot-1,23+48\npilot-2,30+12\n",
        "agent.py": _AGENT,
        ".gitignore": GITIGNORE,
    }


def _unit_rows() -> list[str]:
    return [
        f"sum-{2 * sheet + place:02},sheet-{sheet + 1:02},{question}\n"
        for sheet, questions in enumerate(_SUMS)
        for place, question in enumerate(questions.split(), start=1)
    ]


def experiment_id(name: str) -> str:
    """Returns a name in the grammar of a protocol's `id`, as near to the given one as it goes."""
    clean = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("._-")
    return clean[:64] or "trial"


def write_new_files(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Writes files into a folder, which is made when it isn't there.

    Raises:
        RefusedError: One of them exists, or the folder can't be written; nothing was written.
    """
    existing = [name for name in files if os.path.lexists(folder / name)]
    if existing:
        raise RefusedError(
            "files that are there already are never overwritten",
            where=str(folder),
            expected="a folder without them",
            found=", ".join(existing),
            todo="give another folder: ledger init FOLDER",
        )
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            write_new(folder / name, data, mode=0o666)
            written.append(folder / name)
    except BaseException as error:
        for path in written:
            path.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        raise RefusedError(
            "the files can't be written, and none of them was kept",
            where=error.filename or str(folder),
            found=error.strerror or str(error),
            todo="see to the disk, or give another folder: ledger init FOLDER",
        ) from error

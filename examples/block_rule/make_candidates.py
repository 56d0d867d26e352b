"""Writes candidates.jsonl and scores.jsonl: synthetic findings of a scanner, with their truth.

    python make_candidates.py

Nothing here was measured. 240 made-up repositories hold pairs of candidates: one that is vulnerable
and its repaired twin; and some candidates without a twin, mostly harmless. A made-up model scores
each; how well it tells them apart differs by family, and repositories shift its scores a little.
The numbers come from one seed, so that everybody who runs this has the same two files.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

SEED = 7
REPOSITORIES = 240
FOLDS = 5
# How far apart the scores of the two sides of a pair lie, in standard deviations.
FAMILIES = {"sql_injection": 5.4, "path_traversal": 4.6, "deserialisation": 3.2}


def main() -> None:
    """Writes both files beside this one."""
    draw = Random(SEED)
    candidates: list[dict[str, object]] = []
    scores: list[dict[str, object]] = []

    def add(
        number: int, unit: str, pair: str, family: str, *, vulnerable: int, shift: float
    ) -> None:
        apart = FAMILIES[family] * (vulnerable - 0.5)
        score = draw.gauss(apart + shift, 1.0)
        candidates.append(
            {
                "unit": unit,
                "repository": f"repository-{number:03d}",
                "family": family,
                "pair": pair,
                "vulnerable": vulnerable,
                "fold": f"fold-{number % FOLDS}",
            }
        )
        verdict = "vulnerable" if score > 0 else "safe"
        scores.append({"unit": unit, "s": round(score, 4), "verdict": verdict})

    for number in range(REPOSITORIES):
        shift = draw.gauss(0.0, 0.35)
        for index in range(draw.randint(1, 7)):
            family, name = draw.choice(sorted(FAMILIES)), f"{number:03d}-{index}"
            add(number, f"{name}-before", f"pair-{name}", family, vulnerable=1, shift=shift)
            add(number, f"{name}-after", f"pair-{name}", family, vulnerable=0, shift=shift)
        if draw.random() < 0.5:
            family = draw.choice(sorted(FAMILIES))
            add(
                number,
                f"{number:03d}-alone",
                "",
                family,
                vulnerable=int(draw.random() < 0.1),
                shift=shift,
            )
    write("candidates.jsonl", candidates)
    write("scores.jsonl", scores)


def write(name: str, rows: list[dict[str, object]]) -> None:
    """Writes one JSON object a line."""
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (Path(__file__).parent / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

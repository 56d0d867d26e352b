"""Why a look, or an endpoint at its end, can't decide: codes as words. Pure.

Leaves which codes there are to `verdicts/readings.py`, and the verdict's own reason, which has the
data in it, to `analysis/reasons.py`.

Rules:
- A code that a reader of outcomes can't know is never shown alone: its meaning stands in its place.
- The words of several codes follow each other in the order of the codes.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ("WHY_WORDS", "why_text")

WHY_WORDS = {
    "few_clusters": "too few clusters",
    "low_df": "weighs like too few independent clusters",
    "few_discordant_clusters": "the arms differ in too few clusters",
    "zero_variance": "every cluster shows the same",
    "missing_over_limit": "more lost than the protocol allows",
    "missing_refused": "an outcome that the protocol refuses to count",
    "no_interval": "no interval can be computed",
    "little_information": "too little of the planned information",
    "no_flags": "nothing was flagged",
}


def why_text(codes: Sequence[str]) -> str:
    """Returns what keeps a look from deciding, in words."""
    return ", ".join(WHY_WORDS.get(code, code.replace("_", " ")) for code in codes)

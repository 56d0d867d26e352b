"""Rounds, medians and ratios for the benchmarks; nothing of the product."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from statistics import median


def is_quick() -> bool:
    """Returns whether fewer events and rounds are asked for."""
    return "--quick" in sys.argv


def rounds(*works: Callable[[], object], count: int) -> list[float]:
    """Returns the median seconds of each work, run in turn so that drift is shared."""
    seconds: list[list[float]] = [[] for _ in works]
    for _ in range(count):
        for taken, work in zip(seconds, works, strict=True):
            begun = time.perf_counter()
            work()
            taken.append(time.perf_counter() - begun)
    return [median(each) for each in seconds]


def say(what: str, ours: float, peer: float, *, goal: str) -> None:
    """Prints how many times quicker ours is than the peer, both in seconds for the same work."""
    sys.stdout.write(f"{what:<58} {peer / ours:8.2f} x   (goal {goal})\n")

"""The wall clock in the form of an entry's time.

Leaves it to the log to take another clock, as tests do.

Rules:
- UTC, always six decimals and a Z; a moment is cut to the microsecond, not rounded.
"""

from __future__ import annotations

import time
from functools import lru_cache

__all__ = ("utc_now",)


def utc_now() -> str:
    """Returns the wall clock in the form of an entry's time."""
    seconds, rest = divmod(time.time_ns() // 1000, 1_000_000)
    return f"{_second(seconds)}.{rest:06d}Z"


@lru_cache(maxsize=4)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))

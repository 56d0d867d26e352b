"""What an act tells people that its caller didn't ask for, as it happens.

Leaves the words to whoever tells and showing them to the program around: without one, nothing is
shown, and the record holds it all the same.

Rules:
- Whoever listens is of the present context: two acts in two threads don't hear each other.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ("listening", "tell")

_LISTENER: ContextVar[Callable[[str], None] | None] = ContextVar("_LISTENER", default=None)


@contextmanager
def listening(listener: Callable[[str], None]) -> Generator[None, None, None]:
    """Gives what is told inside the block to a listener."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def tell(text: str) -> None:
    """Tells people something, where anyone listens."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(text)

"""Hands the signals that ask a run to end to whoever carries it out.

Leaves what they mean to `executor.py`.

Rules:
- Signals go to the main thread alone; a run elsewhere is told by a call.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Awaitable, Callable

import anyio

__all__ = ("watch_signals",)


async def watch_signals(
    interrupt: Callable[[], Awaitable[None]], terminate: Callable[[], Awaitable[None]]
) -> None:
    """Calls one of the two for each Ctrl-C or SIGTERM, until it is cancelled."""
    if threading.current_thread() is not threading.main_thread():
        return
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for number in signals:
            await (interrupt if number == signal.SIGINT else terminate)()

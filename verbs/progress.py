"""Shows a run as it goes: a live display on a terminal, plain lines elsewhere, both on stderr.

Leaves the wording to `text_run.py` and the counts to the engine.

Rules:
- Nothing here can stop a run: a display that can't be written is given up.
- Elsewhere than on a terminal a line of progress comes at most every few seconds.
- stdout stays free for the report, or for JSON.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from .text_run import progress_line, progress_lines

if TYPE_CHECKING:
    from rich.live import Live

    from fairtrial.engine.progress import Progress
    from fairtrial.engine.running import ProgressSink

__all__ = ("LinesSink", "open_sink")

LINE_SECONDS = 5.0


class LinesSink:
    """Writes a line for each note, and now and then one with the counts.

    Args:
        write: Takes a line.
        with_progress: Whether counts are written too.
        clock: Seconds of a clock that never steps back.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        *,
        with_progress: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write, self._with_progress, self._clock = write, with_progress, clock
        # The first line waits as long as any: a short run has none.
        self._due = clock() + LINE_SECONDS

    def note(self, text: str) -> None:
        """Writes one line for people."""
        self._put(text)

    def progress(self, progress: Progress) -> None:
        """Writes the counts when a line is due."""
        if self._with_progress and self._clock() >= self._due:
            self._due = self._clock() + LINE_SECONDS
            self._put(progress_line(progress))

    def _put(self, line: str) -> None:
        try:
            self._write(line)
        except OSError:
            self._with_progress = False


class _LiveSink:
    """Redraws the counts in place; notes scroll by above them."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def note(self, text: str) -> None:
        """Prints one line above the display."""
        self._live.console.print(text, markup=False, highlight=False)

    def progress(self, progress: Progress) -> None:
        """Redraws the counts; the display's own clock decides when."""
        from rich.text import Text

        width = self._live.console.width
        self._live.update(Text("\n".join(progress_lines(progress, width=width))))


@contextmanager
def open_sink(choice: str) -> Generator[ProgressSink | None, None, None]:
    """Opens the display for a run.

    Args:
        choice: `auto`, `bar`, `lines`, `none` (notes alone) or `quiet` (nothing).
    """
    if choice == "auto":
        choice = "bar" if _is_terminal() else "lines"
    if choice == "quiet":
        yield None
        return
    if choice != "bar":
        yield LinesSink(_to_stderr, with_progress=choice == "lines")
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), transient=True, refresh_per_second=4) as live:
        yield _LiveSink(live)


def _is_terminal() -> bool:
    try:
        return os.isatty(2)
    except OSError:
        return False


def _to_stderr(line: str) -> None:
    click.echo(line, err=True)

"""The three pipes of a running program, moved without ever blocking.

Leaves to `processes.py` when a program has to end.

Rules:
- A program that doesn't read its input, or closes it, holds nobody up.
- What is printed beyond the limit is read and thrown away, so that the program can end.
"""

from __future__ import annotations

import os
import selectors
import subprocess
from typing import IO, Protocol, cast

__all__ = ("Pipes", "Waitable")

_CHUNK = 65536
_DRAINS_MAX = 64


class Waitable(Protocol):
    """Something whose handle becomes readable when it happens."""

    def fileno(self) -> int | None:
        """Returns the handle; None when there is none on this system."""
        ...


class Pipes:
    """The three pipes of a program, never blocking."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: bytes, output_bytes: int) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.stdout, self.stderr = bytearray(), bytearray()
        self.is_over = False
        self._left = output_bytes
        self._input = memoryview(stdin)
        self._selector = selectors.DefaultSelector()
        self._stdin: IO[bytes] = process.stdin
        self._open = {process.stdout: self.stdout, process.stderr: self.stderr}
        for pipe in (process.stdin, process.stdout, process.stderr):
            os.set_blocking(pipe.fileno(), False)
        for pipe in self._open:
            self._selector.register(pipe, selectors.EVENT_READ)
        self._selector.register(self._stdin, selectors.EVENT_WRITE)

    @property
    def are_at_end(self) -> bool:
        """Whether nobody can print any more."""
        return not self._open

    def wait_for(self, *others: Waitable) -> None:
        """Lets these wake the pump too."""
        for other in others:
            handle = other.fileno()
            if handle is not None:
                self._selector.register(handle, selectors.EVENT_READ)

    def forget(self, *others: Waitable) -> None:
        """Takes back `wait_for`."""
        for other in others:
            handle = other.fileno()
            if handle is not None and handle in self._selector.get_map():
                self._selector.unregister(handle)

    def pump(self, seconds: float) -> None:
        """Moves what can be moved, waiting at most so long for something to do."""
        timeout = None if seconds == float("inf") else max(0.0, seconds)
        for key, _ in self._selector.select(timeout):
            if key.fileobj is self._stdin:
                self._feed()
            elif key.fileobj in self._open:
                self._read(cast("IO[bytes]", key.fileobj))

    def _feed(self) -> None:
        try:
            sent = os.write(self._stdin.fileno(), self._input[:_CHUNK]) if self._input else 0
        except BlockingIOError:
            return
        except BrokenPipeError:
            sent = len(self._input)
        self._input = self._input[sent:]
        if not self._input:
            self._selector.unregister(self._stdin)
            self._stdin.close()

    def _read(self, pipe: IO[bytes]) -> None:
        try:
            data = os.read(pipe.fileno(), _CHUNK)
        except BlockingIOError:
            return
        if not data:
            self._selector.unregister(pipe)
            del self._open[pipe]
            return
        kept = data[: self._left]
        self._open[pipe] += kept
        self._left -= len(kept)
        self.is_over = self.is_over or len(kept) < len(data)

    def drain(self) -> None:
        """Takes what is still in the pipes, without waiting for anybody."""
        # Bounded: whoever escaped and still prints can't hold the attempt.
        for _ in range(_DRAINS_MAX):
            if self.are_at_end or not self._selector.select(0):
                return
            self.pump(0)

    def close(self) -> None:
        """Gives up the selector; the pipes are the program's."""
        self._selector.close()

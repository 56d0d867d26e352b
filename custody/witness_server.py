"""Serves a witness over HTTP, for the loopback address or behind a proxy of one's own.

Leaves every decision to `witnessing.py`.

Rules:
- One call: POST to add-checkpoint. Anything else is 404 or 405.
- A body without a length, or a longer one than a proof can be, isn't read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from fairtrial.ledger.errors import LedgerError
from fairtrial.ledger.proofs import PROOF_BYTES_MAX

from .witnessing import Answer, Witness

__all__ = ("WitnessServer",)

PATH = "/add-checkpoint"
IDLE_SECONDS = 30.0


_LENGTH = re.compile(r"[0-9]{1,12}", re.ASCII)


class WitnessServer(ThreadingHTTPServer):
    """An HTTP server for one witness; `serve_forever` serves, `shutdown` ends.

    Args:
        witness: Who answers.
        host: The address to listen at.
        port: The port; 0 takes a free one.
        clock: Returns seconds since 1970.
    """

    daemon_threads = True

    def __init__(
        self, witness: Witness, *, host: str, port: int, clock: Callable[[], float]
    ) -> None:
        self.witness, self.clock = witness, clock
        super().__init__((host, port), _Handler)

    @property
    def url(self) -> str:
        """The submission prefix."""
        host, port = self.server_address[:2]
        return f"http://{host if isinstance(host, str) else host.decode()}:{port}"


class _Handler(BaseHTTPRequestHandler):
    """Reads one request and writes its answer."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS

    def do_POST(self) -> None:  # the name that http.server calls
        """Answers a POST."""
        length = self.headers.get("Content-Length", "")
        if self.path != PATH:
            self._answer(Answer(404, b"there is only add-checkpoint\n"), close=True)
        elif not _LENGTH.fullmatch(length) or int(length) > PROOF_BYTES_MAX:
            self._answer(Answer(413, b"a body of a known length, please\n"), close=True)
        else:
            self._answer(self._ask(self.rfile.read(int(length))))

    def do_GET(self) -> None:  # the name that http.server calls
        """Says that only POST is answered."""
        self._answer(Answer(405, b"POST add-checkpoint\n"), close=True)

    def _ask(self, body: bytes) -> Answer:
        server = self.server
        assert isinstance(server, WitnessServer)
        try:
            return server.witness.add_checkpoint(body, time=int(server.clock()))
        except LedgerError as error:
            return Answer(503, f"{error.what}\n".encode())

    def _answer(self, answer: Answer, *, close: bool = False) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.media)
        self.send_header("Content-Length", str(len(answer.body)))
        if close:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *args: object) -> None:
        """Writes no log: what matters is on record."""

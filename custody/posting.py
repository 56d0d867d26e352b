"""One HTTP POST over the standard library: no redirect, no proxy, no more bytes than asked for.

Leaves what is sent and what an answer means to `witnessing.py` and `timestamping.py`.

Rules:
- Only http and https; a certificate is verified as the system does it.
- An answer is read up to a limit; one that is longer is refused.
"""

from __future__ import annotations

import http.client
from typing import NamedTuple
from urllib.parse import urlsplit

from fairtrial.ledger.errors import RefusedError

__all__ = ("Reply", "post")

REPLY_BYTES_MAX = 1 << 20
TIMEOUT_SECONDS = 30.0


class Reply(NamedTuple):
    """Status, media type and bytes of an answer."""

    status: int
    media: str
    body: bytes


def post(url: str, body: bytes, *, media: str) -> Reply:
    """Sends a body and returns the answer, whatever its status.

    Raises:
        RefusedError: The address isn't one, nobody answers, or the answer is too long.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise RefusedError(
            "this isn't an address to post to",
            expected="https://HOST/PATH, or http://",
            found=url[:200],
            todo="correct it where it is set: the policy, or FAIRTRIAL_TSA",
        )
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection = kind(parts.hostname, parts.port, timeout=TIMEOUT_SECONDS)
        try:
            connection.request("POST", path, body, {"Content-Type": media})
            answer = connection.getresponse()
            data = answer.read(REPLY_BYTES_MAX + 1)
            reply = Reply(answer.status, answer.headers.get_content_type(), data)
        finally:
            connection.close()
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise RefusedError(
            "nobody answers there",
            where=url[:200],
            found=str(error) or type(error).__name__,
            todo="try again later, or hand the files over instead",
        ) from error
    if len(reply.body) > REPLY_BYTES_MAX:
        raise RefusedError(
            "the answer is too long",
            where=url[:200],
            expected=f"at most {REPLY_BYTES_MAX:,} bytes",
            found="more",
            todo="see whether the address is the right one",
        )
    return reply

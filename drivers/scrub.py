"""Secrets are replaced in everything that is kept or shown. Pure.

Leaves to the drivers where bytes come from.

Rules:
- A value is found as it is, in every way that JSON may escape it, percent-encoded, and in base64
  when it is encoded alone; each is replaced by `[secret NAME]`, which needs no quoting anywhere.
- Bytes that were cut off lose an end that could be the beginning of a secret.
- A value under `SECRET_CHARACTERS_MIN` characters is refused (`weak_secrets`): replacing it would
  tear up ordinary output.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from urllib.parse import quote, quote_plus

__all__ = ("SECRET_CHARACTERS_MIN", "Scrubber", "weak_secrets")

SECRET_CHARACTERS_MIN = 6
_SHORT_ESCAPES = {
    '"': b'\\"', "\\": b"\\\\", "/": b"\\/", "\b": b"\\b", "\f": b"\\f", "\n": b"\\n", "\r": b"\\r",
    "\t": b"\\t",
}  # fmt: skip


class Scrubber:
    """Replaces the values of secrets in bytes and texts."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        given = {name: value for name, value in secrets.items() if value}
        self._names = dict(enumerate(given))
        # Longest first: a secret that begins another one would leave the rest of it.
        order = sorted(self._names, key=lambda number: -len(given[self._names[number]]))
        groups = (b"(?P<s%d>%s)" % (n, _pattern(given[self._names[n]])) for n in order)
        self._pattern = re.compile(b"|".join(groups))
        self._raw = [_bytes(value) for value in given.values()]

    def clean(self, data: bytes, *, is_cut: bool = False) -> bytes:
        """Returns the data without secrets; `is_cut` when more followed that isn't kept."""
        if not self._names:
            return data
        kept = self._pattern.sub(self._mask, data)
        return kept[: len(kept) - self._overlap(kept)] if is_cut else kept

    def text(self, text: str) -> str:
        """Returns the text without secrets."""
        return self.clean(text.encode(errors="surrogatepass")).decode(errors="surrogatepass")

    def _mask(self, match: re.Match[bytes]) -> bytes:
        assert match.lastgroup is not None
        return f"[secret {self._names[int(match.lastgroup[1:])]}]".encode()

    def _overlap(self, data: bytes) -> int:
        """Returns how many bytes at the end could begin a secret."""
        return max(
            size
            for raw in self._raw
            for size in range(len(raw))
            if size == 0 or data.endswith(raw[:size])
        )


def weak_secrets(secrets: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the names of secrets too short to be replaced without damage."""
    return tuple(name for name, value in secrets.items() if 0 < len(value) < SECRET_CHARACTERS_MIN)


def _pattern(value: str) -> bytes:
    """Returns a pattern of all spellings in which a value may turn up."""
    raw = _bytes(value)
    encoded = {base64.b64encode(raw).rstrip(b"="), base64.urlsafe_b64encode(raw).rstrip(b"=")}
    encoded |= {quote(raw, safe="").encode(), quote_plus(raw).encode()}
    return b"|".join([b"".join(map(_character, value)), *map(re.escape, sorted(encoded))])


def _character(character: str) -> bytes:
    """Returns a pattern of one character, raw or in any escape that JSON allows for it."""
    units = character.encode("utf-16-be", errors="surrogatepass")
    hexes = (units[at : at + 2].hex() for at in range(0, len(units), 2))
    escaped = b"".join(b"\\\\u(?i:%s)" % digits.encode() for digits in hexes)
    forms = [re.escape(_bytes(character)), escaped]
    if character in _SHORT_ESCAPES:
        forms.append(re.escape(_SHORT_ESCAPES[character]))
    return b"(?:%s)" % b"|".join(forms)


def _bytes(value: str) -> bytes:
    return value.encode(errors="surrogateescape")

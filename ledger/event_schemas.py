"""JSON Schemas of the event kinds, generated from their types, for readers in other languages.

Leaves the files that are shipped to `fairtrial.schemas`; a test holds them equal to this.

Rules:
- One text a kind and version; a text that was released never changes, since its kind never does.
- Every member is required: a nullable field is present as null.
- Descriptions are left out, so that a better docstring doesn't change a released text.
- What a schema can't say (order of members, form of numbers, NFC) is said in `canonical.py`.
"""

from __future__ import annotations

from functools import cache
from typing import cast

import msgspec

from .canonical import sha256_hex
from .events import EVENT_KINDS

__all__ = ("schema_file", "schema_text", "schemas_digest")

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_file(kind: str) -> str:
    """Returns the file name of a kind's schema, such as `decision-1.json` for `decision/1`."""
    return kind.replace("/", "-") + ".json"


def schema_text(kind: str) -> str:
    """Returns the JSON Schema of a kind with its version, indented, ending in a newline.

    Raises:
        KeyError: There is no such kind.
    """
    schema = {"$schema": _DIALECT, "title": kind, **msgspec.json.schema(EVENT_KINDS[kind])}
    for definition in cast("dict[str, dict[str, object]]", schema["$defs"]).values():
        _require_all(definition)
    data = msgspec.json.encode(schema, order="deterministic")
    return msgspec.json.format(data, indent=2).decode() + "\n"


def _require_all(definition: dict[str, object]) -> None:
    """Makes every member of an object required: what the types call defaults is for writers."""
    definition.pop("description", None)
    members = cast("dict[str, dict[str, object]]", definition["properties"])
    for member in members.values():
        member.pop("default", None)
    definition["required"] = list(members)


@cache
def schemas_digest() -> str:
    """Returns the SHA-256 over the schemas of all event kinds, in order of kind."""
    return sha256_hex("".join(schema_text(kind) for kind in sorted(EVENT_KINDS)).encode())

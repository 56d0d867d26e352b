"""JSON Schemas of all event kinds as shipped files, `KIND-VERSION.json`.

Leaves making them to `fairtrial.ledger.event_schemas`, whose output they equal by a test.

Rules:
- A file that was released is never edited or removed; another version of a kind is another file.
- Read through `importlib.resources`, so that an installed wheel needs no path.
"""

from __future__ import annotations

from importlib.resources import files

__all__ = ("kinds", "read_schema")


def kinds() -> tuple[str, ...]:
    """Returns all kinds with their versions, such as `decision/1`, sorted."""
    names = (entry.name for entry in files(__name__).iterdir())
    return tuple(
        sorted(
            name.removesuffix(".json").replace("-", "/") for name in names if name.endswith(".json")
        )
    )


def read_schema(kind: str) -> str:
    """Returns the JSON Schema of a kind with its version.

    Raises:
        KeyError: There is no such kind.
    """
    if kind not in kinds():
        raise KeyError(kind)
    return (files(__name__) / (kind.replace("/", "-") + ".json")).read_text(encoding="utf-8")

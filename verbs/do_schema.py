"""`ledger schema`: the JSON Schema of a kind of event."""

from __future__ import annotations

import click

from .options import output_options, verb
from .output import Output

__all__ = ("command",)


@verb(
    "schema",
    example="""
    ledger schema
    ledger schema decision/1 > decision-1.json
    """,
)
@click.argument("kind", required=False)
@output_options
def command(out: Output, kind: str | None) -> None:
    """Prints the JSON Schema of a KIND of event, such as decision/1; without KIND all kinds.

    A kind without a version means its newest one.
    """
    import json

    from fairtrial.schemas import kinds, read_schema

    if kind is None:
        if out.as_json:
            out.end({"v": 1, "kinds": list(kinds())})
        else:
            out.essential("\n".join(kinds()))
        return
    word, slash, version = kind.partition("/")
    if word == "outcome":
        # People call it what it is called everywhere else, as in `ledger log`.
        kind = f"decision{slash}{version}"
    if kind not in kinds():
        versions = [known for known in kinds() if known.partition("/")[0] == kind]
        if not versions:
            names = ", ".join(kinds())
            raise click.BadParameter(f"one of {names}", param_hint="KIND")
        kind = max(versions, key=lambda known: int(known.partition("/")[2]))
    text = read_schema(kind)
    if out.as_json:
        out.end(json.loads(text))
    else:
        out.raw(text.encode())

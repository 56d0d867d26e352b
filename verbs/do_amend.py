"""`ledger amend`: a change of the protocol goes on record, with its reason."""

from __future__ import annotations

from pathlib import Path

import click

from .acts import print_act
from .options import experiment_argument, key_option, reason_option, verb, writing_options
from .output import Output

__all__ = ("command",)


def _changes(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    pairs = [value.partition("=") for value in values]
    if any(not (field.strip() and sign and new.strip()) for field, sign, new in pairs):
        raise click.BadParameter("write FIELD=VALUE, as in budget.usd=4500", ctx, param)
    return tuple((field.strip(), new.strip()) for field, _, new in pairs)


@verb(
    "amend",
    example="""
    ledger amend --set budget.usd=4500 --reason "the provider raised its prices"
    """,
)
@experiment_argument
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="FIELD=VALUE",
    callback=_changes,
    help="Set a field in the protocol file first, comments kept; may be repeated.",
)
@click.option(
    "--protocol", type=click.Path(path_type=Path), help="The changed file; default: where it was."
)
@reason_option
@key_option
@writing_options
def command(
    out: Output,
    experiment: str | None,
    ledger: Path,
    actor: str,
    changes: tuple[tuple[str, str], ...],
    protocol: Path | None,
    reason: str,
    key: str | None,
) -> None:
    """Puts a change of the protocol on record: the edited file, or what --set says.

    Text and budget may change: the result stays as registered and lists the amendment. What bears
    on numbers may change until the data are complete (the last look, or one that ends the run); the
    result is then "not as registered". Units, design and arms are fixed by the freeze.
    """
    from fairtrial.engine.amending import amend_fields
    from fairtrial.engine.session import amend_protocol
    from fairtrial.ledger.events import Amend

    if changes and protocol is not None:
        raise click.UsageError("--set edits the file itself; it doesn't go with --protocol")
    if changes:
        done = amend_fields(
            ledger, experiment, actor=actor, reason=reason, changes=changes, key=key
        )
    else:
        done = amend_protocol(
            ledger, experiment, actor=actor, reason=reason, protocol=protocol, key=key
        )
    from .text_numbers import quantity

    event = done.event
    assert isinstance(event, Amend), "amending appends an amend"
    stays = "retrospective" if done.retrospective else "as registered"
    meaning = {
        "analysis": "the result will say: "
        + ("retrospective, and list it" if done.retrospective else "not as registered"),
        "operational": f"operational only: the result stays {stays} and lists it",
        "text": f"text only: the result stays {stays} and lists it",
    }[event.class_]
    text = (
        f"{', '.join(event.fields)}   after {quantity(event.outcomes, 'outcome')} and"
        f" {quantity(event.looks_taken, 'look')}\n{meaning}"
    )
    if done.note:
        out.note(done.note)
    print_act(out, done, text, ledger=ledger, next_command="ledger status")

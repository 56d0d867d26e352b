"""Options that say what a table of outcomes means, for `compare` and `init --from`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from .output import shell_word

if TYPE_CHECKING:
    from fairtrial.engine.compare import Choices

__all__ = ("init_command", "read_table_file", "split_arms", "table_options")


def table_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--arms`, `--incumbent`, `--unit`, `--cluster`, `--value` and `--overlap`."""
    options = (
        click.option(
            "--arms",
            metavar="A,B",
            callback=split_arms,
            help="Two columns of a wide table, or two values of the column arm.",
        ),
        click.option(
            "--incumbent",
            "control",
            metavar="ARM",
            help="The control; default: first in the file.",
        ),
        click.option("--unit", metavar="COLUMN", help="Unit ids; default: unit."),
        click.option(
            "--cluster",
            metavar="COLUMN",
            help="What units share; default: cluster where there is one; `none`: nothing.",
        ),
        click.option("--value", metavar="COLUMN", help="The value; default: passed, else score."),
        click.option(
            "--overlap",
            is_flag=True,
            help="Leave out units that stand in one arm alone; else such a table is refused.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def init_command(source: Path, choices: Choices) -> str:
    """Returns the command that puts a table on record as it was read here, for a shell."""
    arms = choices.get("arms")
    options = {
        "--arms": None if arms is None else ",".join(arms),
        "--incumbent": choices.get("control"),
        "--unit": choices.get("unit"),
        "--cluster": choices.get("cluster"),
        "--value": choices.get("value"),
    }
    given = [
        word
        for name, value in options.items()
        if value is not None
        for word in (name, quote(value))
    ]
    given += ["--overlap"] if choices.get("overlap") else []
    return " ".join(["ledger init --from", shell_word(source), *given, "TRIAL"])


def split_arms(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> tuple[str, ...] | None:
    """Returns the two names of `A,B`."""
    if value is None:
        return None
    names = tuple(name.strip() for name in value.split(","))
    if len(names) != 2 or not all(names):
        raise click.BadParameter("two names with a comma between them", ctx, param)
    return names


def read_table_file(path: Path) -> bytes:
    """Returns the bytes of a table.

    Raises:
        RefusedError: It can't be read.
    """
    from fairtrial.ledger.given import TABLE_BYTES_MAX, read_given

    todo = "give the path of the table, a CSV or JSONL file of outcomes"
    return read_given(path, what="the table", todo=todo, bytes_max=TABLE_BYTES_MAX)

"""Options that verbs share: where the ledger is, who acts, what is printed.

Leaves printing to `output.py` and the options of one verb to its module.

Rules:
- Every verb takes `--json`, `--quiet` and `--help`; verbs on a ledger take `--ledger` or
  FAIRTRIAL_LEDGER; writing verbs take `--actor` or FAIRTRIAL_ACTOR.
- The actor is claimed, not proved: the option, else the OS user in the grammar of an entry.
- `Command` appends an example to a verb's help.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from fairtrial.custody.notices import listening

from .hints import add_typed
from .output import Output

__all__ = (
    "DEFAULT_LEDGER",
    "experiment_argument",
    "key_option",
    "ledger_option",
    "output_options",
    "pin_options",
    "power_report_option",
    "protocol_argument",
    "reason_option",
    "verb",
    "writing_options",
)

DEFAULT_LEDGER = Path("ledger.db")
ACTOR_CHARACTERS_MAX = 64


class Command(click.Command):
    """A verb whose help ends with an example that works."""

    def __init__(self, *args: Any, example: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.example = example

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the example as it stands."""
        formatter.write_paragraph()
        formatter.write("Example:\n")
        for line in self.example.strip().splitlines():
            formatter.write(f"  {line.strip()}\n" if line.strip() else "\n")


def verb(name: str, *, example: str) -> Callable[[Callable[..., Any]], Command]:
    """Makes a function the command of a verb."""

    def decorate(function: Callable[..., Any]) -> Command:
        return click.command(name, cls=Command, example=example)(function)

    return decorate


def output_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--json`, `--quiet` and `--traceback`; the verb gets an `Output` as `out`."""

    @click.option("--json", "as_json", is_flag=True, help="Print only JSON on stdout.")
    @click.option("--quiet", is_flag=True, help="Print only a receipt or a verdict.")
    @click.option("--traceback", is_flag=True, hidden=True)
    @functools.wraps(function)
    def call(*args: Any, as_json: bool, quiet: bool, traceback: bool, **values: Any) -> Any:
        ledger = values.get("ledger")
        shown = ledger if ledger is not None and _is_given("ledger") else None
        out = Output(as_json=as_json, quiet=quiet, ledger=shown)
        with listening(out.notice):
            try:
                return function(*args, out=out, **values)
            except Exception as error:
                add_typed(error, out, values)
                raise

    return call


def _is_given(name: str) -> bool:
    """Returns whether an option was typed, rather than defaulted or set in the environment."""
    source = click.get_current_context().get_parameter_source(name)
    return source is click.core.ParameterSource.COMMANDLINE


def ledger_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--ledger` and what every verb prints by."""
    option = click.option(
        "--ledger",
        type=click.Path(path_type=Path),
        default=DEFAULT_LEDGER,
        show_default=True,
        envvar="FAIRTRIAL_LEDGER",
        show_envvar=True,
        help="The ledger's file; .jsonl picks the JSON Lines store.",
    )
    return option(output_options(function))


def writing_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--actor` to the options of a verb on a ledger."""
    option = click.option(
        "--actor",
        envvar="FAIRTRIAL_ACTOR",
        show_envvar=True,
        callback=_actor,
        help="Who acts, as claimed; default: the OS user.",
    )
    return option(ledger_option(function))


def _actor(ctx: click.Context, param: click.Parameter, value: str | None) -> str:
    if value is None:
        return default_actor()
    if not re.fullmatch(r"[!#-&(-\[\]-~]{1,64}", value):
        raise click.BadParameter(
            "an actor is 1 to 64 printable ASCII characters without blank, quote or backslash",
            ctx,
            param,
        )
    return value


def default_actor() -> str:
    """Returns the OS user's name in the grammar of an actor."""
    import getpass

    try:
        name = getpass.getuser()
    except (KeyError, OSError, ImportError):
        # A container may run under a number that no name belongs to.
        name = f"uid-{os.getuid()}" if hasattr(os, "getuid") else "unknown"
    clean = re.sub(r"[^!#-&(-\[\]-~]", "-", name)[:ACTOR_CHARACTERS_MAX]
    return clean or "unknown"


def experiment_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the optional EXPERIMENT."""
    return click.argument("experiment", required=False)(function)


def protocol_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds PROTOCOL, by default protocol.yaml of this folder."""
    return click.argument(
        "protocol", type=click.Path(path_type=Path), required=False, default=Path("protocol.yaml")
    )(function)


def power_report_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--power-report`, a file that `ledger power --json` wrote."""
    return click.option(
        "--power-report",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        help="What `ledger power --json` printed of this plan: it leads over the formula.",
    )(function)


def key_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--key`, the key that signs the ledger's head after the act."""
    return click.option(
        "--key",
        metavar="NAME",
        envvar="FAIRTRIAL_KEY",
        show_envvar=True,
        help="The key that signs the ledger's head (ledger key new).",
    )(function)


def pin_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--vkey`, `--origin` and `--policy`: what the caller holds on to from elsewhere."""
    for option in (
        click.option(
            "--policy",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Keys of logs and witnesses and their quorum, in C2SP tlog-policy syntax.",
        ),
        click.option("--origin", metavar="ORIGIN", help="The origin that the ledger must have."),
        click.option(
            "--vkey",
            "vkeys",
            multiple=True,
            metavar="VKEY",
            help="The ledger's verifier key, from elsewhere; may be repeated.",
        ),
    ):
        function = option(function)
    return function


def reason_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the required `--reason`."""
    return click.option("--reason", required=True, metavar="TEXT", help="Why; kept for ever.")(
        function
    )

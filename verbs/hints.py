"""Puts into an error's way out what was typed: the verb, the ledger, a path where a name belongs.

Leaves every other word of an error to whoever raised it.

Rules:
- What is said to be typed can be typed: with the verb and the ledger of the command that failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from .output import Output, shell_word

__all__ = ("add_typed",)


def add_typed(error: Exception, out: Output, values: Mapping[str, Any]) -> None:
    """Changes what an error says is to be done, where it lacks something that was typed."""
    from fairtrial.ledger.errors import LedgerError

    if not isinstance(error, LedgerError):
        return
    ledger, name = values.get("ledger"), values.get("experiment")
    if isinstance(name, str) and isinstance(ledger, Path) and _is_ledger_meant(ledger, name):
        word = shell_word(Path(name))
        error.todo = f"EXPERIMENT is a name and {word} a file: name the ledger with --ledger {word}"
    else:
        _name_experiment(error, out)


def _is_ledger_meant(ledger: Path, name: str) -> bool:
    return not ledger.exists() and Path(name).is_file()


def _name_experiment(error: Any, out: Output) -> None:
    from fairtrial.custody.trial import NAME_IT

    context = click.get_current_context()
    if not error.todo.startswith(NAME_IT):
        return
    name = error.todo.removeprefix(NAME_IT).strip()
    is_option = any(
        isinstance(one, click.Option) and one.name == "experiment" for one in context.command.params
    )
    if is_option:
        error.todo = f"name the experiment with --experiment {name}"
    else:
        error.todo = f"name the experiment: {out.command(f'ledger {context.info_name} {name}')}"

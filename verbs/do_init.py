"""`ledger init`: a folder to start from, with a commented example or from a table of outcomes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .options import output_options, verb
from .output import Output, label, shell_word
from .table_options import read_table_file, table_options

if TYPE_CHECKING:
    from typing import Unpack

    from fairtrial.engine.compare import Choices

__all__ = ("command",)

# What each file is, for the line that says that it was written.
_MEANINGS = {
    "protocol.yaml": "the plan, commented",
    "units.csv": "what both arms are asked",
    "pilot.csv": "units for `ledger try`, never part of the experiment",
    "agent.py": "stands in for your agent",
    "outcomes.csv": "the outcomes, as they were",
    ".gitignore": "keeps the ledger out of git",
}


@verb(
    "init",
    example="""
    ledger init trial
    ledger init --from results.csv agentcheck
    """,
)
@click.argument("folder", type=click.Path(path_type=Path), required=False, default=Path("."))
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path),
    metavar="TABLE",
    help="A table of outcomes to put on record (CSV or JSONL), as for `ledger compare`.",
)
@table_options
@output_options
def command(
    out: Output,
    folder: Path,
    source: Path | None,
    **choices: Unpack[Choices],
) -> None:
    """Writes a commented protocol, units and an agent into FOLDER (default: this one).

    The example runs as it stands. With --from the files are made from a table of outcomes. Nothing
    that exists is overwritten.
    """
    from fairtrial.engine.examples import GITIGNORE, example_files, experiment_id, write_new_files

    id = experiment_id(os.path.basename(os.path.realpath(folder)))
    files: dict[str, str | bytes]
    if source is None:
        if any(one not in (None, False) for one in choices.values()):
            raise click.UsageError(
                "--arms, --incumbent, --unit, --cluster, --value, --overlap go with --from"
            )
        files = dict(example_files(id))
    else:
        from fairtrial.engine.compare import protocol_from_table

        made = protocol_from_table(read_table_file(source), name=source.name, id=id, **choices)
        files = {
            "protocol.yaml": made.protocol,
            "units.csv": made.units,
            "outcomes.csv": made.outcomes,
            ".gitignore": GITIGNORE,
        }
    kept = [name for name in (".gitignore",) if (folder / name).exists()]
    files = {name: content for name, content in files.items() if name not in kept}
    write_new_files(folder, files)
    _report(out, folder, files, kept, recorded=source is not None)


def _report(
    out: Output, folder: Path, files: dict[str, str | bytes], kept: list[str], *, recorded: bool
) -> None:
    out.text(label("wrote", _listed(folder, files)))
    for name in kept:
        out.note(f"{folder / name} is there already and left as it is; ledger.db* belongs in it")
    go = "" if folder == Path() else f"cd {shell_word(folder)} && "
    verb_name = "register" if recorded else "check"
    out.end(
        {"v": 1, "folder": str(folder), "wrote": list(files), "kept": kept},
        next_command=f"{go}ledger {verb_name} protocol.yaml",
    )


def _listed(folder: Path, files: dict[str, str | bytes]) -> str:
    width = max(len(str(folder / name)) for name in files)
    return "\n".join(
        f"{folder / name!s:<{width}}   {_meaning(name, content)}" for name, content in files.items()
    )


def _meaning(name: str, content: str | bytes) -> str:
    if not name.endswith(".csv"):
        return _MEANINGS[name]
    data = content.encode() if isinstance(content, str) else content
    rows = len(data.splitlines()) - 1
    return f"{_MEANINGS[name]} ({rows:,} rows)"

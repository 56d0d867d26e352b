"""`ledger log`: the entries, a line each."""

from __future__ import annotations

from pathlib import Path

import click

from .options import ledger_option, verb
from .output import Output

__all__ = ("command",)

ODD_MAX = 1000


@verb(
    "log",
    example="""
    ledger log
    ledger log --kind decision --start 4 | head
    ledger log fairtrial-demo/ledger.db --json > entries.jsonl
    """,
)
@click.argument("path", type=click.Path(path_type=Path), required=False)
@click.option("--kind", metavar="KIND", help="Only events of this kind, such as look.")
@click.option("--experiment", metavar="EXPERIMENT", help="Only events of this experiment.")
@click.option("--start", type=click.IntRange(min=0), default=0, help="First entry, from 0.")
@click.option("--stop", type=click.IntRange(min=0), help="The entry to stop before.")
@ledger_option
def command(
    out: Output,
    path: Path | None,
    ledger: Path,
    kind: str | None,
    experiment: str | None,
    start: int,
    stop: int | None,
) -> None:
    """Prints the entries of a ledger, a line each; checks nothing and writes nothing.

    With --json each line is the entry exactly as it is stored, byte for byte. Of lines that are no
    entries the first thousand are shown, and how many more there are.
    """
    from fairtrial.engine.inspecting import read_log, revealed_arms

    from .text_log import entry_line, read_entry, with_names

    # People call an outcome what it is called everywhere else.
    wanted = "decision" if kind == "outcome" else kind.partition("/")[0] if kind else None
    _check_kind(wanted)
    names: dict[str, dict[str, str]] = {"": {}}
    odd = 0
    for data in read_log(path or ledger, start=start, stop=stop):
        if not (out.as_json or data.startswith(b'{"v":')):
            odd += 1
            if odd > ODD_MAX:
                continue
        entry = read_entry(data) if wanted or experiment or not out.as_json else None
        if entry is not None and wanted and entry.kind != wanted:
            continue
        if entry is not None and experiment and entry.experiment != experiment:
            continue
        if entry is not None and entry.experiment not in names:
            names[entry.experiment] = revealed_arms(path or ledger, entry.experiment)
        if entry is None or out.as_json:
            line = data
        else:
            line = entry_line(with_names(entry, names[entry.experiment])).encode()
        if not out.line(line):
            return
    if odd > ODD_MAX:
        out.note(f"{odd - ODD_MAX:,} further lines that are no entries aren't shown; ledger replay")


def _check_kind(kind: str | None) -> None:
    from .text_log import KINDS

    if kind is not None and kind not in KINDS:
        names = ("outcome or decision" if one == "decision" else one for one in KINDS)
        raise click.BadParameter(f"one of {', '.join(names)}", param_hint="--kind")

"""`ledger show`: one entry with everything in it, or the registered protocol."""

from __future__ import annotations

from pathlib import Path

import click

from .options import ledger_option, verb
from .output import Output

__all__ = ("command",)


@verb(
    "show",
    example="""
    ledger show 2
    ledger show fairtrial-demo/ledger.db 2 --json
    ledger show 17 --artifact stderr
    ledger show --protocol > protocol.yaml
    """,
)
@click.argument("words", nargs=-1, metavar="[PATH] SEQ")
@click.option(
    "--protocol",
    "wants_protocol",
    is_flag=True,
    help="Print the bytes of the protocol in force: show --protocol [PATH] [EXPERIMENT].",
)
@click.option(
    "--artifact", metavar="NAME", help="Print what the entry keeps under NAME: stdout, stderr, ..."
)
@ledger_option
def command(
    out: Output, words: tuple[str, ...], wants_protocol: bool, artifact: str | None, ledger: Path
) -> None:
    """Shows the entry at SEQ, or with --protocol the registered protocol; writes nothing.

    An outcome is shown as outcome; the kind of its event is `decision`. The entry is compared with
    its id, and with nothing else: `ledger replay` verifies the ledger.
    """
    if wants_protocol:
        _print_protocol(out, *_protocol_place(words, ledger))
    elif artifact is not None:
        _print_artifact(out, *_entry_place(words, ledger), artifact)
    else:
        _print_entry(out, *_entry_place(words, ledger))


def _entry_place(words: tuple[str, ...], ledger: Path) -> tuple[Path, int]:
    """Returns ledger and seq from `[PATH] SEQ`."""
    if not 1 <= len(words) <= 2 or not words[-1].isdecimal():
        raise click.UsageError("give the number of an entry: ledger show [PATH] SEQ")
    return (Path(words[0]) if len(words) == 2 else ledger), int(words[-1])


def _protocol_place(words: tuple[str, ...], ledger: Path) -> tuple[Path, str | None]:
    """Returns ledger and experiment from `[PATH] [EXPERIMENT]`; one word that is a file is PATH."""
    if len(words) > 2:
        raise click.UsageError("ledger show --protocol [PATH] [EXPERIMENT]")
    if len(words) == 2:
        return Path(words[0]), words[1]
    if words and Path(words[0]).is_file():
        return Path(words[0]), None
    return ledger, words[0] if words else None


def _print_entry(out: Output, ledger: Path, seq: int) -> None:
    import msgspec

    from fairtrial.engine.inspecting import revealed_arms, show_event

    from .text_log import entry_page, read_entry

    shown = show_event(ledger, seq)
    if out.as_json:
        out.line(shown.entry)
    else:
        names = revealed_arms(ledger, shown.event.experiment)
        opened = msgspec.to_builtins(shown.opened) if shown.opened is not None else {}
        out.essential(entry_page(read_entry(shown.entry), shown.leaf, opened, names))


def _print_artifact(out: Output, ledger: Path, seq: int, name: str) -> None:
    from fairtrial.engine.inspecting import artifact_of

    data = artifact_of(ledger, seq, name)
    if out.as_json:
        text = data.decode("utf-8", "replace")
        out.end({"v": 1, "seq": seq, "artifact": name, "text": text})
    else:
        out.raw(data)


def _print_protocol(out: Output, ledger: Path, experiment: str | None) -> None:
    from fairtrial.engine.inspecting import registered_protocol

    data = registered_protocol(ledger, experiment)
    if out.as_json:
        text = data.decode("utf-8", "replace")
        out.end({"v": 1, "experiment": experiment, "protocol": text})
    else:
        out.raw(data)

"""`ledger replay`: verifies a ledger and says what it can't vouch for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import click

from .options import ledger_option, pin_options, verb
from .output import Ending, Output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairtrial.custody.vouching import Pins
    from fairtrial.engine.story import Story
    from fairtrial.ledger.findings import ReplayReport

__all__ = ("command",)


@verb(
    "replay",
    example="""
    ledger replay
    ledger replay evidence/ledger.db --against receipt.txt --require anchored
    ledger replay --checkpoint mail/000108.note --policy policy.txt --require witnessed
    ledger replay evidence/ledger.db --against receipt.txt --report verification.md
    ledger replay --since yesterday.note --vkey VKEY --against "fairtrial:..."
    """,
)
@click.argument("path", type=click.Path(path_type=Path), required=False)
@click.option(
    "--against",
    multiple=True,
    metavar="LINE|FILE",
    help="A receipt from elsewhere, or a file that holds one; may be repeated.",
)
@click.option(
    "--checkpoint",
    "checkpoints",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A signed head from elsewhere; may be repeated.",
)
@click.option(
    "--since",
    metavar="LINE|FILE",
    help="Check only what was added to this head, a receipt or checkpoint that you kept.",
)
@click.option(
    "--report",
    "report_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.md",
    help="Write a report to file: inputs, levels, every finding, what vouches, what isn't shown.",
)
@click.option(
    "--authority",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Certificates (PEM) of the time stamp authorities that you trust.",
)
@click.option(
    "--require",
    "required",
    multiple=True,
    type=click.Choice(
        ["anchored", "witnessed", "timestamped", "rules", "numbers", "words", "files"]
    ),
    help="Exit 10 unless every entry (but for anchors at the end) is covered so, the rules or the"
    " numbers were really checked, every sentence on record is this version's, or all registered"
    " files are here.",
)
@pin_options
@click.option("--no-numbers", is_flag=True, help="Don't recompute looks and results.")
@click.option("--no-files", is_flag=True, help="Don't compare registered files and blobs.")
@ledger_option
def command(
    out: Output,
    path: Path | None,
    ledger: Path,
    against: tuple[str, ...],
    checkpoints: tuple[Path, ...],
    since: str | None,
    report_file: Path | None,
    authority: Path | None,
    required: tuple[str, ...],
    vkeys: tuple[str, ...],
    origin: str | None,
    policy: Path | None,
    no_numbers: bool,
    no_files: bool,
) -> Ending:
    """Verifies a ledger: bytes, rules, numbers, files, and what vouches for it from elsewhere.

    Writes nothing but a report that is asked for. What vouches: a receipt or checkpoint that
    someone else kept, the ledger's key when you have it from elsewhere (--vkey), the witnesses of
    your policy, a time stamp; never the ledger's own signature beside it. Exit code 0 means intact;
    whether anything vouches for that is in the text, and --require asks for it. 11 torn, 12
    corrupt, 13 forked, 14 rolled back, 15 numbers differ, 16 files differ, 17 newer than this tool.
    """
    from fairtrial.custody.replay_inputs import check_place
    from fairtrial.custody.vouching import read_pins

    if since is not None:
        _check_since(required, policy, authority)
    pins = read_pins(vkeys=vkeys, origin=origin, policy=policy, stamp_roots=authority)
    brought = _Brought(
        place=path or ledger,
        against=against,
        checkpoints=checkpoints,
        pins=pins,
        texts=_texts(since, against, vkeys, origin),
        files=(
            *(("signed head", one) for one in checkpoints),
            ("policy", policy),
            ("authority", authority),
        ),
        required=required,
        report_file=report_file,
    )
    if report_file is not None:
        check_place(report_file)
    if since is not None:
        return _replay_since(out, brought, since)
    return _replay(out, brought, with_numbers=not no_numbers, with_files=not no_files)


class _Brought(NamedTuple):
    """The ledger, what the caller holds against it and asks of it."""

    place: Path
    against: tuple[str, ...]
    checkpoints: tuple[Path, ...]
    pins: Pins
    texts: tuple[tuple[str, str], ...]
    files: tuple[tuple[str, Path | None], ...]
    required: tuple[str, ...]
    report_file: Path | None


def _texts(
    since: str | None, against: tuple[str, ...], vkeys: tuple[str, ...], origin: str | None
) -> tuple[tuple[str, str], ...]:
    """Returns what was brought as text, each with what it is."""
    start = (("head to start at", since),) if since is not None else ()
    pinned = (("pinned origin", origin),) if origin is not None else ()
    keys = (("pinned key", vkey) for vkey in vkeys)
    return (*start, *(("receipt", one) for one in against), *keys, *pinned)


def _replay(out: Output, brought: _Brought, *, with_numbers: bool, with_files: bool) -> Ending:
    from fairtrial.engine.inspecting import replay_ledger
    from fairtrial.engine.story import read_stories

    from .text_replay import record_line, replay_text

    report = replay_ledger(
        brought.place,
        against=brought.against,
        checkpoints=brought.checkpoints,
        pins=brought.pins,
        with_numbers=with_numbers,
        with_files=with_files,
    )
    stories = read_stories(brought.place)
    _note_beside(out, brought.against, brought.place)
    if out.quiet:
        out.essential(record_line(report, stories))
    out.text(replay_text(report, stories))
    return _end(out, report, stories, brought)


def _end(out: Output, report: ReplayReport, stories: Sequence[Story], brought: _Brought) -> Ending:
    lacking = _lacking(report, stories, brought.required)
    if lacking:
        out.note("not as required: " + "; ".join(lacking))
    value = {"v": 1, **_plain(report), "lacking": lacking}
    if brought.report_file is not None:
        _write_report(brought.report_file, report, stories, brought, lacking)
        out.note(f"report written: {brought.report_file}")
        value["report"] = str(brought.report_file)
    out.end(value)
    if report.record != "intact":
        return cast("Ending", report.record)
    return "not_as_required" if lacking else "done"


def _write_report(
    path: Path,
    report: ReplayReport,
    stories: Sequence[Story],
    brought: _Brought,
    lacking: Sequence[str],
) -> None:
    from fairtrial.custody.replay_inputs import describe_inputs, write_report

    from .text_report import report_text

    inputs = describe_inputs(brought.place, texts=brought.texts, files=brought.files)
    text = report_text(report, stories, inputs, lacking)
    write_report(path, text)


def _check_since(required: tuple[str, ...], policy: Path | None, authority: Path | None) -> None:
    """Refuses what needs the entries before a head."""
    if policy is not None or authority is not None or set(required) - {"anchored"}:
        raise click.UsageError(
            "witnesses, time stamps and files need a whole replay: leave --since out"
        )


def _replay_since(out: Output, brought: _Brought, since: str) -> Ending:
    from fairtrial.custody.incremental import replay_from

    from .text_since import since_record_line, since_text

    report = replay_from(
        brought.place,
        since,
        against=brought.against,
        checkpoints=brought.checkpoints,
        pins=brought.pins,
    )
    _note_beside(out, (since, *brought.against), brought.place)
    if out.quiet:
        out.essential(since_record_line(report))
    out.text(since_text(report))
    return _end(out, report, (), brought)


def _note_beside(out: Output, brought: Sequence[str], ledger: Path) -> None:
    from fairtrial.custody.vouching import is_named_beside

    if any(is_named_beside(text, ledger) for text in brought):
        out.note(
            "a receipt that lies beside the ledger vouches for nothing: bring one from elsewhere"
        )


def _plain(report: ReplayReport) -> dict[str, object]:
    import msgspec

    return cast("dict[str, object]", msgspec.to_builtins(report))


def _wordings(report: ReplayReport) -> list[str]:
    """Returns why the sentences on record can't be taken for this version's."""
    from .text_replay import worded

    if "numbers" in report.skipped:
        return [f"words not compared: {report.skipped['numbers']}"]
    erased = [one for one in report.findings if one.code == "long_form_erased"]
    if erased:
        return [f"words not compared: {erased[0].where} is {erased[0].found}"]
    found = worded(report)
    return [f"words not as this version's: {found[0].where}"] if found else []


def _lacking(
    report: ReplayReport, stories: Sequence[Story], required: tuple[str, ...]
) -> list[str]:
    """Returns what was required and isn't there."""
    lacking: list[str] = []
    for level, word in (("", "anchored"), ("witness", "witnessed"), ("timestamp", "timestamped")):
        covered = report.vouched.get(level, 0) if level else report.covered
        if word in required and covered < report.content:
            lacking.append(f"{covered:,} of {report.size:,} entries are {word}")
    for level in ("rules", "numbers"):
        if level in required and report.levels[level] != "ok":
            why = report.skipped.get(level, "they have findings")
            lacking.append(f"{level} not checked to the end: {why}")
    if "words" in required:
        lacking += _wordings(report)
    if "files" in required:
        absent = [file.path for story in stories for file in story.files if file.state == "absent"]
        if "files" in report.skipped:
            lacking.append("files were skipped")
        elif absent:
            lacking.append("not here: " + ", ".join(absent))
    return lacking

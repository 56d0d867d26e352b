"""The command `ledger`: which verbs there are, and which exit code an ending or an error has.

Leaves each verb to its module in `verbs/`, which is imported when the verb is used.

Rules:
- `EXIT_CODES` is the only place that knows exit codes; verbs return words, errors have classes.
- An error goes to stderr in its own words; with `--json` an object with its parts goes to stdout.
- An exception that is no `LedgerError` is a bug of ours: one line, exit code 1; `--traceback`.
"""

from __future__ import annotations

import sys

try:
    import importlib
    from typing import TYPE_CHECKING, Any, NoReturn

    import click
except KeyboardInterrupt:
    # Nothing can have begun: the same word and code as later, without a traceback.
    sys.stderr.write("interrupted\n")
    sys.exit(130)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ("EXIT_CODES", "VERBS", "ledger", "main")

VERBS: dict[str, dict[str, str]] = {
    "The working day": {
        "init": "Write a commented protocol, units and an agent to start from.",
        "check": "Say whether a plan is sound, where looks fall, what it can find.",
        "try": "Make one attempt on a pilot unit; nothing is recorded.",
        "register": "Put a protocol on record and freeze its units.",
        "freeze": "Fix units, run order and looks of a registered protocol.",
        "run": "Run what is pending, take due looks; the same command resumes.",
        "status": "Show what is settled, what it has cost and what comes next.",
        "look": "Show a look (planned interim analysis); take it when it is due.",
        "result": "Show the verdict; end the experiment when that is due.",
    },
    "The record": {
        "log": "Print the entries of a ledger.",
        "show": "Print one entry, or the registered protocol.",
        "replay": "Verify a ledger: bytes, rules, numbers, files, receipts.",
        "checkpoint": "Sign the present head; embed a signed one.",
        "prove": "Write a proof about an entry, or of the ledger's growth.",
        "verify-proof": "Check a proof without the ledger.",
        "sign": "Sign an entry as a person: reviewed, approved, rejected.",
        "witness": "Cosign heads of other ledgers; have one's own cosigned.",
        "amend": "Put a change of the protocol on record, with its reason.",
        "settle": "Correct the cost of a lost attempt.",
        "invalidate": "Declare an outcome invalid; its value stays on record.",
        "unblind": "Open the arms of a blinded experiment.",
        "withdraw": "End an experiment without a result.",
        "redact": "Erase a blob; the record keeps its digest and the reason.",
        "close": "End a ledger whose experiments have ended.",
    },
    "The craft": {
        "power": "Say what a plan can find, by formula and by simulating it.",
        "compare": "Compare two arms in a table of outcomes; nothing is written.",
        "demo": "Run two real comparisons, then catch a tampered copy.",
    },
    "The neighbours": {
        "import": "Take over a whole ledger from another file.",
        "export": "Copy a ledger into .jsonl or .db, or bundle it for an auditor.",
        "schema": "Print the JSON Schema of a kind of event.",
        "key": "Make a key, show keys, give a ledger a new one.",
    },
}

# How a verb ended, or the class of the error that ended it.
EXIT_CODES = {
    "done": 0,
    "unexpected": 1,
    "UsageError": 2,
    "refused": 3,
    "LedgerError": 3,
    "ProtocolError": 3,
    "RefusedError": 3,
    "TransitionError": 3,
    "FailingArmError": 3,
    "DigestMismatchError": 3,
    "BudgetExceededError": 3,
    "ConflictError": 3,
    "DriverError": 3,
    "unfinished": 4,
    "gate_reject": 5,
    "gate_other": 6,
    "BusyError": 7,
    "StoreError": 8,
    "not_as_required": 10,
    "TornError": 11,
    "torn": 11,
    "IntegrityError": 12,
    "corrupt": 12,
    "ForkedError": 13,
    "forked": 13,
    "RolledBackError": 14,
    "rolled_back": 14,
    "numbers_differ": 15,
    "files_differ": 16,
    "NewerError": 17,
    "PlanMissingError": 8,
    "newer": 17,
    "interrupted": 130,
    "terminated": 143,
}


class VerbGroup(click.Group):
    """A group whose verbs are known by a table and imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns all verbs in the order of the help."""
        return [name for section in VERBS.values() for name in section]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports a verb; None when there is no such verb."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module = f"fairtrial.verbs.do_{cmd_name.replace('-', '_')}"
        command = importlib.import_module(module).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the verb that was typed, and names the nearest one where there is none."""
        if args and args[0] not in self.list_commands(ctx) and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.list_commands(ctx), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"there is no verb {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the verbs before the few options."""
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the verbs by section, from the table alone."""
        for title, verbs in VERBS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<10}", text) for name, text in verbs.items()])


@click.group(
    cls=VerbGroup,
    subcommand_metavar="VERB [OPTIONS] [ARGUMENTS]...",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="fairtrial", prog_name="fairtrial")
def ledger() -> None:
    """Runs A/B evaluations that can stand in front of an auditor.

    A plan is registered before anyone sees an answer, every outcome is an entry in an append-only
    ledger, and whoever holds it can replay it to the same verdict. Begin with `ledger init` or
    `ledger demo`; each verb has --help.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the command line and exits with the code of what happened."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    sys.exit(_run(words))


def _run(words: list[str]) -> int:
    try:
        ending = ledger.main(args=words, prog_name=_program(), standalone_mode=False)
    except click.ClickException as error:
        return _report_usage(error, words)
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        return EXIT_CODES["interrupted"]
    except Exception as error:
        if "--traceback" in words:
            raise
        return _report(error, words)
    # `--help` and `--version` end with click's own code.
    return ending if isinstance(ending, int) else EXIT_CODES[ending or "done"]


def _program() -> str:
    """Returns the name that was typed, so that help shows what works here."""
    name = sys.argv[0].replace("\\", "/").rpartition("/")[2].removesuffix(".exe")
    return name if name in ("ledger", "fairtrial") else "ledger"


def _report_usage(error: click.ClickException, words: list[str]) -> int:
    from fairtrial.ledger.errors import visible

    if "--json" in words:
        _print_json({"class": "UsageError", "what": error.format_message()})
    if not isinstance(error, click.MissingParameter):
        # What was typed stands in it: click quotes a value, and neither an option nor an argument.
        context = error.ctx if isinstance(error, click.UsageError) else None
        error = click.UsageError(visible(error.format_message()), context)
    error.show()
    return EXIT_CODES["UsageError"]


def _report(error: Exception, words: list[str]) -> int:
    from fairtrial.ledger.errors import LedgerError, ProtocolError, StoreError

    if isinstance(error, OSError):
        # A disk or a folder that fails is no bug, wherever it was met.
        where, found = str(error.filename or ""), error.strerror or str(error)
        error = StoreError("the system refused", where=where, found=found, todo="see to the disk")
    if not isinstance(error, LedgerError):
        return _report_unexpected(error, words)
    notes: list[str] = getattr(error, "__notes__", [])
    name = next(c.__name__ for c in type(error).__mro__ if c.__name__ in EXIT_CODES)
    if "--json" in words:
        parts = {key: getattr(error, key) for key in ("what", "where", "expected", "found", "todo")}
        if isinstance(error, ProtocolError):
            parts["problems"] = [_plain(problem) for problem in error.problems]
        if notes:
            parts["notes"] = notes
        _print_json({"class": name, **parts})
    click.echo("\n".join([str(error), *notes]), err=True)
    return EXIT_CODES[name]


def _report_unexpected(error: Exception, words: list[str]) -> int:
    from fairtrial.ledger.errors import visible

    what = f"{type(error).__name__}: {error}"
    if "--json" in words:
        _print_json({"class": "unexpected", "what": what})
    click.echo(
        f"unexpected error, a bug of ours: {visible(what)}\n"
        "  do        run it again with --traceback and report what it prints",
        err=True,
    )
    return EXIT_CODES["unexpected"]


def _plain(value: Any) -> object:
    import msgspec

    return msgspec.to_builtins(value)


def _print_json(error: dict[str, Any]) -> None:
    import json

    empty = {"what": "", "where": "", "expected": "", "found": "", "todo": ""}
    click.echo(json.dumps({"v": 1, "error": {"class": error["class"], **empty, **error}}))


if __name__ == "__main__":
    main()

"""What a verb prints: text for people, or JSON; a receipt and the next command at the end.

Leaves the wording to the verbs and to `text_NAME.py`.

Rules:
- stdout holds either text or, with `--json`, one JSON value; notes and `next:` go to stderr.
- Text ends with the receipt, where there is one; JSON has it under `receipt`, and `next`.
- A reader that goes away (`| head`) ends the printing, never the act or its exit code.
"""

from __future__ import annotations

import os
import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import click

__all__ = ("Ending", "Output", "label", "shell_word")

Ending: TypeAlias = Literal[
    "done",
    "refused",
    "unfinished",
    "gate_reject",
    "gate_other",
    "not_as_required",
    "torn",
    "corrupt",
    "forked",
    "rolled_back",
    "numbers_differ",
    "files_differ",
    "newer",
    "interrupted",
    "terminated",
]

LABEL_WIDTH = 10
_PLAIN = frozenset(b"/._-" + string.ascii_letters.encode() + string.digits.encode())


def label(name: str, text: str) -> str:
    """Returns a line with its label; further lines of the text stand below its first."""
    first, *rest = text.split("\n")
    wide = name if len(name) < LABEL_WIDTH else f"{name}  "
    lines = [f"{wide:<{LABEL_WIDTH}}{first}"]
    lines += [" " * LABEL_WIDTH + line for line in rest]
    return "\n".join(line.rstrip() for line in lines)


def shell_word(path: Path) -> str:
    """Returns a path as a word that can be pasted into a shell, whatever bytes its name holds."""
    import shlex

    text = str(path)
    if text.isprintable():
        return shlex.quote(text)
    plain = (chr(one) if one in _PLAIN else f"\\x{one:02x}" for one in os.fsencode(text))
    return f"$'{''.join(plain)}'"


def _parameters(verb: str) -> set[str]:
    """Returns the names of what a verb takes: `ledger` is an option, `experiment` an argument."""
    import importlib

    command = importlib.import_module(f"fairtrial.verbs.do_{verb.replace('-', '_')}").command
    return {str(one.name) for one in command.params}


def _as_text(value: Any) -> Any:
    """Returns a value whose texts can be printed: bytes of a name that are no text are marked."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if isinstance(value, dict):
        return {_as_text(key): _as_text(item) for key, item in value.items()}
    return [_as_text(item) for item in value] if isinstance(value, (list, tuple)) else value


class Output:
    """Prints what one verb has to say.

    Args:
        as_json: Whether stdout is for a program.
        quiet: Whether only a receipt or a verdict is printed.
        ledger: The ledger as typed; None when it need not be repeated in the next command.
    """

    def __init__(self, *, as_json: bool, quiet: bool, ledger: Path | None = None) -> None:
        self.as_json, self.quiet, self.ledger = as_json, quiet, ledger
        self._gone, self._named = False, ""

    def of(self, experiment: str, ledger: Path) -> None:
        """Says whose the next command is: it names an experiment that isn't alone in its ledger."""
        from fairtrial.engine.inspecting import holds_several

        self._named = experiment if holds_several(ledger) else ""

    def text(self, text: str) -> None:
        """Prints text for people on stdout."""
        if not (self.as_json or self.quiet):
            self._write(text + "\n")

    def essential(self, text: str) -> None:
        """Prints text that `--quiet` keeps."""
        if not self.as_json:
            self._write(text + "\n")

    def note(self, text: str) -> None:
        """Prints a remark on stderr."""
        if not self.quiet:
            click.echo(_as_text(text), err=True)

    def notice(self, text: str) -> None:
        """Prints on stderr what happened to the record unasked; `--quiet` keeps it."""
        click.echo(_as_text(text), err=True)

    def line(self, data: bytes) -> bool:
        """Prints bytes as they are and a newline; False when nobody reads any more."""
        return self._write(data + b"\n")

    def raw(self, data: bytes) -> None:
        """Prints bytes as they are, without a newline of ours."""
        self._write(data)

    def end(
        self,
        value: Mapping[str, object] | object = None,
        *,
        receipt: str | None = None,
        next_command: str | None = None,
    ) -> None:
        """Prints the JSON value, or the receipt; and the command to type next.

        Args:
            value: What `--json` prints: a mapping or a Struct.
            receipt: The receipt after an act that wrote.
            next_command: What to type next.
        """
        following = self.command(next_command) if next_command else None
        if self.as_json:
            self._end_json(value, receipt, following)
        elif receipt is not None:
            self.essential(label("receipt", receipt))
        if following and not self.quiet:
            click.echo(f"next: {following}", err=True)

    def command(self, command: str) -> str:
        """Returns a command with the ledger that was typed."""
        words = command.split()
        if words[0] != "ledger":
            return command
        takes = _parameters(words[1])
        if self._named and "experiment" in takes and self._named not in words:
            command = " ".join([*words[:2], self._named, *words[2:]])
        if self.ledger is None or "--ledger" in words or "ledger" not in takes:
            return command
        return f"{command} --ledger {shell_word(self.ledger)}"

    def _end_json(self, value: object, receipt: str | None, following: str | None) -> None:
        import msgspec

        plain = msgspec.to_builtins(value)
        if isinstance(plain, dict):
            plain |= {"receipt": receipt} if receipt is not None else {}
            plain |= {"next": following} if following is not None else {}
        try:
            data = msgspec.json.encode(plain)
        except UnicodeEncodeError:
            # A name of a file may hold bytes that are no text.
            data = msgspec.json.encode(_as_text(plain))
        self._write(data + b"\n")

    def _write(self, data: str | bytes) -> bool:
        if self._gone:
            return False
        try:
            click.echo(_as_text(data), nl=False)
        except BrokenPipeError:
            self._gone = True
            # Python flushes stdout once more at its exit and would complain there.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return not self._gone

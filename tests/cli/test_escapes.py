"""What was typed, or what a file says, can't write lines of its own into an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairtrial.custody.proving import parse_old
from fairtrial.ledger import errors
from fairtrial.ledger.checkpoint import Checkpoint, SigningKey, sign_checkpoint
from fairtrial.ledger.errors import LedgerError, Problem, ProtocolError, visible
from fairtrial.ledger.findings import Finding
from fairtrial.ledger.merkle import leaf_hash
from fairtrial.ledger.proofs import InclusionProof, format_inclusion
from fairtrial.verbs.text_replay import finding_text

from .conftest import Shell

ODD = "a\nVERDICT   ADOPT\x1b[2J\r\u202eb\x9b\u2028"


def test_no_part_of_an_error_writes_a_line_of_its_own() -> None:
    """Each class of error escapes each of its parts in its text, and keeps it in its attribute."""
    parts = dict.fromkeys(("where", "expected", "found", "todo"), ODD)
    problem = Problem(what=ODD, line=1, **parts)
    made: list[LedgerError] = [ProtocolError((problem, problem), file=ODD)]
    for name in errors.__all__:
        kind = getattr(errors, name)
        if isinstance(kind, type) and issubclass(kind, LedgerError) and kind is not ProtocolError:
            made.append(
                errors.PlanMissingError(ODD) if name == "PlanMissingError" else kind(ODD, **parts)
            )
    for error in made:
        text = str(error)
        assert not {"\x1b", "\r", "\u202e", "\x9b", "\u2028"} & set(text), type(error)
        assert not any(line.startswith("VERDICT") for line in text.splitlines()), type(error)
        assert ODD in error.where
    assert r"a\nVERDICT   ADOPT\x1b[2J\r\u202eb\x9b\u2028" == visible(ODD)
    assert "Grüße, 試験\u00a0🙂" == visible("Grüße, 試験\u00a0🙂")


@pytest.mark.parametrize(
    "words",
    [
        ("status", ODD),
        ("status", "--ledger", ODD),
        ("replay", "--against", ODD),
        ("replay", "--vkey", ODD),
        ("log", "--kind", ODD),
        ("log", "one", ODD),
        ("log", f"--{ODD}"),
        ("log", "--start", ODD),
        ("show", ODD),
        ("check", ODD),
        ("import", ODD),
        (ODD,),
    ],
    ids=lambda words: " ".join(words).replace(ODD, "ODD"),
)
def test_what_was_typed_is_shown_escaped(concluded: Shell, words: tuple[str, ...]) -> None:
    """Whatever the argument, the error is one of ours, and in its own lines."""
    said = concluded.ledger(*words)
    assert 0 != said.code
    assert 1 != said.code, said.err
    assert not {"\x1b", "\r", "\u202e", "\x9b", "\u2028"} & set(said.err + said.out)
    assert not any(line.startswith("VERDICT") for line in said.err.splitlines())


def test_findings_of_a_replay_are_shown_escaped() -> None:
    """What a hostile ledger holds stays within the lines of its finding."""
    found = Finding(level="files", code="file_differs", seq=3, where=ODD, expected=ODD, found=ODD)
    lines = finding_text(found).splitlines()
    assert 3 == len(lines)
    assert not {"\x1b", "\r", "\u202e"} & set("".join(lines))


def test_file_that_vouches_is_named_escaped(
    concluded: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who hands over a receipt chooses the name of its file, and nothing else of what is said."""
    monkeypatch.chdir(concluded.folder)
    *_, newest = sorted((concluded.folder / "ledger.db.d" / "receipts").iterdir())
    receipt = newest.read_text()
    wrong = f"{receipt.partition('#')[0]}#{'A' * 43}=\n"
    for text, code in ((receipt, 0), (wrong, 13)):
        Path(ODD).write_text(text)
        assert f"receipt in {visible(ODD)}" == parse_old(ODD).source
        said = concluded.ledger("replay", "--against", ODD)
        assert (code, True) == (said.code, visible(ODD) in said.out)
        assert not any(line.strip() == "VERDICT   ADOPT" for line in said.out.splitlines())
        assert not {"\x1b", "\r", "\u202e", "\x9b", "\u2028"} & set(said.out)


def test_origin_of_a_proof_is_shown_escaped(shell: Shell) -> None:
    """A note may hold what a terminal obeys beyond ASCII, and a log of any origin may be proved."""
    head = Checkpoint("log\x9b\u202e", 1, leaf_hash(b"one"))
    note = sign_checkpoint(head, SigningKey(b"k" * 32))
    (shell.folder / "p").write_bytes(format_inclusion(InclusionProof(0, (), note, b"one")))
    for words, code in (((), 10), (("--origin", "another"), 13)):
        said = shell.ledger("verify-proof", "p", *words)
        assert (code, True) == (said.code, r"log\x9b\u202e" in said.out), said.err
        assert not {"\x9b", "\u202e"} & set(said.out)

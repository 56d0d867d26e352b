"""What a caller names is a regular file or a stream of the shell; nothing else is waited for."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from .conftest import Shell, command

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name == "nt", reason="there are no named pipes in a folder"),
]

_VKEY = "example.org/x+00000000+AQ=="
NAMING = [
    ("replay", "--checkpoint", "{}"),
    ("replay", "--policy", "{}"),
    ("replay", "--authority", "{}"),
    ("replay", "--against", "{}"),
    ("replay", "--since", "{}"),
    ("verify-proof", "{}"),
    ("verify-proof", "ledger.db", "--against", "{}"),
    ("verify-proof", "ledger.db", "--entry", "{}"),
    ("verify-proof", "ledger.db", "--rotation", "{}"),
    ("prove", "--consistency", "{}"),
    ("prove", "1", "--checkpoint", "{}"),
    ("compare", "{}"),
    ("init", "--from", "{}", "other"),
    ("check", "{}"),
    ("register", "{}"),
    ("witness", "cosign", "{}", "--key", "w1", "--log", _VKEY),
    ("witness", "ask", "--policy", "{}", "--key", "lab"),
    ("checkpoint", "--note", "{}"),
    ("checkpoint", "--note", "protocol.yaml", "--token", "{}"),
]


@pytest.fixture
def keyed(concluded: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shell:
    """A concluded trial, with a ledger's and a witness's key."""
    monkeypatch.setenv("FAIRTRIAL_KEYS", str(tmp_path / "keys"))
    monkeypatch.setenv("FAIRTRIAL_STATE", str(tmp_path / "state"))
    concluded.ok("key", "new", "lab")
    concluded.ok("key", "new", "w1", "--use", "witness", "--signs-as", "witness.example/w1")
    return concluded


@pytest.mark.parametrize("words", NAMING, ids=" ".join)
def test_pipe_folder_and_noise_are_refused(keyed: Shell, words: tuple[str, ...]) -> None:
    """Whatever option names it: a pipe or a folder is refused at once, noise is no bug of ours."""
    os.mkfifo(keyed.folder / "pipe.yaml")
    (keyed.folder / "folder.yaml").mkdir()
    (keyed.folder / "noise.yaml").write_bytes(b"\xff\xfe\x00" * 40)
    for name in ("pipe.yaml", "folder.yaml", "noise.yaml"):
        said = keyed.ledger(*(word.format(name) for word in words))
        assert said.code in ((0, 3) if name == "noise.yaml" else (3,)), (name, said.err)


def test_stream_of_the_shell_is_read(keyed: Shell) -> None:
    """A receipt may come through the shell: `-`, and what `<(...)` stands for."""
    receipt = keyed.ok("status", "--json").json["receipt"]
    for name in ("-", "/dev/stdin"):
        words = ("replay", "--no-numbers", "--no-files", "--against", name, "--require", "anchored")
        done = subprocess.run(
            [str(command()), *words],
            cwd=keyed.folder,
            input=f"{receipt}\n".encode(),
            capture_output=True,
            check=False,
        )
        assert 0 == done.returncode, done.stderr


@pytest.mark.parametrize("content", [b"", b"\xff\x00" * 9, b"no certificate\n"])
def test_file_without_certificates_is_refused(keyed: Shell, content: bytes) -> None:
    """Authorities that can't be read are refused, whether or not the ledger has a stamp."""
    (keyed.folder / "roots.pem").write_bytes(content)
    said = keyed.ledger("replay", "--authority", "roots.pem")
    assert (3, True) == (said.code, "no certificates" in said.err)


def test_receipt_in_a_file_of_other_bytes_is_refused(keyed: Shell) -> None:
    """A receipt is text: a file that isn't UTF-8 says where it isn't."""
    (keyed.folder / "receipt.txt").write_bytes(b"fairtrial:\xff\n")
    said = keyed.ledger("replay", "--against", "receipt.txt")
    assert (3, True) == (said.code, "receipt.txt, byte 10" in said.err)

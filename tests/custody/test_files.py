"""The files that a protocol names: which places are refused."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fairtrial.custody.files import list_files
from fairtrial.engine.examples import example_files
from fairtrial.ledger.errors import ProtocolError
from fairtrial.ledger.protocol import Protocol
from fairtrial.protocols.file import parse_protocol


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files of the example, two levels below a file that isn't its own."""
    folder = tmp_path / "tree" / "trial"
    folder.mkdir(parents=True)
    for name, content in example_files("trial").items():
        (folder / name).write_text(content)
    (tmp_path / "tree" / "shared.py").write_text("")
    (tmp_path / "secret.txt").write_text("")
    return folder


def naming(path: str) -> Protocol:
    """Returns the example's protocol with one more file of an arm."""
    text = example_files("trial")["protocol.yaml"].replace("[agent.py]  ", f'[agent.py, "{path}"]')
    return parse_protocol(text.encode(), name="protocol.yaml", media="yaml")


def refused(path: str, folder: Path) -> list[tuple[str, str]]:
    """Returns field and text of each file that is refused."""
    try:
        list_files(naming(path), folder, file="protocol.yaml")
    except ProtocolError as error:
        return [(problem.where, problem.what) for problem in error.problems]
    return []


@pytest.mark.parametrize("path", ["../shared.py", "../../secret.txt", "../../../etc/none", "link"])
def test_outside_git_no_path_leaves_the_protocols_folder(folder: Path, path: str) -> None:
    """Whatever is digested and blamed later has to travel with the protocol."""
    (folder / "link").symlink_to(folder.parent.parent / "secret.txt")
    ((where, what),) = refused(path, folder)
    assert "arms.baseline.driver.files" == where
    assert "outside" in what


def test_in_git_a_path_may_leave_the_folder_and_not_the_work_tree(folder: Path) -> None:
    """Code that lies beside the protocol's folder in one work tree is shared, not foreign."""
    subprocess.run(["git", "init", "-q", str(folder.parent)], check=True)
    (folder / "inside").symlink_to(folder.parent / "shared.py")
    (folder / "outside").symlink_to(folder.parent.parent / "secret.txt")
    found = {path: len(refused(path, folder)) for path in
             ("../shared.py", "inside", "../../secret.txt", "outside")}  # fmt: skip
    assert {"../shared.py": 0, "inside": 0, "../../secret.txt": 1, "outside": 1} == found

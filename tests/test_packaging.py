"""What is shipped and what is installed: the wheel's files, the pinned requirements, the data.

Set FAIRTRIAL_WHEEL to test a wheel that exists; otherwise one is built from the work tree.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import distribution
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import pytest

from fairtrial.examples.demo import FILES

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
REQUIREMENTS = ("requirements.txt", "requirements-build.txt", "requirements-test.txt")
SHIPPED = (
    "cli.py",
    "docs/format.md",
    "docs/verify_ledger.py",
    "py.typed",
    "ledger/*.py",
    "engine/*.py",
    "custody/*.py",
    "drivers/*.py",
    "protocols/*.py",
    "verdicts/*.py",
    "analysis/*.py",
    "schemas/__init__.py",
    "schemas/*.json",
    "verbs/*.py",
)


def sources() -> list[str]:
    """Returns the files of the repository, and those that the next `git add` would take."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if run.returncode:
        pytest.skip("not a git work tree")
    return [name for name in run.stdout.split("\0") if name and (ROOT / name).is_file()]


def wheel(folder: Path) -> Path:
    """Returns the given wheel, or builds one from a copy of the sources, offline."""
    if given := os.environ.get("FAIRTRIAL_WHEEL"):
        return Path(given)
    for name in sources():
        (folder / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, folder / "tree" / name)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    subprocess.run([*command, str(folder / "tree")], capture_output=True, check=True)
    return next(folder.glob("*.whl"))


@pytest.mark.slow
def test_wheel_holds_the_package_and_nothing_else(tmp_path: Path) -> None:
    """Modules, schemas, demo data, byte for byte, and licences: no test, no stray file."""
    expected = [path for pattern in SHIPPED for path in ROOT.glob(pattern)]
    expected += [ROOT / "examples/demo" / name for name in ("__init__.py", *FILES)]
    with zipfile.ZipFile(wheel(tmp_path)) as archive:
        names = archive.namelist()
        shipped = {name: archive.read(name) for name in names if ".dist-info/" not in name}
    assert 2 == len([name for name in names if ".dist-info/licenses/" in name])
    wanted = {f"fairtrial/{path.relative_to(ROOT).as_posix()}": path for path in expected}
    assert sorted(wanted) == sorted(shipped)
    assert [] == [name for name, path in wanted.items() if path.read_bytes() != shipped[name]]


def test_commands_are_two_names_of_one_program() -> None:
    """`ledger` may be taken by an accounting tool, so `fairtrial` is the same program."""
    scripts = {entry.name: entry.value for entry in distribution("fairtrial").entry_points}
    assert {"ledger": "fairtrial.cli:main", "fairtrial": "fairtrial.cli:main"} == scripts


def test_demo_is_found_in_an_installed_package() -> None:
    """Every file of the demo is readable from the installed package, and no other is there."""
    folder = files("fairtrial.examples.demo")
    present = {each.name for each in folder.iterdir() if each.is_file()}
    assert {"__init__.py", *FILES} == present
    assert [] == [name for name in FILES if not folder.joinpath(name).read_bytes()]


def test_package_says_that_it_is_typed() -> None:
    """Type checkers read our annotations only if py.typed lies in the package."""
    spec = find_spec("fairtrial.cli")
    assert spec is not None
    assert spec.origin is not None
    assert Path(spec.origin).with_name("py.typed").is_file()


def pins(name: str) -> list[str]:
    """Returns the requirements of a file, each with its marker and its hashes on one line."""
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.startswith("--only-binary")]


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_every_requirement_is_pinned_and_hashed(name: str) -> None:
    """A line is name==version, perhaps a marker, and hashes: no host, no option, no path."""
    line = re.compile(r"[a-z0-9-]+==[\w.]+( ; [\w .'=!<>()]+?)? +(--hash=sha256:[0-9a-f]{64} *)+")
    assert [] == [pin[:80] for pin in pins(name) if not line.fullmatch(pin)]
    assert "--only-binary :all:" in (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-build.txt"])
def test_test_requirements_contain_the_others(name: str) -> None:
    """What is tested is what is installed: the same version with the same hashes."""
    tested = {without_marker(pin) for pin in pins("requirements-test.txt")}
    assert set() == {without_marker(pin) for pin in pins(name)} - tested


def without_marker(pin: str) -> tuple[str, ...]:
    """Returns name, version and hashes of a requirement, without the platforms it is for."""
    return (pin.split(maxsplit=1)[0], *re.findall(r"--hash=\S+", pin))


def test_every_dependency_is_pinned() -> None:
    """Each dependency and each test tool of pyproject.toml has a pin."""
    project = PROJECT["project"]
    for name, declared in (
        ("requirements.txt", project["dependencies"]),
        ("requirements-test.txt", project["optional-dependencies"]["test"]),
        ("requirements-build.txt", PROJECT["build-system"]["requires"]),
    ):
        pinned = {pin.partition("==")[0] for pin in pins(name)}
        wanted = {re.split(r"[\[>=<]", each)[0].replace(".", "-") for each in declared}
        assert set() == wanted - pinned


def test_old_python_is_refused_with_a_way_out(tmp_path: Path) -> None:
    """Where no Python of 3.11 to 3.14 is found, the message says what was found and what to do."""
    old = tmp_path / "python3"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.9.2"\nexit 1\n')
    old.chmod(0o755)
    run = subprocess.run(
        ["/bin/sh", str(ROOT / ".ci/venv"), str(tmp_path / "venv")],
        env={"PYTHON": str(old), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 1 == run.returncode
    assert "needs Python 3.11 to 3.14" in run.stderr
    assert "Python 3.9.2" in run.stderr
    assert "make PYTHON=" in run.stderr
    assert not (tmp_path / "venv").exists()


@pytest.mark.slow
def test_environment_is_made_without_ensurepip(tmp_path: Path) -> None:
    """A system Python without ensurepip still gets as far as asking its pip to fill the venv."""
    asked = tmp_path / "asked"
    bare = tmp_path / "python3"
    bare.write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        f'  "-m pip --python"*) echo "$*" > {asked} ;;\n'
        '  "-m venv --without-pip"*) exec ' + sys.executable + ' "$@" ;;\n'
        '  "-m venv"*) exit 1 ;;\n'
        f'  *) exec {sys.executable} "$@" ;;\n'
        "esac\n"
    )
    bare.chmod(0o755)
    subprocess.run(
        ["/bin/sh", str(ROOT / ".ci/venv"), str(tmp_path / "venv")],
        env={"PYTHON": str(bare), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=True,
    )
    assert (tmp_path / "venv/bin/python").exists()
    assert "--require-hashes" in asked.read_text()

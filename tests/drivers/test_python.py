"""The python driver: what a callable is given, how it ends, and what it can't do to the rest."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from fairtrial.drivers.answer import Answer
from fairtrial.drivers.port import Job, Limits, job_mapping
from fairtrial.drivers.python import PythonDriver
from fairtrial.ledger import sections
from fairtrial.ledger.errors import DriverError

JOB = Job(
    experiment="e",
    arm="a",
    unit="u1",
    replicate=2,
    attempt=1,
    seed="5",
    input={"x": [1, 2]},
    config={"model": "m"},
    limits=Limits(seconds=20.0),
)


@pytest.fixture(autouse=True)
def _imports_as_before() -> Iterator[None]:
    """Forgets what a test has imported from its folder, and what others left under that name."""
    sys.modules.pop("arm", None)
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def _driver(folder: Path, source: str, call: str = "arm:ask", **settings: object) -> PythonDriver:
    (folder / "arm.py").write_text(textwrap.dedent(source))
    spec = sections.PythonDriver(call=call, **settings)  # type: ignore[arg-type]  # by name
    return PythonDriver(spec, folder=folder, environment={"KEY": "sesame-1", **os.environ})


def _ask(driver: PythonDriver, job: Job = JOB) -> Answer:
    return anyio.run(driver.run, job)


@pytest.mark.parametrize("definition", ["def", "async def"])
def test_callable_gets_the_job_and_returns_a_dict(tmp_path: Path, definition: str) -> None:
    """A function or a coroutine function sees what a program would see."""
    driver = _driver(
        tmp_path,
        f"""
        import os
        {definition} ask(job):
            assert os.path.isdir(job.pop("out"))
            return {{"v": 1, "score": 0.5, "answer": repr(sorted(job.items())), "usd": 0.1}}
        """,
    )
    answer = _ask(driver)
    given = {key: value for key, value in job_mapping(JOB).items() if key != "out"}
    assert repr(sorted(given.items())) == answer.answer
    assert ("ok", {"score": 0.5}, 100_000_000, "m") == (
        answer.status, answer.scores, answer.cost_nanousd, answer.requested_model,
    )  # fmt: skip
    assert () == driver.problems()


def test_function_runs_outside_of_the_event_loop(tmp_path: Path) -> None:
    """A callable that blocks blocks nobody else: two of them meet at a barrier."""
    driver = _driver(
        tmp_path,
        """
        import threading
        both = threading.Barrier(2, timeout=10)
        def ask(job):
            both.wait()
            return {"passed": True}
        """,
    )

    async def main() -> list[str]:
        found: list[str] = []

        async def ask() -> None:
            found.append((await driver.run(JOB)).status)

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            group.start_soon(ask)
        return found

    assert ["ok", "ok"] == anyio.run(main)


@pytest.mark.parametrize("definition", ["def", "async def"])
@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("raise ValueError('no sesame-1')", "ValueError: no [secret KEY]"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("import nothing_of_this_name", "ModuleNotFoundError: No module"),
    ],
)
def test_exception_is_an_error_with_its_traceback(
    tmp_path: Path, definition: str, statement: str, message: str
) -> None:
    """What a callable raises is its failure; the traceback is kept, without secrets."""
    source = f"{definition} ask(job):\n    {statement}\n"
    answer = _ask(_driver(tmp_path, source, secrets=("KEY",)))
    assert ("error", "exception", True) == (answer.status, answer.code, answer.retry)
    assert answer.message.startswith(message)
    assert statement.split("(")[0].encode() in answer.artifacts["stderr"]
    assert b"sesame-1" not in answer.artifacts["stderr"]


def test_wrong_return_value_is_bad_output(tmp_path: Path) -> None:
    """The rules of an answer line hold for a dict too (FR-22 among them)."""
    source = (
        "def ask(job):\n    return {'a': 1.0, 'b': {'passd': True}, 'c': {'score': float('nan')}}"
    )
    source += "[job['unit']]\n"
    driver = _driver(tmp_path, source)
    found = {unit: _ask(driver, replace(JOB, unit=unit)) for unit in "abc"}
    assert ["bad_output", "bad_output", "score_not_finite"] == [found[unit].code for unit in "abc"]
    assert "did you mean 'passed'" in found["b"].message


def test_overrunning_function_is_left_behind(tmp_path: Path) -> None:
    """At the deadline the attempt ends as timeout; what the function returns later is nobody's."""
    driver = _driver(
        tmp_path,
        """
        import threading
        go, gone = threading.Event(), threading.Event()
        def ask(job):
            go.wait(20)
            gone.set()
            return {"score": 1}
        """,
    )

    async def main() -> Answer:
        answer = await driver.run(replace(JOB, limits=Limits(seconds=0.05)))
        module = sys.modules["arm"]
        module.go.set()
        assert await anyio.to_thread.run_sync(module.gone.wait, 10)
        return answer

    answer = anyio.run(main)
    assert ("timeout", "timeout", {}) == (answer.status, answer.code, answer.scores)


def test_overrunning_coroutine_is_cancelled(tmp_path: Path) -> None:
    """At the deadline a coroutine function is cancelled and may clean up."""
    driver = _driver(
        tmp_path,
        """
        import anyio
        ended = []
        async def ask(job):
            try:
                await anyio.sleep(20)
            finally:
                ended.append(1)
        """,
    )
    answer = _ask(driver, replace(JOB, limits=Limits(seconds=0.05)))
    assert ("timeout", [1]) == (answer.status, sys.modules["arm"].ended)


def test_cancellation_passes_on(tmp_path: Path) -> None:
    """A cancelled attempt doesn't wait for a function that can't be stopped."""
    driver = _driver(
        tmp_path,
        """
        import threading
        begun, go = threading.Event(), threading.Event()
        def ask(job):
            begun.set()
            go.wait(20)
        """,
    )
    assert () == driver.problems()

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(driver.run, JOB)
            assert await anyio.to_thread.run_sync(sys.modules["arm"].begun.wait, 10)
            group.cancel_scope.cancel()

    anyio.run(main)
    assert not sys.modules["arm"].go.is_set()
    sys.modules["arm"].go.set()


@pytest.mark.slow
def test_function_that_never_ends_does_not_keep_the_process(tmp_path: Path) -> None:
    """The process ends though a callable that overran its deadline still runs."""
    (tmp_path / "arm.py").write_text("import time\ndef ask(job):\n    time.sleep(600)\n")
    (tmp_path / "runner.py").write_text(
        "import anyio\nfrom pathlib import Path\n"
        "from fairtrial.drivers.python import PythonDriver\n"
        "from fairtrial.drivers.port import Job, Limits\n"
        "from fairtrial.ledger import sections\n"
        "driver = PythonDriver(sections.PythonDriver(call='arm:ask'), folder=Path('.'),"
        " environment={})\n"
        "job = Job(experiment='e', arm='a', unit='u', replicate=1, attempt=1, seed='1',"
        " limits=Limits(seconds=0.1))\n"
        "print(anyio.run(driver.run, job).status)\n"
    )
    ran = subprocess.run([sys.executable, "runner.py"], cwd=tmp_path, capture_output=True,
                         timeout=30, check=True)  # fmt: skip
    assert b"timeout" == ran.stdout.strip()


def test_artifacts_are_read_from_out(tmp_path: Path) -> None:
    """Declared files are kept; one that isn't there is bad output."""
    driver = _driver(
        tmp_path,
        """
        import pathlib
        def ask(job):
            pathlib.Path(job["out"], "a.txt").write_text("kept")
            return {"score": 1, "artifacts": ["a.txt"] if job["unit"] == "u1" else ["b.txt"]}
        """,
    )
    assert {"a.txt": b"kept"} == _ask(driver).artifacts
    assert "bad_output" == _ask(driver, replace(JOB, unit="u2")).code


@pytest.mark.parametrize(("name", "code"), [("a.txt", "limit_output_bytes"), ("b", "bad_output")])
def test_what_an_attempt_used_counts_whatever_its_files(
    tmp_path: Path, name: str, code: str
) -> None:
    """Files that are too large, or not there, take neither cost nor tokens from a ceiling."""
    driver = _driver(
        tmp_path,
        f"""
        import pathlib
        def ask(job):
            pathlib.Path(job["out"], "a.txt").write_text("kept")
            said = {{"score": 1, "usd": 0.5, "tokens": {{"output": 9}}}}
            return said | {{"artifacts": ["{name}"]}}
        """,
    )
    found = _ask(driver, replace(JOB, limits=Limits(output_bytes=2)))
    assert (code, 500_000_000, {"output": 9}) == (found.code, found.cost_nanousd, found.tokens)


@pytest.mark.parametrize("leaves", ["pass", "(out / 'a').mkdir(); (out / 'a' / 'b').touch()"])
def test_out_is_new_for_each_attempt_and_removed(tmp_path: Path, leaves: str) -> None:
    """Whatever a callable leaves in OUT, the next attempt begins with nothing of it."""
    driver = _driver(
        tmp_path,
        f"""
        import pathlib
        def ask(job):
            out = pathlib.Path(job["out"])
            assert not list(out.iterdir())
            {leaves}
            return {{"answer": str(out)}}
        """,
    )
    outs = [Path(_ask(driver).answer or ".") for _ in range(2)]
    assert 2 == len(set(outs))
    assert not any(out.exists() for out in outs)


def test_link_in_the_place_of_out_leads_nowhere(tmp_path: Path) -> None:
    """Where a callable replaces OUT by a link, nothing is read there, and the link alone goes."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.txt").write_text("of somebody else")
    other.chmod(0o500)
    driver = _driver(
        tmp_path,
        f"""
        import pathlib
        def ask(job):
            out = pathlib.Path(job["out"])
            out.rmdir()
            out.symlink_to({str(other)!r})
            pathlib.Path({str(tmp_path)!r}, "was").write_text(str(out))
            return {{"score": 1, "artifacts": ["a.txt"]}}
        """,
    )
    answer = _ask(driver)
    assert ("bad_output", {}) == (answer.code, dict(answer.artifacts))
    assert not Path((tmp_path / "was").read_text()).is_symlink()
    assert (0o500, "of somebody else") == (
        other.stat().st_mode & 0o777,
        (other / "a.txt").read_text(),
    )


def test_limits_hold_for_a_dict_too(tmp_path: Path) -> None:
    """More tokens or a longer answer than allowed is a limit."""
    source = "def ask(job):\n    return {'answer': 'abc', 'tokens': {'output': 9}}\n"
    driver = _driver(tmp_path, source)
    assert "limit_tokens" == _ask(driver, replace(JOB, limits=Limits(tokens=8))).code
    assert "limit_output_bytes" == _ask(driver, replace(JOB, limits=Limits(output_bytes=2))).code


def test_file_beside_the_protocol_wins_and_shadows_nothing(tmp_path: Path) -> None:
    """A driver may be called like an installed package, and doesn't become that package."""
    (tmp_path / "msgspec.py").write_text("def ask(job):\n    return {'answer': __name__}\n")
    (tmp_path / "json.py").write_text("raise RuntimeError('shadowed')\n")
    driver = _driver(tmp_path, "", call="msgspec:ask")
    answer = _ask(driver).answer
    assert answer is not None
    assert answer.endswith("_msgspec")
    import msgspec

    assert hasattr(msgspec, "Struct")
    assert tmp_path == Path(sys.path[-1])


def test_code_that_runs_is_what_the_file_holds(tmp_path: Path) -> None:
    """A changed file is another module at once, whatever a compiled copy says; equal bytes one."""
    answers = []
    for text in ("one", "two", "two"):
        source = "n = []\ndef ask(job):\n    n.append(1)\n"
        source += f"    return {{'answer': {text!r} + str(len(n))}}\n"
        answers.append(_ask(_driver(tmp_path, source)).answer)
    assert ["one1", "two1", "two2"] == answers
    assert not (tmp_path / "__pycache__").exists()


def test_package_and_sibling_can_be_imported(tmp_path: Path) -> None:
    """A call may name a module of a package, which may import its neighbours."""
    (tmp_path / "kit").mkdir()
    (tmp_path / "kit" / "__init__.py").write_text("")
    (tmp_path / "kit" / "words.py").write_text("WORD = 'neighbour'\n")
    (tmp_path / "kit" / "arm.py").write_text(
        "from .words import WORD\nfrom kit import words\n"
        "def ask(job):\n    return {'answer': words.WORD + WORD}\n"
    )
    assert "neighbourneighbour" == _ask(_driver(tmp_path, "", call="kit.arm:ask")).answer


@pytest.mark.parametrize(
    ("call", "source", "message"),
    [
        ("absent:ask", "", "not found beside the protocol"),
        ("arm:absent", "", "no callable"),
        ("arm:ask", "ask = 3", "no callable"),
        ("arm:ask", "raise RuntimeError('at import')", "at import"),
        ("arm:ask", "def ask(:", "SyntaxError"),
    ],
)
def test_what_can_not_be_imported_is_told_before_a_run(
    tmp_path: Path, call: str, source: str, message: str
) -> None:
    """`problems` names it; an attempt all the same is an error and no exception."""
    driver = _driver(tmp_path, source, call=call)
    (problem,) = driver.problems()
    assert message in problem
    answer = _ask(driver)
    assert ("error", "not_started") == (answer.status, answer.code)


def test_identity_is_what_the_arm_is_made_of(tmp_path: Path) -> None:
    """The module's file is part of the identity though nobody lists it; importing isn't needed."""
    driver = _driver(tmp_path, "raise RuntimeError('not imported')")
    first = driver.identity()
    assert ["arm.py"] == list(first["files"])  # type: ignore[call-overload]  # a dict
    changed = _driver(tmp_path, "raise RuntimeError('not imported either')").identity()
    assert first["files"] != changed["files"]
    with pytest.raises(DriverError, match="gone"):
        _driver(tmp_path, "", files=("gone.txt",)).identity()

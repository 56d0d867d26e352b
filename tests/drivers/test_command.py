"""The command driver: what a program is given, what is kept of it, and what its end means."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from fairtrial.drivers.answer import Answer
from fairtrial.drivers.command import CommandDriver
from fairtrial.drivers.port import Job, Limits, driver_seed, job_line
from fairtrial.ledger import sections
from fairtrial.ledger.errors import DriverError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs are for Linux and macOS")
JOB = Job(
    experiment="e",
    arm="candidate",
    unit="u1",
    replicate=1,
    attempt=1,
    seed="123",
    input={"question": "wie groß?", "n": 2},
    config={"model": "m-1"},
    limits=Limits(seconds=30.0, usd_nano=4_000_000_000),
)


def _driver(
    folder: Path, script: str, environment: Mapping[str, str] | None = None, **settings: object
) -> CommandDriver:
    path = folder / "driver.sh"
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)
    spec = sections.CommandDriver(argv=("./driver.sh",), **settings)  # type: ignore[arg-type]  # by name
    return CommandDriver(spec, folder=folder, environment={**os.environ, **(environment or {})})


def _ask(driver: CommandDriver, job: Job = JOB) -> Answer:
    return anyio.run(driver.run, job)


def _limited(**limits: object) -> Job:
    return replace(JOB, limits=Limits(**limits))  # type: ignore[arg-type]  # by name


def test_job_line_is_the_documented_one(tmp_path: Path) -> None:
    """Keys, their order and their forms are those of driver protocol 1, in ASCII."""
    job = replace(JOB, out=Path("OUT"), unit="\u2028ü")
    expected = (
        b'{"v":1,"experiment":"e","arm":"candidate","unit":"\\u2028\\u00fc","replicate":1,'
        b'"attempt":1,"seed":"123","input":{"question":"wie gro\\u00df?","n":2},'
        b'"config":{"model":"m-1"},"limits":{"seconds":30,"usd":4.0},"out":"OUT"}\n'
    )
    assert expected == job_line(job)


def test_seed_is_a_function_of_unit_and_replicate() -> None:
    """The first 53 bits of the SHA-256 over the documented text; computed apart by sha256sum."""
    assert "7785226689044015" == driver_seed(20261129, "django__django-11099", 2)
    assert driver_seed(1, "a", 1) != driver_seed(1, "a", 2) != driver_seed(2, "a", 2)


def test_program_gets_line_variables_and_folder(tmp_path: Path) -> None:
    """stdin, FAIRTRIAL_* and the working directory say the same thing."""
    driver = _driver(
        tmp_path,
        'read -r line\necho "$line" > "$FAIRTRIAL_OUT/line"\npwd > "$FAIRTRIAL_OUT/pwd"\n'
        'env | sort > "$FAIRTRIAL_OUT/env"\n'
        'echo \'{"v":1,"passed":true,"artifacts":["line","pwd","env"]}\'\n',
    )
    answer = _ask(driver)
    assert ("ok", {"passed": 1.0}, "m-1") == (
        answer.status, answer.scores, answer.requested_model,
    )  # fmt: skip
    job = json.loads(answer.artifacts["line"])
    assert ("u1", {"question": "wie groß?", "n": 2}) == (job["unit"], job["input"])
    assert str(tmp_path.resolve()) == answer.artifacts["pwd"].decode().strip()
    variables = answer.artifacts["env"].decode().splitlines()
    assert f"FAIRTRIAL_OUT={job['out']}" in variables
    wanted = {"UNIT=u1", "ARM=candidate", "REPLICATE=1", "ATTEMPT=1", "SEED=123"}
    assert {f"FAIRTRIAL_{name}" for name in wanted} <= set(variables)


def test_only_declared_variables_are_let_through(tmp_path: Path) -> None:
    """Nothing of the operator's environment reaches a program that didn't ask for it."""
    script = 'env > "$FAIRTRIAL_OUT/env"; echo \'{"v":1,"score":1,"artifacts":["env"]}\'\n'
    given = {"WANTED": "yes", "UNWANTED": "secret", "HOME": "/home/operator"}
    found = _ask(_driver(tmp_path, script, given, env=("WANTED",))).artifacts["env"].decode()
    assert "WANTED=yes\n" in found
    assert "UNWANTED" not in found
    assert "/home/operator" not in found
    names = {line.partition("=")[0] for line in found.splitlines()}
    extra = {"PATH", "HOME", "TMPDIR", "LANG", "WANTED", "PWD", "OLDPWD", "SHLVL", "_"}
    assert names <= extra | {name for name in names if name.startswith("FAIRTRIAL_")}


def test_home_is_new_for_each_attempt_and_removed(tmp_path: Path) -> None:
    """What a program leaves in its home or its temporary folder isn't there for the next one."""
    script = (
        'ls -A "$HOME" "$TMPDIR" | grep -c left\n: > "$HOME/left"; : > "$TMPDIR/left"\n'
        'mkdir "$HOME/sealed"; : > "$HOME/sealed/file"; chmod 500 "$HOME/sealed"\n'
        'echo "{\\"v\\":1,\\"answer\\":\\"$HOME\\"}"\n'
    )
    driver = _driver(tmp_path, script)
    homes = []
    for answer in (_ask(driver), _ask(driver)):
        assert answer.artifacts["stdout"].startswith(b"0\n")
        assert answer.answer is not None
        homes.append(Path(answer.answer))
    assert homes[0] != homes[1]
    assert not any(home.exists() or home.parent.exists() for home in homes)


def test_home_may_be_inherited(tmp_path: Path) -> None:
    """A program that keeps its login at home finds it when the protocol says so."""
    script = 'echo "{\\"v\\":1,\\"answer\\":\\"$HOME\\"}"'
    home = {"HOME": str(tmp_path)}
    assert str(tmp_path) == _ask(_driver(tmp_path, script, home, home="inherit")).answer


def test_secrets_are_replaced_in_all_that_is_kept(tmp_path: Path) -> None:
    """Neither output, artifact, answer nor message holds a secret, escaped or encoded."""
    secret = 'k"ey-ü-0123456789'
    script = (
        'printf %s "$KEY" > "$FAIRTRIAL_OUT/file"; printf %s "$KEY" | base64 >&2\n'
        'echo "$KEY"; printf %s "$KEY" | cut -c1-3 >&2\n'
        'echo \'{"v":1,"answer":"k\\"ey-\\u00fc-0123456789!",'
        '"model":"k\\u0022ey-\\u00fc-0123456789"'
        ',"artifacts":["file"]}\'\n'
    )
    answer = _ask(_driver(tmp_path, script, {"KEY": secret}, secrets=("KEY",)))
    assert ("ok", "[secret KEY]!", "[secret KEY]") == (
        answer.status, answer.answer, answer.served_model,
    )  # fmt: skip
    assert b"[secret KEY]" == answer.artifacts["file"]
    kept = b"".join(answer.artifacts.values())
    for hidden in (b"0123456789", b"ayJleS3DvC0wMTIzNDU2Nzg5"):
        assert hidden not in kept


def test_secret_that_the_limit_cuts_is_not_half_kept(tmp_path: Path) -> None:
    """Output that was cut off loses an end that begins a secret."""
    driver = _driver(tmp_path, "echo 12345; printf hunter2x; sleep 9", {"KEY": "hunter2x"},
                     secrets=("KEY",))  # fmt: skip
    answer = _ask(driver, _limited(seconds=30, output_bytes=10))
    assert ("limit", b"12345\n") == (answer.status, answer.artifacts["stdout"])


@pytest.mark.parametrize("name", ["../up", "/etc/passwd", "link", "folder", "none", "stdout", "p"])
def test_artifact_outside_of_its_folder_is_bad_output(tmp_path: Path, name: str) -> None:
    """A declared artifact is a file inside OUT: no link, no folder, no pipe, no taken name."""
    script = (
        'cd "$FAIRTRIAL_OUT"; ln -s /etc/passwd link; mkdir folder; mkfifo p; : > ../up\n'
        f'echo \'{{"v":1,"score":1,"usd":0.5,"artifacts":["{name}"]}}\'\n'
    )
    answer = _ask(_driver(tmp_path, script))
    assert ("error", "bad_output", 500_000_000) == (
        answer.status, answer.code, answer.cost_nanousd,
    )  # fmt: skip
    assert {"stdout"} == set(answer.artifacts)


def test_artifacts_over_the_limit_are_not_kept(tmp_path: Path) -> None:
    """The limit on output bounds the artifacts too; what the attempt used counts all the same."""
    said = '{"v":1,"score":1,"usd":0.5,"tokens":{"output":9},"artifacts":["a"]}'
    script = f"printf %0100d 0 > \"$FAIRTRIAL_OUT/a\"; echo '{said}'"
    answer = _ask(_driver(tmp_path, script), _limited(output_bytes=99))
    assert ("limit", "limit_output_bytes") == (answer.status, answer.code)
    assert (500_000_000, {"output": 9}) == (answer.cost_nanousd, answer.tokens)
    assert {"a", "stdout"} == set(
        _ask(_driver(tmp_path, script), _limited(output_bytes=100)).artifacts
    )


def test_good_last_line_and_exit_1_is_an_error(tmp_path: Path) -> None:
    """The exit status beats the answer; the raw output is kept (FR-19 d)."""
    answer = _ask(_driver(tmp_path, 'echo \'{"v":1,"passed":true}\'; echo why >&2; exit 1'))
    assert ("error", "exit_1", {}) == (answer.status, answer.code, answer.scores)
    assert (b'{"v":1,"passed":true}\n', b"why\n") == (
        answer.artifacts["stdout"], answer.artifacts["stderr"],
    )  # fmt: skip


@pytest.mark.parametrize("score", ["NaN", '"NaN"', "null", "Infinity", "-Infinity"])
def test_grader_that_prints_no_number_is_ungraded(tmp_path: Path, score: str) -> None:
    """A score that isn't finite is recorded as ungraded with its reason (FR-22)."""
    answer = _ask(_driver(tmp_path, f'echo \'{{"v":1,"score":{score}}}\''))
    assert ("ungraded", {}) == (answer.status, answer.scores)
    assert answer.code in ("score_not_finite", "score_null")


def test_infrastructure_is_told_apart_from_a_wrong_answer(tmp_path: Path) -> None:
    """A driver's error is error; its "wrong" is an outcome (FR-23)."""
    script = (
        'case "$FAIRTRIAL_UNIT" in down) exit 75;; wrong) echo \'{"v":1,"passed":false}\';;\n'
        'refused) echo \'{"v":1,"status":"failed","error":{"kind":"refused"}}\';; esac\n'
    )
    driver = _driver(tmp_path, script)
    found = {unit: _ask(driver, replace(JOB, unit=unit)) for unit in ("down", "wrong", "refused")}
    assert ("error", "exit_75") == (found["down"].status, found["down"].code)
    assert ("ok", {"passed": 0.0}) == (found["wrong"].status, found["wrong"].scores)
    assert ("failed", "refused") == (found["refused"].status, found["refused"].code)


@pytest.mark.slow
def test_late_answer_of_a_timed_out_attempt_counts_for_nothing(tmp_path: Path) -> None:
    """What a program prints after its deadline never becomes an outcome (FR-02)."""
    script = 'trap "" TERM; (trap "" TERM; sleep 0.6); echo \'{"v":1,"score":1}\'; sleep 30'
    answer = _ask(_driver(tmp_path, script), _limited(seconds=0.3))
    assert ("timeout", "timeout", {}) == (answer.status, answer.code, answer.scores)


def test_limits_of_money_and_tokens_end_as_limit(tmp_path: Path) -> None:
    """An attempt that reports more than it may is a limit, with its cost."""
    line = '{"v":1,"score":1,"usd":0.06,"tokens":{"output":11}}'
    driver = _driver(tmp_path, f"echo '{line}'")
    usd = _ask(driver, _limited(seconds=30, usd_nano=50_000_000))
    assert ("limit", "limit_usd", 60_000_000) == (usd.status, usd.code, usd.cost_nanousd)
    assert "limit_tokens" == _ask(driver, _limited(seconds=30, tokens=10)).code


def test_text_and_exit_replace_json(tmp_path: Path) -> None:
    """A program that knows nothing of the protocol can answer by its output or its status."""
    text = _ask(_driver(tmp_path, "echo 42", output="text"))
    assert ("ok", "42") == (text.status, text.answer)
    status = _ask(_driver(tmp_path, "echo 3 failed; exit 1", output="exit"))
    assert ("ok", {"passed": 0.0}) == (status.status, status.scores)


def test_program_that_can_not_be_started_is_an_error(tmp_path: Path) -> None:
    """A missing program, or one that isn't a program, is an outcome and no exception."""
    driver = _driver(tmp_path, "true")
    (tmp_path / "driver.sh").write_bytes(b"\x00\x01")
    assert "not_started" == _ask(driver).code
    (tmp_path / "driver.sh").unlink()
    answer = _ask(driver)
    assert ("error", "not_started") == (answer.status, answer.code)
    with pytest.raises(DriverError, match="not found"):
        driver.identity()


def test_problems_name_what_keeps_a_run_from_beginning(tmp_path: Path) -> None:
    """Unset variables, short secrets and a missing program are told before anything is paid."""
    driver = _driver(tmp_path, "true", {"SHORT": "abc"}, env=("NOT_THERE",), secrets=("SHORT",))
    assert [("NOT_THERE", "not set"), ("SHORT", "fewer than 6")] == [
        (name, text)
        for (name, text), problem in zip(
            [("NOT_THERE", "not set"), ("SHORT", "fewer than 6")], driver.problems(), strict=True
        )
        if name in problem and text in problem
    ]
    assert () == _driver(tmp_path, "true").problems()


def test_identity_changes_with_every_part(tmp_path: Path) -> None:
    """The same parts give the same description, without this machine's paths."""
    (tmp_path / "prompt.txt").write_text("be brief")
    driver = _driver(tmp_path, "true", files=("prompt.txt",))
    first = driver.identity()
    assert first == driver.identity()
    assert str(tmp_path) not in json.dumps(first)
    (tmp_path / "prompt.txt").write_text("be bold")
    second = driver.identity()
    assert first["files"] != second["files"]
    (tmp_path / "driver.sh").write_text("#!/bin/sh\nfalse\n")
    assert second["program"] != driver.identity()["program"]
    (tmp_path / "prompt.txt").unlink()
    with pytest.raises(DriverError, match=r"prompt\.txt"):
        driver.identity()


@pytest.mark.slow
def test_cancelled_attempt_leaves_no_process_and_no_folder(tmp_path: Path) -> None:
    """A cancellation ends what was started, removes its folders and passes on (FR-16 b, c)."""
    driver = _driver(tmp_path, 'echo $HOME > home; sleep 600 & echo $! > "child"; wait')

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(driver.run, JOB)
            while not (tmp_path / "child").exists() or not (tmp_path / "child").read_text():
                await anyio.sleep(0.005)
            group.cancel_scope.cancel()

    anyio.run(main)
    assert not Path((tmp_path / "home").read_text().strip()).exists()
    pid = (tmp_path / "child").read_text().strip()
    listed = subprocess.run(["ps", "-o", "stat=", "-p", pid], capture_output=True, check=False)
    # A zombie has ended; it only waits to be reaped by whoever adopted it.
    assert listed.stdout.strip()[:1] in (b"", b"Z")


@pytest.mark.slow
def test_attempts_run_side_by_side(tmp_path: Path) -> None:
    """Sixteen attempts of a third of a second take much less than sixteen thirds."""
    driver = _driver(tmp_path, 'sleep 0.3; echo "{\\"v\\":1,\\"answer\\":\\"$FAIRTRIAL_UNIT\\"}"')
    answers: dict[str, str | None] = {}

    async def ask(unit: str) -> None:
        answers[unit] = (await driver.run(replace(JOB, unit=unit))).answer

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for number in range(16):
                group.start_soon(ask, f"u{number}")

    begun = time.monotonic()
    anyio.run(main)
    assert {f"u{number}": f"u{number}" for number in range(16)} == answers
    assert time.monotonic() - begun < 3

"""The driver `command`: a program that speaks driver protocol 1, or answers by output or exit.

Leaves running and ending processes to `processes.py`, folders and artifacts to
`attempt_folders.py`, what was said to `answer.py`.

Rules:
- argv without a shell; a first word without a slash is looked for in PATH, another one from the
  protocol's folder, which is also the working directory.
- The environment is PATH, HOME, TMPDIR, LANG=C.UTF-8, the declared variables and secrets, and
  FAIRTRIAL_UNIT, _ARM, _REPLICATE, _ATTEMPT, _SEED, _OUT. HOME and TMPDIR are temporary and empty
  unless the protocol says `home: inherit`.
- stdout, stderr and declared artifacts are kept, secrets replaced in all of them.
- `limits.output_bytes` bounds stdout and stderr together, and the artifacts together; without it
  `OUTPUT_BYTES_MAX` does.
- Programs aren't asked for their version: that would start a program nobody may start yet. The
  digest of the program's file stands for it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from fairtrial.ledger import sections
from fairtrial.ledger.errors import DriverError

from .answer import Answer, bad_output, check_limits, parse_answer
from .attempt_folders import (
    OUTPUT_BYTES_MAX,
    AttemptFolders,
    attempt_folders,
    read_artifacts,
)
from .port import Job, file_identity, job_line
from .processes import FAMILY_VARIABLE, Cancel, Command, Ran, in_thread, run_command
from .scrub import SECRET_CHARACTERS_MIN, Scrubber, weak_secrets

__all__ = ("CommandDriver", "environment_problems")


class CommandDriver:
    """Runs a program once per attempt."""

    name = "command"

    def __init__(
        self, spec: sections.CommandDriver, *, folder: Path, environment: Mapping[str, str]
    ) -> None:
        self._spec, self._folder, self._environment = spec, folder.absolute(), environment
        self._scrubber = Scrubber({name: environment.get(name, "") for name in spec.secrets})

    def identity(self) -> dict[str, object]:
        """Returns arguments, digests and settings.

        Raises:
            DriverError: The program or a file isn't there.
        """
        program = self._program()
        if program is None:
            is_there = self._is_there()
            raise DriverError(
                "the program is not executable" if is_there else "the program was not found",
                where=self._spec.argv[0],
                todo=f"chmod +x {self._spec.argv[0]}"
                if is_there
                else "install it, or correct driver.argv",
            )
        return {
            "kind": self.name,
            "argv": list(self._spec.argv),
            "program": _digest(program),
            "files": file_identity(self._folder, self._spec.files),
            "env": list(self._spec.env),
            "secrets": list(self._spec.secrets),
            "config": dict(self._spec.config),
            "output": self._spec.output,
            "home": self._spec.home,
        }

    def problems(self) -> tuple[str, ...]:
        """Returns what keeps a run from beginning."""
        missing = () if self._program() else (self._absence(),)
        return missing + environment_problems(self._spec, self._environment)

    async def run(self, job: Job) -> Answer:
        """Runs the program once."""
        return await in_thread(lambda cancel: self._attempt(job, cancel))

    async def aclose(self) -> None:
        """Does nothing: no process outlives its attempt."""

    def _attempt(self, job: Job, cancel: Cancel) -> Answer:
        with attempt_folders(job.out) as folders:
            job = replace(job, out=folders.out)
            program = self._program()
            if program is None:
                return _not_started(self._absence())
            command = Command(
                argv=(str(program), *self._spec.argv[1:]),
                cwd=self._folder,
                environment=self._child_environment(job, folders),
                stdin=job_line(job),
                seconds=job.limits.seconds,
                output_bytes=job.limits.output_bytes or OUTPUT_BYTES_MAX,
            )
            try:
                ran = run_command(command, cancel)
            except (OSError, ValueError) as error:
                return _not_started(str(error))
            return self._judged(job, ran, folders.out)

    def _judged(self, job: Job, ran: Ran, out: Path) -> Answer:
        is_cut = ran.stopped is not None
        kept = {
            "stdout": self._scrubber.clean(ran.stdout, is_cut=is_cut),
            "stderr": self._scrubber.clean(ran.stderr, is_cut=is_cut),
        }
        answer = self._ending(ran, kept["stdout"])
        if answer.declared and answer.status != "timeout":
            answer, files = self._with_files(answer, out, job.limits.output_bytes)
            kept |= files
        limits = job.limits
        if ran.stopped is None:
            answer = check_limits(
                answer, usd_nano=limits.usd_nano, tokens=limits.tokens, output_bytes=None
            )
        model = job.config.get("model")
        return replace(
            self._clean(_with_last_line(answer, kept["stderr"])),
            requested_model=model if isinstance(model, str) else None,
            duration_ms=ran.duration_ms,
            artifacts={name: data for name, data in kept.items() if data},
            declared=(),
        )

    def _ending(self, ran: Ran, stdout: bytes) -> Answer:
        """Returns what an end means; what was printed before a forced end is no answer."""
        if ran.stopped == "timeout":
            return Answer(status="timeout", code="timeout", message="the deadline passed")
        if ran.stopped == "output":
            return _over_output()
        return parse_answer(stdout, exit_status=ran.exit_status, output=self._spec.output)

    def _with_files(
        self, answer: Answer, out: Path, limit: int | None
    ) -> tuple[Answer, dict[str, bytes]]:
        try:
            files = read_artifacts(out, answer.declared, limit or OUTPUT_BYTES_MAX)
        except DriverError as error:
            broken = bad_output(str(error))
            return replace(broken, cost_nanousd=answer.cost_nanousd, tokens=answer.tokens), {}
        if files is None:
            over = _over_output()
            return replace(over, cost_nanousd=answer.cost_nanousd, tokens=answer.tokens), {}
        return answer, {name: self._scrubber.clean(data) for name, data in files.items()}

    def _clean(self, answer: Answer) -> Answer:
        """Returns the answer without secrets that only JSON's escapes had hidden."""
        clean = self._scrubber.text
        return replace(
            answer,
            answer=None if answer.answer is None else clean(answer.answer),
            served_model=None if answer.served_model is None else clean(answer.served_model),
            message=clean(answer.message),
        )

    def _program(self) -> Path | None:
        first = self._spec.argv[0]
        if "/" in first:
            path = self._folder / first
            return path if os.access(path, os.X_OK) and path.is_file() else None
        found = shutil.which(first, path=self._environment.get("PATH", os.defpath))
        return Path(found).absolute() if found else None

    def _is_there(self) -> bool:
        """Returns whether the file that the protocol names by a path exists."""
        first = self._spec.argv[0]
        return "/" in first and (self._folder / first).is_file()

    def _absence(self) -> str:
        """Returns why there is no program to start."""
        first = self._spec.argv[0]
        if self._is_there():
            return f"{first} is not executable: chmod +x {first}"
        return f"{first} was not found"

    def _child_environment(self, job: Job, folders: AttemptFolders) -> dict[str, str]:
        given = self._environment
        own = {"PATH": given.get("PATH", os.defpath), "LANG": "C.UTF-8"}
        if self._spec.home == "inherit":
            taken = ("HOME", "USER", "LOGNAME", "TMPDIR")
            own |= {name: given[name] for name in taken if name in given}
        else:
            own |= {"HOME": str(folders.home), "TMPDIR": str(folders.temporary)}
        if FAMILY_VARIABLE in given:
            own[FAMILY_VARIABLE] = given[FAMILY_VARIABLE]
        declared = (*self._spec.env, *self._spec.secrets)
        return own | {name: given[name] for name in declared if name in given} | _job_variables(job)


def environment_problems(
    spec: sections.CommandDriver | sections.PythonDriver, environment: Mapping[str, str]
) -> tuple[str, ...]:
    """Returns which declared variables aren't set, and which secrets are too short to hide."""
    unset = [f"{name} is not set" for name in (*spec.env, *spec.secrets) if name not in environment]
    weak = weak_secrets({name: environment.get(name, "") for name in spec.secrets})
    short = f"has fewer than {SECRET_CHARACTERS_MIN} characters and can't be kept out of the output"
    return (*unset, *(f"secret {name} {short}" for name in weak))


def _job_variables(job: Job) -> dict[str, str]:
    return {
        "FAIRTRIAL_UNIT": job.unit,
        "FAIRTRIAL_ARM": job.arm,
        "FAIRTRIAL_REPLICATE": str(job.replicate),
        "FAIRTRIAL_ATTEMPT": str(job.attempt),
        "FAIRTRIAL_SEED": job.seed,
        "FAIRTRIAL_OUT": str(job.out),
    }


def _digest(program: Path) -> dict[str, object]:
    with program.open("rb") as file:
        digest = sha256()
        while block := file.read(2**20):
            digest.update(block)
        return {"name": program.name, "size": file.tell(), "sha256": digest.hexdigest()}


def _with_last_line(answer: Answer, stderr: bytes) -> Answer:
    """Returns the answer of a program that broke with the last thing it said, for the terminal."""
    lines = stderr.decode("utf-8", "replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    if not last or not (answer.code or "").startswith(("exit_", "signal_")):
        return answer
    return replace(answer, message=f"{answer.message}: {last[:200]}")


def _not_started(message: str) -> Answer:
    return Answer(status="error", code="not_started", message=message)


def _over_output() -> Answer:
    return Answer(status="limit", code="limit_output_bytes", message="printed more than it may")

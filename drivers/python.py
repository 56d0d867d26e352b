"""The driver `python`: a callable `module:function` in this process.

Leaves what was returned to `answer.py`.

Rules:
- The module is a file beside the protocol, `a.b` is `a/b.py` or `a/b/__init__.py`; an installed
  package of the same name doesn't take its place. What runs is compiled from the bytes that are
  there: no compiled copy of it is read or written.
- The protocol's folder is the last place where imports of that module look: what is installed, and
  so what computes the numbers, can't be replaced by a file there.
- The callable gets the job as a dict, like the line of a program, and returns a dict under the same
  rules; `v` may be left out.
- A coroutine function is awaited and has to let cancellations pass. Any other callable runs in a
  thread of its own; one that overruns its deadline, or is cancelled, is left behind: what it
  returns later counts for nothing, and it can't keep the process from ending.
- An exception is error, code `exception`; its traceback is kept as artifact stderr.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import inspect
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import cast

import anyio
import anyio.from_thread
import anyio.lowlevel

from fairtrial.ledger import sections
from fairtrial.ledger.errors import DriverError

from .answer import Answer, bad_output, check_limits, parse_mapping
from .attempt_folders import OUTPUT_BYTES_MAX, attempt_out, read_artifacts
from .command import environment_problems
from .port import Job, file_identity, job_mapping
from .scrub import Scrubber

__all__ = ("PythonDriver",)

_DIGEST = "__fairtrial_source__"


class PythonDriver:
    """Calls a function once per attempt."""

    name = "python"

    def __init__(
        self, spec: sections.PythonDriver, *, folder: Path, environment: Mapping[str, str]
    ) -> None:
        self._spec, self._folder, self._environment = spec, folder.absolute(), environment
        self._scrubber = Scrubber({name: environment.get(name, "") for name in spec.secrets})
        self._function: Callable[..., object] | None = None

    def identity(self) -> dict[str, object]:
        """Returns the call, digests and settings; imports nothing.

        Raises:
            DriverError: A file isn't there.
        """
        source = _source(self._folder, self._spec.call).relative_to(self._folder)
        return {
            "kind": self.name,
            "call": self._spec.call,
            "python": f"{sys.version_info.major}.{sys.version_info.minor}",
            "files": file_identity(self._folder, {str(source), *self._spec.files}),
            "env": list(self._spec.env),
            "secrets": list(self._spec.secrets),
            "config": dict(self._spec.config),
        }

    def problems(self) -> tuple[str, ...]:
        """Returns what keeps a run from beginning."""
        found = environment_problems(self._spec, self._environment)
        try:
            self._load()
        except DriverError as error:
            found += (str(error),)
        return found

    async def run(self, job: Job) -> Answer:
        """Calls the function once."""
        with attempt_out(job.out) as out:
            begun = time.monotonic()
            answer, artifacts = await self._call(job, {**job_mapping(job), "out": out})
            duration = round((time.monotonic() - begun) * 1000)
            return self._judged(job, out, answer, artifacts, duration)

    async def aclose(self) -> None:
        """Does nothing: what was left behind can't be reached."""

    async def _call(self, job: Job, given: dict[str, object]) -> tuple[Answer, dict[str, bytes]]:
        try:
            function = self._load()
        except DriverError as error:
            return Answer(status="error", code="not_started", message=str(error)), {}
        with anyio.move_on_after(job.limits.seconds) as scope:
            try:
                returned = await _returned(function, given)
            # Whatever the callable does is its failure; only a cancellation isn't.
            except (Exception, SystemExit) as error:
                return _exception(error)
            if not scope.cancel_called:
                return parse_mapping(returned), {}
        return Answer(status="timeout", code="timeout", message="the deadline passed"), {}

    def _judged(
        self, job: Job, out: str, answer: Answer, artifacts: dict[str, bytes], duration: int
    ) -> Answer:
        limits = job.limits
        if answer.declared:
            answer, artifacts = _with_files(answer, Path(out), limits.output_bytes)
        answer = check_limits(
            answer,
            usd_nano=limits.usd_nano,
            tokens=limits.tokens,
            output_bytes=limits.output_bytes,
        )
        model = job.config.get("model")
        clean = self._scrubber.text
        return replace(
            answer,
            answer=None if answer.answer is None else clean(answer.answer),
            served_model=None if answer.served_model is None else clean(answer.served_model),
            requested_model=model if isinstance(model, str) else None,
            duration_ms=duration,
            artifacts={key: self._scrubber.clean(data) for key, data in artifacts.items()},
            declared=(),
            message=clean(answer.message),
        )

    def _load(self) -> Callable[..., object]:
        """Returns the callable, imported once.

        Raises:
            DriverError: It can't be imported.
        """
        if self._function is None:
            self._function = _import_function(self._folder, self._spec.call)
        return self._function


def _with_files(answer: Answer, out: Path, limit: int | None) -> tuple[Answer, dict[str, bytes]]:
    try:
        files = read_artifacts(out, answer.declared, limit or OUTPUT_BYTES_MAX)
    except DriverError as error:
        broken = bad_output(str(error))
        return replace(broken, cost_nanousd=answer.cost_nanousd, tokens=answer.tokens), {}
    if files is None:
        over = Answer(status="limit", code="limit_output_bytes", message="too much to keep")
        return replace(over, cost_nanousd=answer.cost_nanousd, tokens=answer.tokens), {}
    return answer, files


async def _returned(function: Callable[..., object], given: dict[str, object]) -> object:
    if inspect.iscoroutinefunction(function):
        return cast("object", await function(given))
    return await _in_daemon(function, given)


def _exception(error: BaseException) -> tuple[Answer, dict[str, bytes]]:
    trace = "".join(traceback.format_exception(error)).encode(errors="replace")
    message = f"{type(error).__name__}: {error}"
    return Answer(status="error", code="exception", message=message), {"stderr": trace}


async def _in_daemon(function: Callable[..., object], given: dict[str, object]) -> object:
    """Calls a function in a thread that nobody has to wait for."""
    done, token = anyio.Event(), anyio.lowlevel.current_token()
    returned: list[object] = []
    raised: list[BaseException] = []

    def call() -> None:
        try:
            returned.append(function(given))
        except BaseException as error:  # handed to the waiter, whatever it is
            raised.append(error)
        try:
            anyio.from_thread.run_sync(done.set, token=token)
        except RuntimeError:
            # The run is over and nobody waits for this late answer.
            return

    threading.Thread(target=call, name="fairtrial driver", daemon=True).start()
    await done.wait()
    if raised:
        if isinstance(raised[0], (Exception, SystemExit)):
            raise raised[0]
        raise SystemExit(repr(raised[0])) from raised[0]
    return returned[0]


def _source(folder: Path, call: str) -> Path:
    """Returns the file of a call's module.

    Raises:
        DriverError: There is none beside the protocol.
    """
    stem = folder.joinpath(*call.partition(":")[0].split("."))
    for path in (stem.with_name(stem.name + ".py"), stem / "__init__.py"):
        if path.is_file():
            return path
    raise DriverError(
        "the module was not found beside the protocol",
        where=call,
        expected=str(stem.relative_to(folder)) + ".py",
        todo="put the file there, or correct driver.call",
    )


def _import_function(folder: Path, call: str) -> Callable[..., object]:
    source = _source(folder, call)
    name = call.partition(":")[2]
    try:
        module = _import_module(folder, source, call.partition(":")[0])
    except (Exception, SystemExit) as error:
        raise DriverError(
            "the module can't be imported",
            where=call,
            found=f"{type(error).__name__}: {error}",
            todo="try it: python -c 'import ...' in the protocol's folder",
        ) from error
    function: object = getattr(module, name, None)
    if not callable(function):
        raise DriverError(
            f"{name} is no callable of the module",
            where=call,
            expected=f"a function {name} in {source.name}",
            found="nothing of this name" if function is None else type(function).__name__,
            todo="define it, or correct driver.call",
        )
    return function


class _SourceLoader(importlib.machinery.SourceFileLoader):
    """Compiles the bytes that are there: a cached copy may be older than it looks."""

    def get_code(self, fullname: str) -> object:  # type: ignore[override]  # the stub says CodeType
        return self.source_to_code(self.get_data(self.path), self.path)


def _import_module(folder: Path, source: Path, name: str) -> ModuleType:
    """Returns the module of exactly these bytes, one object for all arms."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    digest = sha256(str(source).encode() + b"\0" + source.read_bytes()).hexdigest()
    for candidate in (name, f"_fairtrial_{digest[:16]}_{name}"):
        known = sys.modules.get(candidate)
        if known is None:
            return _load_module(source, candidate, digest)
        if getattr(known, _DIGEST, None) == digest:
            return known
    raise DriverError(
        "the module's name is taken",
        where=name,
        expected=f"the module of {source}",
        found="another module of the same name, loaded before",
        todo="rename the file, and driver.call with it",
    )


def _load_module(source: Path, name: str, digest: str) -> ModuleType:
    package = [str(source.parent)] if source.name == "__init__.py" else None
    loader = _SourceLoader(name, str(source))
    spec = importlib.util.spec_from_file_location(
        name, source, loader=loader, submodule_search_locations=package
    )
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    setattr(module, _DIGEST, digest)
    sys.modules[name] = module
    writes_nothing, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.dont_write_bytecode = writes_nothing
    return module

"""The functions of `scipy.special`, without what that package imports beside them.

Job: hand `distributions.py` the compiled functions. Importing the whole package also brings its
adapters to other array libraries, and with them numpy's test tools and its wrapper of Fortran:
eight times the CPU and 18 MB more than the functions themselves, a tenth of a whole short run.

Rules:
    - They are the very functions that `scipy.special` offers, so no number depends on the way.
    - Whoever else imports `scipy.special` in this process, a driver's function say, gets it whole:
      what stands under its name loads the rest when it is first asked for something.
    - Where SciPy keeps them in another place, the whole package is loaded.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from threading import RLock
from types import ModuleType
from typing import ClassVar, cast

__all__ = ("special_functions",)

_PACKAGE = "scipy.special"
_NAMES = (
    "betaincc", "betaincinv", "betaln", "chdtrc", "gammaincinv", "log_ndtr", "nctdtr", "ndtr",
    "ndtri", "stdtr", "stdtrit",
)  # fmt: skip
_RUNNING = RLock()


@cache
def special_functions() -> ModuleType:
    """Returns a module that has the functions of `scipy.special` that are used here."""
    whole = sys.modules.get(_PACKAGE) or _deferred()
    if not isinstance(whole, _Deferred):
        return whole
    try:
        compiled = import_module(f"{_PACKAGE}._ufuncs")
    except ImportError:
        return whole
    return compiled if all(hasattr(compiled, name) for name in _NAMES) else whole


class _Deferred(ModuleType):
    """A package that is known by its place alone; it is run when something of it is wanted."""

    is_running: ClassVar[bool] = False
    has_run: ClassVar[bool] = False

    def __getattr__(self, name: str) -> object:
        # Under a lock, so that no other thread finds a part of the package missing.
        with _RUNNING:
            if _Deferred.is_running:
                raise AttributeError(f"module {_PACKAGE!r} has no attribute {name!r}")
            if not _Deferred.has_run:
                _run(self)
        return cast("object", getattr(self, name))


def _deferred() -> ModuleType:
    """Puts the package's place under its name, as an import does, without running it."""
    parent = import_module(_PACKAGE.partition(".")[0])
    spec = find_spec(_PACKAGE)
    if spec is None or spec.loader is None:
        return import_module(_PACKAGE)
    module = module_from_spec(spec)
    module.__class__ = _Deferred
    found = sys.modules.setdefault(_PACKAGE, module)
    parent.__dict__.setdefault("special", found)
    return found


def _run(module: ModuleType) -> None:
    """Runs the package; from then on it is an ordinary module."""
    spec = module.__spec__
    assert spec is not None, "it was made from a spec"
    assert spec.loader is not None, "and that spec has a loader"
    _Deferred.is_running = True
    try:
        spec.loader.exec_module(module)
        module.__class__ = ModuleType
        _Deferred.has_run = True
    finally:
        _Deferred.is_running = False

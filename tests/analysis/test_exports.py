"""What each module of the analysis shows to others."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

import fairtrial.analysis.values

FOLDER = Path(fairtrial.analysis.values.__file__).parent
MODULES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("name", MODULES)
def test_exports_are_a_tuple_of_documented_names(name: str) -> None:
    """`__all__` names what exists; every function and class in it has a docstring."""
    module = importlib.import_module(f"fairtrial.analysis.{name}")
    assert isinstance(module.__all__, tuple)
    for export in module.__all__:
        value = getattr(module, export)
        if inspect.isfunction(value) or (
            inspect.isclass(value) and value.__module__ == module.__name__
        ):
            assert value.__doc__, export


@pytest.mark.parametrize("name", MODULES)
def test_docstring_of_a_module_says_job_and_rules(name: str) -> None:
    """Its job, what it leaves to others, its rules as a list."""
    text = importlib.import_module(f"fairtrial.analysis.{name}").__doc__ or ""
    for word in ("Job:", "Leaves", "Rules:\n    - "):
        assert word in text

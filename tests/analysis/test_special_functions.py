"""What is used of scipy.special is its own, is loaded alone, and takes it from nobody else."""

from __future__ import annotations

import subprocess
import sys

import pytest

LIGHT = """
import sys
from fairtrial.analysis.special_functions import special_functions
mine = special_functions()
assert not [name for name in ("numpy.f2py", "numpy.testing", "scipy._lib._array_api")
            if name in sys.modules]
"""
WHOLE = """
import types
from fairtrial.analysis.special_functions import _NAMES
assert all(getattr(scipy.special, name) is getattr(mine, name) for name in _NAMES)
assert scipy.special.logsumexp([0.0, 0.0]) > 0.6 and type(scipy.special) is types.ModuleType
assert not hasattr(scipy.special, "nothing_of_this_name")
"""
THREADS = """
import threading
found = []
def ask():
    from scipy.special import logsumexp
    found.append(logsumexp)
threads = [threading.Thread(target=ask) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert len(found) == 8
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [
        pytest.param(f"{LIGHT}import scipy.special{WHOLE}", id="imported after"),
        pytest.param(f"{LIGHT}import scipy.special, scipy.stats{WHOLE}", id="by another part"),
        pytest.param(f"{LIGHT}import scipy; scipy.special.expit{WHOLE}", id="as an attribute"),
        pytest.param(f"{LIGHT}from scipy.special import *; expit; import scipy{WHOLE}", id="star"),
        pytest.param(f"{LIGHT}{THREADS}import scipy.special{WHOLE}", id="by threads at once"),
        pytest.param(
            "import scipy.special\n"
            "from fairtrial.analysis.special_functions import special_functions\n"
            f"mine = special_functions(){WHOLE}",
            id="imported before",
        ),
    ],
)
def test_the_package_is_whole_for_everyone_else(program: str) -> None:
    """Imported before or after, by name or by a thread beside: the same functions, all of them."""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.slow
def test_another_place_of_the_functions_costs_time_and_nothing_else() -> None:
    """A SciPy that keeps its functions elsewhere is loaded as it wants to be."""
    program = """
import sys
class Moved:
    def find_spec(self, name, path=None, target=None):
        if name == "scipy.special._ufuncs" and not hasattr(self, "asked"):
            self.asked = True
            raise ImportError(name)
sys.meta_path.insert(0, Moved())
from fairtrial.analysis.distributions import normal_quantile
assert round(normal_quantile(0.975), 6) == 1.959964
assert "scipy.special._logsumexp" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)

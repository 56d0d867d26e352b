"""Makes assigned.json: the difference between arms of units that are in one arm each.

    python tests/reference/make_assigned.py > tests/reference/assigned.json

Made with statsmodels 0.15.0 and numpy 2.4 outside the project; nothing of it is imported. CR0, CR1
and the standard errors of single units (HC2, HC3) are those of statsmodels' OLS. CR2, CR3 and the
degrees of freedom are the n x n matrices of Bell and McCaffrey (2002) and Pustejovsky and Tipton
(2018), eq. (6) and (11), with the blocks of I - H raised to -1/2 and -1 by their eigenvalues; the
script stops unless its CR0 is that of statsmodels, and, for single units, its CR2 and CR3 are.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import Any

import numpy as np

_SEED = 20261129
# Not a dependency of the project, so no checker finds it.
sm: Any = import_module("statsmodels.api")
_VERSION: str = import_module("statsmodels").__version__


def dense(y: Any, treated: Any, clusters: Any) -> dict[str, float]:
    """Returns estimate, standard errors and df of the contrast from explicit matrices."""
    n = len(y)
    x = np.column_stack([np.ones(n), treated.astype(float)])
    bread = np.linalg.inv(x.T @ x)
    rest = np.eye(n) - x @ bread @ x.T
    residuals, contrast = rest @ y, np.array([0.0, 1.0])
    variances, columns = {0.0: 0.0, 0.5: 0.0, 1.0: 0.0}, []
    for name in np.unique(clusters):
        inside = np.flatnonzero(clusters == name)
        eigen, vectors = np.linalg.eigh(rest[np.ix_(inside, inside)])
        for power in variances:
            adjust = vectors @ np.diag(eigen**-power) @ vectors.T
            weights = adjust @ x[inside] @ bread @ contrast
            variances[power] += float(weights @ residuals[inside]) ** 2
            if power == 0.5:
                columns.append(rest[:, inside] @ weights)
    gram = np.array(columns) @ np.array(columns).T
    return {
        "estimate": float((bread @ x.T @ y)[1]),
        "cr0": variances[0.0] ** 0.5,
        "cr2": variances[0.5] ** 0.5,
        "cr3": variances[1.0] ** 0.5,
        "df": float(np.trace(gram) ** 2 / np.sum(gram * gram)),
    }


def by_statsmodels(y: Any, treated: Any, clusters: Any) -> dict[str, float]:
    """Returns what statsmodels says of the same regression."""
    model = sm.OLS(y, sm.add_constant(treated.astype(float)))
    groups = {"groups": clusters, "use_correction": False}
    plain = model.fit(cov_type="cluster", cov_kwds=groups)
    count = len(np.unique(clusters))
    found = {
        "estimate": float(plain.params[1]),
        "cr0": float(plain.bse[1]),
        "cr1": float(plain.bse[1]) * (count / (count - 1)) ** 0.5,
    }
    if count == len(y):
        found["cr2"] = float(model.fit(cov_type="HC2").bse[1])
        found["cr3"] = float(model.fit(cov_type="HC3").bse[1])
    return found


def data(kind: str, clusters: int, seed: int) -> tuple[Any, Any, Any]:
    """Draws values, arms and clusters; sizes differ."""
    rng = np.random.default_rng([_SEED, seed])
    sizes = np.ones(clusters, int) if kind == "single" else rng.integers(2, 9, clusters)
    codes = np.repeat(np.arange(clusters), sizes)
    if kind == "constant":
        treated = (np.arange(clusters) % 2 == 0)[codes]
    elif kind == "within":
        treated = np.concatenate([np.arange(size) % 2 == 0 for size in sizes])
    elif kind == "mixed":
        treated = rng.random(len(codes)) < 0.4
        treated[codes == 0], treated[codes == 1] = True, False
    else:
        treated = rng.permutation(len(codes)) < clusters // 3
    own = rng.normal(0.0, 0.5, clusters)[codes]
    latent = own + rng.normal(0.0, 1.0, len(codes)) + 0.4 * treated
    values = (latent > 0.3).astype(float) if seed % 2 else np.round(latent, 4)
    return values, treated, codes


def case(kind: str, clusters: int, seed: int) -> dict[str, object]:
    """Returns one case, checked between both tools."""
    y, treated, codes = data(kind, clusters, seed)
    expected = dense(y, treated, codes)
    for name, value in by_statsmodels(y, treated, codes).items():
        assert abs(expected.setdefault(name, value) - value) < 1e-10, (kind, name)
    return {
        "method": "assigned.difference",
        "inputs": {
            "values": y.tolist(),
            "treated": treated.tolist(),
            "clusters": codes.tolist(),
        },
        "expected": expected,
        "tolerance": 1e-10,
        "source": f"{kind} arms: statsmodels {_VERSION} OLS and n x n matrices, "
        f"numpy {np.__version__}",
    }


if __name__ == "__main__":
    kinds = ("constant", "within", "mixed", "single")
    cases = [case(kind, count, seed) for kind in kinds for seed, count in enumerate((6, 9, 14, 25))]
    sys.stdout.write("[\n" + ",\n".join(json.dumps(each) for each in cases) + "\n]\n")

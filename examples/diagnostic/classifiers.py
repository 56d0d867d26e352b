"""Two classifiers as arms of an experiment: a driver of kind `python`.

The job names a patient and the fold that the patient is tested in. The model is trained on the
other folds, once per fold and process, and answers for this patient alone. The patient's own label
is not in the job, and is in no training set that an answer of this patient rests on.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from threading import Lock
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer  # type: ignore[import-untyped]  # ships no types
from sklearn.ensemble import RandomForestClassifier  # type: ignore[import-untyped]
from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
from sklearn.pipeline import make_pipeline  # type: ignore[import-untyped]
from sklearn.preprocessing import StandardScaler  # type: ignore[import-untyped]

FOLDS = 5
WORDS = ("malignant", "benign")
_fitting = Lock()


def answer(job: Mapping[str, Any]) -> dict[str, Any]:
    """Answers one job: is this patient's tumour malignant or benign?"""
    row = int(job["unit"].removeprefix("p")) - 1
    fold = int(job["input"]["fold"])
    with _fitting:  # two threads would fit the same model twice
        predicted = predictions(job["config"]["model"], fold)
    return {"v": 1, "answer": WORDS[predicted[row]], "usd": 0}


@cache
def patients() -> Any:
    """Returns scikit-learn's data: features, and 1 for each benign tumour."""
    return load_breast_cancer()


@cache
def predictions(name: str, fold: int) -> dict[int, int]:
    """Returns what the named model, trained on the other folds, says of each patient of a fold."""
    data = patients()
    tested = np.arange(len(data.target)) % FOLDS == fold
    model = untrained(name).fit(data.data[~tested], data.target[~tested])
    predicted = model.predict(data.data[tested])
    return dict(zip(np.flatnonzero(tested).tolist(), predicted.tolist(), strict=True))


def untrained(name: str) -> Any:
    """Returns a new model; its seed is part of what the arm is, so it stands here."""
    if name == "logistic":
        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    if name == "forest":
        return RandomForestClassifier(n_estimators=100, random_state=20261129)
    raise ValueError(f"config.model is logistic or forest, not {name!r}")

"""Prints units.csv: the 569 patients of scikit-learn's breast-cancer data, one row each.

    python make_units.py > units.csv

`label` is 1 for malignant. `fold` says by which of five parts a patient is tested: a classifier
that answers for a patient was trained on the other four. The last two columns are what the
command driver's rule is given; the Python driver looks its features up by the unit's id.
"""

from __future__ import annotations

from sklearn.datasets import load_breast_cancer  # type: ignore[import-untyped]  # ships no types

FOLDS = 5
COLUMNS = {"worst_radius": 20, "worst_concave_points": 27}


def main() -> None:
    """Prints the table."""
    measurements, diagnoses = load_breast_cancer(return_X_y=True)
    print(",".join(["unit", "label", "fold", *COLUMNS]))
    for row, (features, benign) in enumerate(zip(measurements, diagnoses, strict=True)):
        measured = [f"{features[column]:.6g}" for column in COLUMNS.values()]
        print(",".join([f"p{row + 1:03d}", str(1 - benign), str(row % FOLDS), *measured]))


if __name__ == "__main__":
    main()

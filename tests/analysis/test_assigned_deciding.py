"""Which degrees of freedom decide between arms: against explicit matrices, and where they part."""

from __future__ import annotations

import numpy as np
import pytest

from fairtrial.analysis.assigned import ArmCounts, assigned_df, assigned_difference
from fairtrial.analysis.assigned_deciding import (
    WHOLE,
    WORKING_CORRELATION,
    deciding_assigned,
    deciding_df,
    difference_with_df,
    whole_clusters_df,
)
from fairtrial.analysis.deciding import Deciding
from fairtrial.analysis.grouping import FloatArray
from fairtrial.analysis.paired import ClusteredMean
from fairtrial.analysis.values import Estimand

SIZES = np.array([3.0, 11.0, 1.0, 7.0, 40.0, 5.0, 9.0, 16.0, 2.0, 12.0])
TREATED = np.arange(10) % 2 == 1


def whole(sizes: FloatArray = SIZES) -> ArmCounts:
    """Returns clusters that take turns between the arms."""
    return ArmCounts(control=np.where(TREATED, 0.0, sizes), treatment=np.where(TREATED, sizes, 0.0))


def by_matrices(correlation: float) -> float:
    """Returns the df of the CR2 contrast by n x n matrices of units."""
    units = SIZES.astype(int)
    codes = np.repeat(np.arange(10), units)
    treated = TREATED[codes]
    design = np.column_stack([np.ones(codes.size), treated.astype(float)])
    bread = np.linalg.inv(design.T @ design)
    hat = design @ bread @ design.T
    model = np.where(codes[:, None] == codes[None, :], correlation, 0.0)
    np.fill_diagonal(model, 1.0)
    rows = []
    for cluster in range(10):
        own = codes == cluster
        rest = np.eye(own.sum()) - hat[np.ix_(own, own)]
        roots, vectors = np.linalg.eigh(rest)
        adjusted = vectors @ np.diag(1.0 / np.sqrt(roots)) @ vectors.T
        score = (bread @ design[own].T)[1] @ adjusted
        rows.append(score @ (np.eye(codes.size) - hat)[own])
    product = np.array(rows) @ model @ np.array(rows).T
    return float(np.trace(product) ** 2 / np.trace(product @ product))


@pytest.mark.parametrize("correlation", [0.0, 0.05, WORKING_CORRELATION, 0.7, 1.0])
def test_df_of_whole_clusters_are_those_of_explicit_matrices(correlation: float) -> None:
    """The closed form is the trace of the contrast's covariance, by matrices of all units."""
    found = whole_clusters_df(whole(), correlation=correlation)
    assert by_matrices(correlation) == pytest.approx(found, rel=1e-9)


def test_df_without_correlation_equal_clusters_and_single_units_are_the_older_ones() -> None:
    """Where the working models agree, so do the df."""
    assert assigned_df(whole(), estimand="unit_weighted") == pytest.approx(
        whole_clusters_df(whole(), correlation=0.0), rel=1e-12
    )
    for size in (1.0, 8.0):
        equal = whole(np.full(10, size))
        assert 8.0 == pytest.approx(deciding_df(equal, estimand="unit_weighted"))


def test_df_fall_where_whole_clusters_differ_in_size_alone() -> None:
    """Unit weights over whole clusters have fewer df; cluster weights, mixed arms keep theirs."""
    older = assigned_df(whole(), estimand="unit_weighted")
    assert isinstance(older, float)
    found = deciding_df(whole(), estimand="unit_weighted")
    assert isinstance(found, float)
    assert found < older
    mixed = ArmCounts(control=SIZES, treatment=SIZES[::-1])
    for counts, estimand in ((whole(), "cluster_weighted"), (mixed, "unit_weighted")):
        name: Estimand = "unit_weighted" if estimand == "unit_weighted" else "cluster_weighted"
        assert assigned_df(counts, estimand=name) == deciding_df(counts, estimand=name)


@pytest.mark.parametrize(
    ("kind", "estimand", "method"),
    [
        ("whole", "unit_weighted", WHOLE),
        ("whole", "cluster_weighted", "cr2_t"),
        ("single", "unit_weighted", "cr2_t"),
        ("within", "unit_weighted", "cr2_t"),
    ],
)
def test_method_has_a_name_of_its_own(kind: str, estimand: Estimand, method: str) -> None:
    """Numbers of the older method keep its name; the newer ones are told apart by theirs."""
    rng = np.random.default_rng(9)
    codes = np.repeat(np.arange(10), SIZES.astype(int))
    treated = TREATED[codes] if kind == "whole" else np.arange(codes.size) % 2 == 1
    if kind == "single":
        codes = np.arange(codes.size)
    values = rng.normal(size=codes.size)
    if kind == "within":
        codes = codes // 4
    found = deciding_assigned(values, treated, codes, estimand=estimand, nominal_p=0.05)
    assert isinstance(found, Deciding)
    assert (method, {method}, method) == (found.method, set(found.tests), found.parts[0].method)
    plain = assigned_difference(values, treated, codes, estimand=estimand)
    other = difference_with_df(values, treated, codes, estimand=estimand)
    assert isinstance(plain, ClusteredMean)
    assert isinstance(other, ClusteredMean)
    assert (plain.estimate, plain.cr2, other.df) == (other.estimate, other.cr2, found.df)
    assert (plain.df == other.df) == (method == "cr2_t")

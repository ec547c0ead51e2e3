"""The table of claims: some fits of it, and the optima that they are judged by."""

from __future__ import annotations

from unittest.mock import patch

import claims
import numpy as np
import pytest
from claims import Loss, Problem

SEED, FITS = 5, 16  # two of each kind


def test_the_optimum_of_one_weight():
    """(1 - w)^2 + l1 |w| is least at w = 1 - l1 / 2; and under an l2 alone, (1 - w)^2 + l2 w^2 / 2, at 2 / (2 + l2)."""
    loss = Loss("squares", np.array([[[-1.0]]]), np.ones(1))
    sparse = Problem(loss, np.zeros(1))
    sparse.add(0.5, np.array([[0]]))
    value, bound = sparse.optimum()
    assert value == pytest.approx(0.25**2 + 0.5 * 0.75, rel=1e-6)
    assert bound <= 1e-6
    smooth = Problem(loss, np.array([3.0]))
    assert smooth.optimum() == (pytest.approx(0.6), 0.0)


@pytest.mark.parametrize("shared", [False, True])
def test_the_optimum_of_a_row(shared):
    """Three equal weights: they share the strength of their row, as a length or as the largest of them."""
    problem = Problem(Loss("squares", -np.eye(3)[:, None], np.ones(3)), np.zeros(3))
    problem.add(0.6, np.array([[0, 1, 2]]), shared=shared)
    slope = 0.6 * (1.0 / 3.0 if shared else 1.0 / np.sqrt(3.0))
    w = 1.0 - slope / 2.0
    assert problem.optimum()[0] == pytest.approx(3 * (slope / 2.0) ** 2 + 3 * slope * w, rel=1e-6)


def test_the_optimum_of_a_hinge():
    """max(0, 1 - w) + w^2 is least at w = 1/2: 3/4."""
    counts = np.array([[0.0, 1.0]])
    problem = Problem(Loss("hinge", np.array([[[0.0], [-1.0]]]), np.ones(1), counts), np.array([2.0]))
    assert problem.optimum()[0] == pytest.approx(0.75, rel=1e-6)


def test_the_first_fits():
    found = [claims.judged(case) for case in claims.cases(FITS, SEED)]
    for each in found:
        if each.status == "CONVERGED":
            assert each.ratio <= 1.0, each.name
        elif each.status == "ESTIMATED":
            assert each.ratio <= 2.0, each.name
        elif each.status != "HELD_OUT":
            assert each.n_warnings > 0, each.name
    assert sum(each.is_known or each.status in claims.NO_CLAIM for each in found) >= 0.9 * FITS
    assert sum(each.status in ("CONVERGED", "ESTIMATED") for each in found) >= 0.5 * FITS
    assert claims.table_of(found).head[:2] == ["status", "fits"]


def test_cases_are_the_same_however_many():
    few, many, later = (
        [case.name for case in claims.cases(*ends)] for ends in ((4, SEED), (8, SEED), (8, SEED, 4))
    )
    assert few == many[:4]
    assert later == many[4:]


def test_each_extra_is_there():
    """A loss that is not convex is claimed to be nowhere near its optimum."""
    chosen = {}
    for case in claims.cases(300, SEED):
        if case.extra not in chosen or (case.extra == "factors" and "huge" in case.name):
            chosen[case.extra] = case
    assert chosen.keys() == {"none", *claims.EXTRAS}
    for each in map(claims.judged, chosen.values()):
        assert each.ratio <= 2.0 or each.status in claims.NO_CLAIM, each.name


def test_fits_in_the_file_of_results_are_not_made_again(tmp_path, monkeypatch):
    results = tmp_path / "claims.jsonl"
    claims.main(fits=2, seed=SEED, worst=0, results=results)
    first = results.read_text()
    claims.main(fits=3, seed=SEED, worst=0, results=results)
    assert results.read_text().startswith(first)
    assert len(results.read_text().splitlines()) == 3
    monkeypatch.setattr(claims, "judged", None)
    claims.main(fits=3, seed=SEED, worst=0, results=results)


@pytest.mark.parametrize("number", [15, 28, 149, 427])
def test_estimates_that_were_false(number):
    """Two were 3.5 and 2.7 tolerances above the optimum, under "l1/linf" from the model of another strength; a line
    search of the last one divided by zero; the first has a penalty without a local form."""
    case = next(claims.cases(number + 1, 1, number))
    case.is_solved_on = False
    found = claims.judged(case)
    assert found.status in claims.NO_CLAIM or found.ratio <= 2.0, found.name
    assert found.status not in claims.NO_CLAIM or found.n_warnings > 0, found.name


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_floor_says_nothing_of_the_distance():
    """ESTIMATED at 615 where 79 is to be had: item weights are 1e-6 to 1e6, and some factors of the penalty are 0."""
    case = next(claims.cases(413, 1, 412))
    case.is_solved_on = False
    with patch("crfqn.estimators.problem.minimize", case.minimize):
        result = case.fit().result_
    assert result.status.name != "ESTIMATED" or result.value <= 100.0
    assert not result.estimated_gap <= result.tol or result.value <= 100.0

"""Descent on the quadratic model of an epoch, group by group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from group_problems import COORDS, norms, small_penalty, strengths

from crfqn.kernels.coordinate_descent import Limits, QuadraticModelArrays, Subproblem
from crfqn.solvers.prox_qn.metric import CompactBFGS

pytestmark = pytest.mark.usefixtures("compiled")


class TestDescent:
    """Block coordinate descent solves the quadratic model, whatever B0 is."""

    @staticmethod
    def model(kind, n_pairs=3, n=15):
        random = np.random.default_rng(7)
        root = random.normal(size=(n, n + 5)) * np.geomspace(0.3, 2, n)[:, None]
        matrix = (root @ root.T).astype(np.float32)
        if kind == "sparse":
            matrix[np.abs(np.subtract.outer(np.arange(n), np.arange(n))) > 4] = 0.0
            matrix[np.diag_indices(n)] += 20
        base: Any = {"dense": matrix, "sparse": scipy.sparse.csr_array(matrix)}.get(kind)
        args = () if base is None else (base,)
        metric = CompactBFGS(np.diag(matrix).astype(float), *args)
        truth = np.diag(np.diag(matrix)) if base is None else matrix.astype(float)
        for s in random.normal(size=(n_pairs, n)):
            metric.update(s, truth @ s * random.uniform(0.8, 1.5))
        return metric, np.array([metric.times(e) for e in np.eye(n)]).T

    @norms
    @pytest.mark.parametrize("kind", ["diagonal", "dense", "sparse"])
    @strengths
    def test_solves_the_model(self, kind, norm, given_strengths):
        metric, b = self.model(kind)
        local = small_penalty(given_strengths, norm).at(COORDS)
        random = np.random.default_rng(8)
        g, w, damping = 20 * random.normal(size=15), random.normal(size=15), random.random(15)
        d, base_d = np.zeros(15), np.zeros(15, np.float32)
        model = QuadraticModelArrays(*metric.base_arrays, metric.diagonal, metric.q, metric.q_hat)

        def value(d):
            return g @ d + 0.5 * d @ b @ d + 0.5 * damping @ d**2 + local.value(w + d)

        values = [value(d)]
        for _ in range(4):
            made = local.descend(Subproblem(model, damping, g, w, Limits(1, np.inf)), d, base_d)
            assert made == 1
            values.append(value(d))
        assert np.all(np.diff(values) < 1e-6)
        local.descend(Subproblem(model, damping, g, w, Limits(300, np.inf)), d, base_d)
        assert local.violation(w + d, g + b @ d + damping * d).max() <= 2e-3
        if metric.has_matrix:
            np.testing.assert_allclose(base_d, metric.base_times(d[None])[0], rtol=1e-3, atol=1e-3)

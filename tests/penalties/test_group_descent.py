"""Descent on the quadratic model of an epoch, group by group."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from group_problems import COORDS, norms, small_penalty, strengths

from crfqn.kernels.coordinate_descent import Limits, QuadraticModelArrays, Subproblem
from crfqn.kernels.group_descent import MOST_CLUSTERED, cut_clusters
from crfqn.penalties import GroupLasso
from crfqn.penalties.group_lasso import FEWEST_SHARED
from crfqn.solvers.prox_qn.metric import CompactBFGS
from crfqn.threads import Pool

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
            made = local.descend(Subproblem(model, damping, g, w, Limits(1, np.inf)), d, base_d, ALONE)
            assert made == 1
            values.append(value(d))
        assert np.all(np.diff(values) < 1e-6)
        local.descend(Subproblem(model, damping, g, w, Limits(300, np.inf)), d, base_d, ALONE)
        assert local.violation(w + d, g + b @ d + damping * d).max() <= 2e-3
        if metric.has_matrix:
            np.testing.assert_allclose(base_d, metric.base_times(d[None])[0], rtol=1e-3, atol=1e-3)

    @pytest.mark.parametrize("n_rows", [525, 1030])
    def test_threads_change_nothing(self, n_rows):
        """A matrix large enough to be shared; columns that are no multiple of a register."""
        random = np.random.default_rng(n_rows)
        n_states, n = 5, 5 * n_rows
        root = random.normal(size=(n, 40)).astype(np.float32)
        matrix = root @ root.T / 40 + np.diag(1.0 + random.random(n)).astype(np.float32)
        metric = CompactBFGS(np.diag(matrix).astype(float), matrix)
        metric.update(np.ones(n), matrix @ np.ones(n))
        local = GroupLasso(1.0, n_features=n_rows, n_states=n_states).at(np.arange(n))
        g, w, runs = 3 * random.normal(size=n), random.normal(size=n), []
        assert n >= FEWEST_SHARED
        for n_threads in (1, 2, 3):
            d, base_d = np.zeros(n), np.zeros(n, np.float32)
            with Pool(n_threads) as pool:
                model = QuadraticModelArrays(*metric.base_arrays, metric.diagonal, metric.q, metric.q_hat)
                made = local.descend(Subproblem(model, np.zeros(n), g, w, Limits(4, np.inf)), d, base_d, pool)
            runs.append((made, d.tobytes(), base_d.tobytes()))
        np.testing.assert_allclose(base_d, matrix @ d, atol=1e-3)
        assert np.any(d != 0)
        assert runs[0] == runs[1] == runs[2]
        left = [local.violation(w + d, g + metric.times(d)).max()]
        local.descend(Subproblem(model, np.zeros(n), g, w, Limits(100, np.inf)), d, base_d, ALONE)
        left.append(local.violation(w + d, g + metric.times(d)).max())
        assert left[1] < 0.25 * left[0]

    def test_clusters_of_blocks(self):
        """As many neighbours as fit; a larger block alone; where B0 is not dense all alone."""
        random = np.random.default_rng(0)
        sizes = np.concatenate([[60], random.integers(1, 25, 40), [41, 40, 1], np.ones(200, int)])
        starts, room = np.concatenate([[0], np.cumsum(sizes)]), np.empty(sizes.size + 1, np.int64)
        clusters = room[: cut_clusters.py_func(starts, True, room) + 1]
        assert (clusters[0], clusters[-1]) == (0, sizes.size)
        for begin, end in pairwise(clusters):
            assert end - begin == 1 or starts[end] - starts[begin] <= MOST_CLUSTERED
            assert end == sizes.size or starts[end + 1] - starts[begin] > MOST_CLUSTERED
        assert cut_clusters.py_func(starts, False, room) == sizes.size
        np.testing.assert_array_equal(room, np.arange(sizes.size + 1))


ALONE = Pool(1)

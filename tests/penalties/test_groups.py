"""Group penalties: prox, subdifferential and conjugate against their definitions; Prox-QN under them against a long
proximal gradient run over enumerated problems; rows of features found, certified and dropped as a whole."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import TreeProblem, dense_weights, ends_within, make_problem, make_tree_problem, point_at
from scipy import optimize
from sklearn.exceptions import ConvergenceWarning

from crfqn import ChainCRF, MulticlassCRF, TaxonomyCRF, load
from crfqn.errors import InputError
from crfqn.kernels.subproblem.clusters import MOST_CLUSTERED, cut_clusters
from crfqn.objectives.blocks import BlockedObjective
from crfqn.penalties import ElasticNet, GroupLasso
from crfqn.penalties.blocks import Blocks
from crfqn.penalties.group_lasso import FEWEST_SHARED
from crfqn.result import Status
from crfqn.solvers.certificate import best_dual_value
from crfqn.solvers.minimize import minimize
from crfqn.solvers.protocols import Requirements
from crfqn.solvers.prox_qn import Diagonal, MostPromising, ProxQN
from crfqn.solvers.prox_qn.compact_bfgs import CompactBFGS
from crfqn.threads import Pool

pytestmark = pytest.mark.usefixtures("compiled")

NORMS = ("l2", "linf")
norms = pytest.mark.parametrize("norm", NORMS)
N_STATES, N_FEATURES = 3, 4  # of the penalties that stand alone: 12 node weights, 3 edges
COORDS = np.arange(15)
FREE = np.array([1, 5, 9, 13])  # all weights of feature 1, and an edge
STRENGTHS = [(1.3, 0.0, 0.0), (0.8, 0.5, 0.0), (0.8, 0.0, 0.7), (0.6, 0.4, 0.3), (0.0, 0.6, 0.2)]
strengths = pytest.mark.parametrize("given_strengths", STRENGTHS, ids=str)


def small_penalty(given_strengths=(1.3, 0.0, 0.0), norm="l2", unpenalised=FREE):
    return GroupLasso(*given_strengths, norm, unpenalised, n_features=N_FEATURES, n_states=N_STATES)


def one_row(group, l1, l2, norm, n):
    """A penalty whose coordinates 0 ... n - 1 are one row."""
    return GroupLasso(group, l1, l2, norm, n_features=1, n_states=n)


def norm_of(v, norm):
    return np.abs(v).max() if norm == "linf" else np.linalg.norm(v)


def cases(n=15, seed=0):
    random = np.random.default_rng(seed)
    for scale in (0.1, 1.0, 10.0):
        w = scale * random.normal(size=n)
        w[random.random(n) < 0.3] = 0.0
        yield w
        yield scale * np.sign(w)  # ties at the largest size
        yield np.where(np.arange(n) % N_FEATURES < 2, w, 0.0)


class TestPenalty:
    @norms
    @strengths
    def test_value(self, given_strengths, norm):
        group, l1, l2 = given_strengths
        for w in cases():
            rows = [w[[0, 4, 8]], w[[2, 6, 10]], w[[3, 7, 11]], w[[12]], w[[14]]]
            expected = sum(group * norm_of(r, norm) + l1 * np.abs(r).sum() + 0.5 * l2 * (r @ r) for r in rows)
            penalty = small_penalty(given_strengths, norm)
            assert penalty.value(COORDS, w) == pytest.approx(expected, rel=1e-13)
            used = np.flatnonzero(w)
            assert penalty.value(used, w[used]) == pytest.approx(expected, rel=1e-13)

    @norms
    @settings(max_examples=25, deadline=None, derandomize=True)
    @given(
        w=st.lists(st.sampled_from([0.0, -2.0, 2.0, 0.7, -0.3, 3.1, 1.2]), min_size=1, max_size=4),
        group=st.sampled_from([0.2, 1.0, 3.0]),
        l1=st.sampled_from([0.0, 0.5]),
        l2=st.sampled_from([0.0, 0.4]),
    )
    def test_prox_is_the_minimiser(self, norm, w, group, l1, l2):
        """The function is 1-strongly convex: only its minimiser is below all v by half the square of the distance."""
        w, coords, random = np.array(w), np.arange(len(w)), np.random.default_rng(0)
        penalty = one_row(group, l1, l2, norm, len(w))
        found = penalty.prox(coords, w, 0.8)

        def value(v):
            return 0.5 * (v - w) @ (v - w) + 0.8 * penalty.value(coords, v)

        others = [found + scale * random.normal(size=w.size) for scale in np.geomspace(1e-4, 3, 30)]
        for v in [*others, 0 * w, w, 0.99 * found, 1.01 * found]:
            assert value(v) >= value(found) + 0.5 * (v - found) @ (v - found) - 1e-12

    def test_prox_ends_where_the_level_is_a_weight(self):
        """Rounding then takes that weight for above the level and below it in turn."""
        w = np.array([0.91532396, 0.86885429, 0.12740301, 0.07356291, 0.07032625])
        random = np.random.default_rng(0)
        for v in [w, *(np.sort(random.random(5))[::-1] for _ in range(2000))]:
            for n in range(1, 5):
                mass = v[:n].sum() - n * v[n]
                found = one_row(mass, 0, 0, "linf", 5).prox(np.arange(5), v, 1.0)
                np.testing.assert_allclose(found, np.minimum(v, v[n]), rtol=1e-13)

    @norms
    def test_prox_takes_rows_by_rows_and_gives_whole_zeros(self, norm):
        penalty, random = small_penalty((1.0, 0.0, 0.0), norm), np.random.default_rng(1)
        w = 0.9 * random.normal(size=15)
        v = penalty.prox(COORDS, w, 1.0)
        np.testing.assert_array_equal(v[FREE], w[FREE])
        for row in ([0, 4, 8], [2, 6, 10], [3, 7, 11], [12], [14]):
            np.testing.assert_allclose(
                v[row], one_row(1.0, 0, 0, norm, len(row)).prox(np.arange(len(row)), w[row], 1)
            )
        shuffled = np.array([2, 3, 6, 7, 10, 11])
        np.testing.assert_array_equal(penalty.prox(shuffled, w[shuffled], 1.0), v[shuffled])
        assert not penalty.prox(COORDS, 0.3 * np.sign(w), 1.0)[np.setdiff1d(COORDS, FREE)].any()

    @norms
    @strengths
    def test_no_violation_exactly_at_the_fixed_points_of_the_prox(self, given_strengths, norm):
        penalty, random = small_penalty(given_strengths, norm), np.random.default_rng(2)
        for start in cases():
            w = penalty.prox(COORDS, start, 1.0)
            g = w - start  # what makes w = prox(w - g)
            assert penalty.violation(COORDS, w, g).max() <= 1e-12 * (1 + np.abs(start).max())
            g = g + random.normal(size=15)
            violation = penalty.violation(COORDS, w, g)
            moved = penalty.prox(COORDS, w - g, 1.0) != w
            np.testing.assert_array_equal(violation > 1e-12, penalty.at(COORDS).blocks.spread(
                penalty.at(COORDS).blocks.largest(moved)
            ))  # fmt: skip

    @norms
    @pytest.mark.parametrize("l1", [0.0, 0.5])
    @pytest.mark.parametrize(
        "w", [(0, 0, 0), (2, 1, 0), (2, -2, 1), (1.5, 1.5, 1.5), (0, 0, -1), (3, 0, 0), (-1, 1, 0)], ids=str
    )
    def test_violation_is_the_distance_to_the_subdifferential(self, norm, l1, w):
        """Subgradients l1 a + group b: a_j = sign(w_j) or in [-1, 1]; b of dual norm <= 1 with b'w = ||w||."""
        w, group, l2 = np.array(w, float), 0.9, 0.3
        penalty, random = one_row(group, l1, l2, norm, 3), np.random.default_rng(3)
        for _ in range(5):
            g = 1.5 * random.normal(size=3)
            found = penalty.violation(np.arange(3), w, g)
            assert found == pytest.approx(np.full(3, self.distance(g + l2 * w, w, group, l1, norm)), abs=1e-5)

    @staticmethod
    def distance(slope, w, group, l1, norm):
        if norm == "l2" and w.any():
            rest = slope + group * w / np.linalg.norm(w)
            return np.linalg.norm(
                np.where(w != 0, rest + l1 * np.sign(w), np.sign(rest) * np.maximum(np.abs(rest) - l1, 0))
            )

        if norm == "l2":
            return max(np.linalg.norm(np.maximum(np.abs(slope) - l1, 0)) - group, 0.0)
        # Bounded least squares in a, the parts of b = p - m, and what is left of the dual norm.
        heavy, one = 1e4, np.eye(3)
        system = np.vstack(
            [
                np.hstack([l1 * one, group * one, -group * one, np.zeros((3, 1))]),
                heavy * np.concatenate([np.zeros(3), np.ones(7)]),
                heavy * np.concatenate([np.zeros(3), w, -w, [0]]),
            ]
        )
        goal = np.concatenate([-slope, [heavy, heavy * np.abs(w).max()]])
        low = np.concatenate([np.where(w != 0, np.sign(w) - 1e-9, -1), np.zeros(7)])
        high = np.concatenate([np.where(w != 0, np.sign(w) + 1e-9, 1), np.ones(7)])
        best = optimize.lsq_linear(system, goal, (low, high), method="bvls", tol=1e-14, max_iter=500)
        return np.linalg.norm(system[:3] @ best.x - goal[:3])

    @norms
    @pytest.mark.parametrize("given_strengths", [s for s in STRENGTHS if s[2] > 0], ids=str)
    def test_fenchel_and_young(self, given_strengths, norm):
        l2 = given_strengths[2]
        penalty = small_penalty(given_strengths, norm, np.empty(0, np.int64))
        without = replace(penalty, l2=0.0)
        for g in cases():
            conjugate = penalty.conjugate(COORDS, g)
            for w in cases(seed=4):
                assert penalty.value(COORDS, w) + conjugate >= -(g @ w) - 1e-12
            best = without.prox(COORDS, -g / l2, 1 / l2)
            assert penalty.value(COORDS, best) + conjugate == pytest.approx(-(g @ best), rel=1e-9, abs=1e-9)

    @norms
    @pytest.mark.parametrize("l1", [0.0, 0.4])
    def test_conjugate_without_l2_is_an_indicator_and_scales_are_feasible(self, l1, norm):
        penalty, random = small_penalty((1.3, l1, 0.0), norm), np.random.default_rng(5)
        for scale in (0.01, 1.0, 30.0):
            g = scale * random.normal(size=15)
            g[FREE] = 0.0
            (s,) = penalty.dual_scales(COORDS, g)
            assert penalty.conjugate(COORDS, s * g) == 0.0
            if s < 1:
                assert penalty.conjugate(COORDS, s * (1 + 1e-9) * g) == np.inf
            g[5] = 1e-9
            assert penalty.conjugate(COORDS, s * g) == np.inf
            assert replace(penalty, l2=0.1).dual_scales(COORDS, g)[0] == 1.0 or s == 1.0
        g[5] = 0.1
        assert penalty.dual_scales(COORDS, g) == []
        assert penalty.conjugate(COORDS[:0], np.empty(0)) == 0.0

    @norms
    def test_rows_of_one_weight_are_the_elastic_net(self, norm):
        """Edges, too: a group of one weight pays l1 + group_l1."""
        groups = GroupLasso(0.5, 0.3, 0.2, norm, FREE, n_features=20, n_states=1)
        single, random = ElasticNet(0.8, 0.2, FREE), np.random.default_rng(6)
        for w in cases():
            g = random.normal(size=15)
            assert groups.value(COORDS, w) == pytest.approx(single.value(COORDS, w), rel=1e-14)
            for name, args in {"prox": (w, 0.7), "violation": (w, g)}.items():
                found, expected = (getattr(penalty, name)(COORDS, *args) for penalty in (groups, single))
                np.testing.assert_allclose(found, expected, atol=1e-14)
            g[FREE] = 0.0
            assert groups.conjugate(COORDS, g) == pytest.approx(single.conjugate(COORDS, g), rel=1e-12)
            assert groups.dual_scales(COORDS, g) == pytest.approx(single.dual_scales(COORDS, g), rel=1e-12)

    def test_scaled(self):
        found = small_penalty((1.0, 0.5, 2.0), "linf").scaled(0.25)
        assert (found.group_l1, found.l1, found.l2, found.norm, found.dual_radius) == (
            0.25,
            0.125,
            0.5,
            "linf",
            0.375,
        )
        assert (found.unpenalised.tolist(), found.n_features, found.n_states) == (FREE.tolist(), 4, 3)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"group_l1": -1.0}, "group_l1: expected a finite number >= 0, got -1.0"),
            ({"l1": np.nan}, "l1: expected a finite number >= 0, got nan"),
            ({"norm": "l3"}, "norm: expected one of ['l2', 'linf'], got 'l3'"),
            ({"n_states": 0}, "n_states: expected an integer >= 1, got 0"),
        ],
    )
    def test_bad_settings(self, change, message):
        with pytest.raises(InputError) as caught:
            replace(small_penalty(), **change)
        assert str(caught.value) == message


def test_blocks():
    blocks = Blocks.of_names(np.array([5, 2, 5, 9, 2]))
    assert blocks.order.tolist() == [1, 4, 0, 2, 3]
    assert (blocks.sizes.tolist(), blocks.firsts.tolist()) == ([2, 2, 1], [1, 0, 3])
    values = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    assert (blocks.total(values).tolist(), blocks.largest(values).tolist()) == ([7, 4, 4], [5, 3, 4])
    assert blocks.spread(np.array([10, 20, 30])).tolist() == [20, 10, 20, 30, 10]
    empty = Blocks.of_names(np.empty(0, np.int64))
    assert (empty.n_blocks, empty.total(np.empty(0)).size, empty.spread(np.empty(0)).size) == (0, 0, 0)


WHOLE = [np.arange(12), [0, 3, 4, 7, 8, 11], [2, 6, 10]]
MIXED = [
    [],
    [0, 4],
    [0, 4, 9],
    [1, 2, 3],
    [0, 1, 4, 5, 8, 10],
    [0, 4, 8, 12],
    [0, 4, 8, 12, 13, 14],
]


@pytest.mark.parametrize(
    ("coords", "is_whole"), [*((each, True) for each in WHOLE), *((each, False) for each in MIXED)]
)
def test_whole_rows_are_found_without_sorting(coords, is_whole):
    coords, penalty = np.array(coords, np.int64), GroupLasso(1.0, n_features=4, n_states=3)
    assert penalty.are_whole_rows(coords) == is_whole
    found = penalty.at(coords).blocks
    names = np.where(coords >= 12, 4 + coords, coords % 4)
    expected, values = Blocks.of_names(names), np.random.default_rng(0).normal(size=coords.size)
    for name in ("order", "starts", "sizes", "firsts"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert found.n_blocks == expected.n_blocks
    for name in ("total", "squares") + (("largest",) if coords.size else ()):
        np.testing.assert_allclose(getattr(found, name)(values), getattr(expected, name)(values), rtol=1e-14)
    for place in range(coords.size):
        np.testing.assert_array_equal(found.holders(np.array([place])), expected.holders(np.array([place])))
    numbers = np.arange(found.n_blocks)
    np.testing.assert_array_equal(found.spread(numbers), expected.spread(numbers))


@norms
@pytest.mark.parametrize("l1", [0.0, 0.3])
@pytest.mark.parametrize(
    "coords", [np.arange(12), np.arange(14), np.array([0, 5, 9]), np.empty(0, np.int64)], ids=len
)
def test_the_largest_violation(coords, l1, norm):
    random, penalty = np.random.default_rng(1), GroupLasso(0.8, l1, 0.2, norm, n_features=4, n_states=3)
    for share in (0.0, 0.5, 1.0):
        w, g = random.normal(size=coords.size) * (coords % 4 < 4 * share), random.normal(size=coords.size)
        local = penalty.at(coords)
        largest = local.violation(w, g).max(initial=0.0)
        assert local.largest_violation(w, g) == pytest.approx(largest, rel=1e-12)
        if coords.size and norm == "l2":
            g[0] = np.nan  # must not look solved
            assert np.isnan(local.largest_violation(w, g))


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
        arrays = (*metric.base_arrays, metric.diagonal, metric.q, metric.q_hat)

        def value(d):
            return g @ d + 0.5 * d @ b @ d + 0.5 * damping @ d**2 + local.value(w + d)

        values = [value(d)]
        for _ in range(4):
            made = local.descend(arrays, damping, g, w, 1, 0.0, d, base_d, ALONE)
            assert made == 1
            values.append(value(d))
        assert np.all(np.diff(values) < 1e-6)
        made = local.descend(
            arrays, damping, g, w, 3000, 1e-9 if kind == "diagonal" else 1e-5, d, base_d, ALONE
        )
        assert made < 3000
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
                arrays = (*metric.base_arrays, metric.diagonal, metric.q, metric.q_hat)
                made = local.descend(arrays, np.zeros(n), g, w, 4, 0.0, d, base_d, pool)
            runs.append((made, d.tobytes(), base_d.tobytes()))
        np.testing.assert_allclose(base_d, matrix @ d, atol=1e-3)
        assert np.any(d != 0)
        assert runs[0] == runs[1] == runs[2]
        left = [local.violation(w + d, g + metric.times(d)).max()]
        local.descend(arrays, np.zeros(n), g, w, 100, 0.0, d, base_d, ALONE)
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
CHAIN, REAL = make_problem(4, n_items=12, n_features=12, longest=3), make_problem(3, is_binary=False)
TREE = make_tree_problem("forest", 4, n_features=8, has_weights=True)
FLAT = make_tree_problem("flat", 3, n_items=60, n_features=12)
PROBLEMS = {"chain": CHAIN, "real": REAL, "forest": TREE, "flat": FLAT}
MANY_STATES = TreeProblem(
    np.random.default_rng(8).normal(size=(50, 25)),
    np.full(150, -1, np.int32),
    np.ones(150, bool),
    np.arange(50, dtype=np.int32) * 3,
    np.ones(50),
)
PENALTIES: dict[str, dict[str, Any]] = {
    "rows": {"group_l1": 0.9},
    "sparse rows": {"group_l1": 0.5, "l1": 0.3},
    "with l2": {"group_l1": 0.6, "l2": 0.2},
    "free intercept": {"group_l1": 0.8},
}
AS_IF_LARGE = ProxQN(few_weights=0)
SOLVERS = {
    "default": AS_IF_LARGE,
    "diagonal": ProxQN(metric=Diagonal()),
    "few may enter": ProxQN(entry=MostPromising(3)),
    "paper": ProxQN.paper(),
}


def n_features(problem):
    return problem.matrix.shape[1] if hasattr(problem, "matrix") else problem.x.shape[1]


def penalty_of(name, kind, norm):
    problem = PROBLEMS[name]
    columns, n_states = n_features(problem), problem.n_states
    unpenalised = np.arange(n_states) * columns if kind == "free intercept" else np.empty(0, np.int64)
    penalty = GroupLasso(
        **PENALTIES[kind], norm=norm, unpenalised=unpenalised, n_features=columns, n_states=n_states
    )
    return penalty.scaled(6.0 if name == "flat" else 1.0)


@cache
def optimum(name, kind, norm):
    """The smallest value and its weights, by FISTA with restarts on the enumerated problem."""
    problem, penalty = PROBLEMS[name], penalty_of(name, kind, norm)
    coords, curvature, t = np.arange(problem.n_coords), 1.0, 1.0
    w = v = np.zeros(problem.n_coords)
    value = np.inf
    for _ in range(4000):
        loss, g = problem.evaluate(v)
        while True:
            new = penalty.prox(coords, v - g / curvature, 1 / curvature)
            new_loss, step = problem.evaluate(new)[0], new - v
            if new_loss <= loss + g @ step + 0.5 * curvature * step @ step + 1e-13 * abs(loss):
                break
            curvature *= 1.5
        new_value = new_loss + penalty.value(coords, new)
        if t > 1 and new_value > value:
            t, v, value = 1.0, w, np.inf
            continue
        if np.abs(new - w).max() <= 1e-9 and t > 1:
            break
        before, t = t, 0.5 * (1 + np.sqrt(1 + 4 * t * t))
        v, w, value = new + (before - 1) / t * (new - w), new, new_value
    return problem.evaluate(w)[0] + penalty.value(coords, w), w


def run(name, kind, norm, solver=None, **limits):
    with ends_within():
        return minimize(
            PROBLEMS[name].objective(), penalty_of(name, kind, norm), solver or AS_IF_LARGE,
            **{"tol": 1e-6, "max_iter": 800, **limits},
        )  # fmt: skip


def rows_of(problem, w):
    """(states, features) of the node weights."""
    return w[: problem.n_states * n_features(problem)].reshape(problem.n_states, -1)


class TestProxQN:
    @norms
    @pytest.mark.parametrize("kind", PENALTIES)
    @pytest.mark.parametrize("name", PROBLEMS)
    def test_reaches_the_optimum(self, name, kind, norm):
        reference, expected = optimum(name, kind, norm)
        result = run(name, kind, norm)
        # An unpenalised weight of either sign is bounded loosely: rounding may hide the last of its gradient.
        ends = (Status.CONVERGED, Status.STALLED) if kind == "free intercept" else (Status.CONVERGED,)
        assert result.status in ends
        assert result.value == pytest.approx(reference, rel=1e-6 if kind == "with l2" else 2e-7)
        assert result.n_iter <= 80
        w = dense_weights(PROBLEMS[name], result.coords, result.weights)
        np.testing.assert_array_equal(
            rows_of(PROBLEMS[name], w).any(axis=0), rows_of(PROBLEMS[name], expected).any(axis=0)
        )
        trace = result.trace
        assert np.diff(trace.value).max(initial=0.0) <= 1e-13 * result.value
        # The certificate is true at every step, and closes.
        assert result.gap <= 1e-6
        true_gap = (np.minimum.accumulate(trace.value) - min(reference, result.value)) / trace.value
        is_known = ~np.isnan(trace.gap)
        assert (trace.gap[is_known] >= true_gap[is_known] - 1e-12).all()

    @pytest.mark.parametrize("solver", [name for name in SOLVERS if name != "default"])
    @pytest.mark.parametrize(
        ("name", "kind", "norm"),
        [("chain", "rows", "l2"), ("forest", "sparse rows", "l2"), ("real", "rows", "linf")],
    )
    def test_other_settings(self, name, kind, norm, solver):
        result = run(name, kind, norm, SOLVERS[solver])
        assert result.status is Status.CONVERGED
        assert result.value == pytest.approx(optimum(name, kind, norm)[0], rel=2e-7)

    @norms
    def test_rows_vanish_as_a_whole(self, norm):
        result = run("flat", "rows", norm)
        used = rows_of(FLAT, dense_weights(FLAT, result.coords, result.weights)) != 0
        assert 0 < used.any(axis=0).sum() < n_features(FLAT)
        assert used[:, used.any(axis=0)].mean() > 0.9

    @norms
    @pytest.mark.parametrize("name", ["chain", "forest"])
    def test_at_its_largest_all_weights_are_zero(self, name, norm):
        problem = PROBLEMS[name]
        g = problem.evaluate(np.zeros(problem.n_coords))[1]
        local = penalty_of(name, "rows", norm).at(np.arange(g.size))
        largest = local.dual_norms(g).max()
        for factor, n_least in [(1 + 1e-9, 0), (0.95, 1)]:
            penalty = replace(penalty_of(name, "rows", norm), group_l1=factor * largest)
            result = minimize(problem.objective(), penalty, ProxQN(), tol=1e-6)
            assert result.status is Status.CONVERGED
            assert min(result.n_nonzero, 1) == n_least
            assert (result.n_iter == 0) == (n_least == 0)

    @norms
    def test_bit_identical_for_any_number_of_threads(self, norm):
        results = [
            minimize(
                PROBLEMS["flat"].objective(n_threads=n),
                penalty_of("flat", "sparse rows", norm),
                ProxQN(),
                tol=1e-5,
            )
            for n in (1, 2, 7)
        ]
        for other in results[1:]:
            assert other.weights.tobytes() == results[0].weights.tobytes()
            assert other.trace.value.tobytes() == results[0].trace.value.tobytes()

    def test_whole_rows_enter(self):
        """No more rows than it takes to fill the bound; and the state knows what was left out."""
        first = run("flat", "rows", "l2", ProxQN(entry=MostPromising(5)), max_iter=1).trace.rows[0]
        assert first.n_active == 8  # two rows of 4 states
        whole = run("flat", "rows", "l2", max_iter=1).trace.rows[0]
        assert whole.n_active % 4 == 0
        assert whole.n_active > 8
        assert first.violation == whole.violation

    def test_a_solver_for_single_weights_refuses(self):
        class Separable:
            def requires(self, objective):
                return Requirements(is_separable=True)

        with pytest.raises(
            InputError, match="Separable needs a penalty of single weights; GroupLasso has groups"
        ):
            minimize(FLAT.objective(), penalty_of("flat", "rows", "l2"), Separable())


class TestScreening:
    @norms
    @pytest.mark.parametrize("l1", [0.0, 0.4])
    @pytest.mark.parametrize("name", [*PROBLEMS, "three tiles of states"])
    def test_finds_the_rows_above_the_bound_and_those_with_weights(self, name, norm, l1):
        problem, random = PROBLEMS.get(name, MANY_STATES), np.random.default_rng(9)
        sizes = {"n_features": n_features(problem), "n_states": problem.n_states}
        share = min(0.1, 0.5 / problem.n_states)  # some rows stay zero
        w = np.where(random.random(problem.n_coords) < share, random.normal(size=problem.n_coords), 0.0)
        g, everywhere = problem.evaluate(w)[1], np.arange(problem.n_coords)
        for quantile in (0.2, 0.7):
            penalty = GroupLasso(1.0, l1, 0.0, norm, **sizes)
            dual_norm = penalty.at(everywhere).dual_norm(w, g)
            penalty = replace(
                penalty, group_l1=float(np.quantile(dual_norm[np.isfinite(dual_norm)], quantile)) + 1e-6
            )
            expected = np.flatnonzero(dual_norm > penalty.group_l1)
            for objective in (problem.objective(), BlockedObjective.of_blocks(problem.objective(), 10)):
                found = penalty.screen(point_at(objective, w))
                np.testing.assert_array_equal(found.coords, expected)
                np.testing.assert_allclose(found.gradient, g[expected], atol=1e-9)

    @norms
    @pytest.mark.parametrize("kind", ["rows", "sparse rows", "with l2"])
    def test_no_weights_prove_more_than_the_optimum(self, kind, norm):
        value, best = optimum("chain", kind, norm)
        penalty, random = penalty_of("chain", kind, norm), np.random.default_rng(10)
        objective, bounds = CHAIN.objective(), []
        for scale in (0.0, 0.01, 0.1, 1.0, 5.0):
            point = point_at(objective, best + scale * random.normal(size=best.size))
            bounds.append(best_dual_value(point, penalty, penalty.screen(point)))
        assert np.isfinite(bounds).all()
        assert max(bounds) <= value * (1 + 1e-9)
        assert bounds[0] == pytest.approx(value, rel=1e-5)


class TestEstimators:
    random = np.random.default_rng(11)
    X = random.normal(size=(90, 10))
    Y = np.array(["a", "b", "c"])[np.argmax(X[:, :3] + 0.3 * random.normal(size=(90, 3)), axis=1)]

    @pytest.mark.parametrize("kind", [MulticlassCRF, TaxonomyCRF])
    def test_features_are_used_by_all_classes_or_none(self, kind, tmp_path):
        chosen = {"l1": 0.0} if kind is TaxonomyCRF else {"penalty": "l1/l2"}
        model = kind(group_l1=8.0, fit_intercept=True, **chosen).fit(self.X, self.Y)
        used = model.coef_.toarray() != 0
        assert used[:, :3].all()
        assert not used.all()
        np.testing.assert_array_equal(used.any(axis=0), used.all(axis=0))
        assert model.intercept_.any()
        model.save(tmp_path / "model.crfqn")
        again = load(tmp_path / "model.crfqn")
        assert again.get_params() == model.get_params()
        np.testing.assert_array_equal(again.predict(self.X), model.predict(self.X))

    def test_the_largest_size_makes_equal_sizes(self):
        model = MulticlassCRF(penalty="l1/linf", group_l1=12.0, tol=1e-6).fit(self.X, self.Y)
        sizes = np.abs(model.coef_.toarray()[:, 0])
        assert np.sum(sizes >= sizes.max() * (1 - 1e-9)) >= 2

    @pytest.mark.parametrize("has_support", [False, True])
    def test_chains(self, has_support):
        problem = make_problem(12, n_items=20, n_features=8)
        model = ChainCRF(
            l1=0.0,
            group_l1=4.0,
            all_possible_states=not has_support,
            all_possible_transitions=not has_support,
        ).fit(problem.sequences, problem.labels)
        used = model.coef_.toarray() != 0
        pairs = np.array([problem.matrix[problem.targets == k].any(axis=0) for k in range(problem.n_states)])
        possible = pairs if has_support else np.ones_like(pairs)
        assert possible.all() != has_support
        np.testing.assert_array_equal(used, possible & used.any(axis=0))
        assert 0 < used.any(axis=0).sum() < 8
        assert 0 <= model.result_.gap <= 1e-3

    def test_group_l1_of_0_is_the_elastic_net(self):
        models = [TaxonomyCRF(l1=2.0, group_l1=0.0, group_norm=norm).fit(self.X, self.Y) for norm in NORMS]
        assert models[0].coef_.data.tobytes() == models[1].coef_.data.tobytes()

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"group_l1": -1}, r"^group_l1: expected a finite number >= 0, got -1$"),
            ({"group_l1": "much"}, r"^group_l1: expected 'auto' or a finite number >= 0, got 'much'$"),
            ({"group_norm": "l1"}, r"^group_norm: expected one of \['l2', 'linf'\], got 'l1'$"),
            ({"group_norm": None}, r"^group_norm: expected one of \['l2', 'linf'\], got None$"),
        ],
    )
    def test_bad_parameters(self, settings, message):
        with pytest.raises(InputError, match=message):
            TaxonomyCRF(**settings).fit(self.X, self.Y)

    def test_limits_are_reported_as_ever(self):
        with pytest.warns(ConvergenceWarning):
            MulticlassCRF(penalty="l1/l2", group_l1=0.1, max_iter=1).fit(self.X, self.Y)

"""The group lasso itself: values, proximal maps, certificates, against scipy and by brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from group_problems import COORDS, FREE, N_FEATURES, STRENGTHS, norms, small_penalty, strengths
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from crfqn.errors import InputError
from crfqn.penalties import ElasticNet, GroupLasso
from crfqn.penalties.penalty import Partition

pytestmark = pytest.mark.usefixtures("compiled")


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
        assert (found.group_l1, found.l1, found.l2, found.norm, found.min_threshold) == (
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
    blocks = Partition.from_names(np.array([5, 2, 5, 9, 2]))
    assert blocks.order.tolist() == [1, 4, 0, 2, 3]
    assert blocks.sizes.tolist() == [2, 2, 1]
    values = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    assert (blocks.total(values).tolist(), blocks.largest(values).tolist()) == ([7, 4, 4], [5, 3, 4])
    assert blocks.spread(np.array([10, 20, 30])).tolist() == [20, 10, 20, 30, 10]
    empty = Partition.from_names(np.empty(0, np.int64))
    assert (empty.n_blocks, empty.total(np.empty(0)).size, empty.spread(np.empty(0)).size) == (0, 0, 0)


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

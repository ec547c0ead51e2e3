"""How threads share rows: parts of large ones, colours of small ones, teams; the results are those of one thread."""

from __future__ import annotations

import numpy as np
import pytest
from crfqn.objectives.flat import FlatObjective
from crfqn.objectives.ranking import MultilabelRanking
from test_margin_losses import SINGLE

from crfqn.features import FeatureStore
from crfqn.kernels.row_colours import colour_rows
from crfqn.kernels.row_descent import MOST_HALVED, deal_colour
from crfqn.kernels.row_step import MOST_MEMBERS, PARTS, TWELFTHS, parts_of
from crfqn.kernels.team import NO_RANK, join, new_team
from crfqn.objectives.losses import MulticlassSquaredHinge
from crfqn.objectives.row_blocks import FEWEST_ENTRIES
from crfqn.objectives.row_plan import Balance, RowPlan
from crfqn.penalties import GroupLasso
from crfqn.solvers.minimize import minimize
from crfqn.solvers.row_descent import RowDescent
from crfqn.threads import Pool

K = 4
ONE = Pool(1)


def large(n_states, n_items=900, n_features=100, seed=0, is_binary=False):
    """Enough entries for a team of threads, 40 large rows and 60 small ones."""
    random = np.random.default_rng(seed)
    is_large = np.isin(np.arange(n_features) % 5, (0, 3))
    x = random.normal(size=(n_items, n_features)) * np.where(is_large, 1.0, 4.0)
    x *= random.random(x.shape) < np.where(is_large, 0.7, 0.03)
    labels = random.integers(0, n_states, n_items).astype(np.int32)
    store = FeatureStore.from_matrix((x != 0) if is_binary else x, np.arange(n_items + 1))
    penalty = GroupLasso(30.0, n_features=n_features, n_states=n_states)
    return x, labels, store, penalty


@pytest.mark.parametrize("step", ["line search", "constant", "parallel"])
@pytest.mark.parametrize("name", [*SINGLE, "ranking"])
def test_threads_change_nothing(name, step):
    _, labels, store, penalty = large(K)
    assert store.nnz > FEWEST_ENTRIES
    sets = np.arange(901), labels
    loss = MultilabelRanking(*sets, K) if name == "ranking" else SINGLE[name](labels, K)
    runs = []
    for n_threads in (1, 2, 3):
        objective = FlatObjective(store, loss, n_threads=n_threads)
        result = minimize(objective, penalty, RowDescent(step=step), tol=0.0, max_iter=6)
        n_entries = np.diff(store.indptr)[np.unique(result.coords % store.n_features)]
        assert n_entries.min() <= objective.row_plan.most_alone < n_entries.max()
        runs.append((result.value, result.weights.tobytes(), result.trace.value.tobytes()))
    assert runs[0] == runs[1] == runs[2]


@pytest.mark.parametrize("name", [*SINGLE, "ranking"])
def test_steps_that_are_rejected_are_tried_again_by_all_threads(name):
    """Members that have gone on to the next row's slopes find them anew: a sigma near 1 rejects most first steps."""
    _, labels, store, penalty = large(K)
    loss = MultilabelRanking(np.arange(901), labels, K) if name == "ranking" else SINGLE[name](labels, K)
    found = []
    for n_threads in (1, 2, 4):
        blocks = (
            FlatObjective(store, loss, n_threads=n_threads)
            .at(np.empty(0, np.int64), np.empty(0))
            .row_blocks()
        )
        swept = [blocks.sweep(np.arange(100), penalty, sigma=0.9) for _ in range(2)]
        assert sum(s.n_rejected for s in swept) > 40
        found.append((blocks.table.tobytes(), swept[1].violations.tobytes(), blocks.value(penalty)))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("name", SINGLE)
def test_rows_of_different_numbers_of_parts(name):
    """A member may go on to the next row only where that has the same positions for it."""
    random = np.random.default_rng(3)
    density = np.where(np.arange(24) % 2, 0.3, 0.8)
    x = random.normal(size=(3000, 24)) * (random.random((3000, 24)) < density)
    labels = random.integers(0, K, 3000).astype(np.int32)
    store, penalty = FeatureStore.from_matrix(x, np.arange(3001)), GroupLasso(30.0, n_features=24, n_states=K)
    sizes = np.diff(store.indptr)
    assert sizes.min() < MOST_HALVED < sizes.max()
    found = []
    for n_threads in (1, 2, 3, 4):
        objective = FlatObjective(store, SINGLE[name](labels, K), n_threads=n_threads)
        assert objective.row_plan.most_alone < sizes.min()
        blocks = objective.at(np.empty(0, np.int64), np.empty(0)).row_blocks()
        for _ in range(4):
            blocks.sweep(np.arange(24), penalty)
        found.append((blocks.table.tobytes(), blocks.margins.tobytes(), blocks.value(penalty)))
    assert found[0] == found[1] == found[2] == found[3]


def colours_of(rows, n_positions, most=100):
    """Of rows given as lists of positions."""
    indptr = np.cumsum([0, *(len(row) for row in rows)])
    indices = np.array([position for row in rows for position in row], np.int32)
    colours = np.empty(len(rows), np.int64)
    taken = np.zeros(n_positions, np.uint64)
    colour_rows(np.arange(len(rows)), indptr, indices, most, taken, colours)
    return colours.tolist()


class TestColours:
    def test_the_first_that_is_free(self):
        assert colours_of([[0, 1], [2], [1, 3], [0, 2], [3], [4]], 5) == [0, 0, 1, 1, 0, 0]

    def test_large_rows_have_none(self):
        assert colours_of([[], [0, 1, 2], [0, 1]], 3, most=2) == [0, -1, 0]

    def test_new_colours_after_64(self):
        assert colours_of([[0]] * 130 + [[1]], 2) == [*range(130), 128]

    def test_no_two_of_a_colour_meet(self):
        random = np.random.default_rng(0)
        rows = [np.sort(random.choice(50, random.integers(1, 6), replace=False)) for _ in range(400)]
        colours = np.array(colours_of(rows, 50))
        for colour in np.unique(colours):
            together = np.concatenate([row for row, own in zip(rows, colours, strict=True) if own == colour])
            assert np.unique(together).size == together.size


class TestPlan:
    _, _, store, _ = large(K)
    cuts = np.array([0, 100, 400, 900])

    def test_where_rows_are_cut(self):
        order = np.array([7, 0, 99, 3])
        plan = RowPlan(self.store, self.cuts)
        assert 0 < np.sum(np.diff(self.store.indptr)[order] > plan.most_alone) < 4
        turn, _, bounds = plan.of(order, ONE)
        assert sorted(turn) == [0, 1, 2, 3]
        for feature, found in zip(order[turn], bounds, strict=True):
            begin, end = self.store.indptr[feature : feature + 2]
            if end - begin > plan.most_alone:
                expected = begin + np.searchsorted(self.store.indices[begin:end], self.cuts)
                np.testing.assert_array_equal(found, expected)
            assert (found[0], found[-1]) == (begin, end)

    def test_colours_are_kept_while_a_quarter_of_the_rows_is_asked_for(self):
        plan, everything = RowPlan(self.store, self.cuts), np.arange(100)
        turn, colours, bounds = plan.of(everything, ONE)
        assert np.all(np.diff(colours) >= 0)
        for colour in np.unique(colours):
            assert np.all(np.diff(turn[colours == colour]) > 0)
        some = np.arange(99, 39, -1)
        again = plan.of(some, ONE)
        stays = turn >= 40
        np.testing.assert_array_equal(some[again.turn], turn[stays])
        np.testing.assert_array_equal(again.colours, colours[stays])
        np.testing.assert_array_equal(again.bounds, bounds[stays])
        assert plan.features.size == 100
        plan.of(np.arange(10), ONE)
        assert plan.features.size == 10
        found = plan.of(np.array([3, 50]), ONE)
        np.testing.assert_array_equal(found.bounds[np.argsort(found.turn)], bounds[np.argsort(turn)][[3, 50]])

    def test_a_shuffle_is_of_large_rows(self):
        plan, everything = RowPlan(self.store, self.cuts), np.arange(100)
        before = plan.of(everything, ONE)
        plan.shuffle(np.random.default_rng(0))
        after = plan.of(everything, ONE)
        is_large = before.colours < 0
        assert 2 < is_large.sum() < 100
        np.testing.assert_array_equal(after.colours, before.colours)
        np.testing.assert_array_equal(after.turn[~is_large], before.turn[~is_large])
        assert sorted(after.turn[is_large]) == before.turn[is_large].tolist() != after.turn[is_large].tolist()
        np.testing.assert_array_equal(
            after.bounds[np.argsort(after.turn)], before.bounds[np.argsort(before.turn)]
        )
        some = everything[::2]  # planned anew, in the same order
        found = RowPlan(self.store, self.cuts)
        found.salt = plan.salt
        turn, colours, _ = found.of(some, ONE)
        plan.shuffle(None)
        np.testing.assert_array_equal(plan.of(everything, ONE).turn, before.turn)
        assert some[turn[colours < 0]].tolist() == [
            row for row in after.turn[is_large].tolist() if row % 2 == 0
        ]

    @pytest.mark.parametrize("n_members", [1, 2, 3])
    def test_every_small_row_is_dealt_to_one(self, n_members):
        colours, bounds = (
            np.array([0, 0, 0, 0, 4, 4]),
            np.array([[0, 9], [9, 10], [10, 12], [12, 40], [0, 1], [1, 2]]),
        )
        start, ends = 0, []
        while start < colours.size:
            dealt = []
            for member in range(n_members):
                mine, loads = np.empty(6, np.int64), np.empty(n_members, np.int64)
                stop, n_mine = deal_colour(start, colours, bounds, member, loads, mine)
                dealt += mine[:n_mine].tolist()
            assert sorted(dealt) == list(range(start, stop))
            ends.append(stop)
            start = stop
        assert ends == [4, 6]


class TestShares:
    @pytest.mark.parametrize("n_parts", [2, PARTS])
    @pytest.mark.parametrize(
        ("size", "tilt"),
        [(1, 0), (2, -1), (2, 0), (2, 1), *((size, 0) for size in range(3, MOST_MEMBERS + 1))],
    )
    def test_every_part_is_one_members(self, n_parts, size, tilt):
        ends = np.arange(n_parts + 1)
        shares = [parts_of.py_func(ends, (member, size, tilt)) for member in range(size)]
        assert [part for first, last in shares for part in range(first, last)] == [*range(n_parts)]

    def test_a_tilt_gives_seven_twelfths(self):
        ends = np.array(TWELFTHS)
        for tilt, first in ((-1, 5), (0, 6), (1, 7)):
            assert ends[parts_of.py_func(ends, (0, 2, tilt))[1]] == first

    @pytest.mark.parametrize("name", SINGLE)
    def test_a_tilt_changes_no_result(self, name):
        random = np.random.default_rng(7)
        x = random.normal(size=(3000, 24)) * (
            random.random((3000, 24)) < np.where(np.arange(24) % 2, 0.2, 0.8)
        )
        labels = random.integers(0, K, 3000).astype(np.int32)
        store, penalty = (
            FeatureStore.from_matrix(x, np.arange(3001)),
            GroupLasso(30.0, n_features=24, n_states=K),
        )
        found = set()
        for tilt in (-1, 0, 1):
            objective = FlatObjective(store, SINGLE[name](labels, K), n_threads=2)
            blocks = objective.at(np.empty(0, np.int64), np.empty(0)).row_blocks()
            for _ in range(3):
                objective.row_balance.tilt = tilt
                blocks.sweep(np.arange(24), penalty)
            found.add((blocks.table.tobytes(), blocks.margins.tobytes()))
        assert len(found) == 1

    def test_who_waits_is_given_more(self):
        balance = Balance()
        tilts = []
        waits = [9, 0], [60, 50], [900, 100], [900, 100], [500, 450], [100, 400], [50, 900], [400, 100]
        for looks in waits:
            balance.note(1000 * np.array([*looks, 0, 0]))
            tilts.append(balance.tilt)
        assert tilts == [0, 0, 1, 1, 1, 0, -1, 0]


class TestTeam:
    def test_all_come(self):
        """Unless the machine is so busy that the first ones do not wait for the last: then again."""
        with Pool(3) as pool:
            for _ in range(200):
                team, found = new_team(3), []
                pool.each(3, lambda _, team=team, found=found: found.append(join(team, 3, NO_RANK)))
                size = max(n for _, n in found)
                assert sorted(found) == sorted([(0, 0)] * (3 - size) + [(i, size) for i in range(size)])
                if size == 3:
                    return
        raise AssertionError("never")

    def test_who_does_not_come_is_not_waited_for(self):
        team = new_team(3)
        assert join(team, 3, NO_RANK) == (0, 1)
        assert join(team, 3, NO_RANK) == (0, 0)  # too late

    def test_a_sweep_of_one_who_expected_two(self):
        """What an interrupt leaves: the pool's other thread finishes alone."""
        _, labels, store, penalty = large(K)
        objective = FlatObjective(store, MulticlassSquaredHinge(labels, K), n_threads=1)
        start = objective.at(np.empty(0, np.int64), np.empty(0))
        alone, expecting = start.row_blocks(), start.row_blocks()
        alone.sweep(np.arange(objective.map.store.n_features), penalty)
        objective.pool = Lonely()
        expecting.sweep(np.arange(objective.map.store.n_features), penalty)
        np.testing.assert_array_equal(alone.margins, expecting.margins)
        np.testing.assert_array_equal(alone.table, expecting.table)


class Lonely:
    """A pool of two threads, one of which never comes."""

    n_threads, rank = 2, 0

    def each(self, n_parts, task):
        task(0)

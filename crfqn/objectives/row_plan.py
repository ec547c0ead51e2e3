"""How threads share the rows of a sweep: large ones by their positions, small ones by colours."""

from __future__ import annotations

from math import isqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import InputError
from crfqn.features import FeatureStore
from crfqn.kernels.row_colours import colour_rows
from crfqn.kernels.row_step import cut_rows
from crfqn.kernels.row_visits import ABSENT, IS_TWICE, IS_UNKNOWN, list_visits
from crfqn.kernels.union import union
from crfqn.threads import Pool

Indices = NDArray[np.int64]
LEAST_SHARED = 100  # entries of a row that is worth a meeting
FEWEST_LOOKS = 20_000.0  # some ten microseconds of a sweep: fewer say little
LOPSIDED, TILTED_BACK = 0.75, 0.3  # of all looks, what one has more than the other
FEWEST_KEPT = 0.25  # of the rows that were planned; with fewer of them new classes are larger


class Plan(NamedTuple):
    """Rows in the order of their visits: large ones first, then small ones class by class.

    turn : int64 (rows,), the number that each has among the rows asked for
    colours : int64, of each, ascending, -1 for large ones
    bounds : int64 (rows, parts + 1), the entries of large ones at the cuts, of others where they begin and end
    """

    turn: Indices
    colours: Indices
    bounds: Indices


class RowPlan:
    """Classes of small rows that have no position in common, and the parts of large ones.

    Kept while the rows asked for are among those that were planned, and not few of them: a part of a class is a class.

    Attributes
    ----------
    store : FeatureStore
    cuts : int64 (parts + 1,), the first position of each part
    most_alone : entries of a row that one thread updates: sqrt(N), as most pairs of larger ones have a position in
        common, or as many as a meeting takes the time of
    features : int64, sorted, the rows that were planned last
    colours, bounds : of each of these
    visits : int64, these in the order of visits
    rank, number : int64 (F,) and (rows planned,), the number of each in it, and room: see `list_visits`
    salt : what the order of large rows is drawn from; None for that of the features
    """

    def __init__(self, store: FeatureStore, cuts: Indices) -> None:
        self.store, self.cuts = store, cuts
        self.most_alone = max(isqrt(store.n_positions), LEAST_SHARED)
        self.features = self.colours = self.visits = np.empty(0, np.int64)
        self.rank, self.number = np.full(store.n_features, ABSENT), np.empty(0, np.int64)
        self.bounds = np.empty((0, cuts.size), np.int64)
        self.salt: np.uint64 | None = None

    def of(self, order: Indices, pool: Pool) -> Plan:
        """The visits of some rows, in whatever order they are; threads of a pool plan what is not planned yet.

        Raises
        ------
        InputError
            For a row that is asked for twice.
        """
        n, n_cuts = order.size, self.cuts.size
        plan = Plan(np.empty(n, np.int64), np.empty(n, np.int64), np.empty((n, n_cuts), np.int64))
        is_old = n < FEWEST_KEPT * self.features.size
        found = IS_UNKNOWN if is_old else self._list(order, plan)
        if found == IS_UNKNOWN:
            self._plan(union(order), pool)
            found = self._list(order, plan)
        if found == IS_TWICE:
            raise InputError("order: expected every feature once, got some of them twice")
        return plan

    def _list(self, order: Indices, plan: Plan) -> int:
        return list_visits(order, self.rank, self.number, self.visits, self.colours, self.bounds, *plan)

    def shuffle(self, random: np.random.Generator | None) -> None:
        """Draw a new order of large rows, or return to that of the features."""
        before, self.salt = self.salt, None if random is None else random.integers(2**64, dtype=np.uint64)
        if self.salt != before:
            self._rank()

    def _plan(self, features: Indices, pool: Pool) -> None:
        store, taken = self.store, np.zeros(self.store.n_positions, np.uint64)
        colours = np.empty(features.size, np.int64)
        bounds = np.empty((features.size, self.cuts.size), np.int64)
        rows = (features, store.indptr, store.indices, self.most_alone)
        tasks = (lambda: colour_rows(*rows, taken, colours), lambda: cut_rows(*rows, self.cuts, bounds))
        pool.each(len(tasks), lambda task: tasks[task]())
        self.rank[self.features] = ABSENT
        self.number = np.full(features.size, ABSENT)
        self.features, self.colours, self.bounds = features, colours, bounds
        self._rank()

    def _rank(self) -> None:
        self.rank[self.features] = ABSENT  # until all is done: it may be interrupted
        large, small = np.flatnonzero(self.colours < 0), np.flatnonzero(self.colours >= 0)
        if self.salt is not None:
            large = large[np.argsort(mixed(self.features[large], self.salt))]
        self.visits = np.concatenate([large, small[np.argsort(self.colours[small], kind="stable")]])
        self.rank[self.features[self.visits]] = np.arange(self.visits.size)


def mixed(numbers: Indices, salt: np.uint64) -> NDArray[np.uint64]:
    """Each number's own random bits: SplitMix64 (Steele, Lea and Flood 2014), the salt its state."""
    z = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + salt
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


class Balance:
    """How two threads share positions: cores may differ in speed, by their kind or by what else they do.

    Attributes
    ----------
    tilt : -1, 0 or 1, the parts that the first takes off the second
    """

    def __init__(self) -> None:
        self.tilt = 0

    def note(self, looks: Indices) -> None:
        """Move on by a part if the same of them has done nearly all of the waiting, by their looks at each other.

        Back to the middle a third of a difference is enough: there the other one would wait as long as this one does.
        """
        lead = float(looks[0] - looks[1]) / max(float(looks[0] + looks[1]), FEWEST_LOOKS)
        if abs(lead) > (LOPSIDED if lead * self.tilt >= 0.0 else TILTED_BACK):
            self.tilt = int(np.clip(self.tilt + np.sign(lead), -1, 1))

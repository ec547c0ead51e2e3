"""Objectives over shards of generated items: on workers, and as blocks of one process."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from margin_problems import make_problem, objective_of
from problems import make_likelihood

from crfqn.data.features import FeatureStore
from crfqn.objectives.executors import LocalParts
from crfqn.objectives.objective import Objective
from crfqn.structures.chain import Chain
from crfqn.structures.taxonomy import Taxonomy

PARENTS = np.array([-1, -1, 0, 0, 1, 1, 1], np.int32)
IS_LABEL = np.array([False, False, True, True, True, True, True])
KINDS = ("chain", "taxonomy", "flat")
HINGE = "hinge"  # whose dual takes one multiple for all parts
N_ITEMS = 120
CUTS = (0, 40, 55, 55, N_ITEMS)  # the third shard is empty
MANY_CUTS = (*range(0, 100, 11), N_ITEMS)  # more than numpy adds up one after the other


def connected(**how: Any) -> Any:
    """A cluster on this machine, of workers of a thread each."""
    from distributed import LocalCluster

    return LocalCluster(threads_per_worker=1, dashboard_address=":0", silence_logs=50, **how)


def whole_of(kind: str, n_items: int = N_ITEMS, seed: int = 0) -> Objective:
    """An objective of one of `KINDS`, in one piece."""
    random = np.random.default_rng(seed)
    if kind in ("flat", HINGE):
        return objective_of(make_problem("logistic" if kind == "flat" else "multiclass", n_items=n_items))
    lengths = random.integers(1, 6, n_items) if kind == "chain" else np.ones(n_items, np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    x = random.random((offsets[-1], 12)) * (random.random((offsets[-1], 12)) < 0.4)
    store = FeatureStore.from_matrix(x, offsets)
    if kind == "chain":
        targets = (x[:, :4].argmax(axis=1) + (random.random(offsets[-1]) < 0.2)) % 4
        return make_likelihood(store, Chain(offsets, 4), targets.astype(np.int32), n_threads=1)
    targets = 2 + x[:, :5].argmax(axis=1)
    return make_likelihood(store, Taxonomy(PARENTS, IS_LABEL, n_items), targets.astype(np.int32), n_threads=1)


@dataclass(frozen=True)
class Part:
    """How a worker makes its shard: the items first ... last - 1 of a problem."""

    kind: str
    first: int
    last: int
    n_items: int = N_ITEMS

    def __call__(self) -> Any:
        return whole_of(self.kind, self.n_items).whole.take(np.arange(self.first, self.last))


def parts_of(kind: str, cuts: Any = CUTS) -> list[Part]:
    """The shards of a problem."""
    return [Part(kind, first, last, cuts[-1]) for first, last in pairwise(cuts)]


def blocked(kind: str, cuts: Any = CUTS) -> Objective:
    """The same shards in one process."""
    return Objective(LocalParts([part() for part in parts_of(kind, cuts)]))

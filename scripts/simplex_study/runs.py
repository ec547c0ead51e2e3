"""Runs of Algorithm 1: passes over shuffled items in one order, and what each has led to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np
from benchmarks.items import ItemProblem
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.data.features import FeatureStore
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.losses.multiclass_hinge import MulticlassHinge
from crfqn.objectives.objective import Objective
from crfqn.penalties import ElasticNet
from crfqn.solvers.dual.decomposition import DualDecomposition
from crfqn.solvers.dual.items import DualItems
from crfqn.solvers.minimize import minimize
from crfqn.threads import Pool

METHODS = ("sort", "pivot", "bisection", "smo", "frank-wolfe")
TITLES = {
    "sort": "Sort",
    "pivot": "Pivot",
    "bisection": "Bisection",
    "smo": "SMO",
    "frank-wolfe": "Frank-Wolfe",
}
TAU = 1e-3
NEAR = 1e-6  # certified, of the optimum that curves are drawn against


@dataclass(frozen=True)
class Method:
    """A way to solve sub-problems; `tau` is that of the bisection."""

    name: str
    tau: float = TAU

    @property
    def title(self) -> str:
        """Its name in figures."""
        return TITLES[self.name] + (f" (tau = {self.tau:g})" if self.tau != TAU else "")


@dataclass(frozen=True, eq=False)
class PassCurve:
    """A run, an entry a pass: processor seconds, the dual objective (to be minimised), test accuracy.

    `support`: the share of dual variables that are not zero, at the end.
    """

    method: Method
    seconds: Vector
    objective: Vector
    accuracy: Vector
    support: float


@dataclass(frozen=True, eq=False)
class Items:
    """Training and test items with numbers in the place of labels."""

    problem: ItemProblem
    classes: NDArray[np.str_]

    @classmethod
    def of(cls, problem: ItemProblem) -> Items:
        return cls(problem, np.unique(problem.y_train))

    def objective(self) -> Objective:
        """The hinge over the training items, without an intercept, as in the paper."""
        x = self.problem.X_train
        store = FeatureStore.from_matrix(x, np.arange(x.shape[0] + 1), allow_empty=True)
        labels = np.searchsorted(self.classes, self.problem.y_train).astype(np.int32)
        return Objective(SparseMap(store, Pool(1)), MulticlassHinge(labels, self.classes.size))

    def accuracy(self, weights: Vector) -> float:
        """Of weights (F, K) on the test items."""
        best = np.asarray(self.problem.X_test @ weights).argmax(axis=1)
        return float(np.mean(self.classes[best] == self.problem.y_test))

    def of_classes(self, n_classes: int, n_items: int, seed: int) -> Items:
        """Training items of some classes only, as many whatever the number of classes."""
        chosen = np.random.default_rng(seed).permutation(self.classes)[:n_classes]
        rows = np.flatnonzero(np.isin(self.problem.y_train, chosen))
        rows = np.sort(np.random.default_rng(seed).permutation(rows)[:n_items])
        part = ItemProblem(
            self.problem.X_train[rows],
            self.problem.y_train[rows],
            self.problem.X_test[:1],
            self.problem.y_test[:1],
        )
        return Items.of(part)


def run(items: Items, C: float, method: Method, n_passes: int, seed: int) -> PassCurve:
    """Follow Algorithm 1; the clock stands still while a pass is evaluated."""
    objective = items.objective()
    blocks: Any = objective.state(DualItems, ElasticNet(0.0, 1.0 / C), method.name, method.tau)
    order = np.random.default_rng(seed).permutation(blocks.items)
    seconds, values, accuracies = [], [], []
    for _ in range(n_passes):
        begin = process_time()
        blocks.sweep(order)
        seconds.append(process_time() - begin)
        # A copy: where bisection is loose, the variables are made feasible before they are valued.
        values.append(-C * blocks.copied().certify(order).dual_value)
        accuracies.append(items.accuracy(blocks.point().sparse_weights.table))
    support = np.count_nonzero(blocks.alpha) / blocks.alpha.size
    return PassCurve(method, np.cumsum(seconds), np.array(values), np.array(accuracies), float(support))


def optimum(items: Items, C: float, seed: int) -> float:
    """The dual objective of the paper at its optimum, as the bound that a long run proves."""
    result = minimize(
        items.objective(),
        ElasticNet(0.0, 1.0 / C),
        DualDecomposition(random_state=seed),
        tol=NEAR,
        max_iter=5000,
    )
    return -C * result.value * (1.0 - result.gap)


def compile_kernels(items: Items, methods: Sequence[Method]) -> None:
    """Run every method on a few items, so that no time measured is the compiler's."""
    few = items.of_classes(2, 20, 0)
    for method in methods:
        run(few, 1.0, method, 1, 0)

"""Runs of the four losses under the four penalties, with the paper's stopping rule, and of Algorithms 1 and 2."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from crfqn import MulticlassClassifier
from crfqn.solvers.primal_dual.regularised import FBPD
from fbpd_study.sources import Items

LOSSES = {
    "hinge": "hinge",
    "square": "squared-hinge",
    "logit": "logistic",
    "one-vs-all": "multitask-squared-hinge",
}
CHANGE = 1e-5  # of the weights in a step: the paper's rule
NEAR = 1e-3  # certified: ends a run as well
MOST = 2000  # iterations, of 10 steps each for the hinge


@dataclass(frozen=True)
class Fit:
    """A model: its test errors, weights that are not zero by class, how it was found."""

    method: str
    alpha: float
    errors: int
    n_test: int
    kept: tuple[int, ...]
    n_weights: int
    seconds: float
    status: str
    gap: float

    @property
    def zeros(self) -> float:
        """The share of weights that are zero, %."""
        return 100.0 * (1.0 - sum(self.kept) / self.n_weights)


def fit(items: Items, penalty: str, method: str, alpha: float, change: float = CHANGE) -> Fit:
    """Train at lambda = 1 / alpha: our loss is not scaled, and the penalty's strength is alpha."""
    strength = {"l1": "l1", "l2": "l2"}.get(penalty, "group_l1")
    own: dict[str, Any] = {"solver": FBPD(change=change)} if method == "hinge" else {}
    groups = items.groups if strength == "group_l1" else None
    model = MulticlassClassifier(
        loss=LOSSES[method],
        penalty=penalty,
        feature_groups=groups,
        max_iter=MOST,
        tol=NEAR,
        n_threads=1,
        **{strength: alpha},
        **own,
    )
    return measured(model, items, method, alpha)


def constrained(items: Items, penalty: str, alpha: float, change: float = CHANGE) -> Fit:
    """Train by Algorithm 2 at eta = alpha L."""
    from crfqn.solvers.primal_dual.constrained import ConstrainedFBPD

    model = MulticlassClassifier(
        loss="hinge",
        penalty=penalty,
        feature_groups=items.groups if penalty in ("l1/l2", "l1/linf") else None,
        constraint=alpha * len(items.y_train),
        solver=ConstrainedFBPD(change=change),
        tol=0.0,
        max_iter=MOST,
        n_threads=1,
    )
    return measured(model, items, "Algorithm 2", alpha)


def measured(model: Any, items: Items, method: str, alpha: float) -> Fit:
    """Fit and count."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        begin = process_time()
        model.fit(items.X_train, items.y_train)
    seconds = process_time() - begin
    kept = tuple(int(n) for n in np.diff(model.coef_.indptr))
    errors = int(np.sum(model.predict(items.X_test) != items.y_test))
    found = model.result_
    return Fit(
        method, alpha, errors, len(items.y_test), kept, model.coef_.shape[0] * model.coef_.shape[1], seconds,
        found.status.name.lower(), found.gap,
    )  # fmt: skip


def best(fits: Sequence[Fit]) -> Fit:
    """The fewest errors, and of these the fewest weights."""
    return min(fits, key=lambda each: (each.errors, sum(each.kept)))

"""`partial_fit`: one pass over a batch of items by a method that learns from its mistakes, item by item.

The mean of the weights goes on over all batches, which may be forgotten: a pass over all items in one batch is an epoch
of `fit` with the same solver, bit for bit. The penalty takes no part. Stochastic gradients have no `partial_fit`: their
rate and their share of the penalty depend on how many items there will be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d

from crfqn.arrays import NO_WEIGHTS, SparseWeights, Vector
from crfqn.errors import InputError
from crfqn.estimators.probabilistic import LIKELIHOOD
from crfqn.objectives.linear.feature_map import FeatureMap, centred_weights, given_weights
from crfqn.result import Result, Status, Trace
from crfqn.solvers.stochastic.perceptron import AveragedPerceptron
from crfqn.solvers.stochastic.state import Learned, PerceptronState

ONLINE = ("averaged-perceptron", "passive-aggressive")


@dataclass
class Memory:
    """What the next batch goes on from: the weights of all passes, and where the seeded order of items stands.

    The weights are those of the features less `centre`, (F,), None for the features as they are.
    """

    learned: Learned
    random: np.random.Generator
    centre: Vector | None = None


def is_online(model: Any) -> bool:
    """Return True for solvers that learn item by item, else raise AttributeError, as scikit-learn asks."""
    if getattr(model, "loss", LIKELIHOOD) != LIKELIHOOD:
        raise AttributeError(f"partial_fit needs loss={LIKELIHOOD!r}; it is {model.loss!r}")
    if not (isinstance(model.solver, AveragedPerceptron) or model.solver in ONLINE):
        names = " or ".join(f"solver={name!r}" for name in ONLINE)
        raise AttributeError(f"partial_fit needs {names}, which learn item by item; it is {model.solver!r}")
    return True


def known_classes(model: Any, classes: Any) -> Any:
    """Return the labels of all batches, sorted: `classes` in the first call, and from then on the model's own."""
    if not hasattr(model, "classes_"):
        if classes is None:
            raise InputError("classes: expected all labels in the first call of partial_fit, got None")
        found = np.unique(column_or_1d(classes))
        if not found.size:
            raise InputError("classes: expected at least one label, got none")
        return found
    if classes is not None and not np.array_equal(np.unique(classes), model.classes_):
        raise InputError("classes: expected those of the first call of partial_fit, got others")
    return model.classes_


def learn_batch(
    model: Any, objective: Any, features: FeatureMap, start: SparseWeights | None
) -> SparseWeights:
    """Learn the items of an objective over `features` in one pass, and return the mean of all weights so far.

    start : weights of the objective's coordinates to begin with, where the model has no memory of a pass
    """
    solver, memory = model._make_solver(), getattr(model, "_memory", None)
    begins = NO_WEIGHTS if start is None or memory is not None else centred_weights(features, start)
    online = objective.state(PerceptronState, begins)
    if memory is None:
        random = np.random.default_rng(solver.random_state)
    else:
        random = memory.random
        online.resume(memory.learned)
    online.correct(random.permutation(online.n_items), solver.aggressiveness)
    model._memory = Memory(online.learned(), random, features.centre)
    return given_weights(features, online.point().sparse_weights)


def note_pass(model: Any, violation: float = np.nan) -> None:
    """Set a model's result after one more pass; nothing is known of its objective."""
    model.n_iter_ = getattr(model, "n_iter_", 0) + 1
    coords, values = model._weights()
    unknown, n = float("nan"), model.n_iter_
    model.result_ = Result(coords, values, unknown, unknown, violation, Status.LEARNED, n, n, 0.0, Trace())

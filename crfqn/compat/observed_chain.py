"""Trains `ChainCRF` over the features that CRFsuite generates, with the parameters of sklearn-crfsuite's CRF.

A pair of feature and label has a weight if it occurs often enough in the data, also with the value 0. Some parameters
of CRFsuite have an equivalent, some have no effect, and some raise an error.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from crfqn.arrays import Coords, Labels
from crfqn.data.features import FeatureStore
from crfqn.data.inputs import ItemsLike, LabelsLike
from crfqn.errors import InputError, warn_caller
from crfqn.estimators.automatic import AUTO
from crfqn.estimators.chain import ChainCRF
from crfqn.estimators.chain_data import encode_items
from crfqn.estimators.problem import pose, with_fit_task
from crfqn.estimators.settings import ChainSettings
from crfqn.model.space import SequenceSpace
from crfqn.objectives.support import Support
from crfqn.parameters import check_nonnegative
from crfqn.result import Status
from crfqn.solvers.protocols import Solver
from crfqn.solvers.stochastic import perceptron
from crfqn.structures.chain import Chain
from crfqn.structures.transition_rules import ends_of


class Zeros(NamedTuple):
    """Entries of the training data with the value 0, which sparse matrices do not store: two arrays of int64."""

    positions: NDArray[np.int64]
    columns: NDArray[np.int64]


# Returns the weights that may be other than 0.
SupportOf: TypeAlias = Callable[[ChainSettings, SequenceSpace, FeatureStore, Labels, Chain], Support]
NO_ZEROS = Zeros(np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(frozen=True, eq=False)
class ObservedFeatures:
    """Selects the weights that CRFsuite trains.

    A pair of feature and label has a weight if the sum of the feature's values at the label is `min_freq` or larger,
    and a pair of labels if it occurs `min_freq` times or more. An entry of value 0 counts as an occurrence. With
    `all_possible_states` or `all_possible_transitions`, the other pairs are included too, with a sum of 0.
    """

    min_freq: float = 0.0
    zeros: Zeros = NO_ZEROS

    def __call__(
        self,
        settings: ChainSettings,
        space: SequenceSpace,
        store: FeatureStore,
        targets: Labels,
        chain: Chain,
    ) -> Support:
        """Return the weights that may be other than 0."""
        if targets.ndim > 1:
            raise InputError(
                "expected a label at every position, got unknown ones, which ChainCRF learns from"
            )
        n_features = store.n_features
        nodes = edges = None
        if not settings.all_possible_states or self.min_freq > 0:
            features = np.repeat(np.arange(n_features), np.diff(store.indptr))
            positions = np.concatenate([store.indices, self.zeros.positions])
            columns = np.concatenate([features, self.zeros.columns])
            values = np.ones(store.indices.size) if store.values.size == 0 else store.values
            values = np.concatenate([values, np.zeros(self.zeros.positions.size)])
            nodes = self._frequent(targets[positions].astype(np.int64) * n_features + columns, values)
        if not settings.all_possible_transitions or self.min_freq > 0:
            to = ends_of(store.offsets)[2]
            edges = self._frequent(chain.edge_layout.numbers(targets[to - 1], targets[to]), None)
        return Support(chain.n_states * n_features, chain.edge_layout.size, nodes, edges)

    def _frequent(self, coords: Coords, values: NDArray[np.float64] | None) -> Coords:
        """Return the sorted coordinates whose values (None: 1 each) have a sum of `min_freq` or more."""
        if self.min_freq <= 0 and (values is None or not (values < 0).any()):
            return np.unique(coords)  # three times as fast as with counts
        distinct, entry = np.unique(coords, return_inverse=True)
        return distinct[np.bincount(entry, values, distinct.size) >= self.min_freq]


def fit_observed(
    chain: ChainCRF, X: ItemsLike, y: LabelsLike, features: SupportOf, *, has_limit: bool
) -> ChainCRF:
    """Train a chain over the features that CRFsuite generates; data and errors as of `ChainCRF.fit`.

    has_limit : whether the user set a limit of iterations: there is no warning if it ends the training, as in CRFsuite
    """
    with warnings.catch_warnings():
        if has_limit:
            warnings.filterwarnings("ignore", re.escape(Status.MAX_ITER.value), ConvergenceWarning)
        return _fit(chain, X, y, features)


@with_fit_task
def _fit(chain: ChainCRF, X: ItemsLike, y: LabelsLike, features: SupportOf) -> ChainCRF:
    chain.check_parameters()
    return chain.train(pose(encode_items(X, y, None, chain, features), chain))


LBFGS, L2SGD, AP, PA, AROW = "lbfgs", "l2sgd", "ap", "pa", "arow"
UNLIMITED_STEPS = 2**31 - 1  # steps of CRFsuite without max_iterations: the largest 32-bit integer
# For each algorithm, the parameters with an equivalent in crfqn, with CRFsuite's defaults. lbfgs and l2sgd have the
# objective of CRFsuite, but neither its steps nor its default `delta`, a tolerance far smaller than accuracy needs.
BATCH_DEFAULTS = {"c2": 1.0, "max_iterations": UNLIMITED_STEPS, "delta": AUTO}
ONLINE_DEFAULTS = {"max_iterations": 100}
ALGORITHM_DEFAULTS: dict[str, dict[str, Any]] = {
    LBFGS: {"c1": 0.0, **BATCH_DEFAULTS},
    L2SGD: BATCH_DEFAULTS | {"max_iterations": 1000},
    AP: ONLINE_DEFAULTS,
    PA: {**ONLINE_DEFAULTS, "c": 1.0, "pa_type": 1, "error_sensitive": True, "averaging": True},
    AROW: {**ONLINE_DEFAULTS, "variance": 1.0, "gamma": 1.0},
}
# Parameters of all algorithms. Those without an equivalent for the chosen algorithm have no effect.
ALGORITHM_PARAMETERS = (
    "c1", "c2", "max_iterations", "num_memories", "epsilon", "period", "delta", "linesearch", "max_linesearch",
    "calibration_eta", "calibration_rate", "calibration_samples", "calibration_candidates", "calibration_max_trials",
    "pa_type", "c", "error_sensitive", "averaging", "variance", "gamma", "trainer_cls",
)  # fmt: skip


def make_chain(parameters: dict[str, Any]) -> ChainCRF:
    """Return the unfitted chain for the parameters of a `CRF`, which are None for CRFsuite's defaults; InputError for
    an unknown algorithm and values out of range, a UserWarning for parameters without effect."""
    algorithm = LBFGS if parameters["algorithm"] is None else parameters["algorithm"]
    if not isinstance(algorithm, str) or algorithm not in ALGORITHM_DEFAULTS:
        raise InputError(f"algorithm: expected one of {[*ALGORITHM_DEFAULTS]}, got {algorithm!r}")
    defaults = ALGORITHM_DEFAULTS[algorithm]
    idle = [
        name for name in ALGORITHM_PARAMETERS if parameters.get(name) is not None and name not in defaults
    ]
    if idle:
        warn_caller(f"no effect with algorithm={algorithm!r}: {', '.join(idle)}")
    values = {
        name: value if parameters[name] is None else parameters[name] for name, value in defaults.items()
    }
    check_nonnegative("min_freq", parameters["min_freq"] or 0.0)
    chain = ChainCRF(
        all_possible_states=bool(parameters["all_possible_states"]),
        all_possible_transitions=bool(parameters["all_possible_transitions"]),
        max_iter=values["max_iterations"],
        verbose=int(bool(parameters["verbose"])),
    )
    if algorithm in (LBFGS, L2SGD):
        for name in ("c1", "c2", "delta"):
            if values.get(name, AUTO) != AUTO:
                check_nonnegative(name, values[name])
        # CRFsuite adds c2 |w|^2, a chain l2/2 |w|^2.
        return chain.set_params(l1=values.get("c1", 0.0), l2=2 * values["c2"], tol=values["delta"])
    n_epochs = values["max_iterations"]
    solver: Solver
    if algorithm == AP:
        solver = perceptron.AveragedPerceptron(n_epochs=n_epochs)
    elif algorithm == AROW:
        solver = perceptron.AROW(n_epochs, gamma=values["gamma"], variance=values["variance"])
    else:
        for name, allowed in (("pa_type", (0, 1)), ("error_sensitive", (True,)), ("averaging", (True,))):
            if values[name] not in allowed:
                raise InputError(
                    f"{name}: expected {' or '.join(map(str, allowed))}, which are here, got {values[name]!r}; leave "
                    f"{name} out, or train with python-crfsuite and label by crfqn.Tagger"
                )
        limit = values["c"] if values["pa_type"] else np.finfo(np.float64).max  # type 0 has no largest step
        solver = perceptron.PassiveAggressive(n_epochs=n_epochs, C=limit)
    return chain.set_params(l1=0.0, solver=solver)

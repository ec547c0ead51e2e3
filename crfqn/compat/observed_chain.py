"""Chain over the features that CRFsuite generates, built from the parameters of sklearn-crfsuite's CRF.

Pairs of feature and label that occur often enough in the data, also with the value 0, have a weight. Some parameters
have an equivalent, some have no effect, and some are an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Coords
from crfqn.data.features import FeatureStore
from crfqn.errors import InputError, warn_caller
from crfqn.estimators.automatic import AUTO
from crfqn.estimators.chain import ChainCRF
from crfqn.estimators.chain_data import encode_items
from crfqn.estimators.estimator import train
from crfqn.estimators.problem import pose, with_tasks
from crfqn.estimators.settings import ChainSettings
from crfqn.model.space import SequenceSpace
from crfqn.objectives.support import Support
from crfqn.parameters import check_nonnegative
from crfqn.solvers.stochastic import perceptron
from crfqn.structures.chain import Chain
from crfqn.structures.transition_rules import ends_of


class Zeros(NamedTuple):
    """Entries of the training data with the value 0, which a sparse matrix does not have: two arrays of int64."""

    positions: NDArray[np.int64]
    columns: NDArray[np.int64]


NO_ZEROS = Zeros(np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(frozen=True, eq=False)
class ObservedFeatures:
    """CRFsuite's choice of features.

    A pair of feature and label may have a weight if the feature's values at the label sum up to at least `min_freq`, a
    pair of labels if it occurs so often; an entry of value 0 counts as an occurrence. With `all_possible_states` or
    `all_possible_transitions` the other pairs are included too, with a sum of 0.
    """

    min_freq: float = 0.0
    zeros: Zeros = NO_ZEROS

    def __call__(
        self, settings: ChainSettings, space: SequenceSpace, store: FeatureStore, targets: Any, chain: Chain
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
        """Return the coordinates whose values (None: 1 each) sum up to at least `min_freq`, sorted."""
        if self.min_freq <= 0 and (values is None or not (values < 0).any()):
            return np.unique(coords)  # in a third of the time
        distinct, entry = np.unique(coords, return_inverse=True)
        return distinct[np.bincount(entry, values, distinct.size) >= self.min_freq]


@with_tasks
def fit_observed(chain: ChainCRF, X: Any, y: Any, features: ObservedFeatures) -> ChainCRF:
    """Train a chain over the features that CRFsuite generates; data and errors as of `ChainCRF.fit`."""
    chain.check_parameters()
    fitted: ChainCRF = train(chain, pose(encode_items(X, y, None, chain, features), chain))
    return fitted


LBFGS, L2SGD, AP, PA, AROW = "lbfgs", "l2sgd", "ap", "pa", "arow"
UNLIMITED = 2**31 - 1
# For each algorithm the parameters that have an equivalent, and CRFsuite's defaults. The objectives of lbfgs and l2sgd
# are CRFsuite's; the steps are not, nor is the end at its `delta`, far below the tolerance that accuracy needs.
MINIMISED = {"c2": 1.0, "max_iterations": UNLIMITED, "delta": AUTO}
ONLINE = {"max_iterations": 100}
CARRIED: dict[str, dict[str, Any]] = {
    LBFGS: {"c1": 0.0, **MINIMISED},
    L2SGD: MINIMISED | {"max_iterations": 1000},
    AP: ONLINE,
    PA: {**ONLINE, "c": 1.0, "pa_type": 1, "error_sensitive": True, "averaging": True},
    AROW: {**ONLINE, "variance": 1.0, "gamma": 1.0},
}
# Parameters of the algorithms; those without an equivalent for the chosen one have no effect.
OF_ALGORITHMS = (
    "c1", "c2", "max_iterations", "num_memories", "epsilon", "period", "delta", "linesearch", "max_linesearch",
    "calibration_eta", "calibration_rate", "calibration_samples", "calibration_candidates", "calibration_max_trials",
    "pa_type", "c", "error_sensitive", "averaging", "variance", "gamma", "trainer_cls",
)  # fmt: skip


def make_chain(parameters: dict[str, Any]) -> ChainCRF:
    """Return the unfitted chain of the parameters of a CRF, None for CRFsuite's defaults; InputError for an
    unknown algorithm and values out of range, a UserWarning for parameters without effect."""
    algorithm = LBFGS if parameters["algorithm"] is None else parameters["algorithm"]
    if not isinstance(algorithm, str) or algorithm not in CARRIED:
        raise InputError(f"algorithm: expected one of {[*CARRIED]}, got {algorithm!r}")
    defaults = CARRIED[algorithm]
    idle = [name for name in OF_ALGORITHMS if parameters.get(name) is not None and name not in defaults]
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
    solver: Any
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
        limit = values["c"] if values["pa_type"] else np.finfo(np.float64).max  # type 0 has none
        solver = perceptron.PassiveAggressive(n_epochs=n_epochs, C=limit)
    return chain.set_params(l1=0.0, solver=solver)

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
FEATURE_DEFAULTS = {
    "feature.minfreq": 0.0,
    "feature.possible_states": False,
    "feature.possible_transitions": False,
}
EPOCH_DEFAULTS = {"max_iterations": 100, "epsilon": 0.0}
# CRFsuite's parameters by algorithm, with its defaults and in its order.
CRFSUITE_DEFAULTS: dict[str, dict[str, Any]] = {
    LBFGS: FEATURE_DEFAULTS | {
        "c1": 0.0, "c2": 1.0, "max_iterations": UNLIMITED_STEPS, "num_memories": 6, "epsilon": 1e-5, "period": 10,
        "delta": 1e-5, "linesearch": "MoreThuente", "max_linesearch": 20,
    },
    L2SGD: FEATURE_DEFAULTS | {
        "c2": 1.0, "max_iterations": 1000, "period": 10, "delta": 1e-6, "calibration.eta": 0.1, "calibration.rate": 2.0,
        "calibration.samples": 1000.0, "calibration.candidates": 10, "calibration.max_trials": 20,
    },
    AP: FEATURE_DEFAULTS | EPOCH_DEFAULTS,
    PA: FEATURE_DEFAULTS | {"type": 1, "c": 1.0, "error_sensitive": True, "averaging": True, **EPOCH_DEFAULTS},
    AROW: FEATURE_DEFAULTS | {"variance": 1.0, "gamma": 1.0, **EPOCH_DEFAULTS},
}  # fmt: skip
KEYWORDS = {  # parameters of `CRF` with other names than CRFsuite's
    "feature.minfreq": "min_freq",
    "feature.possible_states": "all_possible_states",
    "feature.possible_transitions": "all_possible_transitions",
    "type": "pa_type",
}
# Parameters with an equivalent in crfqn; others have no effect. lbfgs and l2sgd have the objective of CRFsuite, but
# neither its steps nor its default `delta`, a tolerance far smaller than accuracy needs.
DESCRIPTIONS = {
    "feature.minfreq": "Minimum frequency of features.",
    "feature.possible_states": "Weights also for pairs of an attribute and a label that never occur.",
    "feature.possible_transitions": "Weights also for pairs of labels that never occur.",
    "c1": "Strength of the L1 penalty, c1 |w|_1.",
    "c2": "Strength of the L2 penalty, c2 |w|^2.",
    "max_iterations": "Maximum number of iterations.",
    "delta": "Stop when objective - optimum <= delta * objective, by estimate. Unless it is set, the training stops "
    "when further steps would hardly improve accuracy.",
    "type": "Passive-aggressive steps: 0 without a largest step, 1 with the largest step c.",
    "c": "Largest step of passive-aggressive learning of type 1.",
    "error_sensitive": "The cost counts wrong labels: True only.",
    "averaging": "Average the weights of all steps: True only.",
    "variance": "Initial variance of each weight.",
    "gamma": "Trade-off; a larger value gives smaller steps.",
}


def keyword(name: str) -> str:
    """Return the name of one of CRFsuite's parameters in `CRF`."""
    return KEYWORDS.get(name, name.replace(".", "_"))


def make_chain(parameters: dict[str, Any]) -> ChainCRF:
    """Return the unfitted chain for the parameters of a `CRF`, which are None for CRFsuite's defaults; InputError for
    an unknown algorithm and values out of range, a UserWarning for parameters without effect."""
    algorithm = LBFGS if parameters["algorithm"] is None else parameters["algorithm"]
    if not isinstance(algorithm, str) or algorithm not in CRFSUITE_DEFAULTS:
        raise InputError(f"algorithm: expected one of {', '.join(CRFSUITE_DEFAULTS)}, got {algorithm!r}")
    given = {name: value for name, value in parameters.items() if value is not None}
    defaults = {
        keyword(name): value for name, value in CRFSUITE_DEFAULTS[algorithm].items() if name in DESCRIPTIONS
    }
    values = defaults | ({"delta": AUTO} if "delta" in defaults else {}) | given
    every = dict.fromkeys(keyword(name) for names in CRFSUITE_DEFAULTS.values() for name in names)
    idle = [name for name in (*every, "trainer_cls") if name in given and name not in defaults]
    if idle:
        warn_caller(f"no effect with algorithm={algorithm!r}: {', '.join(idle)}")
    check_nonnegative("min_freq", values["min_freq"])
    chain = ChainCRF(
        all_possible_states=bool(values["all_possible_states"]),
        all_possible_transitions=bool(values["all_possible_transitions"]),
        max_iter=values["max_iterations"],
        verbose=int(bool(parameters["verbose"])),
    )
    if algorithm in (LBFGS, L2SGD):
        for name in ("c1", "c2", "delta"):
            if name in defaults and values[name] != AUTO:
                check_nonnegative(name, values[name])
        # CRFsuite adds c2 |w|^2, a chain l2/2 |w|^2.
        return chain.set_params(
            l1=values["c1"] if algorithm == LBFGS else 0.0, l2=2 * values["c2"], tol=values["delta"]
        )
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

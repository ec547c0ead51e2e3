"""What all estimators share: checked parameters, training by `minimize`, sparse weights, the result.

checks -> FeatureStore -> Structure -> Objective -> minimize. A subclass says how its inputs become positions
and labels, which structure lies over them, how its weights are laid out, and what of it a model file holds.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from crfqn.arrays import SparseWeights
from crfqn.data.features import FeatureStore
from crfqn.errors import InputError
from crfqn.estimators.blas import single_threaded_blas
from crfqn.estimators.storage.content import Content
from crfqn.model_file import ModelFile
from crfqn.objectives.build import build_objective
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.losses.likelihood import Likelihood
from crfqn.objectives.losses.score_loss import ScoreLoss
from crfqn.objectives.support import Support
from crfqn.penalties import NO_COORDS, NORMS, ElasticNet, GroupLasso
from crfqn.progress import ProgressDisplay
from crfqn.result import Result, Status
from crfqn.solvers.coordinate.block_cd import FeatureBCD
from crfqn.solvers.first_order.prox_gd import FISTA, ProxGD
from crfqn.solvers.first_order.sparsa import SpaRSA
from crfqn.solvers.minimize import minimize
from crfqn.solvers.prox_qn import ProxQN
from crfqn.solvers.quasi_newton.lbfgs import LBFGS
from crfqn.solvers.quasi_newton.owl_qn import OWLQN
from crfqn.solvers.stochastic.sgd import SGDL1
from crfqn.structures.structure import Structure
from crfqn.threads import Pool, check_n_threads

LARGEST_VALUE = 1e12
SOLVERS: dict[str, Callable[[], Any]] = {
    "prox-qn": ProxQN,
    "prox-qn-paper": ProxQN.paper,
    "owl-qn": OWLQN,
    "prox-gd": ProxGD,
    "fista": FISTA,
    "spa-rsa": SpaRSA,
    "l-bfgs": LBFGS,
    "sgd": SGDL1,
    "bcd": FeatureBCD,
}
SEEDS = ("random_state", "seed")  # what solvers call theirs


class Decoding(NamedTuple):
    """The best labelling of each item, and log_probability, float64 (I,): the logarithm of its probability, in nats.

    labels: a list of 1-D arrays for sequences, otherwise what `predict` returns.
    """

    labels: Any
    log_probability: NDArray[np.float64]


class SparseCRF(BaseEstimator):
    """Base of the estimators that minimise -log P(y | x) + l1 ||w||_1 + l2/2 ||w||^2 + group_l1 sum_f ||w_f||.

    Or another loss, where a subclass has its own `_loss`.

    A subclass names itself in model files by `KIND`, and in `SETTINGS` the parameters that a file holds as they are.
    """

    l1: float | None
    l2: float | None
    group_l1: float | None
    classes_: NDArray
    n_features_in_: int
    result_: Result

    KIND: ClassVar[str]
    SOLVERS: ClassVar[dict[str, Callable[[], Any]]] = SOLVERS
    SETTINGS: ClassVar[tuple[str, ...]] = (
        "l1", "l2", "group_l1", "group_norm", "tol", "max_iter", "max_seconds", "n_threads", "verbose", "warm_start"
    )  # fmt: skip

    def __init__(
        self,
        l1: float = 1.0,
        l2: float = 0.0,
        tol: float = 1e-3,
        max_iter: int = 500,
        max_seconds: float | None = None,
        solver: Any = "prox-qn",
        n_threads: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        warm_start: bool = False,
        callback: Callable[..., object] | None = None,
        *,
        group_l1: float = 0.0,
        group_norm: str = "l2",
    ) -> None:
        self.l1 = l1
        self.l2 = l2
        self.group_l1 = group_l1
        self.group_norm = group_norm
        self.tol = tol
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.solver = solver
        self.n_threads = n_threads
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start
        self.callback = callback

    def save(self, path: str | PathLike[str], extra: dict[str, Any] | None = None) -> None:
        """Write the model to one file, without pickle; `crfqn.load` reads it. `extra`: JSON values to keep."""
        from crfqn.estimators.storage.persistence import save

        save(self, path, extra)

    @abstractmethod
    def _set_weights(self, weights: SparseWeights) -> None:
        """The fitted attributes that hold the weights."""

    @abstractmethod
    def _weights(self) -> SparseWeights:
        """The weights that the fitted attributes hold, zeros left out."""

    def _settings(self) -> dict[str, Any]:
        """The parameters that a model file holds, as JSON values."""
        return {name: getattr(self, name) for name in self.SETTINGS} | {"solver": str(self.solver)}

    @classmethod
    def _from_settings(cls, settings: dict[str, Any]) -> Self:
        """An estimator with these parameters; the default takes the place of a solver object."""
        known = {name: settings[name] for name in (*cls.SETTINGS, "solver")}
        if known["solver"] not in cls.SOLVERS:
            del known["solver"]
        return cls(**known)

    @abstractmethod
    def _content(self) -> Content:
        """What a model file holds of the fitted model, besides settings and result."""

    @abstractmethod
    def _restore(self, file: ModelFile) -> None:
        """Take the fitted attributes from a model file; ModelFileError or InputError if they do not fit."""

    @property
    def _path_parameter(self) -> str:
        """The strength whose values a path walks unless another is asked for."""
        return "l1"

    def _finish(self, store: FeatureStore, labels: Any, weights: NDArray[np.float64] | None) -> None:
        """What is left to learn from the training data once the model has its weights."""

    def _check_parameters(self) -> None:
        """Refuse parameters out of range, naming the parameter, what is allowed and what came."""
        self._check_strengths()
        check_nonnegative("tol", self.tol)
        if not isinstance(self.max_iter, Integral) or isinstance(self.max_iter, bool) or self.max_iter < 1:
            raise InputError(f"max_iter: expected an integer >= 1, got {self.max_iter!r}")
        if self.max_seconds is not None and not (is_number(self.max_seconds) and self.max_seconds > 0):
            raise InputError(f"max_seconds: expected None or a number > 0, got {self.max_seconds!r}")
        if self.callback is not None and not callable(self.callback):
            raise InputError(f"callback: expected None or a callable, got {self.callback!r}")
        check_n_threads(self.n_threads)
        check_random_state(self.random_state)

    def _check_strengths(self) -> None:
        """Refuse strengths and a norm that make no penalty."""
        for name in ("l1", "l2", "group_l1"):
            check_nonnegative(name, getattr(self, name))
        if not (isinstance(self.group_norm, str) and self.group_norm in NORMS):
            raise InputError(f"group_norm: expected one of {[*NORMS]}, got {self.group_norm!r}")

    def _make_solver(self) -> Any:
        """The solver that the parameter `solver` names, or is."""
        if hasattr(self.solver, "steps"):
            return self.solver
        if not isinstance(self.solver, str) or self.solver not in self.SOLVERS:
            raise InputError(
                f"solver: expected one of {sorted(self.SOLVERS)} or a solver object, got {self.solver!r}"
            )
        return self._seeded(self.SOLVERS[self.solver]())

    def _seeded(self, solver: Any) -> Any:
        """The solver with a seed drawn from `random_state`, if it has one and another is asked for."""
        name = next((name for name in SEEDS if hasattr(solver, name)), None)
        if self.random_state is None or name is None:
            return solver
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        return replace(solver, **{name: seed})

    def _penalty(
        self, n_features: int, n_states: int, unpenalised: NDArray[np.int64]
    ) -> ElasticNet | GroupLasso:
        """The penalty of the parameters, coordinates in `free` without."""
        l1, l2, group_l1 = (float(strength or 0.0) for strength in (self.l1, self.l2, self.group_l1))
        if group_l1 == 0:
            return ElasticNet(l1, l2, unpenalised)
        return GroupLasso(
            group_l1, l1, l2, self.group_norm, unpenalised, n_features=n_features, n_states=n_states
        )

    def _loss(self, structure: Structure, targets: Any) -> ScoreLoss:
        """Return what is minimised besides the penalty: the likelihood of the `targets`, int32 (N,)."""
        return Likelihood(structure, targets)

    def _train(
        self,
        store: FeatureStore,
        structure: Structure,
        targets: Any,
        weights: NDArray[np.float64] | None,
        start: SparseWeights | None,
        unpenalised: NDArray[np.int64] = NO_COORDS,
        support: Support | None = None,
    ) -> Result:
        """Minimise from `start`, the coordinates `free` without penalty, those outside of `support` zero."""
        check_size(store)
        solver = self._make_solver()
        if start is not None and support is not None:
            stays = support.contains(start.coords)
            start = SparseWeights(start.coords[stays], start.values[stays])
        with single_threaded_blas(), Pool(self.n_threads) as pool, self._display() as callback:
            objective = build_objective(
                SparseMap(store, pool), self._loss(structure, targets), weights, support
            )
            return minimize(
                objective,
                self._penalty(store.n_features, structure.n_states, unpenalised),
                solver,
                SparseWeights(NO_COORDS, np.empty(0)) if start is None else start,
                tol=self.tol,
                max_iter=self.max_iter,
                max_seconds=self.max_seconds,
                callback=callback,
                to_rounding=True,
            )

    def _keep(self, result: Result) -> None:
        """The fitted attributes of a training, and a warning unless it has converged."""
        self._set_weights(SparseWeights(result.coords, result.weights))
        coords, values = self._weights()  # intercepts may have been centred
        self.result_ = replace(result, coords=coords, weights=values)
        self.n_iter_ = result.n_iter
        if not result.status.is_success and result.status is not Status.INTERRUPTED:
            distance = (
                f"relative gap {result.gap:.2g}"
                if np.isfinite(result.gap)
                else f"no certified gap, largest violation {result.violation:.2g}"
            )
            warnings.warn(
                f"{result.message} ({distance}, tol {self.tol:g}, {result.n_iter} iterations)",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _display(self) -> _Callbacks:
        return _Callbacks(self.callback, ProgressDisplay() if self.verbose else None)


def pass_on_interrupt(result: Result) -> None:
    """Raise the KeyboardInterrupt that ended a training, once its weights are kept: a search must not go on."""
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt


def check_flags(model: SparseCRF, *names: str) -> None:
    """Refuse parameters that are neither True nor False."""
    for name in names:
        if not isinstance(getattr(model, name), (bool, np.bool_)):
            raise InputError(f"{name}: expected True or False, got {getattr(model, name)!r}")


class _Callbacks:
    """The user's callback and the progress display as one, open while the training runs."""

    def __init__(self, callback: Callable[..., object] | None, display: ProgressDisplay | None) -> None:
        self.callback, self.display = callback, display

    def __call__(self, record: Any) -> bool:
        stops = bool(self.display(record)) if self.display else False
        return (bool(self.callback(record)) if self.callback else False) or stops

    def __enter__(self) -> _Callbacks:
        if self.display:
            self.display.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self.display:
            self.display.__exit__(*error)


def is_number(value: Any) -> bool:
    """Whether it is a real number, and not a boolean."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_nonnegative(name: str, value: Any) -> None:
    """Refuse a parameter that is no finite number from 0 on."""
    if not is_number(value) or not (np.isfinite(value) and value >= 0):
        raise InputError(f"{name}: expected a finite number >= 0, got {value!r}")


def check_size(store: FeatureStore) -> None:
    """Refuse features whose squares, summed up, would leave no digits or overflow."""
    if max(store.values.max(initial=0.0), -store.values.min(initial=0.0)) <= LARGEST_VALUE:
        return
    largest = np.sqrt(store.largest_squares)
    feature = int(np.argmax(largest))
    if largest[feature] > LARGEST_VALUE:
        raise InputError(
            f"expected feature values up to {LARGEST_VALUE:g} in size, but feature {feature} reaches "
            f"{largest[feature]:g}: scale it"
        )

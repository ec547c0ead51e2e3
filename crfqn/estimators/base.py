"""What all CRF estimators share: checked parameters, training by `minimize`, sparse weights, the result.

checks -> FeatureStore -> Structure -> Objective -> minimize. A subclass says how its inputs become positions
and labels, and which structure lies over them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from crfqn.errors import InputError
from crfqn.estimators.blas import single_threaded_blas
from crfqn.features import FeatureStore
from crfqn.objectives.crf import CRFObjective
from crfqn.objectives.scores import add_image
from crfqn.penalties import ElasticNet
from crfqn.progress import ProgressDisplay
from crfqn.result import Result, Status
from crfqn.solvers.minimize import minimize
from crfqn.solvers.prox_qn import ProxQN
from crfqn.structures.structure import Structure
from crfqn.threads import Pool, check_n_threads

LARGEST_VALUE = 1e12
SOLVERS: dict[str, Callable[[], Any]] = {"prox-qn": ProxQN, "prox-qn-paper": ProxQN.paper}


class SparseCRF(BaseEstimator):
    """Base of the estimators that minimise -log P(y | x) + l1 ||w||_1 + l2/2 ||w||^2."""

    l1: float
    l2: float
    tol: float
    max_iter: int
    max_seconds: float | None
    solver: Any
    n_threads: int | None
    random_state: Any
    verbose: int
    warm_start: bool
    callback: Callable[..., object] | None

    def _check_parameters(self) -> None:
        """Refuse parameters out of range, naming the parameter, what is allowed and what came."""
        for name in ("l1", "l2", "tol"):
            strength = getattr(self, name)
            if not is_number(strength) or not (np.isfinite(strength) and strength >= 0):
                raise InputError(f"{name}: expected a finite number >= 0, got {strength!r}")
        if not isinstance(self.max_iter, Integral) or isinstance(self.max_iter, bool) or self.max_iter < 1:
            raise InputError(f"max_iter: expected an integer >= 1, got {self.max_iter!r}")
        if self.max_seconds is not None and not (is_number(self.max_seconds) and self.max_seconds > 0):
            raise InputError(f"max_seconds: expected None or a number > 0, got {self.max_seconds!r}")
        if self.callback is not None and not callable(self.callback):
            raise InputError(f"callback: expected None or a callable, got {self.callback!r}")
        check_n_threads(self.n_threads)
        check_random_state(self.random_state)

    def _make_solver(self) -> Any:
        """The solver that the parameter `solver` names, or is."""
        if hasattr(self.solver, "steps"):
            return self.solver
        if not isinstance(self.solver, str) or self.solver not in SOLVERS:
            raise InputError(
                f"solver: expected one of {sorted(SOLVERS)} or a solver object, got {self.solver!r}"
            )
        return SOLVERS[self.solver]()

    def _train(
        self,
        store: FeatureStore,
        structure: Structure,
        targets: NDArray[np.int32],
        weights: NDArray[np.float64] | None,
        start: tuple[NDArray[np.int64], NDArray[np.float64]] | None,
    ) -> Result:
        """Minimise from `start`."""
        solver = self._make_solver()
        with single_threaded_blas(), Pool(self.n_threads) as pool, self._display() as callback:
            objective = CRFObjective(store, structure, targets, weights, pool=pool)
            return minimize(
                objective,
                ElasticNet(float(self.l1), float(self.l2)),
                solver,
                **({} if start is None else {"start": start}),
                tol=self.tol,
                max_iter=self.max_iter,
                max_seconds=self.max_seconds,
                callback=callback,
            )

    def _keep(self, result: Result) -> None:
        """The fitted attributes of a training, and a warning unless it has converged."""
        self._set_weights(result.coords, result.weights)
        self.result_ = result
        self.n_iter_ = result.n_iter
        if not result.status.is_success and result.status is not Status.INTERRUPTED:
            warnings.warn(
                f"{result.message} (relative gap {result.gap:.2g}, tol {self.tol:g}, {result.n_iter} iterations)",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _display(self) -> _Callbacks:
        return _Callbacks(self.callback, ProgressDisplay() if self.verbose else None)

    def _set_weights(self, coords: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """coef_ and edge_coef_ of sorted coordinates."""
        n_states = len(self.classes_)
        n_nodes = n_states * self.n_features_in_
        end = int(np.searchsorted(coords, n_nodes))
        rows, columns = np.divmod(coords[:end], self.n_features_in_)
        self.coef_ = csr(values[:end], rows, columns, (n_states, self.n_features_in_))
        first, second = np.divmod(coords[end:] - n_nodes, n_states)
        self.edge_coef_ = csr(values[end:], first, second, (n_states, n_states))

    def _weights(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Sorted coordinates of coef_ and edge_coef_, and their values."""
        node, edge = self.coef_.tocoo(), self.edge_coef_.tocoo()
        n_states, n_features = self.coef_.shape
        coords = np.concatenate(
            [
                node.row.astype(np.int64) * n_features + node.col,
                n_states * n_features + edge.row.astype(np.int64) * n_states + edge.col,
            ]
        )
        order = np.argsort(coords)
        return coords[order], np.concatenate([node.data, edge.data])[order]

    def _scores(self, store: FeatureStore, pool: Pool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Node scores (K, N) and edge scores (K, K) of the fitted weights."""
        n_states = len(self.classes_)
        scores, edges = np.zeros((n_states, store.n_positions)), np.zeros(n_states**2)
        add_image(store, *self._weights(), scores, edges, pool)
        return scores, edges.reshape(n_states, n_states)


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


def csr(values: NDArray, rows: NDArray, columns: NDArray, shape: tuple[int, int]) -> Any:
    """A CSR array of the entries."""
    return scipy.sparse.coo_array((values, (rows, columns)), shape=shape).tocsr()


def check_item_weights(sample_weight: Any, n_items: int) -> NDArray[np.float64] | None:
    """Weights as float64 (I,): finite, not negative, not all zero."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, Real):
        sample_weight = np.full(n_items, sample_weight)
    weights = np.asarray(sample_weight)
    if weights.shape != (n_items,) or weights.dtype.kind not in "biuf":
        raise InputError(
            f"sample_weight: expected {n_items} numbers, one an item, "
            f"got shape {weights.shape} and dtype {weights.dtype}"
        )
    weights = weights.astype(np.float64)
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if wrong.size:
        raise InputError(
            f"sample_weight: expected finite numbers >= 0, got {weights[wrong[0]]} for item {wrong[0]}"
        )
    if not weights.any():
        raise InputError("sample_weight: expected at least one positive weight, got only zeros")
    return weights


def check_size(store: FeatureStore) -> None:
    """Refuse features whose squares, summed up, would leave no digits or overflow."""
    largest = np.sqrt(store.largest_squares)
    feature = int(np.argmax(largest))
    if largest[feature] > LARGEST_VALUE:
        raise InputError(
            f"expected feature values up to {LARGEST_VALUE:g} in size, but feature {feature} reaches "
            f"{largest[feature]:g}: scale it"
        )

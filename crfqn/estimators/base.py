"""Base of all estimators: checked parameters, training by `minimize`, sparse weights, the result.

checks -> FeatureMap and ScoreLoss -> Objective -> minimize. A subclass says how its inputs become positions
and labels, which structure lies over them, how its weights are laid out, and what of it a model file holds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import KW_ONLY, dataclass, fields, replace
from os import PathLike
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from crfqn.arrays import NO_COORDS, NO_WEIGHTS, Coords, SparseWeights
from crfqn.data.model_file import ModelFile
from crfqn.errors import InputError, warn_caller
from crfqn.estimators.automatic_solver import AUTO, AutoSolver
from crfqn.estimators.blas import single_threaded_blas
from crfqn.estimators.callbacks import CallbackSupportMixin, Tasks
from crfqn.estimators.checks import check_parameters, check_size
from crfqn.estimators.content import Content
from crfqn.estimators.empty_model import reason_of_empty, warn_of_empty
from crfqn.estimators.saving import save
from crfqn.estimators.strengths import Strengths, chosen_strengths, tell_strengths
from crfqn.estimators.validation import OWN_SCORE, named_scorer
from crfqn.objectives.build import build_objective
from crfqn.objectives.linear.feature_map import FeatureMap, centred_weights, given_weights
from crfqn.objectives.losses.likelihood import Likelihood
from crfqn.objectives.losses.score_loss import ScoreLoss
from crfqn.objectives.support import Support
from crfqn.parameters import PARAMETERS, Parameter
from crfqn.penalties import ElasticNet, GroupLasso
from crfqn.progress import ProgressDisplay
from crfqn.result import Result, Status
from crfqn.solvers.coordinate.feature_bcd import FeatureBCD
from crfqn.solvers.first_order.prox_gd import FISTA, ProxGD
from crfqn.solvers.first_order.sparsa import SpaRSA
from crfqn.solvers.minimize import minimize
from crfqn.solvers.prox_qn import ProxQN
from crfqn.solvers.quasi_newton.lbfgs import LBFGS
from crfqn.solvers.quasi_newton.owl_qn import OWLQN
from crfqn.solvers.stochastic.perceptron import AveragedPerceptron, PassiveAggressive
from crfqn.solvers.stochastic.sgd import SGDL1
from crfqn.solvers.stopping import Estimated
from crfqn.solvers.validation import ValidationSet
from crfqn.structures.structure import Structure
from crfqn.threads import Pool

SOLVERS: dict[str, Callable[[], Any]] = {
    AUTO: AutoSolver,
    "prox-qn": ProxQN,
    "prox-qn-paper": ProxQN.paper,
    "owl-qn": OWLQN,
    "prox-gd": ProxGD,
    "fista": FISTA,
    "spa-rsa": SpaRSA,
    "l-bfgs": LBFGS,
    "sgd": SGDL1,
    "averaged-perceptron": AveragedPerceptron,
    "passive-aggressive": PassiveAggressive,
    "bcd": FeatureBCD,
}
SEEDS = ("random_state", "seed")  # what solvers call theirs


class Decoding(NamedTuple):
    """Best labelling of each item, with its probability.

    Attributes
    ----------
    labels : list of 1-D arrays for sequences, otherwise what `predict` returns
    log_probability : float64 (I,), the logarithm of the labelling's probability, in nats
    """

    labels: Any
    log_probability: NDArray[np.float64]


class Fitted(CallbackSupportMixin, BaseEstimator):
    """Attributes that every estimator has after `fit`, declared for type checkers."""

    classes_: NDArray
    n_features_in_: int
    result_: Result
    n_iter_: int
    l1_: float
    l2_: float
    group_l1_: float


@dataclass(eq=False, repr=False)
class SparseCRF(Fitted):
    """Base class of the estimators: they minimise a loss of scores and a penalty that keeps most weights zero.

    The parameters of an estimator are the fields of its class and of those above it: `__init__` is made of them, with
    l1 and l2 by position and all others by name. A subclass names itself in model files by `KIND`; a file holds the
    parameters as they are, except those in `NOT_SAVED`.
    """

    l1: float | str | None = AUTO
    l2: float | str | None = 0.0
    _: KW_ONLY
    group_l1: float | str | None = 0.0
    tol: float = 1e-3
    stop: str = "estimate"
    max_iter: int = 500
    max_seconds: float | None = None
    solver: Any = AUTO
    n_threads: int | None = None
    random_state: Any = None
    verbose: int = 0
    warm_start: bool = False
    callback: Callable[..., object] | None = None
    scoring: Any = None
    patience: int = 10

    KIND: ClassVar[str]
    SOLVERS: ClassVar[dict[str, Callable[[], Any]]] = SOLVERS
    PARAMETERS: ClassVar[Mapping[str, Parameter]] = PARAMETERS
    NOT_SAVED: ClassVar[tuple[str, ...]] = ("solver", "random_state", "callback", "scoring")

    def save(
        self, path: str | PathLike[str], extra: dict[str, Any] | None = None, dtype: str = "float64"
    ) -> None:
        """Write the fitted model to one file, atomically and without pickle; `crfqn.load` reads it.

        Parameters
        ----------
        path : str or path-like
        extra : dict, optional
            JSON values to keep with the model, `extra_` of the loaded one.
        dtype : {"float64", "float32"}, default "float64"
            Of the weights in the file. float32 takes half of their bytes and changes a score by at most 6e-8 times the
            sum of |weight x value|; the loaded model computes in float64.

        Raises
        ------
        sklearn.exceptions.NotFittedError
        InputError
            For another dtype, and for weights too large for it.
        ModelFileError
            The path cannot be written, or `extra` is no JSON.
        """
        save(self, path, extra, dtype)

    @abstractmethod
    def _set_weights(self, weights: SparseWeights) -> None:
        """Set the fitted attributes that hold the weights."""

    @abstractmethod
    def _weights(self) -> SparseWeights:
        """Return the weights of the fitted attributes, zeros left out."""

    @property
    def _default_scoring(self) -> str:
        """Name of the score of validation items where `scoring` names none."""
        return OWN_SCORE

    def _settings(self) -> dict[str, Any]:
        """Return the parameters that a model file holds, as JSON values."""
        return {name: getattr(self, name) for name in self._saved()} | {"solver": str(self.solver)}

    @classmethod
    def _saved(cls) -> list[str]:
        """Return the names of the parameters that a model file holds as they are."""
        return [field.name for field in fields(cls) if field.init and field.name not in cls.NOT_SAVED]

    @classmethod
    def _from_settings(cls, settings: dict[str, Any]) -> Self:
        """Return an estimator with these parameters; the default takes the place of a solver object."""
        known = {name: settings[name] for name in (*cls._saved(), "solver") if name in settings}
        if known["solver"] not in cls.SOLVERS:
            del known["solver"]
        return cls(**known)

    @abstractmethod
    def _content(self) -> Content:
        """Return what a model file holds of the fitted model, besides settings and result."""

    @abstractmethod
    def _restore(self, file: ModelFile) -> None:
        """Take the fitted attributes from a model file; ModelFileError or InputError if they do not fit."""

    @property
    def _path_parameter(self) -> str:
        """Name of the strength that a regularisation path varies by default."""
        return "l1"

    def _finish(self, features: FeatureMap, labels: Any, weights: NDArray[np.float64] | None) -> None:
        """Learn what needs the weights as well as the training data, such as thresholds; nothing by default."""

    def _check_parameters(self) -> None:
        """Refuse parameters out of range, naming the parameter, what is allowed and what came."""
        check_parameters(self)
        named_scorer(self)
        check_random_state(self.random_state)

    @property
    def _tolerance(self) -> float | Estimated:
        """Relative distance from the optimum that ends a run, `Estimated` where no proof is asked for."""
        return Estimated(self.tol) if self.stop == "estimate" else self.tol

    @property
    @abstractmethod
    def _strengths(self) -> Strengths:
        """Strengths l1, l2 and group_l1 by their names, 0 for those that the penalty does not have, "auto" as given."""

    @property
    def _fitted_strengths(self) -> Strengths:
        """Strengths of the last fit; before any those that the parameters say."""
        given = self._strengths
        return {name: getattr(self, f"{name}_", value) for name, value in given.items()}

    def _adopt_strengths(self, strengths: Strengths) -> None:
        """Set the fitted attributes l1_, l2_ and group_l1_."""
        for name, value in strengths.items():
            setattr(self, f"{name}_", value)

    def _make_solver(self) -> Any:
        """Return the solver that the parameter `solver` names or is; InputError for anything else."""
        if hasattr(self.solver, "steps"):
            return self.solver
        if not isinstance(self.solver, str) or self.solver not in self.SOLVERS:
            raise InputError(
                f"solver: expected one of {sorted(self.SOLVERS)} or a solver object, got {self.solver!r}"
            )
        return self._seeded(self.SOLVERS[self.solver]())

    def _seeded(self, solver: Any) -> Any:
        """Return the solver, with a seed drawn from `random_state` if it takes one and `random_state` is not None."""
        name = next((name for name in SEEDS if hasattr(solver, name)), None)
        if self.random_state is None or name is None:
            return solver
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        return replace(solver, **{name: seed})

    @abstractmethod
    def _penalty(self, n_features: int, n_states: int, unpenalised: Coords) -> ElasticNet | GroupLasso:
        """Return the penalty that the parameters stand for; it leaves out the coordinates `unpenalised`."""

    def _loss(self, structure: Structure, targets: Any) -> ScoreLoss:
        """Return the loss of scores to minimise, by default the negative log-likelihood of `targets`, int32 (N,)."""
        return Likelihood(structure, targets)

    def _objective(
        self,
        features: FeatureMap,
        structure: Structure,
        targets: Any,
        weights: NDArray[np.float64] | None,
        support: Support | None,
    ) -> Any:
        """Return the loss over the features."""
        return build_objective(features, self._loss(structure, targets), weights, support)

    def _train(
        self,
        features: FeatureMap,
        structure: Structure,
        targets: Any,
        weights: NDArray[np.float64] | None,
        start: SparseWeights | None,
        unpenalised: Coords = NO_COORDS,
        support: Support | None = None,
        held_out: ValidationSet | None = None,
    ) -> Result:
        """Minimise from `start`, the coordinates `unpenalised` without penalty, those outside of `support` zero.

        Weights that go in and come out are those of the features as they were given, also where the map centres them.
        """
        check_size(features)
        solver = self._make_solver()
        if start is not None and support is not None:
            stays = support.contains(start.coords)
            start = SparseWeights(start.coords[stays], start.weights[stays])
        if held_out is not None:
            score = held_out.score
            held_out = replace(held_out, score=lambda found: score(given_weights(features, found)))
        with (
            single_threaded_blas(),
            Pool(self.n_threads) as pool,
            self._display(held_out) as callback,
        ):
            features.pool = pool
            objective = self._objective(features, structure, targets, weights, support)
            chosen = self._with_chosen_strengths(objective, unpenalised)
            penalty = chosen._penalty(features.n_features, structure.n_states, unpenalised)
            result = minimize(
                objective,
                penalty,
                solver,
                NO_WEIGHTS if start is None else centred_weights(features, start),
                tol=self._tolerance,
                max_iter=self.max_iter,
                max_seconds=self.max_seconds,
                callback=callback,
                to_rounding=True,
            )
            self._adopt_strengths(chosen._strengths)
            self._reason_of_empty = reason_of_empty(objective, penalty, result)
            return given_result(features, result)

    def _with_chosen_strengths(self, objective: Any, unpenalised: Coords) -> Self:
        """Return a copy whose strengths are numbers, those that are "auto" chosen for this objective."""
        strengths = chosen_strengths(self._strengths, objective, unpenalised)
        if self.verbose and strengths != self._strengths:
            tell_strengths(strengths)
        chosen = copy(self)
        for name, value in strengths.items():
            setattr(chosen, name, value)
        return chosen

    def _keep(self, result: Result, is_convex: bool = True) -> None:
        """Set the fitted attributes from the result of a training, and warn unless it has ended well.

        A loss that is not convex has no better end than a stationary point.
        """
        self.__dict__.pop("_memory", None)  # of passes by `partial_fit`
        self._set_weights(SparseWeights(result.coords, result.weights))
        coords, values = self._weights()  # intercepts may have been centred
        self.result_ = replace(result, coords=coords, weights=values)
        self.n_iter_ = result.n_iter
        ends_well = result.status.is_regular or (result.status is Status.STATIONARY and not is_convex)
        if not ends_well and result.status is not Status.INTERRUPTED:
            distance = (
                f"relative gap {result.gap:.2g}"
                if np.isfinite(result.gap)
                else f"no certified gap, largest violation {result.violation:.2g}"
            ) + ("" if np.isnan(result.estimated_gap) else f", by estimate {result.estimated_gap:.2g}")
            warn_caller(
                f"{result.message} ({distance}, tol {self.tol:g}, {result.n_iter} iterations)",
                ConvergenceWarning,
            )
        warn_of_empty(self.__dict__.pop("_reason_of_empty", None))

    def _display(self, held_out: ValidationSet | None = None) -> _Callbacks:
        display = ProgressDisplay(is_watched=held_out is not None) if self.verbose else None
        return _Callbacks(self.callback, display, held_out, Tasks(self))


def given_result(features: FeatureMap, result: Result) -> Result:
    """Return the result with weights of the features as they were given, before the map centred them."""
    coords, weights = given_weights(features, SparseWeights(result.coords, result.weights))
    return replace(result, coords=coords, weights=weights)


def pass_on_interrupt(result: Result) -> None:
    """Raise the KeyboardInterrupt that ended a training, whose weights are kept: a search over models must stop too."""
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt


class _Callbacks:
    """The user's callback, scikit-learn's and the progress display as one, open while the training runs."""

    def __init__(
        self,
        callback: Callable[..., object] | None,
        display: ProgressDisplay | None,
        held_out: ValidationSet | None,
        tasks: Tasks,
    ) -> None:
        self.callback, self.display, self.held_out, self.tasks = callback, display, held_out, tasks

    def __call__(self, record: Any) -> bool:
        stops = bool(self.display(record)) if self.display else False
        stops = self.tasks.tell(record.iteration) or stops
        return (bool(self.callback(record)) if self.callback else False) or stops

    def __enter__(self) -> _Callbacks:
        if self.display:
            self.display.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self.display:
            self.display.__exit__(*error)

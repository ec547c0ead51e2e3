"""Base of all estimators: checked parameters, training by `minimize`, sparse weights, the result.

checks -> FeatureMap and ScoreLoss -> Objective -> minimize. A subclass says how its inputs become positions
and labels, which structure lies over them, how its weights are laid out, and what of it a model file holds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from crfqn.arrays import NO_COORDS, NO_VALUES, NO_WEIGHTS, Coords, SparseWeights, Vector
from crfqn.blas import single_threaded_blas
from crfqn.choices import STRUCTURED, Form
from crfqn.data.features import FeatureStore
from crfqn.data.hybrid import Features
from crfqn.data.model_file import ModelFile
from crfqn.errors import EmptyModelWarning, InputError, ModelFileError, is_called_from, warn_caller
from crfqn.estimators.automatic import (
    AUTO,
    SOLVERS,
    STRENGTHS,
    SolverTable,
    Strengths,
    check_takes_factors,
    chosen_strengths,
    described,
    is_auto,
    learns_from_mistakes,
    named_penalty,
    named_solver,
)
from crfqn.estimators.blocks import Block, Blocks
from crfqn.estimators.checkpoint import Checkpoint
from crfqn.estimators.storage import save
from crfqn.estimators.training import (
    SEARCHES,
    Callbacks,
    CallbackSupportMixin,
    given_result,
    named_scorer,
    pass_on_interrupt,
    reason_of_empty,
    warn_of_end,
)
from crfqn.messages import tell
from crfqn.model.compiled_engine import CompiledEngine
from crfqn.model.content import DENSE, ModelContent
from crfqn.model.weights import (
    Axes,
    AxisMatch,
    FittedMatrix,
    joined_weights,
    match,
    print_start,
    split_weights,
)
from crfqn.objectives.linear.feature_map import FeatureMap, centred_weights, given_weights
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.losses.score_loss import ScoreLoss
from crfqn.objectives.objective import Objective as ObjectiveInMemory
from crfqn.objectives.sums import build_objective
from crfqn.objectives.support import Support
from crfqn.parameters import (
    NO_FACTS,
    NOTHING,
    PARAMETERS,
    Parameter,
    check_nonnegative,
    check_parameters,
    forget_training,
    keep_parameters,
    refuse_unknown_parameters,
)
from crfqn.penalties import Ridge
from crfqn.penalties.factors import FeatureFactors, factors_by_column
from crfqn.penalties.penalty import Layout, Penalty
from crfqn.result import OPTIMAL, Result
from crfqn.solvers.minimize import minimize
from crfqn.solvers.stopping import Estimated
from crfqn.solvers.validation import ValidationSet
from crfqn.structures.structure import Structure
from crfqn.threads import Pool


@dataclass(eq=False)
class Problem:
    """A fit without its training: what is minimised, from where, and the model that the weights are of.

    model : copy of the estimator with all fitted attributes but its weights and result
    features : of the items that count; targets, item_weights : their labels as the loss takes them, and float64 (I,) or
        None where each counts once; validation : what the run is watched by
    objective, penalty : the two terms; `objective.pool` has one thread unless it is set
    intercepts : the coordinates that are not penalised whatever the factors of features
    reason_of_empty : after the training, why no penalised weight is left; None where some are
    """

    model: Any
    features: FeatureMap
    targets: Any
    item_weights: Vector | None
    objective: Any
    penalty: Any
    start: SparseWeights
    intercepts: Coords = field(default_factory=lambda: NO_COORDS)
    validation: ValidationSet | None = None
    reason_of_empty: str | None = None

    @property
    def has_free_features(self) -> bool:
        """Whether features, not only intercepts, are unpenalised: then no bound on the optimum is proved in general."""
        return bool(self.penalty.unpenalised.size > self.intercepts.size)


OF_ITEMS = "MulticlassClassifier, MultilabelRanker, MulticlassCRF or TaxonomyCRF"
HAS_WEIGHTS = "_result"  # in a pickle: the result, whose weights are the model's


def start_within(support: Support | None, start: SparseWeights | None) -> SparseWeights | None:
    """Return what of a start lies on a support."""
    if start is None or support is None:
        return start
    stays = support.contains(start.coords)
    return SparseWeights(start.coords[stays], start.weights[stays])


@dataclass(eq=False, repr=False)
class SparseLinearModel(CallbackSupportMixin, BaseEstimator):
    """Base class of the estimators: they minimise a loss of scores and a penalty that keeps most weights zero.

    The parameters of an estimator are the fields of its class and of those above it: `__init__` is made of them, with
    l1 and l2 by position and all others by name. A subclass names itself in model files by `KIND`; a file holds the
    parameters as they are, except those in `NOT_SAVED`.
    """

    l1: float | str | None = AUTO
    l2: float | str | None = 0.0
    _: KW_ONLY
    group_l1: float | str | None = 0.0
    penalty_factors: Any = None
    tol: float | str = AUTO
    stop: str = "estimate"
    max_iter: int = 500
    max_seconds: float | None = None
    solver: Any = AUTO
    n_threads: int | None = None
    random_state: Any = None
    verbose: int = 0
    warm_start: bool = False
    callback: Callable[..., object] | None = None
    checkpoint: str | PathLike[str] | None = None
    checkpoint_every: int | str = "30s"
    scoring: Any = None
    patience: int = 10
    dense_l2: float = field(init=False)  # a parameter of the estimators that take `Features`

    # What every estimator has after `fit`.
    coef_ = FittedMatrix("weights")
    classes_: NDArray = field(init=False)
    n_features_in_: int = field(init=False)
    result_: Result = field(init=False)
    n_iter_: int = field(init=False)
    l1_: float = field(init=False)
    l2_: float = field(init=False)
    group_l1_: float = field(init=False)
    dense_coef_: Vector = field(init=False)
    n_dense_ = 0  # D, the features of a dense block
    bigram_columns_: ClassVar[NDArray[np.int64]] = NO_COORDS  # features with weights for pairs of labels

    KIND: ClassVar[str]
    LABELS_SEQUENCES: ClassVar[bool] = False  # an item has a label at each position
    RANKS_LABELS: ClassVar[bool] = False  # an item may have several labels
    SOLVERS: ClassVar[SolverTable] = SOLVERS
    PARAMETERS: ClassVar[Mapping[str, Parameter]] = PARAMETERS
    ENOUGH: ClassVar[float] = 0.01  # the loosest tolerance that costs no accuracy: docs/numerics.md
    RESERVOIR: ClassVar[int] = 10_000  # items that `partial_fit` keeps at most, with solvers that minimise
    BLOCK_NUMBERS: ClassVar[int] = 1 << 23
    """Scores of a block of single items in prediction: 64 MB, and a few arrays like it."""
    NOT_SAVED: ClassVar[tuple[str, ...]] = (
        "solver", "random_state", "verbose", "callback", "checkpoint", "checkpoint_every", "scoring"
    )  # fmt: skip

    training_, featurizer_, _n_weights = (
        NO_FACTS,
        NOTHING,
        0,
    )  # facts of a training or a file that few models have

    save, _keep_parameters = save, keep_parameters

    def __new__(cls, *values: Any, **named: Any) -> Self:
        refuse_unknown_parameters(cls, named)
        return super().__new__(cls)

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes for a pickle, the weights once: `result_` takes them from the others again."""
        state = dict(super().__getstate__())
        result = state.get("result_")
        if isinstance(result, Result) and all(
            map(np.array_equal, self._weights(), (result.coords, result.weights))
        ):
            state[HAS_WEIGHTS] = replace(state.pop("result_"), coords=NO_COORDS, weights=NO_VALUES)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        result = self.__dict__.pop(HAS_WEIGHTS, None)
        if result is not None:
            coords, weights = self._weights()
            self.result_ = replace(result, coords=coords, weights=weights)

    def __copy__(self) -> Self:
        """Return an estimator with the same attributes, as `copy` does without `__getstate__`."""
        model = object.__new__(type(self))
        model.__dict__.update(self.__dict__)
        return model

    @property
    def _is_fitted(self) -> bool:
        """Whether there is a model, of a training or a file."""
        return "model_" in self.__dict__

    @property
    def _fitted(self) -> Any:
        """The fitted model; NotFittedError before a fit."""
        if not self._is_fitted:
            check_is_fitted(self)
        self.model_: Any = self.model_.current
        return self.model_

    @property
    def _engine(self) -> CompiledEngine:
        """What scores items and infers their labels."""
        return CompiledEngine(self.n_threads, self.BLOCK_NUMBERS)

    @abstractmethod
    def prepare(
        self, X: Any, y: Any, sample_weight: Any = None, start: Any = None, *, validation: Any = None
    ) -> Problem:
        """Return the training that `fit` would do, of the same parameters, without doing it."""

    @abstractmethod
    def _set_weights(self, weights: SparseWeights) -> None:
        """Set the fitted attributes that hold the weights."""

    @abstractmethod
    def _axes(self) -> Axes:
        """Return the names of rows and columns of the weights."""

    @abstractmethod
    def _sparse_weights(self, model: Any, common: AxisMatch) -> SparseWeights:
        """Return a model's weights of the labels and features in common, as a training of this one has them."""

    def _weights(self) -> SparseWeights:
        """Return the weights of the fitted attributes, zeros left out."""
        return self._sparse_weights(
            self, AxisMatch(np.arange(self._n_states), np.arange(self.n_features_in_))
        )

    @property
    def _n_columns(self) -> int:
        """Number of columns of the sparse block in training, with a constant if there is one."""
        return self.n_features_in_

    @property
    @abstractmethod
    def _n_states(self) -> int:
        """Number of rows of the weights: classes or nodes."""

    def _take_weights(self, weights: SparseWeights) -> None:
        """Set the fitted attributes that hold weights, those of a dense block included."""
        self.__dict__.pop("dense_coef_", None)
        if self.n_dense_:
            self.dense_coef_, weights = split_weights(weights, self._n_states, self._n_columns, self.n_dense_)
        self._set_weights(weights)

    def _all_weights(self) -> SparseWeights:
        """Return what `_take_weights` takes, zeros left out."""
        weights = self._weights()
        return joined_weights(self.dense_coef_, weights, self._n_columns) if self.n_dense_ else weights

    def _check_no_dense(self, X: Any, what: str) -> None:
        """Raise InputError for a dense block where none is supported."""
        if isinstance(X, Features) or self.n_dense_:
            raise InputError(f"{what}: expected a model and items without a dense block, got crfqn.Features")

    def _start(self, checked: Self, start: Any) -> SparseWeights | None:
        """Return the weights that a training of `checked` starts from: those of `start`, or of this model's last fit
        with `warm_start`, for labels and features in common; None without. InputError for what is no such model."""
        if start is None and not (self.warm_start and self._is_fitted):
            return None
        model = self if start is None else start
        if not isinstance(model, SparseLinearModel) or model.LABELS_SEQUENCES != self.LABELS_SEQUENCES:
            names = "ChainCRF" if self.LABELS_SEQUENCES else OF_ITEMS
            raise InputError(f"start: expected a {names}, got {type(start).__name__}")
        check_is_fitted(model)
        old, new = model._axes(), checked._axes()
        common, weights = match(old, new, start is not None), None
        if common is not None:
            weights = checked._sparse_weights(model, common)
            if checked.n_dense_:
                table, rows = np.zeros((len(new.labels), checked.n_dense_)), common.rows
                if model.n_dense_ == checked.n_dense_:
                    table[rows[rows >= 0]] = model.dense_coef_[rows >= 0]
                weights = joined_weights(table, weights, checked._n_columns)
        if self.verbose:
            print_start(common, new, weights, model._weights().n_nonzero)
        return weights

    def _settings(self) -> dict[str, Any]:
        """Return the parameters that a model file holds, as JSON values."""
        settings = {name: getattr(self, name) for name in self._saved()} | {"solver": str(self.solver)}
        factors = settings.get("penalty_factors")
        if isinstance(factors, Mapping):
            settings["penalty_factors"] = {str(name): float(factor) for name, factor in factors.items()}
        elif factors is not None:
            settings["penalty_factors"] = np.asarray(factors, np.float64).tolist()
        if isinstance(settings.get("class_weight"), Mapping):  # JSON's keys are strings, labels any
            settings["class_weight"] = [list(pair) for pair in settings["class_weight"].items()]
        return settings

    @classmethod
    def _saved(cls) -> list[str]:
        """Return the names of the parameters that a model file holds as they are."""
        return [each.name for each in fields(cls) if each.init and each.name not in cls.NOT_SAVED]

    @classmethod
    def _from_settings(cls, settings: dict[str, Any]) -> Self:
        """Return an estimator with these parameters; the default takes the place of a solver object."""
        known = {name: settings[name] for name in (*cls._saved(), "solver") if name in settings}
        if isinstance(known.get("class_weight"), list):
            known["class_weight"] = dict(known["class_weight"])
        solver = known.pop("solver")
        if solver in cls.SOLVERS:
            known["solver"] = solver
        return cls(**known)

    def _content(self) -> ModelContent:
        """Return what a model file holds of the fitted model, besides settings and result."""
        content = ModelContent(metadata={"n_features": self.n_features_in_, "n_classes": len(self.classes_)})
        strengths = self._fitted_strengths
        if not any(map(is_auto, strengths.values())):  # of another tool's model nobody knows them
            content.metadata["strengths"] = strengths
        if self.n_dense_:
            content.arrays[DENSE] = self.dense_coef_
        return content

    def _restore(self, file: ModelFile) -> None:
        """Take the fitted attributes from a model file; ModelFileError or InputError if they do not fit."""
        if "strengths" in file.metadata:
            strengths = file.table("strengths")
            if strengths.keys() != set(STRENGTHS):
                raise ModelFileError(
                    f"{file.path}: strengths: expected {', '.join(STRENGTHS)}, got {[*strengths]}"
                )
        else:  # a file from before there were automatic strengths, with 1 for those that are not given
            strengths = {
                name: 1.0 if is_auto(value) else value
                for name, value in self._strengths.items()
                if not is_auto(getattr(self, name))
            }
        for name, value in strengths.items():
            check_nonnegative(name, value)
        self._adopt_strengths(strengths)

    @property
    def _path_parameter(self) -> str:
        """Name of the strength that a regularisation path varies by default."""
        penalty = self.__dict__.get("penalty")
        return "l1" if penalty is None else named_penalty(penalty).strengths[0]

    def _finish(self, problem: Problem) -> None:
        """Learn what needs the weights as well as the training data, such as thresholds; nothing by default."""

    def _check_parameters(self) -> None:
        """Refuse parameters out of range, naming the parameter, what is allowed and what came."""
        check_parameters(self)
        _ = self._strengths  # which refuses those that its penalty does not have
        if self.penalty_factors is not None:
            check_takes_factors(self.solver, self.SOLVERS, self._trained_by)
        if (
            self.scoring is not None
        ):  # what it is by default needs no check, and would import scikit-learn's metrics
            named_scorer(self)
        check_random_state(self.random_state)

    @property
    def _tolerance(self) -> float | Estimated:
        """Relative distance from the optimum that ends a run, `Estimated` where no proof is asked for."""
        return Estimated(self.tol_) if self.stop == "estimate" else self.tol_

    @property
    def tol_(self) -> float:
        """Relative distance from the optimum that ends a fit: `tol`, or what "auto" stands for."""
        strengths = self._strengths
        is_chosen = any(not is_auto(value) and value > 0 for value in strengths.values())
        # A looser tolerance may cost accuracy of flat labels and taxonomies where rows are penalised or a strength is a
        # number: a strong penalty keeps the objective near that of no weights, so that a share of it may be most of
        # what there is to gain. A hinge has no estimate, and its proofs are expensive.
        needs_optimum = (
            (is_chosen or is_auto(strengths["group_l1"]))
            and self._loss_form.loss_class.has_curvature
            and not self.LABELS_SEQUENCES
        )
        return self._tol_to(OPTIMAL if self.stop != "estimate" or needs_optimum else self.ENOUGH)

    def _tol_to(self, automatic: float) -> float:
        return automatic if is_auto(self.tol) else float(self.tol)

    @property
    @abstractmethod
    def _strengths(self) -> Strengths:
        """Strengths l1, l2 and group_l1 by their names, 0 for those that the penalty does not have, "auto" as given."""

    @property
    def _fitted_strengths(self) -> Strengths:
        """Strengths of the last fit; before any those that the parameters say."""
        return {name: getattr(self, f"{name}_", value) for name, value in self._strengths.items()}

    def _adopt_strengths(self, strengths: Strengths) -> None:
        """Set the fitted attributes l1_, l2_ and group_l1_."""
        for name, value in strengths.items():
            setattr(self, f"{name}_", float(value))

    def _make_solver(self) -> Any:
        """Return the solver that the parameter `solver` names or is; InputError for anything else."""
        return named_solver(self.solver, self.SOLVERS, self.random_state)

    @abstractmethod
    def _penalty(self, strengths: Strengths, layout: Layout) -> Penalty:
        """Return the penalty with these strengths, all numbers."""

    @property
    def _feature_names(self) -> Sequence[str] | None:
        """The names of the features of a training, None without."""
        names = self.__dict__.get("feature_names_in_")
        return None if names is None else names.tolist()

    def _factors(self, n_features: int, n_states: int, unpenalised: Coords) -> FeatureFactors | None:
        """Return the factors of a training's F features, columns of a dense block and a constant among them."""
        if self.penalty_factors is None:
            return None
        by_column = factors_by_column(self.penalty_factors, self._feature_names, self.n_features_in_)
        n_dense, columns = self.n_dense_, np.ones(n_features)
        columns[n_dense : n_dense + by_column.size] = by_column
        contexts = np.append(np.ones(int(self.LABELS_SEQUENCES)), by_column[self.bigram_columns_])
        has_constant = n_features > n_dense + by_column.size and unpenalised.size == 0
        penalised = np.concatenate([by_column[by_column > 0], contexts[:1], np.ones(int(has_constant))])
        if not penalised.size:
            raise InputError("penalty_factors: expected a factor above 0, got 0 for all features")
        return FeatureFactors(columns, contexts, n_states, float(penalised.min()))

    @property
    def _loss_form(self) -> Form:
        """The loss by its row in the table of losses, by default the negative log-likelihood."""
        return STRUCTURED["logistic"]

    @property
    def _trained_by(self) -> tuple[str, ...]:
        """Names of the solvers that alone can train the loss under the penalty, the default first; none: all can."""
        return ()

    def _loss(self, structure: Structure, targets: Any) -> ScoreLoss:
        """Return the loss of scores to minimise, of `targets`, int32 (N,)."""
        return self._loss_form.loss_class.over(structure, targets)

    def _objective(
        self,
        features: FeatureMap,
        structure: Structure,
        targets: Any,
        item_weights: Vector | None,
        support: Support | None = None,
        offset: Vector | None = None,
    ) -> Any:
        """Return the loss over the features; offset : scores that are there before any weight, (K, N), if any."""
        return build_objective(features, self._loss(structure, targets), item_weights, support, offset)

    def _posed(
        self,
        objective: Any,
        features: FeatureMap,
        targets: Any,
        item_weights: Vector | None,
        start: SparseWeights | None,
        unpenalised: Coords = NO_COORDS,
        validation: ValidationSet | None = None,
    ) -> Problem:
        """Return the training of an objective, and set the strengths that are "auto". This model has its labels and
        columns; `features` are those that its weights are of, `start` and `validation` of the features as given."""
        if validation is not None:
            score = validation.score
            validation = replace(validation, score=lambda weights: score(given_weights(features, weights)))
        dense = features.n_features * np.arange(objective.n_states)[:, None] + np.arange(self.n_dense_)
        dense = dense.reshape(-1)
        strengths = chosen_strengths(self._strengths, objective, unpenalised, dense)
        if self.verbose and strengths != self._strengths and not learns_from_mistakes(self.solver):
            tell(f"strengths: {described(strengths)}")
        self._adopt_strengths(strengths)
        sizes = features.n_features, objective.n_states, unpenalised
        penalty: Any = self._penalty(strengths, Layout(*sizes, factors=self._factors(*sizes)))
        if dense.size:
            penalty = replace(penalty, ridge=Ridge(dense, float(self.dense_l2)))
        begin = NO_WEIGHTS if start is None else centred_weights(features, start)
        objective.pool = Pool(1)  # the one that it was made with closes
        self._n_weights = objective.n_coords
        return Problem(
            self, features, targets, item_weights, objective, penalty, begin, unpenalised, validation
        )

    def _posed_in_blocks(
        self,
        blocks: Blocks,
        structure_over: Callable[[FeatureStore], Structure],
        codes: NDArray[np.int32] | None,
        start: SparseWeights | None,
        unpenalised: Coords = NO_COORDS,
        has_constant: bool = False,
        support: Support | None = None,
    ) -> Problem:
        """Return the training on blocks; codes : of each class the target, the class itself for None; has_constant :
        whether a constant feature comes behind the others."""
        start = start_within(support, start)

        def make(block: Block, pool: Pool) -> ObjectiveInMemory:
            store = block.store.with_constant() if has_constant else block.store
            targets = block.targets if codes is None else codes[block.targets]
            features = SparseMap(store, pool)
            loss = self._loss(structure_over(store), targets)
            return ObjectiveInMemory(features, loss, block.weights, support)

        with single_threaded_blas(), Pool(self.n_threads) as pool:
            objective = blocks.objective(make, pool)
            return self._posed(objective, objective.first.map, None, None, start, unpenalised)

    def _minimize(self, problem: Problem) -> Result:
        """Return the result of the training, with weights of the features as the map has them."""
        solver = self._make_solver()
        checkpoint = None if self.checkpoint is None else Checkpoint(self.checkpoint, self.checkpoint_every)
        if self.verbose and checkpoint is not None and checkpoint.exists:
            tell(f"found {checkpoint.path}")
        with (
            single_threaded_blas(),
            Pool(self.n_threads) as pool,
            Callbacks(self, is_watched=problem.validation is not None) as callback,
        ):
            problem.objective.pool = pool
            result = minimize(
                problem.objective,
                problem.penalty,
                solver,
                problem.start,
                tol=self._tolerance,
                max_iter=self.max_iter,
                max_seconds=self.max_seconds,
                callback=callback,
                to_rounding=True,
                held_out=problem.validation,
                checkpoint=checkpoint,
            )
            problem.reason_of_empty = reason_of_empty(problem.objective, problem.penalty, result)
        return result

    def _solve(self, problem: Problem) -> Self:
        """Train, and set all fitted attributes; KeyboardInterrupt where that ended the training."""
        result = self._minimize(problem)
        self._adopt(problem.model)
        forget_training(self)
        self._keep(given_result(problem.features, result), problem.objective.is_convex)
        if problem.reason_of_empty is not None and not is_called_from(SEARCHES):
            warn_caller(problem.reason_of_empty, EmptyModelWarning)
        self._finish(problem)
        pass_on_interrupt(result)
        return self

    def _adopt(self, model: Self) -> None:
        """Take over all attributes of a copy; only now, so that a fit that fails leaves the last model as it was."""
        for name in vars(self).keys() - vars(model).keys():
            delattr(self, name)
        self.__dict__.update(vars(model))

    def _keep(self, result: Result, is_convex: bool = True) -> None:
        """Set the fitted attributes from the result of a training, and warn unless it has ended well: without convexity
        there is no better end than a stationary point."""
        for name in ("_memory", "_reservoir"):  # of `partial_fit`
            self.__dict__.pop(name, None)
        self._take_weights(SparseWeights(result.coords, result.weights))
        coords, values = self._all_weights()  # intercepts may have been centred
        self.result_ = replace(result, coords=coords, weights=values)
        self.n_iter_ = result.n_iter
        self._keep_parameters()
        warn_of_end(result, self.tol_, is_convex)

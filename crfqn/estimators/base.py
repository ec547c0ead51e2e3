"""Base of the estimators of single items, which keep what they learn as attributes.

A subclass says how its inputs become positions and labels, which structure lies over them, how its weights are laid
out, and what of it a model file holds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from crfqn.arrays import NO_COORDS, NO_VALUES, Coords, SparseWeights, Vector
from crfqn.blas import single_threaded_blas
from crfqn.data.features import FeatureStore
from crfqn.data.hybrid import Features
from crfqn.data.model_file import ModelFile
from crfqn.errors import EmptyModelWarning, InputError, ModelFileError, is_called_from, warn_caller
from crfqn.estimators.automatic import STRENGTHS, Strengths, is_auto
from crfqn.estimators.blocks import Block, Blocks
from crfqn.estimators.estimator import Estimator
from crfqn.estimators.problem import Problem, pose, run
from crfqn.estimators.storage import opened
from crfqn.estimators.training import SEARCHES, Callbacks, given_result, pass_on_interrupt, warn_of_end
from crfqn.model.content import DENSE, ModelContent
from crfqn.model.weights import (
    Axes,
    AxisMatch,
    FittedMatrix,
    Same,
    joined_weights,
    match,
    print_start,
    split_weights,
)
from crfqn.objectives.linear.feature_map import FeatureMap
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.losses.score_loss import ScoreLoss
from crfqn.objectives.objective import Objective as ObjectiveInMemory
from crfqn.objectives.sums import build_objective
from crfqn.objectives.support import Support
from crfqn.parameters import NO_FACTS, NOTHING, check_nonnegative, forget_training, keep_parameters
from crfqn.result import Result
from crfqn.solvers.validation import ValidationSet
from crfqn.structures.structure import Structure
from crfqn.threads import Pool


@dataclass(eq=False)
class Posed(Problem):
    """The problem of a family whose estimators pose it themselves.

    model : copy of the estimator with all fitted attributes but its weights and result, which is the `space`, too
    targets, item_weights : labels as the loss takes them, and float64 (I,) or None where each item counts once
    """

    model: Any = None
    targets: Any = None
    item_weights: Vector | None = None


OF_ITEMS = "MulticlassClassifier, MultilabelRanker, MulticlassCRF or TaxonomyCRF"
HAS_WEIGHTS = "_result"  # in a pickle: the result, whose weights are the model's


@dataclass(eq=False, repr=False)
class SparseLinearModel(Estimator):
    """Base class of the estimators of single items: they minimise a loss of scores and a penalty that keeps most
    weights zero, and have what they learn as attributes of their own."""

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
    bigram_columns_: ClassVar[NDArray[np.int64]] = (
        NO_COORDS  # public, though single items have no pairs of labels
    )

    training_, featurizer_, _n_weights = (
        NO_FACTS,
        NOTHING,
        0,
    )  # facts of a training or a file that few models have

    _keep_parameters = keep_parameters

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

    @abstractmethod
    def prepare(
        self, X: Any, y: Any = None, sample_weight: Any = None, start: Any = None, *, validation: Any = None
    ) -> Posed:
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
        return self._sparse_weights(self, AxisMatch(np.arange(self._n_states), Same()))

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
        with `warm_start`, for labels and features in common; None without. `start` may be the name of a model file.
        InputError for what is no such model."""
        if start is None and not (self.warm_start and self._is_fitted):
            return None
        model = self if start is None else opened(start)
        if not isinstance(model, SparseLinearModel):
            raise InputError(f"start: expected a {OF_ITEMS}, got {type(model).__name__}")
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

    def _finish(self, problem: Posed) -> None:
        """Learn what needs the weights as well as the training data, such as thresholds; nothing by default."""

    @property
    def _fitted_strengths(self) -> Strengths:
        """Strengths of the last fit; before any those that the parameters say."""
        return {name: getattr(self, f"{name}_", value) for name, value in self._strengths.items()}

    def _adopt_strengths(self, strengths: Strengths) -> None:
        """Set the fitted attributes l1_, l2_ and group_l1_."""
        for name, value in strengths.items():
            setattr(self, f"{name}_", float(value))

    @property
    def _feature_names(self) -> Sequence[str] | None:
        """The names of the features of a training, None without."""
        names = self.__dict__.get("feature_names_in_")
        return None if names is None else names.tolist()

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
    ) -> Posed:
        """Return the training of an objective, and set the strengths that are "auto". This model has its labels and
        columns; `features` are those that its weights are of, `start` and `validation` of the features as given."""
        space = SimpleNamespace(
            has_transitions=False,
            unpenalised=unpenalised,
            n_dense=self.n_dense_,
            n_features=self.n_features_in_,
            feature_names=self._feature_names,
            bigram_columns=NO_COORDS,
        )
        encoded = SimpleNamespace(space=space, support=None, objective=lambda pool: objective)
        posed = pose(encoded, self, start, validation)
        self._adopt_strengths(posed.strengths)
        self._n_weights = objective.n_coords
        values = vars(posed) | {"space": self, "features": features}
        return Posed(**values, model=self, targets=targets, item_weights=item_weights)

    def _posed_in_blocks(
        self,
        blocks: Blocks,
        structure_over: Callable[[FeatureStore], Structure],
        codes: NDArray[np.int32] | None,
        start: SparseWeights | None,
        unpenalised: Coords = NO_COORDS,
        has_constant: bool = False,
    ) -> Posed:
        """Return the training on blocks; codes : of each class the target, the class itself for None; has_constant :
        whether a constant feature comes behind the others."""

        def make(block: Block, pool: Pool) -> ObjectiveInMemory:
            store = block.store.with_constant() if has_constant else block.store
            targets = block.targets if codes is None else codes[block.targets]
            features = SparseMap(store, pool)
            loss = self._loss(structure_over(store), targets)
            return ObjectiveInMemory(features, loss, block.weights)

        with single_threaded_blas(), Pool(self.n_threads) as pool:
            objective = blocks.objective(make, pool)
            return self._posed(objective, objective.first.map, None, None, start, unpenalised)

    def _solve(self, problem: Posed) -> Self:
        """Train, and set all fitted attributes; KeyboardInterrupt where that ended the training."""
        result, reason_of_empty = run(problem, self, Callbacks(self, problem.validation is not None))
        self._adopt(problem.model)
        forget_training(self)
        self._keep(given_result(problem.features, result), problem.objective.is_convex)
        if reason_of_empty is not None and not is_called_from(SEARCHES):
            warn_caller(reason_of_empty, EmptyModelWarning)
        self._finish(problem)
        pass_on_interrupt(result)
        return self

    def _trained(self, problem: Posed, result: Result, strengths: Strengths) -> Self:
        """Return an estimator with the result of a training under these strengths, of a path."""
        model = self._holding(None)
        model._adopt(problem.model)
        for name, value in strengths.items():
            setattr(model, name, value)
        model._adopt_strengths(strengths)
        model._keep(given_result(problem.features, result))
        model._finish(problem)
        return model

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

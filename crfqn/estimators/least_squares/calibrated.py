"""CalibratedLeastSquares: least squares whose link is learnt along with the weights."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from crfqn.errors import InputError, ModelFileError
from crfqn.estimators.least_squares.basis import CUBIC, Basis, check_basis, is_powers
from crfqn.estimators.least_squares.staged.calibration import Calibration
from crfqn.estimators.least_squares.staged.model import StagedModel
from crfqn.estimators.least_squares.staged.stage_list import add_tables, read_tables
from crfqn.estimators.storage.content import Content
from crfqn.model_file import ModelFile


@dataclass(eq=False, repr=False, kw_only=True)
class CalibratedLeastSquares(StagedModel[Calibration]):
    """Least squares with a link that is learnt: residual fits and calibrations in turns (Algorithm 2).

    A stage fits weights to what the predictions so far have left over, refits the labels to functions of the
    predictions, and projects onto the simplex (with several labels an item, the hypercube). Each can only lower the
    squared error on the training items, all stages use one factorisation of the features' second moments.

    Parameters
    ----------
    l2 : float >= 0, default 1.0
        Ridge of the residual fits: 1/2 sum_i c_i ||y_i - predictions - W x_i||^2 + l2/2 ||W||^2.
    basis : sequence of int, or scikit-learn transformer, default (1, 2, 3)
        The functions: powers of every prediction, 1 among them; or the predictions, and what a transformer makes of
        them (items x labels).
    max_iter : int, default 100
        Stages at most.
    tol : float, default 1e-3
        The training ends with a stage that lowers the squared error by this share of it, or less.
    early_stopping : bool, default False
        Keep the stages up to the best score on held-out items, and stop `n_iter_no_change` stages after it.
    validation_fraction : float, default 0.1
        Of the items, held out for `early_stopping` unless `fit` is given some.
    n_iter_no_change : int, default 5
    fit_intercept : bool, default True
    penalize_intercept : bool, default False
    class_weight : None, "balanced" or dict of label -> weight, optional
        A factor to `sample_weight`: the mean over the item's labels.
    warm_start : bool, default False
        Go on from the stages of the last fit, if labels and columns are the same.
    random_state : int, RandomState or None
        Draws the held-out items.
    max_seconds, n_threads, verbose, callback
        As in `ChainCRF`; a stage counts as an iteration.

    Attributes
    ----------
    classes_ : ndarray, shape (n_labels,), sorted; of a table of 0 and 1 the numbers of its columns
    stages_ : the weights of each stage, `residual_tables` (labels x features, intercepts last) and
        `calibration_tables` (labels x functions)
    validation_score_ : ndarray, shape (stages tried + 1,): the score before any stage and after each, where items
        were held out
    n_iter_ : int, the stages
    n_features_in_, feature_names_in_, result_, extra_
        As in `MulticlassCRF`; there is no certificate, as the problem is not convex.

    Examples
    --------
    >>> from crfqn import CalibratedLeastSquares
    >>> X = [[2.0, 0.1], [1.0, 0.3], [0.2, 2.0], [0.1, 1.0]]
    >>> model = CalibratedLeastSquares(l2=0.1).fit(X, ["a", "a", "b", "b"])
    >>> model.predict([[1.5, 0.2], [0.0, 1.5]]).tolist()
    ['a', 'b']

    References
    ----------
    Agarwal, Kakade, Karampatziakis, Song, Valiant: Least squares revisited: scalable approaches for multi-class
    prediction. ICML 2014, Algorithm 2.
    """

    KIND = "calibrated-least-squares"
    NOT_SAVED: ClassVar[tuple[str, ...]] = (*StagedModel.NOT_SAVED, "basis")

    basis: Any = CUBIC
    max_iter: int = 100

    def _new_stages(self, blocks: Iterable[Any], is_exclusive: bool) -> Calibration:
        l2 = self._strengths["l2"]
        return Calibration(l2, self.fit_intercept, self.penalize_intercept, Basis(self.basis), is_exclusive)

    @property
    def _stopping_tolerance(self) -> float:
        return self.tol

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_basis(self.basis)

    def _settings(self) -> dict[str, Any]:
        return super()._settings() | {"basis": stored_basis(self.basis)}

    @classmethod
    def _from_settings(cls, settings: dict[str, Any]) -> Self:
        return super()._from_settings(settings).set_params(basis=restored_basis(settings["basis"]))

    def _add_weights(self, content: Content) -> None:
        add_tables(content, "residual", self.stages_.residual_tables)
        add_tables(content, "calibration", self.stages_.calibration_tables)

    def _read_weights(self, file: ModelFile, n_nodes: int, n_features: int) -> None:
        stages = self._new_stages((), self._is_exclusive)
        stages.residual_tables = read_tables(file, "residual", n_nodes)
        stages.calibration_tables = read_tables(file, "calibration", n_nodes)
        widths = {table.shape[1] for table in stages.residual_tables}
        functions = {table.shape[1] for table in stages.calibration_tables}
        expected = {n_features + bool(self.fit_intercept)}, {n_nodes * len(self.basis)}
        is_whole = len(stages.residual_tables) == len(stages.calibration_tables)
        if not (is_whole and widths <= expected[0] and functions <= expected[1]):
            raise ModelFileError(
                f"{file.path}: the weights of the stages do not fit the features or the basis"
            )
        self.stages_ = stages


def stored_basis(basis: Any) -> list[int]:
    """Return a basis as JSON; InputError for a transformer, whose code and state a model file has no place for."""
    if not is_powers(basis):
        raise InputError(f"basis: a model file holds powers, and no transformers; got {basis!r}")
    return [int(power) for power in basis]


def restored_basis(basis: Any) -> tuple[int, ...]:
    """Return what `stored_basis` stored; InputError for anything else."""
    check_basis(basis)
    return tuple(basis)

"""Calibrated least squares: Agarwal et al. (2014), Algorithm 2, whose link is learnt along with the weights.

    y~ = y^ + W_t x          W_t fits the residual y - y^ (equation 10)
    y^ = clip(B_t G(y~))     B_t fits y to functions of the predictions (equation 11)

None of the three steps increases the squared error. Shapes: K labels, I items, F features, m functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy.linalg import lstsq

from crfqn.arrays import Vector
from crfqn.data.inputs import ItemTable
from crfqn.data.model_file import ModelFile
from crfqn.errors import ModelFileError
from crfqn.estimators.automatic import AUTO
from crfqn.estimators.item_data import item_features
from crfqn.model.label_index import LabelIndex
from crfqn.objectives.linear.feature_map import FeatureMap, scores_of
from crfqn.objectives.point import total
from crfqn.papers.agarwal2014.fits import ItemStream, advanced, normal_solver, residual, ridge_of
from crfqn.papers.agarwal2014.generalized import clipped
from crfqn.papers.agarwal2014.stages import StagedEstimator, StageList
from crfqn.threads import Pool

MIN_SINGULAR_VALUE = (
    1e-6  # smaller singular values of the functions, relative to the largest, count as 0: a guard
)


@dataclass(eq=False, kw_only=True)
class Calibration(StageList):
    """Stages of calibrated least squares: lists of W_t, float64 (K, F), and of B_t, float64 (K, m)."""

    TABLES: ClassVar[dict[str, str]] = {"residual": "residual_tables", "calibration": "calibration_tables"}

    residual_tables: list[Vector] = field(default_factory=list)
    calibration_tables: list[Vector] = field(default_factory=list)

    @property
    def n_features(self) -> int:
        return self.residual_tables[0].shape[1] if self.residual_tables else 0

    def prepare(self, rows: ItemTable, pool: Pool) -> FeatureMap:
        return item_features(rows, self.has_constant, pool)

    def advance(self, prepared: FeatureMap, number: int, predictions: Vector) -> Vector:
        between = predictions + scores_of(prepared, self.residual_tables[number])
        return clipped(self.calibration_tables[number] @ self.basis(between), self.is_exclusive)

    def learn(self, items: ItemStream, predictions: Vector) -> Iterator[Vector]:
        """Fit stages with one factorisation of sum_i c_i x_i x_i' + l2 for all, if any."""
        whole = self.prepare(next(items.blocks()), items.pool) if items.is_whole else None

        def features(rows: ItemTable, part: slice) -> FeatureMap:
            return self.prepare(rows, items.pool) if whole is None else whole

        objective = items.objective(features, predictions)
        ridge = ridge_of(objective.n_features, self.l2, self.is_constant_free)
        solve, roots = normal_solver(objective, ridge), np.sqrt(items.weights)
        while True:
            objective = items.objective(features, predictions)
            table = solve(total(map(residual, objective.parts)))
            functions = self.basis(advanced(objective, predictions, table))
            # Powers are nearly dependent: normal equations would lose half of the digits.
            calibration = lstsq((functions * roots).T, (items.targets * roots).T, cond=MIN_SINGULAR_VALUE)[
                0
            ].T
            self.calibration_tables.append(calibration)
            self.residual_tables.append(table)  # `n_stages` is the length of this list
            predictions = clipped(calibration @ functions, self.is_exclusive)
            del functions  # they are several times as large as the predictions
            yield predictions

    def probabilities(self, predictions: Vector) -> Vector:
        return predictions  # within 0 and 1 already


@dataclass(eq=False, repr=False, kw_only=True)
class CalibratedLeastSquares(StagedEstimator[Calibration]):
    """Least squares with a link that is learnt: residual fits and calibrations in turns (Algorithm 2).

    A stage fits weights to the residuals of the predictions so far, refits the labels to functions of the
    predictions, and projects onto the simplex (with several labels an item, the hypercube). No stage increases the
    squared error on the training items. All stages share one factorisation of the features' second moments.

    Parameters
    ----------
    l2 : float >= 0, default 1.0
        Ridge of the residual fits: 1/2 sum_i c_i ||y_i - predictions - W x_i||^2 + l2/2 ||W||^2.
    basis : sequence of int, or scikit-learn transformer, default (1, 2, 3)
        The functions: powers of every prediction, 1 among them; or the predictions, and a transformer's output for
        them (items x labels).
    max_iter : int, default 100
        Maximum number of stages.
    tol : float, default 1e-3
        Stop after a stage that lowers the squared error by this fraction or less.
    early_stopping : bool or "auto", default "auto"
        Choose the number of stages by the squared error on held-out items: training stops after `n_iter_no_change`
        stages without a lower error, and the number of stages with the lowest error is then learnt from all items. The
        accuracy of a tenth of the items would be too noisy. "auto" is True with 1,000 items or more, or if
        `validation` is given.
    validation_fraction : float, default 0.1
        Fraction of the items that is held out for `early_stopping` unless `fit` is given `validation`.
    n_iter_no_change : int, default 5
    fit_intercept : bool, default True
    penalize_intercept : bool, default False
    class_weight : None, "balanced" or dict of label -> weight, optional
        A factor to `sample_weight`: the mean over the item's labels.
    warm_start : bool, default False
        Continue from the stages of the last fit, if labels and columns are the same.
    random_state : int, RandomState or None
        Draws the held-out items.
    max_seconds, n_threads, verbose, callback
        As in `ChainCRF`; a stage counts as an iteration.
    stop : {"estimate", "certificate"}
        Without effect: stages have no certificate.

    Attributes
    ----------
    classes_ : ndarray, shape (n_labels,), sorted; of a table of 0 and 1 the numbers of its columns
    stages_ : the weights of each stage, `residual_tables` (labels x features, intercepts last) and
        `calibration_tables` (labels x functions)
    validation_score_ : ndarray, shape (stages tried + 1,): the accuracy on held-out items before any stage and after
        each; the model has the stages with the lowest squared error, not the highest accuracy
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
    TOL_ENDS_STAGES: ClassVar[bool] = True
    STOPS_BY_LOSS: ClassVar[bool] = True

    max_iter: int = 100
    early_stopping: bool | str = AUTO

    def _new_stages(self, blocks: Iterable[ItemTable], is_exclusive: bool) -> Calibration:
        return Calibration(**self._stage_settings, is_exclusive=is_exclusive)

    def _stored_stages(self, file: ModelFile, labels: LabelIndex, n_features: int) -> Calibration:
        stages = self._new_stages((), labels.has_one_label)
        stages.read_from(file, labels.n_nodes)
        widths = {table.shape[1] for table in stages.residual_tables}
        functions = {table.shape[1] for table in stages.calibration_tables}
        expected = {n_features + bool(self.fit_intercept)}, {labels.n_nodes * len(self.basis)}
        is_whole = len(stages.residual_tables) == len(stages.calibration_tables)
        if not (is_whole and widths <= expected[0] and functions <= expected[1]):
            raise ModelFileError(
                f"{file.path}: the weights of the stages do not fit the features or the basis"
            )
        return stages

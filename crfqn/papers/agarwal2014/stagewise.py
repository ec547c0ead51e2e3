"""Stagewise regression: Agarwal et al. (2014), Algorithm 3.

A stage makes a batch of features x~ and fits the residuals of the stages before:

    linear      y^ <- y^ + W x~,   W fits the residual y - y^ (the default)
    calibrated  y^ <- clip(y^ + W [x~, y^, y^^2, y^^3]),   W fits the residual
    logistic    f <- f + W x~,   some steps of Algorithm 1 with f as a constant offset;   y^ = g(f)

With a link other than the identity, a residual y - y^ cannot be fitted as if it were a label: scores f are kept.
Features are made from a seed and the number of the stage when they are used. Models in memory keep the batches of the
first stages, within a limit of memory; files, pickles and copies do not.

Shapes: K labels, I items, p features of a batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from crfqn.arrays import NO_COORDS, NO_VALUES, Vector
from crfqn.data.features import FeatureStore
from crfqn.data.inputs import ItemTable
from crfqn.data.model_file import ModelFile
from crfqn.errors import InputError, ModelFileError
from crfqn.model.content import ModelContent
from crfqn.model.label_index import LabelIndex
from crfqn.objectives.linear.dense_map import DenseMap, HStackMap
from crfqn.objectives.linear.feature_map import FeatureMap, all_nodes, scores_of
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.losses.potentials import LINKS, Potential
from crfqn.objectives.objective import Objective
from crfqn.objectives.point import total
from crfqn.papers.agarwal2014.fits import (
    ItemStream,
    advanced,
    fit_residual,
    fit_scores,
    normal_solver,
    residual,
    ridge_of,
)
from crfqn.papers.agarwal2014.generalized import LINK_OF, clipped
from crfqn.papers.agarwal2014.generators import (
    Batch,
    FeatureSource,
    GeneratedMap,
    as_generator,
    restored_generator,
    restored_source,
    stored_generator,
)
from crfqn.papers.agarwal2014.gls import Link
from crfqn.papers.agarwal2014.stages import StagedEstimator, StageList
from crfqn.penalties import ElasticNet
from crfqn.result import Trace
from crfqn.threads import Pool

STAGE_UPDATES = ("linear", "calibrated", "logistic")
# Maximum count of random numbers in memory, 512 MB: the batches of the first stages, which every prediction uses.
MAX_KEPT_NUMBERS = 1 << 26
SOURCE_PREFIX = "source_"  # before the names of a source's arrays in a model file


@dataclass(eq=False, kw_only=True)
class Stages(StageList):
    """Stages of stagewise regression.

    source, batch_size : makes the features of each stage; features of a batch, p
    update : one of STAGE_UPDATES; a calibrated one has the basis' functions among its features
    most_steps, tol : steps of Algorithm 1 in a logistic update, and the decrease of the gradient that ends them early
    weights : (K, p + ...) of each stage
    batches : by stage, those that are kept
    """

    TABLES: ClassVar[dict[str, str]] = {"stage": "weights"}

    source: FeatureSource
    update: str
    batch_size: int
    most_steps: int
    tol: float
    weights: list[Vector] = field(default_factory=list)
    batches: dict[int, Batch] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"batches": {}}

    def batch(self, number: int) -> Batch:
        """Return the batch of stage `number`, stored if there is memory: drawing it takes longer than using it."""
        batch = self.batches.get(number)
        if batch is None:
            batch = self.source.batch(number, self.batch_size)
            if (len(self.batches) + 1) * self.source.n_inputs * self.batch_size <= MAX_KEPT_NUMBERS:
                self.batches[number] = batch
        return batch

    @property
    def n_features(self) -> int:
        return sum(table.shape[1] for table in self.weights)

    @property
    def potential(self) -> Potential:
        """Phi of logistic updates."""
        return LINKS[LINK_OF[self.is_exclusive]]

    def prepare(self, rows: ItemTable, pool: Pool) -> tuple[Any, Pool]:
        return rows, pool

    def features(
        self, rows: ItemTable, number: int, predictions: Vector, pool: Pool, keeps: bool
    ) -> FeatureMap:
        """Return the features of stage `number` for rows, functions of the predictions (K, N) included."""
        offsets, is_plain = np.arange(rows.shape[0] + 1), self.update != "calibrated"
        batch = self.batch(number)
        chosen = getattr(batch, "chosen", None)  # batches of users' own generators have none
        if is_plain and chosen is not None and hasattr(rows, "tocsr"):  # sparse ones stay sparse
            store = FeatureStore.from_matrix(rows[:, chosen], offsets, allow_empty=True)
            return SparseMap(store.with_constant() if self.has_constant else store, pool)
        generated = GeneratedMap(rows, batch, offsets, self.has_constant and is_plain, pool)
        features = generated.kept() if keeps else generated
        if is_plain:
            return features
        functions = np.ascontiguousarray(self.basis(predictions).T)
        return HStackMap([features, DenseMap(functions, offsets, self.has_constant, pool)])

    def advance(self, prepared: tuple[Any, Pool], number: int, predictions: Vector) -> Vector:
        rows, pool = prepared
        features = self.features(rows, number, predictions, pool, keeps=False)
        return self._after(predictions + scores_of(features, self.weights[number]))

    def _after(self, predictions: Vector) -> Vector:
        return clipped(predictions, self.is_exclusive) if self.update == "calibrated" else predictions

    def learn(self, items: ItemStream, predictions: Vector) -> Iterator[Vector]:
        while True:
            objective = self._objective(items, self.n_stages, predictions)
            if self.update == "logistic":
                n_columns, is_free = objective.n_features, self.is_constant_free
                constants = np.arange(1, len(predictions) + 1, dtype=np.int64) * n_columns - 1
                free = constants if is_free else NO_COORDS
                table = fit_scores(objective, ElasticNet(0.0, self.l2, free), self.most_steps, self.tol)
            else:
                table = fit_residual(objective, self.l2, self.is_constant_free)
            after = advanced(objective, predictions, table)
            self.weights.append(table)
            del objective  # its features are as large as those of the next stage
            predictions = self._after(after)
            yield predictions

    def refit(self, items: ItemStream, n_rounds: int) -> Vector:
        """Refit the weights of each batch to the residuals of all others, `n_rounds` times: block coordinate descent on
        the least squares of all features, with stored factors as far as there is memory. Returns the predictions."""
        predictions, room = self.predictions_of(items), float(MAX_KEPT_NUMBERS)
        solvers: dict[int, Callable[[Vector], Vector]] = {}
        for number in [*range(self.n_stages)] * n_rounds:
            objective = self._objective(items, number, predictions)
            table = self.weights[number]
            ridge = ridge_of(table.shape[1], self.l2, self.is_constant_free)
            solve = solvers.get(number) or normal_solver(objective, ridge)
            size = table.shape[1] ** 2
            if objective.whole is not None:  # its features stay in memory
                size += objective.whole.map.count_entries(all_nodes(1, objective.n_features))
            if number not in solvers and size <= room:
                solvers[number] = solve
                room -= size
            change = solve(total(map(residual, objective.parts)) - ridge * table)
            predictions = advanced(objective, predictions, change)
            self.weights[number] = table + change
        return predictions

    def _objective(self, items: ItemStream, number: int, predictions: Vector) -> Objective:
        """Return the loss of the items by the weights of stage `number`, around the predictions of all others."""

        def features(rows: ItemTable, part: slice) -> FeatureMap:
            return self.features(rows, number, predictions[:, part], items.pool, keeps=True)

        potential = self.potential if self.update == "logistic" else None
        return items.objective(features, predictions, potential)

    def probabilities(self, predictions: Vector) -> Vector:
        if self.update == "logistic":
            return self.potential.gradient(predictions)
        return clipped(predictions, self.is_exclusive)

    def loss(self, items: ItemStream, predictions: Vector) -> float:
        """Return the squared error of predictions (K, I), or the logistic loss of scores, in nats."""
        if self.update != "logistic":
            return super().loss(items, predictions)
        link = Link(self.potential, items.targets)
        evaluation = link.evaluate(predictions, NO_VALUES, items.weights, items.pool)
        return float(items.weights @ evaluation.item_losses)

    def add_to(self, content: ModelContent) -> None:
        super().add_to(content)
        table, arrays = self.source.content()
        content.metadata["source"] = table
        content.arrays |= {SOURCE_PREFIX + name: array for name, array in arrays.items()}


@dataclass(eq=False, repr=False, kw_only=True)
class StagewiseRegression(StagedEstimator[Stages]):
    """A classifier of very many features, made and fitted some hundred at a time (Algorithm 3).

    Each stage makes a batch of features from the rows, random ones for example, and fits them by least squares to the
    residuals of the stages before. Memory is O(items x labels + items x batch_size), whatever the stages; a model
    keeps weights and a seed, no features.

    Parameters
    ----------
    l2 : float >= 0, default 1.0
        Ridge of each stage's weights.
    generator : {"fourier", "projections", "subsets", "frequency"}, generator or scikit-learn transformer,
        default "fourier"
        Random Fourier features of the Gaussian kernel; random projections through max(x, 0); random subsets of the
        given features without replacement; the given features, the most frequent first (for text). Objects of
        `crfqn.papers.agarwal2014.generators` have settings: `RandomFourier(scale=80.0)`, `RandomProjections("tanh")`. A
        transformer is cloned for each batch, with a `random_state` and `n_components` = batch_size where it has them.
    batch_size : int, default 512
        Features of a stage, p.
    update : {"linear", "calibrated", "logistic"}, default "linear"
        "linear": least squares. "calibrated": powers of the predictions are among a stage's features, and predictions
        are projected onto the simplex (with several labels an item, the hypercube). "logistic": some steps of
        `GeneralizedLeastSquares` with a softmax (sigmoid) link, the scores so far a constant offset.
    basis : sequence of int, or scikit-learn transformer, default (1, 2, 3)
        Functions of the predictions, for "calibrated"; as in `CalibratedLeastSquares`.
    max_iter : int, default 20
        Stages.
    n_rounds : int, default 1
        Rounds over the batches. Each round after the first refits the weights of every "linear" stage to the residuals
        of all others. This converges to the least squares of all features (block coordinate descent), which one round
        does not reach if features depend on each other; `validation_score_` is that of the first round.
    inner_iter : int, default 50
        Steps of a "logistic" stage.
    tol : float, default 1e-3
        A "logistic" stage ends early when its gradient has fallen to this fraction of its first size.
    early_stopping : bool or "auto", default False
        As in `CalibratedLeastSquares`; it learns twice.
    validation_fraction, n_iter_no_change, fit_intercept, penalize_intercept, class_weight, warm_start
        As in `CalibratedLeastSquares`.
    random_state : int, RandomState or None
        Seeds features and held-out items; None is a seed too.
    max_seconds, n_threads, verbose, callback
        As in `ChainCRF`; a stage counts as an iteration.
    stop : {"estimate", "certificate"}
        Without effect: stages have no certificate.

    Attributes
    ----------
    classes_ : ndarray, shape (n_labels,), sorted; of a table of 0 and 1 the numbers of its columns
    stages_ : the source of the features, and `weights` of each stage (labels x features, powers of the predictions and
        intercepts last)
    validation_score_, n_iter_, n_features_in_, feature_names_in_, result_, extra_
        As in `CalibratedLeastSquares`.

    Notes
    -----
    A stage takes O(I p^2 + p^3) time besides its features. float32 rows make float32 features; sums are in float64.
    `fit_blocks` trains on data larger than memory. Features depend on seed and stage alone, and results do not depend
    on the number of threads.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from crfqn import StagewiseRegression
    >>> X, y = load_digits(return_X_y=True)
    >>> model = StagewiseRegression(batch_size=100, max_iter=4).fit(X[:1000] / 16, y[:1000])
    >>> model.score(X[1000:] / 16, y[1000:]) > 0.9
    True

    References
    ----------
    Agarwal, Kakade, Karampatziakis, Song, Valiant: Least squares revisited: scalable approaches for multi-class
    prediction. ICML 2014, Algorithm 3. Rahimi, Recht: Random features for large-scale kernel machines. NIPS 2007.
    """

    KIND = "stagewise-regression"
    generator: Any = "fourier"
    batch_size: int = 512
    update: str = "linear"
    inner_iter: int = 50
    max_iter: int = 20
    n_rounds: int = 1

    def _new_stages(self, blocks: Iterable[ItemTable], is_exclusive: bool) -> Stages:
        return self._stages_of(as_generator(self.generator).fit(blocks, self._seed), is_exclusive)

    def _stages_of(self, source: FeatureSource, is_exclusive: bool) -> Stages:
        return Stages(
            **self._stage_settings,
            is_exclusive=is_exclusive,
            source=source,
            update=self.update,
            batch_size=int(self.batch_size),
            most_steps=int(self.inner_iter),
            tol=float(self.tol),
        )

    def check_parameters(self) -> None:
        super().check_parameters()
        as_generator(self.generator)
        if self.n_rounds > 1 and self.update != "linear":
            raise InputError(f"n_rounds: expected 1 with update={self.update!r}, got {self.n_rounds}")

    def _improve(self, stages: Stages, items: ItemStream, trace: Trace, started: float) -> None:
        if self.n_rounds == 1:
            return
        value = stages.loss(items, stages.refit(items, self.n_rounds - 1))
        rows, last = trace.rows, stages.n_stages - trace.rows[0].iteration
        rows[last] = replace(rows[last], value=value, seconds=time.perf_counter() - started)

    def stored_parameters(self) -> dict[str, Any]:
        return super().stored_parameters() | {"generator": stored_generator(self.generator)}

    @staticmethod
    def check_stored(settings: Mapping[str, Any]) -> None:
        StagedEstimator.check_stored(settings)
        generator = settings["generator"]
        if not isinstance(generator, (str, dict)):
            raise InputError(
                f"generator: a model file holds those of crfqn.papers.agarwal2014.generators, got {generator!r}"
            )

    @classmethod
    def from_stored(cls, settings: dict[str, Any]) -> Self:
        return super().from_stored(settings | {"generator": restored_generator(settings["generator"])})

    def _stored_stages(self, file: ModelFile, labels: LabelIndex, n_features: int) -> Stages:
        arrays = {
            name.removeprefix(SOURCE_PREFIX): array
            for name, array in file.arrays.items()
            if name.startswith(SOURCE_PREFIX)
        }
        try:
            source = restored_source(file.table("source"), arrays)
        except (KeyError, ValueError) as error:
            raise ModelFileError(f"{file.path}: source: {error}") from error
        if source.n_inputs != n_features:
            raise ModelFileError(
                f"{file.path}: source: expected features of {n_features} columns, got {source.n_inputs}"
            )
        stages = self._stages_of(source, labels.has_one_label)
        stages.read_from(file, labels.n_nodes)
        n_others = bool(self.fit_intercept) + labels.n_nodes * len(self.basis) * (self.update == "calibrated")
        for number, weights in enumerate(stages.weights):
            expected = source.batch_width(number, stages.batch_size) + n_others
            if weights.shape[1] != expected:
                raise ModelFileError(
                    f"{file.path}: stage {number}: expected weights of {expected} features, got {weights.shape[1]}"
                )
        return stages

"""StagewiseRegression: features made batch by batch, each fitted to what the batches before have left over."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from crfqn.data.generators import restored_source
from crfqn.errors import InputError, ModelFileError
from crfqn.estimators.least_squares.basis import CUBIC, Basis, check_basis
from crfqn.estimators.least_squares.calibrated import restored_basis, stored_basis
from crfqn.estimators.least_squares.generators import as_generator, restored_generator, stored_generator
from crfqn.estimators.least_squares.staged.model import StagedModel, check_count
from crfqn.estimators.least_squares.staged.stage_list import add_tables, read_tables
from crfqn.estimators.least_squares.staged.stagewise import UPDATES, Stages, Update
from crfqn.estimators.storage.content import Content
from crfqn.model_file import ModelFile

SOURCE = "source_"  # before the names of a source's arrays in a model file


@dataclass(eq=False, repr=False, kw_only=True)
class StagewiseRegression(StagedModel[Stages]):
    """A classifier of very many features, made and fitted some hundred at a time (Algorithm 3).

    Each stage makes a batch of features from the rows, random ones for example, and fits them by least squares to what
    the stages before have left over. Memory is O(items x labels + items x batch_size), whatever the stages; a model
    keeps weights and a seed, no features.

    Parameters
    ----------
    l2 : float >= 0, default 1.0
        Ridge of each stage's weights.
    generator : {"fourier", "projections", "subsets", "frequency"}, generator or scikit-learn transformer,
        default "fourier"
        Random Fourier features of the Gaussian kernel; random projections through max(x, 0); random subsets of the
        given features without replacement; the given features, the most frequent first (for text). Objects of
        `crfqn.data.generators` have settings: `RandomFourier(scale=80.0)`, `RandomProjections("tanh")`. A
        transformer is cloned for each batch, with a `random_state` and `n_components` = batch_size where it has them.
    batch_size : int, default 512
        Features of a stage, p.
    update : {"calibrated", "linear", "logistic"}, default "calibrated"
        "linear": least squares. "calibrated": powers of the predictions are among a stage's features, and predictions
        are projected onto the simplex (with several labels an item, the hypercube). "logistic": some steps of
        `GeneralizedLeastSquares` with a softmax (sigmoid) link, the margins so far a constant offset.
    basis : sequence of int, or scikit-learn transformer, default (1, 2, 3)
        Functions of the predictions, for "calibrated"; as in `CalibratedLeastSquares`.
    max_iter : int, default 20
        Stages.
    inner_iter : int, default 50
        Steps of a "logistic" stage.
    tol : float, default 1e-3
        A "logistic" stage ends sooner when its gradient has fallen to this share of its first size.
    early_stopping, validation_fraction, n_iter_no_change, fit_intercept, penalize_intercept, class_weight, warm_start
        As in `CalibratedLeastSquares`.
    random_state : int, RandomState or None
        Seeds features and held-out items; None is a seed too.
    max_seconds, n_threads, verbose, callback
        As in `ChainCRF`; a stage counts as an iteration.

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
    NOT_SAVED: ClassVar[tuple[str, ...]] = (*StagedModel.NOT_SAVED, "basis", "generator")

    generator: Any = "fourier"
    batch_size: int = 512
    update: str = "calibrated"
    basis: Any = CUBIC
    inner_iter: int = 50
    max_iter: int = 20

    def _new_stages(self, blocks: Iterable[Any], is_exclusive: bool) -> Stages:
        source = as_generator(self.generator).fit(blocks, self._seed)
        return Stages(source, self._update, Basis(self.basis), is_exclusive)

    @property
    def _update(self) -> Update:
        return Update(
            self.update,
            int(self.batch_size),
            self._strengths["l2"],
            bool(self.fit_intercept),
            bool(self.penalize_intercept),
            int(self.inner_iter),
            float(self.tol),
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_basis(self.basis)
        check_count("batch_size", self.batch_size)
        check_count("inner_iter", self.inner_iter)
        if not isinstance(self.update, str) or self.update not in UPDATES:
            raise InputError(f"update: expected one of {[*UPDATES]}, got {self.update!r}")
        as_generator(self.generator)

    def _settings(self) -> dict[str, Any]:
        own = {"basis": stored_basis(self.basis), "generator": stored_generator(self.generator)}
        return super()._settings() | own

    @classmethod
    def _from_settings(cls, settings: dict[str, Any]) -> Self:
        model = super()._from_settings(settings)
        generator = restored_generator(settings["generator"])
        return model.set_params(basis=restored_basis(settings["basis"]), generator=generator)

    def _add_weights(self, content: Content) -> None:
        table, arrays = self.stages_.source.content()
        content.metadata["source"] = {"kind": self.stages_.source.KIND, **table}
        content.arrays |= {SOURCE + name: array for name, array in arrays.items()}
        add_tables(content, "stage", self.stages_.weights)

    def _read_weights(self, file: ModelFile, n_nodes: int, n_features: int) -> None:
        table = file.table("source")
        arrays = {
            name.removeprefix(SOURCE): file.arrays[name] for name in file.arrays if name.startswith(SOURCE)
        }
        try:
            source = restored_source(table["kind"], table, arrays)
        except (KeyError, ValueError) as error:
            raise ModelFileError(f"{file.path}: source: {error}") from error
        stages = Stages(source, self._update, Basis(self.basis), self._is_exclusive)
        stages.weights = read_tables(file, "stage", n_nodes)
        if source.n_inputs != n_features:
            raise ModelFileError(
                f"{file.path}: source: expected features of {n_features} columns, got {source.n_inputs}"
            )
        more = bool(self.fit_intercept) + n_nodes * len(self.basis) * (self.update == "calibrated")
        for number, weights in enumerate(stages.weights):
            expected = source.batch_width(number, self._update.batch_size) + more
            if weights.shape[1] != expected:
                raise ModelFileError(
                    f"{file.path}: stage {number}: expected weights of {expected} features, got {weights.shape[1]}"
                )
        self.stages_ = stages

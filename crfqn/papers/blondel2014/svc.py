"""MulticlassSVC: the multiclass support vector machine of Crammer and Singer with kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from crfqn.arrays import NO_COORDS, NO_VALUES, SparseWeights, Vector
from crfqn.data.inputs import ItemsLike, ItemTable, LabelsLike, SampleWeight
from crfqn.data.items import check_item_weights, item_weights
from crfqn.data.label_arrays import encode_labels, item_labels
from crfqn.data.matrices import canonical
from crfqn.data.model_file import ModelFile
from crfqn.errors import InputError, ModelFileError, warn_caller
from crfqn.estimators.estimator import Estimator
from crfqn.estimators.item_data import Columns, validated
from crfqn.estimators.item_estimator import ItemPredictions
from crfqn.estimators.multilabel_targets import label_accuracy
from crfqn.estimators.problem import pass_on_interrupt
from crfqn.model.content import ModelContent, add_labels, add_matrix, read_entries, read_labels, read_weights
from crfqn.model.trained import Fitted, FittedModel, Trained
from crfqn.objectives.executors import LocalParts
from crfqn.objectives.linear.feature_map import CoordinateParts
from crfqn.objectives.losses.hinges import MulticlassHinge
from crfqn.objectives.part import Part
from crfqn.papers.blondel2014.gram_map import GramMap, KernelNorm, KernelObjective
from crfqn.parameters import PARAMETERS, Parameter, is_number
from crfqn.progress import ProgressDisplay
from crfqn.result import Result, Status
from crfqn.solvers.dual.decomposition import DualDecomposition
from crfqn.solvers.minimize import minimize
from crfqn.solvers.stopping import Run
from crfqn.threads import Pool

PREDICTION_BLOCK_VALUES = 1 << 23  # kernel values of a block of items in prediction: 64 MB
# A certificate, which makes rows of the matrix, costs some twenty passes.
KERNEL_COOLING, KERNEL_MAX_PASSES = 0.05, 100
VECTOR, FEATURE, CLASS = "vector", "feature", "class"
KernelLike: TypeAlias = "str | Callable[[ItemTable, ItemTable], NDArray]"
PRECOMPUTED = "precomputed"
NAMED_KERNELS = ("linear", "poly", "rbf", "sigmoid")


@dataclass(frozen=True)
class KernelFunction:
    """Kernel between the rows of two matrices (n, F), (m, F): one of `NAMED_KERNELS` with scikit-learn's gamma (as a
    number), degree and coef0, or a function that returns (n, m)."""

    kernel: KernelLike
    gamma: float = 1.0
    degree: float = 3
    coef0: float = 0.0

    def __call__(self, x: ItemTable, others: ItemTable) -> NDArray:
        """Return kernel(x_i, others_j), (n, m)."""
        if callable(self.kernel):
            values = np.asarray(self.kernel(x, others))
            if values.shape != (x.shape[0], others.shape[0]):
                raise InputError(
                    f"kernel: expected the function to return shape {(x.shape[0], others.shape[0])}, "
                    f"got {values.shape}"
                )
            return values
        parameters = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        return pairwise_kernels(x, others, self.kernel, filter_params=True, **parameters)

    @property
    def is_definite(self) -> bool:
        """Whether its matrices are positive semidefinite; of a function, which is taken to be a kernel, yes."""
        is_power = float(self.degree).is_integer() and self.coef0 >= 0  # with a series of coefficients >= 0
        return self.kernel != "sigmoid" and (self.kernel != "poly" or is_power)

    def diagonal(self, x: ItemTable) -> Vector:
        """Return kernel(x_i, x_i), (n,)."""
        if self.kernel == "rbf":
            return np.ones(x.shape[0])
        if callable(self.kernel):
            return np.array([float(self(x[i : i + 1], x[i : i + 1])[0, 0]) for i in range(x.shape[0])])
        squares = np.asarray(squared(x).sum(axis=1)).reshape(-1)
        if self.kernel == "linear":
            return squares
        inner = self.gamma * squares + self.coef0
        return inner**self.degree if self.kernel == "poly" else np.tanh(inner)


def squared(x: ItemTable) -> ItemTable:
    """Return the squares of an array or a sparse matrix."""
    return x.multiply(x) if hasattr(x, "multiply") else np.square(x)


def resolve_gamma(gamma: str | float, X: ItemTable, weights: Vector | None = None) -> float:
    """Return the value of gamma, as in scikit-learn: "scale" is 1 / (F var(X)), in which items count by
    their weights (n,), "auto" 1 / F."""
    if gamma != "scale":
        return 1.0 / X.shape[1] if gamma == "auto" else float(gamma)
    sums = (np.asarray(table.sum(axis=1), np.float64).reshape(-1) for table in (X, squared(X)))
    mean, mean_square = (np.average(item_sums, weights=weights) / X.shape[1] for item_sums in sums)
    variance = mean_square - mean**2
    return float(1.0 / (X.shape[1] * variance)) if variance > 0 else 1.0


@dataclass(frozen=True, eq=False, kw_only=True)
class SupportVectors(FittedModel):
    """A fitted expansion f_k(x) = sum_i dual_coef[k, i] kernel(vectors[i], x) over support vectors.

    support : their items, ascending, (n_SV,); vectors : (n_SV, F), none for a precomputed kernel
    n_support : support vectors by their own class, (K,); dual_coef : (K, n_SV)
    """

    feature_names: list[str] | None = None
    kernel: KernelFunction
    support: NDArray[np.int64]
    vectors: ItemTable
    n_support: NDArray[np.int64]
    dual_coef: Vector

    @property
    def n_stored(self) -> int:
        return int(np.count_nonzero(self.dual_coef))

    def scores(self, X: ItemTable) -> Vector:
        """Return f_k(x) of each class, (n, K), of checked items."""
        if not self.support.size:  # of one class
            return np.zeros((X.shape[0], len(self.classes_)))
        if self.kernel.kernel == PRECOMPUTED:
            return np.asarray(X[:, self.support] @ self.dual_coef.T)
        n_block = max(1, PREDICTION_BLOCK_VALUES // self.support.size)
        blocks = (X[first : first + n_block] for first in range(0, X.shape[0], n_block))
        return np.concatenate([self.kernel(rows, self.vectors) @ self.dual_coef.T for rows in blocks])

    def add_to(self, content: ModelContent) -> None:
        content.metadata |= {"n_support": self.support.size, "gamma_value": self.kernel.gamma}
        add_labels(content, self.classes_)
        add_matrix(content, "support", scipy.sparse.coo_array(self.vectors), VECTOR, FEATURE)
        content.arrays |= {
            "support": self.support.astype(np.int64),
            "support_of_class": self.n_support.astype(np.int64),
            "dual_coef": self.dual_coef,
            "is_sparse": np.array([scipy.sparse.issparse(self.vectors)]),
        }
        if self.feature_names is not None:
            content.strings["feature_names"] = [str(name) for name in self.feature_names]

    @classmethod
    def of_file(cls, file: ModelFile, kernel: KernelFunction) -> Self:
        """Return the model of a file's content, of a kernel but for its gamma; ModelFileError if it is not valid."""
        n_classes, n_support = file.count("n_classes", 1), file.count("n_support")
        n_features = file.count("n_features", 1)
        shape = 0 if kernel.kernel == PRECOMPUTED else n_support, n_features
        values, rows, columns = read_entries(file, "support", VECTOR, FEATURE, shape)
        vectors = scipy.sparse.coo_array((values, (rows, columns)), shape=shape).tocsr()
        gamma = file.metadata.get("gamma_value")
        if gamma is None or not (is_number(gamma) and np.isfinite(gamma) and gamma > 0):
            raise ModelFileError(f"{file.path}: gamma_value: expected a number > 0, got {gamma!r}")
        return cls(
            kind=file.kind,
            classes_=read_labels(file, n_classes),
            n_features_in_=n_features,
            trained=Trained.of_file(file),
            feature_names=file.string_list("feature_names") if "feature_names" in file.strings else None,
            kernel=replace(kernel, gamma=float(gamma)),
            support=file.integers("support", (n_support,), 2**53),
            vectors=vectors if file.array("is_sparse", "bool", (1,))[0] else vectors.toarray(),
            n_support=file.integers("support_of_class", (n_classes,), n_support + 1),
            dual_coef=read_weights(file, "dual_coef", (n_classes, n_support)),
        )


@dataclass(eq=False, repr=False, kw_only=True)
class MulticlassSVC(ClassifierMixin, Estimator):
    """A multiclass support vector machine with a kernel, one problem for all classes, trained to a certified gap.

    Minimises over functions f_k of the kernel's space, one a class (Crammer and Singer 2002),

        1/2 sum_k ||f_k||^2 + C sum_i c_i max_k (f_k(x_i) + [k != y_i] - f_y(x_i)),

    and predicts the class with the largest f_k(x). Names are those of scikit-learn's SVC, which trains a binary machine
    for every pair of classes instead.

    Parameters
    ----------
    C : float > 0, default 1.0
        Strength of the loss.
    kernel : {"rbf", "linear", "poly", "sigmoid", "precomputed"} or function, default "rbf"
        A function of two matrices (n, F), (m, F) returns (n, m). With "precomputed", X is the matrix of the kernel's
        values: (items, items) for `fit`, (new items, items) to predict.
    gamma : {"scale", "auto"} or float > 0, default "scale"
        Of "rbf", "poly" and "sigmoid": 1 / (n_features X.var()), weighted as the items; 1 / n_features; or a number.
    degree : float >= 0, default 3
        Of "poly".
    coef0 : float, default 0.0
        Of "poly" and "sigmoid".
    tol : float, default 1e-3
        Stop when the certified relative duality gap is below. Problems of up to 3,000 dual variables are solved on
        until rounding is all that is left.
    cache_size : float > 0, default 200
        Megabytes for the kernel's values between the items that are worked on, in double precision: the whole matrix
        of 5,000 items by default, else that of the 5,000 with the largest violations, chosen at every certificate. Of
        other rows there are no more than 256 at a time.
    class_weight : None, "balanced" or dict of label -> weight, optional
        Factors to C.
    max_iter : int >= 1, default 1000
        Passes over the items.
    solver : DualDecomposition, optional
        How the sub-problems are solved, and other settings.
    random_state : int, RandomState or None
        Seeds the order of the items; None is a seed too.
    verbose : int, default 0

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,), sorted
    support_ : ndarray of int, shape (n_SV,): the items with dual variables that are not zero, sorted
    support_vectors_ : ndarray or sparse matrix, shape (n_SV, n_features); empty for "precomputed"
    n_support_ : ndarray of int, shape (n_classes,): support vectors by their own class
    dual_coef_ : ndarray, shape (n_classes, n_SV): f_k(x) = sum_i dual_coef_[k, i] kernel(support_vectors_[i], x)
    n_features_in_, feature_names_in_ : as in scikit-learn
    result_ : Result
    n_iter_ : int

    Notes
    -----
    There is no intercept: a kernel has its own, such as coef0 > 0. A pass updates the items that are violated by more
    than the mean of the last one, O(items worked on) each, and needs no kernel values but those that are kept. With
    kernel="linear" that is far more than what weights cost: `MulticlassClassifier(loss="hinge", penalty="l2", l2=1 / C,
    fit_intercept=False)` is the same model.

    The certificate costs the kernel's values between the support vectors and the items that are not worked on. It is a
    proof for positive semidefinite kernels, which functions and precomputed values are taken to be; with "sigmoid", and
    with "poly" of a coef0 < 0 or a degree that is not whole, the problem is not convex, and the run ends as
    `Status.STATIONARY`.

    Examples
    --------
    >>> from crfqn import MulticlassSVC
    >>> X = [[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0], [3.0, 3.0], [3.5, 3.0]]
    >>> model = MulticlassSVC(C=10.0, gamma=1.0).fit(X, ["even", "even", "odd", "odd", "far", "far"])
    >>> model.predict([[0.9, 0.1], [4.0, 3.0]]).tolist()
    ['odd', 'far']

    References
    ----------
    Blondel, Fujino, Ueda: Large-scale multiclass support vector machine training via Euclidean projection onto the
    simplex. ICPR 2014.
    """

    KIND = "multiclass-svc"
    PARAMETERS: ClassVar[Mapping[str, Parameter]] = {
        **PARAMETERS,
        "tol": replace(PARAMETERS["tol"], words=()),
    }

    support_, support_vectors_ = Fitted("support"), Fitted("vectors")
    n_support_, dual_coef_ = Fitted("n_support"), Fitted("dual_coef")

    C: float = 1.0
    kernel: KernelLike = "rbf"
    gamma: str | float = "scale"
    degree: float = 3
    coef0: float = 0.0
    tol: float = 1e-3
    cache_size: float = 200.0
    class_weight: Mapping | str | None = None
    max_iter: int = 1000
    solver: DualDecomposition | None = None
    random_state: int | np.random.RandomState | None = None
    verbose: int = 0

    feature_names_in_ = ItemPredictions.feature_names_in_

    def __sklearn_tags__(self) -> Tags:
        """Sparse matrices are supported; a precomputed kernel is a square matrix of pairs."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == PRECOMPUTED
        return tags

    def fit(self, X: ItemsLike, y: LabelsLike, sample_weight: SampleWeight = None) -> Self:
        """Train on items, or on the kernel's values between them, and labels.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n_items, n_features); (n_items, n_items) for "precomputed"
        y : array-like of labels, shape (n_items,)
        sample_weight : array-like, shape (n_items,), optional
            Factors to C; 0 is the same as leaving an item out.

        Raises
        ------
        InputError, or another ValueError of scikit-learn's checks
        KeyboardInterrupt
            Ctrl-C; the model has the best variables so far, and is usable.
        """
        self.check_parameters()
        reading = self.with_model(Columns())
        X, names = validated(reading, canonical(X), item_labels(y), accept_sparse="csr", dtype=np.float64)
        check_classification_targets(names)
        classes, codes = encode_labels(names, np.arange(len(names) + 1))
        weights = item_weights(sample_weight, self.class_weight, classes, codes)
        counts = np.arange(len(codes)) if weights is None else np.flatnonzero(weights > 0)
        classes, codes = encode_labels(classes[codes[counts]], np.arange(counts.size + 1))
        if self.kernel == PRECOMPUTED and X.shape[0] != X.shape[1]:
            raise InputError(
                f"kernel: {PRECOMPUTED!r} expects a square matrix of the items' kernel, got shape {X.shape}"
            )
        gamma = resolve_gamma(self.gamma, X, check_item_weights(sample_weight, X.shape[0]))
        function = KernelFunction(self.kernel, gamma, self.degree, self.coef0)
        x = X[counts][:, counts] if self.kernel == PRECOMPUTED else X[counts]
        result = self._train(
            self._gram(function, x), codes, classes.size, None if weights is None else weights[counts]
        )
        expansion = scipy.sparse.csc_array(
            (result.weights, np.divmod(result.coords, codes.size)), (classes.size, codes.size)
        )
        support = np.flatnonzero(np.diff(expansion.indptr))
        kept = counts[support]
        self.model_ = SupportVectors(
            kind=self.KIND,
            classes_=classes,
            n_features_in_=reading.model_.n_features_in_,
            trained=Trained(
                replace(result, coords=NO_COORDS, weights=NO_VALUES), {}, self.stored_parameters()
            ),
            feature_names=reading.model_.feature_names,
            kernel=function,
            support=kept,
            vectors=X[:0] if self.kernel == PRECOMPUTED else X[kept],
            n_support=np.bincount(codes[support], minlength=classes.size),
            dual_coef=expansion[:, support].toarray(),
        )
        is_stationary = result.status is Status.STATIONARY and not function.is_definite
        if not (result.status.is_success or is_stationary):
            warn_caller(
                f"{result.message} (relative gap {result.gap:.2g}, tol {self.tol:g}, {result.n_iter} passes)",
                ConvergenceWarning,
            )
        pass_on_interrupt(result)
        return self

    def _gram(self, function: KernelFunction, x: ItemTable) -> GramMap:
        """Return the Gram matrix of the items that count."""
        if self.kernel == PRECOMPUTED:
            whole = np.ascontiguousarray(x.toarray() if hasattr(x, "toarray") else x)
            return GramMap(
                lambda others: lambda items: whole[np.ix_(items, others)],
                np.diag(whole).copy(),
                whole=whole,
                pool=Pool(1),
            )

        def values_to(others: NDArray[np.int64]) -> Callable[[NDArray[np.int64]], NDArray]:
            chosen = x[others]
            return lambda items: function(x[items], chosen)

        n_bytes, is_definite = self.cache_size * 1e6, function.is_definite
        return GramMap(values_to, function.diagonal(x), n_bytes, is_definite=is_definite, pool=Pool(1))

    def _train(
        self, gram: GramMap, codes: NDArray[np.int32], n_classes: int, weights: Vector | None
    ) -> Result:
        """Return the result of the training, whose weights are the expansion over the items, (n_classes, items)."""
        strengths = self.C * (np.ones(codes.size) if weights is None else weights)
        part = Part(gram, MulticlassHinge(codes, n_classes), strengths)
        objective = KernelObjective(LocalParts([part], np.inf))

        def product(coords: NDArray[np.int64], values: Vector) -> Vector:
            scores = np.zeros((n_classes, gram.n_items))
            gram.image(CoordinateParts.from_coords(coords, n_classes, gram.n_items), values, scores)
            return scores.reshape(-1)[coords]

        seed, solver = 0, self.solver
        if solver is None:
            if self.random_state is not None:
                seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
            solver = DualDecomposition(
                by_gradient=True, cooling=KERNEL_COOLING, max_passes=KERNEL_MAX_PASSES, random_state=seed
            )
        return minimize(
            objective,
            KernelNorm(l2=1.0, product=product),
            solver,
            Run(
                tol=self.tol,
                max_iter=self.max_iter,
                callback=ProgressDisplay() if self.verbose else None,
                counts_proved_zeros=False,
            ),
        )

    def decision_function(self, X: ItemsLike) -> Vector:
        """Return f_k(x) of each class, (n, n_classes); with two classes the second's minus the first's, (n,)."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: ItemsLike) -> NDArray:
        """Return the class with the largest f_k(x); ties go to the class that comes first."""
        best = self._scores(X).argmax(axis=1)  # which asks for a fit first
        return self.classes_[best]

    def score(self, X: ItemsLike, y: LabelsLike, sample_weight: SampleWeight = None) -> float:
        """Return the accuracy, items weighted by `sample_weight`; InputError if none of the labels is a class of
        the model."""
        return label_accuracy(y, self.predict(X), self.classes_, sample_weight)

    def _scores(self, X: ItemsLike) -> Vector:
        check_is_fitted(self)
        X = validated(self, canonical(X), reset=False, accept_sparse="csr", dtype=np.float64)
        return self.current_model.scores(X)

    def check_parameters(self) -> None:
        super().check_parameters()
        kernels = [*NAMED_KERNELS, PRECOMPUTED]
        if not (callable(self.kernel) or (isinstance(self.kernel, str) and self.kernel in kernels)):
            raise InputError(f"kernel: expected a function or one of {kernels}, got {self.kernel!r}")
        if not (self.solver is None or isinstance(self.solver, DualDecomposition)):
            raise InputError(f"solver: expected None or a DualDecomposition, got {self.solver!r}")

    def all_weights(self) -> SparseWeights:
        flat = self.dual_coef_.ravel()
        coords = np.flatnonzero(flat)
        return SparseWeights(coords, flat[coords])

    @staticmethod
    def check_stored(settings: Mapping[str, Any]) -> None:
        if callable(settings["kernel"]):
            raise InputError(
                "kernel: a model file holds no code, so a kernel that is a function cannot be saved"
            )

    def model_of_file(self, file: ModelFile) -> SupportVectors:
        return SupportVectors.of_file(file, KernelFunction(self.kernel, 1.0, self.degree, self.coef0))

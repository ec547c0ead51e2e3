"""TaxonomyCRF: classification into the nodes of a label taxonomy, as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from crfqn.data.inputs import ItemsLike, LabelsLike
from crfqn.data.label_arrays import item_labels
from crfqn.data.model_file import ModelFile
from crfqn.errors import InputError
from crfqn.estimators.automatic import AUTO, STRUCTURED_SOLVERS
from crfqn.estimators.estimator import available_if, has_probabilities, of_model
from crfqn.estimators.item_classifier import ClassProbabilities
from crfqn.estimators.item_estimator import ItemEstimator, ItemParameters
from crfqn.estimators.settings import STRUCTURED_PARAMETERS, Settings
from crfqn.messages import shorten
from crfqn.model.item_model import ItemModel
from crfqn.model.label_index import LabelIndex
from crfqn.model.trained import Fitted
from crfqn.parameters import with_parameter_documentation
from crfqn.taxonomy.label_paths import PathRowFormat, PathTargets, check_separator
from crfqn.taxonomy.reading import find_nodes, open_taxonomy


@with_parameter_documentation
@dataclass(eq=False, repr=False, kw_only=True)
class TaxonomyCRF(ItemParameters, Settings, ClassProbabilities, ItemEstimator):
    """CRF over a taxonomy of labels with sparse weights, trained by a proximal quasi-Newton method with a certificate.

    Minimises, over weights w_k of all K nodes of the taxonomy,

        sum_i c_i (-log P(y_i | x_i)) + l1 |W|_1 + l2/2 |W|^2,    P(y | x) ~ exp(sum of w_k . x, k on the path to y),

    a sum over the items i, not a mean. A feature that all labels below a node share needs one weight only, that of the
    node. Without a taxonomy the model is that of `MulticlassCRF`.

    Examples
    --------
    >>> from crfqn import TaxonomyCRF
    >>> X = [[1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1], [1, 2, 0, 0], [2, 0, 1, 0]]
    >>> y = ["sport/golf", "sport/tennis", "art", "sport/golf", "sport/tennis"]
    >>> model = TaxonomyCRF(l1=0.1).fit(X, y)
    >>> model.predict([[1, 2, 0, 0], [1, 0, 0, 0]], threshold=0.7).tolist()
    ['sport/golf', 'sport']

    Parameters
    ----------
    {l1}
    {l2}
    {taxonomy}
    {labels}
    {fit_intercept}
    {tol}

    Other Parameters
    ----------------
    {others}

    Attributes
    ----------
    model_ : crfqn.Model, as in `ChainCRF`
    classes_ : ndarray, shape (n_classes,)
        The labels that can be predicted, sorted: all leaves, or all nodes. For rows of parts, the joined parts.
    tree_ : LabelTree of K nodes, with `names` and `parents`
    coef_ : scipy.sparse.csr_array, shape (K, n_features), nodes in the order of `tree_.names`
    n_dense_ : int, D, the columns of a dense block, 0 without one
    dense_coef_ : ndarray, shape (K, D), only with a dense block
    intercept_ : ndarray, shape (K,), zeros without intercept
    l1_, l2_, group_l1_, temperature_, n_features_in_, feature_names_in_, result_, n_iter_, extra_
        As in `MulticlassCRF`.

    Notes
    -----
    If labels are rows of parts (tuples, or a 2-D array padded with ""), `predict` returns such rows, with integers for
    levels of integers: an array of strings, of integers, or of objects if it has both.

    References
    ----------
    Zhong, Yen, Dhillon, Ravikumar: Proximal quasi-Newton for computationally intensive l1-regularized
    M-estimators. NIPS 2014, section 6.2.
    """

    KIND = "taxonomy-crf"
    NOT_SAVED: ClassVar[tuple[str, ...]] = (*Settings.NOT_SAVED, "taxonomy")
    PARAMETERS: ClassVar = STRUCTURED_PARAMETERS
    SOLVERS: ClassVar = STRUCTURED_SOLVERS
    DEFAULT_TOL: ClassVar[float] = 0.03

    l2: float | str | None = field(default=AUTO, kw_only=False)
    dense_l2: float = 1.0
    group_norm: str = "l2"
    loss: str = "logistic"
    taxonomy: object = None
    labels: str = "leaves"
    separator: str = "/"
    fit_intercept: bool = False

    tree_ = Fitted("tree_")

    predict_nodes = of_model(ItemModel.predict_nodes)

    @available_if(has_probabilities)
    def predict_marginals(self, X: ItemsLike) -> NDArray[np.float64]:
        """Return the probabilities of the nodes, as `predict_nodes` does."""
        return self.predict_nodes(X)

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.capable_solvers and self.fit_intercept and not self.penalize_intercept:
            raise InputError(
                f"penalize_intercept: with loss={self.loss!r} expected True if fit_intercept is True, got False"
            )
        check_separator(self.separator)

    def label_names(self, y: LabelsLike | None) -> tuple[LabelsLike | None, PathRowFormat | None]:
        if y is None:
            return y, None
        y = item_labels(y)
        labels = PathTargets.from_y(y, self.separator)
        return (labels.names if labels.is_rows else y), labels.form

    def learn_labels(
        self, classes: NDArray, rows: PathRowFormat | None
    ) -> tuple[LabelIndex, NDArray[np.int32]]:
        known = PathTargets(classes, rows)
        tree = open_taxonomy(self.taxonomy, known, self.separator)
        nodes = find_nodes(tree, classes, self.taxonomy, known.is_rows)
        is_label = tree.is_leaf if self.labels == "leaves" else np.ones(tree.n_nodes, bool)
        inner = nodes[~is_label[nodes]]
        if inner.size:
            raise InputError(
                f"expected leaves of the taxonomy as labels, but {shorten(tree.names[inner[0]])} is an inner node; "
                "labels='nodes' lets items stop there"
            )
        rows = None if rows is None else rows.of_tree(tree.names, self.separator)
        return LabelIndex.of_tree(tree, np.flatnonzero(is_label), rows, self.separator), nodes

    def model_of_file(self, file: ModelFile) -> ItemModel:
        model = super().model_of_file(file)
        self.taxonomy = model.taxonomy
        return model

"""Weights of a chain by the names of labels and attributes: what the formats of other CRF tools hold, and `ChainCRF`.

The order of labels and attributes is the file's: it decides ties between labels, and the same weights written again
give the same file.

Shapes: K labels, F attributes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from crfqn.data.templates.patterns.source import TemplateSource
from crfqn.errors import InputError, ModelFileError, warn_caller
from crfqn.estimators.sequence.chain import ChainCRF
from crfqn.estimators.storage.content import FEATURE, FROM, STATE, TO
from crfqn.estimators.storage.persistence import restore
from crfqn.estimators.storage.saving import SUMMARY, TRACE
from crfqn.model_file import ModelFile
from crfqn.result import Status

IMPORTED_FROM = "imported_from"  # name of the format in `extra_`
FORBIDDEN = (
    -1e6
)  # in nats: the weight of a transition that a rule forbids, whose probability exp() rounds to 0
TEMPLATES = (
    "templates"  # in `extra_`: the patterns that make the attributes, in the tool that a model comes from
)


class SparseTable(NamedTuple):
    """Non-zero entries of a table: two arrays of int64 and one of float64, of one length."""

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: NDArray[np.float64]


class ChainWeights(NamedTuple):
    """Weights of a chain.

    Attributes
    ----------
    labels : list of K str
    attributes : list of F str
    state : SparseTable, attributes x labels
    transition : SparseTable, labels x labels, from x to
    """

    labels: list[str]
    attributes: list[str]
    state: SparseTable
    transition: SparseTable


def chain_estimator(
    weights: ChainWeights, path: str, extra: dict[str, Any], source: TemplateSource | None = None
) -> ChainCRF:
    """Return a fitted ChainCRF of the weights, labels and features in their order; `extra` becomes its `extra_`.

    source : templates that make the attributes of columns of tokens, which the model takes then

    Raises
    ------
    ModelFileError
        Names that come twice, numbers of names that are not there, weights that are not finite: names the path.
    """
    node, edge = weights.state, weights.transition
    arrays: dict[str, NDArray] = {
        f"node_{STATE}": node.columns,
        f"node_{FEATURE}": node.rows,
        "node_weight": node.values,
        f"edge_{FROM}": edge.rows,
        f"edge_{TO}": edge.columns,
        "edge_weight": edge.values,
        "trace": np.empty((0, len(TRACE))),
    }
    strings = {"classes": weights.labels, "feature_names": weights.attributes}
    metadata = {
        "n_features": len(weights.attributes),
        "n_classes": len(weights.labels),
        "settings": ChainCRF(l1=0.0)._settings(),  # of the training nothing is known
        "result": dict.fromkeys(SUMMARY)
        | {"status": Status.IMPORTED.name, "n_iter": 0, "n_proved_zeros": None},
        "extra": extra,
    }
    if source is not None:
        metadata["templates"] = source.as_dict()
    _check_once(weights, path)
    return restore(ModelFile(ChainCRF.KIND, arrays, strings, metadata, path))


def chain_weights(model: Any, format_name: str, feature_names: list[str] | None = None) -> ChainWeights:
    """Return the weights of a fitted ChainCRF: labels and features in its order, features without a weight left out.

    Transitions that the model's rules forbid get the weight FORBIDDEN.

    Parameters
    ----------
    model : ChainCRF
    format_name : str
        What they are for, for messages.
    feature_names : list of str, optional
        Names of the columns, for a model that was trained on matrices without names.

    Raises
    ------
    InputError
        Another kind of model, labels that are no strings, features without names.
    sklearn.exceptions.NotFittedError
    """
    if not isinstance(model, ChainCRF):
        raise InputError(f"{format_name}: expected a ChainCRF, got a {type(model).__name__}")
    check_is_fitted(model)
    if model.classes_.dtype.kind not in "UO":
        raise InputError(f"{format_name}: expected labels that are strings, got {model.classes_.dtype}")
    names = _feature_names(model, format_name, feature_names)
    node, edge = model.coef_.tocoo(), _edges(model, format_name)
    stays, edge_stays = node.data != 0, edge.data != 0
    used, rows = np.unique(node.col[stays], return_inverse=True)
    return ChainWeights(
        [str(label) for label in model.classes_],
        [names[column] for column in used.tolist()],
        _sorted_table(rows, node.row[stays], node.data[stays]),
        _sorted_table(edge.row[edge_stays], edge.col[edge_stays], edge.data[edge_stays]),
    )


def _edges(model: ChainCRF, format_name: str) -> Any:
    """Return the weights of transitions, FORBIDDEN where a rule forbids one; warns of rules on the ends of items."""
    rules = model.rules_
    if rules is None:
        return model.edge_coef_.tocoo()
    if not (rules.start.all() and rules.end.all()):
        warn_caller(
            f"{format_name}: rules on the first and the last labels of items are left out: the format has none",
            UserWarning,
        )
    return scipy.sparse.coo_array(np.where(rules.transitions, model.edge_coef_.toarray(), FORBIDDEN))


def _feature_names(model: ChainCRF, format_name: str, given: list[str] | None) -> list[str]:
    if model.vocabulary_ is not None:
        if given is not None:
            raise InputError("feature_names: expected None, as the model has names of its own")
        return model.vocabulary_.names
    if given is None:
        raise InputError(
            f"{format_name}: the model was trained on matrices without names; feature_names= gives its "
            f"{model.n_features_in_} columns names"
        )
    if len(given) != model.n_features_in_ or len(set(given)) != len(given):
        raise InputError(
            f"feature_names: expected {model.n_features_in_} different names, one for each column, "
            f"got {len(set(given))}"
        )
    return [str(name) for name in given]


def _sorted_table(rows: NDArray, columns: NDArray, values: NDArray) -> SparseTable:
    order = np.lexsort((columns, rows))
    return SparseTable(rows[order].astype(np.int64), columns[order].astype(np.int64), values[order])


def _check_once(weights: ChainWeights, path: str) -> None:
    """Raise ModelFileError where a pair has two weights, which a sparse matrix would add up."""
    for table, width in ((weights.state, len(weights.labels)), (weights.transition, len(weights.labels))):
        if np.unique(table.rows * width + table.columns).size < table.rows.size:
            raise ModelFileError(f"{path}: the file is damaged: a pair of names has two weights")

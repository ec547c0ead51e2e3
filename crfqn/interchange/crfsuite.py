"""CRFsuite's binary model files (`model/crfsuite_model.py`) as estimators, and estimators as such files."""

from __future__ import annotations

import os

import numpy as np
from sklearn.utils.validation import check_is_fitted

from crfqn.atomic_write import replace_file
from crfqn.data.attributes import ATTRIBUTE_SEPARATOR
from crfqn.data.hybrid import refuse_dense
from crfqn.data.model_file import ModelSource
from crfqn.data.vocabulary import UNKNOWN_VALUE, Vocabulary
from crfqn.errors import InputError, warn_caller
from crfqn.estimators.chain import ChainCRF
from crfqn.estimators.estimator import Estimator
from crfqn.estimators.storage import restore
from crfqn.messages import shorten
from crfqn.model.content import MAX_WEIGHT, Entries
from crfqn.model.crfsuite_model import FORMAT_NAME, encode_model, read_crfsuite
from crfqn.model.sequences import SequenceModel

# In nats, the weight of a transition that a rule forbids: larger in size than any sum of scores, but sums of it are
# finite, as CRFsuite's search for the best labels requires.
FORBIDDEN_WEIGHT = -MAX_WEIGHT


def read(path: ModelSource) -> ChainCRF:
    """Read a CRFsuite model: return a fitted ChainCRF that predicts the same.

    Labels and features are in the order of the file. Items are those of python-crfsuite: lists of attribute names, or
    of dicts, which give the same attributes as there (`crfqn.compat.attributes`).

    Raises
    ------
    ModelFileError
        The file is not a complete CRFsuite model.
    """
    return restore(read_crfsuite(path))


def write(
    model: ChainCRF, path: str | os.PathLike[str], feature_names: list[str] | None = None, lossy: bool = False
) -> None:
    """Write a ChainCRF as a CRFsuite model, atomically.

    python-crfsuite finds its features in the dicts and lists of strings that the model was trained on. For a model of
    `Templates` it expects the names of the features, as the format has no templates.

    Parameters
    ----------
    model : fitted ChainCRF
    path : str or path-like
    feature_names : list of str, optional
        Names of the columns of a model that was trained on matrices without names.
    lossy : bool, default False
        Leave out, with a warning, what the format cannot store: rules on first and last labels, `once`, and the
        naming of attributes if it is unknown.

    Raises
    ------
    InputError
        Another kind of model, labels that are not strings, features without names, names that the format cannot store
        or that two features share, anything lost unless `lossy`, a model of more than 4 GB.
    ModelFileError
        The path cannot be written.
    """
    replace_file(path, encode_model(*named_weights(model, feature_names, lossy)))


def named_weights(
    model: ChainCRF, feature_names: list[str] | None = None, lossy: bool = False
) -> tuple[list[str], list[str], Entries, Entries]:
    """Return labels, attributes and their weights for `encode_model`, in the model's order, without attributes that
    have no weight; forbidden transitions have the weight FORBIDDEN_WEIGHT. Parameters and errors as of `write`."""
    if not isinstance(model, ChainCRF):
        raise InputError(f"{FORMAT_NAME}: expected a ChainCRF, got a {type(model).__name__}")
    check_is_fitted(model)
    refuse_dense(model, FORMAT_NAME)
    refuse_bigram_weights(model, FORMAT_NAME)
    fitted: SequenceModel = model.current_model
    if fitted.classes_.dtype.kind not in "UO":
        raise InputError(f"{FORMAT_NAME}: expected labels that are strings, got {fitted.classes_.dtype}")
    vocabulary = _vocabulary(fitted, feature_names)
    entries = fitted.weights.entries()
    weights, states, columns = (array[entries.values != 0] for array in entries)
    used, rows = np.unique(columns, return_inverse=True)
    lost = []
    if fitted.rules_ is not None and not (fitted.rules_.start.all() and fitted.rules_.end.all()):
        lost.append("rules on the first and the last labels of items")
    if fitted.once:
        lost.append(
            f"the rule that labels form at most one run in an item, once={shorten(list(fitted.once))}"
        )
    attributes: dict[str, str] = {}  # and the names of their features
    unknown: list[str] = []
    for name, start in ((vocabulary.names[f], vocabulary.value_starts[f]) for f in used.tolist()):
        if start == UNKNOWN_VALUE and "=" in name:
            unknown.append(name)
        attribute = f"{name[: start - 1]}{ATTRIBUTE_SEPARATOR}{name[start:]}" if start > 0 else name
        if attributes.setdefault(attribute, name) is not name:
            raise InputError(
                f"{FORMAT_NAME}: the features {attributes[attribute]!r:.60} and {name!r:.60} both have the name "
                f"{attribute!r:.60} there: train with other names"
            )
    if unknown:
        lost.append(
            f"the origin of {len(unknown)} names of features, {unknown[0]!r:.60} the first, which may be a dict's name "
            "and value or a string: names there distinguish them"
        )
    if lost and not lossy:
        raise InputError(
            f"{FORMAT_NAME}: the format has no place for {' and '.join(lost)}; lossy=True (--lossy) goes without"
        )
    if lost:
        warn_caller(f"{FORMAT_NAME}: lost: {' and '.join(lost)}")
    edges, temperature = fitted.edges, fitted.temperature  # weights divided by it give the same probabilities
    is_edge = edges.values != 0
    columns = edges.columns[is_edge].astype(np.int64)
    transitions = Entries(edges.values[is_edge] / temperature, edges.rows[is_edge], columns)
    if fitted.rules_ is not None:
        table = np.where(fitted.rules_.transitions, edges.to_dense() / temperature, FORBIDDEN_WEIGHT)
        first, second = np.nonzero(table)
        transitions = Entries(table[first, second], first, second)
    nodes = Entries(weights / temperature, rows, states)
    return [*map(str, fitted.classes_)], [*attributes], nodes, transitions


def _vocabulary(model: SequenceModel, feature_names: list[str] | None) -> Vocabulary:
    """Return the names of the model's features, or those that the caller gives."""
    if model.vocabulary is not None:
        if feature_names is not None:
            raise InputError("feature_names: expected None, as the model has its own names")
        if model.vocabulary.is_hashed:
            raise InputError(f"{FORMAT_NAME}: expected features with names, got hashed ones, which have none")
        return model.vocabulary
    n_features = model.n_features_in_
    if feature_names is None:
        raise InputError(
            f"{FORMAT_NAME}: the model was trained on matrices without names; feature_names= gives its {n_features} "
            "columns names"
        )
    if len(feature_names) != n_features or len(set(feature_names)) != n_features:
        raise InputError(
            f"feature_names: expected {n_features} different names, one for each column, got {len(set(feature_names))}"
        )
    return Vocabulary([*map(str, feature_names)])


def refuse_bigram_weights(model: Estimator, format_name: str) -> None:
    """Raise InputError for a model with weights of bigram features, which other formats do not have."""
    n_weights = model.bigram_coef_.nnz if hasattr(model, "bigram_coef_") else 0
    if n_weights:
        raise InputError(
            f"{format_name}: the format has no place for the {n_weights:,} weights of bigram features, and without "
            "them it would be another model: train it with unigram patterns, U01:%x[0,0] for B01:%x[0,0]"
        )

"""Weights of a chain by the names of labels and attributes: what the formats of other CRF tools hold, and `ChainCRF`.

The file's order of labels and attributes is kept: it decides ties, and the same weights give the same file again.
Shapes: K labels, F attributes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from sklearn.utils.validation import check_is_fitted

from crfqn.data.attributes import SEPARATOR
from crfqn.data.hybrid import refuse_dense
from crfqn.data.templates.vocabulary import TemplateSource, is_hashed
from crfqn.data.vocabulary import UNKNOWN_VALUE, Vocabulary
from crfqn.errors import InputError, warn_caller
from crfqn.estimators.bigrams import refuse_bigram_weights
from crfqn.estimators.chain import ChainCRF
from crfqn.estimators.storage import restore
from crfqn.model.chain_weights import ChainWeights, SparseTable
from crfqn.model.content import LARGEST_WEIGHT
from crfqn.model.results import SUMMARY, TRACE
from crfqn.result import Status
from crfqn.structures.transition_rules import TransitionRules

IMPORTED_FROM = "imported_from"  # name of the format in `extra_`
# In nats, the weight of a transition that a rule forbids: no sum of scores makes up for it, and sums of it are
# finite, as CRFsuite's search for the best labels needs them.
FORBIDDEN = -LARGEST_WEIGHT
# In `extra_`: the patterns that make the attributes, in the tool that a model comes from.
TEMPLATES = "templates"


def chain_estimator(
    weights: ChainWeights,
    path: str,
    extra: dict[str, Any],
    source: TemplateSource | None = None,
    naming: str | None = None,
) -> ChainCRF:
    """Return a fitted ChainCRF of the weights, labels and features in their order, `extra` being its `extra_`; it takes
    columns of tokens where the templates `source` make its attributes, dicts otherwise, by `naming`. ModelFileError,
    naming the path, for names that come twice or are not there, and bad weights."""
    file = weights.file(path, source, naming)
    file.arrays["trace"] = np.empty((0, len(TRACE)))
    file.metadata["settings"] = ChainCRF()._settings()  # of the training nothing is known
    file.metadata["extra"] = extra
    file.metadata["result"] = dict.fromkeys(SUMMARY) | {
        "status": Status.IMPORTED.name,
        "n_iter": 0,
        "n_proved_zeros": None,
    }
    return restore(file)


def chain_weights(
    model: Any, format_name: str, feature_names: list[str] | None = None, lossy: bool = False
) -> ChainWeights:
    """Return the weights of a fitted ChainCRF under the names that CRFsuite's bindings make of the same dicts, in the
    model's order, without features of no weight; forbidden transitions weigh FORBIDDEN.

    `feature_names` are for models trained on matrices without names; `lossy` leaves out, with a warning, what the
    format cannot hold: rules on first and last labels, and how names are made if unknown. InputError for what would be
    lost otherwise, another kind of model, labels that are no strings, features without names or of one name there.
    """
    if not isinstance(model, ChainCRF):
        raise InputError(f"{format_name}: expected a ChainCRF, got a {type(model).__name__}")
    check_is_fitted(model)
    refuse_dense(model, format_name)
    refuse_bigram_weights(model, format_name)
    if model.classes_.dtype.kind not in "UO":
        raise InputError(f"{format_name}: expected labels that are strings, got {model.classes_.dtype}")
    vocabulary = _vocabulary(model, format_name, feature_names)
    node = model.coef_.tocoo()
    stays = node.data != 0
    used, rows = np.unique(node.col[stays], return_inverse=True)
    lost = _lost(model.rules_, vocabulary, used)
    if lost and not lossy:
        raise InputError(
            f"{format_name}: the format has no place for {' and '.join(lost)}; lossy=True (--lossy) goes without"
        )
    if lost:
        warn_caller(f"{format_name}: lost: {' and '.join(lost)}", UserWarning)
    edge = model.edge_coef_.tocoo()
    if model.rules_ is not None:
        edge = coo_array(np.where(model.rules_.transitions, edge.toarray(), FORBIDDEN))
    is_edge = edge.data != 0
    return ChainWeights(
        [str(label) for label in model.classes_],
        _attribute_names(vocabulary, used, format_name),
        _sorted_table(rows, node.row[stays], node.data[stays]),
        _sorted_table(edge.row[is_edge], edge.col[is_edge], edge.data[is_edge]),
    )


def _lost(rules: TransitionRules | None, vocabulary: Vocabulary, used: NDArray) -> list[str]:
    """Return in words what neither weights nor names hold."""
    found = []
    if rules is not None and not (rules.start.all() and rules.end.all()):
        found.append("rules on the first and the last labels of items")
    names = (vocabulary.names[f] for f in used[vocabulary.value_starts[used] == UNKNOWN_VALUE])
    unknown = [name for name in names if "=" in name]
    if unknown:
        found.append(
            f"the origin of {len(unknown)} names of features, {unknown[0]!r:.60} the first, which may be a dict's name "
            "and value or a string: names there tell them apart"
        )
    return found


def _attribute_names(vocabulary: Vocabulary, used: NDArray, format_name: str) -> list[str]:
    """Return the names that CRFsuite's bindings have for some features: `name:value` for `name=value` of dicts."""
    names: dict[str, str] = {}
    for name, start in ((vocabulary.names[f], vocabulary.value_starts[f]) for f in used.tolist()):
        theirs = f"{name[: start - 1]}{SEPARATOR}{name[start:]}" if start > 0 else name
        if names.setdefault(theirs, name) is not name:
            raise InputError(
                f"{format_name}: the features {names[theirs]!r:.60} and {name!r:.60} both have the name {theirs!r:.60} "
                "there: train with other names"
            )
    return [*names]


def _vocabulary(model: ChainCRF, format_name: str, given: list[str] | None) -> Vocabulary:
    """Return the names of the model's features, or those given."""
    if model.vocabulary_ is not None:
        if given is not None:
            raise InputError("feature_names: expected None, as the model has names of its own")
        if is_hashed(model.vocabulary_):
            raise InputError(f"{format_name}: expected features with names, got hashed ones, which have none")
        return model.vocabulary_
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
    return Vocabulary([str(name) for name in given])


def _sorted_table(rows: NDArray, columns: NDArray, values: NDArray) -> SparseTable:
    order = np.lexsort((columns, rows))
    return SparseTable(rows[order].astype(np.int64), columns[order].astype(np.int64), values[order])

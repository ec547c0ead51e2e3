"""Which labels and which spans are taken for which others.

Shapes: K labels or types.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.data.labels.schemes import Scheme, find_scheme
from crfqn.metrics.spans.encoding import encode_pair
from crfqn.metrics.spans.finding import read_spans, same_borders

NO_SPAN = "(none)"


class Confusion(NamedTuple):
    """Numbers of cases by what was given (row) and what was predicted (column).

    Attributes
    ----------
    labels : list of K
    counts : int64 (K, K)
    """

    labels: list[Any]
    counts: NDArray[np.int64]


def token_confusion(y_true: Any, y_pred: Any) -> Confusion:
    """Count positions by their given and their predicted label; of labels that occur, sorted.

    Parameters and errors as in `span_counts`; labels may be any that can be sorted.
    """
    codes = encode_pair(y_true, y_pred)
    order = sorted(range(len(codes.labels)), key=codes.labels.__getitem__)
    place = np.argsort(order)
    return Confusion(
        [codes.labels[n] for n in order], _counted(place[codes.true], place[codes.predicted], len(order))
    )


def span_confusion(y_true: Any, y_pred: Any, *, scheme: str | Scheme, strict: bool = True) -> Confusion:
    """Count spans by given and predicted type, where both have the same first and last position.

    Parameters and errors as in `span_counts`. The last row and column, "(none)", are predicted spans at borders where
    none is given, and given spans at borders where none is predicted.
    """
    true, predicted, types = read_spans(encode_pair(y_true, y_pred), find_scheme(scheme), strict)
    ours, theirs = same_borders(true, predicted)
    missed, extra = np.delete(true.types, ours), np.delete(predicted.types, theirs)
    nothing = len(types)
    rows = np.concatenate([true.types[ours], missed, np.full(extra.size, nothing)])
    columns = np.concatenate([predicted.types[theirs], np.full(missed.size, nothing), extra])
    return Confusion([*types, NO_SPAN], _counted(rows, columns, nothing + 1))


def _counted(rows: NDArray[Any], columns: NDArray[Any], n: int) -> NDArray[np.int64]:
    return np.bincount(rows * n + columns, minlength=n * n).reshape(n, n)

"""Items as runs of consecutive positions, the weights of items in the loss, and the largest value of a feature.

Shapes: I items, N positions, K classes; `offsets` (I + 1,) cut the positions into items.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crfqn.data.inputs import ClassWeight, ItemsLike, SampleWeight, SparseMatrix
from crfqn.errors import InputError
from crfqn.messages import describe, hint, place_of, shorten

LARGEST_ID = 2**31 - 2  # of a column, counted from 0: the number of columns fits 32 bits
LARGEST_VALUE = 1e12  # of its size; sums of squares neither overflow nor lose all digits


class Items:
    """Base of lists of items that are stored by position: item i has the positions offsets[i] ... offsets[i + 1] - 1.

    Classes that can be indexed define `_item(i)`, which returns one item, and `_take(items)`, which returns a list of
    the items with these numbers.
    """

    offsets: NDArray[np.int64]
    _item: Callable[[int], Any]
    _take: Callable[[NDArray[np.integer]], Any]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of positions of each item, shape (I,)."""
        return np.diff(self.offsets)

    @property
    def n_positions(self) -> int:
        """Number of positions of all items, N; if items have no positions, the number of items."""
        return int(self.offsets[-1])

    @property
    def shape(self) -> tuple[int]:
        """Number of items as (I,): scikit-learn counts and indexes samples by it."""
        return (len(self),)

    def __len__(self) -> int:
        return self.offsets.size - 1

    def __iter__(self) -> Iterator[Any]:
        return (self._item(i) for i in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        """Return one item (integer), or a list of some items (slice, integers, mask).

        `[key, ...]` is the same as `[key]`. Indices count from the end when negative and may repeat.

        Raises
        ------
        IndexError
            Out of range, a mask of another length, or a key of another kind.
        """
        n = len(self)
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:
            key = key[0]
        if isinstance(key, slice):
            return self._take(np.arange(n)[key])
        if isinstance(key, tuple) or key is None or isinstance(key, (bool, np.bool_, str)):
            raise IndexError(f"items are indexed by integers, slices, integer arrays or masks, got {key!r}")
        try:
            index = operator.index(key)
        except TypeError:
            pass
        else:
            if not -n <= index < n:
                raise IndexError(f"item {index} is out of range for {n} items")
            return self._item(index % n)
        chosen = np.asarray(key)
        if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "biu"):
            raise IndexError(
                "items are indexed by integers, slices, 1-D integer arrays or masks, "
                f"got shape {chosen.shape} and dtype {chosen.dtype}"
            )
        if chosen.dtype.kind == "b":
            if chosen.size != n:
                raise IndexError(f"a mask must have one entry for each of the {n} items, got {chosen.size}")
            return self._take(np.flatnonzero(chosen))
        items = chosen.astype(np.int64)
        is_outside = (items < -n) | (items >= n)
        if is_outside.any():
            raise IndexError(f"item {items[is_outside][0]} is out of range for {n} items")
        return self._take(np.where(items < 0, items + n, items))


class Handover:
    """Items for a single training, which frees them once it has its own store of their features, although callers'
    frames, such as those of scikit-learn's wrappers, still refer to this object."""

    def __init__(self, items: ItemsLike) -> None:
        self._items = [items]

    @staticmethod
    def release_argument(X: Any) -> Any:
        """Return the items and drop the reference to them; anything but a `Handover` unchanged."""
        return X._items.pop() if isinstance(X, Handover) else X


def check_offsets(offsets: ArrayLike, n_positions: int) -> NDArray[np.int64]:
    """Return `offsets` (I + 1,) as int64, checked to be integers from 0 to `n_positions` that never decrease."""
    cuts = np.asarray(offsets)
    if cuts.ndim != 1 or cuts.size == 0 or cuts.dtype.kind not in "iu":
        raise InputError(
            "offsets must be a 1-D array of n_items + 1 integers, "
            f"got shape {cuts.shape} and dtype {cuts.dtype}"
        )
    result = cuts.astype(np.int64)
    if result[0] != 0:
        raise InputError(f"offsets must start at 0, but offsets[0] is {cuts[0]}")
    falls = np.flatnonzero(result[1:] < result[:-1])
    if falls.size:
        i = int(falls[0])
        raise InputError(
            f"offsets must not decrease, but item {i} goes from offsets[{i}] = {cuts[i]} "
            f"to offsets[{i + 1}] = {cuts[i + 1]}"
        )
    if result[-1] != n_positions:
        raise InputError(f"offsets must end at the number of positions, {n_positions}, but end at {cuts[-1]}")
    return result


def check_not_empty(offsets: NDArray[np.int64]) -> None:
    """Raise InputError if there is no item, or an item without positions (the error names it)."""
    if offsets.size == 1:
        raise InputError("expected at least one item, got none")
    empty = np.flatnonzero(offsets[1:] == offsets[:-1])
    if empty.size:
        others = f" (and {empty.size - 1} more)" if empty.size > 1 else ""
        raise InputError(
            f"expected at least one position in every item, but {place_of(empty[0])}{others} is empty"
        )


def check_any_position(offsets: NDArray[np.int64]) -> None:
    """Raise InputError if there is no item, or no item has positions."""
    if offsets.size == 1:
        raise InputError("expected at least one item, got none")
    if not offsets[-1]:
        raise InputError(
            f"expected at least one position, but all items are empty ({offsets.size - 1} in number)"
        )


def locate(offsets: NDArray[np.int64], position: int) -> str:
    """Return the place of a position (a row of the matrix) in words: `item 3, position 7` (both from 0)."""
    item = int(np.searchsorted(offsets, position, side="right")) - 1
    return place_of(item, position - int(offsets[item]))


def positions_of(
    offsets: NDArray[np.int64], items: NDArray[np.integer]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of some items, and the offsets that cut them into these items, (items + 1,)."""
    lengths = np.diff(offsets)[items]
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return np.repeat(offsets[items] - starts[:-1], lengths) + np.arange(starts[-1]), starts


def wrong_value(name: str, value: object) -> str:
    """Return the message for a value that is not finite or too large; `name`: "feature 'a'"."""
    shown = shorten(value.item() if isinstance(value, np.generic) else value)
    return f"{name}: expected a finite number of at most {LARGEST_VALUE:g} in size, got {shown}"


def check_values(
    matrix: NDArray | SparseMatrix,
    place: Callable[[int], str],
    names: Sequence[str] | None = None,
    kind: str = "feature",
) -> None:
    """Raise InputError for the first number of an array or sparse matrix that is not finite or larger than
    LARGEST_VALUE, naming the place of its row, and its column by `names`, or as `kind` and number. O(entries)."""
    values = np.asarray(matrix.data) if hasattr(matrix, "tocsr") else matrix
    if values.dtype.kind == "f" and (values.flags.c_contiguous or values.flags.f_contiguous):
        flat = values.ravel("K")
        with np.errstate(over="ignore", invalid="ignore"):
            # One pass, which usually suffices; a BLAS product would start its threads.
            if np.einsum("i,i", flat, flat) <= LARGEST_VALUE**2:
                return
    if values.min(initial=0) >= -LARGEST_VALUE and values.max(initial=0) <= LARGEST_VALUE:
        return
    if hasattr(matrix, "tocsr"):
        entries = matrix.tocsr().tocoo()
        rows, columns, values = entries.row, entries.col, entries.data
    else:
        rows, columns = np.nonzero(~(np.abs(matrix) <= LARGEST_VALUE))
        values = matrix[rows, columns]
    wrong = np.flatnonzero(~(np.abs(values) <= LARGEST_VALUE))
    if wrong.size:
        row, column, value = rows[wrong[0]], int(columns[wrong[0]]), values[wrong[0]]
        name = f"{kind} {column if names is None else shorten(str(names[column]))}"
        raise InputError(f"{place(int(row))}: {wrong_value(name, value)}")


MAX_SHOWN_LABELS = 5  # labels in an error message


TEXT_HINT = "; crfqn.tokenize cuts a text into words, and Tagger.tag takes one"
WRAP_HINT = "; if this is one item, wrap it in a list: [item]"


def check_is_list_of_items(X: object, expected: str, hint_for_text: str = TEXT_HINT) -> None:
    """Raise InputError for anything but an iterable of items, with a hint for one item, a text or a data frame, whose
    rows are no items yet."""
    if (hasattr(X, "columns") or hasattr(X, "column_names")) and hasattr(X, "shape"):
        raise InputError(
            f"expected {expected}, got a data frame of shape {X.shape}: data = crfqn.readers.read(frame) makes "
            "items of its rows, data.inputs, with data.labels"
        )
    if isinstance(X, (str, bytes, Mapping)) or not isinstance(X, Iterable):
        hint = hint_for_text if isinstance(X, str) else wrap_hint(X)
        raise InputError(f"expected {expected}, got {describe(X)}{hint}")


def wrap_hint(item: object) -> str:
    """Return the advice for a value that is given instead of a list of positions, for messages."""
    return WRAP_HINT if isinstance(item, (str, bytes, Mapping)) else ""


def check_item_weights(sample_weight: SampleWeight, n_items: int) -> NDArray[np.float64] | None:
    """Return `sample_weight` as float64 (I,), None for None; InputError unless finite, >= 0 and not all zero."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, Real):
        sample_weight = np.full(n_items, sample_weight)
    try:
        weights = np.asarray(sample_weight)
    except ValueError:  # rows of several lengths
        raise InputError(
            f"sample_weight: expected {n_items} numbers, one an item, got arrays of several lengths"
        ) from None
    if weights.shape != (n_items,) or weights.dtype.kind not in "biuf":
        raise InputError(
            f"sample_weight: expected {n_items} numbers, one an item, "
            f"got shape {weights.shape} and dtype {weights.dtype}"
        )
    return _check_sizes(weights.astype(np.float64), place_of)


def _check_sizes(weights: NDArray[np.float64], place: Callable[[int], str]) -> NDArray[np.float64]:
    """Return weights; InputError, with the `place` of the first wrong one, unless finite, >= 0 and not all zero."""
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if wrong.size:
        raise InputError(
            f"sample_weight: expected finite numbers >= 0, got {weights[wrong[0]]} for {place(int(wrong[0]))}"
        )
    if not weights.any():
        raise InputError("sample_weight: expected at least one positive weight, got only zeros")
    return weights


def check_position_weights(
    sample_weight: SampleWeight, offsets: NDArray[np.int64]
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """Return the weights of items, float64 (I,), and of positions, (N,), of sequences: None if all are 1.

    `sample_weight` has a number or an array of numbers, one a position, for each item. Items whose positions all have
    the weight 0 have the weight 0 too. InputError as of `check_item_weights`.
    """
    n_items = offsets.size - 1
    if (
        not isinstance(sample_weight, (list, tuple, np.ndarray))
        or (isinstance(sample_weight, np.ndarray) and sample_weight.dtype.kind != "O")
        or not any(hasattr(item, "__len__") and not isinstance(item, str) for item in sample_weight)
    ):
        return check_item_weights(sample_weight, n_items), None
    if len(sample_weight) != n_items:
        raise InputError(f"sample_weight: expected weights of {n_items} items, got {len(sample_weight)}")
    weights = np.empty(offsets[-1])
    for i, (start, stop) in enumerate(pairwise(offsets.tolist())):
        item = np.asarray(sample_weight[i])
        if item.dtype.kind not in "biuf" or item.shape not in ((), (stop - start,)):
            raise InputError(
                f"sample_weight: {place_of(i)}: expected a number or {stop - start} numbers, one a position, "
                f"got shape {item.shape} and dtype {item.dtype}"
            )
        weights[start:stop] = item
    _check_sizes(weights, lambda position: locate(offsets, position))
    item_of = np.repeat(np.arange(n_items), np.diff(offsets))
    return (np.bincount(item_of, weights, n_items) > 0).astype(np.float64), weights


def item_weights(
    sample_weight: SampleWeight, class_weight: ClassWeight, classes: NDArray, codes: NDArray[np.int32]
) -> NDArray[np.float64] | None:
    """Return the items' weights, float64 (I,), None if all are 1: `sample_weight` times the weight of the class
    (`codes`); "balanced" gives equal totals to classes of positive weight. InputError for weights out of range and
    labels that do not occur."""
    weights = check_item_weights(sample_weight, codes.size)
    if class_weight is None:
        return weights
    factors = class_factors(class_weight, classes, np.bincount(codes, weights, classes.size))
    return check_any(factors[codes] if weights is None else weights * factors[codes])


def set_weights(
    sample_weight: SampleWeight, class_weight: ClassWeight, classes: NDArray, table: SparseMatrix
) -> NDArray[np.float64] | None:
    """Return the weights of items with label sets, (I,): `sample_weight` times the mean weight of the labels (1 for no
    label), equal to `item_weights` for one label each; `table` is a CSR array (I, K) of ones."""
    weights = check_item_weights(sample_weight, table.shape[0])
    if class_weight is None:
        return weights
    sample_weights = np.ones(table.shape[0]) if weights is None else weights
    factors = class_factors(class_weight, classes, sample_weights @ table)
    n_labels = np.diff(table.indptr)
    mean = np.where(n_labels > 0, table @ factors / np.maximum(n_labels, 1), 1.0)
    return check_any(sample_weights * mean)


def check_weighted_labels(class_weight: object, labels: Collection[Any]) -> None:
    """Raise InputError if `class_weight` has a label that no item has, unless it has all labels and more."""
    if not isinstance(class_weight, Mapping):
        return
    others = [label for label in class_weight if label not in labels]
    if others and any(label not in class_weight for label in labels):
        shown = ", ".join(map(shorten, islice(labels, MAX_SHOWN_LABELS)))
        raise InputError(
            f"class_weight: no item has the label {shorten(others[0])}; the labels are "
            f"{shown}{' ...' if len(labels) > MAX_SHOWN_LABELS else ''}{hint(others[0], labels)}"
        )


def class_factors(class_weight: Mapping | str, classes: NDArray, totals: NDArray) -> NDArray[np.float64]:
    """Return the weight of each class, (K,); totals : (K,), the summed weights of the items of each class."""
    if isinstance(class_weight, Mapping):
        labels = classes.tolist()
        check_weighted_labels(class_weight, labels)
        factors = np.array([class_weight.get(label, 1.0) for label in labels], np.float64)
        wrong = np.flatnonzero(~(np.isfinite(factors) & (factors >= 0)))
        if wrong.size:
            label = shorten(labels[wrong[0]])
            raise InputError(
                f"class_weight: expected finite numbers >= 0, got {factors[wrong[0]]} for label {label}"
            )
        return factors
    seen = totals > 0
    return np.where(seen, totals.sum() / (max(seen.sum(), 1) * np.where(seen, totals, 1.0)), 0.0)


def check_any(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weights; InputError if all of them are zero."""
    if not weights.any():
        raise InputError("class_weight: expected at least one item of positive weight, got none")
    return weights

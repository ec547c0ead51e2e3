"""Weights of the items in the loss, as `sample_weight` and `class_weight` give them. Shapes: I items, K classes."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight

from crfqn.errors import InputError
from crfqn.messages import shorten

MOST_SHOWN = 5  # labels in an error message


def check_item_weights(sample_weight: Any, n_items: int) -> NDArray[np.float64] | None:
    """Return `sample_weight` as float64 (I,), None for None; InputError unless finite, >= 0 and not all zero."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, Real):
        sample_weight = np.full(n_items, sample_weight)
    weights = np.asarray(sample_weight)
    if weights.shape != (n_items,) or weights.dtype.kind not in "biuf":
        raise InputError(
            f"sample_weight: expected {n_items} numbers, one an item, "
            f"got shape {weights.shape} and dtype {weights.dtype}"
        )
    weights = weights.astype(np.float64)
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if wrong.size:
        raise InputError(
            f"sample_weight: expected finite numbers >= 0, got {weights[wrong[0]]} for item {wrong[0]}"
        )
    if not weights.any():
        raise InputError("sample_weight: expected at least one positive weight, got only zeros")
    return weights


def check_class_weight(class_weight: Any) -> None:
    """Raise InputError unless the parameter `class_weight` is None, "balanced" or a dict label -> weight."""
    is_named = isinstance(class_weight, str) and class_weight == "balanced"
    if not (class_weight is None or is_named or isinstance(class_weight, Mapping)):
        raise InputError(
            f"class_weight: expected None, 'balanced' or a dict label -> weight, got {class_weight!r}"
        )


def item_weights(
    sample_weight: Any, class_weight: Mapping | str | None, classes: NDArray, codes: NDArray[np.int32]
) -> NDArray[np.float64] | None:
    """Return the weight of each item, float64 (I,): `sample_weight` times its class's weight; None where all are 1.

    codes : int32 (I,), the number of each item's class. "balanced" gives every class that has items of positive weight
    the same total weight. InputError for weights out of range, and for labels in `class_weight` that do not occur.
    """
    weights = check_item_weights(sample_weight, codes.size)
    if class_weight is None:
        return weights
    factors = class_factors(class_weight, classes, np.bincount(codes, weights, classes.size))
    return check_any(factors[codes] if weights is None else weights * factors[codes])


def set_weights(
    sample_weight: Any, class_weight: Mapping | str | None, classes: NDArray, table: Any
) -> NDArray[np.float64] | None:
    """Return the weight of each item with a label set, (I,): `sample_weight` times the mean weight of its labels.

    table : CSR array (I, K) of ones. Items without labels have the factor 1; with one label each it is `item_weights`.
    """
    weights = check_item_weights(sample_weight, table.shape[0])
    if class_weight is None:
        return weights
    own = np.ones(table.shape[0]) if weights is None else weights
    factors = class_factors(class_weight, classes, own @ table)
    n_labels = np.diff(table.indptr)
    mean = np.where(n_labels > 0, table @ factors / np.maximum(n_labels, 1), 1.0)
    return check_any(own * mean)


def class_factors(class_weight: Mapping | str, classes: NDArray, totals: NDArray) -> NDArray[np.float64]:
    """Return the weight of each class, (K,); totals : (K,), the summed weights of the items of each class."""
    if isinstance(class_weight, Mapping):
        labels = classes.tolist()
        others = [label for label in class_weight if label not in labels]
        if others and any(label not in class_weight for label in labels):  # complete ones may have more
            raise InputError(
                f"class_weight: no item has the label {shorten(others[0])}; the labels are "
                f"{', '.join(map(shorten, labels[:MOST_SHOWN]))}{' ...' if len(labels) > MOST_SHOWN else ''}"
            )
        factors = compute_class_weight(class_weight, classes=classes, y=classes)
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

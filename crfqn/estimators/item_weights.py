"""How often each item counts: weights of items as they are given, and those of their classes."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight

from crfqn.errors import InputError
from crfqn.wording import shorten

MOST_SHOWN = 5  # labels in an error message


def check_item_weights(sample_weight: Any, n_items: int) -> NDArray[np.float64] | None:
    """Weights as float64 (I,): finite, not negative, not all zero."""
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


def item_weights(
    sample_weight: Any, class_weight: Mapping | str | None, classes: NDArray, codes: NDArray[np.int32]
) -> NDArray[np.float64] | None:
    """The weight of each item, (I,): its own times that of its class; None where all are 1.

    "balanced" gives all classes that have items of positive weight the same total, that of all divided by their number.
    """
    weights = check_item_weights(sample_weight, codes.size)
    if class_weight is None:
        return weights
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
    else:
        totals = np.bincount(codes, weights, classes.size)
        seen = totals > 0
        factors = np.where(seen, totals.sum() / (seen.sum() * np.where(seen, totals, 1.0)), 0.0)
    product = factors[codes] if weights is None else weights * factors[codes]
    if not product.any():
        raise InputError("class_weight: expected at least one item of positive weight, got none")
    return product

"""Where a training may start: at the weights of another model, as far as it has the same labels and features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from crfqn.errors import InputError
from crfqn.estimators.items import ItemModel
from crfqn.estimators.label_space import TreeSpace
from crfqn.estimators.weights import Weights


def weights_from(model: Any, classes: NDArray, checked: ItemModel) -> Weights:
    """The weights of a fitted `model`, for a training over `classes` and the features of `checked`.

    Labels are met by name; features too where both have names, otherwise by their number, which has to be the same.
    What only one of the two has is left out, and starts from zero.

    Raises
    ------
    InputError
        For anything but a fitted model of items without a taxonomy, and for features that cannot be matched.
    """
    if not isinstance(model, ItemModel):
        raise InputError(
            f"start: expected a MulticlassClassifier, MultilabelRanker or MulticlassCRF, got {type(model).__name__}"
        )
    check_is_fitted(model)
    if isinstance(model._space, TreeSpace):
        raise InputError("start: expected a model with weights of its classes, got one of a taxonomy's nodes")
    n_columns = checked.n_features_in_ + bool(checked.fit_intercept)
    row_of, column_of = rows_of(model.classes_, classes), columns_of(model, checked)
    found = model.coef_.tocoo()
    rows, columns = row_of[found.row], column_of[found.col]
    values = found.data
    if checked.fit_intercept:
        rows = np.append(rows, row_of)
        columns = np.append(columns, np.full(row_of.size, n_columns - 1))
        values = np.append(values, model.intercept_)
    stays = (rows >= 0) & (columns >= 0) & (values != 0)
    coords = (rows * n_columns + columns)[stays]
    order = np.argsort(coords)
    return Weights(coords[order], values[stays][order])


def rows_of(old: NDArray, new: NDArray) -> NDArray[np.int64]:
    """The number among the new labels of each of the old ones, -1 for those that are gone."""
    return numbers_of(old.tolist(), new.tolist())


def columns_of(model: ItemModel, checked: ItemModel) -> NDArray[np.int64]:
    """The number among the new features of each of the old ones, -1 for those that are gone."""
    if hasattr(model, "feature_names_in_") and hasattr(checked, "feature_names_in_"):
        return numbers_of(model.feature_names_in_.tolist(), checked.feature_names_in_.tolist())
    if model.n_features_in_ != checked.n_features_in_:
        raise InputError(
            f"start: expected a model of {checked.n_features_in_} features, or names of features on both sides, "
            f"got one of {model.n_features_in_}"
        )
    return np.arange(model.n_features_in_)


def numbers_of(old: list, new: list) -> NDArray[np.int64]:
    number = dict(zip(new, range(len(new)), strict=True))
    return np.array([number.get(name, -1) for name in old], np.int64)

"""Thresholds that turn a ranking into a label set (section 4.7 of Blondel, Seki and Uehara 2013).

Two of the methods that they refer to. By item (Elisseeff and Weston 2001): each training item's best threshold, the one
that puts the fewest labels on the wrong side, is predicted from its scores by least squares. By label (SCut, as studied
by Fan and Lin 2007): for every label the threshold with the largest F1 over the items.

Shapes: I items, K labels; scores float64 (I, K), relevant bool (I, K), weights float64 (I,).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
HALF_MARGIN = (
    0.5  # beyond all scores: the loss wants relevant labels 1 above the others, and a threshold between
)
INDEPENDENT = 1e-10  # of the largest singular value; one is always missing
KINDS = ("item", "label")


class Thresholds(NamedTuple):
    """Thresholds t_ik = intercept_k + coef . s_i: label k of item i is relevant if its score s_ik is larger.

    coef : float64 (K,), intercept : float64 (K,)
    """

    coef: Vector
    intercept: Vector

    def exceeded(self, scores: Vector) -> NDArray[np.bool_]:
        """Return which labels are relevant, bool (I, K)."""
        return scores > (scores @ self.coef)[:, None] + self.intercept


def learn_thresholds(kind: str, scores: Vector, relevant: NDArray[np.bool_], weights: Vector) -> Thresholds:
    """Return the thresholds of one of the KINDS for these scores; O(I K log K), by label O(I K log I)."""
    return (
        item_thresholds(scores, relevant, weights)
        if kind == "item"
        else label_thresholds(scores, relevant, weights)
    )


def item_thresholds(scores: Vector, relevant: NDArray[np.bool_], weights: Vector) -> Thresholds:
    """Return the thresholds by item: weighted least squares of the items' best ones on their scores and a constant.

    The mean of an item's scores is taken off both sides first. A ranking does not depend on it, and under most
    penalties the scores of an item sum to 0, or to what rounding leaves of it.
    """
    n_items, n_labels = scores.shape
    mean = scores.mean(axis=1)
    root = np.sqrt(weights)
    design = root[:, None] * np.column_stack([scores - mean[:, None], np.ones(n_items)])
    best = root * (fewest_errors(scores, relevant) - mean)
    solution = np.linalg.lstsq(design, best, rcond=INDEPENDENT)[0]
    coef = solution[:-1] + (1.0 - solution[:-1].sum()) / n_labels
    return Thresholds(coef, np.full(n_labels, solution[-1]))


def label_thresholds(scores: Vector, relevant: NDArray[np.bool_], weights: Vector) -> Thresholds:
    """Return the thresholds by label: those with the largest F1 of each label over the items."""
    return Thresholds(np.zeros(scores.shape[1]), largest_f1(scores.T, relevant.T, weights))


def fewest_errors(scores: Vector, relevant: NDArray[np.bool_]) -> Vector:
    """Return the threshold of each row with the fewest scores on the wrong side, (rows,)."""
    ordered, is_relevant, _ = descending(scores, relevant)
    n_wrong_above = counts_above((~is_relevant).astype(np.float64))
    n_right_above = counts_above(is_relevant.astype(np.float64))
    n_relevant = n_right_above[:, -1:]
    return best_cuts(ordered, n_wrong_above + n_relevant - n_right_above)


def largest_f1(scores: Vector, relevant: NDArray[np.bool_], weights: Vector) -> Vector:
    """Return the threshold of each row with the largest F1 = 2 tp / (above + relevant); weights: of the columns."""
    ordered, is_relevant, order = descending(scores, relevant)
    counted = weights[order]
    above, right_above = counts_above(counted), counts_above(counted * is_relevant)
    both = above + right_above[:, -1:]
    return best_cuts(ordered, -2.0 * right_above / np.where(both > 0, both, 1.0))


def descending(
    scores: Vector, relevant: NDArray[np.bool_]
) -> tuple[Vector, NDArray[np.bool_], NDArray[np.intp]]:
    """Return the scores of each row in descending order, `relevant` in the same order, and the order."""
    order = np.argsort(-scores, axis=1, kind="stable")
    return np.take_along_axis(scores, order, axis=1), np.take_along_axis(relevant, order, axis=1), order


def counts_above(counted: Vector) -> Vector:
    """Return the sums of the first c of n entries of each row, c = 0 ... n, (rows, n + 1)."""
    return np.concatenate([np.zeros((len(counted), 1)), np.cumsum(counted, axis=1)], axis=1)


def best_cuts(ordered: Vector, costs: Vector) -> Vector:
    """Return for each row of n descending scores the threshold with the cheapest number of scores, 0 ... n, above it.

    costs : (rows, n + 1), by the number of scores above. The threshold is in the middle between two scores (Elisseeff
    and Weston's choice), half a margin outside of the first or last. Equal scores cannot be told apart; of equal costs
    the widest space between scores is taken, and the ends last.
    """
    gaps = -np.diff(ordered, axis=1)
    space = np.pad(gaps, ((0, 0), (1, 1)), constant_values=0.0)
    is_possible = np.pad(gaps > 0, ((0, 0), (1, 1)), constant_values=True)
    costs = np.where(is_possible, costs, np.inf)
    is_cheapest = costs <= costs.min(axis=1, keepdims=True)
    cut = np.where(is_cheapest, space, -1.0).argmax(axis=1)
    edges = np.concatenate(
        [ordered[:, :1] + 2 * HALF_MARGIN, ordered, ordered[:, -1:] - 2 * HALF_MARGIN], axis=1
    )
    row = np.arange(len(ordered))
    return 0.5 * (edges[row, cut] + edges[row, cut + 1])

"""Weights of a model for a page: the strongest features of each label, how sparse the labels are, transitions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from crfqn.report.subject import INTERCEPT, Subject

MOST_ROWS = 3000  # of a table: a browser sorts so many in a moment
MOST_TRANSITIONS = 500


class Weighted(NamedTuple):
    """Row of the table of features."""

    label: str
    feature: str
    weight: float


class Transition(NamedTuple):
    """Row of the table of transitions."""

    before: str
    after: str
    weight: float


class Density(NamedTuple):
    """Number of weights of one label or node, and the sum of their sizes."""

    label: str
    n_weights: int
    total: float


def strongest(subject: Subject, n_features: int) -> tuple[list[Weighted], int]:
    """Return the strongest features of each label or node, and how many of these have weights but are left out.

    Parameters
    ----------
    n_features : of each label, the largest in size

    Notes
    -----
    Labels come in the model's order; beyond MOST_ROWS those with few weights are left out.
    """
    counts = _counts(subject)
    heaviest = np.argsort(-counts, kind="stable")
    n_shown = int(np.searchsorted(np.cumsum(np.minimum(counts[heaviest], n_features)), MOST_ROWS, "right"))
    shown = np.sort(heaviest[: max(n_shown, 1)])
    rows = [entry for row in shown.tolist() for entry in _of_row(subject, row, n_features)]
    return rows, int(np.count_nonzero(counts)) - int(np.count_nonzero(counts[shown]))


def transitions(subject: Subject) -> list[Transition]:
    """Return the largest transitions, in size."""
    edges = subject.transitions.tocoo()
    order = np.argsort(-np.abs(edges.data), kind="stable")[:MOST_TRANSITIONS]
    names = subject.labels
    return [Transition(names[edges.row[i]], names[edges.col[i]], float(edges.data[i])) for i in order]


def densities(subject: Subject) -> list[Density]:
    """Return the number of weights of each label or node, the most first, at most MOST_ROWS."""
    weights: Any = subject.weights
    totals = np.asarray(abs(weights).sum(axis=1)).ravel()
    counts = _counts(subject)
    order = np.argsort(-counts, kind="stable")[:MOST_ROWS]
    return [Density(subject.rows[row], int(counts[row]), float(totals[row])) for row in order.tolist()]


def _counts(subject: Subject) -> Any:
    counts = np.diff(subject.weights.indptr)
    return counts if subject.intercepts is None else counts + (subject.intercepts != 0)


def _of_row(subject: Subject, row: int, n_features: int) -> list[Weighted]:
    weights = subject.weights
    span = slice(weights.indptr[row], weights.indptr[row + 1])
    columns, values = weights.indices[span], weights.data[span]
    if subject.intercepts is not None and subject.intercepts[row]:
        columns, values = np.append(columns, -1), np.append(values, subject.intercepts[row])
    order = np.argsort(-np.abs(values), kind="stable")[:n_features]
    label = subject.rows[row]
    return [
        Weighted(label, subject.name_of(column) if column >= 0 else INTERCEPT, value)
        for column, value in zip(columns[order].tolist(), values[order].tolist(), strict=True)
    ]

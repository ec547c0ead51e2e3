"""Explanations of predictions: the difference between two scores as a sum of terms, one a feature or transition.

For a sequence the two scores are those of the predicted labelling and of the best labelling that has the runner-up at
a position; for a single item they are those of the label and the runner-up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from heapq import merge
from itertools import islice
from typing import NamedTuple

import numpy as np

from crfqn.data.label_arrays import label_text
from crfqn.model.answers import plain_label

# Kinds of terms.
FEATURE_TERM, TRANSITION_TERM, DENSE_TERM, CONSTANT_TERM = "feature", "transition", "dense", "constant"


class Term(NamedTuple):
    """A term of the difference.

    position : in the sequence, None for a single item
    kind : "feature", "transition", "dense" or "constant"
    name : of the feature (also of a bigram feature), or its column; of a transition its two labels
    value : in nats
    """

    position: int | None
    kind: str
    name: Hashable
    value: float

    @property
    def text(self) -> str:
        """The name as text: a feature's name, `A -> B` for a transition, `dense 3` for a column."""
        if isinstance(self.name, tuple):
            return " -> ".join(map(label_text, self.name))
        return self.name if isinstance(self.name, str) else f"{self.kind} {self.name}"


class Explanation(NamedTuple):
    """A predicted label and the runner-up, with their probabilities (None for models without probabilities).

    difference : the score of the prediction minus the score with the runner-up, in nats; infinite, with the runner-up
    None, if no other label is possible
    terms, rest : the largest terms of this difference, and the sum of the others
    """

    label: Hashable
    probability: float | None
    runner_up: Hashable
    runner_up_probability: float | None
    difference: float
    terms: list[Term]
    rest: float

    def to_json(self) -> dict[str, object]:
        """Return the explanation as JSON values."""
        difference = self.difference if np.isfinite(self.difference) else None
        labels = {"label": plain_label(self.label), "runner_up": plain_label(self.runner_up)}
        terms = [term._asdict() for term in self.terms]
        return self._asdict() | labels | {"difference": difference, "terms": terms}


class TermSum(NamedTuple):
    """A sum of terms: its value in nats, the number of terms, and the largest of them in absolute value."""

    value: float = 0.0
    n_terms: int = 0
    largest: Sequence[Term] = ()

    def plus(self, other: TermSum, n: int | None) -> TermSum:
        """Return the sum of both, with the n largest terms (None: all)."""
        if not self.n_terms or not other.n_terms:
            return self if self.n_terms else other
        largest = merge(self.largest, other.largest, key=lambda term: -abs(term.value))
        return TermSum(self.value + other.value, self.n_terms + other.n_terms, [*islice(largest, n)])


def sum_terms(terms: Iterable[Term], n: int | None, temperature: float) -> TermSum:
    """Return the sum of terms divided by the temperature, with the n largest (None: all that are not 0). Terms of the
    same position, kind and name are added."""
    sums: dict[tuple[int | None, str, Hashable], float] = defaultdict(float)
    for position, kind, name, value in terms:
        sums[position, kind, name] += float(value) / temperature
    largest = sorted(
        (Term(*key, value) for key, value in sums.items() if value), key=lambda term: -abs(term.value)
    )
    return TermSum(sum((term.value for term in largest), 0.0), len(largest), largest[:n])


def explanation(
    label: Hashable,
    probability: float | None,
    runner_up: Hashable = None,
    runner_up_probability: float | None = None,
    terms: TermSum | None = None,
) -> Explanation:
    """Return the explanation by the terms of a difference; without terms that of the only possible label."""
    if terms is None:
        return Explanation(label, probability, None, None, float("inf"), [], 0.0)
    shown = [*terms.largest]
    rest = terms.value - sum(term.value for term in shown) if len(shown) < terms.n_terms else 0.0
    return Explanation(label, probability, runner_up, runner_up_probability, terms.value, shown, rest)

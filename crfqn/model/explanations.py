"""Why a label and not the next one: the features and transitions that the difference of two scores is the sum of.

Of a sequence the scores are those of two labellings: the predicted one, and the best one that has the runner-up at a
position. Of a single item they are those of two labels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from heapq import merge
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from crfqn.data.label_arrays import label_text
from crfqn.model.answers import plain_label

FEATURE, TRANSITION, DENSE, CONSTANT = "feature", "transition", "dense", "constant"  # kinds of terms


class Term(NamedTuple):
    """A part of the difference: where (the position in a sequence, None of a single item), the kind ("feature",
    "transition", "dense", "constant"), a feature's name (or column; of a pair of labels with a feature the feature), or
    the two labels of a transition, and the value in nats."""

    position: int | None
    kind: str
    name: Any
    value: float

    @property
    def text(self) -> str:
        """The name as text: a feature's, `A -> B` of a transition, `dense 3` of a column."""
        if self.kind == TRANSITION:
            return " -> ".join(map(label_text, self.name))
        return self.name if isinstance(self.name, str) else f"{self.kind} {self.name}"


class Explanation(NamedTuple):
    """A predicted label, its probability (None without probabilities) and those of the runner-up; the score of the
    prediction minus the score with the runner-up, in nats; the largest terms of this difference, and the sum of the
    others. Without any other possible label the runner-up is None, and the difference infinite."""

    label: Any
    probability: float | None
    runner_up: Any
    runner_up_probability: float | None
    difference: float
    terms: list[Term]
    rest: float

    def to_json(self) -> dict[str, Any]:
        """Return the explanation as JSON values."""
        difference = self.difference if np.isfinite(self.difference) else None
        labels = {"label": plain_label(self.label), "runner_up": plain_label(self.runner_up)}
        terms = [term._asdict() for term in self.terms]
        return self._asdict() | labels | {"difference": difference, "terms": terms}


class TermSum(NamedTuple):
    """A sum of terms: its value in nats, the number of terms, and the largest of them in size."""

    value: float = 0.0
    n_terms: int = 0
    largest: Sequence[Term] = ()

    def plus(self, other: TermSum, n: int | None) -> TermSum:
        """Return the sum of both, with the n largest terms (None: all)."""
        if not self.n_terms or not other.n_terms:
            return self if self.n_terms else other
        largest = merge(self.largest, other.largest, key=_by_size)
        return TermSum(self.value + other.value, self.n_terms + other.n_terms, [*islice(largest, n)])


def sum_terms(terms: Iterable[Term], n: int | None, temperature: float) -> TermSum:
    """Return the sum of terms divided by the temperature, those of one position, kind and name added up, with the n
    largest (None: all that are not 0)."""
    sums: dict[tuple[int | None, str, Any], float] = defaultdict(float)
    for *key, value in terms:
        sums[tuple(key)] += float(value) / temperature  # type: ignore[index]
    largest = sorted((Term(*key, value) for key, value in sums.items() if value), key=_by_size)
    return TermSum(sum((term.value for term in largest), 0.0), len(largest), largest[:n])


def _by_size(term: Term) -> float:
    return -abs(term.value)


def explanation(
    label: Any,
    probability: float | None,
    runner_up: Any = None,
    runner_up_probability: float | None = None,
    terms: TermSum | None = None,
) -> Explanation:
    """Return the explanation by the terms of a difference; without them that of a label that has no rival."""
    if terms is None:
        return Explanation(label, probability, None, None, float("inf"), [], 0.0)
    shown = [*terms.largest]
    rest = terms.value - sum(term.value for term in shown) if len(shown) < terms.n_terms else 0.0
    return Explanation(label, probability, runner_up, runner_up_probability, terms.value, shown, rest)

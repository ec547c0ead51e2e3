"""Why a label and not the next one: the features and transitions that the difference of two scores is the sum of.

Of a sequence the scores are those of two labellings: the predicted one, and the best one that has the runner-up at a
position. Of a single item they are those of two labels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from crfqn.data.labels import label_text
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


def explanation(
    label: Any,
    probability: float | None,
    runner_up: Any = None,
    runner_up_probability: float | None = None,
    terms: Iterable[Term] | None = None,
    n: int | None = None,
    temperature: float = 1.0,
) -> Explanation:
    """Return the explanation by the n largest terms in size (None: all that are not 0), divided by the temperature,
    those of one position, kind and name added up; without terms that of a label that has no rival."""
    if terms is None:
        return Explanation(label, probability, None, None, float("inf"), [], 0.0)
    sums: dict[tuple[int | None, str, Any], float] = defaultdict(float)
    for *key, value in terms:
        sums[tuple(key)] += float(value) / temperature  # type: ignore[index]
    largest = sorted(
        (Term(*key, value) for key, value in sums.items() if value), key=lambda term: -abs(term.value)
    )
    difference = sum((term.value for term in largest), 0.0)
    rest = 0.0 if n is None else sum((term.value for term in largest[n:]), 0.0)
    return Explanation(label, probability, runner_up, runner_up_probability, difference, largest[:n], rest)

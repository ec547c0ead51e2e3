"""The terms of the difference between the score of an item's predicted labelling and that of another one.

The best labelling with another label at a position differs from the predicted one from some position before it to some
position after it. Sums over the parts that such labellings share are kept, so that all T positions take time O(T).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.data.token_rows import Rows
from crfqn.model.explanations import DENSE_TERM, FEATURE_TERM, TRANSITION_TERM, Term, TermSum, sum_terms
from crfqn.structures.edge_layout import EdgeLayout
from crfqn.structures.item_chain import BestThrough

NO_TERMS = TermSum()


class PathDifferences:
    """Differences between the score of one item's predicted labelling and those of others.

    model : SequenceModel; rows : features of the positions of all items; dense : the dense block, (N, D), or None
    first : the item's first position; best : its predicted labelling; best_through : its best labellings through each
    state; n : number of terms to keep, None for all
    """

    def __init__(
        self,
        model: Any,
        rows: Rows,
        dense: Vector | None,
        first: int,
        best: Sequence[int],
        best_through: BestThrough,
        n: int | None,
    ) -> None:
        self._model, self._rows, self._dense, self._first, self._n = model, rows, dense, first, n
        self._edges, self._labels = model.edges.to_dense(), model.node_names
        self.best, self.best_through = best, best_through
        self._before: dict[tuple[int, int], TermSum] = {}
        self._after: dict[tuple[int, int], TermSum] = {}

    def through(self, t: int, state: int) -> TermSum:
        """Return the difference to the best labelling with a state at position t, for models without single runs."""
        before, after = self.best_through.before, self.best_through.after
        return self._half(self._before, before, -1, t, state).plus(
            self._half(self._after, after, 1, t, state), self._n
        )

    def along(self, path: Sequence[int]) -> TermSum:
        """Return the difference to a labelling."""
        terms = (
            term for s, state in enumerate(path) for term in self._terms(s, path[s - 1] if s else -1, state)
        )
        return sum_terms(terms, self._n, self._model.temperature)

    def _half(
        self,
        sums: dict[tuple[int, int], TermSum],
        next_state: NDArray[np.intp],
        step: int,
        t: int,
        state: int,
    ) -> TermSum:
        """Return the sum of the terms up to position t (step -1) or after it (step 1), as far as the labelling differs
        from the predicted one."""
        end = -1 if step < 0 else len(self.best) - 1
        steps: list[tuple[int, int, int]] = []
        while t != end and state != self.best[t] and (t, state) not in sums:
            other = int(next_state[t, state])
            steps.append((t, state, other))
            t, state = t + step, other
        total = sums.get((t, state), NO_TERMS)
        for t, state, other in reversed(steps):
            terms = self._terms(t, other, state) if step < 0 else self._terms(t + 1, state, other)
            total = sum_terms(terms, self._n, self._model.temperature).plus(total, self._n)
            sums[t, state] = total
        return total

    def _terms(self, s: int, before: int, here: int) -> Iterator[Term]:
        """Yield the terms of position s, and of the transition to it from the state `before`, -1 for none."""
        model, best = self._model, self.best
        if here != best[s]:
            for term in model.named_terms(self._rows, self._first + s, [best[s]], [here]):
                yield Term(s, FEATURE_TERM, *term)
            if self._dense is not None:
                for dense_term in model.dense_terms(self._dense[self._first + s], [best[s]], [here]):
                    yield Term(s, DENSE_TERM, *dense_term)
        if s == 0 or (before, here) == (best[s - 1], best[s]):
            return
        labels = self._labels
        for sign, j, k in ((1.0, best[s - 1], best[s]), (-1.0, before, here)):
            yield Term(s, TRANSITION_TERM, (labels[j], labels[k]), sign * float(self._edges[j, k]))
            if model.bigrams is not None:
                values, pairs, features = model.bigrams.terms(self._rows, self._first + s)
                is_pair = pairs == int(EdgeLayout(len(labels)).numbers(j, k))
                pair_values = (sign * values[is_pair]).tolist()
                for column, value in zip(features[is_pair].tolist(), pair_values, strict=True):
                    yield Term(s, FEATURE_TERM, model.feature_name(column), value)

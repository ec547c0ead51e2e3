"""Exact inference over chains of a few items in numpy: for a sentence, calls of kernels cost more than the operations.

Results equal those of the kernels over many items, of Viterbi bit by bit: ties go to the lower last state, and then to
the lower state before. Edges (K, K) in nats; -inf forbids. Scores of an item are those of its nodes, (T, K), or with
bigram features (T, K + K K): then row t ends with the additions to the edges from position t - 1 to t. T positions, K
states, n labellings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise, repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.errors import InputError
from crfqn.structures.transition_rules import TransitionRules
from crfqn.time_limit import check_time

LARGEST_BYTES = 8e9  # of the lists of one item, and of the labellings of all
BYTES = 8  # of a list's entry: the state before and its rank
LARGEST = float(np.finfo(np.float64).max)
TOGETHER = 1 << 16  # scores of items that are labelled together: what a processor's cache holds
MANY, FEW_STATES = 100, 32  # from so many items of so few states on, arrays have the items last
FEW_NUMBERS = 2000  # up to so many numbers a stable sort of all is the fastest way to the largest
LARGEST_RANGE = 600.0  # exp(-600) is far from the smallest normal number, even after a product


class BestPath(NamedTuple):
    """The best labelling: states, and its score, -inf if the rules allow none."""

    states: list[int]
    score: float


class BestThrough(NamedTuple):
    """The best labellings of an item through each state at each position: their scores, float64 (T, K), -inf if
    there is none, and their states at the positions before and after, (T, K)."""

    scores: Vector
    before: NDArray[np.intp]
    behind: NDArray[np.intp]

    def path(self, t: int, state: int) -> list[int]:
        """Return the best labelling through a state at position t."""
        states = [state]
        for s in range(t, 0, -1):
            states.append(int(self.before[s, states[-1]]))
        states.reverse()
        for s in range(t, len(self.scores) - 1):
            states.append(int(self.behind[s, states[-1]]))
        return states


class NumpyChain:
    """Chains over K states with the same edges, and additions of each item to them, within `rules` if given."""

    def __init__(self, edges: Vector, rules: TransitionRules | None = None) -> None:
        self.n_states = len(edges)
        self.rules = None if rules is None or rules.allows_everything else rules
        self.edges = np.ascontiguousarray(edges if self.rules is None else self.rules.on_edges(edges))
        self._to = np.ascontiguousarray(self.edges.T)
        self._largest_edge = max(float(self.edges.max()), -LARGEST)  # also where all are forbidden
        self._edge_range = self._largest_edge - float(self.edges.min())
        self._factors = np.exp(self.edges - self._largest_edge)

    def masked_scores(self, scores: Vector, allowed: NDArray[np.bool_] | None = None) -> Vector:
        """Return the scores of an item with -inf where the rules, or `allowed` (T, K), forbid a state."""
        if allowed is not None or (self.rules is not None and len(scores)):
            scores = scores.copy()
        nodes = self._nodes(scores)
        if self.rules is not None and len(scores):
            nodes[0, ~self.rules.start] = -np.inf
            nodes[-1, ~self.rules.end] = -np.inf
        if allowed is not None:
            nodes[~allowed] = -np.inf
        return scores

    def best(self, items: Sequence[Vector]) -> list[BestPath]:
        """Return the best labelling of each item, given `ruled` scores: O(T K^2), about 3 us per position for one item;
        a tenth of this for many with the same edges, computed together position by position, the longest first."""
        if len(items) == 1 or (items and not self._has_same_edges(items[0])):
            return [*map(self._best_alone, items)]
        paths = [BestPath([], 0.0)] * len(items)
        order = sorted((i for i, scores in enumerate(items) if len(scores)), key=lambda i: -len(items[i]))
        has_few_states = self.n_states <= FEW_STATES
        largest = 2 * TOGETHER if has_few_states else TOGETHER
        while order:
            n = max(1, largest // (self.n_states * max(self.n_states, len(items[order[0]]))))
            together, order = order[:n], order[n:]
            find = self._best_of_many if has_few_states and len(together) >= MANY else self._best_together
            for i, path in zip(together, find([items[i] for i in together]), strict=True):
                paths[i] = path
        return paths

    def _best_alone(self, scores: Vector) -> BestPath:
        """Return the best labelling of one item, faster than by the methods for several."""
        if not len(scores):
            return BestPath([], 0.0)
        nodes = self._nodes(scores)
        steps = [*best_steps(nodes, self._leading(scores))]
        delta = steps[-1][1] if steps else nodes[0]
        state = int(delta.argmax())
        states, score = [state], float(delta[state])
        for before, _ in reversed(steps):
            state = before.item(state)
            states.append(state)
        states.reverse()
        return BestPath(states, score)

    def _best_together(self, items: list[Vector]) -> list[BestPath]:
        """Return the best labelling of each item; lengths must not increase."""
        n, n_states, lengths = len(items), self.n_states, [*map(len, items)]
        n_at = [*_longer_than(lengths), 0]
        rows = np.empty((lengths[0], n, n_states))
        for i, scores in enumerate(items):
            rows[: lengths[i], i] = scores
        steps = [*best_steps([rows[t, :m] for t, m in enumerate(n_at[:-1])], repeat(self._to))]
        states, score = np.empty((lengths[0], n), np.intp), np.empty(n)
        firsts = np.arange(0, n * n_states, n_states)
        for t in range(len(steps), -1, -1):
            m = n_at[t + 1]
            if m < n_at[t]:
                ends = (steps[t - 1][1] if t else rows[0])[m : n_at[t]]  # of the items that end here
                states[t, m : n_at[t]], score[m : n_at[t]] = ends.argmax(1), ends.max(1)
            if m:
                states[t, :m] = steps[t][0].reshape(-1)[firsts[:m] + states[t + 1, :m]]
        rows_of_items = zip(states.T.tolist(), lengths, score.tolist(), strict=True)
        return [BestPath(path[:length], best) for path, length, best in rows_of_items]

    def _best_of_many(self, items: list[Vector]) -> list[BestPath]:
        """Return what `_best_together` does, in two thirds of the time for many items with few states: arrays have the
        items last, and the states before are computed backwards, for the best labelling only."""
        lengths = [*map(len, items)]
        n_at = _longer_than(lengths)
        delta = np.zeros((len(n_at), self.n_states, len(items)))  # (T, K, items)
        for i, scores in enumerate(items):
            delta[: len(scores), :, i] = scores
        paths = np.empty((self.n_states, *delta.shape[1:]))
        for t, n in enumerate(n_at[1:], 1):
            paths = paths if paths.shape[2] == n else np.empty((self.n_states, self.n_states, n))
            np.add(self._to[:, :, None], delta[t - 1, :, :n], paths)
            delta[t, :, :n] += np.maximum.reduce(paths, 1)
        states, score = np.zeros((len(n_at) + 1, len(items)), np.intp), np.empty(len(items))
        n_behind = 0
        for t in range(len(n_at) - 1, -1, -1):
            ends = delta[t, :, : n_at[t]].T.copy()
            score[n_behind : n_at[t]] = ends[n_behind:].max(1)
            ends[:n_behind] += self._to[states[t + 1, :n_behind]]
            states[t, : n_at[t]] = ends.argmax(1)
            n_behind = n_at[t]
        rows = zip(states.T.tolist(), lengths, score.tolist(), strict=True)
        return [BestPath(path[:length], best) for path, length, best in rows]

    def n_best(self, scores: Vector, n: int) -> list[BestPath]:
        """Return the n best labellings, or all if there are fewer: ties as `kernels/viterbi.py`'s `best_paths`."""
        nodes = self._nodes(scores)
        length, n_states = nodes.shape
        check_n_best(n, length, n_states, length)
        if length == 0:
            return [BestPath([], 0.0)]
        values, back = nodes[0][:, None], []  # of a state's paths, falling
        for order, reached in best_steps(nodes[:, :, None], self._leading(scores), n):
            check_time()
            back.append((order.astype(np.int32), values.shape[1]))
            values = reached
        flat = values.reshape(-1)
        labellings = []
        for place in np.argsort(-flat, kind="stable")[:n].tolist():
            if flat[place] == -np.inf:
                break
            k, rank = divmod(place, values.shape[1])
            states = [k]
            for order, n_before in reversed(back):
                k, rank = divmod(order.item(k, rank), n_before)
                states.append(k)
            labellings.append(BestPath(states[::-1], float(flat[place])))
        return labellings

    def path_score(self, scores: Vector, states: list[int]) -> float:
        """Return the score of a labelling."""
        score = sum(self._nodes(scores)[np.arange(len(states)), states].tolist())
        pairs = enumerate(pairwise(states), start=1)
        return score + sum(float(self._table(scores, t)[j, k]) for t, (j, k) in pairs)

    def forward(self, scores: Vector) -> tuple[Vector, float]:
        """Return the forward messages, (T, K), each normalised to sum_k exp = 1, and log Z, in logarithms."""
        return self._messages(scores)

    def backward(self, scores: Vector) -> Vector:
        """Return the backward messages, (T, K), in logarithms, up to a number for each position."""
        return self._messages(scores, is_backward=True)[0]

    def _messages(self, scores: Vector, is_backward: bool = False) -> tuple[Vector, float]:
        """Run the recursion of forward-backward from the first position on, or back from the last; return `forward`'s
        or `backward`'s messages and log Z. Products of matrices replace logarithms of sums if nothing can
        underflow."""
        nodes, shift = self._nodes(scores), self._largest_if_narrow(scores)
        is_narrow = shift is not None
        messages = nodes.copy() if shift is None else np.exp(nodes - shift[:, None])
        reached, norms, before = np.full(nodes.shape, float(is_narrow)), np.empty(len(nodes)), None
        factors, direction = (self._factors.T, -1) if is_backward else (self._factors, 1)
        tables = iter(self._leading(scores, is_backward, is_from=True))
        total, log_total = np.add.reduce, np.logaddexp.reduce  # methods of arrays take a third longer
        for t, (message, here) in enumerate(zip(messages[::direction], reached[::direction], strict=True)):
            if is_narrow:
                if before is not None:
                    message *= before.dot(factors, here)
                norms[t] = norm = total(message)
                message /= norm
            else:
                if before is not None:
                    message += log_total(next(tables) + before[:, None], 0, None, here)
                norms[t] = norm = log_total(message)
                if norm == -np.inf:
                    return messages, -np.inf
                message -= norm
            before = message
        results = reached if is_backward else messages
        if shift is None:
            return results, float(norms.sum())
        n_edges = max(len(scores) - 1, 0)
        log_partition = float((shift[::direction] + np.log(norms)).sum()) + n_edges * self._largest_edge
        return np.log(results), log_partition

    def tables(self, scores: Vector) -> tuple[Vector, list[Vector]]:
        """Return the scores of an item's nodes, (T, K), and of the transitions to each position, T matrices (K, K)."""
        return self._nodes(scores), [self._table(scores, t) for t in range(len(scores))]

    def best_through(self, scores: Vector) -> BestThrough:
        """Return the best labellings through each state at each position: Viterbi's recursion from both ends, O(T
        K^2). Ties go to the lower state before, and to the lower state after."""
        nodes = self._nodes(scores)
        total, (before, behind) = nodes.copy(), np.zeros((2, *nodes.shape), np.intp)
        for t, (states, reached) in enumerate(best_steps(nodes, self._leading(scores)), 1):
            before[t], total[t] = states, total[t] + reached
        for t, (states, reached) in enumerate(best_steps(nodes[::-1], self._leading(scores, True)), 2):
            behind[-t], total[-t] = states, total[-t] + reached
        return BestThrough(total, before, behind)

    def _nodes(self, scores: Vector) -> Vector:
        """Return the scores of an item's nodes, (T, K)."""
        return scores[:, : self.n_states]

    def _has_same_edges(self, scores: Vector) -> bool:
        """Return whether an item adds nothing to the edges."""
        return scores.shape[1] == self.n_states

    def _table(self, scores: Vector, t: int) -> Vector:
        """Return the edge scores of an item from position t - 1 to t, (K, K)."""
        if self._has_same_edges(scores):
            return self.edges
        return self.edges + scores[t, self.n_states :].reshape(self.edges.shape)

    def _leading(self, scores: Vector, is_backward: bool = False, is_from: bool = False) -> Iterable[Vector]:
        """Return the edge scores that lead to each position of an item but the first, or backwards to each but the
        last, the last one first, (K, K) each: a row for each target state, or with `is_from` for each source state."""
        edges = self._to if is_backward == is_from else self.edges
        if self._has_same_edges(scores):
            return repeat(edges)
        added = scores[1:, self.n_states :].reshape(-1, *edges.shape)[:: -1 if is_backward else 1]
        return edges + (added.swapaxes(1, 2) if edges is self._to else added)

    def _largest_if_narrow(self, scores: Vector) -> Vector | None:
        """Return the largest score of each position, (T,), if no scaled message can underflow, as
        `kernels/forward_backward.py` has it, and nothing is forbidden."""
        if not self._has_same_edges(scores):
            return None
        largest, smallest = np.maximum.reduce(scores, 1), np.minimum.reduce(scores, 1)
        with np.errstate(invalid="ignore"):
            spread = np.maximum.reduce(largest - smallest, initial=0.0)
        return largest if spread + 2 * self._edge_range < LARGEST_RANGE else None

    def marginals(self, scores: Vector, forward: Vector) -> Vector:
        """Return P(y_t = k), (T, K), of an item that has a labelling, given its forward messages."""
        logs = forward + self.backward(scores)
        return np.exp(logs - np.logaddexp.reduce(logs, axis=1, keepdims=True))

    def pairs(self, scores: Vector) -> Vector:
        """Return P(y_t = j, y_{t+1} = k), (T - 1, K, K), of an item that has a labelling."""
        marginals, backward = self.marginals(scores, self.forward(scores)[0]), self.backward(scores)
        tables = np.empty((max(len(scores) - 1, 0), self.n_states, self.n_states))
        for t, table in enumerate(tables):
            np.multiply(marginals[t][:, None], self._steps(scores, backward, t + 1), out=table)
        return tables

    def span_probabilities(
        self, scores: Vector, spans: list[tuple[int, int]], types: Sequence[Any], continues: NDArray[np.bool_]
    ) -> list[float]:
        """Return P(an item has exactly this span) for each span start ... stop - 1, in order, given the fields of
        `chain_decoding.SpanRules`: the types of the spans' states bool (K,), and which states may continue which.

        The conditional probabilities P(y_t | y_t-1, x) make the labellings a Markov chain: those from the position
        before a span to the one after it are multiplied, over the labellings that have the span. O(T K^2).
        """
        marginals, backward = self.marginals(scores, self.forward(scores)[0]), self.backward(scores)
        probabilities = []
        for (start, stop), is_type in zip(spans, types, strict=True):
            inside = marginals[start] * is_type
            if start:
                inside = marginals[start - 1] @ (self._steps(scores, backward, start) * ~continues) * is_type
            for t in range(start + 1, stop):
                inside = inside @ (self._steps(scores, backward, t) * continues) * is_type
            if stop < len(scores):
                inside = inside @ (self._steps(scores, backward, stop) * ~continues)
            probabilities.append(min(float(inside.sum()), 1.0))
        return probabilities

    def _steps(self, scores: Vector, backward: Vector, t: int) -> Vector:
        """Return P(y_t = k | y_t-1 = j, x), (K, K), rows of zeros for a j without any k."""
        logs = self._table(scores, t) + (self._nodes(scores)[t] + backward[t])
        largest = logs.max(axis=1, keepdims=True)
        factors = np.exp(logs - np.where(largest == -np.inf, 0.0, largest))
        return factors / np.maximum(factors.sum(axis=1, keepdims=True), 1.0)


def best_steps(
    rows: Sequence[Vector] | Vector,
    tables: Iterable[Vector],
    n: int | None = None,
    spread: Callable[[Vector], Vector] | None = None,
) -> Iterator[tuple[NDArray[np.integer], Vector]]:
    """Run Viterbi's recursion: yield for each position after the first the best state before each state, the lowest of
    equal ones, and the best score up to it, (K,), to which the next step adds the state's score.

    Parameters
    ----------
    rows : float64 (K,) each, scores of the states at the positions
    tables : edge scores, (K, K) each, a row for each state that they lead to
    n : number of labellings. Scores are (K, n) then, descending, rows (K, 1), and the index into all scores of the
        position before replaces the state
    spread : for rows (S, K), of S items of descending length, or sets of states: maps the scores so far to those that
        each entry continues, (S, K or 1, K), by default the same for all states
    """
    if not len(rows):
        return
    delta = rows[0]
    paths = np.empty((*delta.shape, delta.shape[-1]))
    add, came_from, flat, is_one = np.add, paths.argmax, paths.reshape(-1), delta.ndim == 1
    places = np.arange(0, paths.size, delta.shape[-1]).reshape(delta.shape)
    for row, table in zip(rows[1:], tables, strict=False):
        if n is not None:
            every = table + delta.T[:, None]  # longer inner loops than (K, K, n)
            before, reached = _largest(every.transpose(1, 2, 0).reshape(len(table), -1), n)
        else:
            if is_one:
                paths[...] = delta
                add(paths, table, paths)  # half the time of a sum of two shapes
            else:
                if len(row) < len(delta):
                    delta, paths, places = delta[: len(row)], paths[: len(row)], places[: len(row)]
                    came_from = paths.argmax
                add(table, delta[:, None] if spread is None else spread(delta), paths)
            before = came_from(-1)
            reached = flat[add(places, before)]
        yield before, reached
        delta = add(reached, row, reached)


def _longer_than(lengths: list[int]) -> list[int]:
    """Return how many of the descending lengths are above 0, 1, ..., for all numbers below the first."""
    n, longer = len(lengths), []
    for t in range(lengths[0]):
        while lengths[n - 1] <= t:
            n -= 1
        longer.append(n)
    return longer


def _largest(rows: Vector, n: int) -> tuple[NDArray[np.integer], Vector]:
    """Return the places of the n largest numbers of each row and the numbers, (rows, n), the largest first, equal ones
    in their order; all of a row if these are fewer. If a row has fewer than n above -inf, the others have place 0."""
    n_rows, size = rows.shape
    n = min(n, size)
    if n == 1:
        places = rows.argmax(axis=1)[:, None]
        return places, np.take_along_axis(rows, places, axis=1)
    if rows.size < FEW_NUMBERS:
        places = np.argsort(-rows, axis=1, kind="stable")[:, :n]
        return places, np.take_along_axis(rows, places, axis=1)
    least = np.partition(rows, size - n, axis=1)[:, size - n, None]
    row_of, candidates = np.nonzero((rows >= least) & (rows > -np.inf))
    order = np.lexsort((-rows[row_of, candidates], row_of))
    row_of, candidates = row_of[order], candidates[order]
    rank = np.arange(row_of.size) - np.searchsorted(row_of, np.arange(n_rows))[row_of]
    row_of, candidates, rank = (numbers[rank < n] for numbers in (row_of, candidates, rank))
    places, largest = np.zeros((n_rows, n), np.intp), np.full((n_rows, n), -np.inf)
    places[row_of, rank], largest[row_of, rank] = candidates, rows[row_of, candidates]
    return places, largest


def check_n_best(n: int, longest: int, n_states: int, n_positions: int) -> None:
    """Raise InputError for n labellings whose lists would take more than LARGEST_BYTES; `longest` : of an item."""
    n_bytes = max(BYTES * longest * n_states * n, 4 * n * n_positions)
    if n_bytes > LARGEST_BYTES:
        raise InputError(
            f"n: expected fewer labellings, {n} of them would take {n_bytes / 1e9:.3g} GB and at most "
            f"{LARGEST_BYTES / 1e9:g} GB are allowed"
        )

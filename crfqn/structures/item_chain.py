"""Exact inference over the chains of single items in numpy, for predictions: a sentence is too small to call kernels.

Results equal those of the kernels, for Viterbi bit by bit: ties go to the lower last state, then to the lower previous
state.

    edges    (K, K), in nats; -inf forbids a transition
    scores   of an item: (T, K), of the nodes, or (T, K + K K) with bigram features. Row t then ends with the additions
             to the edges from position t - 1 to t

Shapes: T positions, K states, n labellings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise, repeat
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.errors import InputError
from crfqn.structures.transition_rules import TransitionRules
from crfqn.time_limit import check_time

MAX_N_BEST_BYTES = 8e9  # limit of the memory of the lists of one item, and of the labellings of all items
BYTES_PER_ENTRY = 8  # of a list: the previous state and its rank
MAX_FLOAT = float(np.finfo(np.float64).max)
SCORES_PER_BATCH = 1 << 16  # scores of the items that are labelled together, fixed by the L2 cache: 512 KB
# Minimum number of items, and maximum number of states, of the method whose arrays have the items last; it is faster.
MIN_ITEMS_LAST, MAX_STATES_ITEMS_LAST = 100, 32
MAX_SORTED_NUMBERS = 2000  # up to so many numbers sorting all is the fastest way to find the largest
MAX_SCORE_RANGE = 600.0  # nats, a numerical guard: exp(-600) stays a normal number after a product


class BestPath(NamedTuple):
    """The states of the best labelling and its score, -inf if the rules allow none."""

    states: list[int]
    score: float


class BestThrough(NamedTuple):
    """The best labellings of an item through each state at each position.

    scores : float64 (T, K), -inf if there is none
    before, after : (T, K), their states at the previous and at the next position
    """

    scores: Vector
    before: NDArray[np.intp]
    after: NDArray[np.intp]

    def path(self, t: int, state: int) -> list[int]:
        """Return the best labelling through a state at position t."""
        states = [state]
        for s in range(t, 0, -1):
            states.append(int(self.before[s, states[-1]]))
        states.reverse()
        for s in range(t, len(self.scores) - 1):
            states.append(int(self.after[s, states[-1]]))
        return states


class NumpyChain:
    """Chains over K states that share edge scores, to which items may add; labellings keep `rules` if given."""

    def __init__(self, edges: Vector, rules: TransitionRules | None = None) -> None:
        self.n_states = len(edges)
        allowed = () if rules is None else (rules.transitions, rules.start, rules.end)
        self.rules = None if all(rule.all() for rule in allowed) else rules
        self.edges = np.ascontiguousarray(edges if self.rules is None else self.rules.on_edges(edges))
        self._to = np.ascontiguousarray(self.edges.T)
        self._largest_edge = max(float(self.edges.max()), -MAX_FLOAT)  # finite even if all are forbidden
        self._edge_range = self._largest_edge - float(self.edges.min())
        self._factors = np.exp(self.edges - self._largest_edge)

    def masked_scores(self, scores: Vector, allowed: NDArray[np.bool_] | None = None) -> Vector:
        """Return the scores of an item with -inf where the rules, or `allowed` (T, K), forbid a state."""
        if allowed is not None or (self.rules is not None and len(scores)):
            scores = scores.copy()
        nodes = scores[:, : self.n_states]
        if self.rules is not None and len(scores):
            nodes[0, ~self.rules.start] = -np.inf
            nodes[-1, ~self.rules.end] = -np.inf
        if allowed is not None:
            nodes[~allowed] = -np.inf
        return scores

    def best(self, items: Sequence[Vector]) -> list[BestPath]:
        """Return the best labelling of each item, given `masked_scores`: O(T K^2), about 3 us a position for one item.

        Many items with the same edges take a tenth of this: they are computed together, position by position, the
        longest ones first.
        """
        if len(items) == 1 or (items and not self._has_same_edges(items[0])):
            return [*map(self.best_alone, items)]
        paths = [BestPath([], 0.0)] * len(items)
        order = sorted((i for i, scores in enumerate(items) if len(scores)), key=lambda i: -len(items[i]))
        may_be_last = self.n_states <= MAX_STATES_ITEMS_LAST
        largest = 2 * SCORES_PER_BATCH if may_be_last else SCORES_PER_BATCH
        while order:
            n = max(1, largest // (self.n_states * max(self.n_states, len(items[order[0]]))))
            together, order = order[:n], order[n:]
            are_last = may_be_last and len(together) >= MIN_ITEMS_LAST
            find = self._best_of_many if are_last else self._best_together
            for i, path in zip(together, find([items[i] for i in together]), strict=True):
                paths[i] = path
        return paths

    def best_alone(self, scores: Vector) -> BestPath:
        """Return the best labelling of one item, faster than the methods for several items do."""
        if not len(scores):
            return BestPath([], 0.0)
        nodes = scores[:, : self.n_states]
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
        """Return the best labelling of each item; items are in the order of descending length."""
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
        """Return what `_best_together` does, in two thirds of the time for many items and a small number of states.

        Arrays have the items last. The previous states are computed on the way back, for the best labelling only.
        """
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
        n_longer = 0
        for t in range(len(n_at) - 1, -1, -1):
            ends = delta[t, :, : n_at[t]].T.copy()
            score[n_longer : n_at[t]] = ends[n_longer:].max(1)
            ends[:n_longer] += self._to[states[t + 1, :n_longer]]
            states[t, : n_at[t]] = ends.argmax(1)
            n_longer = n_at[t]
        rows = zip(states.T.tolist(), lengths, score.tolist(), strict=True)
        return [BestPath(path[:length], best) for path, length, best in rows]

    def n_best(self, scores: Vector, n: int) -> list[BestPath]:
        """Return the n best labellings, or all if there are fewer than n; ties as in `kernels.viterbi.best_paths`."""
        nodes = scores[:, : self.n_states]
        length, n_states = nodes.shape
        check_n_best(n, length, n_states, length)
        if length == 0:
            return [BestPath([], 0.0)]
        values, back = nodes[0][:, None], []  # scores of the paths to each state, descending
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
        score = sum(scores[np.arange(len(states)), states].tolist())
        if self._has_same_edges(scores):
            return score + sum(self.edges[states[:-1], states[1:]].tolist())
        pairs = enumerate(pairwise(states), start=1)
        return score + sum(float(self._table(scores, t)[j, k]) for t, (j, k) in pairs)

    def messages(self, scores: Vector, is_backward: bool = False) -> tuple[Vector, float]:
        """Return the forward messages of an item, (T, K), each normalised to sum_k exp = 1, and log Z; or the backward
        messages, up to a number for each position, and log Z. All are in logarithms.

        If nothing can underflow, the recursions are products of matrices, otherwise logarithms of sums.
        """
        narrow = self._largest_if_narrow(scores)
        if narrow is not None:
            return self._messages_by_products(scores, *narrow, is_backward)
        messages = scores[:, : self.n_states].copy()
        reached, norms, before = np.zeros_like(messages), np.empty(len(messages)), None
        direction, tables = -1 if is_backward else 1, iter(self._leading(scores, is_backward, is_from=True))
        log_total = np.logaddexp.reduce
        for t, (message, here) in enumerate(zip(messages[::direction], reached[::direction], strict=True)):
            if before is not None:
                message += log_total(next(tables) + before[:, None], 0, None, here)
            norms[t] = norm = log_total(message)
            if norm == -np.inf:
                return messages, -np.inf
            message -= norm
            before = message
        return reached if is_backward else messages, float(norms.sum())

    def _messages_by_products(
        self, scores: Vector, largest: Vector, n_steps: int, is_backward: bool
    ) -> tuple[Vector, float]:
        """Return the results of `messages` for an item whose messages can be products over n_steps positions before
        they are divided by their sum; largest : the largest score of each position, (T,)."""
        messages = np.exp(scores - largest[:, None])
        reached, norms = np.ones(messages.shape), [1.0]
        factors, direction = (self._factors.T, -1) if is_backward else (self._factors, 1)
        rows, targets, multiply, total = (
            messages[::direction],
            reached[::direction],
            np.multiply,
            np.add.reduce,
        )
        for first in range(0, len(rows), n_steps):
            last = first + n_steps
            for before, row, here in zip(
                rows[first:last], rows[first + 1 :], targets[first + 1 :], strict=False
            ):
                before.dot(factors, here)
                multiply(row, here, row)
            norms.append(norm := float(total(rows[last if last < len(rows) else -1])))
            if last < len(rows):
                rows[last] /= norm
        n_edges = max(len(scores) - 1, 0)
        log_partition = float(largest.sum()) + sum(map(log, norms)) + n_edges * self._largest_edge
        if is_backward:
            return np.log(reached), log_partition
        return np.log(messages / total(messages, 1, keepdims=True)), log_partition

    def tables(self, scores: Vector) -> tuple[Vector, list[Vector]]:
        """Return the scores of an item's nodes, (T, K), and of the transitions to each position, T matrices (K, K)."""
        return scores[:, : self.n_states], [self._table(scores, t) for t in range(len(scores))]

    def best_through(self, scores: Vector) -> BestThrough:
        """Return the best labellings through each state at each position, by Viterbi's recursion from both ends, in
        O(T K^2). Ties go to the lower previous state and to the lower next state."""
        nodes = scores[:, : self.n_states]
        total, (before, after) = nodes.copy(), np.zeros((2, *nodes.shape), np.intp)
        for t, (states, reached) in enumerate(best_steps(nodes, self._leading(scores)), 1):
            before[t], total[t] = states, total[t] + reached
        for t, (states, reached) in enumerate(best_steps(nodes[::-1], self._leading(scores, True)), 2):
            after[-t], total[-t] = states, total[-t] + reached
        return BestThrough(total, before, after)

    def _has_same_edges(self, scores: Vector) -> bool:
        """Return whether an item adds nothing to the edges."""
        return scores.shape[1] == self.n_states

    def _table(self, scores: Vector, t: int) -> Vector:
        """Return the edge scores of an item from position t - 1 to t, (K, K)."""
        if self._has_same_edges(scores):
            return self.edges
        return self.edges + scores[t, self.n_states :].reshape(self.edges.shape)

    def _leading(self, scores: Vector, is_backward: bool = False, is_from: bool = False) -> Iterable[Vector]:
        """Return the tables of edge scores, (K, K) each, to the positions of an item from the second on.

        With `is_backward` the order is reversed, and the roles of source and target are exchanged. Rows are target
        states, or source states with `is_from`.
        """
        edges = self._to if is_backward == is_from else self.edges
        if self._has_same_edges(scores):
            return repeat(edges)
        added = scores[1:, self.n_states :].reshape(-1, *edges.shape)[:: -1 if is_backward else 1]
        return edges + (added.swapaxes(1, 2) if edges is self._to else added)

    def _largest_if_narrow(self, scores: Vector) -> tuple[Vector, int] | None:
        """Return the largest score of each position, (T,), if nothing is forbidden and no scaled message can underflow
        by the rule of `kernels/forward_backward.py`, and after how many positions the next scaling is due; otherwise
        None."""
        if not self._has_same_edges(scores):
            return None
        largest, smallest = np.maximum.reduce(scores, 1), np.minimum.reduce(scores, 1)
        if np.minimum.reduce(smallest, initial=0.0) == -np.inf:
            return None
        spread = float(np.maximum.reduce(largest - smallest, initial=0.0))
        step_range = spread + 2 * self._edge_range
        if not step_range < MAX_SCORE_RANGE:
            return None
        return largest, max(1, int(MAX_SCORE_RANGE / (step_range + log(self.n_states) + 1.0)))

    def marginals(self, scores: Vector, forward: Vector) -> Vector:
        """Return P(y_t = k), (T, K), of an item that has a labelling, from its forward messages."""
        logs = forward + self.messages(scores, is_backward=True)[0]
        p = np.exp(logs - np.maximum.reduce(logs, 1, keepdims=True))
        p /= np.add.reduce(p, 1, keepdims=True)
        return p

    def pairs(self, scores: Vector) -> Vector:
        """Return P(y_t = j, y_{t+1} = k), (T - 1, K, K), of an item that has a labelling."""
        marginals = self.marginals(scores, self.messages(scores)[0])
        backward, _ = self.messages(scores, is_backward=True)
        tables = np.empty((max(len(scores) - 1, 0), self.n_states, self.n_states))
        for t, table in enumerate(tables):
            np.multiply(marginals[t][:, None], self._steps(scores, backward, t + 1), out=table)
        return tables

    def span_probabilities(
        self,
        scores: Vector,
        spans: list[tuple[int, int]],
        types: Sequence[NDArray[np.bool_]],
        continues: NDArray[np.bool_],
    ) -> list[float]:
        """Return P(an item has exactly this span) for each span start ... stop - 1, in order.

        The labellings are a Markov chain with the transition probabilities P(y_t | y_t-1, x). Their products, from the
        position before a span to the one after it, are summed over the labellings that have the span. O(T K^2).

        types : bool (K,) for each span, the states of its type; continues : as in `SpanRules`
        """
        marginals = self.marginals(scores, self.messages(scores)[0])
        backward, _ = self.messages(scores, is_backward=True)
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
        """Return P(y_t = k | y_t-1 = j, x), (K, K), with zeros for a j that no state can follow."""
        logs = self._table(scores, t) + (scores[t, : self.n_states] + backward[t])
        largest = logs.max(axis=1, keepdims=True)
        factors = np.exp(logs - np.where(largest == -np.inf, 0.0, largest))
        return factors / np.maximum(factors.sum(axis=1, keepdims=True), 1.0)


def best_steps(
    rows: Sequence[Vector] | Vector,
    tables: Iterable[Vector],
    n: int | None = None,
    spread: Callable[[Vector], Vector] | None = None,
) -> Iterator[tuple[NDArray[np.integer], Vector]]:
    """Run Viterbi's recursion; yield for each position after the first the best previous state of each state, (K,), the
    lowest of equal ones, and the best score of a path to the state without the state's own score, (K,).

    Parameters
    ----------
    rows : float64 (K,) each, scores of the states at the positions
    tables : edge scores, (K, K) each, a row for each target state
    n : number of labellings. Rows are then (K, 1), results (K, n), with descending scores, and an index into all scores
        of the previous position instead of the previous state
    spread : for rows (S, K) of S items by descending length, or of S sets of states: a function that maps the scores of
        paths, (S, K), to the scores that each state continues, (S, K or 1, K); by default the same for all states
    """
    if not len(rows):
        return
    delta = rows[0]
    paths = np.empty((*delta.shape, delta.shape[-1]))
    add, came_from, flat, is_one = np.add, paths.argmax, paths.reshape(-1), delta.ndim == 1
    places = np.arange(0, paths.size, delta.shape[-1]).reshape(delta.shape)
    for row, table in zip(rows[1:], tables, strict=False):
        if n is not None:
            every = table + delta.T[:, None]  # (n, K, K) has longer inner loops than (K, K, n)
            before, reached = _largest(every.transpose(1, 2, 0).reshape(len(table), -1), n)
        else:
            if is_one:
                paths[...] = delta
                add(paths, table, paths)  # half the time of a sum with broadcasting
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
    """Return the number of items longer than t for t = 0, 1, ..., lengths[0] - 1; lengths are descending."""
    n, longer = len(lengths), []
    for t in range(lengths[0]):
        while lengths[n - 1] <= t:
            n -= 1
        longer.append(n)
    return longer


def _largest(rows: Vector, n: int) -> tuple[NDArray[np.integer], Vector]:
    """Return the places and the values of the n largest numbers of each row, (rows, n), in descending order, equal ones
    in their order; all numbers of a row if n is larger. Numbers of -inf may have place 0."""
    n_rows, size = rows.shape
    n = min(n, size)
    if n == 1:
        places = rows.argmax(axis=1)[:, None]
        return places, np.take_along_axis(rows, places, axis=1)
    if rows.size < MAX_SORTED_NUMBERS:
        places = np.argsort(-rows, axis=1, kind="stable")[:, :n]
        return places, np.take_along_axis(rows, places, axis=1)
    smallest = np.partition(rows, size - n, axis=1)[:, size - n, None]
    row_of, candidates = np.nonzero((rows >= smallest) & (rows > -np.inf))
    order = np.lexsort((-rows[row_of, candidates], row_of))
    row_of, candidates = row_of[order], candidates[order]
    rank = np.arange(row_of.size) - np.searchsorted(row_of, np.arange(n_rows))[row_of]
    row_of, candidates, rank = (numbers[rank < n] for numbers in (row_of, candidates, rank))
    places, largest = np.zeros((n_rows, n), np.intp), np.full((n_rows, n), -np.inf)
    places[row_of, rank], largest[row_of, rank] = candidates, rows[row_of, candidates]
    return places, largest


def check_n_best(n: int, longest: int, n_states: int, n_positions: int) -> None:
    """Raise InputError if the lists of n labellings would take more than MAX_N_BEST_BYTES; longest : of the items."""
    n_bytes = max(BYTES_PER_ENTRY * longest * n_states * n, 4 * n * n_positions)
    if n_bytes > MAX_N_BEST_BYTES:
        raise InputError(
            f"n: expected a smaller number of labellings, {n} would take {n_bytes / 1e9:.3g} GB and up to "
            f"{MAX_N_BEST_BYTES / 1e9:g} GB are allowed"
        )

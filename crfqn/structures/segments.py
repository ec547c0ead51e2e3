"""Exact inference over long items in segments, which fill the lanes of the vector registers and all threads.

Two passes along an item, one thread each, compute the forward and the backward messages and store those at the cuts
between its segments: F = f' M after the position with the message f, and B = M v before the position with psi b = v. If
log F is added to the first scores of a segment and log B to its last ones, the segment is a separate chain with the
marginals of the whole item:

    log Z = sum_s log Z_s + sum over the cuts of (largest edge - log n),   n = sum_jk f(j) M(j, k) v(k)
    P(y_t = j, y_{t+1} = k) = f(j) M(j, k) v(k) / n    across a cut

Shapes: K states, N positions, I items, S segments, C cuts between two segments of an item.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.kernels.forward_backward import NORMALIZATION_TOLERANCE, segment_messages
from crfqn.threads import Pool


class Messages(NamedTuple):
    """Messages across the cuts, float64 (C, K): f and v, each with the sum 1, F and B; norms : n, float64 (C,)."""

    f: Vector
    v: Vector
    forward: Vector
    backward: Vector
    norms: Vector


class Segments(NamedTuple):
    """Items cut into segments.

    offsets : int64 (S + 1,); item_of : int64 (S,)
    runs : (first segment, end) of each item that is cut
    after : int64 (C,), the segments after the cuts
    """

    offsets: NDArray[np.int64]
    item_of: NDArray[np.int64]
    runs: list[tuple[int, int]]
    after: NDArray[np.int64]

    @classmethod
    def from_counts(cls, offsets: NDArray[np.int64], n_segments: NDArray[np.int64]) -> Segments:
        """Cut each item into n_segments, (I,), of about equal length."""
        item_of = np.repeat(np.arange(n_segments.size), n_segments)
        firsts = np.cumsum(n_segments) - n_segments
        numbers = np.arange(item_of.size) - firsts[item_of]
        starts = offsets[item_of] + np.diff(offsets)[item_of] * numbers // n_segments[item_of]
        cut = np.flatnonzero(n_segments > 1)
        runs = [(int(firsts[i]), int(firsts[i] + n_segments[i])) for i in cut]
        return cls(np.append(starts, offsets[-1]), item_of, runs, np.flatnonzero(numbers))

    def messages(self, scores: Vector, edges: Vector, pool: Pool) -> Messages:
        """Return the messages across the cuts, from scores (K, N) and edges (K, K); -inf forbids."""
        shape = 2, self.item_of.size, len(edges)
        before, entering = np.zeros(shape), np.ones(shape)

        def run(part: int) -> None:
            (first, last), direction = self.runs[part // 2], part % 2
            arrays = before[direction, first:last], entering[direction, first:last]
            segment_messages(self.offsets[first : last + 1], scores, edges, direction == 1, *arrays)

        pool.each(2 * len(self.runs), run, scores.size * len(edges))
        here = self.after
        f, v = before[0, here], before[1, here - 1]
        forward, backward = entering[0, here], entering[1, here - 1]
        return Messages(f, v, forward, backward, (forward * v).sum(axis=1))

    def closed(self, scores: Vector, messages: Messages) -> Vector:
        """Return the scores with which each segment is a separate chain, (K, N)."""
        closed = scores.copy()
        with np.errstate(divide="ignore"):
            closed[:, self.offsets[self.after]] += np.log(messages.forward.T)
            closed[:, self.offsets[self.after] - 1] += np.log(messages.backward.T)
        return closed

    def agree(self, messages: Messages, marginals: Vector, weights: Vector) -> bool:
        """Return whether the marginals at the cuts, (K, N) times the weights of the segments (S,), agree with the
        messages. They do not if a relevant message has underflowed."""
        weight, n = weights[self.after, None], messages.norms[:, None]
        sides = (
            (self.offsets[self.after], messages.forward * messages.v),
            (self.offsets[self.after] - 1, messages.f * messages.backward),
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            return all(
                bool(
                    (abs(marginals[:, at].T - weight * product / n) <= NORMALIZATION_TOLERANCE * weight).all()
                )
                for at, product in sides
            )

    def added_score(self, messages: Messages, marginals: Vector) -> float:
        """Return the contribution of the messages to the expected scores of `closed`; marginals : (K, N), weighted."""
        total = 0.0
        for at, message in (
            (self.offsets[self.after], messages.forward),
            (self.offsets[self.after] - 1, messages.backward),
        ):
            p = marginals[:, at].T
            total += float((p * np.log(message, out=np.zeros_like(message), where=p > 0)).sum())
        return total

    def crossings(self, messages: Messages, edges: Vector, weights: Vector) -> Vector:
        """Return the expected transitions across the cuts, times the weights of the segments (S,): (K, K)."""
        shares = messages.f * (weights[self.after] / messages.norms)[:, None]
        return np.einsum("cj,ck->jk", shares, messages.v) * np.exp(edges - edges.max())

    def by_item(self, sums: Vector, messages: Messages, largest_edge: float) -> Vector:
        """Return log Z of the items, (I,), from those of the segments, (S,)."""
        sums = sums.copy()
        sums[self.after] += largest_edge - np.log(messages.norms)
        return np.bincount(self.item_of, sums).astype(np.float64, copy=False)

"""Node marginals of a likelihood at a point, from its residuals; samples of positions in proportion to their variance.

    p_t(k) = residual[k, t] / weight_t + [k is observed at t]

Edges in the token-wise model: the Hessian as if the labels of different positions were independent. Under the product
of the node marginals, Hoeffding's decomposition of the transition e = (k, l) has a part that depends on one position,
as if the edge were a feature of that position with the values

    v_t = p_{t+1}(l) for state k,  p_{t-1}(k) for state l,

and a part that depends on two neighbours together. So the covariances of edges with nodes and with each other have
closed forms, and the whole model is the covariance of a distribution: positive semidefinite. Shapes: N positions, K
states, S sampled, E' edges of the model.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.kernels.curvature import (
    TransitionCounts,
    add_edge_columns,
    add_edge_products,
    count_transitions,
    edge_curvatures,
    list_transitions,
)
from crfqn.kernels.taxonomy import add_marginal_variance
from crfqn.objectives.linear.feature_map import CoordinateParts
from crfqn.objectives.losses.score_loss import ScoreLoss
from crfqn.structures.contexts import Occurrences
from crfqn.threads import N_PARTS, cut_into_parts


class Marginals:
    """The marginals of all nodes at a point.

    Parameters
    ----------
    point : PartPoint of a loss that has marginals
    """

    def __init__(self, point: Any) -> None:
        self.point, self.part = point, point.part
        self.loss: ScoreLoss = point.part.loss

    @cached_property
    def residual(self) -> Vector:
        """The weighted marginals minus the observed labels, (K, N)."""
        owner = self.part
        return self.loss.marginal_residual(self.point.evaluation, owner.position_weights)

    def at(self, states: NDArray[np.integer], positions: NDArray[np.integer]) -> Vector:
        """Return P(state) of some states (ascending) at some positions, (states, positions); 0 at weight 0."""
        owner = self.part
        inverse = owner.inverse_weights[positions]
        p = self.residual[states[:, None], positions]
        p *= inverse
        if states.size == 0:
            return p
        observed, column = self.loss.states_of(self.loss.targets[positions])
        row = np.minimum(np.searchsorted(states, observed), states.size - 1)
        is_present = (states[row] == observed) & (inverse[column] > 0)
        p[row[is_present], column[is_present]] += 1.0
        return p

    def variance(self, states: NDArray[np.integer]) -> Vector:
        """Return sum_k p_t(k) (1 - p_t(k)) over some states, (N,): the variance at each position."""
        owner, residual = self.part, self.residual
        out, n = np.zeros(owner.n_positions), owner.n_positions
        cuts = n * np.arange(N_PARTS + 1) // N_PARTS

        def run(first: int, last: int) -> None:
            add_marginal_variance(first, last, states, residual, owner.inverse_weights, out)

        owner.map.pool.map_ranges(cuts, run, n * states.size)
        return out


def sample_positions(
    marginal_variance: NDArray[np.float64], weights: NDArray[np.float64], n_sampled: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Draw about `n_sampled` positions; return them and their weights in the sample, (S,) each.

    A position adds its variance to the Hessian: it is drawn with a probability in proportion to weight_t
    sqrt(variance_t), variance_t = sum_k p_t(k) (1 - p_t(k)), by deterministic systematic sampling, and has the inverse
    probability as its weight. In an even sample of a well-fitted model the labels of nearly all positions would be
    certain, without curvature.
    """
    if n_sampled >= weights.size:
        sampled = np.flatnonzero(weights > 0)
        return sampled, weights[sampled]
    size = weights * np.sqrt(np.maximum(marginal_variance, 0.0))
    total = size.sum()
    if total == 0:
        return np.empty(0, np.intp), np.empty(0)
    share = np.minimum(1.0, size * (n_sampled / total))
    ticks = np.floor(np.cumsum(share) + 0.5)
    sampled = np.flatnonzero(np.diff(ticks, prepend=0.0) > 0)
    return sampled, weights[sampled] / share[sampled]


def diagonal_scale(sampled: NDArray[np.float64], exact: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the diagonal of D with D sampled D = exact, (n,); 0 for entries that are 0 in the sample."""
    ratio = np.divide(exact, sampled, out=np.zeros_like(exact), where=sampled > 0)
    return np.sqrt(np.maximum(ratio, 0.0)).astype(np.float32)


def edge_curvature(marginals: Marginals, edges: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the variance of each edge's number of transitions over all items, (E',), as in `EdgeModel`; for bigram
    features as if their transitions were independent."""
    owner = marginals.part
    if edges.size == 0:
        return np.empty(0)
    parts = cut_into_parts(owner.map.offsets)
    arrays = owner.map.offsets, marginals.loss.targets, marginals.residual, owner.inverse_weights
    sums = np.zeros((N_PARTS, owner.n_states, owner.n_states))

    def run(part: int) -> None:
        if parts[part] < parts[part + 1]:
            edge_curvatures(parts[part], parts[part + 1], *arrays, np.empty((5, owner.n_states)), sums[part])

    owner.map.pool.each(N_PARTS, run, owner.n_positions * owner.n_states**2)
    variances = sums.sum(axis=0).reshape(-1)
    if marginals.loss.edge_layout.n_contexts > 1:
        p = marginals.at(np.arange(owner.n_states), np.arange(owner.n_positions))
        others = marginals.loss.structure.variances(p, owner.position_weights, owner.map.pool)
        variances = np.concatenate([variances, others])
    return np.maximum(variances[edges], 0.0)  # rounding of a difference can be negative


class EdgeModel:
    """Rows and columns of a chain's edges, from sampled positions, as lists: nearly all transitions have probabilities
    of about 0 at a position.

    edges : int64 (E',), sorted, by their numbers in the layout
    sampled, shares : (S,), positions and their weights in the sample
    """

    def __init__(
        self,
        marginals: Marginals,
        edges: NDArray[np.int64],
        sampled: NDArray[np.intp],
        shares: NDArray[np.float64],
    ) -> None:
        owner = marginals.part
        states = np.arange(owner.n_states)
        self.firsts, self.seconds, self.owners = marginals.loss.edge_layout.split(edges)
        self.shares = shares
        is_start = np.zeros(owner.n_positions + 1, bool)
        is_start[owner.map.offsets] = True
        self.here = marginals.at(states, sampled)
        after = np.minimum(sampled + 1, owner.n_positions - 1)
        self.after = marginals.at(states, after)
        self.after *= ~is_start[sampled + 1]
        structure = marginals.loss.structure
        at_next, at_sampled = structure.occurrences(after), structure.occurrences(sampled)
        self.outgoing = self._transitions(self.firsts, self.seconds, self.after, at_next)
        before = marginals.at(states, np.maximum(sampled - 1, 0))
        before *= ~is_start[sampled]
        self.incoming = self._transitions(self.seconds, self.firsts, before, at_sampled)

    def _transitions(
        self,
        here: NDArray[np.int64],
        there: NDArray[np.int64],
        neighbours: NDArray[np.float64],
        occurrences: Occurrences,
    ) -> TransitionCounts:
        """List the edges between the states `here` and `there` of the neighbours, without very improbable ones."""
        ends = np.zeros(self.here.shape[1] + 1, np.int64)
        arrays = here, there, self.here, neighbours, self.owners, *occurrences
        count_transitions(*arrays, ends[1:])
        np.cumsum(ends, out=ends)
        edges, q = np.empty(ends[-1], np.int32), np.empty(ends[-1])
        list_transitions(*arrays, ends, edges, q)
        states, positions = here[edges], np.repeat(np.arange(ends.size - 1), np.diff(ends))
        return TransitionCounts(ends, edges, states, q, self.here[states, positions] * q)

    def with_nodes(self, nodes: CoordinateParts, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the edge-node block of the model, (E', n); rows : (n, S), sqrt(share_t) x_t of the nodes' features."""
        states, first = np.unique(nodes.states, return_index=True)
        lists = self.outgoing, self.incoming
        positions = [np.repeat(np.arange(self.shares.size), np.diff(one.ends)) for one in lists]
        order = np.argsort(np.concatenate(positions), kind="stable")
        ends = self.outgoing.ends + self.incoming.ends
        entries = [np.concatenate(pair)[order] for pair in zip(*(one[1:] for one in lists), strict=True)]
        out = np.zeros((self.firsts.size, nodes.n_nodes), np.float32)
        bounds, workspace = np.append(first, nodes.n_nodes), np.zeros((2, self.firsts.size))
        rows = np.ascontiguousarray(rows.T)
        roots = np.sqrt(self.shares)
        add_edge_columns(ends, *entries, states, self.here, roots, bounds, rows, *workspace, out)
        return out

    def with_edges(self) -> NDArray[np.float64]:
        """Return the edge-edge block of the model, (E', E'): C_t at v, and C_t(k, k') C_{t+1}(l, l')."""
        n_edges = self.firsts.size
        out = np.zeros((n_edges, n_edges))
        workspace = np.empty(self.here.shape[0], np.int64), np.empty(n_edges, np.int64)
        add_edge_products(
            self.outgoing, self.incoming, self.firsts, self.seconds, self.here, self.after, self.shares, *workspace, out
        )  # fmt: skip
        return out

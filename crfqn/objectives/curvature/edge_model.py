"""Edge weights in the token-wise model: the Hessian as if the labels of different positions were independent.

Under the product of the node marginals the transition e = (k, l) has, by Hoeffding's decomposition, a part that one
position decides, as if the edge were a feature of that position with the values

    v_t = p_{t+1}(l) for state k,  p_{t-1}(k) for state l,

and a part that two neighbours decide together. So edges meet nodes and each other in closed form, and the whole model
is the covariance of a distribution: positive semidefinite. On CoNLL-2000 it took 55 passes to 17,060 where expected
numbers of transitions, as the edges' diagonal, took 75.

Shapes: K states, S sampled positions, E' edges of the model.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from crfqn.kernels.chain.marginals.edge_sums import count_transitions, edge_curvatures, list_transitions
from crfqn.kernels.curvature.token_rows import FAINT
from crfqn.objectives.curvature.marginals import Marginals
from crfqn.threads import N_PARTS, cut_into_parts

Sparse: TypeAlias = scipy.sparse.csr_array


def edge_curvature(marginals: Marginals, edges: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the variance of each edge's number of transitions over all items, (E',), as `EdgeModel` has it."""
    owner = marginals.objective
    if edges.size == 0:
        return np.empty(0)
    firsts, seconds = np.divmod(edges, owner.n_states)
    parts = cut_into_parts(owner.map.offsets)
    arrays = owner.map.offsets, marginals.loss.targets, marginals.residual, owner.inverse_weights
    sums = np.zeros((N_PARTS, edges.size))

    def run(part: int) -> None:
        edge_curvatures(parts[part], parts[part + 1], firsts, seconds, *arrays, sums[part])

    owner.pool.each(N_PARTS, run)
    return np.maximum(
        sums.sum(axis=0), 0.0
    )  # a difference: of decided positions it may be a rounding below 0


class EdgeModel:
    """The rows and columns of edges, from sampled positions; sparse, since most positions allow few transitions.

    Parameters
    ----------
    marginals : Marginals of a chain
    edges : int64 (E',), sorted, k K + l
    sampled, shares : (S,): positions, and what each of them stands for
    """

    def __init__(
        self,
        marginals: Marginals,
        edges: NDArray[np.int64],
        sampled: NDArray[np.intp],
        shares: NDArray[np.float64],
    ) -> None:
        owner = marginals.objective
        states = np.arange(owner.n_states)
        self.firsts, self.seconds = np.divmod(edges, states.size)
        self.shares = shares
        is_start = np.zeros(owner.n_positions + 1, bool)
        is_start[owner.map.offsets] = True
        self.here = marginals.at(states, sampled)
        before = marginals.at(states, np.maximum(sampled - 1, 0)) * ~is_start[sampled]
        after = np.minimum(sampled + 1, owner.n_positions - 1)
        self.after = marginals.at(states, after) * ~is_start[sampled + 1]
        self.outgoing = self._features(self.firsts, self.seconds, self.after)
        self.incoming = self._features(self.seconds, self.firsts, before)
        self.both = weighed(self.outgoing, self.here, self.firsts)  # p_t(k) p_{t+1}(l)
        self.mean = self.both + weighed(self.incoming, self.here, self.seconds)

    def _features(
        self, here: NDArray[np.int64], there: NDArray[np.int64], neighbours: NDArray[np.float64]
    ) -> Sparse:
        """p(there) of the neighbours as a feature of the state `here`, (S, E'); faint transitions are left out."""
        ends = np.zeros(self.here.shape[1] + 1, np.int64)
        count_transitions(here, there, self.here, neighbours, ends[1:])
        np.cumsum(ends, out=ends)
        found, values = np.empty(ends[-1], np.int32), np.empty(ends[-1])
        list_transitions(here, there, self.here, neighbours, ends, found, values)
        return scipy.sparse.csr_array((values, found, ends), shape=(ends.size - 1, here.size))

    def values(self, state: int) -> Sparse:
        """Return v at a state, (S, E')."""
        return of_columns(self.outgoing, self.firsts == state) + of_columns(
            self.incoming, self.seconds == state
        )

    def without_faint(self, state: int) -> NDArray[np.float64]:
        """Return a state's marginals, (S,), faint ones 0, as in the lists of `kernels/curvature/token_rows.py`."""
        return np.where(self.here[state] >= FAINT, self.here[state], 0.0)

    def with_nodes(self, state: int, p: NDArray[np.float64]) -> Sparse:
        """Return the edges' factor of a node weight's covariance with them, (S, E'): sum_t sqrt(share_t) x_t times it.

        p : (S,), the state's marginals as the model of the nodes takes them, faint ones left out or not: one without
            what the other has is no covariance, and not positive semidefinite.
        """
        return scipy.sparse.diags_array(np.sqrt(self.shares) * p) @ (self.values(state) - self.mean)

    def with_edges(self) -> NDArray[np.float64]:
        """Return the model of the edges among themselves, (E', E'): C_t at v, and C_t(k, k') C_{t+1}(l, l')."""
        shares = self.shares
        out = products(self.both, shares) - products(self.mean, shares)
        out[np.diag_indices_from(out)] += self.both.T @ shares
        ones = self.both.copy()
        ones.data = self.here[self.firsts[ones.indices], rows_of(ones)]  # p_t(k)
        for state in range(self.here.shape[0]):
            p, q = shares * self.here[state], shares * self.after[state]
            out += products(self.values(state), p)
            out -= products(of_columns(self.outgoing, self.firsts == state), p)
            out -= products(of_columns(ones, self.seconds == state), q)
        return out


def rows_of(matrix: Sparse) -> NDArray[np.intp]:
    """Return the row of each entry, (nnz,)."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def weighed(matrix: Sparse, p: NDArray[np.float64], states: NDArray[np.int64]) -> Sparse:
    """Multiply entries (t, e) by p[states[e], t]."""
    return scipy.sparse.csr_array(
        (matrix.data * p[states[matrix.indices], rows_of(matrix)], matrix.indices, matrix.indptr),
        matrix.shape,
    )


def of_columns(matrix: Sparse, are_kept: NDArray[np.bool_]) -> Sparse:
    """Return the matrix with the other columns empty."""
    keep = are_kept[matrix.indices]
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(keep)])[matrix.indptr]
    return scipy.sparse.csr_array((matrix.data[keep], matrix.indices[keep], ends), matrix.shape)


def products(matrix: Sparse, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return matrix' diag(weights) matrix, (E', E')."""
    return (matrix.T @ (scipy.sparse.diags_array(weights) @ matrix)).toarray()

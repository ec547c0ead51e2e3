"""The negative log-likelihood of items of which only some labels are known: a sum over all labellings that fit.

    loss_i = log Z_i - log Z_i(Y_i),   Z_i(Y_i) = sum_{y in Y_i} exp(score_i(y)),   Y_i = {y : y_t in S_t for every t}

    residual = expected - expected within Y_i

S_t is what position t may be: one label, some or all of them. With one label everywhere it is the likelihood. It is a
difference of two convex functions and not convex itself: there is no dual, hence no certificate, and a small gradient
shows a stationary point, not an optimum.

References
----------
Tsuboi, Kashima, Mori, Oda, Matsumoto: Training conditional random fields using incomplete annotations. COLING 2008,
equations 3 to 5.

Shapes as in `score_loss.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.errors import InputError
from crfqn.objectives.losses.score_loss import Evaluation
from crfqn.objectives.losses.structured import OverStructure
from crfqn.structures.chain import Chain
from crfqn.structures.structure import NO_TARGETS
from crfqn.threads import Pool


@dataclass(frozen=True)
class NoDual:
    """The dual of a loss that has none: it proves nothing."""

    def value(self, scale: float) -> float:
        """Return -inf."""
        return -np.inf

    def __add__(self, other: object) -> NoDual:
        return self

    def around(self, fixed: float) -> NoDual:
        """Return itself."""
        return self


@dataclass(frozen=True, eq=False)
class PartialLikelihood(OverStructure):
    """-log P(y in Y_i | x_i) under a chain.

    Parameters
    ----------
    structure : Chain over I items and N positions
    allowed : ndarray of bool, shape (K, N), whether state k is in S_t

    Raises
    ------
    InputError
        For another shape, and for an item of which no labelling is allowed.
    """

    structure: Chain
    allowed: NDArray[np.bool_]

    is_convex = False
    has_dual = False

    def __post_init__(self) -> None:
        shape = self.structure.n_states, int(self.structure.offsets[-1])
        if self.allowed.shape != shape or self.allowed.dtype != np.bool_:
            raise InputError(
                f"expected booleans of shape {shape}, got {self.allowed.dtype} {self.allowed.shape}"
            )
        impossible = self.structure.impossible(self.allowed)
        if impossible.size:
            raise InputError(f"item {impossible[0]}: no labelling is allowed")

    @property
    def n_positions(self) -> int:
        return self.allowed.shape[1]

    def take(
        self, items: NDArray[np.integer], positions: NDArray[np.int64], offsets: NDArray[np.int64]
    ) -> PartialLikelihood:
        return PartialLikelihood(self.structure.over(offsets), self.allowed[:, positions])

    def evaluate(self, scores: Vector, edges: Vector, weights: Vector, pool: Pool) -> Evaluation:
        within = np.where(self.allowed, scores, -np.inf)
        free = self.structure.infer(scores, edges, NO_TARGETS, weights, pool)
        fitting = self.structure.infer(within, edges, NO_TARGETS, weights, pool)
        return Evaluation(
            np.maximum(free.log_partition - fitting.log_partition, 0.0),  # rounding may leave less
            free.residual - fitting.residual,
            free.edge_residual - fitting.edge_residual,
        )

    def dual(self, evaluation: Evaluation, weights: Vector) -> NoDual:
        return NoDual()

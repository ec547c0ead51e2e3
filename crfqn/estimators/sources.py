"""Where the items of a training are: in memory, a batch among them, in blocks on disk, or in shards on workers
(`sharded_chain.py`). A source makes the objective, and the rest of a training does not know where its items are.

Shapes: I items, N positions, K states.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from crfqn.arrays import Vector
from crfqn.data.features import FeatureStore
from crfqn.estimators.blocks import Block, Blocks
from crfqn.model.space import Space
from crfqn.objectives.linear.feature_map import FeatureMap
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.losses.score_loss import ScoreLoss
from crfqn.objectives.objective import build_objective
from crfqn.objectives.part import Part
from crfqn.objectives.support import Support
from crfqn.threads import Pool


class Source(ABC):
    """Where items are."""

    @abstractmethod
    def objective(self, support: Support | None, pool: Pool) -> Any:
        """Return the loss of the items, of weights on a support; None: of all weights."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """The labelled items of a training, wherever they are.

    space : of the weights; n_positions : N
    support : the weights that may be other than 0, None for all
    keeps_source : whether the model takes more of the items than weights, after the training
    """

    space: Space
    source: Source
    n_positions: int
    support: Support | None = None
    keeps_source: bool = False

    def objective(self, pool: Pool) -> Any:
        """Return the loss to minimise."""
        return self.source.objective(self.support, pool)


@dataclass(frozen=True, eq=False)
class InMemory(Source):
    """Items in memory.

    weights : of the items, (I,), None where each counts once
    offset : scores before any weight, (K, N), None for 0
    """

    features: FeatureMap
    loss: ScoreLoss
    weights: Vector | None
    offset: Vector | None = None

    def objective(self, support: Support | None, pool: Pool) -> Any:
        self.features.pool = pool
        return build_objective(self.features, self.loss, self.weights, support, self.offset)


@dataclass(frozen=True, eq=False)
class OnDisk(Source):
    """Items in blocks of a folder; loss_of : makes the loss of a block's features and labels."""

    blocks: Blocks
    loss_of: Callable[[FeatureStore, Any], ScoreLoss]
    has_constant: bool = False

    def objective(self, support: Support | None, pool: Pool) -> Any:
        def make(block: Block, pool: Pool) -> Part:
            store = block.store.with_constant() if self.has_constant else block.store
            return Part(SparseMap(store, pool), self.loss_of(store, block.targets), block.weights, support)

        return self.blocks.objective(make, pool)

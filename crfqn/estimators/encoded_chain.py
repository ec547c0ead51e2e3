"""Labelled sequences as a chain is trained on them: their space, their source, and the loss over them.

Shapes: I items, N positions, F features, K labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.data.features import FeatureStore
from crfqn.data.vocabulary import NO_COLUMNS, Vocabulary
from crfqn.errors import warn_caller
from crfqn.estimators.blocks import Block, Blocks
from crfqn.estimators.settings import ChainSettings
from crfqn.estimators.transitions import Transitions
from crfqn.messages import hint, shorten
from crfqn.model.sequences import single_run_rules
from crfqn.model.space import SequenceSpace
from crfqn.objectives.linear.dense_map import DenseMap, Joined
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.losses.likelihood import PartialLikelihood
from crfqn.objectives.losses.position_likelihood import PositionLikelihood
from crfqn.objectives.losses.score_loss import ScoreLoss
from crfqn.objectives.objective import Objective
from crfqn.objectives.sums import build_objective
from crfqn.objectives.support import Support
from crfqn.structures.chain import Chain
from crfqn.structures.contexts import Contexts
from crfqn.structures.transition_rules import TransitionRules
from crfqn.threads import Pool


class WeightedLabels(NamedTuple):
    """The labels of positions that count differently, int32 (N,), and what each counts, float64 (N,)."""

    targets: NDArray[np.int32]
    position_weights: NDArray[np.float64]


class Source(Protocol):
    """Where items are."""

    def objective(self, support: Support | None, pool: Pool) -> Any:
        """Return the loss of the items, of weights on a support."""


@dataclass(frozen=True, eq=False)
class EncodedChain:
    """Labelled sequences, wherever they are, in the space of a chain's weights; `support`: those that may be other than
    0, None for all."""

    space: SequenceSpace
    source: Source
    n_positions: int
    support: Support | None

    def objective(self, pool: Pool) -> Any:
        """Return the loss to minimise."""
        return self.source.objective(self.support, pool)


@dataclass(frozen=True, eq=False)
class InMemory:
    """Items in memory: features, chain, labels as the loss takes them, weights of items, (I,), and a dense block."""

    loss_class: Any
    store: FeatureStore
    chain: Chain
    targets: Any
    weights: Vector | None
    dense: NDArray | None = None

    def objective(self, support: Support | None, pool: Pool) -> Any:
        features: Any = SparseMap(self.store, pool)
        if self.dense is not None:
            features = Joined([DenseMap.of(self.dense, self.store.offsets, pool=pool), features])
        return build_objective(
            features, loss_over(self.loss_class, self.chain, self.targets), self.weights, support
        )


@dataclass(frozen=True, eq=False)
class OnDisk:
    """Items in blocks of a folder."""

    loss_class: Any
    blocks: Blocks
    n_states: int
    rules: TransitionRules | None

    def objective(self, support: Support | None, pool: Pool) -> Any:
        def make(block: Block, pool: Pool) -> Objective:
            chain = Chain(block.store.offsets, self.n_states, rules=self.rules)
            loss = loss_over(self.loss_class, chain, block.targets)
            return Objective(SparseMap(block.store, pool), loss, block.weights, support)

        return self.blocks.objective(make, pool)


def loss_over(loss_class: Any, chain: Chain, targets: Any) -> ScoreLoss:
    """Return the loss of scores: of labels that are known, that are not all known, or that count differently."""
    if isinstance(targets, WeightedLabels):
        return PositionLikelihood(chain, *targets)
    if targets.ndim == 2:
        return PartialLikelihood(chain, targets)
    return loss_class.over(chain, targets)


def space_of(
    settings: ChainSettings,
    classes: NDArray,
    n_features: int,
    vocabulary: Vocabulary | None,
    rules: TransitionRules | None,
    n_dense: int = 0,
) -> SequenceSpace:
    """Return the space of a training's weights, with a warning of rules of other labels."""
    transitions: Transitions = settings._transitions
    _, unknown = single_run_rules(transitions.once or (), classes.tolist(), transitions.scheme)
    if unknown:
        near = hint(unknown[0], classes.tolist())
        warn_caller(f"once: labels that the training data do not have are ignored: {shorten(unknown)}{near}")
    bigrams = NO_COLUMNS if vocabulary is None else vocabulary.bigram_columns
    ends = transitions.scheme, tuple(transitions.once or ()), settings.loss, bigrams
    return SequenceSpace(classes, n_features, vocabulary, rules, n_dense, *ends)


def training_rules(settings: ChainSettings, rules: TransitionRules | None) -> TransitionRules | None:
    """Return the rules that hold in training, too."""
    return rules if settings.constrain == "both" else None


def chain_of(
    space: SequenceSpace, offsets: NDArray[np.int64], rules: TransitionRules | None, matrix: Any = None
) -> Chain:
    """Return the chain over items; matrix : (N, F), whose columns of bigram features are used."""
    contexts = Contexts.of_columns(matrix, space.bigram_columns, space.n_states)
    return Chain(offsets, space.n_states, rules=rules, contexts=contexts)

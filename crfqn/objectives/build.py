"""Objectives from their parts: in one piece where the scores of all items fit into memory, else in blocks."""

from __future__ import annotations

from crfqn.arrays import Labels, Vector
from crfqn.data.features import FeatureStore
from crfqn.objectives.blocks import BlockedObjective
from crfqn.objectives.linear.feature_map import FeatureMap
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.losses.likelihood import Likelihood
from crfqn.objectives.losses.score_loss import ScoreLoss
from crfqn.objectives.objective import Objective
from crfqn.objectives.support import Support
from crfqn.structures.structure import Structure
from crfqn.threads import Pool

MOST_NUMBERS = 1 << 27  # scores of a point in one piece: 1 GiB, and a solver holds four such arrays
BLOCK_NUMBERS = 1 << 25  # scores of a block: 256 MiB


def build_objective(
    features: FeatureMap,
    loss: ScoreLoss,
    weights: Vector | None = None,
    support: Support | None = None,
    most_numbers: int = MOST_NUMBERS,
    block_numbers: int = BLOCK_NUMBERS,
) -> Objective | BlockedObjective:
    """Build the objective of a loss over features; parameters as of `Objective`.

    With more than `most_numbers` scores it comes in blocks of about `block_numbers`.
    """
    whole = Objective(features, loss, weights, support)
    if loss.n_states * features.n_positions <= most_numbers:
        return whole
    return BlockedObjective.of_blocks(whole, max(block_numbers // loss.n_states, 1))


def likelihood(
    store: FeatureStore,
    structure: Structure,
    targets: Labels,
    weights: Vector | None = None,
    n_threads: int | None = None,
) -> Objective:
    """Build the negative log-likelihood of a structured model over sparse features, in one piece."""
    return Objective(SparseMap(store, Pool(n_threads)), Likelihood(structure, targets), weights)

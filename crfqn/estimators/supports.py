"""The weights of a chain that may be other than 0."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from crfqn.data.features import FeatureStore
from crfqn.errors import InputError
from crfqn.model.space import SequenceSpace
from crfqn.objectives.support import Support, observed_support
from crfqn.structures.chain import Chain
from crfqn.structures.edge_layout import EdgeLayout


def support_of_data(
    space: SequenceSpace, store: FeatureStore, targets: Any, chain: Chain, possible: tuple[bool, bool]
) -> Support:
    """Return the weights that may be other than 0, by what occurs in the training data; possible : whether also pairs
    of feature and label, and of labels, that never occur."""
    if not possible[0] and space.n_dense:
        raise InputError(
            "all_possible_states=False: expected a model and items without a dense block, got crfqn.Features"
        )
    support = observed_support(store, targets, chain.n_states, *possible)
    if space.bigram_columns.size and not possible[1]:
        support = replace(support, edges=np.flatnonzero(chain.counts(targets)))
    n_nodes = support.n_node_coords + chain.n_states * space.n_dense
    only_bigrams = () if space.vocabulary is None else space.vocabulary.only_bigram_columns
    n_empty = chain.n_states * len(only_bigrams)
    support = replace(support, n_node_coords=n_nodes, n_edges=chain.n_edges, n_empty=n_empty)
    return possible_support(space, support)


def possible_support(space: SequenceSpace, support: Support | None = None) -> Support:
    """Return a support, by default of all weights of features and transitions, without transitions where the templates
    have no pattern of these."""
    layout = EdgeLayout(space.n_states)
    support = support or Support(space.n_states * space.n_features, layout.size)
    if space.vocabulary is None or space.vocabulary.has_edges:
        return support
    edges = np.arange(support.n_edges) if support.edges is None else support.edges
    return replace(support, edges=edges[edges >= layout.size])

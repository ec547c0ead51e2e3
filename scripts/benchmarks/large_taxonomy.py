"""A made-up taxonomy problem of 5 billion weights: what matters is that no array of this size is ever made.

A million words, 5000 nodes in four levels, 20,000 documents of 100 distinct words or nearly so. Three quarters of
a document's words follow Zipf's law over all, a quarter are words that the nodes on its label's path prefer.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from benchmarks.flat_data import zipf
from benchmarks.items import ItemProblem

N_FEATURES, N_TRAIN, N_TEST, N_TOKENS = 1_000_000, 20_000, 2_000, 100
LEVELS = (10, 100, 890, 4000)  # nodes: 5000
NODE_WORDS, NODE_SHARE = 30, 0.25


def make() -> ItemProblem:
    """The same every time."""
    from scipy.sparse import csr_array

    from crfqn.taxonomy.tree import LabelTree

    generator = np.random.default_rng(0)
    names, parents = _nodes(generator)
    leaves = np.arange(sum(LEVELS[:-1]), sum(LEVELS))
    n_items = N_TRAIN + N_TEST
    labels = generator.choice(leaves, n_items, p=zipf(leaves.size, 20.0))
    words = generator.choice(N_FEATURES, (n_items, N_TOKENS), p=zipf(N_FEATURES, 20.0)).astype(np.int32)
    preferred = generator.integers(0, N_FEATURES, (len(names), NODE_WORDS), dtype=np.int32)
    paths = [labels]
    while (paths[-1] >= 0).all():
        paths.append(parents[paths[-1]])
    level = generator.integers(0, len(paths) - 1, words.shape)
    nodes = np.stack(paths[:-1], axis=1)[np.arange(n_items)[:, None], level]
    is_own = generator.random(words.shape) < NODE_SHARE
    words[is_own] = preferred[nodes[is_own], generator.integers(0, NODE_WORDS, int(is_own.sum()))]
    ends = N_TOKENS * np.arange(n_items + 1)
    matrix = csr_array((np.ones(words.size), words.ravel(), ends), shape=(n_items, N_FEATURES))
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    y = np.array(names)[labels]
    tree = LabelTree(tuple(names), parents.astype(np.int32))
    return ItemProblem(matrix[:N_TRAIN], y[:N_TRAIN], matrix[N_TRAIN:], y[N_TRAIN:], tree)


def _nodes(generator: np.random.Generator) -> tuple[list[str], NDArray[np.int64]]:
    """Names, and parents of the level above, each with a child at least, in level order."""
    parents, first = [np.full(LEVELS[0], -1)], 0
    for above, here in pairwise(LEVELS):
        chosen = np.concatenate([np.arange(above), generator.integers(0, above, here - above)])
        parents.append(first + np.sort(chosen))
        first += above
    joined = np.concatenate(parents)
    return [f"node {number:04}" for number in range(joined.size)], joined

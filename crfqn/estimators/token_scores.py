"""Scores of new items whose features are given by name, without a matrix or a store of them.

Only names that have weights are looked up, and what depends on the places of the weights alone is made once
(`weight_places.py`).

Shapes: N positions, F features, K states.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.data.token_rows import TokenRows
from crfqn.data.vocabulary import KnownNames, Vocabulary
from crfqn.estimators.few_positions import by_feature
from crfqn.estimators.weight_places import KeptByPlaces
from crfqn.kernels.sparse import score_tokens
from crfqn.threads import FEWEST_OPERATIONS, N_PARTS, Pool, cut_into_parts

SORTING = 4  # operations for an entry whose feature has no weight


def token_scores(rows: TokenRows, coef: Any, pool: Pool) -> NDArray[np.float64] | None:
    """Return coef @ x for every position x of rows given by name, (K, N).

    None where the entries of a column add up to what is not finite (a store names the place), and for weights in other
    forms than CSR.
    """
    if coef.format != "csr" or coef.data.size != coef.indices.size:
        return None
    heads, states, places = by_feature(coef)
    weights = np.require(coef.data, np.float64, ["C", "W"])
    n_positions, n_states = rows.n_positions, coef.shape[0]
    if rows.columns.size > weights.size:
        weights, places = weights[places], places[:0]
    scores = np.empty((n_states, n_positions))
    entries = rows.row_ends, rows.columns, rows.values
    n_operations = rows.columns.size * (SORTING + weights.size / heads.size)
    cuts = cut_into_parts(rows.row_ends, 1 if n_operations < FEWEST_OPERATIONS else N_PARTS)
    are_finite = np.ones(cuts.size - 1, bool)

    def run(part: int) -> None:
        are_finite[part] = score_tokens(
            cuts[part], cuts[part + 1], *entries, heads, states, places, weights, scores
        )

    pool.each(cuts.size - 1, run, n_operations)
    return scores if are_finite.all() else None


@KeptByPlaces
def names_with_weights(coef: Any, vocabulary: Vocabulary) -> KnownNames:
    """Return the names of the features that have weights: others add nothing to scores, and make look-ups slower."""
    if coef.format != "csr":
        return vocabulary
    features = np.unique(coef.indices)
    return vocabulary if features.size == len(vocabulary) else vocabulary.some(features)


@KeptByPlaces
def flat_places(coef: Any) -> NDArray[np.int64]:
    """Return the place of each weight in a table (rows x columns)."""
    rows = np.repeat(np.arange(coef.shape[0]), np.diff(coef.indptr))
    return rows * coef.shape[1] + coef.indices


def edge_table(coef: Any) -> NDArray[np.float64]:
    """Return a small sparse array as a table; for CSR in a tenth of the time of `toarray`."""
    if coef.format != "csr":
        return coef.toarray()
    table: Any = np.bincount(flat_places(coef), coef.data, coef.shape[0] * coef.shape[1])
    return table.reshape(coef.shape)

"""Chain over the features that CRFsuite generates: what occurs in the data often enough, also with the value 0."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Coords
from crfqn.data.features import FeatureStore
from crfqn.errors import InputError
from crfqn.estimators.chain import ChainCRF
from crfqn.objectives.support import Support


class Zeros(NamedTuple):
    """Entries of the training data with the value 0, which a sparse matrix does not have: two arrays of int64."""

    positions: NDArray[np.int64]
    columns: NDArray[np.int64]


NO_ZEROS = Zeros(np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(eq=False, repr=False, kw_only=True)
class ObservedChain(ChainCRF):
    """ChainCRF with CRFsuite's choice of features.

    A pair of feature and label may have a weight where the values of the feature beside the label sum up to at least
    `min_freq`, a pair of labels where it occurs so often; an occurrence with the value 0 is one. With
    `all_possible_states` or `all_possible_transitions` the other pairs are there too, with a sum of 0.

    Attributes
    ----------
    n_generated_ : int, the number of weights that may be other than 0
    """

    NOT_SAVED: ClassVar[tuple[str, ...]] = (*ChainCRF.NOT_SAVED, "min_freq", "zeros")

    min_freq: float = 0.0
    zeros: Zeros = field(default=NO_ZEROS)

    def _support(self, store: FeatureStore, targets: NDArray[np.int32], n_states: int) -> Support:
        if targets.ndim > 1:
            raise InputError(
                "expected a label at every position, got unknown ones, which ChainCRF learns from"
            )
        n_features = store.n_features
        nodes = edges = None
        if not self.all_possible_states or self.min_freq > 0:
            nodes = self._frequent(*_pairs(store, targets, self.zeros))
        if not self.all_possible_transitions or self.min_freq > 0:
            to = np.setdiff1d(np.arange(1, store.n_positions), store.offsets)
            edges = self._frequent(targets[to - 1].astype(np.int64) * n_states + targets[to], None)
        support = Support(n_states * n_features, n_states**2, nodes, edges)
        self.n_generated_ = support.n_coords
        return support

    def _frequent(self, coords: Coords, values: NDArray[np.float64] | None) -> Coords:
        """Return the coordinates whose values (None: 1 each) sum up to at least `min_freq`, sorted."""
        found, entry = np.unique(coords, return_inverse=True)
        return found[np.bincount(entry, values, found.size) >= self.min_freq]


def _pairs(
    store: FeatureStore, targets: NDArray[np.int32], zeros: Zeros
) -> tuple[Coords, NDArray[np.float64]]:
    """Return the coordinates of the pairs of label and feature that occur, an entry each, and the values."""
    features = np.repeat(np.arange(store.n_features), np.diff(store.indptr))
    positions = np.concatenate([store.indices, zeros.positions])
    columns = np.concatenate([features, zeros.columns])
    values = np.ones(store.indices.size) if store.values.size == 0 else store.values
    coords = targets[positions].astype(np.int64) * store.n_features + columns
    return coords, np.concatenate([values, np.zeros(zeros.positions.size)])

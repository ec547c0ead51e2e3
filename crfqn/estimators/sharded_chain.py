"""Encoding of sequences on the workers of a Dask cluster: their common vocabulary, and the shards of the objective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import finalize

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from crfqn.data.features import FeatureStore
from crfqn.data.hybrid import check_dense
from crfqn.data.inputs import LabelsLike, SampleWeight
from crfqn.data.label_arrays import encode_known_labels
from crfqn.distributed.objective import distributed_objective
from crfqn.distributed.sources import (
    Merged,
    Read,
    Shards,
    ShardSources,
    count_shard,
    in_merged_columns,
    shard_rows,
)
from crfqn.distributed.workers import connected, run_tasks
from crfqn.errors import InputError
from crfqn.estimators.chain_data import ChainLoss, chain_space, possible_support, training_loss
from crfqn.estimators.problem import Encoded, Source
from crfqn.estimators.settings import ChainSettings
from crfqn.estimators.transitions import ERROR_ON_VIOLATION, refuse_bigrams
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.objective import Objective
from crfqn.objectives.part import Part
from crfqn.objectives.support import Support
from crfqn.threads import Pool

if TYPE_CHECKING:
    from distributed import Client
    from sklearn.base import TransformerMixin


@dataclass(frozen=True)
class ChainShard:
    """Makes a shard of a chain's objective on its worker, with the labels, columns and rules of all shards."""

    number: int
    loss: ChainLoss
    n_features: int
    read: Read
    templates: TransformerMixin | None
    columns: NDArray[np.int32] | None
    support: Support | None

    def __call__(self) -> Part:
        """Read the shard, encode it in the columns of all shards, and check it; errors name the shard."""
        try:
            rows = shard_rows(self.read, self.templates)
            if rows is None:
                matrix, offsets = scipy.sparse.csr_array((0, self.n_features)), np.zeros(1, np.int64)
                targets, weights = np.empty(0, np.int32), None
            else:
                matrix = in_merged_columns(rows.sequences.matrix, self.columns, self.n_features)
                offsets, weights = rows.sequences.offsets, rows.weights
                targets = encode_known_labels(rows.labels, offsets, self.loss.classes)
            store = FeatureStore.from_matrix(matrix, offsets, allow_empty=True)
        except InputError as error:
            raise InputError(f"shard {self.number}: {error}") from error
        self.loss.check(targets, offsets, f"shard {self.number}")
        return Part(SparseMap(store, Pool(1)), self.loss(store, targets), weights, self.support)


@dataclass(frozen=True, eq=False)
class OnWorkers(Source):
    """Items in shards of a cluster, with the functions that make these on workers.

    closes_client : whether the client closes with the objective, because it was made here for an address
    """

    client: Client
    makes: list[ChainShard]
    worker_timeout: float
    closes_client: bool

    def objective(self, support: Support | None, pool: Pool) -> Objective:
        objective = distributed_objective(self.client, self.makes, self.worker_timeout)
        if self.closes_client:
            finalize(objective, self.client.close)
        return objective


def encode_shards(
    X: ShardSources | Shards, y: LabelsLike | None, sample_weight: SampleWeight, settings: ChainSettings
) -> Encoded:
    """Return the shards `X`, or those of the sources `X`, on the workers of `settings.dask_client`."""
    check_dense(X, 0)
    if y is not None or sample_weight is not None:
        raise InputError(
            "with a client, labels and weights are those of the shards: expected y and sample_weight None"
        )
    if settings.on_violation != ERROR_ON_VIOLATION:
        raise InputError(
            f"on_violation: with a client expected {ERROR_ON_VIOLATION!r}, got {settings.on_violation!r}"
        )
    settings.check_parts("with a client", "shard", needs_pairs=False)
    shards = X if isinstance(X, Shards) else Shards(X)
    client = connected(settings.dask_client)
    needs_pairs = not (settings.all_possible_states and settings.all_possible_transitions)
    count = [(read, shards.templates, needs_pairs) for read in shards.reads]
    merged = Merged(
        run_tasks(client, "crfqn-names", count_shard, count, settings.worker_timeout),
        getattr(shards.templates, "min_count", 1),
    )
    refuse_bigrams(merged.vocabulary, "dask_client")
    rules = settings.transitions.rules_without_data(merged.classes)
    space = chain_space(settings, merged.classes, merged.n_features, merged.vocabulary, rules)
    support = possible_support(
        space, merged.support(settings.all_possible_states, settings.all_possible_transitions)
    )
    loss = training_loss(settings, space)
    makes = [
        ChainShard(number, loss, merged.n_features, read, shards.templates, columns, support)
        for number, (read, columns) in enumerate(zip(shards.reads, merged.columns, strict=True))
    ]
    source = OnWorkers(client, makes, settings.worker_timeout, client is not settings.dask_client)
    return Encoded(space, source, merged.n_positions, support)

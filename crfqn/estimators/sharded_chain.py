"""The data of a chain on the workers of a Dask cluster: their vocabulary, and the shards of the objective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import finalize

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from crfqn.data.features import FeatureStore
from crfqn.data.hybrid import check_dense
from crfqn.data.label_arrays import encode_known_labels
from crfqn.distributed.objective import distributed_objective
from crfqn.distributed.sources import Merged, Read, Shards, count_shard, in_columns, shard_rows
from crfqn.distributed.workers import connected, run_tasks
from crfqn.errors import InputError
from crfqn.estimators.chain_data import ChainLoss, loss_of, possible_support, space_of
from crfqn.estimators.problem import Encoded, Source
from crfqn.estimators.settings import ChainSettings
from crfqn.estimators.transitions import ERROR, refuse_bigrams
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.part import Part
from crfqn.objectives.support import Support
from crfqn.threads import Pool


@dataclass(frozen=True)
class ChainShard:
    """How a worker makes its shard of a chain's objective, with the labels, columns and rules of all shards."""

    number: int
    loss: ChainLoss
    n_features: int
    read: Read
    templates: Any
    columns: NDArray[np.int32] | None
    support: Support | None

    def __call__(self) -> Part:
        """Read, encode in the columns of all shards, and check; errors name the shard."""
        try:
            rows = shard_rows(self.read, self.templates)
            if rows is None:
                matrix, offsets = scipy.sparse.csr_array((0, self.n_features)), np.zeros(1, np.int64)
                targets, weights = np.empty(0, np.int32), None
            else:
                matrix = in_columns(rows.sequences.matrix, self.columns, self.n_features)
                offsets, weights = rows.sequences.offsets, rows.weights
                targets = encode_known_labels(rows.labels, offsets, self.loss.classes)
            store = FeatureStore.from_matrix(matrix, offsets, allow_empty=True)
        except InputError as error:
            raise InputError(f"shard {self.number}: {error}") from error
        self.loss.check(targets, offsets, f"shard {self.number}")
        return Part(SparseMap(store, Pool(1)), self.loss(store, targets), weights, self.support)


@dataclass(frozen=True, eq=False)
class OnWorkers(Source):
    """Items in shards of a cluster: how workers make them, and the client that asks them."""

    client: Any
    makes: list[Any]
    worker_timeout: float
    is_own: bool  # the client was made of an address here, and closes with the objective

    def objective(self, support: Support | None, pool: Pool) -> Any:
        objective = distributed_objective(self.client, self.makes, self.worker_timeout)
        if self.is_own:
            finalize(objective, self.client.close)
        return objective


def encode_shards(X: Any, y: Any, sample_weight: Any, settings: ChainSettings) -> Encoded:
    """Return items on the workers of `settings.dask_client`; X as of `Shards`, or Shards."""
    check_dense(X, 0)
    if y is not None or sample_weight is not None:
        raise InputError(
            "with a client the shards bring labels and weights: expected y and sample_weight None"
        )
    if settings.on_violation != ERROR:
        raise InputError(f"on_violation: with a client expected {ERROR!r}, got {settings.on_violation!r}")
    settings.check_parts("with a client", "shard", needs_pairs=False)
    shards, client = Shards.from_sources(X), connected(settings.dask_client)
    asks_pairs = not (settings.all_possible_states and settings.all_possible_transitions)
    count = [(read, shards.templates, asks_pairs) for read in shards.reads]
    merged = Merged(
        run_tasks(client, "crfqn-names", count_shard, count, settings.worker_timeout),
        getattr(shards.templates, "min_count", 1),
    )
    refuse_bigrams(merged.vocabulary, "dask_client")
    rules = settings.transitions.rules_without_data(merged.classes)
    space = space_of(settings, merged.classes, merged.n_features, merged.vocabulary, rules)
    support = possible_support(
        space, merged.support(settings.all_possible_states, settings.all_possible_transitions)
    )
    loss = loss_of(settings, space)
    makes = [
        ChainShard(number, loss, merged.n_features, read, shards.templates, columns, support)
        for number, (read, columns) in enumerate(zip(shards.reads, merged.columns, strict=True))
    ]
    source = OnWorkers(client, makes, settings.worker_timeout, client is not settings.dask_client)
    return Encoded(space, source, merged.n_positions, support)

"""The training of a chain on the workers of a Dask cluster: its vocabulary, its shards, and the problem of all."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any
from weakref import finalize

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from crfqn.data.features import FeatureStore
from crfqn.data.labels import PartialLabels, encode_known_labels
from crfqn.distributed.objective import DistributedObjective
from crfqn.distributed.sources import Merged, Read, Shards, count_shard, in_columns, shard_rows
from crfqn.distributed.workers import connected, run_tasks
from crfqn.errors import InputError
from crfqn.estimators.base import Problem, start_within
from crfqn.estimators.transitions import ERROR, find_broken, items_that_stay, refuse_bigrams
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.objective import Objective
from crfqn.objectives.support import Support
from crfqn.threads import Pool


@dataclass(frozen=True)
class ChainShard:
    """How a worker makes its shard of a chain's objective; `model` has the labels and rules of all shards."""

    number: int
    model: Any
    read: Read
    templates: Any
    columns: NDArray[np.int32] | None
    support: Support

    def __call__(self) -> Objective:
        """Read, encode in the columns of all shards, and check; errors name the shard."""
        try:
            return self._objective()
        except InputError as error:
            raise InputError(f"shard {self.number}: {error}") from error

    def _objective(self) -> Objective:
        model, rows = self.model, shard_rows(self.read, self.templates)
        if rows is None:
            matrix, offsets = scipy.sparse.csr_array((0, model.n_features_in_)), np.zeros(1, np.int64)
            targets, weights = np.empty(0, np.int32), None
        else:
            matrix = in_columns(rows.sequences.matrix, self.columns, model.n_features_in_)
            offsets, weights = rows.sequences.offsets, rows.weights
            targets = encode_known_labels(rows.labels, offsets, model.classes_)
        if model.rules_ is not None and model.constrain == "both" and rows is not None:
            broken = find_broken(model.rules_, PartialLabels(model.classes_, targets, None), offsets)
            if broken is not None:
                items_that_stay(broken, offsets.size - 1, ERROR)
        features = SparseMap(FeatureStore.from_matrix(matrix, offsets, allow_empty=True), Pool(1))
        loss = model._loss(model._chain(offsets, is_training=True), targets)
        return Objective(features, loss, weights, self.support)


def prepare_sharded(model: Any, X: Any, y: Any, sample_weight: Any, start: Any, validation: Any) -> Problem:
    """Return the training on the workers of `model.client`; X as of `Shards`, or Shards."""
    if y is not None or sample_weight is not None:
        raise InputError(
            "with a client the shards bring labels and weights: expected y and sample_weight None"
        )
    if model.on_violation != ERROR:
        raise InputError(f"on_violation: with a client expected {ERROR!r}, got {model.on_violation!r}")
    if model.min_count != 1:
        raise InputError("min_count: with a client expected 1; templates have a min_count over all shards")
    if model.class_weight is not None:
        raise InputError("class_weight: with a client expected None, as no shard has all labels")
    if model._transitions.seen:
        raise InputError("constraints: with a client they cannot be what was seen, as no shard has all of it")
    shards, client = Shards.of(X), connected(model.client)
    asks_pairs = not (model.all_possible_states and model.all_possible_transitions)
    count = [(read, shards.templates, asks_pairs) for read in shards.reads]
    merged = Merged(
        run_tasks(client, "crfqn-names", count_shard, count, model.wait),
        getattr(shards.templates, "min_count", 1),
    )
    refuse_bigrams(merged.vocabulary, "client")
    rules = model._transitions.rules_without_data(merged.classes)
    checked = model._with_data(merged.classes, merged.n_features, merged.vocabulary, rules)
    begin = model._start(checked, start)
    held = None if validation is None else checked._validation_set(validation, merged.n_positions)
    support = merged.support(model.all_possible_states, model.all_possible_transitions)
    support = checked._within_patterns(support)
    sent = copy(checked)  # what a worker needs of the model
    sent.client = sent.callback = sent.scoring = sent.vocabulary_ = None
    sent.solver = "auto"
    makes = [
        ChainShard(number, sent, read, shards.templates, columns, support)
        for number, (read, columns) in enumerate(zip(shards.reads, merged.columns, strict=True))
    ]
    objective = DistributedObjective.of(client, makes, model.wait)
    if client is not model.client:
        finalize(objective, client.close)
    features = objective.first.map
    return checked._posed(objective, features, None, None, start_within(support, begin), validation=held)

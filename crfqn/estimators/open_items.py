"""Items that are labelled again and again under changing weights: encoded once, they stand in for `Sequences`."""

from __future__ import annotations

from typing import Self

from crfqn.data.features import FeatureStore
from crfqn.data.items import Items
from crfqn.data.sequences import Sequences
from crfqn.errors import InputError
from crfqn.structures.chain import Chain
from crfqn.structures.transition_rules import TransitionRules


class OpenItems(Items):
    """Items whose features and chains are made already.

    Attributes
    ----------
    chain : Chain over the items
    store : their features
    """

    def __init__(self, chain: Chain, store: FeatureStore) -> None:
        self.chain, self.store, self.offsets = chain, store, chain.offsets

    @classmethod
    def of(cls, sequences: Sequences, n_states: int, rules: TransitionRules | None) -> Self:
        """Return sequences that are to be labelled by n_states labels under rules; InputError for no positions."""
        if sequences.n_positions == 0:
            raise InputError("validation: expected at least one position, got none")
        store = FeatureStore.from_matrix(sequences.matrix, sequences.offsets, allow_empty=True)
        return cls(Chain(sequences.offsets, n_states, rules=rules), store)

    @property
    def n_positions(self) -> int:
        return int(self.offsets[-1])

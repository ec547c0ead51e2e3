"""Operations of the passes over a problem: what solvers weigh their choices by."""

from __future__ import annotations

from typing import NamedTuple

STATE = 16.0  # of a position's messages, for each state: exponentials, scaling, marginals
RARE = 50.0  # positions that have a feature, on average over the features: OCR 2,500, CoNLL-2000 11
OVERHEAD = 1e6  # of a step beside its pass, however small the problem: half a millisecond
FETCHED = 3.0  # of a number added to or taken from scores somewhere in memory


class Operations(NamedTuple):
    """Operations of the passes over a problem: what solvers weigh their choices by, the same on every machine.

    Counts and no clocks: a choice by seconds would depend on the machine's mood, and the result with it. The unit is a
    multiplication and addition in registers; what is fetched from all over memory counts for several.
    inference, entries : messages and marginals of all items; numbers of the data that are not zero
    has_sequences : whether items have several positions, on average
    """

    inference: float
    entries: float
    n_features: int
    n_states: int
    has_sequences: bool

    @property
    def has_rare_features(self) -> bool:
        """Whether the data are like text: active features seldom meet, and a sample knows nothing of most of them."""
        return self.entries <= RARE * self.n_features

    @property
    def of_pass(self) -> float:
        """Image, inference and gradient, where about one weight of each entry is active."""
        return self.inference + 2.0 * FETCHED * self.entries

"""Rules on the labels of a chain: which labels may begin an item, which may end it, and which may follow each other.

A labelling that breaks a rule has the score -inf: it is in no partition function, marginal or best labelling.
Shapes: K states, N positions, I items.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Labels, Vector
from crfqn.errors import InputError

if TYPE_CHECKING:
    from crfqn.kernels.viterbi import TransitionMask


class Violation(NamedTuple):
    """A position whose label breaks a rule, and the kind of the rule: "start", "transition" or "end"."""

    position: int
    rule: str


@dataclass(frozen=True, eq=False)
class TransitionRules:
    """Rules of a chain over K states.

    transitions : bool (K, K), whether the second state may follow the first
    start, end : bool (K,), whether an item may begin, and end, with a state
    """

    transitions: NDArray[np.bool_]
    start: NDArray[np.bool_]
    end: NDArray[np.bool_]

    def __post_init__(self) -> None:
        n_states = self.start.size
        if self.transitions.shape != (n_states, n_states) or self.end.shape != (n_states,):
            raise InputError(
                f"expected rules of one number of states, got {self.transitions.shape}, {self.start.shape} and "
                f"{self.end.shape}"
            )

    @classmethod
    def everything(cls, n_states: int) -> TransitionRules:
        """Return the rules that allow all labellings."""
        return cls(np.ones((n_states, n_states), bool), np.ones(n_states, bool), np.ones(n_states, bool))

    @classmethod
    def observed(cls, targets: Labels, offsets: NDArray[np.int64], n_states: int) -> TransitionRules:
        """Return the rules that allow only the observed starts, ends and transitions of labels, int32 (N,), -1 for
        unknown ones."""
        rules = cls(np.zeros((n_states, n_states), bool), np.zeros(n_states, bool), np.zeros(n_states, bool))
        firsts, lasts, to = ends_of(offsets)
        for allowed, at in ((rules.start, firsts), (rules.end, lasts)):
            labels = targets[at]
            allowed[labels[labels >= 0]] = True
        is_known = (targets[to - 1] >= 0) & (targets[to] >= 0)
        rules.transitions[targets[to - 1][is_known], targets[to][is_known]] = True
        return rules

    def __and__(self, other: TransitionRules) -> TransitionRules:
        """Return the rules that allow what both allow."""
        return TransitionRules(
            self.transitions & other.transitions, self.start & other.start, self.end & other.end
        )

    @cached_property
    def mask(self) -> TransitionMask:
        """The rules as additions to scores, 0 or -inf, for kernels."""
        from crfqn.kernels.rows import LANES
        from crfqn.kernels.viterbi import TransitionMask

        n_states = self.start.size
        width = -(-n_states // LANES) * LANES
        edges, ends = np.zeros((n_states, width)), np.zeros((2, width))
        edges[:, :n_states] = np.where(self.transitions, 0.0, -np.inf)
        ends[:, :n_states] = np.where(np.stack([self.start, self.end]), 0.0, -np.inf)
        return TransitionMask(edges[:0] if self.transitions.all() else edges, ends[0].copy(), ends[1].copy())

    def on_scores(self, scores: Vector, offsets: NDArray[np.int64]) -> Vector:
        """Return node scores (K, N) with -inf for states that may not begin or end an item."""
        if self.start.all() and self.end.all():
            return scores
        masked = scores.copy()
        firsts, lasts, _ = ends_of(offsets)
        masked[np.ix_(~self.start, firsts)] = -np.inf
        masked[np.ix_(~self.end, lasts)] = -np.inf
        return masked

    def on_edges(self, edges: Vector) -> Vector:
        """Return edge scores (K, K) with forbidden transitions at -inf."""
        return edges + np.where(self.transitions, 0.0, -np.inf)

    def possible_lengths(self, longest: int) -> NDArray[np.bool_]:
        """Return whether any labelling of 0, 1 ... `longest` positions keeps the rules, (longest + 1,)."""
        possible, reached = np.ones(longest + 1, bool), self.start.copy()
        for length in range(1, longest + 1):
            possible[length:] = bool((reached & self.end).any())
            before, reached = reached, np.logical_or.reduce(self.transitions[reached], axis=0)
            if np.array_equal(before, reached):
                break  # no other states can be reached
        return possible

    def violations(self, targets: Labels, offsets: NDArray[np.int64]) -> list[Violation]:
        """Return the violations of rules by labels, int32 (N,), by position; unknown labels, -1, violate none."""
        firsts, lasts, to = ends_of(offsets)
        first, last, before, here = targets[firsts], targets[lasts], targets[to - 1], targets[to]
        broken = [
            (firsts[(first >= 0) & ~self.start[first]], "start"),
            (to[(before >= 0) & (here >= 0) & ~self.transitions[before, here]], "transition"),
            (lasts[(last >= 0) & ~self.end[last]], "end"),
        ]
        return sorted(Violation(int(position), rule) for positions, rule in broken for position in positions)


def ends_of(offsets: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the first positions of items, the last positions, and the positions that are not first."""
    is_filled = np.diff(offsets) > 0
    firsts = offsets[:-1][is_filled]
    has_before = np.ones(offsets[-1], bool)
    has_before[firsts] = False
    return firsts, offsets[1:][is_filled] - 1, np.flatnonzero(has_before)

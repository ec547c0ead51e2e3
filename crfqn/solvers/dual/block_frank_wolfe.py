"""Block-coordinate Frank-Wolfe for structured hinges (Lacoste-Julien, Jaggi, Schmidt, Pletscher 2013), by the pairwise
steps of Osokin et al. (2016), Algorithm 4.

A step finds the labelling of one item that violates its margin most, and moves a share of the labelling in use that
does least to it, as far as is best: no step size is chosen. The certificate is the objective less the dual.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from crfqn.errors import InputError
from crfqn.solvers.dual.frank_wolfe_state import FrankWolfeState
from crfqn.solvers.line_search import is_hidden
from crfqn.solvers.protocols import Objective, Penalty, Point, Requirements, Solver, State, check_integers

BATCHES = 10  # of a pass: items of a batch are chosen by the gaps as they were at its beginning
MOST_ROUNDS = 1000  # of steps among planes in a pass, as Shah, Kolmogorov and Lampert have it
PATIENCE = 1.1  # times as many passes until the next certificate, which costs about half a pass


@dataclass(frozen=True)
class BlockFrankWolfe(Solver):
    """Settings of block-coordinate Frank-Wolfe; an iteration is a pass, as many steps as there are items.

    Parameters
    ----------
    by_gaps : bool
        Choose items at random in proportion to their parts of the duality gap as last seen (Osokin et al. 2016);
        otherwise every pass visits all items in a random order.
    refresh : int
        Passes of which the first visits all items, so that gaps seen long ago keep none away.
    random_state : int
        Seed of the orders and choices.

    Notes
    -----
    Sequential, whatever the number of threads; those share the certificates. It starts from zero: weights do not tell
    the dual variables. Steps with all labellings cost one loss-augmented decoding. Chains take steps among the
    labellings already found in between, as many rounds as win more of the dual for an operation than the pass so far.

    References
    ----------
    Lacoste-Julien, Jaggi, Schmidt, Pletscher: Block-coordinate Frank-Wolfe optimization for structural SVMs. ICML 2013.
    Shah, Kolmogorov, Lampert: A multi-plane block-coordinate Frank-Wolfe algorithm for training structural SVMs with a
    costly max-oracle. CVPR 2015.
    Osokin, Alayrac, Lukasewitz, Dokania, Lacoste-Julien: Minding the gaps for block Frank-Wolfe optimization of
    structured SVMs. ICML 2016, sections 3.1 and 3.2.
    """

    by_gaps: bool = True
    refresh: int = 10
    random_state: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.by_gaps, bool):
            raise InputError(f"by_gaps: expected True or False, got {self.by_gaps!r}")
        check_integers(self, 1, "refresh")
        check_integers(self, 0, "random_state")

    def requires(self, objective: Objective, penalty: Penalty) -> Requirements:
        return Requirements(penalty=("is_quadratic", "is_uniform"), states=(FrankWolfeState,))

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]:
        """Yield a state for each pass; those at which a certificate is due have a value."""
        blocks = objective.state(FrankWolfeState, penalty)
        del start
        random, n = np.random.default_rng(self.random_state), blocks.n_items
        n_passes, due, dual_value = 0, 1.0, 0.0
        while True:
            blocks.make_room()
            # As many steps as there are items, on all of them or on those that promise most.
            visits_all = not self.by_gaps or n_passes % self.refresh == 0
            price = gain = 0.0
            for batch in np.array_split(np.arange(n), 1 if visits_all else BATCHES):
                if visits_all:
                    order = random.permutation(n)
                else:
                    gaps = blocks.gaps
                    total = gaps.sum()
                    order = random.choice(n, batch.size, p=gaps / total if total > 0 else None)
                more, further = blocks.visit(order)
                price, gain = price + more, gain + further
            # Steps among planes, while these win more for an operation than the pass with all steps so far, and more
            # than the rounding of the dual objective.
            for _ in range(MOST_ROUNDS if blocks.has_lattices else 0):
                more, further = blocks.visit(random.permutation(blocks.promising()), among_planes=True)
                price, gain = price + more, gain + further
                if further * price <= gain * more or is_hidden(further, dual_value + gain):
                    break
            n_passes, dual_value = n_passes + 1, blocks.dual_value()
            state = State(blocks.point(), np.nan, np.nan, n, dual_value)
            if n_passes >= due:
                due = PATIENCE * n_passes
                yield replace(certified(state, penalty), is_step=True)
            else:
                yield replace(state, certify=partial(certified, state, penalty))


def certified(state: State, penalty: Penalty) -> State:
    """Return the state with the objective at its weights, which costs a loss-augmented decoding of all items."""
    value = state.point.value + penalty.value(state.point.coords, state.point.weights)
    return replace(state, value=value, is_screening=True)

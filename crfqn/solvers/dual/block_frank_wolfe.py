"""Block-coordinate Frank-Wolfe for structured hinges (Lacoste-Julien, Jaggi, Schmidt, Pletscher 2013), by the pairwise
steps of Osokin et al. (2016), Algorithm 4.

A step computes the labelling of one item with the largest violation of its margin, and moves weight to it from the
labelling in use with the smallest; an exact line search gives the step size. The certificate is the objective minus the
dual objective.
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

BATCHES_PER_PASS = 10  # the items of a batch are drawn by the gaps at its beginning
MAX_PLANE_ROUNDS = 1000  # of steps among planes in a pass, the limit of Shah, Kolmogorov and Lampert
CERTIFICATE_INTERVAL_GROWTH = (
    1.1  # ratio of the passes at two certificates, each of which costs about half a pass
)


@dataclass(frozen=True)
class BlockFrankWolfe(Solver):
    """Settings of block-coordinate Frank-Wolfe; an iteration is a pass, as many steps as there are items.

    Parameters
    ----------
    by_gaps : bool
        Draw items with probabilities in proportion to their last computed parts of the duality gap (Osokin et al.
        2016); otherwise every pass visits all items in a random order.
    refresh : int
        The first of this number of passes visits all items, which computes all gaps again.
    random_state : int
        Seed of the orders and choices.

    Notes
    -----
    Steps are sequential; threads share the certificates only. A run starts from zero, since weights do not determine
    the dual variables. A step costs one loss-augmented decoding. For chains, a pass ends with rounds of cheap steps
    among the labellings already found, while these raise the dual by more per operation than the pass so far.

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
        """Yield a state for each pass; states with a certificate have a value."""
        blocks = objective.state(FrankWolfeState, penalty)
        del start
        random, n = np.random.default_rng(self.random_state), blocks.n_items
        n_passes, due, dual_value = 0, 1.0, 0.0
        while True:
            blocks.make_room()
            # A pass is n steps, on all items or on items drawn by their gaps.
            visits_all = not self.by_gaps or n_passes % self.refresh == 0
            cost = gain = 0.0
            for batch in np.array_split(np.arange(n), 1 if visits_all else BATCHES_PER_PASS):
                if visits_all:
                    order = random.permutation(n)
                else:
                    gaps = blocks.gaps
                    total = gaps.sum()
                    order = random.choice(n, batch.size, p=gaps / total if total > 0 else None)
                more, further = blocks.visit(order)
                cost, gain = cost + more, gain + further
            # Take steps among planes while they raise the dual by more per operation than the pass so far, and by more
            # than its rounding.
            for _ in range(MAX_PLANE_ROUNDS if blocks.has_lattices else 0):
                more, further = blocks.visit(random.permutation(blocks.promising()), among_planes=True)
                cost, gain = cost + more, gain + further
                if further * cost <= gain * more or is_hidden(further, dual_value + gain):
                    break
            n_passes, dual_value = n_passes + 1, blocks.dual_value()
            state = State(blocks.point(), np.nan, np.nan, n, dual_value)
            if n_passes >= due:
                due = CERTIFICATE_INTERVAL_GROWTH * n_passes
                yield replace(evaluate_state(state, penalty), is_step=True)
            else:
                yield replace(state, certify=partial(evaluate_state, state, penalty))


def evaluate_state(state: State, penalty: Penalty) -> State:
    """Return the state with the objective at its weights, which costs a loss-augmented decoding of all items."""
    value = state.point.value + penalty.value(state.point.coords, state.point.weights)
    return replace(state, value=value, is_screening=True)

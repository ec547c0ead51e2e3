"""Forward-backward splitting, an item at a time: FOBOS of Duchi and Singer (2009).

    w <- prox(w - eta_t g_i, eta_t penalty / N),   eta_t = eta0 / sqrt(t)

as Blondel, Seki and Uehara (2013, section 5.1) compare it: eta0 is the best of 1e-3, 1e-2, ..., 1e3 on held-out items.
The gradients of single items make rows non-zero again, so the iterates have far more of them than the optimum.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Coords, Vector
from crfqn.errors import InputError, UnsupportedObjectiveError
from crfqn.kernels.rows import aligned_rows
from crfqn.objectives.losses.score_loss import ScoreLoss
from crfqn.objectives.objective import MethodState
from crfqn.objectives.part import Part
from crfqn.papers.blondel2013.fobos_kernels import ETA0, ShrunkRows, apply_accrued_penalty, learn_rows
from crfqn.solvers.protocols import (
    Objective,
    Penalty,
    Requirements,
    SparseWeights,
    State,
    check_integers,
    check_positive,
    check_shares,
)
from crfqn.solvers.stochastic.sgd import GradientEpochs, finite_value
from crfqn.solvers.stochastic.state import LearnedRows

ETA0_CANDIDATES = tuple(10.0**power for power in range(-3, 4))


class FobosState(LearnedRows):
    """Weights of a flat objective of margins under a penalty, changed by `learn` (`fobos_kernels.py`).

    InputError for other penalties.
    penalty : of rows, of which L1 or the groups' norm is zero; what is unpenalised must be whole rows
    share : of the items that the penalty is meant for: a step takes 1 / N of it, N = n_items / share
    """

    takes_parts = False
    method = "learning rows"

    def __init__(
        self, objective: Objective, start: tuple[Coords, Vector], penalty: Penalty, share: float = 1.0
    ) -> None:
        super().__init__(objective)
        rows = penalty.rows(self.n_features, self.n_states)
        l1, l2, group_l1, is_linf = rows.strengths
        if l1 > 0 and group_l1 > 0:
            raise InputError(
                "learning item by item shrinks a row by one norm, whose skipped steps add up: expected l1 = 0 or "
                f"group_l1 = 0, got {l1:g} and {group_l1:g}"
            )
        self.rows = ShrunkRows(
            aligned_rows(self.n_rows, self.width),
            np.tile([0.0, 1.0], (self.n_features, 1)),
            rows.is_unpenalised(np.arange(self.n_features)),
            is_linf,
            np.array([0.0, 0.0, 1.0]),
            np.array([0.0, l1, l2, group_l1]) * (share / max(self.n_items, 1)),
        )
        self.rows.table[self.places(start[0])] = start[1]

    @classmethod
    def check_loss(cls, loss: ScoreLoss) -> None:
        """Raise UnsupportedObjectiveError for losses without margins."""
        if not loss.has_margins:
            raise UnsupportedObjectiveError(
                f"{cls.method} needs a loss of margins; {type(loss).__name__} has none"
            )

    def learn(self, order: NDArray[np.integer], eta0: float) -> None:
        """Take a step on each of the items `order`, with eta_t = eta0 / sqrt(t), t the steps since the start, from 1.
        Sequential, whatever the number of threads. Afterwards no penalty is outstanding."""
        self.rows.rates[ETA0] = eta0
        loss = self.parts[0].loss
        for _, data, items in self.runs(order):
            while items.size:
                n_steps = learn_rows(loss.code, items, data, *loss.label_sets, self.n_states, self.rows)
                items = items[n_steps:]
                if items.size:  # the scale is out of range
                    apply_accrued_penalty(self.rows)
        apply_accrued_penalty(self.rows)
        self.owner.n_passes += order.size / self.n_items

    def targets(self, part: Part) -> NDArray[np.integer]:
        return part.loss.labels

    def weights(self) -> tuple[Coords, Vector]:
        """Return the sorted coordinates of the weights that are not 0, and their values."""
        return self.sparse(self.rows.table)


@dataclass(frozen=True)
class FOBOS(GradientEpochs):
    """Settings of forward-backward splitting; an iteration is `evaluate_every` epochs and an evaluation.

    Parameters
    ----------
    eta0 : float or None
        The first step, in units of weight a unit of the gradient of one item. None tries 1e-3, 1e-2, ..., 1e3.
    held_out : float within (0, 1)
        The fraction of the calibration's items on which these are compared, after an epoch over the others.
    calibration_items : int
        Maximum number of items in the calibration, drawn at random.
    evaluate_every : int
        Epochs between two evaluations of the objective, each an inference pass and a sweep over all gradients.
    random_state : int
        Seed of the order of the items, new in every epoch, and of the calibration's items.

    Notes
    -----
    The penalty: L1 or one norm of the rows, and L2. Rows that an item does not have are not touched; their
    accrued penalty is applied in closed form when they are (Duchi and Singer, proposition 11), so that the iterates
    are those of the method as published.

    References
    ----------
    Duchi, Singer: Efficient online and batch learning using forward backward splitting. JMLR 10, 2009.
    """

    state: ClassVar[type[MethodState]] = FobosState

    eta0: float | None = None
    held_out: float = 0.2
    calibration_items: int = 10_000
    evaluate_every: int = 1
    random_state: int = 0

    def __post_init__(self) -> None:
        check_positive(self, "eta0", or_none=True)
        check_shares(self, "held_out")
        check_integers(self, 2, "calibration_items")
        check_integers(self, 1, "evaluate_every")
        check_integers(self, 0, "random_state")

    def requires(self, objective: Objective, penalty: Penalty) -> Requirements:
        return Requirements(penalty=("is_row_separable", "is_uniform"), states=(FobosState,))

    def calibrate(
        self, objective: Objective, penalty: Penalty, origin: SparseWeights, random: np.random.Generator
    ) -> Generator[State, None, float]:
        """Return the rate that leaves the objective of the held-out items lowest, after an epoch over the others, by
        steps as the run would begin with. Yields the held-out items' states, marked with their share."""
        drawn = random.permutation(objective.n_items)[: self.calibration_items]
        n_held = min(max(round(self.held_out * drawn.size), 1), drawn.size - 1)
        held, others = (
            objective.with_parts(partial(Part.take, items=np.sort(items)))
            for items in (drawn[:n_held], drawn[n_held:])
        )
        total = objective.total_weight
        if n_held == 0 or held.total_weight == 0 or others.total_weight == 0:
            raise InputError(
                "FOBOS: choosing eta0 needs at least two items with a weight above 0 to hold some out; name one"
            )
        share, seen_share = held.total_weight / total, others.total_weight / total
        values, n_known = [], 0.0
        for eta0 in ETA0_CANDIDATES:
            learner = others.state(FobosState, origin, penalty, seen_share)
            order = np.random.default_rng(self.random_state).permutation(learner.n_items)
            learner.learn(order, eta0)
            point = held.at(*learner.weights())
            values.append(finite_value(penalty.scaled(share), point))
            n_passes = seen_share * others.n_passes + share * held.n_passes
            objective.n_passes += n_passes - n_known
            n_known = n_passes
            yield State(point, values[-1], np.nan, point.coords.size, sample_fraction=share)
        return ETA0_CANDIDATES[int(np.argmin(values))]

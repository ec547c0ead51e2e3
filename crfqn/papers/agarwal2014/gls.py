"""Generalised least squares: Agarwal, Kakade, Karampatziakis, Song, Valiant (ICML 2014), Algorithm 1, and its loss.

The calibrated loss of a link g = grad Phi (definition 2), for items of one position each, is

    loss_i = Phi(s_i) + Phi*(y_i) - <y_i, s_i>,    residual = g(s_i) - y_i

Targets y_i are points of the simplex (a label each), of the hypercube (any labels), or any numbers that the link can
predict. Phi*(y_i), which the paper leaves out, makes 0 the smallest loss; it is left out where it is not known, too.

    W <- W - (M + l2)^-1 (gradient + l2 W),    M = sum_i L c_i x_i x_i' >= Hessian

is gradient descent in the metric of the features' second moments, which no step size has to be found for: M is
factorised once, and the number of steps does not grow with the condition number of the features (theorem 1). It does
grow with that of the link: where predictions are nearly certain the Hessian is far below M.

Theorem 1's bound is 2 ||W*||^2 / (t + 4) in the norm of M; the Frobenius norm, as printed, would change with the units
of the features, and the iterates do not.

Shapes: N positions, K states; scores, targets and residual float64 (K, N).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from crfqn.arrays import Vector
from crfqn.errors import InputError
from crfqn.objectives.losses.potentials import Potential
from crfqn.objectives.losses.score_loss import NO_EDGES, DualLoss, Evaluation, ScoreLoss
from crfqn.result import SCALING_ADVICE, Status
from crfqn.solvers.line_search import is_hidden
from crfqn.solvers.protocols import Objective, Penalty, Point, Requirements, Solver, State
from crfqn.solvers.smooth_point import SmoothPoint
from crfqn.threads import Pool

FIRST_SHIFT = 4.0  # times F roundings, of a diagonal of ones: what a sum of products may be off
SHIFT_GROWTH = 100.0  # of the shift, if that was not enough


@dataclass(frozen=True, eq=False)
class Factor:
    """Cholesky factor of a matrix with a ridge; build it with `of`.

    lower, scales : float64 (F, F), lower triangular; (F,), of the variables in which the diagonal is 1
    shift : what was added to that diagonal, so that a matrix without full rank has a factor: some roundings
    """

    lower: Vector
    scales: Vector
    shift: float

    @classmethod
    def from_matrix(cls, matrix: Vector, ridge: Vector | float = 0.0) -> Factor:
        """Factorise matrix + diag(ridge), positive semidefinite (F, F), in F^3 / 3 operations, the diagonal scaled to 1
        before, so that the units of the features make no difference."""
        diagonal = np.diag(matrix) + ridge
        scales = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        scaled = matrix * scales[:, None] * scales
        shift = FIRST_SHIFT * diagonal.size * float(np.finfo(np.float64).eps)
        while True:
            np.fill_diagonal(scaled, 1.0 + shift)
            try:
                # A zero diagonal is that of a feature which is always 0: it keeps to itself.
                return cls(cholesky(scaled, lower=True, check_finite=False), scales, shift)
            except LinAlgError:
                if not shift < diagonal.size:  # which is enough for any matrix of numbers
                    raise InputError(
                        "sums of products of features have overflowed: " + SCALING_ADVICE
                    ) from None
                shift *= SHIFT_GROWTH

    def solve(self, table: Vector) -> Vector:
        """Return the table, (K, F), with the inverse applied to each row."""
        half = solve_triangular(self.lower, (table * self.scales).T, lower=True, check_finite=False)
        return solve_triangular(self.lower, half, lower=True, trans=1, check_finite=False).T * self.scales


@dataclass(frozen=True)
class GLS(Solver):
    """Settings of generalised least squares.

    Parameters
    ----------
    accelerated : bool
        Nesterov's acceleration with distances in the metric (the paper's section 4), restarted where a step goes
        uphill (O'Donoghue and Candes 2015). Without it the objective falls at every step. Either way least squares
        itself is solved by the first.
    """

    accelerated: bool = True

    def requires(self, objective: Objective, penalty: Penalty) -> Requirements:
        return Requirements(("has_gram",), ("is_quadratic",))

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]:
        """One state a step, at the points where gradients are taken; each knows the gradient at all coordinates."""
        coords = objective.support.coords()
        n_features = objective.n_features
        ridge = penalty.l2_of(coords).reshape(-1, n_features).max(axis=0)
        factor = Factor.from_matrix(objective.gram(), ridge)
        here = SmoothPoint(objective, penalty, coords, start)
        origin, w, length = start, here.w, 1.0
        del start
        yield here.state()
        while True:
            step = -factor.solve(here.slopes.reshape(-1, n_features)).ravel()
            if is_hidden(-0.5 * float(here.slopes @ step), here.value):
                yield here.state(end=Status.STALLED)
                return
            direction = here.w + step - w
            if float(here.slopes @ direction) > 0:
                length = 1.0
            length, before = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * length**2)), length
            momentum = (before - 1.0) / length if self.accelerated else 0.0
            ray = origin.along(coords, direction)
            origin, w = ray.at(1.0), w + direction
            here = SmoothPoint(objective, penalty, coords, ray.at(1.0 + momentum))
            yield here.state(is_step=True)


@dataclass(frozen=True, eq=False)
class LinkDual(DualLoss):
    """sum_i c_i (Phi*(y_i) - Phi*(q_i)) at the mixtures q = y + scale (g(s) - y); amount : the term of fixed scores.

    parts : potential, targets, unweighted residual and weights of each part of the items
    """

    parts: tuple[tuple[Potential, Vector, Vector, Vector], ...]

    def value(self, scale: float) -> float:
        """Return the dual loss at `scale`; -inf where the conjugate is not known."""
        total = scale * self.amount
        for potential, targets, residual, weights in self.parts:
            before = potential.conjugate(targets)
            after = potential.conjugate(targets + scale * residual)
            if before is None or after is None:
                return -np.inf
            total += float(weights @ (before - after))
        return total


@dataclass(frozen=True, eq=False)
class Link(ScoreLoss):
    """The loss of a link around targets.

    Parameters
    ----------
    potential : Phi, its gradient being the link
    targets : float64 (K, N)

    Raises
    ------
    InputError
        For targets that are not finite, or where the conjugate is infinite: no scores predict them.
    """

    potential: Potential
    targets: Vector  # type: ignore[assignment]
    n_states: int = field(init=False)
    n_positions: int = field(init=False)

    is_smooth = has_curvature = True

    def __post_init__(self) -> None:
        if self.targets.ndim != 2 or not np.isfinite(self.targets).all():
            raise InputError(f"expected finite targets, states x positions, got shape {self.targets.shape}")
        object.__setattr__(self, "n_states", self.targets.shape[0])
        object.__setattr__(self, "n_positions", self.targets.shape[1])
        object.__setattr__(self, "score_bounds", self.potential.lipschitz)

    def take(
        self, items: NDArray[np.integer], positions: NDArray[np.int64], offsets: NDArray[np.int64]
    ) -> Link:
        return Link(self.potential, self.targets[:, positions])

    def evaluate(self, scores: Vector, edges: Vector, weights: Vector, pool: Pool) -> Evaluation:
        residual = self.potential.gradient(scores)
        residual -= self.targets
        losses = self.potential.value(scores) - np.einsum("kn,kn->n", self.targets, scores)
        constant = self.potential.conjugate(self.targets)
        if constant is not None:
            losses = np.maximum(losses + constant, 0.0)  # rounding
        return Evaluation(losses, residual * weights, NO_EDGES)

    def dual(self, evaluation: Evaluation, weights: Vector) -> LinkDual:
        inverse = np.divide(1.0, weights, out=np.zeros_like(weights), where=weights > 0)
        plain = evaluation.residual * inverse
        return LinkDual(0.0, ((self.potential, self.targets, plain, weights),))

    @property
    def has_dual(self) -> bool:  # type: ignore[override]
        """Whether the conjugate is known, so that bounds can be proved and 0 is the smallest loss."""
        return self.potential.conjugate(self.targets[:, :1]) is not None

    def difference_bounds(self, losses: Vector, change: Vector, x: Vector) -> Vector:
        """Return what positions prove of the intercepts, (2, K)."""
        return self.potential.difference_bounds(self.targets, losses, change, x)

    def intercept_bound(self, table: Vector, step: float) -> float:
        return self.potential.intercept_bound(table)

    def curvature(self, scores: Vector, evaluation: Evaluation, weights: Vector) -> Vector:
        return np.stack([self.potential.second(k, k, scores) for k in range(self.n_states)]) * weights

    def mixed(self, r: int, s: int, scores: Vector) -> Vector:
        return self.potential.second(int(r), int(s), scores)

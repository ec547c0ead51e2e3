"""Theorem 1 of the paper on a small problem: Prox-QN converges superlinearly although the Hessian is singular.

Chains with redundant features: two columns are copies of others, and for each feature the weights of all labels may be
shifted together. So the loss depends on z = proj_T(w) only, T the row space of the Hessian, the same at every w
(constant nullspace strong convexity). No shrinking, the inner problem solved to the end, all secant pairs kept; then
||z_{t+1} - z*|| / ||z_t - z*|| must fall. For proximal gradient descent it stays where it is.

Shapes: d weights, n steps; all vectors here are dense.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.data.features import FeatureStore
from crfqn.objectives.blocks import likelihood
from crfqn.objectives.objective import Objective
from crfqn.penalties import ElasticNet
from crfqn.solvers.first_order.prox_gd import ProxGD
from crfqn.solvers.minimize import minimize
from crfqn.solvers.protocols import Requirements
from crfqn.solvers.prox_qn import AllCoordinates, ByShareOfBound, PricedSweeps, ProxQN
from crfqn.structures.chain import Chain
from harness.curves import Recording
from harness.drawing import DPI, GRID, Look
from harness.report import Table

Vector = NDArray[np.float64]
N_ITEMS, LONGEST, N_FEATURES, N_COPIES, N_STATES = 200, 6, 6, 2, 3
SEEDS, L1 = range(5), 25.0
MOST_SWEEPS, MOST_STEPS = 20_000, 400
STEP = 1e-4  # of the differences that the Hessian is made of
NULL = 1e-6  # an eigenvalue below this share of the largest is zero
FLOOR = 1e-7  # of the first distance: nearer, rounding hides the decrease of the objective
POLISHING = 5  # Newton steps
METHOD, PEER = "Prox-QN", "Prox-GD"
NEVER = 2.0  # a margin that no gradient exceeds
ALMOST_NOTHING = 1e-14


@dataclass(frozen=True)
class WithoutShrinking:
    """Prox-QN on all coordinates all the time, in one epoch: the method of the paper's theorems.

    `sweeps`: of the inner coordinate descent, for the paper's rule leaves one (floor(d / |A|) = 1).
    """

    solver: ProxQN
    sweeps: int

    def requires(self, objective: Any, penalty: Any) -> Requirements:
        """Return what the solver asks for."""
        return self.solver.requires(objective, penalty)

    def steps(self, objective: Any, penalty: Any, start: Any) -> Iterator[Any]:
        """The steps of the solver, told that every coordinate may move."""
        solver = replace(
            self.solver,
            shrinking=ByShareOfBound(margin=NEVER),
            entry=AllCoordinates(),
            cooling=ALMOST_NOTHING,
            sweeps=PricedSweeps(self.sweeps, tolerance=0.0),
            warm_start=None,
        )
        return solver.steps(objective, penalty, start)


@dataclass(frozen=True, eq=False)
class Geometry:
    """The optimum and the space that the loss depends on.

    optimum : (d,); basis : (d, rank), orthonormal columns, of the Hessian's row space
    angle : sine of the largest angle between that space at the optimum and at zero
    violation : of the optimality conditions at the optimum
    """

    optimum: Vector
    basis: Vector
    angle: float
    violation: float

    def distances(self, iterates: Vector) -> Vector:
        """||z_t - z*|| of each row, until it is down to what rounding leaves."""
        found = np.linalg.norm((iterates - self.optimum) @ self.basis, axis=1)
        near = np.flatnonzero(found < FLOOR * found[0])
        return found[: near[0]] if near.size else found


@dataclass(frozen=True, eq=False)
class Convergence:
    """What is shown: distances ||z_t - z*|| by method, and the geometry behind them."""

    geometry: Geometry
    n_nonzero: int
    distances: dict[str, Vector]

    def ratios(self, name: str) -> Vector:
        """||z_{t+1} - z*|| / ||z_t - z*||."""
        distances = self.distances[name]
        return distances[1:] / distances[:-1]

    def thirds(self, name: str) -> list[float]:
        """The geometric mean of the ratios in the first, second and last third of the steps."""
        parts = np.array_split(np.log(self.ratios(name)), 3)
        return [float(np.exp(part.mean())) for part in parts]


def measure(seed: int) -> Convergence:
    """Run both methods, and find the optimum and the row space."""
    objective, penalty = make_objective(seed), ElasticNet(L1)
    solver = replace(ProxQN.paper(), memory=MOST_STEPS)
    solvers = {METHOD: WithoutShrinking(solver, MOST_SWEEPS), PEER: ProxGD(growth=1.0)}
    iterates = {name: run(objective, penalty, solver) for name, solver in solvers.items()}
    geometry = look(objective, iterates[METHOD][-1])
    distances = {name: geometry.distances(rows) for name, rows in iterates.items()}
    return Convergence(geometry, int(np.count_nonzero(geometry.optimum)), distances)


def make_objective(seed: int) -> Objective:
    """Random chains whose labels depend on the features and on each other, with copies of the first columns."""
    random = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(random.integers(1, LONGEST + 1, N_ITEMS))])
    matrix = random.normal(size=(offsets[-1], N_FEATURES)) * (random.random((offsets[-1], N_FEATURES)) < 0.4)
    scores = matrix @ random.normal(size=(N_FEATURES, N_STATES)) + random.gumbel(size=(offsets[-1], N_STATES))
    edges = 1.5 * random.normal(size=(N_STATES, N_STATES))
    targets = scores.argmax(axis=1).astype(np.int32)
    for first, last in pairwise(offsets):
        for t in range(first + 1, last):
            targets[t] = np.argmax(scores[t] + edges[targets[t - 1]])
    store = FeatureStore.from_matrix(np.hstack([matrix, matrix[:, :N_COPIES]]), offsets)
    return likelihood(store, Chain(offsets, N_STATES), targets, n_threads=1)


def run(objective: Objective, penalty: ElasticNet, solver: Any) -> Vector:
    """All iterates, (n, d), from zero until rounding hides any decrease."""
    recording = Recording(solver, keeps_all=True)
    minimize(objective, penalty, recording, tol=0.0, max_iter=MOST_STEPS, proves_zeros=False)
    rows = np.zeros((len(recording.kept), objective.n_coords))
    for row, (coords, weights) in zip(rows, recording.kept.values(), strict=True):
        row[coords] = weights
    return rows[np.append(True, np.any(rows[1:] != rows[:-1], axis=1))]  # a state may look twice at a point


def look(objective: Objective, near: Vector) -> Geometry:
    """The optimum near the last iterate, by Newton steps on its support, and the row spaces."""
    w, support = near.copy(), np.flatnonzero(near)
    for _ in range(POLISHING):
        slope = gradient(objective, w)[support] + L1 * np.sign(w[support])
        inner = hessian(objective, w)[np.ix_(support, support)]
        w[support] -= np.linalg.pinv(inner, rcond=NULL, hermitian=True) @ slope
    basis, at_zero = (row_space(hessian(objective, at)) for at in (w, np.zeros_like(w)))
    outside = basis - at_zero @ (at_zero.T @ basis)
    violation = ElasticNet(L1).violation(np.arange(w.size), w, gradient(objective, w))
    return Geometry(w, basis, float(np.linalg.norm(outside, 2)), float(violation.max()))


def row_space(matrix: Vector) -> Vector:
    """Orthonormal columns."""
    values, vectors = np.linalg.eigh(matrix)
    return vectors[:, values > NULL * values[-1]]


def gradient(objective: Objective, w: Vector) -> Vector:
    """Of the loss, at dense weights."""
    used = np.flatnonzero(w)
    return objective.at(used, w[used]).gradient(np.arange(w.size))


def hessian(objective: Objective, w: Vector) -> Vector:
    """Of the loss, (d, d), by differences of the gradient of fourth order."""
    rows = []
    for unit in np.eye(w.size):
        near, far = (
            gradient(objective, w + n * STEP * unit) - gradient(objective, w - n * STEP * unit)
            for n in (1, 2)
        )
        rows.append((8 * near - far) / (12 * STEP))
    matrix = np.array(rows)
    return 0.5 * (matrix + matrix.T)


def draw_convergence(runs: Sequence[Convergence], looks: Mapping[str, Look], file: Path) -> None:
    """Distances of Theorem 1, and their ratios, step by step; a line a problem."""
    from matplotlib.figure import Figure as Picture

    picture = Picture(figsize=(11.0, 4.8), layout="constrained")
    left, right = picture.subplots(1, 2)
    lines = {}
    for name in (PEER, METHOD):
        look, every = looks[name], 4 if name == PEER else 1
        style = {"color": look.colour, "marker": look.marker, "markersize": 4, "markevery": every}
        for run in runs:
            left.semilogy(run.distances[name], linewidth=1.3, alpha=0.8, **style)
            right.plot(
                np.arange(1, run.distances[name].size), run.ratios(name), color=look.colour, alpha=0.25
            )
        n_steps = min(run.ratios(name).size for run in runs)
        mean = np.exp(np.mean([np.log(run.ratios(name)[:n_steps]) for run in runs], axis=0))
        lines[name] = right.plot(np.arange(1, n_steps + 1), mean, linewidth=2.2, **style)[0]
    longest = max(run.distances[METHOD].size for run in runs)
    for axes in (left, right):
        axes.set(xlabel="step t", xlim=(-0.5, 2.5 * longest))
        axes.grid(which="major", color=GRID)
    left.set(ylabel="$\\|z_t - z^*\\|$, units of weight", title="distance from the optimum")
    right.set(
        ylabel="$\\|z_t - z^*\\| \\; / \\; \\|z_{t-1} - z^*\\|$",
        title="ratio of successive distances; bold: geometric mean",
    )
    right.set_ylim(0.0, 1.05)
    picture.legend(
        [lines[METHOD], lines[PEER]], [METHOD, PEER], loc="outside lower center", ncols=2, fontsize="small"
    )
    picture.suptitle(f"Superlinear convergence with redundant features: {len(runs)} problems")
    picture.savefig(file, dpi=DPI)


def convergence_rows(runs: Sequence[Convergence]) -> tuple[list[str], list[Sequence[Any]]]:
    """Head and rows of the CSV file."""
    rows: list[Sequence[Any]] = []
    for number, run in enumerate(runs):
        for name, distances in run.distances.items():
            ratios = [np.nan, *run.ratios(name)]
            known = zip(distances, ratios, strict=True)
            rows += [(number, name, step, *row) for step, row in enumerate(known)]
    return ["problem", "solver", "step", "distance", "ratio"], rows


def convergence_table(runs: Sequence[Convergence]) -> Table:
    """The numbers of Theorem 1, and how to read them."""
    rows = []
    for number, run in enumerate(runs):
        geometry = run.geometry
        d, rank = geometry.basis.shape
        row = [str(number), str(d), str(rank), f"{geometry.angle:.0e}", str(run.n_nonzero)]
        for name in (METHOD, PEER):
            row += [" ".join(f"{ratio:.2f}" for ratio in run.thirds(name)), str(run.ratios(name).size)]
        rows.append(row)
    head = ["problem", "weights", "rank of the Hessian", "sine of angle", "non-zeros"]
    for name in (METHOD, PEER):
        head += [f"{name}: ratios", "steps"]
    notes = [
        "Sine of angle: the largest one between the Hessian's row spaces at w = 0 and at the optimum. They are the "
        "same space, as constant nullspace strong convexity wants, and smaller than the space of weights.",
        "Ratios: ||z_{t+1} - z*|| / ||z_t - z*||, z the projection on that space, geometric means over the first, "
        "second and last third of the steps. Superlinear: they fall. Linear: they stay.",
        "The run ends where the distance is 1e-7 of the first; nearer, rounding hides the decrease of the objective.",
        "Prox-QN as published, without shrinking, the inner problem solved to the end, all secant pairs kept. Its "
        "B0 = gamma I is not confined to the row space, as the theorem's is; that does no harm here.",
    ]
    return Table("Ratios of successive distances", head, rows, notes)

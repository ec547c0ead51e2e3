"""OWL-QN on crfqn's own objective: libLBFGS (PyLBFGS), the code that CRFsuite uses, fed with value and gradient.

It knows dense vectors only. A feature whose values sum up to l1 or less can have no weight, since no derivative at it
exceeds that sum; the others, with all nodes, are its variables, and every one of its vectors has a number for each.
"""

from __future__ import annotations

from importlib.util import find_spec
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from benchmarks.alone import peak_memory, say
from benchmarks.items import ItemProblem, read_stored
from benchmarks.problem import Run

MEMORY = 6  # secant pairs: the library's default


def is_installed() -> bool:
    return find_spec("lbfgs") is not None


def train(path: str, l1: float, n_threads: int | None, target: float, limit: float) -> Run:
    """Minimise from zero until the objective is at most `target`, for `limit` seconds at the most.

    Seconds count from the matrix in memory.
    """
    from lbfgs import LBFGSError, fmin_lbfgs

    problem, rows = read_stored(path), []
    _objective(problem.part(100), n_threads).at(np.array([0]), np.ones(1)).gradient(np.array([0]))  # compiles
    begin = perf_counter()
    objective = _objective(problem, n_threads)
    n_features = objective.map.store.n_features
    strong = np.flatnonzero(np.asarray(abs(problem.X_train).sum(axis=0)).ravel() > l1)
    coords = (n_features * np.arange(objective.loss.structure.n_states)[:, None] + strong).ravel()
    latest = np.zeros(coords.size)

    def value_and_gradient(w: NDArray[np.float64], gradient: NDArray[np.float64]) -> float:
        used = np.flatnonzero(w)
        point = objective.at(coords[used], w[used])
        gradient[:] = point.gradient(coords)
        return point.value

    def note(w: Any, gradient: Any, value: float, *progress: Any) -> bool:
        """A row of the run; true stops it."""
        rows.append((progress[3], value, perf_counter() - begin))
        latest[:] = w
        return value <= target or rows[-1][2] > limit

    setup_seconds = perf_counter() - begin
    try:
        fmin_lbfgs(
            value_and_gradient,
            np.zeros(coords.size),
            progress=note,
            orthantwise_c=l1,
            line_search="wolfe",
            m=MEMORY,
            epsilon=1e-12,
        )
    except LBFGSError as error:  # so it says as well that `note` asked it to stop
        say(f"  OWL-QN: {error}")
    peak = peak_memory()
    iterations, values, seconds = map(np.array, zip(*rows, strict=True))
    say(f"  OWL-QN: {len(rows)} iterations, {seconds[-1]:.1f} s, {values[-1]:,.1f}")
    states, features = np.divmod(coords, n_features)
    shape = (objective.loss.structure.n_states, n_features)
    weights = scipy.sparse.coo_array((latest, (states, features)), shape=shape).tocsr()
    weights.eliminate_zeros()
    return Run(
        name="OWL-QN",
        iterations=iterations,
        seconds=seconds,
        values=values,
        setup_seconds=setup_seconds,
        passes=objective.n_passes,
        weights=weights,
        n_nonzero=weights.nnz,
        peak_bytes=peak,
        facts={"n_variables": coords.size},
    )


def _objective(problem: ItemProblem, n_threads: int | None) -> Any:
    """crfqn's, over the taxonomy."""
    from crfqn.data.features import FeatureStore
    from crfqn.objectives.build import likelihood
    from crfqn.structures.taxonomy import Taxonomy

    tree, n_items = problem.taxonomy, len(problem.y_train)
    assert tree is not None
    store = FeatureStore.from_matrix(problem.X_train, np.arange(n_items + 1))
    structure = Taxonomy(tree.parents, tree.is_leaf, n_items)
    return likelihood(store, structure, tree.nodes_of(problem.y_train.tolist()), n_threads=n_threads)

"""What crfqn's taxonomy is compared with: OWL-QN on its own objective, and hiclass's local classifiers.

OWL-QN is that of libLBFGS (PyLBFGS), the code that CRFsuite uses, fed with value and gradient. It knows dense vectors
only. A feature whose values sum up to l1 or less can have no weight, since no derivative at it exceeds that sum; the
others, with all nodes, are its variables, and every one of its vectors has a number for each.

hiclass has a logistic regression of scikit-learn at every parent node, or at every node. No common objective, hence
compared by accuracy, time and size. A document goes down from the top by the best child.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import joblib
import numpy as np
from harness.judging import weights_of
from harness.measuring import file_size, peak_memory, quietly, say
from harness.problems import Problem, Run, read_stored
from numpy.typing import NDArray

MEMORY = 6  # secant pairs: the library's default
PARENT, NODE, NODE_L1 = "per parent node", "per node", "per node, L1"
KINDS = (PARENT, NODE, NODE_L1)


def has_lbfgs() -> bool:
    return find_spec("lbfgs") is not None


def has_hiclass() -> bool:
    return find_spec("hiclass") is not None


def owlqn(path: str, l1: float, n_threads: int | None, target: float, limit: float) -> Run:
    """Minimise from zero until the objective is at most `target`, for `limit` seconds at the most.

    Seconds count from the matrix in memory.
    """
    from lbfgs import LBFGSError, fmin_lbfgs

    problem, rows = read_stored(path), []
    _objective(problem.part(100), n_threads).at(np.array([0]), np.ones(1)).gradient(np.array([0]))  # compiles
    begin = perf_counter()
    objective = _objective(problem, n_threads)
    n_features, n_states = objective.map.store.n_features, objective.loss.structure.n_states
    strong = np.flatnonzero(np.asarray(abs(problem.X_train).sum(axis=0)).ravel() > l1)
    coords = (n_features * np.arange(n_states)[:, None] + strong).ravel()
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
    own = {"orthantwise_c": l1, "line_search": "wolfe", "m": MEMORY, "epsilon": 1e-12}
    try:
        fmin_lbfgs(value_and_gradient, np.zeros(coords.size), progress=note, **own)
    except LBFGSError as error:  # so it says as well that `note` asked it to stop
        say(f"  OWL-QN: {error}")
    peak = peak_memory()
    iterations, values, seconds = map(np.array, zip(*rows, strict=True))
    say(f"  OWL-QN: {len(rows)} iterations, {seconds[-1]:.1f} s, {values[-1]:,.1f}")
    weights, _ = weights_of(coords, latest, n_states, n_features)
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


def _objective(problem: Problem, n_threads: int | None) -> Any:
    """crfqn's, over the taxonomy."""
    from crfqn.data.features import FeatureStore
    from crfqn.objectives.blocks import likelihood
    from crfqn.structures.taxonomy import Taxonomy

    tree, n_items = problem.taxonomy, len(problem.y_train)
    store = FeatureStore.from_matrix(problem.X_train, np.arange(n_items + 1))
    structure = Taxonomy(tree.parents, tree.is_leaf, n_items)
    return likelihood(store, structure, tree.nodes_of(problem.y_train.tolist()), n_threads=n_threads)


@dataclass(frozen=True, eq=False)
class LocalModels:
    """What the models of one kind cost and what they predict; `n_weights` of them, `n_nonzero` not zero."""

    kind: str
    seconds: float
    predicted: NDArray[np.str_]
    n_weights: int
    n_nonzero: int
    file_bytes: int
    peak_bytes: int


def hiclass(path: str, l1: float, kind: str) -> LocalModels:
    """Fit to the paths of the labels, and predict the test items."""
    from hiclass import LocalClassifierPerNode, LocalClassifierPerParentNode
    from sklearn.linear_model import LogisticRegression

    problem: Problem = read_stored(path)
    tree = problem.taxonomy
    rows = [
        [tree.names[node] for node in tree.path(node)] for node in tree.nodes_of(problem.y_train.tolist())
    ]
    depth = max(map(len, rows))
    paths = np.array([row + [""] * (depth - len(row)) for row in rows])
    local = LogisticRegression()
    if kind == NODE_L1:
        local = LogisticRegression(solver="liblinear", l1_ratio=1.0, C=1.0 / l1)
    model = (LocalClassifierPerParentNode if kind == PARENT else LocalClassifierPerNode)(local)
    with quietly():  # of nodes with a single child, of iterations
        begin = perf_counter()
        model.fit(problem.X_train, paths)
        seconds = perf_counter() - begin
        found = model.predict(problem.X_test)
    say(f"  hiclass, {kind}: {seconds:.1f} s")
    # Of the nodes that have a classifier; a parent with a single child has one without weights.
    classifiers = [
        node["classifier"] for _, node in model.hierarchy_.nodes(data=True) if "classifier" in node
    ]
    coefficients = [classifier.coef_ for classifier in classifiers if hasattr(classifier, "coef_")]
    return LocalModels(
        kind=kind,
        seconds=seconds,
        predicted=np.array([[name for name in row if name][-1] for row in found]),
        n_weights=sum(weights.size for weights in coefficients),
        n_nonzero=sum(int(np.count_nonzero(weights)) for weights in coefficients),
        file_bytes=file_size(lambda file: joblib.dump(model, file)),
        peak_bytes=peak_memory(),
    )

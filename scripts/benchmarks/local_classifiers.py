"""hiclass: a logistic regression of scikit-learn at every parent node, or at every node, of the taxonomy.

No common objective, hence compared by accuracy, time and size. A document goes down from the top by the best child.
"""

from __future__ import annotations

import tempfile
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

from benchmarks.alone import peak_memory, say
from benchmarks.items import read_stored

PARENT, NODE, NODE_L1 = "per parent node", "per node", "per node, L1"
KINDS = (PARENT, NODE, NODE_L1)


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


def is_installed() -> bool:
    return find_spec("hiclass") is not None


def train(path: str, l1: float, kind: str) -> LocalModels:
    """Fit to the paths of the labels, and predict the test items."""
    from hiclass import LocalClassifierPerNode, LocalClassifierPerParentNode
    from sklearn.linear_model import LogisticRegression

    problem = read_stored(path)
    tree = problem.taxonomy
    assert tree is not None
    rows = [
        [tree.names[node] for node in tree.path(node)] for node in tree.nodes_of(problem.y_train.tolist())
    ]
    depth = max(map(len, rows))
    paths = np.array([row + [""] * (depth - len(row)) for row in rows])
    local = LogisticRegression()
    if kind == NODE_L1:
        local = LogisticRegression(solver="liblinear", l1_ratio=1.0, C=1.0 / l1)
    model = (LocalClassifierPerParentNode if kind == PARENT else LocalClassifierPerNode)(local)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of nodes with a single child, of iterations
        begin = perf_counter()
        model.fit(problem.X_train, paths)
        seconds = perf_counter() - begin
        found = model.predict(problem.X_test)
    say(f"  hiclass, {kind}: {seconds:.1f} s")
    coefficients = [weights for weights in map(_weights, _classifiers(model)) if weights is not None]
    return LocalModels(
        kind=kind,
        seconds=seconds,
        predicted=np.array([[name for name in row if name][-1] for row in found]),
        n_weights=sum(weights.size for weights in coefficients),
        n_nonzero=sum(int(np.count_nonzero(weights)) for weights in coefficients),
        file_bytes=_file_bytes(model),
        peak_bytes=peak_memory(),
    )


def _classifiers(model: Any) -> list[Any]:
    """Of the nodes that have one."""
    return [node["classifier"] for _, node in model.hierarchy_.nodes(data=True) if "classifier" in node]


def _weights(classifier: Any) -> NDArray[np.float64] | None:
    """A parent with a single child has a classifier without weights."""
    return getattr(classifier, "coef_", None)


def _file_bytes(model: Any) -> int:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.joblib"
        joblib.dump(model, path)
        return path.stat().st_size

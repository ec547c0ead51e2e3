"""CRFsuite (python-crfsuite): the orthant-wise L-BFGS of C that most people train their CRFs with.

Same objective: c1 = l1, c2 = 0, all states and transitions possible. Losses and seconds come from its own
log; its seconds are processor time (C's `clock`), the wall clock is noted beside them.
"""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse

from benchmarks.alone import peak_memory, say
from benchmarks.problem import Problem, Run


def is_installed() -> bool:
    return find_spec("pycrfsuite") is not None


def train(recipe: str, l1: float, n_iterations: int) -> Run:
    """Train for so many iterations; `facts` has the seconds of each by the log and by the wall clock."""
    problem = Problem.of_recipe(recipe)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.crfsuite")
        trainer = _trainer(l1, n_iterations)
        begin = perf_counter()
        _append(trainer, problem)
        trainer.train(path)
        peak = peak_memory()
        weights, edges, n_nonzero = _read_weights(path, problem)
    rows = trainer.logparser.iterations
    log_seconds = np.array([row["time"] for row in rows])
    return Run(
        name="CRFsuite",
        iterations=np.array([row["num"] for row in rows]),
        seconds=np.cumsum(log_seconds),
        values=np.array([row["loss"] for row in rows]),
        setup_seconds=trainer.clock[0] - begin,
        passes=1 + sum(row["linesearch_trials"] for row in rows),
        weights=weights,
        edges=edges,
        n_nonzero=n_nonzero,
        peak_bytes=peak,
        facts={"log_seconds": log_seconds.tolist(), "wall_seconds": np.diff(trainer.clock).tolist()},
    )


def _trainer(l1: float, n_iterations: int) -> Any:
    import pycrfsuite

    class Trainer(pycrfsuite.Trainer):
        """Notes when each iteration ends; `clock` begins when the features are generated."""

        def on_featgen_end(self, log: str) -> None:
            self.clock = [perf_counter()]

        def on_iteration(self, log: str, info: dict[str, Any]) -> None:
            self.clock.append(perf_counter())
            say(f"  CRFsuite: iteration {info['num']}, {info['loss']:,.1f}, {info['time']:.1f} s")

        def _silent(self, log: str, *percent: int) -> None:
            pass

        on_start = on_featgen_progress = on_prepared = on_optimization_end = on_end = _silent

    trainer = Trainer(algorithm="lbfgs")
    trainer.set_params(
        {
            "c1": l1,
            "c2": 0.0,
            "feature.possible_states": True,
            "feature.possible_transitions": True,
            "max_iterations": n_iterations,
            "epsilon": 0.0,  # no early stop, by the gradient or by the decrease
            "delta": 0.0,
        }
    )
    return trainer


def _append(trainer: Any, problem: Problem) -> None:
    """Hand over the words: a feature is known by its column number."""
    matrix, offsets = problem.X_train.matrix, problem.X_train.offsets
    names = [str(column) for column in range(matrix.shape[1])]
    for item, labels in enumerate(problem.y_train):
        rows = range(offsets[item], offsets[item + 1])
        columns = (matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]].tolist() for row in rows)
        trainer.append([[names[column] for column in position] for position in columns], labels)


def _read_weights(path: str, problem: Problem) -> tuple[Any, np.ndarray, int]:
    """Weights of the model file (K, F), transitions (K, K), and how many it has; read from its dump."""
    import pycrfsuite

    tagger = pycrfsuite.Tagger()
    with tagger.open(path):
        dump = tagger.info()
    code = {label: number for number, label in enumerate(problem.classes)}
    entries = [(code[label], int(name), value) for (name, label), value in dump.state_features.items()]
    states, columns, values = np.array(entries).reshape(-1, 3).T
    shape = (len(code), problem.X_train.n_features)
    weights = scipy.sparse.coo_array((values, (states.astype(int), columns.astype(int))), shape=shape)
    edges = np.zeros((len(code), len(code)))
    for (before, after), value in dump.transitions.items():
        edges[code[before], code[after]] = value
    return weights.tocsr(), edges, len(dump.state_features) + len(dump.transitions)

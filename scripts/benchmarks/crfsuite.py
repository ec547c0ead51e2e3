"""CRFsuite (python-crfsuite): the orthant-wise L-BFGS of C that most people train their CRFs with.

Same objective: c1 = l1, c2 = l2/2, and the same weights: all pairs of features and labels, or those that occur. Losses
and seconds come from its own log; its seconds are processor time (C's `clock`), the wall clock is noted beside them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import scipy.sparse
from harness.measuring import peak_memory, say
from harness.problems import Problem, Run, read_stored

REPORTED = 10  # iterations, of which one is told to the person who waits


def is_installed() -> bool:
    return find_spec("pycrfsuite") is not None


def train(
    path: str, penalty: dict[str, float], all_pairs: bool, n_iterations: int | None = None,
    clock: str = "log_seconds", **parameters: Any,
) -> Run:  # fmt: skip
    """Train on a stored problem over these pairs, by CRFsuite's own stopping rules unless `parameters` say otherwise.

    clock : "log_seconds" of the iterations, or "processor_seconds" since its features are in memory: the first row
        holds the generation of features by label, too

    `facts` has the seconds of each iteration by log and by wall clock, the size of the model file, and the tokens a
    second when it labels the test items (one core).
    """
    problem: Problem = read_stored(path)
    pairs = {"feature.possible_states": all_pairs, "feature.possible_transitions": all_pairs}
    most = {"max_iterations": n_iterations} if n_iterations else {}
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "model.crfsuite")
        trainer = _trainer({**penalty, **pairs, **most, **parameters})
        begin = perf_counter()
        for item, labels in zip(strings(problem.X_train), problem.y_train, strict=True):
            trainer.append(item, labels)
        began = process_time()
        trainer.train(file)
        whole = process_time() - began
        peak = peak_memory()
        file_bytes = Path(file).stat().st_size
        weights, edges, n_nonzero = _read_weights(file, problem)
        speed = _tokens_per_second(file, problem)
    rows = trainer.logparser.iterations
    log_seconds = np.array([row["time"] for row in rows])
    processor = np.array(trainer.processor) - began
    return Run(
        name="CRFsuite",
        iterations=np.array([row["num"] for row in rows]),
        seconds=np.cumsum(log_seconds) if clock == "log_seconds" else processor,
        values=np.array([row["loss"] for row in rows]),
        setup_seconds=trainer.clock[0] - begin,
        passes=1 + sum(row.get("linesearch_trials", 1) for row in rows),
        weights=weights,
        edges=edges,
        n_nonzero=n_nonzero,
        peak_bytes=peak,
        facts={
            "log_seconds": log_seconds.tolist(),
            "wall_seconds": np.diff(trainer.clock).tolist(),
            "processor_seconds": processor.tolist(),
            "total": whole,
            "file_bytes": file_bytes,
            "tokens_per_second": speed,
        },
    )


def _trainer(parameters: dict[str, Any]) -> Any:
    import pycrfsuite

    class Trainer(pycrfsuite.Trainer):
        """Notes when each iteration ends; `clock` begins when the features are generated."""

        def on_featgen_end(self, log: str) -> None:
            self.clock: list[float] = [perf_counter()]
            self.processor: list[float] = []

        def on_iteration(self, log: str, info: dict[str, Any]) -> None:
            self.clock.append(perf_counter())
            self.processor.append(process_time())
            if info["num"] % REPORTED == 0:
                say(f"  CRFsuite: iteration {info['num']}, {info['loss']:,.1f}, {info['time']:.1f} s")

        def _silent(self, log: str, *percent: int) -> None:
            pass

        on_start = on_featgen_progress = on_prepared = on_optimization_end = on_end = _silent

    trainer = Trainer(algorithm="lbfgs")
    trainer.set_params(parameters)
    return trainer


def strings(sequences: Any) -> Iterator[list[list[str]]]:
    """Each item as CRFsuite takes it: the names of the features of each position."""
    matrix, offsets = sequences.matrix, sequences.offsets
    names = _names(sequences)
    for item in range(len(sequences)):
        rows = range(offsets[item], offsets[item + 1])
        columns = (matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]].tolist() for row in rows)
        yield [[names[column] for column in position] for position in columns]


def _names(sequences: Any) -> list[str]:
    """Of the columns; their numbers, where they have no names."""
    return sequences.feature_names or [str(column) for column in range(sequences.n_features)]


def _tokens_per_second(path: str, problem: Problem, repeats: int = 5) -> float:
    """The median speed over the test items, from its own copies of their features."""
    import pycrfsuite

    tagger = pycrfsuite.Tagger()
    with tagger.open(path):
        items = [pycrfsuite.ItemSequence(item) for item in strings(problem.X_test)]
        seconds = []
        for _ in range(repeats):
            begin = perf_counter()
            for item in items:
                tagger.tag(item)
            seconds.append(perf_counter() - begin)
    return problem.X_test.n_positions / float(np.median(seconds))


def _read_weights(path: str, problem: Problem) -> tuple[Any, np.ndarray, int]:
    """Weights of the model file (K, F), transitions (K, K), and how many it has; read from its dump."""
    import pycrfsuite

    tagger = pycrfsuite.Tagger()
    with tagger.open(path):
        dump = tagger.info()
    code = {label: number for number, label in enumerate(problem.classes)}
    column = {name: number for number, name in enumerate(_names(problem.X_train))}
    entries = [(code[label], column[name], value) for (name, label), value in dump.state_features.items()]
    states, columns, values = np.array(entries).reshape(-1, 3).T
    shape = (len(code), problem.X_train.n_features)
    weights = scipy.sparse.coo_array((values, (states.astype(int), columns.astype(int))), shape=shape)
    edges = np.zeros((len(code), len(code)))
    for (before, after), value in dump.transitions.items():
        edges[code[before], code[after]] = value
    return weights.tocsr(), edges, len(dump.state_features) + len(dump.transitions)

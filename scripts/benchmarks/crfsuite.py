"""CRFsuite (python-crfsuite): the orthant-wise L-BFGS of C that most people train their CRFs with.

Same objective: c1 = l1, c2 = l2/2, and the same weights: all pairs of features and labels, or those that occur. Losses
come from its own log; seconds are the processor's since its features are in memory, so that the first row holds the
generation of features by label, too.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import scipy.sparse
from harness.measuring import peak_memory, processor_times, say
from harness.problems import Problem, Run, read_stored

REPORTED = 10  # iterations, of which one is told to the person who waits


def train(
    path: str, penalty: dict[str, float], all_pairs: bool, n_iterations: int | None = None, **parameters: Any
) -> Run:
    """Train on a stored problem over these pairs, by CRFsuite's own stopping rules unless `parameters` say otherwise.

    `facts` has the seconds of the whole training (`total`) and of each iteration (`each`), the size of the model file,
    and the tokens a second when it labels the test items (one core).
    """
    import pycrfsuite

    problem: Problem = read_stored(path)
    pairs = {"feature.possible_states": all_pairs, "feature.possible_transitions": all_pairs}
    most = {"max_iterations": n_iterations} if n_iterations else {}
    ends: list[float] = []

    class Trainer(pycrfsuite.Trainer):
        """Notes when each iteration ends; the first entry is when the features are generated."""

        def on_featgen_end(self, log: str) -> None:
            ends.append(process_time())

        def on_iteration(self, log: str, info: dict[str, Any]) -> None:
            ends.append(process_time())
            if info["num"] % REPORTED == 0:
                say(f"  CRFsuite: iteration {info['num']}, {info['loss']:,.1f}, {info['time']:.1f} s")

        def _silent(self, log: str, *percent: int) -> None:
            pass

        on_start = on_featgen_progress = on_prepared = on_optimization_end = on_end = _silent

    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "model.crfsuite")
        trainer = Trainer(algorithm="lbfgs")
        trainer.set_params({**penalty, **pairs, **most, **parameters})
        for item, labels in zip(strings(problem.X_train), problem.y_train, strict=True):
            trainer.append(item, labels)
        began = process_time()
        trainer.train(file)
        whole, peak = process_time() - began, peak_memory()
        file_bytes = Path(file).stat().st_size
        tagger = pycrfsuite.Tagger()
        with tagger.open(file):
            weights, edges, n_nonzero = _weights(tagger.info(), problem)
            items = [pycrfsuite.ItemSequence(item) for item in strings(problem.X_test)]
            labelling = processor_times(lambda: [tagger.tag(item) for item in items], 5)
    rows = trainer.logparser.iterations
    return Run(
        name="CRFsuite",
        iterations=np.array([row["num"] for row in rows]),
        seconds=np.array(ends[1:]) - began,
        values=np.array([row["loss"] for row in rows]),
        passes=1 + sum(row.get("linesearch_trials", 1) for row in rows),
        weights=weights,
        edges=edges,
        n_nonzero=n_nonzero,
        peak_bytes=peak,
        facts={
            "total": whole,
            "each": np.diff(ends),
            "file_bytes": file_bytes,
            "tokens_per_second": problem.X_test.n_positions / float(np.median(labelling)),
        },
    )


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


def _weights(dump: Any, problem: Problem) -> tuple[Any, np.ndarray, int]:
    """Weights of a model (K, F), transitions (K, K), and how many it has, from its dump."""
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

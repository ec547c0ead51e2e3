"""Compare a chain with CRFsuite over model files, both ways, on the data that the chain was trained on.

The chain is written in CRFsuite's format, and python-crfsuite labels the test part with it. Then CRFsuite trains on the
training part for some iterations, crfqn reads its file, and both label the test part. Reported are the labels that
differ, the largest difference of a marginal, and whether the file that was read is written again byte for byte.
"""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pycrfsuite
import typer

from crfqn import Sequences, interchange
from crfqn.cli.loading import recipe_of, restored
from crfqn.errors import InputError
from crfqn.model.opening import read_any
from crfqn.recipes import prepare_data


def attributes_of(sequences: Sequences) -> list[list[dict[str, float]]]:
    """Return items as CRFsuite takes them: dicts from the name of a feature to its value."""
    names, matrix = sequences.feature_names, sequences.matrix
    assert names is not None
    ends, columns, values = matrix.indptr.tolist(), matrix.indices.tolist(), matrix.data.tolist()
    rows = [
        {names[column]: value for column, value in zip(columns[first:last], values[first:last], strict=True)}
        for first, last in pairwise(ends)
    ]
    cuts = sequences.offsets.tolist()
    return [rows[first:last] for first, last in pairwise(cuts)]


def compare(model: Any, path: Path, sequences: Sequences, items: list[list[dict[str, float]]]) -> str:
    """Return in words how the model and python-crfsuite with the file differ on the items."""
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    classes = [str(label) for label in model.classes_]
    n_positions, n_other, largest = 0, 0, 0.0
    predicted, marginals = model.predict(sequences), model.predict_marginals(sequences)
    for item, labels, table in zip(items, predicted, marginals, strict=True):
        n_positions += len(item)
        n_other += sum(a != b for a, b in zip(tagger.tag(item), labels, strict=True))
        theirs = [[tagger.marginal(label, t) for label in classes] for t in range(len(item))]
        largest = max(largest, float(np.abs(table - theirs).max()))
    return f"{n_other} of {n_positions:,} labels differ, marginals by at most {largest:.1e}"


def main(
    file: Annotated[Path, typer.Argument(metavar="MODEL", help="A chain that `crfqn train` wrote.")],
    iterations: Annotated[int, typer.Option(help="Of CRFsuite's training.")] = 20,
) -> None:
    """Label with one library what the other has trained, both ways, and compare."""
    model = restored(read_any(file))
    recipe = recipe_of(model, file)
    if recipe is None:
        raise InputError(f"{file}: expected a model that was trained from a recipe")
    data = prepare_data(recipe)
    if not isinstance(data.X_test, Sequences):
        raise InputError(f"{file}: expected a chain of named features, such as that of conll2000")
    test = attributes_of(data.X_test)
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs, again = (Path(folder) / name for name in ("ours", "theirs", "again"))
        interchange.write(model, ours, "crfsuite")
        print(f"written by crfqn, {ours.stat().st_size:,} bytes: {compare(model, ours, data.X_test, test)}")
        trainer = pycrfsuite.Trainer(
            params={"c1": 1.0, "c2": 0.0, "max_iterations": iterations}, verbose=False
        )
        for item, labels in zip(attributes_of(data.X_train), data.y_train, strict=True):
            trainer.append(item, labels)
        trainer.train(str(theirs))
        read = interchange.read(theirs)
        print(
            f"written by CRFsuite, {theirs.stat().st_size:,} bytes: {compare(read, theirs, data.X_test, test)}"
        )
        interchange.write(read, again, "crfsuite")
        print(f"written again: {'the same' if again.read_bytes() == theirs.read_bytes() else 'other'} bytes")

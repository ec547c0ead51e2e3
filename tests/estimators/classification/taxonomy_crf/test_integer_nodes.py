"""Nodes that are integers, in rows of parts and as names: what came comes back, also from a model file."""

import numpy as np
import pandas as pd
import pytest

from crfqn import TaxonomyCRF, load
from crfqn.model.opening import open_model

RNG = np.random.default_rng(0)
TOPS, KINDS = np.array([1, 1, 10, 10] * 10), np.array([20, 3, 20, 7] * 10)
X = RNG.standard_normal((40, 4)) * 0.1
X[np.arange(40), np.arange(40) % 4] += 2.0
PAIRS = np.stack([TOPS, KINDS], axis=1)
AS_TEXT = [f"{top}/{kind}" for top, kind in PAIRS]


def check(y, expected, tmp_path, **settings):
    model = TaxonomyCRF(l1=0.05, **settings).fit(X, y)
    model.save(tmp_path / "m.crfqn")
    found = model.predict(X)
    for again in (load(tmp_path / "m.crfqn"), open_model(tmp_path / "m.crfqn")):
        other = again.predict(X)
        assert other.dtype == found.dtype
        assert other.tolist() == found.tolist()
    assert model.score(X, y) == load(tmp_path / "m.crfqn").score(X, y) == 1.0
    assert found.tolist() == expected
    assert [[*map(type, row)] for row in found.tolist()] == [[*map(type, row)] for row in expected]
    return model, found


@pytest.mark.parametrize("y", [
    PAIRS,
    PAIRS.astype(np.uint8),
    [*map(tuple, PAIRS.tolist())],
    PAIRS.astype(object),
    pd.DataFrame(PAIRS, dtype="Int64"),
    pd.DataFrame(PAIRS, dtype="int64[pyarrow]"),
], ids=["int64", "uint8", "tuples", "objects", "Int64", "arrow"])  # fmt: skip
def test_rows_of_integers(y, tmp_path):
    model, found = check(y, PAIRS.tolist(), tmp_path)
    assert found.dtype.kind == "i"
    assert set(model.classes_) == set(AS_TEXT)
    tops = model.calibrate(temperature=30).predict(X, threshold=0.45)  # of a top some .5, of a leaf .25
    assert tops.tolist() == [[top, ""] for top in TOPS.tolist()]


def test_levels_of_either_kind(tmp_path):
    y = [(f"t{top}", int(kind)) for top, kind in PAIRS]
    _, found = check(y, [*map(list, y)], tmp_path)
    assert found.dtype == object


@pytest.mark.parametrize("missing", [np.nan, None, ""])
def test_paths_of_different_lengths(missing, tmp_path):
    rows = [[1, 20] if i % 2 else [3, missing] for i in range(40)]
    expected = [[1, 20] if i % 2 else [3, ""] for i in range(40)]
    y = np.array(rows) if missing is np.nan else rows
    _, found = check(y, expected, tmp_path)
    assert found.dtype == object


def test_parts_that_are_texts_stay_texts(tmp_path):
    y = [(str(top), f"{kind:03}") for top, kind in PAIRS]
    _, found = check(y, [*map(list, y)], tmp_path)
    assert found.dtype.kind == "U"


def test_a_taxonomy_with_other_parts(tmp_path):
    """A level has texts where the taxonomy has a node that is no integer there."""
    paths = [*map(tuple, PAIRS.tolist()), (1, "other")]
    _, found = check(
        PAIRS,
        [[top, str(kind)] for top, kind in PAIRS.tolist()],
        tmp_path,
        taxonomy=[(1, "other", ""), *((*path, "") for path in paths)],
    )
    assert found.dtype == object


@pytest.mark.parametrize("dtype", ["int64", "Int64", "int64[pyarrow]"])
def test_names_that_are_integers(dtype, tmp_path):
    leaves = 100 * TOPS + KINDS
    model = TaxonomyCRF(l1=0.05, taxonomy={int(leaf): int(leaf) // 100 for leaf in leaves})
    model.fit(X, pd.Series(leaves, dtype=dtype))
    model.save(tmp_path / "m.crfqn")
    for again in (model, load(tmp_path / "m.crfqn"), open_model(tmp_path / "m.crfqn")):
        assert again.classes_.dtype.kind == "i"
        assert again.predict(X).tolist() == leaves.tolist()
        unsure = again.calibrate(temperature=30)
        assert unsure.predict(X, threshold=0.45).tolist() == TOPS.tolist()
    assert model.score(X, leaves) == 1.0

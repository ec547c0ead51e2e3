"""Handwritten words, the whole way on the real data: only where the environment variable CRFQN_DATA names it.

6216 words for training, 661 for the test, 128 pixels, their pairs and a bias: 8257 features, 215,358 weights.
The optima are those of an independent solver (KKT violation 1e-4).
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from crfqn import ChainCRF, Sequences
from crfqn.data.pixels import PixelPairs
from crfqn.readers.images import read_letter_matlab, read_letter_table
from crfqn.result import Status

FOLDER = os.environ.get("CRFQN_DATA")


def find(name: str) -> Path | None:
    """The file in the folder, or in a folder directly in it."""
    folders = [Path(FOLDER), *sorted(p for p in Path(FOLDER).iterdir() if p.is_dir())] if FOLDER else []
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


# These two have the words in one order; the publisher's letter.data has another, hence another split.
TABLE, MATLAB = find("letter.derived.tsv.gz"), find("ocr_taskar.mat")

pytestmark = pytest.mark.skipif(
    TABLE is None and MATLAB is None, reason="needs letter.derived.tsv.gz or ocr_taskar.mat in CRFQN_DATA"
)


@pytest.fixture(scope="module")
def words():
    """Train and test: Sequences with features, and labels."""
    labeled = read_letter_table(TABLE, 128) if TABLE else read_letter_matlab(MATLAB, (16, 8))
    assert labeled.n_items == 6877
    order = np.random.RandomState(0).permutation(6877)
    pixels = PixelPairs((16, 8))

    def take(items):
        images = [labeled.inputs[i] for i in items]
        offsets = np.cumsum([0, *map(len, images)])
        X = Sequences(pixels.transform(np.concatenate(images)), offsets, feature_names=pixels.names)
        return X, [labeled.labels[i] for i in items]

    return take(order[:6216]), take(order[6216:])


def test_sizes(words):
    (X_train, y_train), (X_test, y_test) = words
    assert (len(X_train), len(X_test), X_train.n_features) == (6216, 661, 8257)
    assert X_train.n_positions + X_test.n_positions == 52_152
    assert sum(map(len, y_train)) == X_train.n_positions
    assert sum(map(len, y_test)) == X_test.n_positions


@pytest.mark.parametrize(
    ("l1", "optimum", "n_nonzero", "accuracy", "most_passes"),
    [(500, 128_706.324, 235, 0.3652, 28), (100, 76_129.228, 1487, 0.7576, 70)],
)
def test_training(words, l1, optimum, n_nonzero, accuracy, most_passes, tmp_path):
    (X_train, y_train), (X_test, y_test) = words
    model = ChainCRF(l1=l1, stop="certificate").fit(X_train, y_train)
    result = model.result_
    assert result.status is Status.CONVERGED
    assert 0 <= result.gap < 1e-3
    assert result.value == pytest.approx(optimum, rel=1e-5)
    assert result.value >= optimum * (1 - 1e-7)
    assert result.value * (1 - result.gap) <= optimum * (1 + 1e-7)
    assert model.coef_.nnz + model.transition_coef_.nnz == result.n_nonzero
    assert result.n_nonzero == pytest.approx(n_nonzero, rel=0.03)
    assert model.score(X_test, y_test) == pytest.approx(accuracy, abs=0.005)
    assert result.passes <= most_passes
    # The value is that of the weights, by way of prediction: scores by another route than training's.
    penalty = l1 * (np.abs(model.coef_.data).sum() + np.abs(model.transition_coef_.data).sum())
    loss = -model.log_likelihood(X_train, y_train).sum()
    assert result.value == pytest.approx(loss + penalty, rel=1e-10)


@pytest.mark.skipif(TABLE is None or MATLAB is None, reason="needs both forms of the file")
def test_both_files_hold_the_same_words():
    table, matlab = read_letter_table(TABLE, 128), read_letter_matlab(MATLAB, (16, 8))
    assert table.n_items == matlab.n_items == 6877
    assert table.labels == matlab.labels
    for left, right in zip(table.inputs, matlab.inputs, strict=True):
        np.testing.assert_array_equal(left, right)

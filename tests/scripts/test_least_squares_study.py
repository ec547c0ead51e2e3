"""The study of least squares, end to end on built-in and made-up data; its numbers are those of its files."""

from __future__ import annotations

import csv

import numpy as np
import pytest
import reproduce_least_squares
from reproduce_least_squares import OURS, PER_MASK, SIZE, Convolutions, patches_of, spectrum, striped
from typer.testing import CliRunner


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("study")
    run = CliRunner().invoke(reproduce_least_squares.app, ["--quick", "--output", str(path)])
    assert run.exit_code == 0, run.output
    return path


def test_everything_is_on_the_page(folder):
    page = (folder / "page.md").read_text()
    for name in ("Table 1", "Table 2", "Figure 1", "Figure 2", "Figure 3", "Figure 4"):
        assert f"## {name}" in page
    for number in "1234":
        assert (folder / f"figure-{number}.svg").stat().st_size > 5000


def test_errors_are_low_and_on_the_page(folder):
    with (folder / "table-1.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert [row["method"] for row in rows] == [*OURS, *OURS]
    page = (folder / "page.md").read_text()
    for row in rows:
        assert float(row["error"]) < 20.0
        assert f"{float(row['error']):.2f}" in page


def test_convolutions():
    images = striped(n=12).X_train
    patches = patches_of(images)
    assert patches.shape == (6, 14, 14, 3 * SIZE * SIZE)
    colours = images.reshape(-1, 3, 32, 32)[2, :, 4 : 4 + SIZE, 6 : 6 + SIZE].ravel()
    np.testing.assert_allclose(patches[2, 2, 3], colours - colours.mean(), atol=1e-6)
    for is_clustered in (False, True):
        source = Convolutions(is_clustered).fit([images], 0)
        batch = source.batch(0, 24)
        assert batch.n_features == source.batch_width(0, 24) == 3 * PER_MASK
        response = patches[2] @ batch.masks
        corner = np.maximum(response[:7, :7], 0).mean(axis=(0, 1))
        found = batch.transform(images)
        np.testing.assert_allclose(found[2, :3], corner, rtol=1e-5)
        np.testing.assert_allclose(batch.transform(images, np.array([1, 5])), found[:, [1, 5]])


def test_spectra():
    x = np.random.default_rng(0).normal(size=(30, 6))
    np.testing.assert_allclose(spectrum(x, 4), np.linalg.svd(x, compute_uv=False)[:4])

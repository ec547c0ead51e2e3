"""The pixel-pair features against the definition, column by column."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from crfqn.data.pixels import BLOCK_ENTRIES, PixelPairs
from crfqn.errors import InputError


def by_definition(images: np.ndarray, threshold: float, bias: bool) -> np.ndarray:
    is_on = images >= threshold
    n_pixels = images.shape[1]
    pairs = [is_on[:, i] & is_on[:, j] for i, j in itertools.combinations(range(n_pixels), 2)]
    constant = [np.ones(len(images), dtype=bool)] if bias else []
    return np.column_stack([is_on, *pairs, *constant]).astype(np.int8)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (3, 4), (16, 8)])
def test_columns_follow_the_definition(shape, bias):
    random = np.random.default_rng(0)
    n_pixels = shape[0] * shape[1]
    images = random.integers(0, 17, size=(60, n_pixels)).astype(np.uint8)
    images[0], images[1] = 0, 16  # nothing on, everything on
    features = PixelPairs(shape, threshold=8, bias=bias)
    matrix = features.transform(images)
    assert matrix.shape == (60, features.n_features)
    np.testing.assert_array_equal(matrix.toarray(), by_definition(images, 8, bias))


def test_storage_is_lean_and_sorted():
    images = np.random.default_rng(1).integers(0, 2, size=(50, 128))
    matrix = PixelPairs((16, 8)).transform(images)
    assert matrix.shape == (50, 8257)
    assert (matrix.data.dtype, matrix.indices.dtype, matrix.indptr.dtype) == (np.int8, np.int32, np.int32)
    rebuilt = matrix.copy()
    rebuilt.has_canonical_format = False
    rebuilt.sum_duplicates()
    np.testing.assert_array_equal(matrix.indices, rebuilt.indices)


def test_blocks_do_not_matter():
    """Half of the pixels on in each image, which makes them one rectangle, written in two blocks."""
    half = np.arange(128) % 2
    images = np.random.default_rng(2).permuted(np.tile(half, (600, 1)), axis=1)
    whole = PixelPairs((16, 8)).transform(images)
    assert whole.nnz > BLOCK_ENTRIES > whole[:300].nnz
    alone = sp.vstack([PixelPairs((16, 8)).transform(part) for part in (images[:300], images[300:])])
    assert (alone != whole).nnz == 0


def test_no_images():
    assert PixelPairs((2, 2)).transform(np.empty((0, 4))).shape == (0, 11)


def test_names_belong_to_the_columns():
    names = PixelPairs((3, 2)).names
    single = [f"p{row}_{column}" for row in range(3) for column in range(2)]
    expected = [*single, *(f"{a}&{b}" for a, b in itertools.combinations(single, 2)), "bias"]
    assert names == expected
    assert len(names) == PixelPairs((3, 2)).n_features
    assert PixelPairs((3, 2), bias=False).names == expected[:-1]


@pytest.mark.parametrize("shape", [(5,), (5, 7), (5, 128, 1)])
def test_other_shapes_are_refused(shape):
    with pytest.raises(InputError, match=r"16x8 = 128 pixels .* got shape \(5,"):
        PixelPairs((16, 8)).transform(np.zeros(shape))

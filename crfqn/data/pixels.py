"""Pixels and pairs of pixels: the degree-2 features of handwritten letters and digits.

An image of P pixels becomes P + P(P-1)/2 + 1 binary columns: the pixels that are on, the pairs of pixels that are both
on (i < j, lexicographic), and a constant (bias), last. For 16x8 letters: 128 + 8128 + 1 = 8257. Zhong et al., "Proximal
quasi-Newton for computationally intensive l1-regularized M-estimators", section 6.1. Shapes: N positions, P pixels, F
columns, m pixels on in one image.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from crfqn.data.inputs import SparseMatrix
from crfqn.errors import InputError

BLOCK_ENTRIES = 1 << 20  # nonzeros of one batch, whose temporary arrays have some 20 MB


@dataclass(frozen=True)
class PixelPairs:
    """Feature map of the pixels, and pairs of pixels, that are on: their value is `threshold` or more."""

    shape: tuple[int, int]  # rows and columns of an image
    threshold: float = 1.0
    bias: bool = True  # append the constant column

    @property
    def n_pixels(self) -> int:
        return self.shape[0] * self.shape[1]

    @property
    def n_features(self) -> int:
        return self.n_pixels * (self.n_pixels + 1) // 2 + self.bias

    @property
    def names(self) -> list[str]:
        """Names of the columns: `p3_5` (row, column), `p3_5&p7_2`, `bias`."""
        pixels = [f"p{row}_{column}" for row in range(self.shape[0]) for column in range(self.shape[1])]
        pairs = [f"{first}&{second}" for first, second in itertools.combinations(pixels, 2)]
        return [*pixels, *pairs, *["bias"] * self.bias]

    def transform(self, images: np.ndarray) -> SparseMatrix:
        """Return the columns of images (N, P) as a csr_array (N, F) of int8 ones, int32 indices ascending in each row:
        some 400 entries a 16x8 letter, 5 bytes each, and 20 MB of temporary arrays. InputError for another shape."""
        from scipy.sparse import csr_array

        if images.ndim != 2 or images.shape[1] != self.n_pixels:
            rows, columns = self.shape
            raise InputError(
                f"expected images of {rows}x{columns} = {self.n_pixels} pixels as an array of shape "
                f"(N, {self.n_pixels}), got shape {images.shape}"
            )
        is_on = images >= self.threshold
        counts = is_on.sum(axis=1, dtype=np.int64)
        indptr = np.zeros(len(images) + 1, dtype=np.int64)
        np.cumsum(counts * (counts + 1) // 2 + self.bias, out=indptr[1:])
        indices = np.empty(indptr[-1], dtype=np.int32)
        for count in np.unique(counts):
            self._fill_rows(indices, indptr, is_on, np.flatnonzero(counts == count), int(count))
        if indptr[-1] <= np.iinfo(np.int32).max:
            indptr = indptr.astype(np.int32)  # scipy would widen `indices` to the type of `indptr`
        matrix = csr_array(
            (np.ones(len(indices), dtype=np.int8), indices, indptr), shape=(len(images), self.n_features)
        )
        matrix.has_canonical_format = True
        return matrix

    def _fill_rows(
        self, indices: np.ndarray, indptr: np.ndarray, is_on: np.ndarray, rows: np.ndarray, n_on: int
    ) -> None:
        """Write the columns of all `rows`, which have `n_on` pixels on each: such rows make one rectangle."""
        n_entries = n_on * (n_on + 1) // 2 + self.bias
        if n_entries == 0:
            return
        first, second = np.triu_indices(n_on, k=1)
        i = np.arange(self.n_pixels, dtype=np.int32)
        # Pair (i, j) has the column  P + (pairs whose first pixel is below i) + (j - i - 1).
        pair_base = self.n_pixels + i * (2 * self.n_pixels - i - 1) // 2 - i - 1
        within = np.arange(n_entries)
        step = max(1, BLOCK_ENTRIES // n_entries)
        for begin in range(0, len(rows), step):
            block = rows[begin : begin + step]
            on = np.nonzero(is_on[block])[1].astype(np.int32).reshape(len(block), n_on)
            columns = np.empty((len(block), n_entries), dtype=np.int32)
            columns[:, :n_on] = on
            columns[:, n_on : n_on + len(first)] = pair_base[on[:, first]] + on[:, second]
            if self.bias:
                columns[:, -1] = self.n_features - 1
            indices[indptr[block][:, None] + within] = columns

"""Convolutions with random or K-means masks as features of images, a batch of masks at a time (the paper's figure 3).

As in Coates, Lee and Ng (AISTATS 2011), but without contrast normalisation: patches of the images or centres of K-means
clusters of them are masks, responses are rectified in both directions and summed over the quarters of the image.

Shapes: I images of side x side pixels in 3 colours, m masks, p = 8 m features.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

SIZE = 6  # pixels of a mask's side
STRIDE = 2  # between responses
PER_MASK = 8  # features: two directions, four quarters
SAMPLED = 20_000  # patches that K-means sees
AT_ONCE = 256  # images


def patches_of(rows: NDArray, stride: int = STRIDE) -> NDArray[np.float32]:
    """Return the patches of images, centred, float32 (I, places, places, SIZE * SIZE * 3)."""
    side = round((rows.shape[1] / 3) ** 0.5)
    images = np.asarray(rows, np.float32).reshape(-1, 3, side, side)
    windows = sliding_window_view(images, (SIZE, SIZE), axis=(2, 3))[:, :, ::stride, ::stride]
    found = windows.transpose(0, 2, 3, 1, 4, 5).reshape(*windows.shape[:1], *windows.shape[2:4], -1)
    return found - found.mean(axis=-1, keepdims=True)


@dataclass(frozen=True, eq=False)
class ConvolutionBatch:
    """The responses to masks, float32 (pixels of a mask, m)."""

    masks: NDArray[np.float32]

    @property
    def n_features(self) -> int:
        """8 m."""
        return PER_MASK * self.masks.shape[1]

    def transform(self, rows: Any, columns: Any = slice(None)) -> NDArray[np.float32]:
        """Return sums over quarters of max(response, 0) and max(-response, 0), (I, columns)."""
        parts = [self._responses(rows[i : i + AT_ONCE]) for i in range(0, rows.shape[0], AT_ONCE)]
        return np.concatenate(parts)[:, columns]

    def _responses(self, rows: NDArray) -> NDArray[np.float32]:
        response = patches_of(rows) @ self.masks
        half = response.shape[1] // 2
        halves = slice(None, half), slice(half, None)
        found = [
            np.maximum(sign * response[:, down, across], 0.0).mean(axis=(1, 2))
            for sign in (1.0, -1.0)
            for down in halves
            for across in halves
        ]
        return np.concatenate(found, axis=1)


@dataclass(eq=False)
class ConvolutionSource:
    """Masks for each batch: random patches, or the centres of clusters of them."""

    KIND: ClassVar[str] = "convolutions"

    patches: NDArray[np.float32]
    n_inputs: int
    is_clustered: bool
    seed: int
    made: dict[int, ConvolutionBatch] = field(default_factory=dict)

    def batch_width(self, number: int, size: int) -> int:
        """The features of a batch, a multiple of 8."""
        return PER_MASK * max(1, size // PER_MASK)

    def batch(self, number: int, size: int) -> ConvolutionBatch:
        """Return the batch of this number."""
        if number not in self.made:
            self.made[number] = ConvolutionBatch(self._masks(number, max(1, size // PER_MASK)))
        return self.made[number]

    def _masks(self, number: int, n_masks: int) -> NDArray[np.float32]:
        random = np.random.RandomState([self.seed, number])
        masks = self.patches[random.choice(len(self.patches), n_masks, replace=False)]
        if self.is_clustered:
            from sklearn.cluster import MiniBatchKMeans

            clusters = MiniBatchKMeans(n_masks, n_init=1, random_state=random, batch_size=2048).fit(
                self.patches
            )
            masks = clusters.cluster_centers_
        length = np.linalg.norm(masks, axis=1, keepdims=True)
        return np.ascontiguousarray((masks / np.maximum(length, 1e-8)).T, np.float32)

    def content(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        """Return what a model file would hold: all patches."""
        return {"is_clustered": self.is_clustered, "seed": self.seed}, {"patches": self.patches}


@dataclass(frozen=True)
class Convolutions:
    """A generator of convolutions; `is_clustered`: with K-means masks."""

    is_clustered: bool = False

    def fit(self, blocks: Iterable[Any], seed: int) -> ConvolutionSource:
        """Return the source with masks of the first images."""
        rows = next(iter(blocks))
        some = rows[:: max(1, len(rows) // 1000)][:1000]
        patches = patches_of(some).reshape(-1, 3 * SIZE * SIZE)
        kept = np.random.RandomState(seed).permutation(len(patches))[:SAMPLED]
        return ConvolutionSource(patches[kept], rows.shape[1], self.is_clustered, seed)

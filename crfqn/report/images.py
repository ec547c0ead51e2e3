"""Models of images: where their features lie in the image, the weights of each character, the characters themselves.

A feature is a pixel, `p3_5` (row, column), or a pair of pixels, `p3_5&p7_2`, as `crfqn.data.pixels` names them; without
names the features are the pixels row by row. The weight of a pair is shared by its two pixels.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import InputError
from crfqn.report.evaluation import Evaluation
from crfqn.report.pictures import ink_image, weight_image
from crfqn.report.subject import Subject
from crfqn.wording import describe

PIXEL = re.compile(r"p(\d+)_(\d+)")
MOST_CHARACTERS = 100
BIAS = "bias"


class Character(NamedTuple):
    """Label with the image of its weights and, where there is data, the mean of its images."""

    label: str
    weights: str
    mean: str
    n_weights: int


@dataclass(frozen=True, eq=False)
class Pixels:
    """Places of features in an image.

    Attributes
    ----------
    shape : rows and columns of an image
    places : of each feature that has a weight, by column: the pixels it looks at, numbered row by row
    """

    shape: tuple[int, int]
    places: dict[int, list[int]]

    @classmethod
    def of(cls, subject: Subject, shape: tuple[int, int] | None = None) -> Self | None:
        """Return where the features lie; None for a model that is none of images.

        Parameters
        ----------
        shape : rows and columns of an image; default: as large as the names of the features say

        Raises
        ------
        InputError
            A shape that is none, or that the features do not fit.
        """
        if subject.weights is None:
            return None
        if shape is not None and not _is_shape(shape):
            raise InputError(
                f"image_shape: expected rows and columns, two integers >= 1, got {describe(shape)}"
            )
        columns = np.unique(subject.weights.indices).tolist()
        names = {column: subject.name_of(column) for column in columns}
        found = {column: [(int(a), int(b)) for a, b in PIXEL.findall(name)] for column, name in names.items()}
        is_named = bool(columns) and all(_is_pixels(name) for name in names.values())
        if is_named:
            rows, width = shape or _extent(found.values())
            if _extent(found.values())[0] > rows or _extent(found.values())[1] > width:
                raise InputError(f"image_shape: expected at least {_extent(found.values())}, got {shape}")
            return cls(
                (rows, width), {c: [row * width + column for row, column in at] for c, at in found.items()}
            )
        if shape is None:
            return None
        n_pixels = shape[0] * shape[1]
        if subject.n_features != n_pixels:
            raise InputError(
                f"image_shape: expected {subject.n_features} pixels, as many as features, got {shape[0]} x {shape[1]}"
            )
        return cls(shape, {column: [column] for column in range(n_pixels)})

    def weights_of(self, subject: Subject, row: int) -> NDArray[np.float64]:
        """Return the weights of a label by pixel, float64 of the image's shape."""
        image = np.zeros(self.shape[0] * self.shape[1])
        weights = subject.weights
        span = slice(weights.indptr[row], weights.indptr[row + 1])
        for column, value in zip(weights.indices[span].tolist(), weights.data[span].tolist(), strict=True):
            for pixel in self.places.get(column, ()):
                image[pixel] += value / len(self.places[column])
        return image.reshape(self.shape)

    def columns_in(self, X: Any) -> NDArray[np.int64] | None:
        """Return the columns of data that are the pixels row by row; None where it has no such columns."""
        n_pixels = self.shape[0] * self.shape[1]
        names = getattr(X, "feature_names", None)
        if names is None:
            is_wide = hasattr(X, "shape") and len(X.shape) == 2 and X.shape[1] >= n_pixels
            return np.arange(n_pixels) if is_wide else None
        wanted = [f"p{pixel // self.shape[1]}_{pixel % self.shape[1]}" for pixel in range(n_pixels)]
        column_of = {name: column for column, name in enumerate(names[: 2 * n_pixels])}
        if not set(wanted) <= column_of.keys():
            return None
        return np.array([column_of[name] for name in wanted])


def characters(subject: Subject, pixels: Pixels, found: Evaluation | None) -> list[Character]:
    """Return the images of each label, on one scale of weights; at most MOST_CHARACTERS."""
    n_labels = min(len(subject.rows), MOST_CHARACTERS)
    images = [pixels.weights_of(subject, row) for row in range(n_labels)]
    largest = max(float(np.abs(image).max()) for image in images)
    means = {} if found is None else _means(pixels, found)
    counts = np.diff(subject.weights.indptr)
    return [
        Character(label, weight_image(image, largest), means.get(label, ""), int(counts[row]))
        for row, (label, image) in enumerate(zip(subject.rows[:n_labels], images, strict=True))
    ]


def ink_of(pixels: Pixels | None, X: Any, item: Any, position: int) -> str:
    """Return the image at a position of an item as a data URI, empty where there is none."""
    columns = None if pixels is None else pixels.columns_in(X)
    if pixels is None or columns is None:
        return ""
    return ink_image(_dense(item[[position]])[:, columns].reshape(pixels.shape))


def _means(pixels: Pixels, found: Evaluation) -> dict[str, str]:
    """Return the mean image of each label in the data."""
    columns = pixels.columns_in(found.X)
    if columns is None or found.has_sets:
        return {}
    matrix = getattr(found.X, "matrix", found.X)[:, columns]
    labels = np.array(found.flat[0])
    return {
        str(label): ink_image(
            np.asarray(matrix[np.flatnonzero(labels == label)].mean(axis=0)).reshape(pixels.shape)
        )
        for label in np.unique(labels)
    }


def _dense(rows: Any) -> NDArray[np.float64]:
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, np.float64)


def _is_shape(shape: Any) -> bool:
    return (
        isinstance(shape, Sequence) and len(shape) == 2 and all(isinstance(n, int) and n >= 1 for n in shape)
    )


def _is_pixels(name: str) -> bool:
    return name == BIAS or all(PIXEL.fullmatch(part) for part in name.split("&"))


def _extent(places: Any) -> tuple[int, int]:
    """Return rows and columns that hold all the places."""
    every = [place for at in places for place in at]
    return 1 + max((row for row, _ in every), default=0), 1 + max((column for _, column in every), default=0)

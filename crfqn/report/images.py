"""Pictures for a page: displays as SVG with the colours of the page's style sheet, small images as data URIs.

For models of images, `Pixels` maps features to pixels. A feature is a pixel, `p3_5` (row, column), or a pair of pixels,
`p3_5&p7_2`, as named by `crfqn.data.pixels`; features without names are the pixels row by row. Each pixel of a pair has
half of the weight.
"""

from __future__ import annotations

import base64
import io
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.errors import InputError
from crfqn.messages import describe
from crfqn.model.model import Model
from crfqn.plot.canvas import check_matplotlib, counted_colours, signed_colours
from crfqn.plot.curves import CERTIFIED_COLOUR, ESTIMATED_COLOUR, OBJECTIVE_COLOUR
from crfqn.report.facts import feature_text

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure

# Colours of the drawing, which are replaced by variables of the page's style sheet, for light and dark pages.
INK_COLOUR, LINE_COLOUR = "#010203", "#040506"
CSS_VARIABLES = {
    INK_COLOUR: "--ink-2",
    LINE_COLOUR: "--line",
    CERTIFIED_COLOUR: "--certified",
    ESTIMATED_COLOUR: "--estimated",
    OBJECTIVE_COLOUR: "--accent",
    "#1f77b4": "--accent",  # matplotlib's first colour
}
SVG_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "crfqn",  # the same page from the same model
    "text.color": INK_COLOUR,
    "axes.edgecolor": LINE_COLOUR,
    "axes.labelcolor": INK_COLOUR,
    "axes.titlecolor": INK_COLOUR,
    "xtick.color": INK_COLOUR,
    "ytick.color": INK_COLOUR,
    "grid.color": LINE_COLOUR,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "legend.frameon": False,
    "font.size": 10.0,
    "axes.titlesize": 11.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
UNWANTED_MARKUP = re.compile(
    r"<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>|<style type=.*?</style>", re.S
)
CURVE_SIZE, MATRIX_SIZE = (4.4, 3.1), (5.2, 4.6)  # width and height of a panel, in inches
PIXEL_NAME = re.compile(r"p(\d+)_(\d+)")
BIAS_NAME = "bias"


class Pictures:
    """Makes the pictures of a page; the prefix makes their SVG ids different from those of other makers."""

    def __init__(self, prefix: str = "i") -> None:
        check_matplotlib()
        self._prefix = prefix
        self._number = count(1)

    def panels(self, display: Any, about: str, size: tuple[float, float] = CURVE_SIZE) -> list[Markup]:
        """Return a scalable picture for each panel of a display of `crfqn.plot`.

        about : the text alternative of the pictures
        size : width and height in inches
        """
        import matplotlib
        from matplotlib.figure import Figure

        n = display.SHAPE[0] * display.SHAPE[1]
        with matplotlib.rc_context(SVG_STYLE), warnings.catch_warnings():
            # the page's fonts render the text, so glyphs missing from matplotlib's fonts do not matter
            warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
            figures = [Figure(figsize=size, layout="constrained") for _ in range(n)]
            display.plot(ax=[figure.subplots() for figure in figures])
            return [self._svg(figure, about) for figure in figures]

    def _svg(self, figure: Figure, about: str) -> Markup:
        from markupsafe import Markup, escape

        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata={"Date": None})
        text = UNWANTED_MARKUP.sub("", stream.getvalue())
        prefix = f"{self._prefix}{next(self._number)}-"
        text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}", text)
        for colour, variable in CSS_VARIABLES.items():
            text = text.replace(colour, f"var({variable})")
        start, after = text.split("<svg", 1)
        tag, body = after.split(">", 1)
        tag = re.sub(r' (width|height)="[^"]*"', "", tag)
        return Markup(f'{start.strip()}<svg role="img" aria-label="{escape(about)}"{tag}>{body}')


def weight_image(values: NDArray[np.float64], largest: float) -> str:
    """Return the data URI of a PNG of signed weights (rows, columns), -largest blue, 0 transparent, largest red."""
    return _png(signed_colours(), 0.5 + 0.5 * values / (largest or 1.0))


def ink_image(values: NDArray[np.float64]) -> str:
    """Return the data URI of a PNG of values from 0 (transparent) to their largest."""
    return _png(counted_colours(), values / (values.max(initial=0.0) or 1.0))


def _png(colours: Callable[[Vector], Vector], values: NDArray[np.float64]) -> str:
    from matplotlib.image import imsave

    stream = io.BytesIO()
    nothing: dict[Any, Any] = {"Software": None}
    imsave(stream, colours(values), format="png", metadata=nothing)
    return f"data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}"


@dataclass(frozen=True, eq=False)
class Pixels:
    """The pixels of each feature with a weight, by column; pixels of an image of `shape` are numbered row by row."""

    shape: tuple[int, int]
    places: dict[int, list[int]]

    @classmethod
    def from_weights(
        cls, weights: Model | None, n_features: int, shape: tuple[int, int] | None = None
    ) -> Self | None:
        """Return where the features lie, None unless the model is of images; `shape` is rows and columns, or
        InputError, by default as large as the names of the features say."""
        if weights is None:
            return None
        is_pair = isinstance(shape, Sequence) and len(shape) == 2
        if shape is not None and not (is_pair and all(isinstance(n, int) and n >= 1 for n in shape)):
            raise InputError(
                f"image_shape: expected rows and columns, two integers >= 1, got {describe(shape)}"
            )
        features = weights.weights.features.tolist()
        names = {column: feature_text(weights.feature_name(column)) for column in features}
        if names and all(
            name == BIAS_NAME or all(map(PIXEL_NAME.fullmatch, name.split("&"))) for name in names.values()
        ):
            pixels = {f: [(int(a), int(b)) for a, b in PIXEL_NAME.findall(name)] for f, name in names.items()}
            corner = np.max([pixel for pair in pixels.values() for pixel in pair] or [(0, 0)], axis=0)
            least = int(corner[0]) + 1, int(corner[1]) + 1
            rows, width = shape or least
            if least[0] > rows or least[1] > width:
                raise InputError(f"image_shape: expected at least {least}, got {shape}")
            places = {f: [row * width + column for row, column in pair] for f, pair in pixels.items()}
            return cls((rows, width), places)
        if shape is None:
            return None
        n_pixels = shape[0] * shape[1]
        if n_features != n_pixels:
            raise InputError(
                f"image_shape: expected {n_features} pixels, as many as features, got {shape[0]} x {shape[1]}"
            )
        return cls(shape, {column: [column] for column in range(n_pixels)})

    def weights_of(self, weights: Model, row: int) -> NDArray[np.float64]:
        """Return the weights of a label by pixel, float64 of the image's shape."""
        image = np.zeros(self.shape[0] * self.shape[1])
        matrix = weights.weights
        span = slice(matrix.row_ends[row], matrix.row_ends[row + 1])
        for column, value in zip(matrix.columns[span].tolist(), matrix.values[span].tolist(), strict=True):
            for pixel in self.places.get(column, ()):
                image[pixel] += value / len(self.places[column])
        return image.reshape(self.shape)

    def columns_in(self, X: Any) -> NDArray[np.int64] | None:
        """Return the columns of the data that are the pixels row by row; None if there are no such columns."""
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


def ink_of(pixels: Pixels | None, X: Any, item: Any, position: int) -> str:
    """Return the image at a position of an item as a data URI, "" if there is none."""
    columns = None if pixels is None else pixels.columns_in(X)
    if pixels is None or columns is None:
        return ""
    row = item[[position]]
    ink = np.asarray(row.toarray() if hasattr(row, "toarray") else row, np.float64)
    return ink_image(ink[:, columns].reshape(pixels.shape))

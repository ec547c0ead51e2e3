"""Pictures for a page: SVG of displays in colours that the page's style sheet chooses, small images as data URIs."""

from __future__ import annotations

import base64
import io
import re
import warnings
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crfqn.plot.canvas import check_matplotlib, counted_colours, signed_colours
from crfqn.plot.curves import CERTIFIED, ESTIMATED, OBJECTIVE

if TYPE_CHECKING:
    from markupsafe import Markup

# Colours of the drawing that stand for those of the page, in light and in dark.
INK, LINE = "#010203", "#040506"
VARIABLES = {
    INK: "--ink-2",
    LINE: "--line",
    CERTIFIED: "--certified",
    ESTIMATED: "--estimated",
    OBJECTIVE: "--accent",
    "#1f77b4": "--accent",  # matplotlib's first colour
}
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "crfqn",  # the same page from the same model
    "text.color": INK,
    "axes.edgecolor": LINE,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": LINE,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "legend.frameon": False,
    "font.size": 10.0,
    "axes.titlesize": 11.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
UNWANTED = re.compile(r"<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>|<style type=.*?</style>", re.S)
CURVE = (4.4, 3.1)  # inches
SQUARE = (5.2, 4.6)


class Pictures:
    """Maker of pictures of one page; those of makers with different prefixes have no inner names in common."""

    def __init__(self, prefix: str = "i") -> None:
        check_matplotlib()
        self._prefix = prefix
        self._number = count(1)

    def panels(self, display: Any, about: str, size: tuple[float, float] = CURVE) -> list[Markup]:
        """Return a picture for each panel of a display.

        Parameters
        ----------
        display : display of `crfqn.plot`
        about : what the pictures show, for those who do not see them
        size : width and height in inches; a picture grows and shrinks with the page
        """
        import matplotlib
        from matplotlib.figure import Figure

        n = display.SHAPE[0] * display.SHAPE[1]
        with matplotlib.rc_context(STYLE), warnings.catch_warnings():
            # the page's own fonts write the text, whatever matplotlib's lack
            warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
            figures = [Figure(figsize=size, layout="constrained") for _ in range(n)]
            display.plot(ax=[figure.subplots() for figure in figures])
            return [self._svg(figure, about) for figure in figures]

    def _svg(self, figure: Any, about: str) -> Markup:
        from markupsafe import Markup, escape

        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata={"Date": None})
        text = UNWANTED.sub("", stream.getvalue())
        prefix = f"{self._prefix}{next(self._number)}-"
        text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}", text)
        for colour, variable in VARIABLES.items():
            text = text.replace(colour, f"var({variable})")
        start, rest = text.split("<svg", 1)
        tag, body = rest.split(">", 1)
        tag = re.sub(r' (width|height)="[^"]*"', "", tag)
        return Markup(f'{start.strip()}<svg role="img" aria-label="{escape(about)}"{tag}>{body}')


def weight_image(values: NDArray[np.float64], largest: float) -> str:
    """Return the data URI of a PNG of signed weights (rows, columns), -largest blue, 0 transparent, largest red."""
    return _png(signed_colours()(0.5 + 0.5 * values / (largest or 1.0)))


def ink_image(values: NDArray[np.float64]) -> str:
    """Return the data URI of a PNG of values from 0 (transparent) to their largest."""
    return _png(counted_colours()(values / (values.max(initial=0.0) or 1.0)))


def _png(colours: NDArray[np.float64]) -> str:
    from matplotlib.image import imsave

    stream = io.BytesIO()
    nothing: dict[Any, Any] = {"Software": None}
    imsave(stream, colours, format="png", metadata=nothing)
    return f"data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}"

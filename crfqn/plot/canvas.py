"""Axes, output files and elements of all plots: ticks with names, colour maps, curves with unknown points."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import BytesIO
from math import ceil
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.atomic_write import replace_data_file
from crfqn.errors import InputError
from crfqn.messages import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import XAxis, YAxis
    from matplotlib.colors import LinearSegmentedColormap

# Axes of the caller, or an array or list of them; None for a new figure.
AxesLike: TypeAlias = "Axes | NDArray[np.object_] | Sequence[Axes] | None"

NEGATIVE_COLOUR, POSITIVE_COLOUR = "#2166ac", "#d6604d"  # blue and red, distinguishable for the colour-blind
MAX_TICKS = 64  # names along an axis; with more labels, every n-th is named, as more are unreadable
MAX_NAME_LENGTH = 24  # letters of a name along an axis, to leave space for the plot


def check_matplotlib() -> None:
    """Raise InputError unless matplotlib is installed."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise InputError(
            "plots need matplotlib, which is not installed here: pip install 'crfqn[plot]'"
        ) from None


def check_picture(file: str | PathLike[str]) -> None:
    """Raise InputError unless matplotlib is installed and draws this kind of file."""
    check_matplotlib()
    from matplotlib.figure import Figure

    kinds = sorted(Figure().canvas.get_supported_filetypes())
    if Path(file).suffix.removeprefix(".").lower() not in kinds:
        raise InputError(f"{file}: expected a picture's file, its name ending in one of {', '.join(kinds)}")


def save_picture(display: Any, file: str | PathLike[str], size: tuple[float, float] | None = None) -> None:
    """Draw a display into a file, atomically, without pyplot and its windows.

    Parameters
    ----------
    display : a display of this package
    file : str or path-like
        Its extension determines the kind: .png, .svg, .pdf ... InputError if matplotlib does not support it, or is not
        installed; DataError if the file cannot be written.
    size : width and height in inches, optional
    """
    check_picture(file)
    from matplotlib.figure import Figure

    figure = Figure(figsize=size or size_of(*display.SHAPE), layout="constrained")
    display.plot(ax=figure.subplots(*display.SHAPE, squeeze=False).ravel())
    content = BytesIO()
    figure.savefig(content, dpi=150, format=Path(file).suffix.removeprefix(".").lower())
    replace_data_file(file, content.getvalue())


def size_of(n_rows: int, n_columns: int) -> tuple[float, float]:
    """Return width and height, in inches, of a figure with this number of panels."""
    return 1.0 + 4.5 * n_columns, 0.8 + 3.4 * n_rows


def panels(ax: AxesLike, n_rows: int, n_columns: int) -> NDArray[np.object_]:
    """Return axes for panels, a 1-D object array.

    ax : None for a new figure of pyplot; one axes object, whose place is divided; or an array of n_rows x n_columns.
        InputError for another number of axes
    """
    check_matplotlib()
    n = n_rows * n_columns
    if ax is None:
        import matplotlib.pyplot as plt

        figure = plt.figure(figsize=size_of(n_rows, n_columns), layout="constrained")
        return figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    all_axes = np.array(ax, dtype=object).ravel()
    if all_axes.size == 1 and n > 1:  # the panels replace the axes, as in scikit-learn
        outer = all_axes[0]
        outer.set_axis_off()
        inner = outer.get_subplotspec().subgridspec(n_rows, n_columns)
        return inner.subplots(squeeze=False).ravel()
    if all_axes.size != n:
        raise InputError(f"ax: expected axes for {n} panels, or one to divide, got {all_axes.size}")
    return all_axes


def name_ticks(axis: XAxis | YAxis, names: Iterable[Any]) -> None:
    """Write a name at each integer of an axis; a $ in a name is literal and does not begin a formula."""
    # matplotlib cannot draw control characters and lone surrogates.
    texts = [printable(name).encode("utf-8", "replace").decode() for name in names]
    shown = [text if len(text) <= MAX_NAME_LENGTH else f"{text[: MAX_NAME_LENGTH - 1]}…" for text in texts]
    is_crowded = axis.axis_name == "x" and max(map(len, shown), default=0) > 2
    rotation = 90.0 if is_crowded else 0.0
    step = ceil(len(shown) / MAX_TICKS) or 1
    axis.set_ticks(range(0, len(shown), step), shown[::step], rotation=rotation)
    for label in axis.get_ticklabels():
        label.set_parse_math(False)
    size = 10.0 if len(shown) <= 12 else max(4.0, 10.0 - 0.15 * len(shown[::step]))
    axis.set_tick_params(labelsize=size)


def signed_colours() -> LinearSegmentedColormap:
    """Return a colour map from blue over transparent (0) to red, for light and dark backgrounds."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgb

    blue, red = to_rgb(NEGATIVE_COLOUR), to_rgb(POSITIVE_COLOUR)
    stops = [(0.0, (*blue, 1.0)), (0.5, (*blue, 0.0)), (0.5, (*red, 0.0)), (1.0, (*red, 1.0))]
    return LinearSegmentedColormap.from_list("crfqn-signed", stops)


def counted_colours() -> LinearSegmentedColormap:
    """Return a colour map from transparent (0) to blue."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgb

    return LinearSegmentedColormap.from_list(
        "crfqn-counted", [(*to_rgb(NEGATIVE_COLOUR), 0.0), (*to_rgb(NEGATIVE_COLOUR), 1.0)]
    )


def draw_known(axes: Axes, x: Vector, y: Vector, **style: Any) -> bool:
    """Draw the finite points of a curve (positive ones for a logarithmic axis); return whether there are any."""
    known = np.isfinite(x) & np.isfinite(y)
    if axes.get_yscale() == "log":
        known &= y > 0
    if known.any():
        axes.plot(x[known], y[known], **style)
    return bool(known.any())


def say_unknown(axes: Axes, text: str = "not known") -> None:
    """Write a text into the middle of axes without curves."""
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes)

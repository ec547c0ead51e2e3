"""Plot of a regularisation path: score, non-zeros, gap and seconds against l1."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import InputError

PANELS = (
    ("score", "score", "linear"),
    ("n_nonzero", "non-zeros", "symlog"),
    ("gap", "certified gap", "log"),
    ("seconds", "seconds, summed up", "linear"),
)


class Drawn(Protocol):
    """Regularisation path as the drawing needs it, such as `RegularizationPath`.

    Besides the members below it has an array by value for each of PANELS, and one for the parameter that varies.
    """

    @property
    def score(self) -> NDArray[np.float64]: ...

    @property
    def path_parameter(self) -> str: ...

    @property
    def best_index(self) -> int: ...


def check_plotting(file: str | PathLike[str]) -> None:
    """Raise InputError unless matplotlib is installed and draws this kind of file."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError(
            "plots need matplotlib, which is not installed here: pip install 'crfqn[plot]'"
        ) from None
    kinds = sorted(Figure().canvas.get_supported_filetypes())
    if Path(file).suffix.removeprefix(".") not in kinds:
        raise InputError(f"{file}: expected a picture's file, its name ending in one of {', '.join(kinds)}")


def plot(path: Drawn, file: str | PathLike[str]) -> None:
    """Draw a regularisation path into a file; see `RegularizationPath.plot`."""
    check_plotting(file)
    from matplotlib.figure import Figure  # draws without a window system, whatever the backend is

    figure = Figure(figsize=(9, 6), layout="constrained")
    for axes, (name, title, scale) in zip(figure.subplots(2, 2, sharex=True).flat, PANELS, strict=True):
        draw(axes, path, name, title, scale)
    figure.savefig(file, dpi=150)


def draw(axes: Any, path: Drawn, name: str, title: str, scale: str) -> None:
    """Draw one panel, the values of the varying parameter descending from left to right."""
    values, path_parameter = getattr(path, name).astype(np.float64), getattr(path, path.path_parameter)
    if name == "seconds":
        values = np.cumsum(values)
    if scale == "log":  # which cannot show a gap of zero
        values = np.where(values > 0, values, np.nan)
    is_known = np.isfinite(values)
    if is_known.any():
        axes.plot(path_parameter, values, marker="o", markersize=3)
        axes.set_yscale(scale)
    else:
        axes.text(0.5, 0.5, "not known", ha="center", va="center", transform=axes.transAxes)
    axes.set_xscale("log")
    axes.set_xlim(1.1 * path_parameter.max(), path_parameter.min() / 1.1)
    if not np.isnan(path.score).all():
        axes.axvline(path_parameter[path.best_index], color="gray", linewidth=0.8)
    axes.set(title=title, xlabel=f"{path.path_parameter}, nats")
    axes.grid(alpha=0.3)

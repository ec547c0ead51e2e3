"""Regularisation path: score, non-zeros, gap and seconds against the strength of the penalty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import InputError
from crfqn.plot.canvas import draw_known, panels, say_unknown

PANELS = (
    ("score", "Score", "share of right labels", "linear"),
    ("n_nonzero", "Sparsity", "non-zero weights", "symlog"),
    ("gap", "Certificate", "certified relative gap", "log"),
    ("seconds", "Cost", "seconds, summed up", "linear"),
)
STRENGTHS = ("l1", "group_l1")


class PathDisplay:
    """Regularisation path in four panels: score, sparsity, certified gap and cost against the strength.

    Parameters
    ----------
    strength : float64, shape (n,)
        Values of the parameter that varies, in nats.
    score, n_nonzero, gap, seconds : float64, shape (n,)
        By value; nan where not known. `seconds` are each value's own.
    parameter : {"l1", "group_l1"}
    best : int, optional
        Index of the best score, marked in all panels.

    Attributes
    ----------
    ax_ : array of 4 axes, after `plot`
    figure_ : matplotlib.figure.Figure
    """

    SHAPE = (2, 2)

    def __init__(
        self,
        strength: NDArray[np.float64],
        score: NDArray[np.float64],
        n_nonzero: NDArray[np.float64],
        gap: NDArray[np.float64],
        seconds: NDArray[np.float64],
        *,
        parameter: str = "l1",
        best: int | None = None,
    ) -> None:
        self.strength, self.score, self.n_nonzero = strength, score, n_nonzero
        self.gap, self.seconds, self.parameter, self.best = gap, seconds, parameter, best

    @classmethod
    def from_rows(cls, rows: Sequence[Mapping[str, Any]]) -> Self:
        """Return the display of a path's rows, as `RegularizationPath.rows()` has them; it is not yet drawn.

        Raises
        ------
        InputError
            No rows, or a row without strength or figures.
        """
        parameter = next((name for name in STRENGTHS if rows and name in rows[0]), None)
        if parameter is None:
            raise InputError("expected rows of a regularisation path, with l1 or group_l1 in each")
        names = (parameter, *(name for name, *_ in PANELS))
        try:
            columns = [np.array([_number(row[name]) for row in rows]) for name in names]
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"expected numbers {', '.join(names)} in each row of a path: {error!r}"
            ) from error
        score = columns[1]
        best = None if np.isnan(score).all() else int(np.nanargmax(score))
        return cls(*columns, parameter=parameter, best=best)

    @classmethod
    def from_path(cls, path: Any, *, ax: Any = None, **style: Any) -> Self:
        """Draw a regularisation path.

        Parameters
        ----------
        path : RegularizationPath, what `crfqn.crf_path` returns
        ax : matplotlib axes, or an array of 4, optional
        **style : of the lines, as `matplotlib.axes.Axes.plot` takes it
        """
        return cls.from_rows(path.rows()).plot(ax=ax, **style)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, ax: Any = None, **walk: Any) -> Self:
        """Walk the regularisation path of an estimator on data, and draw it; the estimator itself is not fitted.

        Parameters
        ----------
        estimator : ChainCRF, TaxonomyCRF, MulticlassCRF or another that `crfqn.crf_path` takes
        X, y : training data
        ax : matplotlib axes, or an array of 4, optional
        **walk : grid, validation, cv and others of `crfqn.crf_path`
        """
        from crfqn.regularization_path import crf_path

        return cls.from_path(crf_path(estimator, X, y, **walk), ax=ax)

    def plot(self, ax: Any = None, **style: Any) -> Self:
        """Draw into `ax` (4 axes, or one that is divided), or into a new figure; returns the display."""
        self.ax_ = panels(ax, *self.SHAPE)
        self.figure_ = self.ax_[0].figure
        for axes, (name, title, unit, scale) in zip(self.ax_, PANELS, strict=True):
            self._draw(axes, name, scale, {"marker": "o", "markersize": 3, "label": unit} | style)
            axes.set(title=title, xlabel=f"{self.parameter}, nats (falling)", ylabel=unit)
        return self

    def _draw(self, axes: Any, name: str, scale: str, style: dict[str, Any]) -> None:
        """Draw one panel, the strengths descending from left to right."""
        values = getattr(self, name).astype(np.float64)
        if name == "seconds":
            values = np.cumsum(values)
        axes.set_yscale(scale)
        if not draw_known(axes, self.strength, values, **style):
            axes.set_yscale("linear")
            say_unknown(axes)
        axes.set_xscale("log")
        axes.set_xlim(1.1 * self.strength.max(), self.strength.min() / 1.1)
        if self.best is not None:
            value = self.strength[self.best]
            axes.axvline(
                value, color="gray", linewidth=0.8, label=f"best score: {self.parameter} = {value:.4g}"
            )
            if name == "score":
                axes.legend(fontsize="small")
        axes.grid(alpha=0.3)


def _number(value: Any) -> float:
    """Return a number of a row; nan for None, which JSON has for what is not known."""
    return np.nan if value is None else float(value)

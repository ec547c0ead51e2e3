"""Convergence of a training: objective, certified gap and estimated gap against time, passes or iterations."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import InputError
from crfqn.plot.canvas import draw_known, panels, say_unknown

AXES = {
    "seconds": "time since the start, seconds",
    "passes": "inference passes over the data",
    "iteration": "iterations",
}
CERTIFIED, ESTIMATED = "#1b7837", "#b35806"  # of the two gaps
OBJECTIVE = "#2166ac"


class ConvergenceDisplay:
    """Convergence of a training: the distance from the optimum, proved and estimated, and the objective.

    Parameters
    ----------
    x : float64, shape (n,)
        Where each row of the trace stands on the horizontal axis.
    objective, gap, estimated_gap : float64, shape (n,)
        Objective in nats; certified and estimated relative gap, nan where not known.
    unit : {"seconds", "passes", "iteration"}
    tol : float, optional
        Tolerance of the training, drawn as a line; 0 or None: none.
    name : str, optional
        What was trained, for the title.

    Attributes
    ----------
    ax_ : array of 2 axes, the gaps and the objective; after `plot`
    figure_ : matplotlib.figure.Figure

    Examples
    --------
    >>> from crfqn import MulticlassCRF
    >>> from crfqn.plot import ConvergenceDisplay
    >>> model = MulticlassCRF(l1=0.1).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> ConvergenceDisplay.from_estimator(model, unit="passes").figure_.savefig("convergence.png")  # doctest: +SKIP
    """

    SHAPE = (1, 2)

    def __init__(
        self,
        x: NDArray[np.float64],
        objective: NDArray[np.float64],
        gap: NDArray[np.float64],
        estimated_gap: NDArray[np.float64],
        *,
        unit: str = "seconds",
        tol: float | None = None,
        name: str = "",
    ) -> None:
        self.x, self.objective, self.gap, self.estimated_gap = x, objective, gap, estimated_gap
        self.unit, self.tol, self.name = unit, tol, name

    @classmethod
    def of(cls, estimator: Any, unit: str = "seconds") -> Self:
        """Return the display of a fitted estimator, not yet drawn.

        Raises
        ------
        InputError
            Another unit, an estimator without `result_`, or a result without a trace.
        """
        if unit not in AXES:
            raise InputError(f"unit: expected one of {list(AXES)}, got {unit!r}")
        trace = getattr(getattr(estimator, "result_", None), "trace", None)
        if not trace:
            raise InputError(
                f"expected an estimator that has been fitted and kept its trace, got {type(estimator).__name__}"
            )
        columns = trace.value, trace.gap, trace.estimated_gap
        return cls(
            getattr(trace, unit).astype(np.float64),
            *columns,
            unit=unit,
            tol=getattr(estimator, "tol", None),
            name=type(estimator).__name__,
        )

    @classmethod
    def from_estimator(cls, estimator: Any, *, unit: str = "seconds", ax: Any = None, **style: Any) -> Self:
        """Draw the convergence of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator of crfqn
        unit : {"seconds", "passes", "iteration"}, default "seconds"
            Horizontal axis; seconds are wall time.
        ax : matplotlib axes, or an array of 2, optional
        **style : of the lines, as `matplotlib.axes.Axes.plot` takes it

        Returns
        -------
        ConvergenceDisplay

        Raises
        ------
        InputError
            As `of`.
        """
        return cls.of(estimator, unit).plot(ax=ax, **style)

    def plot(self, ax: Any = None, *, name: str | None = None, **style: Any) -> Self:
        """Draw into `ax` (2 axes, or one that is divided), or into a new figure; returns the display."""
        self.ax_ = gaps, objective = panels(ax, *self.SHAPE)
        self.figure_ = gaps.figure
        self._draw_gaps(gaps, {"marker": "o", "markersize": 3} | style)
        style = {"color": OBJECTIVE, "marker": "o", "markersize": 3} | style
        if not draw_known(objective, self.x, self.objective, label="objective, penalty included", **style):
            say_unknown(objective)
        objective.set(title="Objective", ylabel="nats")
        for axes in self.ax_:
            axes.set_xlabel(AXES[self.unit])
            axes.grid(alpha=0.3)
            if axes.get_legend_handles_labels()[0]:
                axes.legend(fontsize="small")
        name = self.name if name is None else name
        gaps.set_title(f"Distance from the optimum{f': {name}' if name else ''}")
        return self

    def _draw_gaps(self, axes: Any, style: dict[str, Any]) -> None:
        axes.set_yscale("log")
        curves = (
            ("estimated", self.estimated_gap, {"color": ESTIMATED, "linestyle": "--"}),
            ("certified", self.gap, {"color": CERTIFIED}),
        )
        drawn = [
            draw_known(axes, self.x, gap, **({"label": name} | look | style)) for name, gap, look in curves
        ]
        if not any(drawn):
            axes.set_yscale("linear")
            say_unknown(axes, "nothing is known of the distance")
        elif self.tol:
            axes.axhline(self.tol, color="gray", linewidth=0.8, linestyle=":", label=f"tol = {self.tol:g}")
        axes.set_ylabel("relative gap, (F - F*) / F")

"""Displays of curves: the convergence of a training, and a regularisation path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from crfqn.data.inputs import ItemsLike, LabelsLike
from crfqn.errors import InputError
from crfqn.plot.canvas import AxesLike, draw_known, panels, say_unknown

if TYPE_CHECKING:
    from crfqn.estimators.estimator import Estimator
    from crfqn.regularization_path import RegularizationPath

X_LABELS = {
    "seconds": "time since the start, seconds",
    "passes": "inference passes over the data",
    "iteration": "iterations",
}
CERTIFIED_COLOUR, ESTIMATED_COLOUR = "#1b7837", "#b35806"  # colours of the two gaps
OBJECTIVE_COLOUR = "#2166ac"


@dataclass(eq=False, repr=False)
class ConvergenceDisplay:
    """Convergence of a training: the certified and the estimated distance from the optimum, and the objective.

    Parameters
    ----------
    x : float64, shape (n,)
        Horizontal position of each row of the trace.
    objective, gap, estimated_gap : float64, shape (n,)
        Objective in nats; certified and estimated relative gap, nan where not known.
    unit : {"seconds", "passes", "iteration"}
    tol : float, optional
        Tolerance of the training, drawn as a line; no line for 0 or None.
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

    SHAPE: ClassVar = (1, 2)

    x: NDArray[np.float64]
    objective: NDArray[np.float64]
    gap: NDArray[np.float64]
    estimated_gap: NDArray[np.float64]
    _: KW_ONLY
    unit: str = "seconds"
    tol: float | None = None
    name: str = ""

    @classmethod
    def from_model(cls, estimator: Estimator, unit: str = "seconds") -> Self:
        """Return the display of a fitted estimator, not yet drawn; InputError for another unit, or without a trace."""
        if unit not in X_LABELS:
            raise InputError(f"unit: expected one of {list(X_LABELS)}, got {unit!r}")
        trace = getattr(getattr(estimator, "result_", None), "trace", None)
        if not trace:
            raise InputError(
                f"expected an estimator that has been fitted and kept its trace, got {type(estimator).__name__}"
            )
        x, tol = getattr(trace, unit).astype(np.float64), getattr(estimator.result_, "tol", None)
        name = type(estimator).__name__
        return cls(x, trace.value, trace.gap, trace.estimated_gap, unit=unit, tol=tol, name=name)

    @classmethod
    def from_estimator(
        cls, estimator: Estimator, *, unit: str = "seconds", ax: AxesLike = None, **style: Any
    ) -> Self:
        """Draw the convergence of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator of crfqn
        unit : {"seconds", "passes", "iteration"}, default "seconds"
            Horizontal axis; seconds are wall time.
        ax : matplotlib axes, or an array of 2, optional
        **style : of the lines, as `matplotlib.axes.Axes.plot` takes it

        Raises
        ------
        InputError
            Another unit, an estimator without `result_`, or a result without a trace.
        """
        return cls.from_model(estimator, unit).plot(ax=ax, **style)

    def plot(self, ax: AxesLike = None, *, name: str | None = None, **style: Any) -> Self:
        """Draw into `ax` (2 axes, or one that is divided), or into a new figure; return the display."""
        self.ax_ = gaps, objective = panels(ax, *self.SHAPE)
        self.figure_ = gaps.figure
        style = {"marker": "o", "markersize": 3} | style
        gaps.set(yscale="log", ylabel="relative gap, (F - F*) / F")
        curves = (
            ("estimated", self.estimated_gap, {"color": ESTIMATED_COLOUR, "linestyle": "--"}),
            ("certified", self.gap, {"color": CERTIFIED_COLOUR}),
        )
        drawn = [
            draw_known(gaps, self.x, y, **({"label": label} | look | style)) for label, y, look in curves
        ]
        if not any(drawn):
            gaps.set_yscale("linear")
            say_unknown(gaps, "the distance is not known")
        elif self.tol:
            gaps.axhline(self.tol, color="gray", linewidth=0.8, linestyle=":", label=f"tol = {self.tol:g}")
        style = {"color": OBJECTIVE_COLOUR, "label": "objective, penalty included"} | style
        if not draw_known(objective, self.x, self.objective, **style):
            say_unknown(objective)
        objective.set(title="Objective", ylabel="nats")
        for axes in self.ax_:
            axes.set_xlabel(X_LABELS[self.unit])
            axes.grid(alpha=0.3)
            if axes.get_legend_handles_labels()[0]:
                axes.legend(fontsize="small")
        name = self.name if name is None else name
        gaps.set_title(f"Distance from the optimum{f': {name}' if name else ''}")
        return self


PATH_PANELS = (
    ("score", "Score", "share of right labels", "linear"),
    ("n_nonzero", "Sparsity", "non-zero weights", "symlog"),
    ("gap", "Certificate", "certified relative gap", "log"),
    ("seconds", "Cost", "seconds, summed up", "linear"),
)
PATH_STRENGTHS = ("l1", "group_l1", "l2")


@dataclass(eq=False, repr=False)
class PathDisplay:
    """Regularisation path in four panels: score, sparsity, certified gap and cost against the strength.

    Parameters
    ----------
    strength : float64, shape (n,)
        Values of the varied parameter, in nats.
    score, n_nonzero, gap, seconds : float64, shape (n,)
        One figure per value, nan if not known; `seconds` is the time of each value alone.
    parameter : {"l1", "group_l1"}
    best : int, optional
        Index of the best score, marked in all panels.

    Attributes
    ----------
    ax_ : array of 4 axes, after `plot`
    figure_ : matplotlib.figure.Figure
    """

    SHAPE: ClassVar = (2, 2)

    strength: NDArray[np.float64]
    score: NDArray[np.float64]
    n_nonzero: NDArray[np.float64]
    gap: NDArray[np.float64]
    seconds: NDArray[np.float64]
    _: KW_ONLY
    parameter: str = "l1"
    best: int | None = None

    @classmethod
    def from_rows(cls, rows: Sequence[Mapping[str, Any]]) -> Self:
        """Return the display of the rows of a path, of `RegularizationPath.rows()`; it is not yet drawn.

        Raises
        ------
        InputError
            No rows, or a row without strength or figures.
        """
        parameter = next((name for name in PATH_STRENGTHS if rows and name in rows[0]), None)
        if parameter is None:
            raise InputError("expected rows of a regularisation path, with l1 or group_l1 in each")
        names = (parameter, *(name for name, *_ in PATH_PANELS))
        try:
            # Unknown values are None in rows read from JSON.
            columns = [np.array([row[name] for row in rows], object).astype(np.float64) for name in names]
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"expected numbers {', '.join(names)} in each row of a path: {error!r}"
            ) from error
        score = columns[1]
        best = next((number for number, row in enumerate(rows) if row.get("is_best")), None)
        if best is None and not np.isnan(score).all():  # files may lack it
            best = int(np.nanargmax(score))
        return cls(*columns, parameter=parameter, best=best)

    @classmethod
    def from_path(cls, path: RegularizationPath, *, ax: AxesLike = None, **style: Any) -> Self:
        """Draw a regularisation path.

        Parameters
        ----------
        path : RegularizationPath, the result of `crfqn.crf_path`
        ax : matplotlib axes, or an array of 4, optional
        **style : of the lines, as `matplotlib.axes.Axes.plot` takes it
        """
        return cls.from_rows(path.rows()).plot(ax=ax, **style)

    @classmethod
    def from_estimator(
        cls, estimator: Estimator, X: ItemsLike, y: LabelsLike, *, ax: AxesLike = None, **walk: Any
    ) -> Self:
        """Compute the regularisation path of an estimator on data, and draw it; the estimator is not fitted.

        Parameters
        ----------
        estimator : ChainCRF, TaxonomyCRF, MulticlassCRF or another that `crfqn.crf_path` takes
        X, y : training data
        ax : matplotlib axes, or an array of 4, optional
        **walk : grid, validation, cv and others of `crfqn.crf_path`
        """
        from crfqn.regularization_path import crf_path

        return cls.from_path(crf_path(estimator, X, y, **walk), ax=ax)

    def plot(self, ax: AxesLike = None, **style: Any) -> Self:
        """Draw into `ax` (4 axes, or one that is divided), or into a new figure; return the display."""
        self.ax_ = panels(ax, *self.SHAPE)
        self.figure_ = self.ax_[0].figure
        style = {"marker": "o", "markersize": 3} | style
        if (np.diff(self.strength) > 0).any():  # pairs around a default are not ordered: draw no lines
            style = {"linestyle": "none"} | style
        for axes, (name, title, unit, scale) in zip(self.ax_, PATH_PANELS, strict=True):
            values = getattr(self, name).astype(np.float64)
            if name == "seconds":
                values = np.cumsum(values)
            axes.set_yscale(scale)
            if not draw_known(axes, self.strength, values, **({"label": unit} | style)):
                axes.set_yscale("linear")
                say_unknown(axes)
            axes.set_xscale("log")
            axes.set_xlim(1.1 * self.strength.max(), self.strength.min() / 1.1)  # decreasing
            if self.best is not None:
                best = self.strength[self.best]
                label = f"best score: {self.parameter} = {best:.4g}"
                axes.axvline(best, color="gray", linewidth=0.8, label=label)
                if name == "score":
                    axes.legend(fontsize="small")
            axes.grid(alpha=0.3)
            axes.set(title=title, xlabel=f"{self.parameter}, nats (falling)", ylabel=unit)
        return self

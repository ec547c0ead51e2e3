"""Transitions of a chain: the weight of each pair of labels as a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import InputError
from crfqn.plot.canvas import name_ticks, panels, signed_colours


class TransitionsDisplay:
    """Heat map of the weights of label pairs: red for what is likely to follow, blue for what is not, blank for 0.

    Parameters
    ----------
    weights : float64, shape (n_labels, n_labels)
        From the label of a row to the label of a column, in nats.
    labels : sequence of str
    name : str, optional
        What was trained, for the title.

    Attributes
    ----------
    ax_ : matplotlib axes, after `plot`
    figure_ : matplotlib.figure.Figure
    im_ : the image, for its colours
    """

    SHAPE = (1, 1)

    def __init__(self, weights: NDArray[np.float64], labels: Sequence[Any], *, name: str = "") -> None:
        self.weights, self.labels, self.name = weights, [str(label) for label in labels], name

    @classmethod
    def of(cls, estimator: Any) -> Self:
        """Return the display of a fitted chain, not yet drawn; InputError for models without transitions."""
        edges = getattr(estimator, "edge_coef_", None)
        if edges is None:
            raise InputError(
                f"expected a fitted ChainCRF, whose labels follow each other, got {type(estimator).__name__}"
            )
        return cls(edges.toarray(), estimator.classes_, name=type(estimator).__name__)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **style: Any) -> Self:
        """Draw the transitions of a fitted `ChainCRF`.

        Parameters
        ----------
        estimator : fitted ChainCRF
        ax : matplotlib axes, optional
        **style : of the image, as `matplotlib.axes.Axes.imshow` takes it

        Raises
        ------
        InputError
            The model has no transitions.
        """
        return cls.of(estimator).plot(ax=ax, **style)

    def plot(self, ax: Any = None, *, has_colorbar: bool = True, **style: Any) -> Self:
        """Draw into `ax`, or into a new figure; returns the display."""
        (self.ax_,) = panels(ax, *self.SHAPE)
        self.figure_ = self.ax_.figure
        largest = float(np.abs(self.weights).max(initial=0.0)) or 1.0
        style = {"cmap": signed_colours(), "vmin": -largest, "vmax": largest, "interpolation": "none"} | style
        self.im_ = self.ax_.imshow(self.weights, **style)
        name_ticks(self.ax_.xaxis, self.labels)
        name_ticks(self.ax_.yaxis, self.labels)
        self.ax_.set(xlabel="to", ylabel="from", title=f"Transitions{f': {self.name}' if self.name else ''}")
        if has_colorbar:
            self.figure_.colorbar(self.im_, ax=self.ax_, label="weight, nats", shrink=0.8)
        return self

"""Displays of matrices of labels by labels: the confusion matrix, and the transitions of a chain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import ConfusionMatrixDisplay, confusion_matrix

from crfqn.data.inputs import ItemsLike
from crfqn.data.label_arrays import position_labels
from crfqn.errors import InputError
from crfqn.plot.canvas import AxesLike, counted_colours, name_ticks, panels, signed_colours

if TYPE_CHECKING:
    from crfqn.estimators.estimator import Estimator

MAX_NUMBERED_LABELS = (
    12  # labels of a matrix with numbers in its cells: smaller cells are too small for numbers
)
CELL_UNITS = {
    None: "count",
    "true": "share of the true label",
    "pred": "share of the predicted label",
    "all": "share of all",
}


class ConfusionDisplay(ConfusionMatrixDisplay):
    """Confusion matrix: how often a label (row) was predicted as another (column).

    A subclass of scikit-learn's `ConfusionMatrixDisplay` whose `from_estimator` and `from_predictions` also accept
    sequences of labels and count their positions.

    Parameters
    ----------
    confusion_matrix : float64 or int64, shape (n_labels, n_labels)
    display_labels : labels, shape (n_labels,)
    normalize : {"true", "pred", "all"} or None
        Normalisation of the cells, for the colour bar; None for counts.
    """

    SHAPE = (1, 1)

    def __init__(
        self,
        confusion_matrix: NDArray,
        *,
        display_labels: Sequence[object] | NDArray,
        normalize: str | None = None,
    ) -> None:
        super().__init__(confusion_matrix, display_labels=display_labels)
        self.normalize = normalize

    @classmethod
    def from_labels(
        cls,
        y_true: Iterable[object],
        y_pred: Iterable[object],
        *,
        labels: Sequence[object] | None = None,
        normalize: str | None = None,
    ) -> Self:
        """Return the display of true and predicted labels, not yet drawn; InputError if they cannot be compared."""
        if normalize not in CELL_UNITS:
            raise InputError(f"normalize: expected one of {list(CELL_UNITS)}, got {normalize!r}")
        true, predicted = position_labels(y_true), position_labels(y_pred)
        if len(true) != len(predicted):
            raise InputError(
                f"expected as many predicted labels as given ones, got {len(predicted)} and {len(true)}"
            )
        if not true:
            raise InputError("expected at least one label to compare, got none")
        if labels is None:
            labels = sorted({*true, *predicted}, key=str)
        true, predicted, names = (
            [str(label) for label in labels_of_side] for labels_of_side in (true, predicted, labels)
        )
        matrix = confusion_matrix(true, predicted, labels=names, normalize=normalize)
        return cls(matrix, display_labels=np.array(names), normalize=normalize)

    @classmethod
    def from_estimator(  # type: ignore[override]  # what scikit-learn's has more is `plot`'s, in `style`
        cls,
        estimator: Estimator,
        X: ItemsLike,
        y: Iterable[object],
        *,
        labels: Sequence[object] | None = None,
        normalize: str | None = None,
        ax: AxesLike = None,
        **style: Any,
    ) -> Self:
        """Draw the confusion matrix of a fitted estimator on labelled data.

        Parameters
        ----------
        estimator : fitted estimator with one label a position or an item
        X, y : labelled data, as the estimator's `score` takes it
        labels : labels to show, in this order; default: all that occur
        normalize : {"true", "pred", "all"} or None
        ax : matplotlib axes, optional
        **style : of the image, as `matplotlib.axes.Axes.imshow` takes it
        """
        return cls.from_labels(y, estimator.predict(X), labels=labels, normalize=normalize).plot(
            ax=ax, **style
        )

    @classmethod
    def from_predictions(  # type: ignore[override]
        cls,
        y_true: Iterable[object],
        y_pred: Iterable[object],
        *,
        labels: Sequence[object] | None = None,
        normalize: str | None = None,
        ax: AxesLike = None,
        **style: Any,
    ) -> Self:
        """Draw the confusion matrix of true and predicted labels; other parameters as in `from_estimator`."""
        return cls.from_labels(y_true, y_pred, labels=labels, normalize=normalize).plot(ax=ax, **style)

    def plot(self, ax: AxesLike = None, *, has_colorbar: bool = True, **style: Any) -> Self:  # type: ignore[override]
        """Draw into `ax`, or into a new figure; return the display."""
        (axes,) = panels(ax, *self.SHAPE)
        n_labels = len(self.display_labels)
        form = "d" if self.normalize is None else ".2f"
        image = {"interpolation": "none", "vmin": 0} | style
        super().plot(
            ax=axes,
            cmap=image.pop("cmap", counted_colours()),
            include_values=n_labels <= MAX_NUMBERED_LABELS,
            values_format=form,
            colorbar=False,
            im_kw=image,
            text_kw={"fontsize": 9 if n_labels <= 6 else 6.5},
        )
        if self.text_ is not None:  # white on dark cells; scikit-learn uses the end colours of the map
            from matplotlib import rcParams

            is_dark = self.confusion_matrix > 0.5 * self.confusion_matrix.max()
            for text, dark in zip(self.text_.ravel(), is_dark.ravel(), strict=True):
                text.set_color("white" if dark else rcParams["text.color"])
        name_ticks(axes.xaxis, self.display_labels)
        name_ticks(axes.yaxis, self.display_labels)
        axes.set(xlabel="predicted label", ylabel="given label", title="Confusion")
        if has_colorbar:
            self.figure_.colorbar(self.im_, ax=axes, label=CELL_UNITS[self.normalize], shrink=0.8)
        return self


@dataclass(eq=False, repr=False)
class TransitionsDisplay:
    """Heat map of the weights of transitions: red for positive, blue for negative and blank for zero weights.

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

    SHAPE: ClassVar = (1, 1)

    weights: NDArray[np.float64]
    labels: Sequence[Any]
    _: KW_ONLY
    name: str = ""

    def __post_init__(self) -> None:
        self.labels = [str(label) for label in self.labels]

    @classmethod
    def from_model(cls, estimator: Estimator) -> Self:
        """Return the display of a fitted chain, not yet drawn; InputError for models without transitions."""
        edges = getattr(estimator, "transition_coef_", None)
        if edges is None:
            raise InputError(
                f"expected a fitted ChainCRF, whose labels follow each other, got {type(estimator).__name__}"
            )
        return cls(edges.toarray(), estimator.classes_, name=type(estimator).__name__)

    @classmethod
    def from_estimator(cls, estimator: Estimator, *, ax: AxesLike = None, **style: Any) -> Self:
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
        return cls.from_model(estimator).plot(ax=ax, **style)

    def plot(self, ax: AxesLike = None, *, has_colorbar: bool = True, **style: Any) -> Self:
        """Draw into `ax`, or into a new figure; return the display."""
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

"""Confusion of labels: scikit-learn's display, for sequences as well as for single labels."""

from __future__ import annotations

from itertools import chain
from typing import Any, Self

import numpy as np
from sklearn.metrics import ConfusionMatrixDisplay, confusion_matrix

from crfqn.errors import InputError
from crfqn.plot.canvas import counted_colours, name_ticks, panels

MOST_NUMBERED = 12  # labels in a matrix whose cells have numbers
NORMALIZED = {
    None: "count",
    "true": "share of the true label",
    "pred": "share of the predicted label",
    "all": "share of all",
}


class ConfusionDisplay(ConfusionMatrixDisplay):
    """Confusion matrix: how often a label (row) was predicted as another (column).

    scikit-learn's `ConfusionMatrixDisplay`, whose attributes it has; `from_estimator` and `from_predictions` take
    sequences of labels, too, whose positions are counted one by one.

    Parameters
    ----------
    confusion_matrix : float64 or int64, shape (n_labels, n_labels)
    display_labels : labels, shape (n_labels,)
    normalize : {"true", "pred", "all"} or None
        What the cells are shares of, for the colour bar; None for counts.
    """

    SHAPE = (1, 1)

    def __init__(self, confusion_matrix: Any, *, display_labels: Any, normalize: str | None = None) -> None:
        super().__init__(confusion_matrix, display_labels=display_labels)
        self.normalize = normalize

    @classmethod
    def of(cls, y_true: Any, y_pred: Any, *, labels: Any = None, normalize: str | None = None) -> Self:
        """Return the display of given and predicted labels, not yet drawn.

        Raises
        ------
        InputError
            Lengths that differ, nothing to compare, or another `normalize`.
        """
        if normalize not in NORMALIZED:
            raise InputError(f"normalize: expected one of {list(NORMALIZED)}, got {normalize!r}")
        given, predicted = flat_labels(y_true), flat_labels(y_pred)
        if len(given) != len(predicted):
            raise InputError(
                f"expected as many predicted labels as given ones, got {len(predicted)} and {len(given)}"
            )
        if not given:
            raise InputError("expected at least one label to compare, got none")
        if labels is None:
            labels = sorted({*given, *predicted}, key=str)
        matrix = confusion_matrix(
            [str(label) for label in given],
            [str(label) for label in predicted],
            labels=[str(label) for label in labels],
            normalize=normalize,
        )
        return cls(matrix, display_labels=np.array([str(label) for label in labels]), normalize=normalize)

    @classmethod
    def from_estimator(  # type: ignore[override]  # what scikit-learn's has more is `plot`'s, in `style`
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        labels: Any = None,
        normalize: str | None = None,
        ax: Any = None,
        **style: Any,
    ) -> Self:
        """Draw the confusion matrix of a fitted estimator on labelled data.

        Parameters
        ----------
        estimator : fitted estimator with one label a position or an item
        X, y : labelled data, as the estimator's `score` takes it
        labels : labels to show, in this order; default: those that occur
        normalize : {"true", "pred", "all"} or None
        ax : matplotlib axes, optional
        **style : of the image, as `matplotlib.axes.Axes.imshow` takes it
        """
        return cls.of(y, estimator.predict(X), labels=labels, normalize=normalize).plot(ax=ax, **style)

    @classmethod
    def from_predictions(  # type: ignore[override]
        cls,
        y_true: Any,
        y_pred: Any,
        *,
        labels: Any = None,
        normalize: str | None = None,
        ax: Any = None,
        **style: Any,
    ) -> Self:
        """Draw the confusion matrix of given and predicted labels; the rest as in `from_estimator`."""
        return cls.of(y_true, y_pred, labels=labels, normalize=normalize).plot(ax=ax, **style)

    def plot(self, ax: Any = None, *, has_colorbar: bool = True, **style: Any) -> Self:  # type: ignore[override]
        """Draw into `ax`, or into a new figure; returns the display."""
        (axes,) = panels(ax, *self.SHAPE)
        n_labels = len(self.display_labels)
        form = "d" if self.normalize is None else ".2f"
        image = {"interpolation": "none", "vmin": 0} | style
        super().plot(
            ax=axes,
            cmap=image.pop("cmap", counted_colours()),
            include_values=n_labels <= MOST_NUMBERED,
            values_format=form,
            colorbar=False,
            im_kw=image,
            text_kw={"fontsize": 9 if n_labels <= 6 else 6.5},
        )
        self._colour_numbers()
        name_ticks(axes.xaxis, self.display_labels)
        name_ticks(axes.yaxis, self.display_labels)
        axes.set(xlabel="predicted label", ylabel="given label", title="Confusion")
        if has_colorbar:
            self.figure_.colorbar(self.im_, ax=axes, label=NORMALIZED[self.normalize], shrink=0.8)
        return self

    def _colour_numbers(self) -> None:
        """Write white on dark cells and the text's colour on pale ones; scikit-learn would take the map's ends."""
        from matplotlib import rcParams

        if self.text_ is None:
            return
        is_dark = self.confusion_matrix > 0.5 * self.confusion_matrix.max()
        for text, dark in zip(self.text_.ravel(), is_dark.ravel(), strict=True):
            text.set_color("white" if dark else rcParams["text.color"])


def flat_labels(labels: Any) -> list[Any]:
    """Return the labels of all positions in one list, of single labels these; rows of a path's parts are joined."""
    if isinstance(labels, np.ndarray) and labels.ndim == 2:
        return ["/".join(str(part) for part in row if part) for row in labels.tolist()]
    values = list(labels)
    is_sequence = bool(values) and all(np.ndim(value) == 1 for value in values)
    return list(chain.from_iterable(values)) if is_sequence else values

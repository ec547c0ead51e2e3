"""Reliability of a model's probabilities on labelled data, before and after its temperature."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from crfqn.data.label_arrays import label_text
from crfqn.metrics.calibration import ReliabilityBins, reliability_bins
from crfqn.plot.curves import CERTIFIED_COLOUR, ESTIMATED_COLOUR
from crfqn.report.evaluation_section import EvaluationSection

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from crfqn.estimators.estimator import Estimator


@dataclass(frozen=True)
class Reliability:
    """Bins of the probabilities of predicted labels, with the temperature and before it (None if it is 1)."""

    bins: ReliabilityBins
    before: ReliabilityBins | None
    temperature: float

    SHAPE: ClassVar = (1, 1)

    @classmethod
    def from_model(cls, model: Estimator, evaluation: EvaluationSection) -> Self | None:
        """Return the reliability of an estimator on evaluated data; None without probabilities of single labels."""
        if evaluation.has_sets or not hasattr(model, model.ANSWERS.tables_by):
            return None
        temperature, before = getattr(model, "temperature_", 1.0), None
        if temperature != 1.0:
            raw = copy(model)
            raw.calibrate(temperature=1)
            before = _bins(raw, evaluation)
        return cls(_bins(model, evaluation), before, temperature)

    def plot(self, ax: Sequence[Axes]) -> None:
        """Draw the fraction of correct labels of each bin against its mean probability."""
        (axes,) = ax
        axes.plot([0, 1], [0, 1], color="gray", linewidth=0.8, linestyle=":")
        curves = [(self.bins, CERTIFIED_COLOUR, "-", f"T = {self.temperature:.3g}")]
        if self.before is not None:
            curves.append((self.before, ESTIMATED_COLOUR, "--", "T = 1, before"))
        for bins, colour, line, name in curves:
            axes.plot(
                bins.confidence, bins.accuracy, line, color=colour, marker="o", markersize=3, label=name
            )
        axes.set(title="Reliability", xlabel="mean probability", ylabel="share of right labels")
        axes.set(xlim=(0, 1), ylim=(0, 1.02))
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")


def _bins(model: Estimator, evaluation: EvaluationSection) -> ReliabilityBins:
    """Return the bins of the labels that an estimator predicts, by their probabilities."""
    tables = np.vstack([*getattr(model, model.ANSWERS.tables_by)(evaluation.X)])
    true, predicted = evaluation.flat
    numbers = {label_text(label): k for k, label in enumerate(model.classes_)}
    codes = np.array([numbers[label] for label in predicted])
    is_right = [a == b for a, b in zip(true, predicted, strict=True)]
    return reliability_bins(is_right, tables[np.arange(codes.size), codes])

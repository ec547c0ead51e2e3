"""The calibration error: the distance between the probabilities of predicted labels and their accuracy.

Naeini, Cooper, Hauskrecht: Obtaining well calibrated probabilities using Bayesian binning. AAAI 2015.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crfqn.errors import InputError, check_count


class ReliabilityBins(NamedTuple):
    """Predicted labels in B non-empty bins of equal width by confidence.

    counts : int64 (B,), the number of labels
    confidence, accuracy : float64 (B,), the mean confidence and the fraction of correct labels
    """

    counts: NDArray[np.int64]
    confidence: NDArray[np.float64]
    accuracy: NDArray[np.float64]

    @property
    def error(self) -> float:
        """The expected calibration error."""
        return float(np.average(np.abs(self.accuracy - self.confidence), weights=self.counts))


def reliability_bins(is_right: ArrayLike, confidence: ArrayLike, n_bins: int = 10) -> ReliabilityBins:
    """Return the bins; parameters and errors as in `expected_calibration_error`."""
    check_count("n_bins", n_bins)
    hits, p = np.asarray(is_right, np.float64), np.asarray(confidence, np.float64)
    if hits.ndim != 1 or hits.shape != p.shape or not p.size:
        raise InputError(
            f"expected two arrays (n,) of one length n >= 1, got the shapes {hits.shape} and {p.shape}"
        )
    if not np.isin(hits, (0.0, 1.0)).all():
        raise InputError("is_right: expected booleans")
    if not ((p >= 0) & (p <= 1 + 1e-9)).all():
        raise InputError("confidence: expected probabilities, from 0 to 1")
    bins = np.minimum((p * n_bins).astype(np.int64), n_bins - 1)
    counts = np.bincount(bins, minlength=n_bins)
    sums = (np.bincount(bins, values, n_bins) for values in (p, hits))
    filled = counts > 0
    return ReliabilityBins(counts[filled], *(part[filled] / counts[filled] for part in sums))


def expected_calibration_error(is_right: ArrayLike, confidence: ArrayLike, n_bins: int = 10) -> float:
    """Return the expected calibration error: the mean distance between the confidence and the accuracy of a bin.

    Bins have equal width in the probability and are weighted by their number of labels.

    Parameters
    ----------
    is_right : array-like of bool, shape (n,)
        Whether each predicted label is correct.
    confidence : array-like of float, shape (n,)
        The model's probability of each predicted label.
    n_bins : int >= 1, default 10

    Returns
    -------
    float from 0 to 1

    Raises
    ------
    InputError
        Arrays with other shapes or values, or another n_bins.

    References
    ----------
    Naeini, Cooper, Hauskrecht: Obtaining well calibrated probabilities using Bayesian binning. AAAI 2015.

    Examples
    --------
    >>> from crfqn.metrics import expected_calibration_error
    >>> round(expected_calibration_error([True, False, True, True], [0.9, 0.9, 0.6, 0.6]), 3)
    0.4
    """
    return reliability_bins(is_right, confidence, n_bins).error

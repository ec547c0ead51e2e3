"""Estimates the work of a request before it is labelled: linear in the positions, with a rate for each requested part.

Rates are microseconds per position, measured on one core of an Intel Xeon for K labels. For answers that are large
rather than slow, 100 bytes count as a microsecond: a request within the limit takes up to 300 MB.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from crfqn.errors import InputError

if TYPE_CHECKING:
    from crfqn.model.model import Model

MAX_WORK_SECONDS = 3.0  # estimated seconds of a request, below the default limit of 10 s


def estimated_seconds(model: Model, request: Any, sizes: Sequence[int]) -> float:
    """Return the estimated seconds of a `LabelRequest` whose items have `sizes` positions, each >= 1."""
    return sum(sizes) * _microseconds(model, request, max(sizes, default=0)) / 1e6


def check_work(model: Model, request: Any, sizes: Sequence[int]) -> None:
    """Raise InputError for a request of more than MAX_WORK_SECONDS; the message has the largest number of positions."""
    if estimated_seconds(model, request, sizes) <= MAX_WORK_SECONDS:
        return
    asked = [name for name in ("probabilities", "marginals", "spans") if getattr(request, name)]
    asked += [f"{name}={n}" for name in ("nbest", "features", "explain") if (n := getattr(request, name))]
    asked += [name for name in ("threshold", "once") if getattr(request, name) is not None]
    max_positions = int(MAX_WORK_SECONDS * 1e6 / _microseconds(model, request, max(sizes)))
    raise InputError(
        f"expected at most {max_positions:,} {model.ANSWERS.unit}s in a request for "
        f"{', '.join(asked) or 'labels'} of {len(model.classes_):,} labels, got {sum(sizes):,}: ask for less, or send "
        "fewer or shorter items"
    )


def _microseconds(model: Model, request: Any, longest: int) -> float:
    """Return the estimated microseconds per position; the longest item has `longest` positions."""
    n_states = model.weights.shape[0]
    n_pairs = n_states**2 if model.ANSWERS.has_positions else 0
    total = 6 + 0.2 * n_states + 0.001 * n_pairs
    if getattr(model, "bigrams", None) is not None:
        total += 0.2 * n_pairs
    if request.probabilities or request.marginals or request.threshold is not None:
        total += 15 + 0.3 * n_states + 0.003 * n_pairs
    if request.marginals:
        total += 2 * n_states
    if request.nbest:
        total += 15 + (1 + 0.04 * n_states + 0.008 * n_pairs) * request.nbest
    if request.spans:
        total += 40 + n_states
    if request.features:
        total += 50 + 0.1 * n_states + 4 * request.features
    if request.explain:
        total += 160 + 2 * n_states + 0.003 * n_pairs + 10 * request.explain
        if request.once is not None:  # one search per position
            total += longest * (0.5 + 0.001 * n_pairs)
    return total

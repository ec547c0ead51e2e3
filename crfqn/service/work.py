"""How much work a request is, before it begins: a linear function of its positions, by what is asked of each.

The numbers are microseconds a position, measured on one core of an Intel Xeon, for K labels. Where an answer takes
memory for longer than time, 100 bytes count as a microsecond: a request within the limit takes some 300 MB at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crfqn.errors import InputError

MOST_SECONDS = 3.0  # of a request


def seconds(model: Any, request: Any, sizes: Sequence[int]) -> float:
    """Return the estimated seconds of a `LabelRequest`; sizes: of each of its items the positions, at least 1."""
    return sum(sizes) * _microseconds(model, request, max(sizes, default=0)) / 1e6


def check_work(model: Any, request: Any, sizes: Sequence[int]) -> None:
    """Raise InputError for a request of more than MOST_SECONDS, by the number of positions that it may have."""
    if seconds(model, request, sizes) <= MOST_SECONDS:
        return
    asked = [name for name in ("probabilities", "marginals", "spans") if getattr(request, name)]
    asked += [f"{name}={n}" for name in ("nbest", "features", "explain") if (n := getattr(request, name))]
    asked += [name for name in ("threshold", "once") if getattr(request, name) is not None]
    most = int(MOST_SECONDS * 1e6 / _microseconds(model, request, max(sizes)))
    raise InputError(
        f"expected at most {most:,} {model.ANSWERS.unit}s in a request for "
        f"{', '.join(asked) or 'labels'} of {len(model.classes_):,} labels, got {sum(sizes):,}: ask for less, or send "
        "fewer or shorter items"
    )


def _microseconds(model: Any, request: Any, longest: int) -> float:
    """Return the microseconds of a position; longest : positions of the longest item."""
    n_states = model.weights.n_states
    n_pairs = model.ANSWERS.n_transitions(n_states)
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
        if request.once is not None:  # each position is searched for by itself
            total += longest * (0.5 + 0.001 * n_pairs)
    return total

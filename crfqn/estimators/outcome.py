"""What a training has come to: its weights as they were asked for, and what its user is warned of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from crfqn.arrays import SparseWeights
from crfqn.errors import warn_caller
from crfqn.objectives.linear.feature_map import FeatureMap, given_weights
from crfqn.result import Result, Status
from crfqn.solvers.protocols import Objective, Penalty
from crfqn.solvers.unpenalised import largest_strength, solve_unpenalised

SOLVED = (Status.CONVERGED, Status.ESTIMATED, Status.STATIONARY)
SEARCHES = "sklearn.model_selection"  # score models under every strength, too strong ones as well


def warn_of_end(result: Result, tol: float, is_convex: bool) -> None:
    """Warn of a training that has not ended well: without convexity there is no better end than a stationary point."""
    ends_well = result.status.is_regular or (result.status is Status.STATIONARY and not is_convex)
    if ends_well or result.status is Status.INTERRUPTED:
        return
    distance = f"no certified gap, largest violation {result.violation:.2g}"
    if np.isfinite(result.gap):
        distance = f"relative gap {result.gap:.2g}"
    if not np.isnan(result.estimated_gap):
        distance += f", by estimate {result.estimated_gap:.2g}"
    warn_caller(f"{result.message} ({distance}, tol {tol:g}, {result.n_iter} iterations)", ConvergenceWarning)


def given_result(features: FeatureMap, result: Result) -> Result:
    """Return the result with weights of the features as they were given, before the map centred them."""
    coords, weights = given_weights(features, SparseWeights(result.coords, result.weights))
    return replace(result, coords=coords, weights=weights)


def pass_on_interrupt(result: Result) -> None:
    """Raise the KeyboardInterrupt that ended a training, whose weights are kept: a search over models must stop too."""
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt


def reason_of_empty(objective: Objective, penalty: Penalty, result: Result) -> str | None:
    """Return why all penalised weights of a solved model are zero, with the largest useful strength; None if not all
    are, or no weight would change the loss, as with one label."""
    is_kept = ~penalty.is_differentiable(result.coords)
    is_empty = penalty.least_threshold > 0 and result.status in SOLVED and not result.weights[is_kept].any()
    if not is_empty:
        return None
    name = "group_l1" if getattr(penalty, "group_l1", 0.0) > 0 else "l1"
    if not objective.has_curvature:  # a subgradient does not tell it
        advice = "choose a smaller one"
    else:
        point = solve_unpenalised(objective.at(result.coords, result.weights), penalty.unpenalised)
        largest = largest_strength(name, objective, penalty, point)
        if largest == 0.0 and name == "group_l1" and penalty.l1 > 0:  # l1 alone is too strong
            name, largest = "l1", largest_strength("l1", objective, penalty, point)
        if largest == 0.0:
            return None
        advice = f"the largest useful {name} is {largest:.4g}"
    which = "all weights of sparse features" if penalty.ridge.coords.size else "all weights"
    return f"{which} are zero under {name} = {getattr(penalty, name):.4g}; {advice}"

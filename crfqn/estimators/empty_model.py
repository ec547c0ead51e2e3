"""A warning of models without weights, which otherwise look as if all were well."""

from __future__ import annotations

import numpy as np

from crfqn.errors import EmptyModelWarning, is_called_from, warn_caller
from crfqn.objectives.protocols import CurvatureView, has_view
from crfqn.result import Result, Status
from crfqn.solvers.protocols import Objective, Penalty
from crfqn.solvers.unpenalised import largest_strength, solve_unpenalised

SOLVED = (Status.CONVERGED, Status.ESTIMATED, Status.STATIONARY)
SEARCHES = "sklearn.model_selection"  # score models under every strength, too strong ones as well


def reason_of_empty(objective: Objective, penalty: Penalty, result: Result) -> str | None:
    """Return why all penalised weights of a solved model are zero, with the largest useful strength; None if not all.

    Where no weight would change the loss, as with one label, there is none, and nothing to tell.
    """
    is_kept = ~np.isin(result.coords, penalty.unpenalised)
    is_empty = penalty.dual_radius > 0 and result.status in SOLVED and not result.weights[is_kept].any()
    if not is_empty:
        return None
    name = "group_l1" if getattr(penalty, "group_l1", 0.0) > 0 else "l1"
    if not has_view(objective, CurvatureView):  # a subgradient does not tell it
        advice = "choose a smaller one"
    else:
        point = solve_unpenalised(objective.at(result.coords, result.weights), penalty.unpenalised)
        largest = largest_strength(name, objective, penalty, point)
        if largest == 0.0 and name == "group_l1" and penalty.l1 > 0:  # l1 alone is too strong
            name, largest = "l1", largest_strength("l1", objective, penalty, point)
        if largest == 0.0:
            return None
        advice = f"the largest useful {name} is {largest:.4g}"
    return f"all weights are zero under {name} = {getattr(penalty, name):.4g}; {advice}"


def warn_of_empty(reason: str | None) -> None:
    """Warn of a model that is empty for a reason."""
    if reason is not None and not is_called_from(SEARCHES):
        warn_caller(reason, EmptyModelWarning)

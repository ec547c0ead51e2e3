"""Parameters of sklearn-crfsuite's CRF, as those of a chain: what carries over, what has no effect, what is refused."""

from __future__ import annotations

import warnings
from typing import Any

from crfqn.compat.observed_chain import ObservedChain
from crfqn.errors import InputError
from crfqn.estimators.checks import check_nonnegative
from crfqn.solvers.stochastic.perceptron import AveragedPerceptron, PassiveAggressive

LBFGS, L2SGD, AP, PA, AROW = "lbfgs", "l2sgd", "ap", "pa", "arow"
UNLIMITED = 2**31 - 1
# For each algorithm the parameters that carry over, and CRFsuite's defaults. The sums that lbfgs and l2sgd minimise
# are the same: neither is done step by step as CRFsuite does it.
MINIMISED = {"c2": 1.0, "max_iterations": UNLIMITED, "delta": 1e-5}
ONLINE = {"max_iterations": 100}
CARRIED: dict[str, dict[str, Any]] = {
    LBFGS: {"c1": 0.0, **MINIMISED},
    L2SGD: MINIMISED | {"max_iterations": 1000},
    AP: ONLINE,
    PA: {**ONLINE, "c": 1.0, "pa_type": 1, "error_sensitive": True, "averaging": True},
}
# Parameters of the algorithms; those that the one at hand does not carry over have no effect.
OF_ALGORITHMS = (
    "c1", "c2", "max_iterations", "num_memories", "epsilon", "period", "delta", "linesearch", "max_linesearch",
    "calibration_eta", "calibration_rate", "calibration_samples", "calibration_candidates", "calibration_max_trials",
    "pa_type", "c", "error_sensitive", "averaging", "variance", "gamma", "trainer_cls",
)  # fmt: skip


def make_chain(given: dict[str, Any]) -> ObservedChain:
    """Return the unfitted chain of the parameters `given`, None standing for CRFsuite's defaults.

    Raises
    ------
    InputError
        An algorithm that is not here, values out of range.
    UserWarning
        Names the parameters that were given and have no effect.
    """
    algorithm = LBFGS if given["algorithm"] is None else given["algorithm"]
    if algorithm == AROW:
        raise InputError(
            "algorithm: 'arow' is not here; nearest to it are 'pa', which learns item by item too, and 'lbfgs'"
        )
    if not isinstance(algorithm, str) or algorithm not in CARRIED:
        raise InputError(f"algorithm: expected one of {[*CARRIED]}, got {algorithm!r}")
    idle = [
        name for name in OF_ALGORITHMS if given.get(name) is not None and name not in CARRIED[algorithm]
    ] + ["keep_tempfiles"] * bool(given["keep_tempfiles"])
    if idle:
        warnings.warn(f"no effect with algorithm={algorithm!r}: {', '.join(idle)}", UserWarning, stacklevel=3)
    values = {
        name: default if given[name] is None else given[name] for name, default in CARRIED[algorithm].items()
    }
    chain = ObservedChain(
        all_possible_states=bool(given["all_possible_states"]),
        all_possible_transitions=bool(given["all_possible_transitions"]),
        max_iter=values["max_iterations"],
        min_freq=0.0 if given["min_freq"] is None else given["min_freq"],
        verbose=int(bool(given["verbose"])),
    )
    check_nonnegative("min_freq", chain.min_freq)
    return _with_algorithm(chain, algorithm, values)


def _with_algorithm(chain: ObservedChain, algorithm: str, values: dict[str, Any]) -> ObservedChain:
    """Return the chain with the objective and the method of an algorithm."""
    if algorithm in (LBFGS, L2SGD):
        for name in ("c1", "c2", "delta"):
            check_nonnegative(name, values.get(name, 0.0))
        # CRFsuite adds c2 |w|^2, a chain l2/2 |w|^2.
        return chain.set_params(l1=values.get("c1", 0.0), l2=2 * values["c2"], tol=values["delta"])
    n_epochs = values["max_iterations"]
    if algorithm == AP:
        return chain.set_params(l1=0.0, solver=AveragedPerceptron(n_epochs=n_epochs))
    for name, only in (("pa_type", 1), ("error_sensitive", True), ("averaging", True)):
        if values[name] != only:
            raise InputError(f"{name}: expected {only}, the only one that is here, got {values[name]!r}")
    return chain.set_params(l1=0.0, solver=PassiveAggressive(n_epochs=n_epochs, C=values["c"]))

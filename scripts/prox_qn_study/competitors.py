"""The methods of the paper's comparison (section 6), how each is drawn, and Prox-QN without its shrinking.

Colours are those of Okabe and Ito, which people with any colour vision tell apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from studies.drawing import Look

from crfqn.solvers.coordinate.block_cd import FeatureBCD
from crfqn.solvers.first_order.prox_gd import FISTA, ProxGD
from crfqn.solvers.protocols import Requirements
from crfqn.solvers.prox_qn import AllCoordinates, ByShareOfBound, PricedSweeps, ProxQN
from crfqn.solvers.quasi_newton.owl_qn import OWLQN
from crfqn.solvers.stochastic.sgd import SGDL1
from prox_qn_study.cases import Data

NEVER = 2.0  # a margin that no gradient exceeds
ALMOST_NOTHING = 1e-14


@dataclass(frozen=True, kw_only=True)
class Competitor(Look):
    """A method: its settings for a data set, and the look of its curve."""

    make: Callable[[Data], Any]


@dataclass(frozen=True)
class WithoutShrinking:
    """Prox-QN on all coordinates all the time, in one epoch: the method of the paper's theorems.

    `sweeps`: of the inner coordinate descent, for the paper's rule leaves one (floor(d / |A|) = 1).
    """

    solver: ProxQN
    sweeps: int

    def requires(self, objective: Any, penalty: Any) -> Requirements:
        """Return what the solver asks for."""
        return self.solver.requires(objective, penalty)

    def steps(self, objective: Any, penalty: Any, start: Any) -> Iterator[Any]:
        """The steps of the solver, told that every coordinate may move."""
        solver = replace(
            self.solver,
            shrinking=ByShareOfBound(margin=NEVER),
            entry=AllCoordinates(),
            cooling=ALMOST_NOTHING,
            sweeps=PricedSweeps(self.sweeps, tolerance=0.0),
            warm_start=None,
        )
        return solver.steps(objective, penalty, start)


def paper_rate(data: Data) -> Any:
    """SGD at the rate that the paper gives, None where it gives none."""
    return None if data.eta0 is None else SGDL1(eta0=data.eta0)


COMPETITORS: Mapping[str, Competitor] = {
    "Prox-QN": Competitor(make=lambda data: ProxQN(), colour="#d55e00", marker="o"),
    "Prox-QN as published": Competitor(make=lambda data: ProxQN.paper(), colour="#0072b2", marker="s"),
    "OWL-QN": Competitor(make=lambda data: OWLQN(), colour="#009e73", marker="^"),
    "SGD": Competitor(make=lambda data: SGDL1(), colour="#e69f00", marker="v"),
    "SGD, the paper's rate": Competitor(make=paper_rate, colour="#e69f00", marker="v", is_dashed=True),
    "BCD": Competitor(make=lambda data: FeatureBCD(), colour="#000000", marker="D"),
    "Prox-GD": Competitor(make=lambda data: ProxGD(), colour="#cc79a7", marker="P"),
    "FISTA": Competitor(make=lambda data: FISTA(), colour="#56b4e9", marker="X"),
    "Prox-QN, no shrinking, 1 sweep": Competitor(
        make=lambda data: WithoutShrinking(ProxQN.paper(), 1), colour="#0072b2", marker="s", is_dashed=True
    ),
    "Prox-QN, no shrinking, 10 sweeps": Competitor(
        make=lambda data: WithoutShrinking(ProxQN.paper(), 10), colour="#0072b2", marker="s"
    ),
}
REFERENCE = "Prox-QN"

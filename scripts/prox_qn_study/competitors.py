"""The methods of the paper's comparison (section 6), how each is drawn, and Prox-QN without its shrinking.

Colours are those of Okabe and Ito, which people with any colour vision tell apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from crfqn.penalties import ElasticNet
from crfqn.solvers.block_cd import BlockCD
from crfqn.solvers.owl_qn import OWLQN
from crfqn.solvers.prox_gd import FISTA, ProxGD
from crfqn.solvers.prox_qn import ProxQN
from crfqn.solvers.sgd import SGDL1
from prox_qn_study.cases import Data

NEVER = 2.0  # a margin that no gradient exceeds
ALMOST_NOTHING = 1e-14


@dataclass(frozen=True)
class Competitor:
    """A method: its settings for a data set, and the look of its curve."""

    make: Callable[[Data], Any]
    colour: str
    marker: str
    is_dashed: bool = False


class Unscreened(ElasticNet):
    """The penalty for a solver that is to work on all coordinates: none is screened out."""

    def screen(self, point: Any) -> Any:
        """Every coordinate, with its gradient."""
        return point.screen(-1.0)


@dataclass(frozen=True)
class WithoutShrinking:
    """Prox-QN on all coordinates all the time, in one epoch: the method of the paper's theorems.

    `sweeps`: of the inner coordinate descent, for the paper's rule leaves one (floor(d / |A|) = 1).
    """

    solver: ProxQN
    sweeps: int

    @property
    def needs(self) -> tuple[str, ...]:
        return self.solver.needs

    def steps(self, objective: Any, penalty: Any, start: Any) -> Iterator[Any]:
        """The steps of the solver, told that every coordinate may move."""
        solver = replace(
            self.solver,
            shrink_margin=NEVER,
            max_entry=None,
            outside=0.0,
            cooling=ALMOST_NOTHING,
            max_sweeps=self.sweeps,
            budget_sweeps=False,
            warm_up=(),
        )
        return solver.steps(objective, Unscreened(penalty.l1, penalty.l2, penalty.free), start)


def paper_rate(data: Data) -> Any:
    """SGD at the rate that the paper gives, None where it gives none."""
    return None if data.eta0 is None else SGDL1(eta0=data.eta0)


COMPETITORS: Mapping[str, Competitor] = {
    "Prox-QN": Competitor(lambda data: ProxQN(), "#d55e00", "o"),
    "Prox-QN as published": Competitor(lambda data: ProxQN.paper(), "#0072b2", "s"),
    "OWL-QN": Competitor(lambda data: OWLQN(), "#009e73", "^"),
    "SGD": Competitor(lambda data: SGDL1(), "#e69f00", "v"),
    "SGD, the paper's rate": Competitor(paper_rate, "#e69f00", "v", is_dashed=True),
    "BCD": Competitor(lambda data: BlockCD(), "#000000", "D"),
    "Prox-GD": Competitor(lambda data: ProxGD(), "#cc79a7", "P"),
    "FISTA": Competitor(lambda data: FISTA(), "#56b4e9", "X"),
    "Prox-QN, no shrinking, 1 sweep": Competitor(
        lambda data: WithoutShrinking(ProxQN.paper(), 1), "#0072b2", "s", is_dashed=True
    ),
    "Prox-QN, no shrinking, 10 sweeps": Competitor(
        lambda data: WithoutShrinking(ProxQN.paper(), 10), "#0072b2", "s"
    ),
}
REFERENCE = "Prox-QN"

"""Base class of chains and taxonomies: a penalty by its strengths alone, and a likelihood or a margin to train."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from crfqn.arrays import Coords
from crfqn.errors import InputError
from crfqn.estimators.automatic_solver import AUTO
from crfqn.estimators.base import LIKELIHOOD, SparseLinearModel
from crfqn.estimators.named_solvers import HINGE_SOLVER, STRUCTURED_SOLVERS, named_solver
from crfqn.estimators.strengths import STRENGTHS, Strengths, is_auto
from crfqn.objectives.losses.score_loss import ScoreLoss
from crfqn.objectives.losses.structured import StructuralHinge
from crfqn.parameters import PARAMETERS
from crfqn.penalties import ElasticNet, GroupLasso
from crfqn.structures.structure import Structure

HINGE = "hinge"
LOSSES = (LIKELIHOOD, HINGE)


@dataclass(eq=False, repr=False, kw_only=True)
class StructuredEstimator(SparseLinearModel):
    """Base class of estimators under l1 ||w||_1 + l2/2 ||w||^2 + group_l1 sum_f ||w_f||, any of them zero.

    The loss "logistic" is the likelihood's, "hinge" the structured hinge's, which has no curvature: it is trained in
    its dual, and that needs l2 > 0 and nothing else.
    """

    group_norm: str = "l2"
    loss: str = LIKELIHOOD

    PARAMETERS: ClassVar = {**PARAMETERS, "loss": replace(PARAMETERS["loss"], choices=LOSSES)}
    SOLVERS: ClassVar = STRUCTURED_SOLVERS

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.loss == HINGE:
            self._check_hinge()

    def _check_hinge(self) -> None:
        """Refuse penalties and methods that a loss without curvature cannot have."""
        l1, l2, group_l1 = self._strengths.values()
        if l1 != 0 or group_l1 != 0 or not l2 > 0:
            raise InputError(
                f"loss={HINGE!r}: expected l2 > 0 with l1 = 0 and group_l1 = 0, got l2={l2:g}, l1={l1:g}, "
                f"group_l1={group_l1}"
            )
        if isinstance(self.solver, str) and self.solver not in (AUTO, HINGE_SOLVER):
            raise InputError(
                f"solver: with loss={HINGE!r} expected {AUTO!r} or {HINGE_SOLVER!r}, got {self.solver!r}"
            )

    def _make_solver(self) -> Any:
        if self.loss == HINGE and isinstance(self.solver, str):
            return named_solver(HINGE_SOLVER, self.SOLVERS, self.random_state)
        return super()._make_solver()

    def _loss(self, structure: Structure, targets: Any) -> ScoreLoss:
        return (
            StructuralHinge(structure, targets) if self.loss == HINGE else super()._loss(structure, targets)
        )

    @property
    def _strengths(self) -> Strengths:
        given = {name: getattr(self, name) for name in STRENGTHS}
        if self.loss == HINGE and is_auto(given["l1"]):
            given["l1"] = 0.0  # what is trained in its dual has L2 only
        if is_auto(given["l2"]) and (not is_auto(given["l1"]) or given["group_l1"] != 0):
            given["l2"] = 0.0  # a penalty that is given is the whole penalty
        return {name: value if is_auto(value) else float(value or 0.0) for name, value in given.items()}

    def _penalty(
        self, strengths: Strengths, n_features: int, n_states: int, unpenalised: Coords
    ) -> ElasticNet | GroupLasso:
        l1, l2, group_l1 = (strengths[name] for name in STRENGTHS)
        if group_l1 == 0:
            return ElasticNet(l1, l2, unpenalised)
        return GroupLasso(
            group_l1, l1, l2, self.group_norm, unpenalised, n_features=n_features, n_states=n_states
        )

"""Base class of chains and taxonomies: a penalty by its strengths alone, and a likelihood or a margin to train."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from crfqn.arrays import Coords
from crfqn.choices import STRUCTURED, UNKNOWN, Form
from crfqn.errors import InputError
from crfqn.estimators.automatic_solver import AUTO, STRUCTURED_SOLVERS, named_solver
from crfqn.estimators.hybrid import HybridModel
from crfqn.estimators.strengths import STRENGTHS, Strengths, is_auto
from crfqn.parameters import PARAMETERS
from crfqn.penalties import ElasticNet, GroupLasso


@dataclass(eq=False, repr=False, kw_only=True)
class StructuredEstimator(HybridModel):
    """Base class of estimators under l1 ||w||_1 + l2/2 ||w||^2 + group_l1 sum_f ||w_f||, any of them zero. A loss
    without curvature, such as the structured hinge, is trained in its dual, which needs l2 > 0 and nothing else."""

    group_norm: str = "l2"
    loss: str = "logistic"
    ENOUGH: ClassVar[float] = 0.03

    PARAMETERS: ClassVar = {**PARAMETERS, "loss": replace(PARAMETERS["loss"], choices=(*STRUCTURED,))}
    SOLVERS: ClassVar = STRUCTURED_SOLVERS

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self._trained_by:
            self._check_loss()

    @property
    def _loss_form(self) -> Form:
        return STRUCTURED.get(str(self.loss), UNKNOWN)

    @property
    def _trained_by(self) -> tuple[str, ...]:
        """Names of the solvers that alone can train the loss, the default first; none: all can."""
        return self._loss_form.solvers.get("l2", ())

    def _check_loss(self) -> None:
        """Refuse penalties and methods that a loss without curvature cannot have."""
        l1, l2, group_l1 = self._strengths.values()
        if l1 != 0 or group_l1 != 0 or not l2 > 0:
            raise InputError(
                f"loss={self.loss!r}: expected l2 > 0 with l1 = 0 and group_l1 = 0, got l2={l2:g}, l1={l1:g}, "
                f"group_l1={group_l1}"
            )
        if isinstance(self.solver, str) and self.solver not in (AUTO, *self._trained_by):
            names = " or ".join(map(repr, self._trained_by))
            raise InputError(
                f"solver: with loss={self.loss!r} expected {AUTO!r} or {names}, got {self.solver!r}"
            )

    def _make_solver(self) -> Any:
        if self._trained_by and isinstance(self.solver, str) and self.solver == AUTO:
            return named_solver(self._trained_by[0], self.SOLVERS, self.random_state)
        return super()._make_solver()

    @property
    def _strengths(self) -> Strengths:
        given = {name: getattr(self, name) for name in STRENGTHS}
        if self._trained_by and is_auto(given["l1"]):
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

"""Base of the estimators with a structure over their labels: chains and taxonomies, under l1, l2 and group_l1."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from crfqn.choices import STRUCTURED, UNKNOWN, Form
from crfqn.errors import InputError
from crfqn.estimators.automatic import (
    AUTO,
    STRENGTHS,
    STRUCTURED_SOLVERS,
    Strengths,
    is_auto,
    make_penalty,
    named_solver,
)
from crfqn.estimators.base import SparseLinearModel
from crfqn.parameters import PARAMETERS
from crfqn.penalties.penalty import Layout, Penalty


@dataclass(eq=False, repr=False, kw_only=True)
class StructuredEstimator(SparseLinearModel):
    """Base class of estimators under l1 ||w||_1 + l2/2 ||w||^2 + group_l1 sum_f ||w_f||, any of them zero. A loss
    without curvature, such as the structured hinge, is trained in its dual, which needs l2 > 0 and nothing else."""

    dense_l2: float = 1.0
    group_norm: str = "l2"
    loss: str = "logistic"
    ENOUGH: ClassVar[float] = 0.03

    PARAMETERS: ClassVar = {**PARAMETERS, "loss": replace(PARAMETERS["loss"], choices=(*STRUCTURED,),
        details='"logistic" is -log P(y | x). "hinge" is max over y\' of (L(y, y\') + score(y\')) - score(y), L the '
        'number '
        "of wrong positions of a chain, or half the number of edges on the way from y to y' in a taxonomy (under a "
        "common root): a max-margin model (Taskar et al. 2003), which needs l2 > 0 without l1 and has no "
        "probabilities. It is a sum over the items: C of a structural SVM with l2 = 1 is 1 / l2 here, and lambda of a "
        "mean over n items is l2 / n.")}  # fmt: skip
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
        strengths = {name: getattr(self, name) for name in STRENGTHS}
        if self._trained_by and is_auto(strengths["l1"]):
            strengths["l1"] = 0.0  # what is trained in its dual has L2 only
        if is_auto(strengths["l2"]) and (not is_auto(strengths["l1"]) or strengths["group_l1"] != 0):
            strengths["l2"] = 0.0  # a strength that the user sets is the whole penalty
        return {name: value if is_auto(value) else float(value or 0.0) for name, value in strengths.items()}

    def _penalty(self, strengths: Strengths, layout: Layout) -> Penalty:
        name = "elastic-net" if strengths["group_l1"] == 0 else "sparse-group"
        return make_penalty(name, strengths, layout, self.group_norm)

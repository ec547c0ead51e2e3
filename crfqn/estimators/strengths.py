"""Base class of estimators with l1, l2 and group_l1 and no name of a penalty: chains and taxonomies."""

from __future__ import annotations

from dataclasses import dataclass

from crfqn.arrays import Coords
from crfqn.errors import InputError
from crfqn.estimators.base import SparseCRF
from crfqn.estimators.checks import check_nonnegative
from crfqn.penalties import NORMS, ElasticNet, GroupLasso


@dataclass(eq=False, repr=False, kw_only=True)
class ByStrengths(SparseCRF):
    """Base class of estimators under l1 ||w||_1 + l2/2 ||w||^2 + group_l1 sum_f ||w_f||, any strength zero."""

    group_norm: str = "l2"

    def _check_strengths(self) -> None:
        for name in ("l1", "l2", "group_l1"):
            check_nonnegative(name, getattr(self, name))
        if not (isinstance(self.group_norm, str) and self.group_norm in NORMS):
            raise InputError(f"group_norm: expected one of {[*NORMS]}, got {self.group_norm!r}")

    @property
    def _strengths(self) -> dict[str, float]:
        return {name: float(getattr(self, name) or 0.0) for name in ("l1", "l2", "group_l1")}

    def _penalty(self, n_features: int, n_states: int, unpenalised: Coords) -> ElasticNet | GroupLasso:
        l1, l2, group_l1 = self._strengths.values()
        if group_l1 == 0:
            return ElasticNet(l1, l2, unpenalised)
        return GroupLasso(
            group_l1, l1, l2, self.group_norm, unpenalised, n_features=n_features, n_states=n_states
        )

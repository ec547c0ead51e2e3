"""The parameters of an estimator, and what follows from them alone, without data or weights.

Functions that take settings read them and nothing else: an estimator is its settings and, when it is fitted, a model.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from os import PathLike
from typing import Any, ClassVar, Self

from sklearn.utils import check_random_state

from crfqn.choices import STRENGTHS, STRUCTURED, UNKNOWN, Form
from crfqn.errors import InputError
from crfqn.estimators.automatic import (
    AUTO,
    SOLVERS,
    STRUCTURED_SOLVERS,
    SolverTable,
    Strengths,
    check_solver,
    is_auto,
    make_penalty,
    named_penalty,
    named_solver,
)
from crfqn.estimators.by_feature import check_by_feature, values_by_feature
from crfqn.estimators.training import CHUNK_F1, OWN_SCORE, TOKEN_SCORE, OwnScores, named_scorer
from crfqn.estimators.transitions import Transitions, as_transitions
from crfqn.parameters import PARAMETERS, Parameter, check_parameters
from crfqn.penalties.penalty import Layout, Penalty
from crfqn.result import OPTIMAL


class Parameters:
    """Parameters as the fields of a dataclass: their checks, and their JSON values in a model file."""

    PARAMETERS: ClassVar[Mapping[str, Parameter]] = PARAMETERS
    NOT_SAVED: ClassVar[tuple[str, ...]] = ("solver", "random_state", "verbose", "callback")

    def _check_parameters(self) -> None:
        """Refuse parameters out of range, naming the parameter, what is allowed and what came."""
        check_parameters(self)

    def _settings(self) -> dict[str, Any]:
        """Return the parameters that a model file holds, as JSON values; what has none stays an object."""
        settings = {name: getattr(self, name) for name in self._saved()}
        if isinstance(settings.get("class_weight"), Mapping):  # JSON's keys are strings, labels any
            settings["class_weight"] = [list(pair) for pair in settings["class_weight"].items()]
        return settings

    @classmethod
    def _saved(cls) -> list[str]:
        """Return the names of the parameters that a model file holds as they are."""
        return [each.name for each in fields(cls) if each.init and each.name not in cls.NOT_SAVED]  # type: ignore[arg-type]

    @classmethod
    def _from_settings(cls, settings: dict[str, Any]) -> Self:
        """Return an estimator with these parameters."""
        known = {name: settings[name] for name in cls._saved() if name in settings}
        if isinstance(known.get("class_weight"), list):
            known["class_weight"] = dict(known["class_weight"])
        return cls(**known)

    @staticmethod
    def _check_stored(settings: Mapping[str, Any]) -> None:
        """Refuse parameters of a training that a model file cannot hold; most can be held."""


@dataclass(eq=False, repr=False)
class Settings(Parameters):
    """Parameters of all estimators. They are the fields of its class and of those above it: `__init__` is made of them,
    with l1 and l2 by position and all others by name. A file holds them as they are, except those in `NOT_SAVED`."""

    l1: float | str | None = AUTO
    l2: float | str | None = 0.0
    _: KW_ONLY
    group_l1: float | str | None = 0.0
    penalty_factors: Any = None
    tol: float | str = AUTO
    stop: str = "estimate"
    max_iter: int = 500
    max_seconds: float | None = None
    solver: Any = AUTO
    n_threads: int | None = None
    random_state: Any = None
    verbose: int = 0
    warm_start: bool = False
    callback: Callable[..., object] | None = None
    checkpoint: str | PathLike[str] | None = None
    checkpoint_every: int | str = "30s"
    scoring: Any = None
    patience: int = 10
    dense_l2: float = field(init=False)  # a parameter of the estimators that take `Features`

    SOLVERS: ClassVar[SolverTable] = SOLVERS
    ENOUGH: ClassVar[float] = 0.01  # the loosest tolerance that costs no accuracy: docs/numerics.md
    NEEDS_OPTIMUM: ClassVar[bool] = True  # of strengths that are set: a looser tolerance may cost accuracy
    NOT_SAVED: ClassVar = (*Parameters.NOT_SAVED, "checkpoint", "checkpoint_every", "scoring")

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_solver(self.solver, self.SOLVERS)
        _ = self.strengths_asked  # which refuses those that its penalty does not have
        check_by_feature(self)
        if self.scoring is not None:  # the default needs no check, and would import scikit-learn's metrics
            named_scorer(self.scoring, self._own_scores)
        check_random_state(self.random_state)

    @property
    def _own_scores(self) -> OwnScores:
        """The scores that no `scoring`, and "f1", stand for."""
        return OwnScores(OWN_SCORE, "f1_macro")

    def _settings(self) -> dict[str, Any]:
        return super()._settings() | {"solver": str(self.solver)} | values_by_feature(self)

    @classmethod
    def _from_settings(cls, settings: dict[str, Any]) -> Self:
        """Return an estimator with these parameters; the default takes the place of a solver object."""
        estimator = super()._from_settings(settings)
        if settings["solver"] in cls.SOLVERS:
            estimator.solver = settings["solver"]
        return estimator

    @property
    def path_parameter(self) -> str:
        """Name of the strength that a regularisation path varies by default."""
        penalty = self.__dict__.get("penalty")
        return "l1" if penalty is None else named_penalty(penalty).strengths[0]

    @property
    def tol_(self) -> float:
        """Relative distance from the optimum that ends a fit: `tol`, or what "auto" stands for."""
        strengths = self.strengths_asked
        is_chosen = any(not is_auto(value) and value > 0 for value in strengths.values())
        # A looser tolerance may cost accuracy of flat labels and taxonomies where rows are penalised or a strength is a
        # number: a strong penalty keeps the objective near that of no weights, so that a share of it may be most of
        # what there is to gain. A hinge has no estimate, and its proofs are expensive.
        needs_optimum = (
            (is_chosen or is_auto(strengths["group_l1"]))
            and self.loss_form.loss_class.has_curvature
            and self.NEEDS_OPTIMUM
        )
        return self.tol_or(OPTIMAL if self.stop != "estimate" or needs_optimum else self.ENOUGH)

    def tol_or(self, automatic: float) -> float:
        return automatic if is_auto(self.tol) else float(self.tol)

    @property
    def strengths_asked(self) -> Strengths:
        """Strengths l1, l2 and group_l1 by their names, 0 for those that the penalty does not have, "auto" as given."""
        raise NotImplementedError

    def make_solver(self) -> Any:
        """Return the solver that the parameter `solver` names or is; InputError for anything else."""
        return named_solver(self.solver, self.SOLVERS, self.random_state)

    def _penalty(self, strengths: Strengths, layout: Layout) -> Penalty:
        """Return the penalty with these strengths, all numbers."""
        raise NotImplementedError

    @property
    def loss_form(self) -> Form:
        """The loss by its row in the table of losses, by default the negative log-likelihood."""
        return STRUCTURED["logistic"]

    @property
    def _trained_by(self) -> tuple[str, ...]:
        """Names of the solvers that alone can train the loss under the penalty, the default first; none: all can."""
        return ()


@dataclass(eq=False, repr=False, kw_only=True)
class StructuredSettings(Settings):
    """Parameters of estimators with a structure over their labels, chains and taxonomies, under l1 ||w||_1 + l2/2
    ||w||^2 + group_l1 sum_f ||w_f||, any of them zero. A loss without curvature, such as the structured hinge, is
    trained in its dual, which needs l2 > 0 and nothing else."""

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
    def loss_form(self) -> Form:
        return STRUCTURED.get(str(self.loss), UNKNOWN)

    @property
    def _trained_by(self) -> tuple[str, ...]:
        """Names of the solvers that alone can train the loss, the default first; none: all can."""
        return self.loss_form.solvers.get("l2", ())

    def _check_loss(self) -> None:
        """Refuse penalties and methods that a loss without curvature cannot have."""
        l1, l2, group_l1 = self.strengths_asked.values()
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

    def make_solver(self) -> Any:
        if self._trained_by and isinstance(self.solver, str) and self.solver == AUTO:
            return named_solver(self._trained_by[0], self.SOLVERS, self.random_state)
        return super().make_solver()

    @property
    def strengths_asked(self) -> Strengths:
        strengths = {name: getattr(self, name) for name in STRENGTHS}
        if self._trained_by and is_auto(strengths["l1"]):
            strengths["l1"] = 0.0  # what is trained in its dual has L2 only
        if is_auto(strengths["l2"]) and (not is_auto(strengths["l1"]) or strengths["group_l1"] != 0):
            strengths["l2"] = 0.0  # a strength that the user sets is the whole penalty
        return {name: value if is_auto(value) else float(value or 0.0) for name, value in strengths.items()}

    def _penalty(self, strengths: Strengths, layout: Layout) -> Penalty:
        name = "elastic-net" if strengths["group_l1"] == 0 else "sparse-group"
        return make_penalty(name, strengths, layout, self.group_norm)


@dataclass(eq=False, repr=False, kw_only=True)
class ChainSettings(StructuredSettings):
    """Parameters of `ChainCRF`."""

    l2: float | str | None = field(default=AUTO, kw_only=False)
    min_count: int = 1
    all_possible_states: bool = True
    all_possible_transitions: bool = True
    scheme: str | None = None
    constraints: Transitions | str | None = None
    once: Collection[Any] | None = None
    class_weight: Mapping | str | None = None
    constrain: str = "both"
    on_violation: str = "error"
    client: Any = None
    wait: float = 60.0

    NOT_SAVED: ClassVar[tuple[str, ...]] = (*StructuredSettings.NOT_SAVED, "client", "wait")
    NEEDS_OPTIMUM: ClassVar[bool] = False

    @property
    def _transitions(self) -> Transitions:
        """All rules on the labels, of the parameters that give some; InputError for anything else."""
        return as_transitions(self.constraints, self.scheme, self.once)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        as_transitions(self.constraints, self.scheme, self.once)

    @property
    def _own_scores(self) -> OwnScores:
        scheme = self._transitions.scheme
        return OwnScores(TOKEN_SCORE, CHUNK_F1) if scheme is None else OwnScores(*[f"span_f1:{scheme}"] * 2)

    def check_parts(self, where: str, part: str, needs_pairs: bool = True) -> None:
        """Refuse what depends on all data, for items that come in parts: "in blocks", of a "block" each, for example;
        needs_pairs : whether pairs of a feature and a label, or of labels, that never occur are needed."""
        for name in ("all_possible_states", "all_possible_transitions") if needs_pairs else ():
            if not getattr(self, name):
                raise InputError(
                    f"{name}: {where} expected True, as no {part} has all that occurs, got False"
                )
        if self.min_count != 1:
            raise InputError(
                f"min_count: {where} expected 1, as no {part} has all features, got {self.min_count}"
            )
        if self.class_weight is not None:
            raise InputError(f"class_weight: {where} expected None, as no {part} has all labels")
        if self._transitions.seen:
            raise InputError(f"constraints: {where} they cannot be what was seen, as no {part} has all of it")

    def _settings(self) -> dict[str, Any]:
        settings, rules = super()._settings(), self.constraints
        return settings | {"constraints": rules.to_json() if isinstance(rules, Transitions) else rules}

    @classmethod
    def _from_settings(cls, settings: dict[str, Any]) -> Self:
        rules = settings.get("constraints")
        if isinstance(rules, dict):
            settings = settings | {"constraints": Transitions.from_json(rules)}
        return super()._from_settings(settings)

"""The parameters of an estimator, and what follows from them alone, without data or weights.

Functions that take settings read them and nothing else: an estimator is its settings and, when it is fitted, a model.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeAlias

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from crfqn import metrics
from crfqn.choices import STRENGTHS, STRUCTURED, UNKNOWN_LOSS, LossVariant
from crfqn.errors import InputError
from crfqn.estimators.automatic import (
    AUTO,
    SOLVERS,
    STRUCTURED_SOLVERS,
    RandomStateLike,
    SolverTable,
    Strengths,
    check_by_feature,
    check_solver,
    is_auto,
    make_penalty,
    named_penalty,
    named_solver,
    strengths_of,
    values_by_feature,
)
from crfqn.estimators.transitions import Transitions, as_transitions
from crfqn.model.compiled_engine import CompiledEngine
from crfqn.parameters import PARAMETERS, Parameter, check_parameters
from crfqn.penalties.penalty import Layout, Penalty
from crfqn.result import OPTIMUM_TOL
from crfqn.solvers.protocols import Solver

if TYPE_CHECKING:
    from distributed import Client

ScoringLike: TypeAlias = "str | Callable[..., float] | None"

# Parameters that are not in model files.
NOT_SAVED = ("solver", "random_state", "verbose", "callback")


def saved_values(settings: BaseEstimator) -> dict[str, Any]:
    """Return the parameters that a model file holds, as JSON values if they have any."""
    saved = [each.name for each in fields(settings) if each.init and each.name not in settings.NOT_SAVED]
    values = {name: getattr(settings, name) for name in saved}
    # Keys of JSON are strings, labels may be of other types.
    if isinstance(values.get("class_weight"), Mapping):
        values["class_weight"] = [list(pair) for pair in values["class_weight"].items()]
    return values


def with_saved_values(cls: Any, values: Mapping[str, Any]) -> Any:
    """Return an estimator of a class with the parameters of a model file."""
    saved = {each.name for each in fields(cls) if each.init and each.name not in cls.NOT_SAVED}
    known = {name: values[name] for name in values if name in saved}
    if isinstance(known.get("class_weight"), list):
        known["class_weight"] = dict(known["class_weight"])
    return cls(**known)


@dataclass(eq=False, repr=False)
class Settings:
    """Parameters of all estimators with `TrainingMixin`, as fields, which subclasses extend. The generated `__init__`
    takes l1 and l2 by position and all others by name. Model files hold all parameters except those in `NOT_SAVED`.

    The penalty is that of the parameter `penalty`. An estimator without this parameter has l1 ||w||_1 + l2/2 ||w||^2 +
    group_l1 sum_f ||w_f||. The loss is that of the parameter `loss`, by default the negative log-likelihood.
    """

    l1: float | str | None = AUTO
    l2: float | str | None = 0.0
    _: KW_ONLY
    group_l1: float | str | None = 0.0
    penalty_factors: Mapping[str, float] | ArrayLike | None = None
    tol: float | str = AUTO
    stop: str = "estimate"
    max_iter: int = 500
    max_seconds: float | None = None
    solver: str | Solver = AUTO
    n_threads: int | None = None
    random_state: RandomStateLike = None
    verbose: int = 0
    warm_start: bool = False
    callback: Callable[..., object] | None = None
    checkpoint: str | PathLike[str] | None = None
    checkpoint_every: int | str = "30s"
    scoring: ScoringLike = None
    patience: int = 10
    dense_l2: float = field(init=False)  # a parameter of the estimators that accept `Features`

    PARAMETERS: ClassVar[Mapping[str, Parameter]] = PARAMETERS
    SOLVERS: ClassVar[SolverTable] = SOLVERS
    LOSS_VARIANTS: ClassVar[Mapping[str, LossVariant]] = STRUCTURED  # of the parameter `loss`
    DEFAULT_TOL: ClassVar[float] = 0.01  # the largest tolerance without loss of accuracy: docs/numerics.md
    NEEDS_OPTIMUM: ClassVar[bool] = (
        True  # whether a larger tolerance may cost accuracy if strengths are numbers
    )
    NOT_SAVED: ClassVar[tuple[str, ...]] = (*NOT_SAVED, "checkpoint", "checkpoint_every", "scoring")
    RESERVOIR: ClassVar[int] = (
        10_000  # maximum number of items that `partial_fit` keeps, which bounds its memory
    )
    BLOCK_NUMBERS: ClassVar[int] = 1 << 23
    """Scores of a block of single items in prediction: 64 MB for each of several such arrays."""

    def check_parameters(self) -> None:
        """Raise InputError for parameters out of range, naming the parameter, what is allowed and what came."""
        check_parameters(self)
        check_solver(self.solver, self.SOLVERS)
        _ = self.strengths_asked  # raises InputError for strengths that the penalty does not have
        check_by_feature(self)
        if self.scoring is not None:  # a check of the default would import scikit-learn's metrics
            named_scorer(self.scoring, self.default_scores)
        check_random_state(self.random_state)
        if self.capable_solvers and not hasattr(self, "penalty"):
            check_dual_training(self)

    @property
    def default_scores(self) -> OwnScores:
        """The scores of `scoring=None` and of "f1"."""
        return OwnScores(ACCURACY, "f1_macro")

    def stored_parameters(self) -> dict[str, Any]:
        """Return the parameters that a model file holds, as JSON values if they have any."""
        return saved_values(self) | {"solver": str(self.solver)} | values_by_feature(self)

    @classmethod
    def from_stored(cls, values: dict[str, Any]) -> Self:
        """Return an estimator with the parameters of a model file, and the default solver instead of a solver
        object."""
        estimator: Self = with_saved_values(cls, values)
        if values["solver"] in cls.SOLVERS:
            estimator.solver = values["solver"]
        return estimator

    @property
    def path_parameter(self) -> str:
        """Name of the strength that regularisation paths vary by default."""
        return named_penalty(getattr(self, "penalty", "l1")).strengths[0]

    @property
    def tol_(self) -> float:
        """Relative distance from the optimum at which a fit stops: the parameter, or the value chosen for "auto"."""
        strengths = self.strengths_asked
        is_chosen = any(not is_auto(value) and value > 0 for value in strengths.values())
        # A larger tolerance may cost accuracy for flat labels and taxonomies if rows are penalised or a strength is a
        # number: under a strong penalty the objective at the optimum is near that of zero weights, so that a fraction
        # of it may exceed their difference. Hinges have no estimate of the gap, and their proofs are expensive.
        needs_optimum = (
            (is_chosen or is_auto(strengths["group_l1"]))
            and self.loss_variant.loss_class.has_curvature
            and self.NEEDS_OPTIMUM
        )
        return self.tol_or(OPTIMUM_TOL if self.stop != "estimate" or needs_optimum else self.DEFAULT_TOL)

    def tol_or(self, automatic: float) -> float:
        return automatic if is_auto(self.tol) else float(self.tol)

    @property
    def strengths_asked(self) -> Strengths:
        """Strengths l1, l2 and group_l1 by name: numbers or "auto", 0 for those that the penalty does not have."""
        strengths = {name: getattr(self, name) for name in STRENGTHS}
        if hasattr(self, "penalty"):
            return strengths_of(self.penalty, getattr(self, "loss", None) == "logistic", **strengths)
        if self.capable_solvers and is_auto(strengths["l1"]):
            strengths["l1"] = 0.0  # solvers of the dual have an L2 penalty only
        if is_auto(strengths["l2"]) and (not is_auto(strengths["l1"]) or strengths["group_l1"] != 0):
            strengths["l2"] = 0.0  # with another strength of the user, there is no automatic L2 penalty
        return {name: value if is_auto(value) else float(value or 0.0) for name, value in strengths.items()}

    def make_solver(self) -> Solver:
        """Return the solver of the parameter `solver`, a name or an object; InputError for anything else."""
        solver = self.solver
        if self.capable_solvers and isinstance(solver, str) and solver == AUTO:
            solver = self.capable_solvers[0]
        return named_solver(solver, self.SOLVERS, self.random_state)

    def penalty_of(self, strengths: Strengths, layout: Layout) -> Penalty:
        """Return the penalty with these strengths, which are numbers."""
        name = "elastic-net" if strengths["group_l1"] == 0 else "sparse-group"
        norm = getattr(self, "group_norm", None)
        return make_penalty(getattr(self, "penalty", name), strengths, layout, norm)

    @property
    def loss_variant(self) -> LossVariant:
        """The specification of the parameter `loss`."""
        return self.LOSS_VARIANTS.get(str(getattr(self, "loss", "logistic")), UNKNOWN_LOSS)

    @property
    def capable_solvers(self) -> tuple[str, ...]:
        """Names of the solvers for the loss under the penalty, the default first, if these are not all solvers; else
        ()."""
        return self.loss_variant.solvers.get(getattr(self, "penalty", "l2"), ())

    @property
    def engine(self) -> CompiledEngine:
        """The engine that scores items and infers their labels."""
        return CompiledEngine(self.n_threads, self.BLOCK_NUMBERS)


def check_dual_training(settings: Settings) -> None:
    """Raise InputError for penalties and solvers that a loss without curvature, trained in the dual, does not
    support."""
    l1, l2, group_l1 = settings.strengths_asked.values()
    loss, solvers = f"loss={getattr(settings, 'loss', None)!r}", settings.capable_solvers
    if l1 != 0 or group_l1 != 0 or not l2 > 0:
        raise InputError(
            f"{loss}: expected l2 > 0 with l1 = 0 and group_l1 = 0, got l2={l2:g}, l1={l1:g}, group_l1={group_l1}"
        )
    if isinstance(settings.solver, str) and settings.solver not in (AUTO, *solvers):
        names = " or ".join(map(repr, solvers))
        raise InputError(f"solver: with {loss} expected {AUTO!r} or {names}, got {settings.solver!r}")


# Parameters of the estimators with a structure over their labels, chains and taxonomies.
STRUCTURED_PARAMETERS = {**PARAMETERS, "loss": replace(PARAMETERS["loss"], choices=(*STRUCTURED,),
    details='"logistic" is -log P(y | x). "hinge" is max over y\' of (L(y, y\') + score(y\')) - score(y), L the '
    'number '
    "of wrong positions of a chain, or half the number of edges of the path from y to y' in a taxonomy (under a "
    "common root): a max-margin model (Taskar et al. 2003), which needs l2 > 0 without l1 and has no "
    "probabilities. It is a sum over the items: C of a structural SVM is 1 / l2 here, and lambda of a "
    "mean over n items is l2 / n.")}  # fmt: skip


@dataclass(eq=False, repr=False, kw_only=True)
class ChainSettings(Settings):
    """Parameters of `ChainCRF`."""

    l2: float | str | None = field(default=AUTO, kw_only=False)
    dense_l2: float = 1.0
    group_norm: str = "l2"
    loss: str = "logistic"
    min_count: int = 1
    all_possible_states: bool = True
    all_possible_transitions: bool = True
    scheme: str | None = None
    transition_rules: Transitions | str | None = None
    once: Collection[Any] | None = None
    class_weight: Mapping | str | None = None
    enforce_rules_in: str = "both"
    on_violation: str = "error"
    dask_client: Client | str | None = None
    worker_timeout: float = 60.0

    PARAMETERS: ClassVar = STRUCTURED_PARAMETERS
    SOLVERS: ClassVar = STRUCTURED_SOLVERS
    DEFAULT_TOL: ClassVar[float] = 0.03
    NOT_SAVED: ClassVar = (*Settings.NOT_SAVED, "dask_client", "worker_timeout")
    NEEDS_OPTIMUM: ClassVar[bool] = False

    @property
    def transitions(self) -> Transitions:
        """All rules on the labels, those of `transition_rules`, `scheme` and `once`; InputError for invalid ones."""
        return as_transitions(self.transition_rules, self.scheme, self.once)

    def check_parameters(self) -> None:
        super().check_parameters()
        as_transitions(self.transition_rules, self.scheme, self.once)

    @property
    def default_scores(self) -> OwnScores:
        scheme = self.transitions.scheme
        return (
            OwnScores(TOKEN_ACCURACY, CHUNK_F1) if scheme is None else OwnScores(*[f"span_f1:{scheme}"] * 2)
        )

    def check_parts(self, where: str, part: str, needs_pairs: bool = True) -> None:
        """Raise InputError for parameters that need all data, for items in parts. `where` and `part` are for messages:
        "in blocks", "block".

        needs_pairs : whether weights for all pairs of feature and label, and of labels, are needed
        """
        for name in ("all_possible_states", "all_possible_transitions") if needs_pairs else ():
            if not getattr(self, name):
                raise InputError(
                    f"{name}: {where} expected True, as no {part} has all pairs that occur, got False"
                )
        if self.min_count != 1:
            raise InputError(
                f"min_count: {where} expected 1, as no {part} has all features, got {self.min_count}"
            )
        if self.class_weight is not None:
            raise InputError(f"class_weight: {where} expected None, as no {part} has all labels")
        if self.transitions.seen:
            raise InputError(
                f"transition_rules: {where} expected no rules of seen transitions, as no {part} has all of them"
            )

    def stored_parameters(self) -> dict[str, Any]:
        values, rules = super().stored_parameters(), self.transition_rules
        return values | {"transition_rules": rules.to_json() if isinstance(rules, Transitions) else rules}

    @classmethod
    def from_stored(cls, values: dict[str, Any]) -> Self:
        rules = values.get("transition_rules")
        if isinstance(rules, dict):
            values = values | {"transition_rules": Transitions.from_json(rules)}
        return super().from_stored(values)


ACCURACY = "accuracy"  # the score of `score` of the estimators
TOKEN_ACCURACY, CHUNK_F1 = "token_accuracy", "chunk_f1"


class OwnScores(NamedTuple):
    """Names of the scores of an estimator that `scoring=None` and `scoring="f1"` select."""

    default: str
    f1: str


def named_scorer(scoring: ScoringLike, own: OwnScores) -> tuple[str, Callable[..., float]]:
    """Return the name and the scorer of the parameter `scoring`; InputError for an unknown name. For chains "f1" is
    that of the spans of the estimator's scheme, else of chunks of IOB labels; for single labels it is "f1_macro". The
    default is "f1" with a scheme, else the accuracy."""
    scoring = own.default if scoring is None else own.f1 if scoring == "f1" else scoring
    if scoring == ACCURACY:
        return ACCURACY, lambda model, X, y: model.score(X, y)
    if callable(scoring):
        return getattr(scoring, "__name__", "score"), scoring
    return (CHUNK_F1, metrics.chunk_scorer()) if scoring is own.f1 == CHUNK_F1 else named_scorer_of(scoring)


def named_scorer_of(name: str) -> tuple[str, Callable[..., float]]:
    """Return the name and the scorer of `crfqn.metrics`, or of scikit-learn."""
    try:
        return str(name), metrics.find_scorer(name)
    except InputError as error:
        from sklearn.metrics import get_scorer

        if isinstance(name, str):
            try:
                return name, get_scorer(name)
            except ValueError:
                pass
        raise InputError(
            f"scoring: {error}; names of scikit-learn's scorers and a callable(estimator, X, y) are possible, too"
        ) from None

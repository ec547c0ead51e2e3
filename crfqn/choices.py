"""Losses, penalties and data by feature, a row each: whatever has to know their names reads them here.

Choices of recipes and of the command line, checks and refusals of the estimators and their default solvers are made of
these tables. Classes stand as names, imported when a model is trained: the tables cost nothing to read.
What a loss can do (probabilities, margins, curvature) its class says (`objectives/losses/score_loss.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any


def load_class(name: str) -> Any:
    """Return a class or a function by its dotted name, its module's first."""
    module, _, name = name.rpartition(".")
    return getattr(import_module(module), name)


@dataclass(frozen=True)
class PenaltyRow:
    """A row of the table of penalties.

    description : what of the weights it adds up
    class_path : the class that `from_strengths` makes it of, by its dotted name
    strengths : names of its strengths; the first one is varied by a regularisation path
    norm : the norm of a row of weights, where the penalty has groups
    with_factors : its class with a factor for each feature; empty where there is none
    """

    description: str
    class_path: str
    strengths: tuple[str, ...]
    norm: str = "l2"
    with_factors: str = ""

    @property
    def has_groups(self) -> bool:
        """Whether it has norms of groups of weights."""
        return "group_l1" in self.strengths


_NET, _ROWS = "crfqn.penalties.elastic_net.ElasticNet", "crfqn.penalties.group_lasso.GroupLasso"
_FACTORED = "crfqn.penalties.factors.Factored"
PENALTIES: Mapping[str, PenaltyRow] = {
    "l1/l2": PenaltyRow("the lengths of rows, a feature's weights for all classes",
        _ROWS, ("group_l1",), with_factors=f"{_FACTORED}GroupLasso"),
    "l1/linf": PenaltyRow("the largest sizes of rows",
        _ROWS, ("group_l1",), "linf", with_factors=f"{_FACTORED}GroupLasso"),
    "sparse-group": PenaltyRow("the lengths of rows and the sizes of weights",
        _ROWS, ("group_l1", "l1"), with_factors=f"{_FACTORED}GroupLasso"),
    "l1": PenaltyRow("the sizes of weights", _NET, ("l1",), with_factors=f"{_FACTORED}ElasticNet"),
    "elastic-net": PenaltyRow("the sizes of weights and their squares",
        _NET, ("l1", "l2"), with_factors=f"{_FACTORED}ElasticNet"),
    "l2": PenaltyRow("the squares of weights", _NET, ("l2",), with_factors=f"{_FACTORED}ElasticNet"),
}  # fmt: skip


STRENGTHS = ("l1", "l2", "group_l1")  # of all penalties


@dataclass(frozen=True)
class ByFeatureRow:
    """A row of the table of data by feature, parameters of estimators with a value for each feature. Their checks and
    their texts on the command line are in `PARAMETERS`; functions stand here by their dotted names.

    noun : what messages call the values
    in_columns : the function (what the user gave, names of the F columns or None, F) -> values by column, array (F,)
    in_layout : the function (values by column, space, layout) -> what the penalty is made with, of all columns of the
        training, dense ones and a constant among them, and of contexts
    place : the field of `crfqn.penalties.penalty.Layout` that has this
    penalties, solvers : the attribute that rows of PENALTIES have where the penalty takes it; names of solvers that do
    without : others that it cannot stand beside, and why
    takes_dense : whether items may have a dense block
    is_numeric, unnamed : whether the values are numbers >= 0, not labels; that of columns without a name
    read_file : the function that reads the file that a recipe names; empty: there is none
    help : what the help of the option says besides the description
    """

    noun: str
    in_columns: str
    in_layout: str
    place: str
    penalties: str
    solvers: tuple[str, ...]
    without: Mapping[str, str] = field(default_factory=dict)
    takes_dense: bool = True
    is_numeric: bool = False
    unnamed: float | None = None
    read_file: str = ""
    help: str = ""


_ANY_GROUPS = ("auto", "prox-qn", "prox-qn-paper", "prox-gd", "fista", "spa-rsa", "fbpd")
BY_FEATURE: Mapping[str, ByFeatureRow] = {
    "penalty_factors": ByFeatureRow("factors", "crfqn.penalties.factors.factors_by_column",
        "crfqn.penalties.factors.feature_factors", "factors", "with_factors",
        (*_ANY_GROUPS, "owl-qn", "l-bfgs", "feature-bcd", "gls", "gls-plain"),
        is_numeric=True, unnamed=1.0, read_file="crfqn.parameters.read_factor_file",
        help=': name=factor, of a pattern "w[0]=*=2", or a FILE of lines `name factor`; again for others'),
    "feature_groups": ByFeatureRow("groups", "crfqn.penalties.blocks.blocks_by_column",
        "crfqn.penalties.blocks.with_constant", "groups", "has_groups", _ANY_GROUPS,
        without={"penalty_factors": "so that groups are rows"}, takes_dense=False),
}  # fmt: skip


@dataclass(frozen=True)
class Form:
    """A loss over items of one kind: with a label each, or over chains and taxonomies.

    class_path : the class that `over` makes it of, by its dotted name
    solvers : where not all solvers can train it: the names of those that can, by penalty, the default first
    takes_bound : whether it may be bounded in the place of being minimised
    """

    class_path: str
    solvers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    takes_bound: bool = False

    @property
    def loss_class(self) -> Any:
        """The class of the loss."""
        return load_class(self.class_path)


@dataclass(frozen=True)
class LossRow:
    """A row of the table of losses.

    description : what it is of an item
    flat, structured : its form over items with a label each, and over chains and taxonomies, where there is one
    estimator : the estimator of flat labels that recipes train it by
    ridge_only : whether that estimator knows l2 alone
    shifts_alike : whether a constant added to all intercepts changes nothing
    dense : under penalties over rows, the solvers where 5 %, and where half of the entries of the features are not
        zero, by their names in `automatic.TUNED`
    """

    description: str
    flat: Form | None = None
    structured: Form | None = None
    estimator: str = "MulticlassClassifier"
    ridge_only: bool = False
    shifts_alike: bool = True
    dense: tuple[str, str] = ("margins", "margins")


_HINGES, _LIKELIHOODS = "crfqn.objectives.losses.hinges", "crfqn.objectives.losses.likelihood"
_FBPD = dict.fromkeys(PENALTIES, ("fbpd",)) | {"l2": ("dual", "fbpd")}
LOSSES: Mapping[str, LossRow] = {
    "squared-hinge": LossRow("the squares of the violated margins to other labels",
        Form(f"{_HINGES}.MulticlassSquaredHinge"), dense=("rows", "margins")),
    "multitask-squared-hinge": LossRow("those of one classifier against the rest for each label",
        Form(f"{_HINGES}.MultitaskSquaredHinge"), shifts_alike=False),
    "logistic": LossRow("-log of its probability",
        Form(f"{_LIKELIHOODS}.MultinomialLogistic"), Form(f"{_LIKELIHOODS}.Likelihood"),
        estimator="MulticlassCRF", dense=("likelihoods", "likelihoods")),
    "hinge": LossRow("the largest violation of a margin, without curvature",
        Form(f"{_HINGES}.MulticlassHinge", _FBPD, takes_bound=True),
        Form("crfqn.objectives.losses.structured.StructuralHinge", {"l2": ("block-frank-wolfe",)})),
    # Of dense features, each with an estimator of its own.
    "generalized-least-squares": LossRow("that of a link, in steps with one metric",
        estimator="GeneralizedLeastSquares", ridge_only=True),
    "calibrated-least-squares": LossRow("that of a link that is learnt",
        estimator="CalibratedLeastSquares", ridge_only=True),
    "stagewise-regression": LossRow("that of a link, by stages of features",
        estimator="StagewiseRegression", ridge_only=True),
}  # fmt: skip
FLAT: Mapping[str, Form] = {name: row.flat for name, row in LOSSES.items() if row.flat}
STRUCTURED: Mapping[str, Form] = {name: row.structured for name, row in LOSSES.items() if row.structured}
# Can do nothing: of a name that the estimator's check refuses.
UNKNOWN = Form("crfqn.objectives.losses.score_loss.ScoreLoss")

UNICODE, LETTERS, BLANKS = "unicode", "letters", "blanks"  # rules by which texts are cut into words
# Words and tags within two positions, pairs of neighbouring words, pairs and triples of neighbouring tags.
CHUNKING = """
w[-2] w[-1] w[0] w[1] w[2] w[-1]|w[0] w[0]|w[1]
pos[-2] pos[-1] pos[0] pos[1] pos[2] pos[-2]|pos[-1] pos[-1]|pos[0] pos[0]|pos[1] pos[1]|pos[2]
pos[-2]|pos[-1]|pos[0] pos[-1]|pos[0]|pos[1] pos[0]|pos[1]|pos[2]
"""

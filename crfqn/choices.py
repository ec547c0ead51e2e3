"""Tables of losses, penalties and parameters by feature, the only place that lists their names.

The choices of recipes and of the command line, and the checks and default solvers of the estimators, are derived from
these tables. Classes and functions are given by name (`crfqn/registry.py`) and imported on first use. The class of a
loss declares its capabilities (probabilities, margins, curvature; `objectives/losses/score_loss.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from crfqn.registry import find


@dataclass(frozen=True)
class PenaltySpec:
    """A row of the table of penalties.

    description : the penalised quantities, which are summed
    class_name : the class whose `from_strengths` makes it
    strengths : names of its strengths; a regularisation path varies the first one
    norm : the norm of a row of weights, if the penalty has groups
    has_factors : whether the strengths can be multiplied by factors of features
    with_groups : the class for blocks of features as groups, "" if there is none
    """

    description: str
    class_name: str
    strengths: tuple[str, ...]
    norm: str = "l2"
    has_factors: bool = False
    with_groups: str = ""


PENALTIES: Mapping[str, PenaltySpec] = {
    "l1/l2": PenaltySpec("the lengths of rows, a feature's weights for all classes",
        "GroupLasso", ("group_l1",), has_factors=True, with_groups="FeatureBlocks"),
    "l1/linf": PenaltySpec("the largest sizes of rows",
        "GroupLasso", ("group_l1",), "linf", has_factors=True, with_groups="FeatureBlocks"),
    "sparse-group": PenaltySpec("the lengths of rows and the sizes of weights",
        "GroupLasso", ("group_l1", "l1"), has_factors=True, with_groups="FeatureBlocks"),
    "l1": PenaltySpec("the sizes of weights", "ElasticNet", ("l1",), has_factors=True),
    "elastic-net": PenaltySpec("the sizes of weights and their squares", "ElasticNet", ("l1", "l2"), has_factors=True),
    "l2": PenaltySpec("the squares of weights", "ElasticNet", ("l2",), has_factors=True),
}  # fmt: skip


STRENGTHS = ("l1", "l2", "group_l1")  # of all penalties


@dataclass(frozen=True)
class ByFeatureRow:
    """A row of the table of parameters of estimators with a value for each feature.

    Their checks and their help are in `PARAMETERS`.

    noun : the name of the values in messages
    in_columns : the function (value of the parameter, names of the F columns or None, F) -> values by column, (F,)
    in_layout : the function (values by column, space, layout) -> argument of the penalty, with values for all columns
        of the training, including dense columns, a constant and contexts
    place : the field of `crfqn.penalties.penalty.Layout` for the result of `in_layout`
    penalties : the field of the rows of PENALTIES that says whether a penalty supports the parameter
    solvers : names of the solvers that support it
    without : parameters that cannot be combined with it, with the reason
    takes_dense : whether items may have a dense block
    is_numeric : whether the values are numbers >= 0, otherwise labels
    unnamed : the value of columns without a name
    read_file : the function that reads the file named in a recipe, "" if there is none
    help : appended to the description in the help of the option
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
    "penalty_factors": ByFeatureRow("factors", "factors_by_column",
        "feature_factors", "feature_factors", "has_factors",
        (*_ANY_GROUPS, "owl-qn", "l-bfgs", "feature-bcd", "gls", "gls-plain"),
        is_numeric=True, unnamed=1.0, read_file="read_factor_file",
        help=': name=factor, of a pattern "w[0]=*=2", or a FILE of lines `name factor`; again for others'),
    "feature_groups": ByFeatureRow("groups", "blocks_by_column",
        "with_constant", "feature_groups", "with_groups", _ANY_GROUPS,
        without={"penalty_factors": "so that groups are rows"}, takes_dense=False),
}  # fmt: skip


@dataclass(frozen=True)
class LossVariant:
    """A loss over items of one kind: with a label each, or over chains and taxonomies.

    class_name : the class whose `from_structure` makes it
    solvers : by penalty, the solvers that can train it, the default first; empty if all can
    bounded : the solver that minimises the penalty under a bound on the loss, "" if there is none
    """

    class_name: str
    solvers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    bounded: str = ""

    @property
    def loss_class(self) -> Any:
        """The class of the loss."""
        return find(self.class_name)


@dataclass(frozen=True)
class LossSpec:
    """A row of the table of losses.

    description : the loss of an item
    flat, structured : its form over items with a label each, and over chains and taxonomies, if there is one
    estimator : the estimator of flat labels that recipes train it by
    supports_l1 : whether that estimator has other penalties than l2
    is_shift_invariant : whether a constant added to all intercepts changes nothing
    dense_solvers : the solvers under penalties over rows if 5 % of the entries of the features are not zero, and if
        half of them are not, by their names in `ROW_PENALTY_SOLVERS` in `crfqn/solvers/automatic/auto_solver.py`
    """

    description: str
    flat: LossVariant | None = None
    structured: LossVariant | None = None
    estimator: str = "MulticlassClassifier"
    supports_l1: bool = True
    is_shift_invariant: bool = True
    dense_solvers: tuple[str, str] = ("margins", "margins")


_FBPD = dict.fromkeys(PENALTIES, ("fbpd",)) | {"l2": ("dual", "fbpd")}
LOSSES: Mapping[str, LossSpec] = {
    "squared-hinge": LossSpec("the squares of the violated margins to other labels",
        LossVariant("MulticlassSquaredHinge"), dense_solvers=("rows", "margins")),
    "multitask-squared-hinge": LossSpec("those of one classifier against the rest for each label",
        LossVariant("MultitaskSquaredHinge"), is_shift_invariant=False),
    "logistic": LossSpec("-log of its probability",
        LossVariant("MultinomialLogistic"), LossVariant("Likelihood"),
        estimator="MulticlassCRF", dense_solvers=("likelihoods", "likelihoods")),
    "hinge": LossSpec("the largest violation of a margin, without curvature",
        LossVariant("MulticlassHinge", _FBPD, bounded="BoundedLoss"),
        LossVariant("StructuralHinge", {"l2": ("block-frank-wolfe",)})),
    # Losses for dense features, each with its estimator.
    "generalized-least-squares": LossSpec("that of a link, in steps with one metric",
        estimator="GeneralizedLeastSquares", supports_l1=False),
    "calibrated-least-squares": LossSpec("that of a link that is learnt",
        estimator="CalibratedLeastSquares", supports_l1=False),
    "stagewise-regression": LossSpec("that of a link, by stages of features",
        estimator="StagewiseRegression", supports_l1=False),
}  # fmt: skip
FLAT: Mapping[str, LossVariant] = {name: row.flat for name, row in LOSSES.items() if row.flat}
STRUCTURED: Mapping[str, LossVariant] = {
    name: row.structured for name, row in LOSSES.items() if row.structured
}
# A loss without capabilities, for a name that the check of the estimator then rejects.
UNKNOWN_LOSS = LossVariant("ScoreLoss")

# Rules for cutting texts into words.
UNICODE_RULES, LETTER_RULES, BLANK_RULES = "unicode", "letters", "blanks"
PENN_RULES, CHARACTER_RULES = "penn", "characters"
TOKENIZER_NAMES = (UNICODE_RULES, LETTER_RULES, BLANK_RULES, PENN_RULES, CHARACTER_RULES)
AUTO_TOKENIZER = "auto"  # chosen by the spans of the training texts
MISALIGNED_RULES = ("error", "expand", "drop")  # for spans that begin or end within a token
# The n-grams of texts, as scikit-learn calls them: of words, of characters, of the characters of each word.
WORD_NGRAMS, CHARACTER_NGRAMS, WORD_CHARACTER_NGRAMS = "word", "char", "char_wb"
ANALYZERS = (WORD_NGRAMS, CHARACTER_NGRAMS, WORD_CHARACTER_NGRAMS)
# Words and tags at distance <= 2, pairs of neighbouring words, pairs and triples of neighbouring tags.
CHUNKING_TEMPLATES = """
w[-2] w[-1] w[0] w[1] w[2] w[-1]|w[0] w[0]|w[1]
pos[-2] pos[-1] pos[0] pos[1] pos[2] pos[-2]|pos[-1] pos[-1]|pos[0] pos[0]|pos[1] pos[1]|pos[2]
pos[-2]|pos[-1]|pos[0] pos[-1]|pos[0]|pos[1] pos[0]|pos[1]|pos[2]
"""

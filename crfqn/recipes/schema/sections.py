"""Sections of a recipe: frozen dataclasses of their keys."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from crfqn.data.templates.windows import CHUNKING
from crfqn.recipes.schema.keys import key

SPARSE_LOSSES = ("logistic", "squared-hinge", "multitask-squared-hinge", "hinge")
# Of dense features: `GeneralizedLeastSquares`, `CalibratedLeastSquares`, `StagewiseRegression`.
LEAST_SQUARES = ("generalized-least-squares", "calibrated-least-squares", "stagewise-regression")


DEFAULT_COLUMNS = {"windows": "w pos"}  # others take those that the data have


@dataclass(frozen=True)
class Split:
    """Split of the items: a seeded `permutation`, its first `train` items for training, or the data's own (`given`)."""

    kind: str = key(
        "text",
        choices=("permutation", "given"),
        says="given: the parts of the data set itself; permutation: `train` items of a seeded order",
    )
    seed: int | None = key("integer", None, low=0, says="of the permutation")
    train: int | None = key("integer", None, low=1, says="items for training, of the permutation")


@dataclass(frozen=True)
class Data:
    """Source of the data: a dataset of the registry, or a training and a test file beside the recipe.

    The files are in the `format` that is named (`readers/formats`), or that their names tell; else CRFsuite's text
    for `attributes`, columns for `windows` and `words`, svmlight's for `given`, `label TAB text` for `text`.
    """

    dataset: str = key("text", "", says="a name of `crfqn data list`, in the place of files")
    train: str = key("text", "", says="a file to train on, relative to this one")
    test: str = key("text", "", says="a file to score the model on; there need be none")
    dev: str = key(
        "text", "", says="a file that the training is stopped by; [solver] has scoring and patience"
    )
    format: str = key("text", "", says="of the files; default: what their names tell, or the features need")
    label: str = key(
        "text", "", says="column of the labels, of tables and CoNLL-U; default: label, tag, ... or upos"
    )
    sentence: str = key(
        "text", "", says="column of tables that tells the items apart; default: sentence, ... or blank lines"
    )
    split: Split = Split("given")


@dataclass(frozen=True)
class Features:
    """Features of the observations; every kind has keys of its own.

    `pixel-pairs`: see `crfqn.data.pixels.PixelPairs`. `attributes`: the data names its own. `windows`: templates
    over the columns of the data, see `crfqn.data.templates.windows`. `templates`: `templates` names a pattern
    file of CRF++ or Wapiti beside the recipe, `shapes` columns whose forms are features (`crfqn.Templates`). `words`:
    the word (the first column) with its beginning, its end and its shape, the words around it, and the other columns
    with their neighbours, see `crfqn.data.templates.windows`. `given`: the numbers of the data, if need be each
    feature divided by its largest size in the training part (`max-abs`). `text`: counts of words, see
    `crfqn.recipes.text_features`.
    """

    kind: str = key(
        "text",
        choices=("pixel-pairs", "attributes", "windows", "templates", "words", "given", "text"),
        says="how observations become numbers",
    )
    threshold: float = key("number", 1.0, says="grey values from here on are on")
    bias: bool = key("true or false", True, says="one feature more, which is always on")
    columns: str = key(
        "text", "", says="names of the columns before the label; default: those of the file, w pos of windows"
    )
    templates: str = key(
        "text", CHUNKING, says="features of the columns: w[-1] is the word before, w[-1]|w[0] the pair"
    )
    ends: bool = key(
        "true or false", True, says="whether places beyond the ends of an item have a value of their own"
    )
    shapes: str = key("text", "", says="columns whose forms are features: prefixes, suffixes, shape, ...")
    min_count: int = key("integer", 1, low=1, says="leave out features at fewer positions")
    n_hashed: int | None = key(
        "integer", None, low=1, says="so many columns for all features, by hashing, without names"
    )
    scale: str = key(
        "text",
        "none",
        choices=("none", "max-abs"),
        says="max-abs divides each feature by its largest size in the training part",
    )
    weighting: str = key(
        "text", "tf-idf", choices=("tf-idf", "count", "binary"), says="what a word in a text counts"
    )
    norm: str = key("text", "l2", choices=("l2", "none"), says="l2 makes all texts equally long")
    min_df: int = key("integer", 1, low=1, says="leave out words of fewer texts")
    sublinear_tf: bool = key("true or false", False, says="1 + log(count) in the place of counts")

    @property
    def column_names(self) -> list[str]:
        """Names of the columns that are read, without the label; [] for all that the data have."""
        return (self.columns or DEFAULT_COLUMNS.get(self.kind, "")).split()


@dataclass(frozen=True)
class Structure:
    """Structure of the labels: `chain`, `taxonomy`, `flat` or `ranking`.

    In a chain every position has a label; over a taxonomy and flat every document has one. A ranking's documents have
    several, which the data separate by commas, as in svmlight's format for several labels.

    For data of one's own, `taxonomy` names a file beside the recipe (see `read_taxonomy_file`); without it
    the labels are paths in the taxonomy, their parts separated by `separator`.
    """

    kind: str = key(
        "text", "chain", choices=("chain", "taxonomy", "flat", "ranking"), says="how labels hang together"
    )
    labels: str = key("text", "leaves", choices=("leaves", "nodes"), says="what an item can be labelled by")
    taxonomy: str | None = key("text", None, says="a file with the tree; without it labels are paths in it")
    separator: str | None = key("text", None, says="between the parts of such a path; default: /")


FLAT_LOSSES = ("squared-hinge", "multitask-squared-hinge")


@dataclass(frozen=True)
class Objective:
    """Objective of the training: loss and penalty, which weights a chain may have, intercepts and weights of classes.

    Strengths that are not given are those that the estimator has by default; l1 and group_l1 may be "auto".
    """

    l1: float | str | None = key(
        "number", None, low=0.0, words=("auto",), says="L1 penalty: larger means fewer weights"
    )
    l2: float | None = key("number", None, low=0.0, says="L2 penalty: larger means smaller weights")
    group_l1: float | str | None = key(
        "number", None, low=0.0, words=("auto",), says="penalty of whole features: larger means fewer of them"
    )
    loss: str = key(
        "text",
        "logistic",
        choices=(*SPARSE_LOSSES, *LEAST_SQUARES),
        says="what is minimised besides the penalty",
    )
    penalty: str | None = key(
        "text",
        None,
        choices=("l1", "elastic-net", "l2", "l1/l2", "l1/linf", "sparse-group"),
        says="of single weights, or of the rows of features",
    )
    threshold: str = key("text", "item", choices=("item", "label"), says="how a set is cut off a ranking")
    group_norm: str = key(
        "text", "l2", choices=("l2", "linf"), says="the norm of a feature's weights in group_l1"
    )
    all_possible_states: bool = key(
        "true or false", True, says="weights also for pairs of feature and label that never occur"
    )
    all_possible_transitions: bool = key(
        "true or false", True, says="the same for pairs of neighbouring labels"
    )
    fit_intercept: bool = key("true or false", False, says="a constant for each label")
    penalize_intercept: bool = key("true or false", False, says="whether the penalty is on it too")
    class_weight: str = key(
        "text",
        "none",
        choices=("none", "balanced"),
        says="balanced: rare labels count as much as frequent ones",
    )


@dataclass(frozen=True)
class Solver:
    """Solver and when it stops; keys beyond these (`settings`) are parameters of the estimator, which checks them."""

    name: str = key("text", "auto", says="auto chooses by penalty, sizes and density")
    tol: float = key("number", 1e-3, above=0.0, says="relative distance from the optimum")
    stop: str = key(
        "text", "estimate", choices=("estimate", "certificate"), says="certificate: by a proof only"
    )
    max_iter: int = key("integer", 500, low=1, says="iterations at most")
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Output:
    """File to which `crfqn train` saves the model, relative to the working folder; empty: `<name>.crfqn`."""

    path: str = key("text", "", says="the model file; default: NAME.crfqn")

"""Parameters of the estimators, each declared once with its meaning and its allowed values.

The checks and the documentation of the estimators, the keys of recipes, the options of the command line and the table
of parameters in docs/estimators.md are derived from these rows. Defaults are in the signatures of the estimators.
"""

import inspect
import json
import math
import os
import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, Self, TypeGuard, TypeVar

from crfqn.choices import FLAT, PENALTIES
from crfqn.errors import InputError
from crfqn.messages import shorten
from crfqn.numerals import BLANKS, number_in

_Class = TypeVar("_Class")
VALUE_WORDS = {float: "a finite number", int: "an integer", bool: "True or False", str: "a string"}


@dataclass(frozen=True)
class Parameter:
    """A row of the table of parameters.

    description : the meaning
    kind : the type; object if only `accepts` or the estimator can check the value
    choices : the allowed strings
    low, above, below : limits of a number, >=, > and <
    words : strings that are allowed instead of a number
    is_optional : whether None is allowed
    expects : the allowed values in words, for messages
    accepts : returns whether a value is allowed, for kind object
    details : further sentences for the documentation of classes, such as when to change the parameter
    reader : parses a text of the command line, if the option may be given several times
    """

    description: str
    kind: type = object
    choices: tuple[str, ...] = ()
    low: float | None = None
    above: float | None = None
    below: float | None = None
    words: tuple[str, ...] = ()
    is_optional: bool = False
    expects: str = ""
    accepts: Callable[[Any], bool] | None = None
    details: str = ""
    reader: Callable[[str], Any] | None = None

    def allows(self, value: object) -> bool:
        """Return whether the parameter may have this value."""
        if (value is None and self.is_optional) or (isinstance(value, str) and value in self.words):
            return True
        if self.kind is object:
            return self.accepts is None or self.accepts(value)
        if self.kind is bool:
            return _is_flag(value)
        if self.kind is str:
            return isinstance(value, str) and (not self.choices or value in self.choices)
        if isinstance(value, bool) or not isinstance(value, Integral if self.kind is int else Real):
            return False
        number: Any = value
        may_be_infinite = self.kind is int or bool(self.expects)  # for limits
        return (
            (may_be_infinite or -math.inf < number < math.inf)
            and (self.low is None or number >= self.low)
            and (self.above is None or number > self.above)
            and (self.below is None or number < self.below)
        )

    @property
    def limit(self) -> str:
        """The limit of a number as text, " >= 0"."""
        if self.low is None and self.above is None:
            return ""
        return f" > {self.above:g}" if self.low is None else f" >= {self.low:g}"

    @property
    def expected(self) -> str:
        """The valid values of the parameter, in words."""
        values = f"one of {[*self.choices]}" if self.choices else self.expects
        text = values or VALUE_WORDS[self.kind] + self.limit
        words = ["None"] * self.is_optional + [*map(repr, self.words)]
        return f"{', '.join(words)} or {text}" if words else text

    def check(self, name: str, value: object) -> None:
        """Raise InputError unless the parameter may have this value."""
        if not self.allows(value):
            raise InputError(f"{name}: expected {self.expected}, got {value!r}")

    def documentation(self, name: str, default: object) -> str:
        """Return the parameter's entry in the documentation of a class, indented as docstrings of classes are."""
        values = (
            f"{{{', '.join(map(json.dumps, self.choices))}}}"
            if self.choices
            else self.expects.removeprefix("None, ")
        )
        values = values or f"{self.kind.__name__}{self.limit}"
        words = "".join(f" or {json.dumps(word)}" for word in self.words)
        ending = "optional" if default is None else f"default {json.dumps(default)}"
        if isinstance(default, bool):
            ending = f"default {default}"
        text = f"{self.description[:1].upper()}{self.description[1:]}. {self.details}".strip()
        indent = " " * 8
        lines = textwrap.wrap(
            text, 120, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
        )
        return "\n".join([f"    {name} : {values}{words}, {ending}", *lines])


def with_parameter_documentation(cls: type[_Class]) -> type[_Class]:
    """Insert the documentation of parameters, from the class's table PARAMETERS, into the docstring of an estimator.

    A line `{name}` is replaced by the entry of this parameter, `{others}` by those of all parameters without an entry.
    """
    rows: Mapping[str, Parameter] = cls.PARAMETERS  # type: ignore[attr-defined]
    defaults = {each.name: each.default for each in fields(cls) if each.init}  # type: ignore[arg-type]

    def entry(name: str) -> str:
        return rows[name].documentation(name, defaults[name])

    text = re.sub(r"^    \{(?!others\})(\w+)\}$", lambda line: entry(line[1]), cls.__doc__ or "", flags=re.M)
    documented = {
        name for names in re.findall(r"^    (\w[\w, ]*) : ", text, re.M) for name in names.split(", ")
    }
    others = [entry(name) for name in defaults if name not in documented]
    cls.__doc__ = text.replace("    {others}", "\n".join(others))
    return cls


def _is_flag(value: object) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")  # numpy's


def read_class_weight(text: str) -> str | dict[str, float]:
    """Parse "balanced", or weights by label, `label=weight,label=weight`; InputError for anything else."""
    if text == "balanced":
        return text
    weights = {}
    for part in text.split(","):
        label, _, weight = part.rpartition("=")
        if label in weights:
            raise InputError(f"class_weight: the label {shorten(label)} comes twice in {shorten(text)}")
        weights[label] = number_in(weight.strip(BLANKS))
        if not label or math.isnan(weights[label]):
            raise InputError(
                f"class_weight: expected 'balanced' or label=weight,label=weight, got {shorten(text)}"
            )
    return weights


def read_factors(text: str) -> dict[str, float]:
    """Parse `name=factor`, or a file whose lines are a name and its factor, separated by blanks; InputError for
    anything else."""
    name, _, text_of_factor = text.rpartition("=")
    factor = number_in(text_of_factor.strip(BLANKS))
    return read_factor_file(text) if not name or math.isnan(factor) else {name: factor}


def read_factor_file(path: str | os.PathLike[str]) -> dict[str, float]:
    """Read a file whose lines are a name and its factor, separated by blanks; InputError names the line."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
    except OSError:
        raise InputError(
            f"penalty_factors: expected name=factor or a file of factors, got {os.fspath(path)!r}"
        ) from None
    factors = {}
    for number, line in enumerate(lines, 1):
        line = line.strip(f"{BLANKS}\r")
        if not line:
            continue
        name, _, factor = line.rpartition("\t" if "\t" in line else " ")
        name, where = name.strip(BLANKS), f"{os.fspath(path)}, line {number}"
        if not name or math.isnan(value := number_in(factor.strip(BLANKS))):
            raise InputError(f"{where}: expected a name and its factor, got {shorten(line)}")
        if name in factors:
            raise InputError(f"{where}: the name {shorten(name)} comes twice")
        factors[name] = value
    return factors


def is_interval(value: object) -> bool:
    """Return whether a value is a number of steps, as integer or string, or of seconds such as "30s"."""
    if isinstance(value, str):
        return re.fullmatch(r"\d+(\.\d+)?s|0*[1-9]\d*", value) is not None
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


_OPTIONAL: dict[str, Any] = {"is_optional": True}
_STRENGTH: dict[str, Any] = {"kind": float, "low": 0.0, "words": ("auto",)}
_COUNT: dict[str, Any] = {"kind": int, "low": 1}

PARAMETERS: Mapping[str, Parameter] = MappingProxyType({
    "l1": Parameter("L1 penalty: larger means fewer weights", **_STRENGTH, details='In nats. "auto" is a fraction of '
        'the '
        "standard deviation that the gradient of an uninformative feature has (docs/choosing-strengths.md): a quarter "
        'where l2 is "auto" too, else a tenth. It suits a first fit; `crf_path` tries others. With the loss "hinge" '
        "it is 0."),
    "l2": Parameter("L2 penalty: larger means smaller weights", **_STRENGTH, details='In nats. "auto" is worth two '
        'positions or items with a feature, one with a label and one without, where l1 is "auto" too and group_l1 is '
        '0. Otherwise "auto" is 0: strengths that are set are the whole penalty.'),
    "dense_l2": Parameter("L2 penalty of a dense block of features (`Features`), which has no other", float, above=0.0,
        details="l1, l2 and group_l1 do not apply to the block. Choose it by the score of held-out items."),
    "group_l1": Parameter("penalty of whole features: larger means fewer of them", **_STRENGTH, details="The strength "
        "of group_l1 sum_f ||w_f||, besides l1 and l2; w_f has the weights of feature f for all labels. Set it to "
        "select features: with l1 = 0 a feature keeps all its weights or none. Each transition is a group."),
    "penalty_factors": Parameter("factors of the penalty by feature, 0: not penalised", **_OPTIONAL,
        expects="a dict name -> factor or an array of a factor for each feature",
        accepts=lambda value: hasattr(value, "__len__") and not isinstance(value, str),
        reader=read_factors,
        details="A feature's weights have the strengths l1, l2 and group_l1 times its factor, a number >= 0. "
        "A name with * is a pattern, in which any characters may stand for it; features without a factor have 1, and "
        "so have transitions. Factors are not rescaled, as glmnet's `penalty.factor` is. See "
        "docs/choosing-strengths.md."),
    "group_norm": Parameter("norm of a feature's weights in group_l1", str, ("l2", "linf"),
        details='The Euclidean length, or the largest absolute value ("linf").'),
    "loss": Parameter("loss that is minimised together with the penalty", str, (*FLAT,)),
    "penalty": Parameter("penalty of single weights, or of the rows of features", str, (*PENALTIES,),
        details='It decides which strengths there are. "l1/l2" and "l1/linf": group_l1, with the Euclidean length or '
        'the largest absolute value of a feature\'s weights, so that a feature has weights for all classes or for '
        'none. "sparse-group": group_l1 and l1. "l1": l1. "elastic-net": l1 and l2. "l2": l2.'),
    "feature_groups": Parameter("groups of features within each class, penalised instead of rows", **_OPTIONAL,
        expects="a block size or a label for each feature",
        details="Under penalties with group_l1. An integer makes blocks of so many features in their order; labels, "
        "one a feature, put features with the same label into a group. None: a group has a feature's weights for all "
        "classes."),
    "loss_bound": Parameter("upper bound on the loss, under which the penalty alone is minimised", float, above=0.0,
        **_OPTIONAL, details='Of the loss "hinge", summed over the items (eta of Chierchia et al. 2015, equation 8).'),
    "margin": Parameter("margin by which the score of a label should exceed the others, of the logistic loss", float,
        low=0.0,
        details="The loss is then -log P(y), P(k) ~ exp(s_k + margin) for k != y (mu of Chierchia et al. 2015, "
        "equation 20). The margins of the other losses are 1. `predict_proba` has no margin, and so overstates the "
        "probability of its labels."),
    "link": Parameter("link function from scores to probabilities", expects="a name, 'auto' or a Potential"),
    "min_count": Parameter("leave out features that occur at fewer positions than this", **_COUNT,
        details="Of the training items; columns of matrices without names keep their place. `Templates` have a "
        "min_count of their own. CRFsuite's feature.minfreq counts pairs of feature and label instead. Set it to "
        "2 or 3 for smaller models of large texts."),
    "all_possible_states": Parameter("have weights also for pairs of feature and label that never occur", bool,
        details="With False models are smaller and train faster, but know nothing against labels that a feature never "
        "had. CRFsuite's option of this name is off by default."),
    "all_possible_transitions": Parameter("have weights also for pairs of neighbouring labels that never occur", bool,
        details="With False a model has no weight against pairs of labels that the training data do not have. "
        "CRFsuite's option of this name is off by default."),
    "scheme": Parameter("scheme of labels for spans; labellings keep its rules", **_OPTIONAL,
        expects="the name of a scheme", details='"IOB1", "IOB2" ("BIO"), "IOE1", "IOE2", "BIOES" ("IOBES"), "BILOU" or '
        '"BMES". Set it for named entities and other spans.'),
    "transition_rules": Parameter("rules on neighbouring labels, besides those of the scheme",
        expects="Transitions or 'seen'", **_OPTIONAL,
        details="`crfqn.Transitions`, or \"seen\" for the pairs that the training data have; with `scheme` both hold. "
        "A labelling that breaks a rule has the probability 0: it is not in Z."),
    "once": Parameter("labels that form at most one run in an item each", **_OPTIONAL, expects="a collection of labels",
        accepts=lambda value: isinstance(value, (list, tuple, set, frozenset)),
        details='As "City" in an address; with a scheme the name of a type stands for its spans. The rule holds for '
        "predictions: training and marginals do not know it. `predict(X, once=...)` replaces it."),
    "enforce_rules_in": Parameter("whether the rules hold in training and decoding, or in decoding alone", str,
        ("both", "decoding"),
        details='"decoding" trains as without rules.'),
    "on_violation": Parameter("what to do with training items that break a rule", str, ("error", "drop"),
        details="They raise an error, or are left out with a warning."),
    "taxonomy": Parameter("tree of the labels; without one the labels are paths", **_OPTIONAL,
        expects="what `open_taxonomy` takes",
        details='A networkx.DiGraph (parent -> child), a mapping child -> parent, pairs (parent, child), paths '
        '("a/b/c", tuples, or an array padded with ""), a file of pairs or paths, or a '
        '`crfqn.taxonomy.tree.LabelTree`. None: the '
        "tree of the labels that are paths; other labels have no tree. Several roots are allowed."),
    "labels": Parameter("nodes that can be labels", str, ("leaves", "nodes"),
        details='With "nodes" an item may stop at an inner node. Labels without training items are allowed, and can be '
        "predicted."),
    "separator": Parameter("text between the parts of a path", expects="a string of one or more characters"),
    "fit_intercept": Parameter("fit an intercept for each label", bool,
        details="Set it to False where the features have a constant column, or are centred."),
    "penalize_intercept": Parameter("penalise the intercepts, too", bool,
        details="By default they are not penalised; those of the classes, or of the nodes under each node that is no "
        "label, then have the mean 0."),
    "class_weight": Parameter("weights of the labels; balanced: rare labels count as much as frequent ones",
        expects="None, 'balanced' or a dict label -> weight",
        accepts=lambda value: value is None or isinstance(value, Mapping) or (
            isinstance(value, str) and value == "balanced"), reader=read_class_weight,
        details="Factors of `sample_weight`; labels that a dict leaves out have 1. Change it "
        "where errors on rare labels cost as much as others. A chain's positions have the weights of their labels "
        "(docs/imbalance.md): its loss is then not convex, its gap is not proved, and solvers that learn item by item "
        "do not take it."),
    "threshold": Parameter("how the thresholds of label sets depend on items and labels", str, ("item", "label")),
    "cv": Parameter("cross-validation folds from whose scores the thresholds are learnt", **_OPTIONAL,
        expects="an integer or a splitter"),
    "tol": Parameter("stop at this relative distance from the optimum", **_STRENGTH,
        details='Training stops when objective - optimum <= tol * objective. "auto" is the loosest tolerance that '
        'costs '
        "no accuracy (docs/numerics.md): .03 under an automatic l1 (.01 of `MulticlassClassifier`, also for its "
        "hinge), and 1e-3 where the optimum itself is needed: with "
        'stop="certificate", along a path and, for classifiers, under chosen strengths. Lower it to compare '
        "objectives; small problems are solved to rounding anyway."),
    "stop": Parameter("what ends the training: an estimate of the distance from the optimum, or a proof", str,
        ("estimate", "certificate"),
        details="Either has to be within `tol`. The estimate comes from the decrease of the last steps "
        "(docs/training.md). The proof is the duality gap: choose it to compare objectives; it takes many times as "
        "long on text."),
    "max_iter": Parameter("stop after so many iterations", **_COUNT,
        details="Raise it where a warning says that the training has not converged. Steps on samples of the items have "
        "a limit of their own (40 steps for each of 4 stages)."),
    "max_seconds": Parameter("stop after so many seconds", float, above=0.0, expects="a number > 0", **_OPTIONAL,
        details="The model has the weights that were reached. An iteration that is not done half a second later is cut "
        "off, and lost."),
    "solver": Parameter("training algorithm; auto chooses one by penalty, sizes and density",
        expects="a name or a solver object",
        details='"auto" is "prox-qn", and "l-bfgs" where l1 and group_l1 are 0. "prox-qn-paper" is the method as '
        'published; "owl-qn", "prox-gd", "fista", "spa-rsa", "sgd" and "feature-bcd" are those it was compared with. '
        '"averaged-perceptron", "passive-aggressive" and "arow" learn item by item; "block-frank-wolfe" trains the '
        'loss "hinge". Objects such as `crfqn.solvers.prox_qn.ProxQN(...)` take settings.'),
    "n_threads": Parameter("number of threads; default: all cores", **_COUNT, **_OPTIONAL,
        details="The result does not depend on it, bit by bit."),
    "random_state": Parameter("seed of what is drawn at random", **_OPTIONAL,
        expects="an integer or a RandomState", 
        accepts=lambda value: 0 <= int(value) < 2**32 if isinstance(value, Integral) else hasattr(value, "randint"),
        details='It orders the items with '
        'solver="sgd". None is a seed as well: results are reproducible.'),
    "verbose": Parameter("1 shows progress on stderr", expects="a whole number",
        accepts=lambda value: isinstance(value, Integral) or _is_flag(value)),
    "warm_start": Parameter("start from the weights of the last fit", bool,
        details="Training starts from the weights of the last "
        "fit, or of the file that the model was loaded from: those of labels and features (by name where there are "
        "names) that the data have again. Others start from zero. `fit(start=model)` starts from another model."),
    "callback": Parameter("function called after every iteration; a true result stops the training", **_OPTIONAL,
        expects="a callable", accepts=callable, details="Its argument is a `crfqn.result.Progress`."),
    "checkpoint": Parameter("folder for the training's state, from which a killed training resumes", **_OPTIONAL,
        expects="the name of a folder", accepts=lambda value: isinstance(value, (str, os.PathLike)),
        details="The same training then goes on from the newest weights to the same optimum; one that has ended "
        "returns its result. Set it for trainings of hours. A checkpoint of other data or parameters is refused, but "
        "limits and threads may change."),
    "checkpoint_every": Parameter('write the checkpoint after so many iterations, or seconds such as "30s"',
        expects='an integer >= 1 or seconds such as "30s"', accepts=is_interval),
    "scoring": Parameter("score of the validation items", **_OPTIONAL,
        expects="a name or a callable(estimator, X, y)", details="Of those that `fit(validation=(X, y))` is given, the "
        'larger the better. A name is one of `crfqn.metrics.scorer_names()` or of scikit-learn\'s; "f1" is of spans by '
        "the scheme, without one of chunks of IOB labels, of single labels the macro average. By default the F1 of "
        "spans with a scheme, else the accuracy."),
    "dask_client": Parameter("Dask cluster whose workers hold the data", **_OPTIONAL,
        expects="a dask.distributed.Client or the address of a scheduler", details="Set it for data beyond a machine's "
        "memory. Copies by `sklearn.base.clone` share the client, those by pickle connect to its scheduler."),
    "worker_timeout": Parameter("seconds to wait for a worker of the cluster where none is left", float, low=0.0,
        expects="a number >= 0", details="Raise it where lost workers are replaced by hand or by a queue; after the "
        "wait, `fit` raises WorkersLostError."),
    "patience": Parameter("stop after so many scores of validation items without a better one", **_COUNT),
    "early_stopping": Parameter("choose the number of stages on held-out items", bool, words=("auto",)),
    "validation_fraction": Parameter("fraction of the items that is held out", float, above=0.0, below=1.0,
        expects="a number between 0 and 1"),
    "n_iter_no_change": Parameter("stop so many stages after the best one", **_COUNT),
    "basis": Parameter("basis functions of the predictions", expects="a sequence of powers or a transformer"),
    "generator": Parameter("generator of the features of a stage", expects="a name or a generator"),
    "batch_size": Parameter("number of features of a stage", **_COUNT),
    "update": Parameter("how a stage is fitted", str, ("linear", "calibrated", "logistic")),
    "n_rounds": Parameter("number of rounds over all batches of features", **_COUNT),
    "inner_iter": Parameter("number of steps of a logistic stage", **_COUNT),
    "C": Parameter("weight of the loss beside the norm", float, above=0.0),
    "kernel": Parameter("the kernel", expects="a name or a function"),
    "gamma": Parameter("scale of the kernel", float, above=0.0, words=("scale", "auto")),
    "degree": Parameter("degree of the kernel poly", float, low=0.0),
    "coef0": Parameter("constant of the kernels poly and sigmoid", float),
    "cache_size": Parameter("megabytes for cached values of the kernel", float, above=0.0),
})  # fmt: skip

# Parameters that are options of the command line, by the headings of `crfqn train --help`; those without a heading are
# changed first. Other parameters are only for Python, or have an option or a key of recipes with another name.
OPTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "": ("l1", "l2", "max_seconds", "n_threads"),
    "Loss and penalty": (
        "loss", "penalty", "group_l1", "penalty_factors", "group_norm", "dense_l2", "feature_groups", "loss_bound",
        "margin", "link",
        "all_possible_states", "all_possible_transitions", "fit_intercept", "penalize_intercept", "class_weight",
        "threshold", "cv"),
    "Rules of a chain's labels": ("scheme", "transition_rules", "once", "enforce_rules_in", "on_violation"),
    "Solver": ("solver", "tol", "stop", "max_iter", "random_state", "checkpoint", "checkpoint_every"),
    "Stages of least squares": (
        "early_stopping", "validation_fraction", "n_iter_no_change", "basis", "generator", "batch_size", "update",
        "n_rounds", "inner_iter"),
})  # fmt: skip
# Names of options that differ from the name of the parameter.
OPTION_NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"max_seconds": ("--max-time", "--max-seconds"), "n_threads": ("--threads",)}
)

# Parameters of other libraries: the equivalent parameter here, if the class has it, and advice in words.
NAMES_ELSEWHERE: Mapping[str, tuple[str, str]] = MappingProxyType({
    **dict.fromkeys(("c1", "rho1"), ("l1", "l1, the same number")),
    **dict.fromkeys(("c2", "rho2"), ("l2", "l2, twice the number: the penalty is l2/2 |w|^2")),
    "C": ("l1", "l1 or l2, which are 1 / C"),
    **dict.fromkeys(("alpha", "reg_param", "lambda_", "penalty"), ("l1", "l1, l2 and group_l1")),
    "l1_ratio": ("l1", "l1 and l2"),
    **dict.fromkeys(("max_iterations", "maxiter", "n_iter", "n_epochs", "epochs"), ("max_iter", "max_iter")),
    **dict.fromkeys(("delta", "epsilon", "eps", "stopeps"), ("tol", "tol, relative to the objective")),
    **dict.fromkeys(("algorithm", "algo", "optimizer"), ("solver", "solver")),
    "loss_function": ("loss", "loss"),
    **dict.fromkeys(("n_jobs", "num_threads", "nthread"), ("n_threads", "n_threads")),
    **dict.fromkeys(("seed", "random_seed"), ("random_state", "random_state")),
    "possible_states": ("all_possible_states", "all_possible_states"),
    "possible_transitions": ("all_possible_transitions", "all_possible_transitions"),
    **dict.fromkeys(("min_freq", "minfreq"),
        ("min_count", "min_count")),
    "fit_intercept": ("transition_rules", "a feature that every position has"),
    **dict.fromkeys(("early_stopping", "validation_fraction", "n_iter_no_change"),
        ("patience", "fit(validation=(X, y)), with scoring and patience")),
    "model_filename": ("checkpoint", "save(path) of the fitted model"),
    "n_estimators": ("n_rounds", "n_rounds"),
    # for classes with the names of CRFsuite or scikit-learn
    "l1": ("c1", "c1"),
    "l2": ("c2", "c2, half the number"),
    "max_iter": ("max_iterations", "max_iterations"),
    "tol": ("delta", "delta"),
    "solver": ("algorithm", "algorithm"),
})  # fmt: skip


def refuse_unknown(name: str, known: Collection[str], given: Iterable[str]) -> None:
    """Raise TypeError for the first parameter given to the class `name` that is not `known`; the message names the
    equivalent of another library's parameter, or a similar name."""
    for parameter in given:
        if parameter not in known:
            equivalent, words = NAMES_ELSEWHERE.get(parameter, ("", ""))
            if equivalent not in known:
                words = nearest(parameter, known)
            raise TypeError(f"{name}() got an unexpected keyword argument {parameter!r}; expected {words}")


def nearest(name: str, known: Collection[str]) -> str:
    """Return a known name that is similar to a name, with half of the letters equal, or a list of all known names."""
    import difflib  # imported here, as it takes milliseconds

    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return close[0] if close else f"one of {', '.join(known)}"


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a real number and not a boolean."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_nonnegative(name: str, value: object) -> None:
    """Raise InputError unless a parameter is a finite number >= 0."""
    if not is_number(value) or not 0 <= value < math.inf:
        raise InputError(f"{name}: expected a finite number >= 0, got {value!r}")


def refuse_unknown_parameters(cls: type, named: dict[str, Any]) -> None:
    """Raise TypeError, with the intended parameter, if the class does not have a parameter in `named`."""
    parameters = [*inspect.signature(cls.__init__).parameters.values()][1:]  # type: ignore[misc]
    # Subclasses may have **parameters.
    if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters):
        refuse_unknown(cls.__name__, [parameter.name for parameter in parameters], named)


class NamedParameters:
    """Mixin that checks the names of parameters, for estimators that do not derive from `Estimator`."""

    def __new__(cls, *values: object, **named: object) -> Self:
        refuse_unknown_parameters(cls, named)
        return super().__new__(cls)

    def set_params(self, **params: object) -> Self:
        """Set parameters; return the estimator. InputError, with the intended name, for an unknown name."""
        return set_known_parameters(super(), self.get_params(), params)  # type: ignore[attr-defined]


def set_known_parameters(estimator: Any, known: Collection[str], params: Mapping[str, Any]) -> Any:
    """Set parameters by the `set_params` of scikit-learn, of `estimator`; InputError for an unknown parameter."""
    for name in params:
        if name.partition("__")[0] not in known:
            equivalent, words = NAMES_ELSEWHERE.get(name, ("", ""))
            words = words if equivalent in known else nearest(name, known)
            raise InputError(f"Invalid parameter {name!r}; expected {words}")
    return estimator.set_params(**params)


def check_parameters(model: Any) -> None:
    """Raise InputError for a parameter whose value its row in the class's PARAMETERS does not allow."""
    for parameter in fields(model):
        if parameter.init and parameter.name in model.PARAMETERS:
            model.PARAMETERS[parameter.name].check(parameter.name, getattr(model, parameter.name))

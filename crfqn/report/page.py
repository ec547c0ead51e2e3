"""The page about a model: its contents, rendered by templates into one self-contained HTML file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crfqn.atomic_write import check_writable, replace_file
from crfqn.data.hybrid import refuse_dense
from crfqn.data.label_arrays import label_text
from crfqn.errors import InputError
from crfqn.messages import describe, printable
from crfqn.model.model import Model
from crfqn.model.sequences import SequenceModel
from crfqn.parameters import Parameter
from crfqn.plot.curves import ConvergenceDisplay, PathDisplay
from crfqn.plot.matrices import TransitionsDisplay
from crfqn.report.calibration import Reliability
from crfqn.report.evaluation_section import MAX_MATRIX_LABELS, Errors, EvaluationSection
from crfqn.report.facts import (
    Fact,
    ending,
    fitted_model,
    headline,
    identity,
    n_features,
    n_possible,
    parameters,
    recipe_table,
    summary,
    versions,
)
from crfqn.report.images import MATRIX_SIZE, Pictures, Pixels
from crfqn.report.weights import characters, densities, open_tree, strongest

if TYPE_CHECKING:
    import jinja2
    from markupsafe import Markup

    from crfqn.estimators.estimator import Estimator
    from crfqn.regularization_path import RegularizationPath

MAX_PATH_ROWS = 1000  # limits the size of the page if a file is damaged or its path is huge
MAX_TRANSITIONS = 500  # rows of the table of transitions
COUNT_RULE = Parameter("how many are shown", int, low=1)


@dataclass(frozen=True, kw_only=True)
class Contents:
    """Optional contents of a report in addition to the model.

    title : by default the name of the model's file, recipe or estimator
    feature_names : by default those of the model, or numbers if it has none
    texts : the text of each item, for sequences a list with the text of each position
    source : the origin of the data, a text for the reader
    regularization_path : a path or its `rows()`; by default the path that `crfqn path` stored in the model file
    image_shape : rows and columns; by default read from names of features such as p3_5 or p3_5&p7_2 (p, row, _, column)
    n_features, n_errors : the number of features for each label, and of items with errors, that the page shows
    """

    title: str | None = None
    feature_names: Sequence[str] | Mapping[int, str] | None = None
    texts: Sequence[Any] | None = None
    source: str = ""
    regularization_path: RegularizationPath | list[dict[str, Any]] | None = None
    image_shape: tuple[int, int] | None = None
    n_features: int = 30
    n_errors: int = 20

    def __post_init__(self) -> None:
        for name in ("n_features", "n_errors"):
            COUNT_RULE.check(name, getattr(self, name))


def write_report(
    model: Estimator | str | PathLike[str], path: str | PathLike[str], data: object = None, **contents: Any
) -> None:
    """Write a page about a model: one HTML file that loads nothing from the network.

    Parameters
    ----------
    model : fitted estimator of crfqn, or the name of a model file
    path : str or path-like
        The file, which is replaced atomically.
    data : (X, y), optional
        Labelled items for scores, confusion and the worst errors; as the estimator's `score` takes them.
    **contents
        Fields of `Contents`: title, feature_names, texts, source, regularization_path, image_shape, n_features,
        n_errors.

    Raises
    ------
    InputError
        jinja2 or matplotlib is not installed, or data or contents do not match the model.
    ModelFileError
        The model file cannot be read, or the page cannot be written.
    sklearn.exceptions.NotFittedError

    Examples
    --------
    >>> from crfqn import MulticlassCRF
    >>> from crfqn.report import write_report
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], ["low", "low", "high", "high"]
    >>> model = MulticlassCRF(l1=0.1).fit(X, y)
    >>> write_report(model, "report.html", data=(X, y), title="Heights")  # doctest: +SKIP
    """
    check_writable(path)
    replace_file(path, make_report(model, data, **contents).encode("utf-8", "replace"))


def make_report(model: Estimator | str | PathLike[str], data: object = None, **contents: Any) -> str:
    """Return the page as text; parameters and errors as in `write_report`."""
    environment = _environment()
    try:
        options = Contents(**contents)
    except TypeError as error:
        raise InputError(f"report: {error}") from None
    estimator: Estimator
    file_facts, file_name = [], ""
    if isinstance(model, str | PathLike):
        from crfqn import interchange

        path = Path(model)
        estimator, content = interchange.read(model), path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        file_facts = [Fact("model file", f"{path.name}, {len(content):,} bytes, sha256 {digest}")]
        file_name = path.stem
    else:
        estimator = model
    refuse_dense(estimator, "report")
    weights = fitted_model(estimator, options.feature_names)
    evaluation = None if data is None else EvaluationSection.from_model(estimator, data, options.source)
    pixels = Pixels.from_weights(weights, n_features(estimator), options.image_shape)
    script = environment.get_template("page.js").render()
    return environment.get_template("page.html").render(
        title=options.title
        or file_name
        or recipe_table(estimator).get("name")
        or f"A model of {type(estimator).__name__}",
        summary=summary(estimator),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        is_sequence=estimator.ANSWERS.has_positions,
        has_taxonomy=getattr(estimator, "tree_", None) is not None,
        has_marginals=hasattr(estimator, estimator.ANSWERS.tables_by),
        n_labels=len(estimator.classes_),
        evaluation=evaluation,
        result=estimator.result_,
        headline=headline(estimator, weights),
        ending=ending(estimator.result_, getattr(estimator, "stop", None)),
        identity=identity(estimator, weights, file_facts),
        parameters=parameters(estimator),
        versions=versions(),
        **_training(estimator, options),
        **_features(estimator, weights, options.n_features, evaluation, pixels),
        **_data(estimator, weights, options, evaluation, pixels),
    )


def _training(model: Estimator, options: Contents) -> dict[str, Any]:
    """Return the contents about convergence and the regularisation path, as pictures and rows."""
    pictures, trace = Pictures(), model.result_.trace
    path = options.regularization_path
    if path is None:
        path = model.training_.get("regularization_path") or []
    elif not isinstance(path, list) and hasattr(path, "rows"):
        path = path.rows()
    if not isinstance(path, list) or not all(isinstance(row, dict) for row in path):
        raise InputError(
            f"regularization_path: expected a RegularizationPath or its rows, got {describe(path)}"
        )
    path = path[:MAX_PATH_ROWS]
    about = (
        "Convergence: relative gaps, certified and estimated, and the objective against passes over the data"
    )
    about_path = "Regularisation path: score, non-zeros, gap and seconds by strength"
    return {
        "convergence": pictures.panels(ConvergenceDisplay.from_model(model, "passes"), about)
        if trace
        else [],
        "trace": trace.rows,
        "path": path,
        "path_pictures": pictures.panels(PathDisplay.from_rows(path), about_path) if path else [],
        "path_parameter": next((name for name in ("l1", "group_l1") if path and name in path[0]), ""),
    }


def _features(
    model: Estimator,
    weights: Model | None,
    n_shown: int,
    evaluation: EvaluationSection | None,
    pixels: Pixels | None,
) -> dict[str, Any]:
    """Return the contents about sparsity, transitions, strongest features, the taxonomy and characters in images."""
    content: dict[str, Any] = {"n_possible": n_possible(model, weights), "features": [], "characters": []}
    if weights is not None:
        rows, n_left_out = strongest(weights, n_shown)
        content |= {"features": rows, "n_left_out": n_left_out, "densities": densities(weights)}
        if pixels is not None:
            content["characters"] = characters(weights, pixels, evaluation)
    if isinstance(weights, SequenceModel):
        content["transitions"] = [
            {"before": label_text(before), "after": label_text(after), "weight": weight}
            for (before, after), weight in weights.strongest_transitions(MAX_TRANSITIONS)
        ]
        # A matrix of all labels would be too large: show those with the largest weights of transitions.
        display = TransitionsDisplay.from_model(model)
        sizes = np.abs(display.weights)
        largest = np.maximum(sizes.max(axis=0), sizes.max(axis=1))
        shown = np.sort(np.argsort(-largest, kind="stable")[:MAX_MATRIX_LABELS])
        content["transition_labels"] = [label_text(model.classes_[row]) for row in shown]
        display = TransitionsDisplay(display.weights[np.ix_(shown, shown)], content["transition_labels"])
        about = "Weights of transitions from the label of a row to the label of a column"
        content["transition_pictures"] = Pictures("t").panels(display, about, MATRIX_SIZE)
    tree, by_node = getattr(model, "tree_", None), dict[str, list[Any]]()
    for row in content["features"] if tree is not None else ():
        by_node.setdefault(row.label, []).append(row)
    return content | {"tree": open_tree(tree, weights, evaluation, by_node)}


def _data(
    model: Estimator,
    weights: Model | None,
    options: Contents,
    evaluation: EvaluationSection | None,
    pixels: Pixels | None,
) -> dict[str, Any]:
    """Return the contents about scores, confusion, calibration and the worst errors."""
    if evaluation is None:
        return {"mistakes": [], "reliability": None}
    texts = options.texts
    if texts is not None and len(texts) != len(evaluation.given):
        raise InputError(f"texts: expected one for each of {len(evaluation.given)} items, got {len(texts)}")
    display, chunks = evaluation.confusion(), evaluation.scores.chunks
    about = "Confusion: the share of each given label (row) that was predicted as each label (column)"
    errors = Errors(model, weights, evaluation, texts, pixels)
    reliability = Reliability.from_model(model, evaluation)
    about_reliability = "Reliability: the share of right labels against their mean probability"
    return {
        "span_scores": [] if chunks is None else [chunks.every, *chunks.types],
        "confusion_labels": [] if display is None else display.display_labels,
        "mistakes": [] if evaluation.has_sets else evaluation.mistakes(),
        "confusion_pictures": [] if display is None else Pictures("c").panels(display, about, MATRIX_SIZE),
        "errors": errors.worst(options.n_errors),
        "reliability": reliability,
        "reliability_pictures": Pictures("r").panels(reliability, about_reliability) if reliability else [],
    }


def _environment() -> jinja2.Environment:
    """Return the environment of the templates; InputError if jinja2 is not installed."""
    try:
        import jinja2
    except ImportError:
        raise InputError(
            "reports need jinja2, which is not installed here: pip install 'crfqn[report]'"
        ) from None
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("crfqn.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"name": _name, "text": printable, "number": _number}
    return environment


def _name(text: object) -> Markup:
    """Return a name for the page: escaped, with control characters written out, and isolated in its text direction."""
    from markupsafe import Markup, escape

    return Markup("<bdi>{}</bdi>").format(escape(printable(text)))


def _number(value: float | None, form: str) -> str:
    """Return a number for the page, a dash if it is not known."""
    return format(value, form) if value is not None and isfinite(value) else "–"

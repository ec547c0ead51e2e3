"""What people decide by: held-out scores against seconds, model size, speed of labelling, for what each library's users
call, on every development set.

Sequences go from dicts of features in memory to a model file: crfqn with nothing but its defaults, CRFsuite by its
defaults, as most people call it (c1 = c2 = .1, 100 iterations) and its averaged perceptron. Wapiti and CRF++ take part
where `wapiti`, and `crf_learn` with `crf_test`, are on the path, with their defaults and the same features, from text
files, whose reading counts; a sentence at a time is not measured of them. Items of one label go from a matrix.

Each fit has a process of its own on one core, all libraries by turns; seconds are the processor's, those of children
included, after a fit of a part of the items. A method whose process takes longer than the limit has no figures on that
set.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from statistics import median
from time import process_time
from typing import Annotated, Any

import joblib
import numpy as np
import typer
from harness.comparing import Comparison, Ratio, Section, by_turns
from harness.data import MADE_UP, SOURCES, UserItems, user_items
from harness.default_sets import QUICK, SETS, TunedSet
from harness.drawing import Panel
from harness.measuring import (
    file_size,
    fit_seconds,
    microseconds,
    on_one_core,
    processor_times,
    quietly,
    seconds_of_children,
)
from harness.options import Full, Output, Repeats, some_of
from harness.problems import Problem, read_stored, stored
from harness.report import Record, Table

from benchmarks.crfqn_fits import WARM_UP

FEW = 60  # items of the warm-up, where they are more than WARM_UP of all
N_SINGLE = 200  # items labelled one at a time
OBSERVED = {"all_possible_states": False, "all_possible_transitions": False}
CRFSUITE = {"c1": 0.1, "c2": 0.1, "max_iterations": 100}
SEQUENCES: Mapping[str, tuple[str, dict[str, Any]]] = {  # library, settings
    "crfqn": ("crfqn", {}),
    "crfqn, averaged perceptron": ("crfqn", {"solver": "averaged-perceptron", **OBSERVED}),
    "CRFsuite, default": ("pycrfsuite", {"algorithm": "lbfgs"}),
    "CRFsuite, c1 = c2 = .1": ("pycrfsuite", {"algorithm": "lbfgs", "params": CRFSUITE}),
    "CRFsuite, averaged perceptron": ("pycrfsuite", {"algorithm": "ap"}),
    "Wapiti": ("wapiti", {}),
    "CRF++": ("crf_learn", {}),
}
SEQUENCE_SETS = (*SOURCES, "entities", "units", "ocr")
LONG = ("ocr", "dutch-xpos", "conll2000", "btc")  # some libraries take many minutes
# Of the ratio that readers make anew in minutes.
FAST_SETS = ("company", "person", "conll2000-500", "dutch-upos")
SUMMARY = (*FAST_SETS, "units", "entities")  # of the README's picture
FLAT = ("crfqn", "crfqn, L2", "LogisticRegression", "LinearSVC", "saga, L1", "skglm, L1", "cyanure",
        "hiclass")  # fmt: skip
CLASS_SETS = ("news-counts", "news-tf-idf", "banking-counts", "banking-tf-idf", "docstrings", "mnist", "digits",
              "leukemia", "docstrings-tree", "imageclef", "lshtc1")  # fmt: skip
FAST_CLASSES = ("banking-tf-idf", "docstrings-tree", "digits")
SAME_TEXTS = ("news-counts", "banking-counts", "docstrings")  # as another set has
# These keep many arrays of all weights.
DENSE = ("crfqn, L2", "LogisticRegression", "saga, L1", "skglm, L1", "cyanure")
MOST_WEIGHTS = 2e7  # with which they are measured


# ---- sequences


def fit_sequences(path: str, method: str) -> Record:
    """Train on one core, and label the test items all at once and one by one."""
    on_one_core()
    items: UserItems = read_stored(path)
    library, settings = SEQUENCES[method]
    train = {"crfqn": with_crfqn, "pycrfsuite": with_crfsuite, "wapiti": with_wapiti}.get(library, with_crfpp)
    with tempfile.TemporaryDirectory() as folder, quietly():
        file = Path(folder) / "model"
        if library in ("crfqn", "pycrfsuite"):
            few = max(FEW, int(WARM_UP * len(items.X)))
            train(items.X[:few], items.y[:few], file, **settings)[0](items.X_test[:1])
        begin = process_time() + seconds_of_children()
        predict, tag = train(items.X, items.y, file, **settings)
        trained = process_time() + seconds_of_children()
        predicted = [list(labels) for labels in predict(items.X_test)]
        seconds, labelling = trained - begin, process_time() + seconds_of_children() - trained
        if tag is not None:
            labelling = min(processor_times(lambda: predict(items.X_test), 3))
        n_bytes = file.stat().st_size
    one = microseconds(tag, items.X_test[:N_SINGLE]) if tag else None
    rate = sum(map(len, predicted)) / labelling
    return {"seconds": seconds, "score": items.score(predicted), "bytes": n_bytes, "rate": rate, "one": one}


Labelling = tuple[Callable[[Any], Iterable[Any]], Callable[[Any], Any] | None]  # of many items, and of one


def with_crfqn(X: list[Any], y: list[Any], file: Path, **settings: Any) -> Labelling:
    from crfqn import ChainCRF, Tagger, load

    ChainCRF(n_threads=1, **settings).fit(X, y).save(file)
    return load(file).predict, Tagger(str(file)).tag


def with_crfsuite(X: list[Any], y: list[Any], file: Path, **settings: Any) -> Labelling:
    import pycrfsuite

    trainer = pycrfsuite.Trainer(verbose=False, **settings)
    for item, labels in zip(X, y, strict=True):
        trainer.append(item, labels)
    trainer.train(str(file))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(file))
    return lambda items: [tagger.tag(item) for item in items], tagger.tag


def with_wapiti(X: list[Any], y: list[Any], file: Path) -> Labelling:
    """Features as they are, without patterns: u for those of a label, b for pairs of labels."""

    def write(items: Sequence[Any], labels: Sequence[Any] | None) -> Path:
        rows = [[[*(f"u{each}" for each in words_of(position)), "b"] for position in item] for item in items]
        return write_columns(file.with_suffix(".txt"), rows, labels)

    begin = write(X, y)
    run("wapiti", "train", "-t", "1", str(begin), str(file))

    def predict(items: Any) -> list[list[str]]:
        answer = file.with_suffix(".out")
        run("wapiti", "label", "-m", str(file), str(write(items, None)), str(answer))
        return last_column(answer.read_text(encoding="utf-8"))

    return predict, None


def with_crfpp(X: list[Any], y: list[Any], file: Path) -> Labelling:
    """A column a name of a feature, "_" where a position has none of it."""
    names = sorted({name for item in X for position in item for name in position})

    def write(items: Sequence[Any], labels: Sequence[Any] | None) -> Path:
        rows = [[[word(position.get(name, "_")) for name in names] for position in item] for item in items]
        return write_columns(file.with_suffix(".txt"), rows, labels)

    template = file.with_suffix(".template")
    lines = [f"U{n:03}:%x[0,{n}]" for n in range(len(names))]
    template.write_text("\n".join([*lines, "B"]) + "\n", encoding="utf-8")
    run("crf_learn", "-p", "1", str(template), str(write(X, y)), str(file))

    def predict(items: Any) -> list[list[str]]:
        written = write(items, [["_"] * len(item) for item in items])
        return last_column(run("crf_test", "-m", str(file), str(written)))

    return predict, None


def words_of(position: Any) -> list[str]:
    """The features of a position as words without spaces."""
    if isinstance(position, dict):
        position = [f"{name}={value}" for name, value in position.items()]
    return [*map(word, position)]


def word(value: Any) -> str:
    return "_".join(str(value).split()) or "_"


def write_columns(file: Path, rows: Iterable[Any], labels: Sequence[Any] | None) -> Path:
    """A line a position, a blank one behind each item, labels in the last column."""
    with file.open("w", encoding="utf-8") as lines:
        for n, item in enumerate(rows):
            for t, position in enumerate(item):
                lines.write("\t".join([*position, *([labels[n][t]] if labels is not None else [])]) + "\n")
            lines.write("\n")
    return file


def last_column(text: str) -> list[list[str]]:
    items = text.strip("\n").split("\n\n")
    return [[line.split("\t")[-1].strip() for line in item.strip("\n").split("\n")] for item in items]


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def measure_sequences(name: str, methods: Sequence[str], turns: int, limit: float | None) -> Record:
    """Fits of a set by turns, of the methods whose libraries are here."""
    items = user_items(name)
    is_plain = not isinstance(items.X[0][0], dict)
    here = [each for each in methods if find_spec(SEQUENCES[each][0]) or shutil.which(SEQUENCES[each][0])]
    with stored(items) as path:
        chosen = [each for each in here if not (each == "CRF++" and is_plain)]
        fits = by_turns({each: partial(fit_sequences, path, each) for each in chosen}, turns, limit)
    n_words, n_labels = sum(map(len, items.y)), len({label for item in items.y for label in item})
    about = f"{len(items.X):,} items, {n_words:,} positions, {n_labels} labels"
    fingerprint = Problem(items.X, items.y, items.X_test, items.y_test).fingerprint
    measure = "F1 of chunks" if items.is_chunked else "accuracy"
    return {"data": fingerprint, "about": about, "measure": measure, "fits": fits}


# ---- classes


def model_of(method: str, source: TunedSet) -> Any:
    """An untrained model; of one class against the rest where the library has no other."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.svm import LinearSVC

    if method == "crfqn":
        return source.model(n_threads=1)
    if method == "crfqn, L2":
        from crfqn import MulticlassCRF

        return MulticlassCRF(penalty="l2", n_threads=1)
    if method == "skglm, L1":
        from skglm import SparseLogisticRegression

        return OneVsRestClassifier(SparseLogisticRegression(alpha=1.0 / source.n_items))
    if method == "cyanure":
        from cyanure.estimators import Classifier

        settings: Record = {"lambda_1": 1.0 / source.n_items, "n_threads": 1, "verbose": False}
        return Classifier(loss="multiclass-logistic", **settings)
    if method == "hiclass":
        from hiclass import LocalClassifierPerParentNode

        return LocalClassifierPerParentNode(LogisticRegression())
    if method == "LinearSVC":
        return LinearSVC()
    return LogisticRegression(**({"solver": "saga", "l1_ratio": 1.0} if method == "saga, L1" else {}))


def fit_classes(path: str, method: str) -> Record:
    """Train on one core, and predict the test items all at once and one by one."""
    on_one_core()
    source: TunedSet = read_stored(path)
    problem = source.items
    tree: Any = source.settings.get("taxonomy")
    names, codes = np.unique(problem.y_train, return_inverse=True)
    y: Any = problem.y_train
    if method == "cyanure":
        y = codes
    elif method == "hiclass":
        rows = [[str(tree.names[node]) for node in tree.path(node)] for node in tree.nodes_of(y.tolist())]
        depth = max(map(len, rows))
        y = np.array([row + [""] * (depth - len(row)) for row in rows])
    with quietly():
        few = np.linspace(0, len(y) - 1, min(len(y), max(5 * FEW, int(WARM_UP * len(y))))).astype(int)
        if method != "hiclass":  # it knows no paths but those of all items
            model_of(method, source).fit(problem.X_train[few], y[few])
        model = model_of(method, source)
        seconds = fit_seconds(model, problem.X_train, y)
        predicted = np.asarray(model.predict(problem.X_test))
        if method == "cyanure":
            predicted = names[predicted.astype(int)]
        elif method == "hiclass":
            predicted = np.array([[name for name in row if name][-1] for row in predicted])
        labelling = min(processor_times(lambda: model.predict(problem.X_test), 3))
        singles = [problem.X_test[[i]] for i in range(min(N_SINGLE, len(predicted)))]
        one = microseconds(model.predict, singles)
    n_bytes = file_size(model.save if method.startswith("crfqn") else partial(joblib.dump, model))
    score, rate = float(np.mean(predicted == problem.y_test)), len(predicted) / labelling
    return {"seconds": seconds, "score": score, "bytes": n_bytes, "rate": rate, "one": one}


def measure_classes(name: str, methods: Sequence[str], turns: int, limit: float | None) -> Record:
    """Fits of a set by turns, of the methods whose libraries are here."""
    source = (SETS | QUICK)[name]()
    problem, tree = source.items, source.settings.get("taxonomy")
    with stored(source) as path:
        n_weights = source.n_labels * problem.X_train.shape[1]
        chosen = [each for each in methods if n_weights <= MOST_WEIGHTS or each not in DENSE]
        tasks = {each: partial(fit_classes, path, each) for each in chosen if is_here(each, tree is not None)}
        fits = by_turns(tasks, turns, limit)
    return {"data": problem.fingerprint, "about": problem.describe(), "measure": "accuracy", "fits": fits}


def is_here(method: str, has_tree: bool) -> bool:
    library = method.partition(",")[0]
    is_found = bool(find_spec(library)) if library in ("skglm", "cyanure", "hiclass") else True
    return is_found and (has_tree or method != "hiclass")


# ---- what is shown


def middle(fits: Sequence[Record], what: str) -> float:
    """The median of the turns, nan where it was not measured."""
    values = [fit[what] for fit in fits if fit[what] is not None]
    return median(values) if values else np.nan


def ratio_of(
    records: list[Record], peer: str, what: str, words: str, sets: Sequence[str] = (), command: str = ""
) -> list[Ratio]:
    """The median ratio over the sets (default: all) that both were ready on; none of no set."""
    ready = [each for each in records if each["fits"].get("crfqn") and each["fits"].get(peer)]
    ready = [each for each in ready if not sets or each["set"] in sets]
    if not ready:
        return []
    chosen = [(each["fits"]["crfqn"], each["fits"][peer]) for each in ready]
    values = [middle(theirs, what) / middle(ours, what) for ours, theirs in chosen]
    value = float(np.median(values)) if what != "rate" else float(np.median(np.reciprocal(values)))
    ours, theirs = "defaults", peer
    if sets:
        ours, theirs = (in_words(fits, what) for fits in zip(*chosen, strict=True))
        words, theirs = f"{', '.join(each['set'] for each in ready)}: {words}", f"{peer}: {theirs}"
    words += f", median of {len(values)} sets" * (len(values) > 1)
    return [Ratio(words, value, ours, theirs, command)]


def in_words(several: Sequence[Sequence[Record]], what: str) -> str:
    """Seconds and scores of some sets."""
    seconds = " / ".join(f"{middle(fits, what):.2f}" for fits in several)
    return f"{seconds} s, scores " + " / ".join(f"{middle(fits, 'score'):.3f}" for fits in several)


def section_of(records: list[Record], peer: str, fast: Sequence[str], name: str, item: str) -> Section:
    """Ratios against the peer, a table, and the panels: scores against seconds by set, and what models cost."""
    command = f"{name} {' '.join(f'--data {each}' for each in fast)} --method crfqn --method '{peer}'"
    ratios = ratio_of(records, peer, "seconds", "seconds of a fit", fast, command)
    for what, words in (
        ("seconds", "seconds of a fit"), ("bytes", "bytes of the model file"),
        ("rate", f"{item}s labelled a second, crfqn's over the peer's"), ("one", "one at a time, microseconds"),
    ):  # fmt: skip
        ratios += ratio_of(records, peer, what, words)
    rows = []
    methods = dict.fromkeys(method for each in records for method in each["fits"])
    for each in records:
        for method, fits in each["fits"].items():
            cells = [
                f"{middle(fits, 'seconds'):.2f}", f"{middle(fits, 'score'):.4f}", f"{middle(fits, 'bytes') / 1e3:,.0f}",
                f"{middle(fits, 'rate'):,.0f}", "" if np.isnan(middle(fits, "one")) else f"{middle(fits, 'one'):.0f}",
            ] if fits else [f"> {each['limit']:g}", *[""] * 4]  # fmt: skip
            rows.append([each["set"], method, *cells, each["measure"]])
    head = ["data", "", "fit, s", "held-out score", "file, kB", f"{item}s a second", "one at a time, us"]
    notes = [f"{each['set']}: {each['about']}" for each in records]
    if any(not fits for each in records for fits in each["fits"].values()):
        notes.append(
            f'"> {records[0]["limit"]:g}": the process of a run, which reads the data, warms up, fits and labels, was '
            "ended after so many processor seconds."
        )
    scores = {each["set"]: scores_panel(each) for each in records}
    panels = {"scores": [*scores.values()], "costs": costs_panels(records, [*methods], item)}
    summary = [panel for name, panel in scores.items() if name in SUMMARY]
    panels |= {"summary": summary} if summary else {}
    return Section(
        [Table("What each library's users get", [*head, "score is"], rows, notes)], ratios, panels=panels
    )


def scores_panel(record: Record) -> Panel:
    """A point a method: the score against the seconds of a fit."""
    points = {
        method: ([middle(fits, "seconds")], [middle(fits, "score")])
        for method, fits in record["fits"].items()
        if fits
    }
    title = f"{record['set']}: {record['measure']}"
    return Panel(title, points, "processor seconds of a fit", "", "x", is_dotted=True)


def costs_panels(records: list[Record], methods: list[str], item: str) -> list[Panel]:
    """A set a line: model size, speed of labelling, and one item at a time."""
    sets, panels = [each["set"] for each in records], []
    for what, label in {
        "bytes": "model file, kB", "rate": f"{item}s labelled a second", "one": "one at a time, microseconds",
    }.items():  # fmt: skip
        lines: dict[str, tuple[list[float], list[int]]] = {}
        for (n, each), method in product(enumerate(records), methods):
            value = middle(each["fits"].get(method, []), what) / (1e3 if what == "bytes" else 1.0)
            if not np.isnan(value):
                x, y = lines.setdefault(method, ([], []))
                x.append(value)
                y.append(n)
        panels.append(Panel("", lines, label, "", "x", ticks=sets, is_dotted=True))
    return panels


SEQUENCES_BY_USERS = Comparison(
    "sequences", "Sequences: what each library's users get",
    "From dicts of features in memory to a model file, each library as its users call it: `ChainCRF()` with nothing "
    "but its defaults, CRFsuite by its defaults, with c1 = c2 = .1 and 100 iterations, and its averaged perceptron; "
    "Wapiti and CRF++ where they are installed, from text files, whose reading counts. Processor seconds of one "
    "core, by turns, medians. One at a time: `crfqn.Tagger` and CRFsuite's `Tagger`. Wapiti's defaults end a run "
    "whose training error has not moved for five iterations: that of `entities` after the first five, when every "
    "position still gets the commonest label.",
    ["crfqn", "python-crfsuite", "numba", "numpy"],
    lambda records: section_of(records, "CRFsuite, c1 = c2 = .1", FAST_SETS, "sequences", "word"), ["", "--full"],
)  # fmt: skip
CLASSES_BY_USERS = Comparison(
    "classes", "Flat and hierarchical classes: what each library's users get",
    "From a matrix in memory: `MulticlassCRF()` (`TaxonomyCRF()` over trees), the same with an L2 penalty alone, "
    "scikit-learn's `LogisticRegression()`, `LinearSVC()` and saga with L1, skglm (one class against the rest) and "
    "cyanure with C = 1 as well, hiclass with a logistic regression a parent node. Processor seconds of one core, "
    "by turns, medians. cyanure's default solver warns of numerical instability at so small a penalty, and can end "
    "far above the optimum; with `solver=\"fista\"` it is right on .877 of banking-tf-idf and .809 of imageclef.",
    ["crfqn", "scikit-learn", "skglm", "cyanure", "hiclass", "numba", "numpy"],
    lambda records: section_of(records, "LogisticRegression", FAST_CLASSES, "classes", "item"),
)  # fmt: skip
TimeLimit = Annotated[
    float, typer.Option(min=1, help="Processor seconds of a run: reading, warm-up, fit, labelling.")
]


def sequences(
    data: Annotated[list[str] | None, some_of([*SEQUENCE_SETS, MADE_UP])] = None,
    method: Annotated[list[str] | None, some_of([*SEQUENCES])] = None,
    repeats: Repeats = 3,
    limit: TimeLimit = 120.0,
    full: Full = False,
    output: Output = None,
) -> None:
    """Scores against seconds, size and speed, from dicts: crfqn, CRFsuite, Wapiti, CRF++; --full: long sets, too."""
    settings = {"methods": method or [*SEQUENCES], "repeats": repeats, "limit": limit}
    names = data or [each for each in SEQUENCE_SETS if full or each not in LONG]
    SEQUENCES_BY_USERS.measure(measure_sequences, [{"set": name, **settings} for name in names], output)


def classes(
    data: Annotated[list[str] | None, some_of([*CLASS_SETS, "few-digits"])] = None,
    method: Annotated[list[str] | None, some_of(FLAT)] = None,
    repeats: Repeats = 3,
    limit: TimeLimit = 60.0,
    full: Full = False,
    output: Output = None,
) -> None:
    """Scores against seconds, size and speed, flat and over trees: crfqn, scikit-learn, skglm, cyanure, hiclass."""
    settings = {"methods": method or [*FLAT], "repeats": repeats, "limit": limit}
    names = data or [each for each in CLASS_SETS if full or each not in SAME_TEXTS]
    CLASSES_BY_USERS.measure(measure_classes, [{"set": name, **settings} for name in names], output)

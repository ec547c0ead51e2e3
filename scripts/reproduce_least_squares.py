#!/usr/bin/env python
"""The tables and figures of Agarwal et al., Least squares revisited (ICML 2014), measured again.

    pip install '.[plot,benchmark]'
    python scripts/reproduce_least_squares.py --quick              # all of it on built-in and made-up data
    python scripts/reproduce_least_squares.py --table 1            # MNIST: `crfqn data get mnist` first
    python scripts/reproduce_least_squares.py --figure 2 --dims 2000

Writes SVG and CSV files, and a page over all that is in the folder. Vowpal Wabbit takes part where it is installed
(`pip install vowpalwabbit`). Figure 3, convolutions of CIFAR-10's images, is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from time import process_time
from typing import Annotated, Any

import numpy as np
import typer
from harness.data import RCV1, made_up_texts, split_of, stratified, vectorised
from harness.drawing import Panel
from harness.measuring import fit_seconds, peak_memory, quietly, run_alone, say
from harness.options import SEVERAL, Into, Quick, as_options, command, some_of
from harness.pages import Page, Publisher, explaining
from harness.problems import Problem, narrow
from harness.report import Record, Table, distinct, grouped, lines_of, matching, number
from numpy.typing import NDArray
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from crfqn import CalibratedLeastSquares, GeneralizedLeastSquares, StagewiseRegression
from crfqn.datasets import dataset
from crfqn.papers.agarwal2014.generators import RandomFourier

DIMS, QUICK_DIMS = (4000,), (200,)
COMPONENTS = 50  # principal components of the training images, before random features of MNIST
SCALE, STAGE_SCALE = 1.0, 0.6  # s of the kernel exp(-||x - x'||^2 / s) on these; of stages
QUICK_COMPONENTS = 30  # of digits
DAMPING = 1 / 8  # component i is times lambda_i to this power, so that noise counts less
RIDGE = 1e-5  # l2 of an item: the library's is for a sum over the items
STAGE_RIDGE = 1e-4  # the same of a stage
ROUNDS = 5  # over the batches of words
LOGISTIC_STEPS = 50
OURS = ("linear", "logistic", "calibrated")
PAPER = {  # table 1, test error in per cent
    "raw pixels": {"linear": 14.1, "logistic": 7.8, "calibrated": 8.1},
    "4000 dims": {"linear": 1.83, "logistic": 1.48, "calibrated": 1.54},
    "8000 dims": {"linear": 1.48, "logistic": 1.33, "calibrated": 1.36},
}
PAPER_TEXT = "The paper on News20: VW 2.5 s, 12.4 %; LIBLINEAR 27 s, 13.8 %; stagewise 40 s, 11.7 %."
STAGES = 50
TARGETS = (2.5, 2.2, 2.0, 1.9)  # per cent of test error that solvers are timed to
STAGE_TARGETS = (2.0, 1.5, 1.3)
LBFGS_STEPS = (20, 40, 80, 120, 160, 240, 320, 1000)
MOST_SECONDS = 100.0  # after a run of a solver that took longer, it is given no more steps
ERROR_AXES = ("processor seconds", "test error, %")
INTRODUCTION = f"""\
Tables and figures of A. Agarwal, S. Kakade, N. Karampatziakis, L. Song and G. Valiant, *Least squares revisited:
scalable approaches for multi-class prediction*, ICML 2014, measured again. Seconds are those of the processor, on one
thread. The paper leaves open how random features of MNIST are made; here they are cos(x . omega + b) of images of unit
length, their first {COMPONENTS} principal components, component i times its variance to the power {DAMPING:g}, for the
kernel exp(-||x - x'||^2 / s) with s = {SCALE:g} (stages: {STAGE_SCALE:g}). l2 = {RIDGE:g} n for n items (a stage:
{STAGE_RIDGE:g} n). Steps of the logistic link are plain ones, as printed."""
SECTIONS = ("table-1", "table-2", "figure-1", "figure-2", "figure-4")
PAGE = Page(
    "Least squares revisited: the paper's study", INTRODUCTION, "reproduce_least_squares.py", SECTIONS
)


@dataclass(frozen=True, eq=False)
class Images:
    """Images, and how random features of them are made.

    raw : grey values from 0 to 1, float32 (items, pixels)
    components : principal components of the training images, float32
    """

    title: str
    raw: Problem
    components: Problem

    def features(self, n_features: int, seed: int = 0) -> Problem:
        """Random Fourier features of the components, float32; seed : of the draw."""
        batch = RandomFourier(SCALE).fit([self.components.X_train], seed).batch(0, n_features)
        train, test = (batch.transform(X) for X in (self.components.X_train, self.components.X_test))
        return replace(self.components, X_train=train, X_test=test)


def mnist(is_quick: bool) -> Images:
    """MNIST, or the digits that scikit-learn brings along."""
    if is_quick:
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        X = (X / 16.0).astype(np.float32)
        parts = Problem(X[:1300], y[:1300], X[1300:], y[1300:])
        return Images("digits", parts, principal(parts, QUICK_COMPONENTS))
    parts = split_of("mnist")
    train, test = (X.toarray().astype(np.float32) for X in (parts.X_train, parts.X_test))
    parts = replace(parts, X_train=train, X_test=test)
    return Images("MNIST", parts, principal(parts, COMPONENTS))


def principal(parts: Problem, n: int) -> Problem:
    """The first principal components of the items at unit length, damped (`DAMPING`)."""
    train, test = (X / np.linalg.norm(X, axis=1, keepdims=True) for X in (parts.X_train, parts.X_test))
    mean = train.mean(axis=0)
    centred = train - mean
    variances, axes = np.linalg.eigh((centred.T @ centred).astype(np.float64) / len(centred))
    axes = (axes * np.maximum(variances, 0.0) ** DAMPING)[:, ::-1][:, :n].astype(np.float32)
    return replace(parts, X_train=centred @ axes, X_test=(test - mean) @ axes)


def texts(is_quick: bool, is_random: bool = False) -> tuple[str, Problem]:
    """News20, log(1 + count) of the words, rows of length 1; made-up texts where it must be quick or has no files.

    is_random : whether the test part is as many texts drawn from all, as the paper's collection has it, in the place of
        the latest
    """
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.preprocessing import normalize

    if is_quick or not dataset("newsgroups").locate():
        shape = replace(RCV1, n_items=600, n_words=900, n_classes=6, n_tokens=40, topic_words=80)
        title, counts = "made-up texts", stratified(*made_up_texts(shape), 0).without_unused()
    else:
        title, parts = "News20, by date", split_of("newsgroups")
        if is_random:
            title, posts = "News20, random split", [*parts.X_train, *parts.X_test]
            labels = np.concatenate([parts.y_train, parts.y_test])
            test, train = np.split(np.random.default_rng(0).permutation(len(posts)), [len(parts.y_test)])
            parts = Problem([posts[i] for i in train], labels[train], [posts[i] for i in test], labels[test])
        counts = vectorised(parts, CountVectorizer(dtype=np.float64))
    train, test = (narrow(normalize(X.log1p())) for X in (counts.X_train, counts.X_test))
    return title, replace(counts, X_train=train, X_test=test)


def our_model(name: str, n_items: int, steps: int | None = None) -> Any:
    """One of `OURS` on features in one piece; steps : of the logistic link, or stages, in the place of the default."""
    l2 = RIDGE * n_items
    if name == "calibrated":
        limits = {} if steps is None else {"max_iter": steps, "early_stopping": False}
        return CalibratedLeastSquares(l2=l2, random_state=0, n_threads=1, **limits)
    if name == "linear":
        return GeneralizedLeastSquares(l2=l2, link="identity", n_threads=1)
    most = steps or LOGISTIC_STEPS
    return GeneralizedLeastSquares(l2=l2, link="softmax", solver="gls-plain", max_iter=most, n_threads=1)


@dataclass(eq=False)
class VowpalWabbit:
    """Vowpal Wabbit, one against all, so many passes over examples in memory; its text is not made on the clock."""

    parts: Problem
    n_passes: int = 1

    def __post_init__(self) -> None:
        from vowpalwabbit import Workspace

        self.classes, codes = np.unique(self.parts.y_train, return_inverse=True)
        self.model = Workspace(f"--oaa {self.classes.size} -b 22 --quiet --random_seed 0")
        lines = zip(codes, self._lines(self.parts.X_train), strict=True)
        self.examples = [self.model.example(f"{code + 1} {line}") for code, line in lines]

    def _lines(self, X: Any) -> Iterable[str]:
        sparse = (csr_array(X[[i]]) for i in range(X.shape[0]))
        return ("| " + " ".join(map("{}:{:.5g}".format, x.indices, x.data.tolist())) for x in sparse)

    def fit(self, X: Any, y: Any) -> None:
        for _ in range(self.n_passes):
            for example in self.examples:
                self.model.learn(example)

    def predict(self, X: Any) -> NDArray:
        return self.classes[[self.model.predict(line) - 1 for line in self._lines(X)]]


def solvers(parts: Problem, is_quick: bool) -> dict[str, tuple[Callable[[int], Any], Sequence[int]]]:
    """What makes each solver of figure 2 for a number of steps, and these numbers: from the start each time."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    n_items = len(parts.y_train)
    c = 1.0 / (RIDGE * n_items)
    found: dict[str, tuple[Callable[[int], Any], Sequence[int]]] = {
        "linear": (partial(our_model, "linear", n_items), (1,)),
        "logistic": (partial(our_model, "logistic", n_items), (5, 15, 50)),
        "calibrated": (partial(our_model, "calibrated", n_items), (1, 2, 4, 8)),
        "l-bfgs (scikit-learn)": (lambda n: LogisticRegression(C=c, max_iter=n), LBFGS_STEPS),
        "LIBLINEAR, hinge, dual": (lambda n: LinearSVC(C=c, loss="hinge", max_iter=n), (1, 4, 16)),
    }
    if find_spec("vowpalwabbit"):
        found["Vowpal Wabbit"] = (partial(VowpalWabbit, parts), (1, 4))
    return {name: (make, steps[:2] if is_quick else steps) for name, (make, steps) in found.items()}


def train(name: str, model: Any, parts: Problem) -> Record:
    """Fit and score: processor seconds without the making of features, test error in per cent, and the process's peak
    of memory; warnings of those that stop by a limit are no news here."""
    seconds = fit_seconds(model, parts.X_train, parts.y_train)
    error = 100.0 * float(np.mean(model.predict(parts.X_test) != parts.y_test))
    say(f"  {name}: {seconds:.1f} s, {error:.2f} %")
    return {"method": name, "seconds": seconds, "error": error, "memory": peak_memory() / 1e9}


def compile_for(parts: Problem) -> None:
    """Train on a small part, so that nothing is compiled on the clock."""
    with quietly():
        for kind in OURS:
            our_model(kind, 400).fit(parts.X_train[:400, :50], parts.y_train[:400])


def train_on(images: Images, n: int | None, draw: int, kind: str) -> Record:
    """One of `OURS` on pixels, or on n features of a draw."""
    with threadpool_limits(1):
        parts = images.raw if n is None else images.features(n, draw)
        compile_for(parts)
        return train(kind, our_model(kind, len(parts.y_train)), parts)


def stages(name: str, parts: Problem, update: str, size: int, n_stages: int) -> list[Record]:
    """Stagewise regression on random features, a record a stage, scored on the test items.

    The seconds count features, and the scoring.
    """
    seconds: list[float] = []
    begin = process_time()
    model = StagewiseRegression(
        l2=STAGE_RIDGE * len(parts.y_train), generator=RandomFourier(STAGE_SCALE), update=update, batch_size=size,
        max_iter=n_stages, inner_iter=LOGISTIC_STEPS, n_threads=1,
        callback=lambda _: seconds.append(process_time() - begin),
    )  # fmt: skip
    with threadpool_limits(1):
        model.fit(parts.X_train, parts.y_train, validation=(parts.X_test, parts.y_test))
    errors = (100.0 * (1.0 - model.validation_score_)).tolist()
    say(f"  {name}: {seconds[-1]:.1f} s, {errors[-1]:.2f} %")
    own = {"method": name, "memory": peak_memory() / 1e9}
    return [own | {"stages": n, "seconds": seconds[n], "error": errors[n]} for n in range(1, len(errors))]


def spectrum(matrix: Any, n: int) -> NDArray[np.float64]:
    """Return the first n singular values, descending; of wide sparse matrices by a randomised method."""
    if hasattr(matrix, "tocsr"):
        from sklearn.utils.extmath import randomized_svd

        n = min(n, min(matrix.shape) - 1)
        return randomized_svd(matrix, n, n_iter=3, random_state=0)[1]
    gram = matrix.T.astype(np.float64) @ matrix
    return np.sqrt(np.maximum(np.linalg.eigvalsh(gram)[::-1][:n], 0.0))


@dataclass(eq=False)
class Paper(Publisher):
    """The paper's tables and figures.

    dims : random features of images; n_draws : of them, of table 1
    """

    path: Path
    is_quick: bool
    dims: Sequence[int]
    n_draws: int = 1
    page = PAGE

    def __post_init__(self) -> None:
        options: Record = {"quick": self.is_quick, "draws": self.n_draws}
        self.open(self.path, as_options(dims=self.dims), **options)

    @cached_property
    def images(self) -> Images:
        """MNIST, or digits."""
        return mnist(self.is_quick)

    def table(self, number: str) -> None:
        self.on_images() if number == "1" else self.on_text()

    def figure(self, number: str) -> None:
        {"1": self.updates, "2": self.other_solvers, "4": self.spectra}[number]()

    def alone(self, name: str, task: Callable[..., Any], *arguments: Any) -> Any:
        """A measurement in a process of its own, unless it must be quick; once for all calls of the command."""
        how = [] if self.is_quick else [run_alone]
        return self.folder.once(name, *how, task, *arguments)

    def on_images(self) -> None:
        """Table 1: linear, logistic and calibrated on raw pixels and random features."""
        records: list[Record] = []
        for n in (None, *self.dims):
            name = "raw pixels" if n is None else f"{n} dims"
            say(name)
            for draw, kind in product(range(1 if n is None else self.n_draws), OURS):
                found = self.alone(f"{name}, draw {draw}, {kind}", train_on, self.images, n, draw, kind)
                records.append({"features": name, "draw": draw, **found})
        paper = {} if self.is_quick else PAPER
        groups = grouped(records, ["features", "method"]).items()
        columns = {
            "features": lambda group: group[0][0],
            "method": lambda group: group[0][1],
            "test error, %": lambda group: spread([run["error"] for run in group[1]], ".2f"),
            "paper": lambda group: number(paper.get(group[0][0], {}).get(group[0][1]), "g"),
            "seconds": lambda group: spread([run["seconds"] for run in group[1]], ".1f"),
            "GB": lambda group: f"{max(run['memory'] for run in group[1]):.1f}",
        }
        notes = ["Means and standard deviations over draws of the features."] if self.n_draws > 1 else []
        table = Table.from_rows(f"Test errors, {self.images.title}", columns, groups, notes)
        self.folder.publish("table-1", "linear, logistic, calibrated", [table], records=records)

    def on_text(self) -> None:
        """Table 2: stages of the most frequent words against solvers for text."""
        from sklearn.linear_model import SGDClassifier
        from sklearn.svm import LinearSVC

        n_stages, size = (3, 100) if self.is_quick else (40, 1000)
        tables = []
        for is_random in (False,) if self.is_quick else (False, True):
            title, parts = texts(self.is_quick, is_random)
            say(title)
            runs = [
                train("LIBLINEAR (LinearSVC)", LinearSVC(), parts),
                train("online (SGDClassifier)", SGDClassifier(alpha=1e-5, random_state=0), parts),
            ]
            if find_spec("vowpalwabbit"):
                runs.append(train("Vowpal Wabbit, 10 passes", VowpalWabbit(parts, 10), parts))
            for n_rounds in (1, ROUNDS):
                setting = {"batch_size": size, "max_iter": n_stages, "n_rounds": n_rounds, "n_threads": 1}
                model = StagewiseRegression(generator="frequency", **setting)
                runs.append(train(f"stagewise, rounds: {n_rounds}", model, parts))
            rows = [[run["method"], f"{run['seconds']:.1f}", f"{run['error']:.2f}"] for run in runs]
            tables.append(Table(title, ["method", "seconds", "test error, %"], rows, [PAPER_TEXT]))
        self.folder.publish("table-2", "text", tables)

    def updates(self) -> None:
        """Figure 1: error against time for updates and sizes of batches."""
        images, n_stages = self.images, 3 if self.is_quick else STAGES
        records: list[Record] = []
        for size, kind in product((64,) if self.is_quick else (512, 1024), OURS):
            name = f"{kind}, {size}"
            records += self.alone(f"stages: {name}", stages, name, images.components, kind, size, n_stages)
        self.publish_errors("figure-1", f"stages, {images.title}", records, STAGE_TARGETS)

    def other_solvers(self) -> None:
        """Figure 2: the three methods against solvers of other libraries on the same random features."""
        records: list[Record] = []
        for n in self.dims:
            say(f"{n} features")
            parts = self.images.features(n)
            compile_for(parts)
            for name, (make, numbers) in solvers(parts, self.is_quick).items():
                for steps in numbers:
                    label = name if len(self.dims) == 1 else f"{name}, {n}"
                    run = f"{n} features, {name}, {steps} steps"
                    found = self.folder.once(run, train, label, make(steps), parts)
                    records.append({"features": n, "steps": steps, **found})
                    if found["seconds"] > MOST_SECONDS:
                        break
        title = f"solvers on the same {', '.join(map(str, self.dims))} features, {self.images.title}"
        self.publish_errors("figure-2", title, records, TARGETS, as_options(dims=self.dims))

    def publish_errors(
        self, name: str, title: str, records: list[Record], targets: Sequence[float], extra: str = ""
    ) -> None:
        """Error against time, and the least seconds with which each method came to some errors."""

        def seconds_to(error: float, own: list[Record]) -> str:
            seconds = [each["seconds"] for each in own if each["error"] <= error]
            return number(min(seconds, default=None), ".1f")

        columns = {
            "": lambda own: own[-1]["method"],
            "best test error, %": lambda own: f"{min(each['error'] for each in own):.2f}",
            "last": lambda own: f"{own[-1]['error']:.2f}",
            "seconds": lambda own: f"{own[-1]['seconds']:.1f}",
            "GB": lambda own: f"{own[-1]['memory']:.1f}",
        } | {f"s to {error:g} %": partial(seconds_to, error) for error in targets}
        own = [matching(records, method=method) for method in distinct(records, "method")]
        table = Table.from_rows("Seconds to test errors", columns, own)
        logs = "xy" if all(each["error"] > 0 for each in records) else "x"
        panels = [Panel("", lines_of(records, "method", "seconds", "error"), *ERROR_AXES, logs)]
        self.folder.publish(name, title, [table], records=records, panels=panels, heading=title, extra=extra)

    def spectra(self) -> None:
        """Figure 4: the spectra of text and of random features of images."""
        title, parts = texts(self.is_quick)
        n, n_features = (100, 200) if self.is_quick else (1000, 3000)
        spectra = {
            title: spectrum(parts.X_train, n),
            self.images.title: spectrum(self.images.features(n_features).X_train, n),
        }
        columns = {
            "": lambda entry: entry[0],
            "values": lambda entry: str(entry[1].size),
            "ratio": lambda entry: f"{entry[1][1] / max(entry[1][-1], 1e-300):,.1f}",
        }
        note = "The paper: 19.8 for News20, about 72,000 for MNIST with 3,000 random features."
        table = Table.from_rows("Second singular value over the last", columns, spectra.items(), [note])
        shares = {name: 100 * np.cumsum(values) / values.sum() for name, values in spectra.items()}
        lines = {name: (np.arange(1, share.size + 1), share) for name, share in shares.items()}
        panels = [Panel("", lines, "singular values", "share of their sum, %", "x")]
        heading = "Share of the first singular values"
        self.folder.publish("figure-4", "spectra", [table], panels=panels, heading=heading)


def spread(values: Sequence[float], form: str) -> str:
    """Their mean, and the standard deviation of several."""
    deviation = f" ± {np.std(values, ddof=1):{form}}" if len(values) > 1 else ""
    return f"{np.mean(values):{form}}{deviation}"


app = command()


@app.command()
def reproduce(
    figure: Annotated[list[str] | None, some_of(PAGE.names("figure"), SEVERAL)] = None,
    table: Annotated[list[str] | None, some_of(PAGE.names("table"), SEVERAL)] = None,
    dims: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Random features of table 1 and figure 2; several times; default: 4000."),
    ] = None,
    draws: Annotated[int, typer.Option(min=1, help="Of random features in table 1.")] = 1,
    quick: Quick = False,
    output: Into = Path("least-squares-study"),
) -> None:
    """Measure the paper's tables and figures again; without a choice all of them."""
    with explaining(), threadpool_limits(1):
        paper = Paper(output, quick, dims or (QUICK_DIMS if quick else DIMS), draws)
        paper.make(figure, table)


if __name__ == "__main__":
    app()

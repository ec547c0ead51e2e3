"""Patterns that stand several times or not at all, against all labellings of short items: each name of an observation
has weights of its own, and counts as often as the patterns give it, as in CRF++ and Wapiti."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from command_line import run_here
from scipy.optimize import minimize
from template_strings import expand

from crfqn import ChainCRF, Tagger, Templates, load
from crfqn.errors import InputError

ITEMS = [["a", "b", "a"], ["b", "b"], ["c"], ["a", "c", "b", "b"], ["c", "a"]]
LABELS = [["x", "y", "x"], ["y", "x"], ["x"], ["x", "x", "y", "y"], ["y", "x"]]
X = [[(word,) for word in item] for item in ITEMS]
NO_WEIGHTS = "ignore::crfqn.errors.EmptyModelWarning"


class Enumerated:
    """The CRF of a pattern file by its names: log-likelihood of the items, over all their labellings."""

    def __init__(self, lines: list[str]) -> None:
        self.places: dict[tuple, int] = {}  # of the weights, by name and labels
        self.paths, self.rows = [], []
        for item in ITEMS:
            rows = [[word] for word in item]
            names = [[expand(line, rows, t, line[0] in "ub*") for line in lines] for t in range(len(item))]
            self.paths.append(list(product("xy", repeat=len(item))))
            self.rows.append([self.counts(names, path) for path in self.paths[-1]])
        self.tables = []
        for counts in self.rows:
            table = np.zeros((len(counts), len(self.places)))
            for row, found in zip(table, counts, strict=True):
                for place, n in found.items():
                    row[place] = n
            self.tables.append(table)

    def counts(self, names, path) -> Counter:
        found: Counter = Counter()
        for t, listed in enumerate(names):
            for name in listed:
                if name[0] in "Uu*":
                    found[self.places.setdefault((name, path[t]), len(self.places))] += 1
                if name[0] in "Bb*" and t:
                    key = name, path[t - 1], path[t]
                    found[self.places.setdefault(key, len(self.places))] += 1
        return found

    def loss(self, w):
        value, gradient = 0.0, np.zeros(w.size)
        for table, paths, labels in zip(self.tables, self.paths, LABELS, strict=True):
            scores = table @ w
            p = np.exp(scores - scores.max())
            value += np.log(p.sum()) + scores.max() - scores[paths.index(tuple(labels))]
            gradient += (p / p.sum()) @ table - table[paths.index(tuple(labels))]
        return value, gradient

    def optimum(self, l1, l2):
        """The least objective and its weights: L1 by the positive and the negative parts of the weights."""

        def objective(parts):
            w = parts[: parts.size // 2] - parts[parts.size // 2 :]
            value, gradient = self.loss(w)
            gradient = gradient + l2 * w
            return value + l1 * parts.sum() + l2 / 2 * w @ w, np.concatenate([gradient, -gradient]) + l1

        start = np.full(2 * len(self.places), 0.1)
        found = minimize(
            objective,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=[(0, None)] * start.size,
            options={"maxiter": 20_000, "maxfun": 20_000, "ftol": 1e-14, "gtol": 1e-9},
        )
        return found.fun, found.x[: start.size // 2] - found.x[start.size // 2 :]

    def marginals(self, w):
        found = []
        for table, paths in zip(self.tables, self.paths, strict=True):
            p = np.exp(table @ w)
            p /= p.sum()
            found.append([[p @ [path[t] == k for path in paths] for k in "xy"] for t in range(len(paths[0]))])
        return found


FILES = {
    "once": ["U:%x[0,0]", "B"],
    "twice": ["U:%x[0,0]", "B", "B"],
    "two names": ["U:%x[0,0]", "B0", "B1"],
    "three of two names": ["U:%x[0,0]", "B0", "B1", "B0"],
    "unigrams twice": ["U:%x[0,0]", "U:%x[0,0]", "U", "U", "B"],
    "of tokens twice": ["U:%x[0,0]", "B:%x[0,0]", "B:%x[0,0]", "B"],
    "of both kinds": ["u:%x[0,0]", "*1"],
    "of both kinds twice": ["*:%x[0,0]", "*:%x[0,0]", "*1", "*1", "b"],
    "never": ["U:%x[0,0]", "U1:%x[-1,0]"],
    "of tokens alone": ["U:%x[0,0]", "B:%x[0,0]"],
}


@pytest.mark.parametrize("lines", FILES.values(), ids=FILES)
@pytest.mark.parametrize(("l1", "l2"), [(0.0, 0.5), (0.2, 0.1), (0.2, 0.0)])
@pytest.mark.filterwarnings(NO_WEIGHTS)
def test_the_optimum_is_that_of_the_names(lines, l1, l2, tmp_path):
    features = Templates("\n".join(lines) + "\n", columns=["w"]).fit_transform(X)
    model = ChainCRF(l1=l1, l2=l2, tol=1e-9, stop="certificate").fit(features, LABELS)
    reference = Enumerated(lines)
    least, weights = reference.optimum(l1, l2)
    assert model.result_.value == pytest.approx(least, rel=1e-6)
    if l2:  # else several weights share what one may have
        model.save(tmp_path / "model.crfqn")
        taggers = Tagger(tmp_path / "model.crfqn"), load(tmp_path / "model.crfqn")
        for found, item, expected in zip(
            model.predict_marginals(X), X, reference.marginals(weights), strict=True
        ):
            np.testing.assert_allclose(found, expected, atol=1e-3)
            np.testing.assert_allclose(taggers[0].marginals(item), found, atol=1e-9)
            np.testing.assert_allclose(taggers[1].predict_marginals([item])[0], found, atol=1e-9)


def test_several_patterns_share_out_a_penalty():
    def fit(lines, **strengths):
        features = Templates("\n".join(["U:%x[0,0]", *lines]), columns=["w"]).fit_transform(X)
        return ChainCRF(tol=1e-9, stop="certificate", **strengths).fit(features, LABELS)

    one, two = fit(["B"], l1=0, l2=0.5), fit(["B0", "B1"], l1=0, l2=0.5)
    assert two.result_.value < one.result_.value - 1e-3
    assert two.transition_coef_.nnz == 0
    for pair in ("xx", "xy", "yx", "yy"):
        names = [("B0", *pair), ("B1", *pair)]
        first, second = (two.bigram_features_.get(name, 0.0) for name in names)
        assert first == pytest.approx(second, abs=1e-4)
    # A sum of sizes does not care how it is shared out.
    values = [fit(lines, l1=0.2, l2=0).result_.value for lines in (["B"], ["B0", "B1"])]
    assert values[0] == pytest.approx(values[1], rel=1e-6)


class TestWithoutB:
    PATTERNS = "U:%x[0,0]\nU1:%x[-1,0]\n"

    @pytest.mark.parametrize(
        "settings",
        [
            *({"solver": name, "l1": 0.1} for name in ("prox-qn", "owl-qn", "fista", "sgd", "feature-bcd")),
            {"solver": "l-bfgs", "l1": 0, "l2": 0.1},
            {"loss": "hinge", "l2": 1.0},
            {"solver": "averaged-perceptron"},
            {"solver": "passive-aggressive"},
            {"all_possible_transitions": False},
        ],
        ids=str,
    )
    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_no_solver_gives_transitions_a_weight(self, settings):
        features = Templates(self.PATTERNS, columns=["w"])
        model = ChainCRF(**settings).fit(features.fit_transform(X), LABELS)
        assert not features.has_transitions_
        assert model.transition_coef_.nnz == 0
        assert model.coef_.nnz > 0

    @pytest.mark.parametrize("solver", ["auto", "averaged-perceptron"])
    def test_nor_do_batches(self, solver):
        features = Templates(self.PATTERNS, columns=["w"]).fit_transform(X)
        model = ChainCRF(solver=solver).partial_fit(features, LABELS, classes=["x", "y"])
        assert model.partial_fit(features, LABELS).transition_coef_.nnz == 0

    def test_nor_does_a_start(self):
        features = Templates(self.PATTERNS, columns=["w"])
        start = ChainCRF(l1=0.01).fit(
            Templates(f"{self.PATTERNS}B\n", columns=["w"]).fit_transform(X), LABELS
        )
        assert start.transition_coef_.nnz > 0
        assert ChainCRF(l1=0.01).fit(features.fit_transform(X), LABELS, start=start).transition_coef_.nnz == 0

    def test_the_option_brings_them(self):
        with_b = Templates(f"{self.PATTERNS}B\n", columns=["w"])
        asked = Templates(self.PATTERNS, columns=["w"], transitions=True)
        models = [ChainCRF(l1=0.05).fit(features.fit_transform(X), LABELS) for features in (with_b, asked)]
        assert asked.has_transitions_
        assert models[0].transition_features_ == models[1].transition_features_ != {}
        # What has them already gets no others.
        twice = [
            ChainCRF(l1=0.05).fit(
                Templates(f"{self.PATTERNS}B\nB\n", columns=["w"], transitions=given).fit_transform(X), LABELS
            )
            for given in (False, True)
        ]
        assert twice[0].bigram_features_ == twice[1].bigram_features_ != {}

    def test_other_features_have_them_in_any_case(self):
        for features in (Templates(windows="w[0]", columns=["w"]), Templates(columns=["w"])):
            assert ChainCRF(l1=0.01).fit(features.fit_transform(X), LABELS).transition_coef_.nnz > 0

    def test_files_keep_the_option(self, tmp_path):
        asked = Templates(self.PATTERNS, columns=["w"], transitions=True)
        ChainCRF(l1=0.05).fit(asked.fit_transform(X), LABELS).save(tmp_path / "model.crfqn")
        assert load(tmp_path / "model.crfqn").vocabulary.has_transitions


def test_min_count_does_not_count_pairs_that_are_not_there():
    # `a` begins two items and comes once behind another word, `b` comes twice there.
    items = [[("a",), ("b",)], [("a",), ("b",)], [("b",), ("a",)]]
    names = Templates("U:%x[0,0]\nB:%x[0,0]\nB\n", min_count=2).fit(items).get_feature_names_out()
    assert [*names] == ["U:a", "U:b", "B:b"]
    with pytest.raises(InputError, match="expected at least one pattern like U00"):
        Templates("B0\nB1\n").fit(items)


def test_the_number_of_weights_is_that_of_those_that_can_be_other_than_zero():
    def n_weights(text, **settings):
        features = Templates(text, columns=["w"]).fit_transform(X)
        return ChainCRF(l1=0.1, **settings).prepare(features, LABELS).objective.n_coords

    # 2 labels, 3 words, of which all come behind another: 6 weights of words, 4 of pairs, 12 of pairs and words.
    assert n_weights("U:%x[0,0]\nB\n") == 10
    assert n_weights("U:%x[0,0]\nB:%x[0,0]\nB\n") == 22
    assert n_weights("U:%x[0,0]\nB:%x[0,0]\n") == 18
    assert n_weights("U:%x[0,0]\n") == 6
    assert n_weights("U:%x[0,0]\nB0\nB1\n") == 14
    assert n_weights("u:%x[0,0]\n*:%x[0,0]\n") == 24


@pytest.mark.filterwarnings(NO_WEIGHTS)
@pytest.mark.parametrize("l1", [0.3, 50.0])
def test_no_more_zeros_are_proved_than_there_are(l1):
    features = Templates("U:%x[0,0]\nB:%x[0,0]\nB\n", columns=["w"]).fit_transform(X)
    result = ChainCRF(l1=l1, l2=0, tol=1e-9, stop="certificate").fit(features, LABELS).result_
    assert 0 < result.n_proved_zeros <= 22 - result.n_nonzero
    assert result.n_proved_zeros == 22 or l1 < 50


def test_the_command_line_says_how_many_weights_there_are(tmp_path, monkeypatch):
    def run(*arguments):
        return run_here(monkeypatch, tmp_path, *arguments).stdout

    lines = [f"{word} {label}\n" for item in zip(ITEMS, LABELS, strict=True)
             for word, label in [*zip(*item, strict=True), ("", "")]]  # fmt: skip
    (tmp_path / "data.conll").write_text("".join(lines).replace(" \n", "\n"))
    (tmp_path / "patterns").write_text("U:%x[0,0]\nB:%x[0,0]\n")
    train = (
        "train",
        "--data",
        "data.conll",
        "--features",
        "templates",
        "--templates",
        "patterns",
        "-o",
        "m.crfqn",
    )
    assert "of 18 weights" in run(*train, "--l1", 0.1)
    assert "of 22 weights" in run(*train, "--l1", 0.1, "--transitions")
    assert load(tmp_path / "m.crfqn").vocabulary.has_transitions

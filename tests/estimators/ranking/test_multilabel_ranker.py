"""MultilabelRanker: the optimum of section 4.7, label sets in all forms, thresholds by brute force, files, messages."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from margin_references import MarginProblem, optimum, penalty_value
from sklearn.datasets import make_multilabel_classification
from sklearn.feature_selection import SelectFromModel
from sklearn.metrics import f1_score, label_ranking_average_precision_score
from sklearn.model_selection import KFold, cross_val_score
from sklearn.utils import get_tags

import crfqn
from crfqn import MulticlassClassifier, MultilabelRanker, crf_path
from crfqn.data.model_file import read_model, write_model
from crfqn.errors import InputError, ModelFileError
from crfqn.estimators import problem as steps
from crfqn.estimators.multilabel_ranker import error_minimizing_thresholds, item_thresholds, largest_f1
from crfqn.regularization_path import Grid

X, TABLE = make_multilabel_classification(
    80, 6, n_classes=4, n_labels=2, allow_unlabeled=True, random_state=3
)
X = (X - X.mean(axis=0)) / X.std(axis=0)
LETTERS = np.array(["a", "b", "c", "d"])
SETS = [set(LETTERS[row == 1].tolist()) for row in TABLE]
SETTINGS = {"group_l1": 3.0, "fit_intercept": False, "tol": 1e-6}


@pytest.fixture(scope="module")
def model() -> MultilabelRanker:
    return MultilabelRanker(group_l1=3.0).fit(X, TABLE)


def problem(weights=None) -> MarginProblem:
    return MarginProblem("ranking", X, TABLE, np.ones(len(X)) if weights is None else weights)


class TestOptimum:
    @pytest.mark.parametrize("solver", ["bcd", "prox-qn"])
    def test_it_is_that_of_the_definition(self, solver):
        model = MultilabelRanker(solver=solver, **SETTINGS).fit(X, TABLE)
        table = model.coef_.toarray().T
        assert model.result_.gap <= 1e-6
        value = problem().evaluate(table)[0] + penalty_value(table, (0, 0, 3.0), "l2")
        assert model.result_.value == pytest.approx(value, rel=1e-12)
        assert value == pytest.approx(optimum(problem(), (0, 0, 3.0), "l2")[0], rel=1e-5)

    def test_weights_of_items_and_classes(self):
        own, factors = np.linspace(0.5, 2.0, len(X)), np.array([3.0, 1.0, 1.0, 0.5])
        model = MultilabelRanker(class_weight={0: 3.0, 3: 0.5}, **SETTINGS).fit(X, TABLE, sample_weight=own)
        n_labels = np.maximum(TABLE.sum(axis=1), 1)
        mean = np.where(TABLE.any(axis=1), TABLE @ factors / n_labels, 1.0)
        table = model.coef_.toarray().T
        value = problem(own * mean).evaluate(table)[0] + penalty_value(table, (0, 0, 3.0), "l2")
        assert model.result_.value == pytest.approx(value, rel=1e-12)

    @pytest.mark.parametrize("threshold", ["item", "label"])
    def test_weights_are_repetitions(self, threshold):
        counts = np.random.default_rng(0).integers(0, 3, len(X))
        again = np.repeat(np.arange(len(X)), counts)
        tight = {**SETTINGS, "tol": 1e-8, "l2": 0.5, "threshold": threshold}
        weighted = MultilabelRanker(**tight).fit(X, TABLE, sample_weight=counts)
        repeated = MultilabelRanker(**tight).fit(X[again], TABLE[again])
        np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-4)
        np.testing.assert_allclose(
            weighted.threshold_intercept_, repeated.threshold_intercept_, atol=1e-3, rtol=1e-3
        )

    @pytest.mark.parametrize("class_weight", [None, "balanced"])
    def test_one_label_an_item_is_the_multiclass_squared_hinge(self, class_weight):
        y = np.argmax(X[:, :3], axis=1)
        plain = MulticlassClassifier(solver="bcd", class_weight=class_weight).fit(X, y)
        for labels in (y, np.eye(3, dtype=int)[y], [[label] for label in LETTERS[y].tolist()]):
            ranker = MultilabelRanker(solver="bcd", class_weight=class_weight).fit(X, labels)
            assert ranker.result_.value == pytest.approx(plain.result_.value, rel=1e-3)
            np.testing.assert_array_equal(ranker.rank(X, 1)[:, 0], ranker.classes_[plain.predict(X)])
        np.testing.assert_array_equal(MultilabelRanker().fit(X, LETTERS[y]).predict(X).dtype, LETTERS.dtype)


class TestForms:
    def test_they_are_the_same(self, model):
        forms = {
            "lists": TABLE.tolist(), "booleans": TABLE == 1, "csr": sp.csr_array(TABLE), "csc": sp.csc_matrix(TABLE),
            "sets": SETS, "tuples": [tuple(labels) for labels in SETS], "names": [sorted(labels) for labels in SETS],
        }  # fmt: skip
        for name, y in forms.items():
            other = MultilabelRanker(group_l1=3.0).fit(sp.csr_array(X), y)
            np.testing.assert_allclose(other.coef_.toarray(), model.coef_.toarray(), atol=1e-9, err_msg=name)
            found = other.predict(X)
            assert sp.issparse(found) == (name in ("csr", "csc")), name
            np.testing.assert_array_equal(
                found.toarray() if sp.issparse(found) else found, model.predict(X), err_msg=name
            )
            assert other.score(X, y) == model.score(X, TABLE)
        assert other.classes_.tolist() == LETTERS.tolist()
        assert [set(labels) for labels in other.predict_sets(X)] == [
            set(LETTERS[row == 1].tolist()) for row in model.predict(X)
        ]

    def test_ranking(self, model):
        scores = X @ model.coef_.toarray().T + model.intercept_
        np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-12)
        np.testing.assert_array_equal(model.rank(X), np.argsort(-scores, axis=1, kind="stable"))
        np.testing.assert_array_equal(model.rank(X, 2), model.rank(X)[:, :2])
        shuffled = label_ranking_average_precision_score(TABLE, np.roll(scores, 1, axis=0))
        assert label_ranking_average_precision_score(TABLE, scores) > 0.85 > shuffled
        assert get_tags(model).classifier_tags.multi_label

    def test_weight_0_leaves_labels_out_but_no_columns(self):
        weights = np.r_[np.ones(len(X)), 0.0]
        more = np.r_[X, X[:1]]
        named = MultilabelRanker().fit(more, [*SETS, {"e"}], sample_weight=weights)
        assert named.classes_.tolist() == LETTERS.tolist()
        wide = np.zeros((81, 5), int)
        wide[:80, :4], wide[80, 4] = TABLE, 1
        assert MultilabelRanker().fit(more, wide, sample_weight=weights).predict(X).shape == (80, 5)

    def test_tools(self, model):
        assert cross_val_score(MultilabelRanker(), X, TABLE, cv=3, error_score="raise").mean() > 0.2
        support = SelectFromModel(MultilabelRanker(group_l1=30.0), threshold=1e-9).fit(X, TABLE).get_support()
        assert 0 < support.sum() < 6
        warm = MultilabelRanker(group_l1=2.0).fit(X, TABLE, start=model)
        assert warm.predict(X).shape == TABLE.shape


def predicted_thresholds(scores, relevant):
    """The best thresholds of the items by least squares on three of the four contrasts of their scores."""
    mean = scores.mean(axis=1)
    design = np.c_[(scores - mean[:, None])[:, :3], np.ones(len(scores))]
    best = error_minimizing_thresholds(scores, relevant) - mean
    return mean + design @ np.linalg.lstsq(design, best, rcond=None)[0]


def wrong(scores, relevant, threshold):
    """Scores that are on the wrong side."""
    return int(((scores > threshold) != relevant).sum())


def exceeded(thresholds, scores):
    """Which labels are relevant, by their definition."""
    return scores > (scores @ thresholds.coef)[:, None] + thresholds.intercept


class TestThresholds:
    RANDOM = np.random.default_rng(0)
    SCORES = RANDOM.integers(-4, 5, (40, 6)) / 2.0  # with ties
    RELEVANT = RANDOM.random((40, 6)) < 0.4

    def candidates(self, scores):
        ordered = np.sort(scores)
        return [ordered[0] - 1, *(0.5 * (ordered[1:] + ordered[:-1])), ordered[-1] + 1]

    def test_of_an_item(self):
        self.RELEVANT[0], self.RELEVANT[1] = True, False
        found = error_minimizing_thresholds(self.SCORES, self.RELEVANT)
        for scores, relevant, t in zip(self.SCORES, self.RELEVANT, found, strict=True):
            best = min(wrong(scores, relevant, other) for other in self.candidates(scores))
            assert wrong(scores, relevant, t) == best
            assert t not in scores
        assert found[0] == self.SCORES[0].min() - 0.5
        assert found[1] == self.SCORES[1].max() + 0.5

    def test_the_widest_space_is_taken(self):
        assert error_minimizing_thresholds(np.array([[5.0, 4.5, 1.0]]), np.array([[True, True, False]])) == [
            2.75
        ]
        # Above 3, or above 1: one error each.
        assert error_minimizing_thresholds(
            np.array([[4.0, 3.0, 2.9, 0.0]]), np.array([[True, False, True, False]])
        ) == [1.45]

    def test_of_a_label(self):
        weights = self.RANDOM.choice([0.0, 1.0, 2.5], 6)
        found = largest_f1(self.SCORES, self.RELEVANT, weights)
        for scores, relevant, t in zip(self.SCORES, self.RELEVANT, found, strict=True):
            f1 = [
                f1_score(relevant, scores > other, sample_weight=weights, zero_division=0.0)
                for other in (t, *self.candidates(scores))
            ]
            assert f1[0] == pytest.approx(max(f1))

    def test_least_squares(self, model):
        scores = model.decision_function(X)
        thresholds = predicted_thresholds(scores, TABLE == 1)
        np.testing.assert_allclose(
            scores @ model.threshold_coef_ + model.threshold_intercept_[0], thresholds, atol=1e-9
        )
        assert set(model.threshold_intercept_) == {model.threshold_intercept_[0]}
        assert np.abs(model.threshold_coef_).max() < 1.0
        np.testing.assert_array_equal(model.predict(X), scores > thresholds[:, None])

    def test_shifted_scores_have_shifted_thresholds(self):
        scores = np.random.default_rng(0).normal(size=(50, 4))
        shift = np.random.default_rng(1).normal(size=(50, 1))
        relevant, weights = scores > 0.3, np.ones(50)
        found = item_thresholds(scores, relevant, weights)
        other = item_thresholds(scores + shift, relevant, weights)
        np.testing.assert_allclose(other.coef, found.coef, atol=1e-9)
        np.testing.assert_array_equal(exceeded(other, scores + shift), exceeded(found, scores))

    def test_by_label(self):
        model = MultilabelRanker(group_l1=3.0, threshold="label").fit(X, TABLE)
        scores = model.decision_function(X)
        np.testing.assert_array_equal(model.threshold_coef_, 0.0)
        for k in range(4):
            others = np.quantile(scores[:, k], np.linspace(0, 1, 30))
            best = max(f1_score(TABLE[:, k], scores[:, k] > t) for t in others)
            assert f1_score(TABLE[:, k], model.predict(X)[:, k]) >= best

    @pytest.mark.parametrize("threshold", ["item", "label"])
    def test_from_items_that_were_not_seen(self, threshold):
        settings = {"group_l1": 3.0, "tol": 1e-6, "threshold": threshold}
        split = KFold(3, shuffle=True, random_state=0)
        model = MultilabelRanker(**settings, cv=split).fit(X, TABLE)
        plain = MultilabelRanker(**settings).fit(X, TABLE)
        assert model.coef_.toarray().tobytes() == plain.coef_.toarray().tobytes()
        parts = []
        for train, test in split.split(X):
            fold = MultilabelRanker(**settings).fit(X[train], TABLE[train])
            parts.append((fold.decision_function(X[test]), TABLE[test] == 1))
        if threshold == "item":
            scores, relevant = (np.concatenate(column) for column in zip(*parts, strict=True))
            found = scores @ model.threshold_coef_ + model.threshold_intercept_[0]
            np.testing.assert_allclose(found, predicted_thresholds(scores, relevant), atol=1e-2)
        else:
            found = [largest_f1(scores.T, relevant.T, np.ones(len(scores))) for scores, relevant in parts]
            np.testing.assert_allclose(model.threshold_intercept_, np.mean(found, axis=0), atol=1e-2)

    @pytest.mark.parametrize("max_part_scores", [None, 60])
    def test_every_model_of_a_path_has_its_own(self, monkeypatch, max_part_scores):
        if max_part_scores is not None:  # in blocks of ten items
            small = partial(steps.build_objective, max_part_scores=max_part_scores, block_scores=40)
            monkeypatch.setattr(steps, "build_objective", small)
        path = crf_path(MultilabelRanker(tol=1e-6), X, TABLE, grid=Grid(3, ratio=0.1, inner_tol=1e-6))
        for fitted in path.models[1:]:
            alone = MultilabelRanker(group_l1=fitted.group_l1, tol=1e-6).fit(X, TABLE)
            np.testing.assert_allclose(fitted.threshold_intercept_, alone.threshold_intercept_, atol=0.01)
            np.testing.assert_allclose(fitted.threshold_coef_, alone.threshold_coef_, atol=0.01)
            assert fitted.predict(X).shape == TABLE.shape


class TestFiles:
    @pytest.mark.parametrize(
        ("settings", "y"),
        [
            ({}, TABLE), ({"threshold": "label", "cv": 2}, sp.csr_array(TABLE)), ({"solver": "bcd"}, SETS),
            ({"cv": KFold(2)}, LETTERS[X[:, :4].argmax(axis=1)]),
        ],
        ids=["table", "sparse", "sets", "labels"],
    )  # fmt: skip
    def test_everything_comes_back(self, settings, y, tmp_path):
        model = MultilabelRanker(**settings).fit(X, y)
        model.save(tmp_path / "model")
        loaded = crfqn.load(tmp_path / "model")
        same = {name: value for name, value in model.get_params().items() if name != "cv"}
        assert {name: loaded.get_params()[name] for name in same} == same
        assert loaded.cv == (2 if settings.get("cv") == 2 else None)
        assert loaded.decision_function(X).tobytes() == model.decision_function(X).tobytes()
        assert type(loaded.predict(X)) is type(model.predict(X))
        assert loaded.predict_sets(X) == model.predict_sets(X)
        assert loaded.score(X, y) == model.score(X, y)

    def test_a_file_that_does_not_fit_together(self, model, tmp_path):
        model.save(tmp_path / "model")
        file = read_model(tmp_path / "model")
        for arrays, metadata, message in (
            ({"threshold_coef": np.zeros(3)}, {}, "threshold_coef"),
            ({}, {"form": "heap"}, "expected a form of labels"),
        ):
            write_model(
                tmp_path / "model", file.kind, file.arrays | arrays, file.strings, file.metadata | metadata
            )
            with pytest.raises(ModelFileError, match=message):
                crfqn.load(tmp_path / "model")


class TestMessages:
    @pytest.mark.parametrize(
        ("y", "message"),
        [
            (2 * TABLE, r"^expected a table of 0 and 1, items by labels, got an entry 2$"),
            (TABLE + X[:, :4].astype(int) ** 2, "got multiclass-multioutput of shape"),
            (X[:, :4], "got continuous-multioutput of shape"),
            (X[:, 0], "Unknown label type: continuous"),
            ([set()] * 80, r"^expected one or more labels, got none$"),
            ([{"a", 1}, *SETS[1:]], r"^expected labels of one kind"),
            (SETS[1:], "inconsistent numbers of samples"),
            (TABLE[1:], "inconsistent numbers of samples"),
            (None, "requires y to be passed"),
        ],
        ids=["twos", "numbers", "reals", "continuous", "none", "mixed", "short", "short table", "nothing"],
    )  # fmt: skip
    def test_labels(self, y, message):
        with pytest.raises(ValueError, match=message):
            MultilabelRanker().fit(X, y)

    @pytest.mark.parametrize(("settings", "message"), [
        ({"threshold": "global"}, r"^threshold: expected one of \['item', 'label'\], got 'global'$"),
        ({"class_weight": {9: 2.0}}, r"^class_weight: no item has the label 9"),
        ({"l1": 1.0}, r"^l1: the penalty 'l1/l2' has none"),
    ], ids=str)  # fmt: skip
    def test_parameters(self, settings, message):
        with pytest.raises(InputError, match=message):
            MultilabelRanker(**settings).fit(X, TABLE)

    def test_of_fitted_models(self, model):
        with pytest.raises(InputError, match=r"^k: expected an integer from 1 to 4, got 5$"):
            model.rank(X, 5)
        with pytest.raises(
            InputError, match=r"^expected a table of 4 columns or label sets, got table of 3$"
        ):
            model.score(X, TABLE[:, :3])
        named = MultilabelRanker().fit(X, SETS)
        with pytest.raises(InputError, match=r"label 'z' is not among the 4 known classes"):
            named.score(X, [{"z"}, *SETS[1:]])

"""MulticlassClassifier: optima by definition and against scikit-learn, intercepts, weights, selection, paths, files."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from callers import is_at_line_of
from margin_references import MarginProblem, optimum, penalty_value
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LogisticRegression

import crfqn
from crfqn import ChainCRF, MulticlassClassifier, MulticlassCRF, TaxonomyCRF, crf_path
from crfqn.data.model_file import read_model, write_model
from crfqn.errors import InputError, ModelFileError
from crfqn.penalties import GroupLasso
from crfqn.regularization_path import Grid
from crfqn.result import Status
from crfqn.solvers.automatic import auto_solver
from crfqn.solvers.coordinate.row_descent import RowDescent
from crfqn.solvers.quasi_newton.lbfgs import LBFGS

RNG = np.random.default_rng(7)
X = RNG.normal(size=(60, 8)) * (RNG.random((60, 8)) < 0.5)
Y = np.argmax(X[:, :3] + 0.7 * RNG.gumbel(size=(60, 3)) + [0.0, 0.6, -0.4], axis=1)
NAMES = np.array(["b", "a", "c"])[Y]
CODES = {"squared-hinge": "multiclass", "multitask-squared-hinge": "multitask", "logistic": "logistic"}
PENALTIES = {  # (l1, l2, group_l1), norm
    "l1/l2": ((0.0, 0.0, 2.0), "l2"),
    "l1/linf": ((0.0, 0.0, 3.0), "linf"),
    "sparse-group": ((0.4, 0.0, 1.2), "l2"),
    "l1": ((0.8, 0.0, 0.0), "l2"),
    "elastic-net": ((0.5, 0.7, 0.0), "l2"),
    "l2": ((0.0, 1.5, 0.0), "l2"),
}
every_loss = pytest.mark.parametrize("loss", CODES)
TIGHT = {"group_l1": 1.0, "l2": 0.3, "tol": 1e-9}  # strongly convex: one optimum


def settings_of(penalty):
    (l1, l2, group_l1), _ = PENALTIES[penalty]
    return {"penalty": penalty} | {
        name: value for name, value in (("l1", l1), ("l2", l2), ("group_l1", group_l1)) if value
    }


def fitted(**settings) -> MulticlassClassifier:
    return MulticlassClassifier(**settings).fit(X, Y)


def problem_of(loss, x=X, y=Y, weights=None) -> MarginProblem:
    sets = np.eye(3, dtype=np.int64)[y]
    return MarginProblem(CODES[loss], x, sets, np.ones(len(y)) if weights is None else weights)


def objective(model, strengths, norm, x=X, y=Y, weights=None) -> float:
    """What the estimator says that it minimises, by the losses' definitions, of its public attributes."""
    table = np.c_[model.coef_.toarray(), model.intercept_].T
    loss, _ = problem_of(model.loss, np.c_[x, np.ones(len(x))], y, weights).evaluate(table)
    return loss + penalty_value(table if model.penalize_intercept else table[:-1], strengths, norm)


@dataclass
class Shown:
    """What a choice of a solver sees of an objective: this share of the entries is not zero, and there are rows."""

    share: float
    n_coords: int = 10**6
    n_positions: int = 1000
    is_convex: bool = True

    @property
    def mean_occurrence(self) -> float:
        return self.share * self.n_positions

    def view(self, kind: type) -> None:
        return None

    check_state = view


class TestOptimum:
    @every_loss
    @pytest.mark.parametrize("penalty", PENALTIES)
    def test_it_is_that_of_the_definition(self, loss, penalty):
        model = fitted(loss=loss, **settings_of(penalty), fit_intercept=False, tol=1e-7, stop="certificate")
        strengths, norm = PENALTIES[penalty]
        assert model.result_.status is Status.CONVERGED
        assert model.result_.gap <= 1e-7
        assert model.result_.value == pytest.approx(objective(model, strengths, norm), rel=1e-12)
        best, _ = optimum(problem_of(loss), strengths, norm)
        assert model.result_.value == pytest.approx(best, rel=1e-6)

    @pytest.mark.parametrize("solver", ["bcd", "prox-qn", "fista", "spa-rsa"])
    def test_solvers_agree(self, solver):
        model = fitted(loss="logistic", solver=solver, group_l1=2.0, fit_intercept=False, tol=1e-6)
        best, _ = optimum(problem_of("logistic"), *PENALTIES["l1/l2"])
        assert model.result_.value == pytest.approx(best, rel=1e-6)

    def test_pure_l2_is_that_of_scikit_learn(self):
        theirs = LogisticRegression(C=0.5, tol=1e-10, max_iter=10_000).fit(X, Y)
        model = fitted(loss="logistic", penalty="l2", l2=2.0, tol=1e-7)
        np.testing.assert_allclose(model.coef_.toarray(), theirs.coef_, atol=1e-5)
        np.testing.assert_allclose(model.intercept_, theirs.intercept_ - theirs.intercept_.mean(), atol=1e-5)
        np.testing.assert_allclose(model.predict_proba(X), theirs.predict_proba(X), atol=1e-5)

    def test_the_logistic_loss_is_the_flat_crf(self):
        crf = MulticlassCRF(penalty="l1/l2", group_l1=2.0, tol=1e-6).fit(X, NAMES)
        model = MulticlassClassifier(loss="logistic", group_l1=2.0, tol=1e-6).fit(X, NAMES)
        assert model.result_.value == crf.result_.value
        assert model.coef_.data.tobytes() == crf.coef_.data.tobytes()
        np.testing.assert_array_equal(model.predict_log_proba(X), crf.predict_log_proba(X))
        np.testing.assert_array_equal(model.predict_top(X, 2).labels, crf.predict_top(X, 2).labels)

    def test_rows_vanish_as_a_whole(self):
        model = fitted(group_l1=8.0)
        assert 0 < model.kept_features_.size < 8
        rows = np.count_nonzero(model.coef_.toarray(), axis=0)
        assert set(rows) == {0, 3}
        np.testing.assert_array_equal(np.flatnonzero(rows), model.kept_features_)
        assert model.sparsify() is model
        assert isinstance(model.coef_, sp.csr_array)

    def test_automatic_solvers(self):
        few = fitted(group_l1=2.0)
        assert few.result_.n_iter == fitted(group_l1=2.0, solver="prox-qn").result_.n_iter
        for loss, at_half, at_a_fifth in (
            ("squared-hinge", auto_solver.FOR_MARGINS, "bcd"),
            ("multitask-squared-hinge", auto_solver.FOR_MARGINS, auto_solver.FOR_MARGINS),
            ("logistic", auto_solver.FOR_LIKELIHOODS, auto_solver.FOR_LIKELIHOODS),
        ):
            for share, solver in ((0.6, at_half), (0.2, at_a_fifth), (0.01, "bcd")):
                choice = replace(MulticlassClassifier(loss=loss).make_solver(), few_weights=0)
                found = choice.chosen(Shown(share), GroupLasso(1.0, n_features=2, n_states=2))
                named = MulticlassClassifier(solver=solver).make_solver()
                assert repr(found) == repr(named), (loss, share)

    def test_smooth_penalties_are_for_l_bfgs(self):
        for settings in ({"penalty": "l2"}, {"l1": 0.0, "l2": 0.5}):
            model = MulticlassCRF(**settings).fit(X, NAMES)
            other = MulticlassCRF(**settings, solver="l-bfgs").fit(X, NAMES)
            assert isinstance(model.make_solver().smooth, LBFGS)
            np.testing.assert_allclose(model.coef_.toarray(), other.coef_.toarray(), rtol=1e-4, atol=1e-5)

    def test_seeds_reach_the_solvers(self):
        assert isinstance(MulticlassClassifier(solver="bcd", random_state=3).make_solver(), RowDescent)
        assert MulticlassClassifier(random_state=3).make_solver().sparse.seed > 0
        assert MulticlassClassifier().make_solver().sparse.seed == 0
        assert MulticlassClassifier(solver="bcd-constant", random_state=3).make_solver().seed > 0


@cache
def least_with_a_large_constant(loss) -> float:
    """The least objective where a feature of 100 in every item takes the place of intercepts."""
    scaled = problem_of(loss, np.c_[X, np.full(len(X), 100.0)])
    return optimum(scaled, (0, 0, 2.0), "l2", n_steps=20_000)[0]


class TestIntercept:
    @every_loss
    @pytest.mark.parametrize("solver", ["bcd", "prox-qn"])
    def test_it_is_unpenalised(self, loss, solver):
        """Its gradient is zero; the optimum is that of a feature whose strength is nothing beside its values."""
        model = fitted(loss=loss, solver=solver, group_l1=2.0, tol=1e-6)
        table = np.c_[model.coef_.toarray(), model.intercept_].T
        _, gradient = problem_of(loss, np.c_[X, np.ones(len(X))]).evaluate(table)
        assert np.abs(gradient[-1]).max() <= 2.0 * 1e-6
        assert model.result_.gap <= 1e-6
        assert model.result_.value == pytest.approx(objective(model, (0, 0, 2.0), "l2"), rel=1e-12)
        best = least_with_a_large_constant(loss)
        assert model.result_.value <= best * (1 + 1e-6)
        assert best <= model.result_.value + 2.0 * np.linalg.norm(model.intercept_) / 100.0 + 1e-6

    def test_it_sums_up_to_nothing_unless_classes_stand_alone(self):
        assert abs(fitted().intercept_.sum()) < 1e-12
        assert abs(fitted(loss="multitask-squared-hinge").intercept_.sum()) > 0.1

    @pytest.mark.filterwarnings("ignore::crfqn.errors.EmptyModelWarning")
    def test_it_is_all_that_is_left_under_a_strong_penalty(self):
        model = fitted(loss="logistic", group_l1=1e6, tol=1e-10)
        assert model.coef_.nnz == 0
        np.testing.assert_allclose(model.predict_proba(X[:1])[0], np.bincount(Y) / Y.size, atol=1e-6)

    def test_with_a_penalty_it_is_a_feature_that_is_always_1(self):
        model = fitted(penalize_intercept=True, group_l1=2.0)
        wider = MulticlassClassifier(group_l1=2.0, fit_intercept=False).fit(np.c_[X, np.ones(len(X))], Y)
        np.testing.assert_allclose(wider.coef_.toarray()[:, -1], model.intercept_, atol=1e-4)
        assert max(model.result_.gap, wider.result_.gap) <= 1e-3
        assert model.result_.value == pytest.approx(objective(model, (0, 0, 2.0), "l2"), rel=1e-12)


class TestWeights:
    @pytest.mark.filterwarnings("ignore:stopped. rounding:sklearn.exceptions.ConvergenceWarning")
    @pytest.mark.parametrize("class_weight", [None, "balanced", {0: 2.0, 2: 0.0}], ids=str)
    @pytest.mark.parametrize("solver", ["bcd", "prox-qn"])
    def test_weights_are_repetitions(self, class_weight, solver):
        counts = np.random.default_rng(0).integers(0, 4, len(X))
        again = np.repeat(np.arange(len(X)), counts)
        settings = {**TIGHT, "class_weight": class_weight, "solver": solver}
        weighted = MulticlassClassifier(**settings).fit(X, Y, sample_weight=counts)
        repeated = MulticlassClassifier(**settings).fit(sp.csr_array(X[again]), Y[again])
        assert weighted.classes_.tolist() == repeated.classes_.tolist()
        assert weighted.result_.value == pytest.approx(repeated.result_.value, rel=1e-9)
        np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-5)

    def test_weights_of_classes_are_weights_of_their_items(self):
        factors, own = {0: 3.0, 2: 0.5}, np.linspace(0.5, 2.0, len(X))
        model = MulticlassClassifier(class_weight=factors, group_l1=2.0).fit(X, Y, sample_weight=own)
        weights = own * [factors.get(label, 1.0) for label in Y]
        expected = objective(model, (0, 0, 2.0), "l2", weights=weights)
        assert model.result_.value == pytest.approx(expected, rel=1e-12)

    def test_weight_0_is_left_out_with_the_labels_that_only_it_has(self):
        more, y = np.r_[X, 9 * np.ones((2, 8))], np.r_[Y, 99, 0]
        other = MulticlassClassifier().fit(more, y, sample_weight=np.r_[np.ones(len(X)), 0, 0])
        assert other.classes_.tolist() == [0, 1, 2]
        assert other.coef_.toarray().tobytes() == fitted().coef_.toarray().tobytes()


class TestPrediction:
    @pytest.mark.parametrize("make", [np.asarray, sp.csr_array, sp.csc_array], ids=["dense", "csr", "csc"])
    @pytest.mark.filterwarnings("ignore::crfqn.errors.UnknownFeaturesWarning")
    def test_the_ways_to_predict_agree(self, make):
        model = MulticlassClassifier(loss="logistic", group_l1=8.0).fit(make(X), NAMES)
        scores = X @ model.coef_.toarray().T + model.intercept_
        np.testing.assert_allclose(model.decision_function(make(X)), scores, atol=1e-12)
        np.testing.assert_array_equal(model.predict(make(X)), model.classes_[scores.argmax(axis=1)])
        np.testing.assert_allclose(model.predict_proba(make(X)).sum(axis=1), 1.0)
        np.testing.assert_allclose(np.exp(model.predict_log_proba(make(X))), model.predict_proba(make(X)))
        assert model.score(make(X), NAMES) == np.mean(model.predict(make(X)) == NAMES) > 0.5

    @pytest.mark.parametrize("make", [np.asarray, sp.csr_array, sp.csc_array], ids=["dense", "csr", "csc"])
    @pytest.mark.filterwarnings("ignore::crfqn.errors.UnknownFeaturesWarning")
    def test_it_reads_kept_features_only(self, make, monkeypatch):
        from crfqn.model import compiled_engine as scoring

        model, read = fitted(group_l1=8.0), []
        build = scoring.FeatureStore.from_matrix
        monkeypatch.setattr(
            scoring.FeatureStore,
            "from_matrix",
            lambda part, *a, **k: read.append(part.shape) or build(part, *a, **k),
        )
        multiply = scoring.Scorer._products

        def products(scorer, rows, table, columns):
            read.append((rows.shape[0], table.shape[1]))
            return multiply(scorer, rows, table, columns)

        monkeypatch.setattr(scoring.Scorer, "_products", products)
        model.BLOCK_NUMBERS = 3 * 25
        np.testing.assert_array_equal(model.predict(make(X)), model.classes_[
            (X @ model.coef_.toarray().T + model.intercept_).argmax(axis=1)
        ])  # fmt: skip
        n_kept = model.kept_features_.size
        if 2 * n_kept >= X.shape[1]:  # a copy of most columns costs more
            n_kept = X.shape[1]
        assert read == [(25, n_kept), (25, n_kept), (10, n_kept)]

    def test_changed_weights_are_seen_by_products(self):
        model = MulticlassClassifier(loss="logistic", penalty="l2").fit(X, Y)
        model.predict(X)
        model.coef_.data *= -1.0
        expected = X @ model.coef_.toarray().T + model.intercept_
        np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-12)
        model.coef_.data[::3] = 0.0
        model.coef_.eliminate_zeros()
        expected = X @ model.coef_.toarray().T + model.intercept_
        np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-12)

    @pytest.mark.filterwarnings("ignore::crfqn.errors.EmptyModelWarning")
    @pytest.mark.filterwarnings("ignore::crfqn.errors.UnknownFeaturesWarning")
    def test_nothing_is_kept(self):
        model = fitted(group_l1=1e6)
        assert model.kept_features_.size == 0
        assert set(model.predict(sp.csr_array(X))) == {int(np.bincount(Y).argmax())}

    def test_probabilities_are_those_of_the_logistic_loss(self):
        assert hasattr(MulticlassClassifier(loss="logistic"), "predict_proba")
        model = fitted()
        assert not hasattr(model, "predict_proba")
        with pytest.raises(AttributeError, match=r"probabilities are those of loss='logistic'"):
            model.predict_log_proba(X)


class TestSelection:
    @pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "csr"])
    def test_select_from_model(self, make):
        selector = SelectFromModel(MulticlassClassifier(group_l1=8.0), threshold=1e-9).fit(make(X), Y)
        kept = selector.estimator_.kept_features_
        np.testing.assert_array_equal(np.flatnonzero(selector.get_support()), kept)
        reduced = selector.transform(make(X))
        assert reduced.shape == (60, kept.size)
        again = MulticlassClassifier(group_l1=8.0, tol=1e-6).fit(reduced, Y)
        assert again.result_.value == pytest.approx(fitted(group_l1=8.0, tol=1e-6).result_.value, rel=1e-6)

    def test_its_own_thresholds(self):
        sizes = np.abs(fitted(group_l1=2.0).coef_.toarray()).sum(axis=0)
        support = SelectFromModel(MulticlassClassifier(group_l1=2.0)).fit(X, Y).get_support()
        np.testing.assert_array_equal(support, sizes >= sizes.mean())
        lasso = SelectFromModel(MulticlassClassifier(penalty="l1", l1=6.0)).fit(X, Y)
        np.testing.assert_array_equal(np.flatnonzero(lasso.get_support()), lasso.estimator_.kept_features_)


class TestStart:
    def test_warm_start_with_another_strength(self):
        cold = fitted(group_l1=1.8, tol=1e-6, solver="bcd")
        warm = fitted(group_l1=1.85, tol=1e-6, solver="bcd", warm_start=True)
        warm.set_params(group_l1=1.8).fit(X, Y)
        assert warm.n_iter_ < cold.n_iter_
        assert warm.result_.value == pytest.approx(cold.result_.value, rel=1e-6)
        assert warm.fit(X, Y).n_iter_ <= 1

    def test_from_a_model_of_another_loss(self):
        start = fitted(loss="logistic", tol=1e-6)
        model = MulticlassClassifier(callback=lambda row: True)
        with pytest.warns(ConvergenceWarning, match="a callback asked for it"):
            model.fit(X, Y, start=start)  # it ends where it starts
        np.testing.assert_allclose(model.coef_.toarray(), start.coef_.toarray(), rtol=1e-15)
        np.testing.assert_allclose(model.intercept_, start.intercept_, atol=1e-15)

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_from_the_labels_and_features_in_common(self):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(X, columns=list("abcdefgh"))
        start = MulticlassClassifier().fit(frame[list("gfeab")], np.where(NAMES == "c", "z", NAMES))
        model = MulticlassClassifier(callback=lambda row: True, fit_intercept=False)
        model.fit(frame, NAMES, start=start)
        coef, old = model.coef_.toarray(), start.coef_.toarray()
        assert (coef[2] == 0).all()  # label c is new
        np.testing.assert_array_equal(coef[:2, [6, 5, 4, 0, 1]], old[:2])
        assert (coef[:, [2, 3, 7]] == 0).all()

    @pytest.mark.parametrize(
        ("start", "message"),
        [
            (5, r"^start: expected a MulticlassClassifier, .*, got int$"),
            (ChainCRF(), r"^start: expected a MulticlassClassifier, .*, got ChainCRF$"),
            (MulticlassClassifier(), "is not fitted yet"),
            (lambda: TaxonomyCRF().fit(X, Y), r"^start: expected a model with weights of its classes"),
            (lambda: MulticlassCRF().fit(X[:, 1:], Y), r"^start: expected a model of 8 features, .*, got one of 7$"),
        ],
        ids=["int", "chain", "not fitted", "taxonomy", "columns"],
    )  # fmt: skip
    def test_starts_that_do_not_fit(self, start, message):
        with pytest.raises((InputError, NotFittedError), match=message):
            MulticlassClassifier().fit(X, Y, start=start() if callable(start) else start)

    def test_warnings_come_from_the_caller(self):
        with pytest.warns(ConvergenceWarning, match=r"limit of iterations") as caught:
            MulticlassClassifier(max_iter=1, tol=1e-9).fit(X, Y)
        (warning,) = caught
        assert is_at_line_of(warning, __file__)


class TestPath:
    @pytest.mark.parametrize(
        ("settings", "path_parameter"),
        [
            ({}, "group_l1"), ({"solver": "bcd"}, "group_l1"), ({"penalty": "sparse-group", "l1": 0.3}, "group_l1"),
            ({"penalty": "l1/linf", "loss": "logistic"}, "group_l1"), ({"penalty": "l1"}, "l1"),
            ({"penalty": "l1", "solver": "bcd", "fit_intercept": False}, "l1"),
        ],
        ids=str,
    )  # fmt: skip
    @pytest.mark.filterwarnings("ignore::crfqn.errors.EmptyModelWarning")
    def test_every_value_is_an_optimum(self, settings, path_parameter):
        path = crf_path(
            MulticlassClassifier(**settings, tol=1e-6), X, Y, grid=Grid(4, ratio=0.1, inner_tol=1e-6)
        )
        values = getattr(path, path_parameter)
        assert path.path_parameter == path_parameter
        assert values[0] == path.l1_max
        assert path.models[0].kept_features_.size == 0 < path.models[1].kept_features_.size
        for model, value, found in zip(path.models, values, path.value, strict=True):
            cold = MulticlassClassifier(**{**settings, path_parameter: value}, tol=1e-6).fit(X, Y)
            assert found == pytest.approx(cold.result_.value, rel=3e-6)
            assert getattr(model, path_parameter) == value
        below = MulticlassClassifier(**{**settings, path_parameter: 0.98 * path.l1_max}, tol=1e-6).fit(X, Y)
        assert below.kept_features_.size > 0

    @pytest.mark.filterwarnings("ignore:the best score is that of the smallest")
    def test_values_that_are_given(self):
        path = crf_path(MulticlassClassifier(), X, Y, grid=Grid(group_l1=[1, 4]), validation=(X, Y))
        assert path.group_l1.tolist() == [4.0, 1.0]
        assert path.l1.tolist() == [0.0, 0.0]
        assert [next(iter(row)) for row in path.rows()] == ["group_l1"] * 2
        assert path.best_model.score(X, Y) == path.score.max()
        mixed = crf_path(MulticlassCRF(penalty="sparse-group", l1=0.5), X, Y, grid=Grid(group_l1=[2.0]))
        assert (mixed.models[0].l1, mixed.models[0].group_l1) == (0.5, 2.0)

    def test_a_penalty_without_a_strength_to_vary(self):
        with pytest.raises(
            InputError, match=r"^penalty: expected one with l1 or group_l1 to vary, got 'l2'$"
        ):
            crf_path(MulticlassClassifier(penalty="l2"), X, Y)


class TestFiles:
    @pytest.mark.parametrize(
        "settings",
        [
            {}, {"loss": "logistic", "penalty": "sparse-group", "l1": 0.2, "class_weight": {"a": 2.0}},
            {"penalty": "l1", "solver": "bcd", "fit_intercept": False, "max_seconds": 60.0},
        ],
        ids=str,
    )  # fmt: skip
    def test_everything_comes_back(self, settings, tmp_path):
        model = MulticlassClassifier(**settings).fit(X, NAMES)
        model.save(tmp_path / "model")
        loaded = crfqn.load(tmp_path / "model")
        assert loaded.get_params() == model.get_params()
        assert loaded.decision_function(X).tobytes() == model.decision_function(X).tobytes()
        assert loaded.predict(X).tolist() == model.predict(X).tolist()
        assert loaded.kept_features_.tolist() == model.kept_features_.tolist()
        assert loaded.result_.value == model.result_.value
        assert loaded.set_params(warm_start=True).fit(X, NAMES).n_iter_ <= 1

    def test_an_unknown_loss_in_a_file(self, tmp_path):
        fitted().save(tmp_path / "model")
        file = read_model(tmp_path / "model")
        settings = file.metadata["settings"] | {"loss": "huber"}
        write_model(
            tmp_path / "model", file.kind, file.arrays, file.strings, file.metadata | {"settings": settings}
        )
        with pytest.raises(ModelFileError, match=r"model: settings: loss: expected one of .*, got 'huber'"):
            crfqn.load(tmp_path / "model")
        write_model(
            tmp_path / "model", file.kind, file.arrays, file.strings, file.metadata | {"settings": {}}
        )
        with pytest.raises(ModelFileError, match="settings: "):
            crfqn.load(tmp_path / "model")


class TestMessages:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"loss": "huber"}, r"^loss: expected one of \['squared-hinge', .*\], got 'huber'$"),
            ({"penalty": "lasso"}, r"^penalty: expected one of \['l1/l2', .*\], got 'lasso'$"),
            ({"penalty": None}, r"^penalty: expected one of .*, got None$"),
            ({"l1": 0.5}, r"^l1: the penalty 'l1/l2' has none, its strength is group_l1; 'sparse-group' and 'l1' and "),
            ({"penalty": "l1", "group_l1": 2.0}, r"^group_l1: the penalty 'l1' has none, its strength is l1"),
            ({"group_l1": -1.0}, r"^group_l1: expected None, 'auto' or a finite number >= 0, got -1.0$"),
            ({"l2": np.nan}, r"^l2: expected None or a finite number >= 0, got nan$"),
            ({"solver": "adam"}, r"^solver: expected one of \[.*'auto', .*'bcd', .*\] or a solver object, got 'adam'$"),
            ({"solver": "sgd"}, r"^SGDL1 cannot train this: learning item by item needs a likelihood"),
            ({"solver": "l-bfgs"}, r"^LBFGS needs a penalty .* without L1 and groups"),
            ({"tol": -1}, r"^tol: expected 'auto' or a finite number >= 0, got -1$"),
            ({"fit_intercept": 1}, r"^fit_intercept: expected True or False, got 1$"),
        ],
        ids=str,
    )  # fmt: skip
    def test_parameters(self, settings, message):
        model = MulticlassClassifier(**settings)
        with pytest.raises(InputError, match=message):
            model.fit(X, Y)
        assert not hasattr(model, "coef_")

    def test_labels(self):
        with pytest.raises(InputError, match=r"label sets for MultilabelRanker$"):
            MulticlassClassifier().fit(X, np.eye(60, 3, dtype=int))

    def test_strengths_that_the_name_does_not_have_may_be_zero(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert fitted(l1=0.0, l2=0.0).result_.value == fitted().result_.value

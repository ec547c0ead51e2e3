"""Generalised, calibrated and stagewise least squares: what they minimise, stages, streams, files, refusals, Ctrl-C."""

from __future__ import annotations

import pickle
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import PolynomialFeatures

import crfqn
from crfqn import CalibratedLeastSquares, GeneralizedLeastSquares, MulticlassClassifier, StagewiseRegression
from crfqn.errors import InputError, ModelFileError
from crfqn.objectives.losses.potentials import Potential
from crfqn.papers import agarwal2014
from crfqn.papers.agarwal2014 import fits, stagewise
from crfqn.papers.agarwal2014.generalized import clipped
from crfqn.papers.agarwal2014.generators import (
    ByFrequency,
    Projections,
    RandomFourier,
    RandomProjections,
    RandomSubsets,
    median_distance,
)

X, Y = load_digits(return_X_y=True)
X = X / 16.0
TRAIN, TEST = slice(0, 400), slice(400, 700)
SETS = (np.random.default_rng(0).normal(size=(90, 3)) > 0).astype(int)
SET_X = SETS @ np.random.default_rng(1).normal(size=(3, 5)) + 0.1 * np.random.default_rng(2).normal(
    size=(90, 5)
)
pytestmark = pytest.mark.filterwarnings("ignore:stopped:sklearn.exceptions.ConvergenceWarning")  # few stages
STAGED = [
    CalibratedLeastSquares(max_iter=6, early_stopping=False),
    *(StagewiseRegression(batch_size=40, max_iter=4, update=u) for u in ("calibrated", "linear", "logistic")),
    *(
        StagewiseRegression(batch_size=15, max_iter=6, generator=g)
        for g in ("subsets", "frequency", "projections")
    ),
    StagewiseRegression(batch_size=30, max_iter=2, generator=RandomProjections("tanh"), fit_intercept=False),
]


def fitted(model, part=TRAIN):
    return type(model)(**model.get_params()).fit(X[part], Y[part])


class TestGeneralized:
    def test_the_identity_is_ridge_regression(self):
        model = GeneralizedLeastSquares(l2=3.0, link="identity").fit(X[TRAIN], Y[TRAIN])
        ridge = Ridge(alpha=3.0).fit(X[TRAIN], np.eye(10)[Y[TRAIN]])
        np.testing.assert_allclose(model.decision_function(X[TEST]), ridge.predict(X[TEST]), atol=1e-8)
        assert model.result_.status.name == "CONVERGED"
        p = model.predict_proba(X[TEST])
        np.testing.assert_allclose(p, clipped(ridge.predict(X[TEST]).T, True).T, atol=1e-8)

    def test_the_softmax_is_logistic_regression(self):
        model = GeneralizedLeastSquares(l2=2.0, tol=1e-5).fit(X[TRAIN], Y[TRAIN])
        other = LogisticRegression(C=0.5, tol=1e-8, max_iter=3000).fit(X[TRAIN], Y[TRAIN])
        np.testing.assert_allclose(model.predict_proba(X[TEST]), other.predict_proba(X[TEST]), atol=5e-3)
        twin = MulticlassClassifier(loss="logistic", penalty="l2", l2=2.0, tol=1e-5, solver="gls")
        assert twin.fit(X[TRAIN], Y[TRAIN]).result_.value == pytest.approx(model.result_.value, rel=2e-5)

    def test_several_labels(self):
        model = GeneralizedLeastSquares(l2=0.1).fit(SET_X, SETS)
        assert model.score(SET_X, SETS) > 0.9
        assert ((model.predict_proba(SET_X) >= 0.5) == model.predict(SET_X)).all()
        names = [{"abc"[k] for k in np.flatnonzero(row)} for row in SETS]
        named = GeneralizedLeastSquares(l2=0.1).fit(SET_X, names)
        assert [set(labels) for labels in named.predict_sets(SET_X)] == [
            {"abc"[k] for k in np.flatnonzero(row)} for row in model.predict(SET_X)
        ]
        single = [
            GeneralizedLeastSquares(l2=0.1, link="sigmoid", tol=1e-8).fit(SET_X, column) for column in SETS.T
        ]
        np.testing.assert_allclose(
            single[1].predict_proba(SET_X)[:, 1],
            GeneralizedLeastSquares(l2=0.1, tol=1e-8).fit(SET_X, SETS).predict_proba(SET_X)[:, 1],
            atol=0.05,
        )
        with pytest.raises(InputError, match='"softmax" is for one label an item'):
            GeneralizedLeastSquares(link="softmax").fit(SET_X, SETS)

    def test_files(self, tmp_path):
        model = GeneralizedLeastSquares(link="sigmoid").fit(X[TRAIN], Y[TRAIN])
        model.save(tmp_path / "m.crfqn")
        again = crfqn.load(tmp_path / "m.crfqn")
        assert again.get_params() == model.get_params()
        assert again.predict_proba(X[TEST]).tobytes() == model.predict_proba(X[TEST]).tobytes()

    def test_a_link_of_ones_own(self, tmp_path):
        @dataclass(frozen=True)
        class Steep(Potential):
            def value(self, scores):
                return 0.25 * np.square(scores).sum(axis=0)

            def gradient(self, scores):
                return 0.5 * scores

        model = GeneralizedLeastSquares(link=Steep(), l2=1.0, tol=1e-6).fit(X[TRAIN], Y[TRAIN])
        identity = GeneralizedLeastSquares(link="identity", l2=2.0).fit(X[TRAIN], Y[TRAIN])
        np.testing.assert_allclose(
            0.5 * model.decision_function(X[TEST]), identity.decision_function(X[TEST]), atol=1e-3
        )
        with pytest.raises(InputError, match="a model file holds links by name"):
            model.save(tmp_path / "m.crfqn")


class TestStages:
    @pytest.mark.parametrize("model", STAGED, ids=str)
    def test_the_training_loss_falls_and_predictions_replay_the_stages(self, model, tmp_path):
        model = fitted(model)
        values = model.result_.trace.value
        assert (np.diff(values) <= 1e-9 * values[0]).all()
        assert values[-1] < 0.5 * values[0]
        staged = list(model.staged_predict(X[TEST]))
        assert len(staged) == model.n_iter_
        np.testing.assert_array_equal(staged[-1], model.predict(X[TEST]))
        *_, last = model.staged_predict_proba(X[TEST])
        np.testing.assert_allclose(last, model.predict_proba(X[TEST]), atol=1e-12)
        np.testing.assert_allclose(last.sum(axis=1), 1.0)
        *_, scores = model.staged_decision_function(X[TEST])
        assert (scores.argmax(axis=1) == model.predict(X[TEST])).all()
        model.save(tmp_path / "m.crfqn")
        again = crfqn.load(tmp_path / "m.crfqn")
        assert again.get_params() == model.get_params()
        assert again.predict_proba(X[TEST]).tobytes() == model.predict_proba(X[TEST]).tobytes()

    @pytest.mark.parametrize("room", [stagewise.MAX_KEPT_NUMBERS, 0])
    def test_rounds_lead_to_the_least_squares_of_all_features(self, room, monkeypatch):
        monkeypatch.setattr(stagewise, "MAX_KEPT_NUMBERS", room)
        settings = {"generator": "frequency", "batch_size": 25, "max_iter": 3, "l2": 5.0}
        once = StagewiseRegression(**settings).fit(X[TRAIN], Y[TRAIN])
        model = StagewiseRegression(**settings, n_rounds=100).fit(X[TRAIN], Y[TRAIN])
        ridge = Ridge(alpha=5.0).fit(X[TRAIN], np.eye(10)[Y[TRAIN]])
        expected = ridge.predict(X[TEST])
        np.testing.assert_allclose(model.decision_function(X[TEST]), expected, atol=1e-6)
        assert np.abs(once.decision_function(X[TEST]) - expected).max() > 0.01
        left = np.eye(10)[Y[TRAIN]] - model.decision_function(X[TRAIN])
        assert model.result_.value == pytest.approx(0.5 * np.square(left).sum())

    @pytest.mark.parametrize("model", STAGED, ids=str)
    def test_blocks_are_the_whole(self, model):
        class Blocks:
            def __iter__(self):
                return iter(
                    [(X[i : min(i + 150, 400)], Y[i : min(i + 150, 400)]) for i in range(0, 400, 150)]
                )

        model = fitted(model)
        twin = type(model)(**model.get_params()).fit_blocks(Blocks())
        np.testing.assert_allclose(twin.predict_proba(X[TEST]), model.predict_proba(X[TEST]), atol=1e-5)

    @pytest.mark.parametrize(
        "form", [np.array, sp.csr_array, lambda y: [set(np.flatnonzero(row)) for row in y]]
    )
    def test_blocks_of_several_labels(self, form):
        model = StagewiseRegression(batch_size=10, max_iter=3, update="logistic", early_stopping=True)
        parts = [(SET_X[i : i + 30], form(SETS[i : i + 30])) for i in range(0, 90, 30)]
        model.fit_blocks(parts, validation=(SET_X, form(SETS)))
        assert model.score(SET_X, form(SETS)) == model.validation_score_.max() > 0.8

    @pytest.mark.parametrize("model", STAGED[:2], ids=str)
    def test_sparse_rows_several_labels_and_weights(self, model):
        plain = fitted(model)
        rows = type(model)(**model.get_params()).fit(sp.csr_array(X[TRAIN]), Y[TRAIN])
        np.testing.assert_allclose(rows.predict_proba(X[TEST]), plain.predict_proba(X[TEST]), atol=1e-6)
        several = type(model)(**model.get_params()).fit(SET_X, SETS, validation=(SET_X, SETS))
        assert several.score(SET_X, SETS) == several.validation_score_[-1] > 0.8
        doubled = type(model)(**model.get_params() | {"l2": 2.0})
        doubled.fit(X[TRAIN], Y[TRAIN], sample_weight=np.full(400, 2.0))
        np.testing.assert_allclose(doubled.predict_proba(X[TEST]), plain.predict_proba(X[TEST]), atol=1e-5)

    @pytest.mark.parametrize("model", STAGED[:4], ids=str)
    def test_threads_make_no_difference(self, model):
        found = [fitted(model.set_params(n_threads=n)).predict_proba(X[TEST]) for n in (1, 2)]
        model.set_params(n_threads=None)
        assert found[0].tobytes() == found[1].tobytes()

    def test_early_stopping_and_validation(self):
        model = StagewiseRegression(
            batch_size=60, max_iter=30, l2=0.01, early_stopping=True, n_iter_no_change=2
        )
        model.fit(X[TRAIN], Y[TRAIN], validation=(X[TEST], Y[TEST]))
        assert model.result_.status.name == "STAGES_MADE"
        assert model.n_iter_ == model.validation_score_.argmax() < 30
        assert model.score(X[TEST], Y[TEST]) == model.validation_score_.max()
        own = StagewiseRegression(batch_size=60, max_iter=3, early_stopping=True).fit(X[TRAIN], Y[TRAIN])
        assert own.validation_score_.size == 4

    def test_held_out_items_tell_the_number_of_stages_and_all_are_learnt_from(self):
        x, y = X[:1200], Y[:1200]
        model = CalibratedLeastSquares().fit(x, y)
        assert model.result_.status.name == "STAGES_MADE"
        assert model.n_iter_ < model.validation_score_.size - 1
        plain = CalibratedLeastSquares(early_stopping=False, tol=0.0, max_iter=model.n_iter_)
        with pytest.warns(
            ConvergenceWarning, match=rf"the limit of iterations is reached \({model.n_iter_} stages"
        ):
            plain.fit(x, y)
        assert plain.result_.status.name == "MAX_ITER"
        assert model.predict_proba(X[1200:]).tobytes() == plain.predict_proba(X[1200:]).tobytes()
        assert not hasattr(CalibratedLeastSquares(tol=0.5).fit(X[:500], Y[:500]), "validation_score_")

    def test_the_number_of_calibrated_stages_is_that_of_the_least_held_out_squared_error(self):
        validation = X[1200:], Y[1200:]
        model = CalibratedLeastSquares().fit(X[:1200], Y[:1200], validation=validation)
        n_tried = model.validation_score_.size - 1
        plain = CalibratedLeastSquares(early_stopping=False, tol=0.0, max_iter=n_tried)
        with pytest.warns(ConvergenceWarning):
            plain.fit(X[:1200], Y[:1200], validation=validation)
        targets = validation[1][:, None] == plain.classes_
        errors = [np.square(targets - p).sum() for p in plain.staged_predict_proba(validation[0])]
        assert model.n_iter_ == np.argmin(errors) + 1 == n_tried - model.n_iter_no_change
        np.testing.assert_array_equal(model.validation_score_, plain.validation_score_)

    @pytest.mark.parametrize(("n_features", "n_steps"), [(40_000, 1000), (500, 1000), (500, 1)])
    def test_sparse_features_beyond_what_a_matrix_may_have(self, n_features, n_steps, monkeypatch):
        monkeypatch.setattr(fits, "MAX_CG_STEPS", n_steps)  # after one step a factor is made
        random = np.random.default_rng(0)
        rows = sp.random_array((90, n_features), density=8.0 / n_features, rng=random, format="csr")
        rows += sp.csr_array((np.ones(90), (np.arange(90), np.arange(90) % 3)), rows.shape)
        weights, settings = random.random(90) + 0.5, {"l2": 0.1, "tol": 0.9}
        wide = CalibratedLeastSquares(**settings).fit(rows, np.arange(90) % 3, sample_weight=weights)
        used = np.flatnonzero(rows.sum(axis=0))
        narrow = CalibratedLeastSquares(**settings).fit(
            rows[:, used].toarray(), np.arange(90) % 3, sample_weight=weights
        )
        assert wide.n_iter_ == narrow.n_iter_
        np.testing.assert_allclose(wide.predict_proba(rows), narrow.predict_proba(rows[:, used]), atol=1e-4)

    def test_warm_start_goes_on(self):
        model = StagewiseRegression(batch_size=40, max_iter=2, warm_start=True).fit(X[TRAIN], Y[TRAIN])
        model.set_params(max_iter=4).fit(X[TRAIN], Y[TRAIN])
        straight = StagewiseRegression(batch_size=40, max_iter=4).fit(X[TRAIN], Y[TRAIN])
        assert model.n_iter_ == 4
        np.testing.assert_allclose(model.predict_proba(X[TEST]), straight.predict_proba(X[TEST]), atol=1e-12)

    def test_a_callback_and_an_interrupt_keep_the_stages_so_far(self):
        stop = StagewiseRegression(batch_size=20, callback=lambda progress: progress.iteration == 2)
        assert stop.fit(X[TRAIN], Y[TRAIN]).n_iter_ == 2
        assert stop.result_.status.name == "CALLBACK"

        def interrupt(progress):
            if progress.iteration == 3:
                raise KeyboardInterrupt

        model = StagewiseRegression(batch_size=20, callback=interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X[TRAIN], Y[TRAIN])
        assert model.predict(X[TEST]).shape == (300,)
        assert model.result_.status.name == "INTERRUPTED"

    def test_transformers(self, tmp_path):
        model = StagewiseRegression(generator=PCA(whiten=True), batch_size=12, max_iter=2, update="linear")
        assert model.fit(X[TRAIN], Y[TRAIN]).score(X[TEST], Y[TEST]) > 0.7
        with pytest.raises(InputError, match="a model file holds those of"):
            model.save(tmp_path / "m.crfqn")
        basis = CalibratedLeastSquares(basis=PolynomialFeatures(2, include_bias=False)).fit(
            X[TRAIN], Y[TRAIN]
        )
        assert (np.diff(basis.result_.trace.value) <= 1e-9).all()
        with pytest.raises(InputError, match="no transformers"):
            basis.save(tmp_path / "m.crfqn")

    def test_a_damaged_file(self, tmp_path):
        from crfqn.data.model_file import read_model, write_model

        fitted(STAGED[1]).save(tmp_path / "m.crfqn")
        file = read_model(tmp_path / "m.crfqn")
        file.metadata["source"]["seed"] = -1
        write_model(tmp_path / "m.crfqn", file.kind, file.arrays, file.strings, file.metadata)
        with pytest.raises(ModelFileError, match="source: seed: expected a whole number"):
            crfqn.load(tmp_path / "m.crfqn")


class TestGenerators:
    def test_fourier_features_approximate_the_kernel(self):
        rows = X[:6]
        batch = RandomFourier(scale=8.0).fit([rows], 0).batch(0, 60_000)
        z = batch.transform(rows)
        squares = np.square(rows[:, None] - rows[None]).sum(axis=2)
        np.testing.assert_allclose(2 * z @ z.T / batch.n_features, np.exp(-squares / 8.0), atol=0.02)
        assert batch.transform(rows.astype(np.float32)).dtype == np.float32
        np.testing.assert_allclose(batch.transform(sp.csr_array(rows), np.arange(3)), z[:, :3], atol=1e-12)

    def test_features_of_a_seed_never_change(self):
        """Model files rely on these very numbers."""
        rows = np.eye(2)
        found = RandomFourier(scale=2.0).fit([rows], 7).batch(3, 2).transform(rows)
        random = np.random.RandomState([7, 3])
        omega, shifts = random.normal(size=(2, 2)), random.uniform(0.0, 2.0 * np.pi, 2)
        np.testing.assert_allclose(found, np.cos(omega + shifts), rtol=1e-12)
        again = RandomFourier(scale=2.0).fit([rows], 7)
        same, other = (again.batch(number, 2).transform(rows).tobytes() for number in (3, 4))
        assert same == found.tobytes() != other

    def test_the_scale_is_the_median_distance(self):
        found = RandomFourier().fit([X[:30], X[30:60]], 0)
        squares = np.square(X[:60, None] - X[None, :60]).sum(axis=2)[np.triu_indices(60, 1)]
        assert found.spread == pytest.approx(np.sqrt(2 / np.median(squares)))
        assert median_distance(np.ones((4, 2))) == 1.0

    def test_subsets_without_replacement(self):
        source = RandomSubsets().fit([X], 3)
        first = [source.batch(number, 20).chosen for number in range(4)]
        assert (
            [chosen.size for chosen in first]
            == [source.batch_width(n, 20) for n in range(4)]
            == [20, 20, 20, 4]
        )
        assert sorted(np.concatenate(first)) == list(range(64))
        assert source.batch(4, 20).chosen.tolist() != first[0].tolist()

    def test_the_most_frequent_first(self):
        rows = sp.csr_array(np.array([[1, 0, 2], [0, 0, 3], [5, 1, 1]]))
        source = ByFrequency().fit([rows], 0)
        assert [source.batch(n, 1).chosen.tolist() for n in range(4)] == [[2], [0], [1], [2]]

    @pytest.mark.parametrize("room", [stagewise.MAX_KEPT_NUMBERS, 2 * 64 * 10])
    def test_random_numbers_of_the_first_stages_are_kept_while_there_is_room(self, room, monkeypatch):
        monkeypatch.setattr(stagewise, "MAX_KEPT_NUMBERS", room)
        model = StagewiseRegression(batch_size=10, max_iter=5, random_state=1).fit(X[:200] / 16, Y[:200])
        scores, made, draw = model.decision_function(X[:5] / 16), [], Projections.batch
        monkeypatch.setattr(Projections, "batch", lambda *args: made.append(args[1]) or draw(*args))
        np.testing.assert_array_equal(model.decision_function(X[:5] / 16), scores)
        assert made == [*range(len(model.stages_.batches), 5)]
        assert len(made) == (0 if room > 1e6 else 3)
        copied = pickle.loads(pickle.dumps(model))
        assert copied.stages_.batches == {}
        np.testing.assert_array_equal(copied.decision_function(X[:5] / 16), scores)


class TestSolver:
    def test_it_finds_the_optimum_of_ill_conditioned_features(self):
        random = np.random.default_rng(0)
        q, mix = random.normal(size=(600, 30)), np.linalg.qr(random.normal(size=(30, 30)))[0]
        x = (q * np.geomspace(1.0, 1e-3, 30)) @ mix
        y = (0.3 * q @ random.normal(size=(30, 4)) + random.gumbel(size=(600, 4))).argmax(axis=1)
        settings = {"loss": "logistic", "penalty": "l2", "l2": 1e-2, "tol": 1e-4}
        found = [MulticlassClassifier(**settings, solver=solver).fit(x, y) for solver in ("gls", "l-bfgs")]
        assert found[0].result_.value == pytest.approx(found[1].result_.value, rel=2e-4)


class TestRefusals:
    @pytest.mark.parametrize(
        ("model", "message"),
        [
            (GeneralizedLeastSquares(l2=-1), "l2: expected a finite number >= 0, got -1"),
            (GeneralizedLeastSquares(link="logit"), "link: expected one of"),
            (CalibratedLeastSquares(basis=(2, 3)), "basis: expected powers with 1 among them"),
            (CalibratedLeastSquares(basis="cubic"), "basis: expected powers such as"),
            (StagewiseRegression(update="hinge"), "update: expected one of"),
            (StagewiseRegression(generator="wavelets"), "generator: expected one of"),
            (
                StagewiseRegression(update="calibrated", n_rounds=2),
                "n_rounds: expected 1 with update='calibrated', got 2",
            ),
            (StagewiseRegression(batch_size=0), "batch_size: expected an integer >= 1, got 0"),
            (StagewiseRegression(validation_fraction=1.0), "validation_fraction: expected a number between"),
            (
                StagewiseRegression(generator=RandomFourier(scale=0.0)),
                "scale: expected None or a finite number",
            ),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_parameters(self, model, message):
        with pytest.raises(InputError, match=message):
            model.fit(X[TRAIN], Y[TRAIN])

    def test_blocks(self):
        with pytest.raises(InputError, match="can be read again and again"):
            StagewiseRegression().fit_blocks(part for part in [(X, Y)])
        with pytest.raises(InputError, match="at least one block"):
            StagewiseRegression().fit_blocks([])

        class Shrinking:
            passes = 0

            def __iter__(self):
                self.passes += 1
                return iter([(X[: 400 - self.passes], Y[: 400 - self.passes])])

        with pytest.raises(InputError, match="the same 399 items in every pass, got"):
            StagewiseRegression(batch_size=10).fit_blocks(Shrinking())


CODE = str(Path(agarwal2014.__file__).parent)
ROWS = np.random.default_rng(0).normal(size=(30, 4))
LABELS = ROWS[:, :3].argmax(axis=1)
INTERRUPTED = [
    CalibratedLeastSquares(max_iter=2, n_threads=1),
    StagewiseRegression(batch_size=5, max_iter=2, n_threads=1),
    StagewiseRegression(batch_size=5, max_iter=3, n_threads=1, early_stopping=True),
]


@contextmanager
def interrupted(moment):
    """Raise KeyboardInterrupt before line number `moment` that is run in the folder, from the learning of stages on."""
    count, is_learning = 0, False

    def enter(frame, event, _):
        nonlocal is_learning
        is_learning = is_learning or frame.f_code.co_name == "add_stages"
        return line if is_learning and frame.f_code.co_filename.startswith(CODE) else None

    def line(frame, event, _):
        nonlocal count
        count += event == "line"
        if event == "line" and count == moment:
            sys.settrace(None)
            raise KeyboardInterrupt
        return line

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("model", INTERRUPTED, ids=lambda model: type(model).__name__)
def test_ctrl_c_at_every_moment_leaves_the_stages_so_far(model):
    statuses = []
    for moment in range(1, 1000, 7):
        twin = model.__class__(**model.get_params())
        try:
            with interrupted(moment):
                twin.fit(ROWS, LABELS)
        except KeyboardInterrupt:
            statuses.append(twin.result_.status.name)
            assert twin.predict(ROWS).shape == (30,)
            assert twin.n_iter_ == twin.stages_.n_stages
        else:
            break
    assert len(statuses) > 20
    assert set(statuses[:-1]) == {"INTERRUPTED"}


@pytest.mark.parametrize("name", ["patience", "checkpoint", "checkpoint_every"])
def test_a_model_of_stages_has_no_parameters_of_runs(name):
    model = StagewiseRegression()
    assert name not in model.get_params()
    assert not hasattr(model, name)

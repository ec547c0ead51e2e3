"""Model files of chains: written and read back, names of any kind, files that are no models."""

from __future__ import annotations

import json
import pickletools

import numpy as np
import pytest
from problems import make_problem
from sklearn.exceptions import NotFittedError
from stored_models import PROBLEM, assert_same_predictions, assert_same_result, named

import crfqn
from crfqn import ChainCRF, MulticlassCRF, Sequences
from crfqn.data.model_file import read_model
from crfqn.errors import InputError, ModelFileError
from crfqn.result import Status
from crfqn.solvers.prox_qn import ProxQN

CLASSES = {"str": ["B-é", "I-x", "O"], "int": [-3, 0, 2**40], "bool": [False, True], "float": [0.5, 1.5, 2.5]}


def labelled(classes: list) -> list[list]:
    return [[classes[k % len(classes)] for k in labels] for labels in PROBLEM.labels]


@pytest.fixture(scope="module")
def plain() -> ChainCRF:
    return ChainCRF(l1=1.0, l2=0.1).fit(PROBLEM.sequences, PROBLEM.labels)


class TestRoundTrip:
    @pytest.mark.parametrize("kind", CLASSES)
    def test_everything_comes_back(self, path, kind):
        model = ChainCRF(l1=0.7, l2=0.05, tol=1e-4).fit(PROBLEM.sequences, labelled(CLASSES[kind]))
        assert model.save(path) is None
        loaded = crfqn.load(path)
        assert isinstance(loaded, ChainCRF)
        assert loaded.get_params() == model.get_params()
        assert loaded.classes_.tolist() == CLASSES[kind]
        assert loaded.classes_.dtype.kind == model.classes_.dtype.kind
        for name in ("coef_", "transition_coef_"):
            old, new = getattr(model, name), getattr(loaded, name)
            assert (type(new), new.shape, new.dtype) == (type(old), old.shape, old.dtype)
            assert new.toarray().tobytes() == old.toarray().tobytes()
            assert new.nnz == old.nnz
        assert loaded.n_features_in_ == PROBLEM.n_features
        assert loaded.n_iter_ == model.n_iter_
        assert not hasattr(loaded, "feature_names_in_")
        assert loaded.extra_ == {}
        assert_same_result(model.result_, loaded.result_)
        np.testing.assert_array_equal(loaded.result_.coords, model.result_.coords)
        np.testing.assert_array_equal(loaded.result_.weights, model.result_.weights)
        assert_same_predictions(model, loaded, PROBLEM.sequences)
        y = labelled(CLASSES[kind])
        np.testing.assert_array_equal(
            model.log_likelihood(PROBLEM.items, y), loaded.log_likelihood(PROBLEM.items, y)
        )
        assert loaded.score(PROBLEM.items, y) == model.score(PROBLEM.items, y)

    @pytest.mark.parametrize(
        "settings", [{"l1": 1e6}, {"solver": "prox-qn-paper", "max_seconds": 60.0}], ids=str
    )
    @pytest.mark.filterwarnings("ignore::crfqn.errors.EmptyModelWarning")
    def test_other_settings(self, path, settings):
        model = ChainCRF(**settings, n_threads=1, warm_start=True).fit(PROBLEM.sequences, PROBLEM.labels)
        model.save(path)
        loaded = crfqn.load(path)
        assert loaded.get_params() == model.get_params()
        assert_same_result(model.result_, loaded.result_)
        assert_same_predictions(model, loaded, PROBLEM.sequences)

    def test_settings_of_numpy_types_and_a_random_state(self, path):
        model = ChainCRF(l1=np.float32(0.5), max_iter=np.int64(300), random_state=np.random.RandomState(0))
        model.fit(PROBLEM.sequences, PROBLEM.labels).save(path)
        assert (crfqn.load(path).l1, crfqn.load(path).max_iter) == (0.5, 300)

    def test_a_solver_object_is_named_and_the_default_takes_its_place(self, path):
        model = ChainCRF(solver=ProxQN(memory=3)).fit(PROBLEM.sequences, PROBLEM.labels)
        model.save(path)
        assert "memory=3" in read_model(path).metadata["settings"]["solver"]
        assert crfqn.load(path).solver == "auto"

    def test_shares_of_passes_come_back(self, path):
        # A start on samples counts passes in fractions.
        problem = make_problem(32, n_items=4500, n_features=5, longest=3)
        model = ChainCRF(l1=20.0, tol=0.05).fit(problem.sequences, problem.targets)
        assert model.result_.passes != int(model.result_.passes)
        model.save(path)
        assert_same_result(model.result_, crfqn.load(path).result_)

    def test_an_interrupted_run_without_a_gap(self, path):
        def interrupt(row):
            raise KeyboardInterrupt

        model = ChainCRF(l1=0.0, callback=interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.fit(PROBLEM.sequences, PROBLEM.labels)
        assert np.isnan(model.result_.gap)
        model.save(path)
        loaded = crfqn.load(path)
        assert loaded.result_.status is Status.INTERRUPTED
        assert_same_result(model.result_, loaded.result_)

    def test_extra_is_json(self, plain, path):
        extra = {"recipe": {"name": "ocr", "threshold": 1, "é": [1, 2.5, None, True]}}
        plain.save(path, extra=extra)
        assert crfqn.load(path).extra_ == extra
        assert not hasattr(plain, "extra_")
        with pytest.raises(InputError, match="metadata cannot be written as JSON"):
            plain.save(path, extra={"bad": {1, 2}})
        assert crfqn.load(path).extra_ == extra

    def test_saving_twice_gives_the_same_model(self, plain, path, tmp_path):
        plain.save(path)
        again = tmp_path / "again.crfqn"
        crfqn.load(path).save(again)
        assert again.read_bytes() == path.read_bytes()

    def test_loaded_models_train_on(self, plain, path):
        plain.save(path)
        loaded = crfqn.load(path).set_params(warm_start=True)
        assert loaded.fit(PROBLEM.sequences, PROBLEM.labels).n_iter_ == 0


class TestNames:
    def test_only_names_with_a_weight_are_kept(self, named_model, path):
        named_model.save(path)
        loaded = crfqn.load(path)
        used = np.unique(named_model.coef_.tocoo().col)
        assert loaded.feature_names_in_.tolist() == [named_model.feature_names_in_[f] for f in used]
        assert loaded.n_features_in_ == used.size
        np.testing.assert_array_equal(loaded.coef_.toarray(), named_model.coef_.toarray()[:, used])
        np.testing.assert_array_equal(
            loaded.transition_coef_.toarray(), named_model.transition_coef_.toarray()
        )
        unused = sorted(set(named_model.feature_names_in_.tolist()) - set(loaded.feature_names_in_.tolist()))
        data = path.read_bytes()
        assert not any(name.encode() in data for name in unused)

    @pytest.mark.parametrize("form", ["strings", "dicts", "sequences", "other columns"])
    @pytest.mark.filterwarnings("ignore::crfqn.errors.UnknownFeaturesWarning")
    def test_they_predict_the_same(self, named_model, path, form):
        names = [f"é{j}" for j in range(PROBLEM.n_features)]
        order = np.random.default_rng(0).permutation(PROBLEM.n_features)
        X = {
            "strings": named(),
            "dicts": [[dict.fromkeys(position, 1.0) for position in item] for item in named()],
            "sequences": Sequences(PROBLEM.matrix, PROBLEM.offsets, names),
            "other columns": Sequences(
                np.c_[PROBLEM.matrix[:, order], np.ones(PROBLEM.offsets[-1])],
                PROBLEM.offsets,
                [*(names[j] for j in order), "new"],
            ),
        }[form]
        named_model.save(path)
        assert_same_predictions(named_model, crfqn.load(path), X)

    def test_matrices_without_names_need_the_columns_of_the_file(self, named_model, path):
        named_model.save(path)
        with pytest.raises(InputError, match=r"expected \d+ features, as in training, got 8"):
            crfqn.load(path).predict(PROBLEM.sequences)

    @pytest.mark.filterwarnings("ignore::crfqn.errors.EmptyModelWarning")
    def test_a_model_without_any_feature_weight(self, path):
        model = ChainCRF(l1=1e6).fit(named(), PROBLEM.labels)
        model.save(path)
        loaded = crfqn.load(path)
        assert loaded.feature_names_in_.size == 0
        assert_same_predictions(model, loaded, named())


class TestFiles:
    def test_there_is_no_pickle_in_it(self, named_model, path):
        named_model.save(path)
        data = path.read_bytes()
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        assert "__metadata__" in header
        assert not any(word in data for word in (b"crfqn.estimators", b"sklearn", b"numpy", b"c__builtin__"))
        with pytest.raises(ValueError, match=r"."):
            list(pickletools.genops(data))

    def test_not_fitted(self, path):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            ChainCRF().save(path)
        assert not path.exists()

    def test_unwritable(self, plain, tmp_path):
        with pytest.raises(ModelFileError, match=r"cannot write .*missing"):
            plain.save(tmp_path / "missing" / "model.crfqn")
        with pytest.raises(ModelFileError, match="it is a folder"):
            plain.save(tmp_path)

    @pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.6, 0.999])
    def test_truncated(self, plain, path, share):
        plain.save(path)
        data = path.read_bytes()
        path.write_bytes(data[: int(share * len(data))])
        with pytest.raises(ModelFileError, match=r"model\.crfqn: "):
            crfqn.load(path)

    def test_any_flipped_byte(self, plain, path):
        plain.save(path)
        data = path.read_bytes()
        for at in np.random.default_rng(0).choice(len(data), 60, replace=False):
            path.write_bytes(data[:at] + bytes([data[at] ^ 0x20]) + data[at + 1 :])
            with pytest.raises(ModelFileError, match=r"model\.crfqn: "):
                crfqn.load(path)

    @pytest.mark.parametrize("content", [b"", b"not a model", b"\x80\x04N.", b"\x00" * 4096])
    def test_foreign_files(self, path, content):
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match=r"model\.crfqn: "):
            crfqn.load(path)

    def test_missing_file_and_folder(self, path, tmp_path):
        with pytest.raises(ModelFileError, match="there is no such file"):
            crfqn.load(path)
        with pytest.raises(ModelFileError, match="not a file"):
            crfqn.load(tmp_path)


class TestFloat32:
    """Weights of four bytes: scores change by roundings, and what cannot be stored is refused."""

    X = np.random.default_rng(0).normal(size=(60, 12))
    Y = np.arange(60) % 3

    @pytest.fixture
    def model(self) -> MulticlassCRF:
        return MulticlassCRF(l1=0.0, l2=1.0).fit(self.X, self.Y)

    def test_scores_change_by_roundings_of_the_weights(self, model, tmp_path):
        model.save(tmp_path / "wide")
        model.save(tmp_path / "narrow", dtype="float32")
        loaded = crfqn.load(tmp_path / "narrow")
        bound = np.abs(self.X) @ np.abs(model.coef_.toarray()).T + np.abs(model.intercept_)
        change = np.abs(loaded.decision_function(self.X) - model.decision_function(self.X))
        assert change.max() > 0
        assert np.all(change <= 6e-8 * bound)
        assert loaded.coef_.dtype == np.float64
        weights = read_model(tmp_path / "narrow").arrays["node_weight"]
        assert weights.dtype == np.float32
        saved = (tmp_path / "wide").stat().st_size - (tmp_path / "narrow").stat().st_size
        assert saved >= 4 * weights.size

    def test_chains_too(self, plain, path):
        plain.save(path, dtype="float32")
        loaded = crfqn.load(path)
        np.testing.assert_array_equal(
            loaded.transition_coef_.toarray(), plain.transition_coef_.toarray().astype(np.float32)
        )

    @pytest.mark.parametrize("dtype", ["float16", "int8", None])
    def test_other_types_are_refused(self, model, path, dtype):
        with pytest.raises(InputError, match="dtype: expected one of"):
            model.save(path, dtype=dtype)
        assert not path.exists()

    def test_weights_too_large_are_refused(self, model, path):
        model.coef_.data[0] = 1e40
        with pytest.raises(InputError, match=r"node_weight has a weight of .*, too large for float32"):
            model.save(path, dtype="float32")

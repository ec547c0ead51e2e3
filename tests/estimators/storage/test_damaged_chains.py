"""Model files of chains whose content does not fit together."""

from __future__ import annotations

import numpy as np
import pytest
from stored_models import assert_same_predictions, named, rewriter

import crfqn
from crfqn.data.model_file import read_model
from crfqn.errors import ModelFileError
from crfqn.estimators.storage import ESTIMATORS_BY_KIND


class TestContentThatDoesNotFit:
    """Files with a right checksum whose content no `save` would write: what only chains have."""

    @pytest.fixture
    def rewrite(self, named_model, path):
        return rewriter(named_model, path)

    @pytest.mark.filterwarnings("ignore::crfqn.errors.UnknownFeaturesWarning")
    def test_nothing_changed(self, rewrite, path, named_model):
        rewrite()
        assert_same_predictions(named_model, crfqn.load(path), named())

    @pytest.mark.filterwarnings("ignore::crfqn.errors.UnknownFeaturesWarning")
    def test_integers_of_another_width(self, rewrite, path, named_model):
        file = read_model(path)
        narrow = {name: array for name, array in file.arrays.items() if array.dtype.kind == "u"}
        assert {"node_state", "node_feature", "edge_from", "edge_to"} <= narrow.keys()
        assert all(array.dtype == np.uint8 for array in narrow.values())
        rewrite(arrays={name: array.astype(np.int64) for name, array in narrow.items()})
        assert_same_predictions(named_model, crfqn.load(path), named())

    def test_a_foreign_kind(self, rewrite, path):
        rewrite(kind="taxonomy")
        known = ", ".join(map(repr, sorted(ESTIMATORS_BY_KIND)))
        with pytest.raises(ModelFileError, match=f"expected a model of kind {known}; it is a 'taxonomy'"):
            crfqn.load(path)

    @pytest.mark.parametrize("name", ["edge_from", "edge_weight", "classes"])
    def test_a_missing_array(self, rewrite, path, name):
        rewrite(arrays={name: None})
        with pytest.raises(ModelFileError, match=name):
            crfqn.load(path)

    @pytest.mark.parametrize(("name", "change"), [
        ("node_state", lambda a: -1 - a.astype(np.int64)),
        ("node_state", lambda a: a.astype(np.float64)),
        ("node_state", lambda a: a[:-1]),
        ("node_feature", lambda a: a[None]),
        ("edge_to", lambda a: a + 3),
        ("edge_weight", lambda a: a * np.inf),
        ("edge_weight", lambda a: 1e308 + 0 * a),
        ("node_weight", lambda a: -1e101 + 0 * a),
        ("trace", lambda a: a[:, :-1]),
        ("trace", lambda a: np.full(a.shape, np.inf)),
        ("trace", lambda a: a - 2.0**60),
        ("classes", lambda a: 0 * a),
        ("classes", lambda a: a * np.nan),
        ("classes", lambda a: a[:-1]),
        ("classes", lambda a: a[:, None]),
    ])  # fmt: skip
    def test_a_wrong_array(self, rewrite, path, name, change):
        file = read_model(path)
        rewrite(arrays={name: change(file.arrays[name])})
        with pytest.raises(ModelFileError, match=rf"model\.crfqn: .*{name.split('_')[0]}"):
            crfqn.load(path)

    @pytest.mark.parametrize("name", ["value", "seconds", "n_iter", "n_proved_zeros"])
    @pytest.mark.parametrize("value", ["x", 10**400, True, [1], {}], ids=lambda value: f"{value!r:.9}")
    def test_wrong_numbers_of_the_result(self, rewrite, path, name, value):
        rewrite(result=read_model(path).metadata["result"] | {name: value})
        with pytest.raises(
            ModelFileError, match=rf"model\.crfqn: result: {name}: expected a (whole )?number"
        ):
            crfqn.load(path)

    @pytest.mark.parametrize("value", [float("inf"), float("nan"), -1, 2.5])
    def test_wrong_counts_of_the_result(self, rewrite, path, value):
        rewrite(result=read_model(path).metadata["result"] | {"n_iter": value})
        with pytest.raises(ModelFileError, match=r"result: n_iter: expected a whole number from 0 to"):
            crfqn.load(path)

    def test_more_features_than_names(self, rewrite, path):
        rewrite(n_features=10**18)
        with pytest.raises(ModelFileError, match=r"model\.crfqn: "):
            crfqn.load(path)

    @pytest.mark.parametrize("names", [["a"], ["a"] * 3, []], ids=str)
    def test_wrong_names(self, rewrite, path, names):
        rewrite(strings={"feature_names": names})
        with pytest.raises(ModelFileError, match=r"model\.crfqn: "):
            crfqn.load(path)

    @pytest.mark.parametrize(("name", "bad"), [("l1", -1.0), ("l1", "x"), ("max_iter", 0), ("n_threads", 0)])
    def test_settings_out_of_range(self, rewrite, path, name, bad):
        settings = read_model(path).metadata["settings"] | {name: bad}
        rewrite(settings=settings)
        with pytest.raises(ModelFileError, match=rf"model\.crfqn: settings: {name}: "):
            crfqn.load(path)

"""Model files of classifiers of items: written and read back."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from stored_items import CODES, ITEM_MODELS, ROWS, items_labelled, trained
from stored_models import assert_same_result

import crfqn
from crfqn import MulticlassCRF, TaxonomyCRF


@pytest.fixture(scope="module", params=ITEM_MODELS)
def item_model(request):
    return trained(request.param)


def assert_same_item_predictions(left, right, X) -> None:
    for verb in ("predict", "predict_proba", "predict_marginals", "decision_function"):
        one, other = getattr(left, verb)(X), getattr(right, verb)(X)
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other, err_msg=verb)
    for one, other in zip(left.decode(X), right.decode(X), strict=True):
        np.testing.assert_array_equal(one, other)
    if isinstance(left, TaxonomyCRF):
        np.testing.assert_array_equal(left.predict(X, threshold=0.5), right.predict(X, threshold=0.5))


class TestClassifiersOfItems:
    def test_everything_comes_back(self, item_model, path):
        item_model.save(path, extra={"n": 1})
        loaded = crfqn.load(path)
        assert type(loaded) is type(item_model)
        assert loaded.classes_.tolist() == item_model.classes_.tolist()
        assert loaded.classes_.dtype == item_model.classes_.dtype
        for matrix in ("coef_", "intercept_"):
            old, new = getattr(item_model, matrix), getattr(loaded, matrix)
            assert (type(new), new.shape, new.dtype) == (type(old), old.shape, old.dtype)
        assert loaded.coef_.toarray().tobytes() == item_model.coef_.toarray().tobytes()
        assert loaded.intercept_.tobytes() == item_model.intercept_.tobytes()
        assert (loaded.n_features_in_, loaded.n_iter_) == (6, item_model.n_iter_)
        assert loaded.extra_ == {"n": 1}
        assert not hasattr(loaded, "feature_names_in_")
        assert_same_result(item_model.result_, loaded.result_)
        np.testing.assert_array_equal(loaded.result_.coords, item_model.result_.coords)
        np.testing.assert_array_equal(loaded.result_.weights, item_model.result_.weights)
        assert_same_item_predictions(item_model, loaded, ROWS)

    def test_parameters(self, item_model, path):
        item_model.save(path)
        found, expected = crfqn.load(path).get_params(), item_model.get_params()
        taxonomy = expected.pop("taxonomy", None)
        assert (found.pop("taxonomy", None) is None) == (taxonomy is None)
        assert found == expected
        if isinstance(found["class_weight"], dict):
            kinds = [[type(label) for label in params["class_weight"]] for params in (found, expected)]
            assert kinds[0] == kinds[1]

    def test_saving_twice_gives_the_same_model(self, item_model, path, tmp_path):
        item_model.save(path)
        crfqn.load(path).save(tmp_path / "again.crfqn")
        assert (tmp_path / "again.crfqn").read_bytes() == path.read_bytes()

    def test_loaded_models_train_on(self, path):
        labels = items_labelled([11, 12, 21, 22])
        trained("mixed names").save(path)
        loaded = crfqn.load(path).set_params(warm_start=True)
        tree = loaded.tree_
        with warnings.catch_warnings():  # a label without items has no bound
            warnings.simplefilter("ignore", ConvergenceWarning)
            loaded.fit(ROWS, labels)
        assert loaded.n_iter_ == 0
        assert (loaded.tree_.names, loaded.tree_.parents.tolist()) == (tree.names, tree.parents.tolist())

    def test_names_of_columns(self, path):
        model = MulticlassCRF().fit(ROWS, CODES)
        model.feature_names_in_ = np.array(list("abcdéf"), dtype=object)  # as a data frame would leave them
        model.save(path)
        loaded = crfqn.load(path)
        assert loaded.feature_names_in_.tolist() == list("abcdéf")
        assert loaded.feature_names_in_.dtype == object

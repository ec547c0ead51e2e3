"""Items in a form that is nearly right: what to do is said. Loaded estimators take the forms that models take."""

import numpy as np
import pandas as pd
import pytest

from crfqn import (
    CalibratedLeastSquares,
    ChainCRF,
    GeneralizedLeastSquares,
    Model,
    MulticlassClassifier,
    MulticlassCRF,
    MulticlassSVC,
    MultilabelRanker,
    TaxonomyCRF,
    Templates,
    load,
)
from crfqn.compat import CRF
from crfqn.errors import InputError, ModelFileMissingError, UnknownFeaturesWarning
from crfqn.readers import read

X = [[{"w": "the"}, {"w": "dog"}], [{"w": "a"}, {"w": "cat"}]]
Y = [["D", "N"], ["D", "N"]]
FRAME = pd.DataFrame(
    {"sentence": [1, 1, 2, 2], "w": ["the", "dog", "a", "cat"], "label": ["D", "N", "D", "N"]}
)


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Models of texts and of a table, as the command line makes them."""
    from command_line import run_here

    folder = tmp_path_factory.mktemp("texts")
    (folder / "texts.text").write_text("x/a\tgood day\nx/b\tbad day\nx/a\tgood work\nx/b\tbad work\n")
    with pytest.MonkeyPatch.context() as patch:
        for structure in ("flat", "taxonomy"):
            options = ("--structure", structure, "--l1", 0.01, "-q", "-o", f"{structure}.crfqn")
            run_here(patch, folder, "train", "--data", "texts.text", *options, code=0)
    return folder


@pytest.mark.parametrize("name", ["flat", "taxonomy"])
def test_loaded_estimators_take_texts(texts, name):
    opened, loaded = (f(texts / f"{name}.crfqn") for f in (Model.open, load))
    new = ["a good one", "bad, bad"]
    for form in (new, tuple(new), np.array(new), pd.Series(new)):
        assert loaded.predict(form).tolist() == opened.predict(form).tolist() == ["x/a", "x/b"]
        np.testing.assert_allclose(loaded.predict_proba(form), opened.predict_proba(form), atol=1e-12)
    assert loaded.predict(new, threshold=0.99).tolist() == opened.predict(new, threshold=0.99).tolist()
    for model in (opened, loaded):
        with pytest.warns(UnknownFeaturesWarning, match="1 of 2 items"):
            model.predict(["unheard of", "good"])
        with pytest.raises(
            InputError, match=r"expected a list of texts, got 'good' of type str; if .* wrap it in a list"
        ):
            model.predict("good")


def test_loaded_estimators_take_dicts(tmp_path):
    frame = pd.DataFrame(np.eye(4), columns=[*"uvwx"])
    MulticlassCRF(l1=0.01).fit(frame, ["a", "b", "a", "b"]).save(tmp_path / "m.crfqn")
    for items in ([{"u": 1.0}, {"v": 2.0, "w": 0.5}], [{0: 1.0}, {1: 2.0, 2: 0.5}]):
        opened, loaded = (f(tmp_path / "m.crfqn").predict_proba(items) for f in (Model.open, load))
        np.testing.assert_allclose(loaded, opened, atol=1e-12)
    for model in (f(tmp_path / "m.crfqn") for f in (Model.open, load)):
        with pytest.warns(UnknownFeaturesWarning):
            model.predict([{"unknown": 1.0}])
        with pytest.raises(InputError, match="item 0: feature 'u': expected a finite number"):
            model.predict([{"u": "red"}])


def fitted(model):
    return model.fit(X, Y)


@pytest.mark.parametrize("call", [
    lambda X: ChainCRF().fit(X, Y[0]),
    lambda X: fitted(ChainCRF(l1=0.1)).predict(X),
    lambda X: CRF().fit(X, Y[0]),
    lambda X: Templates().fit(X),
], ids=["fit", "predict", "compat", "templates"])  # fmt: skip
def test_one_item_is_wrapped(call):
    for item in (X[0], X[0][0]):
        with pytest.raises(InputError, match=r"if this is one item, wrap it in a list: \[item\]$"):
            call(item)
    with pytest.raises(
        InputError, match=r"got a data frame of shape .4, 3.: data = crfqn.readers.read.frame."
    ):
        call(FRAME)
    with pytest.raises(InputError, match=r"crfqn\.tokenize cuts a text into words"):
        call("the dog")


def test_one_item_of_lists_of_strings():
    with pytest.raises(InputError, match="if the lists are the positions of one item, wrap it in a list"):
        ChainCRF().fit([["w=the"], ["w=dog"]], ["D", "N"])


def test_what_is_said_of_data_frames_works():
    data = read(FRAME)
    model = ChainCRF(l1=0.1).fit(data.inputs, data.labels)
    assert model.predict(data.inputs).tolist() == Y


@pytest.mark.parametrize(("estimator", "name", "nearest"), [
    (ChainCRF, "l3", "l[12]$"), (ChainCRF, "max_itr", "max_iter$"), (ChainCRF, "c1", "l1, the same number"),
    (MulticlassCRF, "class_weights", "class_weight$"), (MulticlassSVC, "kernal", "kernel$"),
    (CRF, "max_iter", "max_iterations$"), (TaxonomyCRF, "zzz", "one of .*group_l1, "),
])  # fmt: skip
def test_the_nearest_parameter(estimator, name, nearest):
    with pytest.raises(TypeError, match=f"'{name}'; expected {nearest}"):
        estimator(**{name: 1})
    with pytest.raises(InputError, match=f"Invalid parameter '{name}'; expected {nearest}"):
        estimator().set_params(**{name: 1})
    assert estimator().set_params() is not None


def test_a_start_from_a_file(tmp_path):
    chain, path = fitted(ChainCRF(l1=0.1, tol=1e-6)), tmp_path / "m.crfqn"
    chain.save(path)
    for start in (path, str(path)):
        again = ChainCRF(l1=0.1, tol=1e-6).fit(X, Y, start=start)
        assert again.result_.n_iter <= ChainCRF(l1=0.1, tol=1e-6).fit(X, Y, start=chain).result_.n_iter
        assert again.result_.passes < chain.result_.passes
    with pytest.raises(ModelFileMissingError, match="gone"):
        ChainCRF().fit(X, Y, start="gone.crfqn")
    with pytest.raises(InputError, match=r"start: expected a MulticlassClassifier, .* got ChainCRF"):
        MulticlassCRF().fit(np.eye(2), ["a", "b"], start=path)


@pytest.mark.parametrize("kind", [
    MulticlassCRF, MulticlassClassifier, MultilabelRanker, TaxonomyCRF, GeneralizedLeastSquares,
])  # fmt: skip
def test_top_features_of_all_models_with_weights_of_features(kind):
    frame = pd.DataFrame(np.eye(4), columns=[*"uvwx"])
    model = kind().fit(frame, ["a", "b", "a", "b"])
    every = model.top_features("a", None)
    row = model.coef_.toarray()[0]
    assert {f.name: f.weight for f in every if f.name != "(intercept)"} == {
        name: weight for name, weight in zip("uvwx", row.tolist(), strict=True) if weight
    }
    assert [abs(f.weight) for f in every] == sorted((abs(f.weight) for f in every), reverse=True)
    assert model.top_features("a", 1) == every[:1]
    for arguments in (("z",), ("a", 0)):
        with pytest.raises(InputError, match="expected"):
            model.top_features(*arguments)


def test_top_features_of_nodes_and_of_models_without():
    X, y = np.eye(4), ["x/a", "x/b", "y", "x/a"]
    assert {f.name for f in TaxonomyCRF(l1=0.01).fit(X, y).top_features("x", None)} <= {0, 1, 2, 3}
    for other in (CalibratedLeastSquares(), MulticlassSVC()):
        assert not hasattr(other, "top_features")


def test_templates_have_no_other_output():
    templates = Templates()
    assert templates.set_output(transform="default") is templates.set_output() is templates
    for form in ("pandas", "polars"):
        with pytest.raises(
            InputError, match=r"transform: expected None or 'default', as .* crfqn\.Sequences"
        ):
            templates.set_output(transform=form)

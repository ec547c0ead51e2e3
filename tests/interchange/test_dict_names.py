"""Names that features get of dicts: the same items have the same labels here and in python-crfsuite, both ways."""

from __future__ import annotations

import pickle
import random

import numpy as np
import pycrfsuite
import pytest
from stored_models import rewriter

import crfqn
from crfqn import ChainCRF, Sequences, Templates, interchange
from crfqn.compat import CRF
from crfqn.errors import InputError, ModelFileError
from crfqn.model.content import VALUE_STARTS

LABELS = ["D", "N", "V"]
WORDS = ["the", "dog", "Runs", "größer", "a=b", "c:d", "back\\slash", "q\\:r", "", "日本", "x=", "=y", ":z"]


def position(word: str, rng: random.Random) -> dict:
    """Features of every kind and shape that both sides take."""
    return {
        "word": word,
        "": word,
        "a=b": word,
        "k:l": word,
        "back\\": word[:1],
        "title": word.istitle(),
        "always": True,
        "numpy": np.bool_(rng.random() < 0.5),
        "length": len(word) / 3,
        "whole": rng.randint(-3, 3),
        "zero": 0,
        "letters": [*word[:3]],
        "bag": {word, "w"},
        "inner": {"word": word, "": word, "deeper": {"word": word, "x": [word], "n": -0.5}, "is": not word},
        "none": [],
        "empty": {},
    }


def data(seed: int, n_items: int = 30) -> tuple[list, list]:
    """Items with labels that depend on the words at random."""
    rng, X, y = random.Random(seed), [], []
    for _ in range(n_items):
        words = rng.choices(WORDS, k=rng.randint(1, 6))
        X.append([position(word, rng) for word in words])
        y.append([LABELS[(WORDS.index(word) + rng.randint(0, 1)) % 3] for word in words])
    return X, y


def assert_same(model, path, X) -> None:
    """The model and python-crfsuite with the file agree on every label and marginal of the items."""
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    for item, labels, marginals in zip(X, model.predict(X), model.predict_marginals(X), strict=True):
        assert tagger.tag(item) == list(labels)
        expected = [[tagger.marginal(label, t) for label in model.classes_] for t in range(len(item))]
        np.testing.assert_allclose(marginals, expected, atol=1e-9)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """The path of a model that CRFsuite has trained on dicts."""
    path = tmp_path_factory.mktemp("theirs") / "model.crfsuite"
    trainer = pycrfsuite.Trainer(params={"c1": 0.02, "c2": 0.02, "max_iterations": 40}, verbose=False)
    for item, labels in zip(*data(0), strict=True):
        trainer.append(item, labels)
    trainer.train(str(path))
    return path


@pytest.fixture(scope="module")
def ours():
    return ChainCRF(l1=0.02, l2=0.04).fit(*data(0))


class TestComing:
    def test_dicts_are_read_as_there(self, theirs):
        assert_same(interchange.read(theirs), theirs, data(1)[0])

    def test_bytes_and_item_sequences_are_read_as_there(self, theirs):
        model = interchange.read(theirs)
        X = [[{b"word": "größer".encode(), "inner": {b"word": b"dog"}}, ["word:dog", b"word:the"]]]
        assert_same(model, theirs, X)
        X = [pycrfsuite.ItemSequence(item) for item in data(1)[0]]
        assert [*map(list, model.predict(X))] == [*map(list, model.predict(data(1)[0]))]

    def test_names_stay_as_they_were_in_files_and_pickles(self, theirs, tmp_path):
        interchange.convert(theirs, tmp_path / "m.crfqn")
        interchange.convert(tmp_path / "m.crfqn", tmp_path / "m.json")
        saved, listed = (interchange.read(tmp_path / name) for name in ("m.crfqn", "m.json"))
        for model in (saved, listed, pickle.loads(pickle.dumps(saved))):
            assert_same(model, theirs, data(1)[0])
            interchange.write(model, tmp_path / "again.crfsuite")
            assert (tmp_path / "again.crfsuite").read_bytes() == theirs.read_bytes()

    def test_batches_go_on_under_these_names(self, theirs):
        model = interchange.read(theirs).set_params(solver="averaged-perceptron")
        known = len(model.vocabulary)
        model.partial_fit([[{"word": "dog"}, {"word": "new"}]], [["N", "V"]])
        assert model.feature_names_in_.tolist()[known:] == ["word:new"]
        model.partial_fit([[{"word": "newer"}]], [["N"]])
        assert model.feature_names_in_.tolist()[known:] == ["word:new", "word:newer"]

    def test_models_of_compat_keep_them_too(self, tmp_path):
        X, y = data(0, 8)
        crf = CRF(c1=0.02, c2=0.02).fit(X, y)
        crf.model_.save(tmp_path / "m.crfqn")
        interchange.write(crf.model_, tmp_path / "m.crfsuite")
        assert_same(crfqn.load(tmp_path / "m.crfqn"), tmp_path / "m.crfsuite", data(1)[0])

    def test_a_naming_that_is_none(self, theirs, tmp_path):
        rewriter(interchange.read(theirs), tmp_path / "m")(naming=["crfsuite"])
        with pytest.raises(ModelFileError, match=r"m: naming: expected 'crfsuite', got .* of type list"):
            crfqn.load(tmp_path / "m")


class TestGoing:
    def test_dicts_are_read_there_as_here(self, ours, tmp_path):
        interchange.write(ours, tmp_path / "m.crfsuite")
        assert_same(ours, tmp_path / "m.crfsuite", data(1)[0])
        assert_same(interchange.read(tmp_path / "m.crfsuite"), tmp_path / "m.crfsuite", data(1)[0])

    def test_from_files_and_pickles(self, ours, tmp_path):
        interchange.write(ours, tmp_path / "m.crfsuite")
        for name in ("m.crfqn", "m.json"):
            interchange.write(ours, tmp_path / name)
            interchange.convert(tmp_path / name, tmp_path / "again.crfsuite")
            assert (tmp_path / "again.crfsuite").read_bytes() == (tmp_path / "m.crfsuite").read_bytes()
        interchange.write(pickle.loads(pickle.dumps(ours)), tmp_path / "again.crfsuite")
        assert (tmp_path / "again.crfsuite").read_bytes() == (tmp_path / "m.crfsuite").read_bytes()

    def test_after_batches(self, tmp_path):
        model = ChainCRF(l1=0.0, solver="averaged-perceptron")
        for seed in range(3):
            model.partial_fit(*data(seed, 10), classes=LABELS)
        interchange.write(model, tmp_path / "m.crfsuite")
        tagger = pycrfsuite.Tagger()
        tagger.open(str(tmp_path / "m.crfsuite"))
        X = data(7)[0]
        assert [tagger.tag(item) for item in X] == [list(labels) for labels in model.predict(X)]

    def test_strings_stay_as_they_are(self, tmp_path):
        X, y = data(0)
        X = [[[f"word={entry['word']}", f"k:{entry['word']}"] for entry in item] for item in X]
        model = ChainCRF(l1=0.02).fit(X, y)
        interchange.write(model, tmp_path / "m.crfsuite")
        assert_same(model, tmp_path / "m.crfsuite", X)

    def test_names_of_templates_stay_as_they_are(self, tmp_path):
        sequences = Templates("U00:%x[0,0]=x").fit_transform([[["the"]], [["dog"]]])
        model = ChainCRF(l1=0.01).fit(sequences, [["D"], ["N"]])
        interchange.write(model, tmp_path / "m.crfsuite")
        assert interchange.read(tmp_path / "m.crfsuite").predict([[["U00:dog=x"]]])[0] == ["N"]

    def test_hashed_features_have_no_names(self, tmp_path):
        X, y = [[["the"], ["dog"]], [["a"], ["cat"]]], [["D", "N"], ["D", "N"]]
        model = ChainCRF(l1=0.01).fit(Templates("U00:%x[0,0]", n_hashed=64).fit_transform(X), y)
        with pytest.raises(InputError, match="expected features with names, got hashed ones"):
            interchange.write(model, tmp_path / "m.crfsuite", lossy=True)

    def test_one_name_of_both_kinds_is_refused(self, tmp_path):
        for first, second in (({"w": "x"}, {"w=x": 1}), ({"a": "b=c"}, {"a=b": "c"})):
            model = ChainCRF(l1=0.001).fit([[first, second, {"y": 1}]], [["A", "A", "B"]])
            with pytest.raises(
                InputError, match=r"no place for the origin of 1 names of features, '\w=(x|b=c)' the first"
            ):
                interchange.write(model, tmp_path / "m.crfsuite")
            with pytest.warns(UserWarning, match="lost: the origin of 1 names"):
                interchange.write(model, tmp_path / "m.crfsuite", lossy=True)

    def test_names_that_are_one_there_are_refused(self, tmp_path):
        X, y = [[{"w": "x"}, {"w": ["x"]}, {"v": "z"}]], [["A", "B", "B"]]
        model = ChainCRF(l1=0.001).fit(X, y)
        with pytest.raises(InputError, match="the features 'w:x' and 'w=x' both have the name 'w:x' there"):
            interchange.write(model, tmp_path / "m.crfsuite")
        assert not (tmp_path / "m.crfsuite").exists()

    def test_files_of_before_say_nothing_of_it(self, ours, tmp_path):
        rewriter(ours, tmp_path / "m.crfqn")(arrays={VALUE_STARTS: None})
        old = crfqn.load(tmp_path / "m.crfqn")
        assert [*map(list, old.predict(data(1)[0]))] == [*map(list, ours.predict(data(1)[0]))]
        with pytest.raises(InputError, match="no place for the origin of"):
            interchange.write(old, tmp_path / "m.crfsuite")
        old.save(tmp_path / "again.crfqn")
        with pytest.raises(InputError, match="no place for the origin of"):
            interchange.convert(tmp_path / "again.crfqn", tmp_path / "m.crfsuite")

    @pytest.mark.parametrize(
        "change", [lambda a: a + 1, lambda a: a[:-1], lambda a: a * 0 + 200, lambda a: a * 0.5]
    )
    def test_starts_that_are_none(self, ours, tmp_path, change):
        ours.save(tmp_path / "m")
        starts = crfqn.data.model_file.read_model(tmp_path / "m").arrays[VALUE_STARTS]
        rewriter(ours, tmp_path / "m")(arrays={VALUE_STARTS: change(starts)})
        with pytest.raises(ModelFileError, match=f"m: .*{VALUE_STARTS}"):
            crfqn.load(tmp_path / "m")

    def test_columns_that_a_user_names_stay_as_they_are(self, tmp_path):
        X = Sequences(np.eye(3), [0, 3], ["w=a", "w=b", "c"])
        model = ChainCRF(l1=0.01).fit(X, [["A", "B", "B"]])
        interchange.write(model, tmp_path / "m.crfsuite")
        assert {*interchange.read(tmp_path / "m.crfsuite").vocabulary} <= {"w=a", "w=b", "c"}

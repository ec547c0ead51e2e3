"""CRFsuite's model files, both ways, against python-crfsuite: labels, marginals and bytes; damage is always told."""

from __future__ import annotations

import gzip
import random
import tracemalloc

import numpy as np
import pycrfsuite
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import crfqn
from crfqn import ChainCRF, Transitions, interchange
from crfqn.compat import attributes
from crfqn.errors import InputError, ModelFileError
from crfqn.model.content import Entries
from crfqn.model.crfsuite_model import FILE_HEADER, decode_model, encode_model
from crfqn.model.crfsuite_strings import Damage, hash_strings
from crfqn.result import Status

WORDS = ["the", "a", "dog", "Cat", "runs", "Sees", "größer", "日本", "x:y", "sp ace", "a" * 40]
LABELS = ["D", "N", "B-é", "O"]


def sentences(seed: int, n: int) -> tuple[list, list]:
    """Sentences with string, boolean, real and nested features, and labels that depend on the words at random."""
    rng = random.Random(seed)
    X, y = [], []
    for _ in range(n):
        words = [rng.choice(WORDS) for _ in range(rng.randint(1, 9))]
        X.append(
            [{"w": w, "title": w.istitle(), "length": len(w) / 7, "end": [w[-1:], w[-2:]]} for w in words]
        )
        y.append([LABELS[(WORDS.index(w) + rng.randint(0, 1)) % len(LABELS)] for w in words])
    return X, y


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """The path of a model that CRFsuite has trained."""
    path = tmp_path_factory.mktemp("theirs") / "model.crfsuite"
    trainer = pycrfsuite.Trainer(params={"c1": 0.05, "c2": 0.05, "max_iterations": 50}, verbose=False)
    for item, labels in zip(*sentences(0, 40), strict=True):
        trainer.append(item, labels)
    trainer.train(str(path))
    return path


@pytest.fixture(scope="module")
def ours():
    X, y = sentences(0, 40)
    return ChainCRF(l1=0.05, l2=0.1).fit(attributes(X), y)


def tagger(path):
    found = pycrfsuite.Tagger()
    found.open(str(path))
    return found


def assert_same(model, path, X):
    """The model and python-crfsuite with the file agree on every label and marginal of the items."""
    other, items = tagger(path), attributes(X)
    assert sorted(other.labels()) == sorted(model.classes_.tolist())
    for item, labels, marginals in zip(X, model.predict(items), model.predict_marginals(items), strict=True):
        assert other.tag(item) == list(labels)
        expected = [[other.marginal(label, t) for label in model.classes_] for t in range(len(item))]
        np.testing.assert_allclose(marginals, expected, atol=1e-9)


@pytest.mark.parametrize(
    ("text", "value"),
    [(b"", 0xDEADBEEF), (b"Four score and seven years ago", 0x17770551)],
    ids=["empty", "long"],
)
def test_hash_values_are_those_that_its_author_gives(text, value):
    assert hash_strings([text, b"other", text]).tolist()[::2] == [value, value]


class TestReading:
    def test_predictions_are_those_of_python_crfsuite(self, theirs):
        model = interchange.read(theirs)
        assert model.result_.status is Status.IMPORTED
        assert_same(model, theirs, sentences(1, 30)[0])

    def test_weights_have_the_names_of_the_file(self, theirs):
        info, model = tagger(theirs).info(), interchange.read(theirs)
        found = model.coef_.tocoo()
        weights = {
            (model.feature_names_in_[f], str(model.classes_[k])): weight
            for k, f, weight in zip(found.row, found.col, found.data, strict=True)
        }
        assert weights == pytest.approx(info.state_features, abs=1e-6)  # which has six digits
        assert model.feature_names_in_.tolist() == sorted(
            info.attributes, key=lambda name: int(info.attributes[name])
        )

    def test_written_again_it_is_the_same_byte_for_byte(self, theirs, tmp_path):
        again = tmp_path / "again.crfsuite"
        for between in (".crfqn", ".json"):
            interchange.convert(theirs, tmp_path / f"between{between}")
            interchange.convert(tmp_path / f"between{between}", again)
            assert again.read_bytes() == theirs.read_bytes()

    def test_opened_without_an_estimator_it_is_saved_as_a_model_of_ours(self, theirs, tmp_path):
        X, _ = sentences(1, 10)
        crfqn.Model.open(theirs).save(tmp_path / "m.crfqn")
        model = crfqn.load(tmp_path / "m.crfqn")
        assert model.result_.status is Status.IMPORTED
        assert model.extra_ == {"imported_from": "crfsuite"}
        assert_same(model, theirs, X)

    def test_a_packed_file_is_read_too(self, theirs, tmp_path):
        (tmp_path / "m.gz").write_bytes(gzip.compress(theirs.read_bytes()))
        assert interchange.read(tmp_path / "m.gz").vocabulary == interchange.read(theirs).vocabulary

    def test_training_goes_on_from_it(self, theirs):
        X, y = sentences(0, 40)
        begun = []
        for start in (interchange.read(theirs), None):
            model = ChainCRF(l1=0.05, l2=0.1, callback=lambda record: begun.append(record.value) or True)
            with pytest.warns(ConvergenceWarning):
                model.fit(attributes(X), y, start=start)
        assert begun[0] < begun[1]

    @pytest.mark.parametrize("way", ["read", "clone", "saved", "json"])
    def test_penalties_that_no_file_tells_are_left_to_the_data(self, theirs, way, tmp_path):
        """Trained on, an imported model is as small as one that is trained anew: 0 is not what nobody knows."""
        X, y = sentences(0, 40)
        start = model = interchange.read(theirs)
        assert not hasattr(model, "l1_")
        if way == "clone":
            model = clone(start)
        elif way != "read":
            path = tmp_path / f"m.{'crfqn' if way == 'saved' else 'json'}"
            interchange.write(start, path)
            start = model = interchange.read(path)
        anew = ChainCRF().fit(attributes(X), y)
        model.fit(attributes(X), y, start=start)
        assert (model.l1_, model.l2_) == (anew.l1_, anew.l2_)
        assert min(model.l1_, model.l2_) > 0
        assert model.result_.n_nonzero <= 1.2 * anew.result_.n_nonzero
        assert model.result_.value == pytest.approx(anew.result_.value, rel=model.tol_)

    def test_partial_fit_after_reading_says_what_there_is_instead(self, theirs):
        X, y = sentences(0, 5)
        model = interchange.read(theirs)
        assert not hasattr(model, "partial_fit")
        with pytest.raises(AttributeError, match=r"are not kept.*expected .* or fit\(X, y, start=model\)"):
            model.partial_fit(attributes(X), y)
        model.set_params(solver="averaged-perceptron").partial_fit(attributes(X), y)
        assert model.result_.status is Status.LEARNED


class TestWriting:
    def test_python_crfsuite_predicts_what_we_predict(self, ours, tmp_path):
        interchange.write(ours, tmp_path / "m.crfsuite")
        assert_same(ours, tmp_path / "m.crfsuite", sentences(1, 30)[0])

    def test_it_reads_back_equal(self, ours, tmp_path):
        interchange.write(ours, tmp_path / "m.crfsuite")
        model = interchange.read(tmp_path / "m.crfsuite")
        assert (model.transition_coef_ != ours.transition_coef_).nnz == 0
        columns = [ours.vocabulary[name] for name in model.vocabulary]
        assert (model.coef_ != ours.coef_[:, columns]).nnz == 0
        assert model.coef_.nnz == ours.coef_.nnz

    def test_names_of_any_letters_and_length_are_found_by_their_tables(self, tmp_path):
        rng = random.Random(3)
        letters = "abc:=|é日\t \\\x01\U0001f600"
        names = list({"".join(rng.choices(letters, k=rng.randint(1, 45))) for _ in range(3000)})
        rows = np.arange(len(names))
        no_transitions = Entries(np.empty(0), *np.empty((2, 0), np.int64))
        path = tmp_path / "m.crfsuite"
        path.write_bytes(
            encode_model(["A", "B"], names, Entries(np.ones(rows.size), rows, rows % 2), no_transitions)
        )
        assert decode_model(path.read_bytes())[1] == names
        found = tagger(path).tag([[name] for name in names])
        assert found == [["A", "B"][row % 2] for row in rows]

    @pytest.mark.filterwarnings("ignore::crfqn.errors.EmptyModelWarning")
    def test_a_model_without_weights_of_features(self, tmp_path):
        X, y = sentences(0, 5)
        model = ChainCRF(l1=1e4).fit(attributes(X), y)
        assert model.coef_.nnz == 0
        interchange.write(model, tmp_path / "m.crfsuite")
        assert interchange.read(tmp_path / "m.crfsuite").classes_.tolist() == model.classes_.tolist()

    def test_columns_without_names_are_given_names(self, tmp_path):
        X = [np.eye(3), np.eye(3)[::-1].copy()]
        model = ChainCRF(l1=0.01).fit(X, [["a", "b", "b"], ["b", "b", "a"]])
        path = tmp_path / "m.crfsuite"
        with pytest.raises(InputError, match="feature_names= gives its 3 columns"):
            interchange.write(model, path)
        with pytest.raises(InputError, match="expected 3 different names"):
            interchange.write(model, path, feature_names=["u", "v", "v"])
        interchange.write(model, path, feature_names=["u", "v", "w"])
        assert tagger(path).tag([["u"], ["v"], ["w"]]) == model.predict(X)[0]

    def test_forbidden_transitions_have_no_probability(self, tmp_path):
        X, y = [[["x"], ["y"], ["y"]]] * 3, [["B-N", "I-N", "O"], ["B-N", "O", "O"], ["O", "B-N", "I-N"]]
        model = ChainCRF(l1=0.01, scheme="IOB2").fit(X, y)
        path = tmp_path / "m.crfsuite"
        with pytest.raises(InputError, match=r"no place for rules on the first .* lossy=True"):
            interchange.write(model, path)
        assert not path.exists()
        with pytest.warns(UserWarning, match="lost: rules on the first and the last labels of items"):
            interchange.write(model, path, lossy=True)
        found = tagger(path)
        found.set(X[0])
        assert found.probability(["O", "I-N", "O"]) == 0.0
        assert found.probability(["B-N", "I-N", "O"]) > 0.0
        assert found.tag(X[0]) == model.predict(X)[0]

    def test_labels_that_occur_once_are_not_dropped_without_a_word(self, tmp_path):
        model = ChainCRF(l1=0.01, once=["A"]).fit([[{"w": "x"}, {"w": "y"}]] * 2, [["A", "B"]] * 2)
        with pytest.raises(InputError, match=r"crfsuite: .* at most one run in an item, once=\['A'\]"):
            interchange.write(model, tmp_path / "m.crfsuite")
        assert not [*tmp_path.iterdir()]
        with pytest.warns(UserWarning, match="lost: the rule that labels form at most one run"):
            interchange.write(model, tmp_path / "m.crfsuite", lossy=True)
        interchange.write(model, tmp_path / "m.json")
        assert interchange.read(tmp_path / "m.json").once == ["A"]
        model.model_ = model.model_.with_once([])
        interchange.write(model, tmp_path / "free.crfsuite")

    def test_transitions_stay_forbidden_whatever_the_features(self, tmp_path):
        X, y = (
            [[{"a": 1}, {"b": 1}], [{"b": 1}, {"a": 1}], [{"a": 1}, {"a": 1}]],
            [["A", "B"], ["B", "A"], ["A", "A"]],
        )
        rules = Transitions(forbidden=[("B", "B")])
        model = ChainCRF(l1=0.01, transition_rules=rules).fit(X, y)
        interchange.write(model, tmp_path / "m.crfsuite")
        item = [{"b": 1e11}, {"b": 1e11}]
        assert tagger(tmp_path / "m.crfsuite").tag(item) == list(model.predict([item])[0]) != ["B", "B"]
        assert_same(interchange.read(tmp_path / "m.crfsuite"), tmp_path / "m.crfsuite", X)

    @pytest.mark.parametrize(
        ("X", "y", "message"),
        [
            ([[["x"]]], [[1]], "labels that are strings"),
            ([[["x\0y"]]], [["a"]], "without a zero byte"),
            ([[[""]]], [["a"]], "none empty"),
            ([[["x\ud800"]]], [["a"]], r"names that UTF-8 can encode, .* got 'x\\ud800'"),
        ],
    )
    def test_what_the_format_cannot_hold(self, X, y, message, tmp_path):
        model = ChainCRF(l1=1e-3, all_possible_states=True).fit([*X, [["b"]]], [*y, [y[0][0] * 2]])
        assert model.coef_.nnz
        with pytest.raises(InputError, match=message):
            interchange.write(model, tmp_path / "m.crfsuite")
        assert not (tmp_path / "m.crfsuite").exists()


class TestDamage:
    def test_no_cut_file_is_a_model(self, theirs, tmp_path):
        content = theirs.read_bytes()
        for size in [*range(0, 300, 7), *range(300, len(content), 997), len(content) - 1]:
            with pytest.raises(Damage):
                decode_model(content[:size])
        with pytest.raises(Damage, match="instead of"):
            decode_model(content + b"\0")
        (tmp_path / "m").write_bytes(content[:500])
        with pytest.raises(
            ModelFileError, match=r"m: not a CRFsuite model, or a damaged one: it has 500 bytes"
        ):
            interchange.read(tmp_path / "m")

    def test_changed_bytes_are_told_or_give_a_model(self, theirs, tmp_path):
        content, rng, path = theirs.read_bytes(), random.Random(5), tmp_path / "m"
        X, outcomes = attributes(sentences(1, 2)[0]), set()
        for trial in range(400):
            changed = bytearray(content)
            for _ in range(rng.randint(1, 4)):
                # every other time where the counts and positions are
                at = rng.randrange(60 if trial % 2 else len(changed))
                changed[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, changed[at] ^ 1 << rng.randrange(8)])
            path.write_bytes(changed)
            try:
                model = interchange.read(path, "crfsuite")
            except ModelFileError:
                outcomes.add("told")
            else:
                model.predict(X)
                outcomes.add("read")
        assert outcomes == {"told", "read"}

    @pytest.mark.parametrize("place", range(1, 12))
    def test_absurd_counts_take_no_memory(self, theirs, place):
        content = theirs.read_bytes()
        for value in (2**31 - 1, 2**32 - 1, len(content) // 20, len(content) // 4):
            header = list(FILE_HEADER.unpack(content[: FILE_HEADER.size]))
            if (
                isinstance(header[place], bytes) or place == 4
            ):  # CRFsuite leaves 4 empty and does not look at it
                continue
            header[place] = value
            tracemalloc.start()
            with pytest.raises(Damage):
                decode_model(FILE_HEADER.pack(*header) + content[FILE_HEADER.size :])
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 40 * len(content) + 200_000

    def test_a_weight_that_is_not_finite(self, ours, tmp_path):
        weights = decode_model(_encoded(ours, tmp_path))
        weights[2].values[3] = np.nan
        (tmp_path / "m").write_bytes(encode_model(*weights))
        with pytest.raises(ModelFileError, match="not finite"):
            interchange.read(tmp_path / "m")

    def test_a_name_that_comes_twice(self, ours, tmp_path):
        labels, names, *tables = decode_model(_encoded(ours, tmp_path))
        (tmp_path / "m").write_bytes(encode_model(labels, [names[0], *names[:-1]], *tables))
        with pytest.raises(ModelFileError, match="comes twice"):
            interchange.read(tmp_path / "m")


def _encoded(model, folder) -> bytes:
    interchange.write(model, folder / "whole.crfsuite")
    return (folder / "whole.crfsuite").read_bytes()


def test_load_says_what_the_file_is_not(theirs):
    with pytest.raises(ModelFileError, match="not a crfqn model file"):
        crfqn.load(theirs)

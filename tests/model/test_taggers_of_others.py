"""Taggers as python-crfsuite's users know them: from memory, closed, as text, copied; and models from memory."""

from __future__ import annotations

import copy
import gzip
import pickle
import re
from collections import deque
from io import BytesIO, StringIO

import joblib
import numpy as np
import pycrfsuite
import pytest

from crfqn import ChainCRF, MulticlassCRF, Tagger, TaxonomyCRF, Templates, TokenColumns, interchange, load
from crfqn.compat import CRF
from crfqn.compat.tagger import CrfsuiteTagger as CompatTagger
from crfqn.errors import InputError, ModelFileError

X = [
    [{"word": "the", "len": 3.0}, {"word": "été", "len": 0.5}],
    [{"word": "a", "len": 1.0}, {"word": "dog: x", "len": 2.0}],
]
Y = [["D", "N"], ["D", "N"]]
ROWS = np.random.default_rng(0).normal(size=(30, 3))


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """Model files of both tools, and of templates, items and a taxonomy, by what they are of."""
    folder = tmp_path_factory.mktemp("models")
    chain = ChainCRF(l1=0.01, l2=0.1).fit(X, Y)
    chain.save(folder / "chain")
    interchange.write(chain, folder / "peer.crfsuite")
    columns = TokenColumns.from_items([["the", "dog"], ["a", "cat"]])
    ChainCRF(l1=0.01).fit(Templates("U0:%x[0,0]\nU1:%x[-1,0]\nB").fit_transform(columns), Y).save(
        folder / "templates"
    )
    labels = ROWS.argmax(axis=1)
    MulticlassCRF(l1=0.1).fit(ROWS, labels).save(folder / "items")
    TaxonomyCRF(l1=0.1).fit(ROWS, [f"x/{k}" for k in labels]).save(folder / "tree")
    return {path.name: path for path in folder.iterdir()}


ITEMS = {"chain": X[0], "peer.crfsuite": X[0], "templates": ["the", "cat"], "items": ROWS[0], "tree": ROWS[0]}


@pytest.fixture(params=ITEMS)
def case(request, paths):
    return paths[request.param], ITEMS[request.param]


class TestFromMemory:
    def test_taggers(self, case):
        path, item = case
        content = path.read_bytes()
        expected = Tagger(path).marginals(item)
        for tagger in (
            Tagger(content),
            Tagger(bytearray(content)),
            Tagger(memoryview(content)),
            Tagger(BytesIO(content)),
            Tagger().open_inmemory(content),
            Tagger().open(BytesIO(content)),
        ):
            np.testing.assert_array_equal(tagger.marginals(item), expected)
        with path.open("rb") as stream:
            assert Tagger(stream).tag(item) == Tagger(path).tag(item)

    def test_estimators(self, case):
        path, _ = case
        content = path.read_bytes()
        read = [interchange.read] if path.suffix else [interchange.read, load]
        for one in (f(source) for f in read for source in (content, BytesIO(content))):
            assert (one.coef_ != interchange.read(path).coef_).nnz == 0

    def test_json_and_packed_files(self, paths, tmp_path):
        interchange.convert(paths["chain"], tmp_path / "m.json")
        content, expected = (tmp_path / "m.json").read_bytes(), load(paths["chain"])
        for source in (content, BytesIO(content), gzip.compress(content)):
            model = interchange.read(source)
            assert (model.coef_ != expected.coef_).nnz == 0
            assert model.classes_.tolist() == expected.classes_.tolist()

    @pytest.mark.parametrize(
        "content", [b"", b"foo", b"lCRF", b"lCRFabc", b"lCRFfoo" * 100, b"{}", b"\x1f\x8b"]
    )
    def test_what_is_no_model(self, content):
        for read in (Tagger, Tagger().open_inmemory, load, interchange.read):
            with pytest.raises(ModelFileError, match=r"^<bytes>: ") as info:
                read(content)
            assert isinstance(info.value, ValueError)
            assert not isinstance(info.value, OSError)

    @pytest.mark.parametrize("source", [5, StringIO("text"), ["m.crfqn"]])
    def test_what_is_no_source(self, source):
        for read in (Tagger, load, interchange.read):
            with pytest.raises(
                InputError, match="expected the path of a model file, its bytes, or a file open"
            ):
                read(source)


@pytest.mark.parametrize("read", [Tagger, Tagger().open, load, interchange.read, CompatTagger(None).open])
def test_a_missing_file_is_an_os_error_and_a_foreign_one_a_value_error(read, tmp_path):
    for name in ("m.crfqn", "m.json", "m.crfsuite", "m"):
        with pytest.raises(FileNotFoundError, match=rf"{name}: there is no such file"):
            read(tmp_path / name)
    (tmp_path / "foreign").write_text("a text\n")
    with pytest.raises(ValueError, match="foreign"):
        read(tmp_path / "foreign")


class TestCopies:
    @pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))])
    def test_they_label_the_same(self, case, again):
        path, item = case
        tagger = Tagger(path)
        tagger.marginals(item)  # what is made on first use may be in the copy
        twin = again(tagger)
        np.testing.assert_array_equal(twin.marginals(item), tagger.marginals(item))
        assert twin.info() == tagger.info()

    def test_the_item_that_was_set_stays_behind(self, paths):
        tagger = Tagger(paths["chain"])
        tagger.set(X[0])
        twin = copy.deepcopy(tagger)
        with pytest.raises(InputError, match="expected an item first"):
            twin.tag()
        twin.set(X[1])
        assert tagger.tag() == Tagger(paths["chain"]).tag(X[0])

    def test_joblib_and_processes(self, paths, tmp_path):
        tagger = Tagger(paths["chain"])
        joblib.dump(tagger, tmp_path / "t.joblib")
        assert joblib.load(tmp_path / "t.joblib").tag(X[0]) == tagger.tag(X[0])
        labels = joblib.Parallel(n_jobs=2)(joblib.delayed(tagger.tag)(item) for item in X)
        assert labels == [tagger.tag(item) for item in X]

    def test_closed_and_compat_taggers(self):
        with pytest.raises(InputError, match="expected an open model"):
            copy.deepcopy(Tagger()).labels()
        tagger = CRF().fit(X, Y).tagger_
        assert pickle.loads(pickle.dumps(tagger)).tag(X[0]) == tagger.tag(X[0]) == ["D", "N"]


class TestClosed:
    @pytest.mark.parametrize("use", ["labels", "info", "dump", "tag", "marginals", "strongest_features"])
    @pytest.mark.parametrize("kind", [ValueError, RuntimeError])
    def test_every_method_says_so(self, paths, use, kind):
        tagger = Tagger(paths["chain"])
        with tagger as opened:
            assert opened.labels() == ["D", "N"]
        for closed in (tagger, Tagger()):
            with pytest.raises(kind, match="expected an open model"):
                getattr(closed, use)(*([X[0]] if use == "tag" else []))


class TestAsText:
    def test_the_header(self, case):
        info = Tagger(case[0]).info()
        assert info.header["num_labels"] == str(len(info.labels))
        assert info.header["num_attrs"] == str(len(info.attributes))
        assert info.header["num_features"] == str(len(info.transitions) + len(info.state_features))

    def test_dump_has_what_crfsuite_dumps(self, paths, tmp_path, capsys):
        """Labels, attributes and weights: those of python-crfsuite's own dump of the same file."""
        theirs, ours = pycrfsuite.Tagger(), Tagger(paths["peer.crfsuite"])
        theirs.open(str(paths["peer.crfsuite"]))
        theirs.dump(str(tmp_path / "theirs.txt"))
        ours.dump(tmp_path / "ours.txt")

        def content(path):
            text = path.read_text(encoding="utf-8")
            parts = dict(re.findall(r"^(\w+) = \{\n(.*?)\n?^\}", text, re.MULTILINE | re.DOTALL))
            names = ("LABELS", "ATTRIBUTES", "TRANSITIONS", "STATE_FEATURES")
            return [sorted(line.split() for line in parts[name].splitlines()) for name in names]

        assert content(tmp_path / "ours.txt") == content(tmp_path / "theirs.txt")
        ours.dump()
        assert capsys.readouterr().out == (tmp_path / "ours.txt").read_text(encoding="utf-8")


class TestTokens:
    @pytest.mark.parametrize("name", ["chain", "peer.crfsuite"])
    def test_any_iterable_of_strings_is_a_position(self, paths, name):
        model, tagger = interchange.read(paths[name]), Tagger(paths[name])
        names = [["word=the", "word:the", "len"], ["word:été", "word=été"]]
        expected = tagger.marginals(names)
        for form in (tuple, set, iter, np.array, deque, lambda names: dict.fromkeys(names).keys()):
            np.testing.assert_allclose(tagger.marginals([*map(form, names)]), expected)
            np.testing.assert_allclose(model.predict_marginals([[*map(form, names)]])[0], expected)

    def test_training_takes_them_too(self):
        keys = [[{"a": 1, "b": 2}.keys(), {"c": 1}.keys()]]
        listed = ChainCRF(l1=0.1).fit([[["a", "b"], ["c"]]], [["A", "B"]])
        for model in (ChainCRF(l1=0.1).fit(keys, [["A", "B"]]), CRF().fit(keys, [["A", "B"]]).model_):
            assert model.feature_names_in_.tolist() == listed.feature_names_in_.tolist()
        assert ChainCRF(l1=0.1).fit(keys, [["A", "B"]]).state_features_ == listed.state_features_

    @pytest.mark.parametrize("position", ["foo", b"foo", 3, {"a": 1}.items(), [{"a": 1.0}]])
    def test_other_positions_are_refused(self, paths, position):
        for name in ("chain", "peer.crfsuite"):
            with pytest.raises(InputError, match="item 0, position 0: expected"):
                Tagger(paths[name]).tag([position])

    def test_item_sequences_and_iterators(self, paths):
        tagger = Tagger(paths["peer.crfsuite"])
        assert tagger.tag(pycrfsuite.ItemSequence(X[0])) == tagger.tag(X[0])
        assert tagger.tag(position for position in X[0]) == ["D", "N"]
        assert tagger.probability(["D", "N"]) == pytest.approx(tagger.probability(["D", "N"], X[0]))


class TestStrongestFeatures:
    def test_terms_of_the_best_labels(self, paths):
        tagger = Tagger(paths["chain"])
        weights = tagger.info().state_features
        found = tagger.strongest_features(X[0], n=2)
        assert len(found) == 2
        for position, label, terms in zip(X[0], tagger.tag(X[0]), found, strict=True):
            values = {f"word={position['word']}": 1.0, "len": position["len"]}
            expected = {name: weights.get((name, label), 0.0) * value for name, value in values.items()}
            assert dict(terms) == pytest.approx({name: term for name, term in expected.items() if term})
        assert tagger.strongest_features(n=2) == found

    def test_items(self, paths):
        tagger = Tagger(paths["items"])
        (name, term), *_ = tagger.strongest_features(ROWS[0], n=1)
        assert term == pytest.approx(tagger.info().state_features[name, tagger.tag(ROWS[0])] * ROWS[0, name])
        with pytest.raises(InputError, match="n: expected an integer >= 1, got 0"):
            tagger.strongest_features(ROWS[0], n=0)

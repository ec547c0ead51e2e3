"""The tagger against the estimators, on every kind of model file, and under the names of `pycrfsuite.Tagger`."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pycrfsuite
import pytest

import crfqn
from crfqn import ChainCRF, Sequences, Tagger, Templates, Transitions, interchange
from crfqn.errors import InputError, ModelFileError, UnknownFeaturesWarning
from crfqn.estimators.chain_data import encode_known
from crfqn.model.opening import open_model
from crfqn.model.space import SequenceSpace

WORDS = ["the", "dog", "sees", "a", "cat", "and", "The", "Cat", "sees", "it", "under", "a", "tree"]


def tokens(seed, n_items, longest=6):
    random = np.random.default_rng(seed)
    return [list(random.choice(WORDS, random.integers(1, longest + 1))) for _ in range(n_items)]


def dicts(item):
    return [
        {"w": word, "title": word.istitle(), "size": len(word) / 3, "at": {"first": t == 0}, "bias": 1}
        for t, word in enumerate(item)
    ]


def strings(item):
    return [[f"w={word}", f"s={word[-1]}", *["twice"] * 2] for word in item]


def columns(item):
    return [{"w": word, "pos": word[:1]} for word in item]


def matrix(item):
    return np.array([[word == other for other in WORDS] for word in item], float) * 0.7


def labels_of(item, seed=1):
    random, found = np.random.default_rng([seed, len(item)]), []
    for word in item:
        is_name = word.lower() in ("dog", "cat", "tree") or random.random() < 0.2
        found.append(("I-X" if found and found[-1] != "O" else "B-X") if is_name else "O")
    return found


FORMS = {
    "dicts": (dicts, {}),
    "strings": (strings, {}),
    "matrix": (matrix, {}),
    "scheme": (dicts, {"scheme": "IOB2"}),
    "ends": (
        strings,
        {
            "transition_rules": Transitions(start=["B-X", "O"], end=["O", "I-X"]),
            "enforce_rules_in": "decoding",
        },
    ),
    "hinge": (dicts, {"loss": "hinge", "l1": 0.0, "l2": 1.0}),
    "numbers": (strings, {}),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Of each form of items: the estimator, the path of its file, and new items."""
    folder, found = tmp_path_factory.mktemp("models"), {}
    train, new = tokens(0, 40), [*tokens(1, 25), ["unseen", "cat", "words"]]
    y = [labels_of(item) for item in train]
    for name, (form, settings) in FORMS.items():
        labels = [[len(label) for label in item] for item in y] if name == "numbers" else y
        model = ChainCRF(**{"l1": 0.1, "n_threads": 1, **settings}).fit(
            [form(item) for item in train], labels
        )
        found[name] = model, folder / f"{name}.crfqn", [form(item) for item in new]
    for name, n_hashed in (("templates", None), ("hashed", 64)):
        templates = Templates(windows="w[-1] w[0] w[0]|pos[1]", columns=("w", "pos"), n_hashed=n_hashed)
        X = templates.fit_transform([columns(item) for item in train])
        found[name] = (
            ChainCRF(l1=0.1, n_threads=1).fit(X, y),
            folder / f"{name}.crfqn",
            [columns(item) for item in new],
        )
    for model, path, _ in found.values():
        model.save(path)
    named = ChainCRF(l1=0.1, n_threads=1).fit([[{"w": word} for word in item] for item in train], y)
    interchange.write(named, folder / "theirs.crfsuite")
    theirs = interchange.read(folder / "theirs.crfsuite")
    found["crfsuite"] = theirs, folder / "theirs.crfsuite", [[{"w": word} for word in item] for item in new]
    return found


@pytest.mark.parametrize("form", ["dicts", "strings", "numbers", "scheme", "ends", "hinge"])
def test_the_fast_answers_for_one_sentence_are_those_of_the_methods(files, form):
    """Sentences as tuples take the way of the model's methods."""
    estimator, path, new = files[form]
    for temperature in (None, 2.5):
        tagger = Tagger(path)
        if temperature is not None and estimator.loss == "logistic":
            tagger._opened = tagger._opened.with_temperature(temperature)
        has_fast_answers = tagger._opened.one_sentence is not None
        assert has_fast_answers == (form not in ("scheme", "ends"))  # these have rules
        for item in new:
            labels = tagger.tag(tuple(item))
            assert tagger.tag(item) == labels
            if estimator.loss != "logistic":
                with pytest.raises(AttributeError):
                    tagger.marginals(item)
                continue
            np.testing.assert_allclose(tagger.marginals(item), tagger.marginals(tuple(item)), atol=1e-12)
            for answer in (labels, [tagger.labels()[0]] * len(item), [None] * len(item)):
                expected = tagger.probability(answer, tuple(item))
                assert tagger.probability(answer, item) == pytest.approx(expected, rel=1e-11, abs=1e-300)
            for wrong in (labels + labels[:1], ["unknown"] * len(item)):
                with pytest.raises(InputError):
                    tagger.probability(wrong, item)


@pytest.mark.parametrize("name", [*FORMS, "templates", "hashed", "crfsuite"])
@pytest.mark.filterwarnings("ignore::crfqn.errors.UnknownFeaturesWarning")
def test_labels_and_probabilities_are_those_of_the_estimator(files, name):
    model, path, X = files[name]
    tagger = Tagger(path)
    assert tagger.labels() == model.classes_.tolist()
    expected = model.predict(X).tolist()
    assert tagger.tag_items(X) == expected == [tagger.tag(item) for item in X]
    known = [
        [None, {model.classes_[0], model.classes_[-1]}][: len(item)] + [None] * (len(item) - 2) for item in X
    ]
    assert tagger.tag_items(X, known) == model.predict(X, known).tolist()
    if name == "hinge":
        with pytest.raises(AttributeError, match="the loss is 'hinge'"):
            tagger.probability(expected[0], X[0])
        return
    for item, given in zip(X[:8], known, strict=False):
        np.testing.assert_allclose(
            tagger.marginals(item, given), model.predict_marginals([item], [given])[0], atol=1e-12
        )
        ours, theirs = tagger.nbest(item, 3, given), model.predict_nbest([item], 3, [given])[0]
        assert [labels for labels, _ in ours] == [labels for labels, _ in theirs]
        np.testing.assert_allclose([p for _, p in ours], [p for _, p in theirs], atol=1e-12)
        for y in (ours[0][0], given):
            expected_probability = np.exp(model.log_likelihood([item], [y])[0])
            np.testing.assert_allclose(tagger.probability(y, item), expected_probability, atol=1e-12)


POSITIONS = [
    {"w": "dog"}, {"w": "dog", "s": True}, {"w": 1, "s": 0}, {"w": "cat", "n": 2.5}, {"w": ["dog", "dog"]}, {},
    ["w=dog", "s=g"], ["w=cat", "w=cat", "twice"], ("w=tree",), {"w=a", "unseen"}, [], ["w=dog", 3], "w=dog", None,
]  # fmt: skip


@pytest.mark.parametrize("name", ["dicts", "strings", "hinge", "ends", "numbers", "crfsuite"])
@pytest.mark.filterwarnings("ignore::crfqn.errors.UnknownFeaturesWarning")
def test_a_sentence_alone_has_the_labels_that_it_has_among_others(files, name):
    _, path, (other, *_) = files[name]
    tagger, random = Tagger(path), np.random.default_rng(0)

    def outcome(function):
        try:
            return function()
        except (InputError, TypeError) as error:
            return str(error)

    for n in [*range(5)] * 60:
        kinds = POSITIONS if n % 2 else POSITIONS[: random.integers(1, len(POSITIONS))]
        item = [kinds[k] for k in random.integers(len(kinds), size=n)]
        assert outcome(lambda item=item: tagger.tag(item)) == outcome(
            lambda item=item: tagger.tag_items([item, other])[0]
        )


@pytest.mark.parametrize("name", ["dicts", "scheme", "templates", "crfsuite"])
def test_spans_are_those_of_the_estimator(files, name):
    model, path, X = files[name]
    for scheme in ("IOB2", "IOB1"):
        known = [[None] * (len(item) - 1) + [{"O", "I-X"}] for item in X]
        ours = open_model(path).predict_spans(X, known, scheme)
        for found, expected in zip(ours, model.predict_spans(X, known, scheme), strict=True):
            assert [span[:3] for span in found] == [span[:3] for span in expected]
            assert [span.probability for span in found] == pytest.approx(
                [s.probability for s in expected], abs=1e-12
            )


def test_words_are_asked_for_all_columns(files):
    with pytest.raises(
        InputError, match="item 0, position 0: expected a text in the column 'pos', too, got 'the'"
    ):
        Tagger(files["templates"][1]).tag("the dog")


def test_it_has_the_names_of_python_crfsuite(files):
    _, path, X = files["crfsuite"]
    ours, theirs = Tagger(), pycrfsuite.Tagger()
    with ours.open(path), theirs.open(str(path)):
        assert ours.labels() == theirs.labels()
        for item in X[:5]:
            assert ours.tag(item) == theirs.tag(item)
            labels = theirs.tag(item)
            np.testing.assert_allclose(ours.probability(labels), theirs.probability(labels), atol=1e-12)
            for t in range(len(item)):
                np.testing.assert_allclose(ours.marginal("O", t), theirs.marginal("O", t), atol=1e-12)
        info = theirs.info()
        assert ours.info().transitions == pytest.approx(
            info.transitions, abs=1e-5
        )  # their dump has six digits
        assert ours.info().state_features == pytest.approx(info.state_features, abs=1e-5)
    with pytest.raises(InputError, match=r"open\(path\)"):
        ours.tag(X[0])


def test_strings_are_words_for_templates_of_one_column(tmp_path):
    items = tokens(2, 30)
    X = Templates(windows="w[-1] w[0]", columns=("w",)).fit_transform([[[w] for w in item] for item in items])
    model = ChainCRF(l1=0.1, n_threads=1).fit(X, [labels_of(item) for item in items])
    model.save(tmp_path / "words.crfqn")
    assert (
        Tagger(tmp_path / "words.crfqn").tag("the  dog\tsees.")
        == model.predict([["the", "dog", "sees", "."]])[0]
    )


def test_sequences_of_sparse_matrices(files):
    model, path, X = files["dicts"]
    encoded = encode_known(X, SequenceSpace.from_model(model.model_))
    assert isinstance(encoded, Sequences)
    assert Tagger(path).tag_items(encoded) == model.predict(X).tolist()


def test_bad_input_is_told_as_by_the_estimator(files, tmp_path):
    model, path, X = files["scheme"]
    tagger = Tagger(path)
    calls = [
        ("predict", "tag_items", ([X[0][0]],)),
        ("predict", "tag_items", ([[{"w": float("nan")}]],)),
        ("predict", "tag_items", ([[{3: "a"}]],)),
        ("predict", "tag_items", ("text",)),
        ("predict", "tag_items", (X[:1], [["nobody"] * len(X[0])])),
        ("predict", "tag_items", ([X[0][:1]], [["I-X"]])),
    ]
    for theirs, ours, given in calls:
        with pytest.raises(InputError) as expected:
            getattr(model, theirs)(*given)
        with pytest.raises(InputError) as found:
            getattr(tagger, ours)(*given)
        assert str(found.value) == str(expected.value)
    with pytest.warns(UnknownFeaturesWarning, match="1 of 1 items"):
        Tagger(files["strings"][1]).tag([["none"]])
    for bad, expected in ((b"", "empty"), (path.read_bytes()[:-9], "truncated"), (b"lCRF", "CRFsuite model")):
        (tmp_path / "bad.crfqn").write_bytes(bad)
        with pytest.raises(ModelFileError, match=expected):
            Tagger(tmp_path / "bad.crfqn")
    with pytest.raises(ModelFileError, match="no such file"):
        Tagger(tmp_path / "none.crfqn")


def test_a_sequence_without_positions(files):
    for name in ("dicts", "templates", "matrix"):
        model, path, _ = files[name]
        tagger = Tagger(path)
        assert tagger.tag([]) == [] == model.predict([[]])[0]
        assert tagger.marginals().shape == (0, len(tagger.labels()))
        assert tagger.nbest() == [([], 1.0)]
        assert tagger.probability([]) == 1.0


def test_threads_share_a_tagger(files):
    _, path, X = files["dicts"]
    tagger = Tagger(path)

    def run(item):
        tagger.set(item)
        return tagger.tag(), tagger.marginals().tobytes()

    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(run, X * 8)] == [*map(run, X * 8)]


def test_nothing_heavy_is_imported(files):
    """Nor modules of some milliseconds that numpy does not import and labelling does not use."""
    _, path, _ = files["templates"]
    heavy = ("scipy", "sklearn", "numba", "llvmlite", "pandas", "rich", "networkx", "typer", "pooch")
    unused = (
        "crfqn.model.item_model",
        "difflib",
        "importlib.metadata",
        "logging",
        "numpy.ma",
        "pathlib",
        "secrets",
        "urllib",
    )
    script = (
        "import sys, numpy; before = {*sys.modules};"
        f"from crfqn import Tagger; t = Tagger({str(path)!r});"
        "t.tag([{'w': 'dog', 'pos': 'N'}]); t.marginals(); t.nbest(); t.probability(t.tag());"
        f"print(*(name for name in {heavy + unused} if name in {{*sys.modules}} - before))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "\n"
    assert crfqn.Tagger is Tagger

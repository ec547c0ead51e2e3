"""Recipes of documents: what they may say, the features that they make, taxonomies, and what a model file keeps."""

import json
import os

import numpy as np
import pytest
from scipy.sparse import csr_array

from crfqn.data.model_file import ModelFile
from crfqn.errors import DataError, DataUnavailableError, InputError, ModelFileError, RecipeError
from crfqn.model.featurizers import read_featurizer
from crfqn.readers.images import make_digit_strings
from crfqn.readers.labelled_items import Documents
from crfqn.readers.labelled_text import read_labelled_texts
from crfqn.recipes import build_estimator, load_recipe, observe, prepare_data, sources
from crfqn.recipes.schema import parse_recipe
from crfqn.taxonomy.tree import LabelTree

NUMBER_FEATURES = {
    "n_columns": 3, "columns": [1, 2], "sources": [4, 5], "names": None, "scales": None, "first_id": 0
}  # fmt: skip
NUMBERS = """
name = "mine"
title = "Mine"
[data]
train = "train.txt"
test = "test.txt"
[features]
kind = "given"
[structure]
kind = "taxonomy"
"""
TEXTS = NUMBERS.replace('"given"', '"text"')
STDLIB = """
name = "mine"
title = "Mine"
[data]
dataset = "stdlib"
[features]
kind = "text"
[structure]
kind = "taxonomy"
"""
TRAIN = "a/x 0:2 3:4\na/y 3:1 9:-8\nb 3:2\n"
TEST = "b 9:4 5:1\n"
POSTS = "a/x\tCats and more cats\na/y\tdogs, and cats\nb\tAnd birds\n"
NEW_POSTS = "b\tbirds, dogs and fish\n"


@pytest.fixture
def folder(tmp_path):
    """A folder with files of one's own."""
    path = tmp_path / "mine"
    path.mkdir()
    return path


@pytest.fixture
def recipe_of(folder):
    """The recipe of a text, beside files of these contents."""

    def write(text: str, train: str = TRAIN, test: str = TEST, **files: str):
        contents = {"recipe.toml": text, "train.txt": train, "test.txt": test}
        contents |= {name.replace("_", "."): content for name, content in files.items()}
        for name, content in contents.items():
            (folder / name).write_text(content, encoding="utf-8")
        return load_recipe(folder)

    return write


@pytest.fixture
def as_dataset(monkeypatch):
    """Let every dataset of the registry have this content."""
    return lambda data: monkeypatch.setattr("crfqn.datasets.Dataset.load", lambda self: data)


FLAT = NUMBERS.replace('kind = "taxonomy"', 'kind = "flat"')
BAD = [
    (NUMBERS.replace("[structure]\n", "").replace('kind = "taxonomy"', ""), 'kind = "given" is for single items'),
    (
        NUMBERS.replace('"given"', '"attributes"'),
        r'\[features\] kind = "attributes" is for sequences, not for \[structure\] kind = "taxonomy"; use "given"',
    ),
    (NUMBERS + 'labels = "all"', r'\[structure\] labels = "all": expected one of "leaves", "nodes"'),
    (NUMBERS + 'taxonomy = ""', r'\[structure\] taxonomy = "": expected a text that is not empty'),
    (NUMBERS + "separator = 1", r"\[structure\] separator = 1: expected text"),
    (FLAT + '[objective]\nloss = "huber"', r'\[objective\] loss = "huber": expected one of "squared-hinge"'),
    (FLAT + '[objective]\npenalty = "l0"', r'\[objective\] penalty = "l0": expected one of "l1/l2", "l1/linf"'),
    (FLAT + '[objective]\ngroup_norm = "l2"', r'\[objective\] with .* has an unknown key: group_norm = "l2"'),
    (NUMBERS + '[objective]\nloss = "squared-hinge"', r'loss = "squared-hinge" is for \[structure\] kind = "flat"'),
    (FLAT + 'labels = "nodes"', r'\[structure\] with kind = "flat" has an unknown key: labels = "nodes"; allowed'),
    (STDLIB + 'taxonomy = "tree.txt"', r'taxonomy = "tree.txt" is for files of your own; the dataset \'stdlib\''),
    (STDLIB + 'separator = "."', r"\[structure\] separator = \".\" is for files of your own"),
    (TEXTS.replace("[structure]", 'scale = "max-abs"\n[structure]'), r'\[features\] with kind = "text" has .* scale'),
    (NUMBERS.replace("[structure]", "min_df = 2\n[structure]"), r'\[features\] with kind = "given" has .* min_df = 2'),
    (TEXTS.replace("[structure]", "min_df = 0\n[structure]"), r"\[features\] min_df = 0: expected integer >= 1"),
    (TEXTS.replace("[structure]", 'norm = "l1"\n[structure]'), r'norm = "l1": expected one of "l2", "none"'),
    (TEXTS.replace("[structure]", 'weighting = "bm25"\n[structure]'), 'weighting = "bm25": expected one of "tf-idf"'),
    (
        NUMBERS + '[objective]\nclass_weight = "heavy"',
        r'\[objective\] class_weight = "heavy": expected "none", "balanced" or a section',
    ),
    (
        NUMBERS.replace('"given"', '"attributes"').replace('"taxonomy"', '"chain"')
        + "[objective]\nfit_intercept = true",
        r'\[objective\] with \[structure\] kind = "chain" has an unknown key: fit_intercept = true; allowed: loss, ',
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BAD)
def test_bad_recipes_say_where_what_and_what_is_allowed(recipe_of, folder, text, message):
    with pytest.raises(RecipeError, match=message) as caught:
        recipe_of(text)
    assert str(caught.value).startswith(str(folder / "recipe.toml"))


@pytest.mark.parametrize(
    "text",
    [
        NUMBERS + 'taxonomy = "tree.txt"\nseparator = "."\nlabels = "nodes"',
        FLAT + '[objective]\nfit_intercept = true\nclass_weight = "balanced"',
        STDLIB.replace("[structure]", 'weighting = "binary"\nnorm = "none"\nmin_df = 3\n[structure]'),
    ],
)
def test_recipes_survive_json(recipe_of, text):
    recipe = recipe_of(text)
    assert parse_recipe(json.loads(json.dumps(recipe.as_dict())), recipe.source) == recipe


WORD_SETTINGS = {"weighting": "tf-idf", "norm": "l2", "sublinear_tf": False}


def restored(table, path="m"):
    """The featurizer of a model file that has this table."""
    return read_featurizer(ModelFile("multiclass-crf", {}, {}, {"featurizer": table}, path))


class TestNumbers:
    def test_columns_of_the_training_part(self, recipe_of):
        recipe = recipe_of(NUMBERS)
        data = prepare_data(recipe)
        assert data.feature_names == ["0", "3", "9"]
        np.testing.assert_array_equal(data.X_train.toarray(), [[2, 4, 0], [0, 1, -8], [0, 2, 0]])
        np.testing.assert_array_equal(data.X_test.toarray(), [[0, 0, 4]])  # feature 5 is new
        assert (data.y_train, data.y_test) == (["a/x", "a/y", "b"], ["b"])
        assert data.taxonomy.names == ("a", "b", "a/x", "a/y")
        assert len(data.fingerprint) == 64
        assert (data.X_test != observe(recipe).X).nnz == 0

    def test_the_data_are_read_once(self, recipe_of, monkeypatch):
        recipe, read = recipe_of(NUMBERS), []
        load = sources.load_items
        monkeypatch.setattr(sources, "load_items", lambda recipe: read.append(recipe) or load(recipe))
        assert observe(recipe).X.shape == (1, 3)
        assert len(read) == 1

    def test_scale(self, recipe_of):
        data = prepare_data(recipe_of(NUMBERS.replace("[structure]", 'scale = "max-abs"\n[structure]')))
        np.testing.assert_array_equal(data.X_train.toarray(), [[1, 1, 0], [0, 0.25, -1], [0, 0.5, 0]])
        np.testing.assert_array_equal(data.X_test.toarray(), [[0, 0, 0.5]])

    @pytest.mark.parametrize("names", [None, ["p", "q", "r", "s"]])
    def test_ids_of_new_files(self, recipe_of, as_dataset, folder, names):
        """They are the columns where the data is svmlight's; else they count from 1."""
        matrix = csr_array(np.array([[2.0, 0, 4, 0], [0, 0, 1, 2], [1, 1, 1, 1]]))
        as_dataset(Documents(matrix, ["a", "b", "a"], None, 2, names))
        recipe = recipe_of(STDLIB.replace('"text"', '"given"').replace('"taxonomy"', '"flat"'))
        data = prepare_data(recipe)
        assert data.feature_names == (["0", "2", "3"] if names is None else ["p", "r", "s"])
        first = 0 if names is None else 1
        (folder / "new.txt").write_text(f"0 {first}:5 {first + 1}:6 {first + 3}:7 99:1\n")
        observed = observe(recipe, folder / "new.txt", data.features)
        np.testing.assert_array_equal(observed.X.toarray(), [[5, 0, 7]])

    def test_what_a_model_file_keeps(self, recipe_of):
        recipe = recipe_of(NUMBERS.replace("[structure]", 'scale = "max-abs"\n[structure]'))
        data = prepare_data(recipe)
        table = json.loads(json.dumps(data.features.as_dict(np.array([0, 2]))))
        assert table == {
            "kind": "given", "n_columns": 3, "columns": [0, 2], "sources": [0, 9], "names": None, "scales": [2, 8],
            "first_id": 0,
        }  # fmt: skip
        features = restored(table)
        assert features.names == ["0", "9"]
        new = csr_array(np.arange(20.0).reshape(2, 10))
        np.testing.assert_array_equal(
            features.transform(new).toarray(), data.features.transform(new).toarray() * [1, 0, 1]
        )
        nothing = restored(data.features.as_dict(np.array([], int)))
        assert nothing.transform(new).shape == (2, 3)


class TestTexts:
    def test_as_scikit_learn(self, recipe_of):
        from sklearn.feature_extraction.text import TfidfVectorizer

        data = prepare_data(recipe_of(TEXTS, POSTS, NEW_POSTS))
        texts = read_labelled_texts(recipe_of(TEXTS, POSTS, NEW_POSTS).source.parent / "train.txt").inputs
        vectorizer = TfidfVectorizer()
        np.testing.assert_array_equal(data.X_train.toarray(), vectorizer.fit_transform(texts).toarray())
        expected = vectorizer.transform(["birds, dogs and fish"]).toarray()
        np.testing.assert_array_equal(data.X_test.toarray(), expected)
        assert data.feature_names == vectorizer.get_feature_names_out().tolist()

    @pytest.mark.parametrize("norm", ["l2", "none"])
    @pytest.mark.parametrize("weighting", ["tf-idf", "count", "binary"])
    @pytest.mark.parametrize("more", ["", "sublinear_tf = true\nmin_df = 2"])
    def test_what_a_model_file_keeps(self, recipe_of, norm, weighting, more):
        options = f'norm = "{norm}"\nweighting = "{weighting}"\n{more}\n[structure]'
        recipe = recipe_of(TEXTS.replace("[structure]", options), POSTS, NEW_POSTS)
        data = prepare_data(recipe)
        used = np.array([data.feature_names.index(word) for word in ["cats"]])
        features = restored(json.loads(json.dumps(data.features.as_dict(used))))
        found = features.transform(["cats and dogs", "fish", "and and birds"])
        expected = data.features.transform(["cats and dogs", "fish", "and and birds"])
        assert found.shape == expected.shape
        np.testing.assert_array_equal(found.toarray()[:, used], expected.toarray()[:, used])
        assert features.names[np.searchsorted(features.columns, used[0])] == "cats"
        assert (norm == "l2") == (features.names == data.feature_names)

    def test_no_word_with_a_weight(self, recipe_of):
        recipe = recipe_of(TEXTS.replace("[structure]", 'norm = "none"\n[structure]'), POSTS, NEW_POSTS)
        table = prepare_data(recipe).features.as_dict(np.array([], int))
        assert table == {
            "kind": "text", "weighting": "count", "norm": "none", "sublinear_tf": False, "n_columns": 5, "columns": [],
            "words": [], "rules": "unicode", "analyzer": "word", "ngram_range": [1, 1],
        }  # fmt: skip
        assert restored(table).transform(["and"]).toarray().tolist() == [[0] * 5]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("a\t?\n", "expected words of at least two letters"),
            ("a\tb c\n", "expected words of at least two letters"),
        ],
    )
    def test_no_words(self, recipe_of, text, message):
        with pytest.raises(RecipeError, match=rf"\[features\] has no words: {message}"):
            prepare_data(recipe_of(TEXTS, text, NEW_POSTS))

    def test_the_lines_of_a_file(self, tmp_path):
        path = tmp_path / "posts"
        path.write_text("a b \t one\ttwo \n\n  \nthree\n\tfour\nc\t\n", encoding="utf-8")
        documents = read_labelled_texts(path)
        assert documents.labels == ["a b", "", "", "c"]
        assert documents.inputs == [" one\ttwo ", "three", "four", ""]
        path.write_text(" \n")
        with pytest.raises(
            DataError, match="posts: no documents; expected lines of a label, a tab and a text"
        ):
            read_labelled_texts(path)

    def test_blank_lines_may_be_documents(self, recipe_of, folder, tmp_path):
        recipe = recipe_of(TEXTS, POSTS, NEW_POSTS)
        features = prepare_data(recipe).features
        for end in ("\n", ""):
            (folder / "new.txt").write_text(f"cats\n\n \nb\tcats{end}")
            assert observe(recipe, folder / "new.txt", features).X.shape[0] == 2
            kept = observe(recipe, folder / "new.txt", features, keeps_blank=True)
            assert kept.y == ["", "", "", "b"]
            assert np.diff(kept.X.indptr).tolist() == [1, 0, 0, 1]

    def test_new_files_may_have_labels(self, recipe_of, folder):
        recipe = recipe_of(TEXTS, POSTS, NEW_POSTS)
        features = prepare_data(recipe).features
        (folder / "new.txt").write_text("cats\nb\tcats\n")
        observed = observe(recipe, folder / "new.txt", features)
        assert observed.y == ["", "b"]
        assert (observed.X[[0]] != observed.X[[1]]).nnz == 0
        assert (observe(recipe, folder / "new.txt").X != observed.X).nnz == 0  # fitted again
        (folder / "new.txt").write_text("cats\n")
        assert observe(recipe, folder / "new.txt", features).y is None


class TestTaxonomies:
    def test_of_a_file(self, recipe_of):
        train = TRAIN.replace("a/", "")
        recipe = recipe_of(NUMBERS + 'taxonomy = "tree.txt"', train, tree_txt="a x\na y\nb\nc d\n")
        assert prepare_data(recipe).taxonomy.names == ("a", "b", "c", "x", "y", "d")

    def test_of_paths_with_another_separator(self, recipe_of):
        tree = prepare_data(recipe_of(NUMBERS + 'separator = "."', TRAIN.replace("/", "."))).taxonomy
        assert tree.names == ("a", "b", "a.x", "a.y")

    def test_is_inferred_from_the_training_part_only(self, recipe_of):
        expected = prepare_data(recipe_of(NUMBERS))
        for label in ("c/z", "a", "a/y/z"):
            data = prepare_data(recipe_of(NUMBERS, test=f"b 9:1\n{label} 9:1\n"))
            assert data.taxonomy.names == expected.taxonomy.names
            assert data.y_test == ["b", label]
            assert (data.is_inferred, data.given_taxonomy) == (True, None)
        models = [
            build_estimator(recipe_of(NUMBERS, test=test), taxonomy=None, l1=0.01).fit(
                data.X_train, data.y_train
            )
            for test in (TEST, "c/z 9:1\n")
        ]
        assert models[0].result_.value == models[1].result_.value

    def test_the_estimator_infers_with_the_separator(self, recipe_of):
        recipe = recipe_of(NUMBERS + 'separator = "."', TRAIN.replace("/", "."), "a.z 9:1\n")
        data = prepare_data(recipe)
        model = build_estimator(recipe, taxonomy=data.given_taxonomy).fit(data.X_train, data.y_train)
        assert model.tree_.names == data.taxonomy.names == ("a", "b", "a.x", "a.y")

    def test_one_that_is_given_has_the_labels_of_the_test_part(self, recipe_of):
        recipe = recipe_of(NUMBERS + 'taxonomy = "tree.txt"', tree_txt="a/x\na/y\nb\nc/z\n")
        data = prepare_data(recipe)
        assert data.given_taxonomy is data.taxonomy
        with pytest.raises(
            RecipeError, match=r"test\.txt, line 3: the taxonomy of 6 nodes has no node named 'c/y'"
        ):
            prepare_data(recipe_of(NUMBERS + 'taxonomy = "tree.txt"', test="# c\nc/z 9:1\nc/y 9:1\n"))

    def test_flat_recipes_have_none(self, recipe_of):
        assert prepare_data(recipe_of(FLAT)).taxonomy is None

    @pytest.mark.parametrize(
        ("more", "files", "message"),
        [
            (
                'taxonomy = "tree.txt"',
                {"tree_txt": "a x\nb\n"},
                r'\[structure\] taxonomy = "tree.txt": .*train\.txt, line 1: the taxonomy of 3 nodes has no node .*a/x',
            ),
            (
                "",
                {"train": TRAIN + "\na 9:1\n"},
                r"""labels = "leaves": .*train\.txt, line 5: the label 'a' is an inner .*; labels = "nodes" lets""",
            ),
            ("", {"test": "b 9:1\na//b 9:1\n"}, r"\[structure\]: .*test\.txt, line 2: .*without empty .*, got 'a//b'"),
        ],
    )  # fmt: skip
    def test_labels_that_do_not_fit(self, recipe_of, more, files, message):
        with pytest.raises(RecipeError, match=message):
            prepare_data(recipe_of(NUMBERS + more, **files))

    def test_documents_may_stop_at_inner_nodes(self, recipe_of):
        recipe = recipe_of(NUMBERS + 'labels = "nodes"', test="a 9:1\n")
        assert prepare_data(recipe).y_test == ["a"]
        assert build_estimator(recipe).labels == "nodes"

    def test_a_missing_or_broken_file(self, recipe_of):
        text = NUMBERS + 'taxonomy = "tree.txt"'
        with pytest.raises(DataError, match=r"tree\.txt: no such file") as caught:
            prepare_data(recipe_of(text))
        assert not isinstance(caught.value, DataUnavailableError)  # nothing to be fetched
        with pytest.raises(DataError, match=r"tree\.txt: the taxonomy has a cycle"):
            prepare_data(recipe_of(text, tree_txt="a b\nb a\n"))


class TestData:
    def test_kinds_of_data(self, recipe_of, as_dataset):
        tree, texts = LabelTree.star(["a", "b"]), ["one word", "two"]
        flat, pixels = STDLIB.replace('"taxonomy"', '"flat"'), ('"text"', '"pixel-pairs"')
        chain = STDLIB.replace('"taxonomy"', '"chain"').replace(*pixels)
        flat_texts = Documents(texts, ["a", "b"], None, 1)
        for data, text, message in (
            (Documents(csr_array(np.eye(2)), ["a", "b"], tree, 1), flat, 'kind = "text": .* has numbers; use "given"'),
            (Documents(texts, ["a", "b"], tree, 1), flat.replace('"text"', '"given"'),
                'kind = "given": .* has texts; use "text"'),
            (flat_texts, STDLIB, 'kind = "taxonomy": .* has no taxonomy; use "flat"'),
            (make_digit_strings(2, 1), flat, 'kind = "flat": .* has sequences; use "chain"'),
            (flat_texts, chain, 'kind = "chain": .* has single items; use "taxonomy"'),
        ):  # fmt: skip
            as_dataset(data)
            with pytest.raises(RecipeError, match=message.replace(".*", "the dataset 'stdlib'")):
                prepare_data(recipe_of(text))
        with pytest.raises(RecipeError, match=r"pixel-pairs\": the dataset 'stdlib' has no images in seq"):
            observe(recipe_of(chain), "any.txt")

    def test_a_permutation(self, recipe_of, as_dataset):
        as_dataset(Documents(csr_array(np.eye(9)), list("abcabcabc"), None, None))
        flat = STDLIB.replace('"taxonomy"', '"flat"').replace('"text"', '"given"')
        with pytest.raises(RecipeError, match="has no split"):
            prepare_data(recipe_of(flat))
        data = prepare_data(recipe_of(flat + "[data.split]\nkind = 'permutation'\nseed = 5\ntrain = 6"))
        order = np.random.RandomState(5).permutation(9)
        assert data.y_train == ["abc"[item % 3] for item in order[:6]]
        assert data.X_train.shape == (6, 6)
        assert data.X_test.nnz == 0

    @pytest.mark.parametrize(
        ("text", "train", "message"),
        [
            (TEXTS, "a\tone word\ntwo words\n", r"train\.txt, line 2: no label; expected label TAB text"),
            (TEXTS, "a\tone\n\ntwo\n\tthree\n", r"train\.txt, line 3: no label \(and 1 more\); expected"),
            (NUMBERS, "a\nb\n", r"the training part of \[data\] has no features"),
            (NUMBERS, "a 1:x\n", r"train\.txt, line 1: expected a feature `id:value`, got '1:x'"),
        ],
    )
    def test_files_that_cannot_train(self, recipe_of, text, train, message):
        with pytest.raises(DataError, match=message):
            prepare_data(recipe_of(text, train, NEW_POSTS if text == TEXTS else TEST))

    def test_missing_data_says_how_to_go_on(self, monkeypatch, tmp_path):
        monkeypatch.setenv("CRFQN_CACHE", str(tmp_path))
        monkeypatch.delenv("CRFQN_DATA", raising=False)
        with pytest.raises(DataUnavailableError) as caught:
            prepare_data(load_recipe("lshtc1"))
        for part in ("crfqn data get lshtc1-task2", "cat_hier.txt", "crfqn train models/stdlib"):
            assert part in str(caught.value)

    @pytest.mark.parametrize(
        ("features", "table"),
        [
            ("text", {"n_columns": 3, "columns": [1], "words": [[1.0, "a b"]]}),
            ("given", {"n_columns": 3}),
            ("given", {"n_columns": 3, "columns": [1, 2], "sources": [4], "names": None, "scales": None}),
            ("given", {"n_columns": 3, "columns": [1, 2], "sources": [4], "names": None, "scales": None}
                | {"first_id": 0}),
            *(("given", NUMBER_FEATURES | change) for change in (
                {"columns": [1, 3]}, {"columns": [2, 1]}, {"columns": [-1, 1]}, {"columns": [1, 2**70]},
                {"sources": [4, 4]}, {"scales": [1.0, 0.0]}, {"scales": [1.0, float("nan")]}, {"n_columns": 1e400},
            )),
            ("text", {"n_columns": 3, "columns": None, "words": [[1.0, 7]]}),
            ("text", {"n_columns": 3, "columns": None, "words": [[1e300, "aa"]]}),
            ("text", {"n_columns": 1, "columns": [1], "words": [[1.0, "aa"]]}),
        ],
    )  # fmt: skip
    def test_features_of_a_damaged_model(self, features, table):
        with pytest.raises(ModelFileError, match=r"model\.crfqn: its features cannot be read"):
            restored({"kind": features} | WORD_SETTINGS | table, "model.crfqn")

    @pytest.mark.parametrize("table", ["words", {"kind": "pixels"}, {"kind": ["text"]}, {}])
    def test_another_kind(self, table):
        with pytest.raises(
            ModelFileError, match=r"m: featurizer: expected one of the kinds given, text, table, got"
        ):
            restored(table)

    def test_values_too_large_for_their_scale(self):
        table = {"kind": "given"} | NUMBER_FEATURES | {"scales": [1e-300, 1.0]}
        features = restored(table)
        with pytest.raises(InputError, match="feature '4': a value is too large for its scale"):
            features.transform(csr_array([[0, 0, 0, 0, 1e10, 0]]))


class TestEstimators:
    def test_settings(self, recipe_of):
        recipe = recipe_of(
            FLAT
            + '[objective]\nl1 = 3\nfit_intercept = true\nclass_weight = "balanced"\n[solver]\nn_threads = 1'
        )
        estimator = build_estimator(recipe, max_iter=7, l1=None, taxonomy=None)
        assert type(estimator).__name__ == "MulticlassCRF"
        settings = estimator.get_params()
        assert (settings["l1"], settings["max_iter"], settings["n_threads"]) == (3.0, 7, 1)
        assert (settings["fit_intercept"], settings["class_weight"]) == (True, "balanced")

    def test_a_taxonomy(self, recipe_of):
        recipe, tree = recipe_of(NUMBERS), LabelTree.star(["a", "b"])
        estimator = build_estimator(recipe, taxonomy=tree)
        assert type(estimator).__name__ == "TaxonomyCRF"
        assert estimator.taxonomy is tree
        assert (estimator.fit_intercept, estimator.class_weight) == (False, None)

    def test_losses_and_penalties(self, recipe_of):
        recipe = recipe_of(FLAT + '[objective]\nloss = "squared-hinge"\npenalty = "l1/l2"\ngroup_l1 = 2')
        estimator = build_estimator(recipe)
        assert type(estimator).__name__ == "MulticlassClassifier"
        found = (estimator.loss, estimator.penalty, estimator.group_l1, estimator.l1, estimator.solver)
        assert found == ("squared-hinge", "l1/l2", 2.0, None, "auto")
        logistic = build_estimator(recipe, loss="logistic", group_l1=3.0)
        assert type(logistic).__name__ == "MulticlassCRF"
        assert (logistic.penalty, logistic.group_l1) == ("l1/l2", 3.0)

    def test_another_penalty_leaves_strengths_of_the_recipe_out(self, recipe_of):
        recipe = recipe_of(FLAT + "[objective]\nl1 = 3\nl2 = 0.5")
        rows = build_estimator(recipe, penalty="l1/linf", loss="squared-hinge")
        assert (rows.penalty, rows.l1, rows.l2, rows.group_l1) == ("l1/linf", None, 0.5, None)
        hinge = build_estimator(recipe, loss="squared-hinge")
        assert (hinge.penalty, hinge.l1) == ("l1", 3.0)
        with pytest.raises(InputError, match=r"^penalty: expected one of"):
            build_estimator(recipe, penalty="l3")

    @pytest.mark.parametrize(("setting", "value"), [("penalty", "l1")])
    def test_a_taxonomy_has_none(self, recipe_of, setting, value):
        with pytest.raises(
            InputError, match=rf'^{setting}: recipes with \[structure\] kind = "taxonomy" have none'
        ):
            build_estimator(recipe_of(NUMBERS), **{setting: value})

    def test_rankings(self, recipe_of):
        text = NUMBERS.replace('"taxonomy"', '"ranking"') + '[objective]\nthreshold = "label"'
        recipe = recipe_of(text, train="a,b 0:2 3:4\na 3:1\nb,c 3:2\n", test="c 3:4\n")
        data = prepare_data(recipe)
        assert (data.y_train, data.y_test) == ([["a", "b"], ["a"], ["b", "c"]], [["c"]])
        estimator = build_estimator(recipe)
        assert (type(estimator).__name__, estimator.threshold) == ("MultilabelRanker", "label")

    @pytest.mark.parametrize("setting", ["speed = 3", "fit_intercept = true", "labels = 'nodes'"])
    def test_settings_of_other_sections(self, recipe_of, setting):
        recipe = recipe_of(NUMBERS + f"[solver]\n{setting}")
        with pytest.raises(
            RecipeError, match=rf"\[solver\] has an unknown key: {setting.split()[0]}; allowed: name"
        ):
            build_estimator(recipe)


@pytest.fixture(scope="module")
def stdlib(collected):
    with collected():
        return prepare_data(load_recipe("stdlib"))


class TestStdlib:
    def test_it_is_there(self, stdlib):
        assert stdlib.X_train.shape[0] == len(stdlib.y_train) > 4 * len(stdlib.y_test) / 1.2
        assert set(stdlib.y_test) <= set(stdlib.y_train) <= set(stdlib.taxonomy.names)
        assert "loop" in stdlib.feature_names
        np.testing.assert_allclose(stdlib.X_train.power(2).sum(axis=1).max(), 1)


REAL_DATA = os.environ.get("CRFQN_DATA")


@pytest.mark.skipif(not REAL_DATA, reason="CRFQN_DATA names no folder with the real files")
@pytest.mark.parametrize(
    ("name", "n_train", "n_test", "n_features", "n_nodes"),
    [
        ("lshtc1", 4463, 1858, 10_794, 2387),
        ("lshtc1-task1", 1860, 1858, 22_296, 2387),
        ("imageclef", 10_000, 1006, 80, 96),
        ("mnist", 60_000, 10_000, 717, 0),
        ("newsgroups", 11_314, 7532, 30_820, 27),
    ],
)
def test_real_documents_are_prepared(name, n_train, n_test, n_features, n_nodes):
    data = prepare_data(load_recipe(name))
    assert (data.X_train.shape, data.X_test.shape) == ((n_train, n_features), (n_test, n_features))
    assert (len(data.y_train), len(data.y_test)) == (n_train, n_test)
    assert data.X_train.max() <= 1
    assert (data.taxonomy.n_nodes if data.taxonomy else 0) == n_nodes
    assert len(data.feature_names) == n_features

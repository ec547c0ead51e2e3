"""N-grams of texts: those of scikit-learn's TfidfVectorizer with the same settings, also from a model file."""

import json

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from crfqn.data.tokenizers import find_ngrams
from crfqn.data_options import FeaturesSection
from crfqn.errors import RecipeError
from crfqn.model.texts import Words
from crfqn.recipes.documents import NGRAM_CANDIDATES
from crfqn.recipes.preparing import observe, prepare_data
from crfqn.recipes.schema import parse_recipe

LETTERS = [*"aab BcÄéß1-.,'  ", "the ", " dog", "\u4e2d"]
SETTINGS = [
    {},
    {"ngram_range": (1, 2)},
    {"ngram_range": (2, 3), "min_df": 2},
    {"analyzer": "char", "ngram_range": (2, 4), "max_df": 0.5},
    {"analyzer": "char", "ngram_range": (1, 1), "min_df": 0.1},
    {"analyzer": "char_wb", "ngram_range": (2, 5), "min_df": 3, "max_df": 60},
    {"analyzer": "char_wb", "ngram_range": (4, 9)},
]


def random_texts(seed, n=80):
    rng = np.random.RandomState(seed)
    return ["".join(rng.choice(LETTERS, rng.randint(0, 60))) for _ in range(n)]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("weighting", ["tf-idf", "count", "binary"])
@pytest.mark.parametrize("sublinear_tf", [False, True])
def test_as_scikit_learn_on_random_texts(settings, weighting, sublinear_tf):
    texts, new = random_texts(0), [*random_texts(1), ""]
    section = FeaturesSection(
        "text", words="letters", weighting=weighting, sublinear_tf=sublinear_tf, **settings
    )
    vectorizer = TfidfVectorizer(
        binary=weighting == "binary", use_idf=weighting == "tf-idf", sublinear_tf=sublinear_tf, **settings
    )
    expected = vectorizer.fit_transform(texts).toarray()
    words, matrix = Words.fit(texts, section)
    assert words.names == vectorizer.get_feature_names_out().tolist()
    np.testing.assert_allclose(matrix.toarray(), expected, rtol=1e-12)
    np.testing.assert_allclose(
        words.transform(new).toarray(), vectorizer.transform(new).toarray(), rtol=1e-12
    )
    table = json.loads(json.dumps(words.as_dict(np.arange(words.n_columns))))
    restored = Words.from_dict(table)
    assert restored.names == words.names
    np.testing.assert_array_equal(restored.transform(new).toarray(), words.transform(new).toarray())


def test_white_space_and_composed_characters():
    assert find_ngrams("unicode", "char", 1, 2, "A\t\n b") == ["a", " ", "b", "a ", " b"]
    expected = [" \u00e9t", "\u00e9t\u00e9", "t\u00e9 ", " \u00e9t\u00e9", "\u00e9t\u00e9 ", " x "]
    assert find_ngrams("unicode", "char_wb", 3, 4, "e\u0301t\u00e9 x") == expected
    assert find_ngrams("unicode", "word", 2, 9, "e\u0301t\u00e9 im Winter") == [
        "\u00e9t\u00e9 im", "im winter", "\u00e9t\u00e9 im winter"]  # fmt: skip
    for analyzer in ("word", "char", "char_wb"):
        assert find_ngrams("unicode", analyzer, 2, 3, "") == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ngram_range": [2, 1]}, r"two integers >= 1"),
        ({"ngram_range": [1]}, r"two integers >= 1"),
        ({"ngram_range": [0, 1]}, r"two integers >= 1"),
        ({"analyzer": "letters"}, r"not enough|n-grams: expected word"),
        ({"ngram_range": "12x"}, r"."),
    ],
)
def test_damaged_tables(changes, message):
    table = Words.fit(["a bc de", "bc fg"], FeaturesSection("text"))[0].as_dict(np.arange(3))
    with pytest.raises(ValueError, match=message if changes.get("ngram_range") != [1] else "not enough"):
        Words.from_dict({**table, **changes})


def recipe_of(folder, texts, labels, **features):
    (folder / "train.txt").write_text("".join(map("{}\t{}\n".format, labels, texts)))
    table = {
        "name": "n", "title": "t", "data": {"train": "train.txt", "format": "text"}, "structure": {"kind": "flat"},
        "features": {"kind": "text", **features}, "objective": {"l1": 0.0, "l2": 0.01},
    }  # fmt: skip
    return parse_recipe(table, folder / "recipe.toml")


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"analyzer": "letters"}, r'analyzer = "letters": expected one of "word", "char", "char_wb", "auto"'),
        ({"ngram_range": [2, 1]}, r"ngram_range = \[2, 1\]: expected two integers >= 1 in order"),
        ({"ngram_range": [0, 1]}, "expected two integers"),
        ({"ngram_range": [True, 2]}, "expected two integers"),
        ({"ngram_range": 2}, "expected two integers"),
        ({"min_df": 1.5}, "min_df = 1.5: expected integer >= 1, or a fraction"),
        ({"max_df": 0}, "max_df = 0: expected integer >= 1, or a fraction"),
        ({"max_df": True}, "expected integer >= 1"),
        ({"analyzer": "auto", "ngram_range": [1, 2]}, 'analyzer = "auto" chooses it'),
        ({"analyzer": "char", "words": "blanks"}, 'words = "blanks": analyzer = "char" splits no text'),
    ],
)
def test_wrong_keys(tmp_path, features, message):
    with pytest.raises(RecipeError, match=message):
        recipe_of(tmp_path, ["ab"], ["x"], **features)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"min_df": 3}, r"expected words in 3 to 2 texts \(min_df, max_df\), got none"),
        ({"ngram_range": [4, 5]}, r"expected 4 \(word\) or more in a row, got none"),
        ({"analyzer": "auto"}, "expected 5 training texts or more of a label"),
    ],
)
def test_nothing_left(tmp_path, features, message):
    with pytest.raises(RecipeError, match=message):
        prepare_data(recipe_of(tmp_path, ["ab cd", "ef gh"], ["x", "y"], **features))


class TestAuto:
    """Labels that single words tell apart, pairs of words only, or parts of words that never come again."""

    def chosen(self, folder, texts, labels):
        recipe = recipe_of(folder, texts, labels, analyzer="auto")
        words = prepare_data(recipe).features
        assert observe(recipe).X.shape[1] == words.n_columns
        return words.analyzer, words.ngram_range

    def test_words(self, tmp_path):
        texts, labels = ["red one", "blue one", "red two", "blue two"] * 10, ["r", "b", "r", "b"] * 10
        assert self.chosen(tmp_path, texts, labels) == NGRAM_CANDIDATES[0]

    def test_pairs(self, tmp_path):
        assert self.chosen(tmp_path, ["up down", "down up"] * 10, ["x", "y"] * 10) == ("word", (1, 2))

    def test_parts_of_words(self, tmp_path):
        texts = [f"{chr(97 + i % 26)}{chr(97 + i // 26)}{'ung' if i % 2 else 'ieren'}" for i in range(60)]
        assert self.chosen(tmp_path, texts, [str(i % 2) for i in range(60)]) == ("char_wb", (2, 5))

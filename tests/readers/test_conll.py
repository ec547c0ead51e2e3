"""Files of columns, window templates over them, and recipes of both; CoNLL-2000 itself where CRFQN_DATA has it."""

from __future__ import annotations

import gzip
import io
import re
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from command_line import run_here
from hypothesis import given, settings
from hypothesis import strategies as st

from crfqn import ChainCRF
from crfqn.choices import CHUNKING_TEMPLATES
from crfqn.data.encoding import Sequences, encode_sequences
from crfqn.data.templates.vocabulary import WindowFeatures
from crfqn.datasets import dataset
from crfqn.errors import DataError, DataUnavailableError, InputError, RecipeError
from crfqn.metrics import chunk_f1_score
from crfqn.readers.conll import read_conll
from crfqn.readers.datasets import read_files
from crfqn.recipes import load_recipe, prepare_data

TEXT = "He PRP B-NP\nreckons VBZ B-VP\nthe DT B-NP\ndeficit NN I-NP\n\n\n  \nIt PRP B-NP\n. . O\n"
RECIPE = """
name = "mine"
title = "Mine"
[data]
train = "train.txt"
test = "test.txt"
[features]
kind = "windows"
columns = "w pos"
templates = "w[0] pos[-1]|pos[0]"
[objective]
l1 = 0.1
all_possible_states = false
"""


@pytest.fixture
def file(tmp_path):
    def write(text: str, name: str = "train.txt"):
        content = text.encode()
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return tmp_path / name

    return write


class TestReader:
    @pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
    @pytest.mark.parametrize(("old", "new"), [(" ", " "), (" ", "\t"), ("\n", "\r\n")])
    def test_items_are_parted_by_blank_lines(self, file, name, old, new):
        labeled = read_conll(file(TEXT.replace(old, new), name))
        assert labeled.labels == [["B-NP", "B-VP", "B-NP", "I-NP"], ["B-NP", "O"]]
        assert labeled.inputs[1] == [{"w": "It", "pos": "PRP"}, {"w": ".", "pos": "."}]
        assert labeled.n_positions == 6

    def test_other_columns_and_none(self, file):
        labeled = read_conll(file("U.N. NNP I-NP I-ORG\n"), ["w", "pos", "chunk"])
        assert labeled.inputs == [[{"w": "U.N.", "pos": "NNP", "chunk": "I-NP"}]]
        assert read_conll(file("a\nb\n"), ()).labels == [["a", "b"]]

    def test_a_label_may_be_missing(self, file):
        labeled = read_conll(file("a X\nb Y L\n"))
        assert (labeled.inputs, labeled.labels) == (
            [[{"w": "a", "pos": "X"}, {"w": "b", "pos": "Y"}]],
            [["", "L"]],
        )

    def test_standard_input(self, monkeypatch):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
        assert read_conll("-").n_items == 2

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                "a X L\nb\n",
                r"train.txt, line 2: expected 2 columns \(w, pos\) and perhaps a label, got 1: 'b'",
            ),
            ("\na X L more\n", r"train.txt, line 2: expected 2 columns .* got 4: 'a X L more'"),
            ("", r"train.txt: empty, no items; expected lines of w, pos and perhaps a label"),
            ("\n \n", r"train.txt: no items; expected lines of w, pos and perhaps a label"),
        ],
    )
    def test_bad_files_are_named(self, file, text, message):
        with pytest.raises(DataError, match=message):
            read_conll(file(text))

    def test_a_dataset_of_two_files_brings_its_split(self, file):
        paths = file(TEXT, "train.txt.gz"), file("a X O\n", "test.txt")
        labeled = read_files("conll", paths, columns=["w", "pos"])
        assert (labeled.n_items, labeled.n_train, labeled.labels[2]) == (3, 2, ["O"])

    def test_bytes_that_are_no_text_and_no_file(self, tmp_path):
        (tmp_path / "bad.txt").write_bytes(b"a X L\n\xff X L\n")
        with pytest.raises(DataError, match=r"bad.txt, line 2: not UTF-8"):
            read_conll(tmp_path / "bad.txt")
        with pytest.raises(DataUnavailableError, match="no such file"):
            read_conll(tmp_path / "gone.txt")


def strings_of(item, text=CHUNKING_TEMPLATES, has_ends=True):
    """The definition: for each position the strings that CRFsuite's example gives it."""
    rows = []
    for t in range(len(item)):
        row = []
        for word in text.split():
            parts = [(column, t + int(offset)) for column, offset in re.findall(r"(\w+)\[([+-]?\d+)\]", word)]
            if all(0 <= at < len(item) for _, at in parts):
                row.append(f"{word}=" + "|".join(item[at][column] for column, at in parts))
        row += ["__BOS__"] * (has_ends and t == 0) + ["__EOS__"] * (has_ends and t == len(item) - 1)
        rows.append(row)
    return rows


def rows_of(sequences: Sequences) -> list[list[str]]:
    """The names of the entries of each row, sorted."""
    matrix, names = sequences.matrix, sequences.feature_names
    assert (matrix.data == 1).all()
    cuts = matrix.indptr
    return [sorted(names[column] for column in matrix.indices[begin:end]) for begin, end in pairwise(cuts)]


# "|" and "=" may stand in the data: two pairs of words can then have one name.
positions = st.fixed_dictionaries(
    {"w": st.sampled_from(["a", "b", "a|b", "b|a", "="]), "pos": st.sampled_from("XY")}
)
sentences = st.lists(st.lists(positions, max_size=7), max_size=5)


class TestWindows:
    @given(items=sentences, has_ends=st.booleans())
    @settings(deadline=None, max_examples=60)
    def test_the_features_are_those_of_the_definition(self, items, has_ends):
        found = WindowFeatures.parse(has_ends=has_ends).encode(items)
        expected = [strings_of(item, has_ends=has_ends) for item in items]
        assert rows_of(found) == [sorted(row) for item in expected for row in item]
        assert found.lengths.tolist() == [len(item) for item in items]
        assert found.feature_names == sorted({name for item in expected for row in item for name in row})

    def test_the_matrix_is_that_of_the_strings(self, file):
        items = read_conll(file(TEXT)).inputs
        found = WindowFeatures.parse().encode(items)
        expected, vocabulary = encode_sequences([strings_of(item) for item in items])
        assert found.feature_names == vocabulary.names
        assert (found.matrix != expected.matrix).nnz == 0
        assert found.matrix.dtype == expected.matrix.dtype
        assert found.matrix.has_canonical_format

    def test_names_read_well(self, file):
        items = read_conll(file(TEXT)).inputs
        names = rows_of(WindowFeatures.parse("w[-1]|w[+0] pos[1]").encode(items))
        assert names[0] == ["__BOS__", "pos[1]=VBZ"]
        assert names[3] == ["__EOS__", "w[-1]|w[0]=the|deficit"]

    def test_input_stays_as_it_was(self):
        items = [[{"w": "a", "pos": "X", "more": 1}]]
        WindowFeatures.parse().encode(items)
        assert items == [[{"w": "a", "pos": "X", "more": 1}]]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (" ", r"expected at least one template like w\[0\] or w\[-1\]\|w\[0\], got none"),
            ("w[0] w0", r"expected templates like .* got 'w0'"),
            ("w[0]|", r"got 'w\[0\]\|'"),
            ("w[0]w[1]", "got "),
            ("w[1.5]", "got "),
            ("chunk[0]", r"the template 'chunk\[0\]' asks for a column 'chunk'; there are: w, pos"),
            ("w[0] w[+0]", r"the template 'w\[\+0\]' comes twice"),
        ],
    )
    def test_bad_templates(self, text, message):
        with pytest.raises(InputError, match=message):
            WindowFeatures.parse(text)

    @pytest.mark.parametrize(
        ("position", "message"),
        [
            ({"w": "a"}, "item 1, position 0: expected a text in the column 'pos', got None"),
            ({"w": "a", "pos": 3}, "item 1, position 0: expected a text in the column 'pos', got 3"),
            ({"w": "a", "pos": ["X"]}, "item 1, position 0: .* got "),
            (["a", "X"], r"item 1, position 0: expected a dict of columns, got \['a', 'X'\]"),
        ],
    )
    def test_bad_positions_are_named(self, position, message):
        with pytest.raises(InputError, match=message):
            WindowFeatures.parse().encode([[{"w": "a", "pos": "X"}], [position]])


class TestRecipe:
    @pytest.fixture
    def path(self, file, tmp_path):
        file(TEXT * 5), file(TEXT, "test.txt")
        (tmp_path / "recipe.toml").write_text(RECIPE)
        return tmp_path / "recipe.toml"

    def test_both_parts_have_the_columns_of_the_training(self, path, file):
        file("He PRP B-NP\nsaw VBD B-VP\n", "test.txt")
        data = prepare_data(load_recipe(path))
        assert data.X_train.feature_names == data.X_test.feature_names == data.feature_names
        assert rows_of(data.X_test) == [["__BOS__", "w[0]=He"], ["__EOS__"]]

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("pos[-1]|pos[0]", "tag[0]", r"\[features\] templates: .* a column 'tag'; there are: w, pos"),
            ('columns = "w pos"', "threshold = 3", "threshold = 3; allowed: kind, columns, templates, ends"),
            (
                '"windows"\n',
                '"pixel-pairs"\n',
                'use "attributes", or "windows", "templates" or "words" for files of columns',
            ),
            (
                "all_possible_states",
                "fit_intercept",
                "fit_intercept = .* allowed: loss, l1, l2, .*all_possible_states",
            ),
        ],
    )
    def test_bad_recipes(self, path, old, new, message):
        path.write_text(RECIPE.replace(old, new))
        with pytest.raises(RecipeError, match=message):
            load_recipe(path)

    def test_a_pattern_file(self, path, file, tmp_path, monkeypatch):
        file("U0:%x[0,0]\nU1:%x[-1,1]/%x[0,1]\nB\n", "my.template")
        path.write_text(
            RECIPE.replace('"windows"', '"templates"').replace('"w[0] pos[-1]|pos[0]"', '"my.template"')
        )
        recipe = load_recipe(path)
        assert "ends" not in recipe.as_dict()["features"]
        data = prepare_data(recipe)
        model = ChainCRF(l1=0.1, all_possible_states=False).fit(data.X_train, data.y_train)
        assert model.predict(data.X_test)[1] == ["B-NP", "O"]
        model.save(tmp_path / "mine.crfqn", {"recipe": recipe.as_dict(), "recipe_source": str(path)})
        file("U9\n", "my.template")  # the model needs it no more
        file("He PRP\n. .\n", "new.txt")
        run = run_here(monkeypatch, tmp_path, "predict", "mine.crfqn", "new.txt")
        assert (run.returncode, run.stdout) == (0, "B-NP\nO\n\n")
        file("U0\n%x[0,0]\n", "my.template")
        with pytest.raises(
            RecipeError, match=r"my.template: line 2: expected a pattern that begins with U or B"
        ):
            prepare_data(recipe)

    def test_a_recipe_of_templates_names_a_file(self, path):
        path.write_text(RECIPE.replace('"windows"', '"templates"').replace("templates = ", "# "))
        with pytest.raises(RecipeError, match="lacks the key templates: expected the name of a pattern file"):
            load_recipe(path)

    def test_images_have_no_columns(self, path):
        path.write_text(RECIPE.replace('train = "train.txt"\ntest = "test.txt"', 'dataset = "digits"'))
        with pytest.raises(RecipeError, match="'digits' has images; use \"pixel-pairs\""):
            prepare_data(load_recipe(path))

    def test_on_the_command_line(self, path, monkeypatch, tmp_path):
        def run(*arguments, **options):
            return run_here(monkeypatch, tmp_path, *arguments, **options)

        done = run("train", tmp_path, "--threads", 1)
        assert done.returncode == 0, done.stderr
        assert "F1 of chunks 1.0000" in done.stdout
        done = run("predict", "mine.crfqn", input="the DT\ndeficit NN\n\nHe PRP\n")
        assert done.stdout == "B-NP\nI-NP\n\nB-NP\n\n"
        done = run("evaluate", "mine.crfqn", tmp_path / "test.txt")
        assert re.search(r"^all +1.0000 +1.0000 +1.0000 +4$", done.stdout, re.MULTILINE)
        assert "pos[-1]|pos[0]=DT|NN" in run("inspect", "mine.crfqn").stdout


@pytest.fixture(scope="module")
def conll2000():
    if not dataset("conll2000").locate():
        pytest.skip("needs conll2000/train.txt.gz and conll2000/test.txt.gz in CRFQN_DATA")
    return prepare_data(load_recipe("conll2000"))


class TestSharedTask:
    def test_sizes(self, conll2000):
        train, test = conll2000.X_train, conll2000.X_test
        assert (len(train), train.n_positions, train.n_features, train.matrix.nnz) == (
            8936,
            211_727,
            335_674,
            3_808_439,
        )
        assert (len(test), test.n_positions, test.n_features) == (2012, 47_377, 335_674)
        labels = Counter(label for item in conll2000.y_train for label in item)
        assert (len(labels), labels["B-NP"], labels["I-NP"], labels["O"]) == (22, 55_081, 63_307, 27_902)

    def test_a_row_is_that_of_the_definition(self, conll2000):
        item = dataset("conll2000").load().inputs[17]
        assert rows_of(conll2000.X_train[17:18]) == [sorted(row) for row in strings_of(item)]

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_a_model_of_a_part_finds_chunks(self, conll2000):
        X, y = conll2000.X_train[:300], conll2000.y_train[:300]
        model = ChainCRF(all_possible_states=False, all_possible_transitions=False, max_iter=40).fit(X, y)
        assert chunk_f1_score(conll2000.y_test, model.predict(conll2000.X_test)) > 0.87
        is_label = np.concatenate(y)[:, None] == model.classes_
        n_together = X.matrix.T @ is_label.astype(float)
        labels, features = model.coef_.nonzero()
        assert labels.size > 500
        assert (n_together[features, labels] > 0).all()

"""Every mistake with documents, and their datasets."""

import json
import os

import pytest
from command_line import assert_mistake
from own_documents import OWN, TEXTS

from crfqn.data.model_file import read_model, write_model


class TestMistakes:
    def test_options_of_other_models(self, here, texts, tmp_path):
        model = texts[0] / "own.crfqn"
        assert_mistake(here("predict", model, "--threshold", 2), 2, "--threshold")

    def test_top_of_sequences(self, here, tmp_path):
        (tmp_path / "train.txt").write_text("A\tw=the\n\nN\tw=cat\n\n" * 5)
        (tmp_path / "recipe.toml").write_text(
            OWN.replace("test.txt", "train.txt") + '[features]\nkind = "attributes"\n[objective]\nl1 = 0.1\n'
        )
        assert here("train", ".", "-q", "--threads", 1).returncode == 0
        run = here("predict", "own.crfqn", "--top", 2, "--marginals", input="\tw=the\n")
        assert_mistake(run, 2, "--top is for items with one label; this model labels sequences")
        run = here("predict", "own.crfqn", "--threshold", 0.5, "--n-best", 2, input="\tw=the\n")
        assert_mistake(run, 2, "--n-best writes labels and their probability; leave out --threshold")

    def test_input(self, here, texts, numbers, tmp_path):
        posts, points = texts[0] / "own.crfqn", numbers[0] / "own.crfqn"
        assert_mistake(here("predict", posts, "gone"), 2, "gone: there is no such file")
        assert_mistake(
            here("predict", posts, input=""), 2, "standard input: no documents; expected lines of a label"
        )
        assert_mistake(
            here("predict", points, input="1:2\n"), 2, "standard input, line 1: expected a label before the"
        )
        assert_mistake(here("predict", points, input="cat dog\n"), 2, "line 1: expected a feature `id:value`")
        assert_mistake(
            here("evaluate", posts, "-", input="woof\n"), 2, "standard input: has no labels to compare"
        )
        run = here("evaluate", posts, "-", input="dog\twoof\nmiaow\n")
        assert_mistake(run, 2, "standard input, line 2: no label to compare with")
        run = here("evaluate", points, "-", input="cow 1:2\n")
        assert_mistake(run, 2, "standard input: the taxonomy of 4 nodes has no node named 'cow'")

    def test_own_files_that_are_not_there(self, here, texts, tmp_path):
        (tmp_path / "recipe.toml").write_text(TEXTS)
        assert_mistake(here("train", "."), 2, "train.txt: no such file")
        assert_mistake(here("predict", texts[0] / "own.crfqn", "gone"), 2, "gone: there is no such file")

    def test_labels(self, here, model, texts):
        run = here("inspect", texts[0] / "own.crfqn", "--label", "cow")
        assert_mistake(run, 2, "the model has no label 'cow'; it has: bird, cat, dog")
        assert_mistake(here("inspect", model, "--label", "cow"), 2, " more")

    def test_missing_data(self, here, tmp_path):
        run = here("train", "mnist", CRFQN_DATA=None)
        assert_mistake(
            run, 3, "crfqn data get mnist", "train-images-idx3-ubyte.gz", "crfqn train models/stdlib"
        )

    def test_models_without_a_recipe(self, here, tmp_path):
        from crfqn import MulticlassCRF

        model = MulticlassCRF(l1=0.1, fit_intercept=False, n_threads=1).fit(
            [[2.0, 0], [0, 1], [0, 2], [1, 0]], ["a", "b", "b", "a"]
        )
        model.save(tmp_path / "m")
        for name in ("predict", "evaluate"):
            run = here(name, "m", "-", input="0 1:2\n")
            assert_mistake(run, 2, "m: trained on a matrix and without a recipe; use it from Python")
        assert_mistake(here("evaluate", "m"), 2, "m: not trained from a recipe, so it has no test data")
        run = here("inspect", "m", code=0)
        assert "  feature 0\n" in run.stdout


class TestData:
    def test_the_embedded_one(self, here):
        assert here("data", "get", "stdlib").stdout == "stdlib is built in: nothing to fetch\n"
        run = here("data", "verify", "stdlib", code=0)
        assert run.stdout.startswith("stdlib: built in: ")

    def test_files_in_parts(self, here, tmp_path):
        run = here("data", "verify", "mnist", CRFQN_DATA=None, code=3)
        assert "missing of its 4 files: train-images-idx3-ubyte.gz, train-labels" in run.stderr
        (tmp_path / "image_clef_train.arff").write_text("no")
        (tmp_path / "image_clef_test.arff").write_text("no")
        run = here("data", "verify", "imageclef07a", CRFQN_DATA=str(tmp_path), code=3)
        assert "image_clef_train.arff: checksum of the unpacked content differs" in run.stderr
        run = here("data", "list", CRFQN_DATA=str(tmp_path))
        assert f"{tmp_path}/image_clef_test.arff\n" in run.stdout
        rows = json.loads(here("data", "list", "--json", CRFQN_DATA=str(tmp_path)).stdout)
        assert {row["name"]: len(row["paths"]) for row in rows}["imageclef07a"] == 2

    @pytest.mark.skipif("CRFQN_DATA" not in os.environ, reason="needs the data in CRFQN_DATA")
    def test_real_data(self, here):
        for name in ("imageclef07a", "lshtc1-task2", "mnist", "newsgroups"):
            run = here("data", "verify", name, code=0)
            for path in here("data", "get", name).stdout.splitlines():
                assert path in run.stdout


def test_features_that_the_weights_are_not_of(here, numbers, tmp_path):
    file = read_model(numbers[0] / "own.crfqn")
    featurizer = file.metadata["featurizer"]
    for change in ({"n_columns": 99}, {"columns": [], "sources": [], "names": None, "scales": None}):
        metadata = file.metadata | {"featurizer": featurizer | change}
        write_model(tmp_path / "m.crfqn", file.kind, file.arrays, file.strings, metadata)
        for command in ("inspect", "predict"):
            here(
                command,
                tmp_path / "m.crfqn",
                input="0 2:8\n",
                error="m.crfqn: its features are not those of its weights",
            )

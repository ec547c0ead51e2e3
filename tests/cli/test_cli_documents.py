"""The command line on documents: the embedded docstrings end to end, files of one's own, and every mistake."""

import json
import math
import os
import re
from typing import ClassVar

import numpy as np
import pytest
from command_line import crfqn, run_here

from crfqn.cli.commands.prediction import MOST_LABELS
from crfqn.cli.scores import log_likelihood, score_documents
from crfqn.datasets.reading import GENERATORS
from crfqn.errors import InputError
from crfqn.readers.collections.docstrings import collect_docstrings
from crfqn.taxonomy.tree import LabelTree

QUICK = ("--l1", "1", "--threads", "1", "--tol", "1e-2")
ZIP = "Open a ZIP archive and read its members"
LOOP = "Run the event loop until the transport of the coroutine is closed"


@pytest.fixture
def here(monkeypatch, tmp_path):
    return lambda *arguments, cwd=tmp_path, **options: run_here(monkeypatch, cwd, *arguments, **options)


@pytest.fixture(scope="module")
def docstrings():
    return collect_docstrings()


@pytest.fixture(autouse=True)
def _collected_once(monkeypatch, docstrings):
    monkeypatch.setitem(GENERATORS, "docstrings", lambda: docstrings)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with `stdlib.crfqn`, and how its training went."""
    folder = tmp_path_factory.mktemp("trained")
    return folder, crfqn("train", "models/stdlib", *QUICK, cwd=folder)


@pytest.fixture(scope="module")
def model(trained):
    return trained[0] / "stdlib.crfqn"


OWN = 'name = "own"\ntitle = "Own"\n[data]\ntrain = "train.txt"\ntest = "test.txt"\n'
NUMBERS = (
    OWN
    + '[features]\nkind = "given"\nscale = "max-abs"\n[structure]\nkind = "taxonomy"\ntaxonomy = "tree.txt"\n'
)
TEXTS = OWN + '[features]\nkind = "text"\nnorm = "none"\n[structure]\nkind = "flat"\n'
TREE = "pets cat\npets dog\nbirds\n"
POINTS = "cat 1:4\ndog 2:8 3:1\nbirds 7:2\n" * 5
POSTS = "cat\tMiaow says the cat\ndog\tWoof says the dog\nbird\tTweet says the bird\n" * 5


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    return own(tmp_path_factory, NUMBERS, POINTS, "0.02")


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    more = "[objective]\nfit_intercept = true\npenalize_intercept = true\n"
    return own(tmp_path_factory, TEXTS + more, POSTS, "0.1")


def own(factory, recipe, lines, l1):
    """A folder with a recipe of one's own and its model, trained in a process that knows nothing else."""
    folder = factory.mktemp("own")
    for name, content in {
        "recipe.toml": recipe,
        "train.txt": lines,
        "test.txt": lines,
        "tree.txt": TREE,
    }.items():
        (folder / name).write_text(content)
    run = crfqn("train", ".", "--l1", l1, "--threads", 1, "-q", cwd=folder)
    assert run.returncode == 0, run.stderr
    return folder, run


class TestTrain:
    def test_summary(self, trained):
        folder, run = trained
        assert run.returncode == 0, run.stderr
        rows = dict(line.split(maxsplit=1) for line in run.stdout.splitlines())
        assert list(rows) == ["status", "objective", "gap", "non-zeros", "time", "accuracy", "model"]
        assert rows["status"].startswith("converged")
        n_nonzero, n_weights, n_nodes, n_features = re.fullmatch(
            r"([\d,]+) of ([\d,]+) weights \(([\d,]+) nodes x ([\d,]+) features\)", rows["non-zeros"]
        ).groups()
        assert number(n_weights) == number(n_nodes) * number(n_features)
        assert 0 < number(n_nonzero) < number(n_weights) / 100
        accuracy, f1 = re.fullmatch(
            r"([\d.]+) of [\d,]+ items, hierarchical F1 ([\d.]+) \(test part\)", rows["accuracy"]
        ).groups()
        assert 0.1 < float(accuracy) < float(f1) < 1
        assert f"of {number(n_nodes):,} nodes for training" in run.stderr
        assert re.search(
            r"^[\d,]+ items, [\d,]+ features, \d+ labels in a taxonomy", run.stderr, re.MULTILINE
        )
        assert "\x1b" not in run.stderr
        assert [path.name for path in folder.iterdir()] == ["stdlib.crfqn"]

    def test_flat_summary(self, texts):
        rows = dict(line.split(maxsplit=1) for line in texts[1].stdout.splitlines())
        assert rows["non-zeros"].endswith(" of 27 weights (3 labels x 8 features and a constant)")
        assert rows["accuracy"] == "1.0000 of 15 items (test part)"

    def test_limits_save_the_model(self, here, tmp_path):
        run = here("train", "stdlib-flat", "--l1", 3, "--max-iter", 1, "--threads", 1, "--tol", 1e-9, "-q")
        assert run.returncode == 4
        assert "Not converged" in run.stderr
        assert (tmp_path / "stdlib-flat.crfqn").is_file()

    def test_labels_of_one_item_each(self, here, tmp_path):
        """scikit-learn warns that they might be numbers to be predicted."""
        for name in ("train.txt", "test.txt"):
            (tmp_path / name).write_text("".join(f"label{i}\tword{i}\n" for i in range(30)))
        (tmp_path / "recipe.toml").write_text(TEXTS + "[objective]\nl1 = 0.1\n")
        run = here("train", ".", "-q", "--threads", 1)
        assert (run.returncode, run.stderr) == (0, "")


def number(text):
    return int(text.replace(",", ""))


class TestPredict:
    def test_a_new_process_needs_the_model_only(self, model, tmp_path):
        lines = f"{ZIP}\nno idea\t{ZIP}\n\n\t{LOOP}\n"
        run = crfqn("predict", model, cwd=tmp_path, input=lines, CRFQN_DATA=None)
        assert run.returncode == 0, run.stderr
        first, second, _, third = run.stdout.splitlines()
        assert first == second
        assert first.startswith("zipfile")
        assert third.startswith("asyncio/")

    def test_score_and_marginals_agree(self, here, model):
        run = here("predict", model, "--score", "--marginals", "--top", 3, input=f"{ZIP}\n{LOOP}\n")
        assert run.returncode == 0, run.stderr
        for line in run.stdout.splitlines():
            score, label, *pairs = line.split("\t")
            names, values = zip(*(pair.rsplit(":", 1) for pair in pairs), strict=True)
            assert len(names) == 3
            assert names[0] == label
            assert float(values[0]) == pytest.approx(math.exp(float(score)), abs=2e-6)
            assert sorted(values, reverse=True) == list(values)
        run = here("predict", model, "--marginals", input=ZIP)
        assert len(run.stdout.split("\t")) == 1 + MOST_LABELS

    def test_threshold(self, here, model):
        nodes = [
            here("predict", model, "--threshold", threshold, "--score", input=ZIP).stdout.rstrip().split("\t")
            for threshold in (0, 0.5, 1)
        ]
        assert nodes[0][1].startswith("zipfile/")
        assert nodes[1][1] == nodes[2][1] == "zipfile"  # the top node in any case
        assert float(nodes[0][0]) < float(nodes[1][0]) <= 0

    def test_many_documents(self, here, numbers):
        lines = "0 2:8\n0 1:4\n" * 1001  # two blocks of them
        run = here("predict", numbers[0] / "own.crfqn", input=lines)
        assert run.stdout == "dog\ncat\n" * 1001

    def test_output_file(self, here, texts, tmp_path):
        run = here("predict", texts[0] / "own.crfqn", "-", "-o", "labels", input="Woof\nMiaow\n")
        assert (run.returncode, run.stdout) == (0, "")
        assert (tmp_path / "labels").read_text() == "dog\ncat\n"

    def test_unknown_features_are_left_out(self, here, texts, numbers):
        outputs = [
            here("predict", texts[0] / "own.crfqn", "--score", input=text).stdout
            for text in ("Woof, unheard of\n", "Woof\n")
        ]
        assert outputs[0] == outputs[1]
        outputs = [
            here("predict", numbers[0] / "own.crfqn", "--score", input=line).stdout
            for line in ("0 0:1 2:8 99:5\n", "cat 2:8\n")
        ]
        assert outputs[0] == outputs[1]

    def test_top_implies_probabilities(self, here, texts, numbers):
        for folder, line in ((texts[0], "Woof\n"), (numbers[0], "0 2:8\n")):
            plain = here("predict", folder / "own.crfqn", "--top", 2, input=line)
            assert plain.returncode == 0, plain.stderr
            assert re.fullmatch(r"dog\tdog:[\d.]+\t\w+:[\d.]+\n", plain.stdout)
            both = here("predict", folder / "own.crfqn", "--top", 2, "--marginals", input=line)
            assert both.stdout == plain.stdout

    def test_a_line_for_each_line_of_text(self, here, texts):
        outputs = [
            here("predict", texts[0] / "own.crfqn", input=text).stdout.split()
            for text in ("Woof\n\n  \nMiaow\n", "Woof\n\n  \nMiaow", "unheard\n")
        ]
        assert outputs[0] == outputs[1] == ["dog", outputs[2][0], outputs[2][0], "cat"]
        run = here("evaluate", texts[0] / "own.crfqn", "-", input="dog\tWoof\n\ncat\tMiaow\n")
        assert "accuracy               1.0000  of 2" in run.stdout

    def test_all_probabilities_of_few_labels(self, here, texts):
        run = here("predict", texts[0] / "own.crfqn", "--marginals", input="Woof\n")
        pairs = dict(pair.split(":") for pair in run.stdout.split()[1:])
        assert pairs.keys() == {"cat", "dog", "bird"}
        assert sum(map(float, pairs.values())) == pytest.approx(1, abs=1e-5)


class TestInferred:
    """The labels are paths: the taxonomy is that of the training part."""

    LINES: ClassVar = "pets/cat\tMiaow\npets/dog\tWoof\nbird\tTweet\n" * 5
    RECIPE: ClassVar = TEXTS.replace('kind = "flat"', 'kind = "taxonomy"') + "[objective]\nl1 = 0.1\n"

    def train(self, here, tmp_path, test):
        for name, content in {"recipe.toml": self.RECIPE, "train.txt": self.LINES, "test.txt": test}.items():
            (tmp_path / name).write_text(content)
        run = here("train", ".", "--threads", 1)
        assert run.returncode == 0, run.stderr
        return run

    def test_labels_of_the_test_part_change_nothing_but_the_score(self, here, tmp_path):
        runs = [
            self.train(here, tmp_path, self.LINES + more) for more in ("", "pets/fish/carp\tBlub\ncow\tMoo\n")
        ]
        for run in runs:
            assert "3 labels in a taxonomy of 4 nodes" in run.stderr
        rows = [dict(line.split(maxsplit=1) for line in run.stdout.splitlines()) for run in runs]
        assert rows[0]["objective"] == rows[1]["objective"]
        assert [row["accuracy"].split()[:3] for row in rows] == [
            ["1.0000", "of", "15"],
            ["0.8824", "of", "17"],
        ]
        run = here("evaluate", "own.crfqn", "--json")
        assert run.returncode == 0, run.stderr
        content = json.loads(run.stdout)
        assert (content["accuracy"], content["log_likelihood"]) == (15 / 17, None)
        assert 15 / 17 < content["hierarchy"]["f1"] < 1
        assert here("evaluate", "own.crfqn", "--json", "-", input="zoo/gnu\tMoo\n").returncode == 0

    def test_models_without_intercepts_have_none_to_count(self, here, tmp_path):
        self.train(here, tmp_path, self.LINES)
        run = here("inspect", "own.crfqn")
        assert re.search(r"^non-zeros  \d+$", run.stdout, re.MULTILINE)
        assert "n_nonzero_intercepts" not in json.loads(here("inspect", "own.crfqn", "--json").stdout)


class TestEvaluate:
    def test_the_test_part_of_a_taxonomy(self, here, trained, model):
        table = here("evaluate", model)
        assert table.returncode == 0, table.stderr
        content = json.loads(here("evaluate", model, "--json").stdout)
        f1 = content["hierarchy"]["f1"]
        assert f"accuracy   {content['accuracy']:.4f} of 7" in trained[1].stdout
        assert f"hierarchical F1 {f1:.4f}" in trained[1].stdout
        for words in (
            f"accuracy               {content['accuracy']:.4f}  of {content['n_items']}",
            f"hierarchical F1        {f1:.4f}  precision",
            f"LCA F1                 {content['hierarchy']['lca_f1']:.4f}",
            "tree-induced error",
            f"accuracy, level 1      {content['hierarchy']['level_accuracy'][0]:.4f}",
            "log-likelihood",
            "labels: too many for a table, --json has them",
        ):
            assert words in table.stdout
        assert len(content["labels"]) > 100
        assert content["log_likelihood"] < 0

    def test_a_flat_table(self, here, texts):
        run = here("evaluate", texts[0] / "own.crfqn", "-", input="dog\twoof\ndog\tmiaow\nx\ttweet\n")
        lines = run.stdout.splitlines()
        assert lines[0] == "label  precision  recall      F1      items"
        assert "dog       1.0000  0.5000  0.6667          2" in lines
        assert "accuracy               0.3333  of 3" in lines
        assert lines[-1].endswith("(a label is unknown to the model)")
        assert json.loads(here("evaluate", texts[0] / "own.crfqn", "--json").stdout)["hierarchy"] is None

    def test_own_test_part(self, here, numbers, tmp_path):
        content = json.loads(here("evaluate", numbers[0] / "own.crfqn", "--json").stdout)
        assert (content["accuracy"], content["n_items"]) == (1, 15)
        assert content["hierarchy"]["level_accuracy"] == [1, 1]


class TestInspect:
    def test_few_labels(self, here, texts):
        run = here("inspect", texts[0] / "own.crfqn", "--top", 2)
        assert run.returncode == 0, run.stderr
        for words in (
            "recipe     own: Own",
            "labels     3: bird cat dog",
            "features   8, of which",
            "l1 = 0.1",
        ):
            assert words in run.stdout
        assert re.search(r"^non-zeros  \d+, of which \d+ intercepts$", run.stdout, re.MULTILINE)
        assert re.search(
            r"^dog: the 2 largest weights\n +\+\d\.\d{4}  (dog|woof)\n", run.stdout, re.MULTILINE
        )
        assert "transitions" not in run.stdout

    def test_a_taxonomy(self, here, model):
        run = here("inspect", model, "--top", 2)
        assert re.search(r"^labels     \d+, of \d+ nodes: ", run.stdout, re.MULTILINE)
        assert run.stdout.count(" largest weights") == 30
        assert re.search(
            r"^\d+ more nodes have weights: --label NODE shows one of them, --json all$",
            run.stdout,
            re.MULTILINE,
        )
        content = json.loads(here("inspect", model, "--json").stdout)
        assert len(content["weights"]) == content["n_nodes"] > len(content["labels"])
        assert content["n_nonzero"] >= sum(map(len, content["weights"].values()))
        assert "n_nonzero_transitions" not in content
        assert "transitions" not in content
        run = here("inspect", model, "--label", "asyncio")
        assert re.search(r"asyncio: the 5 largest weights\n .*\+.*  loop\n", run.stdout)
        assert "more nodes" not in run.stdout

    def test_features_are_named_by_their_ids(self, here, numbers):
        assert re.search(r"dog: .*\n +\+[\d.]+  [23]\n", here("inspect", numbers[0] / "own.crfqn").stdout)

    def test_intercepts(self, here, tmp_path):
        for name, content in {"train.txt": "a\tx yy\n" * 9 + "b\tyy x\n", "test.txt": "a\tyy\n"}.items():
            (tmp_path / name).write_text(content)
        (tmp_path / "recipe.toml").write_text(
            TEXTS + "[objective]\nl1 = 0.5\nfit_intercept = true\npenalize_intercept = true\n"
        )
        run = here("train", ".", "-q", "--threads", 1)
        assert run.returncode == 0, run.stderr
        assert "  (intercept)" in here("inspect", "own.crfqn").stdout


class TestMistakes:
    def assert_mistake(self, run, code, *words):
        assert run.returncode == code, run.stderr
        assert run.stdout == ""
        assert "Traceback" not in run.stderr
        for word in words:
            assert word in run.stderr

    def test_options_of_other_models(self, here, texts, tmp_path):
        model = texts[0] / "own.crfqn"
        self.assert_mistake(
            here("predict", model, "--threshold", 0.5), 2, "--threshold is for labels in a taxonomy"
        )
        self.assert_mistake(here("predict", model, "--threshold", 2), 2, "--threshold")

    def test_top_of_sequences(self, here, tmp_path):
        (tmp_path / "train.txt").write_text("A\tw=the\n\nN\tw=cat\n\n" * 5)
        (tmp_path / "recipe.toml").write_text(
            OWN.replace("test.txt", "train.txt") + '[features]\nkind = "attributes"\n[objective]\nl1 = 0.1\n'
        )
        assert here("train", ".", "-q", "--threads", 1).returncode == 0
        run = here("predict", "own.crfqn", "--top", 2, "--marginals", input="\tw=the\n")
        self.assert_mistake(run, 2, "--top is for items with one label; this model labels sequences")
        run = here("predict", "own.crfqn", "--threshold", 0.5, input="\tw=the\n")
        self.assert_mistake(run, 2, "--threshold is for labels in a taxonomy")

    def test_input(self, here, texts, numbers, tmp_path):
        posts, points = texts[0] / "own.crfqn", numbers[0] / "own.crfqn"
        self.assert_mistake(here("predict", posts, "gone"), 2, "gone: there is no such file")
        self.assert_mistake(
            here("predict", posts, input=""), 2, "standard input: no documents; expected lines of a label"
        )
        self.assert_mistake(
            here("predict", points, input="1:2\n"), 2, "standard input, line 1: expected a label before the"
        )
        self.assert_mistake(
            here("predict", points, input="cat dog\n"), 2, "line 1: expected a feature `id:value`"
        )
        self.assert_mistake(
            here("evaluate", posts, "-", input="woof\n"), 2, "standard input: has no labels to compare"
        )
        run = here("evaluate", posts, "-", input="dog\twoof\nmiaow\n")
        self.assert_mistake(run, 2, "standard input: 1 of 2 documents have no label")
        run = here("evaluate", points, "-", input="cow 1:2\n")
        self.assert_mistake(run, 2, "standard input: the taxonomy of 4 nodes has no node named 'cow'")

    def test_own_files_that_are_not_there(self, here, texts, tmp_path):
        (tmp_path / "recipe.toml").write_text(TEXTS)
        self.assert_mistake(here("train", "."), 2, "train.txt: no such file")
        self.assert_mistake(here("predict", texts[0] / "own.crfqn", "gone"), 2, "gone: there is no such file")

    def test_labels(self, here, model, texts):
        run = here("inspect", texts[0] / "own.crfqn", "--label", "cow")
        self.assert_mistake(run, 2, "the model has no label 'cow'; it has: bird, cat, dog")
        self.assert_mistake(here("inspect", model, "--label", "cow"), 2, " more")

    def test_missing_data(self, here, tmp_path):
        run = here("train", "mnist", CRFQN_DATA=None)
        self.assert_mistake(
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
            self.assert_mistake(run, 2, "m: trained on a matrix and without a recipe; use it from Python")
        self.assert_mistake(here("evaluate", "m"), 2, "m: not trained from a recipe, so it has no test data")
        run = here("inspect", "m")
        assert run.returncode == 0, run.stderr
        assert "  feature 0\n" in run.stdout


class TestData:
    def test_the_embedded_one(self, here):
        assert here("data", "get", "stdlib").stdout == "stdlib is built in: nothing to fetch\n"
        run = here("data", "verify", "stdlib")
        assert run.returncode == 0
        assert run.stdout.startswith("stdlib: built in: ")

    def test_files_in_parts(self, here, tmp_path):
        run = here("data", "verify", "mnist", CRFQN_DATA=None)
        assert run.returncode == 3
        assert "missing of its 4 files: train-images-idx3-ubyte.gz, train-labels" in run.stderr
        (tmp_path / "image_clef_train.arff").write_text("no")
        (tmp_path / "image_clef_test.arff").write_text("no")
        run = here("data", "verify", "imageclef07a", CRFQN_DATA=str(tmp_path))
        assert run.returncode == 3
        assert "image_clef_train.arff: checksum of the unpacked content differs" in run.stderr
        run = here("data", "list", CRFQN_DATA=str(tmp_path))
        assert f"{tmp_path}/image_clef_test.arff\n" in run.stdout
        rows = json.loads(here("data", "list", "--json", CRFQN_DATA=str(tmp_path)).stdout)
        assert {row["name"]: len(row["paths"]) for row in rows}["imageclef07a"] == 2

    @pytest.mark.skipif("CRFQN_DATA" not in os.environ, reason="needs the data in CRFQN_DATA")
    def test_real_data(self, here):
        for name in ("imageclef07a", "lshtc1-task2", "mnist", "newsgroups"):
            run = here("data", "verify", name)
            assert run.returncode == 0, run.stderr
            for path in here("data", "get", name).stdout.splitlines():
                assert path in run.stdout


@pytest.mark.skipif("CRFQN_DATA" not in os.environ, reason="needs the data in CRFQN_DATA")
def test_real_images(here, tmp_path):
    run = here("train", "imageclef", "--l1", 100, "--threads", 2, "-q")
    assert run.returncode == 0, run.stderr
    accuracy = float(re.search(r"accuracy +([\d.]+) of 1,006 items", run.stdout)[1])
    assert accuracy > 0.5
    (tmp_path / "new").write_text("0 " + " ".join(f"{pixel}:3" for pixel in range(1, 81)))
    assert re.fullmatch(r"\d+/\d+/\d+\n", here("predict", "imageclef.crfqn", "new").stdout)


class TestScores:
    TREE = LabelTree.from_edges([("a", "a1"), ("a", "a2"), (None, "b")])

    def test_a_taxonomy(self):
        scores = score_documents(["a1", "a1", "b", "a2"], ["a1", "a2", "b", "b"], self.TREE)
        assert scores.accuracy == 0.5
        found = scores.hierarchy
        assert (found.precision, found.recall, found.f1) == pytest.approx((4 / 6, 4 / 7, 8 / 13))
        assert found.tree_induced_error == (0 + 2 + 0 + 3) / 4
        assert found.level_accuracy == pytest.approx([0.75, 1 / 3])
        assert {row.label: row.support for row in scores.labels} == {"a1": 2, "a2": 1, "b": 1}

    def test_levels_that_no_label_reaches(self):
        assert score_documents(["b"], ["b"], self.TREE).hierarchy.level_accuracy == [1, None]

    def test_refusals(self):
        with pytest.raises(InputError, match="lengths"):
            score_documents(["a"], ["a", "b"])
        with pytest.raises(InputError, match="no labelled items"):
            score_documents([], [])
        with pytest.raises(InputError, match="no node named 'c'"):
            score_documents(["c"], ["b"], self.TREE)

    def test_log_likelihood(self):
        class Model:
            classes_ = np.array(["a", "b"])

            def log_likelihood(self, X, y):
                return np.array([-1.0 if label == "a" else -2.0 for label in y])

        assert log_likelihood(Model(), None, ["a", "b", "b"]) == -5
        assert log_likelihood(Model(), None, ["a", "c"]) == -np.inf


class TestMarginsAndRankings:
    """Models without probabilities, from training to prediction."""

    RECIPE = """
name = "mine"
title = "Mine"
[data]
train = "train.txt"
test = "test.txt"
[features]
kind = "text"
[structure]
kind = "{kind}"
[objective]
group_l1 = 0.01
fit_intercept = true
"""
    TEXTS: ClassVar = {"a": "cats and more cats", "b": "dogs and wolves", "c": "birds that sing"}

    def write(self, folder, kind, labels):
        lines = [f"{label}\t{' '.join(self.TEXTS[part] for part in label.split(','))}" for label in labels]
        (folder / "train.txt").write_text("\n".join(lines * 3) + "\n")
        (folder / "test.txt").write_text("\n".join(lines) + "\n")
        (folder / "recipe.toml").write_text(self.RECIPE.format(kind=kind))

    @pytest.mark.parametrize(
        ("kind", "labels", "options"),
        [
            ("flat", ["a", "b", "c"], ["--loss", "squared-hinge", "--penalty", "l1/l2"]),
            ("ranking", ["a", "b", "a,b", "c", "b,c"], []),
        ],
        ids=["squared hinge", "ranking"],
    )
    def test_train_evaluate_inspect_predict(self, tmp_path, monkeypatch, kind, labels, options):
        self.write(tmp_path, kind, labels)
        train = run_here(monkeypatch, tmp_path, "train", ".", "-o", "m.crfqn", "-q", *options)
        assert train.returncode == 0, train.stderr
        content = json.loads(run_here(monkeypatch, tmp_path, "evaluate", "m.crfqn", "--json").stdout)
        assert (content["accuracy"], content["log_likelihood"]) == (1.0, None)
        assert [row["label"] for row in content["labels"]] == ["a", "b", "c"]
        assert "log-likelihood" not in run_here(monkeypatch, tmp_path, "evaluate", "m.crfqn").stdout
        facts = json.loads(run_here(monkeypatch, tmp_path, "inspect", "m.crfqn", "--json").stdout)
        assert len(facts["data_fingerprint"]) == 64
        assert (facts["settings"]["penalty"], facts["settings"]["group_l1"]) == ("l1/l2", 0.01)
        found = run_here(monkeypatch, tmp_path, "predict", "m.crfqn", "test.txt")
        assert found.stdout.splitlines() == labels
        found = run_here(monkeypatch, tmp_path, "predict", "m.crfqn", "test.txt", "--json")
        one_each = [
            {"labels": label.split(",")} if kind == "ranking" else {"label": label} for label in labels
        ]
        assert list(map(json.loads, found.stdout.splitlines())) == one_each
        refused = run_here(monkeypatch, tmp_path, "predict", "m.crfqn", "test.txt", "--marginals")
        assert refused.returncode == 2
        assert "--marginals is for models with probabilities" in refused.stderr

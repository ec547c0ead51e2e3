"""The command line on the built-in digits: training, prediction, evaluation, inspection."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

from crfqn.cli.exits import ExitCode
from crfqn.errors import InputError
from crfqn.metrics.evaluation import LabelCounts, log_likelihood

QUICK = ("--l1", "5", "--threads", "1", "--tol", "1e-2")


class TestTrain:
    def test_summary_and_progress(self, trained):
        folder, run = trained
        assert run.returncode == 0, run.stderr
        assert (folder / "digits.crfqn").is_file()
        rows = dict(line.split(maxsplit=1) for line in run.stdout.splitlines())
        assert rows.keys() == {"status", "objective", "gap", "non-zeros", "time", "accuracy", "model"}
        assert rows["status"].startswith("converged")
        distance = float(rows["gap"].replace(",", " ").split()[0])
        is_estimated = "by estimate" in rows["status"]
        assert is_estimated == ("certified" not in rows["gap"] or distance > 1e-2)
        assert not is_estimated or re.search(r"(\S+) by estimate", rows["gap"])
        assert float(rows["accuracy"].split()[0]) > 0.8
        assert "digits.crfqn" in rows["model"]
        assert "objective" in run.stderr
        assert "\x1b" not in run.stderr
        assert len(run.stderr.splitlines()) < 60
        assert sorted(path.name for path in folder.iterdir()) == ["digits.crfqn"]

    def test_a_bound_that_says_nothing_is_left_to_inspect(self, here):
        """Of an estimate the summary says the estimate; the bound is in the model and in the JSON."""
        run = here("train", "digits", "--l1", 0.1, "--tol", 0.1, "--threads", 1, "-o", "m")
        rows = dict(line.split(maxsplit=1) for line in run.stdout.splitlines())
        assert "by estimate" in rows["status"]
        assert re.match(r"\S+ by estimate", rows["gap"])
        assert "lower" not in run.stdout
        facts = json.loads(here("inspect", "m", "--json").stdout)
        assert facts["gap"] > 0.1 > facts["estimated_gap"]
        line = next(line for line in here("inspect", "m").stdout.splitlines() if line.startswith("gap"))
        assert re.search(r"certified, \S+ by estimate$", line)

    def test_a_bound_that_says_something_is_told(self, here):
        run = here("train", "digits", "--l1", 100, "--tol", 1e-3, "--threads", 1, "-o", "m")
        assert re.search(r"^gap .* certified: the optimum is at most \S+ % lower", run.stdout, re.MULTILINE)

    def test_quiet(self, here):
        run = here("train", "digits", *QUICK, "--quiet", "-o", "m", code=0)
        assert (run.stdout, run.stderr) == ("", "")

    @pytest.mark.parametrize(
        ("option", "value", "words"), [("--max-iter", 1, "iterations"), ("--max-time", 0.01, "time limit")]
    )
    def test_limits_save_the_model(self, here, option, value, words):
        run = here("train", "digits", "--l1", 5, "--threads", 1, "--tol", 1e-9, option, value, "-o", "m")
        assert run.returncode == ExitCode.NOT_CONVERGED
        assert words in run.stderr
        assert "ConvergenceWarning" not in run.stderr
        assert here("inspect", "m").returncode == 0

    def test_recipe_in_a_folder(self, here, tmp_path):
        folder = tmp_path / "mine"
        folder.mkdir()
        (folder / "recipe.toml").write_text(
            'name = "mine"\ntitle = "Mine"\n[data]\ntrain = "train.txt"\ntest = "test.txt"\n'
            '[features]\nkind = "attributes"\n[objective]\nl1 = 0.1\n'
        )
        text = "A\tw=the\n\nN\tw=cat\tfurry:0.5\n\n" * 5
        for name in ("train.txt", "test.txt"):
            (folder / name).write_text(text)
        run = here("train", folder, "--threads", 1, code=0)
        run = here("predict", "mine.crfqn", input="\tw=the\tnew\n\tw=cat\n")
        assert (run.returncode, run.stdout) == (0, "A\nN\n\n")
        run = here("evaluate", "mine.crfqn", "--json")
        assert json.loads(run.stdout)["accuracy"] == 1
        assert "w=" in here("inspect", "mine.crfqn").stdout


class TestPredict:
    def test_labels(self, here, trained, digit_file):
        path, labels = digit_file
        run = here("predict", trained[0] / "digits.crfqn", path, code=0)
        items = [block.split("\n") for block in run.stdout.removesuffix("\n\n").split("\n\n")]
        assert [len(item) for item in items] == [len(item) for item in labels]
        assert set("".join(map("".join, items))) <= set("0123456789")
        assert run.stdout.endswith("\n\n")

    def test_standard_input_and_output_file(self, here, trained, digit_file, tmp_path):
        model, path = trained[0] / "digits.crfqn", digit_file[0]
        expected = here("predict", model, path).stdout
        assert here("predict", model, input=path.read_text()).stdout == expected
        run = here("predict", model, "-", "-o", "labels", input=path.read_text(), cwd=tmp_path)
        assert (run.returncode, run.stdout) == (0, "")
        assert (tmp_path / "labels").read_text() == expected
        run = here("predict", model, path, "-o", "no/labels", cwd=tmp_path, error="cannot write no/labels")

    def test_marginals_and_score(self, here, trained, digit_file):
        run = here("predict", trained[0] / "digits.crfqn", digit_file[0], "--marginals", "--score", code=0)
        first, second, *_ = run.stdout.splitlines()
        name, value = first.split("\t")
        assert name == "@log-probability"
        assert float(value) <= 0
        label, *pairs = second.split("\t")
        probabilities = dict(pair.rsplit(":", 1) for pair in pairs)
        assert label in probabilities
        assert sum(map(float, probabilities.values())) == pytest.approx(1, abs=1e-4)


class TestEvaluate:
    def test_the_test_part(self, here, trained):
        folder, run = trained
        table = here("evaluate", "digits.crfqn", cwd=folder, code=0)
        content = json.loads(here("evaluate", "digits.crfqn", "--json", cwd=folder).stdout)
        assert f"{content['accuracy']:.4f}" in table.stdout
        assert f"accuracy   {content['accuracy']:.4f} of" in run.stdout
        assert [row["label"] for row in content["labels"]] == list("0123456789")
        assert content["n_items"] == 300
        assert content["log_likelihood"] < 0

    def test_a_file(self, here, trained, digit_file):
        run = here("evaluate", trained[0] / "digits.crfqn", digit_file[0], "--json")
        assert json.loads(run.stdout)["n_items"] == 2

    def test_unknown_label(self, here, trained, digit_file):
        text = digit_file[0].read_text()
        run = here("evaluate", trained[0] / "digits.crfqn", "-", input="x" + text[1:], code=0)
        assert "-inf" in run.stdout
        assert "unknown to the model" in run.stdout


class TestInspect:
    def test_text(self, here, trained):
        run = here("inspect", "digits.crfqn", "--top", 3, cwd=trained[0], code=0)
        for words in (
            "recipe     digits",
            "sha256",
            "l1 = 5.0",
            "converged",
            "transitions: the 6 largest",
            "->",
        ):
            assert words in run.stdout
        assert len(re.findall(r"^ +[+-][\d.]+  (?:p\d|bias)", run.stdout, re.MULTILINE)) == 30

    def test_json_of_one_label(self, here, trained):
        run = here("inspect", "digits.crfqn", "--label", "7", "--top", 4, "--json", cwd=trained[0])
        content = json.loads(run.stdout)
        assert list(content["weights"]) == ["7"]
        sizes = [abs(entry["weight"]) for entry in content["weights"]["7"]]
        assert len(sizes) == 4
        assert sizes == sorted(sizes, reverse=True)
        assert all("7" in (entry["from"], entry["to"]) for entry in content["transitions"])
        assert content["n_features"] == 2081
        assert 0 <= content["gap"] < 1
        assert len(content["data_fingerprint"]) == 64


class TestQuickstart:
    def test_without_data_and_network(self, here):
        nowhere = "http://127.0.0.1:9"  # a proxy that refuses at once
        run = here(
            *("quickstart", "-o", "first.crfqn", "--threads", 1),
            CRFQN_DATA=None,
            **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), nowhere),
            no_proxy=None,
            code=0,
        )
        assert "Training on handwritten digits, which are built in; `crfqn data get ocr`" in run.stderr
        for words in ("accuracy", "gap", "non-zeros", "time", "first.crfqn", "crfqn inspect first.crfqn"):
            assert words in run.stdout


def score_labels(given, predicted):
    counts = LabelCounts()
    counts.add(given, predicted)
    return counts.scores()


class TestScores:
    def test_unknown_labels_do_not_count(self):
        given = [["B-X", None, "I-X"], ["O", "B-Y", "I-Y"], [None, None], []]
        predicted = [["B-X", "I-X", "I-X"], ["O", "B-Y", "O"], ["B-X", "O"], []]
        scores = score_labels(given, predicted)
        assert (scores.n_items, scores.n_positions, scores.n_unknown) == (3, 5, 3)
        assert (scores.accuracy, scores.item_accuracy) == (4 / 5, 2 / 3)
        counts = {row.label: (row.support, row.recall) for row in scores.chunks.types}
        assert counts == {"X": (2, 1.0), "Y": (1, 0.0)}  # the unknown position cuts both spans of X
        whole = score_labels(
            [["B-X", "I-X"], ["O", "B-Y", "I-Y"], []], [["B-X", "I-X"], ["O", "B-Y", "O"], []]
        )
        assert (scores.accuracy, scores.labels, whole.n_unknown) == (whole.accuracy, whole.labels, 0)
        with pytest.raises(InputError, match="no labelled positions"):
            score_labels([[None]], [["O"]])

    def test_against_scikit_learn(self):
        from sklearn.metrics import precision_recall_fscore_support

        random = np.random.RandomState(0)
        lengths = [3, 1, 7, 4]
        given = [list(random.choice(list("abc"), n)) for n in lengths]
        predicted = [list(random.choice(list("abd"), n)) for n in lengths]
        predicted[1] = given[1]
        scores = score_labels(given, predicted)
        flat = [np.concatenate(items) for items in (given, predicted)]
        expected = precision_recall_fscore_support(*flat, zero_division=0)
        names = ("precision", "recall", "f1", "support")
        for name, values in zip(names, expected, strict=True):
            assert [getattr(row, name) for row in scores.labels] == pytest.approx(list(values))
        assert scores.accuracy == np.mean(flat[0] == flat[1])
        assert scores.item_accuracy == np.mean([a == b for a, b in zip(given, predicted, strict=True)])

    def test_refusals(self):
        with pytest.raises(InputError, match="lengths"):
            score_labels([["a"]], [["a", "b"]])
        with pytest.raises(InputError, match="no labelled"):
            score_labels([[]], [[]])

    def test_log_likelihood_of_labels_as_text(self):
        model = SimpleNamespace(
            classes_=np.array([3, 4]),
            log_likelihood=lambda X, y: np.array([-float(np.sum(item)) for item in y]),
        )
        assert log_likelihood(model, None, [["3", "4"], ["4"]]) == -11
        assert log_likelihood(model, None, [["3", "x"]]) == -np.inf

"""`crfqn predict`, `evaluate` and `inspect` with models of documents."""

import json
import math
import re

import pytest
from command_line import crfqn
from own_documents import LOOP, TEXTS, ZIP

from crfqn.cli.prediction import MAX_LABELS


class TestPredict:
    def test_a_new_process_needs_the_model_only(self, model, tmp_path):
        lines = f"{ZIP}\nno idea\t{ZIP}\n\n\t{LOOP}\n"
        run = crfqn("predict", model, cwd=tmp_path, input=lines, CRFQN_DATA=None, code=0)
        first, second, _, third = run.stdout.splitlines()
        assert first == second
        assert first.startswith("zipfile")
        assert third.startswith("asyncio/")

    def test_score_and_marginals_agree(self, here, model):
        run = here("predict", model, "--score", "--marginals", "--top", 3, input=f"{ZIP}\n{LOOP}\n", code=0)
        for line in run.stdout.splitlines():
            score, label, *pairs = line.split("\t")
            names, values = zip(*(pair.rsplit(":", 1) for pair in pairs), strict=True)
            assert len(names) == 3
            assert names[0] == label
            assert float(values[0]) == pytest.approx(math.exp(float(score)), abs=2e-6)
            assert sorted(values, reverse=True) == list(values)
        run = here("predict", model, "--marginals", input=ZIP)
        assert len(run.stdout.split("\t")) == 1 + MAX_LABELS

    def test_threshold(self, here, model):
        nodes = [
            here("predict", model, "--threshold", threshold, "--score", input=ZIP).stdout.rstrip().split("\t")
            for threshold in (0, 0.5, 1)
        ]
        assert nodes[0][1].startswith("zipfile/")
        assert [node[1] for node in nodes[1:]] == ["zipfile", "-"]  # no node is certain
        assert float(nodes[0][0]) < float(nodes[1][0]) == float(nodes[2][0]) < 0
        run = here("predict", model, "--threshold", 0.9, input="xyzzy\n")
        assert run.stdout == "-\n"

    def test_many_documents(self, here, numbers):
        lines = "0 2:8\n0 1:4\n" * 1001  # two blocks of them
        run = here("predict", numbers[0] / "own.crfqn", input=lines)
        assert run.stdout == "dog\ncat\n" * 1001

    def test_output_file(self, here, texts, tmp_path):
        run = here("predict", texts[0] / "own.crfqn", "-", "-o", "labels", input="Woof\nMiaow\n")
        assert (run.returncode, run.stdout) == (0, "")
        assert (tmp_path / "labels").read_text() == "dog\ncat\n"

    def test_unknown_features_are_left_out(self, here, texts, numbers):
        for folder, *inputs in (
            (texts[0], "Woof, unheard of\n", "Woof\n"),
            (numbers[0], "0 0:1 2:8 99:5\n", "cat 2:8\n"),
        ):
            outputs = {here("predict", folder / "own.crfqn", "--score", input=text).stdout for text in inputs}
            assert len(outputs) == 1

    def test_texts_without_a_known_word_are_counted(self, here, texts):
        for options in ((), ("--top", 2), ("--json", "--marginals"), ("--score",)):
            run = here(
                "predict", texts[0] / "own.crfqn", *options, input="Woof\nunheard of\n\nnever seen\n", code=0
            )
            assert len(run.stdout.splitlines()) == 4
            assert run.stderr == "Warning: 3 items have no feature that the model knows\n"

    def test_top_implies_probabilities(self, here, texts, numbers):
        for folder, line in ((texts[0], "Woof\n"), (numbers[0], "0 2:8\n")):
            plain = here("predict", folder / "own.crfqn", "--top", 2, input=line, code=0)
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


class TestEvaluate:
    def test_the_test_part_of_a_taxonomy(self, here, trained, model):
        table = here("evaluate", model, code=0)
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
        run = here("inspect", texts[0] / "own.crfqn", "--top", 2, code=0)
        for words in (
            "recipe     own: Own",
            "texts      word 1-grams",
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
        more = r"^\d+ more nodes have weights: --label NODE shows one of them, --json all$"
        assert re.search(more, run.stdout, re.MULTILINE)
        content = json.loads(here("inspect", model, "--json").stdout)
        assert len(content["weights"]) == content["n_nodes"] > len(content["labels"])
        assert content["n_nonzero"] >= sum(map(len, content["weights"].values()))
        assert "n_nonzero_transitions" not in content
        assert "transitions" not in content
        run = here("inspect", model, "--label", "asyncio")
        assert re.search(r"asyncio: the 5 largest weights\n .*\+.*  loop\n", run.stdout)
        assert "more nodes" not in run.stdout

    def test_features_are_named_by_their_ids(self, here, numbers):
        shown = here("inspect", numbers[0] / "own.crfqn").stdout
        assert re.search(r"dog: .*\n +\+[\d.]+  [23]\n", shown)
        assert "\ntexts " not in shown

    def test_intercepts(self, here, tmp_path):
        for name, content in {"train.txt": "a\tx yy\n" * 9 + "b\tyy x\n", "test.txt": "a\tyy\n"}.items():
            (tmp_path / name).write_text(content)
        (tmp_path / "recipe.toml").write_text(
            TEXTS + "[objective]\nl1 = 0.5\nfit_intercept = true\npenalize_intercept = true\n"
        )
        here("train", ".", "-q", "--threads", 1, code=0)
        assert "  (intercept)" in here("inspect", "own.crfqn").stdout

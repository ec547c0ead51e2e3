"""Options of reading are taken by a format or refused, and comments in files of columns are no tokens."""

from __future__ import annotations

import io
import json

import pytest

from crfqn import load
from crfqn.data.file_parts import read_parts
from crfqn.errors import CommentWarning, DataError, RecipeError
from crfqn.readers import FORMATS, read
from crfqn.recipes import prepare_data
from crfqn.recipes.schema import parse_recipe
from crfqn.recipes.sources import check_options

TRAIN = ("train", "--threads", 1, "--l1", 0.01, "-q", "-o", "m.crfqn")
CONTENTS = {
    "t.conll": "Ann B-PER\nlives O\n\n" * 4,
    "t.crfsuite": "B-PER\tw=Ann\nO\tw=lives\n\n" * 4,
    "t.jsonl": '{"text": "nice thing", "label": "pos"}\n{"text": "bad thing", "label": "neg"}\n' * 4,
    "s.jsonl": '{"tokens": ["Ann", "lives"], "labels": ["B-PER", "O"]}\n' * 4,
    "f.jsonl": '{"features": [{"a": 1}, {"b": 2}], "labels": ["B-PER", "O"]}\n' * 4,
    "t.text": "pos\tnice thing\nneg\tbad thing\n" * 4,
    "t.svm": "1 2:1\n2 3:1\n" * 4,
    "t.csv": "x,label\n" + "1,A\n2,B\n" * 4,
}
OPTIONS = ("label", "sentence", "header", "drop", "text", "separator", "comment")
# The options of data that each of the files takes.
TAKEN = {
    "t.conll": {"separator", "comment"},
    "t.crfsuite": set(),
    "t.jsonl": {"label", "text"},
    "s.jsonl": {"label"},
    "f.jsonl": {"label"},
    "t.text": set(),
    "t.svm": set(),
    "t.csv": {"label", "header", "drop"},
}
KINDS = {
    "t.conll": ("words", "chain"), "t.crfsuite": ("attributes", "chain"), "t.jsonl": ("text", "flat"),
    "s.jsonl": ("words", "chain"), "f.jsonl": ("attributes", "chain"), "t.text": ("text", "flat"),
    "t.svm": ("given", "flat"), "t.csv": ("table", "flat"),
}  # fmt: skip


def objects(*names, n=8):
    """JSON lines with texts and two sets of labels."""
    text, label = names
    pairs = [("nice thing", "pos"), ("bad thing", "neg")] * (n // 2)
    return "".join(
        json.dumps({text: words, label: name, "label": "XY"[i > 3]}) + "\n"
        for i, (words, name) in enumerate(pairs)
    )


@pytest.mark.parametrize("name", CONTENTS)
@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_is_taken_or_refused(tmp_path, name, option):
    (tmp_path / name).write_text(CONTENTS[name])
    kind, structure = KINDS[name]
    value = False if option == "header" else "other"
    data = {"train": name, option: value} | ({"label": "2"} if option == "header" else {})
    table = {
        "name": "m",
        "title": "M",
        "data": data,
        "features": {"kind": kind},
        "structure": {"kind": structure},
    }
    recipe = parse_recipe(table, tmp_path / "r.toml")
    if option in TAKEN[name]:
        check_options(recipe)
        return
    with pytest.raises(RecipeError, match="has no such option; it has ") as info:
        prepare_data(recipe)
    assert {*str(info.value).partition("it has ")[2].split(", ")} == (TAKEN[name] or {"none of this kind"})


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("t.conll", ("--sentence", "s"), "--sentence s: format 'conll'"),
        ("t.conll", ("--label", "upos"), "has no such option; it has comment"),
        ("t.text", ("--label", "sentiment"), "--label sentiment: format 'text'"),
        (
            "t.jsonl",
            ("--label", "sentiment"),
            "expected labels under 'sentiment' (label=), got 'text', 'label'",
        ),
        (
            "s.jsonl",
            ("--label", "ner_tags"),
            "expected labels under 'ner_tags' (label=), got 'tokens', 'labels'",
        ),
    ],
)
def test_what_is_said_on_the_command_line(here, tmp_path, name, arguments, words):
    (tmp_path / name).write_text(CONTENTS[name])
    here(*TRAIN, "--data", name, *arguments, error=words)


class TestKeysOfObjects:
    def test_of_documents(self, here, tmp_path):
        (tmp_path / "t.jsonl").write_text(objects("text", "sentiment"))
        here(*TRAIN, "--data", "t.jsonl", "--label", "sentiment", code=0)
        assert load(tmp_path / "m.crfqn").classes_.tolist() == ["neg", "pos"]
        done = here("predict", "m.crfqn", "t.jsonl", "--to", "jsonl", code=0)
        assert done.stdout == objects("text", "sentiment")
        scores = json.loads(here("evaluate", "m.crfqn", "t.jsonl", "--json", code=0).stdout)
        assert scores["accuracy"] == 1.0
        (tmp_path / "usual.jsonl").write_text(CONTENTS["t.jsonl"])
        scores = json.loads(here("evaluate", "m.crfqn", "usual.jsonl", "--json", code=0).stdout)
        assert scores["accuracy"] == 1.0

    def test_of_texts(self, here, tmp_path):
        (tmp_path / "t.jsonl").write_text(objects("body", "sentiment"))
        options = ("--structure", "flat", "--columns", "body", "--label", "sentiment")
        here(*TRAIN, "--data", "t.jsonl", *options, code=0)
        assert here("predict", "m.crfqn", "t.jsonl", code=0).stdout == "pos\nneg\n" * 4
        assert here("predict", "m.crfqn", "-", input='{"text": "bad thing"}', code=0).stdout == "neg\n"

    @pytest.mark.parametrize("content", ["s.jsonl", "f.jsonl"])
    def test_of_sequences(self, here, tmp_path, content):
        (tmp_path / "t.jsonl").write_text(CONTENTS[content].replace("labels", "ner_tags"))
        here(*TRAIN, "--data", "t.jsonl", "--label", "ner_tags", code=0)
        scores = json.loads(here("evaluate", "m.crfqn", "t.jsonl", "--json", code=0).stdout)
        assert (scores["accuracy"], scores["n_positions"]) == (1.0, 8)


MULTICONER = "".join(f"# id {i}\tdomain=en\nAnn _ _ B-PER\nlives _ _ O\n\n" for i in range(4))
TREEBANK = "".join(f"# sent_id = {i}\n# text = Ann lives\nAnn NNP B-PER\nlives VB O\n\n" for i in range(4))
WORDS = "\n".join(["# NN O", "5 CD O", "", "# NN O", "6 CD O", "", "it PRP B", ""])


class TestComments:
    @pytest.mark.parametrize("content", [MULTICONER, TREEBANK, TREEBANK.replace(" NNP", "\tNNP")])
    def test_are_no_tokens(self, content):
        with pytest.warns(CommentWarning, match="line 1: '# .*comment=''"):
            data = read(io.StringIO(content), "conll")
        assert data.labels == [["B-PER", "O"]] * 4
        assert [position["w"] for position in data.inputs[3]] == ["Ann", "lives"]

    @pytest.mark.parametrize(
        ("content", "n_tokens"),
        [
            (WORDS, 5),  # with the labels of others
            (MULTICONER.replace("lives", "#"), 12),  # a token within an item
            ("# NN X\n5 CD O\n", 2),  # one item shows nothing
            (TREEBANK + "# NN O\n5 CD B-PER\n", 10),  # a token behind comments
        ],
    )
    def test_tokens_stay(self, recwarn, content, n_tokens):
        assert read(io.StringIO(content), "conll").n_positions == n_tokens
        assert len(recwarn) == content.startswith(TREEBANK)

    def test_by_option(self, here, tmp_path):
        (tmp_path / "t.conll").write_text(MULTICONER)
        done = here(*TRAIN, "--data", "t.conll", code=0)
        assert "t.conll, line 1: '# id 0\\tdomain=en' and other such lines" in done.stderr
        labels = "B-PER\nO\n\n" * 4
        assert here("predict", "m.crfqn", "t.conll", code=0).stdout == labels
        assert here("predict", "m.crfqn", "t.conll", "--to", "conll", code=0).stdout == MULTICONER
        here(*TRAIN, "--data", "t.conll", "--comment", "", code=0)
        assert load(tmp_path / "m.crfqn").classes_.size == 3
        (tmp_path / "t.conll").write_text(MULTICONER.replace("#", "%%"))
        here(*TRAIN, "--data", "t.conll", "--comment", "%%", code=0)
        assert load(tmp_path / "m.crfqn").classes_.tolist() == ["B-PER", "O"]

    def test_in_parts_as_in_the_whole(self, tmp_path, monkeypatch):
        path = tmp_path / "t.conll"
        path.write_text(MULTICONER * 4)
        monkeypatch.setattr("crfqn.data.file_parts.PART_LINES", 8)
        monkeypatch.setattr("crfqn.data.file_parts.READ_SIZE", 100)
        with pytest.warns(CommentWarning) as raised:
            parts = [
                part for _, part in read_parts(path, FORMATS["conll"].cut(), lambda part: read(part, "conll"))
            ]
        assert (len(raised), sum(part.n_items for part in parts)) == (1, 16)
        assert len(parts) > 1

    def test_a_first_line_that_is_one_is_named(self):
        with pytest.raises(
            DataError, match="if line 1, '#a b c', is a comment, say so with comment='#' \\(--comment"
        ):
            read(io.StringIO("#a b c\nAnn O\n"), "conll")

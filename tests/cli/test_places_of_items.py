"""Errors and warnings of a training name the file and the line of an item, in every format, part and command."""

import json

import pytest

GOOD = [("a", "B-X"), ("b", "I-X")], [("c", "O"), ("d", "B-X")]
BROKEN = [("a", "O"), ("b", "I-X"), ("c", "O")]  # the I-X behind the O
OTHER = [("a", "O"), ("b", "Z")]  # no label of the scheme
BY_SCHEME = ("--scheme", "IOB2", "-q")
RULE = ": the rules do not allow 'I-X' after 'O'"
SCHEME = ": IOB2: expected labels O, B-<type>, I-<type>, got 'Z'"


def columns(items):
    return "".join("".join(f"{token} {label}\n" for token, label in item) + "\n" for item in items)


def attributes(items):
    return "".join("".join(f"{label}\t{token}\n" for token, label in item) + "\n" for item in items)


def table(items):
    rows = [f"{number},{token},{label}\n" for number, item in enumerate(items) for token, label in item]
    return "".join(["sentence,token,label\n", *rows])


def records(items):
    return [{"tokens": [t for t, _ in item], "labels": [label for _, label in item]} for item in items]


def lines(items):
    return "".join(f"{json.dumps(record)}\n" for record in records(items))


# Per format: how a file is written, its options, and the place of the b of BROKEN behind four items and a line.
FORMATS = {
    "t.conll": (columns, (), "line 14"),
    "t.txt": (attributes, ("--format", "crfsuite"), "line 14"),
    "t.csv": (table, ("--structure", "chain"), "line 11"),
    "t.jsonl": (lines, (), "line 5, position 1"),
    "t.json": (lambda items: json.dumps(records(items)), ("--format", "jsonl"), "line 1, item 4, position 1"),
}
STRENGTHS = ("--l1", 0.1, "--l2", 0.1)
COMMANDS = {
    "train": ("train", "-o", "m.crfqn", *STRENGTHS),
    "cv": ("cv", "--folds", 3, *STRENGTHS),
    "path": ("path", "--values", 3, "--holdout", 0.2),
    "path --cv": ("path", "--values", 3, "--cv", 3),
}


@pytest.fixture
def write(tmp_path):
    return lambda name, items, form=columns: (tmp_path / name).write_text(form(items))


@pytest.mark.parametrize("on_violation", ["error", "drop"])
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", FORMATS)
def test_an_item_that_breaks_the_rules_is_named_by_file_and_line(run, write, name, command, on_violation):
    form, options, place = FORMATS[name]
    write(name, [*GOOD, *GOOD, BROKEN, *GOOD], form)
    done = run(*COMMANDS[command], "--data", name, *options, *BY_SCHEME, "--on-violation", on_violation)
    assert (done.returncode == 2) == (on_violation == "error"), done.stderr
    assert f"{name}, {place}{RULE}" in done.stderr


class TestParts:
    """Items of several files, of the test part and of the validation part."""

    @pytest.fixture
    def run(self, run, write):
        write("good.conll", [*GOOD] * 2)
        write("broken.conll", [*GOOD, BROKEN])
        write("other.conll", [*GOOD, OTHER])
        return lambda *words: run("train", "-o", "m.crfqn", *STRENGTHS, *BY_SCHEME, *words)

    def test_the_second_file(self, run):
        done = run("--data", "good.conll", "--data", "broken.conll")
        assert (done.returncode, f"broken.conll, line 8{RULE}" in done.stderr) == (2, True), done.stderr

    @pytest.mark.parametrize("option", ["--data", "--test", "--dev"])
    def test_a_label_that_the_scheme_does_not_have(self, run, option):
        done = run("--data", "good.conll", option, "other.conll")
        assert (done.returncode, f"other.conll, line 8{SCHEME}" in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("name", "text", "options", "place"),
    [
        (
            "w.jsonl",
            '{"features": [{"a": 1}, {"b": 2}], "labels": ["X", "Y"]}\n' * 2,
            (),
            "line 3, position 1",
        ),
        ("w.txt", "X\ta\nY\tb\n\n" * 2, ("--format", "crfsuite"), "line 8"),
        ("w.svm", "1 1:1\n2 2:1\n" * 2, ("--structure", "flat", "--format", "svmlight"), "line 5"),
    ],
)
@pytest.mark.parametrize("command", ["train", "cv"])
def test_a_value_that_is_too_large(run, tmp_path, name, text, options, place, command):
    last = {
        "w.jsonl": '{"features": [{"a": 1}, {"b": 1e13}], "labels": ["X", "Y"]}\n',
        "w.txt": "X\ta\nY\tb:1e13\n\n",
        "w.svm": "2 2:1e13\n",
    }[name]
    (tmp_path / name).write_text(text + last + text)
    words = ("train", "-o", "m.crfqn") if command == "train" else ("cv", "--folds", 2)
    done = run(*words, "--data", name, *options, "-q")
    assert done.returncode == 2
    assert f"{name}, {place}: feature" in done.stderr, done.stderr


def test_items_without_positions_are_counted(run, write):
    write("e.jsonl", [[], GOOD[0], [], BROKEN, GOOD[1]], lines)
    done = run("train", "--data", "e.jsonl", "-o", "m.crfqn", *STRENGTHS, *BY_SCHEME)
    assert f"e.jsonl, line 4, position 1{RULE}" in done.stderr


def test_a_metric_that_is_nearly_one_is_named(run, write):
    write("good.conll", [*GOOD] * 2)
    words = ("--data", "good.conll", "--dev", "good.conll", "-o", "m.crfqn", "-q")
    assert "did you mean f1_macro?" in run("train", *words, "--metric", "f1_makro").stderr
    assert "did you mean span_f1?" in run("train", *words, "--metric", "span_f11").stderr

"""`crfqn predict` of several inputs: a file for each in a folder, or one after the other on standard output."""

import gzip
import json

import pytest
from command_line import run_here

TRAIN = "the DT\ndog NN\nbarks VB\n\nit PRP\nsleeps VB\n\nit PRP\n\ndog NN\n\nit PRP\nbarks VB\n\n"
FILES = {"a.conll": "the\ndog\n\nit\n", "b.conll": "it\nbarks\n", "c.jsonl": '{"tokens": ["it"]}'}
LABELS = {"a.conll": "DT\nNN\n\nPRP\n\n", "b.conll": "PRP\nVB\n\n", "c.jsonl": "PRP\n\n"}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    (path / "train.conll").write_text(TRAIN * 3)
    with pytest.MonkeyPatch.context() as patch:
        options = (
            "--columns",
            "w",
            "--templates",
            "w[0]",
            "--l1",
            0.01,
            "-o",
            "m.crfqn",
            "--threads",
            1,
            "-q",
        )
        run_here(patch, path, "train", "--data", "train.conll", *options, code=0)
    return path / "m.crfqn"


@pytest.fixture
def folder(tmp_path):
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.conll").write_text("dog\n")
    (tmp_path / "z.conll.gz").write_bytes(gzip.compress(FILES["b.conll"].encode()))
    return tmp_path


@pytest.fixture
def run(folder, model, monkeypatch):
    return lambda *arguments, **options: run_here(
        monkeypatch, folder, "predict", model, *arguments, **options
    )


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("options", [(), ("--json",), ("--to", "jsonl"), ("--to", "csv"), ("--score",)])
@pytest.mark.parametrize("names", [("a.conll",), ("a.conll", "b.conll", "c.jsonl", "z.conll.gz")])
def test_each_input_has_a_file_of_what_o_writes(run, folder, names, options):
    done = run(*names, "--output-dir", "new/labels", *options, code=0)
    assert (done.stdout, done.stderr) == ("", "")
    assert sorted(path.name for path in (folder / "new/labels").iterdir()) == sorted(names)
    for name in names:
        alone = name.replace("z.", "alone.") if name.endswith(".gz") else "alone.txt"
        run(name, "-o", alone, *options, code=0)
        unpack = gzip.decompress if name.endswith(".gz") else bytes
        text = unpack((folder / "new/labels" / name).read_bytes())
        assert text == unpack((folder / alone).read_bytes())
        if not options:
            assert text.decode() == LABELS["b.conll" if name.endswith(".gz") else name]


def test_a_folder_that_is_there_keeps_its_other_files(run, folder):
    (folder / "labels").mkdir()
    for name in ("b.conll", "kept.txt"):
        (folder / "labels" / name).write_text("of before")
    run("a.conll", "b.conll", "--output-dir", "labels", code=0)
    assert contents(folder / "labels") == {
        "kept.txt": b"of before",
        **{name: LABELS[name].encode() for name in ("a.conll", "b.conll")},
    }


def test_an_error_in_a_file_leaves_it_as_it_was(run, folder):
    (folder / "bad.jsonl").write_text('{"tokens": ["it"]}\nnonsense\n')
    (folder / "labels").mkdir()
    (folder / "labels" / "bad.jsonl").write_text("of before")
    run("a.conll", "bad.jsonl", "b.conll", "--output-dir", "labels", error="bad.jsonl, line 2")
    assert contents(folder / "labels") == {"a.conll": LABELS["a.conll"].encode(), "bad.jsonl": b"of before"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a.conll", "other/a.conll", "--output-dir", "new"), "got a.conll and other/a.conll: both go to new/a.conll"),
        (("b.conll", "a.conll", "--output-dir", "."), "b.conll: expected a new file for the output, got an input"),
        (("b.conll", "other/a.conll", "--output-dir", "link"), "link/a.conll: expected a new file"),
        (("b.conll", "-", "--output-dir", "new"), "expected names of files with --output-dir, got - (standard input)"),
        (("-", "--output-dir", "new"), "expected names of files with --output-dir, got - (standard input)"),
        (("--output-dir", "new"), "got - (standard input) in 1 input"),
        (("a.conll", "-"), "expected names of files with several, got - (standard input) in 2 inputs"),
        (("a.conll", "-o", "x", "--output-dir", "new"), "got both: -o x --output-dir new"),
        (("a.conll", "b.conll", "-o", "x"), "-o x: expected one input, got 2; --output-dir DIR takes several"),
        (("a.conll", "b.conll", "--to", "csv"), "--to csv: expected one input, or --output-dir DIR"),
        (("a.conll", "b.conll", "--to", "conll"), "--to conll: expected one input, or --output-dir DIR"),
        (("a.conll", "b.conll", "--dense", "d.npy"), "--dense d.npy: has the rows of one input; expected one, got 2"),
        (("a.conll", "b.conll", "--output-dir", "c.jsonl"), "--output-dir c.jsonl: expected a folder, got a file"),
        (("b.conll", "a.conll", "--output-dir", "taken"), "taken/a.conll: expected a file or nothing there"),
        (("a.conll", "none.conll", "--output-dir", "new"), "none.conll: there is no such file"),
        (("a.conll", "other", "--output-dir", "new"), "other: a folder; expected a file"),
        (("a.conll", "b.conll", "--top", 2, "--output-dir", "new"), "--top is for items with one label"),
        (("a.conll", "--output-dir", "c.jsonl/new"), "cannot create the folder c.jsonl/new"),
    ],
)  # fmt: skip
def test_mistakes_before_anything_is_written(run, folder, arguments, message):
    (folder / "taken" / "a.conll").mkdir(parents=True)
    (folder / "link").symlink_to(folder / "other")
    before = contents(folder)
    done = run(*arguments, error=message)
    assert done.stdout == ""
    assert contents(folder) == before
    assert not (folder / "new").exists()


def test_the_model_is_not_replaced(run, folder, model):
    content = model.read_bytes()
    (folder / model.name).write_text("it\n")
    run(model.name, "--format", "conll", "--output-dir", model.parent, error="expected a new file")
    assert model.read_bytes() == content


@pytest.mark.parametrize("options", [(), ("--json",), ("--marginals",), ("--n-best", 2)])
def test_without_a_folder_one_comes_after_the_other(run, options):
    names = ("a.conll", "c.jsonl", "b.conll", "a.conll")
    alone = [run(name, *options, code=0).stdout for name in names]
    assert run(*names, *options, code=0).stdout == "".join(alone)


def test_files_of_json_lines_stay_lines(run, folder):
    (folder / "marked.jsonl").write_text('\ufeff{"tokens": ["dog"], "id": 7}')
    done = run("c.jsonl", "marked.jsonl", "a.conll", "--to", "jsonl", code=0)
    items = [json.loads(line) for line in done.stdout.splitlines()]
    assert [item["labels"] for item in items] == [["PRP"], ["NN"], ["DT", "NN"], ["PRP"]]
    assert items[1]["id"] == 7


def test_inputs_of_two_encodings(run, folder):
    arguments = ("a.conll", "c.jsonl", "--to", "jsonl")
    assert run(*arguments, "--encoding", "latin-1", error="expected inputs of one encoding").stdout == ""
    run(*arguments, "--encoding", "latin-1", "--output-dir", "new", code=0)
    assert json.loads((folder / "new" / "c.jsonl").read_text())["labels"] == ["PRP"]

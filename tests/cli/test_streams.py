"""Prediction and evaluation part by part: the input written again, endless inputs, what is said at the end."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import subprocess
import sys

import pytest
from command_line import run_here

from crfqn.cli import prediction
from crfqn.data import file_parts as parts

ITEM = "the\tDT  B-NP\ndog NN I-NP\nbarks VBZ B-VP\n\n"
OTHER = "it PRP B-NP\nsleeps  VBZ B-VP\n\n"
COLUMNS = f"-DOCSTART- -X- O\n\n{ITEM}\n{OTHER}"
TABLE = 'w,label,pos\r\nthe,B-NP,"DT"\r\ndog,I-NP,NN\r\n\r\n\r\nit,B-NP,PRP'
OBJECTS = '{"id": 1, "tokens":["it"],"pos" : ["PRP"], "labels":["B-NP"]}\n\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("files")
    path.joinpath("train.conll").write_text(COLUMNS * 3)
    with pytest.MonkeyPatch.context() as patch:
        options = ("--columns", "w pos", "--l1", 0.1, "-o", "m.crfqn", "--threads", 1, "-q")
        run_here(patch, path, "train", "--data", "train.conll", *options, code=0)
    return path


@pytest.fixture
def run(folder, monkeypatch):
    return lambda *arguments, **options: run_here(monkeypatch, folder, *arguments, **options)


@pytest.mark.parametrize(
    ("format", "text"),
    [("conll", COLUMNS.rstrip()), ("csv", TABLE), ("jsonl", OBJECTS), ("conll2000", "\ufeff" + COLUMNS)],
)
def test_an_input_whose_labels_are_predicted_right_comes_back(run, folder, format, text):
    for arguments in (("-", "--format", format), (f"in.{format}.gz",)):
        (folder / f"in.{format}.gz").write_bytes(gzip.compress(text.encode()))
        done = run("predict", "m.crfqn", *arguments, "--to", format, input=text)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == text
        changed = text.replace("B-NP", "XX")
        (folder / f"in.{format}.gz").write_bytes(gzip.compress(changed.encode()))
        assert run("predict", "m.crfqn", *arguments, "--to", format, input=changed).stdout == text
    done = run("predict", "m.crfqn", f"in.{format}.gz", "--to", format, "-o", "out.gz")
    assert gzip.decompress((folder / "out.gz").read_bytes()).decode() == text


def test_several_parts_are_one_result(run, monkeypatch):
    text = (ITEM + OTHER) * 9
    arguments = (("predict", "-"), ("predict", "-", "--to", "csv"), ("evaluate", "-", "--json"))
    whole = [run(name, "m.crfqn", *more, input=text) for name, *more in arguments]
    monkeypatch.setattr(parts, "READ_SIZE", 50)
    monkeypatch.setattr(parts, "PART_LINES", 5)
    found = [run(name, "m.crfqn", *more, input=text) for name, *more in arguments]
    assert [done.stdout for done in found[:2]] == [done.stdout for done in whole[:2]]
    assert found[1].stdout.count("sentence") == 1
    assert found[1].stdout.splitlines()[-1] == "18,sleeps,VBZ,B-VP,B-VP"
    scores = [json.loads(done.stdout) for done in (found[2], whole[2])]
    assert scores[0].pop("log_likelihood") == pytest.approx(scores[1].pop("log_likelihood"))
    assert scores[0] == scores[1]
    assert scores[0]["chunks"]["types"][0]["support"] == 18


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_an_error_in_the_middle(run, folder, command):
    text = f"{ITEM}{OTHER}the DT\ndog\n\n{OTHER}"
    done = (
        run(command, "m.crfqn", input=text)
        if command == "predict"
        else run(command, "m.crfqn", "-", input=text)
    )
    assert done.returncode == 2
    assert (
        "standard input, line 9: expected 2 columns (w, pos) and perhaps a label, got 1: 'dog'" in done.stderr
    )
    assert done.stdout == ("B-NP\nI-NP\nB-VP\n\nB-NP\nB-VP\n\n" if command == "predict" else "")
    done = run("predict", "m.crfqn", "-o", "labels", input=text, code=2)
    assert [path.name for path in folder.iterdir() if "labels" in path.name] == []


def test_what_another_format_cannot_hold_is_named_by_its_line(run, monkeypatch):
    monkeypatch.setattr(parts, "READ_SIZE", len(OBJECTS))
    monkeypatch.setattr(parts, "PART_LINES", 1)
    text = OBJECTS + OBJECTS.replace("it", "it is")
    done = run("predict", "m.crfqn", "--format", "jsonl", "--to", "conll", input=text)
    assert (done.returncode, done.stdout) == (2, "it PRP B-NP B-NP\n\n")
    assert "standard input, line 3, position 0: 'it is' cannot be the text of a column" in done.stderr


def test_closed_standard_streams(run):
    for command in (
        ("predict", "m.crfqn"),
        ("evaluate", "m.crfqn", "-"),
        ("train", "--data", "-", "--format", "conll"),
    ):
        run(*command, input=None, error="crfqn: standard input is closed; name a file, or pipe the items in")


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_an_input_without_end(folder):
    endless = f"while True: print({OTHER!r}, end='')"
    done = subprocess.run(
        ["bash", "-c", '"$0" -c "$1" 2> /dev/null | "$0" -m crfqn predict m.crfqn - | head -9; echo "${PIPESTATUS[1]}"',
         sys.executable, endless],
        cwd=folder, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("B-NP\nB-VP\n\n" * 3 + "0\n", "")


def test_labels_are_written_before_more_is_read(folder, monkeypatch):
    """What the reader has taken from the pipe when labels are first written, and at the end of those."""
    taken, seen = [], []

    class Pipe(io.BytesIO):
        def read1(self, size=-1):
            taken.append(OTHER)
            return b"" if len(taken) > 5 else OTHER.encode()

    class Output(io.StringIO):
        def flush(self):
            seen.append((len(taken), self.getvalue().count("\n\n")))

    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(Pipe()))
    monkeypatch.setattr("sys.stdout", Output())
    from crfqn.cli.options import PredictOptions

    prediction.write_predictions(folder / "m.crfqn", ["-"], None, None, PredictOptions())
    assert seen == [(n, n) for n in range(1, 6)]

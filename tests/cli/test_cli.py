"""The command line: as a subprocess on the built-in digits, and its parts on small examples."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import crfqn, run_here

from crfqn import MulticlassCRF
from crfqn.cli import exits
from crfqn.cli.commands.training import _fit
from crfqn.cli.exits import ExitCode, Terminated, command, raise_signal, received
from crfqn.cli.interrupts import Interrupts
from crfqn.cli.scores import log_likelihood, score_labels
from crfqn.errors import DataUnavailableError, InputError, ModelFileError, RecipeError
from crfqn.recipes import Prepared

QUICK = ("--l1", "5", "--threads", "1", "--tol", "1e-2")
ENDLESS = ("--l1", "5", "--threads", "1", "--tol", "0", "--max-iter", "100000")


@pytest.fixture
def here(monkeypatch, tmp_path):
    return lambda *arguments, cwd=tmp_path, **options: run_here(monkeypatch, cwd, *arguments, **options)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with `digits.crfqn`, and how its training went."""
    folder = tmp_path_factory.mktemp("trained")
    return folder, crfqn("train", "models/digits", *QUICK, cwd=folder)


@pytest.fixture(scope="module")
def digit_file(tmp_path_factory):
    """Two labelled digit strings in the text format."""
    from crfqn.readers.collections.digits import make_digit_strings

    labeled = make_digit_strings()
    lines = []
    for images, labels in zip(labeled.inputs[-2:], labeled.labels[-2:], strict=True):
        for image, label in zip(images, labels, strict=True):
            on = np.flatnonzero(image)
            lines.append("\t".join([label, *(f"p{i // 8}_{i % 8}:{image[i]}" for i in on)]))
        lines.append("")
    path = tmp_path_factory.mktemp("input") / "two.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path, labeled.labels[-2:]


class TestHelp:
    def test_help_loads_no_solvers(self):
        """It is there at once: nothing is imported that only a training needs."""
        script = "import sys; from crfqn.cli import main; sys.argv = ['crfqn', '--help']\ntry:\n    main()\nfinally:\n"
        loaded = "    print({'numpy', 'numba', 'scipy', 'sklearn'} & set(sys.modules), file=sys.stderr)"
        run = subprocess.run([sys.executable, "-c", script + loaded], capture_output=True, text=True)
        assert (run.returncode, run.stderr.strip()) == (0, "set()")

    def test_help_names_everything(self):
        run = crfqn("--help")
        assert run.returncode == 0
        for word in ("train", "predict", "evaluate", "inspect", "data", "quickstart", "Exit codes"):
            assert word in run.stdout
        for code in ExitCode:
            assert re.search(rf"\b{code.value}  {re.escape(code.meaning[:20])}", run.stdout)

    def test_help_imports_nothing_heavy(self):
        code = (
            "import sys; from crfqn.cli.app import app\n"
            "print([name for name in ('numba', 'scipy', 'sklearn', 'numpy', 'pooch') if name in sys.modules])"
        )
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        assert run.stdout.strip() == "[]"

    @pytest.mark.parametrize(
        "name", ["train", "predict", "evaluate", "inspect", "data", "quickstart", "data list", "data get"]
    )
    def test_every_command_has_help(self, name):
        run = crfqn(*name.split(), "--help")
        assert run.returncode == 0
        assert f"crfqn {name}" in run.stdout

    def test_version(self):
        import crfqn as package

        assert crfqn("--version").stdout == f"crfqn {package.__version__}\n"

    def test_no_command_shows_help(self):
        run = crfqn()
        assert run.returncode in (0, 2)  # typer changed its mind
        assert "quickstart" in run.stdout


class TestTrain:
    def test_summary_and_progress(self, trained):
        folder, run = trained
        assert run.returncode == 0, run.stderr
        assert (folder / "digits.crfqn").is_file()
        rows = dict(line.split(maxsplit=1) for line in run.stdout.splitlines())
        assert rows.keys() == {"status", "objective", "gap", "non-zeros", "time", "accuracy", "model"}
        assert rows["status"].startswith("converged")
        proved = float(rows["gap"].split(",")[0])
        is_estimated = "by an estimate" in rows["status"]
        assert is_estimated == (proved > 1e-2)
        assert not is_estimated or float(rows["gap"].split("; ")[-1].removesuffix(" by estimate")) <= 1e-2
        assert float(rows["accuracy"].split()[0]) > 0.8
        assert "digits.crfqn" in rows["model"]
        assert "objective" in run.stderr
        assert "\x1b" not in run.stderr
        assert len(run.stderr.splitlines()) < 60
        assert sorted(path.name for path in folder.iterdir()) == ["digits.crfqn"]

    def test_quiet(self, tmp_path):
        run = crfqn("train", "digits", *QUICK, "--quiet", "-o", "m", cwd=tmp_path)
        assert run.returncode == 0
        assert run.stderr == ""
        assert "accuracy" in run.stdout

    @pytest.mark.parametrize(
        ("option", "value", "words"), [("--max-iter", 1, "iterations"), ("--max-time", 0.01, "time limit")]
    )
    def test_limits_save_the_model(self, tmp_path, option, value, words):
        run = crfqn(
            "train",
            "digits",
            "--l1",
            5,
            "--threads",
            1,
            "--tol",
            "1e-9",
            option,
            value,
            "-o",
            "m",
            cwd=tmp_path,
        )
        assert run.returncode == ExitCode.NOT_CONVERGED
        assert words in run.stderr
        assert "ConvergenceWarning" not in run.stderr
        assert crfqn("inspect", "m", cwd=tmp_path).returncode == 0

    def test_recipe_in_a_folder(self, tmp_path):
        folder = tmp_path / "mine"
        folder.mkdir()
        (folder / "recipe.toml").write_text(
            'name = "mine"\ntitle = "Mine"\n[data]\ntrain = "train.txt"\ntest = "test.txt"\n'
            '[features]\nkind = "attributes"\n[objective]\nl1 = 0.1\n'
        )
        text = "A\tw=the\n\nN\tw=cat\tfurry:0.5\n\n" * 5
        for name in ("train.txt", "test.txt"):
            (folder / name).write_text(text)
        run = crfqn("train", folder, "--threads", 1, cwd=tmp_path)
        assert run.returncode == 0, run.stderr
        run = crfqn("predict", "mine.crfqn", cwd=tmp_path, input="\tw=the\tnew\n\tw=cat\n")
        assert (run.returncode, run.stdout) == (0, "A\nN\n\n")
        run = crfqn("evaluate", "mine.crfqn", "--json", cwd=tmp_path)
        assert json.loads(run.stdout)["accuracy"] == 1
        assert "w=" in crfqn("inspect", "mine.crfqn", cwd=tmp_path).stdout


class TestMistakes:
    def assert_mistake(self, run, code, *words):
        assert run.returncode == code
        assert run.stdout == ""
        assert "Traceback" not in run.stderr
        for word in words:
            assert word in run.stderr

    def test_unknown_recipe(self, here, tmp_path):
        self.assert_mistake(
            here("train", "nope", cwd=tmp_path), 2, "nope", "banking77, btc, conll2000, digits"
        )

    def test_ocr_without_data(self, here, tmp_path):
        run = here("train", "models/ocr", cwd=tmp_path, CRFQN_DATA=None)
        self.assert_mistake(run, 3, "crfqn data get ocr", "CRFQN_DATA", "crfqn train models/digits")

    def test_output_is_checked_first(self, here, tmp_path):
        run = here("train", "digits", "-o", "nowhere/m", cwd=tmp_path)
        self.assert_mistake(run, 2, "nowhere does not exist")
        assert "items" not in run.stderr

    @pytest.mark.parametrize("name", ["predict", "evaluate", "inspect"])
    def test_model_files(self, here, tmp_path, name):
        (tmp_path / "foreign").write_bytes(b"lCRFfoo" * 100)
        for path, words in (
            ("foreign", "not a crfqn model"),
            ("missing", "no such file"),
            (".", "not a file"),
        ):
            run = here(name, path, cwd=tmp_path, input="")
            self.assert_mistake(run, 2, f"{path}: ", words)

    @pytest.mark.parametrize(
        "arguments",
        [
            ("train", "digits", "--l1", "much"),
            ("train", "digits", "--l1=-1"),
            ("fly",),
            ("data", "x"),
        ],
    )
    def test_usage(self, here, arguments):
        self.assert_mistake(here(*arguments), 2, "Error")

    @pytest.mark.parametrize("value", ["nan", "inf"])
    def test_numbers_that_are_none(self, here, tmp_path, value):
        self.assert_mistake(here("train", "digits", "--l1", value, cwd=tmp_path), 2, "l1")

    def test_input_files(self, here, trained, tmp_path):
        folder, _ = trained
        model = folder / "digits.crfqn"
        (tmp_path / "words").write_text("1\tdog\n")
        for command_name in ("predict", "evaluate"):
            self.assert_mistake(
                here(command_name, model, "gone", cwd=tmp_path), 2, "gone: there is no such file"
            )
            self.assert_mistake(here(command_name, model, ".", cwd=tmp_path), 2, "a folder")
            self.assert_mistake(here(command_name, model, "words", cwd=tmp_path), 2, "'dog' is no pixel")
        (tmp_path / "bare").write_text("\tp0_0:16\n")
        self.assert_mistake(here("evaluate", model, "bare", cwd=tmp_path), 2, "no labels")
        self.assert_mistake(here("inspect", model, "--label", "x", cwd=tmp_path), 2, "no label 'x'")

    def test_unknown_dataset(self, here):
        self.assert_mistake(here("data", "get", "x"), 2, "no dataset 'x'", "digits")
        self.assert_mistake(here("data", "verify", "x"), 2, "no dataset 'x'")

    def test_debug_shows_the_traceback(self, here, tmp_path):
        run = here("train", "nope", cwd=tmp_path, CRFQN_DEBUG="1")
        assert run.returncode == 2
        assert "Traceback" in run.stderr


class TestPredict:
    def test_labels(self, here, trained, digit_file):
        path, labels = digit_file
        run = here("predict", trained[0] / "digits.crfqn", path)
        assert run.returncode == 0, run.stderr
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
        run = here("predict", model, path, "-o", "no/labels", cwd=tmp_path)
        assert run.returncode == 2
        assert "cannot write no/labels" in run.stderr

    def test_marginals_and_score(self, here, trained, digit_file):
        run = here("predict", trained[0] / "digits.crfqn", digit_file[0], "--marginals", "--score")
        assert run.returncode == 0, run.stderr
        first, second, *_ = run.stdout.splitlines()
        name, value = first.split("\t")
        assert name == "@log-probability"
        assert float(value) <= 0
        label, *pairs = second.split("\t")
        probabilities = dict(pair.rsplit(":", 1) for pair in pairs)
        assert label in probabilities
        assert sum(map(float, probabilities.values())) == pytest.approx(1, abs=1e-4)

    @pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
    def test_head_is_no_error(self, trained):
        text = "\tp0_0:16\n\n" * 2000  # 200 kB of output: more than a pipe holds
        run = subprocess.run(
            '"$PYTHON" -m crfqn predict digits.crfqn --marginals | head -1; echo ${PIPESTATUS[0]}',
            env={**os.environ, "PYTHON": sys.executable},
            shell=True,
            executable="/bin/bash",
            cwd=trained[0],
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert run.stdout.splitlines()[-1] == "0"
        assert run.stderr == ""


class TestEvaluate:
    def test_the_test_part(self, here, trained):
        folder, run = trained
        table = here("evaluate", "digits.crfqn", cwd=folder)
        assert table.returncode == 0, table.stderr
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
        run = here("evaluate", trained[0] / "digits.crfqn", "-", input="x" + text[1:])
        assert run.returncode == 0, run.stderr
        assert "-inf" in run.stdout
        assert "unknown to the model" in run.stdout


class TestInspect:
    def test_text(self, here, trained):
        run = here("inspect", "digits.crfqn", "--top", 3, cwd=trained[0])
        assert run.returncode == 0, run.stderr
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


class TestData:
    def test_list(self, here, tmp_path):
        run = here("data", "list", cwd=tmp_path, CRFQN_DATA=None)
        assert run.returncode == 0
        assert "built in" in run.stdout
        assert "not here: crfqn data get ocr" in run.stdout
        rows = json.loads(here("data", "list", "--json", cwd=tmp_path, CRFQN_DATA=None).stdout)
        assert {"digits", "ocr", "stdlib"} < {row["name"] for row in rows}

    def test_digits(self, here):
        assert "built in" in here("data", "get", "digits").stdout
        assert here("data", "verify", "digits").returncode == 0

    def test_missing_and_damaged(self, here, tmp_path):
        assert here("data", "verify", "ocr", cwd=tmp_path, CRFQN_DATA=None).returncode == 3
        (tmp_path / "letter.derived.tsv.gz").write_bytes(b"no")
        run = here("data", "verify", "ocr", cwd=tmp_path, CRFQN_DATA=str(tmp_path))
        assert run.returncode == 3
        assert "checksum" in run.stderr

    @pytest.mark.skipif("CRFQN_DATA" not in os.environ, reason="needs the OCR data in CRFQN_DATA")
    def test_real_data(self, here):
        assert here("data", "verify", "ocr").returncode == 0
        assert Path(here("data", "get", "ocr").stdout.strip()).is_file()


class TestQuickstart:
    def test_without_data_and_network(self, tmp_path):
        nowhere = "http://127.0.0.1:9"  # a proxy that refuses at once
        run = crfqn(
            *("quickstart", "-o", "first.crfqn", "--threads", 1),
            cwd=tmp_path,
            CRFQN_DATA=None,
            **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), nowhere),
            no_proxy=None,
        )
        assert run.returncode == 0, run.stderr
        assert "handwritten digits, which are built in" in run.stderr
        for words in ("accuracy", "gap", "non-zeros", "time", "first.crfqn", "crfqn inspect first.crfqn"):
            assert words in run.stdout


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
class TestInterrupts:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_the_best_model_is_saved(self, tmp_path, number):
        process = subprocess.Popen(
            [sys.executable, "-m", "crfqn", "train", "digits", *ENDLESS],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            lines = []
            for line in process.stderr:
                lines.append(line)
                if re.match(r" +\d+ ", line) and line.split()[5] != "0":  # there are weights
                    break
            process.send_signal(number)
            output, messages = process.communicate(timeout=60)
        finally:
            process.kill()
            process.communicate()
        assert process.returncode == 128 + number, "".join(lines) + messages
        assert "the best model so far is saved in digits.crfqn" in messages
        assert "Traceback" not in messages
        assert "digits.crfqn" in output
        run = crfqn("inspect", "digits.crfqn", "--json", cwd=tmp_path)
        assert json.loads(run.stdout)["n_nonzero"] > 0

    def test_a_signal_at_once_keeps_what_was_trained(self):
        def interrupt(*_):
            raise KeyboardInterrupt

        prepared = Prepared([[1.0, 0], [0, 1]] * 3, ["a", "b"] * 3, None, [], None, "")
        model = MulticlassCRF(l1=0.1, callback=interrupt)
        _fit(model, prepared, Interrupts())
        assert model.result_.status.name == "INTERRUPTED"
        model = MulticlassCRF(l1=0.1)
        model._learn_labels = interrupt  # before the training begins
        prepared.X_train = [[1.0, 0], [0, 1]] * 3
        with pytest.raises(KeyboardInterrupt):
            _fit(model, prepared, Interrupts())

    @pytest.mark.parametrize(
        ("number", "kind"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)]
    )
    def test_a_signal_that_an_import_has_swallowed_is_answered_later(self, number, kind):
        with suppress(KeyboardInterrupt):  # as numba's loading of machine code may
            raise_signal(number)
        try:
            with pytest.raises(kind) as caught, Interrupts():
                pytest.fail("the signal is lost")
            assert type(caught.value) is kind
        finally:
            received.clear()

    def test_first_signal_is_noted_second_raises(self, capsys):
        before = signal.getsignal(signal.SIGINT)  # a process in the background may ignore it
        with Interrupts() as interrupts:
            with interrupts.training():
                os.kill(os.getpid(), signal.SIGTERM)
                assert interrupts.is_requested
                with pytest.raises(KeyboardInterrupt):
                    os.kill(os.getpid(), signal.SIGINT)
            with interrupts.saving():
                os.kill(os.getpid(), signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
        assert "best model so far" in capsys.readouterr().err
        assert signal.getsignal(signal.SIGINT) is before


class TestExits:
    @pytest.mark.parametrize(
        ("error", "code"),
        [
            (InputError("x"), 2),
            (RecipeError("x"), 2),
            (ModelFileError("x"), 2),
            (DataUnavailableError("x"), 3),
            (ZeroDivisionError("x"), 1),
            (KeyboardInterrupt(), 130),
            (BrokenPipeError(), 0),
        ],
    )
    def test_errors_become_codes(self, error, code, capsys, monkeypatch):
        monkeypatch.delenv("CRFQN_DEBUG", raising=False)

        @command
        def fail():
            raise error

        with pytest.raises(SystemExit) as info:
            fail()
        assert info.value.code == code
        assert "Traceback" not in capsys.readouterr().err

    def test_say_without_a_reader(self, monkeypatch):
        class Closed:
            def write(self, text):
                raise BrokenPipeError

        monkeypatch.setattr(sys, "stderr", Closed())
        exits.say("hello")


class TestScores:
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


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_a_full_disk_is_one_sentence():
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "crfqn", "data", "list"]
        run = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert run.returncode == 2
    assert run.stderr == "crfqn: cannot write: No space left on device\n"

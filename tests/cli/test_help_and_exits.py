"""The command line's help, exit codes, and output that cannot be written."""

import os
import re
import subprocess
import sys

import pytest

from crfqn.cli.exits import ExitCode, command
from crfqn.cli.output import say
from crfqn.errors import DataUnavailableError, InputError, ModelFileError, RecipeError


class TestHelp:
    def test_help_loads_no_solvers(self):
        """It is there at once: nothing is imported that only a training needs."""
        script = "import sys; from crfqn.cli import main; sys.argv = ['crfqn', '--help']\ntry:\n    main()\nfinally:\n"
        loaded = (
            "    print({'numpy', 'numba', 'scipy', 'sklearn', 'pooch'} & set(sys.modules), file=sys.stderr)"
        )
        run = subprocess.run([sys.executable, "-c", script + loaded], capture_output=True, text=True)
        assert (run.returncode, run.stderr.strip()) == (0, "set()")

    def test_help_names_everything(self, here):
        run = here("--help", code=0)
        for word in ("train", "predict", "evaluate", "inspect", "data", "quickstart", "Exit codes"):
            assert word in run.stdout
        words = " ".join(run.stdout.split())  # lines break elsewhere by another version of typer
        for code in ExitCode:
            assert re.search(rf"\b{code.value} {re.escape(code.meaning[:20])}", words)

    @pytest.mark.parametrize(
        "name", ["train", "predict", "evaluate", "inspect", "data", "quickstart", "data list", "data get"]
    )
    def test_every_command_has_help(self, here, name):
        run = here(*name.split(), "--help", code=0)
        assert f"crfqn {name}" in run.stdout

    def test_version(self, here):
        import crfqn as package

        assert here("--version").stdout == f"crfqn {package.__version__}\n"

    def test_no_command_shows_help(self, here):
        run = here()
        assert run.returncode in (0, 2)  # typer changed its mind
        assert "quickstart" in run.stdout


class TestExits:
    @pytest.mark.parametrize(
        ("error", "code"),
        [
            (InputError("x"), 2), (RecipeError("x"), 2), (ModelFileError("x"), 2), (DataUnavailableError("x"), 3),
            (ZeroDivisionError("x"), 1), (KeyboardInterrupt(), 130), (BrokenPipeError(), 0),
        ],
    )  # fmt: skip
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
        say("hello")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_a_full_disk_is_one_sentence():
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "crfqn", "data", "list"]
        run = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert run.returncode == 2
    assert run.stderr == "crfqn: cannot write: No space left on device\n"

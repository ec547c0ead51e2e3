"""Signals while a command trains: the best model so far is kept."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from crfqn import MulticlassCRF
from crfqn.cli.exits import Interrupts, Terminated, raise_signal, received
from crfqn.cli.training import _fit
from crfqn.recipes import Prepared
from crfqn.time_limit import TimeLimit

ENDLESS = ("--l1", "5", "--threads", "1", "--tol", "0", "--max-iter", "100000")


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
class TestInterrupts:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_the_best_model_is_saved(self, here, tmp_path, number):
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
        run = here("inspect", "digits.crfqn", "--json")
        assert json.loads(run.stdout)["n_nonzero"] > 0

    def test_a_signal_at_once_keeps_what_was_trained(self):
        def interrupt(*_):
            raise KeyboardInterrupt

        prepared = Prepared([[1.0, 0], [0, 1]] * 3, ["a", "b"] * 3, None, [], None, "")
        model = MulticlassCRF(l1=0.1, callback=interrupt)
        _fit(model, prepared, Interrupts(), {})
        assert model.result_.status.name == "INTERRUPTED"
        model = MulticlassCRF(l1=0.1)
        model.learn_labels = interrupt  # before the training begins
        prepared.X_train = [[1.0, 0], [0, 1]] * 3
        with pytest.raises(KeyboardInterrupt):
            _fit(model, prepared, Interrupts(), {})

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
            with interrupts.during("training"):
                with TimeLimit(None) as limit:
                    os.kill(os.getpid(), signal.SIGTERM)
                assert interrupts.is_requested
                assert limit.is_over()  # a step that takes long is cut off
                with pytest.raises(KeyboardInterrupt):
                    os.kill(os.getpid(), signal.SIGINT)
            with interrupts.during("saving"):
                os.kill(os.getpid(), signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
        assert "best model so far" in capsys.readouterr().err
        assert signal.getsignal(signal.SIGINT) is before

    def test_before_the_first_step_a_signal_raises(self, capsys):
        """There is nothing to keep while the data are prepared; between trainings there is."""
        received.clear()
        with suppress(Terminated), Interrupts() as interrupts, interrupts.during("training"):
            os.kill(os.getpid(), signal.SIGTERM)
            pytest.fail("the signal has to raise")
        with Interrupts() as interrupts, interrupts.during("training"):
            assert not interrupts.stops(None)
            os.kill(os.getpid(), signal.SIGTERM)
            assert interrupts.stops(None)

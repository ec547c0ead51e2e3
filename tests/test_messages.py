"""Messages: bounded whatever they quote, and dropped where stderr cannot be written; trainings go on without them."""

import copy
import io
import os
import pickle
import subprocess
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import crfqn
from crfqn import ChainCRF, errors
from crfqn.errors import CrfqnError, CrfqnWarning, UnknownFeaturesWarning, warn_caller
from crfqn.messages import MAX_MESSAGE_LENGTH, bounded, tell

LONG = "train.txt, line 3: expected a number, got " + repr("x" * 283_000) + "; --format names another format"
X, Y = [[{"a": 1.0}, {"b": 1.0}], [{"b": 1.0}]] * 10, [["A", "B"], ["B"]] * 10


def test_a_long_message_keeps_its_ends():
    assert bounded("short") == "short"
    text = bounded(LONG)
    assert text.startswith("train.txt, line 3: expected a number, got 'xxx")
    assert text.endswith("xxx'; --format names another format")
    assert f"({len(LONG) - 1_400:,} characters left out)" in text
    assert len(text) <= MAX_MESSAGE_LENGTH
    assert bounded(text) == text


@pytest.mark.parametrize(
    "kind", [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
)
def test_all_errors_and_warnings_are_bounded(kind):
    error = kind(LONG, 1) if kind is UnknownFeaturesWarning else kind(LONG)
    assert str(error) == bounded(LONG)
    if kind is not UnknownFeaturesWarning:
        for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
            assert (type(other), str(other)) == (kind, str(error))
    assert issubclass(kind, (CrfqnError, CrfqnWarning))


class Broken(io.StringIO):
    """A stream that cannot be written."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def write(self, text):
        raise self.error

    flush = isatty = write


def closed():
    stream = io.StringIO()
    stream.close()
    return stream


BROKEN = {
    "none": lambda: None,
    "closed": closed,
    "pipe": lambda: Broken(BrokenPipeError(32, "Broken pipe")),
    "full": lambda: Broken(OSError(28, "No space left on device")),
    "no file": lambda: SimpleNamespace(write=lambda text: None),
    "nothing": object,
    "latin": lambda: io.TextIOWrapper(io.BytesIO(), "ascii"),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("kind", ["ChainCRF", "MulticlassCRF", "StagewiseRegression", "MulticlassSVC"])
def test_a_training_goes_on_without_its_display(name, kind, monkeypatch, capfd, tmp_path):
    is_chain = kind == "ChainCRF"
    rng = np.random.default_rng(0)
    data = (X, Y) if is_chain else (rng.random((30, 4)), rng.choice(["a", "b"], 30))
    more = {"checkpoint": str(tmp_path / "folder")} if is_chain else {}
    model = getattr(crfqn, kind)(verbose=1, **more)
    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("always")
        patch.setattr(warnings, "showwarning", lambda message, *where: sys.stderr.write(str(message)))
        patch.setattr(sys, "stderr", BROKEN[name]())
        model.fit(*data)
        if is_chain:
            ChainCRF(verbose=1, l1=0.1).fit(*data, start=model)
        tell("größe")
        warn_caller("said to nobody")
    assert model.predict(data[0]) is not None
    os.write(1, b"still here\n")
    assert capfd.readouterr().out == "still here\n"


def test_what_an_encoding_lacks_is_written_by_its_number(monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream := io.TextIOWrapper(io.BytesIO(), "ascii"))
    tell("größe")
    assert stream.buffer.getvalue() == b"gr\\xf6\\xdfe\n"


def test_a_warning_that_is_an_error_stays_one():
    with pytest.raises(CrfqnWarning, match="as asked"):
        warn_caller("as asked")


@pytest.mark.parametrize("name", ["no reader", "closed", "full"])
def test_the_command_line_goes_on_without_stderr(name, tmp_path):
    """`crfqn train ... 2>&1 >/dev/null | head -0`, `2>&-` and `2>/dev/full`, in a process of its own."""
    (tmp_path / "t.conll").write_text("Ann\tP\nsees\tO\n\nBob\tP\nruns\tO\n\n" * 3)
    redirection = {"no reader": "2>pipe", "closed": "2>&-", "full": "2>/dev/full"}[name]
    command = f"{sys.executable} -m crfqn train --data t.conll --data t.conll -o m.crfqn {redirection}"
    if name == "no reader":
        os.mkfifo(tmp_path / "pipe")
        command = f"(exec 3<>pipe; exec 2>pipe; exec 3<&-; {command.removesuffix(redirection)})"
    run = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=180)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("status ")
    assert run.stdout.splitlines()[-1].startswith("model      m.crfqn (")
    assert (tmp_path / "m.crfqn").exists()

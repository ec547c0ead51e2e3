"""What trainings log, and the example of the manual that sends it on to MLflow."""

from __future__ import annotations

import importlib.util
import logging
import math
import re
import sys
import types
from contextlib import contextmanager
from pathlib import Path

import pytest
from sklearn.exceptions import ConvergenceWarning

from crfqn import MulticlassCRF

MANUAL = Path(__file__).resolve().parents[2] / "docs" / "logging.md"
X, Y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]


def test_beginning_end_and_iterations(caplog):
    caplog.set_level(logging.DEBUG, logger="crfqn")
    model = MulticlassCRF(l1=0.1).fit(X, Y)
    assert {record.name for record in caplog.records} == {"crfqn.training"}
    first, *middle, last = caplog.records
    assert first.levelname == last.levelname == "INFO"
    assert first.getMessage().startswith("training by ")
    assert last.getMessage().startswith(f"{model.result_.message} (objective {model.result_.value:.8g}, gap ")
    assert {record.levelname for record in middle} == {"DEBUG"}
    assert len(middle) == len(model.result_.trace)
    assert f"objective {model.result_.trace.value[-1]:.8g}" in middle[-1].getMessage()


def test_an_end_that_was_not_meant_is_a_warning(caplog):
    caplog.set_level(logging.WARNING, logger="crfqn")
    with pytest.warns(ConvergenceWarning):
        MulticlassCRF(l1=0.1, max_iter=1, tol=0.0, stop="certificate").fit(X, Y)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().startswith("stopped: the limit of iterations is reached (objective ")


def test_nothing_is_shown_unasked(capfd):
    assert any(isinstance(handler, logging.NullHandler) for handler in logging.getLogger("crfqn").handlers)
    root = logging.getLogger()
    own = logging.getLogger("crfqn")
    kept, root.handlers = root.handlers, []  # those of pytest
    others, own.handlers = own.handlers, [one for one in own.handlers if isinstance(one, logging.NullHandler)]
    try:
        with pytest.warns(ConvergenceWarning):
            MulticlassCRF(l1=0.1, max_iter=1, tol=0.0, stop="certificate").fit(X, Y)
    finally:
        root.handlers, own.handlers = kept, others
    assert capfd.readouterr() == ("", "")


class Recorder(types.ModuleType):
    """Stands for mlflow where that is not installed: the functions of the example, and what they were given."""

    def __init__(self):
        super().__init__("mlflow")
        self.params, self.metrics, self.artifacts, self.is_open = {}, [], [], False

    @contextmanager
    def start_run(self, run_name):
        self.is_open = True
        yield
        self.is_open = False

    def log_params(self, params):
        assert self.is_open
        self.params |= params

    def log_metrics(self, metrics, step=None):
        assert self.is_open
        assert all(isinstance(value, (int, float)) and math.isfinite(value) for value in metrics.values())
        self.metrics.append((step, metrics))

    def log_artifact(self, path):
        assert self.is_open
        self.artifacts.append(Path(path).stat().st_size)


def test_the_example_for_mlflow_runs(tmp_path, monkeypatch):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    (example,) = re.findall(r"^```py\n(.*?)^```$", MANUAL.read_text("utf-8"), re.M | re.S)
    monkeypatch.chdir(tmp_path)
    recorder = Recorder()
    if importlib.util.find_spec("mlflow") is None:
        monkeypatch.setitem(sys.modules, "mlflow", recorder)
    scope = {"__name__": "__main__"}
    exec(compile(example, MANUAL.name, "exec"), scope)
    if scope["mlflow"] is not recorder:
        assert (tmp_path / "digits.html").exists()
        return
    model = scope["model"]
    *progress, (_, end) = recorder.metrics
    assert [step for step, _ in progress] == [row.iteration for row in model.result_.trace.rows]
    assert progress[-1][1]["value"] == model.result_.trace.value[-1]
    assert end["n_nonzero"] == model.result_.n_nonzero
    assert end["accuracy"] > 0.8
    assert recorder.params["l1"] == 1.0
    assert len(recorder.artifacts) == 2

"""scikit-learn's callbacks: tasks of a training, progress bars inside of searches; nothing before version 1.9."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from crfqn import ChainCRF, MulticlassCRF, MultilabelRanker, StagewiseRegression, TaxonomyCRF

callback = pytest.importorskip("sklearn.callback")

ITEMS = [[["a"], ["b"]], [["b"], ["a"], ["a"]], [["a"]], [["b"], ["b"]]] * 3
LABELS = [["A", "B"], ["B", "A", "A"], ["A"], ["B", "B"]] * 3
X = np.random.default_rng(0).normal(size=(40, 4))
Y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 1)


class Recorder:
    """Writes down the tasks, and asks to stop after some iterations."""

    def __init__(self, most: int = 1000):
        self.most, self.events = most, []

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context, *, X=None):
        self.events.append(("begin", context.task_name, X is not None))

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.events.append(("end", context.task_name, fitted_estimator is not None))
        return self.events.count(("end", "iteration", False)) >= self.most


class Propagated(Recorder):
    max_propagation_depth = None


@pytest.mark.parametrize(
    "model",
    [ChainCRF(l1=0.1), MulticlassCRF(l1=0.1), TaxonomyCRF(l1=0.1), MultilabelRanker(group_l1=0.1, cv=2),
     StagewiseRegression(max_iter=3)],
    ids=lambda model: type(model).__name__,
)  # fmt: skip
def test_a_training_is_a_task_and_its_iterations_are_its_parts(model):
    recorder = Recorder()
    data = (ITEMS, LABELS) if isinstance(model, ChainCRF) else (X, Y)
    if isinstance(model, MultilabelRanker):
        data = X, [{label} for label in Y]
    model.set_callbacks(recorder).fit(*data)
    iteration = [("begin", "iteration", False), ("end", "iteration", False)]
    assert recorder.events == [
        "setup", ("begin", "fit", True), *model.n_iter_ * iteration, ("end", "fit", True), "teardown"
    ]  # fmt: skip
    assert model.n_iter_ > 0


def test_a_callback_may_stop_the_training():
    model = MulticlassCRF(l1=0.01).set_callbacks(Recorder(most=2))
    with pytest.warns(UserWarning, match="a callback asked for it"):
        assert model.fit(X, Y).n_iter_ == 2


def test_teardown_comes_after_an_error_too():
    recorder = Recorder()
    with pytest.raises(ValueError, match="labels"):
        ChainCRF().set_callbacks(recorder).fit(ITEMS, LABELS[1:])
    assert recorder.events[-1] == "teardown"


def test_the_result_is_the_same_and_callbacks_are_no_parameters():
    plain, told = MulticlassCRF(l1=0.1), MulticlassCRF(l1=0.1).set_callbacks(Recorder())
    np.testing.assert_array_equal(plain.fit(X, Y).result_.weights, told.fit(X, Y).result_.weights)
    assert plain.get_params() == told.get_params()


def test_searches_pass_callbacks_on():
    recorder = Propagated()
    search = GridSearchCV(ChainCRF(), {"l1": [0.1, 1.0]}, cv=2).set_callbacks(recorder)
    search.fit(ITEMS, LABELS)
    begun = [event for event in recorder.events if event[:2] == ("begin", "iteration")]
    assert len(begun) > 5  # of four folds and the whole
    assert (recorder.events.count("setup"), recorder.events.count("teardown")) == (1, 1)


def test_progress_bars_in_a_search(capsys):
    search = GridSearchCV(MulticlassCRF(), {"l1": [0.1, 1.0]}, cv=2)
    search.set_callbacks(callback.ProgressBar()).fit(X, Y)
    shown = capsys.readouterr().out
    assert "GridSearchCV" in shown
    assert "MulticlassCRF - fit" in shown
    assert "100%" in shown


OLD = """
import sys
sys.modules["sklearn.callback"] = None  # as before 1.9: importing it fails
from crfqn.estimators import problem as callbacks
import numpy as np
assert not callbacks.HAS_CALLBACKS
class Model:
    verbose, callback = 0, None
assert callbacks.with_fit_task(lambda self, X, y: "fitted")(Model(), [], []) == "fitted"
assert not hasattr(callbacks.CallbackSupportMixin, "set_callbacks")
assert callbacks.Callbacks(Model())(None) is False
"""


def test_without_callbacks_in_scikit_learn():
    done = subprocess.run([sys.executable, "-c", OLD], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

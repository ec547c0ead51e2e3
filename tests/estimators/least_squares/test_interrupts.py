"""Ctrl-C at any moment of a staged training, from its first stage on, leaves a model with the stages so far."""

import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from crfqn import CalibratedLeastSquares, StagewiseRegression
from crfqn.estimators import least_squares

FOLDER = str(Path(least_squares.__file__).parent)
X = np.random.default_rng(0).normal(size=(30, 4))
Y = X[:, :3].argmax(axis=1)
MODELS = [
    CalibratedLeastSquares(max_iter=2, n_threads=1),
    StagewiseRegression(batch_size=5, max_iter=2, n_threads=1),
    StagewiseRegression(batch_size=5, max_iter=3, n_threads=1, early_stopping=True),
]


@contextmanager
def interrupted(moment):
    """Raise KeyboardInterrupt before line number `moment` that is run in the folder, from the learning of stages on."""
    count, is_learning = 0, False

    def enter(frame, event, _):
        nonlocal is_learning
        is_learning = is_learning or frame.f_code.co_name == "_add_stages"
        return line if is_learning and frame.f_code.co_filename.startswith(FOLDER) else None

    def line(frame, event, _):
        nonlocal count
        count += event == "line"
        if event == "line" and count == moment:
            sys.settrace(None)
            raise KeyboardInterrupt
        return line

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_every_moment_leaves_a_model(model):
    statuses = []
    for moment in range(1, 1000, 7):
        twin = model.__class__(**model.get_params())
        try:
            with interrupted(moment):
                twin.fit(X, Y)
        except KeyboardInterrupt:
            statuses.append(twin.result_.status.name)
            assert twin.predict(X).shape == (30,)
            assert twin.n_iter_ == twin.stages_.n_stages
        else:
            break
    assert len(statuses) > 20
    assert set(statuses[:-1]) == {"INTERRUPTED"}

"""Displays: the numbers that they draw, their words, and where they draw them."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest
from report_cases import chain_case, flat_case
from sklearn.metrics import confusion_matrix

from crfqn.errors import InputError
from crfqn.regularization_path import Grid, crf_path

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from crfqn.plot import ConfusionDisplay, ConvergenceDisplay, PathDisplay, TransitionsDisplay  # noqa: E402
from crfqn.plot.canvas import save_picture  # noqa: E402


@pytest.fixture(scope="module")
def chain():
    return chain_case()


@pytest.fixture(scope="module")
def flat():
    return flat_case()


@pytest.fixture(autouse=True)
def _close():
    yield
    matplotlib.pyplot.close("all")


def curves(axes):
    return {line.get_label(): np.array(line.get_xydata()) for line in axes.get_lines()}


def is_complete(axes):
    """Whether axes have a title, both labels and, if there are curves, a legend."""
    return all((axes.get_title(), axes.get_xlabel(), axes.get_ylabel())) and (
        not axes.get_lines() or axes.get_legend() is not None
    )


class TestConvergence:
    @pytest.mark.parametrize("unit", ["seconds", "passes", "iteration"])
    def test_curves_are_those_of_the_trace(self, flat, unit):
        display = ConvergenceDisplay.from_estimator(flat.model, unit=unit)
        trace = flat.model.result_.trace
        gaps, objective = display.ax_
        assert curves(objective)["objective, penalty included"] == pytest.approx(
            np.column_stack([getattr(trace, unit), trace.value])
        )
        found = curves(gaps)
        known = np.isfinite(trace.gap) & (trace.gap > 0)
        assert found["certified"] == pytest.approx(np.column_stack([getattr(trace, unit), trace.gap])[known])
        assert f"tol = {flat.model.tol_:g}" in found
        assert gaps.get_yscale() == "log"
        assert all(map(is_complete, display.ax_))
        display.figure_.canvas.draw()

    def test_one_pair_of_axes_is_divided(self, flat):
        figure, axes = matplotlib.pyplot.subplots()
        display = ConvergenceDisplay.from_estimator(flat.model, ax=axes)
        assert display.figure_ is figure
        assert len(figure.axes) == 3
        figure.canvas.draw()

    def test_nothing_known(self):
        nothing = np.full(3, np.nan)
        display = ConvergenceDisplay(np.arange(3.0), nothing, nothing, nothing).plot()
        words = [text.get_text() for axes in display.ax_ for text in axes.texts]
        assert words == ["the distance is not known", "not known"]
        display.figure_.canvas.draw()

    def test_bad_input(self, flat):
        with pytest.raises(InputError, match="unit: expected one of"):
            ConvergenceDisplay.from_estimator(flat.model, unit="hours")
        with pytest.raises(InputError, match="has been fitted and kept its trace, got MulticlassCRF"):
            ConvergenceDisplay.from_estimator(type(flat.model)())
        with pytest.raises(InputError, match="ax: expected axes for 2 panels, or one to divide, got 3"):
            ConvergenceDisplay.from_model(flat.model).plot(ax=matplotlib.pyplot.subplots(1, 3)[1])


class TestPath:
    def test_curves_are_those_of_the_path(self, flat):
        path = crf_path(type(flat.model)(), flat.X, flat.y, grid=Grid(3), validation=(flat.X, flat.y))
        display = PathDisplay.from_path(path)
        for axes, name in zip(display.ax_, ("score", "n_nonzero", "gap", "seconds"), strict=True):
            (line,) = [
                line
                for label, line in zip(curves(axes), axes.get_lines(), strict=True)
                if "best" not in label
            ]
            values = np.cumsum(path.seconds) if name == "seconds" else getattr(path, name).astype(float)
            known = values > 0 if name == "gap" else np.full(3, True)
            assert np.array(line.get_xydata()) == pytest.approx(np.column_stack([path.l1, values])[known])
            assert axes.xaxis_inverted()
        assert display.best == path.best_index
        assert is_complete(display.ax_[0])
        display.figure_.canvas.draw()

    def test_from_estimator(self, flat):
        display = PathDisplay.from_estimator(type(flat.model)(), flat.X, flat.y, grid=Grid(2))
        assert display.strength.size == 2
        assert display.best is None
        display.figure_.canvas.draw()

    @pytest.mark.parametrize("rows", [[], [{"score": 1.0}], [{"l1": 1.0, "score": 1.0}], [{"l1": "many"}]])
    def test_bad_rows(self, rows):
        with pytest.raises(InputError, match="expected"):
            PathDisplay.from_rows(rows)


class TestTransitions:
    def test_cells_are_the_weights(self, chain):
        display = TransitionsDisplay.from_estimator(chain.model)
        assert np.asarray(display.im_.get_array()) == pytest.approx(chain.model.transition_coef_.toarray())
        low, high = display.im_.get_clim()
        assert low == -high
        assert display.ax_.get_title() == "Transitions: ChainCRF"
        assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("to", "from")

    def test_names_are_letters_and_no_formulas(self, chain):
        display = TransitionsDisplay(np.eye(3), ["$x^2$", "$\\frac", "n\0ul" * 9]).plot()
        display.figure_.canvas.draw()
        shown = [label.get_text() for label in display.ax_.get_yticklabels()]
        assert shown[:2] == ["$x^2$", "$\\frac"]
        assert shown[2].startswith("n\\x00ul")
        assert len(shown[2]) == 24

    def test_other_models_have_none(self, flat):
        with pytest.raises(InputError, match="expected a fitted ChainCRF, whose labels follow each other"):
            TransitionsDisplay.from_estimator(flat.model)


class TestConfusion:
    @pytest.mark.parametrize("normalize", [None, "true", "pred", "all"])
    def test_cells_are_scikit_learns(self, flat, normalize):
        display = ConfusionDisplay.from_estimator(flat.model, flat.X, flat.y, normalize=normalize)
        expected = confusion_matrix(flat.y, flat.model.predict(flat.X), normalize=normalize)
        assert display.confusion_matrix == pytest.approx(expected)
        assert np.asarray(display.im_.get_array()) == pytest.approx(expected)
        assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("predicted label", "given label")
        display.figure_.canvas.draw()

    def test_sequences_are_counted_by_position(self, chain):
        display = ConfusionDisplay.from_estimator(chain.model, chain.X, chain.y)
        assert display.confusion_matrix.sum() == sum(map(len, chain.y))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
            display.figure_.canvas.draw()

    def test_many_labels_have_no_numbers_in_cells(self):
        display = ConfusionDisplay.from_predictions(np.arange(100), np.arange(100))
        assert display.text_ is None
        assert len(display.ax_.get_xticks()) == 50
        display.figure_.canvas.draw()

    def test_dark_cells_have_white_numbers(self):
        display = ConfusionDisplay.from_predictions(["a", "b", "b"], ["a", "b", "b"])
        assert [text.get_color() for text in display.text_.ravel()] == ["black", "black", "black", "white"]

    @pytest.mark.parametrize(
        ("given", "predicted", "settings", "message"),
        [
            ([1], [1, 2], {}, "as many predicted labels as given ones, got 2 and 1"),
            ([], [], {}, "at least one label"),
            ([1], [1], {"normalize": "rows"}, "normalize: expected one of"),
        ],
    )
    def test_bad_input(self, given, predicted, settings, message):
        with pytest.raises(InputError, match=message):
            ConfusionDisplay.from_predictions(given, predicted, **settings)


class TestFiles:
    @pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
    def test_kinds(self, flat, tmp_path, kind):
        save_picture(ConvergenceDisplay.from_model(flat.model), tmp_path / f"picture.{kind}")
        head = (tmp_path / f"picture.{kind}").read_bytes()[:8]
        assert head.startswith({"png": b"\x89PNG\r\n\x1a\n", "svg": b"<?xml", "pdf": b"%PDF-"}[kind])

    def test_no_such_kind(self, flat, tmp_path):
        with pytest.raises(InputError, match=r"picture\.doc: expected a picture's file"):
            save_picture(ConvergenceDisplay.from_model(flat.model), tmp_path / "picture.doc")

    def test_without_matplotlib(self, flat, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
        for draw in (
            lambda: save_picture(PathDisplay, tmp_path / "p.png"),
            ConvergenceDisplay.from_model(flat.model).plot,
        ):
            with pytest.raises(InputError, match=r"pip install 'crfqn\[plot\]'"):
                draw()

"""`ChainCRF`: what it says, how trainings end, and the same model in any process."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from callers import is_at_line_of
from chain_estimators import BINARY, PROBLEM, assert_same_model, fitted, same_paths
from problems import ends_within
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from crfqn import ChainCRF, Sequences
from crfqn.errors import CrfqnError, InputError
from crfqn.result import Status


class TestMessages:
    @pytest.mark.parametrize(("settings", "message"), [
        ({"l1": -1}, r"^l1: expected 'auto' or a finite number >= 0, got -1$"),
        ({"l1": np.nan}, r"^l1: expected 'auto' or a finite number >= 0, got nan$"),
        ({"l1": "1"}, r"^l1: expected 'auto' or a finite number >= 0, got '1'$"),
        ({"l1": None}, r"^l1: expected 'auto' or a finite number >= 0, got None$"),
        ({"l1": True}, r"^l1: expected 'auto' or a finite number >= 0, got True$"),
        ({"l2": -0.5}, r"^l2: expected 'auto' or a finite number >= 0, got -0.5$"),
        ({"l2": np.inf}, r"^l2: expected 'auto' or a finite number >= 0, got inf$"),
        ({"tol": -1e-3}, r"^tol: expected 'auto' or a finite number >= 0, got -0.001$"),
        ({"max_iter": 0}, r"^max_iter: expected an integer >= 1, got 0$"),
        ({"max_iter": 2.5}, r"^max_iter: expected an integer >= 1, got 2.5$"),
        ({"max_seconds": 0}, r"^max_seconds: expected None or a number > 0, got 0$"),
        ({"max_seconds": "1"}, r"^max_seconds: expected None or a number > 0, got '1'$"),
        ({"solver": "lbfgs"},
         r"^solver: expected one of .*'l-bfgs'.* 'prox-qn', .* or a solver object, got 'lbfgs'; did you mean l-bfgs."),
        ({"solver": None}, r"^solver: expected one of .*, got None$"),
        ({"n_threads": 0}, r"^n_threads: expected None or an integer >= 1, got 0$"),
        ({"n_threads": 1.0}, r"^n_threads: expected None or an integer >= 1, got 1.0$"),
        ({"n_threads": True}, r"^n_threads: expected None or an integer >= 1, got True$"),
        ({"callback": 3}, r"^callback: expected None or a callable, got 3$"),
    ])  # fmt: skip
    def test_parameters(self, settings, message):
        model = ChainCRF(**settings)
        with pytest.raises(InputError, match=message):
            model.fit(PROBLEM.sequences, PROBLEM.targets)
        assert not hasattr(model, "coef_")

    def test_random_state(self):
        with pytest.raises(
            ValueError, match="random_state: expected None or an integer or a RandomState, got 'a'"
        ):
            fitted(random_state="a")

    @pytest.mark.parametrize("kind", [np.int64, np.int32])
    def test_integers_of_numpy_are_integers(self, model, kind):
        assert_same_model(model, fitted(max_iter=kind(500), n_threads=kind(2), l1=np.float32(0.5)))

    ONE, TWO = np.ones((1, 2)), np.ones((2, 2))

    @pytest.mark.parametrize(
        ("X", "y", "message"),
        [
            ([ONE, TWO], [["a"]], "^expected labels for 2 items, got 1 lists of labels$"),
            ([ONE, TWO], [["a"], ["b"]], "^item 1: expected 2 labels, one for each position, got 1$"),
            ([ONE, TWO], ["a", "b"], "^expected one label for each of the 3 positions .*, got 2 labels$"),
            ([ONE, TWO], None, "labels"),
            ([ONE, TWO], [["a"], ["b", 1j]], "^item 1, position 1: expected a string or number as label, got 1j"),
            ([ONE, TWO], [["a"], ["b", 3]], "^expected labels of one kind"),
            ([ONE, TWO], np.array([1, np.nan, 2]), "^item 1, position 0: expected a label, got nan$"),
            ([ONE, np.array([[0, 1], [np.nan, 1]])], [[1], [2, 3]], "item 1, position 1: feature 0: .*, got nan"),
            ([ONE, np.array([[0, np.inf], [1, 1]])], [[1], [2, 3]], "item 1, position 0: feature 1: .*, got inf"),
            ([[{"a": 1.0}, {"b": np.nan}]], [[1, 2]], "^item 0, position 1: feature 'b': expected a finite number"),
            ([[["a"], ["b", 3]]], [[1, 2]], "^item 0, position 1: expected a list of strings, but it contains 3"),
            ([np.empty((0, 2)), []], [[], []], "^expected at least one position, but all items are empty"),
            ([ONE, [], TWO], [["a"], ["b"], ["b", "a"]], "^item 1: expected 0 labels, one for each position, got 1$"),
            ([], [], "^expected at least one item, got none$"),
            ([ONE, np.ones((2, 3))], [["a"], ["b", "a"]], "^item 1: expected 2 features, got 3$"),
            ([ONE, [{"a": 1}]], [["a"], ["b"]], "^item 1: expected a matrix like the items before"),
            (np.ones((3, 2)), [1, 2, 3], r"^expected a list of items, got one matrix or array: .*Sequences"),
            (sp.eye_array(3).tocsr(), [1, 2, 3], r"^expected a list of items, got one matrix or array"),
            ("text", [1], "^expected crfqn.Sequences or a list of items"),
            (["text"], [["a"]], "^item 0: expected a list of positions, got 'text'"),
            ([np.array([[1e20, 1.0]])], [["a"]], r"item 0, position 0: feature 0: .* 1e\+12 in size, got 1e\+20"),
            ([1j * ONE], [["a"]], "^item 0: expected a 2-D matrix .* real numbers, got .* complex128$"),
        ],
    )  # fmt: skip
    def test_data(self, X, y, message):
        with pytest.raises(InputError, match=message):
            ChainCRF().fit(X, y)

    @pytest.mark.parametrize(
        ("weights", "message"),
        [
            (np.ones(29), r"^sample_weight: expected 30 numbers, one an item, got shape \(29,\)"),
            (np.ones((30, 1)), r"^sample_weight: expected 30 numbers, one an item, got shape \(30, 1\)"),
            (["a"] * 30, "^sample_weight: expected 30 numbers"),
            (np.r_[np.ones(4), -1, np.ones(25)], "^sample_weight: expected finite numbers >= 0, got -1.0 for item 4$"),
            (np.r_[np.ones(29), np.nan], "^sample_weight: expected finite numbers >= 0, got nan for item 29$"),
            (np.r_[np.inf, np.ones(29)], "^sample_weight: expected finite numbers >= 0, got inf for item 0$"),
            (np.zeros(30), "^sample_weight: expected at least one positive weight, got only zeros$"),
        ],
    )  # fmt: skip
    def test_item_weights(self, model, weights, message):
        with pytest.raises(InputError, match=message):
            ChainCRF().fit(PROBLEM.sequences, PROBLEM.targets, sample_weight=weights)
        with pytest.raises(InputError, match=message):
            model.score(PROBLEM.sequences, PROBLEM.targets, sample_weight=weights)

    @pytest.mark.parametrize(
        "verb", ["predict", "decode", "predict_marginals", "score", "log_likelihood", "save"]
    )
    def test_not_fitted(self, verb, tmp_path):
        arguments = {
            "save": (tmp_path / "m",),
            "score": (BINARY, PROBLEM.labels),
            "log_likelihood": (BINARY, []),
        }
        with pytest.raises(NotFittedError, match="This ChainCRF instance is not fitted yet"):
            getattr(ChainCRF(), verb)(*arguments.get(verb, (BINARY,)))
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("verb", ["predict", "decode", "predict_marginals"])
    def test_wrong_features_at_predict(self, model, verb):
        use = getattr(model, verb)
        with pytest.raises(InputError, match=r"^item 0: expected 7 features, got 5$"):
            use([np.ones((2, 5))])
        with pytest.raises(InputError, match=r"^expected 7 features, as in training, got 5$"):
            use(Sequences(np.ones((2, 5)), [0, 2]))
        with pytest.raises(
            InputError, match=r"^expected matrices with 7 columns, as in training; .* by name"
        ):
            use(BINARY)
        with pytest.raises(InputError, match=r"item 0, position 1: feature 3: .*, got nan"):
            use([np.where(np.arange(14).reshape(2, 7) == 10, np.nan, 1.0)])

    def test_unknown_label_in_likelihood(self, model):
        y = [*PROBLEM.labels[:-1], [5] * len(PROBLEM.labels[-1])]
        with pytest.raises(
            InputError, match=r"^item 29, position 0: label 5 is not among the 3 known classes$"
        ):
            model.log_likelihood(PROBLEM.sequences, y)

    def test_errors_are_values_errors_of_crfqn(self):
        assert issubclass(InputError, CrfqnError)
        assert issubclass(InputError, ValueError)

    def test_a_failed_fit_keeps_the_old_model(self):
        model = fitted()
        before = model.predict(PROBLEM.sequences)
        with pytest.raises(InputError):
            model.fit(PROBLEM.sequences, PROBLEM.targets[:-1])
        assert same_paths(before, model.predict(PROBLEM.sequences))


class TestEnds:
    def test_the_message_says_how_near(self):
        result = replace(fitted(l1=0.1).result_, status=Status.ESTIMATED)
        assert (
            result.message
            == "converged: within 3 % of the optimum by estimate, not proved; tol=1e-3 for more"
        )
        assert replace(result, tol=1e-3).message.endswith(
            "within 0.1 % of the optimum by estimate, not proved"
        )
        assert "within the tolerance" in replace(result, tol=np.nan).message  # of older files

    @pytest.mark.parametrize(("settings", "tol"), [
        ({}, 0.03),
        ({"stop": "certificate"}, 1e-3),
        ({"tol": 0.2}, 0.2),
        ({"tol": 0.2, "stop": "certificate"}, 0.2),
    ])  # fmt: skip
    def test_who_asks_for_a_proof_asks_for_more(self, settings, tol):
        model = fitted(l1=0.1, **settings)
        assert model.tol_ == model.result_.tol == tol

    def test_max_iter_warns_at_the_caller(self):
        with pytest.warns(
            ConvergenceWarning, match=r"limit of iterations .* tol 0.03, 2 iterations"
        ) as caught:
            model = ChainCRF(l1=0.5, max_iter=2).fit(PROBLEM.sequences, PROBLEM.targets)
        assert model.result_.status is Status.MAX_ITER
        assert model.n_iter_ == 2
        assert len(caught) == 1
        assert is_at_line_of(caught[0], __file__)

    def test_max_seconds_warns(self):
        with pytest.warns(ConvergenceWarning, match="time limit"):
            assert fitted(max_seconds=1e-9).result_.status is Status.MAX_SECONDS

    def test_callback_sees_every_row_and_can_stop(self):
        rows = []
        model = fitted(callback=rows.append)
        assert rows == model.result_.trace.rows
        with pytest.warns(ConvergenceWarning, match="a callback asked for it"):
            stopped = fitted(callback=lambda row: row.iteration == 2)
        assert (stopped.result_.status, stopped.n_iter_) == (Status.CALLBACK, 2)

    def test_interrupt_keeps_a_usable_model(self):
        def interrupt(row):
            if row.iteration == 4:
                raise KeyboardInterrupt

        model = ChainCRF(l1=0.5, callback=interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.fit(PROBLEM.sequences, PROBLEM.targets)
        assert model.result_.status is Status.INTERRUPTED
        assert model.n_iter_ == 4
        assert model.coef_.nnz > 0
        assert model.score(PROBLEM.sequences, PROBLEM.targets) > 0.5

    def test_impossible_tolerance_ends(self):
        with (
            ends_within(60),
            pytest.warns(ConvergenceWarning, match="any further decrease|limit of iterations"),
        ):
            assert fitted(tol=0.0).result_.gap < 1e-5

    @pytest.mark.parametrize("verbose", [0, 1])
    def test_verbose_writes_to_stderr_only(self, verbose, capfd):
        model = fitted(verbose=verbose)
        out, err = capfd.readouterr()
        assert out == ""
        assert ("objective" in err) == (f"{model.result_.value:,.3f}" in err) == bool(verbose)
        model.predict(PROBLEM.sequences)
        assert capfd.readouterr() == ("", "")

    def test_verbose_and_callback_together(self, capfd):
        rows = []
        fitted(verbose=1, callback=rows.append)
        assert len(rows) > 3
        assert "objective" in capfd.readouterr().err


def test_two_processes_train_the_same_model(model):
    script = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "from chain_estimators import fitted\n"
        "model = fitted()\n"
        "print(model.coef_.data.tobytes().hex(), model.transition_coef_.data.tobytes().hex())"
    )
    shared = str(Path(__file__).parents[2] / "references")
    run = subprocess.run([sys.executable, "-c", script, shared], capture_output=True, text=True, check=True)
    expected = [model.coef_.data.tobytes().hex(), model.transition_coef_.data.tobytes().hex()]
    assert run.stdout.split() == expected

"""Checkpoints: a run that goes on from any of its files ends at its optimum; what does not fit is refused."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from problems import CountedChain, make_problem, make_tree_problem
from sklearn.datasets import load_digits

from crfqn import ChainCRF, MulticlassClassifier, MulticlassCRF
from crfqn.data.model_file import write_model
from crfqn.errors import InputError
from crfqn.estimators.checkpoint import Checkpoint
from crfqn.objectives.objective import in_blocks
from crfqn.papers.zhong2014.prox_gd import FISTA, ProxGD
from crfqn.penalties import ElasticNet
from crfqn.result import Status
from crfqn.solvers.minimize import minimize
from crfqn.solvers.prox_qn import Constants, ProxQN, Stage, TopViolators, WarmStart
from crfqn.solvers.quasi_newton.lbfgs import LBFGS
from crfqn.solvers.quasi_newton.owl_qn import OWLQN
from crfqn.solvers.sparsa import SpaRSA
from crfqn.solvers.stochastic.perceptron import AveragedPerceptron
from crfqn.solvers.stopping import Run, ValidationSet

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.fixture(autouse=True)
def unsynchronised(monkeypatch):
    """Files that a power cut would lose: nothing here is about the disk."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)


CHAIN = make_problem(1)
FLAT = make_tree_problem("flat", 3, n_items=60, n_features=8)
OBJECTIVES = {
    "chain": CHAIN.objective,
    "flat": FLAT.objective,
    "blocks": lambda: in_blocks(CHAIN.objective().whole, 7, max_kept=1),
}
SAMPLES = WarmStart((Stage(3, 2.0), Stage(2, 1.0)), fewest_positions=3, fewest_by_weight=0.0)
# As small as the problems are: sets that leave coordinates out, epochs of few steps, metrics that are renewed.
PROX_QN = ProxQN(
    entry=TopViolators(most=3), few_weights=0, warm_start=SAMPLES, constants=Constants(online_epochs=0)
)
L1, L2 = ElasticNet(0.4, 0.1), ElasticNet(0.0, 0.5)
RUNS = {
    "prox-qn": (PROX_QN, L1),
    "prox-qn, free": (PROX_QN, ElasticNet(0.4, 0.1, unpenalised=np.array([0, 5]))),
    "prox-qn, default": (ProxQN(), L1),
    "prox-qn, paper": (ProxQN.paper(), L1),
    "l-bfgs": (LBFGS(), L2),
    "owl-qn": (OWLQN(), L1),
    "fista": (FISTA(), L1),
    "fista, function": (FISTA(restart="function"), L1),
    "prox-gd": (ProxGD(), L1),
    "spa-rsa": (SpaRSA(), L1),
}
TOL = 1e-4
SETTINGS = {"tol": TOL, "max_iter": 2000}


class Looks:
    """A callback beside a checkpoint; contents : what the file has been before each report."""

    def __init__(self, folder, every, most=10**6):
        self.checkpoint, self.most, self.contents = Checkpoint(folder, every), most, {}

    def __call__(self, record):
        if self.checkpoint.exists:
            self.contents.setdefault(Path(self.checkpoint.path).read_bytes(), record)
        return len(self.contents) >= self.most


def run(objective, solver, penalty, looks, **settings):
    settings = SETTINGS | settings
    return minimize(objective, penalty, solver, Run(callback=looks, checkpoint=looks.checkpoint, **settings))


def facts(result):
    """All of a result but its times, as bytes."""
    names = [field.name for field in fields(result) if field.name not in ("trace", "seconds", "held_out")]
    rows = [repr(replace(row, seconds=0.0)) for row in result.trace.rows]
    return {name: repr(getattr(result, name)) for name in names} | {
        "rows": rows,
        "weights": result.weights.tobytes(),
        "coords": result.coords.tobytes(),
    }


ENDS = Status.CONVERGED, Status.STATIONARY, Status.STALLED  # not by a limit


def is_same_optimum(result, whole):
    return result.status in ENDS and abs(result.value - whole.value) <= 2 * TOL * abs(whole.value)


@pytest.mark.parametrize("where", OBJECTIVES)
@pytest.mark.parametrize("method", RUNS)
def test_a_run_goes_on_from_any_of_its_files_to_the_optimum(tmp_path, where, method):
    problem = (OBJECTIVES[where], *RUNS[method])
    whole, looks = resumed(tmp_path / "whole", *problem)
    assert whole.status in ENDS
    files = [*looks.contents.items()]
    assert len(files) >= 2
    for content, record in files[:: max(len(files) // 3, 1)]:
        again, _ = resumed(tmp_path / "other", *problem, content=content, every=10**6)
        assert is_same_optimum(again, whole)
        n_before = record.iteration - 1  # the file is that of the step before
        assert again.n_iter >= n_before
        rows = [[row for row in one.trace.rows if row.iteration <= n_before] for one in (again, whole)]
        assert [row.value for row in rows[0]][: len(rows[1])] == [row.value for row in rows[1]]
    assert [path.name for path in tmp_path.glob("*/*")] == 2 * ["checkpoint.crfqn"]


def resumed(folder, make, solver, penalty, content=None, every=1, **settings):
    """The result of a run, from the content of a checkpoint on, and the looks at its own."""
    folder.mkdir(exist_ok=True)
    if content is not None:
        (folder / "checkpoint.crfqn").write_bytes(content)
    looks = Looks(folder, every)
    return run(make(), solver, penalty, looks, **settings), looks


def test_what_is_proved_at_the_end_is_the_same_and_a_result_is_kept(tmp_path):
    settings = {"to_rounding": True, "max_iter": 100}
    problem = (CHAIN.objective, ProxQN(), L1)
    whole, looks = resumed(tmp_path, *problem, **settings)
    assert whole.status is Status.CONVERGED
    for content in [*looks.contents][-2:]:
        again, _ = resumed(tmp_path, *problem, content=content, **settings)
        assert (again.status, again.n_proved_zeros) == (Status.CONVERGED, whole.n_proved_zeros)
        np.testing.assert_array_equal(again.coords, whole.coords)
        np.testing.assert_allclose(again.weights, whole.weights, rtol=1e-6)
    again, looks = resumed(tmp_path, *problem, **settings)
    kept, looks = resumed(tmp_path, *problem, max_iter=1, to_rounding=True)
    assert facts(kept) == facts(again)
    assert kept.seconds > 0
    assert not looks.contents  # nothing was trained


def test_a_run_that_was_cut_off_goes_on_under_a_larger_limit(tmp_path):
    problem = (CHAIN.objective, OWLQN(), L1)
    whole, _ = resumed(tmp_path / "whole", *problem, every="30s")
    for most in (1, 3, 8, 8):
        cut = resumed(tmp_path / "cut", *problem, every="30s", max_iter=most)[0]
        assert (cut.status, cut.n_iter) == (Status.MAX_ITER, most)
    looks = Looks(tmp_path / "cut", "30s", most=0)
    assert run(CHAIN.objective(), OWLQN(), L1, looks).status is Status.CALLBACK
    again = resumed(tmp_path / "cut", *problem)[0]
    assert is_same_optimum(again, whole)
    assert facts(again)["rows"][: len(cut.trace)] == facts(cut)["rows"]
    assert (np.diff(again.trace.passes) >= 0).all()
    assert (np.diff(again.trace.seconds) >= 0).all()
    assert again.trace.gap[-1] <= cut.trace.gap[-1]  # what was proved stays proved


def test_an_interrupt_within_a_step_leaves_the_last_whole_checkpoint(tmp_path):
    moments = [7]

    def interrupt(number):
        if number in moments:
            raise KeyboardInterrupt

    problem = (lambda: CHAIN.objective(CountedChain(CHAIN, interrupt)), SpaRSA(), L1)
    cut, _ = resumed(tmp_path, *problem, every=2)
    assert cut.status is Status.INTERRUPTED
    moments.clear()
    again, _ = resumed(tmp_path, *problem)
    assert is_same_optimum(again, run(CHAIN.objective(), SpaRSA(), L1, Looks(tmp_path / "whole", 1)))
    assert facts(again)["rows"][: len(cut.trace)] == facts(cut)["rows"]


def test_scores_of_validation_items_go_on_too(tmp_path):
    def watched(folder, content=None):
        folder.mkdir(exist_ok=True)
        if content:
            (folder / "checkpoint.crfqn").write_bytes(content)
        looks = Looks(folder, 1)
        held_out = ValidationSet(lambda weights: -abs(weights.n_nonzero - 18.0), 0.3, 2, "number of weights")
        return run(CHAIN.objective(), FISTA(), L1, looks, max_iter=60, held_out=held_out), looks

    whole, looks = watched(tmp_path)
    assert whole.status is Status.HELD_OUT
    for content, record in looks.contents.items():
        again, _ = watched(tmp_path, content)
        assert again.status is Status.HELD_OUT
        before = whole.held_out.scores[whole.held_out.iterations < record.iteration]
        assert again.held_out.scores[: before.size].tolist() == before.tolist()
        assert again.held_out.best >= before.max(initial=-np.inf)


X, Y = np.eye(4)[[0, 1, 2, 3, 0, 1, 2, 3]], ["a", "b", "c", "a", "a", "b", "c", "b"]


def fit(folder, X=X, y=Y, every=1, **settings):
    return MulticlassCRF(
        **({"l1": 0.1, "tol": 1e-6} | settings), checkpoint=folder, checkpoint_every=every
    ).fit(X, y)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"l1": 0.5}, "l1: checkpoint has 0.1, this training 0.5"),
        ({"tol": 1e-5}, "tol: checkpoint has 1e-06, this training 1e-05"),
        ({"solver": "owl-qn"}, "solver: checkpoint has 'ProxQN', this training 'OWLQN'"),
        ({"solver": ProxQN(memory=5)}, "solver.memory: checkpoint has 10, this training 5"),
        ({"stop": "certificate"}, "stop: checkpoint has 'estimate', this training 'certificate'"),
        ({"y": [*Y[:7], "a"]}, "data: labels: checkpoint has"),
        ({"X": X * np.array([1.0, 2.0, 1.0, 1.0])}, "data: features: checkpoint has"),
        ({"X": X[:7], "y": Y[:7]}, "data: n_items: checkpoint has 8, this training 7"),
        ({"class_weight": "balanced"}, "data: weights of items: checkpoint has"),
    ],
)
def test_another_training_is_refused_by_what_differs(tmp_path, changed, message):
    fit(tmp_path)
    before = (tmp_path / "checkpoint.crfqn").read_bytes()
    with pytest.raises(InputError, match=re.escape(message)):
        fit(tmp_path, **changed)
    assert (tmp_path / "checkpoint.crfqn").read_bytes() == before
    fit(tmp_path, n_threads=1, max_iter=3, every="5s")  # how long, and by how many


@pytest.mark.parametrize("model", [MulticlassCRF, ChainCRF])
def test_other_validation_items_are_refused(tmp_path, model):
    """As many of them, with one other label or one other feature."""

    def watched(rows, labels, **settings):
        items = (rows, labels) if model is MulticlassCRF else ([rows[:4], rows[4:]], [labels[:4], labels[4:]])
        train = (np.tile(X, (2, 1)), Y * 2) if model is MulticlassCRF else ([X, X], [Y, Y])
        return model(l1=0.1, tol=1e-6, checkpoint=tmp_path, **settings).fit(*train, validation=items)

    first = watched(X, Y, patience=3)
    again = watched(X.copy(), [*Y], patience=3, n_threads=1)
    assert again.result_.held_out.scores.tolist() == first.result_.held_out.scores.tolist()
    for given in ((X, [*Y[:7], "a"]), (X[::-1], Y)):
        with pytest.raises(InputError, match=r"validation.items: checkpoint has"):
            watched(*given, patience=3)
    with pytest.raises(InputError, match=r"validation.patience: checkpoint has 3, this training 2"):
        watched(X, Y, patience=2)


@pytest.mark.parametrize("cut", [0, 5, 1000, -1])
def test_a_damaged_file_is_refused(tmp_path, cut):
    fit(tmp_path)
    file = tmp_path / "checkpoint.crfqn"
    content = bytearray(file.read_bytes())
    file.write_bytes(content[:cut])
    with pytest.raises(InputError, match=r"checkpoint.crfqn: .*remove it to start again"):
        fit(tmp_path)
    content[-9] ^= 1
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"damaged.*remove it to start again"):
        fit(tmp_path)


def test_what_is_no_checkpoint_is_refused(tmp_path):
    write_model(tmp_path / "checkpoint.crfqn", "chain-crf", {}, {}, {})
    with pytest.raises(InputError, match="expected a checkpoint, got a file of kind 'chain-crf'"):
        fit(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file: no folder for checkpoints: File exists"):
        fit(tmp_path / "file")


@pytest.mark.parametrize("every", [0, -1, 2.5, "s", "0", "-3s", "1m", True])
def test_intervals_are_checked(tmp_path, every):
    with pytest.raises(InputError, match=r"^checkpoint_every: expected"):
        fit(tmp_path, every=every)


DIGITS = load_digits().data[:150] / 16.0, load_digits().target[:150]
OF_CLASSES = {
    "sgd": {"l1": 0.1}, "averaged-perceptron": {}, "bcd": {"l1": 0.1}, "fobos": {"l1": 0.1}, "feature-bcd": {"l1": 0.1},
}  # fmt: skip
OF_MARGINS = {
    "dual": {"loss": "squared-hinge", "penalty": "l2", "l2": 1.0},
    "fbpd": {"loss": "hinge", "penalty": "l1/l2", "group_l1": 0.1},
}


@pytest.mark.parametrize("solver", [*OF_CLASSES, *OF_MARGINS])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_solvers_that_keep_more_than_weights_go_on_from_weights(tmp_path, solver):
    def trained(folder, **settings):
        model = MulticlassCRF if solver in OF_CLASSES else MulticlassClassifier
        settings = (OF_CLASSES | OF_MARGINS)[solver] | {"solver": solver, "tol": 1e-3} | settings
        return model(**settings, checkpoint=folder, checkpoint_every=1).fit(*DIGITS).result_

    whole = trained(tmp_path / "whole", max_iter=60)
    cut = trained(tmp_path / "cut", max_iter=3)
    again = trained(tmp_path / "cut", max_iter=60)
    assert (cut.n_iter, cut.status) == (3, Status.MAX_ITER)
    assert again.status is whole.status
    if solver == "averaged-perceptron":
        assert again.n_iter <= AveragedPerceptron().n_epochs  # in all
    elif whole.status.is_success:
        assert again.value == pytest.approx(whole.value, rel=2e-3)
    else:  # a learning rate is found anew, and the steps are others
        assert again.value <= 1.1 * whole.value


def test_the_dead_writers_files_go_with_the_next_start(tmp_path):
    dead = tmp_path / ".checkpoint.crfqn.0123456789ab.part"
    dead.write_bytes(b"half")
    fit(tmp_path)
    assert not dead.exists()


def test_a_writing_that_fails_costs_the_checkpoint_and_not_the_training(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.warns(UserWarning, match="no checkpoint was written: .*No space left"):
        model = fit(tmp_path)
    assert model.result_.status.is_success
    assert not [*tmp_path.iterdir()]


def test_models_know_nothing_of_it(tmp_path):
    model = ChainCRF(l1=0.1, checkpoint=tmp_path / "of").fit(CHAIN.sequences, CHAIN.labels)
    model.save(tmp_path / "with")
    model.set_params(checkpoint=None).save(tmp_path / "without")
    assert (tmp_path / "with").read_bytes() == (tmp_path / "without").read_bytes()

"""Bigram features: weights of label pairs and tokens, from templates to labels, against enumeration and scipy."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from references import BigramProblem, finite_differences, random_problem

import crfqn
from crfqn import ChainCRF, Tagger, Templates, interchange
from crfqn.data.features import FeatureStore
from crfqn.errors import InputError
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.losses.likelihood import Likelihood
from crfqn.objectives.objective import build_objective
from crfqn.papers.zhong2014.prox_gd import FISTA
from crfqn.penalties import ElasticNet
from crfqn.solvers.minimize import minimize
from crfqn.solvers.prox_qn import ProxQN
from crfqn.solvers.quasi_newton.lbfgs import LBFGS
from crfqn.solvers.stopping import Run
from crfqn.structures.chain import Chain
from crfqn.structures.contexts import Contexts

PATTERNS = "U0:%x[0,0]\nB1:%x[0,1]\nB\n"


def items_of(n, seed=0):
    """Tokens whose first label is told by the word, and all others by the tag and the label before."""
    random = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        tags = random.choice(["P", "Q"], size=random.integers(1, 7))
        first = random.integers(3)
        words, labels = (
            ["abc"[first], *random.choice(list("de"), size=tags.size - 1).tolist()],
            ["xyz"[first]],
        )
        for tag in tags[1:]:
            here = "xyz".index(labels[-1])
            labels.append("xyz"[(here + (tag == "P")) % 3] if random.random() < 0.9 else "x")
        X.append(list(zip(words, tags.tolist(), strict=True)))
        y.append(labels)
    return X, y


@pytest.fixture(scope="module")
def trained():
    X, y = items_of(40)
    sequences = Templates(PATTERNS).fit_transform(X)
    return X, y, sequences, ChainCRF(l1=0.2).fit(sequences, y)


def small(seed=0):
    given = random_problem(seed, is_binary=True, item_weights=(1.0, 2.0, 0.5, 1.0, 1.0, 0.0))
    z = (np.random.default_rng(seed).random((given.targets.size, 2)) < 0.6).astype(float)
    problem = BigramProblem(**vars(given), z=z)
    chain = Chain(problem.offsets, 3, contexts=Contexts.from_matrix(scipy.sparse.csr_array(z)))
    features = SparseMap(FeatureStore.from_matrix(problem.x, problem.offsets))
    return problem, build_objective(features, Likelihood(chain, problem.targets), problem.item_weights)


def test_loss_and_gradient_against_enumeration():
    problem, objective = small()
    w = np.random.default_rng(1).normal(size=problem.n_coords)
    point = objective.at(np.arange(w.size), w)
    assert point.value == pytest.approx(problem.loss(w), rel=1e-12)
    np.testing.assert_allclose(point.gradient(np.arange(w.size)), problem.gradient(w), atol=1e-11)
    np.testing.assert_allclose(problem.gradient(w), finite_differences(problem.loss, w), atol=1e-6)


@pytest.mark.parametrize(("solver", "l1", "l2"), [
    (ProxQN(), 0.3, 0.0), (FISTA(), 0.2, 0.1), (LBFGS(), 0.0, 0.3),
], ids=["prox-qn", "fista", "l-bfgs"])  # fmt: skip
def test_the_optimum_is_that_of_another_library(solver, l1, l2):
    problem, objective = small(seed=1)
    found = minimize(objective, ElasticNet(l1, l2), solver, Run(tol=1e-5))
    least = problem.optimum(l1, l2)[0]
    assert least - 1e-8 <= found.value <= least * (1 + 1e-5)
    assert found.value * (1 - found.gap) <= least + 1e-8


def test_they_say_what_transitions_and_unigrams_cannot(trained):
    X, y, _, model = trained
    plain = ChainCRF(l1=0.2).fit(Templates(PATTERNS.replace("B1", "U1")).fit_transform(X), y)
    assert model.score(X, y) > plain.score(X, y) + 0.1
    weights = model.bigram_features_
    assert weights["B1:P", "x", "y"] > weights.get(("B1:Q", "x", "y"), 0.0)
    columns = model.bigram_columns_
    assert [model.feature_names_in_[column] for column in columns] == ["B1:P", "B1:Q"]
    assert model.coef_[:, columns].nnz == 0


def test_files_and_the_tagger_label_as_the_model_does(trained, tmp_path):
    model = trained[-1]
    model.save(tmp_path / "model.crfqn")
    loaded, tagger = crfqn.load(tmp_path / "model.crfqn"), Tagger(tmp_path / "model.crfqn")
    new, labels = items_of(10, seed=5)
    new.append([])
    assert loaded.bigram_features_ == model.bigram_features_ == tagger.info().bigrams
    assert tagger.tag_items(new) == loaded.predict(new).tolist() == model.predict(new).tolist()
    for item, path, marginals in zip(new, [*labels, []], model.predict_marginals(new), strict=True):
        np.testing.assert_allclose(tagger.marginals(item), marginals, atol=1e-12)
        likelihood = model.log_likelihood([item], [path])[0]
        assert np.log(tagger.probability(path, item)) == pytest.approx(likelihood, rel=1e-9, abs=1e-12)
        for ours, theirs in zip(tagger.nbest(item, 3), model.predict_nbest([item], 3)[0], strict=True):
            assert ours[0] == theirs[0]
            assert ours[1] == pytest.approx(theirs[1], rel=1e-9)
    interchange.write(model, tmp_path / "model.json")
    assert interchange.read(tmp_path / "model.json").bigram_features_ == model.bigram_features_
    for name in ("model.crfsuite", "model.onnx"):
        with pytest.raises(InputError, match=r"no place for the .* weights of bigram features"):
            interchange.write(model, tmp_path / name)


def test_weights_are_kept_by_name(trained):
    X, y, _, model = trained
    fewer = Templates("B\nB1:%x[0,1]\nU0:%x[0,0]\n").fit_transform([*X[:3], [("new", "R")] * 2])
    problem = model.prepare(fewer, [*y[:3], ["x", "x"]], start=model)
    kept = problem.space.model(problem.start)
    assert kept.bigram_columns_.size == 3
    assert kept.weights_by_name().bigrams == model.bigram_features_
    assert kept.weights_by_name().transitions == model.transition_features_


def test_what_never_occurs_may_be_left_out(trained):
    X, y, sequences, _ = trained
    model = ChainCRF(l1=0, l2=0.1, all_possible_transitions=False).fit(sequences, y)
    seen = {
        (f"B1:{item[t][1]}", labels[t - 1], labels[t])
        for item, labels in zip(X, y, strict=True)
        for t in range(1, len(item))
    }
    assert {key for key, weight in model.bigram_features_.items() if weight} <= seen


def test_unknown_labels_rules_and_validation_items(trained):
    X, y, sequences, _ = trained
    partial = [[None, *labels[1:]] for labels in y]
    rules = crfqn.Transitions(forbidden=[("x", "z")])
    fitted = ChainCRF(l1=0.2, transition_rules=rules, enforce_rules_in="decoding").fit(sequences, partial)
    paths = fitted.predict(X)
    assert not any(("x", "z") in pairwise(path) for path in paths)
    held = ChainCRF(l1=0.2).fit(sequences, y, validation=items_of(5, seed=1))
    assert held.result_.held_out.best == pytest.approx(held.score(*items_of(5, seed=1)))


def test_what_has_no_place_for_them_says_so_before_training(trained):
    _, y, sequences, _ = trained
    for solver in ("sgd", "feature-bcd", "averaged-perceptron"):
        with pytest.raises(InputError, match="knows one weight for each pair of labels"):
            ChainCRF(solver=solver).fit(sequences, y)
    with pytest.raises(InputError, match="knows one weight for each pair of labels"):
        ChainCRF(loss="hinge", l2=1.0).fit(sequences, y)
    with pytest.raises(InputError, match="partial_fit: expected no patterns of label pairs and tokens"):
        ChainCRF().partial_fit(sequences, y)

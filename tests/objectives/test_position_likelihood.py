"""The likelihood of weighted positions against enumeration, and its gradient against differences."""

import itertools
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import approx_fprime

from crfqn.objectives.losses.likelihood import Likelihood
from crfqn.objectives.losses.position_likelihood import PositionLikelihood
from crfqn.structures.chain import Chain
from crfqn.structures.contexts import Contexts
from crfqn.structures.transition_rules import TransitionRules
from crfqn.threads import Pool

OFFSETS = np.array([0, 1, 5, 5, 8, 13])
N, K = int(OFFSETS[-1]), 3
ITEM_WEIGHTS = np.array([1.0, 0.5, 3.0, 2.0, 1.5])


def rules():
    """No 2 behind 0, and no 1 at the end of an item."""
    allowed = np.ones((K, K), bool)
    allowed[0, 2] = False
    return TransitionRules(allowed, np.ones(K, bool), np.array([True, False, True]))


def draw(kind, scale=1.0):
    random = np.random.default_rng(7)
    x = (random.random((N, 2)) < 0.5) * random.choice([1.0, 2.0], size=(N, 2))
    contexts = Contexts.from_matrix(scipy.sparse.csr_array(x)) if kind == "bigrams" else None
    chain = Chain(OFFSETS, K, rules=rules() if kind == "rules" else None, contexts=contexts)
    targets = np.full(N, 2, np.int32) if kind == "rules" else random.integers(0, K, N).astype(np.int32)
    tables = random.normal(size=(1 + 2 * (kind == "bigrams"), K, K))
    features = np.column_stack([np.ones(N), x])[:, : len(tables)]
    position_weights = random.choice([0.0, 0.3, 1.0, 4.0], N)
    return chain, targets, scale * random.normal(size=(K, N)), scale * tables, features, position_weights


def enumerated_losses(chain, targets, scores, tables, features, position_weights):
    losses = np.zeros(OFFSETS.size - 1)
    for i, (start, stop) in enumerate(pairwise(OFFSETS)):
        if start == stop:
            continue
        labellings, totals = [], []
        for y in itertools.product(range(K), repeat=int(stop - start)):
            total = sum(scores[k, start + t] for t, k in enumerate(y))
            for t, (j, k) in enumerate(pairwise(y), start + 1):
                total += features[t] @ tables[:, j, k]
                if chain.rules is not None and (j, k) == (0, 2):
                    total = -np.inf
            labellings.append(y)
            totals.append(-np.inf if chain.rules is not None and y[-1] == 1 else total)
        log_p, y = np.array(totals) - np.logaddexp.reduce(totals), np.array(labellings)
        observed, weights = targets[start:stop], position_weights[start:stop]
        least = weights.min()
        losses[i] = -least * log_p[(y == observed).all(axis=1)].item()
        losses[i] -= sum(
            (weights[t] - least) * np.logaddexp.reduce(log_p[y[:, t] == observed[t]])
            for t in range(stop - start)
        )
    return losses


@pytest.mark.parametrize("kind", ["plain", "rules", "bigrams"])
@pytest.mark.parametrize("is_scaled", [True, False])
def test_loss_and_gradient(kind, is_scaled):
    chain, targets, scores, tables, features, position_weights = draw(kind)
    if not is_scaled:  # a position before all whose scores span more than scaled messages can
        scores[:, OFFSETS[:-1][np.diff(OFFSETS) > 0]] += np.array([[0.0], [-800.0], [0.0]])
    loss, pool = PositionLikelihood(chain, targets, position_weights), Pool(2)
    evaluation = loss.evaluate(scores, tables.ravel(), ITEM_WEIGHTS, pool)
    expected = enumerated_losses(chain, targets, scores, tables, features, position_weights)
    np.testing.assert_allclose(evaluation.item_losses, expected, rtol=1e-10, atol=1e-12)

    def value(x):
        nodes, edges = x[: scores.size].reshape(scores.shape), x[scores.size :]
        return float(ITEM_WEIGHTS @ loss.evaluate(nodes, edges, ITEM_WEIGHTS, pool).item_losses)

    gradient = np.concatenate([evaluation.residual.ravel(), evaluation.edge_residual])
    differences = approx_fprime(np.concatenate([scores.ravel(), tables.ravel()]), value, 1e-6)
    np.testing.assert_allclose(gradient, differences, atol=3e-5)


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_equal_weights_are_weights_of_items(scale):
    chain, targets, scores, tables, _, _ = draw("plain", scale)
    position_weights = np.repeat([2.0, 1.0, 0.0, 0.5, 3.0], np.diff(OFFSETS))
    by_position = PositionLikelihood(chain, targets, position_weights)
    every = np.array([2.0, 1.0, 1.0, 0.5, 3.0])
    plain = Likelihood(chain, targets).evaluate(scores, tables.ravel(), ITEM_WEIGHTS * every, Pool(1))
    evaluation = by_position.evaluate(scores, tables.ravel(), ITEM_WEIGHTS, Pool(1))
    np.testing.assert_allclose(evaluation.item_losses, every * plain.item_losses, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(evaluation.residual, plain.residual, atol=1e-9)
    np.testing.assert_allclose(evaluation.edge_residual, plain.edge_residual, atol=1e-9)
    np.testing.assert_allclose(evaluation.marginal_residual, plain.residual, atol=1e-9)


def test_scores_of_any_size_leave_a_finite_loss_and_gradient():
    chain, targets, scores, tables, _, position_weights = draw("plain", 1000.0)
    evaluation = PositionLikelihood(chain, targets, position_weights).evaluate(
        scores, tables.ravel(), ITEM_WEIGHTS, Pool(1)
    )
    for array in (evaluation.item_losses, evaluation.residual, evaluation.edge_residual):
        assert np.isfinite(array).all()
    assert evaluation.item_losses.min() >= 0


def test_some_items_are_those_items():
    chain, targets, scores, tables, _, position_weights = draw("bigrams")
    loss, pool = PositionLikelihood(chain, targets, position_weights), Pool(1)
    items, positions, offsets = np.array([1, 4]), np.r_[1:5, 8:13], np.array([0, 4, 9])
    part = loss.take(items, positions, offsets)
    some = part.evaluate(scores[:, positions], tables.ravel(), ITEM_WEIGHTS[items], pool)
    every = loss.evaluate(scores, tables.ravel(), ITEM_WEIGHTS, pool)
    np.testing.assert_allclose(some.item_losses, every.item_losses[items], rtol=1e-12)
    np.testing.assert_allclose(some.residual, every.residual[:, positions], atol=1e-12)

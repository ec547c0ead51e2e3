"""Inference over items of thousands of positions, which goes through them in segments: the numbers of the whole."""

from itertools import pairwise

import numpy as np
import pytest

from crfqn.structures.chain import Chain
from crfqn.structures.structure import NO_TARGETS
from crfqn.structures.transition_rules import TransitionRules
from crfqn.threads import Pool


def log_sum(x, axis):
    largest = x.max(axis=axis, keepdims=True)
    largest = np.where(np.isfinite(largest), largest, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(x - largest).sum(axis=axis)) + largest.squeeze(axis)


def infer_item(scores, edges):
    """log Z, marginals (K, T) and expected transitions (K, K) of an item, in logarithms throughout."""
    n_states, length = scores.shape
    forward, backward = np.empty((length, n_states)), np.zeros((length, n_states))
    log_partition, message = 0.0, scores[:, 0]
    for t in range(length):
        if t > 0:
            message = log_sum(forward[t - 1][:, None] + edges, 0) + scores[:, t]
        norm = log_sum(message, 0)
        forward[t], log_partition = message - norm, log_partition + norm
    for t in range(length - 2, -1, -1):
        message = log_sum(edges + scores[:, t + 1] + backward[t + 1], 1)
        backward[t] = message - message.max()
    marginals, pairs = forward + backward, np.zeros((n_states, n_states))
    for t in range(1, length):
        joint = forward[t - 1][:, None] + edges + scores[:, t] + backward[t]
        pairs += np.exp(joint - log_sum(joint.reshape(-1), 0))
    return float(log_partition), np.exp(marginals - log_sum(marginals, 1)[:, None]).T, pairs


def check(lengths, scores, edges, targets=NO_TARGETS, weights=None, rules=None):
    """The chain's inference is that of its items one by one, with 1 thread and with 3 to the bit."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    chain = Chain(offsets, len(scores), rules=rules)
    found, again = (chain.infer(scores, edges, targets, weights, Pool(n)) for n in (1, 3))
    for name in ("log_partition", "target_score", "residual", "edge_residual"):
        assert getattr(found, name).tobytes() == getattr(again, name).tobytes()
    assert found.expected_score == again.expected_score

    weights = np.ones(len(lengths)) if weights is None else weights
    scores, edges = chain.masked_scores(scores, edges)
    residual, counts, expected = np.empty(scores.shape), np.zeros(edges.shape), 0.0
    for i, (a, b) in enumerate(pairwise(offsets)):
        if a == b:
            continue
        log_partition, marginals, pairs = infer_item(scores[:, a:b], edges)
        assert found.log_partition[i] == pytest.approx(log_partition, rel=1e-11)
        residual[:, a:b], counts = weights[i] * marginals, counts + weights[i] * pairs
        terms = marginals * np.where(marginals > 0, scores[:, a:b], 0.0)
        expected += weights[i] * (terms.sum() + (pairs * np.where(pairs > 0, edges, 0.0)).sum())
        if targets.size:
            labels = targets[a:b]
            residual[labels, np.arange(a, b)] -= weights[i]
            np.subtract.at(counts, (labels[:-1], labels[1:]), weights[i])
            score = scores[labels, np.arange(a, b)].sum() + edges[labels[:-1], labels[1:]].sum()
            assert found.target_score[i] == pytest.approx(score, rel=1e-11, abs=1e-9)
    np.testing.assert_allclose(found.residual, residual, atol=1e-9)
    np.testing.assert_allclose(found.edge_residual.reshape(edges.shape), counts, atol=1e-7)
    assert found.expected_score == pytest.approx(expected, rel=1e-10, abs=1e-7)
    return chain


def numbers(lengths, n_states, scale=2.0, seed=0):
    random, n = np.random.default_rng(seed), sum(lengths)
    scores = scale * random.standard_normal((n_states, n))
    targets = random.integers(0, n_states, n).astype(np.int32)
    return scores, scale * random.standard_normal((n_states, n_states)), targets


@pytest.mark.parametrize("n_states", [1, 2, 7, 23, 70])
@pytest.mark.parametrize("lengths", [[257], [1500], [3, 700, 0, 300, 1]])
def test_a_long_item_has_the_numbers_of_the_whole(n_states, lengths):
    scores, edges, targets = numbers(lengths, n_states)
    check(lengths, scores, edges, targets)


@pytest.mark.parametrize("has_targets", [False, True])
def test_weights_of_items(has_targets):
    lengths = [600, 4, 500]
    scores, edges, targets = numbers(lengths, 5)
    check(lengths, scores, edges, targets if has_targets else NO_TARGETS, np.array([2.5, 1.0, 0.0]))


def test_labels_that_hold_for_thousands_of_positions():
    """What an item begins with decides its end: no stretch of positions forgets where it came from."""
    scores, edges, targets = numbers([2000], 4, scale=0.01)
    check([2000], scores, edges + np.where(np.eye(4), 0.0, -20.0), targets)


def test_rules():
    """A label that only its own begin leads to, and that may not end an item."""
    allowed = np.array([[1, 1, 0], [1, 1, 1], [1, 1, 1]], bool)
    rules = TransitionRules(allowed, np.array([True, True, False]), np.array([True, False, True]))
    scores, edges, _ = numbers([900, 10], 3)
    check([900, 10], scores, edges, np.zeros(910, np.int32), rules=rules)


def test_scores_that_forbid():
    """One labelling is left of the middle, and few before."""
    scores, edges, targets = numbers([1000], 6)
    scores[np.random.default_rng(1).random(scores.shape) < 0.3] = -np.inf
    scores[:, 400:600] = -np.inf
    scores[targets, np.arange(1000)] = 0.0
    check([1000], scores, edges, targets)


@pytest.mark.parametrize("scale", [40.0, 300.0, 3e4])
def test_scores_that_range_widely(scale):
    """Messages underflow, and the item is inferred as a whole, in logarithms."""
    scores, edges, targets = numbers([800], 4, scale)
    check([800], scores, edges, targets)


def test_forbidden_transitions_that_make_small_messages_matter():
    """The only way on leads through a state that is unlikely by far more than numbers range, in many steps."""
    lengths, n_states = [600], 3
    scores, edges = np.zeros((n_states, 600)), np.zeros((n_states, n_states))
    edges[0, 2] = edges[2, 0] = edges[1, 0] = edges[0, 1] = -np.inf
    scores[1:, :500] = -3.0  # the states 1 and 2 lose 1,500 nats to 0 until it is forbidden
    scores[0, 500:] = -np.inf
    check(lengths, scores, edges, np.ones(600, np.int32))


def test_an_item_without_a_labelling_does_not_harm_another():
    scores, edges, _ = numbers([500, 400], 3)
    scores[:, 700] = -np.inf
    chain = Chain(np.array([0, 500, 900]), 3)
    alone = Chain(np.array([0, 500]), 3).infer(scores[:, :500], edges)
    with np.errstate(all="ignore"):
        found = chain.infer(scores, edges)
    assert found.log_partition[0] == pytest.approx(alone.log_partition[0], rel=1e-12)
    np.testing.assert_allclose(found.residual[:, :500], alone.residual, atol=1e-9)


def test_threads_share_long_items_by_their_positions():
    """A few items, of one or of many lengths, are work for several threads."""

    class Counting(Pool):
        largest = 0

        def each(self, n_parts, task, n_operations=np.inf):
            self.largest = max(self.largest, n_parts)
            super().each(n_parts, task, n_operations)

    for lengths in ([20_000], [5000, 300, 7000], 40 * [1000]):
        scores, edges, targets = numbers(lengths, 8)
        pool = Counting(2)
        Chain(np.concatenate([[0], np.cumsum(lengths)]), 8).infer(scores, edges, targets, pool=pool)
        assert pool.largest >= 4

"""Inference over chains with bigram features, against the enumeration of all labellings."""

import itertools
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from references import Enumeration, random_rules

from crfqn.structures.chain import Chain
from crfqn.structures.chain_decoding import n_best, pairs_of, span_probabilities
from crfqn.structures.contexts import Contexts
from crfqn.structures.span_rules import SpanRules
from crfqn.structures.transition_rules import TransitionRules
from crfqn.threads import Pool


class Items:
    """Random items, one of them empty, with bigram features x (N, B); everything of them by enumeration."""

    def __init__(self, n_states, scale=1.0, seed=0, rules=None):
        random = np.random.default_rng([n_states, seed])
        lengths = [1, 4, 0, 3, 5, 2]
        self.offsets, n = np.concatenate([[0], np.cumsum(lengths)]), sum(lengths)
        self.x = (random.random((n, 3)) < 0.5) * random.choice([1.0, 2.0, -0.5], size=(n, 3))
        self.scores = scale * random.normal(size=(n_states, n))
        self.edges = scale * random.normal(size=(4, n_states, n_states))
        self.targets = random.integers(0, n_states, n).astype(np.int32)
        self.weights = np.array([1.0, 0.5, 3.0, 0.0, 2.0, 1.0])
        self.given = None if rules is None else random_rules(random, n_states)
        found = None if rules is None else TransitionRules(*self.given)
        contexts = Contexts.from_matrix(scipy.sparse.csr_array(self.x))
        self.chain = Chain(self.offsets, n_states, rules=found, contexts=contexts)
        self.features = np.column_stack([np.ones(n), self.x])
        self.spans = [slice(a, b) for a, b in pairwise(self.offsets) if a < b]
        self.filled = np.flatnonzero(lengths)

    def enumerated(self):
        scores, tables = self.scores.copy(), np.einsum("tb,bjk->tjk", self.features, self.edges)
        if self.given is not None:
            tables = np.where(self.given[0], tables, -np.inf)
            for span in self.spans:
                scores[~self.given[1], span.start] = -np.inf
                scores[~self.given[2], span.stop - 1] = -np.inf
        return [Enumeration(scores[:, span], tables[span]) for span in self.spans]


@pytest.mark.parametrize("rules", [None, "random"])
@pytest.mark.parametrize("scale", [0.5, 3.0, 400.0])
@pytest.mark.parametrize("n_states", [1, 2, 4])
def test_everything_against_enumeration(n_states, scale, rules):
    given = Items(n_states, scale, rules=rules)
    items, pool = given.enumerated(), Pool(2)
    found = given.chain.infer(given.scores, given.edges, weights=given.weights, pool=pool)
    weights = given.weights[given.filled]
    scaled = [*zip(weights, items, strict=True)]
    expected_pairs = np.concatenate([c * item.pair_marginals() for c, item in scaled])
    nodes = np.hstack([c * item.node_marginals() for c, item in scaled])
    edges = np.einsum("tb,tjk->bjk", given.features, expected_pairs)
    np.testing.assert_allclose(
        found.log_partition[given.filled], [i.log_partition for i in items], rtol=1e-11
    )
    np.testing.assert_allclose(found.residual, nodes, atol=1e-10)
    np.testing.assert_allclose(found.edge_residual, edges.ravel(), atol=1e-10)
    with np.errstate(invalid="ignore"):
        scores = [float(np.nansum(item.probability * item.scores)) for item in items]
    assert found.expected_score == pytest.approx(weights @ scores, rel=1e-10)
    best = given.chain.decode(given.scores, given.edges, pool)
    np.testing.assert_array_equal(best.states, np.concatenate([item.best_path() for item in items]))
    np.testing.assert_allclose(best.score[given.filled], [item.scores.max() for item in items], rtol=1e-12)
    chain, scores, tables = given.chain, given.scores, given.edges
    pairs, many = pairs_of(chain, scores, tables, pool), n_best(chain, scores, tables, 3, pool)
    for i, span, item in zip(given.filled, given.spans, items, strict=True):
        ranked = np.sort(item.scores[item.scores > -np.inf])[::-1][:3]
        np.testing.assert_allclose(many.score[: many.counts[i], i], ranked, rtol=1e-12)
        np.testing.assert_array_equal(many.states[0, span], item.best_path())
        np.testing.assert_allclose(pairs[i], item.pair_marginals()[1:], atol=1e-10)


def test_what_is_observed_is_subtracted():
    given = Items(3, rules="random", seed=1)
    chain = Chain(given.offsets, 3, contexts=given.chain.contexts)
    arrays = given.scores, given.edges
    expected = chain.infer(*arrays, weights=given.weights)
    found = chain.infer(*arrays, given.targets, given.weights)
    labels = given.chain.counts(given.targets, given.weights)
    np.testing.assert_allclose(expected.edge_residual - found.edge_residual, labels, atol=1e-12)
    np.testing.assert_allclose(found.target_score, chain.label_scores(given.targets, *arrays), rtol=1e-12)
    to = [t for span in given.spans for t in range(span.start + 1, span.stop)]
    by_hand, weights = np.zeros((4, 3, 3)), np.repeat(given.weights, np.diff(given.offsets))
    for t in to:
        by_hand[:, given.targets[t - 1], given.targets[t]] += weights[t] * given.features[t]
    np.testing.assert_allclose(labels, by_hand.ravel(), atol=1e-12)
    residual = expected.residual - found.residual
    np.testing.assert_allclose(residual[given.targets, np.arange(given.targets.size)], weights, atol=1e-12)


def test_counts_move_no_further_than_their_ranges():
    given = Items(2)
    chain, squares = given.chain, np.zeros((4, 2, 2))
    for i, span in zip(given.filled, given.spans, strict=True):
        n = span.stop - span.start
        paths = np.array(list(itertools.product(range(2), repeat=n)))
        counts = np.zeros((len(paths), 4, 2, 2))
        for t in range(1, n):
            x = given.features[span.start + t]
            counts[np.arange(len(paths)), :, paths[:, t - 1], paths[:, t]] += x
        squares += given.weights[i] * np.square(counts.max(axis=0) - counts.min(axis=0))
    bounds = chain.edge_ranges(given.weights)
    assert (bounds >= squares.ravel() - 1e-12).all()
    np.testing.assert_array_equal(bounds[:4], Chain(given.offsets, 2).edge_ranges(given.weights))


def test_probabilities_of_spans():
    given, rules = Items(3, seed=2), SpanRules(np.array([0, -1, -1]), np.zeros((3, 3), bool))
    labels = given.chain.decode(given.scores, given.edges).states
    spans = rules.find(labels, given.offsets)
    found = span_probabilities(given.chain, given.scores, given.edges, spans, rules, Pool(1))
    marginals = np.hstack([item.node_marginals() for item in given.enumerated()])
    assert spans.starts.size
    np.testing.assert_allclose(found, marginals[0, spans.starts], rtol=1e-9)


def test_results_do_not_depend_on_threads():
    given = Items(4)
    one, two = (given.chain.infer(given.scores, given.edges, given.targets, pool=Pool(n)) for n in (1, 3))
    np.testing.assert_array_equal(one.residual, two.residual)
    np.testing.assert_array_equal(one.edge_residual, two.edge_residual)


def test_items_without_positions():
    chain = Chain(np.zeros(3, np.int64), 2, contexts=Contexts.from_matrix(scipy.sparse.csr_array((0, 1))))
    assert chain.infer(np.empty((2, 0)), np.zeros(8)).log_partition.tolist() == [0.0, 0.0]
    assert chain.decode(np.empty((2, 0)), np.zeros(8)).score.tolist() == [0.0, 0.0]

"""Chains with rules against the enumeration of the labellings that keep them, and at the edges of their numerics."""

from itertools import pairwise

import numpy as np
import pytest
from references import random_rules, ruled

from crfqn.data.schemes import SCHEMES, spans_of
from crfqn.errors import InputError
from crfqn.metrics.label_arrays import span_rules
from crfqn.structures.chain import Chain
from crfqn.structures.chain_decoding import n_best, pairs_of, span_probabilities
from crfqn.structures.transition_rules import TransitionRules
from crfqn.threads import Pool

LENGTHS = np.array([1, 2, 3, 4, 5, 1, 2, 4, 3, 3, 2, 5, 4, 4])  # enough for lanes


def make_chain(seed, n_states, lengths=LENGTHS, scale=1.0):
    random = np.random.default_rng([n_states, seed])
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    rules = random_rules(random, n_states)
    chain = Chain(offsets, n_states, 1, TransitionRules(*rules))
    scores = scale * random.normal(size=(n_states, offsets[-1]))
    edges = scale * random.normal(size=(n_states, n_states))
    allowed = random.random(scores.shape) > 0.2
    allowed[0] = True
    return chain, scores, edges, rules, allowed


def references(chain, scores, edges, rules, allowed=None):
    cuts = list(pairwise(chain.offsets))
    return [
        ruled(scores[:, a:b], edges, rules, None if allowed is None else allowed[:, a:b]) for a, b in cuts
    ]


@pytest.mark.parametrize("scale", [1.0, 40.0, 1e6], ids=["scaled", "wide", "logarithms"])
@pytest.mark.parametrize("n_states", [1, 2, 3, 5])
def test_inference_against_enumeration(n_states, scale):
    chain, scores, edges, rules, allowed = make_chain(0, n_states, scale=scale)
    masked = np.where(allowed, scores, -np.inf)
    weights = np.random.default_rng(1).random(chain.n_items) + 0.5
    found = chain.infer(masked, edges, weights=weights)
    items = references(chain, scores, edges, rules, allowed)
    tolerance = 1e-10 * max(scale, 1.0)
    np.testing.assert_allclose(
        found.log_partition, [item.log_partition for item in items], rtol=1e-12, atol=1e-9
    )
    marginals = np.hstack([c * item.node_marginals() for c, item in zip(weights, items, strict=True)])
    np.testing.assert_allclose(found.residual, marginals, rtol=1e-9, atol=tolerance)
    counts = sum(c * item.pair_counts() for c, item in zip(weights, items, strict=True)).ravel()
    np.testing.assert_allclose(found.edge_residual, counts, rtol=1e-9, atol=tolerance)
    expected = [p @ np.where(p > 0, item.scores, 0) for item in items for p in [item.probability]]
    np.testing.assert_allclose(found.expected_score, weights @ expected, rtol=1e-9)
    alone = chain.over(chain.offsets[:2]).infer(masked[:, : chain.offsets[1]], edges)  # without lanes
    np.testing.assert_allclose(alone.log_partition, found.log_partition[:1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n_items", [1, 16], ids=["one by one", "lanes"])
def test_a_message_that_underflows_and_matters(n_items):
    """The first state is likelier by 100 nats a position and may not end an item, and nothing leads from it."""
    length = 20
    offsets = length * np.arange(n_items + 1)
    rules = TransitionRules(np.eye(2, dtype=bool), np.ones(2, bool), np.array([False, True]))
    scores = np.repeat([[50.0], [-50.0]], offsets[-1], axis=1)
    found = Chain(offsets, 2, 1, rules).infer(scores, np.zeros((2, 2)))
    np.testing.assert_allclose(found.log_partition, -50.0 * length, rtol=1e-12)
    np.testing.assert_array_equal(found.residual, np.repeat([[0.0], [1.0]], offsets[-1], axis=1))
    np.testing.assert_allclose(
        found.edge_residual.reshape(2, 2), [[0, 0], [0, n_items * (length - 1)]], rtol=1e-12
    )


@pytest.mark.parametrize("n_states", [1, 2, 4])
def test_n_best_against_enumeration(n_states):
    chain, scores, edges, rules, allowed = make_chain(2, n_states)
    scores, edges = np.round(2 * scores), np.round(edges)  # ties, and sums without rounding
    best = n_best(chain, np.where(allowed, scores, -np.inf), edges, 7, Pool(1))
    for i, item in enumerate(references(chain, scores, edges, rules, allowed)):
        possible = np.flatnonzero(item.scores > -np.inf)
        ranked = sorted(possible, key=lambda y: (-item.scores[y], *item.labellings[y][::-1]))[:7]
        a, b = chain.offsets[i : i + 2]
        assert best.counts[i] == len(ranked)
        np.testing.assert_array_equal(best.states[: len(ranked), a:b], item.labellings[ranked])
        np.testing.assert_array_equal(best.score[: len(ranked), i], item.scores[ranked])
    first = chain.decode(np.where(allowed, scores, -np.inf), edges)
    np.testing.assert_array_equal(first.states, best.states[0])


def test_pairs_against_enumeration():
    chain, scores, edges, rules, _ = make_chain(3, 3)
    for pairs, item in zip(
        pairs_of(chain, scores, edges, Pool(1)), references(chain, scores, edges, rules), strict=True
    ):
        expected = np.zeros((item.length - 1, 3, 3))
        for t in range(item.length - 1):
            np.add.at(expected[t], (item.labellings[:, t], item.labellings[:, t + 1]), item.probability)
        np.testing.assert_allclose(pairs, expected, atol=1e-13)


@pytest.mark.parametrize("scale", [1.0, 1e3])
@pytest.mark.parametrize("name", ["IOB1", "IOB2", "IOE1", "BIOES"])
def test_spans_against_enumeration(name, scale):
    """A span's probability is the share of the labellings whose spans it is among, legal ones and others."""
    scheme = SCHEMES[name]
    labels = ["O", *(f"{letter}-X" for letter in scheme.letters.values()), f"{scheme.letters['I']}-Y"]
    chain, scores, edges, rules, _ = make_chain(4, len(labels), np.array([4, 1, 0, 3, 2]), scale)
    span_of, types = span_rules(scheme, labels)
    assert types == ["X", "Y"]
    states = chain.decode(scores, edges).states
    spans = span_of.find(states, chain.offsets)
    found = span_probabilities(chain, scores, edges, spans, span_of, Pool(1))
    place = 0
    for a, b in pairwise(chain.offsets):
        if a == b:
            continue
        item = ruled(scores[:, a:b], edges, rules)
        own = spans_of([labels[k] for k in states[a:b]], scheme, strict=False)
        all_spans = [set(spans_of([labels[k] for k in y], scheme, strict=False)) for y in item.labellings]
        for span in own:
            assert (spans.starts[place] - a, spans.stops[place] - a, types[spans.types[place]]) == span
            expected = sum(p for p, there in zip(item.probability, all_spans, strict=True) if span in there)
            np.testing.assert_allclose(found[place], expected, rtol=1e-9, atol=1e-12)
            place += 1
    assert place == found.size > 0


def test_items_without_any_labelling():
    rules = TransitionRules(
        np.array([[True, True], [False, True]]), np.array([True, False]), np.array([False, True])
    )
    chain = Chain(np.array([0, 1, 3, 3]), 2, rules=rules)
    np.testing.assert_array_equal(chain.impossible(), [0])
    assert chain.decode(np.zeros((2, 3)), np.zeros(4)).score[0] == -np.inf
    assert n_best(chain, np.zeros((2, 3)), np.zeros(4), 3, Pool(1)).counts.tolist() == [0, 1, 1]
    nothing = np.zeros((2, 3), bool)
    np.testing.assert_array_equal(chain.impossible(nothing), [0, 1])


def test_rules_and_targets():
    rules = TransitionRules.observed(np.array([0, 1, -1, 1, 1]), np.array([0, 3, 5]), 2)
    assert rules.transitions.tolist() == [[False, True], [False, True]]
    assert rules.start.tolist() == [True, True]
    assert rules.end.tolist() == [False, True]
    with pytest.raises(InputError, match="position 1 breaks"):
        Chain(np.array([0, 2]), 2, rules=rules).check_targets(np.array([1, 0]))
    with pytest.raises(InputError, match="rules of 3 states, got 2"):
        Chain(np.array([0, 2]), 3, rules=rules)


@pytest.mark.parametrize("seed", range(6))
def test_lengths_that_have_labellings(seed):
    """Cycles of two and three states among them: lengths are possible now and then."""
    random = np.random.default_rng(seed)
    transitions = random.random((4, 4)) < 0.3
    if seed == 0:
        transitions = np.roll(np.eye(4, dtype=bool), 1, axis=1)
    start, end = np.eye(4, dtype=bool)[0], random.random(4) < 0.5
    found = TransitionRules(transitions, start, end).possible_lengths(7)
    with np.errstate(invalid="ignore"):  # a distribution over nothing
        items = [ruled(np.zeros((4, n)), np.zeros((4, 4)), (transitions, start, end)) for n in range(1, 8)]
    expected = [True, *(bool((item.scores > -np.inf).any()) for item in items)]
    assert found.tolist() == expected

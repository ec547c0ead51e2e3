"""Inference over chains with bigram features, against the enumeration of all labellings."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from references import Enumeration, random_rules

from crfqn.structures.bigram_chain import BigramChain
from crfqn.structures.chain_decoding import n_best, pairs_of
from crfqn.structures.contexts import Contexts
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
        contexts = Contexts.of(scipy.sparse.csr_array(self.x))
        self.chain = BigramChain(self.offsets, n_states, rules=found, contexts=contexts)
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

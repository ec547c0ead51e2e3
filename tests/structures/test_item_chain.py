"""One item's chain with numpy alone, against the kernels over many items: labellings and ties, bit by bit."""

import numpy as np
import pytest

from crfqn.structures import item_chain
from crfqn.structures.chain import Chain
from crfqn.structures.chain_decoding import n_best
from crfqn.structures.item_chain import MIN_ITEMS_LAST, NumpyChain
from crfqn.structures.transition_rules import TransitionRules
from crfqn.threads import Pool

LENGTHS = [0, 1, 7, 2, 12, 7]


def cases(seed, n_states, has_rules):
    """Scores of items, of which many tie, edges, and rules."""
    random = np.random.default_rng(seed)
    digits = random.integers(0, 3)  # whole numbers tie often
    edges = np.round(random.normal(size=(n_states, n_states)), digits)
    scores = [np.round(2 * random.normal(size=(length, n_states)), digits) for length in LENGTHS]
    if not has_rules:
        return scores, edges, None
    allowed = random.random((n_states, n_states)) < 0.7
    np.fill_diagonal(allowed, True)
    ends = random.random((2, n_states)) < 0.7
    ends[:, 0] = True
    return scores, edges, TransitionRules(allowed, *ends)


@pytest.mark.parametrize("has_rules", [False, True])
@pytest.mark.parametrize("n_states", [1, 2, 5, 13])
def test_the_results_are_those_of_the_kernels(n_states, has_rules):
    for seed in range(8):
        scores, edges, rules = cases(seed, n_states, has_rules)
        chain = Chain(np.cumsum([0, *LENGTHS]), n_states, rules=rules)
        flat, pool = np.concatenate(scores).T, Pool(1)
        decoded, inference = chain.decode(flat, edges), chain.infer(flat, edges)
        lists = n_best(chain, flat, edges, 4, pool)
        item = NumpyChain(edges, rules)
        best = item.best([*map(item.masked_scores, scores)])
        for i, (first, last) in enumerate(zip(chain.offsets, chain.offsets[1:], strict=False)):
            ruled = item.masked_scores(scores[i])
            path = best[i]
            assert [path] == item.best([ruled])
            assert path.states == decoded.states[first:last].tolist()
            assert path.score == decoded.score[i]
            found = item.n_best(ruled, 4)
            assert len(found) == lists.counts[i]
            for rank, one in enumerate(found):
                assert one.states == lists.states[rank, first:last].tolist()
                assert one.score == lists.score[rank, i]
                np.testing.assert_allclose(item.path_score(ruled, one.states), one.score, atol=1e-12)
            messages, log_partition = item.messages(ruled)
            np.testing.assert_allclose(log_partition, inference.log_partition[i], rtol=1e-13, atol=1e-13)
            marginals = item.marginals(ruled, messages)
            np.testing.assert_allclose(marginals, inference.residual[:, first:last].T, atol=1e-13)


@pytest.mark.parametrize("has_rules", [False, True])
@pytest.mark.parametrize("n_states", [1, 2, 5, 13])
def test_many_items_have_the_labellings_of_each_alone(n_states, has_rules):
    random = np.random.default_rng(n_states)
    for seed in range(4):
        _, edges, rules = cases(seed, n_states, has_rules)
        chain = NumpyChain(edges, rules)
        items = [
            chain.masked_scores(np.round(2 * random.normal(size=(random.integers(0, 9), n_states)), seed % 2))
            for _ in range(MIN_ITEMS_LAST + 50)
        ]
        assert chain.best(items) == [chain.best([item])[0] for item in items]


@pytest.mark.parametrize("size", [1e-3, 1.0, 8.0, 25.0, 60.0, 300.0, 1e5])
def test_scores_of_any_size(size):
    """Products are scaled every few positions; where they would underflow, the logarithms take over."""
    random = np.random.default_rng(0)
    scores, edges = size * random.normal(size=(400, 4)), size * random.normal(size=(4, 4))
    inference = Chain(np.array([0, 400]), 4).infer(np.ascontiguousarray(scores.T), edges)
    item = NumpyChain(edges)
    messages, log_partition = item.messages(scores)
    np.testing.assert_allclose(log_partition, inference.log_partition[0], rtol=1e-13)
    np.testing.assert_allclose(item.marginals(scores, messages), inference.residual.T, atol=1e-11)


def test_what_has_no_labelling_has_the_score_of_none():
    rules = TransitionRules(np.ones((2, 2), bool), np.array([True, False]), np.array([True, True]))
    chain = NumpyChain(np.zeros((2, 2)), rules)
    scores = chain.masked_scores(np.zeros((3, 2)), np.array([[False, True], [True, True], [True, True]]))
    assert chain.best([scores])[0].score == -np.inf == chain.messages(scores)[1]
    assert chain.n_best(scores, 2) == []
    alone = NumpyChain(np.zeros((1, 1)), TransitionRules(np.zeros((1, 1), bool), *np.ones((2, 1), bool)))
    assert [path.score for path in alone.best([np.ones((1, 1)), np.ones((2, 1))])] == [1.0, -np.inf]
    assert [alone.messages(np.ones((length, 1)))[1] for length in (1, 2)] == [1.0, -np.inf]


@pytest.mark.parametrize("has_rules", [False, True])
def test_either_way_of_finding_the_largest_gives_the_same_n_best(monkeypatch, has_rules):
    expected = []
    for few in (10**9, 0):
        monkeypatch.setattr(item_chain, "MAX_SORTED_NUMBERS", few)
        found = []
        for seed in range(12):
            scores, edges, rules = cases(seed, 3, has_rules)
            item = NumpyChain(edges, rules)
            found += [item.n_best(item.masked_scores(one), n) for one in scores for n in (1, 2, 7, 40)]
        expected.append(found)
    assert expected[0] == expected[1]
    assert max(map(len, expected[0])) == 40

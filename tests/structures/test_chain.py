"""Chain inference against the enumeration of all labellings, and at the edges of its numerics."""

from itertools import pairwise

import numpy as np
import pytest
from linked import from_python
from references import Enumeration, log_recursion

from crfqn.errors import InputError
from crfqn.kernels.forward_backward import CHUNK_POSITIONS, MAX_SCORE_RANGE
from crfqn.kernels.logarithms import NO_TABLES, log_item
from crfqn.structures.chain import Chain
from crfqn.threads import N_PARTS, Pool, cut_into_parts


@pytest.fixture(params=[N_PARTS, 1, 2], ids=lambda n: f"{n} parts")
def parts(request):
    """Small tests would have an item a part, and never two in a chunk, nor two chunks in a part."""
    return request.param


def offsets_of(lengths):
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def random_scores(random, n_states, n_positions, scale=1.0):
    return scale * random.normal(size=(n_states, n_positions)), scale * random.normal(
        size=(n_states, n_states)
    )


def by_items(reference, scores, edges, offsets):
    return [reference(scores[:, a:b], edges) for a, b in pairwise(offsets)]


def entropies(chain, scores, edges):
    """The entropy of every item, from passes over single ones: the expected score is a sum over items."""
    found = [
        Chain(np.array([0, b - a]), chain.n_states).infer(scores[:, a:b], edges)
        for a, b in pairwise(chain.offsets)
    ]
    return [one.log_partition[0] - one.expected_score for one in found]


def assert_like_recursion(chain, scores, edges, tolerance=1e-11):
    """log Z, marginals and counts of every item against the normalised recursion in logarithms."""
    inference = chain.infer(scores, edges)
    items = by_items(log_recursion, scores, edges, chain.offsets)
    np.testing.assert_allclose(inference.log_partition, [item[0] for item in items], rtol=tolerance)
    np.testing.assert_allclose(
        inference.residual, np.hstack([item[1] for item in items]), rtol=1e-8, atol=tolerance
    )
    counts = sum(item[2] for item in items).ravel()
    np.testing.assert_allclose(
        inference.edge_residual, counts, rtol=1e-8, atol=tolerance * max(1.0, counts.sum())
    )


@pytest.mark.parametrize("n_states", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("seed", range(4))
def test_everything_against_enumeration(n_states, seed, parts):
    random = np.random.default_rng([n_states, seed])
    lengths = random.permutation([1, 2, 3, 4, 5, 6, 1, 2])
    chain = Chain(offsets_of(lengths), n_states, parts)
    scores, edges = random_scores(random, n_states, lengths.sum(), scale=[0.3, 1.0, 3.0, 10.0][seed])
    targets = random.integers(0, n_states, lengths.sum()).astype(np.int32)
    weights = random.permutation([0.0, 0.5, 1.0, 2.0, 1.0, 0.3, 7.25, 0.0])
    found = chain.infer(scores, edges, targets, weights)

    items = by_items(Enumeration, scores, edges, chain.offsets)
    labels = [targets[a:b] for a, b in pairwise(chain.offsets)]
    residual = np.hstack([c * item.node_marginals() for c, item in zip(weights, items, strict=True)])
    residual[targets, np.arange(targets.size)] -= np.repeat(weights, lengths)
    edge_residual = sum(c * item.pair_counts() for c, item in zip(weights, items, strict=True))
    for c, y in zip(weights, labels, strict=True):
        np.add.at(edge_residual, (y[:-1], y[1:]), -c)
    target_scores = [item.scores[item.index(y)] for item, y in zip(items, labels, strict=True)]
    expected = weights @ [item.expected_score for item in items]

    np.testing.assert_allclose(found.log_partition, [item.log_partition for item in items], rtol=1e-12)
    np.testing.assert_allclose(found.target_score, target_scores, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.residual, residual, atol=1e-13)
    np.testing.assert_allclose(found.edge_residual, edge_residual.ravel(), atol=1e-12)
    assert found.expected_score == pytest.approx(expected, rel=1e-12, abs=1e-12)

    np.testing.assert_allclose(
        entropies(chain, scores, edges), [item.entropy for item in items], rtol=1e-10, atol=1e-10
    )
    best = chain.decode(scores, edges)
    np.testing.assert_array_equal(best.states, np.concatenate([item.best_path() for item in items]))
    np.testing.assert_allclose(best.score, [item.scores.max() for item in items], rtol=1e-13)


@pytest.mark.parametrize("n_states", [1, 3, 4])
@pytest.mark.parametrize("scale", [1.0, 400.0])  # scaled messages, and those in logarithms
@pytest.mark.parametrize("forbids", [False, True])
def test_labels_of_positions_against_enumeration(n_states, scale, forbids, parts):
    random = np.random.default_rng([n_states, int(scale)])
    lengths = random.permutation([1, 2, 3, 4, 5, 1])
    chain = Chain(offsets_of(lengths), n_states, parts)
    scores, edges = random_scores(random, n_states, lengths.sum(), scale)
    if forbids and n_states > 1:
        edges[0, 1] = -np.inf
    targets = np.full(lengths.sum(), n_states - 1, np.int32)  # which may follow each other
    importance, weights = random.random(targets.size), random.random(lengths.size)
    found = chain.infer_given_labels(scores, edges.ravel(), targets, importance, weights, Pool(1))

    losses, expected, counts = np.zeros(lengths.size), np.zeros(scores.shape), np.zeros(edges.shape)
    for i, item in enumerate(by_items(Enumeration, scores, edges, chain.offsets)):
        first = chain.offsets[i]
        for s in range(item.length):
            log_p = np.where(item.labellings[:, s] == targets[first + s], item.log_probability, -np.inf)
            losses[i] -= importance[first + s] * np.logaddexp.reduce(log_p)
            item.probability = np.exp(log_p - np.logaddexp.reduce(log_p))
            share = weights[i] * importance[first + s]
            expected[:, first : first + item.length] += share * item.node_marginals()
            counts += share * item.pair_counts()
    np.testing.assert_allclose(found.losses, losses, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(found.expected, expected, atol=1e-11)
    np.testing.assert_allclose(found.counts, counts.ravel(), atol=1e-11)


@pytest.mark.parametrize("n_states", [1, 3, 4])
def test_without_targets_the_residuals_are_marginals(n_states):
    random = np.random.default_rng(n_states)
    lengths = [3, 1, 4]
    scores, edges = random_scores(random, n_states, 8)
    chain = Chain(offsets_of(lengths), n_states)
    found = chain.infer(scores, edges)
    marginals, counts = found.residual, found.edge_residual.reshape(edges.shape)
    items = by_items(Enumeration, scores, edges, chain.offsets)
    np.testing.assert_allclose(marginals, np.hstack([item.node_marginals() for item in items]), atol=1e-14)
    np.testing.assert_allclose(counts, sum(item.pair_counts() for item in items), atol=1e-14)
    assert counts.sum() == pytest.approx(2 + 0 + 3)
    np.testing.assert_array_equal(found.target_score, 0.0)


@pytest.mark.parametrize("n_states", [2, 5])
@pytest.mark.parametrize("length", [1, 2, 6])
@pytest.mark.parametrize("scale", [1.0, 100.0, 1e4])
def test_the_recursion_that_serves_as_reference(n_states, length, scale):
    scores, edges = random_scores(np.random.default_rng(length), n_states, length, scale)
    item, (log_partition, marginals, counts) = Enumeration(scores, edges), log_recursion(scores, edges)
    assert log_partition == pytest.approx(item.log_partition, rel=1e-13)
    np.testing.assert_allclose(marginals, item.node_marginals(), rtol=1e-8, atol=1e-13)
    np.testing.assert_allclose(counts, item.pair_counts(), rtol=1e-8, atol=1e-13)


@pytest.mark.parametrize("n_states", [1, 2, 3, 8, 26, 33])
def test_zero_scores_count_the_labellings(n_states, parts):
    lengths = np.array([1, 2, 7, CHUNK_POSITIONS, CHUNK_POSITIONS + 9])
    chain = Chain(offsets_of(lengths), n_states, parts)
    scores, edges = np.zeros((n_states, lengths.sum())), np.zeros((n_states, n_states))
    found = chain.infer(scores, edges)
    np.testing.assert_allclose(found.log_partition, lengths * np.log(n_states), rtol=1e-14)
    np.testing.assert_allclose(found.residual, 1 / n_states, rtol=1e-14)
    np.testing.assert_allclose(found.edge_residual, (lengths - 1).sum() / n_states**2, rtol=1e-13)
    np.testing.assert_allclose(entropies(chain, scores, edges), lengths * np.log(n_states), rtol=1e-14)


def test_one_label_has_one_path(parts):
    random = np.random.default_rng(0)
    lengths = [1, 5, 300]
    chain = Chain(offsets_of(lengths), 1, parts)
    scores, edges = random_scores(random, 1, 306, 5.0)
    found = chain.infer(scores, edges, np.zeros(306, np.int32))
    totals = [scores[0, a:b].sum() + (b - a - 1) * edges[0, 0] for a, b in pairwise(chain.offsets)]
    np.testing.assert_allclose(found.log_partition, totals, rtol=1e-13)
    np.testing.assert_allclose(found.target_score, totals, rtol=1e-13)
    np.testing.assert_array_equal(found.residual, 0.0)
    np.testing.assert_allclose(found.edge_residual, 0.0, atol=1e-12)
    np.testing.assert_allclose(entropies(chain, scores, edges), 0.0, atol=1e-10)
    best = chain.decode(scores, edges)
    np.testing.assert_array_equal(best.states, 0)
    np.testing.assert_allclose(best.score, totals, rtol=1e-13)


def test_length_one_is_a_softmax():
    scores, edges = random_scores(np.random.default_rng(1), 5, 40)
    chain = Chain(np.arange(41), 5)
    found = chain.infer(scores, edges)
    total = np.exp(scores).sum(axis=0)
    np.testing.assert_allclose(found.log_partition, np.log(total), rtol=1e-14)
    np.testing.assert_allclose(found.residual, np.exp(scores) / total, rtol=1e-14)
    np.testing.assert_array_equal(found.edge_residual, 0.0)
    np.testing.assert_array_equal(chain.decode(scores, edges).states, scores.argmax(axis=0))


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_constants_only_shift_log_z(scale):
    random = np.random.default_rng(2)
    lengths = np.array([4, 1, 300, 17])
    chain = Chain(offsets_of(lengths), 6)
    scores, edges = random_scores(random, 6, lengths.sum(), scale)
    by_position = 50 * random.normal(size=lengths.sum())
    before = chain.infer(scores, edges)
    after = chain.infer(scores + by_position, edges - 40.0)
    shift = np.add.reduceat(by_position, chain.offsets[:-1]) - 40.0 * (lengths - 1)
    np.testing.assert_allclose(after.log_partition, before.log_partition + shift, rtol=1e-12)
    np.testing.assert_allclose(after.residual, before.residual, atol=1e-9)
    np.testing.assert_allclose(after.edge_residual, before.edge_residual, atol=1e-7)
    np.testing.assert_array_equal(
        chain.decode(scores, edges).states, chain.decode(scores + by_position, edges - 40.0).states
    )


@pytest.mark.parametrize("n_states", [6, 7, 8, 9, 15, 16, 17, 26])
def test_widths_that_do_and_do_not_fill_a_register(n_states, parts):
    scores, edges = random_scores(np.random.default_rng(n_states), n_states, 49, 2.0)
    assert_like_recursion(Chain(offsets_of([1, 5, 40, 3]), n_states, parts), scores, edges)


CHUNKS = [
    [CHUNK_POSITIONS],
    [CHUNK_POSITIONS - 1],
    [CHUNK_POSITIONS + 1],
    [2 * CHUNK_POSITIONS + 3],
    [CHUNK_POSITIONS // 2, CHUNK_POSITIONS // 2],
    [CHUNK_POSITIONS - 1, 1, 1],
    [CHUNK_POSITIONS - 1, 2, 5],
    [3, CHUNK_POSITIONS, 2],
    [CHUNK_POSITIONS + 40, 5, CHUNK_POSITIONS, 7],
    [7] * 80,
    [100, 100, 50, 3, 70, 60, CHUNK_POSITIONS + 2, 1, 4, 9] * 3,  # chunks of many sizes, one after the other
]


@pytest.mark.parametrize("lengths", CHUNKS, ids=lambda lengths: "-".join(map(str, lengths[:4])))
def test_items_at_and_over_the_size_of_a_chunk(lengths, parts):
    scores, edges = random_scores(np.random.default_rng(3), 5, sum(lengths), 2.0)
    assert_like_recursion(Chain(offsets_of(lengths), 5, parts), scores, edges)


def test_an_item_does_not_feel_its_neighbours(parts):
    """Also where some of them are done in logarithms: they share the chunk's buffers."""
    random = np.random.default_rng(4)
    lengths = random.integers(1, 30, 300)
    lengths[[7, 100]] = 400
    chain = Chain(offsets_of(lengths), 4, parts)
    scores, edges = random_scores(random, 4, lengths.sum(), 2.0)
    for i in range(0, 300, 3):
        scores[:, chain.offsets[i] : chain.offsets[i + 1]] *= 1000.0
    together = chain.infer(scores, edges)
    counts = np.zeros(16)
    for i, (a, b) in enumerate(pairwise(chain.offsets)):
        alone = Chain(np.array([0, b - a]), 4, parts).infer(np.ascontiguousarray(scores[:, a:b]), edges)
        np.testing.assert_allclose(together.log_partition[i], alone.log_partition[0], rtol=1e-14, atol=1e-13)
        np.testing.assert_allclose(together.residual[:, a:b], alone.residual, rtol=1e-11, atol=1e-300)
        counts += alone.edge_residual
    np.testing.assert_allclose(together.edge_residual, counts, rtol=1e-12)


LONG = 100_000


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e4])
def test_a_hundred_thousand_positions(scale):
    chain = Chain(np.array([0, LONG]), 3)
    scores, edges = random_scores(np.random.default_rng(5), 3, LONG, scale)
    found = chain.infer(scores, edges)
    assert np.isfinite(found.log_partition).all()
    assert np.isfinite(found.residual).all()
    np.testing.assert_allclose(found.residual.sum(axis=0), 1.0, atol=1e-9)
    assert found.edge_residual.sum() == pytest.approx(LONG - 1, rel=1e-9)
    best = chain.decode(scores, edges).score[0]
    assert best <= found.log_partition[0] * (1 + 1e-14) <= best + LONG * np.log(3) * (1 + 1e-9)
    if scale == 0:
        np.testing.assert_allclose(found.log_partition, LONG * np.log(3), rtol=1e-12)


def test_entropy_of_a_long_item_with_large_scores():
    """log Z is of the order of 1e8, the entropy of 10: the difference must survive."""
    scores, edges = random_scores(np.random.default_rng(6), 3, 10_000, 1e4)
    scores[:, 5000] = [0.0, 0.0, -1e7]  # two states that only the next position tells apart
    found = entropies(Chain(np.array([0, 10_000]), 3), scores, edges)[0]
    log_partition, marginals, counts = log_recursion(scores, edges)
    expected = log_partition - (marginals * scores).sum() - (counts * edges).sum()
    assert found == pytest.approx(expected, abs=1.0)
    assert -1e-3 <= found <= 100.0


@pytest.mark.parametrize("large_nodes", [True, False])
@pytest.mark.parametrize("large_edges", [True, False])
@pytest.mark.parametrize("n_states", [2, 3, 4])
def test_scores_of_ten_thousand(n_states, large_nodes, large_edges):
    random = np.random.default_rng([7, n_states])
    lengths = [1, 2, 5, 6]
    chain = Chain(offsets_of(lengths), n_states)
    for _ in range(5):
        nodes, edges = random_scores(random, n_states, sum(lengths))
        if large_nodes:
            nodes = 1e4 * random.choice([-1.0, -0.5, 0.0, 1.0], size=nodes.shape) + nodes
        if large_edges:
            edges = 1e4 * random.choice([-1.0, 0.0, 1.0], size=edges.shape) + edges
        found = chain.infer(nodes, edges)
        items = by_items(Enumeration, nodes, edges, chain.offsets)
        np.testing.assert_allclose(
            found.log_partition, [item.log_partition for item in items], rtol=1e-14, atol=1e-10
        )
        np.testing.assert_allclose(
            found.residual, np.hstack([item.node_marginals() for item in items]), atol=1e-10
        )
        counts = sum(item.pair_counts() for item in items)
        np.testing.assert_allclose(found.edge_residual, counts.ravel(), atol=1e-10)
        # the rounding of 1e4 in the exponents, times the scores
        np.testing.assert_allclose(
            entropies(chain, nodes, edges), [item.entropy for item in items], atol=1e-5
        )


def test_far_apart_scores_leave_the_best_path():
    """The limit of low temperature: the marginals are the indicator of the Viterbi path."""
    random = np.random.default_rng(8)
    lengths = [1, 4, 60, 300]
    chain = Chain(offsets_of(lengths), 5)
    ranks = random.permuted(np.tile(np.arange(5.0), (365, 1)), axis=1)
    scores = np.ascontiguousarray(1e4 * ranks.T - 2e4)
    edges = 10.0 * random.normal(size=(5, 5))
    found, best = chain.infer(scores, edges), chain.decode(scores, edges)
    indicator = np.zeros((5, 365))
    indicator[best.states, np.arange(365)] = 1.0
    np.testing.assert_allclose(found.residual, indicator, atol=1e-8)
    np.testing.assert_allclose(found.edge_residual, chain.counts(best.states), atol=1e-7)
    np.testing.assert_allclose(found.log_partition, best.score, rtol=1e-13)


def in_logarithms(scores, edges):
    n_states, length = scores.shape
    psi, alpha, p = (np.ones((length, n_states)) for _ in range(3))
    counts = np.zeros((n_states, n_states))
    log_partition, expected = from_python(log_item)(scores, edges, NO_TABLES, 0, 1.0, psi, alpha, p, counts)
    assert not psi.any()
    assert not alpha.any()
    return log_partition, p.T, counts, expected


@pytest.mark.parametrize("distance", [-300.0, -10.0, -1e-3, 1e-3, 10.0])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("n_states", [3, 9])
def test_scaled_and_logarithmic_recursions_agree_around_the_switch(n_states, share, distance):
    """`share` of the range lies in the edges: widest + 2 edge range = switch + distance."""
    random = np.random.default_rng(9)
    total = MAX_SCORE_RANGE + distance
    scores, edges = random.random((n_states, 12)), random.random((n_states, n_states))
    for array, wanted in ((scores, (1 - share) * total), (edges, 0.5 * share * total)):
        array -= array.min(axis=0 if array is scores else None)
        array *= wanted / array.max(axis=0 if array is scores else None)
    scores += 100 * random.normal(size=12)
    assert np.ptp(scores, axis=0).max() + 2 * np.ptp(edges) == pytest.approx(total, rel=1e-12)
    found = Chain(np.array([0, 12]), n_states).infer(scores, edges)
    log_partition, marginals, counts, expected_edges = in_logarithms(scores, edges)
    assert found.log_partition[0] == pytest.approx(log_partition, rel=1e-13)
    np.testing.assert_allclose(found.residual, marginals, rtol=1e-9, atol=1e-280)
    np.testing.assert_allclose(found.edge_residual, counts.ravel(), rtol=1e-9, atol=1e-280)
    expected = (marginals * scores).sum() + expected_edges
    assert found.expected_score == pytest.approx(expected, rel=1e-11)
    assert expected_edges == pytest.approx((counts * edges).sum(), rel=1e-12)
    assert_like_recursion(Chain(np.array([0, 12]), n_states), scores, edges)


def test_items_in_logarithms_are_weighed_and_less_their_targets(parts):
    random = np.random.default_rng(10)
    lengths = [2, 4, 3]
    chain = Chain(offsets_of(lengths), 3, parts)
    scores, edges = random_scores(random, 3, 9, 2.0)
    scores[0, [1, 3, 7]] -= 1000.0  # state 0 is ruled out there; the rest stays random
    targets = random.integers(1, 3, 9).astype(np.int32)
    weights = np.array([0.5, 0.0, 3.0])
    found = chain.infer(scores, edges, targets, weights)
    items = by_items(Enumeration, scores, edges, chain.offsets)
    residual = np.hstack([c * item.node_marginals() for c, item in zip(weights, items, strict=True)])
    residual[targets, np.arange(9)] -= np.repeat(weights, lengths)
    counts = sum(c * item.pair_counts() for c, item in zip(weights, items, strict=True))
    np.testing.assert_allclose(found.residual, residual, atol=1e-11)
    np.testing.assert_allclose(
        found.edge_residual, counts.ravel() - chain.counts(targets, weights), atol=1e-11
    )
    expected = weights @ [item.expected_score for item in items]
    assert found.expected_score == pytest.approx(expected, rel=1e-11)


def test_items_without_positions(parts):
    """Prediction allows them: they have one labelling, of score 0, and leave their neighbours alone."""
    for scale in (1.0, 1e4):
        scores, edges = random_scores(np.random.default_rng(11), 3, 6, scale)
        full, gaps = Chain(np.array([0, 2, 6]), 3, parts), Chain(np.array([0, 0, 2, 2, 2, 6, 6]), 3, parts)
        expected, found = full.infer(scores, edges), gaps.infer(scores, edges)
        np.testing.assert_array_equal(found.log_partition[[1, 4]], expected.log_partition)
        np.testing.assert_array_equal(found.log_partition[[0, 2, 3, 5]], 0.0)
        np.testing.assert_array_equal(found.residual, expected.residual)
        np.testing.assert_allclose(found.edge_residual, expected.edge_residual, rtol=1e-12)
        assert not np.array(entropies(gaps, scores, edges))[[0, 2, 3, 5]].any()
        best = gaps.decode(scores, edges)
        np.testing.assert_array_equal(best.states, full.decode(scores, edges).states)
        np.testing.assert_array_equal(best.score[[0, 2, 3, 5]], 0.0)


@pytest.mark.parametrize("seed", range(10))
def test_ties_go_to_the_lower_state(seed, parts):
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 7, 6)
    chain = Chain(offsets_of(lengths), 3, parts)
    scores = random.integers(0, 2, (3, lengths.sum())).astype(float)
    edges = random.integers(0, 2, (3, 3)).astype(float)
    items = by_items(Enumeration, scores, edges, chain.offsets)
    best = chain.decode(scores, edges)
    np.testing.assert_array_equal(best.states, np.concatenate([item.best_path() for item in items]))
    np.testing.assert_array_equal(best.score, [item.scores.max() for item in items])
    np.testing.assert_array_equal(chain.decode(0 * scores, 0 * edges).states, 0)


def test_long_paths_are_best(parts):
    """Their score is what the path adds up to, and no single change improves it."""
    random = np.random.default_rng(12)
    chain = Chain(offsets_of([700, 2, CHUNK_POSITIONS]), 6, parts)
    scores, edges = random_scores(random, 6, chain.offsets[-1])
    best = chain.decode(scores, edges)
    for i, (a, b) in enumerate(pairwise(chain.offsets)):
        path = best.states[a:b]

        def score(labels, a=a, b=b):
            return scores[labels, np.arange(a, b)].sum() + edges[labels[:-1], labels[1:]].sum()

        assert best.score[i] == pytest.approx(score(path), rel=1e-13)
        for _ in range(300):
            other = path.copy()
            other[random.integers(0, path.size)] = random.integers(0, 6)
            assert score(other) <= best.score[i] + 1e-9


@pytest.mark.parametrize("scale", [1.0, 200.0])
def test_bit_identical_for_any_number_of_threads(scale):
    random = np.random.default_rng(13)
    lengths = random.integers(1, 40, 200)
    lengths[50] = 600
    chain = Chain(offsets_of(lengths), 9)
    scores, edges = random_scores(random, 9, lengths.sum(), scale)
    targets = random.integers(0, 9, lengths.sum()).astype(np.int32)
    weights = random.choice([0.0, 0.5, 1.0], 200)

    def run(n_threads):
        with Pool(n_threads) as pool:
            found = chain.infer(scores, edges, targets, weights, pool)
            best = chain.decode(scores, edges, pool)
        return [
            found.log_partition, found.target_score, np.array(found.expected_score),
            found.residual, found.edge_residual, best.states, best.score,
        ]  # fmt: skip

    first = [array.tobytes() for array in run(1)]
    for n_threads in (1, 2, 3, 2):
        assert [array.tobytes() for array in run(n_threads)] == first
    without_pool = chain.infer(scores, edges, targets, weights)
    assert without_pool.residual.tobytes() == first[3]


def test_inputs_stay_unchanged():
    random = np.random.default_rng(14)
    scores, edges = random_scores(random, 4, 30)
    targets, weights = random.integers(0, 4, 30).astype(np.int32), random.random(3)
    arrays = [scores, edges, targets, weights]
    before = [array.copy() for array in arrays]
    chain = Chain(np.array([0, 10, 12, 30]), 4)
    chain.infer(scores, edges, targets, weights)
    chain.decode(scores, edges), chain.counts(targets, weights)
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_counts_never_cross_items():
    targets = np.array([0, 1, 2, 2, 0, 1, 1, 0], np.int32)
    chain = Chain(np.array([0, 0, 2, 3, 3, 7, 8, 8]), 3)  # 01 | 2 | 2011 | 0, and three empty items
    expected = np.zeros((3, 3))
    expected[0, 1], expected[2, 0], expected[1, 1] = 2, 1, 1
    np.testing.assert_array_equal(chain.counts(targets), expected.ravel())
    weighted = chain.counts(targets, np.array([9.0, 0.5, 9, 9, 2, 9, 9]))
    np.testing.assert_array_equal(weighted, [0, 2.5, 0, 0, 2, 0, 2, 0, 0])
    np.testing.assert_array_equal(Chain(np.arange(9), 3).counts(targets), np.zeros(9))


def test_what_a_chain_says_of_itself():
    chain = Chain(np.array([0, 2, 5]), 4)
    assert (chain.n_items, chain.edge_layout.size) == (2, 16)
    other = chain.over(np.array([0, 1]))
    assert (other.n_items, other.n_states) == (1, 4)
    with pytest.raises(InputError, match="at least one state, got n_states = 0"):
        Chain(np.array([0, 2]), 0)


@pytest.mark.parametrize("lengths", [[5], [0, 5, 0], [1] * 1000, [1, 900, 1, 1], list(range(60))])
def test_parts_take_every_item_once(lengths):
    offsets = offsets_of(lengths)
    parts = cut_into_parts(offsets)
    assert (parts[0], parts[-1], parts.size) == (0, len(lengths), 33)
    assert np.all(np.diff(parts) >= 0)
    positions = np.diff(offsets[parts])
    assert positions.max() <= sum(lengths) / 32 + max(lengths)

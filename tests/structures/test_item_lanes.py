"""Eight items at a time: which items go together, and that each is inferred as if it were alone."""

from itertools import pairwise

import numpy as np
import pytest
from references import log_recursion

from crfqn.kernels.rows import LANES
from crfqn.structures.chain import MAX_LANE_NUMBERS, MAX_LANE_STATES, Chain, count_parts, split_part
from crfqn.threads import N_PARTS


def offsets_of(lengths):
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def test_every_item_with_positions_is_taken_once():
    lengths = np.array([3, 0, 5, 4, MAX_LANE_NUMBERS // 7 + 1, 4, 5, 0, 3, 2, 6])
    part = split_part(1, 10, lengths, 7, LANES)
    assert list(part.in_lanes) == [2, 6, 3, 5, 8, 9]  # from the longest on, equals in their order
    assert part.longest == 5
    assert list(part.one_by_one) == [4]


@pytest.mark.parametrize(
    ("lengths", "n_states"), [([40], 7), ([40] * (2), 7), ([90, 1, 1, 1], 7), ([9] * 20, 65)]
)  # fmt: skip
def test_lanes_that_would_be_empty_are_not_used(lengths, n_states):
    part = split_part(0, len(lengths), np.array(lengths), n_states, LANES)
    assert not part.in_lanes.size
    assert list(part.one_by_one) == list(range(len(lengths)))


def test_parts_are_worth_their_while():
    assert [count_parts(n, 7, LANES) for n in (0, 1, 127, 128, 1000, 10**6)] == [1, 1, 1, 1, 7, N_PARTS]
    assert count_parts(10, MAX_LANE_STATES + 1, LANES) == N_PARTS


@pytest.mark.parametrize("n_states", [1, 2, 3, 4, 5, 7, 8, 13, 16, 26])
def test_like_the_recursion_in_logarithms(n_states):
    """Lengths around the registers' 8, groups that are not full, weights and targets."""
    random = np.random.default_rng(n_states)
    lengths = random.permutation([1, 2, 7, 8, 9, 15, 16, 17, 3, 3, 24, 8, 1, 33, 5])
    chain, n = Chain(offsets_of(lengths), n_states), lengths.sum()
    assert chain._item_parts[0].in_lanes.size == lengths.size
    scores, edges = 3 * random.normal(size=(n_states, n)), random.normal(size=(n_states, n_states))
    targets, weights = random.integers(0, n_states, n).astype(np.int32), random.random(lengths.size)
    weights[3] = 0.0
    found = chain.infer(scores, edges, targets, weights)
    items = [log_recursion(scores[:, a:b], edges) for a, b in pairwise(chain.offsets)]
    residual = np.hstack([c * p for c, (_, p, _) in zip(weights, items, strict=True)])
    expected = (residual * scores).sum()
    residual[targets, np.arange(n)] -= np.repeat(weights, lengths)
    counts = sum(c * pairs for c, (_, _, pairs) in zip(weights, items, strict=True))
    np.testing.assert_allclose(found.log_partition, [item[0] for item in items], rtol=1e-13)
    np.testing.assert_allclose(found.residual, residual, atol=1e-12)
    np.testing.assert_allclose(
        found.edge_residual.reshape(edges.shape),
        counts - chain.counts(targets, weights).reshape(edges.shape),
        atol=1e-11,
    )
    assert found.expected_score == pytest.approx(expected + (counts * edges).sum(), rel=1e-12, abs=1e-11)


def test_lanes_do_not_touch_each_other():
    """To the last bit, whatever the neighbours in the registers are, NaN included."""
    random = np.random.default_rng(0)
    lengths = random.integers(1, 30, 40)
    chain = Chain(offsets_of(lengths), 6)
    scores, edges = random.normal(size=(6, lengths.sum())), random.normal(size=(6, 6))
    before = chain.infer(scores, edges)
    is_kept = np.arange(40) % 3 == 0
    position_kept = np.repeat(is_kept, lengths)
    for change in (10 * random.normal(size=scores.shape), np.full(scores.shape, np.nan)):
        after = chain.infer(np.where(position_kept, scores, change), edges)
        if np.isnan(
            change
        ).any():  # groups with NaN are left to the other kernel, whose sums have another order
            np.testing.assert_allclose(
                after.log_partition[is_kept], before.log_partition[is_kept], rtol=1e-13
            )
            assert np.isnan(after.log_partition[~is_kept]).all()
            continue
        np.testing.assert_array_equal(after.log_partition[is_kept], before.log_partition[is_kept])
        np.testing.assert_array_equal(after.residual[:, position_kept], before.residual[:, position_kept])


@pytest.mark.parametrize("factor", [1e4, 1e300])
def test_a_group_with_extreme_scores_is_left_to_the_other_kernel(factor):
    random = np.random.default_rng(1)
    lengths = np.full(20, 4)
    chain = Chain(offsets_of(lengths), 5)
    scores, edges = random.normal(size=(5, 80)), random.normal(size=(5, 5))
    scores[:, 12:16] *= factor
    found = chain.infer(scores, edges)
    for i, (a, b) in enumerate(pairwise(chain.offsets)):
        log_partition, marginals, _ = log_recursion(scores[:, a:b], edges)
        assert found.log_partition[i] == pytest.approx(log_partition, rel=1e-12)
        np.testing.assert_allclose(found.residual[:, a:b], marginals, atol=1e-11)
    assert found.edge_residual.sum() == pytest.approx(60, rel=1e-11)

"""Taxonomy inference against the enumeration of all labels, and at the edges of its numerics and of its tiles."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linked import from_python
from problems import LEAVES, PARENTS, SHAPES
from references import Forest

from crfqn.errors import InputError
from crfqn.kernels import taxonomy as marginals
from crfqn.kernels.taxonomy import MAX_TILE_ITEMS
from crfqn.structures.taxonomy import Taxonomy, flat
from crfqn.threads import N_PARTS, Pool

tile_width = from_python(marginals.tile_width)


@pytest.fixture(params=[N_PARTS, 1, 3], ids=lambda n: f"{n} parts")
def parts(request):
    """Small tests would have an item a part, and never two tiles in one."""
    return request.param


def taxonomy_of(shape, n_items, n_parts=N_PARTS):
    return Taxonomy(*SHAPES[shape], n_items, n_parts)


def entropies(taxonomy, scores):
    """The entropy of every item, in nats: log Z less the expected score."""
    found = taxonomy.infer(scores)
    return found.log_partition - (found.residual * scores).sum(axis=0)


def assert_everything(taxonomy, scores, targets, weights):
    """Each number that an inference returns is the enumeration's."""
    forest = Forest(taxonomy.parents, taxonomy.is_label)
    log_p = forest.log_probabilities(scores)
    p, items = np.exp(log_p), np.arange(taxonomy.n_items)
    label_scores, observed = forest.label_scores(scores), forest.index(targets)
    scale = max(1.0, np.abs(label_scores).max(initial=0.0))

    found = taxonomy.infer(scores, targets=targets, weights=weights)
    log_z = label_scores[observed, items] - log_p[observed, items]
    np.testing.assert_allclose(found.log_partition, log_z, rtol=1e-12, atol=1e-13 * scale)
    np.testing.assert_allclose(found.target_score, label_scores[observed, items], atol=1e-15 * scale * 10)
    residual = weights * (forest.marginals(scores) - forest.observed(targets))
    np.testing.assert_allclose(found.residual, residual, atol=1e-12 * scale)
    expected = weights @ (p * label_scores).sum(axis=0)
    assert found.expected_score == pytest.approx(expected, rel=1e-11, abs=1e-12 * scale)
    assert found.edge_residual.size == 0

    np.testing.assert_allclose(taxonomy.infer(scores).residual, forest.marginals(scores), atol=1e-12 * scale)
    entropy = -(p * np.where(p > 0, log_p, 0.0)).sum(axis=0)
    np.testing.assert_allclose(entropies(taxonomy, scores), entropy, atol=1e-11 * scale)

    every_node = Forest(taxonomy.parents, np.ones(taxonomy.n_states, bool))
    paths = taxonomy.path_scores(scores)
    np.testing.assert_allclose(paths, every_node.label_scores(scores), atol=1e-14 * scale)
    best = taxonomy.decode(scores)
    np.testing.assert_allclose(best.score, label_scores.max(axis=0, initial=-np.inf), atol=1e-14 * scale)
    np.testing.assert_array_equal(best.score, paths[best.states, items])
    assert taxonomy.is_label[best.states].all()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scale", [0.3, 3.0, 30.0])
def test_everything_against_enumeration(shape, scale, parts):
    random = np.random.default_rng([len(shape), int(scale)])
    n_items = 70
    taxonomy = taxonomy_of(shape, n_items, parts)
    scores = scale * random.normal(size=(taxonomy.n_states, n_items))
    targets = random.choice(np.flatnonzero(taxonomy.is_label), n_items).astype(np.int32)
    weights = random.choice([0.0, 0.5, 1.0, 7.25], n_items)
    assert_everything(taxonomy, scores, targets, weights)


@st.composite
def forests(draw):
    """Any forest of up to 12 nodes, any labels, any items with scores up to 10^4 in size."""
    n_nodes, n_items = draw(st.integers(1, 12)), draw(st.integers(0, 40))
    parents = np.array([draw(st.integers(-1, k - 1)) for k in range(n_nodes)], np.int32)
    is_label = np.array(draw(st.lists(st.booleans(), min_size=n_nodes, max_size=n_nodes)))
    is_label[draw(st.integers(0, n_nodes - 1))] = True
    random = np.random.default_rng(draw(st.integers(0, 10**6)))
    scores = draw(st.sampled_from([0.0, 1.0, 50.0, 1e4])) * random.normal(size=(n_nodes, n_items))
    targets = random.choice(np.flatnonzero(is_label), n_items).astype(np.int32)
    return Taxonomy(parents, is_label, n_items), scores, targets, random.choice([0.0, 0.1, 1.0, 3.0], n_items)


@given(forests())
@settings(max_examples=150, deadline=None)
def test_any_forest(case):
    assert_everything(*case)


@pytest.mark.parametrize("n_labels", [1, 2, 3, 7, 10, 64, 1000])
def test_zero_scores_count_the_labels_exactly(n_labels):
    """No tolerance: every term of Z is 1, and what is no label adds nothing that a sum beside a 1 can see."""
    parents = np.concatenate([[-1, 0, 0], np.arange(n_labels) % 3]).astype(np.int32)
    taxonomy = Taxonomy(parents, np.arange(parents.size) >= 3, 5)
    found = taxonomy.infer(np.zeros((parents.size, 5)))
    assert (found.log_partition == math.log(n_labels)).all()
    under = np.array([n_labels, *(np.count_nonzero(np.arange(n_labels) % 3 == k) for k in (1, 2))])
    np.testing.assert_allclose(found.residual[:3, 0], under / n_labels, rtol=1e-15, atol=1e-300)
    np.testing.assert_allclose(found.residual[3:], 1 / n_labels, rtol=1e-15)
    assert found.expected_score == 0.0
    assert taxonomy.decode(np.zeros((parents.size, 5))).states.tolist() == [3] * 5


@pytest.mark.parametrize("is_label", [[True], [False, True], [False, False, False, True]])
def test_one_label_is_certain(is_label):
    """A node of its own, and chains of only children."""
    k = len(is_label)
    taxonomy = Taxonomy(np.arange(-1, k - 1, dtype=np.int32), np.array(is_label), 9)
    scores = 100 * np.random.default_rng(k).normal(size=(k, 9))
    found = taxonomy.infer(scores, targets=np.full(9, k - 1, np.int32))
    np.testing.assert_array_equal(found.residual, 0.0)
    np.testing.assert_allclose(found.log_partition, scores.sum(axis=0), rtol=1e-13)
    np.testing.assert_allclose(found.target_score, scores.sum(axis=0), rtol=1e-13)
    np.testing.assert_allclose(entropies(taxonomy, scores), 0.0, atol=1e-10)
    np.testing.assert_array_equal(taxonomy.infer(scores).residual, 1.0)


def test_a_node_that_leads_to_no_label_is_never_true():
    taxonomy = Taxonomy(np.array([-1, -1, 0, 1], np.int32), np.array([False, False, True, False]), 3)
    scores = np.array([[0.0, 1, 2], [500.0, 0, 1e4], [0.0, 0, 0], [1e4, 1, 1]])
    found = taxonomy.infer(scores)
    np.testing.assert_allclose(found.residual, [[1] * 3, [0] * 3, [1] * 3, [0] * 3], atol=1e-300)
    np.testing.assert_array_equal(found.log_partition, scores[0])
    assert taxonomy.decode(scores).states.tolist() == [2, 2, 2]


def test_a_node_is_as_likely_as_what_is_under_it():
    taxonomy = taxonomy_of("labels at inner nodes", 50)
    scores = 3 * np.random.default_rng(0).normal(size=(10, 50))
    p = taxonomy.infer(scores).residual
    stopped = np.exp(taxonomy.path_scores(scores) - taxonomy.infer(scores).log_partition)
    for node, is_label in enumerate(taxonomy.is_label):
        below = p[taxonomy.parents == node].sum(axis=0)
        np.testing.assert_allclose(p[node], below + is_label * stopped[node], rtol=1e-13)
    np.testing.assert_allclose(p[taxonomy.parents < 0].sum(axis=0), 1.0, rtol=1e-14)


def test_residuals_of_an_item_sum_to_nothing_over_the_tops():
    taxonomy = taxonomy_of("forest", 60)
    random = np.random.default_rng(1)
    targets = random.choice(np.flatnonzero(LEAVES), 60).astype(np.int32)
    found = taxonomy.infer(random.normal(size=(10, 60)), targets=targets)
    np.testing.assert_allclose(found.residual[PARENTS < 0].sum(axis=0), 0.0, atol=1e-14)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_scores_of_ten_thousand(sign):
    """Finite, and right: all shifted, one standing out, and differences that vanish beside the shift."""
    taxonomy = taxonomy_of("forest", 5)
    leaves = np.flatnonzero(LEAVES)
    scores = np.zeros((10, 5))
    scores[:, 0] = sign * 1e4
    scores[leaves[1], 1] = sign * 1e4
    scores[PARENTS < 0, 2] = sign * 1e4
    scores[:, 3] = sign * 1e4 * np.arange(10)
    scores[:, 4] = sign * 1e4 * (-1.0) ** np.arange(10)
    found = taxonomy.infer(scores)
    assert np.isfinite(found.residual).all()
    assert np.isfinite([found.expected_score, *found.log_partition]).all()
    forest = Forest(PARENTS, LEAVES)
    np.testing.assert_allclose(found.residual, forest.marginals(scores), atol=1e-12)
    assert found.log_partition[2] == sign * 1e4 + math.log(leaves.size)
    # One label of five: certain where it stands above the others by 10^4, out of the question where below.
    assert found.log_partition[1] == (1e4 if sign > 0 else math.log(leaves.size - 1))
    np.testing.assert_allclose(entropies(taxonomy, scores)[2], math.log(leaves.size), atol=1e-10)


def test_a_constant_at_a_top_only_shifts_what_is_under_it(parts):
    random = np.random.default_rng(2)
    parents = np.concatenate([[-1], np.where(PARENTS < 0, 0, PARENTS + 1)]).astype(np.int32)
    rooted = Taxonomy(parents, np.concatenate([[False], LEAVES]), 30, parts)
    without = taxonomy_of("forest", 30, parts)
    scores, shift = random.normal(size=(10, 30)), 1000 * random.normal(size=30)
    found, expected = rooted.infer(np.vstack([shift, scores])), without.infer(scores)
    np.testing.assert_allclose(found.log_partition, expected.log_partition + shift, rtol=1e-13)
    np.testing.assert_allclose(found.residual[1:], expected.residual, atol=1e-12)
    np.testing.assert_allclose(found.residual[0], 1.0, rtol=1e-14)


def test_ties_go_to_the_lower_node():
    random = np.random.default_rng(3)
    for shape, (parents, is_label) in SHAPES.items():
        taxonomy = taxonomy_of(shape, 300)
        scores = random.integers(0, 2, (parents.size, 300)).astype(float)
        forest = Forest(parents, is_label)
        first = forest.labels[forest.label_scores(scores).argmax(axis=0)]  # the first of the largest
        best = taxonomy.decode(scores)
        np.testing.assert_array_equal(best.states, first)
        np.testing.assert_array_equal(best.score, forest.label_scores(scores).max(axis=0))
        assert best.states.dtype == np.int32


def test_decoding_of_scores_without_bound():
    taxonomy = flat(3, 2)
    best = taxonomy.decode(np.array([[-np.inf, 0.0], [-np.inf, -np.inf], [-np.inf, 1.0]]))
    assert best.states.tolist() == [0, 2]
    assert best.score.tolist() == [-np.inf, 1.0]


class TestTiles:
    """More items than a tile, in every part; parts without items; and tiles as narrow as they get."""

    def test_widths_are_whole_registers(self):
        assert tile_width(1) == tile_width(10) == MAX_TILE_ITEMS == 256
        assert [tile_width(k) for k in (193, 500, 2387, 100_000)] == [256, 192, 40, 8]

    @pytest.mark.parametrize(
        "n_items",
        [0, 1, 7, 8, 31, 33, MAX_TILE_ITEMS - 1, MAX_TILE_ITEMS, MAX_TILE_ITEMS + 1, 2 * MAX_TILE_ITEMS + 9],
    )
    @pytest.mark.parametrize("n_parts", [1, 2, N_PARTS])
    def test_any_number_of_items(self, n_items, n_parts):
        random = np.random.default_rng(n_items)
        scores = 2 * random.normal(size=(10, n_items))
        targets = random.choice(np.flatnonzero(LEAVES), n_items).astype(np.int32)
        assert_everything(taxonomy_of("forest", n_items, n_parts), scores, targets, random.random(n_items))

    def test_more_items_than_a_tile_in_every_part(self):
        random = np.random.default_rng(4)
        n_items = N_PARTS * MAX_TILE_ITEMS + 77
        targets = random.choice(np.flatnonzero(LEAVES), n_items).astype(np.int32)
        assert_everything(
            taxonomy_of("forest", n_items), random.normal(size=(10, n_items)), targets, np.ones(n_items)
        )

    def test_more_nodes_than_fit_into_a_tile(self):
        random = np.random.default_rng(5)
        n_nodes, n_items = 7000, N_PARTS * tile_width(7000) + 5
        parents = np.array([-1, *random.integers(-1, np.arange(1, n_nodes) // 8 + 1)], np.int32)
        is_label = np.isin(np.arange(n_nodes), parents, invert=True)
        taxonomy = Taxonomy(parents, is_label, n_items)
        scores = random.normal(size=(n_nodes, n_items))
        found, paths = taxonomy.infer(scores), taxonomy.path_scores(scores)
        np.testing.assert_allclose(
            found.log_partition, np.log(np.exp(paths[is_label]).sum(axis=0)), rtol=1e-13
        )
        np.testing.assert_allclose(
            found.residual[is_label], np.exp(paths[is_label] - found.log_partition), rtol=1e-11
        )
        top = found.residual[parents < 0].sum(axis=0)
        np.testing.assert_allclose(top, 1.0, rtol=1e-12)
        inner = int(parents.max())
        below = found.residual[parents == inner].sum(axis=0)
        np.testing.assert_allclose(found.residual[inner], below, rtol=1e-12)

    def test_an_item_does_not_feel_its_neighbours(self):
        random = np.random.default_rng(6)
        scores = random.normal(size=(10, 400)) * random.choice([1.0, 1e4], 400)
        together = taxonomy_of("forest", 400).infer(scores)
        alone = taxonomy_of("forest", 1)
        for t in range(0, 400, 7):
            found = alone.infer(np.ascontiguousarray(scores[:, t : t + 1]))
            np.testing.assert_array_equal(found.residual[:, 0], together.residual[:, t])
            assert found.log_partition[0] == together.log_partition[t]


@pytest.mark.parametrize("n_items", [5, 1000])
def test_bit_identical_for_any_number_of_threads(n_items):
    random = np.random.default_rng(7)
    taxonomy = taxonomy_of("labels at inner nodes", n_items)
    scores = 5 * random.normal(size=(10, n_items))
    targets = random.choice(np.flatnonzero(taxonomy.is_label), n_items).astype(np.int32)
    weights = random.choice([0.0, 0.3, 1.0], n_items)

    def run(n_threads):
        with Pool(n_threads) as pool:
            found = taxonomy.infer(scores, targets=targets, weights=weights, pool=pool)
            best = taxonomy.decode(scores, pool=pool)
            return [
                found.log_partition, found.target_score, np.array(found.expected_score), found.residual,
                best.states, best.score, taxonomy.path_scores(scores, pool), taxonomy.infer(scores, pool=pool).residual,
            ]  # fmt: skip

    first = [array.tobytes() for array in run(1)]
    for n_threads in (2, 7, 1):
        assert [array.tobytes() for array in run(n_threads)] == first
    assert taxonomy.infer(scores, targets=targets, weights=weights).residual.tobytes() == first[3]


def test_inputs_stay_unchanged_and_need_no_order_in_memory():
    random = np.random.default_rng(8)
    scores = random.normal(size=(10, 60))
    targets, weights = random.choice(np.flatnonzero(LEAVES), 60).astype(np.int32), random.random(60)
    arrays = [scores, targets, weights, PARENTS, LEAVES]
    before = [array.copy() for array in arrays]
    taxonomy = taxonomy_of("forest", 60)
    found = taxonomy.infer(scores, targets=targets, weights=weights)
    taxonomy.decode(scores), taxonomy.path_scores(scores)
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)
    fortran = np.asfortranarray(scores)
    again = taxonomy.infer(fortran, targets=targets, weights=weights)
    np.testing.assert_array_equal(again.residual, found.residual)
    np.testing.assert_array_equal(taxonomy.path_scores(fortran), taxonomy.path_scores(scores))
    strided = np.repeat(scores, 2, axis=1)[:, ::2]
    np.testing.assert_array_equal(taxonomy.decode(strided).states, taxonomy.decode(scores).states)


class TestWhatATaxonomySaysOfItself:
    def test_sizes(self):
        taxonomy = taxonomy_of("forest", 6)
        assert (taxonomy.n_states, taxonomy.edge_layout.size, taxonomy.n_items) == (10, 0, 6)
        other = taxonomy.over(np.array([0, 1, 2, 3]))
        assert (other.n_items, other.n_states) == (3, 10)
        assert other.parents is taxonomy.parents
        assert taxonomy.counts(np.array([4], np.int32)).size == 0

    @pytest.mark.parametrize("shape", SHAPES)
    def test_ancestors_are_the_paths_upwards(self, shape):
        taxonomy = taxonomy_of(shape, 1)
        ancestors = taxonomy.ancestors
        every_node = Forest(taxonomy.parents, np.ones(taxonomy.n_states, bool))
        for node in range(taxonomy.n_states):
            found = ancestors.with_state(node)
            assert found[0] == node
            assert sorted(found) == np.flatnonzero(every_node.is_on_path[node]).tolist()
            assert taxonomy.parents[found[:-1]].tolist() == found[1:].tolist()
        assert ancestors.indptr[-1] == ancestors.states.size == every_node.is_on_path.sum()

    def test_flat_is_a_forest_of_single_nodes(self):
        taxonomy = flat(4, 7)
        assert taxonomy.parents.tolist() == [-1] * 4
        assert taxonomy.is_label.all()
        assert (taxonomy.n_items, taxonomy.parents.dtype) == (7, np.int32)
        assert np.diff(taxonomy.ancestors.indptr).tolist() == [1] * 4
        with pytest.raises(
            InputError, match=r"^a flat structure needs at least one class, got n_classes = 0$"
        ):
            flat(0, 7)

    @pytest.mark.parametrize(
        ("parents", "is_label", "message"),
        [
            ([-1, 1], [True] * 2, r"every parent before its children, but node 1 has parent 1$"),
            ([-1, 2, 1], [True] * 3, r"but node 1 has parent 2$"),
            ([0, -1], [True] * 2, r"but node 0 has parent 0$"),
            ([-1, 0, -2], [True] * 3, r"but node 2 has parent -2$"),
            ([-1, 0], [False] * 2, r"^a taxonomy needs at least one node that is a label, got none$"),
            ([], [], r"at least one node, got shapes \(0,\) and \(0,\)$"),
            ([-1, 0], [True] * 3, r"got shapes \(2,\) and \(3,\)$"),
            ([[-1, 0]], [[True, True]], r"got shapes \(1, 2\) and \(1, 2\)$"),
        ],
    )
    def test_bad_forests(self, parents, is_label, message):
        with pytest.raises(InputError, match=message):
            Taxonomy(np.array(parents, np.int32), np.array(is_label, bool), 3)

    def test_targets_that_are_no_labels(self):
        taxonomy = taxonomy_of("forest", 4)
        taxonomy.check_targets(np.array([2, 7, 9, 2], np.int32))
        with pytest.raises(InputError, match=r"^expected labels as targets, but item 2 has node 5$"):
            taxonomy.check_targets(np.array([2, 7, 5, 0], np.int32))

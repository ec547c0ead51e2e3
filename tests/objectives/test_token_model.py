"""The token-wise model, dense and sparse: the Hessian of items of one position, by enumeration and differences."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from problems import (
    SHAPES,
    TreeProblem,
    curvature_at,
    make_likelihood,
    make_tree_problem,
    objective_of,
    point_at,
)
from references import BigramProblem, finite_differences, random_problem

from crfqn import ChainCRF
from crfqn.data.features import FeatureStore
from crfqn.kernels.curvature import MIN_MARGINAL
from crfqn.objectives.curvature import DROP_TOLERANCE, dense_model, sparse_model, token_model
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.losses.likelihood import Likelihood
from crfqn.objectives.marginals import EdgeModel, Marginals, edge_curvature, sample_positions
from crfqn.objectives.objective import build_objective
from crfqn.structures.chain import Chain
from crfqn.structures.contexts import Contexts
from crfqn.structures.taxonomy import Taxonomy

EVERY = 10**15  # so many positions asked for that each is taken
WEIGHTS = (1.0, 0.0, 2.5, 0.3, 1.0, 4.0)


def parts_of(point, coords):
    """What a model is made from: marginals, the coordinates taken apart, the exact diagonal."""
    return Marginals(point.whole), point.objective.split(coords), curvature_at(point).diagonal(coords)


def dense_form(point, coords, n_sampled):
    return dense_model(*parts_of(point, coords), n_sampled)


def sparse_form(point, coords, n_sampled):
    return sparse_model(*parts_of(point, coords), n_sampled)


FORMS = {"dense": dense_form, "sparse": sparse_form}


@pytest.fixture(params=FORMS)
def form(request):
    """Builds the model in one of the two forms; the result as an array, after what holds for every model."""

    def build(point, coords, n_sampled=EVERY):
        found = FORMS[request.param](point, coords, n_sampled)
        assert found.dtype == np.float32
        if request.param == "sparse":
            assert (found.indices.dtype, found.indptr.dtype) == (np.int32, np.int32)  # what the descent takes
            found = found.toarray()
        np.testing.assert_allclose(
            np.diag(found), curvature_at(point).diagonal(coords), rtol=1e-6, atol=1e-12
        )
        np.testing.assert_allclose(found, found.T, rtol=1e-5, atol=1e-6)
        return found.astype(float)

    build.least = DROP_TOLERANCE if request.param == "sparse" else 0.0
    return build


def assert_close(form, found, expected, rounding=3e-6, scale=1.0):
    """Equal but for float32, and for what a sparse model leaves out: entries that are small beside the diagonal.

    `scale`: what the model has been multiplied by since.
    """
    root = np.sqrt(np.maximum(np.diag(expected), 0.0))
    bound = root * root[:, None]  # of an entry's size: the model is positive semidefinite
    allowed = rounding * (1.0 + bound) + form.least * scale * bound
    assert (np.abs(found - expected) <= allowed).all()


def random_weights(problem, seed=0, scale=1.0):
    random = np.random.default_rng(seed)
    return scale * random.normal(size=problem.n_coords) * (random.random(problem.n_coords) < 0.7)


def scales(model, diagonal):
    """D D' with D model D of the given diagonal; 0 where the model has nothing."""
    seen = np.diag(model)
    root = np.sqrt(np.divide(diagonal, seen, out=np.zeros_like(seen), where=seen > 0))
    return root * root[:, None]


def in_units(model):
    """The model in the units of its diagonal."""
    root = np.sqrt(np.diag(model))
    root = np.where(root > 0, root, 1.0)
    return model / root / root[:, None]


def assert_sample(form, found, sampled, whole):
    """The sample's model, scaled to the diagonal of the whole one."""
    scale = scales(sampled, np.diag(whole))
    expected = sampled * scale
    np.fill_diagonal(expected, np.diag(whole))
    assert_close(form, found, expected, 1e-4, scale)


class TestTaxonomies:
    """Items of one position: the model is the exact Hessian, ancestors and descendants included."""

    @pytest.fixture(params=SHAPES)
    def shape(self, request):
        return request.param

    @pytest.mark.parametrize("is_binary", [True, False], ids=["binary", "real"])
    @pytest.mark.parametrize("has_weights", [False, True], ids=["unweighted", "weighted"])
    def test_it_is_the_hessian(self, form, shape, is_binary, has_weights):
        problem = make_tree_problem(shape, is_binary=is_binary, has_weights=has_weights)
        w = random_weights(problem)
        differences = finite_differences(problem.gradient, w)
        np.testing.assert_allclose(problem.hessian(w), differences, atol=1e-7)
        assert_close(form, form(point_at(objective_of(problem), w), np.arange(w.size)), differences)

    def test_it_is_how_the_librarys_own_gradient_changes(self, form):
        problem = make_tree_problem("labels at inner nodes", has_weights=True)
        w, everything = random_weights(problem), np.arange(problem.n_coords)
        objective = problem.objective()
        differences = finite_differences(lambda v: objective.at(everything, v).gradient(everything), w)
        assert_close(form, form(objective.at(everything, w), everything), differences)

    @pytest.mark.parametrize("seed", range(4))
    def test_of_some_coordinates(self, form, shape, seed):
        """Nodes without their ancestors, ancestors without what is under them, and states of one coordinate."""
        problem = make_tree_problem(shape, 2, has_weights=True)
        random = np.random.default_rng(seed)
        coords = np.sort(random.choice(problem.n_coords, random.integers(1, 15), replace=False))
        w = random_weights(problem)
        found = form(point_at(objective_of(problem), w), coords)
        assert_close(form, found, problem.hessian(w)[np.ix_(coords, coords)])

    def test_of_no_coordinates(self, form):
        problem = make_tree_problem()
        nothing = np.empty(0, np.int64)
        assert form(point_at(objective_of(problem), random_weights(problem)), nothing).shape == (0, 0)

    @pytest.mark.parametrize("n_sampled", [1, 4, 20])
    def test_a_sample_keeps_the_diagonal(self, form, shape, n_sampled):
        problem = make_tree_problem(shape, 3, has_weights=True)
        w, everything = random_weights(problem, scale=0.5), np.arange(problem.n_coords)
        point = point_at(objective_of(problem), w)
        p = problem.marginals(w)
        sampled, stands_for = sample_positions((p * (1 - p)).sum(axis=0), problem.item_weights, n_sampled)
        assert 0 < sampled.size < problem.n_items
        c = np.zeros(problem.n_items)
        c[sampled] = stands_for
        found = form(point, everything, n_sampled)
        assert_sample(form, found, problem.hessian(w, c), problem.hessian(w))

    def test_it_has_no_negative_curvature(self, form):
        problem = make_tree_problem("labels at inner nodes", 4, has_weights=True)
        for n_sampled in (3, 15, EVERY):
            found = form(
                point_at(objective_of(problem), random_weights(problem)),
                np.arange(problem.n_coords),
                n_sampled,
            )
            assert np.linalg.eigvalsh(in_units(found)).min() > -problem.n_coords * form.least - 1e-5

    def test_the_relation_of_a_node_to_what_is_above_it_matters(self, form):
        """The tests above can tell: without the pairs of a node and its ancestor, another matrix comes out."""
        problem = make_tree_problem()
        w = random_weights(problem)
        p = problem.marginals(w)
        without = sum(np.kron(covariance(p[:, t]), np.outer(x, x)) for t, x in enumerate(problem.x))
        found = form(point_at(objective_of(problem), w), np.arange(w.size))
        assert np.abs(found - without).max() > 0.1


@pytest.fixture(params=["binary", "real"])
def is_binary(request):
    return request.param == "binary"


@pytest.fixture(params=[None, WEIGHTS], ids=["unweighted", "weighted"])
def problem(request, is_binary):
    return random_problem(0, is_binary=is_binary, item_weights=request.param)


def chain_model(problem, w, c):
    """As if positions were independent, position t standing for c[t]: what it decides alone, and with the next one."""
    p, (n, k) = problem.marginals(w), (problem.targets.size, problem.n_states)
    model = np.zeros((w.size, w.size))
    ends, starts = set(problem.offsets[1:] - 1), set(problem.offsets[:-1])
    for t in range(n):
        before = np.zeros(k) if t in starts else p[:, t - 1]
        after = np.zeros(k) if t in ends else p[:, t + 1]
        # Column j: how often each feature is counted, on average over the neighbours, if t has the label j.
        nodes = np.kron(np.eye(k), problem.x[t][:, None])
        edges = np.kron(np.eye(k), after[:, None]) + np.kron(before[:, None], np.eye(k))
        counts = np.vstack([nodes, edges])
        model += c[t] * counts @ covariance(p[:, t]) @ counts.T
        if t not in ends:
            both = np.kron(covariance(p[:, t]), covariance(p[:, t + 1]))
            model[problem.n_node_coords :, problem.n_node_coords :] += c[t] * both
    return model


def covariance(p):
    """Of the indicators of the states."""
    return np.diag(p) - np.outer(p, p)


def independent_covariance(problem, w):
    """Of the counts of all features under the product of the marginals, by enumeration of every labelling."""
    p, k = problem.marginals(w), problem.n_states
    total = np.zeros((w.size, w.size))
    for first, last, weight in zip(problem.offsets, problem.offsets[1:], problem.item_weights, strict=False):
        paths = np.array(list(itertools.product(range(k), repeat=last - first)))
        probability = p[paths, np.arange(first, last)].prod(axis=1)
        counts = np.zeros((len(paths), w.size))
        for row, path in zip(counts, paths, strict=True):
            for t, label in enumerate(path):
                row[label * problem.x.shape[1] + np.arange(problem.x.shape[1])] += problem.x[first + t]
            np.add.at(row, problem.n_node_coords + path[:-1] * k + path[1:], 1.0)
        centred = counts - probability @ counts
        total += weight * (centred.T * probability) @ centred
    return total


class TestChains:
    @pytest.mark.parametrize(
        "coords",
        [np.arange(21), np.array([1, 3, 4, 11]), np.array([0, 13, 14]), np.array([13, 14]), np.array([5])],
        ids=str,
    )
    def test_all_positions(self, form, problem, coords):
        w = random_weights(problem)
        expected = chain_model(problem, w, problem.position_weights)
        found = form(point_at(objective_of(problem), w), coords)
        assert_close(form, found, expected[np.ix_(coords, coords)])

    def test_it_is_the_covariance_under_independent_positions(self, problem):
        """The reference above against its meaning; hence the model is positive semidefinite."""
        w = random_weights(problem)
        expected = independent_covariance(problem, w)
        np.testing.assert_allclose(chain_model(problem, w, problem.position_weights), expected, atol=1e-12)

    def test_bigram_features_among_themselves(self):
        """Against the covariance of the counts of transitions under the product of the marginals."""
        given = random_problem(3, is_binary=True, item_weights=WEIGHTS)
        z = (np.random.default_rng(0).random((given.targets.size, 2)) < 0.6).astype(float)
        problem = BigramProblem(**vars(given), z=z)
        chain = Chain(problem.offsets, 3, contexts=Contexts.from_matrix(sp.csr_array(z)))
        features = SparseMap(FeatureStore.from_matrix(problem.x, problem.offsets))
        objective = build_objective(features, Likelihood(chain, problem.targets), problem.item_weights)
        w = np.random.default_rng(1).normal(size=problem.n_coords)
        marginals, n_pairs = Marginals(objective.at(np.arange(w.size), w).whole), 27
        sampled = np.flatnonzero(problem.position_weights)
        weights = problem.position_weights[sampled]
        found = EdgeModel(marginals, np.arange(n_pairs), sampled, weights).with_edges()
        p, expected = problem.marginals(w), np.zeros((n_pairs, n_pairs))
        for first, last, c in zip(problem.offsets, problem.offsets[1:], problem.item_weights, strict=False):
            paths = np.array(list(itertools.product(range(3), repeat=last - first)))
            probability = p[paths, np.arange(first, last)].prod(axis=1)
            counts = np.zeros((len(paths), 3, 9))
            for t in range(first + 1, last):
                pair = 3 * paths[:, t - first - 1] + paths[:, t - first]
                counts[np.arange(len(paths)), :, pair] += problem.of_transitions[t]
            centred = counts.reshape(len(paths), -1)
            centred = centred - probability @ centred
            expected += c * (centred.T * probability) @ centred
        np.testing.assert_allclose(found, expected, atol=3e-4)
        variances = edge_curvature(marginals, np.arange(n_pairs))
        np.testing.assert_allclose(variances[:9], np.diagonal(expected)[:9], atol=1e-12)

    @pytest.mark.parametrize("n_sampled", [1, 3, 6, 10])
    def test_a_sample_keeps_the_diagonal(self, form, problem, n_sampled):
        w = random_weights(problem)
        p = problem.marginals(w)
        sampled, stands_for = sample_positions((p * (1 - p)).sum(axis=0), problem.position_weights, n_sampled)
        assert 0 < sampled.size < problem.targets.size
        c = np.zeros(problem.targets.size)
        c[sampled] = stands_for
        found = form(point_at(objective_of(problem), w), np.arange(w.size), n_sampled)
        whole = chain_model(problem, w, problem.position_weights)
        assert_sample(form, found, chain_model(problem, w, c), whole)

    @pytest.mark.parametrize("item_weights", [None, (1.0, 0.0, 2.5, 0.3, 1.0, 4.0, 1.0)])
    def test_of_single_positions_it_is_the_hessian(self, form, item_weights):
        """For items of length 1 there is no covariance between positions to ignore."""
        problem = random_problem(7, lengths=(1,) * 7, item_weights=item_weights)
        w = random_weights(problem)
        hessian = finite_differences(problem.gradient, w)
        assert_close(form, form(point_at(objective_of(problem), w), np.arange(w.size)), hessian)

    def test_it_is_not_the_hessian_of_longer_items(self, form):
        """The test above can tell the difference."""
        problem = random_problem(7)
        w = random_weights(problem)
        hessian = finite_differences(problem.gradient, w)
        assert np.abs(form(point_at(objective_of(problem), w), np.arange(w.size)) - hessian).max() > 0.01

    def test_items_without_weight_leave_nothing(self, form):
        problem = random_problem(11, item_weights=(0.0,) * 6)
        point = point_at(objective_of(problem), random_weights(problem))
        for n_sampled in (10, EVERY):
            np.testing.assert_array_equal(form(point, np.arange(15), n_sampled), 0.0)


class TestDrawing:
    @pytest.mark.parametrize("n_sampled", [1, 10, 100, 300])
    def test_positions_of_large_variance_are_drawn_more_often_and_count_less(self, n_sampled):
        random = np.random.default_rng(10)
        p = random.dirichlet(np.full(4, 0.3), 1000).T
        weights = random.choice([0.5, 1.0, 3.0], 1000)
        marginal_variance = (p * (1 - p)).sum(axis=0)
        sampled, stands_for = sample_positions(marginal_variance, weights, n_sampled)
        assert np.all(np.diff(sampled) > 0)
        assert 0.6 * n_sampled <= sampled.size <= n_sampled + 1
        share = weights[sampled] / stands_for  # the probability of being drawn
        assert 0 < share.min() <= share.max() <= 1
        by_size = np.argsort((weights * np.sqrt(marginal_variance))[sampled])
        assert np.all(np.diff(share[by_size]) >= -1e-12)
        if n_sampled >= 100:
            assert marginal_variance[sampled].mean() > 1.1 * marginal_variance.mean()
            estimate = stands_for @ marginal_variance[sampled]
            assert estimate == pytest.approx(weights @ marginal_variance, rel=0.1)

    def test_all_of_them_count_by_their_weight(self):
        weights = np.array([1.0, 0.0, 2.0, 0.5])
        sampled, stands_for = sample_positions(np.zeros(4), weights, 4)
        assert (sampled.tolist(), stands_for.tolist()) == ([0, 2, 3], [1.0, 2.0, 0.5])

    def test_nothing_is_drawn_where_all_is_decided(self):
        sampled, stands_for = sample_positions(np.zeros(3), np.ones(3), 2)
        assert sampled.size == stands_for.size == 0

    def test_rounding_below_zero_is_decided(self):
        sampled, _ = sample_positions(np.array([-1e-17, 0.25, 0.0, 0.25]), np.ones(4), 2)
        assert sampled.tolist() == [1, 3]


def text_problem(n_items=3000, n_features=4000, n_words=6, n_states=30, seed=0, n_threads=1):
    """Few words a document, few documents a word, over a forest: coordinates that hardly ever meet."""
    random = np.random.default_rng(seed)
    words = np.minimum(random.zipf(1.3, (n_items, n_words)) - 1, n_features - 1)
    x = sp.csr_array(
        (np.ones(words.size), words.ravel(), np.arange(n_items + 1) * n_words), (n_items, n_features)
    )
    x.sum_duplicates()
    x.data = random.uniform(0.5, 2.0, x.nnz)
    parents = np.array([-1, *(random.integers(-1, k) for k in range(1, n_states))], np.int32)
    is_label = np.isin(np.arange(n_states), parents, invert=True)
    targets = random.choice(np.flatnonzero(is_label), n_items).astype(np.int32)
    store = FeatureStore.from_matrix(x, np.arange(n_items + 1))
    objective = make_likelihood(store, Taxonomy(parents, is_label, n_items), targets, n_threads=n_threads)
    coords = np.unique(random.integers(0, objective.n_coords, 900))
    coords = np.union1d(coords, np.arange(0, objective.n_coords, n_features // 5))  # frequent words, too
    point = objective.at(coords[::3], random.normal(size=coords[::3].size))
    return point, coords, x.tocsc()


def by_definition(point, coords, x):
    """sum_t x_a x_b (P(a and b) - p_a p_b), for every pair of coordinates."""
    owner = point.objective.whole
    states, features = np.divmod(coords, owner.map.store.n_features)
    p = owner.loss.structure.infer(point.whole.scores).residual
    ancestors = owner.loss.structure.ancestors
    columns = x[:, features].toarray().T
    is_above = np.zeros((p.shape[0],) * 2, bool)
    for k in range(p.shape[0]):
        is_above[k, ancestors.with_state(k)] = True
    with_p = columns * p[states]
    joint = with_p @ columns.T  # P(a) x_a x_b: what a and b share where b is above a
    a_below = is_above[np.ix_(states, states)]
    return np.where(a_below, joint, 0.0) + np.where(a_below.T & ~a_below, joint.T, 0.0) - with_p @ with_p.T


@pytest.fixture(scope="module")
def text():
    point, coords, x = text_problem()
    return point, coords, by_definition(point, coords, x)


class TestLargerModels:
    def test_of_a_text(self, form, text):
        point, coords, expected = text
        assert coords.size > 3 * 256  # tiles of the dense form
        assert_close(form, form(point, coords), expected, rounding=3e-5)  # sums of 1,000 terms near 1

    def test_blocks_of_rows_do_not_matter(self, text):
        point, coords, _ = text
        whole = sparse_form(point, coords, EVERY)
        for numbers in (1, 7 * coords.size, 100 * coords.size):
            found = sparse_model(*parts_of(point, coords), EVERY, block_pairs=numbers)
            assert (found != whole).nnz == 0

    def test_entries_are_left_out_where_they_are_small(self, text):
        point, coords, expected = text
        found = sparse_form(point, coords, EVERY)
        stored = sp.csr_array((np.ones(found.nnz), found.indices, found.indptr), found.shape).toarray() > 0
        share = in_units(expected)
        assert stored[np.abs(share) > DROP_TOLERANCE + MIN_MARGINAL].all()
        np.fill_diagonal(share, DROP_TOLERANCE)  # it is stored, whatever it is
        assert not stored[np.abs(share) < DROP_TOLERANCE - MIN_MARGINAL].any()
        assert 0.001 < stored.mean() < 0.2  # most pairs never meet
        assert np.count_nonzero((share != 0) & ~stored) > 100

    @pytest.mark.parametrize("name", FORMS)
    @pytest.mark.parametrize("n_sampled", [200, EVERY])
    def test_bit_identical_for_any_number_of_threads(self, name, n_sampled):
        def run(n_threads):
            point, coords, _ = text_problem(n_items=600, n_threads=n_threads)
            found = FORMS[name](point, coords[::2], n_sampled)
            return (found if name == "dense" else found.toarray()).tobytes()

        assert len({run(n) for n in (1, 2, 7)}) == 1

    def test_both_forms_of_a_sample_are_one(self, text):
        point, coords, _ = text
        dense, sparse = dense_form(point, coords, 500), sparse_form(point, coords, 500)
        lost = np.abs(in_units(dense) - in_units(sparse.toarray()))
        assert lost.max() < 10 * DROP_TOLERANCE  # small entries leave before the scaling to the diagonal


class TestWhichForm:
    """The cheaper one: products of all pairs at some positions, or the pairs that meet."""

    MEET_RARELY, MEET_ALWAYS = np.eye(40), np.ones((40, 40))

    def point(self, x, n_states=3):
        problem = TreeProblem(x, np.full(n_states, -1, np.int32), np.ones(n_states, bool),
                              np.arange(len(x), dtype=np.int32) % n_states, np.ones(len(x)))  # fmt: skip
        return point_at(objective_of(problem), np.zeros(problem.n_coords)), np.arange(problem.n_coords)

    def model(self, point, coords, n_sampled, max_dense, **costs):
        return token_model(*parts_of(point, coords), n_sampled, max_dense, **costs)

    def test_active_coordinates_are_counted(self):
        point, coords, x = text_problem(n_items=200)
        found = point.objective.whole.map.count_active(point.objective.split(coords))
        features = coords % point.objective.whole.map.store.n_features
        expected = (x != 0).astype(int) @ np.bincount(features, minlength=x.shape[1])
        np.testing.assert_array_equal(found, expected)

    def test_few_meetings_are_summed_up(self, monkeypatch):
        point, coords = self.point(self.MEET_RARELY)
        assert isinstance(
            curvature_at(point).matrix(coords, 1500, 6000), np.ndarray
        )  # nothing to compile for
        monkeypatch.setattr("crfqn.objectives.curvature.SMALL_PRODUCT", 0)
        assert sp.issparse(curvature_at(point).matrix(coords, 1500, 6000))

    def test_many_meetings_are_products(self):
        point, coords = self.point(self.MEET_ALWAYS)
        assert isinstance(self.model(point, coords, 1500, 6000, pair_multiplications=1.1), np.ndarray)

    def test_large_models_are_sparse_or_none(self):
        for x in (self.MEET_RARELY, self.MEET_ALWAYS):
            point, coords = self.point(x)
            assert sp.issparse(curvature_at(point).matrix(coords, 1500, coords.size - 1))
        assert self.model(point, coords, 1500, coords.size - 1, max_pairs=1000) is None
        assert isinstance(self.model(point, coords, 1500, coords.size, max_pairs=1000), np.ndarray)
        point, coords = self.point(self.MEET_RARELY)  # 40 positions with 3 coordinates each: 360 pairs
        assert sp.issparse(self.model(point, coords, 1500, coords.size - 1, max_pairs=1000))

    @pytest.mark.parametrize(("n_asked", "n_taken"), [(10, 20), (20, 20), (21, None)])
    def test_a_sparse_sample_is_as_large_as_the_budget_and_no_smaller_than_asked(self, n_asked, n_taken):
        x = np.random.default_rng(0).uniform(1.0, 2.0, (40, 40))  # 120^2 pairs at each of 40 positions
        point, coords = self.point(x)
        found = self.model(point, coords, n_asked, 100, max_pairs=20 * 120**2)
        if n_taken is None:
            assert found is None
            return
        assert (found != sparse_form(point, coords, n_taken)).nnz == 0
        assert (found != sparse_form(point, coords, n_taken - 5)).nnz > 0

    @pytest.mark.parametrize(("n_words", "is_cost_aware"), [(10, True), (1, False)])
    def test_of_text_it_waits_until_the_passes_have_cost_as_much(self, n_words, is_cost_aware):
        """Of sequences only: of single items it is the Hessian itself, and formed at once."""
        random = np.random.default_rng(0)
        words = np.minimum(random.zipf(1.3, (12_000 // n_words, n_words)), 2000)
        items = [[{f"word {word}": 1.0} for word in row] for row in words]
        labels = random.choice(list("abcdefghijklmnopqrst"), words.shape).tolist()
        objective = ChainCRF().prepare(items, labels).objective
        coords = np.arange(objective.n_coords - 20**2)  # without the edges', which all meet at every position
        point = objective.at(coords[::3], random.normal(size=coords[::3].size))
        early, late = (point.hessian_model(coords, 1500, 10, passes=passes) for passes in (0, 20))
        assert (early is None) == is_cost_aware
        assert sp.issparse(late)
        samples = sparse_form(point, coords, objective.n_positions)
        assert (late.nnz < samples.nnz) == is_cost_aware  # from as many positions as 20 passes pay for

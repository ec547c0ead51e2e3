"""Items of thousands of positions, such as a file without blank lines: learned as fast as the sentences they are of."""

import numpy as np
import pytest
from problems import make_likelihood
from sklearn.pipeline import make_pipeline

from crfqn import ChainCRF, Features, Sequences, Templates
from crfqn.data.features import FeatureStore
from crfqn.structures.chain import Chain

N_SENTENCES, LENGTH, N_LABELS = 600, 15, 10


def sentences(n=N_SENTENCES, seed=0):
    """Sentences of rare words: feature strings, and labels that words and the label before tell."""
    random = np.random.default_rng(seed)
    vocabulary = 2000
    label_of = random.integers(0, N_LABELS, vocabulary)
    x, y = [], []
    for _ in range(n):
        words = np.minimum(random.zipf(1.3, LENGTH) - 1, vocabulary - 1)
        labels = label_of[words]
        for t in range(1, LENGTH):
            if random.random() < 0.3:
                labels[t] = (labels[t - 1] + 1) % N_LABELS
        names = [f"w{word}" for word in words]
        around = ["", *names, ""]
        x.append([[f"b={around[t]}", word, f"a={around[t + 2]}"] for t, word in enumerate(names)])
        y.append([f"L{label}" for label in labels])
    return x, y


def joined(items):
    return [[position for item in items for position in item]]


X, Y = sentences()
ONE_X, ONE_Y = joined(X), joined(Y)
STRENGTH = {"l1": 0.1, "l2": 0.1}


def bits(model):
    return model.coef_.toarray().tobytes(), model.transition_coef_.toarray().tobytes()


def test_one_item_takes_hardly_more_passes_than_its_sentences():
    """With a step an epoch its start would be more than twice as far up."""
    apart, together = (ChainCRF(**STRENGTH).fit(x, y).result_ for x, y in ((X, Y), (ONE_X, ONE_Y)))
    assert together.trace.value[0] <= 1.2 * apart.trace.value[0]
    assert together.passes <= 1.4 * apart.passes


def test_the_optimum_is_that_of_the_whole_item():
    """Segments are where a training begins, and leave nothing out in the end: L-BFGS, which knows none, ends there."""
    strength = {"l1": 0.0, "l2": 1.0, "tol": 1e-5}
    found = ChainCRF(**strength).fit(ONE_X, ONE_Y)
    expected = ChainCRF(**strength, solver="l-bfgs").fit(ONE_X, ONE_Y)
    assert found.result_.value == pytest.approx(expected.result_.value, rel=2e-5)
    assert found.result_.gap <= 1e-5
    apart = ChainCRF(**strength).fit(X, Y)  # other weights of transitions
    assert abs(apart.result_.value - expected.result_.value) > 1e-3 * expected.result_.value


@pytest.mark.parametrize("n_threads", [2, 3])
def test_threads_change_no_bit(n_threads):
    models = [ChainCRF(**STRENGTH, n_threads=n).fit(ONE_X, ONE_Y) for n in (1, n_threads)]
    assert bits(models[0]) == bits(models[1])
    assert models[0].result_.value == models[1].result_.value


def test_items_of_ordinary_length_are_learned_whole():
    """Up to 256 positions; a longer one in segments of some 32, in their order, the others as they are."""
    lengths = np.array([10, 256, 0, 257, 3])
    random = np.random.default_rng(0)
    n = int(lengths.sum())
    store = FeatureStore.from_matrix(
        random.standard_normal((n, 2)), np.cumsum([0, *lengths]), allow_empty=True
    )
    targets = random.integers(0, 3, n).astype(np.int32)
    objective = make_likelihood(store, Chain(store.offsets, 3), targets, np.arange(5.0))
    cut = objective.with_truncated_items()
    found = np.diff(cut.whole.map.offsets)
    assert found[[0, 1, -1]].tolist() == [10, 256, 3]
    assert set(found[2:-1]) <= {28, 29}
    np.testing.assert_array_equal(cut.whole.weights, [0, 1, *9 * [3], 4])
    assert cut.n_positions == n
    assert cut.with_truncated_items() is cut


def spans(x, y):
    """Labels of entities in IOB2 of the labels: two of them are outside, and neighbours of one type belong together."""
    out = []
    for labels in y:
        tags, before = [], "O"
        for label in labels:
            kind = {"L0": "A", "L1": "B"}.get(label)
            tags.append("O" if kind is None else ("I-" if before == kind else "B-") + kind)
            before = kind
        out.append(tags)
    return x, out


def test_segments_keep_the_rules_of_a_scheme():
    """A segment begins where a span may: at I-A it would have no labelling."""
    x, y = spans(ONE_X, ONE_Y)
    found = ChainCRF(**STRENGTH, scheme="IOB2").fit(x, y)
    assert found.score(x, y) > 0.8


def test_where_no_segment_may_begin_an_item_stays_whole():
    """A single span of 2,000 positions."""
    x = [[[f"w{t % 50}"] for t in range(2000)]]
    y = [["B-A"] + ["I-A"] * 1998 + ["O"]]
    found = ChainCRF(l1=0.01, scheme="IOB2").fit(x, y)
    assert np.mean(np.array(found.predict(x)[0]) == np.array(y[0])) > 0.99


def test_partly_known_labels():
    random = np.random.default_rng(2)
    x, y = spans(ONE_X, ONE_Y)
    some = [[label if random.random() < 0.7 else None for label in y[0]]]
    found = ChainCRF(**STRENGTH, scheme="IOB2").fit(x, some)
    assert found.score(x, y) > 0.8


def test_weights_of_items_hold_for_their_segments():
    """An item of weight 2 is that item twice, and one of weight 0 is not there."""
    half = len(ONE_Y[0]) // 2
    x, y = [ONE_X[0][:half], ONE_X[0][half:]], [ONE_Y[0][:half], ONE_Y[0][half:]]
    strength = {"l1": 0.0, "l2": 1.0, "tol": 1e-6}
    twice = ChainCRF(**strength).fit([x[0], x[0]], [y[0], y[0]]).result_.value
    weighted = ChainCRF(**strength).fit(x, y, sample_weight=[2.0, 0.0]).result_.value
    assert weighted == pytest.approx(twice, rel=2e-6)


@pytest.mark.parametrize("kind", ["dense", "sparse", "hybrid"])
def test_long_items_of_numbers(kind):
    """Whatever stores the features: samples are of segments, the end is the whole item's."""
    random = np.random.default_rng(3)
    x = random.standard_normal((6000, 30))
    labels = (x @ random.standard_normal((30, 5)) + random.gumbel(size=(6000, 5))).argmax(axis=1)
    names = [[[f"w{label}"] if random.random() < 0.3 else ["w"] for label in labels]]
    sparse = Sequences(np.where(abs(x) > 1, x, 0.0), [0, 6000])
    data = {"dense": [x], "sparse": sparse, "hybrid": Features([x], names)}
    strength = {"l1": 0.0, "l2": 1.0, "tol": 1e-5}
    found = ChainCRF(**strength).fit(data[kind], [labels])
    expected = ChainCRF(**strength, solver="l-bfgs").fit(data[kind], [labels])
    assert found.result_.value == pytest.approx(expected.result_.value, rel=2e-5)


def test_bigram_features_of_a_long_item():
    """The start knows none of them, and samples take theirs along."""
    rows = [[(names[1], f"s{len(names[1]) % 3}") for names in ONE_X[0]]]
    strength = {"l1": 0.0, "l2": 1.0, "tol": 1e-4}
    templates = "U0:%x[0,0]\nB\nB1:%x[0,1]"
    found = make_pipeline(Templates(templates), ChainCRF(**strength)).fit(rows, ONE_Y)[-1]
    expected = make_pipeline(Templates(templates), ChainCRF(**strength, solver="l-bfgs")).fit(rows, ONE_Y)[-1]
    assert found.result_.value == pytest.approx(expected.result_.value, rel=2e-4)

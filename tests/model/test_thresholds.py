"""A least probability of labels: what is below it gets no label, by both engines, of every kind of model."""

import numpy as np
import pytest

from crfqn import ChainCRF, MulticlassClassifier, MulticlassCRF, MultilabelRanker, Tagger, TaxonomyCRF
from crfqn.errors import InputError
from crfqn.metrics import (
    hierarchical_precision_recall_f1,
    span_counts,
    token_accuracy,
    token_confusion,
    tree_induced_error,
)

pytestmark = pytest.mark.filterwarnings("ignore::crfqn.errors.UnknownFeaturesWarning")
X = [[1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1], [1, 2, 0, 0], [2, 0, 1, 0]]
NEW = [[1, 2, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 3]]
PATHS = ["sport/golf", "sport/tennis", "art", "sport/golf", "sport/tennis"]
WORDS = [[["Ada"], ["Lovelace"], ["wrote"]], [["Ada"], ["wrote"]], [["Lovelace"], ["wrote"]], [["wrote"]]]
TAGS = [["B-PER", "I-PER", "O"], ["B-PER", "O"], ["B-PER", "O"], ["O"]]
SENTENCES = [[["Ada"], ["Lovelace"], ["wrote"]], [["Grace"]], []]
THRESHOLDS = (0.0, 0.3, 0.5, 0.7, 0.9, 0.99, 1.0)


@pytest.mark.parametrize("temperature", [1.0, 3.0])
@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize("model", [MulticlassCRF(l1=0.1), MulticlassClassifier(loss="logistic")])
def test_flat_labels(model, threshold, temperature, tmp_path):
    model.fit(X, PATHS).calibrate(temperature=temperature)
    p = model.predict_proba(NEW)
    expected = [
        label if row.max() >= threshold else None
        for label, row in zip(model.predict(NEW).tolist(), p, strict=True)
    ]
    assert model.predict(NEW, threshold=threshold).tolist() == expected
    labels, logs = model.decode(NEW, threshold=threshold)
    assert labels.tolist() == expected
    np.testing.assert_allclose(np.exp(logs), p.max(axis=1), rtol=1e-12)
    model.save(tmp_path / "m.crfqn")
    assert Tagger(tmp_path / "m.crfqn").tag_items(NEW, threshold=threshold) == expected


@pytest.mark.parametrize("temperature", [1.0, 3.0])
@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_nodes_of_a_taxonomy(threshold, temperature, tmp_path):
    model = TaxonomyCRF(l1=0.1).fit(X, PATHS).calibrate(temperature=temperature)
    tree, p = model.tree_, model.predict_nodes(NEW)
    found = model.predict(NEW, threshold=threshold)
    for label, row in zip(found, p, strict=True):
        of = dict(zip(tree.names, row, strict=True))
        if label is None:
            assert max(of["sport"], of["art"]) < threshold
            continue
        assert of[label] >= threshold - 1e-12
        below = [name for name in tree.names if name.startswith(f"{label}/")]
        assert all(of[name] < threshold for name in below)
    model.save(tmp_path / "m.crfqn")
    assert Tagger(tmp_path / "m.crfqn").tag_items(NEW, threshold=threshold) == found.tolist()


def test_rows_of_parts_are_empty():
    labels = [(1, 2), (1, 3), (2,), (1, 2), (1, 3)]
    for y in (labels, [tuple(map(str, row)) for row in labels]):
        model = TaxonomyCRF(l1=0.1).fit(X, y)
        found = model.predict(NEW, threshold=0.8)
        assert found.tolist() == [[*y[0]], ["", ""], ["", ""], [y[2][0], ""]]
        true = [y[0], y[1], y[2], y[2]]
        # Without a label an item has no predicted node: 3 of 3 predicted nodes are right, and 3 of 6 true ones.
        assert hierarchical_precision_recall_f1(true, found)[:2] == (1.0, 0.5)
        assert tree_induced_error(true, found) == (2 + 1) / 4
    none = [None, None, "art", "art"]
    assert hierarchical_precision_recall_f1(["sport/golf", "art", "art", "sport"], none)[:2] == (0.5, 0.2)
    with pytest.raises(InputError, match=r"y_true: .*None"):
        hierarchical_precision_recall_f1(none, ["art"] * 4, ["art"])


def test_no_label_where_the_taxonomy_has_one_top():
    """The top is the root, which is always right; no label is not even that."""
    tree = [("all", "a"), ("all", "b")]
    assert hierarchical_precision_recall_f1(["a", "b"], ["a", None], tree)[:2] == (1.0, 0.5)


@pytest.mark.parametrize("temperature", [1.0, 3.0])
@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_positions_of_sequences(threshold, temperature, tmp_path):
    model = ChainCRF(l1=0.1, scheme="IOB2").fit(WORDS, TAGS).calibrate(temperature=temperature)
    model.save(tmp_path / "m.crfqn")
    tagger, number = Tagger(tmp_path / "m.crfqn"), {label: k for k, label in enumerate(model.classes_)}
    for known in (None, [[None, "B-PER", None], None, None]):
        best, marginals = model.predict(SENTENCES, known), model.predict_marginals(SENTENCES, known)
        expected = [
            [label if p[number[label]] >= threshold - 1e-12 else None for label, p in zip(*item, strict=True)]
            for item in zip(best, marginals, strict=True)
        ]
        assert model.predict(SENTENCES, known, threshold=threshold).tolist() == expected
        assert tagger.tag_items(SENTENCES, known, threshold=threshold) == expected
        found, logs = model.decode(SENTENCES, known, threshold=threshold)
        assert [item.tolist() for item in found] == expected
        np.testing.assert_array_equal(logs, model.decode(SENTENCES, known).log_probability)
    if threshold == 1.0:
        assert expected[0][1] == "B-PER"  # what is known is certain


def test_labels_above_a_threshold_are_labels_to_train_on():
    model = ChainCRF(l1=0.1).fit(WORDS, TAGS)
    labels = model.predict(WORDS, threshold=0.9).tolist()
    assert {None, "O"} <= {label for item in labels for label in item}
    assert ChainCRF(l1=0.1).fit(WORDS, labels).predict(WORDS[3:]).tolist() == [["O"]]


def test_scores_of_sequences_without_some_labels():
    true, predicted = [["B-PER", "I-PER", "O", "B-LOC"]], [["B-PER", None, "O", "B-LOC"]]
    counts = span_counts(true, predicted, scheme="IOB2")
    assert {name: tuple(vars(count).values()) for name, count in counts.items()} == {
        "LOC": (1, 1, 1),
        "PER": (1, 1, 0),
    }
    assert token_accuracy(true, predicted) == 0.75
    confusion = token_confusion(true, predicted)
    assert confusion.labels == ["B-LOC", "B-PER", "I-PER", "O", None]
    assert confusion.counts[2].tolist() == [0, 0, 0, 0, 1]
    with pytest.raises(InputError, match="y_true"):
        span_counts(predicted, true, scheme="IOB2")


@pytest.mark.parametrize("threshold", [-0.1, 1.5, "high", True, float("nan")])
def test_what_is_no_threshold(threshold):
    for model in (ChainCRF(l1=0.1).fit(WORDS, TAGS), TaxonomyCRF(l1=0.1).fit(X, PATHS)):
        with pytest.raises(InputError, match="threshold: expected None or a number from 0 to 1, got"):
            model.predict(WORDS if model.ANSWERS.has_positions else X, threshold=threshold)


def test_models_without_probabilities(tmp_path):
    chain = ChainCRF(l1=0, l2=1, loss="hinge").fit(WORDS, TAGS)
    with pytest.raises(AttributeError, match="probabilities"):
        chain.predict(WORDS, threshold=0.5)
    with pytest.raises(AttributeError, match="probabilities"):
        MulticlassClassifier(loss="squared-hinge").fit(X, PATHS).predict(X, threshold=0.5)
    assert not hasattr(MultilabelRanker(), "decode")

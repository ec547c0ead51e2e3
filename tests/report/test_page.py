"""Reports: what they show, that nothing in them comes alive, and what they refuse."""

from __future__ import annotations

import builtins
import re
import sys
from collections import Counter
from copy import copy
from html.parser import HTMLParser

import numpy as np
import pytest
from report_cases import IMAGE, NUL, QUOTED, RTL, SCRIPT
from sklearn.exceptions import NotFittedError

import crfqn
from crfqn import ChainCRF, MulticlassSVC, MultilabelRanker, StagewiseRegression
from crfqn.errors import InputError, ModelFileError
from crfqn.metrics import SpanCounts, expected_calibration_error
from crfqn.metrics.evaluation import score
from crfqn.report import make_report, write_report
from crfqn.report.evaluation_section import MAX_MATRIX_LABELS, MAX_SHOWN_POSITIONS, Errors, EvaluationSection
from crfqn.report.facts import ending, parameters
from crfqn.report.images import Pixels
from crfqn.report.weights import open_tree, strongest
from crfqn.result import Result, Status, Trace

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")


class Outline(HTMLParser):
    """Tags, attributes and text of a page; `sections` by their id."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.sections, self.data = Counter(), [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags[tag] += 1
        self.attributes += attributes
        if tag == "section":
            self.sections.append(dict(attributes)["id"])

    def handle_data(self, data):
        self.data.append(data)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("chain", "scores errors confusions features transitions training sparsity model"),
        ("taxonomy", "scores errors confusions taxonomy features training sparsity model"),
        ("flat", "scores errors confusions features training path sparsity model"),
        ("images", "scores errors confusions features transitions characters training sparsity model"),
    ],
)
def test_sections(pages, name, expected):
    assert Outline(pages[name].read_text("utf-8")).sections == expected.split()


def test_the_hierarchical_f1_is_that_of_evaluate(pages, cases):
    text = pages["taxonomy"].read_text("utf-8")
    shown = re.search(r"hierarchical F1</dt><dd>([\d.]+)</dd>", text)
    case = cases["taxonomy"]
    assert shown[1] == f"{score(case.model, case.X, case.y).hierarchy.f1:.4f}"
    assert "hierarchical F1" not in pages["flat"].read_text("utf-8")


@pytest.mark.parametrize("name", ["chain", "taxonomy", "flat", "images"])
def test_names_stay_text(pages, name):
    page = pages[name].read_text("utf-8")
    outline = Outline(page)
    assert outline.tags["script"] == 1
    assert not [key for key, _ in outline.attributes if key.startswith("on")]
    links = [value for key, value in outline.attributes if key in ("src", "href", "xlink:href")]
    assert all(value.startswith(("#", "data:")) for value in links)
    assert "\0" not in page
    assert re.search(r"url\((?!#)", page) is None
    assert "http-equiv" in page


def test_nasty_names_are_shown_as_they_are(pages):
    text = "".join(Outline(pages["chain"].read_text("utf-8")).data)
    for name in (SCRIPT, QUOTED, RTL, "nul\\x00inside", "$x^2$"):
        assert name in text
    assert IMAGE in "".join(Outline(pages["taxonomy"].read_text("utf-8")).data)


def test_the_same_model_gives_the_same_page(cases, pages):
    case = cases["chain"]
    assert make_report(case.model, (case.X, case.y)) == pages["chain"].read_text("utf-8")


def test_settings_are_shown_as_they_were_used():
    X, y = [[{"w": "a"}, {"w": "b"}]] * 4, [["A", "B"]] * 4
    model = ChainCRF(max_iter=50).fit(X, y)
    shown = {fact.name: fact.value for fact in parameters(model)}
    assert shown["l1"] == f"{model.l1_:.4g}, chosen automatically"
    assert shown["max_iter"] == "50"


def test_of_many_labels_those_with_errors_are_in_the_picture():
    y = [f"label {number:03d}" for number in range(MAX_MATRIX_LABELS + 5)] * 2
    predicted = [*y[:-1], y[0]]
    found = EvaluationSection(None, y, predicted, None)
    picture = found.confusion()
    assert picture.display_labels.tolist() == [y[0], y[-1]]
    assert picture.confusion_matrix.tolist() == [[1.0, 0.0], [0.5, 0.5]]


def test_from_a_file(cases, tmp_path):
    case = cases["chain"]
    rows = [{"l1": 2.0, "score": None, "n_nonzero": 3, "gap": 0.1, "seconds": 1.0}]
    facts = {"data_fingerprint": "f00d", "regularization_path": rows}
    model = copy(case.model)
    model.training_ = facts
    model.save(tmp_path / "chain.crfqn", {"regularization_path": "of another kind"})
    write_report(tmp_path / "chain.crfqn", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text("utf-8")
    outline = Outline(page)
    assert {"path", "transitions", "features"} < set(outline.sections)
    assert not {"scores", "errors"} & set(outline.sections)
    assert "f00d" in page
    assert "chain.crfqn, " in page
    assert "<h1><bdi>chain</bdi></h1>" in page
    assert f"{crfqn.load(tmp_path / 'chain.crfqn').result_.value:,.6g}" in page


def other_models():
    X = np.tile(np.eye(3), (4, 1))
    labels, sets = np.tile(["a", "b", "c"], 4), [["a"], ["a", "b"], ["c"]] * 4
    yield "ranker", MultilabelRanker(group_l1=0.1).fit(X, sets), sets
    yield "kernel machine", MulticlassSVC().fit(X, labels), labels
    yield "stages", StagewiseRegression(max_iter=2).fit(X, labels), labels


def test_models_of_other_kinds():
    X = np.tile(np.eye(3), (4, 1))
    for name, model, y in other_models():
        sections = Outline(make_report(model, (X, y))).sections
        assert {"model", "scores", "errors"} <= set(sections), name
        assert ("features" in sections) == (name == "ranker")


def test_strongest_features_are_those_of_the_model(cases):
    model = cases["images"].model
    rows, n_left_out = strongest(model.model_, 3)
    assert n_left_out == 0
    for code, label in enumerate(model.classes_):
        found = [(row.feature, row.weight) for row in rows if row.label == label]
        weights = model.coef_.toarray()[code]
        expected = np.argsort(-np.abs(weights), kind="stable")[:3]
        assert [weight for _, weight in found] == weights[expected].tolist()
        assert [name for name, _ in found] == [model.feature_names_in_[column] for column in expected]


def errors_of(model, X, y, n, texts=None):
    return Errors(model, model.model_, EvaluationSection.from_model(model, (X, y)), texts).worst(n)


class TestErrors:
    def errors(self, case, n=20, texts=None):
        return errors_of(case.model, case.X, case.y, n, texts)

    def test_the_least_probable_come_first(self, cases):
        case = cases["images"]
        found = self.errors(case, 3)
        wrong = [
            i
            for i, (a, b) in enumerate(zip(case.y, case.model.predict(case.X), strict=True))
            if list(a) != list(b)
        ]
        likelihood = case.model.log_likelihood(case.X, case.y)
        expected = sorted(wrong, key=lambda i: likelihood[i])[:3]
        assert [error.number - 1 for error in found] == expected
        assert [error.log_likelihood for error in found] == pytest.approx(likelihood[expected])

    def test_marginals(self, cases):
        case = cases["images"]
        (error,) = self.errors(case, 1)
        table = case.model.predict_marginals(case.X)[error.number - 1]
        for position, row in zip(error.positions, table, strict=True):
            known = dict(zip(case.model.classes_, row, strict=True))
            assert {one.label: one.probability for one in position.marginals} == pytest.approx(known)

    def test_labels_that_the_model_does_not_know_are_the_worst(self, cases):
        error = self.errors(cases["chain"])[0]
        assert error.number == 3
        assert not error.is_possible
        assert [position.text for position in error.positions] == ["b", SCRIPT]

    def test_texts(self, cases):
        error = self.errors(cases["chain"], texts=[["x"], ["x"], ["first", "second"]])[0]
        assert [position.text for position in error.positions] == ["first", "second"]

    def test_long_items_are_cut(self):
        X, y = [[{"w": "a"}, {"w": "b"}] * 60], [["A", "B"] * 60]
        model = ChainCRF(l1=0.1).fit(X, y)
        wrong = [[*y[0][:100], "B", *y[0][101:]]]
        (error,) = errors_of(model, X, wrong, 5)
        assert len(error.positions) == MAX_SHOWN_POSITIONS
        assert error.n_before + len(error.positions) + error.n_after == 120
        assert [error.n_before + t for t, position in enumerate(error.positions) if position.is_wrong] == [
            100
        ]

    def test_an_item_is_explained_by_the_terms_between_its_label_and_the_runner_up(self, cases, pages):
        case = cases["flat"]
        scores = case.model.decision_function(case.X)
        for error in self.errors(case, 3):
            (position,), row = error.positions, np.sort(scores[error.number - 1])
            why = position.explanation
            assert str(why.label) == position.predicted
            assert sum(term.value for term in why.terms) + why.rest == pytest.approx(row[-1] - row[-2])
        assert "Why this label and not the runner-up" in pages["flat"].read_text("utf-8")

    def test_wrong_positions_of_a_sequence_are_explained_as_by_the_model(self, cases, pages):
        case = cases["images"]
        errors = self.errors(case, 3)
        for error in errors:
            expected = case.model.explain(case.X[[error.number - 1]], 8)[0]
            for t, position in enumerate(error.positions):
                assert position.explanation == (expected[t] if position.is_wrong else None)
        assert errors[0].positions[-1].explanation.terms
        assert "Why these labels and not the runners-up" in pages["images"].read_text("utf-8")

    def test_margins_have_no_marginals(self, cases):
        case = cases["images"]
        model = copy(case.model).set_params(
            loss="hinge"
        )  # a max-margin model has the same weights, and no probabilities
        found = errors_of(model, case.X, case.y, 20)
        counts = [error.n_wrong for error in found]
        assert counts == sorted(counts, reverse=True)
        assert not any(
            error.is_possible or position.marginals for error in found for position in error.positions
        )
        assert "Items with the most wrong labels." in make_report(model, (case.X, case.y))

    def test_nothing_wrong(self, cases):
        case = cases["images"]
        assert "None: every label is right." in make_report(case.model, (case.X, case.model.predict(case.X)))


def test_scores_of_nodes_are_those_of_the_items_below(cases):
    case = cases["taxonomy"]
    evaluation = EvaluationSection.from_model(case.model, (case.X, case.y))
    tree = open_tree(case.model.tree_, case.model.model_, evaluation, {})
    predicted = case.model.predict(case.X).tolist()
    for node in tree.nodes:
        given = [label == node.path or label.startswith(f"{node.path}/") for label in case.y]
        found = [label == node.path or label.startswith(f"{node.path}/") for label in predicted]
        both = sum(a and b for a, b in zip(given, found, strict=True))
        assert node.scores == SpanCounts(sum(given), sum(found), both)
    assert [node.name for node in tree.nodes if node.is_inner] == ["art", "science"]
    assert sum(node.is_inner for node in tree.nodes) == sum(node.n_closing for node in tree.nodes)


class TestPixels:
    def test_weights_lie_on_their_pixels(self, cases):
        model = cases["images"].model.model_
        pixels = Pixels.from_weights(model, model.n_features_in_)
        assert pixels.shape == (4, 3)
        for row in range(2):
            expected = np.zeros((4, 3))
            weights = model.coef_.toarray()[row]
            for column, weight in enumerate(weights):
                at = re.findall(r"p(\d)_(\d)", model.feature_name(column))
                for r, c in at:
                    expected[int(r), int(c)] += weight / len(at)
            assert pixels.weights_of(model, row) == pytest.approx(expected)

    def test_features_without_names(self, cases):
        model = cases["flat"].model.model_
        assert Pixels.from_weights(model, 4) is None
        pixels = Pixels.from_weights(model, 4, (2, 2))
        assert pixels.weights_of(model, 0).ravel() == pytest.approx(model.coef_.toarray()[0])

    @pytest.mark.parametrize(
        ("name", "shape", "message"),
        [
            ("flat", (2, 3), "expected 4 pixels, as many as features, got 2 x 3"),
            ("flat", (2,), r"expected rows and columns, two integers >= 1, got \(2,\)"),
            ("images", (2, 2), r"expected at least \(4, 3\), got \(2, 2\)"),
        ],
    )
    def test_bad_shapes(self, cases, name, shape, message):
        with pytest.raises(InputError, match=f"image_shape: {message}"):
            make_report(cases[name].model, image_shape=shape)


@pytest.mark.parametrize(
    ("status", "gap", "expected"),
    [
        (Status.CONVERGED, 1e-4, "The certificate ended the run"),
        (Status.ESTIMATED, 0.5, "The estimate ended the run before the certificate: within 3 % of the optimum"),
        (Status.MAX_ITER, np.nan, "Neither the certificate nor the estimate ended the run; it stopped: the limit"),
    ],
)  # fmt: skip
def test_what_ended_the_run(status, gap, expected):
    empty = np.empty(0)
    known = {"estimated_gap": 1e-4, "tol": 0.03}
    text = ending(Result(empty, empty, 1.0, gap, 0.0, status, 1.0, 1, 1.0, Trace(), **known), "estimate")
    assert text.startswith(expected)
    assert ("proved: the optimum" in text.lower()) == np.isfinite(gap)
    assert "asked for: 3 %" in text.lower()


@pytest.mark.parametrize(
    ("data", "contents", "message"),
    [
        (3, {}, r"data: expected a pair \(X, y\), got 3"),
        (([], []), {}, "at least one labelled item"),
        (("X", [["A"]]), {}, "expected labels of 3 items or 7 positions, got 1"),
        (("X", [["A"], ["A"], ["A"]]), {}, "item 0: expected 3 labels, got 1"),
        (None, {"titel": "x"}, "unexpected keyword argument 'titel'"),
        (None, {"n_errors": 0}, "n_errors: expected an integer >= 1, got 0"),
        (None, {"regularization_path": 3}, "regularization_path: expected a RegularizationPath"),
        (None, {"regularization_path": [{"l1": 1.0}]}, "expected numbers l1, score"),
        ("pair", {"texts": [[]]}, "texts: expected one for each of 3 items, got 1"),
    ],
)
def test_bad_input(cases, data, contents, message):
    case = cases["chain"]
    if data == "pair":
        data = case.X, case.y
    elif isinstance(data, tuple) and isinstance(data[0], str):
        data = case.X, data[1]
    with pytest.raises(InputError, match=message):
        make_report(case.model, data, **contents)


def test_what_cannot_be_written_or_read(cases, tmp_path):
    with pytest.raises(ModelFileError, match=r"cannot write .*missing"):
        write_report(cases["chain"].model, tmp_path / "missing" / "report.html")
    with pytest.raises(ModelFileError, match="there is no such file"):
        write_report(tmp_path / "none.crfqn", tmp_path / "report.html")
    with pytest.raises(NotFittedError, match="expected a fitted estimator of crfqn, got ChainCRF"):
        write_report(ChainCRF(), tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_without_jinja2(cases, monkeypatch):
    real = builtins.__import__

    def refuse(name, *arguments, **options):
        if name == "jinja2":
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(InputError, match=r"pip install 'crfqn\[report\]'"):
        make_report(cases["chain"].model)


def test_names_without_a_letter_in_any_font(cases):
    """Labels of any script are no reason to warn: the reader's fonts write them."""
    X, y = [[{"w": "\U0001f600"}, {"w": "b"}]] * 3, [["\u6f22\u5b57", "\ud800"]] * 3
    assert "\u6f22\u5b57" in make_report(ChainCRF(l1=0.1).fit(X, y), (X, y))


def test_nul_is_a_label(cases):
    assert NUL in cases["chain"].model.classes_


@pytest.mark.parametrize("library", ["jinja2", "matplotlib"])
def test_without_a_library_the_extra_is_named(cases, monkeypatch, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(InputError, match=rf" need {library}, .* pip install 'crfqn\[(report|plot)\]'"):
        make_report(cases["chain"].model)


class TestSpans:
    """Scores of spans, where labels are of a scheme."""

    def test_of_a_scheme_that_the_labels_tell(self):
        X = [[{"w": "a"}, {"w": "b"}, {"w": "c"}], [{"w": "c"}, {"w": "a"}, {"w": "b"}]]
        y = [["B-X", "E-X", "O"], ["O", "B-X", "E-X"]]
        model = ChainCRF(l1=0.01).fit(X, y)
        wrong = [y[0], ["S-Y", "B-X", "E-X"]]
        text = " ".join(" ".join(Outline(make_report(model, (X, wrong))).data).split())
        assert "labels are read as BIOES" in text
        assert "F1 of spans 0.8000 of 3 spans" in text  # 2 right of 2 found and 3 given

    def test_none_for_other_labels(self, pages):
        assert "span-table" not in pages["chain"].read_text("utf-8")


@pytest.mark.parametrize("name", ["chain", "taxonomy", "flat"])
def test_reliability_before_and_after_the_temperature(cases, pages, name):
    case = cases[name]
    model = copy(case.model)
    plain = "".join(Outline(pages[name].read_text("utf-8")).data)
    (before,) = re.findall(r"calibration error[^:]*: (\d\.\d{4})\.", plain)
    calibrated = "".join(Outline(make_report(model.calibrate(temperature=3), (case.X, case.y))).data)
    ((after, again),) = re.findall(
        r"calibration error[^:]*: (\d\.\d{4}) at the temperature 3, (\d\.\d{4}) before\.", calibrated
    )
    assert again == before != after
    true, predicted = EvaluationSection.from_model(model, (case.X, case.y)).flat
    p = np.concatenate([np.atleast_2d(row) for row in model.predict_proba(case.X)])
    numbers = [[*map(str, model.classes_)].index(label) for label in predicted]
    is_right = np.array(true) == np.array(predicted)
    error = expected_calibration_error(is_right, p[np.arange(len(p)), numbers])
    assert float(after) == pytest.approx(error, abs=5e-5)
    assert case.model.temperature_ == 1.0

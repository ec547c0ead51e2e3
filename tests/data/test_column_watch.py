"""Warnings of columns, and of keys of dicts, none of whose values a model knows."""

import warnings

import pytest

from crfqn import ChainCRF, Tagger, Templates, crf_path, load
from crfqn.data.column_watch import ColumnWatch, folded
from crfqn.errors import UnknownFeaturesWarning
from crfqn.regularization_path import Grid


@pytest.fixture
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnknownFeaturesWarning)
        yield


def warned(function, *arguments, **named):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function(*arguments, **named)
    return [str(w.message) for w in caught if str(w.message).startswith("column")]


class TestWatch:
    def test_values_that_differ_in_case_or_blanks(self):
        watch = ColumnWatch("flag", {"True": 0, "New York": 1})
        assert warned(watch.look, ["true", "new york"]) == []  # of two it may be chance
        (message,) = warned(watch.look, ["NewYork", ""])
        assert message == (
            "column 'flag': the model knows none of 3 values, such as 'true' and 'new york'; those that it knows are "
            "such as 'True' and 'New York'; 'true' and 'True' differ in case or blanks alone"
        )
        assert warned(watch.look, ["true"] * 1000) == []  # once

    @pytest.mark.parametrize(("share", "n"), [(1.0, 1), (0.5, 10), (0.02, 342)])
    def test_so_many_others_are_no_chance(self, share, n):
        watch = ColumnWatch("tag", {"NN": 0}, share)
        values = [f"x{i}" for i in range(n)]
        assert warned(watch.look, values[:-1]) == []
        (message,) = warned(watch.look, values[-1:])
        assert message.startswith(f"column 'tag': the model knows none of {n} value")
        assert "case" not in message

    def test_a_known_value_begins_the_count_anew(self, quiet):
        watch = ColumnWatch("tag", {"NN": 0}, 0.5)
        for _ in range(5):
            watch.look(["x"] * 9)
            watch.look(["NN"])

    def test_values_without_a_weight_that_were_seen(self, quiet):
        watch = ColumnWatch("tag", {"NN": 0}, 1.0, was_seen={"VB"}.__contains__)
        watch.look(["VB"] * 10)

    def test_empty_cells_and_models_without_values(self, quiet):
        ColumnWatch("flag", {"True": 0}, 1.0).look([""] * 100)
        ColumnWatch("flag", {}, 1.0).look(["true"] * 1000)

    def test_folded(self):
        assert folded(" New\u00a0 York\n") == folded("newyork")


FLAGS = ["True", "False", "True", "True", "False"]
SENTENCES = [[{"w": w, "flag": flag} for w, flag in zip("abcab", FLAGS, strict=True)]] * 4
LABELS = [["Y", "N", "Y", "Y", "N"]] * 4
OTHERS = [[{**position, "flag": position["flag"].lower()} for position in SENTENCES[0]]]


def as_lists(items):
    return [[[f"{k}={v}" for k, v in position.items()] for position in item] for item in items]


@pytest.mark.parametrize("form", [list, as_lists])
def test_a_key_of_dicts(form, tmp_path):
    model = ChainCRF(l1=0.01).fit(form(SENTENCES), LABELS)
    model.save(tmp_path / "m.crfqn")
    message = (
        "column 'flag': the model knows none of 5 values, such as 'true' and 'false'; those that it knows are"
    )
    for predict in (
        model.predict,
        load(tmp_path / "m.crfqn").predict,
        Tagger(tmp_path / "m.crfqn").tag_items,
    ):
        assert warned(predict, form(SENTENCES)) == []
        (found,) = warned(predict, form(OTHERS))
        assert found.startswith(message)
        assert warned(predict, form(OTHERS)) == []
    tagger = Tagger(tmp_path / "m.crfqn")
    assert [len(warned(tagger.tag, form([[position]])[0])) for position in OTHERS[0]] == [0, 0, 1, 0, 0]


def test_a_key_whose_values_have_no_weight(quiet):
    """What was seen in training and has no weight is known, and new values of a rare kind are no reason yet."""
    model = ChainCRF(l1=0.01).fit(SENTENCES, [["Y"] * 5] * 4)
    model.predict(SENTENCES * 100)
    model = ChainCRF(l1=0.01).fit(SENTENCES, LABELS)
    model.predict([[{"w": f"new {i}", "flag": "True"}] for i in range(300)])
    model.predict([[{"w": "a", "other": "x"}] for _ in range(1000)])


def test_a_column_of_templates(tmp_path):
    X = [[{"w": w, "pos": p} for w, p in zip("abcab", ["DT", "NN", "DT", "DT", "NN"], strict=True)]] * 4
    templates = Templates(windows="w[0] pos[0]", columns=("w", "pos"))
    ChainCRF(l1=0.01).fit(templates.fit_transform(X), LABELS).save(tmp_path / "m.crfqn")
    new = [[{**position, "pos": position["pos"].lower()} for position in X[0]]]
    for predict in (load(tmp_path / "m.crfqn").predict, Tagger(tmp_path / "m.crfqn").tag_items):
        assert warned(predict, X) == []
        (found,) = warned(predict, new)
        assert found.startswith("column 'pos': the model knows none of 5 values, such as 'dt' and 'nn'")


def test_models_that_a_training_or_a_path_scores_are_quiet(quiet):
    X = [[{"flag": "True" if i % 2 else "False"}] for i in range(20)]
    unknown = [[{"flag": "true"}] for _ in range(20)]
    y = [["Y" if "rue" in item[0]["flag"] else "N"] for item in X]
    validation = (unknown, [["Y"]] * 20)
    model = ChainCRF(l1=0.01).fit(X, y, validation=validation)
    crf_path(ChainCRF(), X, y, grid=Grid(2), validation=validation)
    with pytest.raises(UnknownFeaturesWarning):
        model.predict(unknown)

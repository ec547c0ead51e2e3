"""crfqn.compat.Trainer, ItemSequence and TrainLogParser against python-crfsuite: parameters, log, files, errors."""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction

import numpy as np
import pycrfsuite
import pytest

from crfqn import ChainCRF, Tagger, compat, interchange
from crfqn.compat import CRF, ItemSequence, Trainer, TrainLogParser
from crfqn.errors import CrfqnWarning, InputError, ModelFileError

ITEMS = [
    [{"w": "the", "is": {"upper": False}, "len": 0.5}, {"w": "dog", "suffix": ["g", "og"]}],
    [["w:a", "bias"], {"w": "cat", "bias": 0}, {"w": "runs"}],
    [{"w": "dog"}, {"w": "runs", "len": -1.5}],
] * 4
LABELS = [["D", "N"], ["D", "N", "V"], ["N", "V"]] * 4
ALGORITHMS = ["lbfgs", "l2sgd", "ap", "pa", "arow"]


def appended(trainer, groups=None):
    for i, (item, labels) in enumerate(zip(ITEMS, LABELS, strict=True)):
        trainer.append(item, labels, groups[i] if groups else 0)
    return trainer


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_parameters_and_defaults_are_those_of_crfsuite(algorithm):
    ours, theirs = Trainer(algorithm), pycrfsuite.Trainer(algorithm)
    assert ours.get_params() == theirs.get_params()
    assert ours.params() == theirs.params()
    assert all(ours.help(name) for name in ours.params())
    for name in ours.params():
        assert type(ours.get(name)) is type(theirs.get(name))


def test_parameters_are_set_by_texts_numbers_and_booleans():
    trainer = Trainer(params={"c2": "0.25", "max_iterations": 1e2, "feature.possible_states": True})
    assert (trainer.get("c2"), trainer.get("max_iterations")) == (0.25, 100)
    assert trainer.get("feature.possible_states") is True
    trainer.select("L2SGD")
    assert trainer.get("c2") == 1.0  # a selected algorithm begins with its defaults


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t.set("c3", 1), "expected a parameter of lbfgs: .*c1.*; got 'c3'"),
        (lambda t: t.get("gamma"), "got 'gamma'"),
        (lambda t: t.help("gamma"), "got 'gamma'"),
        (lambda t: t.set("c1", "much"), "c1: expected a number, got .*much"),
        (lambda t: t.set("max_iterations", 1.5), "max_iterations: expected an integer, got 1.5"),
        (lambda t: t.set("feature.possible_states", 2), "expected True or False, got 2"),
        (lambda t: t.select("newton"), "expected an algorithm of lbfgs, .*got algorithm='newton'"),
        (lambda t: t.select("lbfgs", "tree"), "type='tree'"),
        (lambda t: t.append([["a"]], ["x", "y"]), "a label for each of 1 positions, got 2"),
        (lambda t: t.append([["a"]], [1]), "yseq: expected a list of strings, got 1"),
        (lambda t: t.append([["a"]], "x"), "yseq: expected a list of strings"),
        (lambda t: t.append([["a"], [3]], ["x", "y"]), "position 1: expected attributes that are strings, got 3"),
        (lambda t: t.append("ab", ["x", "y"]), "expected a list of positions"),
    ],
)  # fmt: skip
def test_errors_say_what_came(call, message):
    with pytest.raises(ValueError, match=message):
        call(Trainer())


@pytest.mark.parametrize("algorithm", ["lbfgs", "l2sgd"])
def test_the_optimum_is_that_of_crfsuite(tmp_path, algorithm):
    path = tmp_path / "model.crfsuite"
    params = {"c2": 0.3, "feature.possible_transitions": True, "delta": 1e-9}
    if algorithm == "lbfgs":
        params["c1"] = 0.05
    appended(Trainer(algorithm, params, verbose=False)).train(path)
    peer = appended(pycrfsuite.Trainer("lbfgs", params | {"c1": params.get("c1", 0)}, verbose=False))
    peer.train(str(tmp_path / "peer.crfsuite"))
    taggers = []
    for file in ("model", "peer"):
        taggers.append(pycrfsuite.Tagger())
        taggers[-1].open(str(tmp_path / f"{file}.crfsuite"))
    ours, theirs = (tagger.info().state_features for tagger in taggers)
    for name in ours.keys() | theirs.keys():
        assert ours.get(name, 0.0) == pytest.approx(theirs.get(name, 0.0), abs=1e-3)


def test_a_training_is_that_of_crf(tmp_path):
    path = tmp_path / "model.crfsuite"
    params = {"c1": 0.05, "c2": 0.1, "feature.minfreq": 1, "feature.possible_states": True}
    appended(Trainer("lbfgs", params, verbose=False)).train(path)
    crf = CRF(c1=0.05, c2=0.1, min_freq=1, all_possible_states=True).fit(ITEMS, LABELS)
    interchange.write(crf.model_, tmp_path / "crf.crfsuite")
    assert path.read_bytes() == (tmp_path / "crf.crfsuite").read_bytes()


def test_held_out_items_are_not_trained_on(tmp_path, capsys):
    groups = [0, 0, 1] * 4
    trainer = appended(Trainer(params={"c2": 0.1}), groups)
    trainer.train(tmp_path / "model.crfsuite", holdout=1)
    alone = Trainer(params={"c2": 0.1}, verbose=False)
    for item, labels, group in zip(ITEMS, LABELS, groups, strict=True):
        if group == 0:
            alone.append(ItemSequence(item), labels)
    alone.train(tmp_path / "alone.crfsuite")
    assert (tmp_path / "model.crfsuite").read_bytes() == (tmp_path / "alone.crfsuite").read_bytes()
    last = trainer.logparser.last_iteration
    tagger = compat.Tagger().open(str(tmp_path / "model.crfsuite"))
    right = [tagger.tag(item) == labels for item, labels in zip(ITEMS, LABELS, strict=True)][2::3]
    assert last["instance_accuracy"] == Fraction(sum(right), len(right))
    assert last["scores"]["V"].ref == 4
    assert "Holdout group: 2" in capsys.readouterr().out
    assert trainer.logparser.iterations[0]["loss"] > last["loss"]


def test_the_log_has_the_figures_of_the_training(tmp_path, capsys):
    trainer = appended(Trainer(params={"c1": 0.05, "c2": 0.1}))
    trainer.train(tmp_path / "model.crfsuite")
    model, parser = interchange.read(tmp_path / "model.crfsuite"), trainer.logparser
    printed = capsys.readouterr().out
    assert printed == "".join(parser.log)
    names = [name for name, _, _ in parser.events]
    assert names[:3] == ["start", "featgen_end", "prepared"]
    assert names[-2:] == ["optimization_end", "end"]
    assert names.count("iteration") == len(parser.iterations) > 1
    assert parser.last_iteration["active_features"] == model.current_model.weights.entries().values.size + (
        model.current_model.edges.values.size
    )
    assert parser.featgen_num_features >= parser.last_iteration["active_features"]
    assert "c1: 0.05\nc2: 0.1\n" in printed


def test_parts_of_the_log_go_to_methods(tmp_path):
    class Quiet(Trainer):
        def __init__(self):  # does not call Trainer's, as python-crfsuite allows
            self.losses = []

        def on_iteration(self, log, info):
            assert log.startswith("***** Iteration")
            self.losses.append(info["loss"])

    trainer = appended(Quiet())
    trainer.train(tmp_path / "model.crfsuite")
    assert trainer.losses == [row["loss"] for row in trainer.logparser.iterations]


def test_an_exception_of_message_ends_the_training_without_a_file(tmp_path):
    class Stop(Exception):
        pass

    class Failing(Trainer):
        def message(self, message):
            if message.startswith("Loss"):
                raise Stop

    with pytest.raises(Stop):
        appended(Failing()).train(tmp_path / "model.crfsuite")
    assert not [*tmp_path.iterdir()]


def test_no_items_give_the_empty_file_of_crfsuite(tmp_path):
    with pytest.warns(CrfqnWarning, match="no items to train on"):
        Trainer(verbose=False).train(tmp_path / "ours.crfsuite")
    pycrfsuite.Trainer(verbose=False).train(str(tmp_path / "theirs.crfsuite"))
    assert (tmp_path / "ours.crfsuite").read_bytes() == (tmp_path / "theirs.crfsuite").read_bytes()


def test_a_file_that_cannot_be_written_is_said_before_the_training(tmp_path):
    trainer = appended(Trainer(verbose=False))
    with pytest.raises(ModelFileError, match="cannot write"):
        trainer.train(tmp_path / "no folder" / "model.crfsuite")
    assert trainer.logparser is None
    trainer.train("")  # writes none
    assert trainer.logparser.last_iteration is not None


def test_parameters_without_effect_are_said(tmp_path):
    trainer = appended(Trainer(params={"num_memories": 6, "linesearch": "Backtracking"}, verbose=False))
    with pytest.warns(UserWarning, match="no effect with algorithm='lbfgs': linesearch"):
        trainer.train("")


def test_trainers_are_pickled_with_their_items(tmp_path):
    trainer = appended(Trainer("pa", {"c": 0.5, "max_iterations": 5}, verbose=False))
    for i, twin in enumerate((pickle.loads(pickle.dumps(trainer)), copy.deepcopy(trainer))):
        twin.train(tmp_path / f"{i}.crfsuite")
        assert twin.get_params() == trainer.get_params()
    trainer.train(tmp_path / "own.crfsuite")
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1
    pickle.loads(pickle.dumps(trainer))  # with the log


def test_clear_removes_the_items(tmp_path):
    trainer = appended(Trainer(verbose=False))
    trainer.clear()
    trainer.append([["new"], ["old"]], ["x", "y"])
    trainer.train(tmp_path / "model.crfsuite")
    assert Tagger(tmp_path / "model.crfsuite").labels() == ["x", "y"]


@pytest.mark.parametrize("item", [*ITEMS[:3], [], [[]]])
def test_item_sequences_have_the_attributes_of_crfsuite(item):
    ours, theirs = ItemSequence(item), pycrfsuite.ItemSequence(item)
    assert ours.items() == theirs.items()
    assert repr(ours) == repr(theirs)
    assert len(ours) == len(item)
    assert pickle.loads(pickle.dumps(ours)).items() == ours.items()


def test_item_sequences_are_labelled_and_trained_on(tmp_path):
    model = ChainCRF().fit([ItemSequence(item).items() for item in ITEMS], LABELS)
    model.save(tmp_path / "model.crfqn")
    crf = CRF().fit([ItemSequence(item) for item in ITEMS], LABELS)
    assert crf.predict_single(ItemSequence(ITEMS[0])) == crf.predict_single(ITEMS[0])
    tagger = Tagger(tmp_path / "model.crfqn")
    assert tagger.tag(ItemSequence(ITEMS[0]).items()) == ["D", "N"]


def test_the_parser_reads_the_log_of_crfsuite(tmp_path):
    lines = []

    class Copying(pycrfsuite.Trainer):
        def message(self, message):
            lines.append(message)
            super().message(message)

    peer = appended(Copying("lbfgs", {"c2": 0.1, "max_iterations": 4}, verbose=False), [0, 1, 2] * 4)
    peer.train(str(tmp_path / "model.crfsuite"), holdout=2)
    parser = TrainLogParser()
    for line in lines:
        parser.feed(line)
    theirs = peer.logparser
    assert parser.events == theirs.events
    assert parser.last_log == theirs.last_log
    for name in ("iterations", "featgen_num_features", "featgen_percent", "training_seconds"):
        assert getattr(parser, name) == getattr(theirs, name)


def test_a_dump_refuses_names_of_several_lines(tmp_path):
    ChainCRF().fit([[["a\nb"], ["c"]]], [["x", "y"]]).save(tmp_path / "model.crfqn")
    with pytest.raises(InputError, match=r"expected names of one line, got the feature 'a\\nb'"):
        Tagger(tmp_path / "model.crfqn").dump(tmp_path / "dump.txt")
    assert not (tmp_path / "dump.txt").exists()


def test_mutated_items_do_not_change_the_training(tmp_path):
    item = [{"w": "a"}, {"w": "b"}]
    trainer = Trainer(verbose=False)
    trainer.append(item, ["x", "y"])
    item[0]["w"] = "b"
    trainer.train(tmp_path / "model.crfsuite")
    attributes = Tagger(tmp_path / "model.crfsuite").info().attributes
    assert np.isin(["w:a", "w:b"], [*attributes]).all()

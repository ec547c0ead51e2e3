"""The table of parameters: every estimator's is in it, checked by it and explained, and the manual shows it.

`python tests/test_parameters.py` prints the manual's tables.
"""

import inspect
import json
import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas
import pytest
from sklearn.base import clone

import crfqn
from crfqn.choices import BY_FEATURE, PENALTIES
from crfqn.cli.options import INPUT_PARAMETERS, DataOptions, DevOptions, PathOverrides, TrainOverrides
from crfqn.data_options import DATA_OPTIONS, SECTIONS, ObjectiveSection, SolverSection, keys_in
from crfqn.errors import InputError
from crfqn.estimators.automatic import LINEAR_SOLVERS, STRUCTURED_SOLVERS
from crfqn.parameters import PARAMETERS, Parameter
from crfqn.penalties.penalty import Layout
from crfqn.recipes.building import SET_ELSEWHERE
from crfqn.registry import find

ESTIMATORS = [
    crfqn.ChainCRF, crfqn.TaxonomyCRF, crfqn.MulticlassCRF, crfqn.MulticlassClassifier, crfqn.MultilabelRanker,
    crfqn.GeneralizedLeastSquares, crfqn.CalibratedLeastSquares, crfqn.StagewiseRegression, crfqn.MulticlassSVC,
]  # fmt: skip
MANUAL = Path(__file__).parents[1] / "docs"


def table() -> str:
    """Return the manual's table of parameters."""
    lines = ["| parameter | may be | default | what it is |", "|---|---|---|---|"]
    for name, rule in PARAMETERS.items():
        signatures = [inspect.signature(kind).parameters for kind in ESTIMATORS]
        defaults = dict.fromkeys(f"`{of[name].default!r}`" for of in signatures if name in of)
        value = rule.expected if rule.kind is not str or rule.choices else "a name"
        lines.append(f"| `{name}` | {value} | {', '.join(defaults)} | {rule.description} |")
    return "\n".join(lines)


def table_of_options():
    """Return the manual's table of the options of data and features, and the keys of recipes that they are."""
    lines = ["| option | in a recipe | what it is |", "|---|---|---|"]
    helps = {rule.name: rule.metadata["option"].help for rule in fields(DataOptions)}
    for name, row in DATA_OPTIONS.items():
        text = helps[name].replace("|", r"\|").replace(", with --data", "")
        lines.append(f"| `--{name.replace('_', '-')}` | `[{row.section}] {row.key}` | {text} |")
    return "\n".join(lines)


def test_the_manual_shows_the_tables():
    assert table() in (MANUAL / "estimators.md").read_text(encoding="utf-8")
    assert table_of_options() in (MANUAL / "command-line.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
class TestEstimators:
    def test_every_parameter_is_in_the_table_and_in_the_docstring(self, kind):
        names = set(inspect.signature(kind).parameters)
        assert names == set(kind().get_params()) == set(clone(kind()).get_params())
        assert names <= PARAMETERS.keys()
        text = inspect.getdoc(kind).split("Parameters\n----------\n")[1].split("\nAttributes\n")[0]
        heads = re.findall(r"^\w.*", text, re.M)
        explained = {name for head in heads for name in head.split(" : ")[0].split(", ")}
        assert names - explained == set()

    def test_defaults_are_allowed(self, kind):
        kind().check_parameters()
        assert repr(kind()) == f"{kind.__name__}()"

    @pytest.mark.parametrize("wrong", [object(), "no such thing", -1, np.nan])
    def test_what_is_not_allowed_is_refused_by_name(self, kind, wrong):
        for name in inspect.signature(kind).parameters:
            if not kind.PARAMETERS[name].allows(wrong):
                with pytest.raises(InputError, match=f"^{name}: expected .*, got "):
                    kind(**{name: wrong}).check_parameters()


@pytest.mark.parametrize("kind", ESTIMATORS[:4], ids=lambda kind: kind.__name__)
def test_documentation_begins_with_an_example_and_six_parameters(kind):
    text = inspect.getdoc(kind)
    example, six, others, attributes = (
        text.index(f"\n{head}\n{'-' * len(head)}\n")
        for head in ("Examples", "Parameters", "Other Parameters", "Attributes")
    )
    assert ">>> " in text[example:six]
    heads = re.findall(r"^(\w+) : (.*)", text[six:others], re.M)
    assert len(heads) == 6
    heads += re.findall(r"^(\w+) : (.*)", text[others:attributes], re.M)
    parameters = inspect.signature(kind).parameters
    assert sorted(name for name, _ in heads) == sorted(parameters)
    for name, values in heads:
        default = parameters[name].default
        shown = json.dumps(default) if isinstance(default, str) else str(default)
        assert values.endswith("optional" if default is None else f"default {shown}")
        rule = kind.PARAMETERS[name]
        assert rule.description[1:] in " ".join(text.split())
        assert rule.details[-60:] in " ".join(text.split())


def test_all_rows_are_some_estimators():
    assert {name for kind in ESTIMATORS for name in inspect.signature(kind).parameters} == PARAMETERS.keys()


def test_options_of_data_are_keys_of_recipes():
    helps = {rule.name: rule.metadata["option"].help for rule in fields(DataOptions)}
    for name, row in DATA_OPTIONS.items():
        described = keys_in(SECTIONS[row.section])[row.key].rule.description
        assert helps[name] == row.help or described[1:] in helps[name]


def test_keys_of_recipes_and_options_are_of_the_table():
    own = {"name": "solver"}
    for section in (ObjectiveSection, SolverSection):
        for name, key in keys_in(section).items():
            assert key.rule.description == PARAMETERS[own.get(name, name)].description
    says = {name: rule.description[1:] for name, rule in PARAMETERS.items()}
    for group, others in (
        (TrainOverrides, set()),
        (PathOverrides, set()),
        (DevOptions, {"start", "dev", "metric"}),
    ):
        for rule in fields(group):
            assert rule.name in others or says[rule.name] in rule.metadata["option"].help


# Values for features a and b and what a model file has of them; a text of the command line and what it says.
VALUES_BY_FEATURE = {
    "penalty_factors": (pandas.Series([2, 0.5]), [2.0, 0.5], "a=2", {"a": 2.0}),
    "feature_groups": (pandas.Series([7, 7]), [7, 7], "0,0", (0, 0)),
}


class TestDataByFeature:
    """What a row of `BY_FEATURE` needs elsewhere."""

    def test_every_place_of_a_layout_and_every_row_has_a_test(self):
        free = {name for name, value in Layout._field_defaults.items() if value is None}
        assert free == {row.place for row in BY_FEATURE.values()}
        assert BY_FEATURE.keys() == VALUES_BY_FEATURE.keys()

    @pytest.mark.parametrize("name", BY_FEATURE)
    def test_a_row_names_what_there_is(self, name):
        row, penalties = BY_FEATURE[name], PENALTIES.values()
        assert all(map(find, filter(None, (row.in_columns, row.in_layout, row.read_file))))
        assert any(getattr(penalty, row.penalties) for penalty in penalties)
        assert {*row.solvers} <= {
            *STRUCTURED_SOLVERS,
            *LINEAR_SOLVERS,
            *crfqn.GeneralizedLeastSquares.SOLVERS,
        }
        assert row.without.keys() <= BY_FEATURE.keys() - {name}

    @pytest.mark.parametrize("name", BY_FEATURE)
    def test_it_is_a_parameter_an_option_and_a_key_of_recipes(self, name):
        row, (value, _, text, said) = BY_FEATURE[name], VALUES_BY_FEATURE[name]
        option = {rule.name: rule for rule in fields(TrainOverrides)}[name].metadata["option"]
        assert option.help.endswith(f"{row.help}.")
        assert option.parser(text) == said
        assert PARAMETERS[name].allows(value)
        assert f"| `{name}` |" in (MANUAL / "estimators.md").read_text(encoding="utf-8")
        keys = keys_in(ObjectiveSection)
        assert (
            (name in keys) == bool(row.read_file) == (name in INPUT_PARAMETERS)
        )  # others are keys of [solver]
        assert name in keys or name not in SET_ELSEWHERE
        assert not row.read_file or (
            keys[name].rule.allows("file.txt") and keys[name].rule.allows({"a": 2.0})
        )

    @pytest.mark.parametrize("name", BY_FEATURE)
    def test_it_is_trained_with_and_in_the_model_file(self, name, tmp_path):
        settings = {"group_l1": 1.0, "loss": "logistic", "tol": 1e-4}
        value, kept, _, _ = VALUES_BY_FEATURE[name]
        X, y = [[1.0, 0.0], [0.0, 1.0], [1.0, 2.0]] * 9, ["P", "Q", "R"] * 9
        model = crfqn.MulticlassClassifier(**{name: value}, **settings).fit(X, y)
        plain = crfqn.MulticlassClassifier(**settings).fit(X, y)
        assert model.result_.value != pytest.approx(plain.result_.value, rel=1e-3)
        model.save(tmp_path / "m.crfqn")
        assert getattr(crfqn.load(tmp_path / "m.crfqn"), name) == kept

    @pytest.mark.parametrize("name", BY_FEATURE)
    def test_the_data_that_it_cannot_stand_beside_are_refused(self, name):
        for other in BY_FEATURE[name].without:
            both = {each: VALUES_BY_FEATURE[each][0] for each in (name, other)}
            with pytest.raises(
                InputError, match=f"^{name}: with {other} expected None, so that groups are rows$"
            ):
                crfqn.MulticlassClassifier(**both).fit([[0.0, 1.0], [1.0, 0.0]], [0, 1])


@pytest.mark.parametrize(
    ("rule", "right", "wrong", "expected"),
    [
        (Parameter("", float, low=0.0), [0, 0.5, np.float32(1)], [-1, np.inf, True, "1", None], "a finite number >= 0"),
        (Parameter("", float, above=0.0, is_optional=True), [1, None], [0, "x"], "None or a finite number > 0"),
        (Parameter("", float, low=0.0, words=("auto",)), ["auto", 0], ["other"], "'auto' or a finite number >= 0"),
        (Parameter("", float, above=0.0, expects="a number > 0"), [np.inf], [np.nan, 0], "a number > 0"),
        (Parameter("", int, low=1), [1, np.int64(3)], [0, 1.0, True], "an integer >= 1"),
        (Parameter("", bool), [True, np.bool_(False)], [0, 1, None], "True or False"),
        (Parameter("", str, ("a", "b")), ["a"], ["c", None, ["a"]], "one of ['a', 'b']"),
        (Parameter("", expects="a callable", accepts=callable), [len], [3], "a callable"),
    ],
)  # fmt: skip
def test_rules(rule, right, wrong, expected):
    assert all(map(rule.allows, right))
    assert not any(map(rule.allows, wrong))
    assert rule.expected == expected
    with pytest.raises(InputError, match=r"^x: expected .*, got "):
        rule.check("x", wrong[0])


if __name__ == "__main__":
    print(table(), table_of_options(), sep="\n\n")

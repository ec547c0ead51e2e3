"""Commands are declarations: what carries one out takes exactly its options."""

import ast
import inspect
from importlib import import_module
from pathlib import Path

import pytest

from crfqn.cli import app

FUNCTIONS = [
    each for each in ast.parse(Path(app.__file__).read_text()).body if isinstance(each, ast.FunctionDef)
]
DECLARED = {
    each.name: (each, call)
    for each in FUNCTIONS
    for call in each.decorator_list
    if isinstance(call, ast.Call) and call.args and "." in getattr(call.args[0], "value", "")
}


def test_there_are_declarations():
    assert {"train", "predict", "evaluate", "convert"} <= set(DECLARED)


@pytest.mark.parametrize("name", DECLARED)
def test_its_function_takes_its_options(name):
    declaration, call = DECLARED[name]
    renamed = {each.arg: each.value.value for each in call.keywords}
    options = [each.arg for each in (*declaration.args.args, *declaration.args.kwonlyargs)]
    assert set(renamed) <= set(options)
    module, function = call.args[0].value.split(".")
    signature = inspect.signature(getattr(import_module(f"crfqn.cli.{module}"), function))
    signature.bind(**{renamed.get(option, option): None for option in options})

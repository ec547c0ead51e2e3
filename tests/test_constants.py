"""Names of constants, files and functions: one meaning each in the whole library, and a comment for each number."""

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path

import crfqn

FOLDER = Path(crfqn.__file__).parent
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.rglob("*.py"))}
ROWS_OF_FORMATS = {"FORMAT", "FORMATS"}  # docs/extending.md
FUNCTIONS_OF_FORMATS = {"read", "write"}
COMMANDS = "cli/app.py"  # its functions have the names of the commands that users type


def shown(path):
    return path.relative_to(FOLDER).as_posix()


def constants(tree):
    """Yield the names and the value of each assignment of constants in a module."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]
            if all(re.fullmatch("_?[A-Z][A-Z0-9_]*", name) for name in names):
                yield names, node


def is_numeric(value):
    if isinstance(value, ast.Constant):
        return type(value.value) in (int, float)
    if isinstance(value, ast.UnaryOp):
        return is_numeric(value.operand)
    if isinstance(value, ast.BinOp):
        return is_numeric(value.left) and is_numeric(value.right)
    return isinstance(value, ast.Tuple) and bool(value.elts) and all(map(is_numeric, value.elts))


def test_one_word_has_one_content():
    contents = defaultdict(dict)
    for path, tree in TREES.items():
        for names, node in constants(tree):
            if len(names) == 1 and re.fullmatch("[A-Z]{2,}", names[0]):
                contents[names[0]].setdefault(ast.unparse(node.value), shown(path))
    several = {name: sorted(places.values()) for name, places in contents.items() if len(places) > 1}
    assert "FORMAT" in several  # the rows are found
    assert {name: places for name, places in several.items() if name not in ROWS_OF_FORMATS} == {}


def test_file_names():
    counts = Counter(path.name for path in TREES if path.name not in ("__init__.py", "__main__.py"))
    assert len(counts) > 100
    assert [name for name, n in counts.items() if n > 2] == []


def test_functions_of_modules():
    """Public functions of modules have the same name only if they read or write a format."""
    places = defaultdict(list)
    for path, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name[0] != "_" and shown(path) != COMMANDS:
                places[node.name].append(shown(path))
    several = {name: paths for name, paths in places.items() if len(set(paths)) > 1}
    assert several.keys() >= FUNCTIONS_OF_FORMATS
    assert {name: paths for name, paths in several.items() if name not in FUNCTIONS_OF_FORMATS} == {}


def test_numbers_have_comments():
    """A comment on the line, or directly above it."""
    without, n_numbers = [], 0
    for path, tree in TREES.items():
        lines = path.read_text(encoding="utf-8").split("\n")
        for names, node in constants(tree):
            if is_numeric(node.value):
                n_numbers += 1
                around = [lines[node.lineno - 2].lstrip().startswith("#")] if node.lineno > 1 else []
                around += ["#" in line for line in lines[node.lineno - 1 : node.end_lineno]]
                if not any(around):
                    without.append(f"{shown(path)}:{node.lineno} {', '.join(names)}")
    assert n_numbers > 100
    assert without == []

"""The README and the manual: blocks of code run and print what the pages say, links lead somewhere, commands exist.

A page's blocks: `python` runs by itself, `python continued` after those before it, and what it prints is the `text`
block after it; `sh` and `text` with lines `$ command` are one session a page; `toml` is a recipe. Numbers may differ by
5 %, or by one in the last place shown.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
import shlex
import subprocess
import sys
import tomllib
import warnings
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import pytest
import typer
from command_line import run_here

from crfqn.cli.app import app
from crfqn.datasets import list_datasets
from crfqn.readers import FORMATS
from crfqn.recipes import list_recipes
from crfqn.recipes.schema import parse_recipe

ROOT = Path(__file__).resolve().parents[1]
README, CARDS = ROOT / "README.md", sorted(ROOT.glob("models/*/README.md"))
MANUAL = [README, *sorted((ROOT / "docs").glob("*.md"))]
PAGES = [*MANUAL, *CARDS, ROOT / "CHANGELOG.md"]
MOST_LINES = 160
NOT_ALWAYS_INSTALLED = ("datasets", "mlflow", "polars", "spacy", "usaddress")
TOLERANCE = 0.05
NUMBER = re.compile(r"[+-]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[+-]?\d+)?")
FENCED = re.compile(r"^```(\{\w+\}|\w*(?: continued)?)\n(.*?)^```$", re.M | re.S)
LINK = re.compile(r"\]\(([^)\s]+)\)")
CHANGING = re.compile(
    r"\s*\d+(/\d+)?\s{2,}|gap |time |model |proved |log-likelihood "
)  # progress, times, sizes
STEP = re.compile(r"(?:.*<<'END'\n(?:.*\n)*?END|.+)\n")
PIPE = re.compile(r"(?:(?P<before>[^|\n]*) \| )?crfqn (?P<words>[^|<>\n]*)(?P<after>(?: [|>][^\n]*)?)")

sys.path.append(str(ROOT / "scripts"))


@pytest.fixture(autouse=True)
def own_formats():
    """Take out the formats that a page adds, which other tests in this process do not expect."""
    names = {*FORMATS}
    yield
    for name in {*FORMATS} - names:
        del FORMATS[name]


class Block(NamedTuple):
    """A fenced block of a page; `line` counts from 1."""

    language: str
    text: str
    line: int


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(m[1], m[2], text.count("\n", 0, m.start()) + 1) for m in FENCED.finditer(text)]


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def is_session(block: Block) -> bool:
    return block.language == "sh" or block.text.startswith("$ ")


def programs_of(page: Path) -> list[list[tuple[Block, Block | None]]]:
    """The page's Python programs: each some blocks, and what follows each of them."""
    programs: list[list[tuple[Block, Block | None]]] = []
    for block, after in zip_longest(blocks_of(page), blocks_of(page)[1:]):
        if block.language == "python":
            programs.append([])
        if block.language.startswith("python"):
            programs[-1].append((block, after))
    return programs


PYTHON = [
    pytest.param(page, program, id=f"{named(page)}:{program[0][0].line}")
    for page in MANUAL
    for program in programs_of(page)
]
SESSIONS = [page for page in MANUAL if any(map(is_session, blocks_of(page)))]
RECIPES = [
    pytest.param(block.text, id=f"{named(page)}:{block.line}")
    for page in MANUAL
    for block in blocks_of(page)
    if block.language == "toml"
]


def agree(shown: str, found: str) -> bool:
    """Whether two lines are the same, but for blanks and for what numbers may differ."""
    if NUMBER.sub("#", "".join(shown.split())) != NUMBER.sub("#", "".join(found.split())):
        return False
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(found), strict=True)
    return all(are_close(*(text.replace(",", "") for text in pair)) for pair in pairs)


def are_close(shown: str, found: str) -> bool:
    decimals = len(shown.partition(".")[2]) if "e" not in shown else 0
    unit = 1.01 * 10.0**-decimals if decimals else 0.0
    return abs(float(shown) - float(found)) <= max(unit, TOLERANCE * abs(float(shown)))


def missing(shown: list[str], found: list[str]) -> list[str]:
    """The lines shown that are not among those found, in this order."""
    rest = iter(found)
    return [line for line in shown if not any(agree(line, other) for other in rest)]


@pytest.mark.parametrize(
    ("shown", "found", "expected"),
    [
        ("a 0.95 [b]", "a  0.94 [b]", True),
        ("a 0.95", "a 0.89", False),
        ("a 0.", "a 0.", True),
        ("10,677 zeros", "10,700 zeros", True),
        ("38 of 64", "41 of 64", False),
        ("8 weights", "9 weights", False),
        ("'a' 'b'", "'b' 'a'", False),
    ],
)
def test_what_agrees(shown, found, expected):
    assert agree(shown, found) == expected


@pytest.mark.parametrize(("page", "program"), PYTHON)
def test_python_runs_and_prints_what_follows(page, program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for block, after in program:
        check_block(page, block, after, names)


def check_block(page: Path, block: Block, after: Block | None, names: dict[str, object]) -> None:
    """Run a block among the names of those before it, and compare what it prints."""
    output = io.StringIO()
    others = {*re.findall(r"^import (\w+)", block.text, re.M)} & {*NOT_ALWAYS_INSTALLED}
    code = compile("\n" * block.line + block.text, named(page), "exec")  # lines as in the page
    with contextlib.redirect_stdout(output), warnings.catch_warnings():
        if others:
            warnings.simplefilter("ignore")  # what such libraries say of their own dependencies
        for library in others:
            pytest.importorskip(library)
        exec(code, names)
    if after is not None and after.language == "text" and not is_session(after):
        shown, found = after.text.splitlines(), output.getvalue().splitlines()
        assert len(shown) == len(found), output.getvalue()
        assert not missing(shown, found), output.getvalue()
    else:
        assert output.getvalue() == ""


@pytest.mark.parametrize("page", SESSIONS, ids=named)
def test_commands_run_and_print_what_follows(page, tmp_path, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    for block in filter(is_session, blocks_of(page)):
        for step in steps_of(block):
            command, shown = (step, "") if block.language == "sh" else step.split("\n", 1)
            found = run_step(command, tmp_path, monkeypatch)
            stable = [line for line in shown.splitlines() if line.strip() and not CHANGING.match(line)]
            assert not missing(stable, found.splitlines()), found


def steps_of(block: Block) -> list[str]:
    """The commands of a session, each with what it prints."""
    if block.language != "sh":
        return block.text[2:].split("\n$ ")
    return [step.rstrip("\n") for step in STEP.findall(block.text)]


def run_step(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a command prints; `crfqn`, alone or in a pipe, runs in this process, which saves seconds of start-up."""
    parts = PIPE.fullmatch(command)
    if parts is None:
        return run_shell(command, folder)
    given = run_shell(parts["before"], folder) if parts["before"] else ""
    words, options = shlex.split(parts["words"]), {"COLUMNS": None, "input": given}
    done = run_here(monkeypatch, folder, *words, **options)
    assert done.returncode == 0, done.stderr
    return done.stderr + run_shell(f"cat {parts['after']}", folder, done.stdout)


def run_shell(command: str, folder: Path, given: str = "") -> str:
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", command],
        cwd=folder,
        env={**os.environ, "CRFQN_CACHE": str(folder)},
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        timeout=180,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize("text", RECIPES)
def test_recipes_can_be_read(text):
    parse_recipe(tomllib.loads(text))


def anchors_of(page: Path) -> set[str]:
    """What links to a page's headings end with."""
    heads = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", head).strip().lower().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page):
    for link in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
        if link.startswith(("https:", "http:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_relative_to(ROOT), link
        assert target.exists(), link
        assert not anchor or anchor in anchors_of(target), link


def pages_below(page: Path) -> set[Path]:
    """The page and those of its toctrees, theirs included; a card in `_generated` stands for its original."""
    found = {page}
    trees = "".join(block.text for block in blocks_of(page) if block.language == "{toctree}")
    for entry in re.findall(r"^[^:\n].*$", trees, re.M):
        place = re.sub(r"^_generated/models/(.*)$", r"../models/\1/README", entry)
        for below in sorted(page.parent.glob(f"{place}.md")):
            found |= pages_below(below.resolve())
    return found


def test_the_readme_leads_to_the_index_and_the_index_to_every_page_and_card():
    index = ROOT / "docs" / "index.md"
    assert f"]({named(index)})" in README.read_text(encoding="utf-8")
    assert {*MANUAL[1:], *CARDS} <= pages_below(index)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_models_scripts_and_datasets_that_are_named_exist(page):
    text = page.read_text(encoding="utf-8")
    assert {*re.findall(r"\bmodels/([a-z][\w-]*)", text)} <= {*list_recipes()}
    for script in re.findall(r"\bscripts/([\w/]+\.py)", text):
        assert (ROOT / "scripts" / script).is_file(), script
    known = {entry.name for entry in list_datasets()}
    assert {*re.findall(r"\bcrfqn data (?:get|verify) ([a-z][\w-]*)", text)} <= known


def options_of(command: object) -> set[str]:
    return {option for parameter in getattr(command, "params", ()) for option in parameter.opts}


def commands_in(text: str, program: str) -> list[list[str]]:
    """The words after `program` of each command in a page: in backquotes, indented, or after `$ `."""
    quoted = re.findall(rf"`{program} ([^`]*)`", text)
    lines = re.findall(rf"^(?:    |\$ )(?:.*\| ){{0,1}}{program} ([^#|\n]*)", text, re.M)
    return [re.sub(r"\s+", " ", words).split(" ") for words in quoted + lines]


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_options_exist(page):
    text = page.read_text(encoding="utf-8")
    commands = typer.main.get_command(app).commands
    for words in commands_in(text, "crfqn"):
        if words[0] in commands:
            known = options_of(commands[words[0]]) | {"--help"}
            assert {word for word in words if word.startswith("-")} - known <= {"-"}, words


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_commands_of_benchmarks_and_studies_can_be_read(page):
    """Their options and values, without a run; a file or folder of the reader's is one of ours here."""
    text = page.read_text(encoding="utf-8")
    for script in sorted({*re.findall(r"python scripts/(\w+)\.py", text)}):
        for words in commands_in(text, rf"python scripts/{script}\.py"):
            arguments = [
                str(ROOT) if (word.isalpha() and word.isupper()) or word.startswith("../") else word
                for word in words
            ]
            command = typer.main.get_command(importlib.import_module(script).app)
            below = command.get_command(None, words[0]) if hasattr(command, "get_command") else None
            if below is not None:
                command, arguments = below, arguments[1:]
            command.make_context(script, shlex.split(" ".join(arguments)))


@pytest.mark.parametrize("card", CARDS, ids=named)
def test_a_card_trains_and_evaluates_its_own_model(card):
    name, text = card.parent.name, card.read_text(encoding="utf-8")
    assert text.startswith(f"# {name}: ")
    assert f"\n    crfqn train models/{name}\n    crfqn evaluate {name}.crfqn\n" in text
    recipe = parse_recipe(tomllib.loads((card.parent / "recipe.toml").read_text(encoding="utf-8")))
    assert str(recipe.output_path) == f"{name}.crfqn"
    assert f"l1 = {recipe.objective.l1:g}" in re.sub(r"\s+", " ", text)


def test_the_readme_is_short_and_own_data_come_first():
    text = README.read_text(encoding="utf-8")
    assert text.count("\n") <= MOST_LINES
    heads = re.findall(r"^## (.*)$", text, re.M)
    assert heads[0] == "Your own data"
    for command in ("    pip install . && crfqn quickstart\n", "    pip install '.[test]' && pytest\n"):
        assert command in text.partition("## ")[0]

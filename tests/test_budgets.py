"""Lines of Python of each folder of crfqn/, against its budget in `pyproject.toml`.

`python tests/test_budgets.py` prints the table. A change that makes a folder shorter lowers its budget; one that raises
it says in its commit what the lines give.
"""

import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def lines_of_folders():
    """Lines by folder; `crfqn` itself has the files that are in no folder."""
    lines = Counter()
    for path in (ROOT / "crfqn").rglob("*.py"):
        parts = path.relative_to(ROOT).parts
        lines["/".join(parts[: min(2, len(parts) - 1)])] += path.read_bytes().count(b"\n")
    return dict(sorted(lines.items()))


def budgets():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["crfqn"]["budgets"]


def test_every_folder_keeps_to_its_budget():
    lines, allowed = lines_of_folders(), budgets()
    assert lines.keys() == allowed.keys(), "a folder is new or gone: see the table in pyproject.toml"
    over = {folder: (n, allowed[folder]) for folder, n in lines.items() if n > allowed[folder]}
    assert over == {}, "lines and budget"


def test_budgets_go_with_what_is_there():
    """One that is 3 % or 30 lines above is lowered, so that what was won stays."""
    lines = lines_of_folders()
    loose = {
        folder: (lines[folder], allowed)
        for folder, allowed in budgets().items()
        if allowed > max(lines.get(folder, 0) * 1.03, lines.get(folder, 0) + 30)
    }
    assert loose == {}, "lines and budget"


def table():
    """Return the table of today's lines, with their sum as a comment."""
    lines = lines_of_folders()
    rows = [f'"{folder}" = {n}' if "/" in folder else f"{folder} = {n}" for folder, n in lines.items()]
    return "\n".join([f"[tool.crfqn.budgets] # lines of Python, {sum(lines.values()):,} together", *rows])


if __name__ == "__main__":
    print(table())

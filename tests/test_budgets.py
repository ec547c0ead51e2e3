"""Lines of Python of each folder, against its budget in `pyproject.toml`.

`python tests/test_budgets.py` prints the table. A change that makes a folder shorter lowers its budget; one that raises
it says in its commit what the lines give.
"""

import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COUNTED = ("crfqn", "scripts", "tests")


def lines_of_folders():
    """Lines by folder, the first two levels: files that stand in the first one are counted there."""
    found = Counter()
    for top in COUNTED:
        for path in (ROOT / top).rglob("*.py"):
            parts = path.relative_to(ROOT).parts
            found["/".join(parts[: min(2, len(parts) - 1)])] += path.read_bytes().count(b"\n")
    return dict(sorted(found.items()))


def budgets():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["crfqn"]["budgets"]


def test_every_folder_keeps_to_its_budget():
    found, allowed = lines_of_folders(), budgets()
    assert found.keys() == allowed.keys(), "a folder is new or gone: see the table in pyproject.toml"
    over = {folder: (n, allowed[folder]) for folder, n in found.items() if n > allowed[folder]}
    assert over == {}, "lines and budget"


def test_budgets_go_with_what_is_there():
    """One that is 3 % or 30 lines above is lowered, so that what was won stays."""
    found = lines_of_folders()
    loose = {
        folder: (found[folder], allowed)
        for folder, allowed in budgets().items()
        if allowed > max(found.get(folder, 0) * 1.03, found.get(folder, 0) + 30)
    }
    assert loose == {}, "lines and budget"


def table():
    """The table of today's lines, and the sum of each first folder as a comment."""
    found = lines_of_folders()
    sums = {top: sum(n for folder, n in found.items() if folder.split("/")[0] == top) for top in COUNTED}
    shown = ", ".join(f"{top} {n:,}" for top, n in sums.items())
    rows = [f'"{folder}" = {n}' if "/" in folder else f"{folder} = {n}" for folder, n in found.items()]
    return "\n".join([f"[tool.crfqn.budgets] # lines of Python: {shown}", *rows])


if __name__ == "__main__":
    print(table())

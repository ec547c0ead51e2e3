"""Recipes and files of documents for the command line, and models of them."""

import pytest
from command_line import run_here

QUICK = ("--l1", "1", "--threads", "1", "--tol", "1e-2")
ZIP = "Open a ZIP archive and read its members"
LOOP = "Run the event loop until the transport of the coroutine is closed"
OWN = 'name = "own"\ntitle = "Own"\n[data]\ntrain = "train.txt"\ntest = "test.txt"\n'
NUMBERS = (
    OWN
    + '[features]\nkind = "given"\nscale = "max-abs"\n[structure]\nkind = "taxonomy"\ntaxonomy = "tree.txt"\n'
)
TEXTS = OWN + '[features]\nkind = "text"\nnorm = "none"\n[structure]\nkind = "flat"\n'
TREE = "pets cat\npets dog\nbirds\n"
POINTS = "cat 1:4\ndog 2:8 3:1\nbirds 7:2\n" * 5
POSTS = "cat\tMiaow says the cat\ndog\tWoof says the dog\nbird\tTweet says the bird\n" * 5


def own(folder, recipe, lines, l1):
    """A folder with a recipe of one's own and its model, and how its training went."""
    for name, content in {
        "recipe.toml": recipe,
        "train.txt": lines,
        "test.txt": lines,
        "tree.txt": TREE,
    }.items():
        (folder / name).write_text(content)
    with pytest.MonkeyPatch.context() as patch:
        run = run_here(patch, folder, "train", ".", "--l1", l1, "--threads", 1)
    assert run.returncode == 0, run.stderr
    return folder, run

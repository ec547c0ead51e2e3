"""Run the command line in this process; a model of the built-in digits, trained once."""

import numpy as np
import pytest
from command_line import run_here

QUICK = ("--l1", "5", "--threads", "1", "--tol", "1e-2")


@pytest.fixture
def here(monkeypatch, tmp_path):
    return lambda *arguments, cwd=tmp_path, **options: run_here(monkeypatch, cwd, *arguments, **options)


@pytest.fixture
def run(here):
    return here


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A folder with `digits.crfqn`, and how its training went."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        return folder, run_here(patch, folder, "train", "models/digits", *QUICK)


@pytest.fixture(scope="session")
def digit_file(tmp_path_factory):
    """Two labelled digit strings in the text format."""
    from crfqn.readers.images import make_digit_strings

    labeled = make_digit_strings()
    lines = []
    for images, labels in zip(labeled.inputs[-2:], labeled.labels[-2:], strict=True):
        for image, label in zip(images, labels, strict=True):
            on = np.flatnonzero(image)
            lines.append("\t".join([label, *(f"p{i // 8}_{i % 8}:{image[i]}" for i in on)]))
        lines.append("")
    path = tmp_path_factory.mktemp("input") / "two.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path, labeled.labels[-2:]

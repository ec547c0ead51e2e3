"""Models of documents that most tests look at, trained once for all of them."""

import pytest
from command_line import run_here
from own_documents import NUMBERS, POINTS, POSTS, QUICK, TEXTS, own


@pytest.fixture(autouse=True)
def _collected_once(collected):
    with collected():
        yield


@pytest.fixture(scope="session")
def trained(collected, tmp_path_factory):
    """A folder with `stdlib.crfqn`, and how its training went."""
    folder = tmp_path_factory.mktemp("trained")
    with collected(), pytest.MonkeyPatch.context() as patch:
        return folder, run_here(patch, folder, "train", "models/stdlib", *QUICK)


@pytest.fixture(scope="session")
def model(trained):
    return trained[0] / "stdlib.crfqn"


@pytest.fixture(scope="session")
def numbers(tmp_path_factory):
    return own(tmp_path_factory.mktemp("numbers"), NUMBERS, POINTS, "0.02")


@pytest.fixture(scope="session")
def texts(tmp_path_factory):
    more = "[objective]\nfit_intercept = true\npenalize_intercept = true\n"
    return own(tmp_path_factory.mktemp("texts"), TEXTS + more, POSTS, "0.1")

"""Shared by all tests."""

import gc
import os
from contextlib import contextmanager
from pathlib import Path

import pytest

# Idle threads of BLAS wait by spinning, on cores that the other worker of pytest needs; read once, by the libraries.
os.environ.setdefault("OMP_NUM_THREADS", "1")
gc.set_threshold(50_000, 20, 20)  # what stays to the end, libraries and tests, is walked over in vain

# A core for each worker, and so one thread unless a test sets more: small trainings hand out parts a hundred times a
# second, which takes a third of their time where the other core is at another worker's tests.
if hasattr(os, "sched_setaffinity") and "PYTEST_XDIST_WORKER" in os.environ:
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[int(os.environ["PYTEST_XDIST_WORKER"][2:]) % len(cores)]})


def pytest_collection_modifyitems(items):
    """Begin with the files of this folder itself: pages, processes and the manual's site, of which some take half a
    minute, so that no worker waits for them at the end."""
    here = Path(__file__).parent
    items.sort(key=lambda item: item.path.parent != here)


@pytest.fixture(scope="session")
def standard_library():
    """The docstrings of the standard library, which take seconds to collect."""
    from crfqn.readers.datasets import DATA_GENERATORS

    return DATA_GENERATORS["docstrings"]()


@pytest.fixture(scope="session")
def collected(standard_library):
    """Give what has been collected to every dataset and recipe of the docstrings; `with collected():`."""
    from crfqn.readers.datasets import DATA_GENERATORS

    @contextmanager
    def given():
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(DATA_GENERATORS, "docstrings", lambda: standard_library)
            yield

    return given


@pytest.fixture(scope="session")
def compiled():
    """Compile the kernels that a training needs, so that no test with a time limit pays for it."""
    from problems import make_problem

    from crfqn.penalties import ElasticNet
    from crfqn.solvers.minimize import minimize
    from crfqn.solvers.prox_qn import ProxQN
    from crfqn.solvers.stopping import Run

    for is_binary in (True, False):
        for solver in (ProxQN(), ProxQN.paper()):
            problem = make_problem(0, is_binary=is_binary)
            minimize(problem.objective(), ElasticNet(1.0), solver, Run(max_iter=5))


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A window of headless Chromium."""
    from browsing import open_browser

    with open_browser(tmp_path_factory.mktemp("screenshots")) as found:
        yield found

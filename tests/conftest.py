"""Shared by all tests."""

import pytest


@pytest.fixture(scope="session")
def compiled():
    """Compile the kernels that a training needs, so that no test with a time limit pays for it."""
    from problems import make_problem

    from crfqn.penalties import ElasticNet
    from crfqn.solvers.minimize import minimize
    from crfqn.solvers.prox_qn import ProxQN

    for is_binary in (True, False):
        for solver in (ProxQN(), ProxQN.paper()):
            problem = make_problem(0, is_binary=is_binary)
            minimize(problem.objective(), ElasticNet(1.0), solver, max_iter=5)

"""Items to walk regularisation paths over, and a walk without warnings."""

import warnings

from problems import make_problem, make_tree_problem
from sklearn.exceptions import ConvergenceWarning

from crfqn import crf_path
from crfqn.taxonomy.tree import LabelTree

EXACT = {"tol": 1e-9}
PROBLEM = make_problem(1, n_items=30)
X, Y = PROBLEM.items, PROBLEM.labels


def tree_case(shape="forest"):
    problem = make_tree_problem(shape, 1, n_items=40, n_features=4)
    names = tuple(f"n{k}" for k in range(problem.n_states))
    tree = LabelTree(names, problem.parents)
    return problem, tree, [names[k] for k in problem.targets]


def quiet(*args, **settings):
    """A path whose values may end at the last digit before a gap of 1e-9, and whose best may be at an end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "the best score is (that of|at an end)", UserWarning)
        return crf_path(*args, **settings)

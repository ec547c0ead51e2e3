"""What a row of a table cannot say stands elsewhere: sentences for users, forms of chains, compiled margins.

Each check is of the tables as they are, and of tables with a row more, which it has to find.
"""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from crfqn import ChainCRF, MulticlassClassifier, registry
from crfqn.choices import FLAT, LOSSES, PENALTIES, STRENGTHS, STRUCTURED
from crfqn.data.features import FeatureStore
from crfqn.estimators.automatic import LINEAR_SOLVERS, SOLVERS, make_penalty
from crfqn.kernels.margins import slopes
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.losses.hinges import MulticlassSquaredHinge
from crfqn.objectives.losses.score_loss import NO_EDGES
from crfqn.objectives.objective import build_objective
from crfqn.parameters import OPTIONS, PARAMETERS
from crfqn.penalties import ElasticNet
from crfqn.penalties.penalty import Layout
from crfqn.readers import FORMATS
from crfqn.solvers.coordinate.row_state import RowBlocks
from crfqn.structures.taxonomy import flat
from crfqn.threads import Pool

MANUAL = Path(__file__).parents[1] / "docs"
N, F, K = 12, 5, 3
FLAT_ONLY: set[str] = set()  # penalties that chains do not have


def lacking():
    """Return the rows that a text for users lacks, each as `name: text`."""
    estimators, formats = ((MANUAL / f"{page}.md").read_text("utf-8") for page in ("estimators", "formats"))
    flat, chain = MulticlassClassifier.PARAMETERS["loss"].details, ChainCRF.PARAMETERS["loss"].details
    texts = [
        ("docs/estimators.md", estimators, LOSSES, '"{}"'),
        ("table of losses, docs/estimators.md", estimators, FLAT, '| `"{}"` |'),
        ("loss, estimators/automatic.py", flat, FLAT, '"{}":'),
        ("loss, estimators/settings.py", chain, STRUCTURED, '"{}" is '),
        ("docs/estimators.md", estimators, PENALTIES, '`"{}"`'),
        ("penalty, parameters.py", PARAMETERS["penalty"].details, PENALTIES, '"{}"'),
        ("solver, parameters.py", PARAMETERS["solver"].details, SOLVERS, '"{}"'),
        ("docs/estimators.md", estimators, {*LINEAR_SOLVERS} - {*SOLVERS}, '"{}"'),
        ("docs/formats.md", formats, FORMATS, "`{}`"),
    ]
    return [
        f"{name}: {where}"
        for where, text, names, form in texts
        for name in names
        if form.format(name) not in text
    ]


def test_texts_for_users_name_every_row():
    assert lacking() == []


@pytest.mark.parametrize(
    ("table", "n_texts"),
    [(LOSSES, 1), (FLAT, 2), (STRUCTURED, 1), (PENALTIES, 2), (SOLVERS, 1), (FORMATS, 1)],
)
def test_a_new_row_without_its_texts_is_found(monkeypatch, table, n_texts):
    monkeypatch.setitem(table, "no-such-row", next(iter(table.values())))
    found = lacking()
    assert len(found) == n_texts
    assert all(text.startswith("no-such-row: ") for text in found)


def other_strengths():
    """Return the strengths of penalties that no parameter, no option or no model file has."""
    options = {name for names in OPTIONS.values() for name in names}
    named = {name for row in PENALTIES.values() for name in row.strengths}
    return named - ({*STRENGTHS} & PARAMETERS.keys() & options)


def test_strengths_of_penalties_are_parameters_and_options(monkeypatch):
    assert other_strengths() == set()
    monkeypatch.setitem(PENALTIES, "smooth", replace(PENALTIES["l1"], strengths=("l1", "roughness")))
    assert other_strengths() == {"roughness"}


class Doubled(ElasticNet):
    """2 l1 ||w||_1."""

    @classmethod
    def from_strengths(cls, strengths, layout):
        return super().from_strengths(strengths | {"l1": 2.0 * strengths["l1"]}, layout)


def unlike_chains():
    """Return the penalties that chains, which make theirs of strengths (`estimators/settings.py`), have otherwise."""
    layout, found = Layout(F, K, np.array([F - 1])), []
    coords = np.arange(F * K)
    weights = np.random.default_rng(0).standard_normal(F * K)
    for name in PENALTIES.keys() - FLAT_ONLY:
        row = PENALTIES[name]
        strengths = {strength: 0.5 * (strength in row.strengths) for strength in STRENGTHS}
        own = make_penalty(name, strengths, layout)
        of_chains = ChainCRF(group_norm=row.norm).penalty_of(strengths, layout)
        if not np.isclose(own.value(coords, weights), of_chains.value(coords, weights)):
            found.append(name)
    return found


def test_chains_have_the_penalties_of_the_table(monkeypatch):
    assert unlike_chains() == []
    monkeypatch.setitem(registry._IMPORTS, "Doubled", globals().get)
    monkeypatch.setitem(PENALTIES, "another", replace(PENALTIES["l1"], class_name="Doubled"))
    assert unlike_chains() == ["another"]


class Halved(MulticlassSquaredHinge):
    """Half of the squared hinge, with the other one's code."""

    def evaluate(self, scores, edges, weights, pool):
        return super().evaluate(scores, edges, 0.5 * weights, pool)


def unlike_kernels():
    """Return the flat losses whose slopes are not those that the kernel of their `code` finds by their `margins`."""
    random, found = np.random.default_rng(1), []
    X, weights = random.standard_normal((N, F)), random.standard_normal((K, F))
    features = SparseMap(FeatureStore.from_matrix(X, np.arange(N + 1)))
    for name, form in FLAT.items():
        if form.loss_class.has_margins:
            loss = form.loss_class.from_structure(flat(K, N), (np.arange(N) % K).astype(np.int32))
            objective = build_objective(features, loss)
            state = RowBlocks.make(objective, objective.at(np.arange(K * F), weights.ravel())).state
            ends, width = features.store.by_feature[0], state.margins.shape[1]
            rows = np.empty((F, width))
            for j in range(F):
                slopes(state, ends[j], ends[j + 1], rows[j], np.empty(width), np.empty((2, width)))
            residual = loss.evaluate(weights @ X.T, NO_EDGES, objective.whole.weights, Pool(1)).residual
            if not np.allclose(rows[:, :K], (residual @ X).T):
                found.append(name)
    return found


def test_kernels_of_margins_are_of_the_losses_that_name_them(monkeypatch):
    assert unlike_kernels() == []
    monkeypatch.setitem(FLAT, "half", SimpleNamespace(loss_class=Halved))
    assert unlike_kernels() == ["half"]

"""Data by feature of an estimator, as checks, columns and JSON values, by the rows of `crfqn.choices.BY_FEATURE`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from crfqn.choices import BY_FEATURE, PENALTIES, ByFeatureRow
from crfqn.errors import InputError
from crfqn.estimators.automatic import AUTO, learns_from_mistakes, named_penalty
from crfqn.model.space import Space
from crfqn.penalties.penalty import Layout
from crfqn.registry import find


def given(settings: Any) -> dict[str, ByFeatureRow]:
    """Return the rows of the parameters that are set, by name."""
    return {name: row for name, row in BY_FEATURE.items() if getattr(settings, name, None) is not None}


def check_by_feature(settings: Any) -> None:
    """Raise InputError for data that the solver or the penalty does not take, or that exclude each other. A solver that
    cannot train the loss is refused elsewhere; solver objects refuse most data when they see the penalty."""
    solver, alone, rows = settings.solver, settings.capable_solvers, given(settings)
    trains = [name for name in settings.SOLVERS if not alone or name in (AUTO, *alone)]
    for name, row in rows.items():
        able = [other for other in trains if other in row.solvers]
        is_named, penalty = isinstance(solver, str), getattr(settings, "penalty", None)
        cannot = solver in trains and solver not in able if is_named else learns_from_mistakes(solver)
        if cannot or able == [AUTO]:
            shown = repr(solver) if is_named else type(solver).__name__
            others = f"{', '.join(map(repr, able))} do" if able != [AUTO] else "no solver of this loss does"
            raise InputError(
                f"{name}: {shown} takes no {row.noun}, {others}; expected None or another solver"
            )
        if penalty is not None and not getattr(named_penalty(penalty), row.penalties):
            having = [other for other, kind in PENALTIES.items() if getattr(kind, row.penalties)]
            raise InputError(
                f"{name}: the penalty {penalty!r} has no {row.noun}; expected None, or one of the penalties {having}"
            )
        for other in rows.keys() & row.without:
            raise InputError(f"{name}: with {other} expected None, {row.without[other]}")


def with_data_by_feature(settings: Any, space: Space, layout: Layout) -> Layout:
    """Return the layout of a penalty with the data that are set, for all columns of a training; InputError where they
    do not fit the features."""
    for name, row in given(settings).items():
        if space.n_dense and not row.takes_dense:
            raise InputError(f"{name}: expected items without a dense block, got crfqn.Features")
        in_columns, in_layout = find(row.in_columns), find(row.in_layout)
        by_column = in_columns(getattr(settings, name), space.axes.features, space.n_features)
        layout = layout._replace(**{row.place: in_layout(by_column, space, layout)})
    return layout


def values_by_feature(settings: Any) -> dict[str, Any]:
    """Return the data that are set, as the JSON values of a model file, by the parameter's name."""
    out: dict[str, Any] = {}
    for name, row in given(settings).items():
        value, kind = getattr(settings, name), np.float64 if row.is_numeric else None
        values = [*value.values()] if isinstance(value, Mapping) else value
        values = np.asarray(values, kind).tolist()
        out[name] = dict(zip(map(str, value), values, strict=True)) if isinstance(value, Mapping) else values
    return out

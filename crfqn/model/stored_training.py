"""Checks the settings of a training that a model file holds, for estimators and models alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from crfqn.choices import BY_FEATURE, STRUCTURED
from crfqn.data.model_file import ModelFile
from crfqn.data.schemes import find_scheme
from crfqn.errors import InputError, ModelFileError
from crfqn.messages import describe
from crfqn.model.content import CLASSIFIER, FLAT
from crfqn.parameters import PARAMETERS, Parameter, check_nonnegative
from crfqn.taxonomy.label_paths import check_separator

# Parameters that the estimators of a kind take in another form than the table of parameters says.
OF_STRUCTURES = {"loss": replace(PARAMETERS["loss"], choices=(*STRUCTURED,))}
OF_FLAT = {
    **{name: replace(PARAMETERS[name], is_optional=True) for name in ("l1", "group_l1")},
    "l2": replace(PARAMETERS["l2"], words=(), is_optional=True),
}


def check_training(file: ModelFile) -> None:
    """Raise ModelFileError for invalid settings; `Trained.of_file` checks the rest."""
    settings = file.table("settings")
    try:
        _check_settings(settings, OF_FLAT if file.kind in (FLAT, CLASSIFIER) else OF_STRUCTURES)
    except InputError as error:
        raise ModelFileError(f"{file.path}: settings: {error}") from None


def _check_settings(settings: Mapping[str, Any], others: Mapping[str, Parameter]) -> None:
    """Raise InputError for a setting that its row of the table of parameters does not allow."""
    if not isinstance(settings.get("solver"), str):
        raise InputError(f"solver: expected a name, got {describe(settings.get('solver'))}")
    rows = {**PARAMETERS, **others}
    for name, value in settings.items():
        # Pairs in JSON, as labels may be other than strings.
        if name == "class_weight" and isinstance(value, list):
            value = dict(value)
        if name in rows:
            rows[name].check(name, value)
    for name in (name for name, row in BY_FEATURE.items() if row.is_numeric):
        values = settings.get(name)
        for value in values.values() if isinstance(values, dict) else values or ():
            check_nonnegative(name, value)
    if settings.get("scheme") is not None:
        find_scheme(settings["scheme"])
    if "separator" in settings:
        check_separator(settings["separator"])
    if not isinstance(rules := settings.get("transition_rules"), dict) and rules not in (None, "seen"):
        raise InputError(f"transition_rules: expected a table, 'seen' or None, got {describe(rules)}")

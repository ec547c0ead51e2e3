"""What a model knows of the training that has made it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from crfqn.arrays import NO_WEIGHTS
from crfqn.data.model_file import ModelFile
from crfqn.errors import ModelFileError
from crfqn.model.content import ModelContent
from crfqn.model.featurizers import read_featurizer
from crfqn.model.results import SUMMARY, TRACE, held_out_content, read_result
from crfqn.parameters import check_nonnegative
from crfqn.result import Result

STRENGTHS = ("l1", "l2", "group_l1")


@dataclass(frozen=True, eq=False)
class Trained:
    """A training that has ended, and made a model.

    result : how it has ended, without the weights, which the model has
    strengths : of the penalty by name; some or all may be missing of another tool's model
    settings : the parameters of the training, as a model file holds them
    n_weights : how many weights there could have been, 0 where nobody knows
    extra : what users keep with a model, None but for loaded ones; training, featurizer : what `crfqn train` keeps
    """

    result: Result
    strengths: Mapping[str, float]
    settings: Mapping[str, Any]
    n_weights: int = 0
    extra: dict[str, Any] | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    featurizer: Any = None

    @classmethod
    def of_file(cls, file: ModelFile, settings: Mapping[str, Any], unnamed: Mapping[str, float]) -> Trained:
        """Return the training that a model file tells of; ModelFileError where it does not fit together.

        settings : the parameters as they are now; unnamed : the strengths of files that name none
        """
        strengths: Mapping[str, float] = unnamed
        if "strengths" in file.metadata:
            strengths = file.table("strengths")
            if strengths.keys() != set(STRENGTHS):
                raise ModelFileError(
                    f"{file.path}: strengths: expected {', '.join(STRENGTHS)}, got {[*strengths]}"
                )
        for name, value in strengths.items():
            check_nonnegative(name, value)
        return cls(
            read_result(file, NO_WEIGHTS),
            {name: float(value) for name, value in strengths.items()},
            settings,
            0,
            file.table("extra"),
            file.training,
            read_featurizer(file),
        )

    def add_to(self, content: ModelContent, n_nonzero: int, used_features: Any, extra: Any) -> None:
        """Add the training to what a model file holds; used_features : a function that returns those with a weight."""
        result = self.result
        rows = [[getattr(row, name) for name in TRACE] for row in result.trace.rows]
        content.arrays["trace"] = np.array(rows, np.float64).reshape(-1, len(TRACE))
        if self.strengths.keys() == set(STRENGTHS):
            content.metadata["strengths"] = dict(self.strengths)
        content.metadata |= {
            "settings": dict(self.settings),
            "n_nonzero": n_nonzero,
            "result": {name: getattr(result, name) for name in (*SUMMARY, "n_iter", "n_proved_zeros")}
            | {"status": result.status.name}
            | ({"is_doubtful": True} if result.is_doubtful else {})
            | ({} if result.held_out is None else {"held_out": held_out_content(result.held_out)}),
            "extra": extra or {},
        }
        if self.training:
            content.metadata["training"] = self.training
        if self.featurizer:
            content.metadata["featurizer"] = self.featurizer.as_dict(used_features())


MISSING: Any = object()


class Fitted:
    """Attribute of a fitted estimator that its model has, under a dotted path; AttributeError where it is not there, or
    None and `is_needed`. Before a fit it is `default`, if there is one. To set it makes another model."""

    def __init__(self, path: str, default: Any = MISSING, is_needed: bool = False) -> None:
        self.path, self.default, self.is_needed = path.split("."), default, is_needed

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, estimator: Any, owner: type | None = None) -> Any:
        if estimator is None:
            return self
        value = estimator.__dict__.get("model_", MISSING)
        for name in self.path if value is not MISSING else ():
            value = value.get(name, MISSING) if isinstance(value, dict) else getattr(value, name)
        value = self.default if value is MISSING else value
        if value is MISSING or (value is None and self.is_needed):
            raise AttributeError(f"{type(estimator).__name__} has no {self.name} of a training")
        return value

    def __set__(self, estimator: Any, value: Any) -> None:
        estimator.model_ = _replaced(estimator.model_, self.path, value)


def _replaced(owner: Any, path: list[str], value: Any) -> Any:
    """Return a value with another one under a path of names."""
    if len(path) > 1:
        value = _replaced(getattr(owner, path[0]), path[1:], value)
    return replace(owner, **{path[0]: value})

"""CRFsuite's binary model files (`model/crfsuite_model.py`) as estimators, and estimators as such files."""

from __future__ import annotations

import os
from typing import Any

from crfqn.atomic_write import replace_file
from crfqn.data.model_file import ModelSource, at_hand, shown_source
from crfqn.interchange.chain_weights import IMPORTED_FROM, chain_estimator, chain_weights
from crfqn.model.content import CRFSUITE_NAMING
from crfqn.model.crfsuite_model import encode, read_weights

NAME = "crfsuite"


def read(path: ModelSource) -> Any:
    """Read a CRFsuite model: return a fitted ChainCRF that predicts the same.

    Labels and features are in the order of the file. Items are what python-crfsuite takes: lists of attribute names, or
    of dicts, which are named as there (`crfqn.compat.attributes`).

    Raises
    ------
    ModelFileError
        Anything but a whole CRFsuite model.
    """
    source = at_hand(path)
    return chain_estimator(
        read_weights(source), shown_source(source), {IMPORTED_FROM: NAME}, naming=CRFSUITE_NAMING
    )


def write(
    model: Any, path: str | os.PathLike[str], feature_names: list[str] | None = None, lossy: bool = False
) -> None:
    """Write a ChainCRF as a CRFsuite model, atomically; parameters and errors as of `chain_weights` and `encode`.

    python-crfsuite finds its features in the dicts and lists of strings that the model was trained on. Of a model of
    `Templates` it takes the names of the features, as the format has no templates.
    """
    replace_file(path, encode(chain_weights(model, NAME, feature_names, lossy)))

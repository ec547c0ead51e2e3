"""Templates of the models of Wapiti and CRF++: with them a model takes columns of tokens, as it did there."""

from __future__ import annotations

import re
from collections.abc import Sequence

from crfqn.data.templates.vocabulary import TemplateSource
from crfqn.errors import InputError, warn_caller
from crfqn.readers.formats.conll import usual_names

COLUMN = re.compile(r"%[a-zA-Z]\[[@*]?[+-]?\d+,(\d{1,4})[,\]]")

PAIRS = re.compile(r"[bB][^#]*%")  # of label pairs and tokens: a model that was read has no weight for them


def template_source(
    templates: Sequence[str], attributes: Sequence[str], dialect: str, path: str, n_columns: int = 1
) -> TemplateSource | None:
    """Return the templates of a model; None, with a warning, where they do not make its attributes.

    Parameters
    ----------
    templates : lines of a pattern file
    attributes : names of the model's features
    dialect : {"crf++", "wapiti"}
    path : of the model, for the warning
    n_columns : int
        Columns before the label, if the file knows them; there are at least those that the templates read.
    """
    numbers = [int(number) for template in templates for number in COLUMN.findall(template)]
    columns = tuple(usual_names(max([n_columns, *(number + 1 for number in numbers)])))
    kept = [template for template in templates if not PAIRS.match(template)]
    source = TemplateSource(columns, "\n".join(kept) + "\n", dialect)
    try:
        source.vocabulary(attributes)
    except InputError as error:
        warn_caller(
            f"{path}: its templates cannot be used ({error}); the model takes lists of the names of features",
            UserWarning,
        )
        return None
    return source

"""A warning if a model knows no value of a column; usually the values are spelled in another way.

A column is one of a table or of tokens, or a key of dicts, whose texts are features.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from typing import Any

from crfqn.errors import UnknownFeaturesWarning, warn_caller, warns_of_items
from crfqn.messages import shorten

MIN_KNOWN_SHARE = 0.02  # assumed fraction of known values in the training data if the true one is unknown
# Warn if so many consecutive unknown values have a lower probability than this in data like those of the training.
WARNING_PROBABILITY = 1e-3
MIN_VARIANTS = 3  # values from which a warning says that they differ from known ones in case or blanks alone
MAX_EXAMPLES = 100  # unknown values that a watch keeps: a bound on memory


class ColumnWatch:
    """Counts the values of a column since one of them was known, in one call of the model or in several; warns once.

    It warns if data like those of the training would have a known value among so many, or if all of them differ from
    known values in case or blanks alone. `known`: the texts that the model knows; `share`: the fraction of known values
    in the training data; `was_seen`: whether a text was in the training data although it has no weight.
    """

    def __init__(
        self,
        name: str,
        known: Collection[Any],
        share: float = MIN_KNOWN_SHARE,
        was_seen: Callable[[str], bool] = lambda text: False,
    ) -> None:
        self.name, self._known, self._share, self._was_seen = name, known, share, was_seen
        self._has_warned = False
        self.forget()

    def forget(self) -> None:
        """Reset the count after a known value."""
        self.n_values, self.examples = 0, dict[str, None]()
        self._variants: dict[str, str] | None = None

    def look(self, texts: Sequence[str]) -> None:
        """Count texts; empty ones are no values."""
        if self._has_warned or not self._known:
            return
        if any(text in self._known for text in texts if text):
            self.forget()
            return
        values = [text for text in texts if text]
        if values:
            self.count(values)

    def count(self, values: Sequence[str]) -> None:
        """Count unknown values; warn if they are too many."""
        self.n_values += len(values)
        for value in values:
            if len(self.examples) >= MAX_EXAMPLES:
                break
            self.examples[value] = None
        variants = self._variants_of_examples()
        is_by_chance = (1.0 - self._share) ** self.n_values >= WARNING_PROBABILITY
        is_variant = len(variants) == len(self.examples) and self.n_values >= MIN_VARIANTS
        if (is_by_chance and not is_variant) or not warns_of_items():
            return
        if any(map(self._was_seen, chain(self.examples, values[:MAX_EXAMPLES]))):
            self.forget()
            return
        self._has_warned = True
        known = " and ".join([shorten(text) for text in self._known if isinstance(text, str) and text][:2])
        unknown = " and ".join(map(shorten, [*self.examples][:2]))
        number = f"{self.n_values:,} value{'s' * (self.n_values > 1)}"
        message = (
            f"column {shorten(self.name)}: the model knows none of {number}, such as {unknown}; "
            f"those that it knows are such as {known}"
        )
        if variants:
            value, text = next(iter(variants.items()))
            message += f"; {shorten(value)} and {shorten(text)} differ in case or blanks alone"
        warn_caller(UnknownFeaturesWarning(message, 0), UnknownFeaturesWarning)

    def _variants_of_examples(self) -> Mapping[str, str]:
        """Return the examples that differ from a known value in case or blanks alone, each with this value."""
        if self._variants is None:
            self._variants = {folded(text): text for text in self._known if isinstance(text, str) and text}
        pairs = ((value, self._variants.get(folded(value))) for value in self.examples)
        return {value: text for value, text in pairs if text is not None}


def folded(text: str) -> str:
    """Return a text without blanks, in small letters."""
    return "".join(text.split()).casefold()

"""Changes at random to the content of a model file, with a checksum that fits: what `load` has to survive."""

import copy
import math
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from crfqn.data.model_file import ModelFile, write_model

VALUES = (
    None, True, False, 0, -1, 1, 2, 7, 2**31, 2**63 - 1, 2**63, 10**30, -(10**30), 0.5, -0.0, 1e308, math.inf,
    -math.inf, math.nan, "", "x", "\x1b[2J", "/", "é" * 3, [], [1], [None], [[1, 2], [3, 4]], {}, {"a": 1}, {"": None},
)  # fmt: skip
NUMBERS = (0.0, -1.0, 1e308, -1e308, 1e100, math.inf, math.nan, 2.0**62, 0.5)


def places(value: Any, above: tuple = ()) -> Iterator[tuple]:
    """The keys that lead to each part of a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield (*above, key)
        yield from places(part, (*above, key))


def mutate(file: ModelFile, rng: random.Random) -> ModelFile:
    """The content with one to three changes: values of the metadata, numbers or shapes of arrays, strings."""
    metadata, arrays, strings = map(copy.deepcopy, (file.metadata, file.arrays, file.strings))
    for _ in range(rng.randint(1, 3)):
        kind = rng.random()
        if kind < 0.6:
            _change_value(metadata, rng)
        elif kind < 0.9:
            name = rng.choice(sorted(arrays))
            arrays[name] = _changed_array(arrays[name], rng)
        elif strings:
            name = rng.choice(sorted(strings))
            words = strings[name]
            escape = ["\x1b]0;x\x07", *words[1:]]
            strings[name] = rng.choice([words[:-1], [*words, "new"], words[:1] * len(words), escape])
    return ModelFile(file.kind, arrays, strings, metadata)


def _change_value(metadata: dict, rng: random.Random) -> None:
    *above, key = rng.choice(list(places(metadata)))
    owner = metadata
    for step in above:
        owner = owner[step]
    if isinstance(owner, dict) and rng.random() < 0.1:
        del owner[key]
    else:
        owner[key] = copy.deepcopy(rng.choice(VALUES))


@np.errstate(all="ignore")
def _changed_array(array: np.ndarray, rng: random.Random) -> np.ndarray:
    if array.size and rng.random() < 0.7:
        result = array.astype(rng.choice(["float64", array.dtype.name, "int64"]))
        result.flat[rng.randrange(array.size)] = np.float64(rng.choice(NUMBERS)).astype(result.dtype)
        return result
    return rng.choice([array[:-1], array[None], np.concatenate([array, array]), array.astype(np.float32)])


def write_mutation(path: Any, file: ModelFile, rng: random.Random) -> ModelFile:
    """Write one; returns what was written."""
    changed = mutate(file, rng)
    write_model(path, changed.kind, changed.arrays, changed.strings, changed.metadata)
    return changed

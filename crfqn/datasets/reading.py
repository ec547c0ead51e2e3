"""Readers of the registry by name: they make a dataset's items of the paths of its files.

Most datasets are files of one form, of which the last is the test part: a reader of one file, and its options.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

from crfqn.data.token_columns import TokenColumns
from crfqn.errors import DataError, InputError
from crfqn.readers.collections.arff import read_hierarchical_arff
from crfqn.readers.collections.images import make_digit_strings, read_cifar, read_labelled_images
from crfqn.readers.collections.letters import read_letter_matlab, read_letter_table
from crfqn.readers.collections.texts import collect_docstrings, read_newsgroups, read_parserator
from crfqn.readers.documents import Documents, concatenate
from crfqn.readers.formats.conll import read_conll
from crfqn.readers.formats.conllu import read_conllu
from crfqn.readers.formats.svmlight import read_svmlight
from crfqn.readers.formats.tables import read_delimited
from crfqn.readers.labeled import Labeled, append_test
from crfqn.taxonomy.reading import read_taxonomy_file

Shape = tuple[int, int]
Data = Labeled | Documents
Reader = Callable[..., Data]


def _each(read: Callable[..., Any], **options: Any) -> Reader:
    """Return a reader of any number of files of one form; the last of several is the test part."""
    return lambda *paths: _joined(*(read(path, **options) for path in paths))


def _joined(*files: Any) -> Data:
    return reduce(append_test if isinstance(files[0], Labeled) else concatenate, files)


def _svmlight(path: Path, taxonomy: Any = None) -> Documents:
    return Documents(*read_svmlight(path), taxonomy)


def _svmlight_taxonomy(train: Path, test: Path, taxonomy: Path) -> Data:
    return _each(_svmlight, taxonomy=read_taxonomy_file(taxonomy))(train, test)


def _idx(train_images: Path, train_labels: Path, test_images: Path, test_labels: Path) -> Data:
    train = read_labelled_images(train_images, train_labels)
    return _joined(train, read_labelled_images(test_images, test_labels))


def _treebank(path: Path, tag: str) -> Labeled:
    """Read words, in the one column `w`, and one of their tags, upos or xpos."""
    found = read_conllu(path, ("form",), label=tag)
    words = TokenColumns.from_items(found.inputs)
    return Labeled(TokenColumns({"w": words.texts["form"]}, words.offsets), found.labels, places=found.places)


# The arguments are the dataset's parts, in the order of its entry, and the `shape` of one that has any.
FILE_READERS: dict[str, Reader] = {
    "letter-table": lambda table, shape: read_letter_table(table, shape[0] * shape[1]),
    "letter-matlab": read_letter_matlab,
    "svmlight": _each(_svmlight),
    "svmlight-taxonomy": _svmlight_taxonomy,
    "hierarchical-arff": _each(read_hierarchical_arff),
    "newsgroups": read_newsgroups,
    "idx": _idx,
    "conll": _each(read_conll),
    "words": _each(read_conll, columns=("w",), separator="\t"),
    "parserator": _each(read_parserator),
    "treebank-upos": _each(_treebank, tag="upos"),
    "treebank-xpos": _each(_treebank, tag="xpos"),
    "csv": _each(read_delimited, text="text", label="category"),
    "cifar": _each(read_cifar),
}
GENERATORS: dict[str, Callable[[], Data]] = {"digits": make_digit_strings, "docstrings": collect_docstrings}


def read_files(reader: str, paths: Sequence[Path], shape: Shape | None) -> Data:
    """Read a dataset from its files, one a part; DataError for malformed files, or such as do not belong together."""
    try:
        return FILE_READERS[reader](*paths, **({} if shape is None else {"shape": shape}))
    except InputError as error:  # parts that are fine alone
        raise DataError(f"{', '.join(map(str, paths))}: {error}") from error

"""Readers of the registry by name: they make a dataset's items of the paths of its files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import Any

from crfqn.errors import DataError, InputError
from crfqn.readers.collections.arff import read_hierarchical_arff
from crfqn.readers.collections.cifar import read_cifar
from crfqn.readers.collections.digits import make_digit_strings
from crfqn.readers.collections.docstrings import collect_docstrings
from crfqn.readers.collections.idx import read_labelled_images
from crfqn.readers.collections.labelled_csv import read_labelled_csv
from crfqn.readers.collections.letters import read_letter_matlab, read_letter_table
from crfqn.readers.collections.newsgroups import read_newsgroups
from crfqn.readers.collections.parserator import read_parserator
from crfqn.readers.collections.treebank import read_treebank
from crfqn.readers.documents import Documents, concatenate
from crfqn.readers.formats.conll import read_conll
from crfqn.readers.formats.svmlight import read_svmlight
from crfqn.readers.labeled import Labeled, append_test
from crfqn.taxonomy.reading import read_taxonomy_file

Shape = tuple[int, int]
Data = Labeled | Documents


def _letter_table(table: Path, *, shape: Shape) -> Labeled:
    return read_letter_table(table, shape[0] * shape[1])


def _letter_matlab(matlab: Path, *, shape: Shape) -> Labeled:
    return read_letter_matlab(matlab, shape)


def _svmlight_taxonomy(train: Path, test: Path, taxonomy: Path) -> Documents:
    tree = read_taxonomy_file(taxonomy)
    return concatenate(*(Documents(*read_svmlight(path), tree) for path in (train, test)))


def _svmlight(*paths: Path) -> Documents:
    documents = [Documents(*read_svmlight(path)) for path in paths]
    return documents[0] if len(documents) == 1 else concatenate(*documents)


def _hierarchical_arff(train: Path, test: Path) -> Documents:
    return concatenate(read_hierarchical_arff(train), read_hierarchical_arff(test))


def _idx(train_images: Path, train_labels: Path, test_images: Path, test_labels: Path) -> Documents:
    train = read_labelled_images(train_images, train_labels)
    return concatenate(train, read_labelled_images(test_images, test_labels))


def _conll(train: Path, test: Path) -> Labeled:
    return append_test(read_conll(train), read_conll(test))


def _words(*paths: Path) -> Labeled:
    """Read words with a label, a tab between them; the last file is the test part."""
    *train, test = (read_conll(path, ("w",), separator="\t") for path in paths)
    return append_test(reduce(_joined, train), test)


def _joined(first: Labeled, second: Labeled) -> Labeled:
    inputs: Any = first.inputs
    return Labeled(inputs + second.inputs, first.labels + second.labels)


def _treebank(train: Path, test: Path, *, tag: str) -> Labeled:
    return append_test(read_treebank(train, tag), read_treebank(test, tag))


def _csv(train: Path, test: Path) -> Documents:
    return concatenate(read_labelled_csv(train), read_labelled_csv(test))


# The arguments are the dataset's parts, in the order of its entry.
FILE_READERS: dict[str, Callable[..., Data]] = {
    "letter-table": _letter_table,
    "letter-matlab": _letter_matlab,
    "svmlight": _svmlight,
    "svmlight-taxonomy": _svmlight_taxonomy,
    "hierarchical-arff": _hierarchical_arff,
    "newsgroups": read_newsgroups,
    "idx": _idx,
    "conll": _conll,
    "words": _words,
    "parserator": read_parserator,
    "treebank-upos": partial(_treebank, tag="upos"),
    "treebank-xpos": partial(_treebank, tag="xpos"),
    "csv": _csv,
    "cifar": read_cifar,
}
GENERATORS: dict[str, Callable[[], Data]] = {"digits": make_digit_strings, "docstrings": collect_docstrings}


def read_files(reader: str, paths: Sequence[Path], shape: Shape | None) -> Data:
    """Read a dataset from its files, one a part.

    Raises
    ------
    DataError
        Malformed files, or files that do not belong together.
    """
    try:
        return FILE_READERS[reader](*paths, **({} if shape is None else {"shape": shape}))
    except InputError as error:  # parts that are fine alone
        raise DataError(f"{', '.join(map(str, paths))}: {error}") from error

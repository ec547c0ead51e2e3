"""Registry of file formats: reading by name or extension, and writing predictions back in the same form.

`read("train.conll.gz")` tells format and compression by the extensions; `format=` says it where these do not. The
readers themselves are functions of the modules beside this one, with options of their own.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Real
from os import PathLike
from pathlib import PurePath
from typing import Any

from crfqn.atomic_write import replace_data_file
from crfqn.data.file_parts import Cut, cut_at_blank_lines, cut_at_lines
from crfqn.data.files import LARGEST_SIZE, STANDARD_INPUT, SUFFIXES, Source, pack, shown_name
from crfqn.data.token_columns import TokenColumns
from crfqn.errors import DataError, InputError
from crfqn.messages import describe, shorten
from crfqn.readers.conll import STYLES, conll_lines, read_conll
from crfqn.readers.conllu import conllu_lines, read_conllu
from crfqn.readers.crfsuite_text import crfsuite_lines, read_crfsuite_text
from crfqn.readers.documents import Documents
from crfqn.readers.json_lines import json_lines, read_json_lines
from crfqn.readers.labeled import Labeled, with_labels
from crfqn.readers.labelled_text import labelled_lines, read_labelled_texts
from crfqn.readers.svmlight import read_svmlight_documents, svmlight_lines
from crfqn.readers.tables import (
    Batches,
    cut_table,
    delimited_lines,
    from_frame,
    parquet_bytes,
    read_delimited,
    read_parquet,
)

Data = Labeled | Documents
SEQUENCES, DOCUMENTS = "sequences", "documents"


@dataclass(frozen=True)
class Format:
    """File format.

    Parameters
    ----------
    name, title : str
    extensions : tuple of str
        By which it is told, in small letters, with the dot.
    holds : tuple of str
        "sequences", "documents".
    read : callable
        `read(source, **options) -> Labeled or Documents`.
    write : callable
        `write(batches) -> bytes or a text a batch` of pairs (data, predicted or None); predictions in a column of their
        own where the format has room for one, else in the place of the labels.
    cut : callable, or None
        `cut(**options of read)` tells how the format is read in parts; None: as a whole.
    """

    name: str
    title: str
    extensions: tuple[str, ...]
    holds: tuple[str, ...]
    read: Callable[..., Data]
    write: Callable[[Batches], bytes | Iterable[str]]
    cut: Callable[..., Cut] | None = None

    def options(self) -> tuple[str, ...]:
        """Return the names of the options that reading takes."""
        return _options_of(self.read)


def _options_of(reader: Callable[..., Data]) -> tuple[str, ...]:
    return tuple(inspect.signature(reader).parameters)[1:]


def _check_options(what: str, reader: Callable[..., Data], options: dict[str, Any]) -> None:
    known = _options_of(reader)
    for name in options:
        if name not in known:
            raise InputError(f"format {what} has no option {name!r}; it has {', '.join(known) or 'none'}")


def _each(lines: Callable[[Any, Any], Iterable[str]]) -> Callable[[Batches], Iterable[str]]:
    """Return a writer of batches from one of data and predictions."""
    return lambda batches: ("".join(lines(data, predicted)) for data, predicted in batches)


def _instead(lines: Callable[[Any], Iterable[str]]) -> Callable[[Batches], Iterable[str]]:
    """Return a writer that puts predictions in the place of labels."""
    return _each(lambda data, predicted: lines(data if predicted is None else _relabeled(data, predicted)))


WRITE_CONLL = _each(conll_lines)


def _by_lines(**_: Any) -> Cut:
    return cut_at_lines


def _by_blank_lines(**_: Any) -> Cut:
    return cut_at_blank_lines


def _any_columns(
    path: Any,
    columns: Sequence[str] | None = None,
    is_labeled: bool = True,
    comment: str | None = None,
    separator: str | None = None,
) -> Labeled:
    return read_conll(path, columns, is_labeled=is_labeled, comment=comment, separator=separator)


def _columns_like(names: tuple[str, ...]) -> Callable[..., Labeled]:
    def read(path: Any, comment: str | None = None, separator: str | None = None) -> Labeled:
        return read_conll(path, names, comment=comment, separator=separator)

    return read


FORMATS: dict[str, Format] = {
    format.name: format
    for format in (
        Format(
            "conll",
            "columns, a position a line; the last one is the label",
            (".conll", ".iob", ".iob1", ".iob2", ".bio", ".bioes", ".bilou", ".bmes"),
            (SEQUENCES,),
            _any_columns,
            WRITE_CONLL,
            _by_blank_lines,
        ),
        *(
            Format(
                style,
                f"columns {' '.join(names)} label",
                (f".{style}",),
                (SEQUENCES,),
                _columns_like(names),
                WRITE_CONLL,
                _by_blank_lines,
            )
            for style, names in STYLES.items()
        ),
        Format(
            "conllu",
            "Universal Dependencies",
            (".conllu",),
            (SEQUENCES,),
            read_conllu,
            _instead(conllu_lines),
            _by_blank_lines,
        ),
        Format(
            "crfsuite",
            "label TAB attribute[:value] TAB ..., a position a line",
            (".crfsuite",),
            (SEQUENCES,),
            read_crfsuite_text,
            _instead(crfsuite_lines),
            _by_blank_lines,
        ),
        Format(
            "svmlight",
            "label[,label] id:value id:value ..., a document a line",
            (".svmlight", ".svm", ".libsvm"),
            (DOCUMENTS,),
            read_svmlight_documents,
            _instead(svmlight_lines),
            _by_lines,
        ),
        Format(
            "jsonl",
            "a JSON object a line: tokens or features with labels, or text and label",
            (".jsonl", ".ndjson"),
            (SEQUENCES, DOCUMENTS),
            read_json_lines,
            _each(json_lines),
            _by_lines,
        ),
        Format(
            "csv",
            "table with a header: a position or a text a row",
            (".csv",),
            (SEQUENCES, DOCUMENTS),
            read_delimited,
            delimited_lines,
            cut_table,
        ),
        Format(
            "tsv",
            "the same, with tabs",
            (".tsv",),
            (SEQUENCES, DOCUMENTS),
            partial(read_delimited, delimiter="\t"),
            partial(delimited_lines, delimiter="\t"),
            partial(cut_table, delimiter="\t"),
        ),
        Format(
            "parquet",
            "the same, as Parquet",
            (".parquet", ".pq"),
            (SEQUENCES, DOCUMENTS),
            read_parquet,
            parquet_bytes,
        ),
        Format(
            "text",
            "label TAB text, a document a line",
            (".text", ".labels"),
            (DOCUMENTS,),
            read_labelled_texts,
            _instead(labelled_lines),
            _by_lines,
        ),
    )
}


def find_format(name: str | None, origin: Any = None) -> Format:
    """Return a format by its name or, for None, by the extension of a file's name.

    Raises
    ------
    InputError
        An unknown name; none, and an extension that tells nothing: the message lists the formats.
    """
    if name is not None:
        if name not in FORMATS:
            raise InputError(f"format: expected one of {', '.join(FORMATS)}, got {describe(name)}")
        return FORMATS[name]
    shown = shown_name(origin)
    suffixes = [suffix.lower() for suffix in PurePath(shown).suffixes]
    if suffixes and suffixes[-1] in SUFFIXES:
        suffixes.pop()
    for format in FORMATS.values():
        if suffixes and suffixes[-1] in format.extensions:
            return format
    known = ", ".join(f"{format.name} ({' '.join(format.extensions)})" for format in FORMATS.values())
    raise InputError(f"{shown}: its name does not tell the format; name one (--format, format=): {known}")


def read(
    origin: Any,
    format: str | None = None,
    *,
    encoding: str = "utf-8",
    largest_size: int = LARGEST_SIZE,
    **options: Any,
) -> Data:
    """Read sequences or documents from a file, a stream or a data frame.

    Parameters
    ----------
    origin : str or path-like, stream of bytes or text, or pandas frame
        `-` is standard input. Compression (gzip, bzip2, xz, zstd) is told by the content.
    format : str, optional
        A name out of `FORMATS`; by default what the extension says.
    encoding : str, default "utf-8"
    largest_size : int, default 4 GiB
        Bytes that a compressed file may unpack to.
    **options
        Of the format: `FORMATS[name].options()`; `read_conll`, `read_delimited`, ... say what they mean.

    Returns
    -------
    Labeled or Documents
        `inputs`, `labels` ("" where unknown), `places` (file and line of each).

    Raises
    ------
    DataUnavailableError
        There is no such file.
    DataError
        Malformed content: file, line, what was expected and what came.
    InputError
        An unknown format or option, an encoding that does not exist.

    Examples
    --------
    >>> import io
    >>> data = read(io.StringIO("the DT B-NP\\ndog NN I-NP\\n"), "conll")
    >>> data.inputs[0], data.labels[0], data.places.where(0, 1)
    ([{'w': 'the', 'pos': 'DT'}, {'w': 'dog', 'pos': 'NN'}], ['B-NP', 'I-NP'], 'the stream, line 2')
    """
    if hasattr(origin, "columns") and hasattr(origin, "shape"):
        _check_options("of data frames", from_frame, options)
        return from_frame(origin, **options)
    if not isinstance(origin, (str, PathLike)) and not hasattr(origin, "read"):
        raise InputError(f"expected the name of a file, a stream or a data frame, got {describe(origin)}")
    found = find_format(format, origin)
    _check_options(repr(found.name), found.read, options)
    return found.read(Source(origin, encoding, largest_size), **options)


def write(
    data: Data, target: Any, format: str | None = None, *, predicted: Any = None, encoding: str = "utf-8"
) -> None:
    """Write sequences or documents, with predictions if there are any.

    Parameters
    ----------
    data : Labeled or Documents
        As `read` returns it.
    target : str or path-like, or stream of bytes or text
        `-` is standard output. A file is written as a whole or not at all, compressed as its extension says.
    format : str, optional
        A name out of `FORMATS`; by default what the extension says.
    predicted : sequence, optional
        A sequence of labels for each sequence, a label (or several) for each document: one more column (CoNLL's
        columns, tables, `predicted` in JSON), or in formats without room for it (crfsuite, conllu, svmlight, text)
        the labels.
    encoding : str, default "utf-8"
        Of a file; a stream of text has its own.

    Raises
    ------
    InputError
        Data that the format cannot hold, predictions that do not fit the items.
    DataError
        The file cannot be written.
    """
    encoding = Source(target, encoding).encoding
    try:
        written = list(written_batches([(data, predicted)], find_format(format, target)))
        content = b"".join(piece if isinstance(piece, bytes) else piece.encode(encoding) for piece in written)
    except UnicodeEncodeError as error:
        wrong = shorten(error.object[error.start : error.end])
        raise InputError(f"{encoding!r} cannot encode {wrong}, which is in the data") from None
    if hasattr(target, "write"):
        _to_stream(target, content, encoding)
    elif str(target) == STANDARD_INPUT:
        sys.stdout.flush()
        stream = getattr(sys.stdout, "buffer", sys.stdout)  # a text in its place, where somebody listens
        _to_stream(stream, content, encoding)
        stream.flush()
    else:
        replace_data_file(target, pack(content, str(target)))


def written_batches(batches: Batches, format: Format) -> Iterator[str | bytes]:
    """Yield the text of each batch of data and predictions (or None), or all as bytes; errors as of `write`."""

    def checked() -> Iterator[tuple[Data, Any]]:
        for data, predicted in batches:
            kind = DOCUMENTS if isinstance(data, Documents) else SEQUENCES
            if kind not in format.holds:
                raise InputError(
                    f"format {format.name!r} holds {' and '.join(format.holds)}, and these are {kind}"
                )
            _check_content(format.name, data)
            listed = None if predicted is None else list(predicted)
            if listed is not None:
                _relabeled(data, listed)  # which checks that they fit
            yield data, listed

    written = format.write(checked())
    yield from [written] if isinstance(written, bytes) else written


def _check_content(name: str, data: Data) -> None:
    """Raise InputError for numbers where a format has texts, and for features that only JSON has a place for."""
    if isinstance(data, Documents):
        if not isinstance(data.inputs, list) and name != "svmlight":
            raise InputError("the documents are numbers, not texts: write them as svmlight")
    elif name != "jsonl" and not isinstance(data.inputs, TokenColumns):
        for i, item in enumerate(data.inputs):
            for t, position in enumerate(item):
                is_flat = isinstance(position, dict) and all(
                    isinstance(value, (str, Real)) for value in position.values()
                )
                if not is_flat:
                    raise InputError(
                        f"item {i}, position {t}: format {name!r} holds texts and numbers by name, got "
                        f"{describe(position)}: write it as jsonl"
                    )


def _to_stream(target: Any, content: bytes, encoding: str) -> None:
    try:
        target.write(content)
    except TypeError:  # a stream of text
        target.write(content.decode(encoding))


def _relabeled(data: Data, predicted: Sequence[Any]) -> Data:
    """Return the data with predictions in the place of labels."""
    try:
        if isinstance(data, Labeled):
            return with_labels(data, predicted)
    except DataError as error:
        raise InputError(f"predicted: {error}") from error
    if len(predicted) != data.n_items:
        raise InputError(f"predicted: expected labels for {data.n_items} documents, got {len(predicted)}")
    names = [label if isinstance(label, str) else _joined(label) for label in predicted]
    return Documents(data.inputs, names, data.taxonomy, data.n_train, data.feature_names, data.places)


def _joined(label: Any) -> str:
    """Return the label, or the labels, of a document as one text."""
    if hasattr(label, "__iter__") and not isinstance(label, (str, bytes)):
        return ",".join(map(str, label))
    if isinstance(label, bytes):
        raise InputError(f"predicted: expected texts as labels, got {shorten(label)}")
    return str(label)

"""Registry of file formats: reading by name, extension or first lines, and writing predictions in the same form.

`read("train.conll.gz")` finds the format by the extension; `format=` names it for other extensions. Each reader is a
function of another module of this folder, with its own options.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from numbers import Real
from os import PathLike
from pathlib import Path, PurePath
from typing import IO, TYPE_CHECKING, Any

from crfqn.atomic_write import StrPath, replace_data_file
from crfqn.data.binary_files import PARQUET, WORKBOOK, find_binary
from crfqn.data.files import (
    MAX_UNPACKED_SIZE,
    PACKING_SUFFIXES,
    STANDARD_INPUT,
    Part,
    Readable,
    Source,
    check_text,
    is_blank,
    pack,
    read_start,
    shown_name,
)
from crfqn.data.label_arrays import are_equal, label_text
from crfqn.data.token_columns import TokenColumns
from crfqn.errors import DataError, InputError
from crfqn.messages import describe
from crfqn.readers import (
    brat,
    conll,
    conllu,
    crfsuite_text,
    frames,
    json_lines,
    label_studio,
    labelled_text,
    labelled_xml,
    span_lines,
    svmlight,
    tables,
    workbooks,
)
from crfqn.readers.conll import fields_of, splits_at_tabs, token_lines
from crfqn.readers.format import DOCUMENTS, ROWS, SEQUENCES, Batches, Data, Format, options_of, relabeled
from crfqn.readers.label_values import with_values
from crfqn.readers.labelled_items import Documents

if TYPE_CHECKING:
    from pandas import DataFrame
    from pyarrow import Table

# To add a format, add its module and an entry here. Put it before the formats that would accept its first lines, too.
FORMATS: dict[str, Format] = {
    format.name: format
    for format in (
        *span_lines.SPAN_FORMATS,
        label_studio.FORMAT,
        json_lines.FORMAT,
        brat.FORMAT,
        labelled_xml.FORMAT,
        conllu.FORMAT,
        svmlight.FORMAT,
        *tables.TABLE_FORMATS,
        frames.FORMAT,
        workbooks.FORMAT,
        labelled_text.LABELLED_FORMAT,
        crfsuite_text.FORMAT,
        *conll.CONLL_FORMATS,
        labelled_text.RAW_FORMAT,
    )
}


def find_format(name: str | None, origin: Readable | None = None, *, reads: bool = True) -> Format:
    """Return the format of a name or, if it is None, of the extension of the file's name, or of a folder. InputError
    lists the formats if the name or extension is unknown.

    If several formats have the extension, the first lines of the file determine the format: the first one that accepts
    them, or the last one if none does, if there is no such file or unless it `reads` the file.
    """
    if name is not None:
        if name not in FORMATS:
            raise InputError(f"format: expected one of {', '.join(FORMATS)}, got {describe(name)}")
        return FORMATS[name]
    shown = "None" if origin is None else shown_name(origin)
    folder = format_of_folder(shown)
    if folder is not None:
        return folder
    suffixes = [suffix.lower() for suffix in PurePath(shown).suffixes]
    if suffixes and suffixes[-1] in PACKING_SUFFIXES:
        suffixes.pop()
    formats = [row for row in FORMATS.values() if suffixes and suffixes[-1] in row.extensions]
    if len(formats) > 1 and reads and isinstance(origin, (str, PathLike)):
        names = [row.name for row in formats]
        with suppress(DataError):  # other encodings
            formats = [FORMATS[sniff(first_lines(origin), names) or names[-1]]]
    if formats:
        return formats[-1]
    known = ", ".join(f"{f.name} ({' '.join(f.extensions)})" for f in FORMATS.values() if f.extensions)
    raise InputError(
        f"{shown}: its name does not determine the format; name one (--format, format=): {known}"
    )


def format_of_folder(path: StrPath) -> Format | None:
    """Return the format of which a folder is one data set, None for other folders and paths."""
    folder = Path(path)
    if not folder.is_dir():
        return None
    return next(
        (row for row in FORMATS.values() if row.is_folder is not None and row.is_folder(folder)), None
    )


def read(
    origin: Readable | DataFrame | Table,
    format: str | None = None,
    *,
    encoding: str = "utf-8",
    largest_size: int = MAX_UNPACKED_SIZE,
    missing: str | None = None,
    label_names: Sequence[str] | None = None,
    **options: Any,
) -> Data:
    """Read sequences or documents from a file, a stream or a data frame.

    Parameters
    ----------
    origin : str or path-like, stream of bytes or text, frame of pandas or polars, Dataset of datasets, Table of pyarrow
        `-` is standard input. Compression (gzip, bzip2, xz, zstd) is recognised by the content.
    format : str, optional
        A name in `FORMATS`; by default the format of the file's extension.
    encoding : str, default "utf-8"
        The name of a codec of Python, or "bytes": UTF-8 that keeps any other byte unchanged (`surrogateescape`).
    largest_size : int, default 4 GiB
        Bytes that a compressed file may unpack to.
    missing : str, optional
        The text of an unknown label, as "_". Labels that are empty, or null in JSON, always are unknown.
    label_names : sequence of str, optional
        The names of labels that are numbers, from 0 on; -1 is an unknown label. Data sets of Hugging Face have them.
    **options
        Options of the format: `FORMATS[name].options()` lists them, and its reader (`read_conll`, `read_delimited`,
        ...) describes them.

    Returns
    -------
    Labeled or Documents
        `inputs`, `labels` ("" if unknown), `places` (file and line of each).

    Raises
    ------
    DataUnavailableError
        There is no such file.
    DataError
        Malformed content; the message names the file and line, what was expected and what the line has.
    InputError
        An unknown format or option, an encoding that does not exist.

    Examples
    --------
    >>> import io
    >>> data = read(io.StringIO("the DT B-NP\\ndog NN I-NP\\n"), "conll")
    >>> data.inputs[0], data.labels[0], data.places.where(0, 1)
    ([{'w': 'the', 'pos': 'DT'}, {'w': 'dog', 'pos': 'NN'}], ['B-NP', 'I-NP'], 'the stream, line 2')
    """
    if frames.is_frame(origin):
        _check_options("of data frames", frames.from_frame, options)
        return with_values(frames.from_frame(origin, **options), missing, label_names)
    if not isinstance(origin, (str, PathLike)) and not hasattr(origin, "read"):
        raise InputError(f"expected the name of a file, a stream or a data frame, got {describe(origin)}")
    file_format = find_format(format, origin)
    _check_options(repr(file_format.name), file_format.read, options)
    data = file_format.read(Source(origin, encoding, largest_size), **options)
    return with_values(data, missing, label_names)


def write(
    data: Data,
    target: StrPath | IO[Any],
    format: str | None = None,
    *,
    predicted: Iterable[Any] | None = None,
    encoding: str = "utf-8",
) -> None:
    """Write sequences or documents, with predictions if there are any.

    Parameters
    ----------
    data : Labeled or Documents
        As `read` returns it.
    target : str or path-like, or stream of bytes or text
        `-` is standard output. A file is written as a whole or not at all, compressed by its extension. For a format
        of several files (brat) the name of a folder, which is made if there is none.
    format : str, optional
        A name in `FORMATS`; by default the format of the extension.
    predicted : sequence, optional
        A sequence of labels for each sequence, a label (or several) for each document: one more column (CoNLL's
        columns, tables, `predicted` in JSON), or in formats that cannot have one (crfsuite, conllu, svmlight, text) the
        labels.
    encoding : str, default "utf-8"
        Of a file, as of `read`; a stream of text has its own.

    Raises
    ------
    InputError
        Data that the format cannot hold, predictions that do not fit the items.
    DataError
        The file cannot be written.
    """
    source, file_format = Source(target, encoding), find_format(format, target, reads=False)
    if file_format.write_folder is not None:
        for path, text in written_files([(data, predicted)], file_format, target).items():
            replace_data_file(path, b"".join(source.encoded([text])))
        return
    content = b"".join(source.encoded(written_batches([(data, predicted)], file_format)))
    stream: Any = target
    if not hasattr(target, "write"):
        if str(target) != STANDARD_INPUT:
            replace_data_file(target, pack(content, str(target)))
            return
        sys.stdout.flush()
        stream = getattr(sys.stdout, "buffer", sys.stdout)  # a stream of text if standard output is captured
    try:
        stream.write(content)
    except TypeError:  # a stream of text
        stream.write(content.decode(source.codec, source.errors))
    if stream is not target:
        stream.flush()


def written_batches(batches: Batches, format: Format) -> Iterator[str | bytes]:
    """Yield the text of each batch of data and predictions (or None), or all as bytes; errors as of `write`."""
    if format.write is None:
        if format.write_folder is not None:
            raise InputError(f"format {format.name!r} has several files: name a folder (--output-dir DIR)")
        raise InputError(f"format {format.name!r} has no place for labels: write conll, jsonl, csv, ...")

    written = format.write(_checked(batches, format))
    yield from [written] if isinstance(written, bytes) else written


def written_files(batches: Batches, format: Format, folder: object) -> dict[Path, str]:
    """Return the text of each file of a format with several files, by its path in a folder, which is made; InputError
    for a stream, a file in its place, or a file that would be written twice, errors as of `write`."""
    if not isinstance(folder, (str, PathLike)) or format.write_folder is None:
        raise InputError(f"format {format.name!r} has several files: expected the name of a folder")
    texts: dict[Path, str] = {}
    for name, text in format.write_folder(_checked(batches, format)):
        path = Path(folder) / name
        if path in texts:
            raise InputError(f"{path}: two items have this name; expected one of each")
        texts[path] = text
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot create the folder {folder}: {error.strerror or error}") from error
    return texts


def _checked(batches: Batches, format: Format) -> Iterator[tuple[Data, Any]]:
    """Yield the batches; InputError if the format cannot hold their items, or predictions do not fit these."""
    for data, predicted in batches:
        kind = DOCUMENTS if isinstance(data, Documents) else SEQUENCES
        kind = ROWS if kind == DOCUMENTS and isinstance(data.inputs, TokenColumns) else kind
        if kind not in format.holds:
            raise InputError(
                f"format {format.name!r} holds {' and '.join(format.holds)}, and these are {kind}"
            )
        if isinstance(data, Documents):
            if not isinstance(data.inputs, (list, TokenColumns)) and "given" not in format.features:
                raise InputError("the documents are numbers, not texts: write them as svmlight")
        elif not format.holds_nested and not isinstance(data.inputs, TokenColumns):
            for i, item in enumerate(data.inputs):
                for t, position in enumerate(item):
                    is_flat = isinstance(position, dict) and all(
                        isinstance(value, (str, Real)) for value in position.values()
                    )
                    if not is_flat:
                        raise InputError(
                            f"item {i}, position {t}: format {format.name!r} holds texts and numbers by name, got "
                            f"{describe(position)}: write it as jsonl"
                        )
        predictions = None if predicted is None else list(predicted)
        if predictions is not None:
            relabeled(data, predictions)  # raises InputError if they do not fit the items
        yield data, predictions


def _check_options(what: str, reader: Callable[..., Data], options: dict[str, Any]) -> None:
    """Raise InputError for options that the reader does not have; `what` describes the format in the message."""
    known = options_of(reader)
    for name in options:
        if name not in known:
            raise InputError(f"format {what} has no option {name!r}; it has {', '.join(known) or 'none'}")


# ---- writing an input again with other labels


def can_be_rewritten(data: Data) -> bool:
    """Return whether `rewritten` can write a part of the data's file again with other labels."""
    return data.places is not None and data.places.relabel is not None


def rewritten(part: Part, data: Data | None, predicted: Sequence[Any] = ()) -> str:
    """Return a part's text with its labels replaced by `predicted`, and otherwise unchanged.

    `predicted` has a list for each sequence of `data`, or one label or several for each document. InputError names the
    line of a label that the format cannot hold.
    """
    places = None if data is None else data.places
    if data is None or places is None or places.relabel is None:
        return part.mark + part.text
    old: dict[int, list[str]] = {}  # labels by line number of the position or document
    new: dict[int, list[str]] = {}
    if isinstance(data, Documents):
        for line, label, prediction in zip(places.lines.tolist(), data.labels, predicted, strict=True):
            names = [prediction] if isinstance(prediction, str) else list(map(label_text, prediction))
            parts = [part.strip() for part in label.split(",")]
            is_same = label == ",".join(names) or sorted(parts) == sorted(names)
            is_same = is_same or (data.has_numbers and are_equal(parts, names))
            old[line], new[line] = names if is_same else [label], names
    else:
        line_numbers = iter(places.lines.tolist())
        for labels, predictions in zip(data.labels, predicted, strict=True):
            for label, prediction in zip(labels, predictions, strict=True):
                line = next(line_numbers)
                is_same = data.has_numbers and are_equal([label], [prediction])
                old.setdefault(line, []).append(label)
                new.setdefault(line, []).append(label if is_same else label_text(prediction))
    *lines, last = part.text.split("\n")
    lines = [*(f"{line}\n" for line in lines), last]
    starts = [0, *(line - part.first for line in new), len(lines)]
    texts = ["".join(lines[start:stop]) for start, stop in pairwise(starts)]
    if places.title is not None and not part.head:
        texts[0] = places.relabel(texts[0], [places.title])
    for i, (line, labels) in enumerate(new.items(), start=1):
        if labels != old[line]:
            try:
                texts[i] = places.relabel(texts[i], labels)
            except InputError as error:
                raise InputError(f"{places.file}, line {line}: {error}") from error
    return part.mark + "".join(texts)


# ---- recognising a file's content by its first lines, if its name does not give the format


def first_lines(origin: Readable, encoding: str = "utf-8", *, waits: bool = False) -> list[str]:
    """Return the complete lines at the start of a file, a pipe or standard input, without leading blank lines; [] for a
    missing file. Later reads return these lines again. See `read_start` for `waits`."""
    raw, is_all = read_start(origin, waits=waits)
    source = Source(origin, encoding)
    if not _is_binary_table(raw):
        check_text(source, raw)
    errors = "replace" if source.errors == "strict" else source.errors
    lines = raw.decode(source.codec, errors).removeprefix("\ufeff").split("\n")
    if not is_all and len(lines) > 1:
        lines.pop()  # the last line may be incomplete
    lines = [line.removesuffix("\r") for line in lines]
    first = next((number for number, line in enumerate(lines) if not is_blank(line)), len(lines))
    return lines[first:]


def sniff(lines: Sequence[str], among: Collection[str] = ()) -> str | None:
    """Return the name of the first format that accepts the first lines of a file, or None. If `among` is not
    empty, only these formats are tried. Binary files other than tables have no format."""
    content = "".join(lines)
    if "\0" in content and not _is_binary_table(content.encode()):
        return None
    formats = (format for format in FORMATS.values() if not among or format.name in among)
    return next((format.name for format in formats if format.begins and lines and format.begins(lines)), None)


def _is_binary_table(start: bytes) -> bool:
    """Return whether a file begins as a binary file of a table does."""
    return start.startswith(PARQUET) or find_binary(start) is WORKBOOK


def formats_with(kind: str) -> list[str]:
    """Return the names of the formats whose items can have this kind of features."""
    return [name for name, row in FORMATS.items() if kind in row.features]


def sniff_titled(lines: Sequence[str]) -> str | None:
    """Return the first format with named columns that accepts the first lines of a file."""
    return sniff(lines, [format.name for format in FORMATS.values() if format.names_columns])


def are_sentences(lines: Sequence[str], labels: Collection[str]) -> bool:
    """Return whether each line is a sentence, and not a word with or without a label.

    Lines are words in any of three cases: all have one column; tabs separate their columns; or all have the same number
    of columns, and there are blank lines between them or at least half of them end with a known label.
    """
    rows = word_rows(lines)
    widths = {len(row) for row in rows}
    if splits_at_tabs(lines) or not widths or widths == {1}:
        return False
    if len(widths) > 1:
        return True
    has_breaks = any(map(is_blank, "\n".join(lines).strip(" \t\n").split("\n")))
    return not has_breaks and not end_with(labels, rows)


def word_rows(lines: Sequence[str]) -> list[list[str]]:
    """Return the blank-separated fields of lines of tokens."""
    return [*map(fields_of, token_lines(lines))]


def end_with(labels: Collection[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether at least half of the rows with two or more words end with one of the labels."""
    ends = [row[-1] in labels for row in rows if len(row) > 1]
    return 2 * sum(ends) >= len(ends) > 0

"""Reader and writer of columns of text, as in CoNLL's shared tasks: a position a line, a blank line after each item.

`word POS label`, separated by blanks or tabs; the label is the last column, and files without it hold items to be
labelled. Lines `-DOCSTART- ...`, which separate the documents of CoNLL-2002 and 2003, end an item and are no position.
Sources: the introductions to the shared tasks of CoNLL-2000 (Tjong Kim Sang, Buchholz: chunking), CoNLL-2002 (Tjong Kim
Sang) and CoNLL-2003 (Tjong Kim Sang, De Meulder: language-independent named entity recognition).
"""

from __future__ import annotations

import itertools
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from crfqn.data.files import Readable, blank_parted, facts_of, is_blank, shown_name, text_lines
from crfqn.data.label_arrays import label_text
from crfqn.data.token_columns import TokenColumns
from crfqn.errors import CommentWarning, DataError, EmptyDataError, InputError, warn_caller
from crfqn.messages import shorten
from crfqn.numerals import BLANKS
from crfqn.readers.format import SEQUENCES, Format, by_blank_lines, each
from crfqn.readers.labelled_items import Labeled, Places, in_line

WORD_AND_TAG = ("w", "pos")
COLUMNS_BY_STYLE = {"conll2000": WORD_AND_TAG, "conll2002": ("w",), "conll2003": ("w", "pos", "chunk")}
USUAL_NAMES = ("w", "pos", "chunk")
TAB_SEPARATOR, N_LINES_TO_DECIDE = "\t", 10_000  # lines from which `splits_at_tabs` decides
DOCUMENT_START = "-DOCSTART-"
COMMENT_START = re.compile(r"#[ \t]")
FIELD_PATTERN = re.compile(r"[^ \t]+")  # as of `blank_parted`
BLANK_TOKEN = (
    "; the line begins with a blank, where CRF++ ends an item: to end one there, too, leave the line empty "
    "(sed 's/^[[:blank:]].*//'); if a blank is the token, part the columns of all lines with one tab each"
)


def read_conll(
    path: Readable,
    columns: Sequence[str] | None = WORD_AND_TAG,
    *,
    is_labeled: bool = True,
    comment: str | None = None,
    separator: str | None = None,
    has_more: bool = False,
) -> Labeled:
    """Read a file of columns.

    Parameters
    ----------
    path : str, Path, stream or Source
        `-` is standard input.
    columns : sequence of str, or None
        Names of the columns before the label. None: as many as the first line has, called w, pos, chunk, column3, ...
    is_labeled : bool, default True
        With `columns=None` or `has_more`, whether the last column is the label; otherwise each line may omit it.
    comment : str, optional
        Lines that begin with it are skipped; "": none. None: lines before an item's first token that begin with "#" and
        a blank, if the file shows that they are no tokens (`Comments`); a CommentWarning names the first one.
    separator : str, optional
        The text between columns; None: a tab if all of the first lines have the same number of them, so that words may
        have blanks, else any number of blanks and tabs.
    has_more : bool, default False
        Whether there may be other columns after `columns`, as many as in the first line.

    Returns
    -------
    Labeled
        `inputs` are TokenColumns; a missing label is an empty text.

    Raises
    ------
    DataError
        A line with another number of columns, invalid UTF-8 (file and line are named), no items at all.
    """
    shown, numbered = shown_name(path), text_lines(path)
    first_lines = list(itertools.islice(numbered, N_LINES_TO_DECIDE))
    facts = facts_of(path)
    if separator is None:
        if "separator" not in facts:
            is_tab = splits_at_tabs([line for _, line in first_lines], None if has_more else columns)
            facts["separator"] = TAB_SEPARATOR if is_tab else None
        separator = facts["separator"]
    is_given, least = columns is not None and not has_more, list(columns or ())
    names, first_number, first_line = (least, 0, "") if is_given else facts.get("names", (None, 0, ""))
    if comment is None and "comments" not in facts:
        facts["comments"] = Comments.from_lines([line for _, line in first_lines])
    comments, is_said = facts.get("comments"), facts.setdefault("said", [])
    texts: list[list[str]] = [[] for _ in names or least]
    labels: list[str] = []
    starts, lines = [0], array("q")
    for number, line in itertools.chain(first_lines, numbered):
        fields = fields_of(line, separator)
        if comment and line.startswith(comment):
            continue
        if comments is not None and len(labels) == starts[-1] and line in comments:
            if not is_said:
                is_said.append(True)
                warn_caller(
                    f"{shown}, line {number}: {shorten(line)} and other such lines before an item's first token are "
                    "taken for comments; comment='' (--comment '') reads them as tokens",
                    CommentWarning,
                )
            continue
        if not fields or fields[0] == DOCUMENT_START:
            if len(labels) > starts[-1]:
                starts.append(len(labels))
            continue
        if names is None:
            names = [*least, *usual_names(len(fields) - is_labeled)[len(least) :]]
            texts, first_number, first_line = [[] for _ in names], number, line
            facts["names"] = names, number, line
        n = len(names)
        if not (n <= len(fields) <= n + 1 if is_given else len(fields) == n + is_labeled):
            if is_given:
                expected = f"{n} columns ({', '.join(names)}) and perhaps a label"
            elif number == first_number:
                expected = f"at least {n} columns ({', '.join(least)})" + " and a label" * is_labeled
            else:
                expected = f"{n + is_labeled} columns, as in line {first_number}"
            hint = ""
            if line.startswith("#") or first_line.startswith("#"):
                which = "it" if line.startswith("#") else f"line {first_number}, {shorten(first_line)},"
                hint = f"; if {which} is a comment, say so with comment='#' (--comment '#')"
            if separator is None and line[0] in BLANKS and len(fields) < n + is_labeled:
                hint = BLANK_TOKEN
            raise DataError(
                f"{shown}, line {number}: expected {expected}, got {len(fields)}: {shorten(line)}{hint}"
            )
        for column, text in zip(texts, fields, strict=False):
            column.append(text)
        labels.append(fields[n] if len(fields) > n else "")
        lines.append(number)
    if len(labels) > starts[-1]:
        starts.append(len(labels))
    if names is None or not labels:
        expected = "columns and a label" if columns is None else f"{', '.join(columns)} and perhaps a label"
        empty = "" if any(line for _, line in first_lines) else "empty, "
        raise EmptyDataError(f"{shown}: {empty}no items; expected lines of {expected}")
    offsets = np.array(starts, np.int64)
    relabel = in_line(partial(_relabelled, column=len(names), separator=separator))
    places = Places(shown, np.array(lines, np.int64), offsets, relabel)
    tokens = TokenColumns(dict(zip(names, texts, strict=True)), offsets)
    return Labeled(tokens, [labels[start:stop] for start, stop in itertools.pairwise(starts)], places=places)


@dataclass(frozen=True)
class Comments:
    """Lines before an item's first token that begin with "#" and a blank and are no tokens.

    A token has as many fields as the others, `width`, and shares its last field with another one, `last`.
    """

    separator: str | None
    width: int
    last: frozenset[str]

    @classmethod
    def from_lines(cls, lines: Sequence[str]) -> Comments | None:
        """Return the comments of a file with these first lines; None if it seems to have none.

        Such lines are comments if one has another number of fields than more than half of the tokens, or if one is
        before each of several items and none could be a token. There are none if "#" is a token within an item.
        """
        candidates: list[str] = []
        tokens: list[str] = []
        n_items = n_with = 0
        is_begun = has_candidate = False
        for line in lines:
            if is_blank(line) or line.startswith(DOCUMENT_START):
                is_begun = has_candidate = False
            elif not is_begun and COMMENT_START.match(line):
                candidates.append(line)
                has_candidate = True
            else:
                n_items, n_with = n_items + (not is_begun), n_with + (not is_begun and has_candidate)
                is_begun = True
                tokens.append(line)
        if not candidates or not tokens or any(map(COMMENT_START.match, tokens)):
            return None
        separator = TAB_SEPARATOR if _tabs_part(tokens, None) else None
        fields = [fields_of(line, separator) for line in tokens]
        width, n = Counter(map(len, fields)).most_common(1)[0]
        comments = cls(separator, width, frozenset(row[-1] for row in fields))
        has_others = any(len(fields_of(line, separator)) != width for line in candidates)
        is_regular = 1 < n_items == n_with and all(line in comments for line in candidates)
        return comments if 2 * n > len(tokens) and (has_others or is_regular) else None

    def __contains__(self, line: str) -> bool:
        if not COMMENT_START.match(line):
            return False
        fields = fields_of(line, self.separator)
        return len(fields) != self.width or fields[-1] not in self.last


def token_lines(lines: Sequence[str]) -> list[str]:
    """Return the lines that are tokens, without blank ones, separators of documents, and comments."""
    comments = Comments.from_lines(lines)
    tokens: list[str] = []
    is_begun = False
    for line in lines:
        if is_blank(line) or line.startswith(DOCUMENT_START):
            is_begun = False
        elif is_begun or comments is None or line not in comments:
            is_begun = True
            tokens.append(line)
    return tokens


def conll_lines(
    labeled: Labeled, added: Sequence[Sequence[str]] | None = None, separator: str = " ", last: str = ""
) -> Iterator[str]:
    """Yield each item's text: columns, labels if any is known, and an `added` column, such as predictions, after
    `last`, by default the separator. InputError, naming the place, for a text that is empty or contains the separator
    (blanks, or tabs between columns), with which columns would be ambiguous."""
    for i, (item, labels) in enumerate(zip(labeled.inputs, labeled.labels, strict=True)):
        rows = [list(map(str, position.values())) for position in item]
        if any(labels):
            rows = [[*row, label] for row, label in zip(rows, labels, strict=True)]
        new = [[] for _ in rows] if added is None else [[label_text(label)] for label in added[i]]
        for t, row in enumerate(rows):
            _check_columns(f"{labeled.where(i, t)}: ", [*row, *new[t]], separator)
        lines = (
            (last or separator).join([separator.join(row), *more])
            for row, more in zip(rows, new, strict=True)
        )
        yield "".join(f"{line}\n" for line in lines) + "\n"


def _check_columns(where: str, row: Sequence[str], separator: str = " ") -> None:
    forbidden, what = ("\t\n\r", "a tab") if separator == TAB_SEPARATOR else (" \t\n\r", "blanks")
    wrong = [text for text in row if not text or any(character in text for character in forbidden)]
    if wrong:
        raise InputError(f"{where}{wrong[0]!r} cannot be the text of a column: it is empty or has {what}")


def _relabelled(line: str, labels: Sequence[str], column: int, separator: str | None) -> str:
    """Return a line with a label in the column of this number, which is added if it is missing."""
    label = labels[0]
    if separator is not None:
        if any(character in label for character in f"{separator}\n\r"):
            raise InputError(
                f"{label!r} cannot be the text of a column: it contains the separator of the columns"
            )
        return separator.join([*line.split(separator)[:column], label])
    _check_columns("", labels)
    fields = list(FIELD_PATTERN.finditer(line))
    if len(fields) > column:
        return line[: fields[column].start()] + label + line[fields[column].end() :]
    if line[fields[-1].end() :]:  # the separator is there, the label is not
        return line + label
    return line + (line[fields[-2].end() : fields[-1].start()] if len(fields) > 1 else " ") + label


def splits_at_tabs(lines: Sequence[str], columns: Sequence[str] | None = None) -> bool:
    """Return whether tabs alone separate the columns, so that a word may contain blanks: all lines have the same number
    of them, which fits the `columns` and a label if these are known."""
    return _tabs_part(token_lines(lines), columns)


def _tabs_part(rows: Sequence[str], columns: Sequence[str] | None) -> bool:
    n_tabs = {line.count("\t") for line in rows}
    if len(n_tabs) != 1 or n_tabs == {0}:
        return False
    (n,) = n_tabs
    if columns is not None:
        return len(columns) - 1 <= n <= len(columns)
    widths = {len(fields_of(line, None)) for line in rows}
    return widths == {n + 1} or len(widths) > 1


def _begins(lines: Sequence[str]) -> bool:
    rows = [line for line in lines if not is_blank(line) and not line.startswith((DOCUMENT_START, "#"))]
    separator = TAB_SEPARATOR if splits_at_tabs(lines) else None
    widths = {len(fields_of(line, separator)) for line in rows}
    return len(rows) > 1 and len(widths) == 1 and widths != {1}


def usual_names(n: int) -> list[str]:
    """Return names for n columns: w, pos, chunk, column3, ..."""
    return [*USUAL_NAMES, *(f"column{c}" for c in range(len(USUAL_NAMES), n))][:n]


def column_names(lines: Sequence[str]) -> list[str]:
    """Return names for the columns, the last one the label, by the first of the lines; [] for none."""
    separator, tokens = TAB_SEPARATOR if splits_at_tabs(lines) else None, token_lines(lines)
    return usual_names(len(fields_of(tokens[0], separator)) - 1 if tokens else 0)


def fields_of(line: str, separator: str | None = None) -> list[str]:
    """Return the columns of a line, split at a separator, or at any number of blanks and tabs; [] for a blank line."""
    if separator is not None:
        return [] if is_blank(line) else line.split(separator)
    return blank_parted(line)


def _columns_like(names: tuple[str, ...]) -> Callable[..., Labeled]:
    def read(path: Readable, comment: str | None = None, separator: str | None = None) -> Labeled:
        return read_conll(path, names, comment=comment, separator=separator)

    return read


CONLL_FORMATS = (
    Format(
        "conll",
        "columns, a position a line; the last one is the label",
        (".conll", ".iob", ".iob1", ".iob2", ".bio", ".bioes", ".bilou", ".bmes"),
        (SEQUENCES,),
        partial(read_conll, columns=None),
        each(conll_lines),
        by_blank_lines,
        _begins,
    ),
    *(
        Format(
            name,
            f"columns as {tool} writes them, a tab before the predicted label",
            (),
            (SEQUENCES,),
            partial(read_conll, columns=None),
            each(partial(conll_lines, separator=separator, last=TAB_SEPARATOR)),
            by_blank_lines,
            ranked="# {rank} {probability:.6f}\n",
        )
        for name, tool, separator in (("crfpp", "CRF++", TAB_SEPARATOR), ("wapiti", "Wapiti", " "))
    ),
    *(
        Format(
            style,
            f"columns {' '.join(names)} label",
            (f".{style}",),
            (SEQUENCES,),
            _columns_like(names),
            each(conll_lines),
            by_blank_lines,
        )
        for style, names in COLUMNS_BY_STYLE.items()
    ),
)

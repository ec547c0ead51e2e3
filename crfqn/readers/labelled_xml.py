"""Reader and writer of XML: items of labelled elements, as parserator, anystyle and GROBID have them.

    <AddressCollection><AddressString><AddressNumber>12</AddressNumber> <StreetName>Main</StreetName> ...

An element below the root is an item, the elements in it are its labelled pieces, and white space parts their words. A
word that two elements share is two positions. Elements within pieces belong to the piece.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from xml.parsers import expat

import numpy as np

from crfqn.data.files import Readable, read_bytes, shown_name, source_of
from crfqn.data.token_columns import TokenColumns
from crfqn.errors import ColumnWarning, DataError, EmptyDataError, InputError, warn_caller
from crfqn.messages import shorten
from crfqn.readers.format import SEQUENCES, Batches, Format, relabeled
from crfqn.readers.labelled_items import Labeled, Places
from crfqn.readers.text_spans import column_of_words

PIECE_PATTERN = re.compile(r"\s+|\S+")
START_PATTERN = re.compile(r"\s*(<\?xml\s|<[A-Za-z_][^<>]*>\s*<[A-Za-z_!])")
ELEMENT_NAME = re.compile(r"[^\W\d][\w.-]*")
NO_CHARACTER = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # which XML cannot hold


class _Items:
    """The words of the items, as the parser meets them."""

    def __init__(self, shown: str, item: str | None, attributes: Sequence[str], outside: str) -> None:
        self.shown, self.item, self.attributes, self.outside = shown, item, attributes, outside
        self.parser: expat.XMLParserType
        self.path: list[str] = []  # the names of the open elements
        self.item_depth = 0  # of the open item, 0 for none
        self.words: list[str] = []
        self.labels: list[list[str]] = []
        self.lines: list[list[int]] = []
        self.blanks: list[bool] = []  # whether a blank follows a word
        self.label, self.is_within = outside, False  # of the open piece; whether text continues the last word
        self.is_empty = self.has_attribute = self.has_warned = False

    def open(self, name: str, attributes: Mapping[str, str]) -> None:
        """Begin an element: an item, a labelled piece of one, or an element within a piece."""
        name = name.rpartition(":")[2]
        self.path.append(name)
        depth, self.is_empty = len(self.path), True
        if not self.item_depth:
            if depth == 2 if self.item is None else name == self.item:
                self.item_depth, self.is_within = depth, False
                self.labels.append([])
                self.lines.append([])
        elif depth == self.item_depth + 1:
            values = [attributes[key] for key in self.attributes if key in attributes]
            self.label, self.is_within = ".".join([name, *values]), False
            self.has_attribute = self.has_attribute or bool(values)

    def close(self, _: str) -> None:
        """End an element; an empty one within a piece, such as TEI's <lb/>, is a blank."""
        depth = len(self.path)
        self.path.pop()
        if depth == self.item_depth:
            self.item_depth = 0
            self.blanks[-1:] = [True] * bool(self.blanks)
            if not self.labels[-1]:  # an item without words is none
                del self.labels[-1], self.lines[-1]
        elif depth == self.item_depth + 1 and self.item_depth:
            self.label, self.is_within = self.outside, False
        elif self.is_empty and self.item_depth:
            self.is_within = False
            self.blanks[-1:] = [True] * bool(self.blanks)
        self.is_empty = False

    def add(self, text: str) -> None:
        """Add text, which the parser passes in pieces of one line each."""
        line, self.is_empty = self.parser.CurrentLineNumber, False
        if not self.item_depth:
            if self.item is None and text.strip():
                raise DataError(
                    f"{self.shown}, line {line}: expected elements of labelled words below the root, got "
                    f"{shorten(text.strip())} outside of any"
                )
            return
        depth = len(self.path)
        if depth > self.item_depth + 1 and text.strip() and not self.has_warned:
            self.has_warned = True
            warn_caller(
                f"{self.shown}, line {line}: the words of <{self.path[-1]}> and other elements within labelled ones "
                f"have the label of the outermost, here {self.label!r}",
                ColumnWarning,
            )
        for piece in PIECE_PATTERN.findall(text):
            if piece.isspace():
                self.is_within = False
                self.blanks[-1:] = [True] * bool(self.blanks)
            elif self.is_within:
                self.words[-1] += piece
            else:
                self.words.append(piece)
                self.blanks.append(False)
                self.labels[-1].append(self.label)
                self.lines[-1].append(line)
                self.is_within = True

    def refuse_entity(self, name: str, *_: object) -> None:
        """Raise DataError for an entity that the file defines, which may expand to any size, or takes from another."""
        line = self.parser.CurrentLineNumber
        raise DataError(f"{self.shown}, line {line}: expected XML that defines no entities, got {name!r}")


def read_xml(
    path: Readable,
    columns: Sequence[str] | None = None,
    *,
    sentence: str | None = None,
    label: str | None = None,
    outside: str = "",
    needs_named: bool = True,
) -> Labeled:
    """Read XML as TokenColumns of one column, the words; items without words are left out.

    columns : the name of the column
    sentence : the name of the items' elements, at any depth, as "bibl" in TEI; text outside of them is not read. None:
        the elements below the root, which has no other text
    label : attributes, separated by commas, whose values follow the names of elements in labels: with "level,unit",
        `<title level="j">` has the label "title.j"; namespaces are no part of names
    outside : the label of words of an item that are in no element; an empty text means unknown
    needs_named : whether an element with one of the attributes of `label` has to occur, as in data to train on

    ColumnWarning, once, for elements within labelled ones. DataError, with file and line, for no XML, definitions of
    entities and text outside of items, and for no items or no such attribute; InputError for several columns.
    """
    name = column_of_words(columns)
    source = source_of(path)
    items = _Items(shown_name(path), sentence, [*filter(None, (label or "").split(","))], outside)
    is_declared = source.codec == "utf-8"  # in the file, or UTF-8
    items.parser = expat.ParserCreate(None if is_declared else "utf-8")
    items.parser.StartElementHandler = items.open
    items.parser.EndElementHandler = items.close
    items.parser.CharacterDataHandler = items.add
    items.parser.EntityDeclHandler = items.parser.SkippedEntityHandler = items.refuse_entity
    content = read_bytes(path)
    try:
        items.parser.Parse(content if is_declared else content.decode(source.codec).encode(), True)
    except expat.ExpatError as error:
        reason = f"{expat.ErrorString(error.code)}, after {error.offset} characters"
        raise DataError(f"{items.shown}, line {error.lineno}: no XML: {reason}") from error
    except (LookupError, ValueError) as error:  # of encodings
        raise DataError(f"{items.shown}: no XML in a known encoding: {error}") from error
    if not items.labels:
        expected = (
            "elements of labelled words below the root" if sentence is None else f"elements <{sentence}>"
        )
        raise EmptyDataError(f"{items.shown}: no items; expected {expected}")
    if items.attributes and needs_named and not items.has_attribute:
        raise DataError(
            f"{items.shown}: expected labelled elements with an attribute {' or '.join(items.attributes)} (label=), "
            "got none"
        )
    tokens = TokenColumns({name: items.words}, np.cumsum([0, *map(len, items.labels)], dtype=np.int64))
    tokens.blanks = items.blanks
    return Labeled(tokens, items.labels, places=Places.of_items(items.shown, items.lines))


def xml_texts(batches: Batches) -> Iterator[str]:
    """Yield the items of each batch as XML, an element a word, under one root; a word without a label is in no element.
    InputError, naming the place, for several columns, a label that cannot name an element, and characters that XML does
    not have."""
    yield "<dataset>\n"
    for data, predicted in batches:
        labelled = data if predicted is None else relabeled(data, predicted)
        for i, (item, labels) in enumerate(zip(data.inputs, labelled.labels, strict=True)):
            elements = []
            for t, (position, label) in enumerate(zip(item, labels, strict=True)):
                word, *others = position.values()
                is_text = not others and isinstance(word, str) and not NO_CHARACTER.search(word)
                if not is_text or (label and not ELEMENT_NAME.fullmatch(label)):
                    raise InputError(
                        f"{data.where(i, t)}: expected a word alone, of XML's characters, and a label that can name an "
                        f"element, got {shorten(position)} with the label {shorten(label)}"
                    )
                elements.append(f"<{label}>{escape(word, False)}</{label}>" if label else escape(word, False))
            yield f"  <sequence>{' '.join(elements)}</sequence>\n"
    yield "</dataset>\n"


FORMAT = Format(
    "xml",
    "items of elements that are named after the labels of the words in them",
    (".xml",),
    (SEQUENCES,),
    read_xml,
    xml_texts,
    begins=lambda lines: START_PATTERN.match("\n".join(lines)) is not None,
    names_columns=True,
    is_unicode=True,
)

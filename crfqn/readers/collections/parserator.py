"""Reader of parserator's training files, XML: names and addresses whose pieces are elements named after their labels.

    <NameCollection>
      <Name><GivenName>Drake</GivenName> <Surname>Rice</Surname></Name>
    </NameCollection>

The elements below the root are items, theirs the labelled pieces, which are split at white space into words. Data of
this form: probablepeople, usaddress (DataMade).
"""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from crfqn.data.files.lines import read_bytes, shown_name
from crfqn.errors import DataError
from crfqn.readers.labeled import Labeled


def read_parserator(path: str | Path) -> Labeled:
    """Read a training file, plain or gzip-compressed; `-` reads standard input.

    Returns
    -------
    Labeled
        `inputs[i]` is a list of dicts with the one column `w`, the word.

    Raises
    ------
    DataError
        No XML, with its line; definitions of entities; text outside a labelled piece; no items at all.
    """
    inputs: list[list[dict[str, str]]] = []
    labels: list[list[str]] = []
    for item in _root(path):
        loose = [text for text in (item.text, *(piece.tail for piece in item)) if text and text.strip()]
        if loose:
            raise DataError(
                f"{shown_name(path)}, item {len(labels) + 1}: expected words within elements named after their label, "
                f"got {loose[0].strip()[:60]!r} outside"
            )
        words = [(word, piece.tag) for piece in item for word in "".join(piece.itertext()).split()]
        if words:
            inputs.append([{"w": word} for word, _ in words])
            labels.append([label for _, label in words])
    if not labels:
        raise DataError(f"{shown_name(path)}: no items; expected elements of labelled pieces below the root")
    return Labeled(inputs, labels)


def _root(path: str | Path) -> ElementTree.Element:
    """Return the root element; an XML file that defines entities may unfold to any size, and is refused."""
    content = read_bytes(path)
    if b"<!ENTITY" in content:
        raise DataError(f"{shown_name(path)}: expected XML without entities of its own, got <!ENTITY ...>")
    try:
        return ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        raise DataError(f"{shown_name(path)}: no XML: {error}") from error

"""Reader of treebanks in CoNLL-U for tagging: the words and one of their tags.

Ten columns separated by tabs, a blank line after each sentence, comments from `#` on; lines of several words (`4-5`)
and of words left out (`8.1`) are passed over. Format: Universal Dependencies,
https://universaldependencies.org/format.html.
"""

from __future__ import annotations

from pathlib import Path

from crfqn.data.files.lines import shown_name, text_lines
from crfqn.errors import DataError
from crfqn.readers.labeled import Labeled

N_COLUMNS, WORD, TAGS = 10, 1, {"upos": 3, "xpos": 4}


def read_treebank(path: str | Path, tag: str) -> Labeled:
    """Read a file of CoNLL-U, plain or gzip-compressed; `-` reads standard input.

    Parameters
    ----------
    path : str or Path
    tag : {"upos", "xpos"}
        The column that is the label.

    Returns
    -------
    Labeled
        `inputs[i]` is a list of dicts with the one column `w`, the word.

    Raises
    ------
    DataError
        A line of another form (file and line are named), no words at all.
    """
    inputs: list[list[dict[str, str]]] = []
    labels: list[list[str]] = []
    is_inside = False
    for number, line in text_lines(path):
        fields = line.rstrip("\r\n").split("\t")
        if fields == [""]:
            is_inside = False
            continue
        if line.startswith("#"):
            continue
        if len(fields) != N_COLUMNS:
            raise DataError(
                f"{shown_name(path)}, line {number}: expected {N_COLUMNS} columns of CoNLL-U, separated by tabs, "
                f"got {len(fields)}: {line.strip()[:60]!r}"
            )
        if not fields[0].isdigit():
            continue
        if not is_inside:
            inputs.append([])
            labels.append([])
            is_inside = True
        inputs[-1].append({"w": fields[WORD]})
        labels[-1].append(fields[TAGS[tag]])
    if not labels:
        raise DataError(f"{shown_name(path)}: no words; expected lines of CoNLL-U")
    return Labeled(inputs, labels)

"""Reader of treebanks in CoNLL-U for tagging: the words and one of their tags."""

from __future__ import annotations

from pathlib import Path

from crfqn.data.token_columns import TokenColumns
from crfqn.readers.formats.conllu import read_conllu
from crfqn.readers.labeled import Labeled


def read_treebank(path: str | Path, tag: str) -> Labeled:
    """Read a treebank, plain or compressed; errors as of `read_conllu`.

    Parameters
    ----------
    path : str or Path
    tag : {"upos", "xpos"}
        The field that is the label.

    Returns
    -------
    Labeled
        `inputs` are TokenColumns with the one column `w`, the word.
    """
    found = read_conllu(path, ("form",), label=tag)
    words = TokenColumns.from_items(found.inputs)
    return Labeled(TokenColumns({"w": words.texts["form"]}, words.offsets), found.labels, places=found.places)

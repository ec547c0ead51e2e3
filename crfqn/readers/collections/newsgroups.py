"""Reader of 20 Newsgroups, split by date: texts from the publisher's archive, and the tree of the groups' names.

The archive holds `20news-bydate-train/GROUP/NUMBER` and `20news-bydate-test/GROUP/NUMBER`, one post a file. It is
read in one go and never unpacked to disk. Data: Lang, *NewsWeeder*, ICML 1995; Rennie's version by date.
"""

from __future__ import annotations

import lzma
import tarfile
import zlib
from collections.abc import Collection
from pathlib import Path, PurePosixPath

from crfqn.errors import DataError, DataUnavailableError
from crfqn.readers.documents import Documents
from crfqn.taxonomy.reading import open_taxonomy
from crfqn.taxonomy.tree import LabelTree
from crfqn.wording import shorten

PARTS = ("20news-bydate-train", "20news-bydate-test")
ENCODING = "latin-1"  # which every byte is a character of
SEPARATOR = "."
DAMAGE = (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, OSError)


def read_newsgroups(path: str | Path) -> Documents:
    """Read `20news-bydate.tar.gz` (or .xz, .bz2, .tar).

    Returns
    -------
    Documents
        Texts as they stand in the files, with their headers; those for training first, each part sorted by group
        and file name (as text, as scikit-learn's `load_files` does before it shuffles), whatever the order of
        the archive. The taxonomy has the groups as leaves and, above them, the beginnings of their names
        that several groups share.

    Raises
    ------
    DataUnavailableError
        There is no such file.
    DataError
        It is no archive or a damaged one, a post lies elsewhere or has a name that is no number, a part is missing.
    """
    posts = _posts(path)
    order = sorted(posts)
    n_train = sum(part == 0 for part, _, _ in order)
    if not 0 < n_train < len(order):
        missing = PARTS[1] if n_train else PARTS[0]
        raise DataError(f"{path}: no posts in {missing}/GROUP/; expected the archive of the version by date")
    labels = [group for _, group, _ in order]
    return Documents([posts[key] for key in order], labels, groups_tree(labels), n_train)


def groups_tree(groups: Collection[str]) -> LabelTree:
    """Return the tree of dotted names: `comp.sys.mac.hardware` under `comp.sys` under `comp`.

    A beginning that no second group shares is no node, so that `alt.atheism`, the only group of `alt`, is a top
    leaf.
    """
    names = sorted(set(groups))
    return open_taxonomy(names, names, separator=SEPARATOR).collapsed(names)


def _posts(path: str | Path) -> dict[tuple[int, str, str], str]:
    """Return the texts by part (0: training, 1: test), group and file name."""
    posts = {}
    try:
        with tarfile.open(path, "r|*") as archive:
            for member in archive:
                name = PurePosixPath(member.name)
                content = archive.extractfile(member) if member.isfile() else None
                if content is None or name.name.startswith("."):  # a folder, or what a file manager left
                    continue
                posts[_place(path, name)] = content.read().decode(ENCODING)
    except FileNotFoundError as error:
        raise DataUnavailableError(f"{path}: no such file") from error
    except DAMAGE as error:
        raise DataError(f"{path}: not an archive that can be read to its end: {error}") from error
    return posts


def _place(path: str | Path, name: PurePosixPath) -> tuple[int, str, str]:
    match name.parts:
        case [*_, part, group, number] if part in PARTS and number.isdecimal():
            return PARTS.index(part), group, number
    raise DataError(
        f"{path}: expected {' or '.join(PARTS)}, a group and a number, got the file {shorten(str(name))}"
    )

"""Words and punctuation of raw text, by one regular expression for files, taggers and services.

A token is a run of letters, digits and underscores, in which hyphens and apostrophes may stand between such runs
(`well-known`, `don't`), and points, commas and colons between digits (`3.14`, `1,000`); single letters with a point
each, two or more (`U.S.`, `e.g.`), as the usual corpora have them; or any other character but white space.
"""

import re

TOKEN = re.compile(r"(?<!\w)(?:[^\W\d_]\.){2,}(?!\w)|\w+(?:[-'\u2019]\w+|(?<=\d)[.,:](?=\d)\w+)*|[^\w\s]")


def tokenize(text: str) -> list[str]:
    """Return the words and the punctuation of a text, in their order.

    Examples
    --------
    >>> tokenize("I don't live in the U.S., but in Paris.")
    ['I', "don't", 'live', 'in', 'the', 'U.S.', ',', 'but', 'in', 'Paris', '.']
    """
    return TOKEN.findall(text)

"""Reader and writer of CoNLL-U, the format of Universal Dependencies.

Positions are the syntactic words; lines of multiword tokens ("3-4") and of empty nodes ("8.1") are no positions.
Format: https://universaldependencies.org/format.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from crfqn.data.files import Readable, facts_of, is_blank, shown_name
from crfqn.data.token_columns import TokenColumns
from crfqn.errors import DataError, EmptyDataError, InputError
from crfqn.messages import describe, shorten
from crfqn.readers.format import SEQUENCES, Format, by_blank_lines, instead, item_lines
from crfqn.readers.labelled_items import Labeled, Places, in_line

FIELD_NAMES = ("form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
WITH_KEYS = ("feats", "misc")
EMPTY_FIELD = "_"
WORD_NUMBER = re.compile(r"[0-9]+([-.][0-9]+)?\t")
# The number of the field after that of the word, and its content.
HEAD_COLUMN, HEAD_NUMBER = 1 + FIELD_NAMES.index("head"), re.compile(r"-?[0-9]+|_")


def read_conllu(
    path: Readable,
    columns: Sequence[str] | Mapping[str, str] = ("form", "lemma", "xpos", "feats"),
    *,
    label: str = "upos",
) -> Labeled:
    """Read CoNLL-U as TokenColumns of the words' fields, or keys of them ("feats:Case", "misc:NER"; "_" where absent),
    and the field `label`, "_" for none; a mapping gives the columns other names (`{"w": "form"}`). DataError for a line
    that is not CoNLL-U (file and line named) or no sentences; InputError for an unknown field."""
    field_of = dict(columns) if isinstance(columns, Mapping) else {name: name for name in columns}
    for name in (*field_of.values(), label):
        field, colon, key = name.partition(":")
        if field not in FIELD_NAMES or (colon and (field not in WITH_KEYS or not key)):
            raise InputError(
                f"expected a field out of {', '.join(FIELD_NAMES)}, feats:<key>, misc:<key>, got {describe(name)}"
            )
    shown = shown_name(path)
    texts: dict[str, list[str]] = {name: [] for name in field_of}
    labels: list[list[str]] = []
    lines: list[list[int]] = []
    blanks: list[bool] = []  # by `SpaceAfter=No`
    blanks_of_text: list[list[bool] | None] = []  # by `# text`
    facts = facts_of(path)
    has_space_after = facts.get("has_space_after", False)
    for block in item_lines(path):
        words = _words(shown, block)
        if not words:
            continue
        for name, column in texts.items():
            column += _texts(shown, words, field_of[name])
        labels.append(["" if text == EMPTY_FIELD else text for text in _texts(shown, words, label)])
        lines.append([number for number, _, _ in words])
        blanks += [has_blank for *_, has_blank in words]
        has_space_after = has_space_after or any("SpaceAfter=No" in line for _, line in block)
        forms = [] if has_space_after else _texts(shown, words, "form")
        blanks_of_text.append(None if has_space_after else _blanks_of_text(block, forms))
    if not labels:
        raise EmptyDataError(f"{shown}: no items; expected sentences in CoNLL-U, ten columns a word")
    tokens = TokenColumns(texts, np.cumsum([0, *map(len, labels)], dtype=np.int64))
    facts["has_space_after"] = has_space_after
    if has_space_after:
        tokens.blanks = blanks
    elif None not in blanks_of_text:  # with neither, the blanks are unknown
        tokens.blanks = [has_blank for item in blanks_of_text for has_blank in item or ()]
    relabel = in_line(partial(_relabelled, name=label))
    return Labeled(tokens, labels, places=Places.of_items(shown, lines, relabel))


def conllu_lines(labeled: Labeled, label: str = "upos") -> Iterator[str]:
    """Yield each item in CoNLL-U: its columns in the fields of their names, its labels in the field `label`."""
    for i, (item, labels) in enumerate(zip(labeled.inputs, labeled.labels, strict=True)):
        rows = []
        for t, (position, word_label) in enumerate(zip(item, labels, strict=True)):
            fields = dict.fromkeys(FIELD_NAMES, EMPTY_FIELD)
            for name, text in [*position.items(), (label, word_label or EMPTY_FIELD)]:
                field = name.partition(":")[0]
                if field not in FIELD_NAMES:
                    raise InputError(f"CoNLL-U has no field {field!r}; it has {', '.join(FIELD_NAMES)}")
                fields[field] = _field(f"{labeled.where(i, t)}: ", fields[field], name, text)
            rows.append("\t".join([str(t + 1), *fields.values()]) + "\n")
        yield "".join(rows) + "\n"


def _field(where: str, field: str, name: str, text: str) -> str:
    """Return a field with another text, or with it under a key of the field if `name` has one."""
    if any(character in text for character in "\t\n\r"):
        raise InputError(f"{where}{name!r} contains a tab or a line's end")
    _, _, key = name.partition(":")
    if not key:
        return text
    pairs = [pair for pair in field.split("|") if pair != EMPTY_FIELD]
    keys = [pair.partition("=")[0] for pair in pairs]
    at = keys.index(key) if key in keys else len(pairs)
    pairs[at : at + 1] = [f"{key}={text}"] * (text != EMPTY_FIELD)
    return "|".join(pairs) or EMPTY_FIELD


def _relabelled(line: str, labels: Sequence[str], name: str) -> str:
    fields = line.split("\t")
    number = 1 + FIELD_NAMES.index(name.partition(":")[0])
    fields[number] = _field("", fields[number], name, labels[0])
    return "\t".join(fields)


def _words(shown: str, block: list[tuple[int, str]]) -> list[tuple[int, list[str], bool]]:
    """Return the words of a sentence, each with its line, its ten fields, and whether a blank follows it, which is not
    so within a multiword token."""
    words: list[tuple[int, list[str], bool]] = []
    last, has_blank = 0, True  # of a multiword token
    for number, line in block:
        if line.startswith("#"):
            continue
        where, fields = f"{shown}, line {number}", line.split("\t")
        if len(fields) != len(FIELD_NAMES) + 1:
            raise DataError(
                f"{where}: expected 10 columns of CoNLL-U, separated by tabs, got {len(fields)}: {line[:60]!r}"
            )
        id_, head, misc = fields[0], fields[HEAD_COLUMN], fields[-1]
        if not WORD_NUMBER.match(line):
            raise DataError(f"{where}: expected the number of a word, 3, 3-4 or 3.1, got {shorten(id_)}")
        if not HEAD_NUMBER.fullmatch(head):
            raise DataError(f"{where}: expected the number of the word's head, or _, got {shorten(head)}")
        is_followed = "SpaceAfter=No" not in misc.split("|")
        if "-" in id_:
            last, has_blank = int(id_.partition("-")[2]), is_followed
        elif "." not in id_:
            number_of_word = int(id_)
            if number_of_word <= last:
                is_followed = has_blank and number_of_word == last
            words.append((number, fields, is_followed))
    return words


def _blanks_of_text(block: list[tuple[int, str]], forms: list[str]) -> list[bool] | None:
    """Return whether a blank follows each word in the comment `# text`, None if its words are not exactly these."""
    comments = (line[1:].partition("=") for _, line in block if line.startswith("#"))
    text = next((value.strip() for name, _, value in comments if name.strip() == "text"), "")
    at, blanks = 0, []
    for form in forms:
        if not text.startswith(form, at):
            return None
        at = end = at + len(form)
        while text[at : at + 1].isspace():
            at += 1
        blanks.append(at > end or at == len(text))
    return blanks if at == len(text) else None


def _texts(shown: str, words: list[tuple[int, list[str], bool]], name: str) -> list[str]:
    """Return a field of each word unchanged, or the value of one key of it, "_" for none; DataError for a key that
    occurs twice."""
    field, _, key = name.partition(":")
    column = 1 + FIELD_NAMES.index(field)
    if not key:
        return [fields[column] or EMPTY_FIELD for _, fields, _ in words]
    texts = []
    for number, fields, _ in words:
        pairs = (pair.partition("=") for pair in fields[column].split("|"))
        values = [value for own, _, value in pairs if own == key]
        if len(values) > 1:
            raise DataError(
                f"{shown}, line {number}: {key} comes twice in {field}: {shorten(fields[column])}"
            )
        texts.append("".join(values) or EMPTY_FIELD)
    return texts


def _begins(lines: Sequence[str]) -> bool:
    words = [line for line in lines if not is_blank(line) and not line.startswith("#")]
    return bool(words) and all(
        WORD_NUMBER.match(line) and line.count("\t") == len(FIELD_NAMES) for line in words
    )


FORMAT = Format(
    "conllu",
    "Universal Dependencies",
    (".conllu",),
    (SEQUENCES,),
    read_conllu,
    instead(conllu_lines),
    by_blank_lines,
    _begins,
    names_columns=True,
    is_unicode=True,
    columns=("form",),  # lemmas and tags are labels of a tagger
)

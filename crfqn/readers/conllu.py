"""Reader and writer of CoNLL-U, the format of Universal Dependencies, through the package `conllu`.

Positions are the syntactic words; lines of multiword tokens ("3-4") and of empty nodes ("8.1") are no positions.
Format: https://universaldependencies.org/format.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from crfqn.data.files import Readable, is_blank, shown_name, text_lines
from crfqn.data.token_columns import TokenColumns
from crfqn.errors import DataError, EmptyDataError, InputError
from crfqn.messages import describe
from crfqn.readers.format import SEQUENCES, Format, by_blank_lines, instead
from crfqn.readers.items import Labeled, Places, in_line

FIELDS = ("form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
WITH_KEYS = ("feats", "misc")
EMPTY = "_"
NUMBER = re.compile(r"[0-9]+([-.][0-9]+)?\t")


def read_conllu(
    path: Readable, columns: Sequence[str] = ("form", "lemma", "xpos", "feats"), *, label: str = "upos"
) -> Labeled:
    """Read CoNLL-U as TokenColumns of the words' fields, or keys of them ("feats:Case", "misc:NER"; "_" where absent),
    and the field `label`, "_" for none. DataError for a line that is no CoNLL-U (file and line named) or no sentences;
    InputError for an unknown field."""
    for name in (*columns, label):
        field, colon, key = name.partition(":")
        if field not in FIELDS or (colon and (field not in WITH_KEYS or not key)):
            raise InputError(
                f"expected a field out of {', '.join(FIELDS)}, feats:<key>, misc:<key>, got {describe(name)}"
            )
    import conllu

    texts: dict[str, list[str]] = {name: [] for name in columns}
    labels: list[list[str]] = []
    lines: list[list[int]] = []
    blanks: list[bool] = []  # by `SpaceAfter=No`
    by_text: list[list[bool] | None] = []  # by `# text`
    is_told = False
    for block in _blocks(path):
        words = _words(conllu, shown_name(path), block)
        if not words:
            continue
        for name, column in texts.items():
            column.extend(_text(word, name) for _, word, _ in words)
        labels.append(["" if (text := _text(word, label)) == EMPTY else text for _, word, _ in words])
        lines.append([number for number, _, _ in words])
        blanks += [has_blank for *_, has_blank in words]
        is_told = is_told or any("SpaceAfter=No" in line for _, line in block)
        by_text.append(
            None if is_told else _blanks_of_text(block, [_text(word, "form") for _, word, _ in words])
        )
    if not labels:
        raise EmptyDataError(
            f"{shown_name(path)}: no items; expected sentences in CoNLL-U, ten columns a word"
        )
    offsets = np.cumsum([0, *map(len, labels)], dtype=np.int64)
    relabel = in_line(partial(_relabelled, name=label))
    tokens = TokenColumns(texts, offsets)
    if is_told:
        tokens.blanks = blanks
    elif None not in by_text:  # a file with neither does not tell where blanks are
        tokens.blanks = [has_blank for item in by_text for has_blank in item or ()]
    return Labeled(tokens, labels, places=Places.of_items(shown_name(path), lines, relabel))


def conllu_lines(labeled: Labeled, label: str = "upos") -> Iterator[str]:
    """Yield each item in CoNLL-U: its columns in the fields of their names, its labels in the field `label`."""
    for i, (item, labels) in enumerate(zip(labeled.inputs, labeled.labels, strict=True)):
        rows = []
        for t, (position, own) in enumerate(zip(item, labels, strict=True)):
            fields = dict.fromkeys(FIELDS, EMPTY)
            for name, text in [*position.items(), (label, own or EMPTY)]:
                field = name.partition(":")[0]
                if field not in FIELDS:
                    raise InputError(f"CoNLL-U has no field {field!r}; it has {', '.join(FIELDS)}")
                fields[field] = _field(f"{labeled.where(i, t)}: ", fields[field], name, text)
            rows.append("\t".join([str(t + 1), *fields.values()]) + "\n")
        yield "".join(rows) + "\n"


def _field(where: str, field: str, name: str, text: str) -> str:
    """Return a field with another text, or with it under a key of the field if `name` says one."""
    if any(character in text for character in "\t\n\r"):
        raise InputError(f"{where}a tab or a line's end in {name!r}")
    _, _, key = name.partition(":")
    if not key:
        return text
    pairs = [pair for pair in field.split("|") if pair != EMPTY]
    own = [i for i, pair in enumerate(pairs) if pair.partition("=")[0] == key]
    pairs[slice(own[0], own[0] + 1) if own else slice(len(pairs), None)] = [f"{key}={text}"] * (text != EMPTY)
    return "|".join(pairs) or EMPTY


def _relabelled(line: str, labels: Sequence[str], name: str) -> str:
    fields = line.split("\t")
    number = 1 + FIELDS.index(name.partition(":")[0])
    fields[number] = _field("", fields[number], name, labels[0])
    return "\t".join(fields)


def _blocks(path: Readable) -> Iterator[list[tuple[int, str]]]:
    """Yield the numbered lines of each sentence, comments among them."""
    block: list[tuple[int, str]] = []
    for number, line in text_lines(path):
        if not is_blank(line):
            block.append((number, line))
        elif block:
            yield block
            block = []
    if block:
        yield block


def _words(conllu: Any, shown: str, block: list[tuple[int, str]]) -> list[tuple[int, Any, bool]]:
    """Return the words of a sentence, each with its line, and whether a blank stands behind it: none does within a
    multiword token."""
    numbers = [number for number, line in block if not line.startswith("#")]
    for number, line in block:
        n_fields = line.count("\t") + 1
        if not line.startswith("#") and n_fields != len(FIELDS) + 1:
            raise DataError(
                f"{shown}, line {number}: expected 10 columns of CoNLL-U, separated by tabs, got {n_fields}: "
                f"{line[:60]!r}"
            )
        if not line.startswith("#") and not NUMBER.match(line):
            found = line.partition("\t")[0][:60]
            raise DataError(
                f"{shown}, line {number}: expected the number of a word, 3, 3-4 or 3.1, got {found!r}"
            )
    if not numbers:
        return []
    try:
        (sentence,) = conllu.parse(
            "\n".join(line for _, line in block) + "\n", fields=conllu.parser.DEFAULT_FIELDS
        )
    except (conllu.exceptions.ParseException, ValueError) as error:
        raise DataError(f"{shown}, line {block[0][0]}: the sentence is no CoNLL-U: {error}") from error
    words: list[tuple[int, Any, bool]] = []
    last, has_blank = 0, True  # of a multiword token
    for number, word in zip(numbers, sentence, strict=True):
        is_followed = (word.get("misc") or {}).get("SpaceAfter") != "No"
        if not isinstance(word["id"], int):
            last, has_blank = (word["id"][2], is_followed) if word["id"][1] == "-" else (last, has_blank)
        elif word["id"] <= last:
            words.append((number, word, has_blank and word["id"] == last))
        else:
            words.append((number, word, is_followed))
    return words


def _blanks_of_text(block: list[tuple[int, str]], forms: list[str]) -> list[bool] | None:
    """Return whether a blank stands behind each word in the comment `# text`, None if it has not just these words."""
    comments = (line[1:].partition("=") for _, line in block if line.startswith("#"))
    text = next((value.strip() for name, _, value in comments if name.strip() == "text"), "")
    at, found = 0, []
    for form in forms:
        if not text.startswith(form, at):
            return None
        at = end = at + len(form)
        while text[at : at + 1].isspace():
            at += 1
        found.append(at > end or at == len(text))
    return found if at == len(text) else None


def _text(word: Any, name: str) -> str:
    """Return a field of a word, or one key of it, as it is written; "_" where there is nothing."""
    field, _, key = name.partition(":")
    value = word[field]
    if key:
        value = (value or {}).get(key)
    if isinstance(value, dict):
        return "|".join(k if v is None else f"{k}={v}" for k, v in value.items()) or EMPTY
    if isinstance(value, list):  # `deps`: pairs of relation and head
        return "|".join(f"{head}:{relation}" for relation, head in value) or EMPTY
    return EMPTY if value is None else str(value)


def _begins(lines: Sequence[str]) -> bool:
    words = [line for line in lines if not is_blank(line) and not line.startswith("#")]
    return bool(words) and all(NUMBER.match(line) and line.count("\t") == len(FIELDS) for line in words)


FORMAT = Format(
    "conllu",
    "Universal Dependencies",
    (".conllu",),
    (SEQUENCES,),
    read_conllu,
    instead(conllu_lines),
    by_blank_lines,
    _begins,
)

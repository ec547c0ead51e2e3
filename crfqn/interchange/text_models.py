"""Models of CRF++ and Wapiti as chains: CRF++'s text models (`crf_learn -t`), Wapiti's model files and its dumps.

Both number the weights of observations. A unigram observation has a weight for each label, a bigram observation one for
each pair of labels (the label before comes first). The sum of those of bigram observations that are the same at every
position is the chain's transitions; others are bigram features.

A model of CRF++ has five paragraphs of settings, labels, templates, observations and weights. An observation is `number
name`, the number that of its first weight; the name begins with U or B. All weights are listed, also zeros.

A model file of Wapiti (`#mdl#...`) has templates, labels and observations as netstrings (`5:hello,`), and a line
`number=weight` for each weight that is not zero. The output of `wapiti dump` has lines of observation, label before (or
`#`), label and weight, tab-separated: six digits unless set otherwise, no templates, and only labels with a weight.
Shapes: K labels, O observations, N weights that are not zero.

Sources: Kudo: CRF++: yet another CRF toolkit, 2005; the format of version 0.58. Lavergne, Cappé, Yvon: Practical very
large scale CRFs. ACL 2010; the formats of Wapiti 1.5.0.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.data.model_file import ModelSource, at_hand, read_whole, shown_source
from crfqn.data.templates.patterns import (  # first letters of observations, too
    BIGRAM,
    BOTH,
    CRFPP,
    UNIGRAM,
    WAPITI,
)
from crfqn.data.templates.vocabulary import TemplateSource
from crfqn.errors import InputError, ModelFileError, warn_caller
from crfqn.estimators.chain import ChainCRF
from crfqn.estimators.storage import restore
from crfqn.messages import describe
from crfqn.model.content import IMPORTED_FROM, Entries, chain_file
from crfqn.numerals import number_in, whole_number_in
from crfqn.readers.conll import usual_names
from crfqn.structures.edge_layout import EdgeLayout

# Without templates, the name of a bigram observation that is the same at every position: b, B, *, b01.
BARE_BIGRAM_NAME = re.compile(r"[bB*]\w*:?")
COLUMN_IN_TEMPLATE = re.compile(r"%[a-zA-Z]\[[@*]?[+-]?\d+,(\d{1,4})[,\]]")  # in a template
CRFPP_MAGIC, CRFPP_VERSION = b"version: ", 100  # the first bytes of a file; the version of models, times 100
MAX_COLUMNS = 10_000  # a bound on memory for damaged files
CRFPP_SETTINGS = ("version:", "cost-factor:", "maxid:", "xsize:")
WAPITI_MAGIC = b"#mdl#"
MAXENT_TYPE, CRF_TYPE = 0, 2  # types of models; 1 is a maximum-entropy Markov model
NO_LABEL_BEFORE = "#"  # in a dump, instead of the label before
NETSTRING_START, WEIGHT_LINE = re.compile(rb"(\d{1,18}):"), re.compile(r"([0-9]{1,18})=(\S+)")
MAX_LABELS = 100_000  # whose pairs can still be numbered by int64, for any number of observations in a file
ChainWeights = tuple[list[str], list[str], Entries, Entries, Entries]  # as `chain_file` takes them


def read_crfpp(path: ModelSource, n_columns: int | None = None) -> ChainCRF:
    """Read a text model of CRF++: return a fitted ChainCRF, its weights multiplied by the model's cost factor.

    Features are named as CRF++'s observations are (`U00:hello`). The model makes them from columns of tokens by its
    templates (also in `extra_["templates"]`). Parameters and errors as of `read_wapiti`; also ModelFileError for
    CRF++'s binary models.
    """
    path = at_hand(path)
    content, shown = read_whole(path), shown_source(path)
    lines = [line.removesuffix("\r") for line in content.decode("utf-8", "surrogateescape").split("\n")]
    n_read = 0  # also the number of the line that was read last

    def damage(reason: str) -> ModelFileError:
        where = f"{shown}, line {n_read}"
        return ModelFileError(f"{where}: no text model of CRF++ (crf_learn -t), or a damaged one: {reason}")

    def paragraph() -> Iterator[str]:
        """Yield the lines up to the next empty one, which is required."""
        nonlocal n_read
        while n_read < len(lines):
            n_read += 1
            if not lines[n_read - 1]:
                return
            yield lines[n_read - 1]
        raise damage("the file ends too early")

    settings: dict[str, str] = {}
    for line in paragraph():
        name, _, value = line.partition(" ")
        if name not in CRFPP_SETTINGS:
            raise damage(f"expected one of {', '.join(CRFPP_SETTINGS)} and a value, got {line!r:.60}")
        settings[name] = value
    try:
        version, n_weights = (whole_number_in(settings[name]) for name in ("version:", "maxid:"))
        factor, n_least = (
            number_in(settings.get("cost-factor:", "1")),
            whole_number_in(settings.get("xsize:", "1")),
        )
    except (KeyError, ValueError) as error:
        raise damage(f"the settings lack a number: {error}") from None
    if not math.isfinite(factor):
        raise damage(f"expected a number as cost-factor:, got {settings['cost-factor:']!r:.60}")
    if version // 100 != CRFPP_VERSION // 100:
        raise damage(f"a model of version {version}, instead of {CRFPP_VERSION}")
    if not 1 <= n_least <= MAX_COLUMNS:
        raise damage(f"expected 1 to {MAX_COLUMNS} columns (xsize:), got {n_least}")
    labels, templates = list(paragraph()), list(paragraph())
    names: list[str] = []
    starts: list[int] = []
    for line in paragraph():
        number, _, name = line.partition(" ")
        is_number = number.isascii() and number.isdigit() and len(number) < 19
        if not is_number or name[:1] not in ("U", "B"):
            raise damage(f"expected a number and the name of an observation, got {line!r:.60}")
        starts.append(int(number))
        names.append(name)
    if not labels:
        raise damage("it has no labels")
    weight_lines = lines[n_read:]
    while weight_lines and not weight_lines[-1]:
        del weight_lines[-1]
    if len(weight_lines) != n_weights:
        raise damage(f"{len(weight_lines)} lines of weights instead of {n_weights}")
    values = np.empty(n_weights)
    for row, line in enumerate(weight_lines):
        values[row] = number_in(line)
        if not math.isfinite(values[row]):
            n_read += row + 1
            raise damage(f"expected a weight, got {line!r:.60}")
    kinds = np.array([BIGRAM if name.startswith("B") else UNIGRAM for name in names], "U1")
    used = np.flatnonzero(values)
    observations = Observations(names, kinds, np.array(starts, np.int64))
    weights = chain_weights(labels, observations, used, factor * values[used], templates, shown)
    return chain_estimator("crfpp", shown, weights, templates, CRFPP, n_columns, n_least)


def read_wapiti(path: ModelSource, n_columns: int | None = None) -> ChainCRF:
    """Read a model of Wapiti, or a dump of one: return a fitted ChainCRF.

    Features are named as Wapiti's observations are (`u:hello`). The model makes them from columns of tokens by the
    templates of a model file (also in `extra_["templates"]`); that of a dump, without templates, takes lists of names.

    Parameters
    ----------
    path : str or path-like, bytes, or a file open in binary mode
    n_columns : int, optional
        Number of columns before the label in the files to be labelled. By default there may be more after those of the
        templates; they are not read, and `crfqn predict` does not use any of them as the label.

    Raises
    ------
    InputError
        Fewer columns than the templates use, or columns of a dump.
    ModelFileError
        Not such a file, or a maximum-entropy Markov model.
    """
    path = at_hand(path)
    shown = shown_source(path)
    content = read_whole(path)
    if content.startswith(WAPITI_MAGIC):
        weights, templates = _wapiti_model(content, shown)
        return chain_estimator("wapiti", shown, weights, templates, WAPITI, n_columns)
    if n_columns is not None:
        raise InputError(f"{shown}: n_columns: expected None, as a dump has no templates, which read columns")
    return chain_estimator("wapiti", shown, _wapiti_dump(content, shown))


def begins_like_wapiti(start: bytes) -> bool:
    """Return whether a file begins like a model, or its first line like one of a dump."""
    fields = start.lstrip(b"\n").split(b"\n", 1)[0].split(b"\t")
    is_observation = len(fields) == 4 and fields[0][:1] in (b"u", b"b", b"*")
    is_dump = is_observation and math.isfinite(number_in(fields[3].decode("latin-1")))
    return start.startswith(WAPITI_MAGIC) or is_dump


def _wapiti_model(content: bytes, path: str) -> tuple[ChainWeights, list[str]]:
    """Return the weights and the templates of a model file."""
    at = 0  # the lines before have been read

    def damage(reason: str) -> ModelFileError:
        return ModelFileError(f"{path}, byte {at}: no model of Wapiti, or a damaged one: {reason}")

    def numbers_in_line(pattern: bytes) -> list[int]:
        nonlocal at
        match = re.compile(pattern).match(content, at)
        if match is None:
            raise damage(f"expected a line like {pattern[:5].decode()}...")
        at = match.end()
        return [int(number) for number in match.groups() if number is not None]

    def strings(pattern: bytes) -> list[str]:
        """Return as many netstrings as a line gives."""
        nonlocal at
        texts = []
        for _ in range(numbers_in_line(pattern)[0]):
            match = NETSTRING_START.match(content, at)
            if match is None:
                raise damage("expected a length and a colon")
            start, end = match.end(), match.end() + int(match[1])
            if content[end : end + 2] != b",\n":
                raise damage(f"a string of {match[1].decode()} bytes does not end with a comma")
            at = end + 2
            texts.append(content[start:end].decode("utf-8", "surrogateescape"))
        return texts

    *types, n_weights = numbers_in_line(rb"#mdl#(?:(\d{1,18})#)?(\d{1,18})\n")
    if types and types[0] not in (MAXENT_TYPE, CRF_TYPE):
        raise ModelFileError(f"{path}: expected a CRF, or a maximum-entropy model; it is of type {types[0]}")
    templates = strings(rb"#rdr#(\d{1,18})/\d+(?:/\d+)?\n")
    labels, names = (strings(rb"#qrk#(\d{1,18})\n") for _ in range(2))
    if not 0 < len(labels) <= MAX_LABELS:
        raise damage(f"a model of {len(labels)} labels")
    kinds = np.array([name[:1] for name in names], "U1")
    if not np.isin(kinds, (UNIGRAM, BIGRAM, BOTH)).all():
        raise damage("an observation begins with another letter than u, b or *")
    sizes = Observations(names, kinds, np.empty(0, np.int64)).sizes(len(labels))
    lines = content[at:].split(b"\n")
    if lines[-1:] == [b""]:
        del lines[-1]
    if len(lines) != n_weights:
        raise damage(f"{len(lines)} lines of weights instead of {n_weights}")
    numbers, values = np.empty(n_weights, np.int64), np.empty(n_weights)
    for row, line in enumerate(lines):
        try:
            number, text = WEIGHT_LINE.fullmatch(line.decode("ascii")).groups()  # type: ignore[union-attr]
            numbers[row], values[row] = int(number), float.fromhex(text) if "x" in text else number_in(text)
            if not math.isfinite(values[row]):
                raise ValueError
        except (AttributeError, ValueError, OverflowError):
            raise damage(f"expected number=weight, got {line!r:.60}") from None
    observations = Observations(names, kinds, np.cumsum(sizes) - sizes)
    return chain_weights(labels, observations, numbers, values, templates, path), templates


def _wapiti_dump(content: bytes, path: str) -> ChainWeights:
    """Return the weights of a dump; labels and observations in the order in which they appear."""
    labels: dict[str, int] = {}
    names: dict[str, int] = {}
    state: list[tuple[float, int, int]] = []
    pairs: dict[str, list[tuple[float, int, int]]] = {}
    for number, line in enumerate(content.decode("utf-8", "surrogateescape").split("\n"), start=1):
        if not line.strip():
            continue
        fields = line.rstrip("\r").split("\t")
        is_observation = len(fields) == 4 and fields[0][:1] in (UNIGRAM, BIGRAM, BOTH)
        if not (is_observation and math.isfinite(number_in(fields[3]))):
            raise ModelFileError(
                f"{path}, line {number}: expected observation, label before or #, label and weight, "
                f"tab-separated, as `wapiti dump` writes them, got {line!r:.60}"
            )
        name, before, label, weight = fields
        to = labels.setdefault(label, len(labels))
        if before == NO_LABEL_BEFORE and not name.startswith(BIGRAM):
            state.append((float(weight), names.setdefault(name, len(names)), to))
        else:
            pairs.setdefault(name, []).append((float(weight), labels.setdefault(before, len(labels)), to))
    if not labels:
        raise ModelFileError(f"{path}: expected a dump of Wapiti, got no lines")
    same, layout = same_everywhere(pairs, (), path), EdgeLayout(len(labels))
    transitions = [entry for name in pairs if name in same for entry in pairs[name]]
    bigrams = [
        (weight, names.setdefault(name, len(names)), int(layout.numbers(before, to)))
        for name, entries in pairs.items()
        if name not in same
        for weight, before, to in entries
    ]
    tables = []
    for table in (state, transitions, bigrams):
        values, rows, columns = zip(*table, strict=True) if table else ((), (), ())
        numbers = np.array(rows, np.int64), np.array(columns, np.int64)
        tables.append(Entries(np.array(values, np.float64), *numbers))
    return list(labels), list(names), *tables  # type: ignore[return-value]


class Observations(NamedTuple):
    """Observations of kinds UNIGRAM, BIGRAM or BOTH; `starts` are the numbers of their first weights, unigram weights
    before bigram weights."""

    names: list[str]
    kinds: NDArray[np.str_]  # (O,)
    starts: NDArray[np.int64]  # (O,)

    def sizes(self, n_labels: int) -> NDArray[np.int64]:
        """Return the number of weights of each observation, (O,)."""
        return n_labels * (self.kinds != BIGRAM) + EdgeLayout(n_labels).n_pairs * (self.kinds != UNIGRAM)


def chain_weights(
    labels: list[str],
    observations: Observations,
    numbers: NDArray[np.int64],
    values: NDArray[np.float64],
    templates: Sequence[str],
    path: str,
) -> ChainWeights:
    """Return the chain of the N weights that are not zero, by their numbers; `templates` are those of the model, none
    if it has none. ModelFileError for other, repeated or unknown numbers."""
    names, n_labels = observations.names, len(labels)
    order = np.argsort(numbers, kind="stable")
    numbers, values = numbers[order], values[order]
    if (np.diff(numbers) == 0).any():
        raise ModelFileError(f"{path}: the file is damaged: a weight comes twice")
    order = np.argsort(observations.starts, kind="stable")
    firsts, ends = observations.starts[order], (observations.starts + observations.sizes(n_labels))[order]
    place = np.searchsorted(firsts, numbers, side="right") - 1
    if (ends[:-1] > firsts[1:]).any() or (place < 0).any() or (numbers >= ends[place]).any():
        raise ModelFileError(
            f"{path}: the file is damaged: a weight belongs to no observation, or to more than one"
        )
    owner, within = order[place], numbers - firsts[place]
    n_unigrams = n_labels * (observations.kinds != BIGRAM)[owner]
    is_unigram = within < n_unigrams
    bigrams = np.unique(owner[~is_unigram])
    same = same_everywhere([names[o] for o in bigrams.tolist()], templates, path)
    times = np.array([same[name] for name in names], np.int64)[owner]
    is_same = (times > 0) & ~is_unigram
    pairs, entry = np.unique(within[is_same] - n_unigrams[is_same], return_inverse=True)
    first, second, _ = EdgeLayout(n_labels).split(pairs)
    used = np.unique(owner[~is_same])
    rows, is_bigram = np.searchsorted(used, owner), ~is_unigram & ~is_same
    return (
        labels,
        [names[o] for o in used.tolist()],
        Entries(values[is_unigram], rows[is_unigram], within[is_unigram]),
        Entries(np.bincount(entry, (times * values)[is_same]).astype(np.float64), first, second),
        Entries(values[is_bigram], rows[is_bigram], (within - n_unigrams)[is_bigram]),
    )


def same_everywhere(bigrams: Collection[str], templates: Collection[str], path: str) -> Counter[str]:
    """Return which bigram observations are the same at every position, and how often each counts there: those of
    templates without tokens or, without templates, one with such a name. ModelFileError if names are ambiguous."""
    if templates:
        return Counter(template for template in templates if "%" not in template)
    bare = Counter(name for name in bigrams if BARE_BIGRAM_NAME.fullmatch(name))
    if len(bare) > 1:
        raise ModelFileError(
            f"{path}: without templates it is not known which of the bigram observations "
            f"{', '.join(map(repr, sorted(bare)[:3]))} are the same at every position: expected one that "
            "may be, or a model file, which has the templates"
        )
    return bare


def chain_estimator(
    format_name: str,
    path: str,
    weights: ChainWeights,
    templates: list[str] | None = None,
    dialect: str = "",
    n_columns: int | None = None,
    n_least: int = 1,
) -> ChainCRF:
    """Return a fitted ChainCRF of the weights, labels and features in their order.

    It takes columns of tokens if the `templates`, lines of a pattern file, make its attributes, and otherwise, with a
    warning, lists of names. `n_columns` are those before the label in the files to be labelled, None if there may be
    more than the templates use, or than the number `n_least` in the model's file. InputError for fewer;
    ModelFileError, naming the path, for repeated or missing names, and invalid weights.
    """
    source: TemplateSource | None = None
    if templates:
        used = [int(number) + 1 for template in templates for number in COLUMN_IN_TEMPLATE.findall(template)]
        n_used = max([n_least, *used])
        if n_columns is not None and (type(n_columns) is not int or n_columns < n_used):
            raise InputError(
                f"{path}: n_columns: expected {n_used} columns or more, which the model uses, got "
                f"{describe(n_columns)}"
            )
        columns = tuple(usual_names(n_columns or n_used))
        patterns = "\n".join(templates) + "\n"
        source = TemplateSource(columns, patterns, dialect, has_more_columns=n_columns is None)
        try:
            source.vocabulary(weights[1])
        except InputError as error:
            source = None
            warn_caller(
                f"{path}: its templates cannot be used ({error}); the model takes lists of the names of features"
            )
    extra = {IMPORTED_FROM: format_name} | ({} if templates is None else {"templates": templates})
    return restore(chain_file(path, *weights, extra=extra, source=source))

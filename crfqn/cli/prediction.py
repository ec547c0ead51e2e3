"""`crfqn predict`: writes one label per line, with a blank line after each sequence, or one JSON object per item.

Labels are written unchanged for other programs to read. Only control characters, line ends and tabs included, are
escaped (`crfqn.messages.printable`), because they would break the lines or control a terminal.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crfqn.cli.loading import (
    Input,
    Labeller,
    LoadedModel,
    check_threshold_option,
    input_with_dense,
    open_input,
)
from crfqn.cli.options import PredictOptions
from crfqn.cli.output import command_files, say, write_text
from crfqn.data.files import BYTES_ENCODING, STANDARD_INPUT, Part, is_blank
from crfqn.data.json_text import strict_json
from crfqn.data.label_arrays import label_text
from crfqn.data.token_columns import TokenColumns
from crfqn.errors import InputError, UnknownFeaturesWarning
from crfqn.messages import printable
from crfqn.model.answers import (
    LABEL_ANSWERS,
    SEQUENCE_ANSWERS,
    SET_ANSWERS,
    add_tokens,
    answer_parts,
    gives_probabilities,
)
from crfqn.model.label_constraints import LabelConstraints
from crfqn.readers.labelled_items import Documents, Labeled
from crfqn.readers.registry import (
    FORMATS,
    can_be_rewritten,
    find_format,
    rewritten,
    written_batches,
    written_files,
)

if TYPE_CHECKING:
    from crfqn.estimators.estimator import Estimator
    from crfqn.model.item_model import ItemModel
    from crfqn.model.sequences import SequenceModel
    from crfqn.readers.format import Format
    from crfqn.recipes import Observed

DOCUMENT_BATCH = (
    1000  # documents that are labelled at a time, which bounds the memory for their probabilities
)
JSON_LINES = "jsonl"
MAX_LABELS = 10  # written with their probabilities, unless --top sets another number
NO_LABEL = "-"  # written if no label has the probability of --threshold


def write_predictions(
    path: Path,
    sources: list[str] | None,
    output: Path | None,
    output_dir: Path | None,
    options: PredictOptions,
) -> None:
    """Write one label per line for the items of `sources`, by default standard input.

    All sources go to `output` or stdout, one after the other, or each to the file with its name in `output_dir`.
    """
    sources = sources or [STANDARD_INPUT]
    if len(sources) > 1 or output_dir is not None:
        _check_sources(sources, output, output_dir, options)
    command_files.read(sources)
    writes_folder = options.to is not None and find_format(options.to).write_folder is not None
    targets = [] if output_dir is None or writes_folder else _targets(sources, output_dir)
    labeller = Labeller(path)
    model = labeller.model
    _check(model, path, options)
    if STANDARD_INPUT in sources and sys.stdin is not None and sys.stdin.isatty():
        say("Reading standard input; end it with Ctrl-D (Ctrl-Z on Windows).")
    format = options.format
    if options.is_text:
        if format is not None:
            raise InputError(f"--text: raw text is a format, too; leave out --format {format}")
        format = ANSWER_FORMS[model.ANSWERS].text_format
    inputs, encodings = [], []
    is_unicode = options.to is not None and find_format(options.to).is_unicode
    for source in sources:
        input = open_input(model, path, source, format=format, encoding=options.encoding, keeps_blank=True)
        input = replace(input, max_item_length=options.max_item_length)
        inputs.append(input_with_dense(input, model, path, options.dense))
        is_written_anew = input.format != options.to or input.cut is None
        is_json = options.as_json or (is_unicode and is_written_anew)
        is_utf8 = is_json or "utf-8" in input.encoding.lower()  # JSON always is UTF-8
        encodings.append(BYTES_ENCODING if is_utf8 else input.encoding)
    if output_dir is None or writes_folder:
        other = next((i for i, encoding in enumerate(encodings) if encoding != encodings[0]), None)
        if other is not None:
            first, second = inputs[0].encoding, inputs[other].encoding
            raise InputError(
                f"expected inputs of one encoding, got {sources[0]} in {first} and {sources[other]} in {second}; "
                "--encoding names one for all, --output-dir DIR writes each to a file"
            )
    if writes_folder:
        _write_folder(labeller, inputs, output_dir, options, encodings[0])
        return
    if output_dir is None:
        write_text(output, _joined(labeller, inputs, options), encodings[0])
        return
    try:
        output_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot create the folder {output_dir}: {error.strerror or error}") from error
    for input, target, encoding in zip(inputs, targets, encodings, strict=True):
        write_text(target, _predictions(labeller, input, options), encoding)


def _check_sources(
    sources: list[str], output: Path | None, output_dir: Path | None, options: PredictOptions
) -> None:
    """Raise InputError for options that do not fit several inputs or a folder of outputs."""
    n_inputs = f"{len(sources)} input{'s' * (len(sources) > 1)}"
    if output is not None and output_dir is not None:
        raise InputError(f"expected -o or --output-dir, got both: -o {output} --output-dir {output_dir}")
    if output is not None:
        raise InputError(
            f"-o {output}: expected one input, got {len(sources)}; --output-dir DIR takes several"
        )
    if STANDARD_INPUT in sources:
        where = "several" if output_dir is None else "--output-dir"
        raise InputError(f"expected names of files with {where}, got - (standard input) in {n_inputs}")
    if options.dense is not None and len(sources) > 1:
        raise InputError(f"--dense {options.dense}: has the rows of one input; expected one, got {n_inputs}")
    if output_dir is None and options.to not in (None, JSON_LINES):
        raise InputError(
            f"--to {options.to}: expected one input, or --output-dir DIR for a file of each, got {n_inputs}; one "
            "after the other on standard output go labels alone, --json and --to jsonl"
        )


def _targets(sources: list[str], output_dir: Path) -> list[Path]:
    """Return the output file of each source; InputError if a file cannot be written, or would replace an input or the
    output of another source."""
    if output_dir.exists() and not output_dir.is_dir():
        raise InputError(f"--output-dir {output_dir}: expected a folder, got a file")
    targets = [output_dir / Path(source).name for source in sources]
    writers: dict[str, str] = {}
    for source, target in zip(sources, targets, strict=True):
        place = os.path.realpath(target)
        if place in writers:
            raise InputError(
                f"expected inputs of different names, got {writers[place]} and {source}: both go to {target}"
            )
        writers[place] = source
        command_files.claim(target)
        if target.is_dir():
            raise InputError(f"{target}: expected a file or nothing there, got a folder")
    return targets


def _joined(labeller: Labeller, inputs: list[Input], options: PredictOptions) -> Iterator[str | bytes]:
    """Yield the text of one input after the other; between two rewritten files, remove a byte order mark and add a
    missing line end."""
    last: str | bytes = ""
    for i, input in enumerate(inputs):
        for j, text in enumerate(_predictions(labeller, input, options)):
            if i > 0 and j == 0 and isinstance(text, str):
                text = text.removeprefix("\ufeff")
                if isinstance(last, str) and last and not last.endswith("\n"):
                    yield "\n"
            yield text
            last = text or last


def _predictions(labeller: Labeller, input: Input, options: PredictOptions) -> Iterator[str | bytes]:
    """Yield the output for each part of the input."""
    if options.as_json or (options.to == JSON_LINES and (input.format != JSON_LINES or _needs(options))):
        yield from _json_texts(labeller, input, options)
        return
    if options.n_best is not None:
        n, format = options.n_best, None if options.to is None else find_format(options.to)
        once = options.constraints.arguments
        parts = input.parts(lambda seen: labeller.model_for(seen.X).predict_nbest(seen.X, n, **once))
        for _, data, results in parts:
            for item, labellings in enumerate(results or ()):
                place = slice(item, item + 1)
                for rank, (labels, probability) in enumerate(labellings):
                    if format is None:
                        yield f"@probability\t{probability:.6f}\n" + "\n".join(map(_written, labels)) + "\n\n"
                    else:
                        yield format.ranked.format(rank=rank, probability=probability)
                        one = replace(data, inputs=data.inputs[place], labels=data.labels[place])
                        yield from written_batches([(one, [labels])], format)
        return
    if options.to is None:
        write = ANSWER_FORMS[labeller.model.ANSWERS].write
        texts = input.parts(lambda seen: "".join(write(labeller.model_for(seen.X), seen.X, options)))
        yield from (text for _, _, text in texts if text is not None)
        return
    format, parts = find_format(options.to), _labelled(labeller, input, options)
    input_format = None if input.format is None else FORMATS[input.format]
    # Formats with one writer are the same, as conll and conll2000.
    is_same = input_format is not None and input_format.write is format.write is not None
    if input.cut is not None and is_same:
        for part, data, labels in parts:
            if part is not None and (data is None or can_be_rewritten(data)):
                yield rewritten(part, data, labels or ())
            elif data is not None:  # a JSON array
                yield from written_batches([(data, labels)], format)
    else:
        batches = ((data, labels) for _, data, labels in parts if data is not None)
        yield from written_batches(batches, format)


def _labelled(
    labeller: Labeller, input: Input, options: PredictOptions
) -> Iterator[tuple[Part | None, Any, list[Any] | None]]:
    """Yield each part of the input, its data as of `labelled`, and its labels; None without items."""
    format = find_format(options.to)
    for part, _, result in input.parts(
        lambda seen: labelled(labeller.model_for(seen.X), seen, format, **options.labelling)
    ):
        yield part, *(result or (None, None))


def labelled(model: LoadedModel, seen: Observed, format: Format, **options: Any) -> tuple[Any, list[Any]]:
    """Return the data of items, with scores if the format takes some and the model has them, and their labels as text;
    `options` : of the model's `predict`."""
    labels = model.ANSWERS.predict_texts(model, seen.X, **options)
    scheme = model.ANSWERS.scheme_of(model)
    if not format.takes_scores or scheme is None or not gives_probabilities(model):
        return seen.data, labels
    answers: list[dict[str, Any]] = [{} for _ in labels]
    with without_warnings():
        for add in answer_parts(model, probabilities=True, scheme=scheme, span_probabilities=True):
            add(answers, seen.X, LabelConstraints(once=options.get("once")))
    scores = [(one["probability"], [span["probability"] for span in one["spans"]]) for one in answers]
    return replace(seen.data, scores=scores), labels


def _write_folder(
    labeller: Labeller, inputs: list[Input], output_dir: Path | None, options: PredictOptions, encoding: str
) -> None:
    """Write the items of all inputs in a format with several files, once all of them are labelled."""
    if output_dir is None:
        raise InputError(f"--to {options.to}: writes several files; expected --output-dir DIR")
    batches = (
        (data, labels)
        for input in inputs
        for _, data, labels in _labelled(labeller, input, options)
        if data is not None
    )
    files = written_files(batches, find_format(options.to), output_dir)
    for path in files:
        command_files.claim(path)
    for path, text in files.items():
        write_text(path, text, encoding)


def _check(model: Any, path: Path, options: PredictOptions) -> None:
    """Raise InputError for options that do not fit the model, or each other."""
    for name, reason in ANSWER_FORMS[model.ANSWERS].refused.items():
        if getattr(options, name) is not None:
            raise InputError(f"{path}: {reason}")
    if options.once is not None:
        model.single_runs(options.constraints.once)
    check_threshold_option(options.threshold, model, path)
    names = getattr(model, "node_names", model.classes_)
    is_text = not options.as_json and options.to is None
    if options.threshold is not None and is_text and NO_LABEL in map(_written, names):
        raise InputError(
            f"{path}: --threshold writes {NO_LABEL} for no label, and {NO_LABEL!r} is one of the labels; ask for --json"
        )
    is_json = options.as_json or options.to == JSON_LINES
    if options.n_best is not None:
        if not is_json:
            for name in _needs(replace(options, n_best=None)):
                raise InputError(
                    f"--n-best writes labels and their probability; leave out {name}, or ask for --json"
                )
        if options.to is not None and not is_json and not find_format(options.to).ranked:
            having = ", ".join([*(format.name for format in FORMATS.values() if format.ranked), JSON_LINES])
            raise InputError(
                f"--to {options.to} has no place for several labellings; with --n-best: {having}, or --json"
            )
    needs = _needs(options)
    alone = needs if options.n_best is None else []
    if options.to not in (None, JSON_LINES) and (alone or options.as_json):
        raise InputError(f"--to {options.to}: writes labels alone; leave out {[*alone, '--json'][0]}")
    if needs and not gives_probabilities(model):
        raise InputError(f"{path}: {needs[0]} is for models with probabilities, and this model has none")


def _needs(options: PredictOptions) -> list[str]:
    """Return the given options that need probabilities."""
    asked = {
        "--marginals": options.with_marginals,
        "--top": options.top,
        "--score": options.with_score,
        "--threshold": options.threshold is not None,
        "--n-best": options.n_best is not None,
    }
    return [name for name, is_asked in asked.items() if is_asked]


def _sequences(model: SequenceModel | Estimator, inputs: Any, options: PredictOptions) -> Iterator[str]:
    """Yield the text of each sequence, with its blank line."""
    if options.with_score:
        paths, scores = model.decode(inputs, **options.labelling)
    else:
        paths, scores = model.predict(inputs, **options.labelling), None
    with without_warnings():
        marginals = model.predict_marginals(inputs) if options.with_marginals else None
    names = [*map(_written, model.classes_)]
    for item, labels in enumerate(paths):
        lines = [_written(label) for label in labels]
        if marginals is not None:
            for position, row in enumerate(marginals[item].tolist()):
                probabilities = (f"{name}:{value:.6f}" for name, value in zip(names, row, strict=True))
                lines[position] = "\t".join([lines[position], *probabilities])
        if scores is not None:
            lines.insert(0, f"@log-probability\t{scores[item]:.6f}")
        yield "\n".join(lines) + "\n\n"


def _documents(model: ItemModel | Estimator, inputs: Any, options: PredictOptions) -> Iterator[str]:
    """Yield one line per document: its label, with its log-probability and other probable labels if requested."""
    for first in range(0, inputs.shape[0], DOCUMENT_BATCH):
        part = inputs[first : first + DOCUMENT_BATCH]
        labels, scores = _best(model, part, options)
        is_list = model.ANSWERS.is_list
        columns = [[",".join(map(_written, label if is_list else [label]))] for label in labels]
        if options.with_score:
            columns = [[f"{score:.6f}", *line] for score, line in zip(scores, columns, strict=True)]
        if options.with_marginals or options.top:
            top = options.top or MAX_LABELS
            with without_warnings():
                rows = model.predict_proba(part)
            for line, row in zip(columns, rows, strict=True):
                best = np.argsort(-row, kind="stable")[:top]
                line += [f"{_written(model.classes_[label])}:{row[label]:.6f}" for label in best]
        yield "".join("\t".join(line) + "\n" for line in columns)


class AnswerForm(NamedTuple):
    """How answers of a kind are written.

    text_format : the format of raw text
    write : yields the lines
    block : the number of items at a time, None for all of a part
    refused : options that the kind does not have, with the reason
    """

    text_format: str
    write: Callable[[Any, Any, PredictOptions], Iterator[str]]
    block: int | None
    refused: dict[str, str]


OF_ITEMS = AnswerForm("text", _documents, DOCUMENT_BATCH, {
    "once": "--once is for models of sequences",
    "n_best": "--n-best is for sequences; --top K gives the labels of a document",
})  # fmt: skip
OF_SEQUENCES = AnswerForm("raw", _sequences, None, {
    "top": "--top is for items with one label; this model labels sequences",
})  # fmt: skip
ANSWER_FORMS = {LABEL_ANSWERS: OF_ITEMS, SET_ANSWERS: OF_ITEMS, SEQUENCE_ANSWERS: OF_SEQUENCES}


def _written(label: object) -> str:
    """Return a label for a line of output."""
    return NO_LABEL if label is None else printable(label_text(label))


def _json_texts(labeller: Labeller, input: Input, options: PredictOptions) -> Iterator[str | bytes]:
    """Yield JSON lines: the answers or, with `--to`, the input's items with them."""
    parts = input.parts(lambda seen: _answers(labeller.model_for(seen.X), seen.data, seen.X, options))
    for part, data, answers in parts:
        if data is None or answers is None:
            continue
        if options.to is not None:
            is_json = input.format == JSON_LINES and part is not None and can_be_rewritten(data)
            answers = [*_with_input(part if is_json else None, data, answers)]
        for item, answer in enumerate(answers):
            try:
                yield strict_json(answer, ensure_ascii=False) + "\n"
            except InputError as error:
                raise InputError(f"{data.where(item, 0)}: {error}") from None


def _with_input(
    part: Part | None, data: Labeled | Documents, answers: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield the items of the input with their answers.

    In a part of JSON lines the labels are replaced. In other formats (`part` is None) known labels stay, and predicted
    labels have the key `predicted`.
    """
    place = "label" if isinstance(data, Documents) else "labels"
    labels = [answer.pop("labels" if "labels" in answer else "label") for answer in answers]
    if part is not None:
        texts = [
            ["" if label is None else label_text(label) for label in one]
            if isinstance(one, list)
            else ("" if one is None else label_text(one))
            for one in labels
        ]
        lines = [line for line in rewritten(part, data, texts).split("\n") if not is_blank(line)]
    else:
        lines = "".join(map(str, written_batches([(data, None)], find_format(JSON_LINES)))).split("\n")[:-1]
    for line, label, answer in zip(lines, labels, answers, strict=True):
        item = json.loads(line)
        if part is None:
            item["predicted" if item.get(place) else place] = label
        yield item | answer


def _answers(model: LoadedModel, data: Any, X: Any, options: PredictOptions) -> list[dict[str, Any]]:
    """Return the answers for some items, with numbers of six digits."""
    answers: list[dict[str, Any]] = [{} for _ in range(data.n_items)]
    if isinstance(data.inputs, TokenColumns) and not isinstance(data, Documents):
        words, ends = data.inputs.texts[data.inputs.names[0]], data.inputs.offsets.tolist()
        for i, answer in enumerate(answers):
            add_tokens(answer, words[ends[i] : ends[i + 1]], data.spans and data.spans[i])
    block = ANSWER_FORMS[model.ANSWERS].block or max(len(answers), 1)
    for first in range(0, len(answers), block):
        _fill(answers[first : first + block], model, X[first : first + block], options)
    return [_rounded(answer) for answer in answers]


def _fill(answers: list[dict[str, Any]], model: LoadedModel, X: Any, options: PredictOptions) -> None:
    """Add the requested parts; only the first one warns about unknown features."""
    parts = answer_parts(
        model,
        probabilities=options.with_score,
        marginals=options.with_marginals or bool(options.top),
        n_best=options.n_best or 0,
        scheme=model.ANSWERS.scheme_of(model),
        span_probabilities=options.with_marginals or options.with_score,
        threshold=options.threshold,
    )
    next(parts)(answers, X, options.constraints)
    with without_warnings():
        for add in parts:
            add(answers, X, options.constraints)
    for answer in answers:
        if isinstance(answer.get("marginals"), dict):  # of a single item: keep its most probable labels
            ranked = sorted(answer["marginals"].items(), key=lambda pair: -pair[1])
            answer["marginals"] = dict(ranked[: options.top or MAX_LABELS])


def _rounded(content: Any) -> Any:
    """Return JSON values with numbers of six digits; labels stay unchanged."""
    if isinstance(content, float):
        return round(content, 6)
    if isinstance(content, dict):
        return {
            key: value if key in ("label", "labels") else _rounded(value) for key, value in content.items()
        }
    return [*map(_rounded, content)] if isinstance(content, list) else content


@contextmanager
def without_warnings() -> Iterator[None]:
    """Suppress warnings about unknown features, which have been counted when the items were labelled."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownFeaturesWarning)
        yield


def _best(model: LoadedModel, inputs: Any, options: PredictOptions) -> tuple[Any, Any]:
    """Return the label of each document, None if the threshold excludes all, and its log-probability."""
    if not gives_probabilities(model):
        return model.ANSWERS.predict(model, inputs), None
    return model.decode(inputs, **options.labelling)

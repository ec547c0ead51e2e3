"""Reader and writer of Label Studio's JSON: an array of tasks with their annotations, or a task a line.

A task has its text under `data`, and in `annotations` the regions of each annotator: `start`, `end`, `text`, `labels`.
Offsets are characters since 2021; before, and where browsers have counted, UTF-16 units, which the region's text shows.
Format: https://labelstud.io/guide/export, and for predictions https://labelstud.io/guide/predictions
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from crfqn.data.files import Readable, shown_name
from crfqn.data.json_text import strict_json
from crfqn.errors import DataError
from crfqn.messages import describe
from crfqn.readers.format import SEQUENCES, Batches, Format
from crfqn.readers.json_lines import json_records
from crfqn.readers.text_spans import MarkedText, TextSpan, marked_texts, reader_of, span_from, warn_of_places

REGION_TYPE = "labels"  # hypertextlabels, rectanglelabels, ... are of HTML, images, ...
TASK_START = re.compile(r'\s*(\[\s*)?\{\s*"')
TASK_KEY = re.compile(
    r'"data"\s*:\s*\{|"(annotations|completions)"\s*:\s*\[(\s*\]|\s*\{.*"result"\s*:\s*\[)', re.DOTALL
)
USUAL_NAMES = {"from_name": "label", "to_name": "text"}  # of the template for named entities
MODEL_VERSION = "crfqn"


def _texts(path: Readable, reads_spans: bool) -> Iterator[MarkedText]:
    """Yield the texts of tasks; DataError, with the line, for a task without a text and for a wrong region."""
    shown = shown_name(path)
    unread: list[str] = []
    others: list[str] = []
    for number, task in json_records(path)[1]:
        place = f"{shown}, line {number}" + (f", task {task['id']}" if "id" in task else "")
        text, annotations, spans = _text(place, task), _annotations(task) if reads_spans else [], None
        if annotations:
            unread += [place] * (len(annotations) - 1)
            spans = _spans(place, text, annotations[0], others)
        yield MarkedText(text, spans, shown, number, task)
    warn_of_places("annotations left out, the ground truth or the last one of each task kept", unread)
    warn_of_places("regions that are no labels of a text (relations, choices, ...) left out", others)


def _text(place: str, task: dict[str, Any]) -> str:
    """Return a task's text: that under "text", or the only one of its data."""
    data = task.get("data")
    if not isinstance(data, dict):
        raise DataError(
            f"{place}: expected a task with an object under 'data', got {', '.join(map(repr, task))}"
        )
    texts = {key: value for key, value in data.items() if isinstance(value, str)}
    if "text" not in texts and len(texts) != 1:
        raise DataError(f"{place}: expected a text under 'text' of 'data', got {describe(data)}")
    return texts["text"] if "text" in texts else next(iter(texts.values()))


def _annotations(task: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Return the regions of each annotation that was not cancelled, first those of the ground truth or the last one."""
    listed = task.get("annotations", task.get("completions")) or []
    done = [one for one in listed if isinstance(one, dict) and not one.get("was_cancelled")]
    done.sort(key=lambda one: bool(one.get("ground_truth")))
    return [[one for one in each.get("result") or () if isinstance(one, dict)] for each in reversed(done)]


def _spans(place: str, text: str, regions: list[dict[str, Any]], others: list[str]) -> list[TextSpan]:
    """Return the spans of an annotation's regions; the place of each region of another kind is added to `others`."""
    spans = []
    for region in regions:
        kind = region.get("type")
        if kind != REGION_TYPE and str(kind).endswith(REGION_TYPE):
            raise DataError(f"{place}: expected labels of a text, got a region of the type {kind!r}")
        if kind != REGION_TYPE:
            others.append(place)
            continue
        value = region.get("value", {})
        labels = value.get("labels")
        for label in labels if isinstance(labels, list) and labels else [labels]:
            spans.append(
                span_from(place, text, value.get("start"), value.get("end"), label, value.get("text"))
            )
    return spans


def write_label_studio(batches: Batches) -> Iterator[str]:
    """Yield an array of tasks. Predicted labels are a prediction, with scores if the data have some; known ones are an
    annotation. Tasks that were read keep their other keys, and the names of their regions' labels and text."""
    separator = "[\n"
    for data, predicted in batches:
        for item in marked_texts(data, predicted):
            task: dict[str, Any] = (
                dict(item.record) if "data" in item.record else {"data": {"text": item.text}}
            )
            if item.spans is not None and (predicted is not None or "data" not in item.record):
                read = next(iter(_annotations(task)), [])
                old = next((one for one in read if one.get("type") == REGION_TYPE), {})
                names = {key: old.get(key, name) for key, name in USUAL_NAMES.items()}
                regions = []
                for n, span in enumerate(item.spans):
                    value: dict[str, Any] = {"start": span.start, "end": span.end}
                    value |= {"text": item.text[span.start : span.end], "labels": [span.type]}
                    region: dict[str, Any] = {"id": str(n), **names, "type": REGION_TYPE, "value": value}
                    if predicted is not None and item.scores is not None:
                        region["score"] = round(item.scores[1][n], 6)
                    regions.append(region)
                answer: dict[str, Any] = {"result": regions}
                if predicted is not None:
                    answer["model_version"] = MODEL_VERSION
                    if item.scores is not None:
                        answer["score"] = round(item.scores[0], 6)
                task["annotations" if predicted is None else "predictions"] = [answer]
            yield separator + strict_json(task, ensure_ascii=False)
            separator = ",\n"
    yield "[]\n" if separator == "[\n" else "\n]\n"


def _begins(lines: Sequence[str]) -> bool:
    start = "\n".join(lines)
    return TASK_START.match(start) is not None and TASK_KEY.search(start) is not None


FORMAT = Format(
    "label-studio",
    "Label Studio's JSON: tasks with spans of characters",
    (".json", ".jsonl"),
    (SEQUENCES,),
    reader_of(_texts, "tasks of Label Studio"),
    write_label_studio,
    begins=_begins,
    names_columns=True,
    is_unicode=True,
    takes_scores=True,
    is_uncut=True,
)

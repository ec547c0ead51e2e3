"""Requests to label and their answers, as JSON values, for the service."""

from __future__ import annotations

import json
import re
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np

from crfqn.data.hybrid import refuse_dense
from crfqn.data.json_text import parse_json
from crfqn.data.model_file import ModelSource
from crfqn.errors import InputError
from crfqn.messages import describe, shorten
from crfqn.model.answers import add_tokens, answer_parts
from crfqn.model.label_constraints import LabelConstraints, check_threshold
from crfqn.model.opening import open_model
from crfqn.model.texts import tokenizer_of
from crfqn.service.work import check_work, estimated_seconds
from crfqn.time_limit import TimeIsUp, TimeLimit, check_time

COLUMN_NUMBER = re.compile("0|[1-9][0-9]{0,17}")  # a column's number as a key of JSON
ITEM_BATCH = 64  # items that are labelled at a time; the time limit is checked between batches
MAX_BEST, MAX_FEATURES = 100, 100  # labellings, and features or terms, that a request may ask for per item
# The forms of items, by their names in the service's description, in words for messages.
ITEM_FORMS = {
    "text": "a text (cut into words and punctuation, which the answer has as tokens), or a list of words",
    "document": "a text",
    "columns": "a list of positions, each a list of texts or a dict, of the columns",
    "features": "a list of positions, each a dict of features or a list of their names",
    "matrix": "a list of positions, each a list of numbers",
    "row": "a list of numbers, or a dict of those that are not 0",
    "cells": "a dict of a table's cells by column",
    "numbers": "a dict of a table's numbers by column, or a list of them in the order of the columns",
}


class Overdue(Exception):
    """Raised for a request that was not answered before its deadline."""


@dataclass(frozen=True, kw_only=True)
class LabelRequest:
    """One item to label, or several, with the parts of the answer that are requested in addition to the labels."""

    item: object = None
    items: list | None = None
    known: list | None = None
    once: list | None = None
    probabilities: bool = False
    marginals: bool = False
    spans: bool = False
    nbest: int = 0
    features: int = 0
    explain: int = 0
    threshold: float | None = None

    @classmethod
    def read(cls, body: bytes) -> LabelRequest:
        """Return the request in a body of JSON; InputError for anything else."""
        try:
            # Lone surrogates, of a text cut by its client, are allowed.
            content = parse_json(body, "surrogatepass")
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"expected JSON in UTF-8, got {len(body):,} bytes that are not: {error}"
            ) from None
        if not isinstance(content, dict) or ("item" in content) == ("items" in content):
            raise InputError('expected an object with either "item" or "items"')
        keys = [field.name for field in fields(cls)]
        for name in content:
            if name not in keys:
                raise InputError(f"expected the keys {', '.join(keys)}; got {shorten(name)}")
        request = cls(**content)
        items, known = request.items, request.known
        if items is None and request.item is None:
            raise InputError("expected an item to label, got null")
        for name, value in (("items", items), ("known", known), ("once", request.once)):
            if value is not None and not isinstance(value, list):
                raise InputError(f"{name}: expected a list, got {describe(value)}")
        if items is not None and known is not None and len(known) != len(items):
            raise InputError(f"known: expected {len(items)} lists, one an item, got {len(known)}")
        for name in ("probabilities", "marginals", "spans"):
            if not isinstance(getattr(request, name), bool):
                raise InputError(f"{name}: expected true or false, got {describe(getattr(request, name))}")
        for name, most in (("nbest", MAX_BEST), ("features", MAX_FEATURES), ("explain", MAX_FEATURES)):
            value = getattr(request, name)
            if type(value) is not int or not 0 <= value <= most:
                raise InputError(f"{name}: expected a whole number from 0 to {most}, got {describe(value)}")
        if request.threshold is not None:
            check_threshold(request.threshold)
        return request

    @property
    def all_items(self) -> list:
        """The items to label, one or several."""
        return [self.item] if self.items is None else self.items

    @property
    def options(self) -> tuple:
        """The requested parts of the answer and the constraints: requests with equal options are labelled together."""
        once = None if self.once is None else json.dumps(self.once)
        numbers = self.nbest, self.features, self.explain, self.threshold
        return self.probabilities, self.marginals, self.spans, *numbers, once


class Answer(NamedTuple):
    """The content of an answer, as JSON values, and the number of items and positions that it labels."""

    content: dict[str, Any]
    n_items: int
    n_positions: int


class LabelService:
    """A model opened for requests; threads may share it. Raises the errors of `crfqn.Tagger` for the model file."""

    def __init__(self, path: ModelSource) -> None:
        self.model = open_model(path)
        refuse_dense(self.model, "serve")
        self.kind = self.model.ANSWERS
        self.scheme = self.kind.scheme_of(self.model)
        self.takes: str = self.model.takes  # a key of ITEM_FORMS
        self.columns: list[str] | None = self.model.columns_read
        # Label one item now, so that maps of names are made before processes are forked, which then share them.
        words = dict.fromkeys(self.columns or (), "a")
        item = {"text": "a", "document": "a", "columns": [words], "features": [{}], "matrix": [], "row": {}}
        item["cells"] = item["numbers"] = dict.fromkeys(self.columns or (), 0)
        with warnings.catch_warnings(), suppress(InputError):  # one position may violate transition rules
            warnings.simplefilter("ignore")
            self.model.predict([self._prepared(0, item[self.takes], {})])

    def describe(self) -> dict[str, Any]:
        """Return the description of the model for clients."""
        model = self.model
        tokenizer = tokenizer_of(model) if self.takes == "text" else None
        return {
            "kind": model.kind,
            "labels": model.classes_.tolist(),
            "labels_sequences": self.kind.has_positions,
            "takes": self.takes,
            "item": ITEM_FORMS[self.takes],
            "columns": self.columns,
            "tokenizer": tokenizer and tokenizer.name,
            "tokenizer_share": tokenizer and tokenizer.share,
            "scheme": self.scheme,
            "has_probabilities": model.has_probabilities,
            "n_features": model.n_features_in_,
            "n_weights": model.n_nonzero,
        }

    def seconds(self, request: LabelRequest) -> float:
        """Return an upper estimate of the seconds for a request, in which each letter of a text counts as a word."""
        return estimated_seconds(
            self.model,
            request,
            [len(item) if isinstance(item, str) else self._size(item) for item in request.all_items],
        )

    def check_work(self, request: LabelRequest, items: Sequence[Any]) -> None:
        """Raise InputError for too much work; a text that has not been tokenized counts as one word."""
        check_work(self.model, request, [*map(self._size, items)])

    def searches(self, request: LabelRequest) -> bool:
        """Return whether constraints `once` may require a search, whose time the estimate does not include."""
        return bool(getattr(self.model, "once", ()) if request.once is None else request.once)

    def _size(self, item: Any) -> int:
        """Return the number of positions of an item, or 1 if it has none or is a text."""
        return max(self.kind.n_positions(item), 1) if isinstance(item, (list, np.ndarray)) else 1

    def answer(self, request: LabelRequest, deadline: float) -> Answer:
        """Return the answer to a request before `deadline`, a time of the monotonic clock.

        InputError for a request that does not match the model, or is too much work; Overdue after the deadline.
        """
        try:
            with TimeLimit(deadline - time.monotonic(), grace=0.0):
                return self._answer(request)
        except TimeIsUp:
            raise Overdue from None

    def _answer(self, request: LabelRequest) -> Answer:
        if request.spans and self.scheme is None:
            raise InputError("spans: expected false, as the labels have no scheme of spans, such as IOB2")
        for name in (
            () if self.model.has_probabilities else ("probabilities", "marginals", "nbest", "threshold")
        ):
            if getattr(request, name) != getattr(LabelRequest, name):
                raise InputError(
                    f"{name}: expected none, as a model of {self.model.loss!r} has no probabilities"
                )
        items = request.all_items
        known = [request.known] if request.items is None else request.known or [None] * len(items)
        answers: list[dict[str, Any]] = [{} for _ in items]
        X = [self._prepared(i, *pair) for i, pair in enumerate(zip(items, answers, strict=True))]
        self.check_work(request, X)
        for first in range(0, len(items), ITEM_BATCH):
            batch = slice(first, first + ITEM_BATCH)
            try:
                self._label(answers[batch], X[batch], known[batch], request)
            except InputError as error:
                place = re.match(r"((?:known: )?item )(\d+)", str(error))  # the number within the batch
                if place is None:
                    raise
                text = f"{place[1]}{int(place[2]) + first}{str(error)[place.end() :]}"
                raise InputError(text) from error
        content = answers[0] if request.items is None else {"items": answers}
        return Answer(content, len(answers), sum(map(self._n_positions, answers)))

    def answer_each(self, waiting: Sequence[tuple[LabelRequest, float]]) -> list[Answer | Exception]:
        """Return for each request and deadline the value or the exception of `answer`.

        Single items with equal options are labelled together, which takes two thirds of the time.
        """
        groups: dict[Any, list[int]] = {}
        for k, (request, _) in enumerate(waiting):
            groups.setdefault(request.options if request.items is None else k, []).append(k)
        results: dict[int, Answer | Exception] = {}
        for places in groups.values():
            if len(places) > 1:
                items, known = ([getattr(waiting[k][0], name) for k in places] for name in ("item", "known"))
                whole = replace(waiting[places[0]][0], item=None, items=items, known=known)
                with suppress(Exception):  # one request failed: label each alone below
                    answers = self.answer(whole, min(waiting[k][1] for k in places)).content["items"]
                    for k, content in zip(places, answers, strict=True):
                        results[k] = Answer(content, 1, self._n_positions(content))
            for k in places:
                if k not in results:
                    try:
                        results[k] = self.answer(*waiting[k])
                    except Exception as error:  # an error of this request only
                        results[k] = error
        return [results[k] for k in range(len(waiting))]

    def _n_positions(self, answer: dict[str, Any]) -> int:
        return self.kind.n_positions(answer[self.kind.key])

    def _label(self, answers: list[dict[str, Any]], X: list, known: list, request: LabelRequest) -> None:
        """Add the requested parts to the answers of some items."""
        constraints = LabelConstraints(known if any(one is not None for one in known) else None, request.once)
        self.kind.check_constraints(constraints, "null")
        if constraints.known is not None:
            allowed = [_possible_labels(i, item) for i, item in enumerate(known)]
            constraints = constraints._replace(known=allowed)
        parts = answer_parts(
            self.model,
            probabilities=request.probabilities,
            marginals=request.marginals,
            n_best=request.nbest,
            scheme=self.scheme if request.spans else None,
            span_probabilities=self.model.has_probabilities,
            n_features=request.features,
            n_terms=request.explain,
            threshold=request.threshold,
        )
        for add in parts:
            check_time()
            add(answers, X, constraints)

    def _prepared(self, i: int, item: Any, answer: dict[str, Any]) -> Any:
        """Convert an item from JSON for the model; a text is tokenized, and its tokens are added to the answer."""
        check_time()
        if self.takes == "text" and isinstance(item, str):
            spans = tokenizer_of(self.model).spans(item)
            add_tokens(answer, [item[start:end] for start, end in spans], spans)
            return answer["tokens"]
        if self.takes == "document" and not isinstance(item, str):
            raise InputError(f"item {i}: expected {ITEM_FORMS[self.takes]}, got {describe(item)}")
        if self.takes in ("cells", "numbers"):
            if not isinstance(item, dict) and not (self.takes == "numbers" and isinstance(item, list)):
                columns = f"{', '.join(self.columns or ()):.300}"
                raise InputError(
                    f"item {i}: expected {ITEM_FORMS[self.takes]} ({columns}), got {describe(item)}"
                )
            return item
        if isinstance(item, dict) and self.takes == "row" and self.model.names is None:
            return {parse_column(name): value for name, value in item.items()}
        if self.takes != "matrix" and (self.takes != "row" or isinstance(item, dict)):
            return item
        rows, n = item if self.takes == "matrix" else [item], self.model.n_features_in_
        is_right = isinstance(rows, list) and all(isinstance(row, list) and len(row) == n for row in rows)
        if not is_right or not all(type(value) in (int, float, bool) for row in rows for value in row):
            raise InputError(
                f"item {i}: expected {ITEM_FORMS[self.takes]}, {n} of them, got {describe(item)}"
            )
        try:
            matrix = np.array(rows, np.float64).reshape(len(rows), n)
        except OverflowError:
            raise InputError(f"item {i}: expected numbers that fit 64 bits") from None
        return matrix if self.takes == "matrix" else matrix[0]


def _possible_labels(i: int, known: object) -> list | None:
    """Return the known labels of an item, with frozensets instead of JSON's lists of possible labels."""
    if known is not None and not isinstance(known, list):
        raise InputError(f"known: item {i}: expected a list, a label, labels or null for each position")
    for one in known or ():
        if any(isinstance(k, (list, dict)) for k in (one if isinstance(one, list) else [one])):
            raise InputError(
                f"known: item {i}: expected a label, a list of labels or null, got {describe(one)}"
            )
    return known and [frozenset(one) if isinstance(one, list) else one for one in known]


def parse_column(name: str) -> int | str:
    """Return the column number that a key of JSON spells; other keys unchanged, which the model then refuses."""
    return int(name) if COLUMN_NUMBER.fullmatch(name) else name

"""Description of the service in the words of OpenAPI 3.1, from which clients are made."""

from __future__ import annotations

from typing import Any

from crfqn.service.labelling import MOST_BEST, MOST_FEATURES, TAKES

LABEL = {"type": ["string", "number", "boolean", "array"]}
ANSWER = {
    "type": [*LABEL["type"], "null"],
    "description": "null where none has the probability of `threshold`.",
}
PROBABILITY = {"type": "number", "minimum": 0, "maximum": 1}


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties}


def _list(of: dict[str, Any], description: str = "") -> dict[str, Any]:
    return {"type": "array", "items": of} | ({"description": description} if description else {})


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _answer(description: str, schema: dict[str, Any], media: str = "application/json") -> dict[str, Any]:
    return {"description": description, "content": {media: {"schema": schema}}}


def _get(summary: str, schema: dict[str, Any], media: str = "application/json") -> dict[str, Any]:
    return {"get": {"summary": summary, "responses": {"200": _answer(summary, schema, media)}}}


TEXT, FLAG, POSITION = {"type": "string"}, {"type": "boolean"}, {"type": "integer", "minimum": 0}
MARGINALS = {"type": "object", "additionalProperties": PROBABILITY}
FEATURE = _object(["feature", "weight"], feature={"type": ["string", "integer"]}, weight={"type": "number"})
SPAN = _object(
    ["label", "start", "end"],
    label=TEXT,
    start=POSITION | {"description": "The first position, from 0."},
    end=POSITION | {"description": "The position behind the last."},
    start_char=POSITION
    | {"description": "Of an item that was a text: where in it the span begins, in characters."},
    end_char=POSITION | {"description": "Where it ends."},
    probability=PROBABILITY | {"description": "Of exactly this span."},
)
TERM = _object(
    ["kind", "name", "value"],
    position={"type": ["integer", "null"]},
    kind={"enum": ["feature", "transition", "dense", "constant"]},
    name={"type": ["string", "integer", "array"]},
    value={"type": "number"},
)
EXPLANATION = _object(
    ["label", "runner_up", "difference", "terms", "rest"],
    label=LABEL,
    probability={"type": ["number", "null"]},
    runner_up={},
    runner_up_probability={"type": ["number", "null"]},
    difference={
        "type": ["number", "null"],
        "description": "Of the scores with the label and the runner-up, in nats: terms and rest add up to it.",
    },
    terms=_list(TERM),
    rest={"type": "number"},
)
REQUEST = _object(
    [],
    item={"description": "One item. By kind of model: " + "; ".join(f"{k}: {v}" for k, v in TAKES.items())},
    items=_list({}, "Several items, instead of one."),
    known=_list(
        {}, "For each position of a sequence its label, a list of possible ones, or null; of items, lists."
    ),
    once=_list({}, "Labels that form at most one run in a sequence each, instead of those of the training."),
    threshold=PROBABILITY
    | {"description": "The least probability of a label, at each position of a sequence, and of a span."},
    probabilities=FLAG | {"description": "Of the labels together, and of each at its position."},
    marginals=FLAG | {"description": "Of all labels at each position, or of a single item."},
    spans=FLAG | {"description": "Spans of labels of a scheme, such as IOB2."},
    nbest=POSITION | {"maximum": MOST_BEST},
    explain=POSITION
    | {
        "maximum": MOST_FEATURES,
        "description": "The number of features and transitions to show that decided between label and runner-up.",
    },
    features=POSITION
    | {
        "maximum": MOST_FEATURES,
        "description": "The number of features to show that say most for or against the label at each position.",
    },
) | {"oneOf": [{"required": ["item"]}, {"required": ["items"]}], "additionalProperties": False}
ITEM = _object(
    [],
    tokens=_list(TEXT, "The words of an item that was a text."),
    start=_list(POSITION, "Where in the text each of them begins, in characters."),
    end=_list(POSITION, "Where each ends."),
    labels=_list(ANSWER),
    label=ANSWER,
    probability=PROBABILITY,
    log_probability={"type": "number", "maximum": 0, "description": "Its natural logarithm."},
    probabilities=_list(PROBABILITY | {"type": ["number", "null"]}),
    marginals={"anyOf": [MARGINALS, _list(MARGINALS)]},  # of a single item, of each position of a sequence
    nbest=_list(_object(["probability"], labels=_list(LABEL), label=LABEL, probability=PROBABILITY)),
    spans=_list(SPAN),
    features={"anyOf": [_list(FEATURE), _list(_list(FEATURE))]},
    explanation={"anyOf": [EXPLANATION, _list(EXPLANATION)]},
)
MODEL = _object(
    [],
    kind=TEXT,
    labels=_list(LABEL),
    labels_sequences=FLAG,
    takes={"enum": [*TAKES]},
    item=TEXT | {"description": "What an item is, in words."},
    columns=_list(TEXT) | {"type": ["array", "null"]},
    tokenizer={"type": ["string", "null"], "description": "What cuts texts into tokens."},
    tokenizer_share={"type": ["number", "null"]}
    | {"description": "Share of the training tokens that it gets right."},
    scheme={"type": ["string", "null"]},
    has_probabilities=FLAG,
    n_features={"type": "integer"},
    n_weights={"type": "integer"},
)
MODEL["required"] = [name for name in MODEL["properties"] if name != "columns"]


def describe_api(max_bytes: int, timeout: float) -> dict[str, Any]:
    """Return the description of a service with these limits."""
    from crfqn import __version__

    refusals = {
        "408": "The body did not come in time.",
        "413": f"The body has more than {max_bytes:,} bytes.",
        "422": "The request does not fit the model, or is too much work; the message says what was expected, what came "
        "and where.",
        "503": f"The answer would have taken more than {timeout:g} seconds.",
    }
    label = {
        "summary": "Label one item, or several",
        "requestBody": {"required": True, "content": {"application/json": {"schema": _ref("Request")}}},
        "responses": {
            "200": _answer(
                "The labels.", {"anyOf": [_ref("Item"), _object(["items"], items=_list(_ref("Item")))]}
            ),
            **{status: _answer(says, _ref("Error")) for status, says in refusals.items()},
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "crfqn serve", "version": __version__},
        "paths": {
            "/label": {"post": label},
            "/model": _get("What the model is, and what its items are", _ref("Model")),
            "/health": _get("Whether the service answers", _object(["status"], status={"const": "ok"})),
            "/metrics": _get("Counts in the text format of Prometheus", {"type": "string"}, "text/plain"),
        },
        "components": {
            "schemas": {
                "Request": REQUEST,
                "Item": ITEM,
                "Model": MODEL,
                "Error": _object(["error"], error={"type": "string"}),
            }
        },
    }

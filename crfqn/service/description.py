"""The OpenAPI 3.1 description of the service, from which client code can be generated."""

from __future__ import annotations

from typing import Any, TypeAlias

from crfqn.service.labelling import ITEM_FORMS, MAX_BEST, MAX_FEATURES

Schema: TypeAlias = dict[str, Any]  # a JSON schema

LABEL_SCHEMA = {"type": ["string", "number", "boolean", "array"]}
ANSWER_SCHEMA = {
    "type": [*LABEL_SCHEMA["type"], "null"],
    "description": "null if no label has the probability `threshold`.",
}
PROBABILITY_SCHEMA = {"type": "number", "minimum": 0, "maximum": 1}


def _object(required: list[str], **properties: Schema) -> Schema:
    return {"type": "object", "required": required, "properties": properties}


def _list(of: Schema, description: str = "") -> Schema:
    return {"type": "array", "items": of} | ({"description": description} if description else {})


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _answer(description: str, schema: Schema, media: str = "application/json") -> Schema:
    return {"description": description, "content": {media: {"schema": schema}}}


def _get(summary: str, schema: dict[str, Any], media: str = "application/json") -> dict[str, Any]:
    return {"get": {"summary": summary, "responses": {"200": _answer(summary, schema, media)}}}


TEXT_SCHEMA, FLAG_SCHEMA, POSITION_SCHEMA = (
    {"type": "string"},
    {"type": "boolean"},
    {"type": "integer", "minimum": 0},
)
MARGINALS_SCHEMA = {"type": "object", "additionalProperties": PROBABILITY_SCHEMA}
FEATURE_SCHEMA = _object(
    ["feature", "weight"], feature={"type": ["string", "integer"]}, weight={"type": "number"}
)
SPAN_SCHEMA = _object(
    ["label", "start", "end"],
    label=TEXT_SCHEMA,
    start=POSITION_SCHEMA | {"description": "The first position, from 0."},
    end=POSITION_SCHEMA | {"description": "The position after the last one."},
    start_char=POSITION_SCHEMA
    | {"description": "Begin of the span in the text, in characters, if the item was a text."},
    end_char=POSITION_SCHEMA | {"description": "End of the span in the text."},
    probability=PROBABILITY_SCHEMA | {"description": "The probability of exactly this span."},
)
TERM_SCHEMA = _object(
    ["kind", "name", "value"],
    position={"type": ["integer", "null"]},
    kind={"enum": ["feature", "transition", "dense", "constant"]},
    name={"type": ["string", "integer", "array"]},
    value={"type": "number"},
)
EXPLANATION_SCHEMA = _object(
    ["label", "runner_up", "difference", "terms", "rest"],
    label=LABEL_SCHEMA,
    probability={"type": ["number", "null"]},
    runner_up={},
    runner_up_probability={"type": ["number", "null"]},
    difference={
        "type": ["number", "null"],
        "description": "Score of the label minus that of the second best one, in nats: the sum of terms and rest.",
    },
    terms=_list(TERM_SCHEMA),
    rest={"type": "number"},
)
REQUEST_SCHEMA = _object(
    [],
    item={
        "description": "One item. By kind of model: " + "; ".join(f"{k}: {v}" for k, v in ITEM_FORMS.items())
    },
    items=_list({}, "Several items, instead of one."),
    known=_list(
        {},
        "For each position of a sequence its label, a list of possible labels, or null; for items, lists of these.",
    ),
    once=_list({}, "Labels that form at most one run in a sequence each, instead of those of the training."),
    threshold=PROBABILITY_SCHEMA
    | {"description": "The minimum probability of a label, at each position of a sequence, and of a span."},
    probabilities=FLAG_SCHEMA
    | {"description": "Whether to add the probability of the whole labelling and of each label."},
    marginals=FLAG_SCHEMA
    | {
        "description": "Whether to add the probabilities of all labels at each position, or of a single item."
    },
    spans=FLAG_SCHEMA | {"description": "Whether to add the spans of labels in a scheme, such as IOB2."},
    nbest=POSITION_SCHEMA | {"maximum": MAX_BEST},
    explain=POSITION_SCHEMA
    | {
        "maximum": MAX_FEATURES,
        "description": "The number of features and transitions to show that decided against the second best label.",
    },
    features=POSITION_SCHEMA
    | {
        "maximum": MAX_FEATURES,
        "description": "The number of features to show with the largest weights at each position.",
    },
) | {"oneOf": [{"required": ["item"]}, {"required": ["items"]}], "additionalProperties": False}
ITEM_SCHEMA = _object(
    [],
    tokens=_list(TEXT_SCHEMA, "The words of an item that was a text."),
    start=_list(POSITION_SCHEMA, "Begin of each word in the text, in characters."),
    end=_list(POSITION_SCHEMA, "End of each word in the text."),
    labels=_list(ANSWER_SCHEMA),
    label=ANSWER_SCHEMA,
    probability=PROBABILITY_SCHEMA,
    log_probability={"type": "number", "maximum": 0, "description": "Its natural logarithm."},
    probabilities=_list(PROBABILITY_SCHEMA | {"type": ["number", "null"]}),
    marginals={
        "anyOf": [MARGINALS_SCHEMA, _list(MARGINALS_SCHEMA)]
    },  # of a single item, of each position of a sequence
    nbest=_list(
        _object(
            ["probability"], labels=_list(LABEL_SCHEMA), label=LABEL_SCHEMA, probability=PROBABILITY_SCHEMA
        )
    ),
    spans=_list(SPAN_SCHEMA),
    features={"anyOf": [_list(FEATURE_SCHEMA), _list(_list(FEATURE_SCHEMA))]},
    explanation={"anyOf": [EXPLANATION_SCHEMA, _list(EXPLANATION_SCHEMA)]},
)
MODEL_SCHEMA = _object(
    [],
    kind=TEXT_SCHEMA,
    labels=_list(LABEL_SCHEMA),
    labels_sequences=FLAG_SCHEMA,
    takes={"enum": [*ITEM_FORMS]},
    item=TEXT_SCHEMA | {"description": "Description of an item."},
    columns=_list(TEXT_SCHEMA) | {"type": ["array", "null"]},
    tokenizer={"type": ["string", "null"], "description": "The tokenizer of texts."},
    tokenizer_share={"type": ["number", "null"]}
    | {"description": "The fraction of the training tokens that the tokenizer gets right."},
    scheme={"type": ["string", "null"]},
    has_probabilities=FLAG_SCHEMA,
    n_features={"type": "integer"},
    n_weights={"type": "integer"},
)
MODEL_SCHEMA["required"] = [name for name in MODEL_SCHEMA["properties"] if name != "columns"]


def describe_api(max_bytes: int, timeout: float) -> dict[str, Any]:
    """Return the description of a service with these limits."""
    from crfqn import __version__

    refusals = {
        "408": "The body did not arrive in time.",
        "413": f"The body has more than {max_bytes:,} bytes.",
        "422": "The request does not match the model, or is too much work; the message names what was expected, "
        "what came and where.",
        "503": f"The answer would have taken more than {timeout:g} seconds.",
    }
    label = {
        "summary": "Label one item, or several",
        "requestBody": {"required": True, "content": {"application/json": {"schema": _ref("Request")}}},
        "responses": {
            "200": _answer(
                "The labels.", {"anyOf": [_ref("Item"), _object(["items"], items=_list(_ref("Item")))]}
            ),
            **{status: _answer(reason, _ref("Error")) for status, reason in refusals.items()},
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "crfqn serve", "version": __version__},
        "paths": {
            "/label": {"post": label},
            "/model": _get("Description of the model and its items", _ref("Model")),
            "/health": _get("Whether the service answers", _object(["status"], status={"const": "ok"})),
            "/metrics": _get("Counts in the text format of Prometheus", {"type": "string"}, "text/plain"),
        },
        "components": {
            "schemas": {
                "Request": REQUEST_SCHEMA,
                "Item": ITEM_SCHEMA,
                "Model": MODEL_SCHEMA,
                "Error": _object(["error"], error={"type": "string"}),
            }
        },
    }

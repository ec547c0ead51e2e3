"""Linear classifiers, with a taxonomy of labels or without, and chains as ONNX graphs; needs the package `onnx`.

The graph multiplies items by the weights, of features with a weight only. With a taxonomy, it sums the scores of the
nodes along the path of each class. The outputs are the label with the largest score and, for models with probabilities,
the softmax. For chains, rows are positions, and Viterbi's recursion, a forward and a backward Scan, finds the labels.

Inputs: dense, `X` (items, features); or sparse, `rows`, `columns` (int64) and `values` of the entries that are not
zero, in any order, with `n_items` (int64, shape (1,)). Outputs: `label` (items,), `scores` (items, classes), and
`probabilities` for the logistic loss, in the order of `classes_`. For chains, the items are positions, which `lengths`
(int64, (sequences,)) cuts into sequences, and there are no probabilities.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

import crfqn
from crfqn.atomic_write import replace_file
from crfqn.data.hybrid import refuse_dense
from crfqn.errors import InputError
from crfqn.estimators.chain import ChainCRF
from crfqn.estimators.multiclass import MulticlassClassifier, MulticlassCRF
from crfqn.estimators.taxonomy_crf import TaxonomyCRF
from crfqn.interchange.crfsuite import refuse_bigram_weights
from crfqn.messages import shorten
from crfqn.model.item_model import ItemModel
from crfqn.model.model import Model
from crfqn.model.sequences import SequenceModel
from crfqn.structures.transition_rules import TransitionRules

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

ONNX_NAME = "onnx"
OPSET_VERSION, IR_VERSION = 16, 8  # 16 is the first opset whose ScatterND can add
GRAPH_DTYPES = ("float32", "float64")
INPUT_KINDS = ("dense", "sparse")
NO_NODE = -1  # the parent of the top nodes of a taxonomy
Writable = MulticlassCRF | MulticlassClassifier | TaxonomyCRF | ChainCRF
Ports = tuple[tuple[str, np.dtype, list[Any]], ...]


def write(
    model: Writable, path: str | os.PathLike[str], dtype: str = "float32", input: str = "dense"
) -> None:
    """Write a fitted classifier or chain as an ONNX model, atomically.

    Parameters
    ----------
    model : MulticlassCRF, MulticlassClassifier, TaxonomyCRF or ChainCRF
        Labels that are rows of parts are joined, as in `classes_`. The columns of a chain are its `feature_names_in_`;
        its graph needs one position or more, and also labels sequences without an allowed labelling.
    path : str or path-like
    dtype : {"float32", "float64"}, default "float32"
        Type of inputs and outputs. Runtimes for browsers and phones expect float32; float64 gives the scores of crfqn
        to rounding.
    input : {"dense", "sparse"}, default "dense"
        A dense table of all features; or lists of rows, columns and values of the non-zero entries, for texts.

    Raises
    ------
    InputError
        Another kind of model, dtype or input, or no package `onnx`.
    sklearn.exceptions.NotFittedError
    ModelFileError
        The path cannot be written.
    """
    replace_file(path, graph_of(model, dtype, input).SerializeToString())


def graph_of(model: Writable, dtype: str = "float32", input: str = "dense") -> ModelProto:
    """Return the `onnx.ModelProto` that `write` stores; parameters and errors as there."""
    if not isinstance(model, (MulticlassCRF, MulticlassClassifier, TaxonomyCRF, ChainCRF)):
        raise InputError(
            "onnx: expected a MulticlassCRF, MulticlassClassifier, TaxonomyCRF or ChainCRF, got a "
            f"{type(model).__name__}"
        )
    check_is_fitted(model)
    refuse_dense(model, "onnx")
    refuse_bigram_weights(model, "onnx")
    for name, value, allowed in (("dtype", dtype, GRAPH_DTYPES), ("input", input, INPUT_KINDS)):
        if value not in allowed:
            raise InputError(f"{name}: expected one of {allowed}, got {value!r}")
    fitted: Model = model.current_model
    if isinstance(fitted, SequenceModel) and fitted.once:
        raise InputError(
            f"onnx: the graph has no place for the rule once={shorten(list(fitted.once))}; with `model.model_ = "
            "model.model_.with_once([])` before, it is written without"
        )
    classes = fitted.classes_
    if classes.dtype.kind == "O" and not all(isinstance(label, str) for label in classes):
        raise InputError("onnx: expected labels of one type, strings or numbers, got both")
    # The types of labels that a runtime supports, besides booleans.
    types = {"i": np.int64, "u": np.int64, "f": np.float64, "O": np.str_}
    classes = classes.astype(types.get(classes.dtype.kind, classes.dtype))
    graph = _Graph(np.dtype(dtype))
    scores = _products(graph, fitted, input)
    int64, table = np.dtype(np.int64), ["items", len(classes)]
    if input == "dense":
        inputs = [graph.port("X", graph.dtype, ["items", fitted.n_features_in_])]
    else:
        inputs = [graph.port(name, int64, ["entries"]) for name in ("rows", "columns")]
        inputs += [graph.port("values", graph.dtype, ["entries"]), graph.port("n_items", int64, [1])]
    outputs = [graph.port("label", classes.dtype, ["items"]), graph.port("scores", graph.dtype, table)]
    if isinstance(fitted, SequenceModel):
        inputs.append(graph.port("lengths", int64, ["sequences"]))
        best = _best_paths(graph, fitted, scores)
    else:
        scores = graph.add("Add", [scores, graph.constant("intercept", np.asarray(fitted.intercept))])
        if isinstance(fitted, ItemModel) and fitted.labels.tree is not None:
            scores = _path_sums(graph, scores, fitted.labels.nodes, fitted.labels.tree.parents)
        best = graph.add("ArgMax", [scores], axis=1, keepdims=0)
        if fitted.has_probabilities:
            logits = scores
            if fitted.temperature != 1.0:
                logits = graph.add(
                    "Div", [scores, graph.constant("temperature", np.array(fitted.temperature))]
                )
            graph.add("Softmax", [logits], "probabilities", axis=1)
            outputs.append(graph.port("probabilities", graph.dtype, table))
    graph.add("Identity", [scores], "scores")
    graph.add("Gather", [graph.constant("classes", classes), best], "label")
    helper = graph.onnx.helper
    proto = helper.make_model(
        helper.make_graph(graph.nodes, model.KIND, inputs, outputs, graph.constants),
        opset_imports=[helper.make_opsetid("", OPSET_VERSION)],
        ir_version=IR_VERSION,
        producer_name="crfqn",
        producer_version=crfqn.__version__,
    )
    graph.onnx.checker.check_model(proto)
    return proto


class _Graph:
    """Nodes and constants of a graph under construction; names of results begin with `name` and end with a number."""

    def __init__(self, dtype: np.dtype, name: str = "") -> None:
        try:
            import onnx
        except ImportError:
            raise InputError("onnx: needs the package onnx: pip install 'crfqn[onnx]'") from None
        self.onnx, self.dtype, self.name = onnx, dtype, name
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, operation: str, inputs: list[str], output: str | None = None, **attributes: Any) -> str:
        """Append an operation; return the name of its result."""
        name = output or f"{self.name}{operation.lower()}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operation, inputs, [name], **attributes))
        return name

    def scan(
        self, body: _Graph, arguments: list[str], inputs: Ports, outputs: Ports, is_reverse: bool = False
    ) -> tuple[str, str]:
        """Append a loop over the rows of sequences, the last first if `is_reverse`; return its last state and all rows.

        arguments : a state and sequences; inputs, outputs : name, type and shape of a step's state and rows
        """
        results = f"{body.name}state", f"{body.name}rows"
        body_inputs, body_outputs = ([body.port(*port) for port in ports] for ports in (inputs, outputs))
        n_rows = len(arguments) - 1
        step = self.onnx.helper.make_graph(body.nodes, body.name, body_inputs, body_outputs)
        directions: dict[str, Any] = {"scan_input_directions": [int(is_reverse)] * n_rows}
        directions["scan_output_directions"] = [int(is_reverse)]
        attributes = {"body": step, "num_scan_inputs": n_rows, **directions}
        self.nodes.append(self.onnx.helper.make_node("Scan", arguments, results, **attributes))
        return results

    def constant(self, name: str, values: NDArray) -> str:
        """Store an array, floats in the graph's type; return its name."""
        array = np.asarray(values)
        if array.dtype.kind == "f" and name != "classes":
            array = array.astype(self.dtype)
        if array.dtype.kind in "UO":
            try:
                texts: list[Any] = [str(value).encode() for value in array]
            except UnicodeEncodeError as error:
                raise InputError(
                    f"onnx: expected labels that UTF-8 can encode, got {error.object!r:.60}"
                ) from None
            proto = self.onnx.helper.make_tensor(name, self.onnx.TensorProto.STRING, array.shape, texts)
        else:
            proto = self.onnx.numpy_helper.from_array(array, name)
        self.constants.append(proto)
        return name

    def port(self, name: str, dtype: np.dtype, shape: list[Any]) -> ValueInfoProto:
        """Return the declaration of an input or an output."""
        is_text = dtype.kind == "U"
        helper, text = self.onnx.helper, self.onnx.TensorProto.STRING
        element_type = text if is_text else helper.np_dtype_to_tensor_dtype(dtype)
        return helper.make_tensor_value_info(name, element_type, shape)


def _products(graph: _Graph, model: Model, input: str) -> str:
    """Add the product of the items and the weights, (items, K), over the features with a weight."""
    used = model.weights.features
    weights = model.coef_[:, used].toarray().T
    if input == "dense":
        columns = graph.add("Gather", ["X", graph.constant("kept_features", used.astype(np.int64))], axis=1)
        return graph.add("MatMul", [columns, graph.constant("weights", weights)])
    # The row of each feature in the table of weights; features without a weight have its last row, of zeros.
    row_of = np.full(model.n_features_in_, used.size, np.int64)
    row_of[used] = np.arange(used.size)
    rows_of_weights = graph.constant("weights", np.vstack([weights, np.zeros((1, weights.shape[1]))]))
    entries = graph.add(
        "Gather", [rows_of_weights, graph.add("Gather", [graph.constant("row", row_of), "columns"])]
    )
    last = graph.constant("last_axis", np.array([1], np.int64))
    terms = graph.add("Mul", [entries, graph.add("Unsqueeze", ["values", last])])
    shape = graph.add(
        "Concat", ["n_items", graph.constant("n_nodes", np.array([weights.shape[1]], np.int64))], axis=0
    )
    zeros = graph.add(
        "ConstantOfShape", [shape], value=graph.onnx.numpy_helper.from_array(np.zeros(1, graph.dtype))
    )
    return graph.add("ScatterND", [zeros, graph.add("Unsqueeze", ["rows", last]), terms], reduction="add")


def _path_sums(graph: _Graph, scores: str, nodes: NDArray[np.integer], parents: NDArray[np.integer]) -> str:
    """Add the sums of the scores (items, K) along the paths of the classes, one level at a time from the top down."""
    levels = [nodes.astype(np.int64)]  # the nodes at one height above the classes, NO_NODE above the top
    while (levels[-1] >= 0).any():
        levels.append(np.where(levels[-1] >= 0, parents[levels[-1]], NO_NODE))
    pads = graph.constant("pads", np.array([0, 0, 0, 1], np.int64))
    node_scores = graph.add("Pad", [scores, pads])  # one more column, of zeros, for NO_NODE
    total = ""
    for level, level_nodes in enumerate(levels[-2::-1]):
        part = graph.add("Gather", [node_scores, graph.constant(f"nodes_{level}", level_nodes)], axis=1)
        total = graph.add("Add", [total, part]) if total else part
    return total


def _best_paths(graph: _Graph, model: SequenceModel, scores: str) -> str:
    """Add Viterbi's recursion over the scores (positions, K) of all sequences; return the best states, (positions,)."""
    n_states, int64 = len(model.classes_), np.dtype(np.int64)
    rules = model.rules_ or TransitionRules.everything(n_states)
    start, end = (np.where(allowed, 0.0, -np.inf) for allowed in (rules.start, rules.end))
    graph.constant("edges", rules.on_edges(model.edges.to_dense()))
    graph.constant("start", start)
    graph.constant("ends", np.tile(end[:, None], n_states))

    # Forward: the best score of a labelling up to a position that ends with each state, and the state before that. At
    # the first position of a sequence the sums restart; the state before is the best last state of the sequence before.
    step = _Graph(graph.dtype, "forth_")  # a loop's body, which can use the constants of the graph
    before = step.add("Unsqueeze", ["before", graph.constant("state_axis", np.array([1], np.int64))])
    through = step.add("Add", [before, step.add("Where", ["is_first", "ends", "edges"])])
    step.add("ArgMax", [through], "origin", axis=0, keepdims=0)
    best = step.add("ReduceMax", [through], axes=[0], keepdims=0)
    step.add("Add", ["here", step.add("Where", ["is_first", "start", best])], "up_to_here")
    row = [n_states]
    inputs: Ports = (
        ("before", graph.dtype, row),
        ("here", graph.dtype, row),
        ("is_first", np.dtype(bool), []),
    )
    outputs: Ports = ("up_to_here", graph.dtype, row), ("origin", int64, row)
    zeros = graph.constant("nothing", np.zeros(n_states))
    up_to_end, origins = graph.scan(step, [zeros, scores, _first_positions(graph, scores)], inputs, outputs)

    step = _Graph(graph.dtype, "back_")
    step.add("Identity", ["state"], "state_here")
    step.add("Gather", ["origins_here", "state"], "state_before")
    inputs = ("state", int64, []), ("origins_here", int64, row)
    outputs = ("state_before", int64, []), ("state_here", int64, [])
    final_scores = graph.add("Add", [up_to_end, graph.constant("end", end)])
    last = graph.add("ArgMax", [final_scores], axis=0, keepdims=0)
    return graph.scan(step, [last, origins], inputs, outputs, is_reverse=True)[1]


def _first_positions(graph: _Graph, scores: str) -> str:
    """Add a boolean for each position, true for the first of a sequence. A runtime reports an error if the sum of the
    lengths is not the number of rows."""
    sums = graph.add("CumSum", ["lengths", graph.constant("first_axis", np.array(0, np.int64))])
    firsts = graph.add("Unsqueeze", [graph.add("Sub", [sums, "lengths"]), "state_axis"])
    n_positions = graph.add("ReduceSum", ["lengths"], keepdims=1)
    one = graph.constant("one", np.array([1], np.int64))
    false, true = (graph.onnx.numpy_helper.from_array(np.array([value])) for value in (False, True))
    # One more position, where empty sequences after the others begin.
    marks = graph.add("ConstantOfShape", [graph.add("Add", [n_positions, one])], value=false)
    all_true = graph.add("ConstantOfShape", [graph.add("Shape", ["lengths"])], value=true)
    marks = graph.add("ScatterND", [marks, firsts, all_true])
    zero = graph.constant("zero", np.array([0], np.int64))
    marks = graph.add("Slice", [marks, zero, n_positions])
    rows = graph.add("Slice", [graph.add("Shape", [scores]), zero, one])
    return graph.add("Reshape", [marks, rows])

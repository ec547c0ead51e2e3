"""Declarations of the commands and their options; a command imports the module with its function when it runs."""

import os
from collections.abc import Callable
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any

import typer

from crfqn.cli import options as shared
from crfqn.cli.exits import ExitCode, command
from crfqn.errors import InputError

EXIT_CODES = "\n".join(f"{code.value:>4}  {code.meaning}" for code in ExitCode)
HELP_NAMES = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    name="crfqn",
    help=(
        "Sparse models that label sequences and classify documents, also into the nodes of a taxonomy, trained to a "
        "certified distance from the optimum. New here? Type:  crfqn quickstart"
    ),
    epilog=f"Exit codes:\n{EXIT_CODES}",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=HELP_NAMES,
)
data_app = typer.Typer(
    help="List, download and check datasets.", no_args_is_help=True, context_settings=HELP_NAMES
)
app.add_typer(data_app, name="data")


def subcommand(
    carried_out_by: str = "", name: str | None = None, group: typer.Typer = app, **renamed: str
) -> Callable[[Callable[..., int | None]], Callable[..., None]]:
    """Make a command from a declaration.

    The command calls the function `carried_out_by`, "module.name" in this package, or the declaration itself if there
    is none. The function takes the options by name, `renamed` ones by their new names, and returns the exit code.
    """

    def declare(declaration: Callable[..., int | None]) -> Callable[..., None]:
        @wraps(declaration)
        def run(**options: object) -> int | None:
            if not carried_out_by:
                return declaration(**options)
            values = {renamed.get(option, option): value for option, value in options.items()}
            code: int | None = resolve_name("crfqn.cli." + carried_out_by.replace(".", ":"))(**values)
            return code

        return group.command(name, cls=shared.Command)(command(shared.with_option_groups(run)))

    return declare


RECIPE_HELP = "A recipe by name (digits, stdlib) or path (models/ocr, my/recipe.toml); or --data FILE."
MODEL_HELP = "A model file that `crfqn train` wrote; predict, evaluate and inspect take CRFsuite's, too."
INPUT_HELP = (
    "The name or the first lines of a file show its format: columns, one word per line and a blank line between items, "
    "or sentences for models of words; CRFsuite's label TAB attribute[:value] TAB ...; rows of a letter table for "
    "models of images; a text, or label TAB text, per line; svmlight's label id:value ...; tables; JSON lines. Files "
    "may be compressed by gzip."
)
LABELLED_HELP = (
    "A labelled file, or - for standard input, in the format of `crfqn predict`; default: the test part of the data "
    "that the model was trained on"
)
ModelArgument = Annotated[Path, typer.Argument(help=MODEL_HELP)]
RecipeArgument = Annotated[str | None, typer.Argument(help="A recipe, as for `crfqn train`, or --data FILE.")]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="A file instead of standard output.")
]
DatasetArgument = Annotated[str, typer.Argument(help="A name from `crfqn data list`.")]


def _show_version(is_asked: bool) -> None:
    if is_asked:
        from crfqn import __version__

        typer.echo(f"crfqn {__version__}")
        raise typer.Exit()


# fmt: off
# One option per line.
@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True,
        help="Show the version and exit.")] = False,
) -> None:
    pass


@subcommand("training.train_first_model")
def quickstart(
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The model file to write.")] = None,
    n_threads: shared.ThreadsOption = None, as_json: shared.JsonOption = False, is_quiet: shared.QuietOption = False,
) -> None:
    """Train a first model in seconds: on handwritten words if their data is here, else on handwritten digits."""


@subcommand("training.train_recipe", recipe="name_or_path", overrides="settings")
def train(
    recipe: Annotated[str | None, typer.Argument(help=RECIPE_HELP)] = None, *,
    output: Annotated[Path | None, typer.Option("--output", "-o",
        help="The model file to write; default: NAME.crfqn in this folder.")] = None,
    data: Annotated[dict[str, Any], shared.DataOptions], dev: Annotated[dict[str, Any], shared.DevOptions],
    overrides: Annotated[dict[str, Any], shared.TrainOverrides], cluster: shared.ClusterOptions,
    dense: Annotated[Path | None, typer.Option(help=shared.DENSE_HELP, rich_help_panel="Features")] = None,
    is_float32: Annotated[bool, typer.Option("--float32", help="Store weights in 4 bytes instead of 8.",
        rich_help_panel="Output")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.",
        rich_help_panel="Output")] = False,
    is_quiet: shared.QuietOption = False,
) -> None:
    """Train a model from a recipe, or on a file (--data). Options override the settings of the recipe.

    Ctrl-C keeps the best model so far.
    """


@subcommand()
def recipe(
    structure: Annotated[str, typer.Argument(
        help="Structure of the labels: chain, taxonomy, flat or ranking.")] = "chain",
    output: OutputOption = None, as_json: shared.JsonOption = False,
) -> None:
    """Write a recipe to start from: every key with its default and its meaning."""
    from crfqn.cli.output import to_json, write_text
    from crfqn.recipes.finding import describe_keys, skeleton

    write_text(output, f"{to_json(describe_keys(structure))}\n" if as_json else skeleton(structure))


@subcommand("tuning.train_path", recipe="name_or_path", overrides="settings")
def path(
    recipe: RecipeArgument = None, *,
    output: Annotated[Path | None, typer.Option("--output", "-o",
        help="Save the best model here; default: none is saved.")] = None,
    data: Annotated[dict[str, Any], shared.DataOptions], options: shared.PathOptions,
    overrides: Annotated[dict[str, Any], shared.PathOverrides], is_quiet: shared.QuietResultOption = False,
) -> None:
    """Train a recipe for many strengths of the L1 penalty and score each model, in little more time than for one.

    Ctrl-C keeps the values so far.
    """


@subcommand("tuning.cross_validate", recipe="name_or_path", overrides="settings", folds="n_folds")
def cv(
    recipe: RecipeArgument = None, *,
    folds: Annotated[int, typer.Option("--folds", "-k", min=2,
        help=f"The number of folds. The training items are {shared.FOLDS_HELP}.")] = 5,
    data: Annotated[dict[str, Any], shared.DataOptions], overrides: Annotated[dict[str, Any], shared.TrainOverrides],
    as_json: shared.JsonOption = False, is_quiet: shared.QuietResultOption = False,
) -> None:
    """Score a recipe by cross-validation: the score of each fold by a model of the others, mean and deviation."""


@subcommand("prediction.write_predictions", model="path", input="sources")
def predict(
    model: ModelArgument,
    input: Annotated[list[str] | None, typer.Argument(
        help=f"Files, or - for standard input, the default. {INPUT_HELP}")] = None, *,
    output: OutputOption = None,
    output_dir: Annotated[Path | None, typer.Option(help="Write the labels of each input to a file with "
        "the input's name in this folder, which is created if it does not exist.")] = None,
    options: shared.PredictOptions,
) -> None:
    """Label new items: write one label per line, and a blank line after each sequence.

    Labels in the input are ignored. Items are labelled as they arrive, also from an endless pipe. Control characters
    in a label are escaped, as \\x1b. Each line of a file of texts has an answer; a blank line is a text without words.
    """


@subcommand("evaluation.print_scores", model="path", input="source")
def evaluate(
    model: ModelArgument,
    input: Annotated[str | None, typer.Argument(help=f"{LABELLED_HELP}. That is a dataset of `crfqn data list`, "
        "or the files of your recipe, if the recipe still exists and names the same files. "
        "A model file alone does not decide which files are opened.")] = None,
    format: shared.FormatOption = None, dense: shared.DenseOption = None, encoding: shared.EncodingOption = None,
    label: shared.LabelOption = None, on_misaligned: shared.MisalignedOption = None,
    threshold: shared.ThresholdOption = None, as_json: shared.JsonOption = False,
) -> None:
    """Score a model on labelled items: accuracy, log-likelihood, and precision, recall and F1 of each label.

    For a taxonomy also hierarchical F1, LCA F1, tree-induced error and accuracy by level, which measure the distance
    of wrong labels. With --threshold also the coverage, the fraction of the positions or items that get a label.
    """


@subcommand("evaluation.write_calibrated", model="path", input="source")
def calibrate(
    model: ModelArgument,
    input: Annotated[str, typer.Argument(help="A labelled file that the model was not trained on, or - for standard "
        "input, in the format of `crfqn predict`.")], *,
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write.")],
    format: shared.FormatOption = None, dense: shared.DenseOption = None, encoding: shared.EncodingOption = None,
    label: shared.LabelOption = None,
    as_json: shared.JsonOption = False, is_quiet: shared.QuietOption = False,
) -> None:
    """Calibrate a model's probabilities: divide its scores by the temperature that maximises the likelihood of held-out
    labels.

    Predicted labels do not change. The weights are not trained again.
    """


@subcommand("inspection.print_model", model="path")
def inspect(
    model: ModelArgument,
    top: Annotated[int, typer.Option(min=1, help="The number of weights to show per label, the largest first.")] = 5,
    label: Annotated[str | None, typer.Option(help="Show only this label, or this node of the taxonomy.")] = None,
    is_card: Annotated[bool, typer.Option("--card", help="Print a model card in Markdown instead.")] = False,
    as_json: shared.JsonOption = False,
) -> None:
    """Print a model's largest weights, transitions, sizes, settings and training data."""


@subcommand("explanation.print_explanations", model="path", input="source", top="n")
def explain(
    model: ModelArgument,
    text: Annotated[str | None, typer.Argument(help="A text, for models of words or documents.")] = None, *,
    input: Annotated[str | None, typer.Option("--input", "-i", help="Instead: a file of items, or - for standard "
        "input, in the format of `crfqn predict`.")] = None,
    top: Annotated[int, typer.Option(min=1, help="The number of reasons to show, the largest ones; the sum of the "
        "others is shown, too.")] = 5,
    format: shared.FormatOption = None, encoding: shared.EncodingOption = None, as_json: shared.JsonOption = False,
) -> None:
    """Explain labels: for each label the second best one, and the features and transitions that decided between them.

    The reasons are products of weights and values. They add up to the difference of the two scores, in nats.
    """


@subcommand("suggestion.write_suggestions", model="path", input="source")
def suggest(
    model: ModelArgument,
    input: Annotated[str, typer.Argument(help="A file of items without labels, or - for standard input, the default, "
        "in the format of `crfqn predict`.")] = "-", *,
    output: OutputOption = None, options: shared.SuggestOptions,
    format: shared.FormatOption = None, dense: shared.DenseOption = None, encoding: shared.EncodingOption = None,
) -> None:
    """Suggest items to label next: write the items by decreasing uncertainty of the model.

    Items are written as in the input. Labels in the input are ignored.
    """


@subcommand("inspection.write_page", model="path", input="source")
def report(
    model: ModelArgument,
    input: Annotated[str | None, typer.Argument(help=f"{LABELLED_HELP}, if it is here.")] = None, *,
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML file to write.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="Title of the page; default: the model file's name.")] = None,
    top: Annotated[int, typer.Option(min=1, help="The number of features to show per label, the strongest "
        "first.")] = 30,
    n_errors: Annotated[int, typer.Option("--errors", min=1, help="The number of wrong items to show, the worst "
        "first.")] = 20,
    as_json: shared.JsonOption = False, is_quiet: shared.QuietOption = False,
) -> None:
    r"""Write a report about a model: one HTML file with its training, weights, scores and worst errors.

    The page loads nothing from the network. The command needs `pip install 'crfqn\[report]'`.
    """


@subcommand()
def serve(
    model: ModelArgument, *,
    host: Annotated[str, typer.Option(help="The address to listen at; 0.0.0.0 means all addresses of this "
        "machine.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 chooses a free one.")] = 8000,
    n_workers: Annotated[int, typer.Option("--workers", min=1, help="The number of processes; they share the memory "
        "of the model.")] = 1,
    max_bytes: Annotated[int, typer.Option(min=1, help="Refuse larger requests.")] = 1 << 20,
    timeout: Annotated[float, typer.Option(min=0.001,
        help="Seconds after which a request, or a connection without a request, is closed.")] = 10.0,
) -> None:
    r"""Serve a model over HTTP: POST /label, a page to try the model at /, and an OpenAPI description at /openapi.json.

    SIGHUP opens the model file again and SIGTERM ends the service; neither loses a request. The command
    needs `pip install 'crfqn\[serve]'`.
    """
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise InputError(f"a service needs {' and '.join(missing)}: pip install 'crfqn[serve]'")
    if not hasattr(os, "fork"):
        raise InputError("a service needs a system with fork, such as Linux or macOS")
    from crfqn.cli.output import say
    from crfqn.service.application import RequestLimits
    from crfqn.service.workers import Processes, listen

    with listen(host, port) as listener:
        workers = Processes(model, listener, n_workers, RequestLimits(max_bytes, timeout), say)
        address = f"{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
        say(f"Serving {model} at http://{address}; Ctrl-C ends it, SIGHUP opens the file anew.")
        workers.run()


@subcommand("files.convert_model")
def convert(
    source: Annotated[Path, typer.Argument(
        help="A model of crfqn, CRFsuite, Wapiti (its model file, or a dump), CRF++ (text, crf_learn -t), or JSON.")],
    target: Annotated[Path, typer.Argument(
        help="The file to write: .crfqn, .crfsuite, .json, or .onnx (classifiers only).")], *,
    source_format: Annotated[str | None, typer.Option("--from",
        help="crfqn, crfsuite, wapiti, crfpp or json; default: by the first bytes of the file.")] = None,
    target_format: Annotated[str | None, typer.Option("--to",
        help="crfqn, crfsuite, json or onnx; default: by the extension.")] = None,
    n_columns: Annotated[int | None, typer.Option("--n-columns", min=1,
        help="For models of Wapiti or CRF++: the number of columns before the label in the files to label; "
        "default: those that its templates use; further columns are kept.")] = None,
    dtype: Annotated[str | None, typer.Option(
        help="The type of the weights, float32 or float64; default: float64, for ONNX float32.")] = None,
    input: Annotated[str | None, typer.Option(
        help="The input of an ONNX graph: dense (default) or sparse.")] = None,
    lossy: Annotated[bool, typer.Option("--lossy",
        help="Leave out what CRFsuite's format cannot represent.")] = False,
    as_json: shared.JsonOption = False, is_quiet: shared.QuietOption = False,
) -> None:
    """Convert a model of crfqn into a file of another tool, or a model of another tool into one of crfqn."""


@subcommand("compilation.compile_all", "compile", to="folder")
def compile_(
    names: Annotated[list[str] | None, typer.Argument(
        help="Estimators such as ChainCRF; default: all of them.")] = None,
    to: Annotated[Path | None, typer.Option(file_okay=False, writable=True, resolve_path=True,
        help="Store the code in this folder; processes with CRFQN_CODE=FOLDER load it.")] = None,
    with_functions: Annotated[bool, typer.Option("--functions",
        help="List the functions with the seconds that each took.")] = False,
    as_json: shared.JsonOption = False, is_quiet: shared.QuietOption = False,
) -> None:
    """Compile the numerical code now instead of at the first training, for container images and clusters."""


@subcommand("files.list_all", "list", data_app)
def data_list(as_json: shared.JsonOption = False) -> None:
    """List the datasets, and the files of those on this machine."""


@subcommand("files.fetch", "get", data_app)
def data_get(
    name: DatasetArgument, as_json: shared.JsonOption = False, is_quiet: shared.QuietResultOption = False
) -> None:
    """Download a dataset into the cache, check it and print the paths of its files."""


@subcommand("files.verify", "verify", data_app)
def data_verify(name: DatasetArgument, as_json: shared.JsonOption = False) -> None:
    """Check a dataset on this machine against its registered checksum or content."""

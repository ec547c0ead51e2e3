"""The commands and their options; each is carried out by a module of this package, imported when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from crfqn.cli.exits import ExitCode, command

EXIT_CODES = "\n".join(f"{code.value:>4}  {code.meaning}" for code in ExitCode)

app = typer.Typer(
    name="crfqn",
    help=(
        "Sparse models that label sequences, sort documents into a taxonomy or into classes, trained to a "
        "certified distance from the optimum. New here? Type:  crfqn quickstart"
    ),
    epilog=f"Exit codes:\n{EXIT_CODES}",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(
    help="Datasets: what there is, download, check.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data_app, name="data")

ModelArgument = Annotated[Path, typer.Argument(help="A model file that `crfqn train` wrote.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and messages, errors only.")]
DatasetArgument = Annotated[str, typer.Argument(help="A name from `crfqn data list`.")]
INPUT_FORMAT = (
    "Sequences: one position a line, a blank line between items; models of images read rows of a letter table "
    "(letter.data), others CRFsuite's format: label TAB attribute[:value] TAB ... Documents: one a line; models of "
    "texts read: text, or label TAB text; others svmlight's format: label id:value id:value ... gzip is fine."
)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        from crfqn import __version__

        typer.echo(f"crfqn {__version__}")
        raise typer.Exit()


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    pass


@app.command()
@command
def quickstart(
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where the model goes.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads; default: all cores.")] = None,
    quiet: QuietOption = False,
) -> int:
    """Train a first model in seconds: handwritten words if their data is at hand, else handwritten digits."""
    from crfqn.cli.training import quickstart

    return quickstart(output, n_threads=threads, is_quiet=quiet)


@app.command()
@command
def train(
    recipe: Annotated[
        str, typer.Argument(help="A recipe by name (digits, stdlib) or path (models/ocr, my/recipe.toml).")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where the model goes; default: NAME.crfqn, here.")
    ] = None,
    l1: Annotated[float | None, typer.Option(min=0, help="L1 penalty: larger means fewer weights.")] = None,
    l2: Annotated[float | None, typer.Option(min=0, help="L2 penalty: larger means smaller weights.")] = None,
    group_l1: Annotated[
        float | None, typer.Option(min=0, help="Penalty of whole features: larger means fewer of them.")
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option(help="Of flat recipes: logistic, squared-hinge or multitask-squared-hinge."),
    ] = None,
    penalty: Annotated[
        str | None,
        typer.Option(
            help="Of flat and ranking recipes: l1, elastic-net, l2, l1/l2, l1/linf or sparse-group; strengths of the "
            "recipe that it does not have are left out."
        ),
    ] = None,
    tol: Annotated[
        float | None, typer.Option(min=0, help="Stop at this certified relative distance from the optimum.")
    ] = None,
    max_iter: Annotated[int | None, typer.Option(min=1, help="Stop after so many iterations.")] = None,
    max_time: Annotated[float | None, typer.Option(min=0, help="Stop after so many seconds.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads; default: all cores.")] = None,
    quiet: QuietOption = False,
) -> int:
    """Train a model from a recipe; options override what the recipe says.

    Ctrl-C keeps the best model so far.
    """
    from crfqn.cli.training import train

    settings = {
        "l1": l1,
        "l2": l2,
        "group_l1": group_l1,
        "loss": loss,
        "penalty": penalty,
        "tol": tol,
        "max_iter": max_iter,
        "n_threads": threads,
    }
    return train(recipe, output, {**settings, "max_seconds": max_time}, is_quiet=quiet)


@app.command()
@command
def path(
    recipe: Annotated[str, typer.Argument(help="A recipe, as for `crfqn train`.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Save the best model here; default: none is saved.")
    ] = None,
    values: Annotated[int, typer.Option(min=1, help="So many values of l1, evenly on a log scale.")] = 20,
    l1: Annotated[
        float | None,
        typer.Option(
            min=0, help="The smallest l1; default: 1/100 of the largest, at which all weights are zero."
        ),
    ] = None,
    holdout: Annotated[
        float, typer.Option(min=0, max=1, help="The share of the training items that models are scored on.")
    ] = 0.1,
    cv: Annotated[
        int | None, typer.Option(min=2, help="Score by cross-validation with so many folds instead.")
    ] = None,
    patience: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many values without a better score.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the table here, as CSV.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw accuracy, non-zeros, gap and seconds here (.png, .svg, .pdf).")
    ] = None,
    l2: Annotated[float | None, typer.Option(min=0, help="L2 penalty: larger means smaller weights.")] = None,
    tol: Annotated[
        float | None,
        typer.Option(
            min=0, help="Certified relative distance of the last and the best model from the optimum."
        ),
    ] = None,
    max_time: Annotated[float | None, typer.Option(min=0, help="Stop after so many seconds.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads; default: all cores.")] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Train a recipe for many strengths of the L1 penalty, at hardly more than the cost of the last; score each.

    Ctrl-C keeps the values so far.
    """
    from crfqn.cli.path import Options, path

    options = Options(values, l1, holdout, cv, patience, max_time, csv, plot, json)
    settings = {"l2": l2, "tol": tol, "n_threads": threads}
    return path(recipe, output, settings, options, is_quiet=quiet)


@app.command()
@command
def predict(
    model: ModelArgument,
    input: Annotated[str, typer.Argument(help=f"A file, or - for standard input. {INPUT_FORMAT}")] = "-",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file instead of standard output.")
    ] = None,
    marginals: Annotated[
        bool,
        typer.Option(
            "--marginals",
            help="Add probabilities of labels, label:p, tab-separated: of all labels of a position, of the 10 most "
            "probable labels of a document.",
        ),
    ] = False,
    top: Annotated[
        int | None,
        typer.Option(
            min=1, help="So many labels of a document with their probabilities, the most probable first."
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="In a taxonomy: go down from the most probable top node as long as the most probable child "
            "has this probability, and print where that ends.",
        ),
    ] = None,
    score: Annotated[
        bool,
        typer.Option(
            "--score",
            help="The log-probability of the labels in nats: before a sequence as @log-probability TAB number, "
            "before the label of a document as number TAB label.",
        ),
    ] = False,
) -> None:
    """Label new items: one label a line; of sequences, a blank line after each item.

    Labels in the input are not used. Control characters in a label are written out, as \\x1b. Of texts every line has
    its answer: a blank one is a document without words.
    """
    from crfqn.cli.prediction import Options, predict

    predict(model, input, output, Options(marginals, score, top, threshold))


@app.command()
@command
def evaluate(
    model: ModelArgument,
    input: Annotated[
        str | None,
        typer.Argument(
            help="A labelled file, or - for standard input, in the format of `crfqn predict`; "
            "default: the test part of the data that the model was trained on. That is a dataset of `crfqn data list`, "
            "or the files of a recipe of your own, if this recipe still lies where it was and names the same files: "
            "a model file alone does not decide which files are opened."
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Measure a model on labelled items: accuracy, precision, recall and F1 of each label, log-likelihood.

    In a taxonomy also how near misses are: hierarchical and LCA F1, tree-induced error, accuracy of each level.
    """
    from crfqn.cli.evaluation import evaluate

    evaluate(model, input, as_json=json)


@app.command()
@command
def inspect(
    model: ModelArgument,
    top: Annotated[int, typer.Option(min=1, help="So many weights of each label, the largest first.")] = 5,
    label: Annotated[str | None, typer.Option(help="This label, or node of the taxonomy, only.")] = None,
    json: JsonOption = False,
) -> None:
    """Look into a model: its largest weights, transitions, sizes, settings and the data behind it."""
    from crfqn.cli.inspection import inspect

    inspect(model, top, label, as_json=json)


@data_app.command("list")
@command
def data_list(json: JsonOption = False) -> None:
    """List the datasets and say which are on this machine."""
    from crfqn.cli.data import list_all

    list_all(as_json=json)


@data_app.command("get")
@command
def data_get(name: DatasetArgument, quiet: QuietOption = False) -> None:
    """Download a dataset into the cache and check it; print where its files are."""
    from crfqn.cli.data import fetch

    fetch(name, is_quiet=quiet)


@data_app.command("verify")
@command
def data_verify(name: DatasetArgument) -> int:
    """Check a dataset on this machine against its registered checksum or content."""
    from crfqn.cli.data import verify

    return verify(name)

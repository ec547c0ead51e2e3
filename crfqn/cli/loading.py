"""Model files for the commands: the model or estimator, its recipe, and how files of new items are read for it."""

from __future__ import annotations

import codecs
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from crfqn.choices import AUTO_TOKENIZER
from crfqn.cli.output import command_files, say
from crfqn.data.file_parts import ITEM_END, Cut, read_parts
from crfqn.data.files import STANDARD_INPUT, Part, Source, read_start, shown_name
from crfqn.data.hybrid import with_dense
from crfqn.data.label_arrays import label_text
from crfqn.data.model_file import ModelFile
from crfqn.data.tokenizers import Tokenizer, find_tokenizer
from crfqn.data_options import COMMAND_LINE, OF_COLUMNS, OF_TEMPLATES
from crfqn.errors import DataError, InputError, ModelFileError, RecipeError, UnknownFeaturesWarning
from crfqn.messages import describe, named_places, shorten
from crfqn.model.answers import gives_probabilities
from crfqn.model.content import CRFSUITE_NAMING
from crfqn.model.featurizers import Featurizer
from crfqn.model.opening import MODEL_CLASSES, model_of, read_any
from crfqn.model.texts import MIN_TOKENIZER_SHARE, share_text, tokenizer_of
from crfqn.readers.labelled_items import Documents, Labeled
from crfqn.readers.registry import (
    FORMATS,
    find_format,
    first_lines,
    format_of_folder,
    formats_with,
    read,
    sniff,
    sniff_titled,
    word_rows,
)
from crfqn.recipes import Observed, load_recipe, observe, sources
from crfqn.recipes.finding import column_named
from crfqn.recipes.prepared import Origin
from crfqn.recipes.schema import Recipe, parse_recipe
from crfqn.recipes.sequences import holds_letters, pixel_map

if TYPE_CHECKING:
    from crfqn.estimators.estimator import Estimator
    from crfqn.model.item_model import ItemModel
    from crfqn.model.sequences import SequenceModel

LoadedModel: TypeAlias = "SequenceModel | ItemModel | Estimator"  # the estimator for kinds without a Model

Result = TypeVar("Result")
# Positions that numpy alone labels: it takes 3 to 13 us more for each (7 to 41 labels), and importing an estimator
# takes 2 s.
MAX_NUMPY_POSITIONS = 200_000
COLUMNS_ADVICE = "`crfqn convert --n-columns N` makes a model that knows how many come before it"


class Labeller:
    """Model of a file that labels MAX_NUMPY_POSITIONS positions with numpy alone, and further ones with compiled code.

    The labels are the same. scikit-learn and numba take as long to start as numpy takes for so many positions.
    """

    def __init__(self, path: Path) -> None:
        self._file = read_any(path)
        self._n_positions = 0
        self.is_light = self._file.kind in MODEL_CLASSES
        self.model: LoadedModel = model_of(self._file) if self.is_light else restored(self._file)

    def model_for(self, X: Any) -> LoadedModel:
        """Return the model for the next items, X."""
        if self.is_light:
            if hasattr(X, "n_positions"):
                self._n_positions += X.n_positions
            else:
                self._n_positions += X.shape[0] if hasattr(X, "shape") else sum(map(len, X))
            if self._n_positions > MAX_NUMPY_POSITIONS:
                self.model, self.is_light = restored(self._file), False
        return self.model


def restored(file: ModelFile) -> Estimator:
    """Return the estimator of a model file, of crfqn or of CRFsuite."""
    if file.metadata.get("naming") == CRFSUITE_NAMING and not file.table("settings"):  # CRFsuite's own
        from crfqn.interchange import crfsuite

        return crfsuite.read(file.path)
    from crfqn.estimators.storage import restore

    return restore(file)


def check_threshold_option(threshold: float | None, model: LoadedModel, path: Path) -> None:
    """Raise InputError for --threshold if the model has no probabilities of single labels."""
    if threshold is not None and "threshold" not in signature(model.predict).parameters:
        raise InputError(
            f"{path}: --threshold is for models with one label per item or position; this is another kind"
        )
    if threshold is not None and not gives_probabilities(model):
        raise InputError(f"{path}: --threshold is for models with probabilities, and this model has none")


def recipe_of(model: LoadedModel, path: Path) -> Recipe | None:
    """Return the recipe that a model was trained from; None if it was trained otherwise."""
    table = model.training_.get("recipe")
    if table is None:
        return None
    if not isinstance(table, dict):
        raise ModelFileError(f"{path}: its recipe is not a table")
    source = model.training_.get("recipe_source", path)
    if not isinstance(source, (str, Path)):
        raise ModelFileError(f"{path}: recipe_source: expected the name of a file, got {describe(source)}")
    return parse_recipe(table, source)


def stored_features(model: LoadedModel, recipe: Recipe | None, path: Path) -> Featurizer | None:
    """Return the features of documents that the model file holds; None for sequences, and without a recipe."""
    if recipe is None or hasattr(model, "vocabulary"):
        return None
    features = model.featurizer_
    if features is None:
        raise ModelFileError(
            f"{path}: its features cannot be read: the file has none, but its recipe requires some"
        )
    used = getattr(model, "kept_features_", ())
    if features.n_columns != model.n_features_in_ or not np.isin(used, features.columns).all():
        raise ModelFileError(f"{path}: its features are not those of its weights")
    return features


def feature_names(model: LoadedModel, path: Path) -> Mapping[int, str] | Sequence[str] | None:
    """Return the names of the features by column, those of the recipe; None if the model has the names itself."""
    recipe = recipe_of(model, path)
    features = stored_features(model, recipe, path)
    if features is not None:
        return dict(zip(features.columns.tolist(), features.names, strict=True))
    if recipe is None or recipe.features.kind != "pixel-pairs":
        return None
    return pixel_map(recipe).names if getattr(model, "vocabulary", None) is None else None


@dataclass(frozen=True)
class Input:
    """A file for a model, and how its features and labels are read."""

    source: str | None  # `-` is standard input; None: the test part of the data that the model was trained on
    format: str | None
    observe: Callable[[Origin | Part], Observed]  # reads the source, or a part of it
    cut: Cut | None = None  # how to cut it into parts; None: it is read as a whole
    encoding: str = "utf-8"
    max_item_length: int | None = None  # lines; None: the default of `read_parts`

    def parts(self, use: Callable[[Observed], Result]) -> Iterable[tuple[Part | None, Any, Result | None]]:
        """Yield each part (None for a file that is read as a whole), its data, and the value of `use` (None if the part
        has no items)."""

        def used(source: Origin | Part) -> tuple[Any, Result]:
            observed = self.observe(source)
            return observed.data, use(observed)

        if self.source is None or self.cut is None:
            observed = self.observe(self.source)
            with named_places(observed.data and observed.data.where):
                whole = use(observed)
            yield None, observed.data, whole
            return
        item_end = find_format(self.format).item_end if self.format else ITEM_END
        origin = Source(self.source, self.encoding)
        for part, result in read_parts(origin, self.cut, used, self.max_item_length, item_end):
            yield part, *(result or (None, None))


def open_input(
    model: LoadedModel,
    path: Path,
    source: str | None,
    *,
    format: str | None = None,
    encoding: str | None = None,
    keeps_blank: bool = False,
    is_labeled: bool = False,
    label: str | None = None,
    on_misaligned: str | None = None,
) -> Input:
    """Return how to read a file, standard input (-) or, for None, the test part of the model's training data.

    format : by default inferred from the file's name or first lines
    encoding : by default that of the training files, UTF-8 for JSON and CoNLL-U
    keeps_blank : whether a blank line among texts is a document without words
    is_labeled : whether labels are needed; if the model does not know the number of columns, the last one is taken as
        the label, with a message
    label : the column of the labels, by default that of the training files
    on_misaligned : what to do with misaligned spans of texts, by default as in training
    """
    recipe = recipe_of(model, path)
    if source is not None and source != STANDARD_INPUT:
        if not Path(source).exists():
            raise InputError(f"{source}: there is no such file")
        if Path(source).is_dir() and (format_of_folder(source) is None and format is None):
            raise InputError(f"{source}: a folder; expected a file")
    if recipe is not None:
        data = replace(
            recipe.data, reads_spans=is_labeled, on_misaligned=on_misaligned or recipe.data.on_misaligned
        )
        recipe = replace(recipe, data=data)
        return _input_of_recipe(model, path, recipe, source, format, encoding, keeps_blank, label)
    encoding = encoding or "utf-8"
    if source is None:
        raise InputError(f"{path}: not trained from a recipe, so it has no test data; name a labelled file")
    vocabulary = getattr(model, "vocabulary", None)
    if vocabulary is None:
        inputs = model.ANSWERS.without_names
        raise InputError(f"{path}: trained on {inputs} and without a recipe; use it from Python (crfqn.load)")
    if vocabulary.encodes_items:
        name, options = _columns_form(model, source, format, encoding, is_labeled)
    else:
        name, options = _features_form(path, source, format, encoding), {}
    if label is not None:
        _check_takes_label(label, name, find_format(name).options())
        options["label"] = label

    def observe_labeled(origin: Origin | Part) -> Observed:
        labeled: Any = read(origin, name, encoding=encoding, **options)
        return Observed(labeled.inputs, labeled.known_labels(), labeled)

    return Input(source, name, observe_labeled, _cut(name, **options), encoding)


def _columns_form(
    model: Any, source: str, format: str | None, encoding: str, is_labeled: bool
) -> tuple[str, dict[str, Any]]:
    """Return the format of a file for a model of templates without a recipe, and the options for reading the file."""
    vocabulary = model.vocabulary.source
    columns, has_more = vocabulary["columns"], vocabulary["has_more_columns"]
    usual = sources.OF_FEATURES["words"]
    lines, name = first_lines(source, encoding), format or sources.format_of_name(source)
    is_regular = has_more and len({*map(len, word_rows(lines))}) == 1
    if name is None and is_regular and not sniff_titled(lines):
        name = usual  # lines with equal numbers of columns are not sentences
    labels = {*map(label_text, model.classes_)}
    row = find_format(name or sources.format_of_columns(lines, columns, labels, usual))
    if has_more and "has_more" in row.options():
        if is_labeled:
            say(f"{shown_name(source)}: the last column is taken for the label; {COLUMNS_ADVICE}")
        return row.name, {"columns": columns, "has_more": True, "is_labeled": is_labeled}
    options = sources.column_options(row.name, columns)
    if row.is_uncut:
        options["tokenizer"] = tokenizer_of(model)
        say_share(options["tokenizer"])
        if "reads_spans" in row.options():
            options["reads_spans"] = is_labeled
    return row.name, options


def _features_form(path: Path, source: str, format: str | None, encoding: str) -> str:
    """Return the format of a file for a model of features; InputError for raw text and for columns of words."""
    if format is None:
        lines, named = first_lines(source, encoding), sources.format_of_name(source)
        is_of_words = bool(lines) and "\t" not in lines[0] and " " in lines[0].strip()
        takes, usual = formats_with("attributes"), sources.OF_FEATURES["attributes"]
        format = named if named in takes and named != usual else sniff(lines, takes)
        if format is None and named in (None, usual):
            format = usual
        if format is None or (format == usual and is_of_words):
            raise InputError(
                f"{path}: takes features (dicts or lists of each position, as crfqn.word_features makes them), "
                f"and {shown_name(source)} has columns of words; say --format crfsuite or jsonl if it has features, "
                "label it from Python (crfqn.load), or give a model of columns (crfqn train --data)"
            )
    row = find_format(format)
    if row.is_uncut:
        raise InputError(f"{path}: raw text is for models of words; this one reads attributes")
    return row.name


def _input_of_recipe(
    model: LoadedModel,
    path: Path,
    recipe: Recipe,
    source: str | None,
    format: str | None,
    encoding: str | None,
    keeps_blank: bool,
    label: str | None,
) -> Input:
    """Return how to read a file, or the test part of the recipe's data, for a model of a recipe; see `open_input`."""
    if source is None:
        check_own_files(recipe, path)
        command_files.read(sources.files_of(recipe))
    kind, columns, features = recipe.features.kind, None, stored_features(model, recipe, path)
    if features is not None:
        columns = features.columns_read
    elif kind == "windows":
        columns = recipe.features.column_names
    elif kind in OF_TEMPLATES:
        vocabulary: Any = getattr(model, "vocabulary", None)
        if vocabulary is None or not vocabulary.encodes_items:
            raise ModelFileError(
                f"{path}: the file is damaged: its recipe has templates, but its features were made without them"
            )
        columns = list(vocabulary.source["columns"])
    if kind == "pixel-pairs":
        is_whole, name = source is None or holds_letters(source), sources.OF_FEATURES[kind]
        return Input(source, name, partial(observe, recipe), None if is_whole else _cut(name))
    data, options = recipe.data, {}
    if kind in OF_COLUMNS and source is not None:
        is_stored = kind in OF_TEMPLATES or data.tokenizer == AUTO_TOKENIZER
        data = replace(
            data, tokenizer=tokenizer_of(model) if is_stored else find_tokenizer(str(data.tokenizer))
        )
        recipe = replace(recipe, data=data)
    if source is None and label is not None:
        raise InputError(f"--label {label}: expected with a file")
    if source is not None:
        lines, labels = first_lines(source, encoding or data.encoding), {*map(label_text, model.classes_)}
        name = find_format(format or sources.format_of_new(recipe, source, lines, columns, labels)).name
        if encoding is None and find_format(name).is_unicode and name != sources.format_of(recipe):
            encoding = "utf-8"
        elif encoding is None:
            _warn_of_utf8(source, data.encoding)
        separator = sources.separator_of_new(recipe, lines, columns, labels)
        encoding = encoding or data.encoding
        data = replace(data, format=name, encoding=encoding, separator=separator)
        if label is not None:
            _check_takes_label(label, name, sources.options_taken(recipe, name))
            names = _titles_of(source, name, encoding)
            data = replace(data, label=column_named("label", label, names) if names else label)
        recipe = replace(recipe, data=data)
        options = sources.reading_options(recipe, name, columns, is_new=True)
    if data.format and find_format(data.format).is_uncut:
        if columns is None:
            raise InputError(f"{path}: raw text is for models of words; this one reads {kind}")
        say_share(tokenizer_of(model))
    observed = partial(observe, recipe, features=features, keeps_blank=keeps_blank, columns=columns)
    return Input(source, data.format, observed, _cut(data.format, **options), encoding or data.encoding)


def _check_takes_label(label: str, format: str, taken: Collection[str]) -> None:
    if "label" not in taken:
        with_labels = ", ".join(name for name, row in FORMATS.items() if "label" in row.options())
        raise InputError(
            f"--label {label}: the place of the labels is fixed in the format {format}; expected one of {with_labels}"
        )


def check_own_files(recipe: Recipe, path: Path) -> None:
    """Raise InputError unless the recipe that the model was trained from still exists and names the same files.

    A model file may come from an attacker, so the file alone must not decide which data files are opened.
    """
    files = recipe.data.train, recipe.data.test, recipe.structure.taxonomy
    if recipe.data.dataset:
        return
    if recipe.source.name == COMMAND_LINE:
        raise InputError(
            f"{path}: trained on {files[0]} by --data, without a recipe; name a labelled file to evaluate on"
        )
    problem = "is not there"
    with suppress(RecipeError, OSError, ValueError):  # unreadable, or an invalid file name
        if recipe.source.is_file():
            present = load_recipe(recipe.source)
            if (present.data.train, present.data.test, present.structure.taxonomy) == files:
                return
            problem = "names other files"
    raise InputError(
        f"{path}: the recipe in it names files for training and test, {files[0]!r} and {files[1]!r}, but "
        f"{str(recipe.source)!r}, where it comes from, {problem}; name a labelled file to evaluate on"
    )


def say_share(tokenizer: Tokenizer | None) -> None:
    """Print the fraction of training tokens that a tokenizer of raw text gets right, if the fraction is too low."""
    if tokenizer is not None and tokenizer.share is not None and tokenizer.share < MIN_TOKENIZER_SHARE:
        text = share_text(tokenizer)
        say(f"{text[0].upper()}{text[1:]}.")


def _warn_of_utf8(source: str, encoding: str) -> None:
    """Warn about a file that looks like UTF-8 but is read in another encoding, that of the training files."""
    start = read_start(source)[0]
    if "utf" in codecs.lookup(Source(source, encoding).codec).name or start.isascii():
        return
    with suppress(UnicodeDecodeError):
        codecs.getincrementaldecoder("utf-8")().decode(start)  # its last character may be cut
        say(
            f"Warning: {shown_name(source)} looks like UTF-8 and is read as {encoding}, the encoding of the training "
            "files; --encoding utf-8 reads it as UTF-8"
        )


def _cut(format: str, **options: object) -> Cut | None:
    cut = find_format(format).cut if format else None
    return None if cut is None else cut(**options)


class KnownItems:
    """Counts the items of a file without a feature that the model knows: scores of only such items are meaningless."""

    def __init__(self, model: LoadedModel, path: Path, name: str, format: str | None) -> None:
        self._model, self._path, self._name, self._format = model, path, name, format
        self._n_items = self._n_unknown = 0
        self._first: object = None

    @contextmanager
    def counted(self, observed: Observed) -> Iterator[None]:
        """Count items while they are labelled, except items without positions."""
        items = observed.y or ()
        self._n_items += sum(map(bool, items)) if self._model.ANSWERS.has_positions else len(items)
        if self._first is None and observed.data is not None and not hasattr(observed.data.inputs, "tocsr"):
            self._first = next((item for item in observed.data.inputs if len(item)), None)
        with warnings.catch_warnings(record=True) as raised:
            yield
        for warning in raised:
            if isinstance(warning.message, UnknownFeaturesWarning):
                self._n_unknown += warning.message.n_items
            warnings.showwarning(warning.message, warning.category, warning.filename, warning.lineno)

    def check(self) -> None:
        """Raise InputError, with features of the model and of the file, if no item had a known feature."""
        if not 0 < self._n_items == self._n_unknown:
            return
        names, knows = feature_names(self._model, self._path) or getattr(self._model, "names", None), ""
        used = np.asarray(getattr(self._model, "kept_features_", []), int)[:3].tolist()
        if names and used:
            knows = f" (such as {', '.join(shorten(names[column]) for column in used)})"
        first = "" if self._first is None else f"; the first one is {shorten(self._first)}"
        how = "" if self._format is None else f", read as {self._format} (--format names another format)"
        raise InputError(f"{self._name}: no item has a feature that the model knows{knows}{first}{how}")


def check_labelled(
    observed: Observed, name: str, is_first: bool = True, input: Input | None = None, needs_all: bool = True
) -> None:
    """Raise InputError unless all items of a file, or of a part of it, have labels; for a table with the names of its
    columns. Positions may lack one unless it `needs_all`; readers refuse this without the option for unknown labels."""
    labels = observed.y
    if labels is None and is_first:
        columns = [] if input is None else _titles_of(input.source, input.format, input.encoding)
        has = f", its columns are {', '.join(columns):.300}; --label names the one of the labels" * bool(
            columns
        )
        raise InputError(f"{name}: has no labels to compare with{has}; `crfqn predict` labels it")
    item = 0 if labels is None else None
    if isinstance(observed.data, Documents) and labels is not None:
        item = next((i for i, label in enumerate(labels) if label in ("", [])), None)
    is_partial = isinstance(observed.data, Labeled) and any(None in labels for labels in observed.y or ())
    if needs_all and is_partial:
        place = observed.data.where(*next(iter(observed.data.labelled(""))))
        raise InputError(f"{place}: no label to compare with; expected one at each position")
    if item is not None:
        places = None if observed.data is None else observed.data.places
        place = f"{name}, item {item}" if places is None else places.where(item)
        raise InputError(f"{place}: no label to compare with")


def _titles_of(source: str | None, format: str | None, encoding: str) -> list[str]:
    """Return the names of a table's columns, if the file can be read again."""
    names = find_format(format).titles if format else None
    if source in (None, STANDARD_INPUT) or names is None:
        return []
    return names(source, first_lines(str(source), encoding))


def input_with_dense(input: Input, model: LoadedModel, path: Path, dense: Path | None) -> Input:
    """Return an input whose items are joined with the dense block of a file.

    InputError for a model with a dense block and no file, unless the items may have vectors themselves, or without a
    dense block and a file.
    """
    may_have_vectors = bool(input.format) and find_format(input.format).holds_nested
    if dense is None and (not model.n_dense_ or may_have_vectors):
        return input
    if dense is None:
        raise InputError(
            f"{path}: trained with a dense block of {model.n_dense_} columns; expected --dense FILE"
        )
    if not model.n_dense_:
        raise InputError(f"{path}: --dense: trained without a dense block")

    def observe_both(source: Origin | Part) -> Observed:
        observed = input.observe(source)
        X = with_dense(dense, observed.X)
        if X.n_dense != model.n_dense_:
            raise DataError(f"{dense}: expected {model.n_dense_} columns, as in training, got {X.n_dense}")
        return replace(observed, X=X)

    return replace(input, observe=observe_both, cut=None)

"""Lists of names as features of templates: the same in training, in loaded models and in the tagger."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from crfqn import ChainCRF, Tagger, Templates, TokenColumns, load
from crfqn.data.model_file import read_model, write_model
from crfqn.distributed.sources import Shards
from crfqn.errors import ColumnWarning, InputError, ModelFileError

CITIES = ["Rome", "New York", "st. louis"]
X = [
    ["Ann", "left", "Rome", "."],
    ["Bob", "saw", "NEW", "YORK", "and", "St.", "Louis", "."],
    ["Eve", "slept", "here", "."],
]
Y = [["O", "O", "B", "O"], ["O", "O", "B", "I", "O", "B", "I", "O"], ["O"] * 4]
NEW = [["Tom", "called", "New", "York"], ["ROME", "fell"], [], ["nothing"]]


def with_tags(items):
    return [[(word, "T" if word.istitle() else "o") for word in item] for item in items]


pytestmark = pytest.mark.filterwarnings("ignore::crfqn.errors.UnknownFeaturesWarning")


def test_names_of_the_features():
    words, both = Templates(), Templates(gazetteers={"cities": CITIES})
    without, with_lists = ([*t.fit(X).get_feature_names_out()] for t in (words, both))
    assert [name for name in with_lists if not name.startswith("cities[")] == without
    added = {*with_lists} - {*without}
    assert {"cities[0]=B", "cities[0]=I", "cities[2]=B", "cities[-1]|cities[0]=B|I"} < added
    position = both.transform(X).matrix[[2]].indices
    assert {"cities[0]=B", "cities[-1]|cities[0]=O|B"} < {with_lists[column] for column in position}


@pytest.mark.parametrize("form", [list, with_tags], ids=["words", "columns"])
@pytest.mark.parametrize(
    "settings", [{}, {"n_hashed": 512}, {"patterns": "U0:%x[0,0]\nB\n"}, {"windows": "w[0] w[-1]"}]
)
def test_models_label_with_the_features_of_training(tmp_path, form, settings):
    path = tmp_path / "m.crfqn"
    X_train, X_new = form(X), form(NEW)
    columns = ["w"] if form is list else ["w", "tag"]
    templates = Templates(columns=columns, gazetteers={"cities": CITIES, "more": ["Eve"]}, **settings)
    model = make_pipeline(templates, ChainCRF(l1=0.01)).fit(X_train, Y)
    assert [*map(list, model.predict(X_train))] == Y
    assert list(model.predict(X_new)[0]) == ["O", "O", "B", "I"]
    model[-1].save(path)
    loaded, tagger = load(path), Tagger(path)
    sequences = templates.transform(X_new)
    assert loaded.vocabulary.source["gazetteers"] == {
        "cities": ("Rome", "New York", "st. louis"),
        "more": ("Eve",),
    }
    if "n_hashed" in settings:  # a file with names has only those with weights
        found = loaded.vocabulary.encode(X_new).matrix
        assert (found != sequences.matrix).nnz == 0
    np.testing.assert_allclose(
        np.concatenate(loaded.predict_marginals(X_new)),
        np.concatenate(model[-1].predict_marginals(sequences)),
    )
    for item, labels in zip(X_new, model.predict(X_new), strict=True):
        assert tagger.tag(item) == list(labels)
    if form is list:
        assert tagger.tag("Tom called New York") == ["O", "O", "B", "I"]


def test_items_keep_their_form():
    items = TokenColumns.from_items(X, ["w"])
    templates = Templates(gazetteers={"cities": CITIES}).fit(items)
    assert items.names == ("w",)
    dicts = [[{"w": word} for word in item] for item in X]
    assert (templates.transform(items).matrix != templates.transform(dicts).matrix).nnz == 0
    with pytest.raises(InputError, match="item 0, position 0: expected a dict of texts by column"):
        templates.transform([[{"w": "Rome", "cities": "B"}]])


def test_functions_see_the_marks():
    def both(token):
        return [f"{token['w']}/{token['cities']}"]

    templates = Templates(columns=["w"], functions=[both], gazetteers={"cities": CITIES}).fit(X)
    assert {"both=Rome/B", "both=YORK/I", "both=Ann/O"} < {*templates.get_feature_names_out()}


def test_a_list_without_effect_is_reported():
    with pytest.warns(ColumnWarning, match="no entry of 'rivers' occurs in the training data"):
        Templates(gazetteers={"cities": CITIES, "rivers": ["Po"]}).fit(X)


def test_wrong_names():
    with pytest.raises(InputError, match="expected other names than those of columns, got 'w'"):
        Templates(columns=["w"], gazetteers={"w": CITIES}).fit(X)
    with pytest.raises(InputError, match="cities, entry 0: expected a name, got None"):
        Templates(gazetteers={"cities": [None]}).fit(X)
    with pytest.raises(InputError, match="expected items with a column of words, got none"):
        Templates(functions=[str], gazetteers={"cities": CITIES}).fit([[]])
    with pytest.raises(InputError, match="gazetteers: expected none with shards"):
        Shards(["train.conll"], templates=Templates(gazetteers={"cities": CITIES}))


def test_a_damaged_list_is_no_model(tmp_path):
    model = make_pipeline(Templates(gazetteers={"cities": CITIES}), ChainCRF(l1=0.1)).fit(X, Y)
    model[-1].save(tmp_path / "m.crfqn")
    file = read_model(tmp_path / "m.crfqn")
    strings = file.strings | {"gazetteer cities": [""]}
    write_model(tmp_path / "n.crfqn", file.kind, file.arrays, strings, file.metadata)
    with pytest.raises(ModelFileError, match="cities, entry 0: expected a name, got ''"):
        load(tmp_path / "n.crfqn")

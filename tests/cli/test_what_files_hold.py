"""Files that are told by how they begin, and those that a model cannot make anything of."""

import json
from typing import ClassVar

import pytest

import crfqn
from crfqn.errors import DataError
from crfqn.readers import read
from crfqn.recipes import load_recipe
from crfqn.taxonomy.reading import read_taxonomy_file

WORDS = [{"tokens": ["one", "two"], "labels": ["A", "B"]}, {"tokens": ["two", "one"], "labels": ["B", "A"]}]
FEATURES = [
    {"features": [{"x": 1.5, "w": "one"}, {"x": -2}], "labels": ["A", "B"]},
    {"features": [{"x": -1, "cap": True}], "labels": ["B"]},
]
TEXTS = [{"text": "red apple", "label": "x"}, {"text": "blue sky", "label": "y"}]
NUMBERS = "x 1:1.5 2:-.25 \ny 2:3e-1 \nx 1:2 \n"
QUICK = ("-q", "--l1", "0.01", "--threads", "1", "-o", "m.crfqn", "--data")


def lines(records):
    return "".join(f"{json.dumps(record)}\n" for record in records)


@pytest.fixture
def features_of(run, tmp_path):
    """Train on a file of this content, and return the kind of features of the model."""

    def train(content, name="data", *options):
        (tmp_path / name).write_text(content)
        run("train", *QUICK, name, *options, code=0)
        return crfqn.load(tmp_path / "m.crfqn").training_["recipe"]["features"]["kind"]

    return train


class TestFeaturesOfTheirOwnNames:
    @pytest.mark.parametrize(
        ("records", "kind"),
        [
            (FEATURES, "attributes"),
            ([{"features": [{"a": "1"}, {"b": "2"}], "labels": ["A", "B"]}], "attributes"),
            ([{"tokens": [{"a": 1}, {"b": 2}], "labels": ["A", "B"]}], "attributes"),
            ([{"features": [{"w": "1"}, {"w": "2"}], "labels": ["A", "B"]}], "words"),
            ([{"tokens": [{"w": "1"}, {"w": "2"}], "labels": ["A", "B"]}], "words"),
            (WORDS, "words"),
        ],
    )
    @pytest.mark.parametrize("as_array", [False, True])
    def test_are_recognised(self, features_of, run, records, kind, as_array):
        assert features_of(json.dumps(records) if as_array else lines(records)) == kind
        done = run("evaluate", "m.crfqn", "data")
        assert "accuracy, positions    1.0000" in done.stdout, done.stderr

    def test_where_columns_are_asked_for(self, run, tmp_path):
        (tmp_path / "a.jsonl").write_text(lines(FEATURES))
        options = ("--features", "words")
        run("train", *QUICK, "a.jsonl", *options, error="choose attributes (--features attributes)")


class TestArrays:
    @pytest.mark.parametrize("name", ["data", "data.json", "data.jsonl"])
    @pytest.mark.parametrize("indent", [None, 1])
    @pytest.mark.parametrize("records", [WORDS, FEATURES, TEXTS], ids=["words", "features", "texts"])
    def test_are_read_as_lines_are(self, tmp_path, name, indent, records):
        (tmp_path / name).write_text(json.dumps(records, indent=indent))
        (tmp_path / "lines.jsonl").write_text(lines(records))
        array, separate = read(tmp_path / name, "jsonl"), read(tmp_path / "lines.jsonl")
        assert array.labels == separate.labels
        assert array.digest() == separate.digest()

    def test_places(self, tmp_path):
        (tmp_path / "a.json").write_text(
            '\n[\n\n{"tokens": ["a"]},\n{"tokens":\n\n["b"]}, {"tokens": ["c"]}\n]\n'
        )
        places = read(tmp_path / "a.json").places
        assert [places.line(item) for item in range(3)] == [4, 5, 7]

    @pytest.mark.parametrize("indent", [None, 2])
    def test_are_labelled(self, features_of, run, tmp_path, indent):
        assert features_of(json.dumps(WORDS, indent=indent), "a.json") == "words"
        (tmp_path / "new.json").write_text(
            json.dumps([{"tokens": ["two"], "labels": ["B"]}, *WORDS], indent=indent)
        )
        assert run("predict", "m.crfqn", "new.json").stdout == "B\n\nA\nB\n\nB\nA\n\n"
        done = run("predict", "m.crfqn", "new.json", "--to", "jsonl")
        predicted = [json.loads(line)["predicted"] for line in done.stdout.splitlines()]
        assert predicted == [["B"], ["A", "B"], ["B", "A"]]
        done = run("predict", "m.crfqn", "--json", input=json.dumps(WORDS, indent=indent))
        assert [json.loads(line)["labels"] for line in done.stdout.splitlines()] == [["A", "B"], ["B", "A"]]

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("[]", "no items"), ('[{"tokens": ["a"]},\n 3]', "line 2: expected a JSON object, got 3"),
            ('[{"tokens": ["a"]}\n{"tokens": ["b"]}]', "line 2: expected a comma or ] after an object"),
            ('[{"tokens": ["a"]},\n', "line 1: expected a JSON object in the array"),
            ('[\n{"tokens": ["a"]', "line 2: expected a JSON object in the array"),
            ('[{"tokens": ["a"]}]\n{"tokens": ["b"]}\n', "line 2: expected nothing after the array"),
            ('[{"tokens": ["a"], "labels": ["A"]},\n\n{"tokens": ["a"], "labels": []}]', "line 3: expected 1 labels"),
        ],
    )  # fmt: skip
    def test_mistakes_have_their_line(self, tmp_path, content, message):
        (tmp_path / "a.json").write_text(content)
        with pytest.raises(DataError) as info:
            read(tmp_path / "a.json")
        assert message in str(info.value)


class TestTaxonomies:
    @pytest.mark.parametrize("indent", [None, 2])
    def test_a_map_of_nodes_to_their_children(self, features_of, tmp_path, indent):
        tree = {"bank": ["pay", "save"], "trip": {"road": ["drive"], "fly": None}, "other": []}
        (tmp_path / "tree.json").write_text(json.dumps(tree, indent=indent))
        found = read_taxonomy_file(tmp_path / "tree.json")
        parents = {
            name: found.names[parent] if parent >= 0 else None
            for name, parent in zip(found.names, found.parents.tolist(), strict=True)
        }
        assert parents == {
            **dict.fromkeys(("bank", "trip", "other")),
            **{"pay": "bank", "save": "bank", "road": "trip", "fly": "trip", "drive": "road"},
        }
        features_of("pay\tred apple\ndrive\tblue sky\n", "t.labels", "--taxonomy", "tree.json")
        assert set(crfqn.load(tmp_path / "m.crfqn").tree_.names) == {*parents}

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("[\n1]", "expected a JSON object of nodes and their children.*, got"),
            ('{"a": 3}', "expected a JSON object of nodes .*, got 3"),
            ('{"a": [3]}', "got 3 .*among the nodes under 'a'"),
            ('{"a": ["b"', "expected a JSON object of nodes"),
            ('{"a": ["b"], "b": ["a"]}', "tree.json: "),
            ('{"a": ["c"], "b": ["c"]}', "tree.json: "),
        ],
    )
    def test_other_json(self, tmp_path, content, message):
        (tmp_path / "tree.json").write_text(content)
        with pytest.raises(DataError, match=message):
            read_taxonomy_file(tmp_path / "tree.json")


class TestNumbersWithoutAnExtension:
    def test_are_told_by_their_first_lines(self, features_of, run, tmp_path):
        assert features_of(NUMBERS, "letter.scale") == "given"
        assert "accuracy               1.0000" in run("evaluate", "m.crfqn", "letter.scale").stdout

    def test_in_recipes(self, tmp_path, run):
        (tmp_path / "letter.scale").write_text(NUMBERS.replace(" ", "\t"))
        for kind, message in (("table", "holds"), ("text", "holds"), ("given", "")):
            (tmp_path / "r.toml").write_text(
                'name = "a"\ntitle = "A"\n[data]\ntrain = "letter.scale"\nformat = "svmlight"\n[features]\n'
                f'kind = "{kind}"\n[structure]\nkind = "flat"\n'
            )
            load_recipe(tmp_path / "r.toml")
            done = run("train", "r.toml", "-q")
            assert done.returncode == (2 if message else 0), done.stderr
            if message:
                assert 'letter.scale holds numbers as svmlight has them; use "given"' in done.stderr

    def test_texts_for_a_model_of_numbers_and_the_other_way(self, features_of, run, tmp_path):
        (tmp_path / "t.labels").write_text("x\tred apple\ny\tblue sky\n")
        features_of(NUMBERS, "n.svmlight")
        run("evaluate", "m.crfqn", "t.labels", error="t.labels: holds texts, and the model reads numbers")
        features_of("x\tred apple\ny\tblue sky\n", "t.labels")
        run("evaluate", "m.crfqn", "n.svmlight", error="holds numbers as svmlight has them, and")


class TestSetsWithoutKnownFeatures:
    """Scores of a set that a model knows nothing of say nothing."""

    CASES: ClassVar = {
        "attributes": ("A\ta:1\nB\tb:1\n\nB\tb:1\nA\ta:1\nA\ta:1\n\n", "A\tc:1\nB\td:1\n\n",
            "train.crfsuite", "new.crfsuite"),
        "texts": ("A\tred apple\nB\tblue sky\n", "A\tgreen grass\nB\tblack coal\n", "t.labels", "n.labels"),
        "numbers": ("A 1:1\nB 2:1\n", "A 3:1\nB 4:1\n", "t.svmlight", "n.svmlight"),
        "table": ("c,label\nred,A\nblue,B\n", "c,label\ngreen,A\nblack,B\n", "t.csv", "n.csv"),
    }  # fmt: skip

    @pytest.mark.parametrize("case", CASES)
    def test_are_refused_by_what_scores(self, features_of, run, tmp_path, case):
        train, new, train_name, new_name = self.CASES[case]
        features_of(train, train_name, *(("--structure", "flat") if case == "table" else ()))
        (tmp_path / new_name).write_text(new)
        for command in ("evaluate", "report"):
            message = f"{new_name}: no item has a feature that the model knows"
            run(command, "m.crfqn", new_name, error=message)
        done = run("predict", "m.crfqn", new_name)
        assert (done.returncode, "items have no feature that the model knows" in done.stderr) == (0, True)
        assert run("evaluate", "m.crfqn", train_name).returncode == 0

    def test_words_as_attributes(self, run, tmp_path, features_of):
        features_of("A\tword=a\nB\tword=b\n\nB\tword=b\nA\tword=a\n\n", "train.crfsuite")
        (tmp_path / "words.conll").write_text("a\tX\tA\nb\tY\tB\n\n")
        for options in ((), ("--format", "crfsuite")):
            done = run("evaluate", "m.crfqn", "words.conll", *options)
            assert (done.returncode, done.stdout) == (2, "")

    def test_one_item_that_is_known_is_enough(self, features_of, run, tmp_path):
        train, new, *_ = self.CASES["texts"]
        features_of(train, "t.labels")
        (tmp_path / "n.labels").write_text(new + "A\tred\n")
        assert run("evaluate", "m.crfqn", "n.labels").returncode == 0

    def test_a_model_without_weights_is_scored(self, run, tmp_path):
        (tmp_path / "t.crfsuite").write_text(self.CASES["attributes"][0])
        assert run("train", "--data", "t.crfsuite", "-q", "--l1", 1000, "-o", "m.crfqn").returncode == 0
        assert run("evaluate", "m.crfqn", "t.crfsuite").returncode == 0


class TestFeaturesForAModelWithoutRecipe:
    """Models of features that were trained in Python, or by CRFsuite, say nothing of files."""

    @pytest.fixture
    def model(self, tmp_path):
        X = [[{"a": 1}, {"b": 1}], [{"b": 1}, {"a": 1}], [{"b": 1}]]
        crfqn.ChainCRF(l1=0.01).fit(X, [["p", "q"], ["q", "p"], ["q"]]).save(tmp_path / "m.crfqn")

    ITEMS: ClassVar = [
        {"features": [{"b": 1}, {"a": 1}], "labels": ["q", "p"]},
        {"features": [{"b": 1}], "labels": ["q"]},
    ]

    @pytest.mark.parametrize("name", ["new.jsonl", "new.json", "new.txt", "-"])
    @pytest.mark.parametrize("as_array", [False, True])
    def test_are_read_as_json(self, model, run, tmp_path, name, as_array):
        content = json.dumps(self.ITEMS) if as_array else lines(self.ITEMS)
        (tmp_path / "new.txt" if name == "-" else tmp_path / name).write_text(content)
        done = run("predict", "m.crfqn", name, "--json", input=content)
        assert [json.loads(line)["labels"] for line in done.stdout.splitlines()] == [["q", "p"], ["q"]]

    def test_attributes_are_the_default(self, model, run, tmp_path):
        (tmp_path / "new").write_text("q\tb\np\ta\n")
        assert run("predict", "m.crfqn", "new").stdout.split() == ["q", "p"]

    @pytest.mark.parametrize(
        ("name", "content"),
        [("t.csv", "a,b,label\n1,2,p\n"), ("t.tsv", "p\ta\nq\tb\n"), ("t.conll", "one p\ntwo q\n")],
    )
    def test_tables_and_columns_are_refused(self, model, run, tmp_path, name, content):
        (tmp_path / name).write_text(content)
        for command in ("predict", "evaluate"):
            done = run(command, "m.crfqn", name)
            assert (done.returncode, done.stdout) == (2, "")
            assert name in done.stderr
            assert "--format crfsuite" in done.stderr
        assert run("predict", "m.crfqn", "t.tsv", "--format", "crfsuite").returncode == (
            2 if name != "t.tsv" else 0
        )


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", "[]", "a.json: no items"), ("a.json", "\n[\n]\n", "a.json: no items"),
        ("a.json", "", "a.json: empty"), ("a.jsonl", "\n\n", "a.jsonl: empty"), ("a.csv", "", "a.csv: empty"),
    ],
)  # fmt: skip
def test_files_without_items_to_train_on(run, tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    run("train", "--data", name, error=message)

"""One form of JSON for labelled items: `predict --json`, `predict --to jsonl` and the service say the same."""

import json
import math

import pytest
from command_line import run_here
from served import saved

from crfqn import Templates
from crfqn.errors import InputError
from crfqn.readers import read, write
from crfqn.readers.labelled_items import Labeled
from crfqn.service.labelling import LabelRequest, LabelService

TEXT = "Ann Lee sees New York, and Bob"
WORDS = ["Ann", "Lee", "sees", "New", "York", ",", "and", "Bob"]
LABELS = ["B-PER", "I-PER", "O", "B-LOC", "I-LOC", "O", "O", "B-PER"]
EVERYTHING = ("--marginals", "--score", "--n-best", 3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Models of words with spans, of words without, of attributes; flat ones and one of a taxonomy, on texts."""
    path = tmp_path_factory.mktemp("json")
    X = Templates(windows="w[-1] w[0]", columns=("w",)).fit_transform([[{"w": word} for word in WORDS]] * 3)
    saved(path / "spans.crfqn", X, [LABELS] * 3, scheme="IOB2")
    saved(path / "numbers.crfqn", X, [[*map(len, WORDS)]] * 3)
    saved(path / "attributes.crfqn", [[{word: 1.0} for word in WORDS]] * 3, [LABELS] * 3)
    (path / "flat.text").write_text("a\tgood day\nb\tbad day\na\tgood work\nb\tbad work\n")
    (path / "tree.text").write_text("x/a\tgood day\nx/b\tbad day\ny\tfine work\nx/b\tbad work\n")
    with pytest.MonkeyPatch.context() as patch:
        for name, structure in (("flat", "flat"), ("tree", "taxonomy")):
            options = ("--structure", structure, "--l1", 0.001, "-q", "-o", f"{name}.crfqn")
            run_here(patch, path, "train", "--data", f"{name}.text", *options, code=0)
    (path / "labelled.conll").write_text(
        "".join(f"{w} {k}\n" for w, k in zip(WORDS, LABELS, strict=True)) + "\nBob O\n"
    )
    return path


@pytest.fixture
def run(folder, here):
    return lambda *arguments, **options: here(*arguments, cwd=folder, **options)


@pytest.fixture
def predict(run):
    def predict(model, *options, text=TEXT + "\n"):
        done = run("predict", f"{model}.crfqn", *options, input=text, code=0)
        return [json.loads(line, parse_constant=pytest.fail) for line in done.stdout.splitlines()]

    return predict


def served(folder, model, item, **asked):
    request = LabelRequest.read(json.dumps({"item": item, **asked}).encode())
    return LabelService(folder / f"{model}.crfqn").answer(request, math.inf).content


def rounded(content):
    if isinstance(content, dict):
        return {key: rounded(value) for key, value in content.items()}
    if isinstance(content, list):
        return [*map(rounded, content)]
    return pytest.approx(content, abs=1e-6) if isinstance(content, float) else content


@pytest.mark.parametrize("model", ["spans", "numbers"])
@pytest.mark.parametrize("form", [("--json",), ("--to", "jsonl"), ("--to", "jsonl", "--json")])
def test_a_text_of_words(folder, predict, model, form):
    (found,) = predict(model, *form, *EVERYTHING)
    asked = {"probabilities": True, "marginals": True, "nbest": 3, "spans": model == "spans"}
    assert found == rounded(served(folder, model, TEXT, **asked))
    assert [TEXT[start:end] for start, end in zip(found["start"], found["end"], strict=True)] == WORDS
    if model == "spans":
        texts = [(s["label"], TEXT[s["start_char"] : s["end_char"]]) for s in found["spans"]]
        assert texts == [("PER", "Ann Lee"), ("LOC", "New York"), ("PER", "Bob")]
        assert found["labels"] == LABELS
    (plain,) = predict(model, *form)
    assert plain.keys() <= {"tokens", "start", "end", "labels", "spans"}
    assert all(span.items() <= sure.items() for span, sure in zip(
        plain.get("spans", ()), found.get("spans", ()), strict=True))  # fmt: skip
    assert {key: value for key, value in plain.items() if key != "spans"}.items() <= found.items()


@pytest.mark.parametrize("model", ["flat", "tree"])
@pytest.mark.parametrize("form", [("--json",), ("--to", "jsonl")])
def test_a_text_with_one_label(folder, predict, model, form):
    (found,) = predict(model, *form, "--format", "text", "--marginals", "--score", text="good day\n")
    assert found.pop("text", "good day") == "good day"
    assert found == rounded(served(folder, model, "good day", marginals=True, probabilities=True))
    assert [*found["marginals"].values()] == sorted(found["marginals"].values(), reverse=True)
    (best,) = predict(model, *form, "--format", "text", "--top", 1, text="good day\n")
    assert best["marginals"] == {found["label"]: found["marginals"][found["label"]]}


def test_a_node_that_is_probable_enough(folder, predict):
    found = [predict("tree", "--json", "--threshold", p, "--score", text="day\n")[0] for p in (0.0, 0.5, 1.0)]
    assert found[0]["label"] in ("x/a", "x/b")
    assert [one["label"] for one in found[1:]] == ["x", None]
    for one, p in zip(found, (0.0, 0.5, 1.0), strict=True):
        assert one["probability"] == pytest.approx(math.exp(one["log_probability"]), abs=1e-5)
        assert one == rounded(served(folder, "tree", "day", probabilities=True, threshold=p))
    assert found[0]["probability"] < found[1]["probability"] == found[2]["probability"] < 1


@pytest.mark.parametrize("form", [("--json",), ("--to", "jsonl")])
def test_labels_that_are_not_probable_enough(folder, predict, form):
    """No label is null, beside probabilities that are null, and a span has the least probability as a whole."""
    (all_of_it,) = predict("spans", *form, "--text", "--score")
    p = sorted(all_of_it["probabilities"])[3] + 1e-5
    (found,) = predict("spans", *form, "--text", "--score", "--threshold", p)
    expected = [
        (label, q) if q >= p else (None, None)
        for label, q in zip(all_of_it["labels"], all_of_it["probabilities"], strict=True)
    ]
    assert 0 < sum(label is None for label, _ in expected) < len(expected)
    assert [*zip(found["labels"], found["probabilities"], strict=True)] == expected
    assert found["spans"] == [span for span in all_of_it["spans"] if span["probability"] >= p]
    assert found["probability"] == all_of_it["probability"]
    assert found == rounded(served(folder, "spans", TEXT, probabilities=True, spans=True, threshold=p)) | {
        key: found[key] for key in ("text", "tokens") if key in found
    }


def test_no_label_in_json_lines(folder, predict):
    """It replaces a label by null, which is read as an unknown one."""
    line = json.dumps({"text": "day", "label": "x/a", "id": 7})
    (found,) = predict("tree", "--to", "jsonl", "--format", "jsonl", "--threshold", 1.0, text=line + "\n")
    assert found == {"text": "day", "label": None, "id": 7}
    line = json.dumps({"tokens": WORDS, "labels": LABELS})
    (found,) = predict("spans", "--to", "jsonl", "--format", "jsonl", "--threshold", 1.0, text=line + "\n")
    assert found["labels"] == [None] * len(WORDS)


def test_requests_of_thresholds(folder):
    with pytest.raises(InputError, match="threshold: expected None or a number from 0 to 1, got"):
        LabelRequest.read(b'{"item": "a", "threshold": 2}')


@pytest.mark.parametrize("options", [(), EVERYTHING])
def test_what_is_written_is_read_again(folder, run, predict, options):
    """Raw text, labelled; and a labelled file, whose labels stay beside those that are predicted."""
    for source in (("--text",), ("labelled.conll",)):
        items = predict("spans", *source, "--to", "jsonl", *options)
        assert ("predicted" in items[0]) == (source != ("--text",))
        path = folder / "written.jsonl"
        path.write_text("".join(json.dumps(item) + "\n" for item in items))
        data = read(path)
        assert data.labels[0] == LABELS
        assert [position["w"] for position in data.inputs[0]] == WORDS
        scores = json.loads(run("evaluate", "spans.crfqn", path, "--json").stdout)
        assert scores["accuracy"] == (1.0 if source == ("--text",) else 8 / 9)
        run("train", "--data", path, "--l1", 0.01, "-q", "-o", "again.crfqn", code=0)
        again = run("predict", "again.crfqn", path, "--to", "jsonl", *EVERYTHING)
        found = json.loads(again.stdout.splitlines()[0])
        assert found["labels"] == LABELS
        assert found["marginals"][0]["B-PER"] == max(found["marginals"][0].values())
        spans = [(s["label"], s["start"], s["end"]) for s in found["spans"]]
        assert spans[:2] == [("PER", 0, 2), ("LOC", 3, 5)]


def test_labels_are_of_json_s_types(predict):
    (found,) = predict("numbers", "--json")
    assert found["labels"] == [*map(len, WORDS)]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("form", [("--json",), ("--to", "jsonl")])
def test_numbers_that_json_does_not_have_are_refused(run, form):
    lines = "O\tAnn:1\n\nO\tLee:1e308\nO\tAnn:-1e308\nO\tBob:1e308\n\n"
    for options in ((), ("--marginals", "--score")):
        done = run("predict", "attributes.crfqn", *form, *options, input=lines)
        for line in done.stdout.splitlines():
            json.loads(line, parse_constant=pytest.fail)
        assert done.returncode == 0 or "finite" in done.stderr or "e+12" in done.stderr


def test_written_values_are_finite(tmp_path):
    data = Labeled([[{"a": 1.0, "b": math.nan}]], [["O"]])
    with pytest.raises(InputError, match=r"item 0: expected finite numbers, as JSON has no others"):
        write(data, tmp_path / "x.jsonl")
    assert not [*tmp_path.iterdir()]


def test_other_commands_have_null_for_what_is_no_number(folder, run):
    """The log-likelihood of labels that the model does not have is -inf."""
    (folder / "other.conll").write_text("Ann B-PER\nLee B-DOG\n")
    done = run("evaluate", "spans.crfqn", "other.conll", "--json")
    assert json.loads(done.stdout, parse_constant=pytest.fail)["log_likelihood"] is None


def test_the_estimator_says_the_same_as_the_predictor(monkeypatch, predict):
    before = predict("spans", "--json", *EVERYTHING), predict("flat", "--json", "--marginals", text="good\n")
    monkeypatch.setattr("crfqn.cli.loading.MAX_NUMPY_POSITIONS", -1)
    after = predict("spans", "--json", *EVERYTHING), predict("flat", "--json", "--marginals", text="good\n")
    assert after == before

"""Wapiti's and CRF++'s models against all labellings of short items, by the numbering that their manuals describe."""

from __future__ import annotations

import json
import random
import re
import warnings
from io import BytesIO
from itertools import pairwise, product

import numpy as np
import pytest
from command_line import run_here

from crfqn import Tagger, interchange, load
from crfqn.errors import InputError, ModelFileError

LABELS = ["N", "V", "#"]
UNIGRAMS = ["u:the", "u:dog", "u:é , x", "*01"]
RNG = random.Random(0)
STATE = {(o, k): RNG.uniform(-2, 2) for o in UNIGRAMS for k in range(3) if RNG.random() < 0.8}
PAIRS = {(i, j): RNG.uniform(-2, 2) for i in range(3) for j in range(3)}
WORDS = [["the", "dog", "é , x"], ["dog"], ["new", "the"], ["dog", "dog", "new", "the"]]  # one column
ITEMS = [[[f"u:{word}", "*01"] for word in item] for item in WORDS]


def scores_of(item, shares=None):
    """The score of each labelling; shares : of the pairs' weights, by position."""
    shares = [1.0] * len(item) if shares is None else shares

    def score(path):
        nodes = sum(
            STATE.get((name, k), 0) for k, features in zip(path, item, strict=True) for name in features
        )
        return nodes + sum(c * PAIRS[pair] for c, pair in zip(shares[1:], pairwise(path), strict=True))

    return {path: score(path) for path in product(range(3), repeat=len(item))}


def best_labels(item, shares=None):
    """The labelling with the largest score, of all."""
    scores = scores_of(item, shares)
    return [LABELS[k] for k in max(scores, key=scores.get)]


def marginals_of(item, shares=None):
    """The probabilities of the labels at each position, (positions, 3), by all labellings."""
    found = np.zeros((len(item), 3))
    for path, score in scores_of(item, shares).items():
        found[range(len(item)), path] += np.exp(score)
    return found / found.sum(axis=1, keepdims=True)


def check_labels_and_marginals(model, tmp_path, items, shares):
    """Estimator and Tagger give those of enumeration for WORDS, all of them at once and each alone."""
    model.save(tmp_path / "converted.crfqn")
    tagger = Tagger(tmp_path / "converted.crfqn")
    together = model.predict_marginals(WORDS)
    for words, item, share, one in zip(WORDS, items, shares, together, strict=True):
        assert list(model.predict([words])[0]) == tagger.tag(words) == best_labels(item, share)
        for found in (one, model.predict_marginals([words])[0], tagger.marginals(words)):
            np.testing.assert_allclose(found, marginals_of(item, share), atol=1e-12)


def net(text: str) -> bytes:
    return b"%d:%s,\n" % (len(text.encode()), text.encode())


def wapiti_model(
    kind="2#", templates=("u:%x[0,0]", "*01", "b"), bigrams=("b",), scale=1.0, last=b""
) -> bytes:
    """A model file in which `*01` and the bigram observations share the weights of pairs."""
    observations = [*UNIGRAMS, *bigrams]
    lines, number = [], 0
    for name in observations:
        if name[0] in "u*":
            lines += [(number + k, STATE[name, k]) for k in range(3) if (name, k) in STATE]
            number += 3
        if name[0] in "b*":
            share = scale / (len(bigrams) + 1)
            lines += [(number + 3 * i + j, weight * share) for (i, j), weight in PAIRS.items()]
            number += 9
    weights = b"".join(b"%d=%s\n" % (at, weight.hex().encode()) for at, weight in lines)
    parts = [b"#mdl#%s%d\n" % (kind.encode(), len(lines)), b"#rdr#%d/1/0\n" % len(templates)]
    parts += [*map(net, templates), b"#qrk#3\n", *map(net, LABELS), b"#qrk#%d\n" % len(observations)]
    return b"".join([*parts, *map(net, observations), weights, last])


NUMBERS = re.findall(rb"\n(\d+)=", wapiti_model())


def renumbered(number: bytes) -> bytes:
    """The model with another number for the first weight."""
    return wapiti_model().replace(b"\n%s=" % NUMBERS[0], b"\n%s=" % number, 1)


def wapiti_dump() -> str:
    lines = [f"{name}\t#\t{LABELS[k]}\t{weight:f}\n" for (name, k), weight in STATE.items() if name[0] == "u"]
    lines += ["\n"] + [f"b\t{LABELS[i]}\t{LABELS[j]}\t{weight:f}\n" for (i, j), weight in PAIRS.items()]
    return "".join(lines)


def crfpp_model(bigram="B", factor=2.0, templates="U:%x[0,0]\nU01\nB\n") -> str:
    names = [name.replace("u:", "U:").replace("*", "U") for name in UNIGRAMS]
    table = [STATE.get((name, k), 0.0) for name in UNIGRAMS for k in range(3)] + [
        PAIRS[divmod(n, 3)] for n in range(9)
    ]
    listed = "".join(f"{3 * n} {name}\n" for n, name in enumerate(names)) + f"12 {bigram}\n"
    weights = "".join(f"{weight / factor:.16f}\n" for weight in table)
    head = f"version: 100\ncost-factor: {factor}\nmaxid: {len(table)}\nxsize: 1\n\n"
    return head + "N\nV\n#\n\n" + templates + "\n" + listed + "\n" + weights


@pytest.fixture
def read(tmp_path):
    def read(content, **options):
        path = tmp_path / "model.txt"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return interchange.read(path, **options)

    return read


@pytest.mark.parametrize("make", [wapiti_model, wapiti_dump, crfpp_model])
def test_models_are_read_from_memory(make, read):
    content = make()
    content = content if isinstance(content, bytes) else content.encode()
    from_file = read(content)
    for source in (content, BytesIO(content)):
        model = interchange.read(source)
        assert (model.coef_ != from_file.coef_).nnz == 0
        assert model.classes_.tolist() == from_file.classes_.tolist()


class TestWapiti:
    @pytest.mark.parametrize("kind", ["2#", ""], ids=["typed", "of version 1.3"])
    def test_a_model_predicts_the_labels_of_the_largest_score(self, read, kind):
        model = read(wapiti_model(kind))
        assert [list(path) for path in model.predict(WORDS)] == [best_labels(item) for item in ITEMS]
        assert model.extra_ == {"imported_from": "wapiti", "templates": ["u:%x[0,0]", "*01", "b"]}
        assert model.classes_.tolist() == LABELS

    def test_without_bigrams_it_is_a_model_of_single_positions(self, read):
        model = read(wapiti_model("0#", scale=0.0))
        best = max(range(3), key=lambda k: STATE.get(("u:dog", k), 0) + STATE.get(("*01", k), 0))
        assert model.predict([["dog"] * 4])[0] == [LABELS[best]] * 4

    def test_a_dump(self, read):
        items = [[[name for name in position if name[0] == "u"] for position in item] for item in ITEMS]
        assert [list(path) for path in read(wapiti_dump()).predict(items)] == [
            best_labels(item) for item in items
        ]

    def test_weights_of_label_pairs_and_tokens(self, read):
        model = read(wapiti_model(templates=("u:%x[0,0]", "*01", "b:%x[0,0]"), bigrams=("b:the", "b:dog")))
        # `*01`, which is the same everywhere, has a third of the pairs' weights, and so has each of the others.
        items = zip(model.predict(WORDS), WORDS, ITEMS, strict=True)
        for found, words, item in items:
            shares = [1 / 3 + (word in ("the", "dog")) / 3 for word in words]
            assert list(found) == best_labels(item, shares=shares)
        assert model.bigram_features_["b:the", "N", "V"] == pytest.approx(PAIRS[0, 1] / 3)

    @pytest.mark.parametrize(("n_both", "n_bigram"), [(1, 2), (2, 1), (3, 2), (2, 0)])
    def test_patterns_that_stand_several_times_count_as_often(self, read, tmp_path, n_both, n_bigram):
        templates = ("u:%x[0,0]", *["*01"] * n_both, *["b"] * n_bigram)
        names = ("b",) if n_bigram else ()
        model = read(wapiti_model(templates=templates, bigrams=names))
        items = [[[f"u:{word}"] + ["*01"] * n_both for word in words] for words in WORDS]
        # `*01` and `b` have equal shares of the pairs' weights.
        shares = [[(n_both + n_bigram) / (1 + len(names))] * len(words) for words in WORDS]
        check_labels_and_marginals(model, tmp_path, items, shares)

    @pytest.mark.parametrize("n", [1, 2, 3])
    def test_patterns_of_tokens_that_stand_several_times(self, read, tmp_path, n):
        templates = ("u:%x[0,0]", "u:%x[0,0]", "*01", *["b:%x[0,0]"] * n)
        model = read(wapiti_model(templates=templates, bigrams=("b:the", "b:dog")))
        items = [[[f"u:{word}"] * 2 + ["*01"] for word in words] for words in WORDS]
        shares = [[1 / 3 + n * (word in ("the", "dog")) / 3 for word in words] for words in WORDS]
        check_labels_and_marginals(model, tmp_path, items, shares)

    def test_a_dump_with_weights_of_label_pairs_and_tokens(self, read):
        model = read(wapiti_dump().replace("b\t", "b:the\t"))
        items = [[[name for name in position if name[0] == "u"] for position in item] for item in ITEMS]
        given = [[[*names, "b:the"] for names in item] for item in items]
        assert [list(path) for path in model.predict(given)] == [best_labels(item) for item in items]
        assert model.transition_coef_.nnz == 0
        with pytest.raises(ModelFileError, match="without templates it is not known which"):
            read(wapiti_dump() + "b2\tN\tN\t1.0\n")

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (wapiti_model("1#"), "expected a CRF, or a maximum-entropy model; it is of type 1"),
            (wapiti_model(last=b"x"), "lines of weights instead of"),
            (wapiti_model().replace(b"#rdr#3", b"#rdr#999999999999"), "expected a length and a colon"),
            (wapiti_model().replace(b"=0x", b"=0y", 1), "expected number=weight"),
            (renumbered(b"500"), "belongs to no observation"),
            (renumbered(NUMBERS[1]), "a weight comes twice"),
            (wapiti_model().replace(b"1:N,", b"2:N,"), "does not end with a comma"),
            (wapiti_model().replace(b"5:u:the", b"5:x:the"), "another letter than u, b or"),
            (wapiti_dump() + "u:x\t#\tN\n", "line 19: expected observation"),
        ],
    )
    def test_damage(self, read, content, message):
        with pytest.raises(ModelFileError, match=message):
            read(content)


class TestCRFpp:
    def test_a_model_predicts_the_labels_of_the_largest_score(self, read):
        model = read(crfpp_model())
        assert [list(path) for path in model.predict(WORDS)] == [best_labels(item) for item in ITEMS]
        assert model.extra_["templates"] == ["U:%x[0,0]", "U01", "B"]

    @pytest.mark.parametrize("n", [1, 2, 3])
    def test_patterns_that_stand_several_times_count_as_often(self, read, tmp_path, n):
        model = read(crfpp_model(templates="U:%x[0,0]\n" * n + "U01\n" + "B\n" * n))
        items = [[[f"u:{word}"] * n + ["*01"] for word in words] for words in WORDS]  # as STATE names them
        check_labels_and_marginals(model, tmp_path, items, [[float(n)] * len(words) for words in WORDS])

    def test_templates_that_do_not_make_the_names_leave_a_model_of_names(self, read):
        with pytest.warns(UserWarning, match="cannot be used .no template has a feature 'U:the'"):
            model = read(crfpp_model(templates="U9:%x[0,0]\nB\n"))
        items = [[["U:" + word, "U01"] for word in item] for item in WORDS]
        assert [list(path) for path in model.predict(items)] == [best_labels(item) for item in ITEMS]

    def test_weights_of_label_pairs_and_tokens(self, read):
        templates = "U:%x[0,0]\nU01\nB:%x[0,0]\n"
        model = read(crfpp_model("B:the", templates=templates))
        for found, words, item in zip(model.predict(WORDS), WORDS, ITEMS, strict=True):
            assert list(found) == best_labels(item, shares=[float(word == "the") for word in words])

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("version: 100", "version: 200", "version 200"),
            ("maxid: 21", "maxid: 22", "21 lines of weights instead of 22"),
            ("maxid: 21\n", "", "the settings lack a number: 'maxid:'"),
            ("3 U:dog", "-3 U:dog", r"line 15: .*expected a number and the name"),
            ("3 U:dog", "4 U:dog", "to no observation, or to more than one"),
            ("N\nV\n#\n", "", "no labels"),
            ("xsize: 1", "ysize: 1", "expected one of version:"),
            ("xsize: 1", "xsize: 0", "expected 1 to 10000 columns"),
        ],
    )
    def test_damage(self, read, old, new, message):
        content = crfpp_model()
        assert old in content
        with pytest.raises(ModelFileError, match=message):
            read(content.replace(old, new), format="crfpp")


CHUNKS = """version: 100
cost-factor: 1
maxid: 18
xsize: 2

B
I

U00:%x[0,0]
U01:%x[-1,1]/%x[0,1]
B

0 U00:dog
2 U00:the
4 U01:DT/NN
6 U01:_B-1/DT
8 U00:_B-1
10 U01:NN/VB
12 U00:barks
14 B

"""


def test_a_converted_model_labels_columns_on_the_command_line(tmp_path, monkeypatch):
    weights = "0 0 1 0 0 2 1 0 0 0 1 0 0 0 0 0 0 -1"
    (tmp_path / "model.txt").write_text(CHUNKS + weights.replace(" ", "\n") + "\n")

    def run(*arguments, **options):
        return run_here(monkeypatch, tmp_path, *arguments, **options)

    done = run("convert", "model.txt", "model.crfqn", "--json")
    assert (done.returncode, json.loads(done.stdout)["n_weights"]) == (0, 5)
    columns = "the DT\ndog NN\nbarks VB\n\ndog NN\n"
    done = run("predict", "model.crfqn", input=columns)
    assert (done.returncode, done.stdout) == (0, "B\nI\nB\n\nB\n\n")
    assert (
        run("predict", "model.crfqn", input=columns.replace("\n", " X\n").replace("\n X", "\n")).stdout
        == done.stdout
    )
    (tmp_path / "new.csv").write_text("w,pos\nthe,DT\ndog,NN\n")
    assert run("predict", "model.crfqn", "new.csv").stdout == "B\nI\n\n"
    assert run("convert", "model.crfqn", "model.json").returncode == 0
    again = interchange.read(tmp_path / "model.json")
    assert again.predict([[("the", "DT"), ("dog", "NN")]])[0] == ["B", "I"]


class TestColumnsThatNoTemplateUses:
    WORDS = ("the", "dog", "new")

    @pytest.fixture
    def run(self, tmp_path, monkeypatch):
        (tmp_path / "model.wapiti").write_bytes(wapiti_model())

        def run(*arguments, **options):
            return run_here(monkeypatch, tmp_path, *arguments, **options)

        assert run("convert", "model.wapiti", "model.crfqn", "-q").returncode == 0
        return run

    @pytest.fixture
    def best(self):
        return best_labels([[f"u:{word}", "*01"] for word in self.WORDS])

    @pytest.mark.parametrize("others", [(), ("N",), ("X", "V")])
    def test_they_are_kept_and_no_label(self, run, best, others):
        rows = [[word, *others] for word in self.WORDS]
        text = "".join(" ".join(row) + "\n" for row in rows) + "\n"
        assert run("predict", "model.crfqn", input=text).stdout.split() == best
        labelled = [[*row, label] for row, label in zip(rows, best, strict=True)]
        for format, separator, last in (("conll", " ", " "), ("crfpp", "\t", "\t"), ("wapiti", " ", "\t")):
            expected = "".join(f"{separator.join(row[:-1])}{last}{row[-1]}\n" for row in labelled) + "\n"
            assert run("predict", "model.crfqn", "--to", format, input=text).stdout == expected

    @pytest.mark.parametrize("others", [(), ("X",), ("X", "V")])
    def test_the_last_one_is_what_is_evaluated_against(self, run, tmp_path, best, others):
        rows = [[word, *others, label] for word, label in zip(self.WORDS, best, strict=True)]
        (tmp_path / "gold").write_text("".join(" ".join(row) + "\n" for row in rows))
        done = run("evaluate", "model.crfqn", "gold", "--json")
        assert json.loads(done.stdout)["accuracy"] == 1.0
        assert "gold: the last column is taken for the label; `crfqn convert --n-columns N`" in done.stderr
        (tmp_path / "words").write_text("the\ndog\n")
        done = run("evaluate", "model.crfqn", "words")
        assert "words, line 1: expected at least 1 columns (w) and a label, got 1: 'the'" in done.stderr

    def test_their_number_may_be_said(self, run, tmp_path, best):
        assert run("convert", "model.wapiti", "two.crfqn", "-q", "--n-columns", 2).returncode == 0
        rows = [f"{word} X" for word in self.WORDS]
        given, expected = ("".join(f"{row} {label}\n" for row, label in zip(rows, labels, strict=True))
                           for labels in ("NVN", best))  # fmt: skip
        done = run("predict", "two.crfqn", "--to", "conll", input=given)
        assert (done.stdout, done.stderr) == (expected, "")
        (tmp_path / "gold").write_text(expected)
        done = run("evaluate", "two.crfqn", "gold", "--json")
        assert (json.loads(done.stdout)["accuracy"], done.stderr) == (1.0, "")
        done = run("predict", "two.crfqn", input="the X N Y\n")
        assert "expected 2 columns (w, pos) and perhaps a label, got 4" in done.stderr

    @pytest.mark.parametrize("content", [wapiti_model(), crfpp_model()], ids=["wapiti", "crf++"])
    def test_in_python(self, read, tmp_path, content):
        model = read(content)
        for name in ("model.crfqn", "model.json"):
            interchange.write(model, tmp_path / name)
        models = [model, load(tmp_path / "model.crfqn"), interchange.read(tmp_path / "model.json")]
        wide = [[(word, "X", "N") for word in item] for item in WORDS]
        for one in models:
            assert lists(one.predict(wide)) == lists(one.predict(WORDS)) == [best_labels(i) for i in ITEMS]
        assert Tagger(tmp_path / "model.crfqn").tag_items(wide) == [best_labels(item) for item in ITEMS]
        with pytest.raises(InputError, match="item 0, position 1: expected a list of 1 texts or more"):
            model.predict([[("the",), ()]])
        with pytest.raises(InputError, match="expected a list of 2 texts, one a column"):
            read(content, n_columns=2).predict(wide)
        for wrong in (0, 1.0, "2"):
            with pytest.raises(
                InputError, match="n_columns: expected 1 columns or more, which the model uses"
            ):
                read(content, n_columns=wrong)

    def test_files_without_templates_have_none(self, read, tmp_path):
        with pytest.raises(InputError, match="n_columns: expected None, as a dump has no templates"):
            read(wapiti_dump(), n_columns=2)
        interchange.write(read(wapiti_model()), tmp_path / "model.crfqn")
        with pytest.raises(InputError, match="crfqn: n_columns: expected no option"):
            interchange.read(tmp_path / "model.crfqn", n_columns=2)


def lists(paths):
    return [list(path) for path in paths]


@pytest.mark.parametrize("whole", [wapiti_model(), wapiti_dump().encode(), crfpp_model().encode()])
def test_changed_files_are_told_or_give_a_model(read, whole):
    rng, n_read = random.Random(1), 0
    for _ in range(150):
        changed = bytearray(whole[: rng.randrange(len(whole))] if rng.random() < 0.3 else whole)
        for _ in range(rng.randint(1, 3)):
            if changed:
                changed[rng.randrange(len(changed))] = rng.choice(b"0129:#,=\n\t\xff-eub*")
        for name in ("wapiti", "crfpp"):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)  # templates that do not fit any more
                    read(bytes(changed), format=name)
                n_read += 1
            except ModelFileError:
                pass
    assert n_read

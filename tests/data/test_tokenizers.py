"""Raw text is cut as the training data were, by what their tokens show, everywhere the same."""

import gzip
import json
import math
import os
import time
import warnings
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from command_line import run_here

from crfqn import ChainCRF, Tagger, Templates, TokenColumns, load, tokenize
from crfqn.data.templates.vocabulary import TemplateSource
from crfqn.data.tokenizers import (
    BLANK_RULES,
    CHARACTER_RULES,
    MAX_ABBREVIATIONS,
    PENN_RULES,
    TOKENIZER_NAMES,
    UNICODE_RULES,
    USUAL_ABBREVIATIONS,
    Tokenizer,
    choose_tokenizer,
    written_as,
)
from crfqn.errors import InputError, TokenWarning
from crfqn.model.texts import tokenizer_of
from crfqn.readers.conllu import read_conllu
from crfqn.service.labelling import LabelRequest, LabelService

TREEBANK = [
    "I ca n't believe Mr. Smith 's dog , but it 's here .",
    "He said : `` Do n't go '' ( again ) ; they 'll stay in the U.S. until 5:30 .",
    "Dr. Brown paid $ 1,000 to the dogs ' owner -- today ...",
    "Prices rose 3.5 % , Mr. White said .",
]
ITEMS = [sentence.split() for sentence in TREEBANK]
BY_WORDS = [s.split() for s in ("I don't know, Mr . Smith", "the well-known dog isn't here")]


def cut(text, *args):
    tokenizer = Tokenizer(*args)
    return [text[start:end] for start, end in tokenizer.spans(text)]


@pytest.mark.parametrize(("text", "expected"), [
    ("I can't believe Mr. Smith's dog", "I ca n't believe Mr. Smith 's dog"),
    ("They'll go; we've been, I'd say.", "They 'll go ; we 've been , I 'd say ."),
    ("He said: \"Don't!\" (twice)", "He said : \" Do n't ! \" ( twice )"),
    ("The U.S. firms of J. Doe, at 5:30, paid $1,000.50", "The U.S. firms of J. Doe , at 5:30 , paid $ 1,000.50"),
    ("the dogs' tails", "the dogs ' tails"),
    ("You cannot go -- I'm gonna stay...", "You can not go -- I 'm gon na stay ..."),
    ("It shouldn't've. Mr.", "It should n't 've . Mr."),
    ("don\u2019t", "do n\u2019t"),
    ("He said 'I can't go.'", "He said 'I ca n't go . '"),
    ("the dogs'. \u2018Hi\u2019\u2014or \u20ac5\u2026", "the dogs ' . \u2018 Hi \u2019 \u2014 or \u20ac 5 \u2026"),
    ("AT&T (see http://a.b/c?d=1&e=2). Me@x.org, A & B", "AT&T ( see http://a.b/c?d=1&e=2 ) . Me@x.org , A & B"),
    ("www. WWW.x.org. https://", "www . WWW.x.org . https : //"),
    ("Ph.D. theses", "Ph.D. theses"),
    ("'s", "'s"),
    ("\u00e9t\u00e9 fini.", "\u00e9t\u00e9 fini ."),
    ("", ""),
    (" \t ", ""),
])  # fmt: skip
def test_penn_treebank(text, expected):
    assert cut(text, PENN_RULES, None, frozenset(["Mr.", "Ph.D."])) == expected.split()


@pytest.mark.parametrize("rules", TOKENIZER_NAMES)
@pytest.mark.parametrize(
    "text", ["I can't, won't.", "x\u3000y  z\n", "'''", "..--``a''", "\u65e5\u672c\u8a9e! ok"]
)
def test_tokens_are_the_text_but_for_blanks(rules, text):
    spans = Tokenizer(rules).spans(text)
    assert all(start < end for start, end in spans)
    assert all(one[1] <= two[0] for one, two in pairwise(spans))
    assert "".join(text[a:b] for a, b in spans) == "".join(text.split())
    assert tokenize(text, rules) == [text[a:b] for a, b in spans]


def test_other_rules():
    with pytest.raises(InputError, match="rules: expected one of unicode, letters, blanks, penn, characters"):
        tokenize("a", "words")


@pytest.mark.parametrize(
    "piece",
    ["n't", "a'", ".", "a.", "`'", "-", "'s", "1,", "(", "\u2019", "www.(", "http://", ".'", "&", "a@"],
)
def test_time_is_linear(piece):
    def seconds(n):
        started = time.process_time()
        Tokenizer(PENN_RULES).spans(piece * n)
        return time.process_time() - started

    seconds(1000)
    assert seconds(40_000) < 2.0  # quadratic ones take minutes


@pytest.mark.parametrize(("items", "expected", "share"), [
    (ITEMS, PENN_RULES, 1.0),
    (BY_WORDS[1:], UNICODE_RULES, 1.0),
    ([["I", "don't", "know", ",", "Paris", "."], ["well-known", "facts", "!"]], UNICODE_RULES, 1.0),
    ([["Hello,", "world."], ["(no)", "punctuation's", "apart!"]], BLANK_RULES, 1.0),
    ([["10", "Main", "St.,"], ["Chicago,", "IL"]], BLANK_RULES, 1.0),
    ([list("abc"), list("ab")], CHARACTER_RULES, None),
    ([list("\u65e5\u672c\u8a9e\u3067\u3059"), list("\u65e5\u672c")], UNICODE_RULES, 1.0),
])  # fmt: skip
def test_the_choice(items, expected, share):
    found = choose_tokenizer(items)
    if expected == CHARACTER_RULES:  # of letters with blanks between nothing is better than blanks
        assert found.name == UNICODE_RULES
        return
    assert (found.name, found.share) == (expected, share)


def test_characters_where_the_data_say_so():
    words = ["ab", "cde"]
    items = [list("".join(words))]
    found = choose_tokenizer(items, [[False] * 5])
    assert (found.name, found.share) == (CHARACTER_RULES, 1.0)


def test_a_very_long_item_is_looked_at_in_part():
    started = time.process_time()
    found = choose_tokenizer([ITEMS[0] * 40_000])
    assert found.name == PENN_RULES
    assert time.process_time() - started < 2.0  # 7 s for all of it


def test_abbreviations_and_forms_are_those_of_the_data():
    found = choose_tokenizer(ITEMS)
    assert found.abbreviations == {"Mr.", "Dr.", *USUAL_ABBREVIATIONS}
    without = choose_tokenizer([["Mr", ".", "Smith", "ca", "n't"], ["bldg.", "."]]).abbreviations
    assert "Mr." not in without  # as the data part it
    assert {"bldg.", "Mrs."} <= without
    assert found.forms == ("stop",)
    noisy = choose_tokenizer([["He", "said", "."]] * 3 + [["said.", "ca", "n't", "No", "way", "No.", "5"]])
    assert "said." not in noisy.abbreviations  # most often parted
    assert "No." in noisy.abbreviations
    assert choose_tokenizer([["New York", "is"], ["big"]]).forms == ("blank",)
    assert choose_tokenizer([["a"]]).forms == ()
    many = choose_tokenizer([[f"w{i}." for i in range(2 * MAX_ABBREVIATIONS)] + ["ca", "n't"] * 9])
    assert len(many.abbreviations) <= MAX_ABBREVIATIONS + len(USUAL_ABBREVIATIONS)


@pytest.mark.parametrize("tokens", [*ITEMS, *BY_WORDS, ["(", "a", ")", '"', "b", '"'], ["l'", "homme"], []])
def test_what_is_written_has_the_tokens(tokens):
    text, spans = written_as(tokens)
    assert [text[a:b] for a, b in spans] == tokens
    known, spans = written_as(tokens, [True] * len(tokens))
    assert known == " ".join(tokens)


def test_written_as_usual():
    assert written_as(ITEMS[0])[0] == "I can't believe Mr. Smith's dog, but it's here."
    assert written_as(["He", "said", ":", '"', "no", '"', "(", "$", "5", ")"])[0] == 'He said: "no" ($5)'
    assert written_as(["l'", "homme", "d'", "or"])[0] == "l'homme d'or"
    assert written_as([*"\u65e5\u672c"])[0] == "\u65e5\u672c"
    thai = ["\u0e02\u0e49\u0e32\u0e27", "\u0e14\u0e35", "\u0e44\u0e2b\u0e21"]
    assert written_as(thai)[0] == "".join(thai)  # no blank behind marks above letters either


@pytest.mark.parametrize("stop", ["\u0964", "\u061f", "\u060c", "\u06d4", "\u1362", "\u3002", "!", "\u2026"])
def test_closing_marks_of_all_scripts_are_parted_from_words(stop):
    """Were they written apart, blanks would do as well as words, and better where one token has a mark in it."""
    items = [["\u0939\u0948", stop], ["\u0939\u093e", "\u0939\u0948", stop], ["1/2", stop]]
    assert written_as(items[0])[0] == "\u0939\u0948" + stop
    assert choose_tokenizer(items).name in (UNICODE_RULES, PENN_RULES)


def test_opening_marks_stand_before_what_follows():
    assert written_as(["\u00bf", "Qu\u00e9", "tal", "?", "A", "&", "B"])[0] == "\u00bfQu\u00e9 tal? A & B"


CONLLU = """# text = I can't go.
1\tI\tI\tPRON\t_\t_\t0\troot\t_\t_
2-3\tcan't\t_\t_\t_\t_\t_\t_\t_\t_
2\tca\tcan\tAUX\t_\t_\t1\tdep\t_\t_
3\tn't\tnot\tPART\t_\t_\t1\tdep\t_\t_
4\tgo\tgo\tVERB\t_\t_\t1\tdep\t_\tSpaceAfter=No
5\t.\t.\tPUNCT\t_\t_\t1\tdep\t_\t_

"""


def test_blanks_of_conllu(tmp_path):
    path = tmp_path / "a.conllu"
    path.write_text(CONLLU + CONLLU)
    found = read_conllu(path, ("form",)).inputs
    assert found.blanks == [True, False, True, False, True] * 2
    assert found[1:].blanks_by_item() == [[True, False, True, False, True]]
    assert (found + found).blanks == found.blanks * 2
    assert written_as(found.first_texts()[0], found.blanks_by_item()[0])[0] == "I can't go."
    path.write_text(CONLLU.replace("SpaceAfter=No", "_").replace("# text", "# other"))
    assert (
        read_conllu(path, ("form",)).inputs.blanks is None
    )  # not said: blanks everywhere else would be wrong


@pytest.mark.parametrize(("text", "blanks"), [
    ("I can't go.", [True, False, True, False, True]),
    ("I ca n't  go .", [True] * 5),
    ("I cannot go.", None),
    ("I can't go. No", None),
    ("", None),
])  # fmt: skip
def test_blanks_of_the_text_of_conllu(tmp_path, text, blanks):
    path = tmp_path / "a.conllu"
    path.write_text(CONLLU.replace("SpaceAfter=No", "_").replace("I can't go.", text, 1))
    assert read_conllu(path, ("form",)).inputs.blanks == blanks
    sentences = path.read_text() + CONLLU.replace("SpaceAfter=No", "_").replace("# text", "# other")
    path.write_text(sentences)
    assert read_conllu(path, ("form",)).inputs.blanks is None  # the second one does not say


def test_a_text_with_blanks_everywhere_is_cut_at_blanks(tmp_path):
    path = tmp_path / "a.conllu"
    told = CONLLU.replace("SpaceAfter=No", "_").replace("I can't go.", "I ca n't (go) .")
    path.write_text(told.replace("\tgo\t", "\t(go)\t", 1))
    words = read_conllu(path, ("form",)).inputs
    found = choose_tokenizer(words.first_texts(), words.blanks_by_item())
    assert (found.name, found.share) == (BLANK_RULES, 1.0)


@pytest.fixture(scope="module")
def model():
    labels = [["P" if not any(map(str.isalnum, t)) else "W" for t in item] for item in ITEMS]
    columns = TokenColumns({"w": [t for item in ITEMS for t in item]}, np.cumsum([0, *map(len, ITEMS)]))
    X = Templates().fit_transform(columns)
    return ChainCRF(l1=0.01).fit(X, labels)


TEXT = "I can't believe Mr. Smith's dog."
TOKENS = ["I", "ca", "n't", "believe", "Mr.", "Smith", "'s", "dog", "."]


def test_it_is_kept_in_the_file_and_used_everywhere(model, tmp_path, monkeypatch):
    path = tmp_path / "m.crfqn"
    model.save(path)
    assert tokenizer_of(load(path)) == tokenizer_of(model) == tokenizer_of(Tagger(path)._model)
    assert tokenizer_of(model).name == PENN_RULES
    tagger = Tagger(path)
    assert tagger.tag(TEXT) == tagger.tag(TOKENS)
    service = LabelService(path)
    answer = service.answer(LabelRequest(item=TEXT), math.inf).content
    assert answer["tokens"] == TOKENS
    assert service.describe()["tokenizer"] == PENN_RULES
    (tmp_path / "new.txt").write_text(TEXT + "\n")
    run = run_here(monkeypatch, tmp_path, "predict", "m.crfqn", "new.txt", "--format", "raw", "--json")
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["tokens"] == TOKENS


def test_of_the_command_line(tmp_path, monkeypatch):
    (tmp_path / "train.conll").write_text(
        "\n".join("".join(f"{t} {'P' if t in '.,' else 'W'}\n" for t in item) for item in ITEMS * 3)
    )
    given = ["train", "--data", "train.conll", "-o", "m.crfqn", "--quiet"]
    run = run_here(monkeypatch, tmp_path, *given)
    assert run.returncode == 0, run.stderr
    assert "raw text" not in run.stderr.lower()  # all tokens are right
    shown = json.loads(run_here(monkeypatch, tmp_path, "inspect", "m.crfqn", "--json").stdout)
    assert (shown["tokenizer"], shown["tokenizer_share"]) == (PENN_RULES, 1.0)
    assert "raw text   cut by 'penn': 100.0 %" in run_here(monkeypatch, tmp_path, "inspect", "m.crfqn").stdout
    (tmp_path / "new.txt").write_text(TEXT + "\n")
    run = run_here(monkeypatch, tmp_path, "predict", "m.crfqn", "new.txt", "--json", "--format", "raw")
    assert json.loads(run.stdout)["tokens"] == TOKENS


def test_a_low_share_is_said(tmp_path, monkeypatch):
    odd = [["@a", "#b", "re-", "do"], ["C", "++", "x=y", "z"], ["a", ".", "b!c", "?"]]
    (tmp_path / "train.conll").write_text(
        "\n".join("".join(f"{t} {'AB'[k % 2]}\n" for k, t in enumerate(item)) for item in odd * 5)
    )
    run = run_here(monkeypatch, tmp_path, "train", "--data", "train.conll", "-o", "m.crfqn")
    assert run.returncode == 0, run.stderr
    assert "Raw text is cut by the tokenizer" in run.stderr
    assert "% of the training tokens right." in run.stderr
    (tmp_path / "new.txt").write_text("a b\n")
    run = run_here(monkeypatch, tmp_path, "predict", "m.crfqn", "new.txt", "--format", "raw")
    assert "Raw text is cut by the tokenizer" in run.stderr
    tagger = Tagger(tmp_path / "m.crfqn")
    with pytest.warns(TokenWarning, match="of the training tokens right"):
        tagger.tag("a b")
    with warnings.catch_warnings():
        warnings.simplefilter("error", TokenWarning)
        tagger.tag("a b")  # once


def test_texts_in_the_place_of_tokens_are_warned_of_once(model, tmp_path):
    model.save(tmp_path / "m.crfqn")
    for one in (Tagger(tmp_path / "m.crfqn"), load(tmp_path / "m.crfqn")):
        label = one.tag if isinstance(one, Tagger) else lambda item, one=one: one.predict([item])
        with pytest.warns(TokenWarning, match="the token 'Hello world.' contains a blank"):
            label(["Hello world.", "It is."])
        with warnings.catch_warnings():
            warnings.simplefilter("error", TokenWarning)
            label(["Hello world.", "It is."])
    quiet = Tagger(tmp_path / "m.crfqn")
    with warnings.catch_warnings():
        warnings.simplefilter("error", TokenWarning)
        quiet.tag(["Mr.", "Jones", "etc."])  # the training data have tokens with a full stop


def test_a_full_stop_where_no_training_token_had_one():
    X, y = [["a", "dog"], ["the", "cat", "."]], [["D", "N"], ["D", "N", "P"]]
    model = ChainCRF(l1=0.01).fit(Templates().fit_transform(X), y)
    with pytest.warns(TokenWarning, match="the token 'dog.' ends in a full stop"):
        model.predict([["a", "dog."]])


def test_what_the_tokenizer_leaves_whole_is_not_warned_of(tmp_path):
    """Nor does the warning of tokens wait for the other one."""
    X = [["ca", "n't", "go", ".", "@a", "b!c"], ["it", "'s", "here", "#d", "e=", "f\\g"]]
    y = [["W"] * len(item) for item in X]
    y[0][3] = "P"
    ChainCRF(l1=0.01).fit(Templates().fit_transform(X), y).save(tmp_path / "m.crfqn")
    tagger = Tagger(tmp_path / "m.crfqn")
    with pytest.warns(TokenWarning) as told:
        tagger.tag("Mr. Smith of the U.S. can't go.")
    assert ["of the training tokens right" in str(one.message) for one in told] == [True]
    with pytest.warns(TokenWarning, match=r"the token 'go\.' ends in a full stop"):
        tagger.tag(["Mr.", "U.S.", "go."])


def test_wrong_settings_of_a_stored_tokenizer_are_named():
    stored = asdict(TemplateSource(("w",), shapes=("w",)))
    assert TemplateSource.from_dict(stored) == TemplateSource(("w",), shapes=("w",))
    for wrong in (
        {"tokens": "words"},
        {"token_share": 2},
        {"abbreviations": [1]},
        {"token_forms": "x"},
        {"token_forms": ["x"]},
    ):
        with pytest.raises(InputError, match=rf"templates: {next(iter(wrong))}: expected"):
            TemplateSource.from_dict(stored | wrong)


def test_where_raw_text_is_no_item_nothing_is_chosen():
    X = [[("a", "DT"), ("dog", "NN")]]
    vocabulary = Templates("U0:%x[0,0]\nU1:%x[0,1]").fit(X).vocabulary_
    assert vocabulary.takes == "columns"
    assert vocabulary.tokenizer == Tokenizer()


@pytest.mark.skipif("CRFQN_DATA" not in os.environ, reason="needs the data in CRFQN_DATA")
@pytest.mark.parametrize(("name", "tokenizer", "least"), [
    ("gum_ner/train.conll.gz", PENN_RULES, 0.99), ("conll2000/train.txt.gz", PENN_RULES, 0.99),
    ("btc/a.conll.gz", None, 0.9),
])  # fmt: skip
def test_real_data(name, tokenizer, least):
    items, item = [], []
    with gzip.open(Path(os.environ["CRFQN_DATA"]) / name, "rt", encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                item.append(line.split("\t" if "\t" in line else " ")[0])
            elif item:
                items.append(item)
                item = []
    found = choose_tokenizer(items)
    assert found.share > least
    assert tokenizer in (None, found.name)

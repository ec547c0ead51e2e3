"""Words of raw text: by Unicode's rules in all scripts, as ever in English, and by the rules that a model was trained
with."""

import json
import re

import pytest
from command_line import run_here
from hypothesis import given
from hypothesis import strategies as st

import crfqn
from crfqn import Tagger, tokenize
from crfqn.data.tokenizers import find_words
from crfqn.errors import InputError

OF_LETTERS = re.compile(
    r"(?<!\w)(?:[^\W\d_]\.){2,}(?!\w)|\w+(?:[-'\u2019]\w+|(?<=\d)[.,:](?=\d)\w+)*|[^\w\s]"
)
WHOLE = {
    "Hindi": "हिन्दी",
    "Arabic with vowels": "مُحَمَّدٌ",
    "Hebrew with points": "שָׁלוֹם",
    "Hebrew abbreviation": "צה״ל",
    "Hebrew abbreviation, ASCII": 'צה"ל',
    "Hebrew geresh": "ג'ורג",
    "decomposed": "e\u0301te\u0301",
    "Persian with a non-joiner": "می\u200cخواهم",
    "Tamil": "தமிழ்",
    "Malayalam with a joiner": "വന\u0d4d\u200d",
    "Turkish in small letters": "İstanbul".lower(),
    "Catalan": "col·lecció",
    "soft hyphen": "co\u00adoperate",
    "Korean": "한국어",
    "katakana": "カタカナ",
    "Arabic number": "١٬٢٣٤٫٥",
    "family": "👨\u200d👩\u200d👧",
    "skin tone": "👍🏽",
    "keycap": "1\ufe0f\u20e3",
    "flag of a country": "🇩🇪",
    "flag of a region": "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "English": "don't",
    "typographic apostrophe": "don\u2019t",
    "hyphen": "well-known",
    "letters with points": "U.S.",
    "Russian letters with points": "т.е.",
    "number": "1,000.5",
}


@pytest.mark.parametrize("word", WHOLE.values(), ids=WHOLE.keys())
def test_a_word_of_any_script_is_one_token(word):
    assert tokenize(word) == [word]
    assert tokenize(f"« {word} {word}»") == ["«", word, word, "»"]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("北京です", ["北", "京", "で", "す"]),
        ("สวัสดี", ["ส", "วั", "ส", "ดี"]),
        ("ខ្មែរ", ["ខ្", "មែ", "រ"]),
        ("🇩🇪🇫🇷", ["🇩🇪", "🇫🇷"]),
        ("🙂🙂", ["🙂", "🙂"]),
        ("हिन्दी,भाषा।", ["हिन्दी", ",", "भाषा", "।"]),
        ("\u200fשלום\u200f, \ufeffа", ["שלום", ",", "а"]),  # signs of direction are in no word
        ("ក\u200bខ", ["ក", "ខ"]),
        ("é.Net", ["é", ".", "Net"]),
        (" \u0301", ["\u0301"]),
        ("", []),
    ],
)
def test_where_words_end(text, tokens):
    assert tokenize(text) == tokens


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_is_cut_as_ever(text):
    assert tokenize(text) == tokenize(text, "letters") == OF_LETTERS.findall(text)


@given(st.text())
def test_tokens_are_all_of_a_text_in_its_order(text):
    at = 0
    for token in tokenize(text):
        assert token
        assert not any(map(str.isspace, token))
        skipped, at = text[at : text.index(token, at)], text.index(token, at) + len(token)
        assert not any(map(str.isalnum, skipped))
    assert not any(map(str.isalnum, text[at:]))


def test_rules_that_there_are_not():
    with pytest.raises(InputError, match=r"rules: expected one of unicode, letters, .*, got 'words'"):
        tokenize("a", "words")


@pytest.mark.parametrize("value", [None, b"a word", 3, ["a", "word"]])
def test_what_is_no_text(value):
    with pytest.raises(InputError, match="expected a text, got"):
        tokenize(value)


class TestWordsOfTexts:
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("A cat, don't: x_1 3.14", ["cat", "don", "x_1", "14"]),  # as TfidfVectorizer
            ("हिन्दी की भाषा", ["हिन्दी", "की", "भाषा"]),
            ("e\u0301te\u0301 e\u0301", ["été"]),
            ("İSTANBUL", ["i\u0307stanbul"]),
            ("co\u00adoperate", ["cooperate"]),
            ("我喜欢 カタカナ", ["我", "喜", "欢", "カタカナ"]),
        ],
    )
    def test_by_the_rules_of_unicode(self, text, words):
        assert find_words(text) == words

    def test_of_texts_that_are_cut(self):
        assert find_words("我 喜欢 , U.S.", "blanks") == ["我", "喜欢", "u.s."]
        assert find_words("हिन्दी", "letters") == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with models of Hindi: of words, of windows, of texts."""
    folder = tmp_path_factory.mktemp("hindi")
    (folder / "words.conll").write_text("हिन्दी N\nभाषा V\n\nनमस्ते V\nहिन्दी N\n\n" * 4, encoding="utf-8")
    (folder / "texts.labels").write_text(
        "hi\tहिन्दी भाषा\nen\tthe language\nzh\t我 喜欢\n" * 4, encoding="utf-8"
    )
    (folder / "line.txt").write_text("नमस्ते हिन्दी", encoding="utf-8")
    quick = ("-q", "--l1", "0.1", "--threads", "1")
    with pytest.MonkeyPatch.context() as patch:
        for data, model, *options in (
            ("words.conll", "words.crfqn"),
            (
                "words.conll",
                "windows.crfqn",
                "--features",
                "windows",
                "--templates",
                "w[0]",
                "--columns",
                "w",
            ),
            ("texts.labels", "texts.crfqn"),
            ("texts.labels", "cut.crfqn", "--words", "blanks"),
        ):
            run = run_here(patch, folder, "train", "--data", data, "-o", model, *quick, *options)
            assert run.returncode == 0, run.stderr
    return folder


class TestModels:
    """A model cuts new texts as those of its training."""

    @pytest.mark.parametrize("name", ["words.crfqn", "windows.crfqn"])
    def test_raw_text(self, folder, monkeypatch, name):
        run = run_here(monkeypatch, folder, "predict", name, "line.txt")
        assert run.stdout == "V\nN\n\n"
        run = run_here(monkeypatch, folder, "predict", name, "line.txt", "--to", "jsonl")
        assert json.loads(run.stdout)["tokens"] == tokenize("नमस्ते हिन्दी")

    def test_taggers(self, folder, tmp_path):
        crfqn.load(folder / "words.crfqn").save(tmp_path / "again.crfqn")
        for path in (folder / "words.crfqn", tmp_path / "again.crfqn"):
            assert Tagger(path).tag("नमस्ते हिन्दी") == ["V", "N"]

    def test_services(self, folder):
        pytest.importorskip("starlette")
        from crfqn.service.labelling import LabelRequest, LabelService

        service = LabelService(folder / "words.crfqn")
        answer = service.answer(LabelRequest(item="नमस्ते हिन्दी"), float("inf")).content
        assert (answer["tokens"], answer["labels"]) == (["नमस्ते", "हिन्दी"], ["V", "N"])

    def test_texts(self, folder):
        for name, text, label in (
            ("texts.crfqn", "हिन्दी", "hi"),
            ("texts.crfqn", "喜", "zh"),
            ("cut.crfqn", "喜欢", "zh"),
        ):
            assert Tagger(folder / name).tag(text) == label
        assert "हिन्दी" in crfqn.load(folder / "texts.crfqn").featurizer_.names

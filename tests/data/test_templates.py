"""Templates: integer arithmetic against names written out, pattern files, word forms, hashing, thresholds."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from template_strings import features_of, match

from crfqn.data.templates import batch as combinations
from crfqn.data.templates import patterns
from crfqn.data.templates.encoder import Encoder, Settings
from crfqn.data.templates.patterns import Macro, Pattern, View, parse_patterns
from crfqn.data.templates.vocabulary import TemplateSource, TemplateVocabulary
from crfqn.data.templates.windows import parse_windows, word_shapes
from crfqn.data.token_columns import TokenColumns
from crfqn.errors import InputError

NAMES = ["w", "pos"]
# The literals stand in the texts, too, so that names have several readings.
texts = st.sampled_from(["a", "b", "a/b", "/", "B", "_B-1", "x", "aa", "7", "Ab-3"])
rows = st.lists(texts, min_size=2, max_size=2)
items_of_rows = st.lists(st.lists(rows, max_size=6), max_size=4)
offsets = st.integers(-3, 3)
crfpp_macros = st.builds(lambda offset, column: f"%x[{offset},{column}]", offsets, st.integers(0, 1))
expressions = st.sampled_from(
    [
        "a",
        "^a",
        "b$",
        r"\d",
        r"^\u\l*$",
        ".",
        "^.?.?",
        r"\P\p*",
        r"-\D?",
        "a*b",
        r"\\",
        "",
        "$",
        "^",
        r"[",
        "_x",
    ]
)
wapiti_macros = st.one_of(
    crfpp_macros,
    st.builds(lambda offset, column: f"%X[{offset},{column}]", offsets, st.integers(0, 1)),
    st.builds(
        lambda kind, origin, offset, column, e: f'%{kind}[{origin}{offset},{column},"{e}"]',
        st.sampled_from("tmTM"),
        st.sampled_from(["", "@"]),
        offsets,
        st.integers(0, 1),
        expressions,
    ),
)
starts = st.sampled_from(["U", "U1:", "U2:", "Ua"])
literals = st.sampled_from(["/", "", "|", "a", "//"])


@st.composite
def repeated_expressions(draw):
    pieces = st.sampled_from(["a", "b", ".", r"\l", r"\A", "1", r"\d", "$"])
    elements = st.lists(st.builds(str.__add__, pieces, st.sampled_from(["", "", "*", "?", "?"])), max_size=6)
    ends = st.booleans()
    return "^" * draw(ends) + "".join(draw(elements)) + "$" * draw(ends)


def check_expression(expression: str, text: str) -> None:
    expected = match(expression, text)
    assert View("w", "m", expression).function()(text) == (expected or "")
    assert View("w", "m", expression, is_lower=True).function()(text) == (expected or "").lower()
    assert View("w", "t", expression).function()(text) == ("false" if expected is None else "true")


@st.composite
def pattern_lines(draw, macros):
    line = draw(starts)
    for number in range(draw(st.integers(0, 4))):
        line += (draw(literals) if number else "") + draw(macros)
    return line + draw(st.sampled_from(["", "/"]))


def names_of(sequences, names) -> list[list[str]]:
    """The names of the features at each position, as often as they count, sorted."""
    matrix = sequences.matrix
    found = []
    for begin, end in pairwise(matrix.indptr):
        counts = zip(matrix.indices[begin:end], matrix.data[begin:end], strict=True)
        found.append(sorted(name for column, n in counts for name in [names[column]] * int(n)))
    return found


def check(lines: list[str], train, test, is_wapiti: bool, min_count: int = 1) -> None:
    """The features of both parts are those of the strings, those of the test part as far as they are known."""
    parsed = parse_patterns("\n".join(lines), NAMES, "wapiti" if is_wapiti else "crf++")
    chosen = Settings(parsed.patterns, parsed.dialect, min_count=min_count)
    as_columns = [TokenColumns.from_items(items, NAMES) for items in (train, test)]
    encoder = Encoder.fit(chosen, as_columns[0])
    expected = features_of(lines, train, is_wapiti)
    # A name counts at a position as often as patterns give it.
    counts = Counter(name for row in expected for name in row)
    known = {name for name, n in counts.items() if n >= min_count}
    assert sorted(encoder.names()) == sorted(known)
    for encoded in (encoder, Encoder.from_names(chosen, encoder.names())):
        for items, columns in zip((train, test), as_columns, strict=True):
            wanted = [sorted(known.intersection(row) and [name for name in row if name in known]) if row else []
                      for row in features_of(lines, items, is_wapiti)]  # fmt: skip
            assert names_of(encoded.transform(columns), encoded.names()) == wanted


class TestAgainstStrings:
    @given(st.lists(pattern_lines(crfpp_macros), min_size=1, max_size=4), items_of_rows, items_of_rows)
    @settings(deadline=None, max_examples=150)
    def test_patterns_of_crfpp(self, lines, train, test):
        check(lines, train, test, is_wapiti=False)

    @given(st.lists(pattern_lines(wapiti_macros), min_size=1, max_size=3), items_of_rows, items_of_rows)
    @settings(deadline=None, max_examples=150)
    def test_patterns_of_wapiti(self, lines, train, test):
        check(lines, train, test, is_wapiti=True)

    @given(st.lists(pattern_lines(crfpp_macros), min_size=1, max_size=3), items_of_rows, st.integers(2, 3))
    @settings(deadline=None, max_examples=50)
    def test_rare_features_are_left_out(self, lines, train, min_count):
        check(lines, train, train, is_wapiti=False, min_count=min_count)

    def test_all_features_of_many_combinations_are_rare(self, monkeypatch):
        monkeypatch.setattr(combinations, "MAX_TABLE_KEYS", 10)
        items = [[[word, word] for word in text] for text in ("abcd", "dcba")]
        check(["U%x[0,0]/%x[1,0]/%x[-1,0]/%x[2,0]"], items, items, is_wapiti=False, min_count=2)

    def test_many_values_need_several_stages(self, monkeypatch):
        monkeypatch.setattr(combinations, "MAX_CODE", 1000)
        monkeypatch.setattr(combinations, "MAX_TABLE_KEYS", 30)
        rng = np.random.default_rng(0)
        items = [[[f"w{rng.integers(40)}", f"t{rng.integers(7)}"] for _ in range(8)] for _ in range(30)]
        lines = ["U0:%x[0,0]", "U1:%x[-1,0]/%x[0,0]/%x[1,0]", "U2:%x[0,0]/%x[0,1]/%x[1,1]/%x[1,0]/%x[2,1]"]
        check(lines, items[:20], items[20:], is_wapiti=False)

    @given(expressions, st.text(alphabet="aAb-3/ \\[_x", max_size=5))
    @settings(deadline=None, max_examples=300)
    def test_expressions(self, expression, text):
        check_expression(expression, text)

    @given(repeated_expressions(), st.text(alphabet="ab1$", max_size=9), st.text(alphabet="ab", max_size=120))
    @settings(deadline=None, max_examples=500)
    def test_expressions_that_repeat(self, expression, text, longer):
        check_expression(expression, text)
        if expression.count("*") < 2 and expression.count("?") < 4:  # more takes plain backtracking too long
            check_expression(expression, longer)

    @pytest.mark.parametrize(
        ("expression", "text", "match"),
        [
            ("a*a*a*a*a*a*b", "a" * 60, None),
            (".*.*.*.*.*x", "y" * 120, None),
            (".*.*.*.*.*x", "y" * 20_000 + "xy", "y" * 20_000 + "x"),
            (".?" * 60 + "x", "y" * 60, None),
            ("a*b", "a" * 20_000, None),
            # Wapiti's counter is 1 further on where an optional character is given up again.
            ("a?ab", "cabcd", "abc"),
        ],
    )
    def test_expressions_that_backtrack(self, expression, text, match):
        assert View("w", "m", expression).function()(text) == (match or "")
        assert View("w", "t", expression).function()(text) == ("false" if match is None else "true")


def test_patterns_of_label_pairs_and_tokens():
    source = TemplateSource(tuple(NAMES), "u:%x[0,0]\n*:%x[0,1]\nb\nb:%x[-1,1]\n")
    columns = TokenColumns.from_items(ITEMS, NAMES)
    fitted = Encoder.fit(source.settings(), columns)
    for vocabulary in (TemplateVocabulary(fitted, asdict(source)), source.vocabulary(fitted.names())):
        names = np.array(vocabulary.names)
        only = ["b:DT"]  # at the first position there is no pair of labels
        assert sorted(names[vocabulary.only_bigram_columns]) == only
        assert sorted(names[vocabulary.bigram_columns]) == ["*:DT", "*:NN", "*:PRP", *only]
    with pytest.raises(InputError, match="n_hashed: expected None with patterns of label pairs"):
        TemplateSource(tuple(NAMES), "U:%x[0,0]\nB:%x[0,0]", n_hashed=8).settings()


ITEMS = [[["The", "DT"], ["dog", "NN"]], [["it", "PRP"]]]


def test_features_read_as_the_tools_write_them():
    columns = TokenColumns.from_items(ITEMS, NAMES)
    parsed = parse_patterns("# words\nU00:%x[-1,0]/%x[0,0]\n\nU01:%x[2,1]\nU02\nB\n", NAMES)
    assert (parsed.n_edge_patterns, parsed.dialect) == (1, "crf++")
    encoder = Encoder.fit(Settings(parsed.patterns), columns)
    assert names_of(encoder.transform(columns), encoder.names()) == [
        ["U00:_B-1/The", "U01:_B+1", "U02"],
        ["U00:The/dog", "U01:_B+2", "U02"],
        ["U00:_B-1/it", "U01:_B+2", "U02"],
    ]
    parsed = parse_patterns('U:low=%X[0,0] # small\n*\nu:caps=%t[0,0,"^\\u"]%m[@-1,0,"..$"]\n', NAMES)
    assert (parsed.n_edge_patterns, parsed.dialect) == (1, "wapiti")
    encoder = Encoder.fit(Settings(parsed.patterns, parsed.dialect), columns)
    assert names_of(encoder.transform(columns), encoder.names()) == [
        ["*", "u:caps=trueog", "u:low=the"],
        ["*", "u:caps=falseog", "u:low=dog"],
        ["*", "u:caps=falseit", "u:low=it"],
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected at least one pattern like U00"),
        ("# only\nB\n", "expected at least one pattern"),
        ("U0:%x[0,0]\nX1:%x[0,0]", "line 2: expected a pattern that begins with U or B, got 'X1:"),
        ("U0:%x[0,2]", r"line 1: '%x\[0,2\]' asks for column 2; there are 0 to 1: w, pos"),
        ("U0:%x[0]", r"line 1: expected macros like %x\[-1,0\].* got 'U0:%x\[0\]'"),
        ("U0:%y[0,0]", r"line 1: unknown macro '%y\[0,0\]'; crf\+\+ has %x"),
        ("\nU0:%x[-9,0]", "line 2: .*expected an offset from -8 to 8"),
        ("U0\nB0:%x[0]", r"line 2: expected macros like"),
        ("u0:%t[0,0]", "line 1: .*%t and %m have an expression"),
        ('u0:%m[0,0,"*"]', r"line 1: expected a character before '\*' in the expression"),
        ('u0:%m[0,0,"a]', "line 1: expected macros like"),
        ("u0:%x[*1,0]", "line 1: .*offsets that are read from a column"),
    ],
)
def test_wrong_patterns_are_named_by_line(text, message):
    with pytest.raises(InputError, match=message):
        parse_patterns(text, NAMES)


def test_dialects():
    assert parse_patterns("U0:%x[0,0]", NAMES).dialect == "crf++"
    with pytest.raises(InputError, match="dialect: expected"):
        parse_patterns("U0", NAMES, "mallet")
    with pytest.raises(InputError, match="line 1: unknown macro"):
        parse_patterns('U0:%t[0,0,"a"]', NAMES, "crf++")


def test_order_of_items_does_not_matter():
    chosen = Settings(parse_patterns("U0:%x[0,0]/%x[1,1]\nU1:%x[0,1]", NAMES).patterns)
    one, other = (
        Encoder.fit(chosen, TokenColumns.from_items(items, NAMES)) for items in (ITEMS, ITEMS[::-1])
    )
    assert one.names() == other.names()


def test_names_of_no_template():
    with pytest.raises(InputError, match="no template has a feature 'V'"):
        Encoder.from_names(Settings((Pattern(("U",)),)), ["U", "V"])


def test_names_that_can_be_read_in_too_many_ways_are_refused(monkeypatch):
    macros = (Macro(View("w"), 0),) * 20
    for end in (("b",), ("b", "")):  # which no name has: no attempt at the literals before it is made
        literals = ("u:", *("a" * (20 - len(end))), *end)
        with pytest.raises(InputError, match="no template has a feature"):
            Encoder.from_names(Settings((Pattern(literals, macros),)), ["u:" + "a" * 60])
    monkeypatch.setattr(patterns, "MAX_READINGS", 100)
    source = TemplateSource(("w",), "U:%x[0,0]%x[1,0]%x[2,0]")
    assert len(source.vocabulary(["U:" + "a" * 12])) == 1  # 14 * 13 / 2 = 91 ways
    with pytest.raises(InputError, match="can be read in more than 100 ways as 'U:%%%'"):
        source.vocabulary(["U:" + "a" * 13])


def test_word_shapes():
    columns = TokenColumns.from_items([["McDonald's", "1,234", "--", "re-entry", "I"]], ["w"])
    encoder = Encoder.fit(Settings(word_shapes("w", around=0)), columns)
    found = [
        {name.replace("w.", "").replace("[0]", "") for name in row}
        for row in names_of(encoder.transform(columns), encoder.names())
    ]
    assert {"prefix4=McDo", "suffix1=s", "shape=XxXxxxxx'x", "runs=XxXx'x", "is-capitalized=true"} <= found[0]
    assert {"shape=d,ddd", "has-digit=true", "is-number=true", "lower=1,234"} <= found[1]
    assert "prefix3=--" not in found[2]
    assert {"is-punctuation=true", "has-hyphen=true"} <= found[2]
    assert "has-hyphen=true" in found[3]
    assert "has-digit=true" not in found[3]
    assert "is-upper=true" in found[4]
    assert not any(name.startswith("prefix2") for name in found[4])
    around = Encoder.fit(Settings(word_shapes("w")), columns).names()
    assert "w.runs[-1]=--" not in around
    assert "w.runs[-1]=-" in around


def test_forms_in_windows():
    columns = TokenColumns.from_items([["Dog", "it"]], ["w"])
    encoder = Encoder.fit(Settings(parse_windows("w.suffix3[0]|w.lower[1]", ["w"])), columns)
    assert names_of(encoder.transform(columns), encoder.names()) == [
        ["__BOS__", "w.suffix3[0]|w.lower[1]=Dog|it"],
        ["__EOS__"],
    ]
    with pytest.raises(InputError, match=r"a column 'w.ending'; there are: w, each with a form such as"):
        parse_windows("w.ending[0]", ["w"])


class TestHashing:
    PATTERNS = parse_patterns("U0:%x[0,0]/%x[-1,1]\nU1:%x[0,1]\nU2:%x[1,0]", NAMES).patterns

    def test_columns_do_not_depend_on_the_batch(self):
        encoder = Encoder.fit(Settings(self.PATTERNS, n_hashed=1 << 20), TokenColumns.from_items([], NAMES))
        both = encoder.transform(TokenColumns.from_items(ITEMS, NAMES)).matrix
        alone = encoder.transform(TokenColumns.from_items(ITEMS[1:], NAMES)).matrix
        assert both.shape == (3, 1 << 20)
        assert (both[2:] != alone).nnz == 0

    def test_features_that_differ_have_columns_that_differ(self):
        words = [[[f"w{k}", "X"]] for k in range(300)]
        columns = TokenColumns.from_items(words, NAMES)
        exact = Encoder.fit(Settings(self.PATTERNS), columns)
        hashed = Encoder.fit(Settings(self.PATTERNS, n_hashed=1 << 30), columns)
        found = np.unique(hashed.transform(columns).matrix.indices)
        assert found.size == exact.n_features
        with pytest.raises(InputError, match="hashed features have no names"):
            hashed.names()

    def test_few_columns_are_shared(self):
        columns = TokenColumns.from_items(ITEMS, NAMES)
        matrix = Encoder.fit(Settings(self.PATTERNS, n_hashed=2), columns).transform(columns).matrix
        assert matrix.sum(axis=1).tolist() == [3, 3, 3]

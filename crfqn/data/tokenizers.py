"""Tokenizers, which cut raw text into words and punctuation, and the choice of one for a training set.

"unicode" follows Unicode's word boundaries (UAX 29): marks, joiners and format characters belong to the character
before, so that a word of Hindi, of Arabic with vowels or in decomposed form stays whole, and so does an emoji of
several characters. Without a dictionary, each letter of a script that is written without blanks (Chinese characters,
hiragana, Thai, Lao, Khmer, Myanmar) is a word, and so is a run of katakana. The rules differ from the standard as the
usual corpora do: `well-known`, `U.S.`, `e.g.` are one token, and points are within a word between digits only (`3.14`,
`1,000`). A text is matched as a string of the kinds of its characters, a letter each, from `unicodedata`; ASCII
directly.

The choice is the tokenizer that gets the maximum number of training tokens right. If the data has the blanks between
tokens (CoNLL-U: `SpaceAfter=No`, multiword tokens), their text is known; otherwise it is written as usual: no blank
before closing marks, `'s` and `n't`, after opening ones, or between words of scripts without blanks. A token is right
if it begins and ends as in the training data. The module needs the standard library alone.

References
----------
Davis, Chapman (eds.): Unicode Standard Annex #29, Unicode Text Segmentation, section 4.
Marcus, Santorini, Marcinkiewicz: Building a large annotated corpus of English: the Penn Treebank. Computational
Linguistics 19, 1993; its tokenization is described by MacIntyre, 1995.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from crfqn.choices import BLANK_RULES as BLANK_RULES
from crfqn.choices import CHARACTER_RULES as CHARACTER_RULES
from crfqn.choices import LETTER_RULES as LETTER_RULES
from crfqn.choices import PENN_RULES as PENN_RULES
from crfqn.choices import TOKENIZER_NAMES as TOKENIZER_NAMES
from crfqn.choices import UNICODE_RULES as UNICODE_RULES
from crfqn.choices import WORD_CHARACTER_NGRAMS, WORD_NGRAMS
from crfqn.errors import InputError
from crfqn.messages import describe

# The pattern of ASCII, and of the rules LETTER_RULES.
TOKEN_PATTERN = re.compile(
    r"(?<!\w)(?:[^\W\d_]\.){2,}(?!\w)|\w+(?:[-'\u2019]\w+|(?<=\d)[.,:](?=\d)\w+)*|[^\w\s]"
)
WORD_PATTERN = re.compile(r"\b\w\w+\b")
WHITE_SPACE = re.compile(r"\s+")

# Names of letters each of which is a word: ideographs, hiragana, and scripts whose words need a dictionary.
SINGLE_LETTER_SCRIPTS = (
    *("CJK ", "IDEOGRAPHIC ", "TANGUT ", "NUSHU ", "KHITAN ", "HIRAGANA ", "HENTAIGANA "),
    *("THAI ", "LAO ", "KHMER ", "MYANMAR ", "TAI LE ", "NEW TAI LUE ", "TAI THAM ", "TAI VIET ", "AHOM "),
)
# Kinds by beginnings of names.
KINDS_BY_NAME = {"i": SINGLE_LETTER_SCRIPTS, "k": ("KATAKANA", "HALFWIDTH KATAKANA"), "h": ("HEBREW",)}
ZERO_WIDTH_SPACE = "\u200b"
SPECIAL_CHARACTERS = {
    "z": "\u200d",
    "w": "\u200c",
    "q": "\u00b7\u0387\u055f\u05f4\u2018\u2019\u2027\uff07",  # MidLetter and MidNumLet, without the full stops
    "p": "\u066b\u066c\u2044\uff0c\uff0e\uff1a",
}


class _Kinds(dict[int, str]):
    """Kind of a character by its number: `a` letter, `h` Hebrew letter, `k` katakana, `i` letter that is a word, `d`
    digit, `n` another number, `m` mark, `z` joiner, `w` non-joiner, `f` other format character, `r` half of a flag, `q`
    and `p` marks within words and numbers, blank for white space, `_-'".,:` themselves, `s` all else."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        name = unicodedata.name(character, "")
        is_tag = "\U000e0020" <= character <= "\U000e007f"  # of flags of regions
        kind = "f" if category == "Cf" else "s"
        if character.isspace() or character == ZERO_WIDTH_SPACE:
            kind = " "
        elif character in "_-'\".,:":
            kind = character
        elif special := [k for k, members in SPECIAL_CHARACTERS.items() if character in members]:
            kind = special[0]
        elif character.isalnum() and category == "Nd":
            kind = "d"
        elif character.isalnum():
            named = [k for k, beginnings in KINDS_BY_NAME.items() if name.startswith(beginnings)]
            kind = named[0] if named else "a" if category[0] == "L" else "n"
        elif category[0] == "M" or is_tag or "\U0001f3fb" <= character <= "\U0001f3ff":  # skin tones
            kind = "m"
        elif "\U0001f1e6" <= character <= "\U0001f1ff":
            kind = "r"
        self[code] = kind
        return kind


CHARACTER_KINDS = _Kinds()
_MARKS = "(?:f*[mwz])*"
_RUN = f"[ahdn_]{_MARKS}(?:f*[ahdn_]{_MARKS})*"
_LETTERS_WITHOUT_BLANKS = f"k{_MARKS}(?:f*k{_MARKS})*|i{_MARKS}"
TOKEN_KINDS = re.compile(
    rf"(?<![ahdn_ikmwzf])(?:[ahnik]{_MARKS}\.){{2,}}(?![ahdn_ik])"
    rf"|{_RUN}(?:[-'q]{_RUN}|(?<=d)[.,:p](?=d){_RUN}|(?<=h)\"(?=h){_RUN}|(?<=h)')*"
    rf"|{_LETTERS_WITHOUT_BLANKS}"
    rf"|r{_MARKS}(?:r{_MARKS})?"
    rf"|[^ fwz]{_MARKS}(?:(?<=z)s{_MARKS})*"
)
WORD_KINDS = re.compile(rf"[ahdn_](?:f*[ahdn_mwz])+|k[mwz]*(?:f*k{_MARKS})+|i{_MARKS}")


def find_words(text: str, rules: str = UNICODE_RULES) -> list[str]:
    """Return the words of a text that are features, in small letters: those of two or more letters, digits and marks,
    and each letter of a script without blanks; composed (NFC), without format characters such as soft hyphens.

    rules : "unicode", "letters" as of `crfqn.tokenize`, or "blanks": blank-separated pieces with a letter or digit
    """
    text = text.lower()
    if rules == BLANK_RULES:
        return [word for word in text.split() if any(map(str.isalnum, word))]
    if rules == LETTER_RULES or text.isascii():
        return WORD_PATTERN.findall(text)
    text = unicodedata.normalize("NFC", text)
    kinds = text.translate(CHARACTER_KINDS)
    if "f" in kinds:
        text = "".join(character for character, kind in zip(text, kinds, strict=True) if kind != "f")
        kinds = kinds.replace("f", "")
    return [text[match.start() : match.end()] for match in WORD_KINDS.finditer(kinds)]


def find_ngrams(rules: str, analyzer: str, smallest: int, largest: int, text: str) -> list[str]:
    """Return the n-grams of a text, `smallest` <= n <= `largest`, in small letters, as CountVectorizer finds them.

    analyzer : "word": runs of n words of `find_words`, with blanks between; "char": runs of n characters, in which any
        white space is one blank; "char_wb": those within a blank-separated piece with a blank at each end, and shorter
        pieces as a whole. Characters are composed (NFC).
    """
    if analyzer == WORD_NGRAMS:
        words = find_words(text, rules)
        if largest == 1:
            return words
        lengths = range(smallest, min(largest, len(words)) + 1)
        return [" ".join(words[i : i + n]) for n in lengths for i in range(len(words) - n + 1)]
    if analyzer == WORD_CHARACTER_NGRAMS:
        return [ngram for piece in find_pieces(text) for ngram in ngrams_of_piece(smallest, largest, piece)]
    text = WHITE_SPACE.sub(" ", _composed(text))
    lengths = range(smallest, min(largest, len(text)) + 1)
    return [text[i : i + n] for n in lengths for i in range(len(text) - n + 1)]


def find_pieces(text: str) -> list[str]:
    """Return the blank-separated pieces of a text in small letters, composed (NFC)."""
    return _composed(text).split()


def _composed(text: str) -> str:
    text = text.lower()
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def ngrams_of_piece(smallest: int, largest: int, piece: str) -> list[str]:
    """Return the n-grams of a piece with a blank at each end; the whole once if it is shorter than n."""
    padded = f" {piece} "
    lengths = range(smallest, min(largest, len(padded) - 1) + 1)
    ngrams = [padded[i : i + n] for n in lengths for i in range(len(padded) - n + 1)]
    return ngrams if largest < len(padded) else [*ngrams, padded]


MAX_TOKENS_FOR_CHOICE = 10_000  # maximum number of tokens for a choice
MAX_ABBREVIATIONS = 1000  # of the training data that a tokenizer keeps, the most frequent ones
# Forms of a token of raw text: with a blank within it, with a full stop at its end.
BLANK_WITHIN, STOP_AT_END = "blank", "stop"

Span = tuple[int, int]
# Parts of blank-separated pieces: web addresses, dots, dashes, single marks, commas and colons not between digits,
# `&` and `@` not within words, and words. Marks that are not of ASCII are read as semicolons.
PENN_PIECE = re.compile(
    r"(?i:https?://|www\.)[^\s<>\"]*[^\s<>\"'.,:;!?()\[\]{}]"
    r"|\.{2,}|-{2,}|``|''|[\[\](){}<>;#$%!?\"]|(?<!\d)[,:]|[,:](?!\d)|(?<!\w)[&@]|[&@](?!\w)"
    r"|(?:[^\s\[\](){}<>;@#$%&!?\",:.\-`']|(?<=\d)[,:](?=\d)|(?<=\w)[&@](?=\w)|\.(?!\.)|-(?!-)|`(?!`)|'(?!'))+|\S"
)
CLITIC_PATTERN = re.compile(r"(?:n['’]t|['’](?:s|m|d|ll|re|ve))$", re.IGNORECASE)
MAX_CLITIC_LENGTH = 3  # characters: n't
MAX_END_LENGTH = 3  # characters after a word: a full stop between two quotation marks
HYPHENS = "\u2010\u2011"
TWO_WORDS = dict.fromkeys(("cannot", "gonna", "gotta", "wanna", "gimme", "lemme"), 3)
TWO_WORDS |= dict.fromkeys(("'tis", "'twas", "d'ye"), 2)
# Of English: each is an abbreviation unless the training data have it without its full stop as often.
USUAL_ABBREVIATIONS = (
    *("Mr.", "Mrs.", "Ms.", "Dr.", "Prof.", "Rev.", "Hon.", "Gen.", "Col.", "Lt.", "Capt."),
    *("Sgt.", "Sen.", "Rep.", "Ph.D.", "Gov.", "St.", "Mt.", "Jr.", "Sr.", "Inc.", "Ltd."),
    *("Co.", "Corp.", "Bros.", "vs.", "etc.", "Jan.", "Feb.", "Mar.", "Apr.", "Aug.", "Sept."),
    *("Oct.", "Nov.", "Dec."),
)
INITIALS_PATTERN = re.compile(r"(?:[^\W\d_]\.)+")
LETTER_OR_DIGIT = re.compile(r"[^\W_]")
NOT_CLOSING_MARKS = frozenset("'\"/\\&#*@¿¡§¶†‡•·")  # marks that do not close a phrase
QUOTATION_MARKS = frozenset(('"', "''", "``"))


class _Marks(dict[int, str]):
    """Map from a character's code to a semicolon for a non-ASCII mark or currency sign outside words, or itself."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        is_mark = (
            (category[0] == "P" or category == "Sc")
            and CHARACTER_KINDS[code] == "s"
            and character not in HYPHENS
        )
        self[code] = ";" if (is_mark and code > 127) or character == "‘" else character
        return self[code]


MARKS_AS_SEMICOLONS = _Marks()


class Tokenizer(NamedTuple):
    """Rules by which raw text is cut.

    Attributes
    ----------
    name : {"unicode", "letters", "blanks", "penn", "characters"}
        "unicode" and "letters": as described above; "blanks": at white space; "penn": as the Penn Treebank,
        where `n't`, `'s` and other contractions and all punctuation are tokens, and a full stop is one unless it
        belongs to initials (`U.S.`) or one of the `abbreviations`; "characters": each character but white space.
    share : float, the fraction of training tokens that it gets right, None if unknown
    abbreviations : the most frequent tokens of the training data with a full stop at the end, and usual ones
    forms : those of "blank" and "stop" that the tokens of the training data have, None if unknown
    """

    name: str = UNICODE_RULES
    share: float | None = None
    abbreviations: frozenset[str] = frozenset()
    forms: tuple[str, ...] | None = None

    def spans(self, text: str) -> list[Span]:
        """Return the start and end of each token of a text, in characters, in time linear in its length."""
        if self.name == LETTER_RULES or (self.name == UNICODE_RULES and text.isascii()):
            return [match.span() for match in TOKEN_PATTERN.finditer(text)]
        if self.name == UNICODE_RULES:
            return [match.span() for match in TOKEN_KINDS.finditer(text.translate(CHARACTER_KINDS))]
        if self.name == PENN_RULES:
            marked = text if text.isascii() else text.translate(MARKS_AS_SEMICOLONS)
            return [
                span for match in PENN_PIECE.finditer(marked) for span in self._words(text, *match.span())
            ]
        return [match.span() for match in re.finditer(r"\S+" if self.name == BLANK_RULES else r"\S", text)]

    def _words(self, text: str, start: int, end: int) -> list[Span]:
        """Return the tokens of a piece: its full stop, its quotation mark and contractions are separate tokens."""
        piece, suffixes = text[start:end], []
        if len(piece) == 1 or LETTER_OR_DIGIT.search(piece) is None:
            return [(start, end)]
        for _ in range(MAX_END_LENGTH):
            is_stop = text[end - 1] == "." and not self.is_abbreviation(text[start:end])
            if end - start > 1 and (is_stop or text[end - 1] in "'’"):
                suffixes.append((end - 1, end))
                end -= 1
        while clitic := CLITIC_PATTERN.search(text, max(start + 1, end - MAX_CLITIC_LENGTH), end):
            suffixes.append((clitic.start(), end))
            end = clitic.start()
        cut = TWO_WORDS.get(text[start:end].lower())
        first = [(start, end)] if cut is None else [(start, start + cut), (start + cut, end)]
        return first + suffixes[::-1]

    def is_abbreviation(self, word: str) -> bool:
        """Return whether the full stop at the end of a word belongs to it."""
        return word in self.abbreviations or INITIALS_PATTERN.fullmatch(word) is not None


def tokenize(text: str, rules: str = UNICODE_RULES) -> list[str]:
    """Return the words and the punctuation of a text, in their order.

    Parameters
    ----------
    text : str
    rules : {"unicode", "letters", "blanks", "penn", "characters"}, default "unicode"
        "letters": a word is a run of letters and digits; marks and joiners are separate tokens; "blanks": at white
        space; "penn": as the Penn Treebank; "characters": a token each.

    Raises
    ------
    InputError
        Other rules, and anything but a text.

    Examples
    --------
    >>> tokenize("I don't live in the U.S., but in Paris.")
    ['I', "don't", 'live', 'in', 'the', 'U.S.', ',', 'but', 'in', 'Paris', '.']
    """
    if rules not in TOKENIZER_NAMES:
        raise InputError(f"rules: expected one of {', '.join(TOKENIZER_NAMES)}, got {describe(rules)}")
    if not isinstance(text, str):
        raise InputError(f"expected a text, got {describe(text)}")
    if rules == LETTER_RULES or (rules == UNICODE_RULES and text.isascii()):
        return TOKEN_PATTERN.findall(text)
    return [text[start:stop] for start, stop in Tokenizer(rules).spans(text)]


def find_tokenizer(name: str | Tokenizer) -> Tokenizer:
    """Return a tokenizer by its name, "penn" with the usual abbreviations; InputError for an unknown one."""
    if isinstance(name, Tokenizer):
        return name
    if name not in TOKENIZER_NAMES:
        raise InputError(f"tokenizer: expected one of {', '.join(TOKENIZER_NAMES)}, got {describe(name)}")
    return Tokenizer(name, abbreviations=frozenset(USUAL_ABBREVIATIONS if name == PENN_RULES else ()))


def choose_tokenizer(
    items: Sequence[Sequence[str]],
    blanks: Sequence[Sequence[bool]] | None = None,
    tokenizer: Tokenizer | None = None,
) -> Tokenizer:
    """Return the tokenizer that gets the maximum number of tokens of some items right; ties are resolved in the order
    "unicode", "blanks", "penn", "characters". `blanks` has whether a blank follows each token, if known. A given
    `tokenizer`, which has cut the items, is returned with its share and the forms of the tokens."""
    counts = Counter(token for item in items for token in item)
    ends = [
        token for token in counts if len(token) > 1 and token[-1] == "." and LETTER_OR_DIGIT.search(token)
    ]
    parted = Counter(word for item in items for word, stop in pairwise(item) if stop == ".")
    usual = [t for t in USUAL_ABBREVIATIONS if counts[t] >= parted[t[:-1]]]
    frequent = (t for t in ends if counts[t] >= parted[t[:-1]] and not INITIALS_PATTERN.fullmatch(t))
    common = sorted(frequent, key=lambda t: (-counts[t], t))
    seen = {BLANK_WITHIN: any(re.search(r"\s", token) for token in counts), STOP_AT_END: bool(ends)}
    forms = tuple(form for form, is_there in seen.items() if is_there)
    abbreviations = frozenset([*common[:MAX_ABBREVIATIONS], *usual])
    penn = Tokenizer(PENN_RULES, None, abbreviations)
    candidates = [Tokenizer(UNICODE_RULES), Tokenizer(BLANK_RULES), penn, Tokenizer(CHARACTER_RULES)]
    candidates = candidates if tokenizer is None else [tokenizer]
    step, written, n_tokens = max(1, sum(counts.values()) // MAX_TOKENS_FOR_CHOICE), [], 0
    for i in range(0, len(items), step):
        looked_at = slice(max(MAX_TOKENS_FOR_CHOICE - n_tokens, 0))  # the beginning of a very long item
        text, spans = written_as(items[i][looked_at], None if blanks is None else blanks[i][looked_at])
        written.append((text, spans))
        n_tokens += len(spans)

    def share(tokenizer: Tokenizer) -> float:
        n_right = sum(len({*spans}.intersection(tokenizer.spans(text))) for text, spans in written)
        return n_right / max(n_tokens, 1)

    shares = [*map(share, candidates)]
    best = shares.index(max(shares))
    return candidates[best]._replace(share=shares[best] if n_tokens else None, forms=forms)


def written_as(tokens: Sequence[str], blanks: Sequence[bool] | None = None) -> tuple[str, list[Span]]:
    """Return a text of these tokens, and the start and end of each in it. `blanks` has whether a blank follows each
    token; without it, there are the usual blanks: none before closing marks and clitics, none after opening marks."""
    text, is_open, was_joined = "", False, False
    spans: list[Span] = []
    for t, token in enumerate(tokens):
        if token in QUOTATION_MARKS:
            is_open = token == "``" or (token == '"' and not is_open)
            joins_left, joins_right = not is_open, is_open
        else:
            kinds = {unicodedata.category(character) for character in token}
            has_mark, is_long = token[:1] in "'’", len(token) > 1
            is_clitic = CLITIC_PATTERN.fullmatch(token) is not None or (
                has_mark and is_long and token[1].isalpha()
            )
            joins_left = is_clitic or (kinds <= {"Pe", "Pf", "Po"} and NOT_CLOSING_MARKS.isdisjoint(token))
            is_elision = is_long and token[-1] in "'’" and token[-2].isalpha()
            joins_right = kinds <= {"Ps", "Pi", "Sc"} or token in "¿¡" or is_elision
        around = tokens[t - 1].translate(CHARACTER_KINDS).rstrip("mzwf")[-1:] + token[:1].translate(
            CHARACTER_KINDS
        )
        joins = was_joined or joins_left or set(around) <= {"i", "k"}  # a script without blanks between words
        if t and (not joins if blanks is None else blanks[t - 1]):
            text += " "
        spans.append((len(text), len(text) + len(token)))
        text += token
        was_joined = joins_right
    return text, spans

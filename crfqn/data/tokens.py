"""Words and punctuation of raw text, by one set of rules for files, taggers, services and features of texts.

Words end where Unicode's rules say so (UAX 29, *Unicode Text Segmentation*, word boundaries): marks, joiners and format
characters belong to what they follow, so that a word of Hindi, of Arabic with vowels or in decomposed form stays whole,
and so does an emoji of several characters. As no dictionary is at hand, each letter of a script that is written without
blanks (Chinese characters, hiragana, Thai, Lao, Khmer, Myanmar) is a word, and a run of katakana. Where the usual
corpora differ from the standard, so do these rules: `well-known`, `U.S.`, `e.g.` are one token, and points stand within
a word between digits only (`3.14`, `1,000`).

A text is matched by the kinds of its characters, a letter each, which `unicodedata` tells; ASCII by itself.

References
----------
Davis, Chapman (eds.): Unicode Standard Annex #29, Unicode Text Segmentation, section 4.
"""

from __future__ import annotations

import re
import unicodedata

from crfqn.choices import BLANKS as BLANKS
from crfqn.choices import LETTERS as LETTERS
from crfqn.choices import UNICODE as UNICODE

# All of ASCII, and the rules of models that were trained before there were Unicode's (LETTERS).
TOKEN = re.compile(r"(?<!\w)(?:[^\W\d_]\.){2,}(?!\w)|\w+(?:[-'\u2019]\w+|(?<=\d)[.,:](?=\d)\w+)*|[^\w\s]")
WORD = re.compile(r"\b\w\w+\b")

# Names of letters, of which each is a word: ideographs, hiragana, and scripts whose words only a dictionary tells.
ALONE = (
    *("CJK ", "IDEOGRAPHIC ", "TANGUT ", "NUSHU ", "KHITAN ", "HIRAGANA ", "HENTAIGANA "),
    *("THAI ", "LAO ", "KHMER ", "MYANMAR ", "TAI LE ", "NEW TAI LUE ", "TAI THAM ", "TAI VIET ", "AHOM "),
)
JOINER, NON_JOINER, ZERO_WIDTH_SPACE = "\u200d", "\u200c", "\u200b"
WITHIN_WORDS = (
    "\u00b7\u0387\u055f\u05f4\u2018\u2019\u2027\uff07"  # MidLetter and MidNumLet, less the full stops
)
WITHIN_NUMBERS = "\u066b\u066c\u2044\uff0c\uff0e\uff1a"


class _Kinds(dict[int, str]):
    """Kind of a character by its number: `a` letter, `h` Hebrew letter, `k` katakana, `i` letter that is a word, `d`
    digit, `n` another number, `m` mark, `z` joiner, `w` non-joiner, `f` other format character, `r` half of a flag, `q`
    and `p` what stands within words and numbers, blank for white space, `_-'".,:` themselves, `s` all else."""

    def __missing__(self, code: int) -> str:
        self[code] = kind = self._kind(chr(code))
        return kind

    def _kind(self, character: str) -> str:
        category = unicodedata.category(character)
        if character.isspace() or character == ZERO_WIDTH_SPACE:
            return " "
        if character in "_-'\".,:":
            return character
        for kind, members in (("z", JOINER), ("w", NON_JOINER), ("q", WITHIN_WORDS), ("p", WITHIN_NUMBERS)):
            if character in members:
                return kind
        if character.isalnum():
            name = unicodedata.name(character, "")
            named = {"i": ALONE, "k": ("KATAKANA", "HALFWIDTH KATAKANA"), "h": ("HEBREW",)}
            if category != "Nd":
                for kind, beginnings in named.items():
                    if name.startswith(beginnings):
                        return kind
            return "d" if category == "Nd" else "a" if category[0] == "L" else "n"
        is_tag = "\U000e0020" <= character <= "\U000e007f"  # of flags of regions
        if category[0] == "M" or is_tag or "\U0001f3fb" <= character <= "\U0001f3ff":  # skin tones
            return "m"
        if "\U0001f1e6" <= character <= "\U0001f1ff":
            return "r"
        return "f" if category == "Cf" else "s"


KINDS = _Kinds()
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


def token_spans(text: str, rules: str = UNICODE) -> list[tuple[int, int]]:
    """Return where the tokens of a text begin and end, in characters; `rules`: UNICODE or LETTERS."""
    if rules == LETTERS or text.isascii():
        return [match.span() for match in TOKEN.finditer(text)]
    return [match.span() for match in TOKEN_KINDS.finditer(text.translate(KINDS))]


def find_words(text: str, rules: str = UNICODE) -> list[str]:
    """Return the words of a text that features count, in small letters: those of two or more letters, digits and marks,
    and each letter of a script without blanks; composed (NFC), without format characters such as soft hyphens.

    rules : "unicode", "letters" as of `crfqn.tokenize`, or "blanks": what blanks part and has a letter or digit in it
    """
    text = text.lower()
    if rules == BLANKS:
        return [word for word in text.split() if any(map(str.isalnum, word))]
    if rules == LETTERS or text.isascii():
        return WORD.findall(text)
    text = unicodedata.normalize("NFC", text)
    kinds = text.translate(KINDS)
    if "f" in kinds:
        text = "".join(character for character, kind in zip(text, kinds, strict=True) if kind != "f")
        kinds = kinds.replace("f", "")
    return [text[match.start() : match.end()] for match in WORD_KINDS.finditer(kinds)]

"""WordPiece as uncased BERT models do it, without a tokenizer library: text -> token numbers."""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

_LONGEST_WORD = 100  # letters; the original gives up on longer ones too
_UNKNOWN = "[UNK]"
_ASCII_WORDS = re.compile(r"[a-z0-9]+|[^\sa-z0-9]")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_REMOVED = ("Cc", "Cf", "Co")  # an unassigned character stays: it may be assigned by the Unicode of tomorrow
_CACHED_WORDS = 1 << 16
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class WordPiece:
    """The token numbers of a text in a vocabulary; words are remembered, since texts repeat them.

    >>> WordPiece(["[UNK]", "play", "##ing", "!"]).encode("Playing!")
    [1, 2, 3]
    """

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._numbers = {token: number for number, token in enumerate(vocabulary)}
        self._pieces = lru_cache(_CACHED_WORDS)(self._pieces_of)

    def encode(self, text: str) -> list[int]:
        """Return the token numbers, without [CLS] and [SEP]."""
        return [number for word in words_of(text) for number in self._pieces(word)]

    def _pieces_of(self, word: str) -> tuple[int, ...]:
        """Return the longest known beginning, then the longest known continuation, and so on."""
        unknown = (self._numbers[_UNKNOWN],)
        if len(word) > _LONGEST_WORD:
            return unknown
        found: list[int] = []
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if mark + word[start:end] in self._numbers), None)
            if end is None:
                return unknown
            found.append(self._numbers[mark + word[start:end]])
            start = end
        return tuple(found)


def words_of(text: str) -> list[str]:
    """Return the lowercase words and punctuation marks of a text, without accents.

    >>> words_of("It's a Café.")
    ['it', "'", 's', 'a', 'cafe', '.']
    """
    if text.isascii():
        return _ASCII_WORDS.findall(_CONTROLS.sub("", text).lower())
    spaced = "".join(map(_cleaned, text))
    bare = "".join(letter for letter in unicodedata.normalize("NFD", spaced) if unicodedata.category(letter) != "Mn")
    # Lowercase letter by letter: Python alone writes a final sigma differently.
    return "".join(map(_marked, bare)).split()


@lru_cache(1 << 12)
def _cleaned(letter: str) -> str:
    if letter in "\t\n\r" or (letter.isspace() and unicodedata.category(letter) != "Cc"):
        return " "
    if letter == "\ufffd" or unicodedata.category(letter) in _REMOVED:
        return ""
    return f" {letter} " if any(low <= ord(letter) <= high for low, high in _IDEOGRAPHS) else letter


@lru_cache(1 << 12)
def _marked(letter: str) -> str:
    ascii_mark = letter.isascii() and letter.isprintable() and not letter.isalnum() and letter != " "
    return f" {letter} " if ascii_mark or unicodedata.category(letter).startswith("P") else letter.lower()

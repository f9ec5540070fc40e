"""WordPiece: token for token what the tokenizers library gives, on text as people write it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knn_ue.verifying.instant import static_vectors
from knn_ue.verifying.wordpiece import WordPiece

MESSY = [
    "",
    "  \t\n ",
    "It's NOT a test!!! (really?) <b>bold</b> @user #tag_one http://t.co/a-b?c=1&d=2",
    "Café naïve Ångström ﬁne Straße İstanbul ΑΣ σας",
    "e\u0301 composed and \u00e9 ready",
    "日本語のテキスト and 中文",
    "hello😂 🤔🤔 don’t “quote” — dash… ½ ™",
    "zero\u200bwidth soft\u00adhyphen bom\ufeff null\x00 bell\x07 del\x7f no\u00a0break",
    "unaffable unbelievablyyyyyyyy antidisestablishmentarianism",
    "x" * 101,
    "x" * 100,
    "Привет мир مرحبا שלום नमस्ते ประเทศไทย 한국어",
    "$5,000.00 50% a^b `code` ~tilde |pipe| {x} \\slash",
    "\r\nline\u2028separator\u3000wide",
]


@pytest.fixture(scope="module")
def vocabulary():
    return static_vectors().tokens


@pytest.fixture(scope="module")
def reference(vocabulary):
    """The tokenizers library, set up as an uncased BERT is, on the vocabulary that ships."""
    tokenizers = pytest.importorskip("tokenizers")
    from tokenizers import models, normalizers, pre_tokenizers

    model = models.WordPiece(vocabulary._numbers, unk_token="[UNK]", max_input_chars_per_word=100)
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


@pytest.mark.parametrize("text", MESSY)
def test_messy_text_gives_the_tokens_of_the_library(text, vocabulary, reference):
    assert vocabulary.encode(text) == reference.encode(text, add_special_tokens=False).ids


@given(text=st.text(st.characters(max_codepoint=0x7E, min_codepoint=1)))
def test_any_ascii_text_gives_the_tokens_of_the_library(text, vocabulary, reference):
    assert vocabulary.encode(text) == reference.encode(text, add_special_tokens=False).ids


@given(text=st.text(st.characters(max_codepoint=0x24F, min_codepoint=0x20)))
def test_any_latin_text_gives_the_tokens_of_the_library(text, vocabulary, reference):
    assert vocabulary.encode(text) == reference.encode(text, add_special_tokens=False).ids


def test_the_longest_known_beginning_is_taken():
    tokens = WordPiece(["[UNK]", "un", "una", "##f", "##ff", "##able"])

    assert tokens.encode("unaffable") == [2, 4, 5]


def test_a_word_with_an_unknown_part_is_one_unknown_token():
    assert WordPiece(["[UNK]", "play"]).encode("plays play") == [0, 1]

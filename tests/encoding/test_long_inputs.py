"""Long texts are cut and counted; long sentences lose no word; streaming keeps its promise."""

import numpy as np
import pytest

from knn_ue.encoding.huggingface import HuggingFaceEncoder
from knn_ue.encoding.inputs import Example
from marks import slow_but
from tiny_models import FAMILIES, MAX_LENGTH, ROWS, TASKS

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

CLOSE = {"rtol": 0, "atol": 1e-5}
ODD_WORDS = ["Ada", "", "\u200b", "\x00", "😀", "שלום", "日本", "\u00ad", "went", " ", "x" * 500, "\ufffd", "."]


@pytest.mark.parametrize("family", slow_but("roberta", FAMILIES))
def test_a_long_text_is_read_up_to_the_maximal_length(tiny_model, family):
    encoder = HuggingFaceEncoder.from_pretrained(tiny_model(family, TASKS[0]), TASKS[0])

    outputs = encoder.encode(["film " * 10_000])

    encoding = encoder.tokenizer("film " * 10_000, truncation=True, max_length=MAX_LENGTH, return_tensors="pt")
    with torch.inference_mode():
        expected = encoder.model(**encoding).logits.numpy()
    np.testing.assert_allclose(outputs.logits, expected, **CLOSE)


def test_texts_that_were_cut_are_counted(tiny_model):
    encoder = HuggingFaceEncoder.from_pretrained(tiny_model("bert", TASKS[0]), TASKS[0])

    encoder.encode(["film " * 100, "a film", "film " * 31, "film " * 30])

    assert (encoder.n_truncated, encoder.n_encoded) == (2, 4)


def test_a_long_pair_loses_the_end_of_its_longer_part(tiny_model):
    encoder = HuggingFaceEncoder.from_pretrained(tiny_model("bert", TASKS[1]), TASKS[1])

    made = encoder.pieces_of([Example(("film " * 100, "was great"))])

    tokens = encoder.tokenizer.convert_ids_to_tokens(made.pieces[0].inputs["input_ids"])
    assert tokens == ["[CLS]", *["film"] * 27, "[SEP]", "was", "great", "[SEP]"]


@pytest.mark.parametrize("family", slow_but("roberta", FAMILIES))
def test_every_word_of_a_long_sentence_gets_its_row(tiny_model, family):
    encoder = HuggingFaceEncoder.from_pretrained(tiny_model(family, TASKS[2]), TASKS[2], context_words=0)
    words = [f"{word}{number}" for number in range(150) for word in ("Ada", "Turing")]

    outputs = encoder.encode([words, ["short"]])

    assert outputs.texts == (*words, "short")


@pytest.mark.parametrize("family", slow_but("roberta", FAMILIES))
def test_every_odd_word_gets_its_row(tiny_model, family):
    encoder = HuggingFaceEncoder.from_pretrained(tiny_model(family, TASKS[2]), TASKS[2], context_words=0)

    outputs = encoder.encode([ODD_WORDS, ["\u200b"], ["", ""]])

    assert outputs.texts == (*ODD_WORDS, "\u200b", "", "")
    assert np.abs(outputs.features).sum(axis=1).min() > 0


def test_a_word_without_subwords_is_read_as_the_unknown_token(tiny_model):
    encoder = HuggingFaceEncoder.from_pretrained(tiny_model("bert", TASKS[2]), TASKS[2])

    outputs = encoder.encode([["Ada", "\u200b", "went"], ["Ada", "[UNK]", "went"], [""], ["[UNK]"]])

    np.testing.assert_allclose(outputs.features[[0, 1, 2, 6]], outputs.features[[3, 4, 5, 7]], **CLOSE)


def test_the_words_of_a_window_are_what_the_model_says_of_that_window_alone(tiny_model):
    encoder = HuggingFaceEncoder.from_pretrained(tiny_model("bert", TASKS[2]), TASKS[2])
    words = ["went", "to", "in"] * 14  # 42 words, one sub-word each: two windows of 30

    outputs = encoder.encode([words])

    first, second = encoder.encode([words[:30]]), encoder.encode([words[12:]])
    # Positions 12 to 29 are in both windows; up to 20 the first leaves more context.
    np.testing.assert_allclose(outputs.features[:21], first.features[:21], **CLOSE)
    np.testing.assert_allclose(outputs.features[21:], second.features[9:], **CLOSE)


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_streaming_gives_what_encoding_all_at_once_gives(tiny_model, task):
    folder, rows = tiny_model("bert", task), ROWS[task](70)

    whole = HuggingFaceEncoder.from_pretrained(folder, task).encode(rows)
    parts = list(HuggingFaceEncoder.from_pretrained(folder, task, batch_size=1).encode_batches(iter(rows)))

    assert len(parts) == 3
    np.testing.assert_allclose(np.concatenate([part.features for part in parts]), whole.features, **CLOSE)
    np.testing.assert_array_equal(np.concatenate([part.labels for part in parts]), whole.labels)
    assert tuple(text for part in parts for text in part.texts) == whole.texts


def test_sentences_are_numbered_through_the_whole_stream(tiny_model):
    encoder = HuggingFaceEncoder.from_pretrained(tiny_model("bert", TASKS[2]), TASKS[2], batch_size=1)

    parts = list(encoder.encode_batches([["Ada"]] * 40))

    assert np.concatenate([part.groups for part in parts]).tolist() == list(range(40))


def test_streaming_reads_no_more_than_a_window_ahead(tiny_model):
    encoder = HuggingFaceEncoder.from_pretrained(tiny_model("bert", TASKS[0]), TASKS[0], batch_size=1)
    taken = []

    def rows():
        for number in range(1000):
            taken.append(number)
            yield "a film"

    next(encoder.encode_batches(rows()))

    assert len(taken) == 32


def test_progress_rises_to_the_number_of_rows(tiny_model):
    encoder = HuggingFaceEncoder.from_pretrained(tiny_model("bert", TASKS[2]), TASKS[2], batch_size=2)
    seen = []

    encoder.encode(ROWS[TASKS[2]](70), progress=lambda done, total: seen.append((done, total)))

    assert seen == sorted(seen)
    assert seen[-1] == (70, 70)

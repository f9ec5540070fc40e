"""Encoders as readers: pooled texts, words as the mean of their pieces, and where an encoder is found by name."""

import shutil

import numpy as np
import pytest

from knn_ue.errors import InvalidInputError
from knn_ue.verifying import WordVectors, open_reader, word_reader
from knn_ue.verifying.named import open_encoder
from verifying import tiny_onnx

SENTENCES = [["Ada", "went", "to", "Osloville"], ["Cook"], ["to", "Oslo"]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("onnxruntime")
    return tiny_onnx.save(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def reader(folder):
    return open_encoder(str(folder), layers=(1, 3))


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def by_hand(ids):
    """Pieces normalized per layer, layers side by side, averaged over the word."""
    return np.concatenate([unit(tiny_onnx.state(np.array(ids), layer)) for layer in (1, 3)], axis=-1).mean(axis=0)


def test_a_word_is_the_mean_of_its_normalized_pieces(reader):
    found = reader.read_words(SENTENCES)

    expected = [by_hand(ids) for ids in ([4], [7], [8], [5, 6], [9], [8], [5])]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_sentence_that_is_longer_than_the_encoder_reads_loses_no_word(reader):
    words = ["Ada", "went", "to", "Oslo"] * 5

    found = reader.read_words([words])

    np.testing.assert_allclose(found, np.tile(reader.read_words([words[:4]]), (5, 1)), rtol=1e-5)


def test_a_word_without_pieces_has_the_vector_zero(reader):
    found = reader.read_words([["Ada", " ", "Oslo"]])

    assert (found[1] == 0).all() and (found[[0, 2]] != 0).any(axis=1).all()


def test_words_do_not_depend_on_other_sentences(reader):
    alone = reader.read_words(SENTENCES[1:2])

    np.testing.assert_allclose(alone, reader.read_words(SENTENCES)[4:5], rtol=1e-6)


def test_no_words_have_no_vectors(reader):
    assert len(reader.read_words([])) == len(reader.read_words([[], []])) == 0


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_a_text_is_pooled_and_normalized(folder, pooling):
    found = open_encoder(str(folder), pooling=pooling).embed(["Ada went", "Osloville"])

    states = [tiny_onnx.state(np.array(ids), 4) for ids in ([2, 4, 7, 3], [2, 5, 6, 3])]
    pooled = [one.mean(axis=0) if pooling == "mean" else one[0] for one in states]
    np.testing.assert_allclose(found, unit(np.array(pooled)), rtol=1e-5)


def test_the_pooling_is_what_the_folder_says(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / "1_Pooling").mkdir()
    (copy / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')

    assert open_encoder(str(copy)).pooling == "cls" and open_encoder(str(folder)).pooling == "mean"


def test_a_text_is_read_beside_the_instant_views(reader):
    assert set(reader.read(["Ada"])) == {"embedding", "static", "characters", "words"}


def test_a_folder_is_a_name(folder):
    assert open_reader(str(folder)).name == str(folder)


def test_an_encoder_is_loaded_once(folder):
    assert open_reader(str(folder)) is open_reader(str(folder))


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_pytorch_gives_what_transformers_gives(tiny_model, family):
    folder = tiny_model(family, "token-classification")
    words = ["Ada", "Lovelace", "went"]

    found = open_encoder(str(folder), layers=(2,)).read_words([words, words[:1]])

    import torch
    from transformers import AutoModel, AutoTokenizer

    tokens = AutoTokenizer.from_pretrained(folder, add_prefix_space=True)(
        words, is_split_into_words=True, return_tensors="pt"
    )
    with torch.inference_mode():
        states = AutoModel.from_pretrained(folder)(**tokens, output_hidden_states=True).hidden_states[2][0].numpy()
    of_word = np.array([-1 if word is None else word for word in tokens.word_ids()])
    expected = [unit(states)[of_word == word].mean(axis=0) for word in range(3)]
    np.testing.assert_allclose(found[:3], expected, atol=1e-5)


def test_a_repository_of_the_hub_is_read_from_its_cache(folder, tmp_path, monkeypatch):
    from huggingface_hub import constants

    snapshot = tmp_path / "models--somebody--tiny" / "snapshots" / ("0" * 40)
    shutil.copytree(folder, snapshot)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("0" * 40)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)

    found = open_encoder("somebody/tiny", layers=(1, 3)).read_words(SENTENCES)

    np.testing.assert_array_equal(found, open_encoder(str(folder), layers=(1, 3)).read_words(SENTENCES))


def test_a_repository_that_cannot_be_had_is_refused_with_the_way_out(tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)

    with pytest.raises(
        InvalidInputError, match=r"'somebody/none' could not be had .*: pass the folder of an encoder, or"
    ):
        open_encoder("somebody/none")


def test_a_folder_that_is_not_there_is_refused():
    with pytest.raises(InvalidInputError, match=r"the reader's folder \./nowhere is not there"):
        open_encoder("./nowhere")


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "model.onnx"])
def test_a_folder_without_one_of_its_files_is_refused_by_name(folder, tmp_path, file):
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / file).unlink()

    with pytest.raises(InvalidInputError, match=file.replace(".", r"\.")):
        open_encoder(str(copy))


def test_a_reader_of_texts_alone_is_refused_for_words():
    with pytest.raises(
        InvalidInputError, match="'instant' gives no word vectors, which entities need: choose 'minilm'"
    ):
        word_reader(open_reader("instant"))


def test_word_vectors_of_the_users_own_are_checked():
    mine = WordVectors("mine", lambda _: np.ones((1, 3)))

    with pytest.raises(InvalidInputError, match="mine must return one vector per word, got 1 for 7"):
        word_reader(mine).read_words(SENTENCES)

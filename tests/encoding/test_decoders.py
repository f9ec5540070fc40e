"""Decoder-only classifiers: each row is read where the model has seen the whole text."""

import numpy as np
import pytest

from knn_ue.encoding import EncodingOptions
from knn_ue.encoding.huggingface import HuggingFaceEncoder
from knn_ue.encoding.inspection import last_linear
from knn_ue.errors import InvalidInputError
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.training.finetune import finetune
from knn_ue.training.options import TrainingOptions
from tiny_models import DECODERS, HIDDEN_SIZE, ROWS, save_tiny_decoder, tagged_rows, text_rows

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

CLOSE = {"rtol": 0, "atol": 1e-5}
TEXT = "text-classification"
# Of different lengths, in one batch.
TEXTS = ["great", "the film number 3 was awful indeed", "was", "the film was lovely, and nobody saw the dog", ""]
SIDES = ("left", "right")


@pytest.fixture(scope="module")
def decoders(tmp_path_factory):
    """Return model folders by (family, padding side); they must not be written to."""
    folder = tmp_path_factory.mktemp("decoders")
    return {
        (family, side): save_tiny_decoder(folder / f"{family}-{side}", family=family, padding_side=side)
        for family in DECODERS
        for side in SIDES
    }


every_decoder = pytest.mark.parametrize("key", [(family, side) for family in DECODERS for side in SIDES], ids="-".join)
every_pooling = pytest.mark.parametrize("pooling", ["last", "pooled", "mean"])


def alone(encoder, text):
    """Return the plain output of transformers for one text, unpadded."""
    encoding = encoder.tokenizer(text, return_tensors="pt")
    encoding.pop("token_type_ids", None)
    with torch.inference_mode():
        return encoder.model(**encoding, output_hidden_states=True)


@every_decoder
def test_a_decoder_is_read_at_its_last_token_unless_told_otherwise(decoders, key):
    encoder = HuggingFaceEncoder.from_pretrained(decoders[key])

    outputs = encoder.encode(TEXTS[:4])

    expected = [alone(encoder, text).hidden_states[-1][0, -1].numpy() for text in TEXTS[:4]]
    assert encoder.options.pooling == "last"
    np.testing.assert_allclose(outputs.features, expected, **CLOSE)


@every_pooling
@every_decoder
def test_features_in_a_batch_are_those_of_each_text_alone(decoders, key, pooling):
    together = HuggingFaceEncoder.from_pretrained(decoders[key], pooling=pooling, batch_size=8)
    single = HuggingFaceEncoder.from_pretrained(decoders[key], pooling=pooling, batch_size=1)

    outputs = together.encode(TEXTS)

    expected = np.concatenate([single.encode([text]).features for text in TEXTS])
    np.testing.assert_allclose(outputs.features, expected, **CLOSE)


@every_pooling
@every_decoder
def test_different_texts_have_different_features(decoders, key, pooling):
    features = HuggingFaceEncoder.from_pretrained(decoders[key], pooling=pooling).encode(TEXTS[:4]).features

    distances = np.linalg.norm(features[:, None] - features[None], axis=2)
    assert distances[~np.eye(4, dtype=bool)].min() > 0.01


@every_decoder
def test_logits_are_those_of_the_model_alone(decoders, key):
    encoder = HuggingFaceEncoder.from_pretrained(decoders[key], batch_size=8)

    outputs = encoder.encode(TEXTS[:4])

    np.testing.assert_allclose(outputs.logits, [alone(encoder, text).logits[0].numpy() for text in TEXTS[:4]], **CLOSE)


@every_decoder
def test_the_raw_scores_are_those_of_transformers_own_pipeline(decoders, key):
    encoder = HuggingFaceEncoder.from_pretrained(decoders[key], device="cpu", batch_size=8)
    theirs = transformers.pipeline(TEXT, model=encoder.model, tokenizer=encoder.tokenizer, device="cpu")

    outputs = encoder.encode(TEXTS[:4])

    shown = theirs(TEXTS[:4], top_k=None)
    scores = [[next(x["score"] for x in row if x["label"] == name) for name in encoder.class_names] for row in shown]
    probs = np.exp(outputs.logits) / np.exp(outputs.logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(probs, scores, **CLOSE)


@every_decoder
def test_the_last_layer_turns_pooled_features_into_logits(decoders, key):
    encoder = HuggingFaceEncoder.from_pretrained(decoders[key], pooling="pooled", batch_size=8)

    outputs = encoder.encode(TEXTS)

    weight = last_linear(encoder.model).weight.detach().numpy()
    np.testing.assert_allclose(outputs.features @ weight.T, outputs.logits, **CLOSE)


@pytest.mark.parametrize("family", DECODERS)
def test_pooled_features_are_read_where_the_model_classifies_even_if_the_text_ends_in_padding(decoders, family):
    encoder = HuggingFaceEncoder.from_pretrained(decoders[family, "right"], pooling="pooled")
    weight = last_linear(encoder.model).weight.detach().numpy()

    outputs = encoder.encode(["great</s>", "the film was awful"])

    np.testing.assert_allclose(outputs.features @ weight.T, outputs.logits, **CLOSE)


@pytest.mark.parametrize("family", DECODERS)
def test_the_first_token_of_a_decoder_is_refused_and_the_last_one_recommended(decoders, family):
    with pytest.raises(InvalidInputError, match='its first token sees no other one: use pooling="last"'):
        HuggingFaceEncoder.from_pretrained(decoders[family, "right"], pooling="cls")


def test_a_decoder_without_a_padding_token_is_refused_with_the_way_out(decoders):
    encoder = HuggingFaceEncoder.from_pretrained(decoders["gpt2", "right"])
    encoder.model.config.pad_token_id = None

    with pytest.raises(InvalidInputError, match=r"set pad_token_id in its config.json"):
        HuggingFaceEncoder(encoder.model, encoder.tokenizer, TEXT)


def test_the_last_token_of_a_word_is_not_offered_for_tagging(tmp_path):
    folder = save_tiny_decoder(tmp_path, family="gpt2", task="token-classification")

    with pytest.raises(InvalidInputError, match='pooling="last" is for whole texts'):
        HuggingFaceEncoder.from_pretrained(folder, pooling="last")


@pytest.mark.parametrize("family", DECODERS)
def test_a_decoder_tags_each_word_at_its_first_piece(tmp_path, family):
    folder = save_tiny_decoder(tmp_path, family=family, task="token-classification")
    encoder = HuggingFaceEncoder.from_pretrained(folder)

    outputs = encoder.encode(tagged_rows(3))

    assert (encoder.options.pooling, outputs.features.shape) == ("cls", (24, HIDDEN_SIZE))


@every_decoder
def test_a_fitted_decoder_answers_the_same_after_saving(decoders, key, tmp_path):
    pipe = UncertaintyPipeline.from_pretrained(decoders[key], device="cpu")
    pipe.fit(text_rows(60), text_rows(40, start=100), n_neighbors=8)
    pipe.save(tmp_path / "ue")

    loaded = UncertaintyPipeline.load(tmp_path / "ue", device="cpu")

    assert loaded.encoder.options.pooling == "last"
    assert loaded(TEXTS[:2]) == pipe(TEXTS[:2])


@pytest.mark.slow
@pytest.mark.parametrize("family", DECODERS)
def test_a_trained_decoder_is_read_at_its_last_token(decoders, family, tmp_path):
    finetune(
        text_rows(16),
        text_rows(8, start=100),
        task="text",
        encoder=decoders[family, "right"],
        out=tmp_path / "model",
        options=TrainingOptions(epochs=1, max_steps=2),
        device="cpu",
    )

    pipe = UncertaintyPipeline.from_pretrained(tmp_path / "model", device="cpu")
    pipe.fit(text_rows(30), text_rows(20, start=100), n_neighbors=8)

    assert (pipe.task, pipe.encoder.options.pooling) == (TEXT, "last")
    assert pipe("the film was awful")[0].label in pipe.class_names


@pytest.mark.slow
@pytest.mark.parametrize("family", DECODERS)
def test_the_server_answers_for_a_decoder(decoders, family, tmp_path):
    testclient = pytest.importorskip("starlette.testclient")
    from knn_ue.serving import ServeOptions, create_app

    pipe = UncertaintyPipeline.from_pretrained(decoders[family, "left"], device="cpu")
    pipe.fit(text_rows(60), text_rows(40, start=100), n_neighbors=8).save(tmp_path / "ue")
    options = ServeOptions(device="cpu", watch_seconds=0)
    with testclient.TestClient(create_app(tmp_path / "ue", options), base_url="http://127.0.0.1") as client:
        answers = client.post("/predict", json={"inputs": TEXTS[:4]}).json()["answers"]
        explained = client.post("/explain", json={"inputs": TEXTS[1]})
        stored = client.post("/examples", json={"examples": [{"text": TEXTS[1], "label": "neg"}]})
        near = client.post("/predict", json={"inputs": TEXTS[1]}).json()["answers"][0]["neighbors"][0]

    expected = pipe(TEXTS[:4])
    assert [(x["label"], round(x["score"], 4)) for x in answers] == [(x.label, round(x.score, 4)) for x in expected]
    assert explained.status_code == 200 and stored.status_code == 201
    assert near["text"] == TEXTS[1] and near["distance"] == pytest.approx(0, abs=1e-4)


@pytest.mark.slow
def test_a_base_model_without_a_padding_token_gets_one_in_training(tmp_path):
    folder = save_tiny_decoder(tmp_path / "base", family="gpt2")
    config = folder / "config.json"
    config.write_text(config.read_text(encoding="utf-8").replace('"pad_token_id": 2', '"pad_token_id": null'))
    settings = folder / "tokenizer_config.json"
    settings.write_text(settings.read_text(encoding="utf-8").replace('"pad_token": "</s>", ', ""))

    finetune(
        text_rows(8),
        text_rows(4),
        task=TEXT,
        encoder=folder,
        out=tmp_path / "model",
        options=TrainingOptions(epochs=1, max_steps=1),
        device="cpu",
    )

    encoder = HuggingFaceEncoder.from_pretrained(tmp_path / "model")
    assert len(encoder.encode(ROWS[TEXT](3))) == 3


def test_options_leave_the_pooling_open_until_there_is_a_model():
    assert EncodingOptions().pooling is None

"""First token and mean together, and several layers: each part of length 1, side by side."""

import numpy as np
import pytest

from knn_ue.encoding import EncodingOptions
from knn_ue.encoding.huggingface import HuggingFaceEncoder
from knn_ue.errors import InvalidInputError
from tiny_models import HIDDEN_SIZE, ROWS

pytest.importorskip("torch")

TEXT = "text-classification"


def unit(values):
    return values / np.linalg.norm(values, axis=1, keepdims=True)


def encoded(tiny_model, task=TEXT, **options):
    return HuggingFaceEncoder.from_pretrained(tiny_model("bert", task), task, **options).encode(ROWS[task](6))


def test_both_poolings_stand_side_by_side_each_of_length_one(tiny_model):
    first, mean, both = (encoded(tiny_model, pooling=x).features for x in ("cls", "mean", "cls+mean"))

    np.testing.assert_allclose(both, np.concatenate([unit(first), unit(mean)], axis=1), atol=1e-5)


@pytest.mark.parametrize("task", [TEXT, "token-classification"])
def test_several_layers_stand_side_by_side_each_of_length_one(tiny_model, task):
    one, two, both = (encoded(tiny_model, task, layer=x).features for x in (1, -1, (1, -1)))

    np.testing.assert_allclose(both, np.concatenate([unit(one), unit(two)], axis=1), atol=1e-5)


def test_of_every_layer_the_first_token_is_kept(tiny_model):
    both, first = (encoded(tiny_model, pooling=x, all_layers=True).layers for x in ("cls+mean", "cls"))

    np.testing.assert_array_equal(np.stack(both), np.stack(first))


@pytest.mark.parametrize(
    ("task", "pooling"), [(TEXT, "cls+mean"), ("text-pair", "cls"), ("token-classification", "cls")]
)
def test_texts_have_both_poolings_unless_asked_otherwise(tiny_model, task, pooling):
    model = tiny_model("bert", task)

    assert HuggingFaceEncoder.from_pretrained(model, task).options.pooling == pooling
    assert HuggingFaceEncoder.from_pretrained(model, task, pooling="cls").options.pooling == "cls"


def test_no_rows_have_as_many_columns(tiny_model):
    encoder = HuggingFaceEncoder.from_pretrained(tiny_model("bert", TEXT), pooling="cls+mean", layer=(1, 2))

    assert encoder.encode([]).features.shape == (0, 4 * HIDDEN_SIZE)


def test_options_read_from_json_equal_those_that_were_written():
    assert EncodingOptions(layer=[1, -1]) == EncodingOptions(layer=(1, -1))


def test_a_tagged_word_has_no_mean_and_a_missing_layer_is_named(tiny_model):
    with pytest.raises(InvalidInputError, match="is for whole texts"):
        encoded(tiny_model, "token-classification", pooling="cls+mean")
    with pytest.raises(InvalidInputError, match="layer=9 does not exist"):
        encoded(tiny_model, layer=(1, 9))

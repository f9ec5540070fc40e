"""The views familiarity looks at: unit vectors of a plain forward pass, both poolings of every layer read."""

import numpy as np
import pytest

from knn_ue.encoding.forward import ViewReader, random_signs
from knn_ue.encoding.huggingface import HuggingFaceEncoder
from tiny_models import N_LAYERS, ROWS, TASKS

torch = pytest.importorskip("torch")

SIGNS = [[1, 1, 1, 1], [1, -1, 1, -1]]

CLOSE = {"rtol": 0, "atol": 2e-3}  # half precision


def unit(values):
    return values / np.linalg.norm(values, axis=-1, keepdims=True)


@pytest.mark.parametrize("task", ["text-classification", "text-pair"])
def test_views_are_the_directions_of_first_token_and_mean_of_every_layer(tiny_model, task):
    folder, rows = tiny_model("bert", task), ROWS[task](7)
    views = HuggingFaceEncoder.from_pretrained(folder, task, views=True).encode(rows).views

    for place, pooling in enumerate(("cls", "mean")):
        layers = HuggingFaceEncoder.from_pretrained(folder, task, pooling=pooling, all_layers=True).encode(rows).layers
        for number in range(N_LAYERS):
            np.testing.assert_allclose(views[:, 2 * number + place], unit(layers[number]), **CLOSE)


def test_words_have_their_own_views_and_the_mean_of_their_sentence(tiny_model):
    task = "token-classification"
    encoder = HuggingFaceEncoder.from_pretrained(tiny_model("bert", task), task, views=True, all_layers=True)

    outputs = encoder.encode(ROWS[task](3))

    first_sentence = outputs.groups == 0
    np.testing.assert_allclose(outputs.views[:, 0], unit(outputs.layers[0]), **CLOSE)
    assert np.ptp(outputs.views[first_sentence, 1], axis=0).max() == 0
    assert np.ptp(outputs.views[first_sentence, 0], axis=0).max() > 0


@pytest.mark.parametrize("task", TASKS)
def test_views_do_not_depend_on_batches_or_padding(tiny_model, task):
    encoder = HuggingFaceEncoder.from_pretrained(tiny_model("bert", task), task, views=True)
    rows = ROWS[task](9)

    together = encoder.encode(rows).views
    alone = np.concatenate([encoder.with_options(batch_size=1).encode([row]).views for row in rows])

    np.testing.assert_allclose(together, alone, **CLOSE)


def test_no_rows_have_views_of_the_same_shape(tiny_model):
    encoder = HuggingFaceEncoder.from_pretrained(tiny_model("bert", "text-classification"), views=True)

    assert encoder.encode([]).views.shape[1:] == encoder.encode(["a text"]).views.shape[1:]


def test_without_the_option_there_are_no_views(tiny_model):
    encoder = HuggingFaceEncoder.from_pretrained(tiny_model("bert", "text-classification"))

    assert encoder.encode(["a text"]).views is None


def test_at_most_six_layers_are_read_and_the_last_is_one_of_them():
    for n_layers in range(1, 49):
        layers = ViewReader(n_layers, 4, tagging=False).layers
        assert len(set(layers)) == len(layers) <= 6
        assert layers[-1] == n_layers and layers[0] >= 1


def test_wide_words_are_projected_and_keep_their_lengths():
    reader = ViewReader(2, 512, tagging=True)
    states = torch.randn(3, 4, 512, generator=torch.Generator().manual_seed(0))

    views = reader.read([states] * 3, torch.ones(3, 4), torch.tensor([0, 2]), torch.tensor([1, 3]))

    assert views.shape == (2, 4, 64) == (2, *reader.shape)
    assert torch.linalg.vector_norm(views.float(), dim=-1).mean().item() == pytest.approx(1.0, abs=0.15)


def test_random_signs_never_change():
    signs = random_signs(100, 4)

    assert (signs[:2] * 2).astype(int).tolist() == SIGNS
    np.testing.assert_allclose((signs**2).sum(axis=1), 1.0)

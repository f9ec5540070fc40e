"""MC Dropout: every dropout is active, whatever its class and wherever it is."""

import json

import numpy as np
import pytest

from knn_ue.arrays import softmax
from knn_ue.errors import InvalidInputError
from marks import slow_but
from tiny_models import FAMILIES, ROWS, TASKS

torch = pytest.importorskip("torch")

from knn_ue.encoding.huggingface import HuggingFaceEncoder  # noqa: E402
from knn_ue.encoding.passes import log_mean_probs  # noqa: E402

TEXT = "text-classification"


@pytest.fixture
def encoder_with(tiny_model, tmp_path):
    """Return a function that loads a tiny model with these dropouts, all others 0."""

    def load(family, task=TEXT, *, passes=4, **dropouts):
        folder = tmp_path / "model"
        folder.mkdir()
        for file in tiny_model(family, task).iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
        config = json.loads((folder / "config.json").read_text())
        config |= {key: 0.0 for key in config if "dropout" in key} | dropouts
        (folder / "config.json").write_text(json.dumps(config))
        return HuggingFaceEncoder.from_pretrained(folder, task, passes=passes)

    return load


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("dropout", ["hidden_dropout_prob", "attention_probs_dropout_prob"])
@pytest.mark.parametrize("family", slow_but("bert", FAMILIES))
def test_each_dropout_alone_makes_the_passes_differ(encoder_with, family, task, dropout):
    encoder = encoder_with(family, task, **{dropout: 0.3})
    rows = ROWS[task](6)

    sampled = encoder.encode(rows)

    encoder.model.eval()
    plain = HuggingFaceEncoder(encoder.model, encoder.tokenizer, task).encode(rows)
    assert np.abs(softmax(sampled.logits) - softmax(plain.logits)).max() > 1e-4
    np.testing.assert_array_equal(sampled.features, plain.features)


@pytest.mark.parametrize("family", slow_but("bert", FAMILIES))
def test_a_model_without_dropout_is_refused(encoder_with, family):
    with pytest.raises(InvalidInputError, match="4 passes with dropout gave the same answer"):
        encoder_with(family)


def test_the_same_texts_get_the_same_answer(encoder_with):
    encoder = encoder_with("bert", hidden_dropout_prob=0.3)
    rows = ROWS[TEXT](6)

    torch.manual_seed(1)
    first = encoder.encode(rows)
    torch.manual_seed(2)

    np.testing.assert_array_equal(encoder.encode(rows).logits, first.logits)


def test_logits_are_the_log_of_a_distribution(encoder_with):
    logits = encoder_with("bert", hidden_dropout_prob=0.3).encode(ROWS[TEXT](6)).logits

    np.testing.assert_allclose(np.exp(logits).sum(axis=1), 1.0, rtol=1e-6)


def test_probabilities_are_averaged_not_logits():
    model = torch.nn.Linear(1, 1)
    answers = iter([torch.tensor([[0.0, 2.0]]), torch.tensor([[5.0, 0.0]]), torch.tensor([[1.0, 1.0]])])

    found = log_mean_probs(model, lambda: next(answers), passes=3, seed=0)

    expected = softmax(np.array([[0.0, 2.0], [5.0, 0.0], [1.0, 1.0]])).mean(axis=0)
    np.testing.assert_allclose(np.exp(found.numpy())[0], expected)


def test_the_model_and_the_callers_randomness_are_left_as_they_were():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))
    model.eval()
    before = torch.get_rng_state()

    log_mean_probs(model, lambda: model(torch.ones(2, 4)), passes=3, seed=0)

    assert torch.equal(torch.get_rng_state(), before)
    assert not any(module.training for module in model.modules())


def test_a_class_that_no_pass_gives_any_probability_has_a_finite_logit():
    answers = iter([torch.tensor([[0.0, 2000.0]]), torch.tensor([[0.0, 3000.0]]), torch.tensor([[1.0, 3000.0]])])

    found = log_mean_probs(torch.nn.Linear(1, 1), lambda: next(answers), passes=3, seed=0)

    assert torch.isfinite(found).all()


def test_the_statistics_of_a_head_are_left_as_they_were():
    from knn_ue_lab.heads.posterior import PosteriorHead

    model = torch.nn.Module()
    model.encoder = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))
    model.knn_ue_head = head = PosteriorHead(in_features=4, n_classes=2, latent_dim=2)
    model.eval()
    before = {name: value.clone() for name, value in head.state_dict().items()}

    log_mean_probs(model, lambda: head.logits(model.encoder(torch.randn(8, 4))), passes=3, seed=0)

    assert all(torch.equal(value, before[name]) for name, value in head.state_dict().items())

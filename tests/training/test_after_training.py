"""What a training leaves in the saved head is what its formula says of the training rows."""

import numpy as np
import pytest

from knn_ue.training import TrainingOptions
from knn_ue.training.finetune import finetune
from knn_ue_lab.training.posterior import Posterior
from knn_ue_lab.training.sngp import Sngp
from knn_ue_lab.training.spectral import SpectralTraining, bounded_layers
from tiny_models import CLASS_NAMES, ROWS, TASKS, save_tiny_model

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from knn_ue.encoding.huggingface import HuggingFaceEncoder  # noqa: E402
from knn_ue.encoding.inspection import head_of  # noqa: E402

pytestmark = pytest.mark.slow

TEXT, _, TAGGING = TASKS
OPTIONS = TrainingOptions(batch_size=8, learning_rate=2e-3, epochs=2, max_steps=9, max_length=32)
N_ROWS = 33  # the last batch of an epoch has one row


@pytest.fixture
def trained(tmp_path):
    """Return a function (method, task) -> encoder, read from the folder that the training wrote."""

    def train(method, task, **options):
        start = save_tiny_model(tmp_path / "start", family="bert", task=task)
        rows = ROWS[task]
        finetune(
            rows(N_ROWS),
            rows(16, start=200),
            task=task,
            encoder=start,
            out=tmp_path / "model",
            options=OPTIONS,
            method=method,
        )
        return HuggingFaceEncoder.from_pretrained(tmp_path / "model", task, **options)

    return train


@pytest.mark.slow
@pytest.mark.parametrize("task", [TEXT, TAGGING])
def test_the_covariance_of_sngp_is_the_closed_form_one_of_the_training_rows_without_dropout(trained, task):
    encoder = trained(Sngp(n_features=32, ridge=0.1), task, pooling="pooled")
    head = head_of(encoder.model)

    hidden = torch.tensor(encoder.encode(ROWS[task](N_ROWS)).features)

    phi = head.features(hidden).double().numpy()
    expected = 0.1 * np.linalg.inv(0.1 * np.eye(32) + phi.T @ phi)
    np.testing.assert_allclose(head.covariance.numpy(), expected, atol=1e-5)


def test_the_counts_of_a_posterior_network_are_those_of_the_training_rows(trained):
    encoder = trained(Posterior(), TAGGING)

    tags = [tag for row in ROWS[TAGGING](N_ROWS) for tag in row["tags"]]

    expected = [float(tags.count(name)) for name in CLASS_NAMES[TAGGING]]
    assert head_of(encoder.model).class_counts.tolist() == expected
    assert 0.0 in expected  # a class without training rows


@pytest.mark.parametrize("scaled", [True, False])
def test_the_densities_of_a_posterior_network_are_scaled_as_it_was_trained(trained, scaled):
    encoder = trained(Posterior(scaled=scaled), TAGGING)

    assert (head_of(encoder.model).log_scale > 0) == scaled == head_of(encoder.model).options["scaled"]
    assert Posterior().scaled


@pytest.mark.parametrize("task", [TEXT, TAGGING])
@pytest.mark.parametrize("method", [Sngp(n_features=32, bound=0.3), SpectralTraining(bound=0.3)], ids=lambda m: m.name)
def test_a_layer_that_began_far_beyond_its_bound_ends_within_it(trained, method, task):
    (layer,) = bounded_layers(trained(method, task).model)

    # At the bound, not only below it: it did hold something back.
    assert 0.25 < torch.linalg.svdvals(layer.weight.detach())[0] <= 0.3 * 1.05

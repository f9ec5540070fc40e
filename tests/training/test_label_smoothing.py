"""Label smoothing: the loss, and the epsilon that validation chooses."""

import pytest

from knn_ue.errors import InvalidInputError
from knn_ue.training.options import TrainingOptions
from knn_ue_lab.training.label_smoothing import LabelSmoothing
from tiny_models import ROWS, save_tiny_model

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from knn_ue.training import finetune as module  # noqa: E402
from knn_ue.training.folder import read_record  # noqa: E402

TEXT = "text-classification"


def test_the_loss_is_the_smoothed_cross_entropy():
    torch.manual_seed(0)
    logits, labels = torch.randn(5, 3), torch.tensor([0, 1, 2, 1, 0])
    log_probs = torch.log_softmax(logits, dim=1)

    expected = -(0.8 * log_probs[range(5), labels] + 0.2 * log_probs.mean(dim=1)).mean()

    torch.testing.assert_close(LabelSmoothing(epsilon=0.2).loss(logits, labels, 0.0), expected)


def test_the_grid_is_the_papers():
    assert [one.epsilon for one in LabelSmoothing().candidates()] == [0.01, 0.05, 0.1, 0.2, 0.3]


def test_a_given_epsilon_is_not_searched():
    assert [one.epsilon for one in LabelSmoothing(epsilon=0.15).candidates()] == [0.15]


@pytest.mark.parametrize("epsilon", [-0.1, 1.0])
def test_an_epsilon_that_is_no_share_is_refused(epsilon):
    with pytest.raises(InvalidInputError, match=r"epsilon must lie within \[0, 1\)"):
        LabelSmoothing(epsilon=epsilon)


@pytest.mark.parametrize(
    ("scores", "chosen"),
    [
        ([0.5, 0.7, 0.6, 0.7, 0.2], 0.05),
        pytest.param([0.5] * 5, 0.01, marks=pytest.mark.slow),
        pytest.param([0.1, 0.2, 0.3, 0.4, 0.5], 0.3, marks=pytest.mark.slow),
    ],
)
def test_validation_chooses_the_epsilon_and_the_smaller_of_equals(tmp_path, monkeypatch, scores, chosen):
    encoder = save_tiny_model(tmp_path / "start", family="bert", task=TEXT)
    given = iter(scores)
    monkeypatch.setattr(
        "knn_ue.training.trainer.score_outputs", lambda *_, **__: {"accuracy": next(given), "loss": 1.0}
    )

    result = module.finetune(
        ROWS[TEXT](8),
        ROWS[TEXT](8),
        task=TEXT,
        encoder=encoder,
        out=tmp_path / "model",
        options=TrainingOptions(max_steps=1),
        method=LabelSmoothing(),
    )

    assert read_record(tmp_path / "model")["method_options"] == {"epsilon": chosen}
    assert result.best == max(scores)
    assert [one["accuracy"] for one in result.candidates] == scores

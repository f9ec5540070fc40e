"""The best weights come back whole: buffers and bounded layers too."""

import pytest

torch = pytest.importorskip("torch")

from knn_ue.training.best_weights import BestWeights  # noqa: E402
from knn_ue_lab.heads.spectral import bound_layer  # noqa: E402


@pytest.fixture
def model():
    torch.manual_seed(0)
    made = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    made[0].requires_grad_(False)
    bound_layer(made[1], 0.5)
    return made


def learn(model):
    """Take a step that moves weights, running means and the vectors of the power iteration."""
    optimizer = torch.optim.SGD([weight for weight in model.parameters() if weight.requires_grad], lr=1.0)
    (model.train()(torch.randn(8, 4)) ** 3).sum().backward()
    optimizer.step()


def test_what_was_best_is_restored_with_its_buffers(model):
    best = BestWeights(model, metric="accuracy", patience=2)
    learn(model)
    best.update({"accuracy": 0.9})
    rows = torch.randn(5, 4)
    expected = model.eval()(rows).detach()
    kept = {name: value.clone() for name, value in model.state_dict().items()}

    learn(model)
    best.update({"accuracy": 0.5})
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, kept[name])}
    best.restore()

    assert {"2.running_mean", "1.parametrizations.weight.0.left", "1.parametrizations.weight.original"} <= changed
    assert torch.equal(model.eval()(rows), expected)


def test_a_score_that_only_equals_the_best_does_not_replace_it(model):
    best = BestWeights(model, metric="accuracy", patience=1)
    best.update({"accuracy": 0.9})
    first = {name: value.clone() for name, value in model.state_dict().items()}
    learn(model)
    best.update({"accuracy": 0.9})

    best.restore()

    assert best.is_over
    assert all(torch.equal(value, first[name]) for name, value in model.state_dict().items())

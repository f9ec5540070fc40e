"""The bound on a layer's largest singular value, measured by SVD."""

import pytest

torch = pytest.importorskip("torch")

from knn_ue_lab.heads.spectral import bound_layer, release_layer  # noqa: E402


def largest_singular_value(layer):
    return torch.linalg.svdvals(layer.weight.detach())[0].item()


@pytest.fixture
def layer():
    torch.manual_seed(0)
    linear = torch.nn.Linear(40, 30)
    torch.nn.init.normal_(linear.weight)
    return linear


def test_a_layer_is_bounded_from_the_start(layer):
    bound_layer(layer, 0.95)

    assert largest_singular_value(layer) <= 1.05 * 0.95


@pytest.mark.slow
def test_the_bound_holds_while_a_loss_pulls_the_weights_apart(layer):
    bound_layer(layer, 0.95)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.0005)
    seen = []
    for _ in range(300):
        optimizer.zero_grad()
        (-layer(torch.randn(16, 40)).square().mean()).backward()
        optimizer.step()
        seen.append(largest_singular_value(layer))

    assert max(seen[5:]) <= 1.05 * 0.95
    assert max(seen) > 0.9  # the loss did pull


def test_a_layer_that_stretches_less_is_left_alone():
    linear = torch.nn.Linear(3, 3)
    with torch.no_grad():
        linear.weight.copy_(torch.diag(torch.tensor([0.5, 0.2, 0.1])))

    bound_layer(linear, 0.95)

    torch.testing.assert_close(linear.weight.detach(), torch.diag(torch.tensor([0.5, 0.2, 0.1])))


def test_a_released_layer_has_plain_weights_exactly_within_the_bound(layer):
    bound_layer(layer, 0.95)

    release_layer(layer)

    assert {name for name, _ in layer.named_parameters()} == {"weight", "bias"}
    assert type(layer) is torch.nn.Linear
    assert largest_singular_value(layer) == pytest.approx(0.95, rel=1e-5)


def test_the_gradient_is_that_of_the_bounded_weight(layer):
    bound_layer(layer, 0.95)
    layer.double().eval()
    original = layer.parametrizations.weight.original
    bound = layer.parametrizations.weight[0]

    assert torch.autograd.gradcheck(bound, (original.detach().clone().requires_grad_(),))


def test_the_bound_is_computed_in_full_precision_under_autocast(layer):
    bound_layer(layer, 0.95)
    exact = layer.eval().weight.detach()

    with torch.autocast("cpu", dtype=torch.bfloat16):
        bounded = layer.weight

    assert bounded.dtype == torch.float32
    torch.testing.assert_close(bounded, exact, rtol=1e-5, atol=1e-6)

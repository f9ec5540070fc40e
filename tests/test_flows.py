"""Normalizing flows: densities that integrate to one, fall away from the data, and stay finite."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from knn_ue.flows import RadialFlows  # noqa: E402 (it loads torch)


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


@pytest.fixture
def bent_radial():
    """Three radial flows in the plane, in float64, far from the identity."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        flows = RadialFlows(n_flows=3, dim=2, n_layers=6).double()
        for parameter in flows.parameters():
            torch.nn.init.normal_(parameter, std=1.5)
    return flows


def autograd_log_det(function, point):
    jacobian = torch.autograd.functional.jacobian(function, point)
    return torch.linalg.slogdet(jacobian)


def test_the_log_determinant_of_radial_flows_is_that_of_their_jacobian(bent_radial, generator):
    points = 2 * torch.randn(20, 2, dtype=torch.float64, generator=generator)

    _, found = bent_radial(points)

    for row, point in enumerate(points):
        for flow in range(3):
            sign, expected = autograd_log_det(lambda z, flow=flow: bent_radial(z[None])[0][0, flow], point)
            assert sign > 0
            assert found[row, flow].item() == pytest.approx(expected.item(), abs=1e-9)


def test_every_radial_flow_integrates_to_one(bent_radial):
    axis = torch.linspace(-20, 20, 501, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)

    with torch.no_grad():
        total = bent_radial.log_prob(grid).exp().sum(dim=0) * (axis[1] - axis[0]) ** 2

    np.testing.assert_allclose(total.numpy(), 1.0, atol=2e-3)


def test_each_radial_flow_learns_its_own_class(generator):
    centers = torch.tensor([[-2.0, 0.0], [2.0, 0.0]])
    labels = torch.arange(400) % 2
    points = centers[labels] + 0.5 * torch.randn(400, 2, generator=generator)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        flows = RadialFlows(n_flows=2, dim=2)
    optimizer = torch.optim.Adam(flows.parameters(), lr=0.05)

    for _ in range(100):
        loss = -flows.log_prob(points)[torch.arange(400), labels].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    entropy = 1 + math.log(2 * math.pi * 0.25)  # of a normal with deviation 0.5: no flow can be better
    assert loss.item() < entropy + 0.25
    assert (flows.log_prob(points).argmax(dim=1) == labels).float().mean() > 0.98


@pytest.mark.parametrize("size", [0.0, 1e-30, 1.0, 1e4])
@pytest.mark.parametrize("raw", [-200.0, 0.0, 200.0])
def test_radial_flows_and_their_gradients_are_finite_near_and_far(size, raw, generator):
    flows = RadialFlows(n_flows=4, dim=10)
    torch.nn.init.constant_(flows.raw_alpha, raw)
    torch.nn.init.constant_(flows.raw_beta, -raw)
    torch.nn.init.zeros_(flows.center)
    points = (size * torch.randn(8, 10, generator=generator)).requires_grad_()

    log_prob = flows.log_prob(points)
    log_prob.sum().backward()

    assert torch.isfinite(log_prob).all()
    assert all(torch.isfinite(p.grad).all() for p in (points, *flows.parameters()))

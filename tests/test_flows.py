"""Normalizing flows: densities that integrate to one, fall away from the data, and stay finite."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from knn_ue.errors import InvalidInputError  # noqa: E402
from knn_ue_lab.flows import FeatureDensity, RadialFlows, RealNVP, fit_real_nvp  # noqa: E402 (it loads torch)


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


def bent_real_nvp(dim: int, n_layers: int = 4) -> RealNVP:
    """A RealNVP in float64, far from the identity."""
    generator = torch.Generator().manual_seed(0)
    flow = RealNVP(dim, n_layers).double()
    for parameter in flow.parameters():
        torch.nn.init.normal_(parameter, std=0.7, generator=generator)
    return flow.requires_grad_(False)


def blobs(n_rows: int = 600, dim: int = 4) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.integers(2, size=(n_rows, 1)) * 2.0 - 1.0 + rng.normal(size=(n_rows, dim))


@pytest.fixture(scope="module")
def fitted():
    return fit_real_nvp(blobs(), seed=0, learning_rate=1e-2, max_epochs=30)


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


@pytest.mark.slow
def test_every_radial_flow_integrates_to_one(bent_radial):
    axis = torch.linspace(-20, 20, 501, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)

    with torch.no_grad():
        total = bent_radial.log_prob(grid).exp().sum(dim=0) * (axis[1] - axis[0]) ** 2

    np.testing.assert_allclose(total.numpy(), 1.0, atol=2e-3)


@pytest.mark.slow
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


@pytest.mark.parametrize(("dim", "n_layers"), [(1, 4), (2, 4), (5, 4), (8, 4), (5, 1), (5, 3)])
def test_real_nvp_goes_there_and_back(dim, n_layers, generator):
    flow = bent_real_nvp(dim, n_layers)
    x = 3 * torch.randn(50, dim, dtype=torch.float64, generator=generator)

    z, _ = flow(x)

    assert dim == 1 or not torch.allclose(z, x, atol=0.1)
    torch.testing.assert_close(flow.inverse(z), x, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_the_log_determinant_of_real_nvp_is_that_of_its_jacobian(dim, generator):
    flow = bent_real_nvp(dim)
    points = 2 * torch.randn(10, dim, dtype=torch.float64, generator=generator)

    _, found = flow(points)

    for row, point in enumerate(points):
        _, expected = autograd_log_det(lambda x: flow(x[None])[0][0], point)
        assert found[row].item() == pytest.approx(expected.item(), abs=1e-9)


def test_the_fitted_density_integrates_to_one():
    density = fit_real_nvp(5 * blobs(dim=2) + 3, seed=0, learning_rate=1e-2, max_epochs=20)
    axis = np.linspace(-47, 53, 301)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)

    total = np.exp(density.log_prob(grid)).sum() * (axis[1] - axis[0]) ** 2

    assert total == pytest.approx(1.0, abs=2e-3)


def test_an_unfitted_flow_is_the_normal_of_the_features():
    features = blobs()
    standardized = (features - features.mean(axis=0)) / features.std(axis=0)
    density = fit_real_nvp(features, seed=0, max_epochs=0)

    expected = -0.5 * np.square(standardized).sum(axis=1) - np.log(features.std(axis=0)).sum() - 2 * np.log(2 * np.pi)

    np.testing.assert_allclose(density.log_prob(features), expected)


def test_fitting_raises_the_likelihood_of_new_rows(fitted):
    new = blobs(n_rows=1200)[600:]

    assert fitted.log_prob(new).mean() > fit_real_nvp(blobs(), seed=0, max_epochs=0).log_prob(new).mean() + 0.3


def test_the_likelihood_falls_away_from_the_data(fitted):
    features = blobs()
    rays = np.random.default_rng(0).normal(size=(64, 4))
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)

    means = [
        fitted.log_prob(features.mean(axis=0) + radius * features.std() * rays).mean() for radius in (0.0, 3.0, 6.0)
    ]

    assert means[0] > means[1] > means[2]


def test_the_likelihood_falls_without_end_in_every_direction(fitted):
    rays = np.random.default_rng(0).normal(size=(64, 4))

    means = [fitted.log_prob(radius * rays) for radius in (1e2, 1e4, 1e8, 1e90)]

    assert (np.diff(means, axis=0) < 0).all()


@pytest.mark.parametrize("size", [1e-20, 1.0, 1e30])
def test_1024_columns_some_constant_give_finite_likelihoods_near_and_far(size):
    rng = np.random.default_rng(0)
    features = (size * rng.normal(size=(200, 1024)) * rng.gamma(0.5, size=1024)).astype(np.float32)
    features[:, ::7] = size

    density = fit_real_nvp(features, seed=0, max_epochs=3)

    for rows in (features, np.zeros_like(features), features * 1e4, np.full((1, 1024), 1e307)):
        assert np.isfinite(density.log_prob(rows)).all()


@pytest.mark.parametrize("features", [np.ones((30, 3)), np.ones((1, 3)), blobs(2), blobs(50, dim=1)])
def test_few_rows_few_columns_and_constant_ones_are_no_problem(features):
    density = fit_real_nvp(features, seed=0, max_epochs=3)

    assert np.isfinite(density.log_prob(features)).all()


def test_the_same_seed_gives_the_same_flow_and_another_seed_another():
    first, again, other = (fit_real_nvp(blobs(), seed=seed, max_epochs=3).log_prob(blobs()) for seed in (0, 0, 1))

    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_fitting_neither_reads_nor_changes_the_global_generators():
    torch_before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002

    fit_real_nvp(blobs(), seed=0, max_epochs=2)

    assert torch.equal(torch.get_rng_state(), torch_before)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_before)  # noqa: NPY002


def test_a_diverging_training_keeps_the_best_weights():
    density = fit_real_nvp(blobs(), seed=0, learning_rate=1e30, max_epochs=2)

    np.testing.assert_array_equal(
        density.log_prob(blobs()), fit_real_nvp(blobs(), seed=0, max_epochs=0).log_prob(blobs())
    )


def test_a_density_is_the_same_after_its_arrays(fitted):
    again = FeatureDensity.from_arrays(fitted.to_arrays())

    np.testing.assert_array_equal(again.log_prob(blobs()), fitted.log_prob(blobs()))


@pytest.mark.parametrize("name", ["center", "scale", "flow.layers.0.weight_in", "flow.layers.3.bias_out"])
@pytest.mark.parametrize("damage", [lambda array: array[:-1], lambda array: np.full_like(array, np.nan)])
def test_damaged_arrays_are_refused(fitted, name, damage):
    arrays = fitted.to_arrays()

    with pytest.raises(ValueError, match=r"fit each other|not finite"):
        FeatureDensity.from_arrays(arrays | {name: damage(arrays[name])})


def test_a_missing_array_is_refused(fitted):
    arrays = fitted.to_arrays()
    del arrays["flow.layers.3.bias_out"]

    with pytest.raises(ValueError, match="do not fit each other"):
        FeatureDensity.from_arrays(arrays)


def test_no_features_are_refused():
    with pytest.raises(InvalidInputError, match="features is empty"):
        fit_real_nvp(np.empty((0, 3)), seed=0)

"""SNGP's last layer against the closed form and on data whose answer is known."""

import numpy as np
import pytest

from knn_ue.errors import InvalidInputError

torch = pytest.importorskip("torch")

from knn_ue_lab.heads.gaussian_process import GaussianProcessHead  # noqa: E402
from knn_ue_lab.training.sngp import Sngp  # noqa: E402
from rays import points_at, two_blobs  # noqa: E402

WIDTH = 8


def make_head(**options):
    torch.manual_seed(0)
    return GaussianProcessHead(in_features=WIDTH, n_classes=3, **options).eval()


def test_the_covariance_is_the_closed_form_one_whatever_the_batches():
    head = make_head(n_features=64, ridge=0.01)
    rows = torch.randn(200, WIDTH)

    head.set_covariance(torch.split(rows, 7))

    phi = head.features(rows).double().numpy()
    expected = 0.01 * np.linalg.inv(0.01 * np.eye(64) + phi.T @ phi)
    np.testing.assert_allclose(head.covariance.numpy(), expected, atol=1e-6)


def test_a_second_pass_starts_anew():
    head = make_head(n_features=32)
    rows = torch.randn(50, WIDTH)
    head.set_covariance([rows])
    once = head.covariance.clone()

    head.set_covariance([rows])

    assert torch.equal(head.covariance, once)


@pytest.mark.slow
def test_random_features_approximate_the_gaussian_kernel():
    head = make_head(n_features=20_000, length_scale=0.7)
    rows = torch.randn(20, WIDTH)

    kernel = head.features(rows) @ head.features(rows).T

    normalized = torch.nn.functional.layer_norm(rows, (WIDTH,))
    squared = torch.cdist(normalized, normalized) ** 2
    np.testing.assert_allclose(kernel, torch.exp(-squared / (2 * 0.49 * WIDTH)), atol=0.05)


def test_the_variance_grows_away_from_the_data():
    blobs = two_blobs(WIDTH)
    head = make_head(n_features=512, length_scale=0.3)
    head.set_covariance([torch.from_numpy(blobs.rows)])

    near, far, farther = (
        head.variance(torch.from_numpy(points_at(blobs, deviations))).mean().item() for deviations in (0, 3, 6)
    )

    assert near < far < farther
    assert farther < 1.5  # 1 is the prior's, which the ridge keeps it from exploding beyond


def test_logits_are_those_of_the_loss_shrunk_by_the_variance():
    head = make_head(n_features=64, mean_field_factor=2.0)
    torch.nn.init.normal_(head.output.weight)
    rows = torch.randn(30, WIDTH)
    head.set_covariance([rows[:10]])

    ratio = (head(rows) / head.logits(rows)).detach().numpy()

    expected = np.sqrt(1 + 2.0 * head.variance(rows).detach().numpy())
    np.testing.assert_allclose(ratio, np.repeat(expected[:, None], 3, axis=1), rtol=1e-4)


def test_random_features_are_never_trained():
    trained = {name for name, _ in make_head().named_parameters()}

    assert trained == {"output.weight"}


def test_a_ridge_too_small_to_invert_is_refused_before_training():
    with pytest.raises(InvalidInputError, match="ridge must be at least 1e-09, got 1e-18"):
        Sngp(ridge=1e-18)


def test_the_smallest_ridge_can_be_inverted():
    head = make_head(n_features=256, ridge=1e-9)

    head.set_covariance([torch.ones(1, WIDTH).repeat(2000, 1), torch.randn(3000, WIDTH)[:50]])

    assert torch.isfinite(head.covariance).all()

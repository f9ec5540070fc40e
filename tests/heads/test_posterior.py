"""Posterior Networks: the loss against scipy and Monte Carlo, the head on data whose answer is known."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import digamma

from knn_ue.errors import InvalidInputError

torch = pytest.importorskip("torch")

from knn_ue_lab.heads.posterior import PosteriorHead  # noqa: E402
from knn_ue_lab.training.posterior import Posterior, uncertain_cross_entropy  # noqa: E402
from rays import points_at, two_blobs  # noqa: E402

pytestmark = pytest.mark.slow

WIDTH = 6
ALPHA = np.array([[1.2, 3.4, 8.0], [1.0, 1.0, 1.0], [400.0, 2.0, 30.0]])
LABELS = np.array([2, 0, 1])


@pytest.fixture(scope="module")
def trained():
    torch.manual_seed(0)
    blobs = two_blobs(WIDTH)
    head = PosteriorHead(in_features=WIDTH, n_classes=2, latent_dim=4)
    head.class_counts.copy_(torch.tensor([300.0, 300.0]))
    optimizer = torch.optim.Adam(head.parameters(), lr=0.01)
    rows, labels = torch.from_numpy(blobs.rows), torch.from_numpy(blobs.labels)
    for _ in range(300):
        optimizer.zero_grad()
        uncertain_cross_entropy(head(rows), labels, entropy_weight=1e-5).mean().backward()
        optimizer.step()
    return head.eval(), blobs


def loss(entropy_weight):
    return uncertain_cross_entropy(
        torch.from_numpy(np.log(ALPHA)), torch.from_numpy(LABELS), entropy_weight=entropy_weight
    ).numpy()


def test_the_loss_is_the_expected_cross_entropy():
    drawn = np.random.default_rng(0)
    expected = [
        -np.log(drawn.dirichlet(alpha, size=200_000)[:, label]).mean()
        for alpha, label in zip(ALPHA, LABELS, strict=True)
    ]

    np.testing.assert_allclose(loss(0.0), expected, rtol=0.02)
    np.testing.assert_allclose(loss(0.0), digamma(ALPHA.sum(axis=1)) - digamma(ALPHA[range(3), LABELS]), rtol=1e-12)


def test_the_loss_rewards_the_entropy_of_the_dirichlet():
    entropy = [stats.dirichlet(alpha).entropy() for alpha in ALPHA]

    np.testing.assert_allclose(loss(0.0) - loss(0.5), 0.5 * np.array(entropy), rtol=1e-9)


@pytest.mark.parametrize(("scaled", "scale"), [(False, 1.0), (True, 4 * np.pi)])  # (4 pi)^(d / 2), d = 2
def test_alpha_is_one_plus_the_count_times_the_density(scaled, scale):
    torch.manual_seed(0)
    head = PosteriorHead(in_features=WIDTH, n_classes=3, latent_dim=2, scaled=scaled).eval()
    head.class_counts.copy_(torch.tensor([10.0, 0.0, 1000.0]))
    rows = torch.randn(5, WIDTH)

    alpha = head(rows).exp()

    density = head.flows.log_prob(head.normalize(head.project(rows))).exp()
    torch.testing.assert_close(alpha, 1 + head.class_counts * scale * density)


def test_scaled_densities_of_a_standard_normal_are_one_on_average_whatever_the_columns():
    drawn = np.random.default_rng(0)

    for n_columns in (2, 6):
        points = stats.multivariate_normal(np.zeros(n_columns)).rvs(200_000, random_state=drawn)
        density = stats.multivariate_normal(np.zeros(n_columns)).pdf(points).mean()
        head = PosteriorHead(in_features=WIDTH, n_classes=2, latent_dim=n_columns, scaled=True)
        assert density * np.exp(head.log_scale) == pytest.approx(1.0, rel=0.02)


def test_probabilities_are_alpha_over_alpha_0():
    torch.manual_seed(0)
    head = PosteriorHead(in_features=WIDTH, n_classes=3, latent_dim=2).eval()
    head.class_counts.copy_(torch.tensor([10.0, 20.0, 1000.0]))
    rows = torch.randn(5, WIDTH)

    probs = torch.softmax(head.logits(rows), dim=1)

    alpha = head(rows).exp()
    torch.testing.assert_close(probs, alpha / alpha.sum(dim=1, keepdim=True))
    assert probs.max() > 0.8  # which a softmax of them, at most e / (e + 2), could not be


def test_the_blobs_are_told_apart(trained):
    head, blobs = trained

    predicted = head.logits(torch.from_numpy(blobs.rows)).argmax(dim=1).numpy()

    assert (predicted == blobs.labels).mean() > 0.98


def test_alpha_0_falls_away_from_the_data_down_to_the_prior(trained):
    head, blobs = trained

    near, far, farther, farthest = (
        head(torch.from_numpy(points_at(blobs, deviations))).double().exp().sum(dim=1).mean().item()
        for deviations in (0, 3, 6, 1000)
    )

    assert near > far > farther > farthest
    assert farthest == pytest.approx(2.0)


def test_a_batch_of_one_row_can_be_learned_from(trained):
    head = PosteriorHead(in_features=WIDTH, n_classes=2)

    assert torch.isfinite(head.train()(torch.ones(1, WIDTH))).all()


def test_an_alpha_that_is_no_number_is_left_to_the_trainer_which_names_the_step():
    log_alpha = torch.full((2, 3), torch.nan)

    assert torch.isnan(uncertain_cross_entropy(log_alpha, torch.tensor([0, 1]), entropy_weight=1e-5)).all()


@pytest.mark.parametrize("weight", [-1.0, np.nan])
def test_an_entropy_weight_below_0_or_not_a_number_is_refused(weight):
    with pytest.raises(InvalidInputError, match="entropy_weight must be at least 0"):
        Posterior(entropy_weight=weight)

"""E-NER: each term of its loss against scipy and Monte Carlo."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import digamma, gammaln

torch = pytest.importorskip("torch")

from knn_ue_lab.heads.evidential import EvidentialHead  # noqa: E402
from knn_ue_lab.training.evidential import Evidential, evidential_terms  # noqa: E402

LOG_EVIDENCE = np.array([[2.0, -1.0, 0.5], [0.0, 0.0, 3.0], [-10.0, -10.0, -10.0], [1.0, 5.0, 1.0]])
LABELS = np.array([0, 1, 2, 1])  # right, wrong, wrong, right


def terms():
    return [term.numpy() for term in evidential_terms(torch.from_numpy(LOG_EVIDENCE), torch.from_numpy(LABELS))]


def test_the_first_term_is_the_expected_cross_entropy_weighted_by_what_evidence_lacks():
    evidence = np.exp(LOG_EVIDENCE)
    alpha, total = evidence + 1, (evidence + 1).sum(axis=1)
    at = range(4), LABELS

    expected = (1 - evidence[at] / total) * (digamma(total) - digamma(alpha[at]))

    np.testing.assert_allclose(terms()[0], expected, rtol=1e-12)


def test_the_second_term_is_the_divergence_of_misleading_evidence_from_none():
    drawn = np.random.default_rng(0)
    alpha = np.exp(LOG_EVIDENCE) + 1
    alpha[range(4), LABELS] = 1.0
    sampled = []
    for row in alpha:
        samples = drawn.dirichlet(row, size=200_000).T
        sampled.append((stats.dirichlet(row).logpdf(samples) - gammaln(3)).mean())

    np.testing.assert_allclose(terms()[1], sampled, atol=0.02)


def test_the_third_term_counts_for_wrong_answers_only():
    total = (np.exp(LOG_EVIDENCE) + 1).sum(axis=1)

    expected = np.where([False, True, True, False], -np.log(3 / total), 0.0)

    np.testing.assert_allclose(terms()[2], expected, rtol=1e-7)


@pytest.mark.parametrize(("done", "weight"), [(0.0, 0.0), (0.25, 0.5), (0.5, 1.0), (0.9, 1.0)])
def test_the_second_and_third_term_grow_to_full_weight(done, weight):
    fit, divergence, mass = terms()

    found = Evidential(annealed=0.5).loss(torch.from_numpy(LOG_EVIDENCE), torch.from_numpy(LABELS), done)

    assert found.item() == pytest.approx((fit + weight * (divergence + mass)).mean())


def test_probabilities_are_alpha_over_their_sum():
    torch.manual_seed(0)
    head = EvidentialHead(in_features=4, n_classes=3)
    rows = torch.randn(6, 4)

    probs = torch.softmax(head.logits(rows), dim=1)

    alpha = head(rows).exp() + 1
    torch.testing.assert_close(probs, alpha / alpha.sum(dim=1, keepdim=True))


def test_an_extreme_answer_stays_finite():
    head = EvidentialHead(in_features=4, n_classes=3)

    loss = Evidential().loss(head(1e6 * torch.randn(6, 4)), torch.arange(6) % 3, 1.0)

    assert torch.isfinite(loss)


def test_an_answer_that_is_no_number_is_left_to_the_trainer_which_names_the_step():
    loss = Evidential().loss(torch.full((2, 3), torch.nan), torch.tensor([0, 1]), 1.0)

    assert torch.isnan(loss)

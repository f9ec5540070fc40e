"""Shared fixtures: toy problems, seeded."""

import pytest

from knn_ue.toy import pockets, two_blobs
from knn_ue.types import Outputs


@pytest.fixture(scope="session")
def toy() -> tuple[Outputs, Outputs, Outputs]:
    """Train, validation and test of two blobs whose logits are three times too large."""
    return two_blobs(overconfident_by=3.0, n_train=600, n_validation=500, n_test=400, seed=0)


@pytest.fixture(scope="session")
def hard_toy() -> tuple[Outputs, Outputs, Outputs, Outputs]:
    """Train, validation, test and out-of-domain outputs of a model that is blind to pockets of mixed labels."""
    return pockets(n_train=900, n_validation=600, n_test=500, n_out=300, seed=0)


@pytest.fixture(autouse=True, scope="session")
def no_encoder_unasked():
    """Let "auto" choose among readers that take no seconds to load: tests that want an encoder name it."""
    from knn_ue.pipeline import verified

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verified, "TRIED", ("instant",))
        yield

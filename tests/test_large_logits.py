"""Logits that cannot be computed with are refused; all others give probabilities, whatever their magnitude."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knn_ue import evaluate
from knn_ue.errors import InvalidInputError
from knn_ue.methods import METHODS, make_calibrator
from knn_ue.types import Outputs

FAST = [name for name in METHODS if name not in ("density-softmax", "span-verdict")]  # trains a flow each time
LIMIT = 1e50


@pytest.mark.parametrize("value", [1.1e50, 1e155, 1e300, -1e155])
def test_logits_beyond_the_limit_are_refused(value):
    with pytest.raises(InvalidInputError, match=r"logits must lie within -1e\+50 and 1e\+50, got a magnitude of 1"):
        Outputs(logits=[[0.0, 1.0], [value, 0.0]])


@pytest.mark.parametrize("value", [np.float32(3.4e38), 1e50, -1e50])
def test_logits_up_to_the_limit_are_taken(value):
    assert len(Outputs(logits=np.array([[0.0, value]]))) == 1


def scaled(outputs, seed, exponents):
    """Return the outputs with each logit multiplied by ten to a power of its own, within the limit."""
    powers = np.random.default_rng(seed).choice(exponents, size=outputs.logits.shape)
    logits = np.clip(outputs.logits.astype(np.float64) * 10.0**powers, -LIMIT, LIMIT)
    return replace(outputs, logits=logits, class_names=None)


@pytest.mark.parametrize("name", FAST)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 1000),
    exponents=st.lists(st.sampled_from([-300.0, -50.0, 0.0, 3.0, 20.0, 38.0, 49.0, 60.0]), min_size=1, max_size=4),
)
def test_every_method_gives_probabilities_for_any_logits_within_the_limit(hard_toy, name, seed, exponents):
    train, validation, test = (
        scaled(part.take(slice(0, 60)), seed + number, exponents) for number, part in enumerate(hard_toy[:3])
    )

    calibrator = make_calibrator(name, train, n_neighbors=5).fit(validation)
    probs = calibrator.predict_proba(test)

    assert np.isfinite(probs).all()
    np.testing.assert_allclose(probs.sum(axis=1), 1.0, atol=1e-9)
    measured = evaluate(calibrator, test).to_json()
    assert "NaN" not in measured and "Infinity" not in measured

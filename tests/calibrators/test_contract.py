"""What every registered method must keep. To register is to be tested."""

from dataclasses import replace

import numpy as np
import pytest

from knn_ue.calibrators import SoftmaxResponse
from knn_ue.errors import InvalidInputError, NotFittedError, StorageError
from knn_ue.methods import METHODS, load_calibrator, make_calibrator
from knn_ue.types import Outputs
from marks import slow_but

# A flow is trained in nearly each test of this one: `make check` leaves it to `make test`.
SLOW = {"density-softmax"}
READS_WORDS = {"span-verdict"}  # judges marked entities of sentences: tests/calibrators/test_span_verdict.py
pytestmark = pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in METHODS if name not in READS_WORDS],
)
READS_TEXTS = {"verdict"}  # learns from at least 50 rows, most of all from their texts


def log_loss(probs, labels):
    return -np.log(probs[np.arange(len(labels)), labels]).mean()


def with_logits(outputs: Outputs, logits) -> Outputs:
    return replace(outputs, logits=logits, class_names=None)


@pytest.fixture(scope="module")
def fitted(hard_toy):
    train, validation, _, _ = hard_toy
    return _Fitted(train, validation)


class _Fitted(dict):
    """Calibrators by name, each fitted when a test first asks for it."""

    def __init__(self, train, validation):
        super().__init__()
        self._train, self._validation = train, validation

    def __missing__(self, name):
        self[name] = make_calibrator(name, self._train, n_neighbors=16).fit(self._validation)
        return self[name]


def test_every_row_of_probabilities_sums_to_one(name, fitted, hard_toy):
    for outputs in hard_toy:
        np.testing.assert_allclose(fitted[name].predict_proba(outputs).sum(axis=1), 1.0, atol=1e-12)


def test_probabilities_are_within_zero_and_one(name, fitted, hard_toy):
    probs = fitted[name].predict_proba(hard_toy[3])

    assert probs.min() >= 0
    assert probs.max() <= 1


def test_the_order_of_rows_does_not_matter(name, fitted, hard_toy):
    order = np.random.default_rng(0).permutation(len(hard_toy[2]))

    shuffled = fitted[name].predict_proba(hard_toy[2].take(order))

    np.testing.assert_allclose(shuffled, fitted[name].predict_proba(hard_toy[2])[order], rtol=1e-9)


@pytest.mark.parametrize("size", slow_but(300, [1, 7, 300]))
def test_the_batch_size_does_not_matter(name, fitted, hard_toy, size):
    test = hard_toy[2].take(slice(0, 301))

    batches = [fitted[name].predict_proba(test.take(slice(i, i + size))) for i in range(0, len(test), size)]

    np.testing.assert_allclose(np.concatenate(batches), fitted[name].predict_proba(test), rtol=1e-9)


def test_inputs_are_unchanged(name, hard_toy):
    train, validation, test, _ = (part.take(slice(0, 200)) for part in hard_toy)
    before = [(part.logits.copy(), part.features.copy(), part.labels.copy()) for part in (train, validation, test)]

    make_calibrator(name, train, n_neighbors=8).fit(validation).predict_proba(test)

    for part, (logits, features, labels) in zip((train, validation, test), before, strict=True):
        np.testing.assert_array_equal(part.logits, logits)
        np.testing.assert_array_equal(part.features, features)
        np.testing.assert_array_equal(part.labels, labels)


def test_unfitted_calibrator_raises_not_fitted(name, hard_toy):
    with pytest.raises(NotFittedError, match="is not fitted: call fit"):
        make_calibrator(name, hard_toy[0]).predict_proba(hard_toy[2])


def test_unfitted_calibrator_cannot_be_saved(name, hard_toy, tmp_path):
    with pytest.raises(NotFittedError, match="is not fitted: call fit"):
        make_calibrator(name, hard_toy[0]).save(tmp_path / "ue")


def test_save_then_load_gives_equal_probabilities(name, fitted, hard_toy, tmp_path):
    fitted[name].save(tmp_path / "ue")

    loaded = type(fitted[name]).load(tmp_path / "ue")

    np.testing.assert_array_equal(loaded.predict_proba(hard_toy[2]), fitted[name].predict_proba(hard_toy[2]))


def test_a_loaded_calibrator_saved_over_itself_is_the_same(name, fitted, hard_toy, tmp_path):
    fitted[name].save(tmp_path / "ue")
    load_calibrator(tmp_path / "ue").save(tmp_path / "ue")

    again = load_calibrator(tmp_path / "ue")

    np.testing.assert_array_equal(again.predict_proba(hard_toy[2]), fitted[name].predict_proba(hard_toy[2]))


def test_a_folder_of_another_kind_is_refused(name, fitted, tmp_path):
    other = next(n for n in METHODS if METHODS[n].calibrator is not METHODS[name].calibrator)
    fitted[other].save(tmp_path / "ue")

    with pytest.raises(StorageError, match="load it with the class that saved it"):
        type(fitted[name]).load(tmp_path / "ue")


def test_the_logits_argmax_holds_the_largest_probability(name, fitted, hard_toy):
    if not METHODS[name].calibrator.keeps_prediction:
        pytest.skip(f"{name} may change predictions")
    for outputs in hard_toy:
        np.testing.assert_array_equal(fitted[name].predict_proba(outputs).argmax(axis=1), outputs.predicted)


def test_predictions_stay_even_where_logits_barely_differ(name, fitted, hard_toy):
    if not METHODS[name].calibrator.keeps_prediction:
        pytest.skip(f"{name} may change predictions")
    far = hard_toy[3]
    close = with_logits(far, far.logits * 1e-13)

    np.testing.assert_array_equal(fitted[name].predict_proba(close).argmax(axis=1), close.predicted)


def test_fit_is_no_worse_than_softmax_on_validation(name, fitted, hard_toy):
    if not METHODS[name].calibrator.fitted_on_validation:
        pytest.skip(f"{name} does not learn from validation")
    validation = hard_toy[1]
    softmax = fitted["softmax"].predict_proba(validation)

    assert log_loss(fitted[name].predict_proba(validation), validation.labels) <= log_loss(softmax, validation.labels)


@pytest.mark.parametrize("factor", slow_but(1e3, [1e-3, 1e3]))
def test_the_scale_of_the_logits_does_not_matter_to_the_fit(name, hard_toy, factor):
    if name in READS_TEXTS | {"density-softmax"} or METHODS[name].calibrator is SoftmaxResponse:
        pytest.skip(f"{name} takes the logits as they are: it has no temperature")
    train, validation, test, _ = hard_toy
    plain = make_calibrator(name, train, n_neighbors=16).fit(validation).predict_proba(test)

    scaled = make_calibrator(name, train, n_neighbors=16).fit(with_logits(validation, validation.logits * factor))

    np.testing.assert_allclose(scaled.predict_proba(with_logits(test, test.logits * factor)), plain, atol=1e-5)


def test_zero_rows_give_zero_rows(name, fitted, hard_toy):
    empty = hard_toy[2].take(slice(0, 0))

    assert fitted[name].predict_proba(empty).shape == (0, empty.n_classes)


def test_prediction_holds_both_confidences(name, fitted, hard_toy):
    prediction = fitted[name].predict(hard_toy[2])

    rows = np.arange(len(hard_toy[2]))
    np.testing.assert_array_equal(prediction.confidence, prediction.probs[rows, prediction.predicted])
    np.testing.assert_array_equal(prediction.predicted, hard_toy[2].predicted)


def test_fit_without_labels_says_so(name, hard_toy):
    train, validation, _, _ = hard_toy
    unlabeled = Outputs(features=validation.features, logits=validation.logits, layers=validation.layers)

    with pytest.raises(InvalidInputError, match="needs labels"):
        make_calibrator(name, train, n_neighbors=8).fit(unlabeled)


def test_fit_on_nothing_says_so(name, hard_toy):
    with pytest.raises(InvalidInputError, match="is empty: at least one row is needed"):
        make_calibrator(name, hard_toy[0], n_neighbors=8).fit(hard_toy[1].take(slice(0, 0)))


def test_another_number_of_classes_is_refused(name, fitted, hard_toy):
    test = hard_toy[2]
    wider = with_logits(test, np.hstack([test.logits, test.logits[:, :1]]))

    with pytest.raises(InvalidInputError, match="use outputs of the same model"):
        fitted[name].predict_proba(wider)


def test_a_single_validation_row_is_enough_to_stay_finite(name, hard_toy):
    if name in READS_TEXTS:
        pytest.skip(f"{name} needs more rows, and says so")
    calibrator = make_calibrator(name, hard_toy[0], n_neighbors=8).fit(hard_toy[1].take([0]))

    assert np.isfinite(calibrator.predict_proba(hard_toy[3])).all()


def test_perfectly_separated_validation_stays_finite(name, hard_toy):
    train, validation, test, _ = hard_toy
    right = validation.take(validation.predicted == validation.labels)

    probs = make_calibrator(name, train, n_neighbors=8).fit(right).predict_proba(test)

    assert np.isfinite(probs).all()


def test_equal_logits_everywhere_stay_finite(name, hard_toy):
    train, validation, _, _ = hard_toy
    flat = with_logits(validation, np.zeros_like(validation.logits))

    probs = make_calibrator(name, train, n_neighbors=8).fit(flat).predict_proba(flat)

    assert np.isfinite(probs).all()
    if METHODS[name].calibrator.keeps_prediction:  # others may know that a class is more frequent
        np.testing.assert_allclose(probs, 1 / validation.n_classes)

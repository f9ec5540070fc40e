"""`Familiarity`: a p-value that keeps its promise in domain, and says when an input is of another kind."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from knn_ue import Familiarity, InvalidInputError, NotFittedError, Outputs
from knn_ue.familiarity import TrainingSpace, conformal_p_value, span_means
from knn_ue.toy import two_blobs
from marks import slow_but


def outputs_of(views: np.ndarray, **more: object) -> Outputs:
    return Outputs(logits=np.tile([1.0, 0.0], (len(views), 1)), views=views, **more)


def drawn(rng: np.random.Generator, n_rows: int, *, shift: float = 0.0) -> Outputs:
    return outputs_of(rng.normal(size=(n_rows, 3, 5)) * [1.0, 2.0, 0.1, 5.0, 1.0] + shift)


@pytest.mark.parametrize("n_validation", [1, 7, 19, 99, 150])
@pytest.mark.parametrize("rate", slow_but(0.05, [0.01, 0.05, 0.2]))
def test_false_alarms_stay_below_the_stated_rate_in_domain(n_validation, rate):
    rng = np.random.default_rng(n_validation)
    space = TrainingSpace.measure(drawn(rng, 40))

    alarms = []
    for _ in range(400):
        familiarity = Familiarity(space, false_alarm_rate=rate).fit(drawn(rng, n_validation))
        alarms.append(familiarity.is_unfamiliar(familiarity.p_value(drawn(rng, 20))).mean())

    expected = np.floor(rate * (n_validation + 1)) / (n_validation + 1)  # exact for continuous scores
    # Of one fit, the rate is beta distributed around that; 20 rows show it only roughly.
    variance = expected * (1 - expected) * (1 / (n_validation + 2) + 1 / 20)
    assert np.mean(alarms) == pytest.approx(expected, abs=4 * np.sqrt(variance / 400))


def test_false_alarms_stay_below_the_rate_where_scores_tie():
    rng = np.random.default_rng(0)
    n_below = 0
    for _ in range(3000):
        scores = rng.integers(0, 4, size=20).astype(float)
        n_below += conformal_p_value(scores[:1], np.sort(scores[1:]))[0] <= 0.25

    assert n_below / 3000 <= 0.25 + 3 * np.sqrt(0.25 * 0.75 / 3000)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12))
def test_over_all_orders_of_any_scores_p_values_are_never_too_small(values):
    scores = np.array(values, dtype=float)
    p_values = [
        conformal_p_value(scores[row : row + 1], np.sort(np.delete(scores, row)))[0] for row in range(len(scores))
    ]

    for level in np.arange(1, len(scores) + 1) / len(scores):
        assert np.mean(np.array(p_values) <= level) <= level + 1e-12


def test_p_value_equals_the_plain_count():
    rng = np.random.default_rng(1)
    validation, asked = rng.integers(0, 9, 30).astype(float), rng.integers(-1, 10, 50).astype(float)

    found = conformal_p_value(asked, np.sort(validation))

    np.testing.assert_allclose(found, reference.conformal_p_values(asked, validation))


def test_score_equals_the_slow_version():
    rng = np.random.default_rng(2)
    train, asked = drawn(rng, 60), drawn(rng, 9, shift=1.0)

    found = TrainingSpace.measure(train).score(asked)

    np.testing.assert_allclose(found, reference.unusualness(train.views, asked.views), rtol=1e-4)


def test_inputs_of_another_kind_are_unfamiliar():
    rng = np.random.default_rng(3)
    familiarity = Familiarity(drawn(rng, 300)).fit(drawn(rng, 300))

    p_value = familiarity.p_value(drawn(rng, 50, shift=6.0))

    assert familiarity.is_unfamiliar(p_value).all()
    assert p_value.max() == pytest.approx(1 / 301)


def test_layers_and_features_stand_in_for_views():
    rng = np.random.default_rng(4)
    values = rng.normal(size=(80, 2, 4)).astype(np.float32)
    logits = np.zeros((80, 2))
    by_views = Outputs(logits=logits, views=values)
    by_layers = Outputs(logits=logits, layers=[values[:, 0], values[:, 1]])
    by_features = Outputs(logits=logits, features=values[:, 0])

    np.testing.assert_allclose(
        Familiarity(by_views).fit(by_views).p_value(by_views), Familiarity(by_layers).fit(by_layers).p_value(by_layers)
    )
    assert Familiarity(by_features).fit(by_features).p_value(by_features).shape == (80,)


def test_sentences_and_entities_are_compared_with_their_like():
    rng = np.random.default_rng(5)
    groups = np.repeat(np.arange(20), 3)
    logits = np.tile([[5.0, 0.0, 0.0], [0.0, 5.0, 0.0], [0.0, 0.0, 5.0]], (20, 1))
    words = Outputs(
        logits=logits, views=rng.normal(size=(60, 2, 4)), groups=groups, class_names=["O", "B-PER", "I-PER"]
    )

    familiarity = Familiarity(words).fit(words)

    scores = familiarity.score(words)
    assert {name: len(values) for name, values in familiarity.reference_.items()} == {
        "rows": 60,
        "sentences": 20,
        "entities": 20,
    }
    np.testing.assert_allclose(familiarity.reference_["sentences"], np.sort(scores.reshape(20, 3).mean(axis=1)))
    np.testing.assert_allclose(familiarity.reference_["entities"], np.sort(scores.reshape(20, 3)[:, 1:].mean(axis=1)))


def test_what_is_stored_gives_the_same_p_values():
    rng = np.random.default_rng(6)
    fitted = Familiarity(drawn(rng, 50), false_alarm_rate=0.03).fit(drawn(rng, 40))

    read = Familiarity.from_arrays(fitted.to_arrays(), false_alarm_rate=0.03)

    asked = drawn(rng, 25, shift=0.5)
    np.testing.assert_array_equal(read.p_value(asked), fitted.p_value(asked))


def test_what_is_stored_does_not_grow_with_the_training_set():
    rng = np.random.default_rng(7)
    sizes = [
        sum(array.nbytes for array in TrainingSpace.measure(drawn(rng, n_rows)).to_arrays().values())
        for n_rows in (20, 2000)
    ]

    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("damaged", ["space.scale", "space.whitening.0", "reference.rows", "space.mean.1"])
def test_damaged_arrays_are_refused(damaged):
    rng = np.random.default_rng(8)
    arrays = Familiarity(drawn(rng, 50)).fit(drawn(rng, 40)).to_arrays()

    with pytest.raises((ValueError, KeyError)):
        Familiarity.from_arrays(arrays | {damaged: -np.ones((3, 2, 2))}, false_alarm_rate=0.01)


def test_unfitted_familiarity_raises_not_fitted():
    with pytest.raises(NotFittedError):
        Familiarity(drawn(np.random.default_rng(0), 5)).p_value(drawn(np.random.default_rng(0), 5))


@pytest.mark.parametrize("rate", [0, 1, -0.1, True])
def test_a_rate_outside_zero_and_one_is_refused(rate):
    rng = np.random.default_rng(0)
    with pytest.raises(InvalidInputError, match="false_alarm_rate must lie between 0 and 1"):
        Familiarity(drawn(rng, 5), false_alarm_rate=rate).fit(drawn(rng, 5))


def test_outputs_of_another_encoder_are_refused():
    rng = np.random.default_rng(0)
    familiarity = Familiarity(drawn(rng, 20)).fit(drawn(rng, 20))

    with pytest.raises(InvalidInputError, match=r"3 views of 5 columns, these Outputs have 1 of 7"):
        familiarity.score(outputs_of(rng.normal(size=(4, 1, 7))))


def test_constant_views_and_a_single_training_row_are_no_problem():
    one = outputs_of(np.ones((1, 2, 3)))

    assert Familiarity(one).fit(one).p_value(one) == pytest.approx(1.0)


def test_mean_of_an_empty_span_is_undefined():
    means = span_means(np.array([1.0, 3.0]), np.array([0, 1]), np.array([2, 1]))

    np.testing.assert_array_equal(means, [2.0, np.nan])


def test_views_in_half_precision_are_kept_as_they_are(tmp_path):
    from knn_ue.folder import Part, open_folder, write_folder
    from knn_ue.folder.tensors import outputs_from_arrays, outputs_to_arrays

    views = np.random.default_rng(0).normal(size=(6, 2, 3)).astype(np.float16)
    write_folder(tmp_path / "kept", Part(kind="kept", arrays=outputs_to_arrays(outputs_of(views))))

    read = outputs_from_arrays(open_folder(tmp_path / "kept").arrays, None)

    assert read.views.dtype == np.float16
    np.testing.assert_array_equal(read.views, views)


@pytest.mark.parametrize("rate", ["0.01", None, True, 0, 1])
def test_a_false_alarm_rate_is_a_number_between_0_and_1(rate):
    train, validation, _ = two_blobs(seed=0)

    with pytest.raises(InvalidInputError, match="false_alarm_rate must lie between 0 and 1, got"):
        Familiarity(train, false_alarm_rate=rate).fit(validation)


def test_a_bare_array_is_refused_with_what_to_pass():
    train, validation, _ = two_blobs(seed=0)

    with pytest.raises(InvalidInputError, match=r"Familiarity reads Outputs, got ndarray: pass Outputs\(features="):
        Familiarity(train.features).fit(validation)
    with pytest.raises(InvalidInputError, match="got ndarray"):
        Familiarity(train).fit(validation).score(validation.features)

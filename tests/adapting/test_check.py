from dataclasses import replace

import numpy as np
import pytest

import reference
from knn_ue.adapting import (
    Adaptation,
    LabeledScores,
    adapt_quickly,
    adapt_units,
    fit_log_scale,
    log_likelihood_gain,
    prior_unchanged,
)
from knn_ue.adapting.check import GATE, cross_validated
from knn_ue.familiarity import conformal_p_value
from knn_ue.folder import from_plain


def scores(n=60, *, says=0.97, right=0.7, seed=0):
    rng = np.random.default_rng(seed)
    return LabeledScores.of_scores(np.clip(rng.normal(says, 0.01, n), 0, 1), rng.random(n) < right)


def test_an_overconfident_domain_is_scaled_down_to_its_accuracy():
    found = adapt_units({"rows": scores(n=200)}).main

    assert found.applied and found.log_scale < 0
    assert found.confidence_after == pytest.approx(found.accuracy, abs=0.05)
    assert found.nll_change[1] < 0


def test_a_calibrated_domain_is_left_alone_and_the_reason_is_given():
    found = adapt_units({"rows": scores(says=0.7, seed=1)})

    assert not found.applied and found.log_scales == {"rows": 0.0}
    assert "no significant gain" in found.doubts[0]


def test_the_gate_passes_few_calibrated_domains():
    domains = [scores(n=50, says=0.8, right=0.8, seed=seed) for seed in range(60)]

    gains = [log_likelihood_gain(labeled, fit_log_scale(labeled)) for labeled in domains]

    assert np.mean(np.array(gains) > GATE) < 0.45


def test_rows_that_are_no_random_sample_change_nothing():
    found = adapt_units({"rows": scores()}, random_sample=False)

    assert not found.applied
    assert "not a random sample" in found.doubts[0] and "nothing was changed" in found.doubts[0]


def test_force_applies_and_says_so():
    found = adapt_units({"rows": scores(says=0.7)}, random_sample=False, force=True)

    assert found.applied and "because you forced it" in found.doubts[0]


def test_too_few_rows_change_nothing():
    found = adapt_units({"rows": scores(n=8, right=0.1)})

    assert not found.applied and any("too few" in doubt for doubt in found.doubts)


def test_copies_of_a_few_rows_are_too_few():
    rows = scores(n=5, right=0.1)
    copies = LabeledScores.of_scores(
        np.tile(np.exp(rows.log_probs[:, 1]), 10), np.tile(rows.correct, 10), groups=np.tile(np.arange(5), 10)
    )

    found = adapt_units({"rows": copies})

    assert not found.applied and found.n_rows == 5
    assert any("5 different labeled rows are too few" in doubt for doubt in found.doubts)


def test_weights_that_leave_one_row_change_nothing():
    rows = scores(n=50)
    uneven, even = (replace(rows, weights=np.r_[first, np.full(49, 0.001)]) for first in (1000.0, 0.002))

    found = adapt_units({"rows": uneven})

    assert not found.applied and any("50 rows count as 1.0" in doubt for doubt in found.doubts)
    assert adapt_units({"rows": even}).applied


def of_classes(labels, *, right):
    """Two classes, scores of 0.9, the prediction right on every row in the mask."""
    predicted = np.where(right, labels, 1 - labels)
    probs = np.full((len(labels), 2), 0.1)
    probs[np.arange(len(labels)), predicted] = 0.9
    return LabeledScores.of_probs(probs, labels)


def test_a_model_that_is_right_less_often_than_a_guess_raises_a_doubt():
    labels, place = np.arange(50) % 2, np.arange(50)

    wrong, half = (adapt_units({"rows": of_classes(labels, right=place < n)}) for n in (11, 25))

    assert any("22.0% of the rows, fewer than a random guess (50.0%)" in doubt for doubt in wrong.doubts)
    assert half.doubts == ()


def test_labels_of_one_class_where_the_model_predicts_more_raise_a_doubt():
    right = np.arange(50) % 2 == 0

    one, two = (adapt_units({"rows": of_classes(labels, right=right)}) for labels in (np.ones(50, int), 1 * right))

    assert any("all labels are of one class, but the model predicts 2" in doubt for doubt in one.doubts)
    assert not any("one class" in doubt for doubt in two.doubts)


def test_a_scale_without_a_significant_gain_is_called_that_even_where_it_is_applied():
    found = adapt_units({"rows": scores(says=0.7, seed=1)}, familiarity=0.1)

    assert found.applied
    assert "no significant gain" in found.doubts[0] and "unlike the training data" in found.doubts[0]


def test_a_model_that_is_always_wrong_raises_a_doubt():
    assert any("wrong on all" in doubt for doubt in adapt_units({"rows": scores(right=0.0)}).doubts)


def test_the_numbers_after_come_from_scales_that_have_not_seen_the_row():
    labeled = scores(n=40)

    scales = cross_validated(labeled, seed=0)
    flipped = LabeledScores.of_scores(
        np.exp(labeled.log_probs[:, 1]), np.where(np.arange(40) == 7, ~labeled.correct, labeled.correct)
    )

    assert cross_validated(flipped, seed=0)[7] == scales[7]
    assert (cross_validated(flipped, seed=0) != scales).any()
    assert 1 < len(np.unique(scales)) <= 10  # folds


@pytest.mark.slow
def test_the_numbers_before_and_after_are_those_of_the_scores():
    says = np.random.default_rng(2).uniform(0.85, 0.99, 80)
    right = np.arange(80) % 3 > 0
    labeled = LabeledScores.of_scores(says, right)

    found = adapt_units({"rows": labeled}).main

    odds = says / (1 - says) * np.exp(cross_validated(labeled, seed=0))
    after = odds / (1 + odds)
    for scored, nll, ece, mean in (
        (says, found.nll_before, found.ece_before, found.confidence_before),
        (after, found.nll_after, found.ece_after, found.confidence_after),
    ):
        assert nll == pytest.approx(-np.log(np.where(right, scored, 1 - scored)).mean())
        assert ece == pytest.approx(reference.ece(scored, right, n_bins=5))
        assert mean == pytest.approx(scored.mean())
    assert found.accuracy == pytest.approx(right.mean())


def test_words_of_one_sentence_are_held_out_together():
    groups = np.repeat(np.arange(12), 4)
    says, right = np.random.default_rng(0).uniform(0.9, 0.99, 48), np.random.default_rng(1).random(48) < 0.6
    other = np.where(np.arange(48) == 9, ~right, right)  # a word of the third sentence

    before, after = (
        cross_validated(LabeledScores.of_scores(says, correct, groups=groups), gate=False) for correct in (right, other)
    )

    np.testing.assert_array_equal(before[8:12], after[8:12])
    assert (before != after).sum() >= 36


@pytest.mark.parametrize(("says", "applied"), [(0.97, True), (0.7, False)])
def test_the_quick_scale_is_the_one_that_is_applied(says, applied):
    labeled = scores(says=says, seed=1)

    found = adapt_units({"rows": labeled})

    assert found.applied == applied
    assert adapt_quickly(labeled) == found.log_scales["rows"]
    assert ("not applied" in str(found)) == (not applied)


@pytest.mark.slow
def test_ten_rows_are_enough_and_nine_are_not():
    nine, ten = (adapt_units({"rows": scores(n=n, right=0.1)}) for n in (9, 10))

    assert (nine.applied, ten.applied) == (False, True)


def test_nothing_speaks_against_a_scale_from_enough_rows_that_gains():
    few, enough = (adapt_units({"rows": scores(n=n, says=0.99, right=0.5)}) for n in (29, 30))

    assert enough.applied and enough.doubts == ()
    assert few.doubts == ("29 labeled rows are few: label about 50",)


@pytest.mark.slow
def test_a_scale_at_its_bound_raises_a_doubt():
    usual, extreme = (
        adapt_units({"rows": LabeledScores.of_scores(np.full(400, says), np.arange(400) < n_right)})
        for says, n_right in ((0.9, 300), (0.9999999, 0))
    )

    assert not any("at its bound" in doubt for doubt in usual.doubts)
    assert any("at its bound" in doubt for doubt in extreme.doubts), extreme.main.log_scale


def test_no_entity_among_the_labels_leaves_entities_as_they_are():
    none = LabeledScores.of_scores(np.empty(0), np.empty(0, dtype=bool))

    found = adapt_units({"rows": scores(), "entities": none})

    unit = found.units["entities"]
    assert (unit.applied, unit.ece_before, unit.ece_after) == (False, 0.0, 0.0)
    assert str(found).splitlines()[1] == "entities: none among the labeled rows, left as they are"
    assert str(found).startswith(f"60 labeled rows, {found.units['rows'].accuracy:.1%} right")


@pytest.mark.slow
def test_what_is_saved_is_read_back():
    found = adapt_units({"rows": scores(), "entities": scores(seed=1)})

    assert from_plain(Adaptation, found.to_plain()) == found


def test_a_scale_beyond_its_bound_is_refused_when_read():
    plain = adapt_units({"rows": scores()}).to_plain()
    plain["units"]["rows"]["log_scale"] = float("nan")

    with pytest.raises(ValueError, match=r"units\.rows\.log_scale: input should be a finite number"):
        from_plain(Adaptation, plain)


@pytest.mark.slow
def test_inputs_that_have_moved_are_adapted_to_at_once_and_inputs_that_have_not_hardly_at_all():
    labeled = {"rows": scores(n=50, says=0.85, right=0.72, seed=3)}

    unread, familiar, moved = (adapt_units(labeled, familiarity=mean) for mean in (None, 0.5, 0.1))

    assert abs(familiar.main.log_scale) < abs(unread.main.log_scale) < abs(moved.main.log_scale)
    assert moved.applied and moved.familiarity == 0.1


@pytest.mark.slow
def test_moved_inputs_pass_without_the_gate():
    labeled = {"rows": scores(says=0.7, seed=1)}

    assert adapt_units(labeled, familiarity=0.1).applied and not adapt_units(labeled, familiarity=0.5).applied


@pytest.mark.parametrize(("n_reference", "n_rows"), [(50, 50), (50, 2000), (500, 200), (2000, 50)])
def test_in_domain_inputs_are_rarely_taken_for_moved_ones(n_reference, n_rows):
    rng = np.random.default_rng(0)
    p_values = [conformal_p_value(rng.random(n_rows), np.sort(rng.random(n_reference))) for _ in range(1500)]

    moved = [prior_unchanged(float(p.mean()), n_rows, n_reference=n_reference) < 0.5 for p in p_values]

    assert np.mean(moved) < 0.005

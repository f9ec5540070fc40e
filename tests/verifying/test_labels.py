"""The verifier of labels: it ranks, is calibrated, saves, explains, and never lets a row speak for itself."""

import json

import numpy as np
import pytest

from knn_ue import metrics
from knn_ue.errors import InvalidInputError
from knn_ue.verifying import InstantReader, LabelVerifier, fit_labels
from knn_ue.verifying.hashing import word_ngrams
from knn_ue.verifying.logistic import sigmoid
from knn_ue.verifying.record import agreement, confusion


@pytest.fixture(scope="module")
def verifier(labeled):
    return fit_labels(labeled.views, labeled.answers, labeled.gold, n_classes=3, n_answers=4)


@pytest.fixture(scope="module")
def with_own(labeled):
    return fit_labels(labeled.views, labeled.answers, labeled.gold, labeled.own, n_classes=3, n_answers=4)


def test_wrong_answers_score_lower_than_right_ones(verifier, unlabeled):
    scores = verifier.verdict(unlabeled.views, unlabeled.answers)

    assert metrics.auroc(confidence=scores, correct=unlabeled.right) > 0.95


def test_the_mean_score_is_the_share_of_right_answers(verifier, unlabeled):
    scores = verifier.verdict(unlabeled.views, unlabeled.answers)

    assert scores.mean() == pytest.approx(unlabeled.right.mean(), abs=0.05)


def test_scores_of_labeled_rows_are_as_good_as_those_of_new_rows(verifier, labeled, unlabeled):
    new = verifier.verdict(unlabeled.views, unlabeled.answers)

    assert metrics.auroc(confidence=verifier.scores, correct=labeled.right) == pytest.approx(
        metrics.auroc(confidence=new, correct=unlabeled.right), abs=0.05
    )


def test_a_reader_that_sees_nothing_does_not_separate_its_own_labeled_rows(labeled):
    noise = {"noise": np.random.default_rng(5).normal(size=(len(labeled.gold), 300))}
    same = np.zeros_like(labeled.gold)  # the record of the model then says nothing either

    blind = fit_labels(noise, same, labeled.gold, n_classes=3)

    assert metrics.auroc(confidence=blind.scores, correct=same == labeled.gold) < 0.65


def test_distributions_sum_to_one(verifier, unlabeled):
    np.testing.assert_allclose(verifier.distribution(unlabeled.views).sum(axis=1), 1.0)


def test_the_best_class_given_the_answer_is_right_more_often_than_the_answer(verifier, unlabeled):
    best = verifier.posterior(unlabeled.views, unlabeled.answers).argmax(axis=1)

    assert (best == unlabeled.gold).mean() > unlabeled.right.mean() + 0.1


def test_the_verdict_is_the_stated_formula(verifier, unlabeled):
    probs = verifier.distribution(unlabeled.views)
    said = confusion(verifier.gold, verifier.answers, n_classes=3, n_answers=4)
    agreed = np.clip(agreement(probs, unlabeled.answers, said), 1e-4, 1 - 1e-4)

    expected = sigmoid(verifier.params.bias + verifier.params.slope * np.log(agreed / (1 - agreed)))

    np.testing.assert_allclose(verifier.verdict(unlabeled.views, unlabeled.answers), expected)


def test_an_answer_outside_the_class_list_scores_near_zero(verifier, unlabeled):
    scores = verifier.verdict(unlabeled.views, unlabeled.answers)

    assert scores[unlabeled.answers == 3].max() < 0.01


def test_an_own_score_that_knows_something_helps(verifier, with_own, unlabeled):
    alone = verifier.verdict(unlabeled.views, unlabeled.answers)

    both = with_own.verdict(unlabeled.views, unlabeled.answers, unlabeled.own)

    area = [metrics.e_aurc(confidence=scores, correct=unlabeled.right) for scores in (both, alone)]
    assert area[0] < area[1]


def test_an_unknown_own_score_counts_as_the_mean(with_own, unlabeled):
    unknown = np.full(len(unlabeled.own), np.nan)
    mean = np.full(len(unlabeled.own), with_own.params.own_mean)

    scores = with_own.verdict(unlabeled.views, unlabeled.answers, unknown)

    np.testing.assert_array_equal(scores, with_own.verdict(unlabeled.views, unlabeled.answers, mean))


def test_an_own_score_that_never_changes_changes_nothing(labeled, unlabeled, verifier):
    same = np.full(len(labeled.gold), 0.95)

    fitted = fit_labels(labeled.views, labeled.answers, labeled.gold, same, n_classes=3, n_answers=4)

    scores = fitted.verdict(unlabeled.views, unlabeled.answers, np.full(len(unlabeled.gold), 0.95))
    np.testing.assert_allclose(scores, verifier.verdict(unlabeled.views, unlabeled.answers))


def test_a_verifier_fitted_with_own_scores_asks_for_them(with_own, unlabeled):
    with pytest.raises(InvalidInputError, match="pass own_score, NaN where unknown"):
        with_own.verdict(unlabeled.views, unlabeled.answers)


def test_what_is_saved_as_json_and_arrays_gives_equal_scores(with_own, unlabeled):
    params, arrays = with_own.state()

    again = LabelVerifier.from_state(json.loads(json.dumps(params)), arrays)

    found = again.verdict(unlabeled.views, unlabeled.answers, unlabeled.own)
    np.testing.assert_array_equal(found, with_own.verdict(unlabeled.views, unlabeled.answers, unlabeled.own))


def test_a_verifier_on_texts_is_saved_too():
    texts = [f"{'refund' if row % 2 else 'delivery'} number {row}" for row in range(60)]
    views, gold = InstantReader().read(texts), np.arange(60) % 2
    fitted = fit_labels(views, gold, gold)

    again = LabelVerifier.from_state(*fitted.state())

    np.testing.assert_array_equal(again.verdict(views, gold), fitted.verdict(views, gold))


def test_the_terms_of_an_explanation_add_up_to_the_score(with_own, unlabeled):
    why = with_own.explain(unlabeled.views, unlabeled.answers, unlabeled.own)

    np.testing.assert_allclose(sigmoid(why.bias + why.verifier + why.own), why.score)


def test_an_explanation_has_the_models_record_on_the_answer(verifier, labeled, unlabeled):
    why = verifier.explain(unlabeled.views, unlabeled.answers)

    said = [int((labeled.answers == answer).sum()) for answer in unlabeled.answers]
    right = [int(((labeled.answers == answer) & labeled.right).sum()) for answer in unlabeled.answers]
    assert why.said.tolist() == said and why.right.tolist() == right


def test_a_labeled_row_is_its_own_nearest_row(verifier, labeled):
    why = verifier.explain(labeled.views, labeled.answers, top=3)

    assert why.rows[:, 0].tolist() == list(range(len(labeled.gold)))
    assert why.gold[:, 0].tolist() == labeled.gold.tolist() and why.given[:, 0].tolist() == labeled.answers.tolist()
    assert (np.diff(why.similarity, axis=1) <= 0).all()


def test_rows_are_scored_alike_alone_and_together(verifier, unlabeled):
    whole = verifier.verdict(unlabeled.views, unlabeled.answers)
    one = unlabeled.part(slice(7, 8))

    np.testing.assert_allclose(verifier.verdict(one.views, one.answers), whole[7:8])


def test_nothing_that_is_passed_is_changed(labeled):
    before = [array.copy() for array in (*labeled.views.values(), labeled.answers, labeled.gold, labeled.own)]

    fit_labels(labeled.views, labeled.answers, labeled.gold, labeled.own)

    after = (*labeled.views.values(), labeled.answers, labeled.gold, labeled.own)
    assert all((old == new).all() for old, new in zip(before, after, strict=True))


def test_the_fit_is_deterministic(labeled, verifier):
    again = fit_labels(labeled.views, labeled.answers, labeled.gold, n_classes=3, n_answers=4)

    np.testing.assert_array_equal(again.scores, verifier.scores)


@pytest.mark.parametrize("wrong", [False, True])
def test_a_model_that_is_always_right_or_always_wrong_can_be_fitted(labeled, wrong):
    answers = (labeled.gold + wrong) % 3

    fitted = fit_labels(labeled.views, answers, labeled.gold)

    assert np.isfinite(fitted.scores).all()
    assert fitted.scores.mean() == pytest.approx(1.0 - wrong, abs=0.1)


def test_a_single_class_can_be_fitted(labeled):
    gold = np.zeros_like(labeled.gold)

    fitted = fit_labels(labeled.views, gold, gold, n_classes=2)

    assert np.isfinite(fitted.verdict(labeled.views, gold)).all()


def test_fewer_than_50_rows_are_refused(labeled):
    few = labeled.part(slice(0, 49))

    with pytest.raises(InvalidInputError, match="needs 50 to 5,000 labeled rows, got 49: with fewer it cannot be"):
        fit_labels(few.views, few.answers, few.gold)


def test_an_answer_number_that_was_not_declared_is_refused(verifier, unlabeled):
    with pytest.raises(InvalidInputError, match="answers must be below the number of classes 4, got 9"):
        verifier.verdict(unlabeled.views, np.full(len(unlabeled.gold), 9))


def test_infinite_own_scores_are_refused(labeled):
    with pytest.raises(InvalidInputError, match=r"own_score must be finite or NaN \(unknown\)"):
        fit_labels(labeled.views, labeled.answers, labeled.gold, np.full(len(labeled.gold), -np.inf))


def test_views_of_another_length_are_refused(labeled):
    with pytest.raises(InvalidInputError, match="the view 'one' has 3 rows but 120 are expected"):
        fit_labels({"one": np.eye(3)}, labeled.answers, labeled.gold)


HOSTILE = {
    "gold": [lambda x: x + 99, lambda x: x[:-1], lambda x: -x - 1, lambda x: x.astype(np.float64)],
    "answers": [lambda x: x + 99, lambda x: x[:-1]],
    "scores": [lambda x: x * np.nan, lambda x: x + 2],
    "left_out": [lambda x: x[:, :-1], lambda x: -x],
    "own": [lambda x: x + np.inf, lambda x: x[:-1]],
    "dense.rows": [lambda x: x[:-1], lambda x: x * np.inf, lambda x: x.astype(np.float64)],
    "dense.center": [lambda x: x[:-1], lambda x: x * np.nan],
    "dense.scale": [lambda x: x * 0, lambda x: x * np.nan],
    "dense.weights": [lambda x: x[:, :-1], lambda x: x * np.nan],
    "sparse.starts": [lambda x: x[::-1].copy(), lambda x: x[:-1], lambda x: x + 1],
    "sparse.columns": [lambda x: x + 10**7, lambda x: -x - 1],
    "sparse.seen": [lambda x: x + 10**7, lambda x: x[:-1]],
    "sparse.idf": [lambda x: x[:-1], lambda x: x * np.nan],
    "sparse.sizes": [lambda x: x * 0, lambda x: x * 10**9],
}


@pytest.fixture(scope="module")
def stored():
    rng = np.random.default_rng(0)
    counts = word_ngrams([f"a{number % 7} b{number % 5} c" for number in range(60)])
    views = {"dense": rng.normal(size=(60, 4)).astype(np.float32), "sparse": counts}
    gold, answers = rng.integers(3, size=60), rng.integers(4, size=60)
    return fit_labels(views, answers, gold, rng.normal(size=60), n_classes=3, n_answers=4).state()


@pytest.mark.parametrize(("name", "change"), [(name, one) for name, all_ in HOSTILE.items() for one in all_])
def test_a_stored_array_that_does_not_fit_is_refused_before_it_is_used(stored, name, change):
    params, arrays = stored
    LabelVerifier.from_state(params, arrays)

    with pytest.raises(ValueError, match=r"must|contradict|are not among"):
        LabelVerifier.from_state(params, arrays | {name: np.ascontiguousarray(change(arrays[name]))})


def test_a_stored_array_that_is_missing_or_unknown_is_refused(stored):
    params, arrays = stored

    with pytest.raises(ValueError, match=r"dense\.center is missing"):
        LabelVerifier.from_state(params, {name: x for name, x in arrays.items() if name != "dense.center"})
    with pytest.raises(ValueError, match="belongs to no view"):
        LabelVerifier.from_state(params, arrays | {"other.rows": arrays["dense.rows"]})

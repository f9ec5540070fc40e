"""Prediction sets: their coverage by simulation, the sets by plain loops, by MAPIE and by TorchCP."""

import math
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from knn_ue.decisions import PredictionSets, Scored, SetMethod
from knn_ue.errors import InvalidInputError

METHODS = get_args(SetMethod)


def rows(rng, n, *, n_classes=4, shift=0.0):
    """Return scored rows whose labels are drawn by other probabilities than those that are said."""
    probs = rng.dirichlet(np.full(n_classes, 0.4), size=n)
    true = probs ** (1.0 - shift) / (probs ** (1.0 - shift)).sum(axis=1, keepdims=True)
    labels = np.array([rng.choice(n_classes, p=row) for row in true])
    return Scored(
        confidence=probs.max(axis=1),
        class_names=tuple("abcdefgh"[:n_classes]),
        probs=probs,
        predicted=probs.argmax(axis=1),
        correct=probs.argmax(axis=1) == labels,
        labels=labels,
    )


def sets_of(fitted, scored):
    return [set(one["set"]) for one in fitted.fields(scored)]


def matrix_of(fitted, scored):
    return np.array([[name in own for name in scored.class_names] for own in sets_of(fitted, scored)])


def plain_sets(held_out, new, coverage, method):
    """Return the same sets by the definitions, in loops."""

    def fit_of(row, label):
        if method in ("lac", "class"):
            return 1 - row[label]
        above = sum(p for other, p in enumerate(row) if p > row[label]) + row[label]
        rank = 1 + sum(p > row[label] for p in row)
        return above + (0.01 * max(0, rank - 5) if method == "raps" else 0.0)

    def limit(scores):
        rank = math.ceil(round((len(scores) + 1) * coverage, 9))
        return sorted(scores)[rank - 1] if rank <= len(scores) else math.inf

    classes = range(held_out.probs.shape[1])
    own = [(label, fit_of(row, label)) for row, label in zip(held_out.probs, held_out.labels, strict=True)]
    limits = [limit([s for label, s in own if method != "class" or label == number]) for number in classes]
    names = held_out.class_names
    return [{names[label] for label in classes if fit_of(row, label) <= limits[label] + 1e-12} for row in new.probs]


@pytest.mark.parametrize("method", METHODS)
def test_sets_are_those_of_plain_loops(method):
    rng = np.random.default_rng(0)
    held_out, new = rows(rng, 120, n_classes=8), rows(rng, 60, n_classes=8)

    fitted = PredictionSets(coverage=0.9, method=method).fit(held_out)

    assert sets_of(fitted, new) == plain_sets(held_out, new, 0.9, method)


@pytest.mark.parametrize("method", METHODS)
def test_the_right_label_is_in_the_set_as_often_as_was_promised(method):
    rng = np.random.default_rng(1)
    inside = []
    for _ in range(400):
        held_out, new = rows(rng, 60, shift=0.5), rows(rng, 10, shift=0.5)
        found = sets_of(PredictionSets(coverage=0.9, method=method).fit(held_out), new)
        inside += [new.class_names[label] in own for label, own in zip(new.labels, found, strict=True)]

    assert np.mean(inside) >= 0.9 - 3 * np.sqrt(0.9 * 0.1 / 400)  # rows of one draw share their threshold


def test_class_conditional_sets_hold_each_label_as_often_as_was_promised():
    rng = np.random.default_rng(2)
    held_out, new = rows(rng, 4000, shift=0.9), rows(rng, 4000, shift=0.9)

    fitted = PredictionSets(coverage=0.9, method="class").fit(held_out)

    inside = matrix_of(fitted, new)[np.arange(len(new)), new.labels]
    for number in range(4):
        assert inside[new.labels == number].mean() == pytest.approx(0.9, abs=0.04)


def test_a_higher_coverage_gives_sets_that_hold_those_of_a_lower_one():
    rng = np.random.default_rng(3)
    held_out, new = rows(rng, 200), rows(rng, 50)

    low, high = (sets_of(PredictionSets(coverage=share).fit(held_out), new) for share in (0.8, 0.95))

    assert all(small <= large for small, large in zip(low, high, strict=True))


def test_with_too_few_rows_every_label_is_in_every_set_and_the_promise_says_so():
    rng = np.random.default_rng(4)

    fitted = PredictionSets(coverage=0.95).fit(rows(rng, 18))

    assert all(len(own) == 4 for own in sets_of(fitted, rows(rng, 5)))
    assert "all of them, since fewer than 19 rows can leave none out" in str(fitted)


def test_a_label_without_enough_rows_is_in_every_class_conditional_set():
    rng = np.random.default_rng(5)
    held_out = rows(rng, 400)
    few = replace(held_out, labels=np.where(held_out.labels == 3, 2, held_out.labels))

    fitted = PredictionSets(coverage=0.9, method="class").fit(few)

    assert all("d" in own for own in sets_of(fitted, rows(rng, 20)))
    assert "labels with fewer than 9 held-out rows (1) are in every one" in str(fitted)


def test_labels_of_a_set_stand_likeliest_first():
    rng = np.random.default_rng(6)
    new = rows(rng, 20)

    fitted = PredictionSets(coverage=0.95).fit(rows(rng, 300))

    for one, row in zip(fitted.fields(new), new.probs, strict=True):
        likely = [row[new.class_names.index(name)] for name in one["set"]]
        assert likely == sorted(likely, reverse=True)


def test_entities_and_words_are_refused():
    entity = Scored(confidence=np.ones(3), class_names=("O", "B-PER"), correct=np.ones(3, dtype=bool))

    with pytest.raises(InvalidInputError, match="prediction sets are for texts and pairs"):
        PredictionSets().fit(entity)


@pytest.mark.parametrize("value", [0, 1, 95, True])
def test_a_coverage_that_is_no_share_is_refused(value):
    with pytest.raises(InvalidInputError, match="coverage must lie strictly between 0 and 1"):
        PredictionSets(coverage=value)


class Said:
    """A fitted scikit-learn classifier whose input is what it says."""

    classes_ = np.arange(4)
    __sklearn_is_fitted__ = staticmethod(lambda: True)
    fit = None

    def predict(self, rows):
        return rows.argmax(axis=1)

    def predict_proba(self, rows):
        return rows


def test_mapie_forms_the_same_sets():
    mapie = pytest.importorskip("mapie.classification", reason="an oracle: pip install mapie")
    rng = np.random.default_rng(7)
    held_out, new = rows(rng, 200), rows(rng, 300)
    theirs = mapie.SplitConformalClassifier(Said(), confidence_level=0.9, conformity_score="lac", prefit=True)
    theirs.conformalize(held_out.probs, held_out.labels)  # its APS and RAPS are randomized, ours are not

    expected = theirs.predict_set(new.probs)[1][:, :, 0]

    np.testing.assert_array_equal(matrix_of(PredictionSets(coverage=0.9).fit(held_out), new), expected)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("method", METHODS)
def test_torchcp_forms_the_same_sets(method):
    pytest.importorskip("torchcp", reason="an oracle: pip install torchcp", exc_type=ImportError)
    import torch
    from torchcp.classification.predictor import ClassConditionalPredictor, SplitPredictor
    from torchcp.classification.score import APS, LAC, RAPS

    rng = np.random.default_rng(8)
    held_out, new = rows(rng, 400, n_classes=8), rows(rng, 100, n_classes=8)
    score = {"lac": LAC, "class": LAC, "aps": APS, "raps": RAPS}[method]
    randomness = {"aps": {"randomized": False}, "raps": {"randomized": False, "penalty": 0.01, "kreg": 5}}
    predictor = ClassConditionalPredictor if method == "class" else SplitPredictor
    theirs = predictor(score(**randomness.get(method, {})), alpha=0.1, device="cpu")
    theirs.calculate_threshold(torch.log(torch.tensor(held_out.probs)), torch.tensor(held_out.labels))

    expected = theirs.predict_with_logits(torch.log(torch.tensor(new.probs))).numpy().astype(bool)

    found = matrix_of(PredictionSets(coverage=0.9, method=method).fit(held_out), new)
    assert (found == expected).mean() > 0.999  # theirs are sums of float32

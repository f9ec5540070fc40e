"""What rows count in `evaluate`: whole weights are repeated rows, and only ratios matter."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import reference
from fakes import FixedTemperature, Reading
from knn_ue.errors import InvalidInputError
from knn_ue.evaluation import EvaluationOptions, answered_sets, compare, evaluate
from knn_ue.toy import pockets, tagged_sentences
from knn_ue.types import Outputs, join_outputs

# They depend on how many rows there are, which weights do not say.
OF_A_NUMBER_OF_ROWS = {"aurc", "e_aurc", "debiased_ece"}
METHODS = {"a": FixedTemperature(2.0), "b": FixedTemperature(0.7)}


@pytest.fixture(scope="module")
def sets():
    """Test rows and out-of-domain rows, both with labels."""
    _, _, test, out = pockets(n_train=60, n_validation=60, n_test=120, n_out=90, seed=0)
    return test, replace(out, labels=np.arange(90) % test.n_classes)


@pytest.fixture(scope="module")
def tagged():
    return tagged_sentences(seed=0)[2]


def whole(n_rows, seed=0):
    weights = np.random.default_rng(seed).integers(0, 4, size=n_rows)
    weights[:2] = 1, 3
    return weights


def repeated_sentences(outputs, counts):
    """Each sentence as often as it counts, as a sentence of its own."""
    starts = [np.flatnonzero(outputs.groups == number) for number in np.unique(outputs.groups)]
    copies = [rows for rows, count in zip(starts, counts, strict=True) for _ in range(count)]
    taken = outputs.take(np.concatenate(copies))
    return replace(taken, groups=np.repeat(np.arange(len(copies)), [len(rows) for rows in copies]))


def assert_same(found, expected, *, but=(), atol=1e-9):
    assert list(found.tables) == list(expected.tables)
    for name, table in expected.tables.items():
        for method, scores in table.scores.items():
            kept = [metric for metric in scores if metric not in but]
            np.testing.assert_allclose(
                [found.tables[name][method][metric] for metric in kept],
                [scores[metric] for metric in kept],
                atol=atol,
                err_msg=f"{name} {method} {kept}",
            )


def test_weights_of_one_equal_no_weights(sets):
    test, out = sets
    ones = {"test": np.ones(120), "out_of_domain": np.ones(90)}

    assert_same(
        evaluate(METHODS, test, out_of_domain=out, sample_weight=ones), evaluate(METHODS, test, out_of_domain=out)
    )


def test_weights_of_one_equal_no_weights_in_tagged_sentences(tagged):
    ones = np.ones(len(np.unique(tagged.groups)))

    assert_same(evaluate(Reading(0.75), tagged, sample_weight=ones), evaluate(Reading(0.75), tagged))


def test_whole_weights_equal_repeated_rows(sets):
    test, out = sets
    weights = {"test": whole(120), "out_of_domain": whole(90, seed=1)}
    twice = test.take(np.repeat(np.arange(120), weights["test"]))
    twice_out = out.take(np.repeat(np.arange(90), weights["out_of_domain"]))

    found = evaluate(METHODS, test, out_of_domain=out, sample_weight=weights)

    # Of the rows of both sets, as many are in domain as there are rows: AUPR depends on that share.
    share = {"aupr_in", "aupr_out"}
    assert_same(found, evaluate(METHODS, twice, out_of_domain=twice_out), but=OF_A_NUMBER_OF_ROWS | share)


def test_areas_of_whole_weights_are_close_to_those_of_repeated_rows(sets):
    test, _ = sets
    weights = whole(120)
    twice = test.take(np.repeat(np.arange(120), weights))

    found = evaluate(METHODS, test, sample_weight=weights)["a"]

    for name in ("aurc", "e_aurc"):
        assert found[name] == pytest.approx(evaluate(METHODS, twice)["a"][name], abs=0.01)


def test_whole_weights_equal_repeated_sentences(tagged):
    weights = whole(len(np.unique(tagged.groups)))

    found = evaluate(METHODS, tagged, sample_weight=weights)

    assert "test/entities" in found.tables
    assert_same(found, evaluate(METHODS, repeated_sentences(tagged, weights)), but=OF_A_NUMBER_OF_ROWS)


def test_weighted_sentence_scores_equal_those_of_repeated_sentences(tagged):
    weights = whole(len(np.unique(tagged.groups)))

    found = evaluate(Reading(0.75), tagged, sample_weight=weights)

    assert "test/sentences" in found.tables
    assert_same(found, evaluate(Reading(0.75), repeated_sentences(tagged, weights)), but=OF_A_NUMBER_OF_ROWS)


@pytest.mark.parametrize("factor", [0.1, 3.0, 1 / 7, 1e-6])
def test_scaling_weights_changes_nothing(sets, factor):
    test, out = sets
    weights = {"test": whole(120), "out_of_domain": whole(90, seed=1)}
    scaled = {"test": factor * weights["test"], "out_of_domain": weights["out_of_domain"] / factor}

    found = evaluate(METHODS, test, out_of_domain=out, sample_weight=scaled)

    assert_same(found, evaluate(METHODS, test, out_of_domain=out, sample_weight=weights))


@pytest.mark.parametrize("factor", [0.1, 1 / 7])
def test_equal_weights_of_any_size_equal_no_weights(sets, factor):
    test, out = sets

    found = evaluate(METHODS, test, out_of_domain=out, sample_weight=np.full(120, factor))

    assert_same(found, evaluate(METHODS, test, out_of_domain=out))


def test_a_row_of_weight_0_is_left_out(sets):
    test, _ = sets
    weights = np.where(np.arange(120) < 70, 1.0, 0.0)

    assert_same(evaluate(METHODS, test, sample_weight=weights), evaluate(METHODS, test.take(slice(0, 70))))


@pytest.mark.parametrize(("name", "slow"), [("ece", reference.ece), ("mce", reference.mce), ("auroc", reference.auroc)])
def test_weighted_numbers_equal_the_slow_reference_on_repeated_rows(sets, name, slow):
    test, _ = sets
    weights = whole(120)

    found = evaluate(METHODS, test, sample_weight=0.3 * weights)["a"][name]

    answered = answered_sets(METHODS, test)["test"]
    rows = np.repeat(np.arange(120), weights)
    assert found == pytest.approx(slow(answered.confidence("a")[rows].tolist(), answered.correct[rows].tolist()))


def test_intervals_of_weights_of_one_are_those_without(sets):
    test, out = sets
    options = {"out_of_domain": out, "n_bootstrap": 5}

    found = evaluate(METHODS, test, **options, sample_weight=np.ones(120)).tables
    plain = evaluate(METHODS, test, **options).tables

    for name in ("test", "out_of_domain/detection"):
        for metric, interval in plain[name].intervals["a"].items():
            drawn = found[name].intervals["a"][metric]
            assert (drawn.low, drawn.high) == pytest.approx((interval.low, interval.high), abs=1e-9), metric


def test_intervals_are_those_of_the_weighted_number(sets):
    test, out = sets
    weights = {"test": whole(120), "out_of_domain": whole(90, seed=1)}

    found = evaluate(METHODS, test, out_of_domain=out, sample_weight=weights, n_bootstrap=5)

    for table in found.tables.values():
        for metric, interval in table.intervals["a"].items():
            assert interval.estimate == pytest.approx(table["a"][metric], nan_ok=True)
            assert interval.low <= interval.estimate <= interval.high


def test_an_interval_of_uneven_weights_is_as_wide_as_that_of_the_rows_that_count(sets):
    test, _ = sets
    few = np.where(np.arange(120) < 12, 1000.0, 1.0)

    widths = []
    for weights in (few, np.ones(120)):
        interval = evaluate(METHODS, test, sample_weight=weights, n_bootstrap=100).tables["test"].intervals["a"]["nll"]
        widths.append(interval.high - interval.low)

    assert widths[0] > 2 * widths[1]


def test_draws_without_any_row_that_counts_are_left_out():
    test = Outputs(logits=[[2.0, 0.0], [0.0, 1.0], [0.5, 0.0]], labels=[0, 0, 0])

    table = evaluate(METHODS, test, sample_weight=[1, 0, 0], n_bootstrap=20).tables["test"]

    assert table.intervals["a"]["nll"].low == pytest.approx(table["a"]["nll"])


def test_entities_of_sentences_that_do_not_count_have_no_metrics():
    names = ["O", "B-X"]
    test = Outputs(logits=[[0.0, 2.0], [2.0, 0.0]], labels=[1, 0], groups=[0, 1], class_names=names)

    found = evaluate(METHODS, test, sample_weight=[0, 1], n_bootstrap=3).tables["test/entities"]

    assert all(math.isnan(value) for value in found["a"].values())


def test_entities_do_not_depend_on_what_sentences_without_any_count(tagged):
    without = Outputs(
        logits=9.0 * np.eye(tagged.n_classes)[[0] * 50],
        labels=[0] * 50,
        groups=np.arange(50),
        class_names=tagged.class_names,
    )
    both = join_outputs(tagged, without)
    counts = 1.0 + np.arange(len(np.unique(tagged.groups))) % 3

    tables = [
        evaluate(METHODS, both, sample_weight=np.append(counts, np.full(50, weight))).tables["test/entities"]
        for weight in (1.0, 1e4)
    ]

    assert tagged.class_names[0] == "O"
    assert tables[0]["a"] == pytest.approx(tables[1]["a"])


def test_comparisons_count_rows_alike(sets):
    test, out = sets
    weights = {"test": whole(120), "out_of_domain": whole(90, seed=1)}
    options = EvaluationOptions(n_bootstrap=5)
    answered = answered_sets(METHODS, test, out, sample_weight=weights)

    found = {(x.set_name, x.kind, x.other): x for x in compare(answered, "a", options)}

    tables = evaluate(METHODS, test, out_of_domain=out, sample_weight=weights).tables
    assert found["test", "calibration", "b"].ours == tables["test"]["a"]["ece"]
    assert found["out_of_domain", "ranking", "b"].theirs == tables["out_of_domain"]["b"]["e_aurc"]
    assert found["out_of_domain", "detection", "raw"].ours == tables["out_of_domain/detection"]["a"]["auroc"]
    assert all(x.low <= x.ours - x.theirs <= x.high for x in found.values())


def test_weights_of_words_and_of_sentences_say_the_same(tagged):
    counts = whole(len(np.unique(tagged.groups)))
    of_words = counts[np.unique(tagged.groups, return_inverse=True)[1]]

    assert_same(evaluate(METHODS, tagged, sample_weight=of_words), evaluate(METHODS, tagged, sample_weight=counts))


def test_words_of_one_sentence_may_count_differently_where_classes_are_no_tags(sets):
    test, _ = sets
    grouped = replace(test, groups=np.repeat(np.arange(40), 3))

    found = evaluate(METHODS, grouped, sample_weight=whole(120))["a"]["nll"]

    assert found == evaluate(METHODS, test, sample_weight=whole(120))["a"]["nll"]


def test_the_record_says_which_tables_are_weighted(sets):
    test, out = sets

    found = evaluate(METHODS, test, out_of_domain=out, sample_weight=np.ones(120))

    tables = json.loads(found.to_json())["tables"]
    assert {name: table["weighted"] for name, table in tables.items()} == {
        "test": True,
        "out_of_domain": False,
        "out_of_domain/detection": True,
    }
    assert "**test: 120 rows, weighted**" in found.to_markdown()


def test_weights_stay_as_they_were(sets):
    weights = whole(120).astype(float)
    before = weights.copy()

    evaluate(METHODS, sets[0], sample_weight=weights)

    assert (weights == before).all()


@pytest.mark.parametrize(
    ("weight", "sentence"),
    [
        (np.ones(7), "^sample_weight has 7 rows but 120 are expected, one per example$"),
        (np.full(120, -1.0), "^sample_weight must not be negative, got -1: use 0 to leave a row out$"),
        (np.zeros(120), "^sample_weight is zero for every row: at least one row must count$"),
        (np.full(120, np.nan), "^sample_weight must be finite"),
        (np.ones((120, 1)), "^sample_weight must have one dimension"),
        ({"far": np.ones(90)}, "^sample_weight names the set 'far', which is not evaluated: choose among test, out_of"),
        ({"out_of_domain": np.ones(7)}, "^sample_weight of 'out_of_domain' has 7 rows but 90 are expected"),
    ],
)
def test_bad_weights_are_refused_in_one_sentence(sets, weight, sentence):
    test, out = sets

    with pytest.raises(InvalidInputError, match=sentence):
        evaluate(METHODS, test, out_of_domain=out, sample_weight=weight)


def test_weights_that_are_neither_of_words_nor_of_sentences_are_refused():
    test = Outputs(logits=[[0.0, 2.0]] * 4, labels=[1] * 4, groups=[0, 0, 1, 1], class_names=["O", "B-X"])

    with pytest.raises(
        InvalidInputError, match=r"^sample_weight has 3 numbers for 2 sentences with 4 words: pass one per sentence$"
    ):
        evaluate(METHODS, test, sample_weight=[1, 1, 1])


def test_words_of_one_tagged_sentence_must_count_alike():
    test = Outputs(logits=[[0.0, 2.0]] * 4, labels=[1] * 4, groups=[0, 0, 1, 1], class_names=["O", "B-X"])

    with pytest.raises(
        InvalidInputError,
        match="the same for all words of a sentence, sentence 1 has 2 and 5: pass one number per sentence",
    ):
        evaluate(METHODS, test, sample_weight=[1, 1, 2, 5])

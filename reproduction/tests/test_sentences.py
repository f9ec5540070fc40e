"""The sentences follow the numbers: turn the numbers around and they say the opposite."""

import pytest

from knn_ue_reproduce.league import Column
from knn_ue_reproduce.sentences import N_SENTENCES, Evidence, sentences_of
from knn_ue_reproduce.statistics import PairedTest

SETS = ("home", "away")


def paired(difference):
    bounds = {"low": difference - 0.001, "high": difference + 0.001}
    return PairedTest(
        first=0.1 + difference, second=0.1, difference=difference, p=0.001, t_test=0.1, n_seeds=3, **bounds
    )


def column(means, *, part="home", measure="ece", setup="sentiment", higher=False):
    """Return a column of three seeds that all agree, every pair of methods tested."""
    values = {method: dict.fromkeys(range(3), mean) for method, mean in means.items()}
    names = list(means)
    tests = {
        (first, second): paired((means[first] - means[second]) / 100)
        for place, first in enumerate(names)
        for second in names[place + 1 :]
    }
    return Column(
        setup=setup, part=part, measure=measure, values=values, tests=tests, unit=100.0, higher_is_better=higher
    )


def evidence(means, **changes):
    both = [[column(means, part=part, measure=measure) for measure in ("ece", "e_aurc")] for part in SETS]
    known = {
        "learned": [column({"softmax": 76.0}, measure="right", higher=True)],
        "inside": both[0],
        "outside": both[1],
    }
    known |= {"scale": "small", "detected": [], "tables": [], "verdicts": []}
    return Evidence(**(known | changes))


def told(**changes):
    means = {"softmax": 6.0, "temperature": 4.0, "dac": 3.0, "knn-ue-no-label": 2.5, "knn-ue": 2.0}
    return " ".join(sentences_of(evidence(means | changes.pop("means", {}), **changes)))


def test_ours_win_where_their_numbers_are_best():
    text = told()

    assert "5 methods on 1 task (sentiment) and 2 labeled test sets, with 3 seeds, at the small scale" in text
    assert "in domain the plain model is right on 76.0 % (home)" in text
    assert "In domain, `knn-ue` has the best mean rank of 5 methods: 0 % of the others do better" in text
    assert "the lower ECE on 2 of 2 sets (significantly lower on 2, significantly higher on 0)" in text
    assert "against temperature scaling `knn-ue` wins 4, ties 0 and loses 0 of 4 comparisons" in text.lower()
    assert "The best method of others out of domain is `dac`" in text
    assert "In none of 4 columns (a set and a measure) is another method significantly better" in text
    assert "`knn-ue` alone loses 0 of 12 comparisons with others" in text


def test_ours_lose_where_their_numbers_are_worse():
    text = told(means={"knn-ue": 9.0, "knn-ue-no-label": 8.0})

    assert "`dac` has the best mean rank" in text
    assert "`knn-ue-no-label` is number 4 (75 %) and `knn-ue` is number 5 (100 %)" in text
    assert "the lower ECE on 0 of 2 sets (significantly lower on 0, significantly higher on 2)" in text
    assert "wins 0, ties 0 and loses 4 of 4 comparisons" in text
    assert "Where ours lose: in 4 of 4 columns" in text
    assert "home ECE (`dac` and `temperature` and 1 more)" in text
    assert "`knn-ue` alone loses 12 of 12 comparisons with others" in text


def test_entities_are_compared_with_the_best_other_method_by_each_measure():
    first = {"softmax": 20.0, "knn-ue": 15.0, "knn-ue-entity": 9.0}
    second = {"softmax": 50.0, "knn-ue": 55.0, "knn-ue-entity": 60.0}
    outside = [column(first, setup="ner"), column(second, setup="ner", measure="e_aurc")]

    text = told(outside=outside)

    assert "ECE 9.0 against 15.0 of `knn-ue` and E-AURC 60.0 against 50.0 of `softmax`" in text
    assert "against all methods it wins 2, ties 0 and loses 2 of 4 comparisons" in text


def test_detection_names_the_best_and_the_place_of_ours():
    detected = [
        column(
            {"softmax": 70.0, "knn-ue": 69.0, "vim": 80.0, "familiarity": 75.0}, measure="detection_auroc", higher=True
        )
    ]

    text = told(detected=detected)

    assert "over 1 set: `vim` 80.0 %, `softmax` 70.0 %, `knn-ue` 69.0 % and `familiarity` 75.0 %" in text
    assert "`knn-ue` is number 4 of 4" in text


@pytest.mark.parametrize("inside", [[], [column({"knn-ue": 2.0})]])
def test_what_there_are_no_numbers_for_is_not_told(inside):
    nothing = Evidence(scale="small", learned=[], inside=inside, outside=[], detected=[], tables=[], verdicts=[])

    assert len(sentences_of(nothing)) == len(inside)


def test_there_are_ten_at_most():
    assert len(sentences_of(evidence({"softmax": 1.0, "knn-ue": 2.0}))) <= N_SENTENCES

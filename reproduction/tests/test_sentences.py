"""The sentences follow the numbers: turn the numbers around and they say the opposite."""

from dataclasses import replace

import pytest

from knn_ue_reproduce.league import Column
from knn_ue_reproduce.plan import PaperTable
from knn_ue_reproduce.sentences import Evidence, sentences_of
from knn_ue_reproduce.statistics import PairedTest
from knn_ue_reproduce.tables import FilledTable, TimeBlock, TimeRow
from knn_ue_reproduce.verdicts import ClaimVerdict

SETS = ("home", "away")


def paired(difference, n_seeds=3):
    bounds = {"low": difference - 0.001, "high": difference + 0.001}
    return PairedTest(
        first=0.1 + difference, second=0.1, difference=difference, p=0.001, t_test=0.1, n_seeds=n_seeds, **bounds
    )


def column(means, *, part="home", measure="ece", setup="sentiment", higher=False, n_seeds=3):
    """Return a column of three seeds that all agree, every pair of methods tested."""
    values = {method: dict.fromkeys(range(n_seeds), mean) for method, mean in means.items()}
    names = list(means)
    tests = {
        (first, second): paired((means[first] - means[second]) / 100, n_seeds)
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

    assert "5 methods on 1 task (sentiment) and 2 labeled test sets, with 3 seeds, at the small scale." in text
    assert "The plain model's accuracy in domain is 76.0 % (home)." in text
    assert "In domain (1 set), `knn-ue` has the best mean rank of 5 methods: on average 0 % of the other" in text
    assert "; no 95 % interval overlaps with that of the first." in text
    assert "Wins / ties / losses of `knn-ue` against the plain softmax 4 / 0 / 0, temperature scaling 4 / 0 / 0" in text
    assert "; out of domain, against `dac`, the best of the other methods there, 2 / 0 / 0." in text
    assert "in 0 of 4 columns (a set and a measure) some other method is significantly better than `knn-ue`" in text
    assert "which loses 0 of 12 comparisons with others. In none of the 4 columns does a method beat" in text


def test_methods_that_are_equal_share_the_first_place():
    text = told(means={"dac": 2.0})

    assert "In domain (1 set), `dac` and `knn-ue` share the best mean rank of 5 methods: on average 12 % of" in text
    assert "`knn-ue-no-label` is number 3 (50 %)" in text
    assert "`knn-ue` is number" not in text
    assert "4 methods (`knn-ue-no-label` and `knn-ue` among them) share the best mean rank of 5 methods" in told(
        means=dict.fromkeys(("temperature", "dac", "knn-ue-no-label"), 2.0)
    )


def test_ours_lose_where_their_numbers_are_worse():
    text = told(means={"knn-ue": 9.0, "knn-ue-no-label": 8.0})

    assert "`dac` has the best mean rank" in text
    assert "`knn-ue-no-label` is number 4 (75 %) and `knn-ue` is number 5 (100 %)" in text
    assert "against the plain softmax 0 / 0 / 4, temperature scaling 0 / 0 / 4" in text
    assert (
        "Where ours lose, apart from OOD detection: in 4 of 4 columns (a set and a measure) some other method" in text
    )
    assert "which loses 12 of 12 comparisons with others, to `softmax` 4, `temperature` 4 and `dac` 4" in text
    lost = "ECE and E-AURC: `dac`, `temperature` and 1 more"
    assert f"In 4 of the 4 columns a method beats all of ours: home ({lost}); away ({lost})." in text


def test_entities_are_compared_with_the_best_other_method_by_each_measure():
    first = {"softmax": 20.0, "knn-ue": 15.0, "knn-ue-entity": 9.0}
    second = {"softmax": 50.0, "knn-ue": 55.0, "knn-ue-entity": 60.0}
    outside = [column(first, setup="ner"), column(second, setup="ner", measure="e_aurc")]

    text = told(outside=outside)

    assert "is by ECE `knn-ue`, 15.0 against 9.0 and by E-AURC `softmax`, 50.0 against 60.0." in text
    assert "Wins / ties / losses of `knn-ue-entity` against all methods: 2 / 0 / 2." in text
    assert "It alone is fitted on whole entities, the others on words" in text


def test_entities_are_compared_with_the_other_method_that_is_fitted_on_them():
    first = {"softmax": 20.0, "platt-entity": 8.0, "knn-ue-entity": 9.0}
    second = {"softmax": 50.0, "platt-entity": 70.0, "knn-ue-entity": 60.0}
    outside = [column(first, setup="ner"), column(second, setup="ner", measure="e_aurc")]

    text = told(outside=outside)

    assert (
        "Only `platt-entity` is fitted on whole entities too, the others on words: it has ECE 8.0 against 9.0 and "
        "E-AURC 70.0 against 60.0; wins / ties / losses of `knn-ue-entity` against it are 1 / 0 / 1." in text
    )
    assert "It alone" not in text


def test_detection_names_the_best_and_the_place_of_ours():
    detected = [
        column(
            {"softmax": 70.0, "knn-ue": 69.0, "vim": 80.0, "familiarity": 75.0}, measure="detection_auroc", higher=True
        )
    ]

    text = told(detected=detected)

    assert "by mean AUROC: `vim` 80.0 %, `softmax` 70.0 %, `knn-ue` 69.0 % and `familiarity` 75.0 %" in text
    assert "`familiarity` is number 2 (33 %) and `knn-ue` is number 4 (100 %)" in text
    assert "against all other methods, by AUROC and FPR@95: `familiarity` 2 / 0 / 1 and `knn-ue` 0 / 0 / 3." in text


def test_the_best_detector_by_the_mean_need_not_be_the_first_by_rank():
    means = [{"vim": 61.0, "familiarity": 60.0}, {"vim": 61.0, "familiarity": 60.0}, {"vim": 60.0, "familiarity": 99.0}]
    detected = [
        column({"softmax": 50.0, "knn-ue": 50.0} | one, part=str(part), measure="detection_auroc", higher=True)
        for part, one in enumerate(means)
    ]

    text = told(detected=detected)

    assert "by mean rank of 4: `vim` is number 1 (11 %), `familiarity` is number 2 (22 %)" in text
    assert "by mean AUROC: `familiarity` 73.0 %" in text


def test_a_detector_whose_mean_hides_the_tasks_where_it_loses_is_told_by_task():
    rest = {"softmax": 50.0, "knn-ue": 50.0}
    detected = [
        column(rest | {"vim": vim, "familiarity": ours}, setup=setup, measure="detection_auroc", higher=True)
        for setup, vim, ours in (("sentiment", 60.0, 99.0), ("ner", 66.0, 64.0))
    ]

    text = told(detected=detected)

    assert "by mean AUROC: `familiarity` 81.5 %, `vim` 63.0 %, `softmax` 50.0 % and `knn-ue` 50.0 %" in text
    assert "`familiarity` is first on sentiment (99.0 %, `vim` 60.0 %), but not on ner (64.0 %, `vim` 66.0 %)" in text
    assert "is first on" not in told(detected=detected[1:])  # one task: the mean over all hides nothing


def test_entities_say_over_which_seeds_a_rival_with_fewer_is_compared():
    outside = []
    for measure in ("ece", "e_aurc"):
        found = column({"softmax": 20.0, "knn-ue-entity": 9.0}, setup="ner", measure=measure)
        values = found.values | {"label-smoothing": {0: 12.0, 1: 12.0}}
        outside.append(replace(found, values=values))

    assert "by ECE `label-smoothing`, 12.0 against 9.0 on the same 2 seeds and" in told(outside=outside)


def test_with_one_seed_nothing_is_significant_and_nothing_is_called_so():
    means = {"softmax": 6.0, "dac": 1.0, "knn-ue": 2.0}
    columns = [column(means, measure=measure, n_seeds=1) for measure in ("ece", "e_aurc")]

    text = told(inside=columns, outside=[])

    assert "with 1 seed, at the small scale" in text
    assert "Whether any method is significantly better than another could not be tested: that takes two seeds." in text
    assert "significantly lower" not in text


def test_a_model_that_did_not_learn_is_the_first_thing_said():
    nothing = Evidence(
        scale="small", learned=[], inside=[], outside=[], detected=[], tables=[], verdicts=[], unlearned=["intent"]
    )

    assert sentences_of(nothing) == [
        "The plain model did not learn its task on intent: no method is ranked there.",
    ]
    assert (
        "at the small scale. The plain model's accuracy in domain is 76.0 % (home). The plain model did not learn"
        in (told(unlearned=["intent"]))
    )


def test_times_of_a_busy_machine_are_called_so():
    row = TimeRow(published=None, published_ratio=None, milliseconds=2.0, ratio=1.25, low=1.2, high=1.3)
    block = TimeBlock(title="home: milliseconds", rows={"knn-ue": row}, busy=True)
    filled = FilledTable(table=PaperTable(name="time", title="Inference time", needs=()), times=(block,))

    assert "of the plain softmax: `knn-ue` 1.25 (home, measured while other jobs ran)." in told(tables=[filled])


def claim(**changes):
    known = {
        "table": "sentiment",
        "claim": "kNN-UE beats SR",
        "place": "home",
        "measure": "ECE",
        "paper": "",
        "ours": "",
    }
    known |= {"interval": "", "p": 0.5, "t_test": 0.5, "word": "undecided", "reason": "", "setup": "sentiment"}
    return ClaimVerdict(**(known | changes))


def test_arithmetic_is_no_claim_that_a_model_was_needed_for():
    toy = claim(table="toy", word="holds", setup="")

    assert "claim" not in told(verdicts=[toy])
    assert "Of 2 claims of the paper, 1 holds (arithmetic), 0 do not hold, 1 is undecided" in told(
        verdicts=[toy, claim()]
    )


def test_claims_on_calibration_are_counted_apart_from_those_on_search():
    found = [
        claim(table="nli", word="does not hold"),
        claim(table="pq", word="holds"),
        claim(table="ivf", word="holds"),
    ]

    text = told(verdicts=found)

    assert "Of 3 claims of the paper, 2 hold, 1 does not hold" in text
    assert "Of the 1 on calibration, ranking and OOD detection, 0 hold, 1 does not hold" in text
    assert "Of the" not in told(verdicts=found[:1])


def test_the_papers_own_encoder_and_data_do_not_differ_from_the_papers():
    assert "differ from the paper's" in told(verdicts=[claim(differs="minilm for mdeberta-v3-base")])
    assert "differ from the paper's" not in told(verdicts=[claim()])


def test_claims_that_were_not_measured_or_could_not_but_fail_are_counted():
    text = told(
        verdicts=[
            claim(word="cannot be tested here", no_room=True),
            claim(word="cannot be tested here", measured=False),
        ]
    )

    room = "1 of them without room for the paper's gain"
    assert f"2 cannot be tested here ({room}, 1 of them not measured)" in text


@pytest.mark.parametrize("inside", [[], [column({"knn-ue": 2.0})]])
def test_what_there_are_no_numbers_for_is_not_told(inside):
    nothing = Evidence(scale="small", learned=[], inside=inside, outside=[], detected=[], tables=[], verdicts=[])

    assert len(sentences_of(nothing)) == len(inside)


def test_there_are_ten_at_most():
    assert len(sentences_of(evidence({"softmax": 1.0, "knn-ue": 2.0}))) <= 10


def test_what_is_left_without_entities_is_said_even_where_ours_is_first_with_them():
    texts = {"softmax": 4.0, "temperature": 3.0, "dac": 1.0, "knn-ue": 2.0}
    tagged = {"softmax": 9.0, "temperature": 8.0, "dac": 7.0, "knn-ue": 1.0}
    inside = [column(texts), column(tagged, part="tags", setup="ner"), column(tagged, part="more tags", setup="ner")]
    known = {"inside": inside, "outside": inside, "tagging": ["ner"]}

    text = " ".join(sentences_of(evidence(texts, **known)))

    assert "`knn-ue` has the best mean rank of 4 methods" in text
    assert "Texts alone, by mean rank: in domain (sentiment) `dac` is first (0 %), `knn-ue` number 2 of 4" in text
    assert "Out of domain, its wins / ties / losses are 1 / 0 / 0 against the plain softmax" in text
    assert "Texts alone" not in told()
    assert "Texts alone" not in told(tagging=["sentiment"])


def test_numbers_of_entities_are_of_the_seeds_that_both_methods_have():
    values = {
        "softmax": {0: 20.0, 1: 10.0},
        "knn-ue": {0: 20.0, 1: 10.0},
        "knn-ue-entity": {0: 8.0, 1: 2.0},
        "platt-entity": {0: 12.0},
    }
    columns = [
        Column(setup="ner", part="away", measure=measure, values=values, unit=100.0) for measure in ("ece", "e_aurc")
    ]

    text = " ".join(sentences_of(evidence({"softmax": 6.0, "knn-ue": 2.0}, outside=columns, tagging=["ner"])))

    assert "by ECE `platt-entity`, 12.0 against 8.0" in text  # not 5.0, its mean over both seeds


def test_sets_where_our_detector_finds_less_than_the_softmax_are_named():
    detected = [
        column(
            {"softmax": 70.0, "knn-ue": 71.0, "familiarity": ours}, part=part, measure="detection_auroc", higher=True
        )
        for part, ours in (("near", 60.0), ("far", 99.0))
    ]

    assert "The AUROC of `familiarity` is below that of the plain softmax on near." in told(detected=detected)
    assert "below that of the plain softmax" not in told(detected=detected[1:])


def test_sets_that_the_length_alone_tells_are_said_to_show_little():
    detected = [column({"softmax": 70.0, "knn-ue": 71.0}, measure="detection_auroc", higher=True)]
    lengths = {("sentiment", "short"): 99.9, ("nli", "alike"): 62.0}

    text = told(detected=detected, lengths=lengths)

    assert "a high AUROC there may only reflect length" in text
    assert "On 1 of 2 sets of texts (short) the number of words alone has an AUROC of at least 75 %" in text
    assert "number of words" not in told(detected=detected, lengths={("nli", "alike"): 62.0})


def test_losses_on_a_set_in_no_league_are_said_too():
    voted = [column({"sdm": 1.0, "knn-ue": 2.0}, part="votes"), column({"sdm": 3.0, "knn-ue": 2.0}, part="votes")]

    assert "Outside the league, others also beat all of ours on votes (ECE: `sdm`)." in told(voted=voted)
    assert "Outside the league" not in told(voted=voted[1:])


def test_claims_that_the_paper_calls_significant_are_counted_alone():
    found = [claim(word="does not hold", marked=True), claim(word="holds"), claim(table="pq", word="holds")]

    text = told(verdicts=found)

    assert "Of the 1 among these that the paper marks as significant (†), 0 hold, 1 does not hold" in text
    assert "†" not in told(verdicts=found[1:])


def test_fewer_seeds_of_other_ways_to_search_are_said_first():
    first = sentences_of(evidence({"softmax": 6.0, "knn-ue": 2.0}, other_seeds=2))[0]

    assert "with 3 seeds, at the small scale; `mc-dropout` and other ways to search have 2 seeds." in first


def test_sets_that_the_length_tells_are_left_out_of_a_second_mean():
    rest = {"softmax": 50.0, "knn-ue": 50.0}
    detected = [
        column(rest | {"vim": vim, "familiarity": ours}, part=part, measure="detection_auroc", higher=True)
        for part, vim, ours in (("short", 70.0, 99.0), ("long", 60.0, 80.0), ("alike", 66.0, 64.0))
    ]
    lengths = {("sentiment", "short"): 95.0, ("sentiment", "long"): 85.0, ("sentiment", "alike"): 55.0}

    text = told(detected=detected, lengths=lengths)

    assert "On the other 1 set the mean AUROC is `vim` 66.0 %, `familiarity` 64.0 % and `softmax` 50.0 %." in text
    assert "The number of words detects more than `familiarity` on long (85.0 %, `familiarity` 80.0 %)." in text

"""The sentences follow the numbers: turn the numbers around and they say the opposite."""

import re
from dataclasses import replace

import pytest

from knn_ue_lab.reproduce.league import Column
from knn_ue_lab.reproduce.plan import PaperTable
from knn_ue_lab.reproduce.sentences import Evidence, sentences_of
from knn_ue_lab.reproduce.statistics import PairedTest
from knn_ue_lab.reproduce.tables import FilledTable, TimeBlock, TimeRow
from knn_ue_lab.reproduce.verdicts import ClaimVerdict

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
    assert "The plain model's accuracy in domain: 76.0 % (home)." in text
    assert (
        "In domain (1 set), `knn-ue` has the best mean rank of 5 methods (0 % of the others score better). "
        "Mean ECE: `softmax` 6.0, `temperature` 4.0 and `knn-ue` 2.0." in text
    )
    assert (
        "Wins / ties / losses of `knn-ue`: 4 / 0 / 0 against the plain softmax, 4 / 0 / 0 against temperature scaling "
        "and 4 / 0 / 0 against `dac`, the best other method in domain." in text
    )
    assert "`knn-ue` has 4 / 0 / 0 against `knn-ue-no-label`." in text
    assert "in 0 of 4 columns (a measure of a set) some other method is significantly better than `knn-ue`" in text
    assert "which loses 0 of 12 comparisons with others. A method beats all of ours in 0 of the 4 columns." in text


def test_methods_that_are_equal_share_the_first_place():
    text = told(means={"dac": 2.0})

    shared = "`dac` and `knn-ue` share the best mean rank of 5 methods (12 % of the others score better). Mean"
    assert f"In domain (1 set), {shared}" in text
    assert "`knn-ue` is number" not in text
    assert "4 methods (`knn-ue-no-label` and `knn-ue` among them) share the best mean rank of 5 methods" in told(
        means=dict.fromkeys(("temperature", "dac", "knn-ue-no-label"), 2.0)
    )


def test_ours_lose_where_their_numbers_are_worse():
    text = told(means={"knn-ue": 9.0, "knn-ue-no-label": 8.0})

    assert "`dac` has the best mean rank" in text
    assert (
        "`dac` has the best mean rank of 5 methods (0 % of the others score better); `knn-ue` is number 5 (100 %). "
        in text
    )
    assert "0 / 0 / 4 against the plain softmax, 0 / 0 / 4 against temperature scaling" in text
    assert "Where ours lose: in 4 of 4 columns (a measure of a set) some other method" in text
    assert "which loses 12 of 12 comparisons with others, most to `softmax` (4) and `temperature` (4)." in text
    assert 'A method beats all of ours in 4 of the 4 columns: see the table "Where ours lose".' in text


def test_a_place_that_depends_on_the_draw_is_called_so():
    columns = [
        column({"softmax": 6.0, "dac": dac, "knn-ue": ours}, part=str(part))
        for part, (dac, ours) in enumerate(((1.0, 2.0), (2.0, 1.0), (2.0, 1.0)))
    ]

    found = re.search(r"`knn-ue` has the best mean rank .*? keeps it in (\d+) % of the", told(inside=columns))

    assert 50 < int(found[1]) < 100


def test_entities_are_compared_with_the_best_other_method_by_each_measure():
    first = {"softmax": 20.0, "knn-ue": 15.0, "knn-ue-entity": 9.0}
    second = {"softmax": 50.0, "knn-ue": 55.0, "knn-ue-entity": 60.0}
    outside = [column(first, setup="ner"), column(second, setup="ner", measure="e_aurc")]

    text = told(outside=outside)

    ece, e_aurc = "ECE of 9.0 (best other: `knn-ue`, 15.0)", "E-AURC of 60.0 (best other: `softmax`, 50.0)"
    assert f"On entities out of domain, `knn-ue-entity` has a mean {ece} and {e_aurc}." in text
    assert "Wins / ties / losses against all methods: 2 / 0 / 2." in text
    assert "It alone is fitted on whole entities, the others on words" in text


def test_entities_are_compared_with_the_other_method_that_is_fitted_on_them():
    first = {"softmax": 20.0, "platt-entity": 8.0, "knn-ue-entity": 9.0}
    second = {"softmax": 50.0, "platt-entity": 70.0, "knn-ue-entity": 60.0}
    outside = [column(first, setup="ner"), column(second, setup="ner", measure="e_aurc")]

    text = told(outside=outside)

    assert (
        "Of the others, only `platt-entity` is fitted on whole entities too (ECE 8.0 and E-AURC 70.0); against it "
        "`knn-ue-entity` has 1 / 0 / 1." in text
    )
    assert "It alone" not in text


def test_detection_names_the_best_and_the_place_of_ours():
    detected = [
        column(
            {"softmax": 70.0, "knn-ue": 69.0, "vim": 80.0, "familiarity": 75.0}, measure="detection_auroc", higher=True
        )
    ]

    text = told(detected=detected)

    assert (
        "1 set: of 4 methods, `vim` is first by mean rank, `familiarity` is number 2 and `knn-ue` is number 4." in text
    )
    assert "AUROC: `vim` 80.0 %, `familiarity` 75.0 %, `softmax` 70.0 % and `knn-ue` 69.0 %." in text


def test_the_best_detector_by_the_mean_need_not_be_the_first_by_rank():
    means = [{"vim": 61.0, "familiarity": 60.0}, {"vim": 61.0, "familiarity": 60.0}, {"vim": 60.0, "familiarity": 99.0}]
    detected = [
        column({"softmax": 50.0, "knn-ue": 50.0} | one, part=str(part), measure="detection_auroc", higher=True)
        for part, one in enumerate(means)
    ]

    text = told(detected=detected)

    assert "of 4 methods, `vim` is first by mean rank, `familiarity` is number 2" in text
    assert "Mean AUROC: `familiarity` 73.0 %, `vim` 60.7 %" in text


def test_a_detector_whose_mean_hides_the_tasks_where_it_loses_is_told_by_task():
    rest = {"softmax": 50.0, "knn-ue": 50.0}
    detected = [
        column(rest | {"vim": vim, "familiarity": ours}, setup=setup, measure="detection_auroc", higher=True)
        for setup, vim, ours in (("sentiment", 60.0, 99.0), ("ner", 66.0, 64.0))
    ]

    text = told(detected=detected)

    assert "Mean AUROC: `familiarity` 81.5 %, `vim` 63.0 %" in text
    assert "`familiarity` is not the best on ner." in text
    assert "not the best" not in told(detected=detected[:1])


def test_entities_say_over_which_seeds_a_rival_with_fewer_is_compared():
    outside = []
    for measure in ("ece", "e_aurc"):
        found = column({"softmax": 20.0, "knn-ue-entity": 9.0}, setup="ner", measure=measure)
        values = found.values | {"label-smoothing": {0: 12.0, 1: 12.0}}
        outside.append(replace(found, values=values))

    assert "ECE of 9.0 (best other: `label-smoothing`, 12.0 with the same 2 seeds)" in told(outside=outside)


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
    assert "in domain: 76.0 % (home). The plain model did not learn its task on intent: no method is ranked there." in (
        told(unlearned=["intent"])
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
    known |= {"interval": "", "p": 0.5, "t_test": 0.5, "word": "undecided", "reason": ""}
    known |= {"setup": "sentiment", "topic": "softmax"}
    return ClaimVerdict(**(known | changes))


def test_arithmetic_is_no_claim_that_a_model_was_needed_for():
    toy = claim(table="toy", word="holds", setup="", topic="")

    assert "claim" not in told(verdicts=[toy])
    assert "Of 1 claim of the paper on calibration, ranking and detection, 0 hold, 0 do not hold, 1 is" in told(
        verdicts=[toy, claim()]
    )


def test_claims_on_calibration_are_counted_apart_from_those_on_search():
    found = [claim(word="does not hold"), claim(topic="search", word="holds"), claim(topic="time", word="holds")]

    text = told(verdicts=found)

    assert "Of 1 claim of the paper on calibration, ranking and detection, 0 hold, 1 does not hold" in text
    assert "Of the claims on search, neighbors and time, 2 of 2 hold and 0 do not." in text
    assert "on search" not in told(verdicts=found[:1])


def test_the_size_of_the_effect_is_said_with_its_interval():
    found = [claim(effect=effect, precision=precision) for effect, precision in ((0.1, 0.4), (0.2, 0.5), (0.9, 3.0))]

    said = "The median gain is 0.20 times the paper's, the median 95 % interval of a claim ± 0.50."
    assert said in told(verdicts=found)


def test_claims_that_labels_help_and_that_they_hurt_are_counted_apart():
    found = [claim(topic="labels help", word="does not hold"), claim(topic="labels help"), claim(topic="labels hurt")]

    text = told(verdicts=found)

    helps = "Of the paper's claims that they help, 0 of 2 hold and 1 does not (1 undecided)"
    assert f"{helps}; that they hurt, 0 of 1 hold and 0 do not (1 undecided)." in text
    assert "that they" not in told(verdicts=[claim()])


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


def test_mean_errors_are_of_the_seeds_that_all_shown_methods_have():
    values = {"softmax": {0: 20.0, 1: 10.0}, "knn-ue": {0: 8.0, 1: 6.0}, "label-smoothing": {0: 5.0}}
    columns = [Column(setup="sentiment", part="home", measure="ece", values=values, unit=100.0)]

    said = "Mean ECE: `softmax` 20.0, `label-smoothing` 5.0 and `knn-ue` 8.0 (1 common seed)."
    assert said in told(inside=columns)


def test_mean_errors_are_of_the_sets_that_all_shown_methods_were_measured_on():
    pairs = (("softmax", "temperature"), ("softmax", "knn-ue"), ("temperature", "knn-ue"))
    apart = [column(dict.fromkeys(pair, 2.0), part=str(part)) for part, pair in enumerate(pairs)]
    every = column({"softmax": 4.0, "temperature": 3.0, "knn-ue": 1.0}, part="every")

    assert "Mean ECE" not in told(inside=apart, outside=[])
    assert "Mean ECE: `softmax` 4.0, `temperature` 3.0 and `knn-ue` 1.0." in told(inside=[*apart, every], outside=[])


def test_what_is_left_without_entities_is_said_even_where_ours_is_first_with_them():
    texts = {"softmax": 4.0, "temperature": 3.0, "dac": 1.0, "knn-ue": 2.0}
    tagged = {"softmax": 9.0, "temperature": 8.0, "dac": 7.0, "knn-ue": 1.0}
    inside = [column(texts), column(tagged, part="tags", setup="ner"), column(tagged, part="more tags", setup="ner")]
    known = {"inside": inside, "outside": inside, "tagging": ["ner"]}

    text = " ".join(sentences_of(evidence(texts, **known)))

    first = "`dac` has the best mean rank of 4 methods (0 % of the others score better)"
    for where in ("in", "out of"):
        assert f"On texts {where} domain (1 set), {first}; `knn-ue` is number 2 (33 %)." in text
    assert "Wins / ties / losses of `knn-ue` on texts: 2 / 0 / 0 against the plain softmax" in text
    assert "n texts" not in told()
    assert "n texts" not in told(tagging=["sentiment"])


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

    assert "ECE of 8.0 (best other: `platt-entity`, 12.0" in text  # not 5.0, its mean over both seeds


def test_sets_where_our_detector_finds_less_than_the_softmax_are_named():
    detected = [
        column(
            {"softmax": 70.0, "knn-ue": 71.0, "familiarity": ours}, part=part, measure="detection_auroc", higher=True
        )
        for part, ours in (("near", 60.0), ("far", 99.0))
    ]

    assert "`familiarity` is below the softmax on near." in told(detected=detected)
    assert "below the softmax" not in told(detected=detected[1:])


def test_sets_that_the_length_alone_tells_are_said_to_show_little():
    parts = {"short": 99.9, "alike": 62.0}
    detected = [
        column({"softmax": 70.0, "knn-ue": 71.0}, part=part, measure="detection_auroc", higher=True) for part in parts
    ]
    lengths = {("sentiment", part): auroc for part, auroc in parts.items()}

    text = told(detected=detected, lengths=lengths | {("nli", "of a model that did not learn"): 99.0})

    assert "On 1 of 2 sets of texts the number of words alone has an AUROC of at least 75 %" in text
    assert "number of words" not in told(detected=detected[1:], lengths=lengths)


def test_losses_on_a_set_in_no_league_are_said_too():
    voted = [column({"sdm": 1.0, "knn-ue": 2.0}, part="votes"), column({"sdm": 3.0, "knn-ue": 2.0}, part="votes")]

    said = 'ours in 0 of the 4 columns and on 1 set outside the league: see the table "Where ours lose".'
    assert said in told(voted=voted)
    assert "outside the league" not in told(voted=voted[1:])


def test_claims_that_the_paper_calls_significant_are_counted_alone():
    found = [claim(word="does not hold", marked=True), claim(word="holds"), claim(topic="search", word="holds")]

    text = told(verdicts=found)

    assert "Of those that it calls significant (†), 0 of 1 hold and 1 does not." in text
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

    said = "without them, the mean AUROC is `vim` 66.0 %, `familiarity` 64.0 % and `softmax` 50.0 %, "
    said += "and `familiarity` has 0 / 0 / 1 against `vim`."
    assert f"On 2 of 3 sets of texts the number of words alone has an AUROC of at least 75 %; {said}" in text

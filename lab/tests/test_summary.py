"""The first page of results that are whole, and of results that lack cells."""

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

from knn_ue_lab.reproduce.markdown import to_markdown
from knn_ue_lab.reproduce.plan import make_plan
from knn_ue_lab.reproduce.reproduction import write_page
from knn_ue_lab.reproduce.results import Results, league_to_csv, to_latex
from knn_ue_lab.reproduce.run import Job, Outcome
from knn_ue_lab.reproduce.scales import SMALL
from knn_ue_lab.reproduce.setups import vader_setups
from knn_ue_lab.reproduce.statistics import PairedTest
from knn_ue_lab.reproduce.summary import summarize
from knn_ue_lab.reproduce.tables import FilledTable
from knn_ue_lab.reproduce.timing import Timing
from knn_ue_lab.reproduce.variants import MethodVariant

SETUPS = vader_setups()
SETS = ("movies", "amazon", "nyt", "tweets")
ECE = {"softmax": 0.08, "temperature": 0.05, "mc-dropout": 0.01, "posterior": 0.02, "knn-ue": 0.03}


def job(method, seed=0):
    return Job(setup="sentiment", what=MethodVariant(method=method), seed=seed)


def outcome(n_seeds=2, without=()):
    """Return cells whose numbers are those of ECE, the same for each set and measure."""
    found = {}
    for method, ece in ECE.items():
        for seed in range(n_seeds):
            numbers = {"ece": ece, "e_aurc": ece, "brier": ece, "right": 0.8, "detection_auroc": 1 - ece, "fpr95": ece}
            if (method, seed) not in without:
                found[job(method, seed)] = {"sets": dict.fromkeys(SETS, numbers)}
    return Outcome(found=found)


def compared():
    test = PairedTest(first=0.03, second=0.08, difference=-0.05, low=-0.06, high=-0.04, p=0.001, t_test=0.1, n_seeds=2)
    pairs = {("knn-ue", "softmax"): test}
    return {("sentiment", part): {"ece": pairs} for part in SETS}


def summary(found=None, asked=(), n_texts=None):
    table = make_plan(SETUPS)["sentiment"]
    unlearned = {"sentiment": {MethodVariant(method="posterior"): "did not learn: accuracy 51 %"}}
    filled = FilledTable(table=table, compared=compared())
    return summarize(SETUPS, SMALL, found or outcome(), [filled], unlearned, asked, n_texts)


@pytest.fixture(scope="module")
def results():
    asked = [job(method, seed) for method in (*ECE, "dac") for seed in range(3)]
    facts = {"command": "`knn-ue reproduce all`", "scale": "small"}
    return Results(tables=[], facts=facts, failed={}, summary=summary(asked=asked))


def test_those_who_saw_fewer_texts_or_did_not_learn_are_in_no_league_and_that_is_said(results):
    league = results.summary.grids[0]

    assert [line[1] for line in league.lines] == ["knn-ue", "temperature", "softmax"]
    assert results.summary.unranked == (
        "mc-dropout (sentiment): saw the first 200 texts only",
        "posterior (sentiment): did not learn: accuracy 51 %",
        "dac: not measured yet",
    )


def test_a_set_that_is_in_no_league_is_named_with_those_who_beat_ours_on_it():
    roles = {"tweets": "human"}
    sets = tuple(replace(one, role=roles.get(one.name, one.role)) for one in SETUPS[0].sets)
    lost = {("softmax", "knn-ue"): replace(*compared()["sentiment", "tweets"]["ece"].values(), first=0.03, second=0.08)}
    tests = compared() | {("sentiment", "tweets"): {"ece": lost}}
    filled = FilledTable(table=make_plan(SETUPS)["sentiment"], compared=tests)

    found = summarize([replace(SETUPS[0], sets=sets)], SMALL, outcome(), [filled], {})

    said = "the set tweets (sentiment): scored for its human votes, neither in domain nor another domain"
    assert said in found.unranked
    (losses,) = [text for text in found.sentences if text.startswith("Where ours lose")]
    assert "A method beats all of ours in 0 of the 3 columns and on 1 set outside the league: see the table" in losses
    (grid,) = [grid for grid in found.grids if grid.title.startswith("Where ours lose")]
    assert grid.lines == (("tweets", "sentiment", "softmax", "–", "–"),)


def test_a_page_without_its_times_says_so():
    times = Job(setup="sentiment", what=Timing(part="movies", variants=(MethodVariant(method="softmax"),)), seed=0)
    page = {
        only: to_markdown(Results(tables=[], facts={}, failed={}, summary=summary(asked=asked)))
        for only, asked in ((True, [times]), (False, [times, job("dac")]))
    }

    assert "*In progress: times are not measured yet." in page[True]
    assert "*In progress: some cells are not measured yet." in page[False]


def test_where_no_set_has_more_texts_than_dropout_saw_it_is_in_the_league():
    known = summary(n_texts={"sentiment": 200})

    assert [line[1] for line in known.grids[0].lines] == ["mc-dropout", "knn-ue", "temperature", "softmax"]
    assert known.unranked == ("posterior (sentiment): did not learn: accuracy 51 %",)


def test_methods_that_are_left_out_for_the_same_reason_are_named_together():
    why = "did not learn: accuracy 50 %"
    unlearned = {"sentiment": {MethodVariant(method=method): why for method in ("softmax", "knn-ue")}}

    found = summarize(SETUPS, SMALL, outcome(), [], unlearned, n_texts={"sentiment": 100})

    assert found.unranked == (f"softmax, knn-ue (sentiment): {why}",)
    assert "The plain model did not learn its task on sentiment" in found.sentences[0]


def test_what_sets_a_rival_or_ours_apart_is_said_where_it_is_ranked():
    cells = outcome().found | {job("sdm", seed): {"sets": {"movies": {"ece": 0.1}}} for seed in range(2)}

    found = summary(Outcome(found=cells))

    assert [text.split(":")[0] for text in found.caveats] == ["sdm"]
    assert "* sdm: the activation alone" in to_markdown(Results(tables=[], facts={}, failed={}, summary=found))
    assert summary().caveats == ()


def test_a_set_on_which_confidence_ranks_the_wrong_way_is_named():
    cells = {
        one: {
            "sets": {
                part: numbers | {"auroc": 0.44 if part == "nyt" else 0.6} for part, numbers in cell["sets"].items()
            }
        }
        for one, cell in outcome().found.items()
    }

    (text,) = summary(Outcome(found=cells)).caveats

    assert text.startswith("nyt: no method is more confident of its right answers there")
    assert "(AUROC at most 44 %)" in text


def test_the_league_counts_the_paired_tests_of_the_tables(results):
    league = results.summary.grids[0]

    assert league.lines[0] == ("1", "knn-ue", "0 [0, 0]", "1 / 0 / 0", "0 [0, 0]", "3 / 0 / 0", "12", "2")
    assert league.lines[2][3] == "0 / 0 / 1"


def test_cells_that_are_missing_are_counted(results):
    assert results.summary.missing == (
        "sentiment, 0 of 3 seeds: dac",
        "sentiment, 2 of 3 seeds: softmax, temperature, mc-dropout, posterior, knn-ue",
    )
    whole = summary(asked=[job("softmax")])
    assert whole.missing == ()


def test_what_failed_is_not_called_not_measured_yet():
    found = Outcome(found=outcome().found, failed={job("dac"): "too few rows"})

    known = summary(found, asked=[job("dac"), job("sngp")])

    assert known.unranked[-2:] == ("dac: failed, with the reasons listed at the end", "sngp: not measured yet")


def test_a_method_without_a_seed_is_compared_with_those_it_has():
    fewer = summary(outcome(n_seeds=3, without={("temperature", 1)}))

    lines = {line[1]: line for line in fewer.grids[0].lines}
    assert (lines["temperature"][2], lines["temperature"][-1]) == ("50 [50, 50]", "2")
    assert "with 3 seeds (`temperature` has 2), at the small scale" in fewer.sentences[0]
    detected = {line[1]: line for line in fewer.grids[1].lines}
    assert (detected["temperature"][4], detected["softmax"][4]) == ("–", "92.0")  # means of other seeds mislead


def test_a_method_with_one_seed_is_in_no_league_where_others_have_more():
    found = summary(outcome(without={("temperature", 1)}))

    assert "temperature" not in {line[1] for line in found.grids[0].lines}
    assert "temperature (sentiment): one seed only" in found.unranked
    alone = summary(outcome(n_seeds=1))
    assert "temperature" in {line[1] for line in alone.grids[0].lines}


def test_nothing_measured_is_an_empty_page():
    empty = summarize(SETUPS, SMALL, Outcome(), [], {}, [job("softmax")])

    assert (empty.sentences, empty.grids, empty.pictures) == ((), (), ())
    assert empty.missing == ("sentiment, 0 of 1 seeds: softmax",)
    page = to_markdown(Results(tables=[], facts={}, failed={}, summary=empty))
    assert "sentiment, 0 of 1 seeds: softmax" in page


def test_the_page_begins_with_the_sentences_the_league_and_a_picture(results, tmp_path):
    files = write_page(results, tmp_path / "page.md")
    text = files[0].read_text(encoding="utf-8")

    assert [file.name for file in files] == ["page.md", "page_sentiment.svg"]
    assert text.index("1. 3 methods on 1 task") < text.index("**League") < text.index("](page_sentiment.svg)")
    assert text.count("<details") == text.count("</details>") == 2
    assert len(results.summary.sentences) <= 10
    assert ElementTree.parse(files[1]).getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_the_same_cells_give_the_same_page_to_the_last_byte(results, tmp_path):
    first = [file.read_bytes() for file in write_page(results, tmp_path / "page.md")]
    again = Results(tables=[], facts=results.facts, failed={}, summary=summary(asked=[]))
    second = [file.read_bytes() for file in write_page(again, tmp_path / "page.md")]

    assert first[1] == second[1]
    assert results.summary.sentences == again.summary.sentences


def test_leagues_are_in_latex_and_in_comma_separated_values_too(results):
    assert '"League: ECE, E-AURC and Brier score",1,knn-ue,"0 [0, 0]"' in league_to_csv(results)
    assert re.search(r"1 & \\textbf\{knn-ue\} & 0 \[0, 0\]", to_latex(results))


def test_seeds_of_other_ways_to_search_are_counted_where_they_are_fewer():
    searched = Job(setup="sentiment", what=MethodVariant(method="knn-ue", n_neighbors=8), seed=0)
    cells = outcome(n_seeds=3).found | {searched: {"sets": {}}}

    assert "`mc-dropout` and other ways to search have 1 seed." in summary(Outcome(found=cells)).sentences[0]
    assert "ways to search" not in summary(outcome(n_seeds=3)).sentences[0]


def test_what_the_number_of_words_detects_stands_beside_the_detectors():
    lengths = {("sentiment", "tweets"): 97.5}

    table = make_plan(SETUPS)["sentiment"]
    found = summarize(SETUPS, SMALL, outcome(), [FilledTable(table=table)], {}, lengths=lengths)

    assert found.grids[-1].lines[0] == ("amazon", "sentiment", "97.0", "92.0", "98.0 (posterior)", "–")
    assert found.grids[-1].lines[-1] == ("tweets", "sentiment", "97.0", "92.0", "98.0 (posterior)", "97.5")


def test_the_best_other_detector_of_a_set_has_all_seeds():
    found = summary(outcome(n_seeds=2, without={("temperature", 1)}))

    assert {line[4] for line in found.grids[-1].lines} == {"–"}  # temperature has one seed of two

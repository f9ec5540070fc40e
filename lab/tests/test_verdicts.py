"""Verdicts: same direction, an interval without zero, many claims at once; nothing else holds."""

import math
from dataclasses import replace

import numpy as np
import pytest

from knn_ue_lab.reproduce.claims import CORE, Claim, TimeClaim, claims_of, time_claims_of
from knn_ue_lab.reproduce.grids import counted, topic_grid
from knn_ue_lab.reproduce.plan import Block, make_plan
from knn_ue_lab.reproduce.published import Published
from knn_ue_lab.reproduce.setups import paper_setups
from knn_ue_lab.reproduce.statistics import PairedTest, Replicates
from knn_ue_lab.reproduce.variants import MethodVariant
from knn_ue_lab.reproduce.verdicts import judge, judge_coverage, judge_times

BLOCK = Block(setup="sentiment", part="imdb", paper="IMDb", measures=("ece",))
OURS, RIVAL = MethodVariant(method="knn-ue"), MethodVariant(method="softmax")
CLAIM = Claim(
    table="sentiment",
    text="ours beats the other",
    block=BLOCK,
    measure="ece",
    first=OURS,
    second=RIVAL,
    printed=(Published(0.95), Published(4.42)),
)


def comparison(difference, low, high, p=0.001, **options):
    options = {"first": 0.05 + difference, "second": 0.05, "t_test": 0.5, "n_seeds": 3} | options
    return PairedTest(difference=difference, low=low, high=high, p=p, **options)


def compared(difference, low, high, p=0.001, *, measure="ece", **options):
    found = comparison(difference, low, high, p, **options)
    return {("sentiment", "imdb"): {measure: {("knn-ue", "softmax"): found}}}


def word(*arguments, claim=CLAIM, **options):
    return judge([claim], compared(*arguments, **options), {})[0]


def test_a_lower_error_with_an_interval_without_zero_holds():
    assert word(-0.03, -0.05, -0.01).word == "holds"


def test_an_interval_with_zero_and_half_the_papers_gain_is_undecided_however_good_the_mean():
    verdict = word(-0.03, -0.07, 0.01, p=0.2)

    assert (verdict.word, verdict.reason) == (
        "undecided",
        "neither no gain nor half the paper's effect is excluded",
    )
    assert verdict.effect == pytest.approx(3.0 / (4.42 - 0.95))


def test_a_claim_does_not_hold_only_where_half_the_papers_gain_is_excluded():
    half = (4.42 - 0.95) / 200

    excluded = word(-0.001, -0.4 * half, 0.4 * half, p=0.5)
    assert (excluded.word, excluded.reason) == ("does not hold", "half the paper's effect is excluded")
    assert word(-0.001, -1.1 * half, 1.1 * half, p=0.5).word == "undecided"


def test_a_claim_that_could_not_but_fail_cannot_be_tested():
    half = (4.42 - 0.95) / 200

    crowded = word(-0.001, -0.4 * half, 0.4 * half, p=0.5, second=0.9 * half)
    roomy = word(-0.001, -0.4 * half, 0.4 * half, p=0.5, second=1.1 * half)

    assert (crowded.word, roomy.word) == ("cannot be tested here", "does not hold")
    assert crowded.reason == "SR leaves no room for half the paper's effect"
    assert "1 cannot be tested here (without room for the paper's gain)" in counted([crowded])


def test_the_opposite_refutes_a_claim_that_has_no_room_too():
    half = (4.42 - 0.95) / 200

    verdict = word(0.03, 0.02, 0.04, second=0.9 * half)

    assert (verdict.word, verdict.no_room) == ("does not hold", False)


def test_the_room_of_what_should_be_high_is_what_it_lacks_to_one():
    claim = replace(CLAIM, measure="class_auroc", printed=(Published(98.0), Published(90.0)))
    nothing = {"measure": "class_auroc", "claim": claim, "p": 0.5}

    assert word(0.0, -0.001, 0.001, second=0.97, **nothing).no_room
    assert not word(0.0, -0.001, 0.001, second=0.95, **nothing).no_room


def test_what_was_not_measured_is_told_from_what_cannot_be_tested():
    (verdict,) = judge([CLAIM], {}, {})

    assert not verdict.measured
    assert "1 cannot be tested here (not measured)" in counted([verdict])


def test_a_small_sure_gain_holds_and_is_called_small():
    verdict = word(-0.002, -0.003, -0.001)

    assert (verdict.word, verdict.reason) == ("holds", "but less than half the paper's effect")


def test_without_printed_numbers_only_the_opposite_refutes():
    claim = replace(CLAIM, printed=None)

    assert word(-0.0001, -0.001, 0.001, p=0.9, claim=claim).word == "undecided"
    assert word(0.03, 0.01, 0.05, claim=claim).word == "does not hold"
    assert math.isnan(word(0.03, 0.01, 0.05, claim=claim).effect)


def test_a_difference_that_no_table_shows_is_none_however_sure_the_test_is():
    for difference in (-4e-5, 4e-5):
        verdict = word(difference, difference - 1e-6, difference + 1e-6)
        assert verdict.word == "does not hold"
    assert word(-6e-5, -7e-5, -5e-5).word == "holds"


def test_an_opposite_that_no_table_shows_is_not_called_one():
    verdict = word(0.00001, 0.000005, 0.00002, second=0.05)

    assert (verdict.word, verdict.reason) == ("does not hold", "half the paper's effect is excluded")


def test_the_opposite_is_called_the_opposite():
    verdict = word(0.03, 0.01, 0.05)

    assert (verdict.word, verdict.reason) == (
        "does not hold",
        "the opposite was seen; half the paper's effect is excluded",
    )


def test_what_is_seen_in_one_of_many_claims_is_corrected_away():
    claims = [CLAIM] * 20
    pairs = compared(-0.03, -0.05, -0.001, p=0.03)

    verdict = judge(claims, pairs, {})[0]

    assert verdict.word == "undecided"
    assert verdict.reason == "seen, but not after correction for many claims"
    barely = judge(claims, compared(0.0, -0.017, 0.017, p=0.9), {})[0]
    assert barely.word == "undecided"


def test_for_what_should_be_high_a_higher_number_is_the_gain():
    claim = replace(CLAIM, measure="class_auroc")

    assert word(0.03, 0.01, 0.05, claim=claim, measure="class_auroc").word == "holds"
    assert word(-0.03, -0.05, -0.01, claim=claim, measure="class_auroc").word == "does not hold"


def test_without_cells_a_claim_cannot_be_tested():
    verdict = judge([CLAIM], {}, {})[0]

    assert verdict.word == "cannot be tested here"
    assert verdict.reason == "the cells, or answers that give their numbers, are not here"


def test_a_claim_about_a_model_that_did_not_learn_cannot_be_tested_and_is_no_claim_for_holm():
    pairs = compared(-0.03, -0.05, -0.01, p=0.03)
    other = replace(CLAIM, second=MethodVariant(method="posterior"))
    pairs["sentiment", "imdb"]["ece"]["knn-ue", "posterior"] = comparison(-0.03, -0.05, -0.01, p=0.03)
    failed = {"sentiment": {other.second: "did not learn: accuracy 51 %"}}

    assert [one.word for one in judge([CLAIM, other], pairs, {})] == ["undecided"] * 2
    first, second = judge([CLAIM, other], pairs, {}, failed)

    assert first.word == "holds"
    assert (second.word, second.reason) == ("cannot be tested here", "posterior did not learn: accuracy 51 %")


@pytest.mark.parametrize(
    ("n_seeds", "reason"), [(3, "not defined with every seed"), (0, "no seed that both were measured with")]
)
def test_a_measure_that_is_not_defined_cannot_be_tested(n_seeds, reason):
    verdict = word(math.nan, math.nan, math.nan, p=math.nan, first=math.nan, n_seeds=n_seeds)

    assert (verdict.word, verdict.reason, verdict.ours) == ("cannot be tested here", reason, "– / 5.00")


@pytest.mark.parametrize("gain", [-0.03, 0.03])
def test_one_seed_decides_nothing(gain):
    once = word(gain, gain - 0.001, gain + 0.001, n_seeds=1)

    assert (once.word, once.reason) == ("undecided", "one seed does not show how far seeds scatter")
    assert word(gain, gain - 0.001, gain + 0.001).word == ("holds" if gain < 0 else "does not hold")
    assert counted([once, word(-0.03, -0.05, -0.01)]).startswith(
        "1 holds, 0 do not hold, 1 is undecided (with one seed only)"
    )


def test_claims_with_one_seed_are_not_corrected_for():
    found = compared(-0.03, -0.05, -0.01, p=0.01)
    other = replace(BLOCK, part="yelp")
    once = comparison(-0.03, -0.05, -0.01, p=0.001, n_seeds=1)

    verdicts = judge(
        [CLAIM, *[replace(CLAIM, block=other)] * 10],
        found | {("sentiment", "yelp"): {"ece": {("knn-ue", "softmax"): once}}},
        {},
    )

    assert [one.word for one in verdicts] == ["holds", *["undecided"] * 10]


def test_both_numbers_are_those_of_the_texts_that_were_compared():
    verdict = word(-0.03, -0.05, -0.01, first=0.021, second=0.051, n_texts=200)

    assert verdict.ours == "2.10 / 5.10"
    assert verdict.reason == "on the first 200 texts"


def test_without_a_comparison_means_of_different_texts_do_not_stand_side_by_side():
    means = {("sentiment", "imdb", name, "ece"): 0.02 for name in ("knn-ue", "softmax", "mc-dropout")}

    assert judge([CLAIM], {}, means)[0].ours == "2.00 / 2.00"
    assert judge([replace(CLAIM, second=MethodVariant(method="mc-dropout"))], {}, means)[0].ours == "– / –"


def test_no_loss_holds_only_while_the_interval_stays_within_the_margin():
    claim = replace(CLAIM, kind="no worse")

    assert word(0.002, -0.001, 0.009, claim=claim).word == "holds"
    assert word(0.002, -0.010, 0.011, claim=claim).reason == "a loss of 1 or more is not excluded"
    assert word(0.030, 0.020, 0.040, claim=claim).reason == "loses 1 or more"
    within = word(0.006, 0.004, 0.008, claim=claim)
    assert (within.word, within.reason) == ("holds", "it loses significantly, and the loss is below 1")
    around = word(0.010, 0.005, 0.015, claim=claim)
    assert around.reason == "it loses significantly, and a loss of 1 or more is not excluded"


def test_many_claims_of_no_loss_are_corrected_too():
    claims = [replace(CLAIM, kind="no worse", second=MethodVariant(method=name)) for name in ("softmax", "dac", "mdsn")]
    barely = comparison(0.002, -0.004, 0.0095)
    pairs = {("sentiment", "imdb"): {"ece": {("knn-ue", str(claim.second)): barely for claim in claims}}}

    assert judge(claims[:1], pairs, {})[0].word == "holds"
    verdict = judge(claims, pairs, {})[0]
    assert (verdict.word, verdict.reason) == (
        "undecided",
        "the loss is below 1, but not after correction for many claims",
    )
    assert verdict.p > 0.05


def test_our_definition_gets_a_verdict_of_its_own():
    claim = replace(CLAIM, measure="e_aurc_published")
    better = comparison(-0.1, -0.2, -0.05)
    pairs = {("sentiment", "imdb"): {"e_aurc_published": {("knn-ue", "softmax"): better}}}

    assert judge([claim], pairs, {})[0].by_our_definition == "cannot be tested here"

    pairs["sentiment", "imdb"]["e_aurc"] = {("softmax", "knn-ue"): better}
    verdict = judge([claim], pairs, {})[0]
    assert (verdict.word, verdict.by_our_definition) == ("holds", "does not hold")


@pytest.mark.parametrize(
    ("at_least", "rounds", "expected"),
    [(True, [30, 28], "holds"), (False, [30, 9], "undecided"), (False, [30, 28], "does not hold")],
)
def test_a_claim_about_time_must_hold_in_every_round_and_fail_in_every_round(at_least, rounds, expected):
    claim = TimeClaim(
        table="time",
        text="",
        setup="nli",
        part="x",
        first=OURS,
        second=RIVAL,
        at_least=at_least,
        bound=10.0,
        printed=2.0,
    )
    content = {"milliseconds": {"knn-ue": rounds, "softmax": [1.0, 1.0]}, "load": 3.0}

    (verdict,) = judge_times([claim], {("nli", "x"): content})

    assert verdict.word == expected
    assert verdict.reason == "measured while other jobs ran"
    once = {"milliseconds": {"knn-ue": rounds[:1], "softmax": [1.0, 1.0]}, "load": 1.0}
    assert judge_times([claim], {("nli", "x"): once})[0].reason == "one round only"
    assert judge_times([claim], {})[0].word == "cannot be tested here"


def test_coverage_above_one_percent_contradicts_the_paper():
    assert judge_coverage("ner", "x", "all three", [0.43, 0.45]).word == "does not hold"
    assert judge_coverage("ner", "x", "all three", [0.0002]).word == "holds"
    assert judge_coverage("ner", "x", "all three", []).word == "cannot be tested here"


def test_the_claims_of_a_table_point_the_way_the_paper_prints(tmp_path):
    plan = make_plan(paper_setups(tmp_path))

    claims = {(c.block.part, c.measure, c.second.method): c for c in claims_of(plan["ner"])}

    assert claims["bn", "ece", "softmax"].first == OURS
    beaten = next(c for c in claims_of(plan["ner"]) if c.block.part == "bn" and c.first.method == "dac")
    assert (beaten.measure, beaten.second) == ("ece", OURS)  # DAC has the best printed ECE, 1.62 against 1.78
    assert claims["bn", "e_aurc_published", "knn-ue"].first.method in ("knn-ue-no-label", "e-ner")


def test_a_claim_is_about_whom_the_paper_finds_ahead(tmp_path):
    plan = make_plan(paper_setups(tmp_path))
    claims = [claim for name in ("sentiment", "nli", "ner", "detection", "brier") for claim in claims_of(plan[name])]

    assert {claim.topic for claim in claims} == set(CORE)
    for claim in claims:
        ahead = claim.first == OURS
        other = (claim.second if ahead else claim.first).method
        if other == "knn-ue-no-label":
            assert claim.topic == ("labels help" if ahead else "labels hurt")
        else:
            assert claim.topic == (("softmax" if other == "softmax" else "existing") if ahead else "others ahead")
    assert {claim.topic for claim in claims_of(plan["ivf"])} == {"search"}


def test_what_the_paper_marks_is_better_than_existing_methods_not_than_its_own(tmp_path):
    claims = claims_of(make_plan(paper_setups(tmp_path))["sentiment"])
    printed = [claim for claim in claims if claim.printed and claim.printed[0].significant]

    assert any(claim.second.method == "knn-ue-no-label" for claim in printed)
    assert [claim for claim in claims if claim.marked] == [
        claim for claim in printed if claim.second.method != "knn-ue-no-label"
    ]


def test_topics_are_counted_with_the_median_gain():
    verdict = word(-0.0347, -0.05, -0.01, claim=replace(CLAIM, topic="softmax"))

    (line,) = topic_grid([verdict]).lines

    assert line[:2] == ("kNN-UE better than the plain softmax", "1")
    assert float(line[6]) == pytest.approx(1.0, abs=0.01)


def test_every_claim_with_numbers_gains_in_print(tmp_path):
    from knn_ue_lab.reproduce.measures import measure_of

    plan = make_plan(paper_setups(tmp_path))
    claims = [
        claim for table in plan.values() for claim in claims_of(table) if claim.kind == "better" and claim.printed
    ]

    assert len(claims) > 80
    for claim in claims:
        sign = 1 if measure_of(claim.measure).higher_is_better else -1
        assert sign * (claim.printed[0].mean - claim.printed[1].mean) > 0


def test_times_are_claimed_relative_to_the_printed_ratio(tmp_path):
    plan = make_plan(paper_setups(tmp_path))

    (claim,) = [c for c in time_claims_of(plan["time"]) if c.setup == "nli" and c.first.method == "dac"]

    assert claim.printed == pytest.approx(785.15 / 8.41)


def test_indexes_are_claimed_to_lose_where_the_text_says_so_and_the_print_shows_it(tmp_path):
    plan = make_plan(paper_setups(tmp_path))

    def claimed(table, kind, part):
        found = [c for c in claims_of(plan[table]) if c.block.part == part and c.kind == kind]
        return {(str(c.first if kind == "no worse" else c.second), c.measure) for c in found}

    assert claimed("pca", "better", "bn") == {
        (f"knn-ue-PCA{n}+Flat-approx", measure) for n in (64, 128) for measure in ("ece", "mce")
    }
    assert ("knn-ue-PCA64+Flat-approx", "ece") not in claimed("pca", "better", "nw")  # 7.48 is below 7.50
    assert {name for name, _ in claimed("pca", "no worse", "nw")} == {"knn-ue-PCA256+Flat-approx"}
    assert {measure for _, measure in claimed("pq", "better", "bn")} == {"mce"}
    assert not claimed("pq", "better", "nw")
    all_three = "knn-ue-PCA128+IVF100+PQ32x5-p32-approx"
    assert {(all_three, "ece"), (all_three, "mce")} == claimed("combined", "better", "nw")
    assert (all_three, "ece") in claimed("recomputed", "no worse", "bn")  # against recomputed distances


def test_recomputed_distances_are_claimed_to_be_slower_than_both(tmp_path):
    plan = make_plan(paper_setups(tmp_path))

    slow = [c for c in time_claims_of(plan["recomputed"]) if c.at_least and c.part == "bn"]

    assert [(c.second.index.factory, c.bound) for c in slow] == [("Flat", 1.0), ("PCA128,IVF100,PQ32x5", 5.0)]
    assert [c.printed for c in slow] == pytest.approx([16.24 / 4.99, 16.24 / 2.87])


def simulated_tables(gain, *, n_seeds, of_texts, of_seeds, n_runs=100, n_claims=1):
    """Return the verdicts of many experiments, a list of claims each, whose true gain is `gain`; the paper's is 3.47.

    Both kinds of scatter are standard deviations of a measured difference, in points of ECE: of all texts, of one seed.
    """
    rng = np.random.default_rng(int(1000 * gain) + n_seeds)
    claims = [replace(CLAIM, block=replace(BLOCK, part=str(number))) for number in range(n_claims)]
    tables = []
    for _ in range(n_runs):
        pairs = {}
        for claim in claims:
            by_seed = -(gain + of_texts * rng.normal() + of_seeds * rng.normal(size=n_seeds)) / 100
            drawn = by_seed[:, None] + of_texts / 100 * rng.normal(size=200)
            # The other side has an error of 5 points: room for the gain.
            both = Replicates(
                methods=("knn-ue", "softmax"),
                measured=0.05 + np.stack([by_seed, np.zeros_like(by_seed)]),
                drawn=0.05 + np.stack([drawn, np.zeros_like(drawn)]),
            )
            found = both.compare("knn-ue", "softmax")
            pairs["sentiment", claim.block.part] = {"ece": {("knn-ue", "softmax"): found}}
        tables.append([verdict.word for verdict in judge(claims, pairs, {})])
    return tables


def simulated_words(gain, **scatter):
    words = [word for (word,) in simulated_tables(gain, **scatter)]
    return {word: words.count(word) / len(words) for word in ("holds", "does not hold", "undecided")}


# The level is 2.5 % whatever scatters, also where a few seeds happen to agree (benchmarks/verdict_rates.py).
@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_seeds", "of_texts", "of_seeds"), [(2, 0.6, 0.2), (2, 0.2, 1.0), (3, 0.2, 1.0), (8, 0.2, 1.0)]
)
def test_wrong_verdicts_are_as_rare_as_the_page_says(n_seeds, of_texts, of_seeds):
    n_runs, rate = 300, 0.025
    scatter = {"n_seeds": n_seeds, "of_texts": of_texts, "of_seeds": of_seeds, "n_runs": n_runs}

    nothing, half = (simulated_words(gain, **scatter) for gain in (0.0, 3.47 / 2))

    by_chance = 2.5 * math.sqrt(rate * (1 - rate) / n_runs)
    assert nothing["holds"] <= rate + by_chance
    assert half["does not hold"] <= rate + by_chance


@pytest.mark.slow
def test_few_seeds_leave_undecided_what_many_decide():
    few, many = ({"n_seeds": n, "of_texts": 0.3, "of_seeds": 1.0} for n in (2, 8))

    assert simulated_words(0.0, **few)["undecided"] > 0.5
    assert simulated_words(0.0, **many)["does not hold"] > 0.5
    assert simulated_words(3.47, **few)["undecided"] > 0.4
    assert simulated_words(3.47, **many)["holds"] > 0.9


@pytest.mark.parametrize("n_seeds", [2, 3, 8])
def test_few_tables_of_many_claims_have_a_wrong_verdict(n_seeds):
    n_runs, rate = 40, 0.05
    scatter = {"n_seeds": n_seeds, "of_texts": 0.2, "of_seeds": 1.0, "n_runs": n_runs, "n_claims": 20}

    refuted = sum("does not hold" in words for words in simulated_tables(3.47 / 2, **scatter)) / n_runs
    shown = sum("holds" in words for words in simulated_tables(0.0, **scatter)) / n_runs

    by_chance = 2.5 * math.sqrt(rate * (1 - rate) / n_runs)
    assert max(refuted, shown) <= rate + by_chance


def test_an_error_that_a_perfect_model_has_too_is_no_room():
    half = (4.42 - 0.95) / 200
    pairs = compared(-0.001, -0.4 * half, 0.4 * half, p=0.5, second=1.5 * half)

    def with_floor(floor):
        return judge([CLAIM], pairs, {}, floor=lambda _claim, _found: floor)[0]

    assert with_floor(0.0).word == "does not hold"
    assert (with_floor(0.6 * half).word, with_floor(0.6 * half).no_room) == ("cannot be tested here", True)


def test_the_p_value_that_refutes_is_shown_beside_the_one_that_would_confirm():
    half = (4.42 - 0.95) / 200

    refuted = word(-0.001, -0.4 * half, 0.4 * half, p=0.5)

    assert refuted.p_against < 0.001 < refuted.p

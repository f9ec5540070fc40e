"""The plan names every table of the paper, and every printed row has a cell that can fill it."""

import pytest

from knn_ue.errors import InvalidInputError
from knn_ue_lab.reproduce.plan import make_plan
from knn_ue_lab.reproduce.published import PUBLISHED
from knn_ue_lab.reproduce.reproduction import Reproduction, Request
from knn_ue_lab.reproduce.scales import BASE, PAPER, SCALES, TASKS
from knn_ue_lab.reproduce.setups import Choice, folder_setups, paper_setups, vader_setups
from knn_ue_lab.reproduce.timing import Timing
from knn_ue_lab.reproduce.variants import PAPER_NAMES, methods_of
from tiny_data import write_data, write_rows


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    return make_plan(paper_setups(tmp_path_factory.mktemp("ontonotes")))


def test_every_published_table_is_planned_and_both_figures_are(plan):
    assert set(PUBLISHED) <= set(plan)
    assert [table.name for table in plan.values() if table.figure] == ["top-k-sentiment", "top-k-ner"]


@pytest.mark.parametrize("name", [name for name in PUBLISHED if name not in ("toy", "coverage")])
def test_every_printed_row_is_a_row_of_the_plan(plan, name):
    table = plan[name]
    rows = {str(variant) for variants in table.variants.values() for variant in variants}
    rows |= {str(variant) for _, timing in table.timings for variant in timing.variants}

    assert set(PUBLISHED[name].rows) <= rows


def test_coverage_is_planned_for_every_printed_index(plan):
    rows = {str(variant) for variant in plan["coverage"].variants["ner"]}

    assert set(PUBLISHED["coverage"].rows) - {"knn-ue"} <= rows


@pytest.mark.parametrize("name", [name for name in PUBLISHED if not name.startswith(("time", "toy"))])
def test_every_printed_column_is_a_column_of_the_plan(plan, name):
    columns = {(block.paper, measure) for block in plan[name].blocks for measure in block.measures}
    timed = {(block.paper, "seconds") for block in plan[name].blocks}

    assert set(PUBLISHED[name].columns) <= columns | timed


def test_jobs_are_one_a_method_and_seed_and_times_one_a_set(plan):
    jobs = plan["nli"].jobs(5)

    assert len(jobs) == 5 * len(methods_of("text-pair"))
    assert {job.seed for job in jobs} == set(range(5))
    assert all(isinstance(job.what, Timing) and job.seed == 0 for job in plan["time"].jobs(5))


def test_without_data_a_table_says_what_it_misses():
    plan = make_plan(vader_setups())

    assert plan["ner"].missing == ("ner",)
    assert plan["time"].missing == ("nli", "ner")
    assert plan["sentiment"].missing == ()
    assert plan["ner"].jobs(3) == []


def test_a_new_set_in_the_folder_becomes_new_columns(tmp_path):
    write_data(tmp_path, tasks=("sentiment",))
    write_rows(tmp_path / "sentiment" / "third" / "test.jsonl", [{"text": "fine", "label": "pos"}])

    plan = make_plan(folder_setups(tmp_path))

    assert [block.part for block in plan["sentiment"].blocks] == ["home", "away", "third"]
    assert [block.part for block in plan["detection"].blocks] == ["away", "third"]


def test_scales_say_how_every_task_is_trained():
    for scale in SCALES.values():
        assert set(scale.options) == set(scale.encoders) == set(TASKS) - ({"ner"} if scale is BASE else set())
    assert PAPER.options["nli"].learning_rate == 1e-5
    assert PAPER.n_seeds == 5
    assert set(PAPER.epsilons) == {0.01, 0.05, 0.1, 0.2, 0.3}


def test_the_paper_names_its_methods_as_we_call_them():
    assert PAPER_NAMES["softmax"] == "SR"
    assert set(PUBLISHED["sentiment"].rows) <= set(PAPER_NAMES)


def test_methods_that_train_their_own_model_have_fewer_seeds(tmp_path):
    table = make_plan(vader_setups())["sentiment"]
    jobs = table.jobs(8, 4)

    seeds = {method: {job.seed for job in jobs if job.what.method == method} for method in ("knn-ue", "sngp")}
    assert seeds == {"knn-ue": set(range(8)), "sngp": {0, 1, 2, 3}}


def test_what_reads_the_plain_model_again_is_measured_with_the_last_seeds(tmp_path):
    plan = make_plan(vader_setups())

    passes = {job.seed for job in plan["sentiment"].jobs(8, 4) if job.what.method == "mc-dropout"}
    searched = {job.seed for job in plan["top-k-sentiment"].jobs(8, 4) if job.what.varies_search}

    assert passes == searched == {4, 5, 6, 7}


def test_at_the_base_scale_only_post_hoc_methods_are_measured(data):
    tables = make_plan(folder_setups(data)).values()

    planned = {job for table in tables for job in table.jobs(BASE.n_seeds, BASE.trained_seeds)}

    assert planned and all(job.what.is_post_hoc for job in planned)  # and no times
    assert {job.seed for job in planned} == {0, 1}


def test_a_task_that_the_scale_has_no_settings_for_is_reported_and_left_out(data, tmp_path):
    lines = []

    names = [setup.name for setup in Reproduction(Request(out=tmp_path, scale="base", data=data), lines.append).setups]

    assert names == ["sentiment", "nli"]
    assert "left out: ner is not part of the scale base" in lines


@pytest.mark.parametrize(
    "asked", [{"task_encoders": {"ner": "tagger"}}, {"choice": Choice(in_domain={"ner": "home"})}], ids=str
)
def test_a_task_that_was_asked_for_by_name_is_not_left_out_silently(asked, data, tmp_path):
    request = Request(out=tmp_path, scale="base", data=data, **asked)

    with pytest.raises(InvalidInputError, match="the scale base has no settings for ner, only for sentiment, nli"):
        _ = Reproduction(request).setups

"""Tables of a folder with one task only: the paper's numbers of that task, and what is missing."""

from types import SimpleNamespace

import pytest

from knn_ue_lab.reproduce.plan import make_plan
from knn_ue_lab.reproduce.reproduction import Reproduction, Request
from knn_ue_lab.reproduce.run import Job, Outcome
from knn_ue_lab.reproduce.scales import SMALL
from knn_ue_lab.reproduce.setups import folder_setups, vader_setups
from knn_ue_lab.reproduce.tables import FilledTable, Filler
from knn_ue_lab.reproduce.task_data import TaskData
from knn_ue_lab.reproduce.variants import MethodVariant
from tiny_data import write_data, write_rows


def filled_with_times(folder, name, task):
    """Return a table of times where only `task` has data, each method timed once."""
    setups = folder_setups(write_data(folder, tasks=(task,)))
    table = make_plan(setups)[name]
    runner = SimpleNamespace(setup=setups[0], scale=SMALL, encoder_name="tiny")
    jobs = [Job(setup=setup, what=timing, seed=0) for setup, timing in table.timings]
    found = {job: {"milliseconds": {str(variant): [1.0] for variant in job.what.variants}, "load": 0.0} for job in jobs}
    return Filler(runners={task: runner}, outcome=Outcome(found=found)).fill(table)


@pytest.mark.parametrize(
    ("name", "task", "seconds"), [("time", "nli", 8.41), ("time", "ner", 2.49), ("time-elsewhere", "ner", 5.75)]
)
def test_times_stand_beside_those_of_the_same_task(tmp_path, name, task, seconds):
    (block,) = filled_with_times(tmp_path, name, task).times

    assert block.rows["softmax"].published.mean == seconds


def test_a_part_that_has_data_is_told_apart_from_one_that_has_none(tmp_path):
    filled = filled_with_times(tmp_path, "time", "ner")

    assert filled.verdicts
    assert filled.gaps == ("This run has no data or no settings for nli: this part cannot be tested here.",)
    nothing = FilledTable(table=make_plan(vader_setups())["ner"])
    assert nothing.gaps == ("Cannot be tested here: this run has no data or no settings for ner.",)


def test_what_is_measured_without_having_the_numbers_is_not_called_unmeasured():
    human = make_plan(vader_setups())["human"]

    assert FilledTable(table=human).gaps == ("Measured, but no test set has these numbers.",)
    assert FilledTable(table=human, measured=False).gaps == ("Not measured yet.",)


def test_the_list_tells_the_time_of_a_table_that_has_data_for_a_part(tmp_path):
    data = write_data(tmp_path / "data", tasks=("ner",))
    request = Request(out=tmp_path, data=data, encoder=str(tmp_path))

    lines = {line[0]: line for line in Reproduction(request).listing()}

    assert lines["time"][4] == "30 s, no data for nli"
    assert lines["nli"][4] == "no data"


def noted(folder, name, rows):
    """Return the notes of a table of sentiment of these training and test rows, one method measured."""
    for split in ("train", "val", "test"):
        write_rows(folder / "sentiment" / "home" / f"{split}.jsonl", rows)
    (setup,) = folder_setups(folder)
    runner = SimpleNamespace(setup=setup, scale=SMALL, data=TaskData(setup, SMALL))
    job = Job(setup="sentiment", what=MethodVariant(method="softmax"), seed=0)
    filler = Filler(runners={"sentiment": runner}, outcome=Outcome(found={job: {"sets": {}}}))
    return " ".join(filler._notes(make_plan((setup,))[name]))


def test_of_how_many_texts_the_votes_are_is_told(tmp_path):
    rows = [{"text": "fine", "label": "pos", "label_counts": {"pos": 3}}, {"text": "dull", "label": "neg"}]

    assert "home: 1 of 2 texts have votes" in noted(tmp_path, "human", rows)
    assert "have votes" not in noted(tmp_path, "human", rows[:1])


def test_a_column_that_many_classes_leave_empty_is_told(tmp_path):
    rows = [{"text": "fine", "label": str(number)} for number in range(11)]

    assert "not measured where there are more than 10" in noted(tmp_path, "sentiment", rows)
    assert "not measured" not in noted(tmp_path, "sentiment", rows[:10])

"""Tables of a folder with one task only: the paper's numbers of that task, and what is missing."""

from types import SimpleNamespace

import pytest

from experiment_data import write_data
from knn_ue.experiments.plan import make_plan
from knn_ue.experiments.run import Job, Outcome
from knn_ue.experiments.scales import SMALL
from knn_ue.experiments.setups import folder_setups
from knn_ue.experiments.tables import Filler


def filled_with_times(folder, name, task):
    """Return a table of times where only `task` has data, each method timed once."""
    setups = folder_setups(write_data(folder, tasks=(task,)))
    table = make_plan(setups)[name]
    bench = SimpleNamespace(setup=setups[0], scale=SMALL, encoder_name="tiny")
    jobs = [Job(setup=setup, what=timing, seed=0) for setup, timing in table.timings]
    found = {job: {"milliseconds": {str(spec): [1.0] for spec in job.what.specs}, "load": 0.0} for job in jobs}
    return Filler(benches={task: bench}, outcome=Outcome(found=found)).fill(table)


@pytest.mark.parametrize(
    ("name", "task", "seconds"), [("time", "nli", 8.41), ("time", "ner", 2.49), ("time-elsewhere", "ner", 5.75)]
)
def test_times_stand_beside_those_of_the_same_task(tmp_path, name, task, seconds):
    (block,) = filled_with_times(tmp_path, name, task).times

    assert block.rows["softmax"].published.mean == seconds

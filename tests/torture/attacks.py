"""The list of attacks. To add one: a file with `attack(plan)`, and a line here."""

from collections.abc import Callable
from dataclasses import dataclass

from torture import (
    drawn_values,
    failing_calls,
    forks,
    full_disk,
    hostile_requests,
    killed_pipelines,
    killed_stores,
    mutated_folders,
    overload,
    power_loss,
    resumed_predictions,
    stopped_writers,
    two_servers,
)
from torture.tally import Plan


@dataclass(frozen=True)
class Attack:
    """`share` of the time is given to it."""

    title: str
    attack: Callable[[Plan], None]
    share: float


ATTACKS = {
    "store": Attack("kill -9 of a datastore's writer", killed_stores.one_writer, 1),
    "two-writers": Attack("kill -9 of two writers of one datastore", killed_stores.two_writers, 1),
    "pipeline": Attack("kill -9 of add, remove, compact, refit, tune, save", killed_pipelines.one_writer, 2),
    "two-pipelines": Attack("kill -9 of two writers of one UE folder", killed_pipelines.two_writers, 2),
    "train": Attack("kill -9 of train --overwrite", killed_pipelines.trainings, 1),
    "stop": Attack("SIGSTOP of a writer with a lock in its hands", stopped_writers.attack, 1),
    "full-disk": Attack("a disk that is full at random moments", full_disk.attack, 1),
    "forks": Attack("forks of a process whose threads write", forks.attack, 1),
    "failing-calls": Attack("a system call of a change that fails, or is the last", failing_calls.attack, 2),
    "power-loss": Attack("power loss, of all that was not synced a random part is there", power_loss.attack, 2),
    "servers": Attack("kill -9 of two servers of one folder", two_servers.attack, 2),
    "together": Attack("kill -9 of two servers and four writers of one folder", two_servers.together, 2),
    "requests": Attack("hostile requests", hostile_requests.attack, 1),
    "overload": Attack("ten times the requests a server can answer", overload.attack, 1),
    "resume": Attack("kill -9 of predict, then --resume", resumed_predictions.attack, 2),
    "values": Attack("values at and beyond every limit, written and read", drawn_values.attack, 1),
    "mutated-folders": Attack("folders and data files damaged or forged, opened and used", mutated_folders.attack, 4),
}

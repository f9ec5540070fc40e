"""What a run on a cluster writes, once and whole, whatever ends it; the work is done in this process."""

import gzip
import json
from contextlib import contextmanager

import pytest

from knn_ue.distributed import predict_files, predicting
from knn_ue.errors import InvalidInputError, StorageError
from pipelines import TEXT, fit
from tiny_models import ROWS, one_thread, tiny_model

pytest.importorskip("torch")

__all__ = ["one_thread", "tiny_model"]

N_ROWS, PART_ROWS = 25, 10


class DriverKilledError(Exception):
    """Stands for the end of the driver."""


@pytest.fixture(autouse=True)
def here(monkeypatch):
    """Do the work of a cluster here, the last part first; `ends_after` so many parts the driver is killed."""

    @contextmanager
    def cluster(_address, workers):
        yield workers or 1

    def run_parts(work, parts, _n_workers, *shared):
        for number, part in sorted(parts, key=lambda pair: -pair[0]):
            here.computed.append(number)
            result = work(part, *shared)
            if len(here.computed) == here.ends_after:
                raise DriverKilledError
            yield number, result

    here.computed, here.ends_after = [], None
    monkeypatch.setattr(predicting, "cluster", cluster)
    monkeypatch.setattr(predicting, "run_parts", run_parts)
    return here


@pytest.fixture(scope="module")
def ue(tiny_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("predicting") / "ue"
    fit(tiny_model("bert", TEXT), TEXT, index="exact").save(folder)
    return folder


@pytest.fixture
def rows(tmp_path):
    return write(tmp_path / "rows.jsonl", ROWS[TEXT](N_ROWS, start=300))


def write(path, found):
    path.write_text("".join(json.dumps({"text": row["text"], "id": n}) + "\n" for n, row in enumerate(found)))
    return path


def predicted(ue, inputs, output, **options):
    return predict_files(ue, inputs, output, **{"part_rows": PART_ROWS, "device": "cpu", **options})


def lines_of(done):
    return [json.loads(line) for file in done.files for line in file.read_text().splitlines()]


def test_every_row_of_every_file_is_answered_once_in_order(ue, rows, tmp_path):
    more = tmp_path / "more.jsonl.gz"
    more.write_bytes(gzip.compress(rows.read_bytes()))

    done = predicted(ue, [rows, more], tmp_path / "out")

    assert [line["id"] for line in lines_of(done)] == 2 * list(range(N_ROWS))
    assert (done.n_rows, len(done.files), done.n_resumed) == (50, 5, 0)
    summary = json.loads((tmp_path / "out" / "done.json").read_text())
    assert summary["rows"] == 50 and [part["rows"] for part in summary["parts"]] == [10] * 5


def test_a_killed_run_is_resumed_to_the_same_bytes_and_computes_no_part_again(ue, rows, tmp_path, here):
    expected = [file.read_bytes() for file in predicted(ue, [rows], tmp_path / "whole").files]
    here.computed, here.ends_after = [], 2
    with pytest.raises(DriverKilledError):
        predicted(ue, [rows], tmp_path / "out")
    assert not (tmp_path / "out" / "done.json").exists()
    before, here.computed, here.ends_after = here.computed, [], None
    (tmp_path / "out" / ".part-000000.jsonl.abcd.draft").write_bytes(b"half a part")

    done = predicted(ue, [rows], tmp_path / "out", resume=True)

    # The second part was computed, but the driver ended before it wrote it.
    assert sorted([before[0], *here.computed]) == [0, 1, 2] and done.n_resumed == 1
    assert [file.read_bytes() for file in done.files] == expected
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "done.json",
        "manifest.json",
        *(f"part-00000{number}.jsonl" for number in range(3)),
    ]


def test_a_finished_run_is_resumed_without_a_cluster(ue, rows, tmp_path, here, monkeypatch):
    done = predicted(ue, [rows], tmp_path / "out")
    monkeypatch.setattr(predicting, "cluster", None)

    again = predicted(ue, [rows], tmp_path / "out", resume=True)

    assert (again.files, again.n_rows, again.n_resumed) == (done.files, N_ROWS, 3)


def test_a_changed_input_folder_or_option_is_refused(ue, rows, tmp_path, tiny_model):
    output = tmp_path / "out"
    predicted(ue, [rows], output, top=5)

    with pytest.raises(InvalidInputError, match="an option has changed"):
        predicted(ue, [rows], output, top=6, resume=True)
    with pytest.raises(InvalidInputError, match="the UE folder has changed"):
        other = tmp_path / "ue"
        fit(tiny_model("bert", TEXT), TEXT, index="exact").save(other)
        predicted(other, [rows], output, top=5, resume=True)
    rows.write_text(rows.read_text().replace("film", "FILM"))
    with pytest.raises(InvalidInputError, match="an input has changed"):
        predicted(ue, [rows], output, top=5, resume=True)


def test_a_bad_row_is_named_by_its_line_and_what_was_done_is_kept(ue, rows, tmp_path):
    rows.write_text(rows.read_text() + '{"text": 7}\n')

    with pytest.raises(InvalidInputError, match=r"rows\.jsonl, line 26: "):
        predicted(ue, [rows], tmp_path / "out")


def test_a_folder_that_holds_something_else_is_refused(ue, rows, tmp_path):
    predicted(ue, [rows], tmp_path / "out")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")

    with pytest.raises(StorageError, match="already holds a run: continue it with resume"):
        predicted(ue, [rows], tmp_path / "out")
    with pytest.raises(StorageError, match="already holds other files: choose an empty folder"):
        predicted(ue, [rows], tmp_path / "full")
    with pytest.raises(StorageError, match=r"holds no manifest\.json, so there is no run to continue"):
        predicted(ue, [rows], tmp_path / "full", resume=True)
    with pytest.raises(StorageError, match="is a file: choose a folder"):
        predicted(ue, [rows], tmp_path / "full" / "notes.txt")


def test_no_input_and_a_missing_one_are_refused(ue, tmp_path):
    with pytest.raises(InvalidInputError, match="at least one input"):
        predicted(ue, [], tmp_path / "out")
    with pytest.raises(InvalidInputError, match="is not a file"):
        predicted(ue, [tmp_path / "none.jsonl"], tmp_path / "out")

"""What does storage cost? Lines of its rooms, the walk of one added example, and adds a second.

    python benchmarks/ground.py [--json]

To compare with another version of the library, run this file with its `src` and `tests` on PYTHONPATH: rooms that a
version does not have count nothing. A tiny BERT with random weights is fitted and served in this process; a profiler
that looks only at knn_ue counts what one `POST /examples` of one text, and one `knn-ue adapt`, go through. Adds go to a
store of 2,000 examples of 384 columns in a folder on this disk; each is durable before the next begins. `fsync` is the
time of one write of 2 KB with its fsync on the same disk, the least that anything durable can take.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

import knn_ue
from cli_files import run, write_rows
from knn_ue.stores import Datastore
from pipelines import TEXT, fit
from tiny_models import ROWS, save_tiny_model

HOME = Path(knn_ue.__file__).parent
# Whose work a function does: what any server needs to read a request and answer it, what a model needs to encode a
# text, and all else, which is storage.
WIRE, MODEL = (
    ("serving",),
    ("encoding", "arrays.py", "types.py", "tasks.py", "pipeline/pipeline.py", "pipeline/rows.py"),
)
WRITER = "serving/work/writer.py"
ROOMS = ("storage", "folder", "stores", "pipeline/editing.py", "serving/work/writer.py")
# Reads of what names the files of a folder, by the names they had and have.
READS = {"read_meta", "read_contents"}
OPENS = {"parse_folder", "open_folder"}


class Calls:
    """A profiler that counts which functions of ours are called, in every thread."""

    def __init__(self) -> None:
        self.functions: Counter[tuple[str, str]] = Counter()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(HOME)) and not code.co_name.startswith("<"):
            self.functions[code.co_filename, code.co_qualname] += 1

    def during(self, work: Callable[[], object]) -> dict[str, int]:
        """Return what is called while `work` is done."""
        threading.setprofile_all_threads(self) if hasattr(threading, "setprofile_all_threads") else None
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            work()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
        names = Counter({name: n for (_, name), n in self.functions.items()})
        found = {
            "files": len({file for file, _ in self.functions}),
            "functions": len(self.functions),
            "reads of the contents": sum(names[name] for name in READS),
            "folders opened": sum(names[name] for name in OPENS),
        }
        whose = {key: _whose(Path(key[0]).relative_to(HOME)) for key in self.functions}
        for part in ("wire", "model", "storage"):
            mine = [key for key, owner in whose.items() if owner == part]
            found |= {f"files of the {part}": len({file for file, _ in mine}), f"functions of the {part}": len(mine)}
        return found


def _whose(path: Path) -> str:
    if path != Path(WRITER) and any(path.is_relative_to(place) for place in WIRE):
        return "wire"
    return "model" if any(path.is_relative_to(place) for place in MODEL) else "storage"


def lines() -> dict[str, int]:
    """Return the lines of each room, and how many files they are."""
    files = [
        path
        for room in ROOMS
        for path in ([HOME / room] if room.endswith(".py") else sorted((HOME / room).glob("*.py")))
        if path.exists()
    ]
    counted = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    found = {room: sum(n for path, n in counted.items() if path.is_relative_to(HOME / room)) for room in ROOMS}
    return found | {"all": sum(counted.values()), "files": len(files)}


def example_walk(ue: Path) -> dict[str, int]:
    """Return what one `POST /examples` of one text goes through, after a first one."""
    from starlette.testclient import TestClient

    from knn_ue.serving import ServeOptions, create_app

    calls = Calls()
    # Threads of the server begin with this profiler; it counts only from the second request on.
    threading.setprofile(calls)
    app = create_app(ue, ServeOptions(device="cpu", watch_seconds=0))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        body = {"examples": [{"text": "a fine film", "label": "pos"}]}
        client.post("/examples", json=body).raise_for_status()
        calls.functions.clear()
        return calls.during(lambda: client.post("/examples", json=body).raise_for_status())


def adapt_walk(ue: Path, rows: Path) -> dict[str, int]:
    """Return what `knn-ue adapt` goes through."""

    def adapt() -> None:
        result = run("adapt", ue, "--labeled", rows, "--device", "cpu", "--force")
        if result.exit_code:
            sys.exit(result.output)

    adapt()  # imports are no part of the walk
    return Calls().during(adapt)


def adds(folder: Path, seconds: float = 5.0) -> dict[str, float]:
    """Return milliseconds of one add and adds a second in batches of 100, with the fsync of the disk beside them."""
    random = np.random.default_rng(0)
    vectors = random.normal(size=(2000, 384)).astype(np.float32)
    Datastore.build(vectors, np.zeros(2000, np.int64)).save(folder / "store")
    store = Datastore.load(folder / "store")
    file = os.open(folder / "synced", os.O_CREAT | os.O_WRONLY)
    times: dict[str, list[float]] = {"fsync": [], "add": [], "batch": []}

    def timed(name: str, work: Callable[[], object]) -> None:
        begun = time.perf_counter()
        work()
        times[name].append(1000 * (time.perf_counter() - begun))

    end = time.perf_counter() + seconds
    while time.perf_counter() < end:  # interleaved: whatever the machine does meets all of them
        timed("fsync", lambda: (os.pwrite(file, bytes(2048), 0), os.fsync(file)))
        timed("add", lambda: store.add(vectors[:1], [0], texts=["a text"]))
        timed("batch", lambda: store.add(vectors[:100], [0] * 100, texts=["a text"] * 100))
    os.close(file)
    medians = {name: statistics.median(found) for name, found in times.items()}
    return {
        "fsync ms": round(medians["fsync"], 2),
        "add ms": round(medians["add"], 2),
        "adds a second in batches of 100": round(100_000 / medians["batch"]),
    }


def main() -> None:
    """Measure everything once and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = save_tiny_model(folder / "model", family="bert", task=TEXT)
        for ue in ("served", "adapted"):
            fit(model, TEXT, index="exact").save(folder / ue)
        rows = write_rows(folder / "rows.jsonl", ROWS[TEXT](12, start=500))
        found: dict[str, Any] = {
            "lines": lines(),
            "POST /examples": example_walk(folder / "served"),
            "adapt": adapt_walk(folder / "adapted", rows),
            "adds": adds(folder),
        }
    if options.json:
        print(json.dumps(found))
        return
    for heading, values in found.items():
        print(f"{heading}: {', '.join(f'{name} {value}' for name, value in values.items())}")


if __name__ == "__main__":
    main()

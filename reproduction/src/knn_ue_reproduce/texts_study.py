"""The study of the verifier beside models that one can open: MiniLM fine-tuned on texts and pairs.

    python -m knn_ue_reproduce.texts_study --data DATA --work WORK --page docs/verifier_texts_results.md

`--data` is a folder laid out as `knn-ue reproduce` reads it. Models, outputs and cells (setup, seed) are kept in
`--work` and not made again. One thread, some minutes a model.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from knn_ue.data import Row, Task, read_rows
from knn_ue.data.splits import seeded_order
from knn_ue.demo.cache import load_outputs, save_outputs
from knn_ue.demo.minilm import model_folder
from knn_ue.training import TrainingOptions
from knn_ue.types import Outputs

SEEDS = (0, 1, 2)
_MOST = 2000  # rows of a test set


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What one model learns from and is judged on; `sets` are sources by name, the first one in domain."""

    name: str
    task: Task
    train: str
    validation: str
    n_train: int
    n_stopping: int
    n_validation: int
    sets: Mapping[str, Sequence[str]]
    epochs: int = 3


SETUPS = (
    Setup(
        name="sentiment",
        task="text-classification",
        train="sentiment/imdb/train.jsonl.gz",
        validation="sentiment/imdb/val.jsonl.gz",
        n_train=2000,
        n_stopping=400,
        n_validation=800,
        sets={
            "imdb": ("sentiment/imdb/test.jsonl.gz",),
            "yelp": ("sentiment/dynasent-yelp/test.jsonl.gz",),
            "dynasent-r2": ("sentiment/dynasent-r2/test.jsonl.gz", "sentiment/dynasent-r2/val.jsonl.gz"),
            "movies": ("vader:movies:test",),
            "amazon": ("vader:amazon",),
            "nyt": ("vader:nyt",),
            "tweets": ("vader:tweets",),
        },
    ),
    Setup(
        name="intent",
        task="text-classification",
        train="intent/clinc150/train.jsonl.gz",
        validation="intent/clinc150/val.jsonl.gz",
        n_train=3000,
        n_stopping=400,
        n_validation=800,
        sets={"clinc150": ("intent/clinc150/test.jsonl.gz",)},
        epochs=6,
    ),
    Setup(
        name="nli",
        task="text-pair",
        train="nli/mnli/train.jsonl.gz",
        validation="nli/mnli/val.jsonl.gz",
        n_train=6000,
        n_stopping=400,
        n_validation=800,
        sets={
            "mnli": ("nli/mnli/test.jsonl.gz",),
            "snli": ("nli/snli/test.jsonl.gz",),
            "anli": tuple(f"nli/anli/test_r{number}.jsonl.gz" for number in (1, 2, 3)),
        },
    ),
)


class Drawn:
    """The rows of a setup, the same for every seed of the model."""

    def __init__(self, setup: Setup, data: Path) -> None:
        self.setup, self._data = setup, data

    def part(self, name: str) -> list[Row]:
        """Return the rows of "train", "stopping", "validation" or a test set."""
        setup = self.setup
        if name == "train":
            return self._rows([setup.train], setup.n_train)
        if name in ("stopping", "validation"):
            rows = self._rows([setup.validation], setup.n_validation + setup.n_stopping)
            return rows[setup.n_validation :] if name == "stopping" else rows[: setup.n_validation]
        return self._rows(setup.sets[name], _MOST)

    def _rows(self, sources: Sequence[str], n_rows: int) -> list[Row]:
        rows: list[Row] = []
        for source in sources:
            place = source if ":" in source else str(self._data / source)
            rows += list(read_rows(place, self.setup.task))
        return [rows[number] for number in seeded_order(len(rows), seed=0)[:n_rows]]


def encoded(setup: Setup, data: Path, work: Path, seed: int, say: Callable[[str], None]) -> dict[str, Outputs]:
    """Return what the model of a seed says of every part, from `work` where it was made before."""
    drawn = Drawn(setup, data)
    found, reader = {}, None
    for part in ("train", "validation", *setup.sets):
        path = work / "outputs" / f"{setup.name}-{seed}-{part}"
        if not path.exists():
            reader = reader or _trained(setup, drawn, work, seed, say)
            save_outputs(path, reader.encode(drawn.part(part)))
            say(f"encoded {path.name}")
        found[part] = load_outputs(path)
    return found


def _trained(setup: Setup, drawn: Drawn, work: Path, seed: int, say: Callable[[str], None]):  # type: ignore[no-untyped-def]
    from dataclasses import replace

    from knn_ue.encoding.huggingface import HuggingFaceEncoder
    from knn_ue.training.finetune import finetune

    folder = work / "models" / f"{setup.name}-{seed}"
    if not folder.exists():
        say(f"training {folder.name}")
        finetune(
            drawn.part("train"),
            drawn.part("stopping"),
            task=setup.task,
            encoder=model_folder(),
            out=folder,
            options=replace(TrainingOptions.fast(seed=seed), epochs=setup.epochs),
            device="cpu",
        )
    return HuggingFaceEncoder.from_pretrained(folder, setup.task, device="cpu")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    given = parser.parse_args(arguments)

    def say(line: str) -> None:
        sys.stderr.write(f"{line}\n")

    for seed in SEEDS:
        for setup in SETUPS:
            encoded(setup, given.data, given.work, seed, say)


if __name__ == "__main__":
    main()

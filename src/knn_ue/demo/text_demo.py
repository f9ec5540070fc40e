"""The demo on real texts: one fine-tuned MiniLM, five methods, four domains, an explanation and a report."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from knn_ue.calibrators import Calibrator
from knn_ue.data import Row, Task, TextRow, cache_folder, read_rows
from knn_ue.demo.cache import key_of, key_of_folder, key_of_program, key_of_rows, load_outputs, save_outputs
from knn_ue.demo.folder import demo_folder
from knn_ue.demo.loop import Loop, loop_told, met_domains, told_sentences
from knn_ue.demo.minilm import check_installed, model_folder
from knn_ue.demo.text_report import written_report
from knn_ue.errors import StorageError
from knn_ue.evaluation import RAW, STYLES, TEST, Evaluation
from knn_ue.familiarity import Familiarity
from knn_ue.folder import head_of
from knn_ue.methods import make_calibrator
from knn_ue.pipeline.answers import of_rows
from knn_ue.training import TrainingOptions
from knn_ue.types import Outputs
from knn_ue.weighting import Explanation

if TYPE_CHECKING:
    from knn_ue.encoding.huggingface import HuggingFaceEncoder

# (what is being done, how much of it, of how much or None)
Progress = Callable[[str, int, int | None], None]

TASK: Task = "text-classification"
METHODS = ("temperature", "knn-ue-no-label", "knn-ue", "dac")  # the softmax is the model itself
SOURCES = {
    "train": "vader:movies:train",
    "validation": "vader:movies:validation",
    TEST: "vader:movies:test",
    "amazon": "vader:amazon",
    "nyt": "vader:nyt",
    "tweets": "vader:tweets",
}
OUT_OF_DOMAIN = ("amazon", "nyt", "tweets")
EXPLAINED = (
    "a moving, beautifully acted film",
    "not exactly a masterpiece, but I have sat through worse",
    "the battery died after two days and nobody answers my mails",
    "the committee postponed its vote on the budget until next month",
    "omg best. delay. ever. thanks a lot 🙄 #stuck",
)
_SHOWN = ("accuracy", "ece", "nll", "e_aurc")
_TEXTS = "explained texts"
_FOLDERS = ("ue", "cache", "report.html", "report.md", "report.json")
_UE_KEY = ".ue-key"
_LAST_STEPS = "fitting, adapting, evaluating"  # what progress calls the steps after encoding
_N_STRANGE = 3  # of the explained texts, the last
_MODEL_NAME = "all-MiniLM-L6-v2"


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much the demo does: training steps, sub-words per text, maximum rows per set, and bootstrap draws."""

    max_steps: int = 462  # two epochs
    max_length: int = 48
    max_rows: int | None = None
    n_bootstrap: int = 100


QUICK = Size(max_steps=20, max_rows=200, n_bootstrap=50)


@dataclass(frozen=True, kw_only=True)
class TextDemo:
    """Where the report and the UE folder are, what the report says, and how long each step took.

    `loop` says what it notices and what 50 labels do; `sizes` are the rows of each set;
    `seconds` those of each step, 0 for what came from the cache.
    """

    report: Path
    ue: Path
    evaluation: Evaluation
    loop: Loop
    verdicts: Sequence[str]
    explanations: Sequence[Explanation]
    sizes: Mapping[str, int]
    seconds: Mapping[str, float]

    def summary(self) -> list[list[str]]:
        """Return a heading, then a line for each set and method; the best of each set and metric ends in `*`."""
        lines = [["set", "method", *(STYLES[metric].heading for metric in _SHOWN)]]
        for name in self.sizes:
            table = self.evaluation.tables[name]
            best = {metric: self._best(name, metric) for metric in _SHOWN}
            for method in self.evaluation:
                cells = [STYLES[metric].show(table[method][metric]) for metric in _SHOWN]
                marked = [
                    cell + ("*" if cell == best[metric] else "") for metric, cell in zip(_SHOWN, cells, strict=True)
                ]
                lines.append([name, "softmax" if method == RAW else method, *marked])
        return lines

    def _best(self, name: str, metric: str) -> str | None:
        """Return the best value as printed, None where all methods look equal."""
        table = self.evaluation.tables[name]
        shown = [STYLES[metric].show(table[method][metric]) for method in self.evaluation]
        if len(set(shown)) == 1:
            return None
        return (max if STYLES[metric].higher_is_better else min)(shown, key=float)


class _Clock:
    """Remembers how long each step took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, step: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.seconds[step] = round(self.seconds.get(step, 0.0) + time.monotonic() - began, 1)


def run_text_demo(
    out: str | Path = "knn-ue-demo",
    *,
    size: Size | None = None,
    encoder: Path | None = None,
    progress: Progress | None = None,
) -> TextDemo:
    """Fine-tune, calibrate, evaluate, explain and report; write the report and a UE folder into `out`.

    The model and its outputs are kept in `out`/cache (or $KNN_UE_CACHE) under a key of everything that determines
    them, so that the next run takes seconds. `encoder` stands in for MiniLM. Same machine and versions: same numbers.
    """
    check_installed(needs_minilm=encoder is None)
    encoder = encoder or model_folder()
    size = size or Size()
    clock = _Clock()
    with demo_folder(out, _FOLDERS) as folder:
        with clock("read the texts"):
            rows = {name: _read(source, size) for name, source in SOURCES.items()}
        cache = cache_folder() / "demo" if environ.get("KNN_UE_CACHE") else folder / "cache"
        report = progress or _silent
        outputs, model = _outputs(rows, encoder, size, cache, clock, report)
        report(_LAST_STEPS, 0, 4)
        with clock("fit the methods"):
            calibrators = {name: make_calibrator(name, outputs["train"]).fit(outputs["validation"]) for name in METHODS}
            knn = calibrators["knn-ue"]
            familiarity = Familiarity(outputs["train"]).fit(outputs["validation"])
        report(_LAST_STEPS, 1, 4)
        with clock("save the UE folder"):
            _save_pipeline(folder, model, knn, outputs["validation"], familiarity)
        report(_LAST_STEPS, 2, 4)
        with clock("notice, ask, adapt"):
            met = met_domains(knn, {name: outputs[name] for name in (TEST, *OUT_OF_DOMAIN)}, familiarity)
            loop = loop_told(met, told_sentences(knn, outputs[_TEXTS], familiarity)[-_N_STRANGE:])
        report(_LAST_STEPS, 3, 4)
        with clock("evaluate and report"):
            context = {
                "command": "knn-ue demo --quick" if size == QUICK else "knn-ue demo",
                "model": f"{_MODEL_NAME}, {size.max_steps} training steps, texts cut at {size.max_length} sub-words",
                "data": ", ".join(f"{source} ({len(rows[name]):,})" for name, source in SOURCES.items()),
            }
            sets = {name: outputs[name] for name in (TEST, *OUT_OF_DOMAIN)}
            key = key_of(model.name, [key_of_rows(content) for content in rows.values()], asdict(size), context)
            found = written_report(
                folder,
                calibrators,
                sets,
                familiarity=familiarity,
                n_bootstrap=size.n_bootstrap,
                loop=loop,
                context=context,
                key=key,
            )
        return TextDemo(
            report=found.path,
            ue=folder / "ue",
            evaluation=found.evaluation,
            loop=loop,
            verdicts=found.verdicts,
            explanations=of_rows(knn.explain(outputs[_TEXTS], top=3), outputs[_TEXTS], familiarity),
            sizes={name: len(content) for name, content in sets.items()},
            seconds=clock.seconds,
        )


def _outputs(
    rows: Mapping[str, list[Row]], encoder: Path, size: Size, cache: Path, clock: _Clock, progress: Progress
) -> tuple[dict[str, Outputs], Path]:
    """Return the outputs of every set by the one model, from the cache where they are there."""
    options = replace(TrainingOptions.fast(max_steps=size.max_steps), max_length=size.max_length)
    trained_on = [key_of_rows(rows[name]) for name in ("train", "validation")]
    key = key_of(key_of_program("training", "encoding"), key_of_folder(encoder), asdict(options), trained_on)
    model = cache / f"model-{key}"
    sets: dict[str, list[Row]] = {**rows, _TEXTS: [TextRow(text) for text in EXPLAINED]}
    found: dict[str, Outputs] = {}
    loaded = None
    for name, content in sets.items():
        path = cache / f"outputs-{key_of(key, key_of_rows(content))}"
        if (outputs := _cached(path)) is None:
            if not model.exists():
                with clock("train"):
                    _train(rows, encoder, model, options, progress)
            with clock("encode"):
                loaded = loaded or _load_encoder(model)
                outputs = loaded.encode(content, progress=_stage(progress, f"encoding {name}"))
                save_outputs(path, outputs)
        found[name] = outputs
    return found, model


def _train(
    rows: Mapping[str, list[Row]], encoder: Path, out: Path, options: TrainingOptions, progress: Progress
) -> None:
    from knn_ue.training.finetune import finetune

    finetune(
        rows["train"],
        rows["validation"],
        task=TASK,
        encoder=encoder,
        out=out,
        options=options,
        on_progress=lambda now: progress("training", now.step, now.total_steps),
    )


def _load_encoder(model: Path) -> "HuggingFaceEncoder":
    from knn_ue.encoding.huggingface import HuggingFaceEncoder

    return HuggingFaceEncoder.from_pretrained(model, TASK, all_layers=True, views=True)


def _save_pipeline(folder: Path, model: Path, knn: Calibrator, validation: Outputs, familiarity: Familiarity) -> None:
    """Write what `knn-ue predict` and `explain` need, unless it is there already."""
    key = key_of(model.name, key_of_program(), validation.logits.tolist())
    noted = folder / _UE_KEY
    target = folder / "ue"
    if target.exists() and noted.exists() and noted.read_text() == f"{key} {head_of(target).generation}":
        return
    from knn_ue.pipeline import Fitted, UncertaintyPipeline
    from knn_ue.pipeline.fitted import drift_quantiles

    validation = replace(validation, layers=None, views=None)
    pipe = UncertaintyPipeline.from_pretrained(model, TASK)
    pipe.fitted_ = Fitted(
        method="knn-ue",
        calibrator=knn,
        validation=validation,
        held_out=np.zeros(len(validation), dtype=bool),
        decisions=(),
        drift=drift_quantiles(knn, validation),
        familiarity=familiarity,
    )
    pipe.save(target)
    noted.write_text(f"{key} {head_of(target).generation}")


def _read(source: str, size: Size) -> list[Row]:
    rows = list(read_rows(source, TASK))
    step = 1 if size.max_rows is None else -(-len(rows) // size.max_rows)
    return rows[::step]  # spread over the file, whose first half is of one class


def _cached(path: Path) -> Outputs | None:
    """Return the outputs at `path`; damaged ones are computed again."""
    if not path.exists():
        return None
    try:
        return load_outputs(path)
    except StorageError:
        return None


def _stage(progress: Progress, name: str) -> Callable[[int, int | None], None]:
    return lambda done, total: progress(name, done, total)


def _silent(_step: str, _done: int, _total: int | None) -> None:
    return

"""The one way to fine-tune: rows in, a plain Hugging Face model folder out."""

import platform
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from knn_ue.encoding.huggingface import HuggingFaceEncoder
from knn_ue.encoding.inputs import class_numbers, read_examples
from knn_ue.encoding.inspection import note_training, save_model, saved_names
from knn_ue.encoding.loading import find_device, load_config, load_model, load_tokenizer, quiet, share_padding
from knn_ue.encoding.options import EncodingOptions
from knn_ue.errors import InvalidInputError, require
from knn_ue.tasks import task_name
from knn_ue.training.folder import disk_errors, new_model_folder, write_record
from knn_ue.training.labels import check_validation, label_names
from knn_ue.training.method import PLAIN, TrainingMethod
from knn_ue.training.options import TrainingOptions
from knn_ue.training.progress import TrainingResult
from knn_ue.training.trainer import ProgressReport, seeded, train_model

_LIBRARIES = ("knn-ue", "torch", "transformers", "tokenizers", "accelerate", "numpy")


def finetune(
    rows: Iterable[object],
    validation_rows: Iterable[object],
    *,
    task: str,
    encoder: str | Path,
    out: str | Path,
    options: TrainingOptions | None = None,
    method: TrainingMethod = PLAIN,
    device: str = "auto",
    overwrite: bool = False,
    on_progress: ProgressReport | None = None,
    trust_remote_code: bool = False,
    frozen_states: Path | None = None,
) -> TrainingResult:
    """Fine-tune the model `encoder` (a folder or hub name) on labeled `rows` and save it in the folder `out`.

    The validation score, accuracy or the F1 of entities, decides when to stop and which weights are kept.
    `on_progress` is called after every step and every epoch. Same seed, data and machine: same weights on a CPU.
    With `reuse_frozen`, the folder `frozen_states` keeps what the frozen layers say of the rows for the next training
    of the same encoder on the same rows, with another seed or method.
    If anything fails, or Ctrl-C strikes, `out` is as it was.
    """
    for module in ("torch", "transformers", "accelerate"):
        require(module, extra="hf", purpose="finetune")
    options = options or TrainingOptions()
    task = task_name(task)
    examples, validation = list(read_examples(rows, task)), list(read_examples(validation_rows, task))
    place = find_device(device)
    names = label_names(examples, task)
    saved = saved_names(load_config(encoder, trust_remote_code=trust_remote_code))
    names = saved if set(saved) == set(names) else names  # then the head that is there still fits
    check_validation(validation, names)
    if task not in method.tasks:
        raise InvalidInputError(f"{method.name} is for {' and '.join(method.tasks)} only, got task {task!r}")
    counts = np.bincount(class_numbers(examples, names), minlength=len(names))
    report = on_progress or (lambda _progress: None)
    candidates = method.candidates()
    best: _Trained | None = None
    tried: list[dict[str, Any]] = []
    with new_model_folder(out, overwrite=overwrite) as draft, quiet():
        tokenizer = load_tokenizer(encoder, task, trust_remote_code=trust_remote_code)
        for number, candidate in enumerate(candidates, start=1):
            with seeded(options.seed):
                model, _ = load_model(encoder, task, class_names=names, trust_remote_code=trust_remote_code)
                candidate.prepare(model, class_counts=counts)
                share_padding(model, tokenizer)
                note_training(model, candidate.name, task)
                encoding = EncodingOptions(max_length=options.max_length)
                reader = HuggingFaceEncoder(model.to(place), tokenizer, task, options=encoding)
                told = _tell_candidate(report, number, len(candidates))
                result = train_model(
                    reader,
                    examples,
                    validation,
                    options=options,
                    method=candidate,
                    folder=draft,
                    report=told,
                    frozen_states=frozen_states,
                )
            tried.append({**asdict(candidate), result.metric: result.best})
            if best is None or result.best > best.result.best:  # the earlier one of equals stays
                best = _Trained(candidate, reader, result)
        assert best is not None
        result = replace(best.result, candidates=tuple(tried))
        record = {"method": method.name, "method_options": asdict(best.method), "task": task, "encoder": str(encoder)}
        record |= {"options": asdict(options), "result": asdict(result), "versions": _versions()}
        with disk_errors(Path(out)):
            _save(draft, best.encoder)
            write_record(draft, record)
    return result


@dataclass(frozen=True, eq=False)
class _Trained:
    method: TrainingMethod
    encoder: HuggingFaceEncoder
    result: TrainingResult


def _tell_candidate(report: ProgressReport, number: int, n_candidates: int) -> ProgressReport:
    return lambda progress: report(replace(progress, candidate=number, n_candidates=n_candidates))


def _save(folder: Path, encoder: HuggingFaceEncoder) -> None:
    save_model(folder, encoder.model)
    # Whoever loads the folder, with us or with plain transformers, cuts texts where they were cut in training.
    encoder.tokenizer.model_max_length = encoder.options.max_length
    encoder.tokenizer.backend_tokenizer.no_truncation()
    encoder.tokenizer.save_pretrained(folder)


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _LIBRARIES:
        with suppress(PackageNotFoundError):  # a source tree that was never installed has no version
            found[name] = version(name)
    return found

"""A fitted pipeline <-> one UE folder: options, validation outputs, calibrator and model, written in one step.

meta.json                       task, class names, method, what the encoder says of itself, decisions, domains
arrays.<generation>.safetensors validation outputs, held-out mask, drift percentiles, familiarity, scores of the domains
calibrator.<generation>/        what the calibrator's own `save` writes, datastores inside
model.<generation>/             the encoder's files; absent where it needs none, as a model on the hub
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from knn_ue.decisions.registry import decision_from_plain, decision_to_plain
from knn_ue.encoding.contract import Encoder, EncoderPart
from knn_ue.encoding.registry import ENCODERS, GROUP
from knn_ue.errors import StorageError
from knn_ue.familiarity import Familiarity
from knn_ue.methods import load_calibrator
from knn_ue.pipeline.domains import StoredDomain, domains_to_plain, open_domains
from knn_ue.pipeline.fitted import N_QUANTILES, DriftQuantiles, Fitted, check_consistent
from knn_ue.storage import (
    FolderContent,
    SubfolderWriter,
    kind_of,
    parse_folder,
    read_folder,
    write_folder,
)
from knn_ue.storage.schema import MAX_CLASSES, ArrayRule, Within, as_written, check_arrays, read_plain
from knn_ue.storage.tensors import Arrays, outputs_from_arrays, outputs_to_arrays
from knn_ue.tasks import Task
from knn_ue.types import Outputs

KIND = "pipeline"
_FAMILIARITY = "familiarity."
_COPIES = "copies."


@dataclass(frozen=True, kw_only=True)
class _StoredOptions:
    """What the meta.json of a UE folder holds; `encoder` and each of the `decisions` are read by their own kind."""

    task: Task
    class_names: Annotated[tuple[str, ...], Within(2, MAX_CLASSES)]
    method: str
    encoder: dict[str, Any]
    decisions: tuple[dict[str, Any], ...]
    false_alarm_rate: Annotated[float, Within(0, 1)] | None
    domains: tuple[StoredDomain, ...] = ()


# Beside the validation outputs, which are checked as all outputs are.
_STORED_ARRAYS = {
    "held_out": ArrayRule(dtype=np.bool_, shape=("rows",)),
    "drift_distance": ArrayRule(
        dtype=np.float64, shape=(N_QUANTILES,), within=Within(0, np.inf), rising=True, optional=True
    ),
    "drift_agreement": ArrayRule(
        dtype=np.float64, shape=(N_QUANTILES,), within=Within(0, 1), rising=True, optional=True
    ),
}


def save_pipeline(
    path: str | Path,
    encoder: Encoder,
    fitted: Fitted,
    calibrator_folder: Path | None,
) -> None:
    """Write everything to the folder `path`; what already lives in it, loaded and unchanged, stays where it is."""
    target = Path(path)
    folders: dict[str, SubfolderWriter | Path] = {"calibrator": fitted.calibrator.save}
    part = encoder.to_part()
    if part.write is not None:
        folders["model"] = part.write
    folders |= {
        name: folder
        for name, folder in (("calibrator", calibrator_folder), ("model", part.folder))
        if folder is not None and folder.exists() and folder.resolve().parent == target.resolve()
    }
    options = {
        "task": part.task,
        "encoder": {"kind": part.kind, **part.plain},
        "class_names": list(part.class_names),
    }
    own, arrays = _to_plain(fitted)
    write_folder(target, kind=KIND, options=options | own, arrays=arrays, folders=folders)


def replace_fitted(
    path: str | Path, fitted: Fitted, *, precondition: Callable[[], None], same_calibrator: bool = False
) -> None:
    """Write another `fitted` to the UE folder `path`, whose model stays as it is and need not be in memory.

    With `same_calibrator` its calibrator stays too, stores and all. `precondition` may raise; it is called when no
    other writer can come between.
    """
    stored = read_folder(path, kind=KIND)
    folders: dict[str, SubfolderWriter | Path] = {**stored.folders}
    if not same_calibrator:
        folders["calibrator"] = fitted.calibrator.save
    own, arrays = _to_plain(fitted)
    write_folder(
        path, kind=KIND, options=stored.options | own, arrays=arrays, folders=folders, precondition=precondition
    )


def read_fitted(path: str | Path) -> Fitted:
    """Open a UE folder without its model."""
    return parse_folder(path, lambda stored: _read(stored)[1], kind=KIND)


def is_ue_folder(path: str | Path) -> bool:
    """Return whether `path` is a UE folder; what it holds is not verified."""
    try:
        return kind_of(path) == KIND
    except StorageError:
        return False


def load_pipeline(path: str | Path, *, device: str, trust_remote_code: bool) -> tuple[Encoder, Fitted, Path]:
    """Open a UE folder; the last item returned is the folder of its calibrator."""
    return parse_folder(
        path, lambda stored: _parse(stored, device=device, trust_remote_code=trust_remote_code), kind=KIND
    )


def load_fitted(path: str | Path, encoder: Encoder) -> tuple[Fitted, Path] | None:
    """Open a UE folder for an encoder that is in memory already; None where the folder holds another one."""
    return parse_folder(path, lambda stored: _parse_fitted(stored, encoder), kind=KIND)


def _parse(stored: FolderContent, *, device: str, trust_remote_code: bool) -> tuple[Encoder, Fitted, Path]:
    part, fitted = _read(stored)
    for entry in entry_points(group=GROUP, name=part.kind):
        ENCODERS.setdefault(part.kind, entry.load())
    if part.kind not in ENCODERS:
        raise StorageError(
            f"{part.where} was made with an encoder of the kind {part.kind!r}, known are {', '.join(ENCODERS)}: import "
            "the module that registers it, or upgrade knn-ue"
        )
    encoder = ENCODERS[part.kind].from_part(part, device=device, trust_remote_code=trust_remote_code)
    if encoder.class_names != part.class_names:
        raise StorageError(f"{stored.path} was fitted with a model of other classes: refit")
    if _widths(encoder.encode([])) != _widths(fitted.validation):
        raise StorageError(f"{stored.path} was fitted with a model whose features are others: refit")
    return encoder, fitted, stored.folders["calibrator"]


def _parse_fitted(stored: FolderContent, encoder: Encoder) -> tuple[Fitted, Path] | None:
    part, fitted = _read(stored)
    return (fitted, stored.folders["calibrator"]) if part.is_same(encoder.to_part()) else None


def _to_plain(fitted: Fitted) -> tuple[dict[str, Any], Arrays]:
    """Return what meta.json and the arrays hold of `fitted`."""
    arrays = outputs_to_arrays(fitted.validation) | {"held_out": fitted.held_out}
    if fitted.drift is not None:
        arrays |= {"drift_distance": fitted.drift.distance, "drift_agreement": fitted.drift.agreement}
    if fitted.familiarity is not None:
        arrays |= {f"{_FAMILIARITY}{name}": values for name, values in fitted.familiarity.to_arrays().items()}
    if fitted.copies is not None:
        arrays |= {f"{_COPIES}{name}": array for name, array in outputs_to_arrays(fitted.copies).items()}
    domains: list[dict[str, Any]] = []
    if fitted.domains:
        domains, scores = domains_to_plain(fitted.domains)
        arrays |= scores
    options = {
        "method": fitted.method,
        "decisions": [decision_to_plain(decision) for decision in fitted.decisions],
        "domains": domains,
        "false_alarm_rate": None if fitted.familiarity is None else fitted.familiarity.false_alarm_rate,
    }
    return options, arrays


def _read(stored: FolderContent) -> tuple[EncoderPart, Fitted]:
    """Return what a folder says of its encoder, and what was fitted; all of it is checked."""
    with as_written(stored.path, KIND):
        options = read_plain(_StoredOptions, stored.options)
        kind = options.encoder.pop("kind", None)
        if not isinstance(kind, str):
            raise ValueError("encoder.kind is missing")
        part = EncoderPart(
            kind=kind,
            task=options.task,
            class_names=options.class_names,
            plain=options.encoder,
            folder=stored.folders["model"].resolve() if "model" in stored.folders else None,
            where=str(stored.path),
        )
        arrays, names = stored.arrays, options.class_names
        validation = outputs_from_arrays(arrays, names)
        check_arrays(arrays, _STORED_ARRAYS, {"rows": len(validation)})
        drift = None
        if "drift_distance" in arrays:
            drift = DriftQuantiles(distance=arrays["drift_distance"], agreement=arrays["drift_agreement"])
        rate, copies = options.false_alarm_rate, _named(arrays, _COPIES)
        fitted = Fitted(
            method=options.method,
            calibrator=load_calibrator(stored.folders["calibrator"]),
            validation=validation,
            held_out=arrays["held_out"],
            decisions=tuple(decision_from_plain(plain) for plain in options.decisions),
            drift=drift,
            domains=open_domains(options.domains, arrays, validation.n_classes) if options.domains else {},
            familiarity=None
            if rate is None
            else Familiarity.from_arrays(_named(arrays, _FAMILIARITY), false_alarm_rate=rate),
            copies=outputs_from_arrays(copies, names) if copies else None,
        )
        check_consistent(fitted)
        return part, fitted


def _named(arrays: Arrays, prefix: str) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _widths(outputs: Outputs) -> list[int]:
    columns = () if outputs.features is None else (outputs.features,)
    return [array.shape[1] for array in (*columns, *(outputs.layers or ()))]

"""A fitted pipeline <-> one UE folder: options, validation outputs, calibrator and model, written in one step.

meta.json                       task, method, encoder options, class names, model name, decisions
arrays.<generation>.safetensors validation outputs, held-out mask, drift percentiles
calibrator.<generation>/        what the calibrator's own `save` writes, datastores inside
model.<generation>/             the model's files (`model_files`); absent where the model is a name on the hub
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from knn_ue.decisions import registry
from knn_ue.encoding import EncodingOptions
from knn_ue.encoding.huggingface import HuggingFaceEncoder
from knn_ue.errors import StorageError
from knn_ue.methods import load_calibrator
from knn_ue.pipeline.fitted import DriftQuantiles, Fitted
from knn_ue.pipeline.model_files import ModelSource, copy_model, open_model
from knn_ue.storage import (
    FolderContent,
    Parsed,
    SubfolderWriter,
    parse_folder,
    read_folder,
    write_folder,
)
from knn_ue.storage.texts import PackedTexts
from knn_ue.types import Outputs

KIND = "pipeline"
_LAYER = "layers."

Arrays = dict[str, npt.NDArray[Any]]


def save_pipeline(
    path: str | Path,
    encoder: HuggingFaceEncoder,
    source: ModelSource,
    fitted: Fitted,
    calibrator_folder: Path | None,
) -> None:
    """Write everything to the folder `path`; what already lives in it, loaded and unchanged, stays where it is."""
    target = Path(path)
    folders: dict[str, SubfolderWriter | Path] = {"calibrator": fitted.calibrator.save}
    if calibrator_folder is not None and _is_inside(calibrator_folder, target):
        folders["calibrator"] = calibrator_folder
    if source.folder is not None:
        inside = _is_inside(source.folder.parent, target)
        folders["model"] = source.folder.parent if inside else partial(copy_model, source)
    options = {
        "task": encoder.task,
        "encoder": asdict(encoder.options),
        "class_names": list(encoder.class_names),
        "model": {"name": source.name, "commit": source.commit},
    }
    write_folder(target, kind=KIND, options=options | _to_options(fitted), arrays=_to_arrays(fitted), folders=folders)


def replace_fitted(path: str | Path, fitted: Fitted, *, precondition: Callable[[], None]) -> None:
    """Write another `fitted` to the UE folder `path`, whose model stays as it is and need not be in memory.

    `precondition` may raise; it is called when no other writer can come between.
    """
    stored = read_folder(path, kind=KIND)
    folders: dict[str, SubfolderWriter | Path] = {**stored.folders, "calibrator": fitted.calibrator.save}
    write_folder(
        path,
        kind=KIND,
        options=stored.options | _to_options(fitted),
        arrays=_to_arrays(fitted),
        folders=folders,
        precondition=precondition,
    )


def read_fitted(path: str | Path) -> Fitted:
    """Open a UE folder without its model."""
    return parse_folder(path, lambda stored: _checked(stored, lambda: _from_stored(stored)), kind=KIND)


def load_pipeline(
    path: str | Path, *, device: str, trust_remote_code: bool
) -> tuple[HuggingFaceEncoder, ModelSource, Fitted, Path]:
    """Open a UE folder; the last item returned is the folder of its calibrator."""
    return parse_folder(
        path, lambda stored: _parse(stored, device=device, trust_remote_code=trust_remote_code), kind=KIND
    )


def load_fitted(path: str | Path, encoder: HuggingFaceEncoder, source: ModelSource) -> tuple[Fitted, Path] | None:
    """Open a UE folder for a model that is in memory already; None where the folder holds another model."""
    return parse_folder(path, lambda stored: _parse_fitted(stored, encoder, source), kind=KIND)


def load_encoder(path: str | Path, task: Any, **options: Any) -> tuple[HuggingFaceEncoder, ModelSource]:
    """Load the model at `path`, a folder or a name on the hub, and record which one it was."""
    source = ModelSource.of(path)
    encoder = HuggingFaceEncoder.from_pretrained(source.folder or path, task, **options)
    if source.name is not None:
        source = ModelSource(name=source.name, commit=getattr(encoder.model.config, "_commit_hash", None))
    return encoder, source


def _parse(
    stored: FolderContent, *, device: str, trust_remote_code: bool
) -> tuple[HuggingFaceEncoder, ModelSource, Fitted, Path]:
    options = _checked(stored, lambda: {key: stored.options[key] for key in _KEYS})
    encoding = _checked(stored, lambda: EncodingOptions(**options["encoder"]))
    fitted = _checked(stored, lambda: _from_stored(stored))
    model: str | Path | None = options["model"]["name"]
    if "model" in stored.folders:
        model = open_model(stored.folders["model"]).folder
    if model is None:
        raise StorageError(f"{stored.path} names no model: restore it from a copy")
    encoder, source = load_encoder(
        model, options["task"], device=device, trust_remote_code=trust_remote_code, **asdict(encoding)
    )
    if list(encoder.class_names) != options["class_names"]:
        raise StorageError(f"{stored.path} was fitted with a model of other classes: fit again")
    commit = options["model"]["commit"]
    if None not in (commit, source.commit) and commit != source.commit:
        raise StorageError(
            f"{stored.path} was fitted with {source.name} at {commit}, which is now at {source.commit}: fit again, "
            "or download the model to a folder and fit with that"
        )
    return encoder, source, fitted, stored.folders["calibrator"]


def _parse_fitted(
    stored: FolderContent, encoder: HuggingFaceEncoder, source: ModelSource
) -> tuple[Fitted, Path] | None:
    options = _checked(stored, lambda: {key: stored.options[key] for key in _KEYS})
    # The name of a model's folder is never given again, so the same name holds the same model.
    folder = stored.folders["model"].resolve() if "model" in stored.folders else None
    here = None if source.folder is None else source.folder.parent
    named = {"name": source.name, "commit": source.commit}
    if (folder, options["task"], options["class_names"]) != (here, encoder.task, list(encoder.class_names)):
        return None
    if options["encoder"] != asdict(encoder.options) or (folder is None and options["model"] != named):
        return None
    return _checked(stored, lambda: _from_stored(stored)), stored.folders["calibrator"]


_KEYS = ("task", "method", "encoder", "class_names", "model", "decisions")


def _checked(stored: FolderContent, read: Callable[[], Parsed]) -> Parsed:
    try:
        return read()
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError(
            f"{stored.path} does not hold a pipeline as we write it ({error}): restore it from a copy"
        ) from None


def _to_options(fitted: Fitted) -> dict[str, Any]:
    return {"method": fitted.method, "decisions": registry.to_plain(fitted.decisions)}


def _to_arrays(fitted: Fitted) -> Arrays:
    validation = fitted.validation
    arrays: Arrays = {"logits": validation.logits, "held_out": fitted.held_out}
    for name in ("features", "labels", "groups"):
        if (values := getattr(validation, name)) is not None:
            arrays[name] = values
    for number, layer in enumerate(validation.layers or ()):
        arrays[f"{_LAYER}{number}"] = layer
    if validation.texts is not None:
        arrays |= PackedTexts.pack(validation.texts).to_arrays()
    if fitted.drift is not None:
        arrays |= {"drift_distance": fitted.drift.distance, "drift_agreement": fitted.drift.agreement}
    return arrays


def _from_stored(stored: FolderContent) -> Fitted:
    arrays, options = stored.arrays, stored.options
    drift = None
    if "drift_distance" in arrays:
        drift = DriftQuantiles(distance=arrays["drift_distance"], agreement=arrays["drift_agreement"])
    held_out = arrays["held_out"]
    validation = _validation(arrays, options["class_names"])
    if held_out.dtype != np.bool_ or held_out.shape != (len(validation),):
        raise ValueError("held_out does not go with the validation rows")
    return Fitted(
        method=str(options["method"]),
        calibrator=load_calibrator(stored.folders["calibrator"]),
        validation=validation,
        held_out=held_out,
        decisions=registry.from_plain(options["decisions"]),
        drift=drift,
    )


def _validation(arrays: Mapping[str, npt.NDArray[Any]], class_names: list[str]) -> Outputs:
    n_layers = sum(name.startswith(_LAYER) for name in arrays)
    texts = None
    if "text_ends" in arrays:
        packed = PackedTexts.from_arrays(dict(arrays))
        texts = [packed[row] or "" for row in range(len(packed))]
    return Outputs(
        logits=arrays["logits"],
        features=arrays.get("features"),
        labels=arrays.get("labels"),
        groups=arrays.get("groups"),
        layers=[arrays[f"{_LAYER}{number}"] for number in range(n_layers)] or None,
        class_names=class_names,
        texts=texts,
    )


def _is_inside(folder: Path, target: Path) -> bool:
    return folder.exists() and folder.resolve().parent == target.resolve()

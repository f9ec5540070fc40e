"""A fitted pipeline <-> one UE folder: options, validation outputs, calibrator and model, written in one step.

meta.json                       task, method, encoder options, class names, model name, threshold
arrays.<generation>.safetensors validation outputs, held-out mask, drift percentiles
calibrator.<generation>/        what the calibrator's own `save` writes, datastores inside
model.<generation>/             the model's files (`model_files`); absent where the model is a name on the hub
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from knn_ue.calibrators import LogitScaling
from knn_ue.decisions.risk import RiskThreshold
from knn_ue.encoding import EncodingOptions
from knn_ue.encoding.huggingface import HuggingFaceEncoder
from knn_ue.errors import StorageError
from knn_ue.methods import load_calibrator
from knn_ue.pipeline.fitted import DriftQuantiles, Fitted, stores_of
from knn_ue.pipeline.model_files import ModelSource, copy_model, open_model
from knn_ue.storage import (
    FolderContent,
    Parsed,
    SubfolderWriter,
    generation_of,
    identity_of,
    parse_folder,
    storage_errors,
    write_folder,
)
from knn_ue.storage.locks import locked
from knn_ue.storage.outputs import Arrays, outputs_from_arrays, outputs_to_arrays

KIND = "pipeline"


def save_pipeline(
    path: str | Path,
    encoder: HuggingFaceEncoder,
    source: ModelSource,
    fitted: Fitted,
    calibrator_folder: Path | None,
    *,
    precondition: Callable[[], None] | None = None,
) -> None:
    """Write everything to the folder `path`; what already lives in it, loaded and unchanged, stays where it is.

    `precondition` may raise; it is called when no other writer can come between.
    """
    target = Path(path)
    folders: dict[str, SubfolderWriter | Path] = {"calibrator": partial(_save_calibrator, fitted.calibrator)}
    if calibrator_folder is not None and _is_inside(calibrator_folder, target):
        folders["calibrator"] = calibrator_folder
    if source.folder is not None:
        inside = _is_inside(source.folder.parent, target)
        folders["model"] = source.folder.parent if inside else partial(copy_model, source)
    options = {
        "task": encoder.task,
        "method": fitted.method,
        "encoder": asdict(encoder.options),
        "class_names": list(encoder.class_names),
        "model": {"name": source.name, "commit": source.commit},
        "threshold": None if fitted.threshold is None else asdict(fitted.threshold),
    }
    write_folder(
        target, kind=KIND, options=options, arrays=_to_arrays(fitted), folders=folders, precondition=precondition
    )


def save_unless_changed(
    path: str | Path,
    encoder: HuggingFaceEncoder,
    source: ModelSource,
    fitted: Fitted,
    *,
    before: Fitted,
    generation: str,
) -> None:
    """Write what was made from `before`, as loaded at `generation`; raise where another process changed the folder.

    Until the new folder is committed nobody else may write to the datastores it replaces: an example acknowledged
    between the check and the commit would be lost.
    """
    stores = stores_of(before.calibrator)

    def check_unchanged() -> None:
        if generation_of(path) != generation:
            raise StorageError(f"{path} was changed by another process meanwhile: nothing was changed, try again")
        for store in stores:
            store.check_unchanged()

    with ExitStack() as stack:
        with storage_errors(f"{path} was changed by another process meanwhile", "nothing was changed, try again"):
            # Always the whole before its parts: two writers with one of them each would wait for ever.
            for folder in (Path(path), *sorted({store.path for store in stores if store.path is not None})):
                stack.enter_context(locked(folder))
        save_pipeline(path, encoder, source, fitted, None, precondition=check_unchanged)


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


_KEYS = ("task", "method", "encoder", "class_names", "model", "threshold")


def _checked(stored: FolderContent, read: Callable[[], Parsed]) -> Parsed:
    try:
        return read()
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError(
            f"{stored.path} does not hold a pipeline as we write it ({error}): restore it from a copy"
        ) from None


def _to_arrays(fitted: Fitted) -> Arrays:
    arrays = outputs_to_arrays(fitted.validation) | {"held_out": fitted.held_out}
    if fitted.drift is not None:
        arrays |= {"drift_distance": fitted.drift.distance, "drift_agreement": fitted.drift.agreement}
    return arrays


def _from_stored(stored: FolderContent) -> Fitted:
    arrays, options = stored.arrays, stored.options
    threshold = options["threshold"]
    drift = None
    if "drift_distance" in arrays:
        drift = DriftQuantiles(distance=arrays["drift_distance"], agreement=arrays["drift_agreement"])
    held_out = arrays["held_out"]
    validation = outputs_from_arrays(arrays, options["class_names"])
    if held_out.dtype != np.bool_ or held_out.shape != (len(validation),):
        raise ValueError("held_out does not go with the validation rows")
    return Fitted(
        method=str(options["method"]),
        calibrator=load_calibrator(stored.folders["calibrator"]),
        validation=validation,
        held_out=held_out,
        threshold=None if threshold is None else RiskThreshold(**threshold),
        drift=drift,
    )


def _save_calibrator(calibrator: LogitScaling, target: Path) -> str:
    calibrator.save(target)
    return identity_of(target)


def _is_inside(folder: Path, target: Path) -> bool:
    return folder.exists() and folder.resolve().parent == target.resolve()

"""A fitted pipeline <-> one UE folder: what was fitted in its immutable part, whatever changes later in its database.

pipeline                  task, class names, method; validation outputs, held-out mask
pipeline/encoder          what the encoder says of itself, and its model, where it is not one on the hub
pipeline/calibrator       parameters; its stores inside
pipeline/decisions, drift, familiarity, copies
domain/NAME               a domain: never fitted, always in the database
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
from annotated_types import Interval, Len

from knn_ue.arrays import MAX_CLASSES
from knn_ue.calibrators.contract import Calibrator, Stores
from knn_ue.decisions import Decision
from knn_ue.decisions.registry import decision_from_plain, decision_to_plain
from knn_ue.encoding.contract import Encoder, EncoderPart
from knn_ue.encoding.registry import ENCODERS, GROUP
from knn_ue.errors import StaleFolderError, StorageError
from knn_ue.familiarity import Familiarity
from knn_ue.folder import (
    ArrayRule,
    Head,
    Live,
    Part,
    as_written,
    check_arrays,
    from_plain,
    kind_of,
    open_as,
    replace_fitted,
    stored_part,
    to_plain,
    write_folder,
)
from knn_ue.folder.tensors import outputs_from_arrays, outputs_to_arrays
from knn_ue.methods import calibrator_from_part
from knn_ue.pipeline.domains import domain_from_part, domain_to_part
from knn_ue.pipeline.fitted import N_QUANTILES, Domain, DriftQuantiles, Fitted, check_consistent
from knn_ue.pipeline.fitting import refit
from knn_ue.stores import IndexOptions
from knn_ue.tasks import Task
from knn_ue.tuning import reindexed
from knn_ue.verifying.topic import TOPIC, TopicSpace

KIND = "pipeline"
_DOMAIN = "domain/"
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class _State:
    """What a UE folder holds beside its parts."""

    task: Task
    class_names: Annotated[tuple[str, ...], Len(2, MAX_CLASSES)]
    method: str


@dataclass(frozen=True, kw_only=True)
class _Familiarity:
    false_alarm_rate: Annotated[float, Interval(ge=0, le=1)]


@dataclass(frozen=True, kw_only=True)
class _Decisions:
    """Each is read by its own kind."""

    decisions: tuple[dict[str, Any], ...]


_HELD_OUT = {"held_out": ArrayRule(dtype=np.bool_, shape=("rows",))}
_DRIFT = {
    "distance": ArrayRule(dtype=np.float64, shape=(N_QUANTILES,), least=0, rising=True),
    "agreement": ArrayRule(dtype=np.float64, shape=(N_QUANTILES,), least=0, most=1, rising=True),
}


class OpenedFolder:
    """A UE folder that is open: what it holds, `fitted` without its model, and the way to change it for good."""

    def __init__(self, root: Part) -> None:
        assert root.live is not None
        self.root = root
        self.live: Live = root.live
        self._parts = self.live.parts
        with as_written(self.path, KIND):
            self.encoder_part, self.fitted = _read(root)

    @classmethod
    def open(cls, path: str | Path) -> "OpenedFolder":
        """Open a UE folder after verifying its files."""
        return open_as(path, cls, kind=KIND)

    @property
    def path(self) -> Path:
        """The folder."""
        return self.live.path

    def refresh(self) -> bool:
        """Take over what other processes did; return whether something was fitted again.

        Examples that were added or removed are in the stores without that. `StaleFolderError` where the folder was
        saved, compacted or tuned: it must be opened again.
        """
        self.live.refresh()
        return self._catch_up()

    def edit(self, change: Callable[[Fitted], tuple[Fitted, Result]]) -> Result:
        """Let `change` turn what the folder holds now into what it shall hold, and return its result.

        Other writers wait meanwhile. All of it lasts once this returns, or an error leaves the folder as it was.
        """
        with self.live.change():
            self._catch_up()
            changed, result = change(self.fitted)
            moved = _stores_differ(changed.calibrator, self.fitted.calibrator)
            if changed is not self.fitted:
                self._write(changed, moved=moved)
        if moved:
            max_wait = self.live.max_wait
            open_as(self.path, self.__init__, kind=KIND)  # type: ignore[misc]
            self.live.max_wait = max_wait
        else:
            self.fitted, self._parts = changed, self.live.parts
        return result

    def _write(self, changed: Fitted, *, moved: bool) -> None:
        live, now = self.live, self.fitted
        if moved:
            kept = {name: part for name, part in self.root.parts.items() if name == "encoder"}
            replace_fitted(live, _to_part(changed, replace(self.root, parts=kept)))
        else:
            if changed.calibrator is not now.calibrator:
                live.put("calibrator", *changed.calibrator.to_state())
            if changed.decisions is not now.decisions:
                live.put("decisions", *_decisions_to_part(changed.decisions))
            if changed.drift is not now.drift and changed.drift is not None:
                live.put("drift", {}, _drift_arrays(changed.drift))
        for name in {**now.domains, **changed.domains}:
            if (domain := changed.domains.get(name)) is None:
                live.put(f"{_DOMAIN}{name}", None)
            elif domain is not now.domains.get(name):
                live.put(f"{_DOMAIN}{name}", *domain_to_part(domain))

    def _catch_up(self) -> bool:
        if self._parts is self.live.parts:
            return False
        self._parts = self.live.parts
        with as_written(self.path, KIND):
            self.fitted = _read(self.root, stores=self.fitted.calibrator.stores)[1]
        return True


def save_pipeline(path: str | Path, encoder: Encoder, fitted: Fitted, opened: OpenedFolder | None = None) -> None:
    """Write everything to the folder `path` in one step; the model as it is in the folder that is `opened`, if it is.

    The files from which the encoder was loaded may be gone: that folder was compacted or tuned since.
    """
    part = encoder.to_part()
    state = to_plain(_State(task=part.task, class_names=tuple(part.class_names), method=fitted.method))
    saved = Part(kind=part.kind, state=dict(part.plain), fill=part.fill)
    if opened is not None and opened.encoder_part.is_same(part):
        saved = opened.root.parts["encoder"]
        if not all(file.exists() for file in saved.files.values()):
            opened.refresh()  # tells that the folder is another one now
    domains = {f"{_DOMAIN}{name}": stored_part(*domain_to_part(one)) for name, one in fitted.domains.items()}
    arrays = outputs_to_arrays(fitted.validation) | {"held_out": fitted.held_out}
    root = Part(kind=KIND, state=state, arrays=arrays, parts={"encoder": saved})
    write_folder(path, _to_part(fitted, root), later=domains)


def save_changes(opened: OpenedFolder, before: Fitted, fitted: Fitted) -> None:
    """Write to the folder from which `before` was opened what was made of it, and keep what others changed."""

    def change(now: Fitted) -> tuple[Fitted, None]:
        if _stores_differ(fitted.calibrator, before.calibrator) and now is not before:
            raise StaleFolderError(f"{opened.path} was changed by another process since it was loaded: load it again")
        names = ("method", "calibrator", "decisions", "drift")
        mine = {name: getattr(fitted, name) for name in names if getattr(fitted, name) is not getattr(before, name)}
        domains = {
            name: one for name, one in now.domains.items() if name in fitted.domains or name not in before.domains
        }
        domains |= {name: one for name, one in fitted.domains.items() if one is not before.domains.get(name)}
        same = domains.keys() == now.domains.keys() and all(domains[name] is now.domains[name] for name in domains)
        return (now, None) if same and not mine else (replace(now, domains=domains, **mine), None)

    opened.edit(change)


def save_tuned(opened: OpenedFolder, before: Head, calibrator: Calibrator, index: IndexOptions) -> None:
    """Fit and save a `calibrator` whose stores were given another `index` when the folder was as `before`.

    Where servers stored examples meanwhile, the index is built over those too.
    """

    def change(now: Fitted) -> tuple[Fitted, None]:
        same = opened.live.seen == before
        return refit(now, calibrator if same else reindexed(now.calibrator, index)), None

    opened.edit(change)


def load_pipeline(path: str | Path, *, device: str, trust_remote_code: bool) -> tuple[Encoder, OpenedFolder]:
    """Open a UE folder with its model."""
    return open_as(
        path,
        lambda root: _with_model(OpenedFolder(root), device=device, trust_remote_code=trust_remote_code),
        kind=KIND,
    )


def _with_model(opened: OpenedFolder, *, device: str, trust_remote_code: bool) -> tuple[Encoder, OpenedFolder]:
    path, part, fitted = opened.path, opened.encoder_part, opened.fitted
    for entry in entry_points(group=GROUP, name=part.kind):
        ENCODERS.setdefault(part.kind, entry.load())
    if part.kind not in ENCODERS:
        raise StorageError(
            f"{part.where} was made with an encoder of the kind {part.kind!r}, known are {', '.join(ENCODERS)}: import "
            "the module that registers it, or upgrade knn-ue"
        )
    encoder = ENCODERS[part.kind].from_part(part, device=device, trust_remote_code=trust_remote_code)
    if encoder.class_names != part.class_names:
        raise StorageError(f"{path} was fitted with a model of other classes: refit")
    if _widths(encoder.encode([])) != _widths(fitted.validation):
        raise StorageError(f"{path} was fitted with a model whose features are others: refit")
    return encoder, opened


def is_ue_folder(path: str | Path) -> bool:
    """Return whether `path` is a UE folder; what it holds is not verified."""
    try:
        return kind_of(path) == KIND
    except StorageError:
        return False


def _to_part(fitted: Fitted, root: Part) -> Part:
    """Return all parts of a UE folder: `root` with what was fitted."""
    parts = {
        **root.parts,
        "calibrator": fitted.calibrator.to_part(),
        "decisions": Part(kind="decisions", state=_decisions_to_part(fitted.decisions)[0]),
    }
    if fitted.drift is not None:
        parts["drift"] = Part(kind="drift", arrays=_drift_arrays(fitted.drift))
    if fitted.familiarity is not None:
        state = to_plain(_Familiarity(false_alarm_rate=fitted.familiarity.false_alarm_rate))
        parts["familiarity"] = Part(kind="familiarity", state=state, arrays=fitted.familiarity.to_arrays())
    if fitted.copies is not None:
        parts["copies"] = Part(kind="outputs", arrays=outputs_to_arrays(fitted.copies))
    return replace(root, parts=parts)


def _decisions_to_part(decisions: tuple[Decision, ...]) -> tuple[dict[str, Any], Mapping[str, Any]]:
    return to_plain(_Decisions(decisions=tuple(decision_to_plain(decision) for decision in decisions))), {}


def _drift_arrays(drift: DriftQuantiles) -> dict[str, Any]:
    arrays = {"distance": drift.distance, "agreement": drift.agreement}
    check_arrays(arrays, _DRIFT)
    return arrays


def _read(root: Part, *, stores: Stores | None = None) -> tuple[EncoderPart, Fitted]:
    """Return what a folder says of its encoder, and what was fitted, as it is now; all of it is checked."""
    live = root.live
    assert live is not None
    state = from_plain(_State, root.state)
    parts = {name: live.as_now(part) for name, part in root.parts.items()}
    encoder = EncoderPart(
        kind=parts["encoder"].kind,
        task=state.task,
        class_names=state.class_names,
        plain=parts["encoder"].state,
        files=parts["encoder"].files,
        digests=parts["encoder"].digests,
        where=str(live.path),
    )
    validation = outputs_from_arrays(root.arrays, state.class_names)
    check_arrays(root.arrays, _HELD_OUT, {"rows": len(validation)})
    fitted = Fitted(
        method=state.method,
        calibrator=calibrator_from_part(parts["calibrator"], stores=stores),
        validation=validation,
        held_out=root.arrays["held_out"],
        decisions=tuple(decision_from_plain(one) for one in from_plain(_Decisions, parts["decisions"].state).decisions),
        drift=_read_drift(parts.get("drift")),
        domains=_read_domains(live, validation.n_classes),
        familiarity=_read_familiarity(parts.get("familiarity")),
        copies=outputs_from_arrays(parts["copies"].arrays, state.class_names) if "copies" in parts else None,
    )
    check_consistent(fitted)
    return encoder, fitted


def _read_drift(part: Part | None) -> DriftQuantiles | None:
    if part is None:
        return None
    check_arrays(part.arrays, _DRIFT)
    return DriftQuantiles(distance=part.arrays["distance"], agreement=part.arrays["agreement"])


def _read_familiarity(part: Part | None) -> Familiarity | None:
    if part is None:
        return None
    rate = from_plain(_Familiarity, part.state).false_alarm_rate
    space = TopicSpace.from_arrays(part.arrays) if TOPIC in part.arrays else None
    return Familiarity.from_arrays(dict(part.arrays), false_alarm_rate=rate, space=space)


def _read_domains(live: Live, n_classes: int) -> dict[str, Domain]:
    return {
        name: domain_from_part(name, state, arrays, n_classes) for name, (state, arrays) in live.later(_DOMAIN).items()
    }


def _stores_differ(one: Calibrator, other: Calibrator) -> bool:
    """Return whether two calibrators search other stores, and not the same ones that grew."""
    stores = other.stores
    return one.stores.keys() != stores.keys() or any(store is not stores[name] for name, store in one.stores.items())


def _widths(outputs: Any) -> list[int]:
    columns = () if outputs.features is None else (outputs.features,)
    return [array.shape[1] for array in (*columns, *(outputs.layers or ()))]

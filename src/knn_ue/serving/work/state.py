"""What is served right now: one loaded UE folder, replaced as a whole and never changed."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from knn_ue.errors import InvalidInputError
from knn_ue.folder import library_version
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.pipeline.fitted import store_of
from knn_ue.stores import NeighborStore
from knn_ue.tasks import TASKS

_N_SAMPLES = 4


@dataclass(frozen=True, kw_only=True, eq=False)
class Served:
    """A UE folder that is open, with its model, as it was fitted; its stores alone grow."""

    pipe: UncertaintyPipeline
    loaded_at: float = field(default_factory=time.time)

    @property
    def path(self) -> Path:
        """Where the UE folder is."""
        return self.pipe.opened.path

    @property
    def generation(self) -> str:
        """A name of what the folder holds, which changes with every acknowledged change."""
        return self.pipe.opened.live.seen.generation

    @property
    def store(self) -> NeighborStore | None:
        """The store in which answers find their neighbors; None where the method has none."""
        return store_of(self.pipe.calibrator_)

    def facts(self) -> dict[str, Any]:
        """Return what a client may want to know about the folder."""
        pipe, threshold = self.pipe, self.pipe.threshold_
        return {
            "library": library_version(),
            "folder": self.path.name,
            "generation": self.generation,
            "loaded_at": self.loaded_at,
            "task": pipe.task,
            "method": pipe.method_,
            "labels": list(pipe.encoder.labels),
            "n_stored": None if self.store is None else len(self.store),
            "n_neighbors": pipe.calibrator_.n_neighbors or None,
            "n_validation": len(pipe.validation_),
            "n_fitted": int((~pipe.fitted_.held_out).sum()),
            "max_length": getattr(pipe.encoder.options, "max_length", None),
            "threshold": None if threshold is None else threshold.threshold,
            "promise": None if threshold is None else str(threshold),
            "promises": list(pipe.promises),
            "note": neighbor_note(self),
            "samples": _samples(pipe),
            "judges_answers": pipe.encoder.gives_answers,
            "splits_texts": pipe.encoder.splits_texts,
            "domains": list(pipe.domains_),
        }


def _samples(pipe: UncertaintyPipeline) -> list[str] | list[list[str]]:
    """Return a few inputs to try: validation texts of a readable length; none for taggers, which keep only words."""
    validation, task = pipe.validation_, TASKS[pipe.task]
    if validation.texts is None or task.is_tagging:
        return []
    rows = {text: row for row, text in reversed(list(enumerate(validation.texts)))}
    texts = list(dict.fromkeys(validation.texts))
    readable = [text for text in texts if 20 <= len(text) <= 300] or texts
    chosen = readable[:: max(1, len(readable) // _N_SAMPLES)][:_N_SAMPLES]
    if task.is_pair and validation.pairs is None:
        return []
    inputs = [list(validation.pairs[rows[text]]) if validation.pairs else [text] for text in chosen]
    if pipe.encoder.gives_answers:  # with what was answered there
        names = pipe.class_names
        return [[*parts, names[validation.predicted[rows[text]]]] for parts, text in zip(inputs, chosen, strict=True)]
    return inputs if task.is_pair else chosen


def load_served(path: Path, *, device: str, trust_remote_code: bool, before: Served | None = None) -> Served:
    """Load the UE folder `path`, after verifying its files; the model of `before` is kept where it is the same."""
    if before is None:
        return Served(pipe=UncertaintyPipeline.load(path, device=device, trust_remote_code=trust_remote_code))
    pipe = before.pipe.reloaded(path, device=device, trust_remote_code=trust_remote_code)
    if pipe.task != before.pipe.task:
        raise InvalidInputError(
            f"{path.name} now holds a model for {pipe.task}, this server answers {before.pipe.task}: "
            "start another server for it"
        )
    return Served(pipe=pipe)


def neighbor_note(served: Served) -> str | None:
    """Return the sentence for people where the method cannot show neighbors or terms; None where it shows all."""
    method, calibrator = served.pipe.method_, served.pipe.calibrator_
    if not calibrator.stores and calibrator.explains:
        return None
    if not calibrator.stores:
        return f"The method {method} uses no neighbors: fit with knn-ue to see the training examples behind an answer."
    if not calibrator.explains:
        return f"The method {method} has no distance and label terms to show."
    return None

"""A pipeline and labeled files in, a pipeline with confidence out: what `knn-ue spacy fit` does."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knn_ue.answers import Plain
from knn_ue.entities import find_entities
from knn_ue.errors import InvalidInputError
from knn_ue.spacy.component import FACTORY
from knn_ue.spacy.gold import as_entities, fresh, labels_of, read_examples
from knn_ue.spacy.sources import Source, source_of
from knn_ue.spacy.tagging import proposed_map, spans_of

_SAMPLED = 200  # texts that are read once more, to propose a map


@dataclass(frozen=True, kw_only=True)
class FittedPipeline(Plain):
    """What came of a fit: sizes, the `types` that have a score, those that have none on either side, a map to try."""

    out: str
    types: tuple[str, ...]
    not_scored: tuple[str, ...]
    not_predicted: tuple[str, ...]
    n_stored: int
    n_validation: int
    n_entities: int
    proposed: str = ""
    verifier: str | None = None
    promises: tuple[str, ...] = ()


def fit_pipeline(
    pipeline: str,
    train: str,
    validation: str | None,
    out: Path,
    *,
    source: str = "ner",
    renamed: Mapping[str, str] | None = None,
    reader: str | None = "auto",
    target_precision: float | None = None,
    n_neighbors: int = 32,
    seed: int = 0,
) -> FittedPipeline:
    """Load the pipeline, add and fit the component, and write the pipeline to `out`.

    A component of an earlier fit is replaced. Without `validation` half of the training texts is used for it.
    """
    nlp = load(pipeline)
    if FACTORY in nlp.pipe_names:
        nlp.remove_pipe(FACTORY)
    if source not in nlp.pipe_names:
        said = f"{pipeline} has no component {source!r}, only {', '.join(nlp.pipe_names) or 'none'}: pass "
        raise InvalidInputError(f"{said}source=...", shell=f"{said}--source")
    config: dict[str, Any] = {
        "source": source,
        "map": dict(renamed or {}),
        "reader": reader,
        "n_neighbors": n_neighbors,
    }
    config |= {"target_precision": target_precision}
    component: Any = nlp.add_pipe(FACTORY, config=config)
    found = source_of(nlp, source)
    examples = as_entities(read_examples(nlp, train), found)
    held_out = None if validation is None else as_entities(read_examples(nlp, validation), found)
    proposal = _proposal(nlp, found, examples, renamed or {})
    try:
        component.fit(examples, held_out, seed=seed)
    except InvalidInputError as error:
        if "none in common" in str(error) and proposal:
            raise InvalidInputError(f"{error}; the texts suggest {_as_options(proposal)}") from None
        raise
    nlp.to_disk(out)
    encoder, outputs = component.pipe_.encoder, component.pipe_.validation_
    labeled = labels_of(examples, name="training") | (labels_of(held_out, name="validation") if held_out else set())
    calibrator = component.pipe_.calibrator_
    return FittedPipeline(
        out=str(out),
        types=encoder.types.types,
        not_scored=tuple(sorted(kind for kind in found.labels if encoder.types.number_of(kind) is None)),
        not_predicted=tuple(sorted(labeled - set(encoder.types.types))),
        n_stored=sum(len(store) for store in calibrator.stores.values()),
        proposed=_as_options(proposal),
        verifier=None if calibrator.gain is None else str(calibrator.gain),
        promises=component.pipe_.promises,
        n_validation=len(held_out) if held_out else len(examples) - len(examples) // 2,
        n_entities=len(find_entities(outputs, outputs.predicted)),
    )


def _proposal(nlp: Any, source: Source, examples: list[Any], renamed: Mapping[str, str]) -> dict[str, str]:
    """Return what types of the pipeline seem to be called in the data, for types that are in neither yet."""
    labeled = {ent.label_ for example in examples for ent in example.reference.ents}
    if not labeled - {renamed.get(kind, kind) for kind in source.labels}:
        return {}
    sample = examples[:_SAMPLED]
    docs = list(nlp.pipe([fresh(example.reference) for example in sample], disable=[FACTORY]))
    gold = [spans_of(example.reference.ents) for example in sample]
    found = proposed_map(zip(source.entities(docs), gold, strict=True))
    return {kind: name for kind, name in found.items() if kind not in renamed}


def _as_options(proposal: Mapping[str, str]) -> str:
    return " ".join(f"--map {kind}={name}" for kind, name in proposal.items())


def load(pipeline: str) -> Any:
    """Return the pipeline in a folder or package; one sentence where there is none."""
    import spacy

    try:
        return spacy.load(pipeline)
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = str(error).splitlines()[0]
        installed = ", ".join(sorted(spacy.util.get_installed_models())) or "none"
        raise InvalidInputError(
            f"{pipeline} must be a folder or an installed package with a spaCy pipeline ({reason}): check the name; "
            f"installed: {installed}"
        ) from None

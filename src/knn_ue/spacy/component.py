"""`knn_ue_entities`: the component that sets `ent._.confidence`, trained once and saved with its pipeline."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from spacy.language import Language

from knn_ue.adapting import Adaptation
from knn_ue.data.splits import half_of
from knn_ue.decisions import promised
from knn_ue.entities import find_entities
from knn_ue.errors import FitWarning, InvalidInputError, NotFittedError
from knn_ue.folder import as_written
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.pipeline.domains import DEFAULT
from knn_ue.pipeline.fitted import add_rows
from knn_ue.pipeline.folder import OpenedFolder
from knn_ue.spacy.annotate import annotate
from knn_ue.spacy.doc_component import DocComponent
from knn_ue.spacy.encoder import SpacyEncoder, SpacyOptions, read_part
from knn_ue.spacy.gold import as_entities, gold_docs, labels_of, perturbed, read_examples, running, words_of
from knn_ue.spacy.learning import learn
from knn_ue.spacy.sources import source_of
from knn_ue.spacy.tagging import TypeMap
from knn_ue.stores import folder_of
from knn_ue.types import Outputs

FACTORY = "knn_ue_entities"
_FEW_ENTITIES = 50
_DELTA = 0.1  # how often the promise of a precision may fail


class EntityConfidence(DocComponent):
    """A calibrated probability for each entity that a component of the pipeline finds.

    `source` is that component, `map` what its types are called in the labeled data, `reader` what reads the words for a
    verifier: a name of `knn_ue.verifying.READERS` with word vectors, "auto" (the first that is here) or None. Without
    one the words of labeled docs are stored, `n_neighbors` are searched, and each entity shows `top` of them. `domain`
    is whose scores are given (see `adapt`). With `target_precision` half of the validation docs are held out: of the
    entities with `ent._.promised` at least that share is right, as `pipe_.promises` says. It is fitted with `fit`, or
    by `nlp.initialize`, and changes nothing but the attributes it sets.
    """

    def __init__(
        self,
        nlp: Language,
        name: str = FACTORY,
        *,
        source: str = "ner",
        map: Mapping[str, str] | None = None,
        reader: str | None = "auto",
        target_precision: float | None = None,
        n_neighbors: int = 32,
        top: int = 3,
        domain: str | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(name, top=top, attributes=attributes)
        self.nlp = nlp
        self.source = source
        self.map = dict(map or {})
        self.reader = reader
        self.target_precision = target_precision
        self.n_neighbors = n_neighbors
        self.domain = domain
        self.pipe_: UncertaintyPipeline | None = None
        self._awaits_training = False

    def fit(self, examples: Iterable[Any], validation: Iterable[Any] | None = None, *, seed: int = 0) -> Self:
        """Learn from labeled `Example` objects: store one part, fit on the other, which the first must not contain.

        Without `validation` the examples are split in halves at random. Neither should have trained the recognizer:
        what it knows by heart it is sure of. One perturbed copy of each validation example is fitted on too, so that
        the scores hold in other domains as well.
        """
        source = source_of(self.nlp, self.source)
        given = None if validation is None else as_entities(validation, source)
        stored, held_out = self._parts(as_entities(examples, source), given, seed)
        labels = labels_of(stored, name="training") | labels_of(held_out, name="validation")
        types = TypeMap.between(source.labels, labels, self.map)
        encoder = SpacyEncoder(self.nlp, types, options=SpacyOptions(source=self.source), skip=self.name)
        decisions = promised(self.target_precision, None, _DELTA, None, "lac")
        second = half_of(len(held_out), second=True, seed=seed + 1) if decisions else frozenset()
        kept = [example for number, example in enumerate(held_out) if number in second]
        held_out = [example for number, example in enumerate(held_out) if number not in second]
        copied = perturbed(self.nlp, held_out, seed=seed)
        train, fitted_on, copies = (self._labeled(encoder, part) for part in (stored, held_out, copied))
        fitted = learn(
            train,
            fitted_on,
            copies,
            reader=self.reader,
            n_neighbors=self.n_neighbors,
            held_out=self._labeled(encoder, kept) if kept else None,
            decisions=decisions,
        )
        if fitted.threshold is not None and not fitted.threshold.found:
            warnings.warn(f"{fitted.threshold}; no entity is marked as promised", FitWarning, stacklevel=2)
        pipe = UncertaintyPipeline(encoder, fitted)
        self.pipe_, self._awaits_training = pipe, False
        self._say_what_is_thin(fitted_on)
        return self

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Any]],
        *,
        nlp: Language | None = None,
        train: str | None = None,
        validation: str | None = None,
        seed: int = 0,
    ) -> None:
        """Fit, as `nlp.initialize`, `spacy assemble` and `spacy train` do; files come before `get_examples`.

        A recognizer that gets no entity right is one that `spacy train` is about to train: then nothing is fitted, and
        docs have no scores until `fit` is called, as the callback knn_ue.fit_entities.v1 does before each save.
        """
        del nlp  # the pipeline it was made in
        examples = list(get_examples()) if train is None else read_examples(self.nlp, train)
        with warnings.catch_warnings(record=True) as doubts:
            warnings.simplefilter("always")
            self.fit(examples, None if validation is None else read_examples(self.nlp, validation), seed=seed)
        outputs = self._ready().validation_
        gold = find_entities(outputs, outputs.require_labels("initialize"))
        if not find_entities(outputs, outputs.predicted).same_in(gold).any():
            self.pipe_, self._awaits_training = None, True
            warnings.warn(
                f"{self.name} was not fitted, because {self.source!r} gets no entity of the validation texts right, "
                'as before its training: fit it afterwards, in a config with before_to_disk = {"@callbacks": '
                '"knn_ue.fit_entities.v1"}',
                stacklevel=2,
            )
            return
        for doubt in doubts:
            warnings.warn_explicit(doubt.message, doubt.category, doubt.filename, doubt.lineno)

    def add(self, doc: Any) -> list[int]:
        """Store the words of a doc whose `ents` are right, and return their ids; the next doc finds them.

        The pipeline reads the words again, so that they are stored as it will see them. What was fitted stays. As with
        all of spaCy, a folder that was loaded changes with `to_disk` only.
        """
        pipe = self._ready()
        outputs = self._labeled(self._encoder(), self._examples_of([doc]))
        stores = pipe.calibrator_.stores
        if any(folder_of(store) is not None for store in stores.values()):
            apart = {name: store.detached() for name, store in stores.items()}
            pipe.fitted_ = replace(pipe.fitted_, calibrator=pipe.calibrator_.with_stores(apart))
        return [int(number) for number in add_rows(pipe.calibrator_, outputs)]

    def adapt(
        self, docs: Iterable[Any], *, domain: str = DEFAULT, add: bool = False, force: bool = False
    ) -> Adaptation:
        """Recalibrate for another domain with a few docs of it (about 50) whose `ents` are right.

        They must be a random sample, not corrections. "default" is used from then on; another name where `domain` of
        the component says so. What is returned says what changes; see `UncertaintyPipeline.adapt`.
        """
        outputs = self._labeled(self._encoder(), self._examples_of(docs))
        return self._ready().adapt(outputs, domain=domain, add=add, force=force)

    def forget_domain(self, domain: str = DEFAULT) -> Self:
        """Undo `adapt`."""
        self._ready().forget_domain(domain)
        return self

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write what was fitted to the folder `path`; before a fit there is nothing to write."""
        del exclude
        if self.pipe_ is not None:
            self.pipe_.save(path)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> Self:
        """Read what `to_disk` wrote."""
        del exclude
        if not Path(path).exists():  # saved before it was fitted
            return self
        opened = OpenedFolder.open(path)
        part = opened.encoder_part
        with as_written(opened.path, FACTORY):
            if part.kind != SpacyEncoder.kind:
                raise ValueError("it is another model's")
            types, options = read_part(part.plain)
            if types.class_names != part.class_names:
                raise ValueError("types and classes differ")
        self.source, self.map = options.source, dict(types.renamed)
        encoder = SpacyEncoder(self.nlp, types, options=options, skip=self.name)
        self.pipe_ = UncertaintyPipeline(encoder, opened.fitted)
        return self

    @staticmethod
    def _parts(examples: list[Any], validation: list[Any] | None, seed: int) -> tuple[list[Any], list[Any]]:
        """Return the examples to store and those to fit on; a text on both sides is fitted on only."""
        held_out = validation
        if held_out is None:
            second = half_of(len(examples), second=True, seed=seed)
            held_out = [examples[number] for number in sorted(second)]
            examples = [example for number, example in enumerate(examples) if number not in second]
        known = {words_of(example.reference) for example in held_out}
        stored = [example for example in examples if words_of(example.reference) not in known]
        if not stored or not held_out:
            raise InvalidInputError(
                f"fit needs examples to store and others to fit on, got {len(stored)} and {len(held_out)}: add some"
            )
        if validation is not None and len(stored) < len(examples):
            warnings.warn(
                f"{len(examples) - len(stored)} of {len(examples)} texts to store are also validation texts, on which "
                f"scores would be too high: they were not stored, check the files of {FACTORY}",
                FitWarning,
                stacklevel=3,
            )
        return stored, held_out

    def _annotate(self, docs: list[Any]) -> None:
        if self._awaits_training:
            return
        annotate(docs, self._encoder(), self._ready().fitted_, self.attributes, top=self.top, domain=self.domain)

    def _ready(self) -> UncertaintyPipeline:
        if self.pipe_ is None:
            raise NotFittedError(f"the component {self.name!r}")
        return self.pipe_

    def _encoder(self) -> SpacyEncoder:
        encoder = self._ready().encoder
        assert isinstance(encoder, SpacyEncoder)  # fit and from_disk make no other
        return encoder

    def _labeled(self, encoder: SpacyEncoder, examples: list[Any]) -> Outputs:
        # Those that come after us may need what we set.
        after = self.nlp.pipe_names[self.nlp.pipe_names.index(self.name) :] if self.name in self.nlp.pipe_names else []
        size = encoder.options.batch_size
        with running(self.nlp, self.source):
            golds = list(gold_docs(self.nlp, examples, skip=after, batch_size=size))
            outputs = encoder.labeled_outputs(golds)
        # Sentences of one doc are not independent.
        documents = np.repeat(np.arange(len(golds)), [len(gold.doc) for gold in golds])
        return replace(outputs, documents=documents)

    def _examples_of(self, docs: Iterable[Any]) -> list[Any]:
        from spacy.training import Example

        return as_entities((Example(doc, doc) for doc in docs), source_of(self.nlp, self.source))

    def _say_what_is_thin(self, validation: Outputs) -> None:
        n_entities = len(find_entities(validation, validation.predicted))
        if n_entities < _FEW_ENTITIES:
            warnings.warn(
                f"{self.name} was fitted on {n_entities} predicted entities, fewer than {_FEW_ENTITIES}: the scores "
                "stay near what held on other data; label more sentences for scores of your own",
                FitWarning,
                stacklevel=3,
            )


@Language.factory(
    FACTORY,
    assigns=["doc._.confidence", "doc._.likely_missed", "span._.confidence", "span._.promised"],
    requires=["doc.ents"],
    default_config={
        "source": "ner",
        "map": {},
        "n_neighbors": 32,
        "top": 3,
        "domain": None,
        "attributes": {},
        "reader": "auto",
        "target_precision": None,
    },
)
def make_entity_confidence(
    nlp: Language,
    name: str,
    source: str,
    map: dict[str, str],
    reader: str | None,
    target_precision: float | None,
    n_neighbors: int,
    top: int,
    domain: str | None,
    attributes: dict[str, str],
) -> EntityConfidence:
    """Return the component, not yet fitted."""
    return EntityConfidence(
        nlp,
        name,
        source=source,
        map=map,
        reader=reader,
        target_precision=target_precision,
        n_neighbors=n_neighbors,
        top=top,
        domain=domain,
        attributes=attributes,
    )

"""`SpacyEncoder`: a spaCy pipeline as an encoder, so that all that works on a UE folder works on it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from annotated_types import Interval

from knn_ue.encoding.contract import Encoder, EncoderPart
from knn_ue.encoding.inputs import Example, RawText
from knn_ue.encoding.words import word_in_context
from knn_ue.errors import InvalidInputError, StorageError, require
from knn_ue.folder import as_written, from_plain, to_plain
from knn_ue.spacy.sources import source_of
from knn_ue.spacy.tagging import TypeMap, sentence_groups
from knn_ue.types import Outputs, Step

_MAX_BATCH = 65_536
_CONTEXT_WORDS = 8  # on either side, as a neighbor is shown


@dataclass(frozen=True, kw_only=True)
class SpacyOptions:
    """What of a pipeline is read: the component `source` ("ner" or "spancat"), and how many docs at a time."""

    source: str = "ner"
    batch_size: int = 64


@dataclass(frozen=True, kw_only=True)
class GoldDoc:
    """A doc with its predictions, and the labeled entities over the same words: (start, end, label)."""

    doc: Any
    entities: Sequence[tuple[int, int, str]] = field(default_factory=tuple)


class SpacyEncoder(Encoder):
    """Words in, `Outputs` out: vectors and beliefs of a component that finds entities, in a pipeline as it is.

    `types` says which types are scored. Rows are words, `groups` the sentences that the pipeline finds, `words` the
    words as written, `decoded` what the pipeline decided on.
    """

    kind: ClassVar[str] = "spacy"
    splits_texts: ClassVar[bool] = True

    def __init__(self, nlp: Any, types: TypeMap, *, options: SpacyOptions | None = None, skip: str = "") -> None:
        self.nlp = nlp
        self.types = types
        self.options: SpacyOptions = options or SpacyOptions()
        self.task = "token-classification"
        self.class_names = types.class_names
        self._skip = skip
        self._source = source_of(nlp, self.options.source)

    def words_of(self, text: str) -> RawText:
        """Return the words of the pipeline's own tokenizer."""
        if len(text) > self.nlp.max_length:
            raise InvalidInputError(
                f"a text must have at most {self.nlp.max_length} characters, nlp.max_length of the pipeline, got "
                f"{len(text)}: split it"
            )
        return RawText(text, tuple((word.idx, word.idx + len(word)) for word in self.nlp.make_doc(text)))

    def encode(self, examples: Iterable[Example], *, with_labels: bool = True, progress: Step | None = None) -> Outputs:
        """Return one row per word of the examples, whose words are kept as they are.

        Given words are one sentence, wherever the pipeline sees an end; a text has the sentences that it sees.
        """
        given = list(examples)
        docs = [self._doc_of(example) for example in given]
        done = []
        for doc in self.nlp.pipe(docs, batch_size=self.options.batch_size, disable=self._disabled()):
            done.append(doc)
            if progress is not None:
                progress(len(done), len(given))
        self.n_encoded += len(given)
        labels = None
        if with_labels and all(example.labels is not None for example in given):
            numbers = {name: number for number, name in enumerate(self.class_names)}
            labels = [numbers.get(tag, 0) for example in given for tag in example.labels or ()]
        found = self.outputs(done, with_texts=True)
        assert found.groups is not None  # outputs sets them
        owner = np.repeat(np.arange(len(given)), [len(example.parts) for example in given])
        in_text = np.array([example.raw is not None for example in given], dtype=bool)[owner]
        opens = (np.diff(owner, prepend=-1) > 0) | ((np.diff(found.groups, prepend=-1) > 0) & in_text)
        groups = np.cumsum(opens) - 1
        return replace(found, labels=None if labels is None else np.array(labels, dtype=np.int64), groups=groups)

    def _doc_of(self, example: Example) -> Any:
        """Return the words as a doc, with the spaces of the text that they are from: the model may look at them."""
        from spacy.tokens import Doc

        spaces = None
        if example.raw is not None:
            text, spans = example.raw.text, example.raw.spans
            starts = [*(start for start, _ in spans[1:]), len(text) + 1]
            ends = [end for _, end in spans]
            spaces = [text[end : end + 1] == " " and after > end for end, after in zip(ends, starts, strict=True)]
        return Doc(self.nlp.vocab, words=list(example.parts), spaces=spaces)

    def outputs(self, docs: Sequence[Any], *, with_texts: bool = False) -> Outputs:
        """Return one row per word of docs that the pipeline has read, without labels."""
        belief = self._source.belief(docs)
        predicted = [
            self.types.classes(len(doc), entities)
            for doc, entities in zip(docs, self._source.entities(docs), strict=True)
        ]
        classes = np.concatenate(predicted) if predicted else np.zeros(0, dtype=np.int64)
        words = [[word.text for word in doc] for doc in docs]
        texts = None
        if with_texts:
            texts = [word_in_context(own, i, width=_CONTEXT_WORDS) for own in words for i in range(len(own))]
        return Outputs(
            logits=self.types.logits(belief),
            features=belief.vectors,
            views=belief.vectors[:, None],  # what familiarity looks at
            decoded=classes,
            groups=sentence_groups(docs, classes),
            class_names=self.class_names,
            texts=texts,
            words=[word for own in words for word in own],
        )

    def labeled_outputs(self, docs: Sequence[GoldDoc]) -> Outputs:
        """Return one row per word, with its label and the sentence around it."""
        found = self.outputs([gold.doc for gold in docs], with_texts=True)
        labels = [self.types.classes(len(gold.doc), gold.entities, of_data=True) for gold in docs]
        return replace(found, labels=np.concatenate(labels))

    def with_options(self, **changes: Any) -> "Encoder":
        """Return this encoder with another batch size; nothing else can be changed once it is fitted."""
        if changes.keys() - {"batch_size"}:
            return super().with_options(**changes)
        return SpacyEncoder(self.nlp, self.types, options=replace(self.options, **changes), skip=self._skip)

    def to_part(self) -> EncoderPart:
        """Return what the component's folder holds; the pipeline is the folder around it."""
        stored = _StoredPart(types=tuple(self.types.types), renamed=dict(self.types.renamed), **vars(self.options))
        return EncoderPart(kind=self.kind, task=self.task, class_names=self.class_names, plain=to_plain(stored))

    @classmethod
    def from_part(cls, part: EncoderPart, *, device: str, trust_remote_code: bool) -> Self:
        """Load the pipeline around the folder, without the component that the folder belongs to."""
        del device, trust_remote_code
        require("spacy", extra="spacy", purpose="a spaCy pipeline")
        import spacy

        folder = Path(part.where)
        if not (folder.parent / "config.cfg").is_file():
            raise StorageError(
                f"{folder} must be in the folder of its spaCy pipeline, and {folder.parent} has no config.cfg: "
                "move it back, or refit with knn-ue spacy fit"
            )
        with as_written(folder, cls.kind):
            types, options = read_part(part.plain)
        nlp = spacy.load(folder.parent, exclude=[folder.name])
        return cls(nlp, types, options=options, skip=folder.name)

    def _disabled(self) -> list[str]:
        return [self._skip] if self._skip in self.nlp.pipe_names else []


@dataclass(frozen=True, kw_only=True)
class _StoredPart:
    """What the component's folder holds of its encoder."""

    types: tuple[str, ...]
    renamed: dict[str, str]
    source: str
    batch_size: Annotated[int, Interval(ge=1, le=_MAX_BATCH)]


def read_part(plain: Mapping[str, Any]) -> tuple[TypeMap, SpacyOptions]:
    """Return what `to_part` described; raises ValueError where it is something else."""
    stored = from_plain(_StoredPart, plain)
    if not stored.types or len(set(stored.types)) < len(stored.types):
        raise ValueError("types must be different names, at least one")
    options = SpacyOptions(source=stored.source, batch_size=stored.batch_size)
    return TypeMap(types=stored.types, renamed=stored.renamed), options

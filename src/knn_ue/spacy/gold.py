"""Labeled data -> spaCy's `Example`, and labeled entities on the pipeline's own words by spaCy's `Alignment`."""

import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from knn_ue.data import read_rows
from knn_ue.data.faults import stop
from knn_ue.data.lines import Place, check_file, default_limits
from knn_ue.data.perturb import perturbed_rows
from knn_ue.data.readers import JSON_FILES, read_json
from knn_ue.data.rows import TaggedRow
from knn_ue.errors import FitWarning, InvalidInputError
from knn_ue.iob2 import extract_entities
from knn_ue.spacy.encoder import GoldDoc
from knn_ue.spacy.sources import Source

_SEGMENTERS = ("parser", "senter", "sentencizer")
_WAY_OUT = 'write {"text", "entities": [[start, end, "TYPE"], ...]}, or {"tokens", "tags"}'


def read_examples(nlp: Any, source: str | Path) -> list[Any]:
    """Return the `Example` of each doc of a file; the predicted side holds the words of the pipeline's tokenizer.

    A file is a `DocBin` (.spacy), JSON lines of `{"text", "entities"}` with character offsets (`spans`, as Prodigy
    writes them, will do too), or whatever `knn_ue.data.read_rows` reads for tagging: there the words are given, and
    kept.
    """
    path = Path(source)
    if path.suffix == ".spacy":
        return list(_read_doc_bin(nlp, path))
    if path.name.removesuffix(".gz").endswith(JSON_FILES) and path.is_file():
        first = next(iter(read_json(path, default_limits(), stop)), None)
        if first is not None and "text" in first[1] and "tokens" not in first[1]:
            lost: list[str] = []
            found = [
                _from_offsets(nlp, record, place, lost) for place, record in read_json(path, default_limits(), stop)
            ]
            say_what_is_lost(lost)
            return found
    return [_from_tags(nlp, row) for row in read_rows(str(source), "ner")]


def as_entities(examples: Iterable[Any], source: Source) -> list[Any]:
    """Return the examples with the labeled spans of the component `source` as their `ents`."""
    from spacy.training import Example

    found = []
    for example in examples:
        spans = source.labeled(example.reference)
        if spans is not None:
            reference = example.reference.copy()
            reference.set_ents(spans, default="outside")
            example = Example(example.predicted, reference)
        found.append(example)
    return found


def fresh(doc: Any) -> Any:
    """Return a doc with the same words and nothing said about them."""
    from spacy.tokens import Doc

    return Doc(doc.vocab, words=[word.text for word in doc], spaces=[bool(word.whitespace_) for word in doc])


def gold_docs(nlp: Any, examples: Sequence[Any], *, skip: Iterable[str], batch_size: int) -> Iterator[GoldDoc]:
    """Yield each example as the pipeline reads it, with the labeled entities that its words can express.

    An entity that begins or ends inside a word is left out, as spaCy's scorer does, and reported in one sentence.
    """
    from spacy.training import Example

    docs = nlp.pipe((fresh(example.predicted) for example in examples), batch_size=batch_size, disable=list(skip))
    lost: list[str] = []
    for doc, example in zip(docs, examples, strict=True):
        ents = example.reference.ents
        aligned = Example(doc, example.reference).get_aligned_spans_y2x(ents)
        if len(aligned) < len(ents):
            kept = {(span.start_char, span.end_char) for span in aligned}
            lost += [f"{x.text!r} in {doc.text[:60]!r}" for x in ents if (x.start_char, x.end_char) not in kept]
        yield GoldDoc(doc=doc, entities=tuple((span.start, span.end, span.label_) for span in aligned))
    say_what_is_lost(lost)


def say_what_is_lost(lost: Sequence[str]) -> None:
    """Warn of labeled entities that the words of the pipeline cannot express."""
    if lost:
        begins = "1 labeled entity begins or ends" if len(lost) == 1 else f"{len(lost)} labeled entities begin or end"
        warnings.warn(
            f"{begins} inside a word of the pipeline's tokenizer, and cannot be learned from (the first: {lost[0]}): "
            "check the offsets, white space and punctuation included",
            FitWarning,
            stacklevel=3,
        )


def perturbed(nlp: Any, examples: Sequence[Any], *, seed: int) -> list[Any]:
    """Return one changed copy of each example that has words: some dropped, misspelled, replaced, cut or joined."""
    rows = [
        (tuple(word.text for word in doc), _tags_of(doc)) for doc in (one.reference for one in examples) if len(doc)
    ]
    copies = perturbed_rows(rows, "token-classification", seed=seed)
    return [_from_tags(nlp, TaggedRow(words, tags)) for words, tags in copies]


def words_of(doc: Any) -> tuple[str, ...]:
    """Return the words of a doc."""
    return tuple(word.text for word in doc)


def _tags_of(doc: Any) -> tuple[str, ...]:
    return tuple(f"{word.ent_iob_}-{word.ent_type_}" if word.ent_type_ else "O" for word in doc)


@contextmanager
def running(nlp: Any, source: str) -> Iterator[None]:
    """While it lasts, the component `source` runs, with what it listens to and what finds sentences.

    `spacy train` and `spacy assemble` disable trained components while they initialize the others.
    """
    wanted = {source}
    segmenters = [name for name in nlp.component_names if nlp.get_pipe_meta(name).factory in _SEGMENTERS]
    if segmenters and not set(segmenters) & set(nlp.pipe_names):
        wanted.add(segmenters[0])
    wanted |= {name for name, part in nlp.components if wanted & set(getattr(part, "listening_components", ()))}
    enabled = [name for name in nlp.disabled if name in wanted]
    for name in enabled:
        nlp.enable_pipe(name)
    try:
        yield
    finally:
        for name in enabled:
            nlp.disable_pipe(name)


def labels_of(examples: Iterable[Any], *, name: str) -> set[str]:
    """Return the types of the `name` texts; raise where one is not labeled at all, or none has an entity."""
    found: set[str] = set()
    for number, example in enumerate(examples):
        if not example.reference.has_annotation("ENT_IOB"):
            raise InvalidInputError(
                f"every example must be labeled, example {number} ({example.reference.text[:40]!r}) has no entity "
                'annotation: set it with doc.set_ents(entities, default="outside")'
            )
        found |= {ent.label_ for ent in example.reference.ents}
    if not found:
        raise InvalidInputError(
            f"the {name} texts must hold labeled entities, these have none: check the file and its tags or offsets"
        )
    return found


def _read_doc_bin(nlp: Any, path: Path) -> Iterator[Any]:
    from spacy.tokens import DocBin
    from spacy.training import Example

    check_file(path)
    try:
        docs = list(DocBin().from_disk(path).get_docs(nlp.vocab))
    except (ValueError, TypeError, KeyError, IndexError, EOFError, zlib.error) as error:
        raise InvalidInputError(f"{path} must be a DocBin as spaCy writes it ({error}): convert it again") from None
    if not docs:
        raise InvalidInputError(f"{path} is empty: at least one doc is needed")
    for doc in docs:
        yield Example(nlp.make_doc(doc.text), doc)


def _from_offsets(nlp: Any, record: Mapping[str, Any], place: Place, lost: list[str]) -> Any:
    from spacy.training import Example

    text, given = record.get("text"), record.get("entities", record.get("spans"))
    if not isinstance(text, str) or not isinstance(given, list):
        raise place.error("a line must hold a text and its entities", record, _WAY_OUT)
    doc = nlp.make_doc(text)
    spans = []
    for one in given:
        start, end, label = _offsets(one, place)
        if not 0 <= start < end <= len(text):
            raise place.error(f"an entity must lie within its text of {len(text)} characters", one, "correct it")
        span = doc.char_span(start, end, label=label)
        if span is None:  # one that cuts a word in two has no words of its own
            lost.append(f"{place}, {text[start:end]!r}")
        else:
            spans.append(span)
    try:
        doc.set_ents(spans, default="outside")
    except ValueError:
        raise place.error("entities must not overlap", text, "keep one of them") from None
    return Example(fresh(doc), doc)


def _offsets(one: Any, place: Place) -> tuple[int, int, str]:
    parts = [one.get("start"), one.get("end"), one.get("label")] if isinstance(one, dict) else one
    if not (isinstance(parts, list) and len(parts) == 3 and isinstance(parts[2], str) and parts[2]):
        raise place.error("an entity must be start, end and type", one, _WAY_OUT)
    start, end, label = parts
    if any(isinstance(number, bool) or not isinstance(number, int) for number in (start, end)):
        raise place.error("start and end of an entity must be numbers of characters", one, _WAY_OUT)
    return start, end, label


def _from_tags(nlp: Any, row: Any) -> Any:
    from spacy.tokens import Doc, Span
    from spacy.training import Example

    assert isinstance(row, TaggedRow) and row.tags is not None  # read_rows was asked for labeled tagging
    doc = Doc(nlp.vocab, words=list(row.tokens))
    found = extract_entities(row.tags)
    doc.set_ents([Span(doc, first, last + 1, label=kind) for kind, first, last in found], default="outside")
    return Example(fresh(doc), doc)

"""What other tools write -> rows with an `answer`, as `UncertaintyPipeline.from_answers` takes them.

Each function takes plain JSON (of DocBin, documents) and returns plain rows. Entities are in the shapes of
`knn_ue.marked`; those of GLiNER are an answer as they are: `{"text": text, "answer": entities}`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import exp
from typing import Any

from knn_ue.errors import InvalidInputError

Plain = Mapping[str, Any]


def langextract_rows(documents: Iterable[Plain]) -> Iterator[dict[str, Any]]:
    """Yield a row per line of LangExtract's JSON lines; an extraction without a place is looked for in the text.

    >>> found = {"extraction_class": "PER", "extraction_text": "Ada", "char_interval": {"start_pos": 0, "end_pos": 3}}
    >>> list(langextract_rows([{"text": "Ada wrote.", "extractions": [found]}]))
    [{'text': 'Ada wrote.', 'answer': [{'type': 'PER', 'text': 'Ada', 'start_char': 0, 'end_char': 3}]}]
    """
    for number, document in enumerate(documents):
        row = f"document {number} of LangExtract"
        answer = []
        for one in _list(document.get("extractions") or [], f"the extractions of {row}"):
            entity = {"type": _of(one, "extraction_class", row), "text": _of(one, "extraction_text", row)}
            place = one.get("char_interval") or {}
            if place.get("start_pos") is not None and place.get("end_pos") is not None:
                entity |= {"start_char": place["start_pos"], "end_char": place["end_pos"]}
            answer.append(entity)
        known = {"id": document["document_id"]} if document.get("document_id") else {}
        yield known | {"text": _of(document, "text", row), "answer": answer}


def label_studio_answer(task: Plain) -> dict[str, Any]:
    """Return the `answer` and the `confidence` of a Label Studio task's last prediction; {} where it has none.

    A choice is a label; marked spans are entities.

    >>> value = {"start": 0, "end": 3, "text": "Ada", "labels": ["PER"]}
    >>> label_studio_answer({"predictions": [{"score": 0.9, "result": [{"type": "labels", "value": value}]}]})
    {'answer': [{'start_char': 0, 'end_char': 3, 'type': 'PER'}], 'confidence': 0.9}
    """
    predictions = [one for one in task.get("predictions") or [] if isinstance(one, Mapping)]
    if not predictions:
        return {}
    results = [one for one in predictions[-1].get("result") or [] if isinstance(one, Mapping)]
    score = predictions[-1].get("score")
    sure = {"confidence": score} if isinstance(score, float) and 0 <= score <= 1 else {}
    chosen = [one["value"]["choices"] for one in results if "choices" in (one.get("value") or {})]
    if chosen:
        return {"answer": chosen[0][0] if chosen[0] else "", **sure}
    return {"answer": [entity for one in results for entity in label_studio_entities(one)], **sure}


def label_studio_entities(result: Plain) -> Iterator[dict[str, Any]]:
    """Yield the entity of one result of Label Studio that marks a span; nothing of any other one."""
    value = result.get("value") or {}
    if isinstance(value.get("labels"), list) and value["labels"] and "start" in value:
        entity = {"start_char": value["start"], "end_char": value.get("end"), "type": value["labels"][0]}
        score = value.get("score", result.get("score"))
        yield entity | ({"confidence": score} if isinstance(score, float) else {})


def openai_answer(response: Plain, *, entities: bool = False) -> dict[str, Any]:
    """Return the `answer` of an OpenAI-style response, and its `logprob` where the response has log-probabilities.

    With `entities` the content is a JSON object of lists, or a list, as in `knn_ue.marked`; each string is then as sure
    as the tokens that wrote it. What is no JSON marks nothing.

    >>> tokens = [{"token": "ref", "logprob": -0.1}, {"token": "und", "logprob": -0.2}]
    >>> message = {"message": {"content": "refund"}, "logprobs": {"content": tokens}}
    >>> found = openai_answer({"choices": [message]})
    >>> found["answer"], round(found["logprob"], 2)
    ('refund', -0.3)
    """
    choices = _list(response.get("choices"), "the choices of a response")
    if not choices:
        raise InvalidInputError("a response must have at least one choice, got none: leave the row out")
    first = choices[0]
    content = (first.get("message") or {}).get("content") if "message" in first else first.get("text")
    content = content or ""
    tokens = _tokens(first.get("logprobs") or {})
    if not entities:
        known = {"logprob": min(0.0, sum(logprob for _, logprob in tokens))} if tokens else {}
        return {"answer": content.strip(), **known}
    return {"answer": _sure_entities(content, tokens)}


def presidio_row(text: str, results: Iterable[Any]) -> dict[str, Any]:
    """Return the row of a text that Presidio analyzed: its results, as objects or as plain JSON, are the answer.

    >>> presidio_row("Ada wrote.", [{"entity_type": "PERSON", "start": 0, "end": 3, "score": 0.85}])["answer"]
    [{'type': 'PERSON', 'start_char': 0, 'end_char': 3, 'confidence': 0.85}]
    """
    names = {"type": "entity_type", "start_char": "start", "end_char": "end", "confidence": "score"}
    plain = [
        one if isinstance(one, Mapping) else {name: getattr(one, name) for name in names.values()} for one in results
    ]
    return {"text": text, "answer": [{ours: one[theirs] for ours, theirs in names.items()} for one in plain]}


def docbin_rows(docs: Iterable[Any], gold: Iterable[Any] | None = None) -> Iterator[dict[str, Any]]:
    """Yield a row per spaCy document, `docs` with what a pipeline found; with `gold` ones also the right entities.

    Documents come from `DocBin().from_disk(path).get_docs(nlp.vocab)`; both must have the same words.
    """
    for doc, right in zip(docs, gold if gold is not None else iter(lambda: None, 0), strict=gold is not None):
        tokens = [token.text for token in doc]
        row: dict[str, Any] = {"tokens": tokens, "answer": [_entity_of(ent) for ent in doc.ents]}
        if right is not None:
            if [token.text for token in right] != tokens:
                raise InvalidInputError(
                    f"a gold document must have the same words, got {right.text[:40]!r}: retokenize it"
                )
            row["tags"] = [
                token.ent_iob_ if token.ent_iob_ in ("", "O") else f"{token.ent_iob_}-{token.ent_type_}"
                for token in right
            ]
            row["tags"] = [tag or "O" for tag in row["tags"]]
        yield row


def _entity_of(ent: Any) -> dict[str, Any]:
    return {"start": ent.start, "end": ent.end, "type": ent.label_}


def _tokens(logprobs: Plain) -> list[tuple[str, float]]:
    """Return the tokens of a chat or of a completion, and their log-probabilities."""
    if isinstance(logprobs.get("content"), list):
        return [(str(one.get("token", "")), float(one.get("logprob", 0.0))) for one in logprobs["content"]]
    tokens, values = logprobs.get("tokens"), logprobs.get("token_logprobs")
    if isinstance(tokens, Sequence) and isinstance(values, Sequence):
        return [(str(token), float(value or 0.0)) for token, value in zip(tokens, values, strict=False)]
    return []


def _sure_entities(content: str, tokens: Sequence[tuple[str, float]]) -> list[dict[str, Any]]:
    """Return the entities in a JSON text, each with the product of the probabilities of the tokens that wrote it."""
    start, end = content.find("{"), content.rfind("}")
    if "[" in content and (start < 0 or content.find("[") < start):
        start, end = content.find("["), content.rfind("]")
    try:
        said = json.loads(content[start : end + 1]) if start >= 0 else []
    except (ValueError, RecursionError):
        return []
    listed = said
    if isinstance(said, Mapping):
        listed = [
            {"text": x, "type": kind} for kind, many in said.items() for x in (many if isinstance(many, list) else [])
        ]
    found, written = [], 0
    for entity in listed if isinstance(listed, list) else []:
        if not isinstance(entity, Mapping) or not isinstance(entity.get("text"), str):
            continue
        place = content.find(json.dumps(entity["text"], ensure_ascii=False)[1:-1], written)
        sure = _probability(tokens, place, place + len(entity["text"])) if tokens and place >= 0 else None
        written = max(written, place)
        found.append(dict(entity) if sure is None else {**entity, "confidence": sure})
    return found


def _probability(tokens: Sequence[tuple[str, float]], start: int, end: int) -> float:
    """Return the product of the probabilities of the tokens that wrote these characters."""
    total, at = 0.0, 0
    for token, logprob in tokens:
        if at < end and at + len(token) > start:
            total += logprob
        at += len(token)
    return exp(min(0.0, total))


def _list(value: object, what: str) -> list[Any]:
    if not isinstance(value, list) or not all(isinstance(one, Mapping) for one in value):
        raise InvalidInputError(
            f"{what} must be a list of objects, got {str(value)[:40]!r}: pass them as the tool wrote them"
        )
    return value


def _of(record: Plain, key: str, what: str) -> str:
    value = record.get(key)
    if not isinstance(value, str):
        raise InvalidInputError(
            f"{what} must have {key}, a string, got {str(value)[:40]!r}: pass it as the tool wrote it"
        )
    return value

"""A spaCy recognizer trained in about a second on made-up sentences, and labeled examples for it."""

import random
from collections.abc import Mapping
from functools import cache
from typing import Any

PEOPLE = ("Ada", "Grace", "Alan", "Edsger", "Barbara", "Donald")
NAMES = ("Lovelace", "Hopper", "Turing", "Dijkstra", "Liskov", "Knuth")
PLACES = ("Oslo", "Paris", "Lima", "Quito", "Bern", "Rome")
IN_THE_DATA = {"PERSON": "PER", "GPE": "LOC"}
SAME = {"PERSON": "PERSON", "GPE": "GPE"}
FILLERS = ("met", "saw", "wrote to", "called", "thanked")


def sentence(rng: random.Random, *, noise: float = 0.0) -> tuple[str, list[tuple[int, int, str]]]:
    """Return a text and its entities; with `noise` some names are words that the recognizer never saw."""
    text, entities = "", []
    for part in rng.sample(("person", "place", "filler", "filler"), 4):
        if text:
            text += " "
        if part == "filler":
            text += rng.choice(FILLERS)
            continue
        words = f"{rng.choice(PEOPLE)} {rng.choice(NAMES)}" if part == "person" else rng.choice(PLACES)
        if rng.random() < noise:
            words = words[::-1].title()
        entities.append((len(text), len(text) + len(words), "PERSON" if part == "person" else "GPE"))
        text += words
    return f"{text} today.", entities


def examples(nlp: Any, n: int, *, seed: int, noise: float = 0.3, types: Mapping[str, str] = IN_THE_DATA) -> list[Any]:
    """Return labeled sentences; `types` says what the data calls the types of the recognizer."""
    from spacy.training import Example

    rng = random.Random(seed)
    found = []
    for text, entities in (sentence(rng, noise=noise) for _ in range(n)):
        gold = [(start, end, types[kind]) for start, end, kind in entities]
        found.append(Example.from_dict(nlp.make_doc(text), {"entities": gold}))
    return found


@cache
def _trained(component: str, transformer: bool) -> tuple[Any, bytes]:
    nlp = _train(component, transformer)
    return nlp.config, nlp.to_bytes()


def trained_pipeline(*, component: str = "ner", transformer: bool = False) -> Any:
    """Return a new pipeline with a small recognizer of PERSON and GPE; it is trained once in a process.

    With `transformer` it listens to a transformer of characters (needs spacy-curated-transformers).
    """
    import spacy

    config, saved = _trained(component, transformer)
    return spacy.blank("en").from_config(config).from_bytes(saved)


def _add_transformer(nlp: Any) -> dict[str, Any]:
    """Add a transformer without a download, and return what a component has in place of layers of its own."""
    from spacy_curated_transformers.pipeline import transformer as training

    # 0.3.1 makes a number of an array with one, in its training only, which the latest numpy refuses.
    training.float = lambda value: float(value.item())  # type: ignore[attr-defined]
    names = "spacy-curated-transformers"
    width = 32
    transformer = nlp.add_pipe(
        "curated_transformer",
        name="transformer",
        config={
            "model": {
                "@architectures": f"{names}.BertTransformer.v1",
                "vocab_size": 130,
                "hidden_width": width,
                "intermediate_width": width,
                "num_attention_heads": 2,
                "num_hidden_layers": 1,
                "hidden_dropout_prob": 0.0,
                "attention_probs_dropout_prob": 0.0,
                "piece_encoder": {"@architectures": f"{names}.CharEncoder.v1"},
                "with_spans": {"@architectures": f"{names}.WithStridedSpans.v1"},
            },
        },
    )
    pieces = ["[CLS]", "[SEP]", "[UNK]", *map(chr, range(1, 127))]
    transformer.model.get_ref("piece_encoder").attrs["vocab"] = {piece: n for n, piece in enumerate(pieces)}
    return {
        "@architectures": f"{names}.LastTransformerLayerListener.v1",
        "width": width,
        "pooling": {"@layers": "reduce_mean.v1"},
    }


def _train(component: str, transformer: bool) -> Any:
    import spacy
    from spacy.training import Example

    spacy.util.fix_random_seed(0)
    nlp = spacy.blank("en")
    layers = {
        "@architectures": "spacy.HashEmbedCNN.v2",
        "pretrained_vectors": None,
        "width": 16,
        "depth": 1,
        "embed_size": 200,
        "window_size": 1,
        "maxout_pieces": 2,
        "subword_features": True,
    }
    if transformer:
        layers = _add_transformer(nlp)
    parser = {
        "@architectures": "spacy.TransitionBasedParser.v2",
        "state_type": "ner",
        "extra_state_tokens": False,
        "hidden_width": 16,
        "maxout_pieces": 2,
        "use_upper": True,
        "tok2vec": layers,
    }
    config = {"model": parser if component == "ner" else {"tok2vec": layers}}
    nlp.add_pipe(component, config=config)
    rng = random.Random(0)
    training = [
        Example.from_dict(nlp.make_doc(text), {"entities": entities, "spans": {"sc": entities}})
        for text, entities in (sentence(rng) for _ in range(120))
    ]
    optimizer = nlp.initialize(lambda: training)
    # A span categorizer on a transformer finds nothing at the higher rate on some processors.
    delicate = transformer and component == "spancat"
    optimizer.learn_rate = 0.005 if delicate else 0.02
    for _ in range(16 if delicate else 8):
        rng.shuffle(training)
        for start in range(0, len(training), 20):
            nlp.update(training[start : start + 20], sgd=optimizer)
    return nlp

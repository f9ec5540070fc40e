"""Frozen layers read a batch once, and what they said is found by the bits of weights and inputs alone."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import MPNetConfig, MPNetForSequenceClassification

from knn_ue.encoding.huggingface import HuggingFaceEncoder
from knn_ue.encoding.options import EncodingOptions
from knn_ue_lab.reproduce.remembered_layers import remembered
from tiny_models import save_tiny_model


class Layer(torch.nn.Module):
    """A layer that counts how often it computes."""

    def __init__(self, seed):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        torch.nn.init.normal_(self.linear.weight, generator=torch.Generator().manual_seed(seed))
        torch.nn.init.zeros_(self.linear.bias)
        self.calls = 0

    def forward(self, states, mask=None, *, scale=1.0):
        self.calls += 1
        return self.linear(states) * scale * (1.0 if mask is None else mask)


class Stack(torch.nn.Module):
    """A model of three layers, as `layer_stack` finds them."""

    def __init__(self, seed=0):
        super().__init__()
        self.layer = torch.nn.ModuleList([Layer(seed + number) for number in range(3)])
        self.config = SimpleNamespace(num_hidden_layers=3)

    @property
    def base_model(self):
        return self

    @property
    def calls(self):
        return [layer.calls for layer in self.layer]

    def forward(self, states, mask=None, scale=1.0):
        with torch.inference_mode():
            for layer in self.layer:
                states = layer(states, mask, scale=scale)
        return states


STATES = torch.arange(8.0).reshape(1, 2, 4)


def asked(model, folder, *inputs, n_layers=2):
    with remembered(model, n_layers=n_layers, folder=folder):
        return model(*inputs)


def test_what_layers_said_before_is_returned_to_the_last_bit(tmp_path):
    first, second = Stack(), Stack()
    expected = Stack()(STATES)

    found = [asked(model, tmp_path, STATES) for model in (first, second)]

    assert all(torch.equal(one, expected) for one in found)
    assert (first.calls, second.calls) == ([1, 1, 1], [0, 0, 1])


@pytest.mark.parametrize(
    "inputs",
    [
        (STATES + 1e-6,),
        (STATES.reshape(2, 1, 4),),
        (STATES.double().float() * 2,),
        (STATES, torch.zeros(1)),
        (STATES, None, 2.0),
    ],
    ids=["values", "shape", "scaled", "mask", "option"],
)
def test_other_inputs_are_never_taken_for_these(tmp_path, inputs):
    asked(Stack(), tmp_path, STATES)
    model = Stack()

    found = asked(model, tmp_path, *inputs)

    assert torch.equal(found, Stack()(*inputs))
    assert model.calls[0] == 1


def test_a_layer_with_other_weights_is_asked_itself(tmp_path):
    asked(Stack(), tmp_path, STATES)
    changed = Stack()
    with torch.no_grad():
        changed.layer[0].linear.bias[0] += 1e-6

    found = asked(changed, tmp_path, STATES)

    assert changed.calls == [1, 1, 1]
    assert not torch.equal(found, Stack()(STATES))


def test_afterwards_the_layers_compute_again(tmp_path):
    model = Stack()
    asked(model, tmp_path, STATES)

    model(STATES)

    assert model.calls == [2, 2, 2]


def test_an_answer_that_was_cut_short_is_computed_again(tmp_path):
    asked(Stack(), tmp_path, STATES)
    for file in tmp_path.iterdir():
        file.write_bytes(file.read_bytes()[:-5])
    model = Stack()

    found = asked(model, tmp_path, STATES)

    assert torch.equal(found, Stack()(STATES))
    assert model.calls == [1, 1, 1]


def test_a_layer_that_returns_a_tuple_returns_one_again(tmp_path):
    class InTuple(Layer):
        def forward(self, states):
            return (super().forward(states),)

    models = []
    for _ in range(2):
        model = Stack()
        model.layer = torch.nn.ModuleList([InTuple(0) for _ in range(3)])
        models.append(model)
        with remembered(model, n_layers=1, folder=tmp_path), torch.inference_mode():
            (found,) = model.layer[0](STATES)

    assert torch.equal(found, Layer(0)(STATES))
    assert [model.layer[0].calls for model in models] == [1, 0]


@pytest.mark.parametrize("family", ["bert", "deberta-v2", "mpnet"])
def test_encoders_give_the_same_outputs_from_what_is_remembered(tmp_path, family):
    encoder = tiny_encoder(tmp_path / "model", family)
    rows = [f"a text with {number} words or so" for number in range(5)]
    expected = encoder.encode(rows)

    for _ in range(2):
        with remembered(encoder.model, n_layers=1, folder=tmp_path / "layers"):
            found = encoder.encode(rows)

    assert list((tmp_path / "layers").iterdir())
    np.testing.assert_array_equal(found.logits, expected.logits)
    np.testing.assert_array_equal(found.features, expected.features)
    np.testing.assert_array_equal(found.views, expected.views)


def tiny_encoder(folder, family):
    """Return an encoder of a family whose layers return states, a tuple of states, or states and None."""
    options = EncodingOptions(all_layers=True, views=True)
    save_tiny_model(folder, family="bert" if family == "mpnet" else family, task="text-classification")
    encoder = HuggingFaceEncoder.from_pretrained(folder, "text", all_layers=True, views=True)
    if family != "mpnet":
        return encoder
    config = MPNetConfig(
        vocab_size=encoder.model.config.vocab_size,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        pad_token_id=encoder.tokenizer.pad_token_id,
    )
    model = MPNetForSequenceClassification(config).eval()
    return HuggingFaceEncoder(model, encoder.tokenizer, "text", options=options)


@pytest.mark.parametrize("mask", [object(), torch.ones(1, dtype=torch.bfloat16)], ids=["an object", "half precision"])
def test_where_the_bits_of_an_input_cannot_be_read_the_layer_computes(tmp_path, mask):
    class Deaf(Layer):
        def forward(self, states, *_, **__):
            return super().forward(states)

    for _ in range(2):
        model = Stack()
        model.layer = torch.nn.ModuleList([Deaf(number) for number in range(3)])

        found = asked(model, tmp_path, STATES, mask)

        assert torch.equal(found, Stack()(STATES))
        assert model.layer[0].calls == 1
    assert not list(tmp_path.iterdir())


def test_several_tensors_in_one_input_are_all_read(tmp_path):
    class Turned(Layer):
        def forward(self, states, turns, **_):
            return super().forward(states) * turns[0] + turns[1]

    def answer(*turns):
        model = Stack()
        model.layer = torch.nn.ModuleList([Turned(number) for number in range(3)])
        return asked(model, tmp_path, STATES, turns)

    first, other = torch.tensor(2.0), torch.tensor(3.0)

    assert torch.equal(answer(first, other), answer(first, other))
    assert not torch.equal(answer(first, other), answer(other, first))

"""Frozen layers read a batch once, and what they said is found by the bits of weights and inputs alone."""

from types import SimpleNamespace

import pytest
import torch

from knn_ue_reproduce.remembered_layers import remembered


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


def test_an_input_whose_bits_are_not_known_is_refused(tmp_path):
    with pytest.raises(TypeError, match="the input 1 of a layer is a list"):
        asked(Stack(), tmp_path, STATES, [1.0])

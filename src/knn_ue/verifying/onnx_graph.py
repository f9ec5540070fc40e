"""Cut an ONNX model at the output of some of its layers, with nothing but the wire format of protocol buffers.

A model is a message whose field 7 is the graph. In a graph, field 1 is a node, 5 a weight, 12 an output; in a node, 1
is the name of an input, 2 of an output, 3 its own name, 4 its operation. What no new output needs is left out.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from knn_ue.errors import InvalidInputError

_GRAPH = 7
_NODE, _WEIGHT, _OUTPUT = 1, 5, 12
_WEIGHT_NAME, _VALUE_NAME = 8, 1
_NODE_INPUT, _NODE_OUTPUT, _NODE_NAME, _NODE_OPERATION = 1, 2, 3, 4
_BYTES = 2
_SIZES = {1: 8, 5: 4}  # wire types of a fixed size
_LAYER = re.compile(r"(?:^|[/._])(?:layers?|blocks?|h)[/._](\d+)(?:[/._]|$)")


@dataclass(frozen=True)
class _Node:
    start: int
    stop: int
    name: str
    operation: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def cut_at_layers(model: bytes, layers: Sequence[int]) -> tuple[bytes, list[str]]:
    """Return a model whose outputs are those of the given layers, counted from 1, and the outputs' names in order."""
    view = memoryview(model)
    try:
        parts = list(_fields(view, 0, len(view)))
        (place,) = [place for number, place in parts if number == _GRAPH]
        fields = list(_fields(view, *place[1:]))
        nodes = [_node(view, *place) for number, place in fields if number == _NODE]
    except (IndexError, ValueError) as error:
        raise InvalidInputError(f"this is no ONNX model ({error}): pass a file model.onnx") from None
    ends = _layer_outputs(nodes)
    if missing := [layer for layer in layers if layer - 1 not in ends]:
        known = f"the layers 1 to {max(ends) + 1}" if ends else "no layers by name"
        raise InvalidInputError(
            f"layer {missing[0]} is not in the ONNX model, which has {known}: pass layers it has, or another export"
        )
    names = [ends[layer - 1] for layer in layers]
    needed, kept_nodes = _needed(nodes, names)
    graph: list[bytes | memoryview] = []
    for number, (start, inner, stop) in fields:
        dropped = (
            number == _OUTPUT
            or (number == _NODE and start not in kept_nodes)
            or (number == _WEIGHT and _text(view, inner, stop, _WEIGHT_NAME) not in needed)
        )
        if not dropped:
            graph.append(view[start:stop])
    graph += [_message(_OUTPUT, _message(_VALUE_NAME, name.encode())) for name in names]
    content = b"".join(graph)
    return b"".join(
        _message(_GRAPH, content) if number == _GRAPH else view[start:stop] for number, (start, _, stop) in parts
    ), names


def _layer_outputs(nodes: Sequence[_Node]) -> dict[int, str]:
    """Return the last value of each layer, counted from 0; nodes are in the order of computation.

    Nodes are of the layer whose weights they take, or, where no weights are named by layer, whose name they have. A
    rounded copy for the next layer is not the state of this one.
    """
    states = [node for node in nodes if node.outputs and "Quantize" not in node.operation]
    by_weights = [(node, name) for node in states for name in node.inputs if not name.startswith("/")]
    for candidates in (by_weights, [(node, node.name) for node in states]):
        ends = {int(found[1]): node.outputs[0] for node, name in candidates if (found := _LAYER.search(name))}
        if ends:
            return ends
    return {}


def _needed(nodes: Sequence[_Node], outputs: Sequence[str]) -> tuple[set[str], set[int]]:
    """Return the names of all values that the outputs need, and where the nodes that make them start."""
    needed, kept = set(outputs), set()
    for node in reversed(nodes):  # in an ONNX graph a node comes after those that it needs
        if needed.intersection(node.outputs):
            needed.update(node.inputs)
            kept.add(node.start)
    return needed, kept


def _node(view: memoryview, start: int, inner: int, stop: int) -> _Node:
    texts: dict[int, list[str]] = {_NODE_INPUT: [], _NODE_OUTPUT: [], _NODE_NAME: [], _NODE_OPERATION: []}
    for number, (_, first, last) in _fields(view, inner, stop):
        if number in texts:
            texts[number].append(bytes(view[first:last]).decode())
    return _Node(
        start=start,
        stop=stop,
        name="".join(texts[_NODE_NAME]),
        operation="".join(texts[_NODE_OPERATION]),
        inputs=tuple(texts[_NODE_INPUT]),
        outputs=tuple(texts[_NODE_OUTPUT]),
    )


def _text(view: memoryview, start: int, stop: int, wanted: int) -> str:
    for number, (_, first, last) in _fields(view, start, stop):
        if number == wanted:
            return bytes(view[first:last]).decode()
    return ""


def _fields(view: memoryview, start: int, stop: int) -> Iterator[tuple[int, tuple[int, int, int]]]:
    """Yield the number of each field and where it, its content, and the next one begin."""
    while start < stop:
        key, content = _varint(view, start)
        number, wire = key >> 3, key & 7
        if wire == _BYTES:
            size, content = _varint(view, content)
            after = content + size
        elif wire == 0:
            _, after = _varint(view, content)
        elif wire in _SIZES:
            after = content + _SIZES[wire]
        else:
            raise ValueError(f"wire type {wire}")
        if after > stop:
            raise ValueError("a field ends beyond the file")
        yield number, (start, content, after)
        start = after


def _varint(view: memoryview, start: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = view[start]
        start += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, start
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _message(number: int, content: bytes) -> bytes:
    return _encoded(number << 3 | _BYTES) + _encoded(len(content)) + content


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])

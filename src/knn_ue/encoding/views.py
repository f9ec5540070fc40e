"""What familiarity looks at: directions of the hidden states in several layers, at the row and over all tokens.

The final layer of a fine-tuned model has forgotten what it did not need; lower layers still tell a film review from a
question about a battery. Both poolings of a few layers come from the one forward pass.
"""

from typing import Any

import numpy as np

from knn_ue.arrays import FloatArray

_LAYERS = 6
_TEXT_WIDTH = 768
_WORD_WIDTH = 64  # every word has its own views, so they must be small


class ViewReader:
    """Reads the views of a model with layers of some width; in tagging they are narrower.

    A view is a unit vector: the hidden state at the row's position, or its mean over the real tokens, of one layer.
    At most six layers are read, evenly spaced up to the final one. What is wider than the limit (64 columns in
    tagging, else 768) is projected by fixed random signs, the same for every model of that width.
    """

    def __init__(self, n_layers: int, width: int, *, tagging: bool) -> None:
        self.layers = view_layers(n_layers)
        limit = _WORD_WIDTH if tagging else _TEXT_WIDTH
        self._signs = random_signs(width, limit) if width > limit else None
        self.shape = 2 * len(self.layers), min(width, limit)

    def read(self, hidden: Any, mask: Any, which: Any, where: Any) -> Any:
        """Return (rows, views, k) float16 from `hidden`, the states (batch, length, width) of every layer.

        Row i stands at position `where[i]` of sequence `which[i]`; `mask` (batch, length) marks the real tokens.
        """
        import torch

        weights = mask[:, :, None].float()
        weights = weights / weights.sum(dim=1, keepdim=True)
        signs = None if self._signs is None else torch.from_numpy(self._signs).to(mask.device)
        views = []
        for number in self.layers:
            states = hidden[number].float()
            mean = (states * weights).sum(dim=1)
            for found in (states[which, where], mean[which]):
                direction = torch.nn.functional.normalize(found, dim=-1)
                views.append(direction if signs is None else direction @ signs)
        return torch.stack(views, dim=1).half()


def view_layers(n_layers: int) -> tuple[int, ...]:
    """Return which of the layers 1 .. n are read, the last among them.

    >>> view_layers(6), view_layers(12), view_layers(2)
    ((1, 2, 3, 4, 5, 6), (2, 4, 6, 8, 10, 12), (1, 2))
    """
    n_read = min(_LAYERS, n_layers)
    return tuple(n_layers * (number + 1) // n_read for number in range(n_read))


def random_signs(width: int, n_columns: int) -> FloatArray:
    """Return (width, n_columns) of +-1 / sqrt(n_columns): lengths are kept on average. Achlioptas (2003).

    Made from the raw stream of the generator, which unlike its distributions never changes with numpy.
    """
    n_bits = width * n_columns
    raw = np.random.PCG64(0).random_raw(-(-n_bits // 64)).astype("<u8")
    bits = np.unpackbits(raw.view(np.uint8), bitorder="little")[:n_bits].reshape(width, n_columns)
    signs: FloatArray = (2.0 * bits - 1.0).astype(np.float32) / np.float32(np.sqrt(n_columns))
    return signs

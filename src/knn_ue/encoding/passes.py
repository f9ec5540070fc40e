"""MC Dropout: the mean answer of several passes with dropout switched on. Gal and Ghahramani (2016)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from knn_ue.encoding.inspection import head_of
from knn_ue.errors import InvalidInputError


def log_mean_probs(model: Any, answer: Callable[[], Any], *, passes: int, seed: int) -> Any:
    """Return the log (n, classes) of the mean over `passes` of softmax(answer()), drawn with `seed`.

    The model leaves as it came, in evaluation mode, and so does the caller's randomness.
    """
    import torch

    with _dropout_active(model, seed):
        first = answer().double()
        total, differ = torch.softmax(first, dim=-1), False
        for _ in range(passes - 1):
            logits = answer().double()
            differ = differ or not torch.equal(logits, first)
            total += torch.softmax(logits, dim=-1)
    if not differ:
        raise InvalidInputError(
            f"{passes} passes with dropout gave the same answer: this model has no dropout above 0; raise the dropout "
            "in its config.json and retrain it, or use another method"
        )
    return torch.log((total / passes).clamp(min=torch.finfo(total.dtype).tiny))


@contextmanager
def _dropout_active(model: Any, seed: int) -> Iterator[None]:
    """Put the whole model in training mode: any dropout obeys it, whatever its class, that of attention too."""
    import torch

    device = next(model.parameters()).device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        model.train()
        if (head := head_of(model)) is not None:
            head.eval()  # its batch statistics would change
        try:
            yield
        finally:
            model.eval()

"""How a model is trained: the plain way, and where a method that trains differently plugs in."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self, get_type_hints

from knn_ue.arrays import IntArray
from knn_ue.errors import InvalidInputError
from knn_ue.tasks import TASKS, Task

_READERS: dict[Any, tuple[Callable[[str], bool | float], str]] = {
    bool: (lambda text: {"true": True, "false": False}[text.lower()], "true or false"),
    int: (int, "a whole number"),
    float: (float, "a number"),
}


@dataclass(frozen=True, kw_only=True)
class TrainingMethod:
    """Cross-entropy on the model as it is; a method that trains differently overrides what differs.

    Its fields are its options. `name` is recorded with the model.
    """

    name: ClassVar[str] = "plain"
    tasks: ClassVar[tuple[Task, ...]] = tuple(TASKS)

    def candidates(self) -> Sequence[Self]:
        """Return the variants to train, of which the one with the best validation score is kept."""
        return (self,)

    def prepare(self, model: Any, *, class_counts: IntArray) -> None:
        """Alter the model, whose last layer is new, before training; `class_counts` are those of the training rows."""

    def loss(self, answers: Any, labels: Any, done: float) -> Any:
        """Return a scalar of the last layer's answers (m, classes) and labels (m,); `done` is the share of training.

        The answers are logits, or what the head attached by `prepare` returns; only labeled rows are passed.
        """
        from torch.nn import functional

        del done
        return functional.cross_entropy(answers, labels)

    def head_rate(self, learning_rate: float) -> float:
        """Return the learning rate of the head that `prepare` attached, where all else learns at `learning_rate`."""
        return learning_rate

    def finish(self, model: Any, head_inputs: Iterator[Any]) -> None:
        """Complete the model, which has its best weights; `head_inputs` are the training rows the head's last layer
        reads, batch by batch, for a method whose `prepare` attached one."""

    def with_options(self, given: Mapping[str, str]) -> Self:
        """Return the method with options given as text, as people type them.

        >>> TrainingMethod().with_options({"bound": "1"})
        Traceback (most recent call last):
        knn_ue.errors.InvalidInputError: plain has no option 'bound': it has none
        """
        names = [field.name for field in fields(self)]
        kinds = get_type_hints(type(self))
        values: dict[str, bool | float] = {}
        for name, text in given.items():
            if name not in names:
                raise InvalidInputError(f"{self.name} has no option {name!r}: it has {', '.join(names) or 'none'}")
            read, wanted = _READERS.get(kinds[name], _READERS[float])
            try:
                values[name] = read(text)
            except (KeyError, ValueError):
                raise InvalidInputError(f"{name} must be {wanted}, got {text!r}") from None
        return replace(self, **values)


def check_above_zero(method: TrainingMethod, *names: str) -> None:
    """Raise unless these options of the method are above 0."""
    for name in names:
        if not getattr(method, name) > 0:
            raise InvalidInputError(f"{name} must be above 0, got {getattr(method, name)}")


PLAIN = TrainingMethod()

"""How a model is fine-tuned: one frozen record, saved beside the model."""

from dataclasses import dataclass
from typing import Literal, Self, get_args

from knn_ue.arrays import check_choice, check_positive
from knn_ue.errors import InvalidInputError

Schedule = Literal["constant", "linear"]
Precision = Literal["float32", "bfloat16"]


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """The paper's settings; `fast()` for a CPU.

    Training stops after `epochs`, after `max_steps`, or when the validation score has not risen for `patience` epochs;
    the best weights are kept. `warmup` is a share of all steps, after which the learning rate stays or falls to zero
    by the `schedule`. `freeze_lower` is the share of the layers, from below, that stay as they are, with the
    embeddings if it is above 0. With `reuse_frozen` those layers run once, without dropout, and every epoch begins with
    what they said: faster, and more memory. With `precision="bfloat16"` products of matrices are computed in half
    precision and weights are kept in full: faster where the processor knows it (torch.autocast). `max_length` is as in
    `EncodingOptions` and becomes the model's own.

    >>> TrainingOptions().learning_rate, TrainingOptions.fast(seed=1).freeze_lower
    (1e-05, 0.5)
    """

    batch_size: int = 32
    learning_rate: float = 1e-5
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    epochs: int = 10
    patience: int = 3
    max_steps: int | None = None
    warmup: float = 0.0
    schedule: Schedule = "constant"
    freeze_lower: float = 0.0
    reuse_frozen: bool = False
    precision: Precision = "float32"
    max_length: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("batch_size", "epochs", "patience"):
            check_positive(getattr(self, name), name)
        for name in ("max_steps", "max_length"):
            if getattr(self, name) is not None:
                check_positive(getattr(self, name), name)
        for name in ("learning_rate", "clip_norm"):
            if not getattr(self, name) > 0:
                raise InvalidInputError(f"{name} must be above 0, got {getattr(self, name)}")
        for name in ("warmup", "freeze_lower"):
            if not 0 <= getattr(self, name) <= 1:
                raise InvalidInputError(f"{name} is a share and must lie within [0, 1], got {getattr(self, name)}")
        if self.weight_decay < 0 or self.seed < 0:
            raise InvalidInputError(
                f"weight_decay and seed must be at least 0, got {self.weight_decay} and {self.seed}"
            )
        if self.reuse_frozen and not 0 < self.freeze_lower < 1:
            raise InvalidInputError(
                f"reuse_frozen needs frozen layers below layers that learn, got freeze_lower={self.freeze_lower}: "
                "freeze some of them, such as 0.5"
            )
        check_choice(self.schedule, "schedule", get_args(Schedule))
        check_choice(self.precision, "precision", get_args(Precision))

    @classmethod
    def fast(cls, *, seed: int = 0, max_steps: int | None = None) -> Self:
        """Return a preset for CPUs: half the layers frozen, a learning rate that makes up for it, short inputs."""
        return cls(
            learning_rate=2e-4,
            epochs=3,
            patience=2,
            warmup=0.1,
            schedule="linear",
            freeze_lower=0.5,
            max_length=128,
            seed=seed,
            max_steps=max_steps,
        )

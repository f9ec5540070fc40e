"""transformers' Trainer, told to do what `TrainingOptions` say and to be quiet about it."""

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from knn_ue.arrays import IntArray
from knn_ue.encoding.forward import Piece, pad_pieces
from knn_ue.encoding.huggingface import HuggingFaceEncoder
from knn_ue.encoding.inputs import Example, class_numbers
from knn_ue.encoding.inspection import head_of
from knn_ue.errors import InvalidInputError
from knn_ue.iob2 import is_tag_set
from knn_ue.tasks import TASKS
from knn_ue.training.best_weights import BestWeights
from knn_ue.training.first_token import first_token_only
from knn_ue.training.frozen import FrozenStates, layer_stack, n_frozen_layers
from knn_ue.training.labels import score_outputs
from knn_ue.training.method import TrainingMethod
from knn_ue.training.options import TrainingOptions
from knn_ue.training.progress import TrainingProgress, TrainingResult

ProgressReport = Callable[[TrainingProgress], None]
_IGNORED = -100
_LOSS_REPORTS = 100
_TRIED = 8  # pieces, to see that a shortcut changes no answer
_SORTED_TOGETHER = 16  # batches; few enough that a batch stays a random draw of its lengths


def train_model(
    encoder: HuggingFaceEncoder,
    examples: Sequence[Example],
    validation: Sequence[Example],
    *,
    options: TrainingOptions,
    method: TrainingMethod,
    folder: Path,
    report: ProgressReport,
    frozen_states: Path | None = None,
) -> TrainingResult:
    """Train the encoder's model on the examples, validate it after each epoch, and leave it with its best weights.

    `folder` is where the Trainer may write; it does not. `frozen_states` is as in `finetune`.
    """
    began = time.monotonic()
    entities = TASKS[encoder.task].is_tagging and is_tag_set(encoder.class_names)
    freeze_lower_layers(encoder.model, options.freeze_lower)
    made = encoder.pieces_of(examples)
    labels = class_numbers(examples, encoder.class_names)
    items = [{"piece": piece, "labels": labels[piece.rows], "number": i} for i, piece in enumerate(made.pieces)]
    frozen = _frozen_states(encoder, made.pieces, options, frozen_states)
    batches = LengthBatches([len(piece) for piece in made.pieces], batch_size=options.batch_size, seed=options.seed)
    best = BestWeights(encoder.model, metric="f1" if entities else "accuracy", patience=options.patience)

    def validate() -> None:
        best.update(score_outputs(encoder.encode(validation), entities=entities))

    around = _unfed if frozen is None else frozen.feeding
    trainer = _make_trainer(encoder, items, batches, options, method, folder, around)
    trainer.add_callback(_make_callback(validate, best, report))
    with _last_layer(encoder, made.pieces):
        trainer.train()
        best.restore()
        method.finish(encoder.model, encoder.forward.head_inputs(made.pieces, around))
    return TrainingResult(
        class_names=encoder.class_names,
        metric=best.metric,
        best=best.best or 0.0,
        history=tuple(best.history),
        n_train=len(examples),
        n_validation=len(validation),
        n_truncated=made.n_truncated,
        n_steps=trainer.state.global_step,
        seconds=round(time.monotonic() - began, 1),
    )


def freeze_lower_layers(model: Any, share: float) -> None:
    """Stop the embeddings and the lowest `share` of the layers from learning; nothing where `share` is 0."""
    if share == 0:
        return
    base = model.base_model
    kept = layer_stack(model).layers[n_frozen_layers(model, share) :]
    for weight in base.parameters():
        weight.requires_grad = False
    for module in [*kept, getattr(base, "pooler", None)]:
        for weight in module.parameters() if module is not None else ():
            weight.requires_grad = True


def _frozen_states(
    encoder: HuggingFaceEncoder, pieces: Sequence[Piece], options: TrainingOptions, kept: Path | None
) -> FrozenStates | None:
    """Return what the frozen layers say of the pieces, None where each epoch asks them again."""
    if not options.reuse_frozen:
        return None
    n_frozen = n_frozen_layers(encoder.model, options.freeze_lower)
    return FrozenStates(encoder.forward, pieces, n_frozen=n_frozen, kept=kept)


def _unfed(_numbers: IntArray) -> AbstractContextManager[None]:
    """Let the model read the pieces themselves."""
    return nullcontext()


def _last_layer(encoder: HuggingFaceEncoder, pieces: Sequence[Piece]) -> AbstractContextManager[object]:
    """Let the last layer compute only what is read of it, where each text is read at its first token."""
    if TASKS[encoder.task].is_tagging or any(piece.positions.any() for piece in pieces):
        return nullcontext()
    return first_token_only(encoder.model, encoder.forward.inputs_of(pieces[:_TRIED]))


class LengthBatches:
    """Random batches of similar length, as positions; every walk is a new shuffle, the same for the same seed.

    >>> batches = LengthBatches([3, 9, 3, 9], batch_size=2, seed=0)
    >>> sorted(sorted(batch) for batch in batches)
    [[0, 2], [1, 3]]
    """

    def __init__(self, lengths: Sequence[int], *, batch_size: int, seed: int) -> None:
        self._lengths = np.asarray(lengths)
        self._batch_size = batch_size
        self._random = np.random.default_rng(seed)

    def __len__(self) -> int:
        return -(-len(self._lengths) // self._batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        order = self._random.permutation(len(self._lengths))
        span = self._batch_size * _SORTED_TOGETHER
        batches: list[list[int]] = []
        for start in range(0, len(order), span):
            part = order[start : start + span]
            part = part[np.argsort(self._lengths[part], kind="stable")]
            batches += [part[i : i + self._batch_size].tolist() for i in range(0, len(part), self._batch_size)]
        for number in self._random.permutation(len(batches)):
            yield batches[number]


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed every source of randomness that training uses, and give the caller's back afterwards."""
    import torch

    before = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002 (the Trainer uses it)
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        torch.set_rng_state(before[2])


def _make_trainer(
    encoder: HuggingFaceEncoder,
    items: list[dict[str, Any]],
    batches: LengthBatches,
    options: TrainingOptions,
    method: TrainingMethod,
    folder: Path,
    around: Callable[[IntArray], AbstractContextManager[None]],
) -> Any:
    import torch
    from transformers import PrinterCallback, Trainer

    padding = encoder.forward.padding
    accepted = encoder.forward.accepted_inputs
    head = head_of(encoder.model)

    def collate(chosen: list[dict[str, Any]]) -> dict[str, Any]:
        padded = pad_pieces([item["piece"] for item in chosen], padding)
        inputs = {name: values for name, values in padded.items() if name in accepted}
        inputs["labels"] = _label_array(chosen, padded["input_ids"].shape, TASKS[encoder.task].is_tagging)
        inputs["numbers"] = np.array([item["number"] for item in chosen])
        return {name: torch.from_numpy(values) for name, values in inputs.items()}

    class LengthTrainer(Trainer):  # type: ignore[misc]
        def get_train_dataloader(self) -> Any:
            loader = torch.utils.data.DataLoader(items, batch_sampler=batches, collate_fn=collate)
            return self.accelerator.prepare(loader)

        def create_optimizer(self, *arguments: Any) -> Any:
            optimizer = super().create_optimizer(*arguments)
            if head is not None:
                _set_rate(optimizer, set(head.parameters()), method.head_rate(options.learning_rate))
            return optimizer

        def compute_loss(self, model: Any, inputs: dict[str, Any], *_: Any, **__: Any) -> Any:
            labels, numbers = inputs.pop("labels"), inputs.pop("numbers")
            known = labels != _IGNORED
            with around(numbers.cpu().numpy()):
                answers = model(**inputs).logits[known]
            if head is not None:
                answers = head(head.hidden(answers))
            value = method.loss(answers, labels[known], self.state.global_step / self.state.max_steps)
            if not torch.isfinite(value):
                raise InvalidInputError(
                    f"the training loss became {value.item()} at step {self.state.global_step + 1}: "
                    f"lower learning_rate={options.learning_rate}"
                )
            return value

    arguments = _training_arguments(options, len(batches), folder, on_cpu=encoder.model.device.type == "cpu")
    trainer = LengthTrainer(model=encoder.model, args=arguments, train_dataset=items, data_collator=collate)
    trainer.remove_callback(PrinterCallback)
    return trainer


def _set_rate(optimizer: Any, parameters: set[Any], rate: float) -> None:
    """Give these parameters a learning rate of their own; schedules multiply it as they do the other one."""
    for group in list(optimizer.param_groups):
        chosen = [weight for weight in group["params"] if weight in parameters]
        if chosen:
            group["params"] = [weight for weight in group["params"] if weight not in parameters]
            optimizer.add_param_group({**group, "params": chosen, "lr": rate})


def _training_arguments(options: TrainingOptions, n_batches: int, folder: Path, *, on_cpu: bool) -> Any:
    from transformers import TrainingArguments

    total = min(options.epochs * n_batches, options.max_steps or math.inf)
    return TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=options.batch_size,
        learning_rate=options.learning_rate,
        weight_decay=options.weight_decay,
        max_grad_norm=options.clip_norm,
        max_steps=int(total),
        warmup_steps=round(options.warmup * total),
        lr_scheduler_type="constant_with_warmup" if options.schedule == "constant" else "linear",
        optim="adamw_torch",
        seed=options.seed,
        use_cpu=on_cpu,
        bf16=options.precision == "bfloat16",
        logging_steps=max(1, int(total) // _LOSS_REPORTS),
        save_strategy="no",
        eval_strategy="no",
        report_to="none",
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
    )


def _label_array(chosen: Sequence[dict[str, Any]], shape: tuple[int, ...], tagging: bool) -> IntArray:
    if not tagging:
        return np.concatenate([item["labels"] for item in chosen])
    labels = np.full(shape, _IGNORED, dtype=np.int64)  # only the first sub-word of each word is learned from
    for row, item in enumerate(chosen):
        piece: Piece = item["piece"]
        labels[row, piece.positions] = item["labels"]
    return labels


def _make_callback(validate: Callable[[], None], best: BestWeights, report: ProgressReport) -> Any:
    from transformers import TrainerCallback

    class Watch(TrainerCallback):  # type: ignore[misc]
        loss: float | None = None

        def on_log(self, _args: Any, _state: Any, _control: Any, logs: dict[str, float], **_: Any) -> None:
            self.loss = logs.get("loss", self.loss)

        def on_step_end(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
            self._report(state)

        def on_epoch_end(self, _args: Any, state: Any, control: Any, **_: Any) -> None:
            validate()
            self._report(state, best.history[-1])
            control.should_training_stop = control.should_training_stop or best.is_over

        def _report(self, state: Any, scores: Any = None) -> None:
            report(
                TrainingProgress(
                    step=state.global_step,
                    total_steps=state.max_steps,
                    epoch=float(state.epoch or 0.0),
                    loss=self.loss,
                    scores=scores,
                    best=best.best,
                )
            )

    return Watch()

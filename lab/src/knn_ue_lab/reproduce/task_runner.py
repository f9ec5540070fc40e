"""Models and outputs of one setup, made when first needed and kept: one model serves all post-hoc methods."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knn_ue.data import Row
from knn_ue.demo.cache import key_of, key_of_folder, key_of_rows, load_outputs, save_outputs
from knn_ue.errors import StorageError
from knn_ue.training import TrainingOptions
from knn_ue.training.folder import read_record
from knn_ue.training.frozen import n_frozen_layers
from knn_ue.training.method import TrainingMethod
from knn_ue.training.options import Precision
from knn_ue.types import Outputs
from knn_ue_lab.reproduce.cells import REVISION, CellName, CellStore, Content
from knn_ue_lab.reproduce.remembered_layers import remembered
from knn_ue_lab.reproduce.scales import Scale
from knn_ue_lab.reproduce.setups import Setup
from knn_ue_lab.reproduce.task_data import SetRows, TaskData
from knn_ue_lab.reproduce.variants import PASSES, MethodVariant
from knn_ue_lab.training.label_smoothing import LabelSmoothing

if TYPE_CHECKING:
    from knn_ue.encoding.huggingface import HuggingFaceEncoder

Report = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class TaskRunner:
    """One setup at one scale, its rows, its encoder (a folder or a hub name) and where results are kept.

    `encoder_name` is what people call the encoder.
    """

    setup: Setup
    scale: Scale
    store: CellStore
    encoder: str | Path
    report: Report = lambda _line: None
    device: str = "auto"
    encoder_name: str = ""

    @cached_property
    def data(self) -> TaskData:
        """The rows."""
        return TaskData(self.setup, self.scale)

    @cached_property
    def encoder_key(self) -> str:
        """What the encoder is: the content of its folder, or its name on the hub."""
        folder = Path(self.encoder)
        return key_of_folder(folder) if folder.is_dir() else str(self.encoder)

    @property
    def precision(self) -> Precision:
        """What the scale trains in, where the processor has it."""
        return self.scale.options[self.setup.name].precision

    def training_options(self, seed: int) -> TrainingOptions:
        """Return how models of this seed are trained."""
        return replace(self.scale.options[self.setup.name], seed=seed)

    def training_of(self, variant: MethodVariant) -> TrainingMethod:
        """Return how the model of a method is trained; epsilon of label smoothing is chosen with the first seed."""
        training = variant.training()
        if isinstance(training, LabelSmoothing):
            return LabelSmoothing(epsilon=self.chosen_epsilon())
        return training

    def chosen_epsilon(self) -> float:
        """Return the epsilon with the best validation score of the first seed, the smaller of equals."""
        scores = {
            epsilon: self.model_cell(LabelSmoothing(epsilon=epsilon), 0)["score"] for epsilon in self.scale.epsilons
        }
        return max(scores, key=lambda epsilon: (scores[epsilon], -epsilon))

    def model_name(self, training: TrainingMethod, seed: int) -> CellName:
        """Return the name of the cell of a trained model."""
        options = {key: value for key, value in asdict(training).items() if value is not None}
        what = "-".join(["model", training.name, *(f"{name}{value}" for name, value in options.items())])
        if not isinstance(training, LabelSmoothing):
            what = f"model-{training.name}"
        key = key_of(
            REVISION,
            self.encoder_key,
            self.data.train_key,
            self.setup.task,
            training.name,
            asdict(training),
            _named_in_keys(self.training_options(seed)),
            self.scale.threads,
        )
        return CellName(self.setup.name, f"{what}.seed{seed}", key)

    def model_cell(self, training: TrainingMethod, seed: int) -> Content:
        """Return how the training went, now or before; the model itself may be on another machine."""
        name = self.model_name(training, seed)
        return self.store.read(name) or self._train(name, training, seed)

    def model(self, training: TrainingMethod, seed: int) -> Path:
        """Return the folder of a trained model, trained now if it is not here."""
        name = self.model_name(training, seed)
        if not self._trained(name):
            self._train(name, training, seed)
        return self._model_folder(name)

    def loaded(self, training: TrainingMethod, seed: int, **options: Any) -> "HuggingFaceEncoder":
        """Return the trained model, ready to encode with `options`; without any the first token, as in the paper."""
        from knn_ue.encoding.huggingface import HuggingFaceEncoder

        return HuggingFaceEncoder.from_pretrained(
            self.model(training, seed), self.setup.task, device=self.device, **{"pooling": "cls", **options}
        )

    def outputs(self, variant: MethodVariant, seed: int, part: str) -> Outputs:
        """Return what the method's model says of "train", "fitting" or a test set, encoded now or before.

        Methods that share a model and what is taken of it share the outputs; mc-dropout sees the first rows only.
        """
        training = self.training_of(variant)
        rows, labeled = self.rows_of(part)
        if variant.method == PASSES:
            rows = rows[: self.scale.passes_rows]
        options = self.encoding_of(variant)
        name = self.model_name(training, seed)
        key = key_of(name.key, options, key_of_rows(rows), labeled)
        path = self.store.work / "outputs" / f"{self.setup.name}-{training.name}-{seed}-{part.replace(' ', '_')}-{key}"
        with self.store.reserved(key, wait=True):
            try:
                return load_outputs(path)
            except StorageError:
                began = time.perf_counter()
                encoder = self.loaded(training, seed, **options)
                with self.fixed_threads(), self._remembering(encoder):
                    made = encoder.encode(rows, with_labels=labeled)
                made = replace(made, texts=None)
                save_outputs(path, made)
                self.report(f"  encoded {part} with {name.what} in {time.perf_counter() - began:.0f} s")
                return made

    def sets_of(self, variant: MethodVariant) -> dict[str, SetRows]:
        """Return the sets a method is scored on: variants of a search on the two that tables compare them on."""
        chosen = self.setup.searched if variant.varies_search else self.setup.sets
        return {one.name: self.data.sets[one.name] for one in chosen}

    def rows_of(self, part: str) -> tuple[list[Row], bool]:
        """Return the rows of a part, and whether the model knows their labels."""
        if part == "train":
            return self.data.train, True
        if part == "fitting":
            return self.data.fitting, True
        found = self.data.sets[part]
        return found.rows, found.labeled

    def encoding_of(self, variant: MethodVariant, *, shared: bool = True) -> dict[str, Any]:
        """Return what is taken of the model; all layers of a plain one where its methods share a pass."""
        needed = {} if variant.detects else dict(variant.registered.encoding)
        if shared and self.scale.shared_layers and variant.training is TrainingMethod and variant.method != PASSES:
            needed["all_layers"] = True
            if self.scale.views:
                needed["views"] = True
        return needed

    @contextmanager
    def fixed_threads(self) -> Iterator[None]:
        """Let torch use the threads of the scale: sums in another order would be other numbers."""
        if self.scale.threads is None:
            yield
            return
        import torch

        before = torch.get_num_threads()
        torch.set_num_threads(self.scale.threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def _remembering(self, encoder: "HuggingFaceEncoder") -> AbstractContextManager[None]:
        """Let frozen layers read each batch once, for all seeds and methods; one with dropout computes them itself."""
        options = self.training_options(0)
        if not options.reuse_frozen or encoder.options.passes > 1 or encoder.model.device.type != "cpu":
            return nullcontext()
        n_layers = n_frozen_layers(encoder.model, options.freeze_lower)
        return remembered(encoder.model, n_layers=n_layers, folder=self.store.work / "layers" / self.setup.name)

    def _train(self, name: CellName, training: TrainingMethod, seed: int) -> Content:
        from knn_ue.training.finetune import finetune

        with self.store.reserved(name.key, wait=True):
            if not self._trained(name):
                self.report(f"  training {name.what} on {len(self.data.train)} rows")
                with self.fixed_threads():
                    finetune(
                        self.data.train,
                        self.data.stopping,
                        task=self.setup.task,
                        encoder=self.encoder,
                        out=self._model_folder(name),
                        options=replace(self.training_options(seed), precision=self._precision(name)),
                        method=training,
                        overwrite=True,
                        device=self.device,
                        frozen_states=self._frozen_states(),
                    )
            record = read_record(self._model_folder(name)) or {}
            result = record["result"]
            content = {
                "kind": "model",
                "training": training.name,
                "training_options": asdict(training),
                "seed": seed,
                "score": result["best"],
                "metric": result["metric"],
                "history": result["history"],
                "n_train": result["n_train"],
                "n_validation": result["n_validation"],
                "n_truncated": result["n_truncated"],
                "n_steps": result["n_steps"],
                "seconds": result["seconds"],
                "precision": record["options"]["precision"],
                "versions": record["versions"],
            }
            return self.store.write(name, content)

    def _precision(self, name: CellName) -> Precision:
        """Return what to train in: float32 where the processor only imitates the bfloat16 of the scale, and is slow.

        It is no part of a key, as the processor is none: models of one seed differ far less than those of two, and the
        cell names it. A model of which a cell tells that it was trained in float32 is trained in it again: other
        methods have read their answers off it.
        """
        import torch

        from knn_ue.encoding.loading import find_device

        wanted = self.precision
        before = self.store.read(name) or {}
        if "float32" in (wanted, before.get("precision")):
            return "float32"
        if find_device(self.device).type != "cpu":
            return wanted
        known = torch.cpu.get_capabilities()
        return wanted if known.get("avx512_bf16") or known.get("amx_bf16") or known.get("bf16") else "float32"

    def _frozen_states(self) -> Path:
        """Return where the states of the frozen layers are kept: seeds and most methods begin with the same."""
        options = self.training_options(0)
        key = key_of(self.encoder_key, key_of_rows(self.data.train), options.max_length, options.freeze_lower)
        return self.store.work / "frozen" / f"{self.setup.name}-{key}"

    def _trained(self, name: CellName) -> bool:
        return read_record(self._model_folder(name)) is not None

    def _model_folder(self, name: CellName) -> Path:
        return self.store.work / "models" / f"{name.setup}-{name.what}-{name.key}"


def _named_in_keys(options: TrainingOptions) -> dict[str, Any]:
    """Return the options that a model's key holds; those that came later and are off leave older keys as they were."""
    off = {"reuse_frozen": False, "precision": "float32"}
    return {name: value for name, value in asdict(options).items() if name not in off or value != off[name]}

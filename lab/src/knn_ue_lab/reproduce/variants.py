"""What is measured: a method, and how it searches for neighbors where it does."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from knn_ue.data import Task
from knn_ue.methods import METHODS, Method, Search
from knn_ue.stores import IndexOptions
from knn_ue.tasks import TASKS
from knn_ue.training.method import TrainingMethod
from knn_ue_lab.detection import DETECTORS

PASSES = "mc-dropout"
ENTITY_PLATT = "platt-entity"  # a method of these experiments only: the softmax, and `EntityPlatt` on top
EXACT = IndexOptions()
N_NEIGHBORS = 32

# The names the paper gives to our methods, in its order; the rest are ours.
PAPER_NAMES: Mapping[str, str] = {
    "softmax": "SR",
    "temperature": "TS",
    "label-smoothing": "LS",
    "mc-dropout": "MC Dropout",
    "sngp": "SNGP",
    "posterior": "PN",
    "mdsn": "MDSN",
    "e-ner": "E-NER",
    "density-softmax": "Density Softmax",
    "dac": "DAC",
    "knn-ue-no-label": "kNN-UE (w/o label)",
    "knn-ue": "kNN-UE",
}
# Methods of others that came after the paper; their times have a table of their own.
RIVALS = ("vector-scaling", "matrix-scaling", "isotonic", "procal", "nuq", "sdm", ENTITY_PLATT)


@dataclass(frozen=True, kw_only=True)
class MethodVariant:
    """A method with the number of neighbors and the index it searches with.

    >>> str(MethodVariant(method="knn-ue", n_neighbors=8)), str(MethodVariant(method="softmax"))
    ('knn-ue-k8', 'softmax')
    """

    method: str
    n_neighbors: int = N_NEIGHBORS
    index: IndexOptions = EXACT

    def __str__(self) -> str:
        parts = [self.method]
        if self.n_neighbors != N_NEIGHBORS:
            parts.append(f"k{self.n_neighbors}")
        if self.index != EXACT:
            parts.append(index_name(self.index))
        return "-".join(parts)

    @property
    def search(self) -> Search:
        """How the registry makes the calibrator."""
        return Search(n_neighbors=self.n_neighbors, index=self.index)

    @property
    def training(self) -> type[TrainingMethod]:
        """How the model of the method is trained."""
        return TrainingMethod if self.detects else self.registered.training

    @property
    def registered(self) -> Method:
        """The row of the registry that gives the probabilities of its rows, or words."""
        return METHODS["softmax" if self.method == ENTITY_PLATT else self.method]

    @property
    def detects(self) -> bool:
        """Whether it is a detector of the plain model's outputs, no method with probabilities."""
        return self.method in DETECTORS

    @property
    def varies_search(self) -> bool:
        """Whether it is a variant of a method that differs in how it searches alone."""
        return self.n_neighbors != N_NEIGHBORS or self.index != EXACT

    @property
    def trains(self) -> bool:
        """Whether it trains a model of its own."""
        return self.training is not TrainingMethod

    @property
    def is_post_hoc(self) -> bool:
        """Whether it reads one pass of the plain model, with the usual search."""
        return not self.trains and self.method != PASSES and not self.varies_search

    def options(self) -> dict[str, Any]:
        """Return all that determines the method, as plain JSON."""
        return asdict(self)


def index_name(index: IndexOptions) -> str:
    """Return a short name of an index, fit for a file.

    >>> index_name(IndexOptions(factory="IVF100,PQ32x5", n_probe=8, recompute=False))
    'IVF100+PQ32x5-p8-approx'
    """
    name = index.factory.replace(",", "+")
    name += f"-p{index.n_probe}" if "IVF" in index.factory else ""
    name += f"-r{index.refine_factor}" if index.refine_factor > 1 else ""
    return name if index.recompute else f"{name}-approx"


_READ_TEXTS = ("verdict", "span-verdict")


def methods_of(task: Task) -> list[str]:
    """Return the methods that can do the task, in the paper's order, ours last; the cells keep no texts to read."""
    ordered = [*PAPER_NAMES, *(name for name in METHODS if name not in PAPER_NAMES)]
    known = [name for name in ordered if task in METHODS[name].tasks and name not in _READ_TEXTS]
    return [*known, ENTITY_PLATT] if TASKS[task].is_tagging else known

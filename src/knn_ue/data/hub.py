"""Data sets of the Hugging Face hub through the `datasets` library -> rows."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

from knn_ue.arrays import check_choice
from knn_ue.data.datasets import Unlabeled, rows_of
from knn_ue.data.lines import shorten
from knn_ue.data.reading import Reading
from knn_ue.data.rows import Row
from knn_ue.errors import InvalidInputError, require
from knn_ue.hub_access import cache_only_if_unreachable

# What the hub allows in names; in a config also what is in use there. Never a path: "..", "~", "C:".
_NAME = re.compile(r"\w[\w.+-]*")


@dataclass(frozen=True)
class HubName:
    """What `owner/name:split` or `owner/name/config:split` names."""

    dataset: str
    config: str | None
    split: str

    @classmethod
    def parse(cls, text: str) -> "HubName":
        """Read the part of a source after "hub:".

        >>> HubName.parse("nyu-mll/glue/mnli:validation_matched")
        HubName(dataset='nyu-mll/glue', config='mnli', split='validation_matched')
        """
        path, _, split = text.partition(":")
        parts = path.split("/")
        if not split or len(parts) not in (2, 3) or not all(map(_NAME.fullmatch, parts)):
            raise InvalidInputError(
                "a hub source must be hub:owner/name:split or hub:owner/name/config:split, "
                f"got {shorten('hub:' + text)}"
            )
        return cls("/".join(parts[:2]), parts[2] if len(parts) == 3 else None, split)

    def __str__(self) -> str:
        path = self.dataset if self.config is None else f"{self.dataset}/{self.config}"
        return f"hub:{path}:{self.split}"


def read_hub(name: HubName, reading: Reading, *, unlabeled: Unlabeled = "refuse") -> Iterator[Row]:
    """Yield the rows of one split; class numbers become their names.

    A row without a label (None or -1) is an error, or left out with `unlabeled="drop"`.
    """
    check_choice(unlabeled, "unlabeled", get_args(Unlabeled))
    return rows_of(load_split(name), str(name), reading, unlabeled=unlabeled)


def load_split(name: HubName) -> Any:
    """Return the `datasets.Dataset` of one split, memory-mapped from the library's own cache."""
    require("datasets", extra="hf", purpose=str(name))
    import datasets

    try:
        with cache_only_if_unreachable():
            return datasets.load_dataset(name.dataset, name.config, split=name.split)
    except Exception as error:  # the library raises anything from ValueError to errors of its HTTP client
        reason = re.sub(r"\w+://\S+", "...", str(error).strip().split("\n")[0])[:200]
        raise InvalidInputError(
            f"{name} cannot be loaded ({type(error).__name__}: {reason}): check owner, name, config and split, "
            "and that the hub can be reached or the set is in the cache of the datasets library"
        ) from None

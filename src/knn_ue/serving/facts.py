"""What the server says of itself, as OpenAPI shows it."""

from typing import Literal

from pydantic import BaseModel, Field

from knn_ue.tasks import Task


class Alive(BaseModel):
    """The process answers."""

    status: Literal["alive"]


class Ready(BaseModel):
    """Requests are welcome."""

    status: Literal["ready"]
    generation: str


class Limits(BaseModel):
    """What one request may hold, and how many inputs may wait, for how many seconds."""

    max_items: int
    max_characters: int
    max_request_characters: int
    max_body_bytes: int
    max_queue: int
    max_wait: float


class Info(BaseModel):
    """The model, the method, the datastore and the limits; null is what this method does not have."""

    library: str
    folder: str
    generation: str
    loaded_at: float = Field(description="Seconds since 1970.")
    task: Task
    method: str
    labels: list[str]
    n_stored: int | None
    n_neighbors: int | None
    n_validation: int
    max_length: int | None = Field(description="Tokens; what is longer is cut.")
    threshold: float | None
    promise: str | None = Field(description="What the threshold keeps, in words.")
    note: str | None = Field(description="What this method cannot show, in words.")
    samples: list[str] | list[list[str]] = Field(description="Inputs to try.")
    read_only: bool
    limits: Limits
    reload_error: str | None = Field(description="Why the folder on disk did not take over.")

"""Tiny models of every task, one thread a process, and pipelines fitted on them."""

import pytest

from pipelines import PAIR, TEXT, WORDS, fit
from tiny_models import TASKS, one_thread, save_tiny_model

__all__ = ["one_thread"]


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Model folders by task: BERT for texts and words, RoBERTa for pairs; they must not be written to."""
    folder = tmp_path_factory.mktemp("models")
    families = {TEXT: "bert", PAIR: "roberta", WORDS: "bert"}
    return {task: save_tiny_model(folder / task, family=families[task], task=task) for task in TASKS}


@pytest.fixture(scope="session")
def fitted(models):
    """Pipelines by task, fitted by kNN-UE; tests that refit or save in place make their own."""
    return {task: fit(models[task], task) for task in TASKS}

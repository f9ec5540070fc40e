"""The queue: batches form while the model is busy, and nobody waits, or holds a place, without end."""

import asyncio
import threading
import time

import pytest

from knn_ue.serving.problems import ProblemError
from knn_ue.serving.work.batcher import Batcher


class Model:
    """Doubles numbers, one batch at a time, and waits at a gate if it is closed."""

    def __init__(self):
        self.batches = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()

    def __call__(self, works):
        self.entered.set()
        assert self.gate.wait(300)
        self.batches.append(list(works))
        if "bad" in works:
            raise ValueError("a bad one")
        return [2 * work for work in works]


def run(scenario, model=None, **options):
    """Run a scenario(batcher, model) in an event loop of its own."""
    model = model or Model()
    options = {"batch_items": 8, "batch_wait": 0.0, "max_queue": 16, "max_wait": 30.0} | options

    async def play():
        batcher = Batcher(model, **options)
        batcher.start()
        try:
            return await asyncio.wait_for(scenario(batcher, model), 30)
        finally:
            model.gate.set()
            await batcher.stop()

    return asyncio.run(play())


async def until(condition):
    for _ in range(3000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never came true")


async def closed(batcher, model):
    """Close the gate and let one work wait behind it, so that all others gather in the queue."""
    model.gate.clear()
    model.entered.clear()
    first = asyncio.ensure_future(batcher.submit(0, 1))
    await until(model.entered.is_set)
    return first


def test_everyone_gets_the_answer_to_their_own_question():
    async def scenario(batcher, model):
        return await asyncio.gather(*(batcher.submit(number, 1) for number in range(16)))

    assert run(scenario) == [2 * number for number in range(16)]


def test_what_comes_while_the_model_is_busy_goes_through_it_together():
    async def scenario(batcher, model):
        first = await closed(batcher, model)
        others = [asyncio.ensure_future(batcher.submit(number, 1)) for number in range(1, 12)]
        await until(lambda: batcher.n_waiting == 11)
        model.gate.set()
        await asyncio.gather(first, *others)
        return model.batches

    assert run(scenario) == [[0], list(range(1, 9)), [9, 10, 11]]


def test_the_first_waits_a_little_for_company():
    async def scenario(batcher, model):
        first = asyncio.ensure_future(batcher.submit(1, 1))
        await asyncio.sleep(0.05)
        await asyncio.gather(first, batcher.submit(2, 1))
        return model.batches

    assert run(scenario, batch_wait=0.5) == [[1, 2]]
    assert run(scenario, batch_wait=0.0) == [[1], [2]]


def test_a_full_queue_refuses_at_once_and_says_when_to_come_again():
    async def scenario(batcher, model):
        first = await closed(batcher, model)
        others = [asyncio.ensure_future(batcher.submit(number, 4)) for number in range(4)]
        await until(lambda: batcher.n_waiting == 16)
        assert batcher.is_full
        begun = time.monotonic()
        with pytest.raises(ProblemError) as refused:
            await batcher.submit(9, 1)
        model.gate.set()
        await asyncio.gather(first, *others)
        return refused.value, time.monotonic() - begun

    problem, seconds = run(scenario)

    assert (problem.status, problem.code) == (503, "queue_full")
    assert problem.retry_after >= 1 and seconds < 5


def test_a_client_that_goes_away_frees_its_place_and_is_not_computed():
    async def scenario(batcher, model):
        first = await closed(batcher, model)
        gone = asyncio.ensure_future(batcher.submit("gone", 16))
        await until(lambda: batcher.is_full)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        assert batcher.n_waiting == 0
        other = asyncio.ensure_future(batcher.submit(7, 16))
        await until(lambda: batcher.n_waiting == 16)
        model.gate.set()
        await asyncio.gather(first, other)
        return model.batches

    assert run(scenario) == [[0], [7]]


def test_a_client_that_goes_away_while_it_is_computed_disturbs_nobody():
    async def scenario(batcher, model):
        first = await closed(batcher, model)
        first.cancel()
        model.gate.set()
        return await batcher.submit(5, 1)

    assert run(scenario) == 10


def test_nobody_waits_longer_than_the_limit():
    async def scenario(batcher, model):
        first = await closed(batcher, model)
        with pytest.raises(ProblemError) as refused:
            await batcher.submit(1, 1)
        model.gate.set()
        return refused.value, await first, batcher.n_waiting

    problem, first, n_waiting = run(scenario, max_wait=0.2)

    assert (problem.status, problem.code) == (503, "waited_too_long")
    assert (first, n_waiting) == (0, 0)  # what the model had begun is finished, however long it takes


def test_one_bad_work_fails_alone():
    async def scenario(batcher, model):
        first = await closed(batcher, model)
        works = [asyncio.ensure_future(batcher.submit(work, 1)) for work in (1, "bad", 3)]
        await until(lambda: batcher.n_waiting == 3)
        model.gate.set()
        await first
        return await asyncio.gather(*works, return_exceptions=True)

    good, bad, other = run(scenario)

    assert (good, other) == (2, 6)
    assert isinstance(bad, ValueError)


class Panic(BaseException):
    """What tokenizers written in Rust raise."""


@pytest.mark.parametrize("kind", [Panic, SystemExit, KeyboardInterrupt, GeneratorExit])
def test_whatever_one_work_raises_the_others_are_answered_and_so_are_later_ones(kind):
    class Panicking(Model):
        def __call__(self, works):
            if "bad" in works:
                raise kind("a bad one")
            return super().__call__(works)

    async def scenario(batcher, model):
        works = [asyncio.ensure_future(batcher.submit(work, 1)) for work in (1, "bad", 3)]
        return await asyncio.gather(*works, return_exceptions=True), await batcher.submit(4, 1), batcher.has_ended

    (good, bad, other), later, has_ended = run(scenario, Panicking())

    assert (good, other, later, has_ended) == (2, 6, 8, False)
    assert isinstance(bad, RuntimeError) and kind.__name__ in str(bad)


def test_a_model_that_forgets_a_work_answers_no_work_with_the_result_of_another():
    class Forgetful(Model):
        def __call__(self, works):
            return super().__call__(works)[1:] if len(works) > 1 else super().__call__(works)

    async def scenario(batcher, model):
        return await asyncio.gather(*(batcher.submit(number, 1) for number in range(4)))

    assert run(scenario, Forgetful()) == [0, 2, 4, 6]


def test_a_queue_that_ended_says_so_at_once():
    async def scenario(batcher, model):
        batcher._worker.cancel()
        await asyncio.gather(batcher._worker, return_exceptions=True)
        with pytest.raises(ProblemError) as refused:
            await batcher.submit(1, 1)
        return refused.value.status, batcher.has_ended

    assert run(scenario) == (503, True)


def test_stopping_finishes_what_is_in_the_model_and_turns_the_others_away():
    async def scenario(batcher, model):
        first = await closed(batcher, model)
        waiting = asyncio.ensure_future(batcher.submit(1, 1))
        await until(lambda: batcher.n_waiting == 1)
        stopping = asyncio.ensure_future(batcher.stop())
        await asyncio.sleep(0.05)
        model.gate.set()
        await stopping
        results = await asyncio.gather(first, waiting, batcher.submit(2, 1), return_exceptions=True)
        return results, model.batches

    (first, waiting, late), batches = run(scenario)

    assert first == 0 and batches == [[0]]
    assert [error.code for error in (waiting, late)] == ["stopping", "stopping"]


def test_a_request_longer_than_a_batch_is_run_alone():
    async def scenario(batcher, model):
        first = await closed(batcher, model)
        works = [asyncio.ensure_future(batcher.submit(number, size)) for number, size in ((1, 1), (2, 12), (3, 1))]
        await until(lambda: batcher.n_waiting == 14)
        model.gate.set()
        await asyncio.gather(first, *works)
        return model.batches

    assert run(scenario) == [[0], [1], [2], [3]]

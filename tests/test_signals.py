"""A stop ends the block it arrives in, even where compiled code throws the exception away."""

import os
import signal
import time

import pytest

from knn_ue.cli.terminal import Terminated, stops_raise


def swallow(sent: signal.Signals) -> None:
    """Lose the exception of a signal, as numpy does where it looks into a list."""
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), sent)
        time.sleep(5)


@pytest.fixture(autouse=True)
def answers_to_ctrl_c():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("sent", "kind"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)])
def test_a_stop_that_was_thrown_away_comes_again(sent, kind):
    with pytest.raises(KeyboardInterrupt) as raised, stops_raise():
        swallow(sent)
        until = time.monotonic() + 60
        while time.monotonic() < until:
            time.sleep(0.01)

    assert type(raised.value) is kind


def test_what_cleans_up_after_a_stop_may_take_its_time():
    cleaned = []

    with pytest.raises(KeyboardInterrupt), stops_raise():
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        finally:
            time.sleep(1.0)
            cleaned.append(True)

    assert cleaned == [True]


def test_no_stop_comes_after_the_block():
    with pytest.raises(KeyboardInterrupt), stops_raise():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)

    time.sleep(0.7)


def test_a_ctrl_c_the_process_ignores_stays_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    with stops_raise():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)


def test_the_handlers_are_those_of_before():
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    before = [signal.getsignal(number) for number in numbers]

    with stops_raise():
        assert [signal.getsignal(number) for number in numbers] != before

    assert [signal.getsignal(number) for number in numbers] == before

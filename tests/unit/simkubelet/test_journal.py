"""History, waiting and telling of the simulated kubelet."""

import threading

import pytest

from deviceplugin.simulation.kubelet.changes import Change, ChangeKind, Journal


def _note(journal: Journal, detail: str) -> None:
    with journal.changing():
        journal.note(Change(kind=ChangeKind.LIST, detail=detail))


def test_bounded() -> None:
    """Only the last changes are kept."""
    journal = Journal(None, keep=2)
    for number in range(5):
        _note(journal, str(number))
    assert [change.detail for change in journal.changes] == ["3", "4"]


def test_wait_wakes_on_change() -> None:
    """A waiter sees a change made by another thread, long before its time limit."""
    journal = Journal(None, keep=9)
    writer = threading.Thread(target=_note, args=(journal, "now"))
    writer.start()
    assert journal.wait(lambda: len(journal.changes) == 1, 5)
    writer.join()


def test_condition_runs_without_the_lock() -> None:
    """A condition may wait for another thread that needs the lock."""
    journal = Journal(None, keep=9)

    def other_thread_gets_in() -> bool:
        writer = threading.Thread(target=_note, args=(journal, "in"))
        writer.start()
        writer.join(5)
        return not writer.is_alive()

    assert journal.wait(other_thread_gets_in, 5)


def test_listener_runs_without_the_lock() -> None:
    """The listener may ask another thread, which asks the kubelet."""
    free: list[bool] = []

    def listen(_: Change) -> None:
        reader = threading.Thread(target=lambda: journal.wait(lambda: True, 0))
        reader.start()
        reader.join(5)
        with journal.reading():
            free.append(not reader.is_alive())

    journal = Journal(listen, keep=9)
    _note(journal, "a")
    assert free == [True]


def test_a_failed_change_wakes_waiters_too() -> None:
    """An error inside a change leaves the lock free and the waiters awake."""
    journal = Journal(None, keep=9)
    with pytest.raises(KeyError), journal.changing():
        {}["midway"]
    _note(journal, "after")
    assert len(journal.changes) == 1

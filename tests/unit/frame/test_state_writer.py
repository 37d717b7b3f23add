"""The state file is written off the loop, the last state included."""

import threading
from pathlib import Path

from deviceplugin import state
from deviceplugin.events import Event, StateKept
from deviceplugin.published import Published
from deviceplugin.state_writer import StateWriter

IDENTITY = state.Identity(plugin_dir="/x")


def test_what_was_published_last_is_on_disk_at_the_end(tmp_path: Path) -> None:
    """A state published together with the stop is still written."""
    wanted: Published[state.State | None] = Published(None)
    stop = threading.Event()
    writer = StateWriter(path=tmp_path / "s" / "nvidia.json", wanted=wanted)
    wanted.set(state.State(identity=IDENTITY, boot="b", config_text="version: v1"))
    stop.set()
    writer.run(lambda _event: None, stop)
    kept, note = state.load(tmp_path / "s" / "nvidia.json", IDENTITY, "b")
    assert (kept.config_text, note) == ("version: v1", "")


def test_a_folder_that_cannot_be_written_is_said_once_and_again_when_it_can(
    tmp_path: Path,
) -> None:
    """A plain file in the folder's place is reported; after it is gone the state is written."""
    folder, said, stop = tmp_path / "s", list[Event](), threading.Event()
    folder.write_text("")
    wanted: Published[state.State | None] = Published(None)
    told = threading.Condition()

    def emit(event: Event) -> None:
        with told:
            said.append(event)
            told.notify_all()

    writer = StateWriter(path=folder / "nvidia.json", wanted=wanted)
    thread = threading.Thread(target=writer.run, args=(emit, stop))
    thread.start()
    wanted.set(state.State(identity=IDENTITY, boot="1"))
    with told:
        assert told.wait_for(lambda: len(said) == 1, 10)
    folder.unlink()
    wanted.set(state.State(identity=IDENTITY, boot="2"))
    with told:
        assert told.wait_for(lambda: len(said) == 2, 10)
    stop.set()
    wanted.wake()
    thread.join(10)
    problems = [event.problem for event in said if isinstance(event, StateKept)]
    assert "cannot be written" in problems[0]
    assert problems[1] == ""

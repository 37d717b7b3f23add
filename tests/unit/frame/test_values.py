"""Frozen values merge as the kubelet merges, and latest values reach whoever waits."""

import threading

from deviceplugin.config.rules import Problem
from deviceplugin.model import ContainerEdits, DeviceNode, Mount
from deviceplugin.published import Published


def test_merged_edits_keep_the_first_value_and_nothing_twice() -> None:
    """Keys, paths and names that meet keep the first one's value, in the first one's order."""
    first = ContainerEdits(
        env={"A": "1"},
        mounts=(Mount(container_path="/a", host_path="/1"),),
        device_nodes=(DeviceNode(container_path="/dev/x", host_path="/dev/x"),),
        cdi_names=("v/c=1",),
    )
    second = ContainerEdits(
        env={"A": "2", "B": "2"},
        mounts=(
            Mount(container_path="/a", host_path="/2"),
            Mount(container_path="/b", host_path="/2"),
        ),
        device_nodes=(DeviceNode(container_path="/dev/x", host_path="/other"),),
        cdi_names=("v/c=1", "v/c=2"),
    )
    merged = first | second
    assert merged.env == {"A": "1", "B": "2"}
    assert [(m.container_path, m.host_path) for m in merged.mounts] == [("/a", "/1"), ("/b", "/2")]
    assert [n.host_path for n in merged.device_nodes] == ["/dev/x"]
    assert merged.cdi_names == ("v/c=1", "v/c=2")


def test_an_equal_value_wakes_nobody() -> None:
    """Publishing what is already there changes no version, so no stream sends."""
    published = Published((1, 2))
    assert published.set((1, 2)) is False
    assert published.wait(-1, lambda: True, 0) == (0, (1, 2))


def test_a_waiting_reader_gets_the_newest_value() -> None:
    """A reader that waits for a change is woken by it and sees the newest value."""
    published = Published(0)
    got: list[tuple[int, int]] = []
    reader = threading.Thread(target=lambda: got.append(published.wait(0, lambda: False, 10)))
    reader.start()
    published.set(7)
    reader.join(10)
    assert got == [(1, 7)]


def test_a_reader_can_be_told_to_look_up() -> None:
    """A reader whose own condition came true ends its wait when woken, without a change."""
    published, done = Published(0), threading.Event()
    reader = threading.Thread(target=published.wait, args=(0, done.is_set, 10))
    reader.start()
    done.set()
    published.wake()
    reader.join(10)
    assert not reader.is_alive()


def test_a_problem_reads_as_one_line_with_place_and_remedy() -> None:
    """A config problem says where, what was found and what to write."""
    problem = Problem(file="nvidia.yaml", line=3, path="a.b", found="'x'", remedy="write 1")
    assert str(problem) == "nvidia.yaml:3: a.b: found 'x'; write 1"

"""Kubelets that accept and forget, that never answer, and plugin folders in odd states."""

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from deviceplugin.api.v1beta1 import api_pb2, api_pb2_grpc
from deviceplugin.events import KubeletChanged, LockChanged, RegistrationTried
from deviceplugin.kubelet.manager import KubeletSide
from deviceplugin.kubelet.options import KubeletOptions
from deviceplugin.published import Published
from deviceplugin.simulation.kubelet import SimulatedKubelet

GPU = "nvidia.com/gpu"


class OddKubelet(api_pb2_grpc.RegistrationServicer):
    """Accepts every Register and never dials back; or never answers at all."""

    def __init__(self, *, answers: bool) -> None:
        self.asked = threading.Event()
        self.release = threading.Event()
        if answers:
            self.release.set()

    def Register(  # noqa: N802 - the RPC's name
        self, request: api_pb2.RegisterRequest, context: grpc.ServicerContext
    ) -> api_pb2.Empty:
        """Answer, sooner or later."""
        del request, context
        self.asked.set()
        self.release.wait(30)
        return api_pb2.Empty()


@contextmanager
def odd_kubelet(folder: Path, *, answers: bool) -> Iterator[OddKubelet]:
    """Serve such a kubelet."""
    folder.mkdir(exist_ok=True)
    server = grpc.server(futures.ThreadPoolExecutor(4))
    odd = OddKubelet(answers=answers)
    api_pb2_grpc.add_RegistrationServicer_to_server(odd, server)
    server.add_insecure_port(f"unix:{folder}/kubelet.sock")
    server.start()
    yield odd
    odd.release.set()
    server.stop(None).wait(5)


@pytest.fixture
def folder(root: Path) -> Path:
    """Where the plugin folder is, once somebody makes it."""
    return root / "device-plugins"


@pytest.fixture
def side(folder: Path, record: Any, gpus: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Start a kubelet side towards ``folder`` that serves eight GPUs."""
    sides: list[KubeletSide] = []

    def start(**changes: Any) -> KubeletSide:
        settings = {
            "vendor": "nvidia",
            "plugin_dir": folder,
            "backoff_first": 0.02,
            "backoff_limit": 0.05,
            "look_every": 0.05,
            **changes,
        }
        side = KubeletSide(KubeletOptions(**settings), Published({GPU: gpus()}), record.emit)
        sides.append(side)
        side.start()
        side.serve([GPU])
        return side

    yield start
    for each in sides:
        each.stop(2.0)


@pytest.fixture
def serves(root: Path, record: Any) -> Callable[[], None]:
    """Start a sound kubelet and see that it counts eight GPUs."""

    def check() -> None:
        with SimulatedKubelet(root) as kubelet:
            assert kubelet.wait(lambda: kubelet.allocatable().get(GPU) == 8), record.of(
                RegistrationTried
            )

    return check


def test_accepted_without_stream(
    folder: Path, side: Any, record: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """No stream after an accepted Register: that generation goes, a new one is tried."""
    with odd_kubelet(folder, answers=True):
        side(stream_expected=0.05)
        assert record.wait(lambda: len(record.of(RegistrationTried)) >= 3)
    endpoints = [event.endpoint for event in record.of(RegistrationTried)]
    assert len(set(endpoints)) == len(endpoints)
    assert len(list(folder.glob("nvidia-*.sock"))) <= 1
    words = [vars(line)["error"] for line in caplog.records if "failed" in line.message]
    assert words == ["the kubelet accepted and opened no stream within 0.05 s"]


def test_register_has_a_deadline(folder: Path, side: Any, record: Any) -> None:
    """A kubelet that never answers is given up, said, and asked again on another name."""
    with odd_kubelet(folder, answers=False):
        side(register_deadline=0.1)
        assert record.wait(lambda: len(record.of(RegistrationTried)) >= 2)
    first, second, *_ = record.of(RegistrationTried)
    assert "DEADLINE_EXCEEDED" in first.error
    assert first.endpoint != second.endpoint


def test_stop_does_not_wait_for_register(folder: Path, side: Any, record: Any) -> None:
    """A stop in the middle of a Register that nobody answers is quick, and leaves no socket."""
    with odd_kubelet(folder, answers=False) as odd:
        running = side()
        assert odd.asked.wait(5)
        running.stop(2.0)
        assert list(folder.glob("nvidia-*.sock")) == []
        assert record.of(RegistrationTried) == []


def test_new_kubelet_cuts_a_hanging_register_short(
    folder: Path, side: Any, record: Any, serves: Callable[[], None]
) -> None:
    """A Register that hangs is dropped for the kubelet.sock that replaces it."""
    with odd_kubelet(folder, answers=False) as odd:
        side()
        assert odd.asked.wait(5)
        (folder / "kubelet.sock").unlink()
        serves()
    assert "replaced meanwhile" in record.of(RegistrationTried)[0].error


def test_folder_that_does_not_exist_yet(
    side: Any, record: Any, serves: Callable[[], None], folder: Path
) -> None:
    """A missing folder has its words, is not made by us, and is served once it is there."""
    side()
    assert record.wait(lambda: record.of(KubeletChanged) and record.of(LockChanged))
    assert f"there is no folder {folder}" in record.of(KubeletChanged)[0].detail
    assert "cannot be locked" in record.of(LockChanged)[0].detail
    assert not folder.exists()
    serves()


def test_folder_removed_and_made_again(
    folder: Path, side: Any, root: Path, serves: Callable[[], None]
) -> None:
    """In a folder that is another one the lock is taken again, and all is served."""
    kubelet = SimulatedKubelet(root)
    with kubelet:
        side()
        assert kubelet.wait(lambda: kubelet.allocatable().get(GPU) == 8)
    shutil.rmtree(folder)
    serves()
    assert (folder / ".deviceplugin-nvidia.lock").read_text().strip() == str(os.getpid())


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_something_else_in_place_of_the_kubelet_socket(
    folder: Path, side: Any, record: Any, serves: Callable[[], None], kind: str
) -> None:
    """A plain file or a folder named kubelet.sock is said, and survived."""
    folder.mkdir()
    odd = folder / "kubelet.sock"
    odd.touch() if kind == "file" else odd.mkdir()
    side()
    assert record.wait(lambda: record.of(KubeletChanged))
    assert "is not a socket: remove it" in record.of(KubeletChanged)[0].detail
    odd.unlink() if kind == "file" else odd.rmdir()
    serves()


def test_plain_file_in_place_of_the_folder(
    folder: Path, side: Any, record: Any, serves: Callable[[], None]
) -> None:
    """A file where the plugin folder should be is said, and survived."""
    folder.touch()
    side()
    assert record.wait(lambda: record.of(KubeletChanged) and record.of(LockChanged))
    assert "no folder" in record.of(KubeletChanged)[0].detail
    folder.unlink()
    serves()


def test_folder_that_we_may_not_write_to(
    folder: Path, side: Any, record: Any, serves: Callable[[], None]
) -> None:
    """A folder without write permission, or a read-only mount, says what it must be."""
    if os.geteuid() == 0:
        # Root passes permissions; a folder in place of the lock file fails the same way.
        (folder / ".deviceplugin-nvidia.lock").mkdir(parents=True)
    else:
        folder.mkdir(mode=0o555)
    side()
    assert record.wait(lambda: record.of(LockChanged))
    assert "read-write and be writable" in record.of(LockChanged)[0].detail
    # Out of its way first: it makes its lock anew between two looks into the folder.
    shutil.rmtree(folder.rename(folder.with_name("away")))
    serves()


def test_folder_with_too_long_a_path(
    root: Path, side: Any, record: Any, gpus: Callable[..., Any]
) -> None:
    """Where no socket name fits any more, the words give the limit; nothing crashes."""
    del gpus
    deep = root / ("d" * (92 - len(str(root)) - 1))
    with odd_kubelet(deep, answers=True):
        side(plugin_dir=deep)
        assert record.wait(lambda: record.of(RegistrationTried))
    assert "too long for a socket" in record.of(RegistrationTried)[0].error


def test_resource_that_no_kubelet_takes(root: Path, side: Any, record: Any) -> None:
    """A name that the kubelet refuses is reported in its words, and tried on."""
    with SimulatedKubelet(root):
        side().serve(["gpu"])
        assert record.wait(lambda: len(refusals(record)) >= 2)
    assert "INVALID" in refusals(record)[0].error or "UNKNOWN" in refusals(record)[0].error


def refusals(record: Any) -> list[RegistrationTried]:
    """Failed tries of the resource with the bad name."""
    return [event for event in record.of(RegistrationTried) if event.resource == "gpu"]

"""The life of one serving generation under one kubelet: registered once, watched to its end."""

import enum
import logging
import time

from deviceplugin.errors import DevicePluginError
from deviceplugin.events import RegistrationTried
from deviceplugin.kubelet.register import RegisterCall
from deviceplugin.kubelet.server import Generation
from deviceplugin.kubelet.surroundings import Surroundings
from deviceplugin.model import ResourceName
from deviceplugin.watch.kubelet_socket import KubeletSeen

logger = logging.getLogger(__name__)


class End(enum.Enum):
    """Why a generation ended."""

    STOPPED = enum.auto()
    FAILED = enum.auto()  # no socket, Register refused, or no stream afterwards
    STREAM_ENDED = enum.auto()  # under the same kubelet, as far as we know
    KUBELET_RESTARTED = enum.auto()  # and it broke the stream itself
    ENDED_BY_US = enum.auto()  # we end a stream that lives, or may yet live


class Lifetime:
    """Serves ``resource`` to ``kubelet`` until there is a reason to serve anew."""

    def __init__(self, resource: ResourceName, around: Surroundings, kubelet: KubeletSeen) -> None:
        """Nothing is opened here.

        Raises:
            SocketPathError: the plugin folder's path is too long.

        """
        self._resource = resource
        self._around = around
        self._options = around.options
        self._kubelet = kubelet
        self._renew = False
        self._began = time.monotonic()
        self.streamed = False
        self.generation = Generation(
            resource, around.options, around.views, around.emit, around.ring
        )

    def renew(self) -> None:
        """Have this generation end; callable from any thread."""
        self._renew = True
        self._around.ring()

    def run(self) -> tuple[End, str]:
        """Open, register, watch, close; returns why it ended, and what was wrong if anything."""
        try:
            error = self._open()
            if error:
                return End.FAILED, error
            return self._register()
        finally:
            self._close()

    def _open(self) -> str:
        try:
            self.generation.open()
        except DevicePluginError as error:
            report(self._around, self._resource, self.generation.endpoint, str(error), self._began)
            return str(error)
        return ""

    def _close(self) -> None:
        # Without the kubelet's stream only strangers can hold this up; a new kubelet must not wait.
        live, options = self.generation.streams.live, self._options
        if not self.generation.stop(options.stop_grace if live else options.settle):
            logger.warning(
                "calls were cut off when a socket was closed",
                extra={"resource": self._resource, "endpoint": self.generation.endpoint},
            )

    def _register(self) -> tuple[End, str]:
        """Register, once; go on to the stream when accepted."""
        endpoint, began = self.generation.endpoint, time.monotonic()
        self.generation.streams.expect()
        with RegisterCall(self._options, endpoint, self._resource, self._around.ring) as call:
            self._await_answer(call)
            error = call.error(self._cause_of_abort())
            # A call that we give up, or that failed only for us (1.34), may still connect.
            uncertain = not call.done or self.generation.streams.came
        if self._around.stop.is_set():
            return End.STOPPED, ""
        report(self._around, self._resource, endpoint, error, began)
        if error:
            return End.ENDED_BY_US if uncertain else End.FAILED, error
        self._await_stream()
        return (self._watch(), "") if self.streamed else self._without_stream()

    def _await_answer(self, call: RegisterCall) -> None:
        limit = self._options.register_deadline + 1
        self._around.wait(lambda: call.done or self._is_outlived(), limit)
        # The call to a dead kubelet breaks by itself; another may be at the new one already.
        self._around.wait(lambda: call.done, self._options.settle)

    def _cause_of_abort(self) -> str:
        if self._is_outlived():
            return "kubelet.sock was replaced meanwhile: registering there"
        return f"no answer within {self._options.register_deadline:g} s"

    def _await_stream(self) -> None:
        streams, expected = self.generation.streams, self._options.stream_expected
        self._around.wait(lambda: streams.came or self._is_outlived(), expected)
        self._around.wait(lambda: streams.came, self._options.settle)
        self.streamed = streams.came

    def _without_stream(self) -> tuple[End, str]:
        if self._around.stop.is_set():
            return End.STOPPED, ""
        expected = self._options.stream_expected
        return End.FAILED, f"the kubelet accepted and opened no stream within {expected:g} s"

    def _watch(self) -> End:
        """Wait for whatever ends this generation."""
        intact = True
        while not self._is_over():
            if intact and not self.generation.is_intact():
                intact = False
                self._note_lost_file()
            self._around.wait(self._is_over, self._options.look_every)
        return self._end()

    def _is_over(self) -> bool:
        return (
            self._around.stop.is_set()
            or self._renew
            or self._is_outlived()
            or not self.generation.streams.live
        )

    def _is_outlived(self) -> bool:
        return self._around.is_other(self._kubelet)

    def _end(self) -> End:
        """Say what made it over."""
        if self._around.stop.is_set():
            return End.STOPPED
        if self._is_outlived():
            return self._settle()
        return End.ENDED_BY_US if self.generation.streams.live else End.STREAM_ENDED

    def _settle(self) -> End:
        """Tell a restarted kubelet, which breaks the stream, from a touched kubelet.sock."""
        streams = self.generation.streams
        self._around.wait(lambda: not streams.live, self._options.settle)
        return End.ENDED_BY_US if streams.live else End.KUBELET_RESTARTED

    def _note_lost_file(self) -> None:
        # The kubelet holds its connection; a new registration would only risk it.
        logger.info(
            "own socket file is gone, the kubelet still holds the stream",
            extra={"resource": self._resource, "endpoint": self.generation.endpoint},
        )


def report(
    around: Surroundings, resource: ResourceName, endpoint: str, error: str, began: float
) -> None:
    """Tell how a registration, or what should have become one, ended."""
    now = time.monotonic()
    around.emit(
        RegistrationTried(
            resource=resource, endpoint=endpoint, error=error, seconds=now - began, at=now
        )
    )
    if not error:
        logger.info("registered", extra={"resource": resource, "endpoint": endpoint})

"""Asks AMD's metrics exporter, where it runs, what it thinks of each GPU.

Its service has had two names for the same messages, so the second is tried where the first
is not known. Only the word ``unhealthy`` is a verdict: ``unknown`` changes nothing, and an
exporter that is gone takes its last verdict back from nobody; it only grows old.
"""

import logging
import stat
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from deviceplugin.events import Emit
from deviceplugin.model import Action, DeviceId
from deviceplugin.vendors.amd import drm
from deviceplugin.vendors.amd.health import Health

if TYPE_CHECKING:
    import grpc

logger = logging.getLogger(__name__)

METHODS = ("/metricssvc.MetricsService/List", "/gpumetricssvc.MetricsService/List")

_EXPORTER = "exporter"


class ExporterError(Exception):
    """No usable answer; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """What the exporter says of one device, its own name for it, lower case."""

    device: str
    health: str


@dataclass(slots=True, kw_only=True)
class ExporterSource:
    """A ``Source``: the exporter's verdicts become faults, and stand until it takes them back."""

    sysfs: Path
    health: Health
    name: str = "amd-exporter"
    _bad: frozenset[DeviceId] = frozenset()
    _heard_at: float | None = None
    _why_not: str = ""
    _method: str = METHODS[0]
    _asked: str = field(default="")

    def run(self, emit: Emit, stop: threading.Event) -> None:
        """Ask every so often until ``stop`` is set."""
        while not stop.is_set():
            socket = self.health.flags.exporter_socket
            if socket != self._asked:
                # Another exporter, or none: what the last one said is nobody's opinion now.
                self._asked, self._heard_at = socket, None
                self._conclude(frozenset())
            if socket and not self.health.why_away and _is_there(Path(socket)):
                self._ask(Path(socket))
            elif self._heard_at is not None:
                self._say("its socket is gone")
            self._tell(emit)
            stop.wait(self.health.timing.exporter)

    def _ask(self, socket: Path) -> None:
        try:
            opinions = self._opinions(socket)
        except ExporterError as error:
            self._say(str(error))
            return
        self._say("")
        self._heard_at = self.health.clock()
        self._conclude(self._condemned(opinions))

    def _opinions(self, socket: Path) -> Sequence[Opinion]:
        if not stat.S_ISSOCK(socket.stat().st_mode):
            raise ExporterError(f"{socket} is no socket")
        # Imported late: a vendor is loaded before it is known whether anybody is to be asked.
        from deviceplugin import channels  # noqa: PLC0415

        with channels.to_socket(socket) as channel:
            return self._answered(channel)

    def _answered(self, channel: "grpc.Channel") -> Sequence[Opinion]:
        import grpc  # noqa: PLC0415 - as above

        from deviceplugin.channels import reason  # noqa: PLC0415

        for method in sorted(METHODS, key=lambda each: each != self._method):
            # As bytes: gRPC would log a traceback of an answer that cannot be read.
            call = channel.unary_unary(
                method, request_serializer=bytes, response_deserializer=bytes
            )
            try:
                answer: bytes = call(b"", timeout=self.health.timing.exporter_deadline)
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                    raise ExporterError(reason(error)) from error
            else:
                self._method = method
                return _read(answer)
        raise ExporterError("it knows no service by the names that are known here")

    def _condemned(self, opinions: Sequence[Opinion]) -> frozenset[DeviceId]:
        """Who is bad now: nobody is acquitted by "unknown", or by not being named."""
        said = {
            word: {
                device
                for opinion in opinions
                if opinion.health == word
                for device in self._named(opinion.device)
            }
            for word in ("healthy", "unhealthy")
        }
        return frozenset((self._bad - said["healthy"]) | said["unhealthy"])

    def _named(self, name: str) -> Iterator[DeviceId]:
        """Ids of what the exporter means: a GPU, or a partition by its platform device."""
        if name in self.health.gpus:
            yield DeviceId(name)
            return
        render = drm.minors(self.sysfs / "devices/platform" / Path(name).name).render
        for gpu in self.health.gpus.values():
            for device, minor in gpu.renders.items():
                if str(render) == minor:
                    yield device

    def _conclude(self, bad: frozenset[DeviceId]) -> None:
        self._bad = bad
        self.health.condemned[_EXPORTER] = bad

    def _tell(self, emit: Emit) -> None:
        detail = "AMD's exporter says unhealthy"
        if self._why_not and self._heard_at is not None:
            age = self.health.clock() - self._heard_at
            detail += f", {age:.0f} s ago; it does not answer since ({self._why_not})"
        for device in sorted(self._bad):
            kind = "exporter-unhealthy"
            self.health.symptom(device, kind, detail, Action.RECOVER, emit)

    def _say(self, why: str) -> None:
        # Once for each time that it stops: of one that talks nonsense each reason is another.
        is_news = bool(why) != bool(self._why_not)
        self._why_not = why
        if not is_news:
            return
        if why:
            logger.warning(
                "AMD's exporter does not answer; its last verdicts stand",
                extra={"why": why, "unhealthy": ",".join(sorted(self._bad)) or "none"},
            )
        else:
            logger.info("AMD's exporter answers again")


def _is_there(socket: Path) -> bool:
    try:
        socket.stat()
    except OSError:
        return False
    return True


def _read(answer: bytes) -> Sequence[Opinion]:
    from google.protobuf.message import DecodeError  # noqa: PLC0415 - as in _opinions

    from deviceplugin.api.amdexporter.v1 import api_pb2  # noqa: PLC0415 - as in _opinions

    try:
        states = api_pb2.GPUStateResponse.FromString(answer).gpu_state
    except DecodeError as error:
        raise ExporterError(f"its answer cannot be read: {error}") from error
    return [Opinion(device=s.device.lower(), health=s.health.strip().lower()) for s in states]

"""What is generated and committed is what its source gives today."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROTOS = (
    "deviceplugin/api/v1beta1/api.proto",
    "deviceplugin/api/podresources/v1/api.proto",
    "deviceplugin/api/amdexporter/v1/api.proto",
)
OUTPUTS = ("python_out", "grpc_python_out", "mypy_out", "mypy_grpc_out")


@pytest.mark.parametrize(
    ("vendor", "file"), [("nvidia", "schema.json"), ("amd", "amd.schema.json")]
)
def test_schema(vendor: str, file: str) -> None:
    """Each shipped schema is what its vendor's prints; ``make schema`` renews them."""
    done = subprocess.run(
        [sys.executable, "-m", "deviceplugin.config.schema", vendor],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (ROOT / "configs" / file).read_text() == done.stdout


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Generate the stubs into a folder of their own."""
    pytest.importorskip("grpc_tools", reason="grpcio-tools is in the dev extra")
    folder = tmp_path_factory.mktemp("stubs")
    # The plugins of protoc are found beside the interpreter.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    outputs = [f"--{name}={folder}" for name in OUTPUTS]
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", *outputs, *PROTOS]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "PATH": path}, check=True)
    return folder


def test_stubs(stubs: Path) -> None:
    """The committed stubs are what the .proto files give; ``make stubs`` renews them."""
    fresh = {path.relative_to(stubs): path for path in stubs.rglob("*_pb2*")}
    assert len(fresh) == len(PROTOS) * 4
    for name, path in fresh.items():
        assert (ROOT / name).read_text() == path.read_text(), f"{name}: run make stubs"

"""What a process of ours needs before it serves."""

import tempfile
from pathlib import Path

import pytest

from deviceplugin.__main__ import main


def test_hardware_needs_no_temporary_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where nothing is simulated nothing is written outside our folders: the root is read-only."""

    def refuse(**_: object) -> None:
        raise FileNotFoundError("no usable temporary directory")

    monkeypatch.setattr(tempfile, "TemporaryDirectory", refuse)
    config = tmp_path / "nvidia.yaml"
    config.write_text("version: v1\n")
    folders = {"--sysfs": "sys", "--devfs": "dev", "--state-dir": "state"}
    flags = [word for flag, name in folders.items() for word in (flag, str(tmp_path / name))]
    assert main(["check", "nvidia", str(config), *flags]) == 0
    assert "valid" in capsys.readouterr().out

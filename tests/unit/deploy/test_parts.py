"""The parts of daemonset/ fit together, and the docs name them all."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from deviceplugin.simulation import machine_file

Tree = dict[str, Any]


def test_every_part_that_is_named_is_there(root: Path) -> None:
    """Each resource, component, patch and file of a kustomization exists."""
    named = [
        (kustomization.parent / part).resolve()
        for kustomization in _kustomizations(root)
        for part in _parts(yaml.safe_load(kustomization.read_text()))
    ]
    assert named
    assert [path for path in named if not path.exists()] == []


def test_every_part_is_used(root: Path) -> None:
    """No manifest lies beside a kustomization that does not name it."""
    unused = [
        path
        for kustomization in _kustomizations(root)
        for path in kustomization.parent.glob("*.yaml")
        if path.name
        not in {"kustomization.yaml", *_parts(yaml.safe_load(kustomization.read_text()))}
    ]
    assert unused == []


def test_no_overlay_lies_inside_its_base(root: Path) -> None:
    """To kustomize that is a cycle, and the overlay cannot be applied."""
    inside = [
        kustomization
        for kustomization in _kustomizations(root)
        for part in _parts(yaml.safe_load(kustomization.read_text()))
        if (kustomization.parent / part).resolve() in kustomization.parents
    ]
    assert inside == []


def test_components_are_components(root: Path) -> None:
    """A Kustomization could be listed only once, and not under `components`."""
    folders = list((root / "daemonset/components").iterdir())
    kinds = {yaml.safe_load((f / "kustomization.yaml").read_text())["kind"] for f in folders}
    assert kinds == {"Component"}


def test_the_docs_name_each_component(root: Path) -> None:
    """The table of components is complete, and has none that is gone."""
    page = (root / "docs/user/deploy.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)
    assert sorted(rows) == sorted(f.name for f in (root / "daemonset/components").iterdir())


def test_each_patch_meets_the_manifest_it_is_for(root: Path) -> None:
    """A patch of a name that nothing has would change nothing, or fail."""
    names = {
        yaml.safe_load(patch["patch"])["metadata"]["name"]
        for kustomization in _kustomizations(root)
        for patch in yaml.safe_load(kustomization.read_text()).get("patches", [])
        if "patch" in patch
    }
    assert names == {"deviceplugin-nvidia", "deviceplugin-amd"}


def test_the_config_has_the_name_that_is_read(root: Path) -> None:
    """The README's key and the one that an existing ConfigMap is mapped to are NVIDIA's file."""
    component = root / "daemonset/components/existing-configmap/kustomization.yaml"
    [patch] = yaml.safe_load(component.read_text())["patches"]
    [volume] = yaml.safe_load(patch["patch"])["spec"]["template"]["spec"]["volumes"]
    assert volume["name"] == "config"
    assert volume["configMap"]["items"] == [{"key": "config", "path": "nvidia.yaml"}]
    made = re.search(r"create configmap (\S+) --from-file=(\S+)=(\S+)", _deploy_section(root))
    assert made
    assert made.groups() == ("deviceplugin", "nvidia.yaml", "configs/time-slicing.yaml")


def test_the_readmes_files_are_there(root: Path) -> None:
    """Each file and folder that the Deploy section's commands use exists."""
    section = _deploy_section(root)
    paths = re.findall(r"""(?:-k |=|" )((?:daemonset|examples|configs)(?:/[\w.-]*)+)""", section)
    assert len(paths) >= 4
    assert [path for path in paths if not (root / path).exists()] == []


@pytest.mark.parametrize(
    ("component", "machine"),
    [("simulated-machine", "h100x8"), ("simulated-amd-machine", "mi300x-cpx")],
)
def test_the_simulated_machine_is_the_shipped_one(root: Path, component: str, machine: str) -> None:
    """The machine of each component is a shipped one, without its demo."""
    ours = (root / f"daemonset/components/{component}/machine.yaml").read_text()
    shipped = (root / f"configs/simulated/{machine}.yaml").read_text()
    parsed = [machine_file.parse(text, file="m.yaml", name="m") for text in (ours, shipped)]
    assert parsed[0].gpus == parsed[1].gpus
    assert (parsed[0].nvidia, parsed[0].amd) == (parsed[1].nvidia, parsed[1].amd)
    assert parsed[0].numa == parsed[1].numa
    assert "demo" not in yaml.safe_load(ours)


def _kustomizations(root: Path) -> list[Path]:
    folders = (root / "daemonset", root / "examples")
    return sorted(path for folder in folders for path in folder.rglob("kustomization.yaml"))


def _parts(kustomization: Tree) -> list[str]:
    generated = kustomization.get("configMapGenerator", [])
    patches = [each["path"] for each in kustomization.get("patches", []) if "path" in each]
    files = [file for each in generated for file in each["files"]]
    listed = [*kustomization.get("resources", []), *kustomization.get("components", [])]
    return [*listed, *patches, *files]


def _deploy_section(root: Path) -> str:
    found = re.search(
        r"<!-- deploy begins -->(.*)<!-- deploy ends -->",
        (root / "README.md").read_text(),
        re.DOTALL,
    )
    assert found
    return found[1]

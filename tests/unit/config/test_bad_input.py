"""Wrong configs: every problem has line, path, what was found and what to write."""

from collections.abc import Callable

import pytest

from deviceplugin.config.load import ConfigInvalidError, load
from deviceplugin.config.rules import Problem

Refused = Callable[..., tuple[Problem, ...]]


def entry(lines: str) -> str:
    """Put an entry's keys, one a line, into a whole config; they begin at line 5."""
    head = "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - "
    return head + "\n      ".join(lines.split("\n"))


RESOURCE = "sharing.timeSlicing.resources[0]"

ONE_PROBLEM = {
    "list at the top": ("- a\n- b\n", 1, "", "a list", "version: v1"),
    "text at the top": ("nothing\n", 1, "", '"nothing"', "version: v1"),
    "unknown version": ("version: v2\n", 1, "version", '"v2"', "version: v1"),
    "version as number": ("version: 1\n", 1, "version", "1", "version: v1"),
    "misspelt at the top": ("sharring: {}\n", 1, "sharring", "an unknown key", "write sharing"),
    "misspelt in flags": (
        "flags:\n  migStrategi: none\n",
        2,
        "flags.migStrategi",
        "an unknown key",
        "write migStrategy",
    ),
    "misspelt in plugin": (
        "flags: {plugin: {deviceIdStrategies: uuid}}\n",
        1,
        "flags.plugin.deviceIdStrategies",
        "an unknown key",
        "write deviceIDStrategy",
    ),
    "misspelt in sharing": (
        "sharing:\n  time-slicing:\n    replicas: 4\n",
        2,
        "sharing.time-slicing",
        "an unknown key",
        "write timeSlicing",
    ),
    "misspelt in timeSlicing": (
        "sharing:\n  timeSlicing:\n    replica: 4\n    replicas: 4\n",
        3,
        "sharing.timeSlicing.replica",
        "an unknown key",
        "write replicas",
    ),
    "misspelt in an entry": (
        entry("name: gpu\nreplicas: 4\ndevice: all"),
        7,
        f"{RESOURCE}.device",
        "an unknown key",
        "write devices",
    ),
    "misspelt in health": ("health: {xid: {}}", 1, "health.xid", "an unknown key", "write xids"),
    "in the wrong place": (
        "migStrategy: none\n",
        1,
        "migStrategy",
        "an unknown key",
        "belongs elsewhere: write flags.migStrategy",
    ),
    "one level too high": (
        "flags:\n  passDeviceSpecs: true\n",
        2,
        "flags.passDeviceSpecs",
        "an unknown key",
        "belongs elsewhere: write flags.plugin.passDeviceSpecs",
    ),
    "badly indented": (
        "sharing:\n  timeSlicing:\n  resources: []\n",
        3,
        "sharing.resources",
        "an unknown key",
        "belongs elsewhere: write sharing.timeSlicing.resources",
    ),
    "nothing like it": ("qqqq: 1\n", 1, "qqqq", "an unknown key", "remove it, or write one of"),
    "a whole ConfigMap": (
        "version: v1\napiVersion: v1\n",
        2,
        "apiVersion",
        "an unknown key",
        "leave the Kubernetes object out",
    ),
    "MIG layouts": (
        "version: v1\nmig-configs: {}\n",
        2,
        "mig-configs",
        "an unknown key",
        "not supported yet",
    ),
    "key of another case twice": (
        "version: v1\nVersion: v1\n",
        2,
        "Version",
        "the key a second time (first on line 1)",
        "keep one",
    ),
    "key twice": (
        "flags: {}\nsharing: {}\nflags: {}\n",
        3,
        "flags",
        "the key a second time (first on line 1)",
        "keep one",
    ),
    "XID twice": (
        "health:\n  xids:\n    79: ignore\n    79: event\n",
        4,
        "health.xids.79",
        "the key a second time (first on line 3)",
        "keep one",
    ),
    "block as text": ("sharing: yes please\n", 1, "sharing", '"yes please"', "write a mapping"),
    "block as list": ("flags: [1]\n", 1, "flags", "the list [1]", "write a mapping"),
    "neither form": (
        "sharing: {timeSlicing: {renameByDefault: true}}\n",
        1,
        "sharing.timeSlicing",
        "neither replicas nor resources",
        "write replicas: 4",
    ),
    "no entries": (
        "sharing:\n  timeSlicing:\n    resources: []\n",
        3,
        "sharing.timeSlicing.resources",
        "an empty list",
        "each with name and replicas",
    ),
    "both forms": (
        "sharing: {timeSlicing: {replicas: 4, resources: [{name: gpu, replicas: 4}]}}\n",
        1,
        "sharing.timeSlicing.replicas",
        "replicas beside resources",
        "keep one",
    ),
    "entry as text": (entry("gpu"), 5, RESOURCE, '"gpu"', "write a mapping"),
    "no name": (entry("replicas: 4"), 5, f"{RESOURCE}.name", "no name", "such as gpu"),
    "no replicas": (entry("name: gpu"), 5, f"{RESOURCE}.replicas", "no replicas", "1 to 65,536"),
    "replicas without value": (
        entry("name: gpu\nreplicas:"),
        6,
        f"{RESOURCE}.replicas",
        "no replicas",
        "1 to 65,536",
    ),
    "both sharing kinds": (
        "sharing:\n  timeSlicing: {replicas: 4}\n  mps: {replicas: 4}\n",
        3,
        "sharing.mps",
        "both sharing.mps and sharing.timeSlicing (line 2)",
        "not supported yet",
    ),
    "MPS": (
        "sharing:\n  mps:\n    replicas: 4\n",
        2,
        "sharing.mps",
        "MPS sharing",
        "not supported yet",
    ),
    "MIG single": (
        "flags: {migStrategy: single}\n",
        1,
        "flags.migStrategy",
        '"single"',
        "not supported yet",
    ),
    "MIG mixed": (
        "flags: {migStrategy: mixed}\n",
        1,
        "flags.migStrategy",
        '"mixed"',
        "not supported yet",
    ),
    "MIG of nobody": ("flags: {migStrategy: all}\n", 1, "flags.migStrategy", '"all"', "write none"),
    "GDRCopy": ("flags: {gdrcopyEnabled: true}", 1, "flags.gdrcopyEnabled", "true", "write false"),
    "GDS": ("flags: {gdsEnabled: true}", 1, "flags.gdsEnabled", "true", "write false"),
    "MOFED": ("flags: {mofedEnabled: true}", 1, "flags.mofedEnabled", "true", "write false"),
    "IMEX": ("imex: {channelIDs: [0]}", 1, "imex.channelIDs", "the list [0]", "not supported"),
    "switch in quotes": (
        'flags: {failOnInitError: "true"}\n',
        1,
        "flags.failOnInitError",
        '"true"',
        "write true, without quotes",
    ),
    "switch as number": (
        "flags: {plugin: {passDeviceSpecs: 1}}\n",
        1,
        "flags.plugin.passDeviceSpecs",
        "1",
        "write true or false",
    ),
    "unknown strategy": (
        "flags:\n  plugin:\n    deviceListStrategy:\n    - envvar\n    - cdi\n",
        5,
        "flags.plugin.deviceListStrategy[1]",
        '"cdi"',
        "write cdi-cri",
    ),
    "no strategy": (
        "flags: {plugin: {deviceListStrategy: []}}\n",
        1,
        "flags.plugin.deviceListStrategy",
        "an empty list",
        "write envvar",
    ),
    "misspelt policy": (
        "flags: {plugin: {sharedDevicesAllocationPolicy: pack}}\n",
        1,
        "flags.plugin.sharedDevicesAllocationPolicy",
        '"pack"',
        "write packed",
    ),
    "relative root": (
        "flags: {nvidiaDriverRoot: run/driver}\n",
        1,
        "flags.nvidiaDriverRoot",
        '"run/driver"',
        "an absolute path",
    ),
    "root as number": ("flags: {nvidiaDevRoot: 4}\n", 1, "flags.nvidiaDevRoot", "4", "in quotes"),
    "annotation prefix": (
        "flags: {plugin: {cdiAnnotationPrefix: cdi}}\n",
        1,
        "flags.plugin.cdiAnnotationPrefix",
        '"cdi"',
        "cdi.k8s.io/",
    ),
    "no XID": ("health: {xids: {gpu: ignore}}", 1, "health.xids.gpu", '"gpu"', "79: ignore"),
    "XID 0": ("health: {xids: {0: ignore}}", 1, "health.xids.0", '"0"', "79: ignore"),
    "no action": ("health: {xids: {79: ignor}}", 1, "health.xids.79", '"ignor"', "write ignore"),
    "XID without action": ("health: {xids: {79: }}", 1, "health.xids.79", "nothing", "79: ignore"),
    "not YAML": ("a: b: c\n", 1, "", "text that is not YAML", "correct the YAML"),
    "two documents": ("version: v1\n---\nversion: v1\n", 2, "", "a second document", "keep one"),
}


@pytest.mark.parametrize(
    ("text", "line", "path", "found", "remedy"), ONE_PROBLEM.values(), ids=ONE_PROBLEM
)
def test_one_problem(
    refused: Refused, text: str, line: int, path: str, found: str, remedy: str
) -> None:
    """Each mistake gives one problem, at its line, that says what to write instead."""
    (problem,) = refused(text)
    assert problem.line == line
    assert problem.path == path
    assert found in problem.found
    assert remedy in problem.remedy


REPLICAS = {
    "0": ("0", "0", "a whole number from 1 to 65,536"),
    "negative": ("-1", "-1", "a whole number from 1 to 65,536"),
    "fraction": ("1.5", "1.5", "a whole number from 1 to 65,536"),
    "whole fraction": ("4.0", "4.0", "a whole number from 1 to 65,536"),
    "text": ('"4"', '"4"', "write 4, without quotes"),
    "word": ("four", '"four"', "a whole number from 1 to 65,536"),
    "ten million": ("10000000", "10000000", "a whole number from 1 to 65,536"),
    "one too many": ("65537", "65537", "a whole number from 1 to 65,536"),
    "boolean": ("true", "true", "a whole number from 1 to 65,536"),
    "list": ("[4]", "the list [4]", "a whole number from 1 to 65,536"),
    "mapping": ("{a: 4}", "a mapping", "a whole number from 1 to 65,536"),
    "infinite": (".inf", "inf", "a whole number from 1 to 65,536"),
    "not a number": (".nan", "nan", "a whole number from 1 to 65,536"),
    "very long": ("1" * 300, "1111", "a whole number from 1 to 65,536"),
}


@pytest.mark.parametrize(("value", "found", "remedy"), REPLICAS.values(), ids=REPLICAS)
def test_replicas(refused: Refused, value: str, found: str, remedy: str) -> None:
    """Both forms of replicas want a whole number from 1 to 65,536."""
    for text, path in (
        (entry(f"name: gpu\nreplicas: {value}"), f"{RESOURCE}.replicas"),
        (f"sharing: {{timeSlicing: {{replicas: {value}}}}}", "sharing.timeSlicing.replicas"),
    ):
        (problem,) = refused(text)
        assert problem.path == path
        assert problem.found.startswith(found)
        assert remedy in problem.remedy


NAMES = {
    "foreign prefix": ("amd.com/gpu", "only nvidia.com is served here: write nvidia.com/gpu"),
    "capital domain": ("NVIDIA.com/gpu", "capitals are not allowed: write nvidia.com/gpu"),
    "capitals": ("nvidia.com/GPU", "capitals are not allowed: write nvidia.com/gpu"),
    "capitals without prefix": ("Gpu", "capitals are not allowed: write nvidia.com/gpu"),
    "too long": ("nvidia.com/" + "a" * 53, "shorten it: 64 characters, at most 63"),
    "empty": ('""', "lower-case letters"),
    "only prefix": ("nvidia.com/", "lower-case letters"),
    "plus": ("gpu+shared", "lower-case letters"),
    "two slashes": ("nvidia.com/gpu/shared", "lower-case letters"),
    "space": ("gpu shared", "lower-case letters"),
    "dot at the end": ("gpu.", "lower-case letters"),
    "a number": ("4", "in quotes"),
    "a list": ("[gpu]", "such as gpu"),
}


@pytest.mark.parametrize(("name", "remedy"), NAMES.values(), ids=NAMES)
def test_names(refused: Refused, name: str, remedy: str) -> None:
    """A name that this vendor cannot serve is refused, as name and as rename."""
    (problem,) = refused(entry(f"name: {name}\nreplicas: 2"))
    assert (problem.line, problem.path) == (5, f"{RESOURCE}.name")
    assert remedy in problem.remedy
    (problem,) = refused(entry(f"name: gpu\nreplicas: 2\nrename: {name}"))
    assert (problem.line, problem.path) == (7, f"{RESOURCE}.rename")
    assert remedy in problem.remedy


DEVICES = {
    "zero": ("0", "devices", "all, a count such as 2, or a list"),
    "word": ("some", "devices", "all, a count such as 2, or a list"),
    "nearly all": ("al", "devices", "write all"),
    "count in quotes": ('"4"', "devices", "write 4, without quotes"),
    "fraction": ("1.5", "devices", "all, a count such as 2, or a list"),
    "boolean": ("true", "devices", "all, a count such as 2, or a list"),
    "mapping": ("{a: 1}", "devices", "all, a count such as 2, or a list"),
    "empty list": ("[]", "devices", "all, a count such as 2, or a list"),
    "negative index": ("[-1]", "devices[0]", "an index from 0"),
    "index of a MIG device": ("[0, 0:1]", "devices[1]", "MIG devices are not supported yet"),
    "MIG UUID": ("[MIG-5f3c]", "devices[0]", "MIG devices are not supported yet"),
    "no device": ("[gpu0]", "devices[0]", "a UUID GPU-…"),
    "empty model": ('["model:"]', "devices[0]", "a product name after model:"),
    "nothing in a list": ("[0, ]\n", None, ""),
    "null in a list": ("[0, null]", "devices[1]", "an index such as 0"),
    "list in a list": ("[[0]]", "devices[0]", "an index such as 0"),
}


@pytest.mark.parametrize(("devices", "path", "remedy"), DEVICES.values(), ids=DEVICES)
def test_devices(
    loaded: Callable[..., object], refused: Refused, devices: str, path: str | None, remedy: str
) -> None:
    """A list of devices names indexes, UUIDs or models; the wrong item is pointed at."""
    text = entry(f"name: gpu\nreplicas: 2\ndevices: {devices}")
    if path is None:
        assert loaded(text)  # a comma at the end is YAML's own
        return
    (problem,) = refused(text)
    assert problem.path == f"{RESOURCE}.{path}"
    assert remedy in problem.remedy


def two(first: str, second: str, more: str = "") -> str:
    """Make a config of two entries on lines 4 and 5."""
    return (
        f"sharing:\n  timeSlicing: {{{more}\n    resources: [\n"
        f"      {{{first}, replicas: 2}},\n      {{{second}, replicas: 2}},\n    ]}}\n"
    )


BESIDE = {
    "all and all": (two("name: gpu", "name: nvidia.com/gpu"), "name", "all devices"),
    "all and list": (two("name: gpu", "name: gpu, devices: [3]"), "name", "all devices"),
    "count and count": (
        two("name: gpu, devices: 2", "name: gpu, devices: 3"),
        "name",
        "the first 2",
    ),
    "count and list": (
        two("name: gpu, devices: 2", "name: gpu, devices: [5, 1]"),
        "name",
        "has too (1)",
    ),
    "list and count": (
        two("name: gpu, devices: [5, 1]", "name: gpu, devices: 2"),
        "name",
        "has too (1)",
    ),
    "list and list": (
        two("name: gpu, devices: [0, GPU-1a]", "name: gpu, devices: [GPU-1a]"),
        "name",
        "has too (GPU-1a)",
    ),
    "index as text": (
        two("name: gpu, devices: [1]", 'name: gpu, devices: ["1"]'),
        "name",
        "has too (1)",
    ),
    "same rename": (
        two("name: a, rename: x", "name: b, rename: x"),
        "rename",
        "the name that line 4 lists its devices under",
    ),
    "rename to another's name": (
        two("name: a", "name: b, rename: a"),
        "rename",
        "the name that line 4 lists",
    ),
    "rename to a renamed one's name": (
        two("name: a, rename: x", "name: b, rename: a"),
        "rename",
        "the resource of line 4",
    ),
    "rename to a later one's name": (
        two("name: b, rename: a", "name: a, rename: x"),
        "rename",
        "the resource of line 5",
    ),
    "rename to the shared name": (
        two("name: a", "name: b, rename: a.shared", "renameByDefault: true,"),
        "rename",
        "the name that line 4 lists",
    ),
}


@pytest.mark.parametrize(("text", "key", "found"), BESIDE.values(), ids=BESIDE)
def test_entries_that_collide(refused: Refused, text: str, key: str, found: str) -> None:
    """Two entries must not have the same devices, nor list under the same name."""
    (problem,) = refused(text)
    assert problem.line in {4, 5}
    assert problem.path.endswith(f".{key}")
    assert found in problem.found


def test_rename_to_what_the_vendor_serves(refused: Refused) -> None:
    """Other devices cannot be listed as nvidia.com/gpu."""
    (problem,) = refused(entry("name: mig-1g.10gb\nreplicas: 2\nrename: gpu"))
    assert "a resource that this vendor serves itself" in problem.found


def test_shared_name_too_long(refused: Refused) -> None:
    """Under renameByDefault each name must stay one that the kubelet takes."""
    entries = f"[{{name: {'a' * 50}, replicas: 2}}]"
    text = f"sharing: {{timeSlicing: {{renameByDefault: true, resources: {entries}}}}}"
    (problem,) = refused(text)
    assert "under renameByDefault, 68 characters" in problem.found


def test_all_at_once(refused: Refused) -> None:
    """All problems come together, in the order of the lines, whatever finds them."""
    text = (
        "version: v3\n"  # the schema
        "falgs: {}\n"  # the keys
        "sharing:\n"
        "  timeSlicing:\n"
        "    resources:\n"
        "    - {name: gpu, replicas: 0}\n"  # the schema
        "    - {name: gpu, replicas: 2}\n"
        "    - {name: gpu, replicas: 2}\n"  # beside line 7
        "  mps: {replicas: 2}\n"  # beside line 4
        "imex: {channelIDs: [1], channelIDs: []}\n"  # the schema, the tree
    )
    problems = refused(text, {"MIG_STRATEGY": "mixed"})
    assert [problem.line for problem in problems] == [1, 2, 6, 8, 9, 10, 10, 0]


def test_many_problems_are_counted(refused: Refused) -> None:
    """More problems than anyone reads end with their number."""
    text = "".join(f"k{number}: 1\n" for number in range(1000))
    problems = refused(text)
    assert len(problems) == 100
    assert problems[-1].found == "901 more problems from here on"


def test_many_entries(refused: Refused) -> None:
    """A list longer than any node needs is refused, not compared pair by pair."""
    text = "sharing:\n  timeSlicing:\n    resources:\n" + "    - {name: gpu, replicas: 2}\n" * 3000
    assert any("3,000 entries" in problem.found for problem in refused(text))


def test_message(refused: Refused) -> None:
    """The line that people read has file, line, path, what was found, what to write."""
    (problem,) = refused("flags:\n  migStrategi: none\n")
    expected = "nvidia.yaml:2: flags.migStrategi: found an unknown key; write migStrategy"
    assert str(problem) == expected


def test_defect_of_ours_is_a_problem(
    refused: Refused, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Should our own reader fail, the config is refused and the daemon goes on."""

    def fail(_text: str) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("deviceplugin.config.document.read", fail)
    (problem,) = refused("version: v1")
    assert "RuntimeError" in problem.found
    assert "reading the config failed" in caplog.text


@pytest.mark.parametrize("action", ["boom", "restart", "off", "3"])
def test_an_action_is_not_guessed(action: str) -> None:
    """A wrong action is answered with all five: a guess could take a GPU away until a reboot."""
    with pytest.raises(ConfigInvalidError) as refused:
        load("nvidia", f"health:\n  xids: {{79: {action}}}\n", file="nvidia.yaml")
    [problem] = refused.value.problems
    assert problem.path == "health.xids.79"
    assert "actions are ignore, event, recover, reset, reboot" in problem.remedy

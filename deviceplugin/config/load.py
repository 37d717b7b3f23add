"""A config file's text: every problem at once, or a config."""

import hashlib
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from deviceplugin.config import dialects, document, environment
from deviceplugin.config.dialects import Dialect
from deviceplugin.config.document import DocumentError, Entries, Loc, Node
from deviceplugin.config.environment import Further
from deviceplugin.config.keys import KeyCheck, misplaced_root
from deviceplugin.config.rules import Config, Problem
from deviceplugin.config.schema_common import CommonConfig
from deviceplugin.config.share_rules import Conflicts, allocation_rules, share_rules
from deviceplugin.config.validation import Place, placed, problems
from deviceplugin.errors import DevicePluginError

logger = logging.getLogger(__name__)

DEFAULTS = "defaults"
"""Source of a config that no file gave."""

MAX_PROBLEMS = 100
"""More than a person reads; the rest is counted."""


class ConfigInvalidError(DevicePluginError):
    """A config's text, or an environment variable, is wrong; ``problems`` has all there is."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


def load(vendor: str, text: str, *, file: str, env: Mapping[str, str] | None = None) -> Config:
    """Read a config's text; one without content gives the defaults.

    Pure: reads no file and no environment but ``env``.

    Args:
        vendor: whose keys and names apply.
        text: the file's, YAML or JSON.
        file: its name, for messages and ``Config.source``.
        env: the incumbents' environment variables; they override the file's keys.

    Raises:
        ConfigInvalidError: with every problem of text and variables, sorted by line.

    """
    try:
        return _Loader(dialect=dialects.of(vendor), file=file, env=env or {}).load(text)
    except ConfigInvalidError:
        raise
    except Exception as error:  # whatever the bytes, the daemon goes on with its last good config
        logger.exception("reading the config failed", extra={"config": file})
        raise ConfigInvalidError((_defect(file, error),)) from error


def default_config(vendor: str, env: Mapping[str, str] | None = None) -> Config:
    """Give the config of a node without a config file.

    Raises:
        ConfigInvalidError: a variable in ``env`` is wrong.

    """
    return load(vendor, "", file=DEFAULTS, env=env)


def _defect(file: str, error: Exception) -> Problem:
    found = f"text that our reader cannot cope with ({type(error).__name__})"
    remedy = "please report it, and simplify the text"
    return Problem(file=file, line=1, path="", found=found, remedy=remedy)


@dataclass(slots=True, kw_only=True)
class _Loader:
    dialect: Dialect
    file: str
    env: Mapping[str, str]
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    lines: Mapping[Loc, int] = field(default_factory=dict)

    def load(self, text: str) -> Config:
        values = self._values(text)
        self._check(values, placed(self.file, self._line))
        conflicts = Conflicts(file=self.file, lines=self._line, dialect=self.dialect)
        self.problems += conflicts.problems(values)
        over = self._overlay()
        further = self.dialect.variables(self.env)
        self.problems += further.problems
        if self.problems:
            raise ConfigInvalidError(_sorted(self.problems))
        self.warnings += further.warnings
        return self._config(self._model(_merge(values, over)), further, text)

    def _values(self, text: str) -> dict[str, Any]:
        try:
            root = document.read(text)
        except DocumentError as error:
            self.problems.append(error.problem(self.file))
            return {}
        if root is None or document.plain(root) is None:
            return {}
        if not isinstance(root, Entries):
            self.problems.append(misplaced_root(root, self.file))
            return {}
        return self._settled(root)

    def _settled(self, root: Node) -> dict[str, Any]:
        check = KeyCheck(
            file=self.file, schema=self.dialect.schema, elsewhere=self.dialect.elsewhere
        )
        settled = check.settle(root)
        self.problems += check.problems
        self.warnings += check.warnings
        self.lines = document.lines(settled)
        values: dict[str, Any] = document.plain(settled)
        return values

    def _overlay(self) -> dict[str, Any]:
        over = environment.overlay(self.env, self.dialect.schema)
        self.problems += over.problems
        self.warnings += over.warnings
        self._check(over.values, over.place)
        return over.values

    def _check(self, values: Mapping[str, Any], place: Place) -> None:
        try:
            self._model(values)
        except ValidationError as error:
            self.problems += problems(error, self.dialect.schema, place)

    def _model(self, values: Mapping[str, Any]) -> CommonConfig:
        return self.dialect.schema.model_validate(values, context=self.dialect.context)

    def _line(self, loc: Loc) -> int:
        for end in range(len(loc), -1, -1):
            if line := self.lines.get(loc[:end]):
                return line
        return 1

    def _config(self, model: CommonConfig, further: Further, text: str) -> Config:
        return Config(
            source=self.file,
            digest=hashlib.sha256(text.encode()).hexdigest()[:12],
            rules=share_rules(model.sharing, self.file, self._line),
            allocation=allocation_rules(model.sharing, model.policy),
            health=replace(model.health_policy, disabled=further.disabled, enabled=further.enabled),
            flags=model.options,
            warnings=tuple(self.warnings),
        )


def _merge(values: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(values)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            merged[key] = _merge(below, value)
        else:
            merged[key] = value
    return merged


def _sorted(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Sort by line, those of the environment last; end with a count where there are too many."""
    order = sorted(set(problems), key=lambda each: (each.line == 0, each.line, each))
    if len(order) <= MAX_PROBLEMS:
        return tuple(order)
    last = order[MAX_PROBLEMS - 1]
    rest = Problem(
        file=last.file,
        line=last.line,
        path="",
        found=f"{len(order) - MAX_PROBLEMS + 1:,} more problems from here on",
        remedy="correct these first",
    )
    return (*order[: MAX_PROBLEMS - 1], rest)

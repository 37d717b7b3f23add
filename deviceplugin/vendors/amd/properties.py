"""KFD's ``properties`` files: a key and a decimal number on each line, in any order."""

from collections.abc import Mapping

from deviceplugin import sysfs


def parse(text: str) -> Mapping[str, int]:
    """Read the lines that are a key and a number; of a key that comes twice the first counts.

    Keys count whole: ``domain`` is not any key that ends so. Lines that are something else
    are left out, so a damaged file loses what is damaged and no more.
    """
    found: dict[str, int] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2:  # noqa: PLR2004 - a key and its value
            value = sysfs.integer(words[1])
            if value is not None:
                found.setdefault(words[0], value)
    return found

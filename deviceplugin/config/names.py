"""Resource names, as the kubelet and the incumbents' tools accept them."""

import re

from deviceplugin.model import ResourceName

MAX_LENGTH = 63
"""Of the whole name, domain included: what the incumbent plugin accepts."""

_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_PART = re.compile(rf"{_LABEL}(?:\.{_LABEL})*", re.ASCII)

_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9_.]*[a-z0-9])?", re.ASCII)
"""Kubernetes' rule for what stands behind the slash, save capitals: amd.com/cpx_nps4."""


class NameInvalidError(ValueError):
    """Not a name this vendor can serve; ``str()`` is what to write instead."""


def qualify(name: str, domain: str) -> ResourceName:
    """Give a name its vendor's domain where it has none, and check it.

    Args:
        name: as it is written.
        domain: the vendor's; "" accepts any, and then each name has to say its own.

    Raises:
        NameInvalidError: another domain or none, capitals, other characters, or too long.

    """
    if not domain:
        return qualify(name, _own_domain(name))
    full = name if "/" in name else f"{domain}/{name}"
    prefix, _, rest = full.partition("/")
    if prefix != domain:
        raise NameInvalidError(_foreign(prefix, rest, domain))
    if not _NAME.fullmatch(rest):
        raise NameInvalidError(_misspelt(rest, domain))
    if len(full) > MAX_LENGTH:
        raise NameInvalidError(f"shorten it: {len(full)} characters, at most {MAX_LENGTH}")
    return ResourceName(full)


def _own_domain(name: str) -> str:
    domain, slash, rest = name.partition("/")
    if not slash:
        usable = name if _NAME.fullmatch(name) else "card"
        raise NameInvalidError(f"write the whole name, with its domain: example.com/{usable}"[:120])
    if not _PART.fullmatch(domain):
        proper = domain.lower()
        remedy = (
            f"capitals are not allowed: write {proper}/{rest.lower()}"
            if _PART.fullmatch(proper)
            else "write a domain such as example.com before the '/'"
        )
        raise NameInvalidError(remedy[:120])
    if domain.startswith("requests.") or domain.endswith("kubernetes.io"):
        raise NameInvalidError("the kubelet keeps this domain to itself: write the vendor's own")
    return domain


def _foreign(prefix: str, rest: str, domain: str) -> str:
    ours = f"{domain}/{rest}".lower()
    usable = _NAME.fullmatch(rest.lower()) and len(ours) <= MAX_LENGTH
    example = f": write {ours}" if usable else ""
    what = (
        "capitals are not allowed" if prefix.lower() == domain else f"only {domain} is served here"
    )
    return f"{what}{example}"


def _misspelt(rest: str, domain: str) -> str:
    if _NAME.fullmatch(rest.lower()):
        return f"capitals are not allowed: write {domain}/{rest.lower()}"[:120]
    return f"write {domain}/ and then lower-case letters, digits, '-', '_' and '.'"

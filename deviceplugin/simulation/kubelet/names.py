"""Which requests to register the kubelet takes."""

import re

from deviceplugin.api.v1beta1 import api_pb2

VERSION = "v1beta1"

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_PREFIX = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_LONGEST_PREFIX = 253 - len("requests.")  # quotas prefix the name, so the domain has less room
_LONGEST_NAME = 63


def refusal(request: api_pb2.RegisterRequest) -> str:
    """Why a Register is refused for what it says; "" when it is not."""
    if request.version != VERSION:
        return (
            f"requested API version {request.version!r} is not supported by kubelet; "
            f"supported versions are [{VERSION}]"
        )
    if not is_extended_resource(request.resource_name):
        return f"the ResourceName {request.resource_name!r} is invalid"
    return ""


def is_extended_resource(name: str) -> bool:
    """Whether a name is that of an extended resource: qualified, and nobody else's."""
    prefix, slash, rest = name.partition("/")
    return (
        bool(slash)
        and "kubernetes.io/" not in name
        and not name.startswith("requests.")
        and len(prefix) <= _LONGEST_PREFIX
        and len(rest) <= _LONGEST_NAME
        and bool(_PREFIX.fullmatch(prefix))
        and bool(_NAME.fullmatch(rest))
    )

"""Errors to the kubelet, made in one place.

The kubelet puts the text of a failed Allocate into the pod's status, behind
``UnexpectedAdmissionError``; the pod's owner reads it, so it says what to do.
"""

import logging
from typing import NoReturn

import grpc

from deviceplugin.errors import AllocationRefusedError
from deviceplugin.model import ResourceName

logger = logging.getLogger(__name__)

STREAMS_TAKEN = (
    "all ListAndWatch streams of this socket are in use: close one, or wait until the kubelet"
    " has dropped its old ones"
)


def not_served(resource: ResourceName) -> AllocationRefusedError:
    """Say that nothing is listed under this resource now."""
    return AllocationRefusedError(
        f"{resource} is not served on this node now: create the pod again once the node"
        " lists it, or ask for another resource"
    )


def refused(context: grpc.ServicerContext, error: AllocationRefusedError) -> NoReturn:
    """End the RPC with the text of a refusal that is meant."""
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))


def failed(
    context: grpc.ServicerContext, rpc: str, resource: ResourceName, error: Exception
) -> NoReturn:
    """End the RPC after an error that should not happen; the log gets the traceback."""
    logger.error("an RPC failed", exc_info=error, extra={"rpc": rpc, "resource": resource})
    text = (
        f"{rpc} of {resource} failed inside the device plugin: its log says why;"
        " create the pod again once that is mended"
    )
    context.abort(grpc.StatusCode.INTERNAL, text)


def exhausted(context: grpc.ServicerContext) -> NoReturn:
    """End a ListAndWatch for which there is no slot."""
    context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, STREAMS_TAKEN)

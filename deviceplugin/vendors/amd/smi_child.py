"""Runs in a process of its own (``probe.py``): asks AMD's management library.

The library may be missing, may not fit its Python part (KeyError, AttributeError), may hang
or crash: all of that ends this process and nothing else.
"""

import importlib
from typing import Any

Row = dict[str, int | str]


def counters() -> list[Row]:
    """Uncorrectable errors and retired pages of each GPU, by PCI address.

    Raises:
        Exception: whatever the library raises; the parent tells it.

    """
    smi: Any = importlib.import_module("amdsmi")
    smi.amdsmi_init()
    try:
        return [_row(smi, handle) for handle in smi.amdsmi_get_processor_handles()]
    finally:
        smi.amdsmi_shut_down()


def _row(smi: Any, handle: Any) -> Row:
    row: Row = {"address": str(smi.amdsmi_get_gpu_device_bdf(handle)).lower()}
    errors = smi.amdsmi_get_gpu_total_ecc_count(handle).get("uncorrectable_count")
    if isinstance(errors, int):  # where it is not supported: "N/A"
        row["uncorrectable"] = errors
    pages = smi.amdsmi_get_gpu_bad_page_info(handle)
    if isinstance(pages, list):
        row["pages"] = len(pages)
    return row

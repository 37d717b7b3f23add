"""Prints a vendor's JSON schema: ``python -m deviceplugin.config.schema [VENDOR]``."""

import json
import sys
from typing import Any

from deviceplugin.config import dialects

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def json_schema(vendor: str) -> dict[str, Any]:
    """Describe a vendor's config for editors and other tools."""
    return {"$schema": DRAFT, **dialects.of(vendor).schema.model_json_schema(by_alias=True)}


if __name__ == "__main__":
    vendors = sys.argv[1:] or ["nvidia"]
    for name in vendors:
        sys.stdout.write(json.dumps(json_schema(name), indent=2) + "\n")

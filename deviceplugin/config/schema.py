"""Prints a vendor's JSON schema: ``python -m deviceplugin.config.schema [VENDOR]``."""

import json
import sys
from typing import Any

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from deviceplugin.config import dialects


class _Untitled(GenerateJsonSchema):
    """Without a title made from each key's name: it says nothing that the key does not."""

    def field_title_should_be_set(self, schema: core_schema.CoreSchema | Any) -> bool:
        del schema
        return False


def json_schema(vendor: str) -> dict[str, Any]:
    """Describe a vendor's config for editors and other tools."""
    described = dialects.of(vendor).schema.model_json_schema(schema_generator=_Untitled)
    return {"$schema": _Untitled.schema_dialect, **described}


if __name__ == "__main__":
    for name in sys.argv[1:] or ["nvidia"]:
        sys.stdout.write(json.dumps(json_schema(name), indent=2) + "\n")

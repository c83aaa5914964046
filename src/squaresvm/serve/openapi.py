"""The description of the routes in OpenAPI 3.1, made from the routes themselves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from squaresvm._version import __version__
from squaresvm.serve.endpoint import Endpoint

__all__ = ["describe"]

_RECORDS = {
    "type": "array",
    "minItems": 1,
    "description": "Objects of columns and values; lists of numbers where the columns have no names.",
    "items": {
        "anyOf": [
            {"type": "object", "additionalProperties": {"type": ["number", "string", "boolean", "null"]}},
            {"type": "array", "items": {"type": "number"}},
        ]
    },
}
_NAMES = {"type": "array", "minItems": 1, "items": {"type": ["integer", "number", "string"]}}
_SCHEMAS: dict[str, Any] = {
    "Predict": {
        "type": "object",
        "required": ["records"],
        "properties": {"records": _RECORDS, "probabilities": {"type": "boolean", "default": False}},
    },
    "Learn": {
        "type": "object",
        "required": ["records", "labels"],
        "properties": {
            "records": _RECORDS,
            "labels": {"type": "array", "minItems": 1, "items": {"type": ["number", "string", "boolean"]}},
            "ids": _NAMES,
        },
    },
    "Absence": {
        "type": "object",
        "required": ["id"],
        "properties": {"id": {"type": ["integer", "number", "string"]}},
    },
    "Forget": {"type": "object", "required": ["ids"], "properties": {"ids": _NAMES}},
    "Infer": {
        "type": "object",
        "required": ["inputs"],
        "properties": {
            "id": {"type": "string"},
            "inputs": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "required": ["name", "shape", "datatype"],
                    "properties": {
                        "name": {"type": "string"},
                        "shape": {"type": "array", "items": {"type": "integer", "minimum": 1}},
                        "datatype": {"type": "string"},
                        "data": {"type": "array", "items": {}},
                    },
                },
            },
            "outputs": {"type": "array", "items": {"type": "object", "required": ["name"]}},
        },
    },
    "Play": {"type": "object"},
    "Error": {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}},
}
_STATUSES = {
    "400": "The body cannot be read.",
    "401": "A token is needed.",
    "403": "The token has another role.",
    "404": "No such model.",
    "409": "This kind of model cannot do that.",
    "413": "Too large.",
    "415": "Another Content-Type is needed.",
    "422": "The body can be read, and the model cannot use it; nothing has changed.",
    "503": "Too much waits, or the model cannot be served; Retry-After says when to try again.",
    "507": "The disk is full; nothing has changed.",
}


def describe(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Return the OpenAPI document of some routes.

    Examples
    --------
    >>> from squaresvm.serve.openapi import describe
    >>> describe([])["openapi"]
    '3.1.0'
    """
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "squaresvm",
            "version": __version__,
            "description": "Models that predict, learn and forget exactly.",
        },
        "paths": paths,
        "components": {
            "schemas": _SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    names = re.findall(r"{(\w+)}", endpoint.path)
    parameters = [{"name": n, "in": "path", "required": True, "schema": {"type": "string"}} for n in names]
    parameters += [
        {"name": header, "in": "header", "required": False, "schema": {"type": "string"}}
        for header in endpoint.headers
        if header != "content-type"
    ]
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    statuses = _STATUSES if endpoint.body is not None else {"404": _STATUSES["404"], "503": _STATUSES["503"]}
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "parameters": parameters,
        "responses": {"200": {"description": "Done."}}
        | {status: {"description": text, "content": error} for status, text in statuses.items()},
    }
    if endpoint.roles:
        operation["security"] = [{"token": []}]
        operation["description"] = f"Role: {' or '.join(endpoint.roles)}."
    if endpoint.body is not None:
        content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{endpoint.body}"}}}
        if "content-type" in endpoint.headers:
            content["text/csv"] = {"schema": {"type": "string"}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation

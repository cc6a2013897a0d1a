"""Write the reference of the HTTP interface from its OpenAPI document, as a page of Markdown.

`python tests/api_page.py docs/service-api.md` writes it (`make api`). A test compares the page with the document.
"""

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cede._base.archive import write_whole
from cede.serve.http.app import create_app
from cede.serve.store.database import Database

HEAD = """# The service: API reference

Generated from the OpenAPI document of the service (`/openapi.json`) by `make api`. [Run the service](service.md) shows its use.

Every request but `/livez`, `/readyz` and `/openapi.json` needs the header `Authorization: Bearer TOKEN`. Bodies are JSON in UTF-8:
no unlisted entries, no NaN, no duplicate keys. Errors are problem details (RFC 9457, `application/problem+json`); `detail` names
the wrong value and what it must be:

"""
TAGS = {
    "set-up": "Environments and teams",
    "decide": "Decisions",
    "report": "Reports",
    "insight": "Explanations and estimates",
    "look": "Views, exports, events",
    "health": "Health",
}
Document = Mapping[str, Any]


def document() -> dict[str, Any]:
    """Return the OpenAPI document."""
    with tempfile.TemporaryDirectory() as place:
        database = Database(f"sqlite:///{place}/cede.db")
        try:
            return create_app(database).openapi()
        finally:
            database.close()


def page(api: Document) -> str:
    """Return the page. api: the OpenAPI document."""
    routes = [(path, method, about) for path, methods in api["paths"].items() for method, about in methods.items()]
    problems = next(about["responses"] for path, _, about in routes if path == "/v1/decide")
    lines = ["| status | means |", "|---|---|"]
    lines += [f"| {status} | {one['description']} |" for status, one in sorted(problems.items()) if status >= "400"]
    text = HEAD + "\n".join(lines) + "\n"
    for tag, title in TAGS.items():
        text += f"\n## {title}\n"
        for path, method, about in routes:
            if about.get("tags") == [tag]:
                text += route(api, path, method, about)
    return text


def route(api: Document, path: str, method: str, about: Document) -> str:
    """Return the section of one route."""
    text = f"\n### `{method.upper()} {path}`\n\n{' '.join(about['description'].split())}\n"
    given = [one for one in about.get("parameters", []) if one["in"] != "path"]
    if given:
        text += table(("parameter", "type", ""), [(f"`{one['name']}`", kind(api, one["schema"]), parameter(one)) for one in given])
    body = about.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if body is not None:
        text += f"\nBody:\n{model(api, body, asked=True)}"
    for status, answer in sorted(about["responses"].items()):
        schema = answer.get("content", {}).get("application/json", {}).get("schema")
        if status < "300" and schema:
            text += f"\nAnswer, {status}:\n{model(api, schema, asked=False)}"
    return text


def parameter(one: Document) -> str:
    """Return the description of a parameter: where it is, whether it is required, its default."""
    where = "header. " if one["in"] == "header" else ""
    default = one["schema"].get("default")
    use = "required" if one.get("required") else f"by default {json.dumps(default)}" if default not in (None, "") else "optional"
    return f"{where}{one.get('description', '')} {use}".strip()


def resolved(api: Document, schema: Document) -> Document:
    """Return a schema, or the one that it refers to."""
    found: Document = api["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema else schema
    return found


def model(api: Document, schema: Document, *, asked: bool) -> str:
    """Return the entries of an object as a table, with an example. asked: of a request, with required entries."""
    found = resolved(api, schema)
    if "properties" not in found:
        return f"\n{kind(api, schema)}\n"
    needed = found.get("required", []) if asked else []
    rows = [
        (f"`{name}`", kind(api, one) + (", required" if name in needed else ""), described(one))
        for name, one in found["properties"].items()
    ]
    text = table(("entry", "type", ""), rows)
    for example in found.get("examples", [])[:1]:
        text += f"\n```json\n{json.dumps(example)}\n```\n"
    for one in found["properties"].values():  # objects in a list
        inner = one.get("items", {})
        if "$ref" in inner:
            text += f"\n`{inner['$ref'].rsplit('/', 1)[1]}`:\n{model(api, inner, asked=asked)}"
    return text


def described(one: Document) -> str:
    """Return the description of an entry, with its default."""
    default = one.get("default")
    text = str(one.get("description", ""))
    return text + (f" By default {json.dumps(default)}." if default not in (None, "", [], {}) else "")


def kind(api: Document, schema: Document) -> str:
    """Return a type in words."""
    if "$ref" in schema:
        return f"`{schema['$ref'].rsplit('/', 1)[1]}`"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(kind(api, one) for one in schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(f"`{one}`" for one in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {kind(api, schema.get('items', {}))}"
    return str(schema.get("type", "anything"))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of Markdown."""
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    lines += [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows]
    return "\n" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    write_whole(Path(sys.argv[1]), page(document()))

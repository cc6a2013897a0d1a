"""Serves the files of the dashboard, `serve/page/`, with a strict content security policy.

Addresses are fixed at the start: no request becomes a path of a file.
"""

import hashlib
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import Response

PAGE = Path(__file__).parent.parent / "page"
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-cache",
}


def add_page(app: FastAPI) -> None:
    """Add the page at `/`, and its files at `/page/`."""
    files = {path.relative_to(PAGE).as_posix(): path for path in sorted(PAGE.rglob("*")) if path.suffix in KINDS}
    for name, path in files.items():
        add_file(app, "/" if name == "index.html" else f"/page/{name}", path.read_bytes(), KINDS[path.suffix])


def add_file(app: FastAPI, address: str, content: bytes, kind: str) -> None:
    """Add one file under its address."""
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'

    @app.get(address, include_in_schema=False)
    async def file(request: Request) -> Response:
        headers = {**HEADERS, "etag": tag}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=kind, headers=headers)

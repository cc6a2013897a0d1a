"""Requests that schemathesis makes up from the OpenAPI document of a running server.

    python benchmarks/service_made_up.py PORT TOKEN CASES

CASES: of each operation. Prints as JSON how many were sent, and what was answered with 5xx or not within 10 seconds. Live events
are left out: their answer never ends.
"""

import json
import sys
from typing import Any

import schemathesis
from hypothesis import HealthCheck, given, seed, settings


def main(port: str, token: str, cases: str) -> None:
    headers, sent, bad = {"authorization": f"Bearer {token}"}, 0, []
    document = schemathesis.openapi.from_url(f"http://127.0.0.1:{port}/openapi.json", headers=headers)
    for found in document.get_all_operations():
        operation = found.ok()
        if operation.path == "/v1/events":
            continue

        @seed(1)
        @settings(max_examples=int(cases), deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            nonlocal sent
            sent += 1
            status = case.call(headers=headers, timeout=10).status_code
            if status >= 500:
                bad.append(f"{case.method} {case.path}: {status}")

        ask()
    print(json.dumps({"requests": sent, "bad": bad}))


if __name__ == "__main__":
    main(*sys.argv[1:])

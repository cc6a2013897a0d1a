"""The OpenAPI document: true, and requests made up from it never break the server."""

import json
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

import api_page
from cede.serve.http import models
from cede.serve.http.app import create_app
from cede.serve.service import ServiceOptions
from cede.serve.store import tokens
from cede.serve.store.database import Database
from traffic import river

ENVIRONMENT = {"task": {"env_cost": river().task.env_cost.tolist(), "agents": ["left", "right"], "horizon": 20}}


@pytest.fixture
def served(tmp_path):
    """A server with one team, called like a name that the requests will hit; it is not running."""
    database = Database(f"sqlite:///{tmp_path}/cede.db")
    app = create_app(database, ServiceOptions(hosts=("*",), plans=False))
    token = database.write(lambda c: tokens.create(c, "test", ["admin"], None, None))
    headers = {"authorization": f"Bearer {token}"}
    with TestClient(app, headers=headers) as client:
        assert client.put("/v1/environments/0", json=ENVIRONMENT).status_code == 201
        assert client.put("/v1/teams/0", json={"environment": "0"}).status_code == 201
    yield app, headers
    database.close()


def test_made_up_requests_break_nothing(served):
    app, headers = served
    for found in schemathesis.openapi.from_asgi("/openapi.json", app, headers=headers).get_all_operations():
        operation = found.ok()

        @settings(max_examples=10, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy())
        def ask(case):
            answer = case.call(headers=headers)
            assert answer.status_code < 500, answer.text
            if answer.status_code >= 400:
                assert answer.headers["content-type"][0] == "application/problem+json"
                assert ": " in answer.json()["detail"]

        ask()


NAMES = [*models.TeamStepIn.model_fields, "steps", "ends", "task", "learner", "own", "environment", "decisions"]
NAMES += models.EstimateIn.model_fields
TEAM = "/v1/teams/0"
PATHS = ["/v1/steps", "/v1/decide", f"{TEAM}/steps", f"{TEAM}/decide", f"{TEAM}/episodes", f"{TEAM}/episodes/0/end"]
PATHS += [f"{TEAM}/estimate"]
ODD = st.sampled_from([2**53, -1, 2**63, 1e308, 0, 1])
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | ODD
VALUES = st.recursive(
    LEAVES, lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inside, max_size=8), max_leaves=12
)


def test_bodies_of_any_json_break_nothing(served):
    app, headers = served
    with TestClient(app, headers=headers, raise_server_exceptions=False) as client:

        @settings(max_examples=200, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
        @given(path=st.sampled_from(PATHS), value=VALUES, puts=st.sampled_from(["/v1/environments/1", "/v1/teams/1"]))
        def send(path, value, puts):
            text = json.dumps(value)
            for method, where in (("POST", path), ("PUT", puts)):
                answer = client.request(method, where, content=text)
                assert answer.status_code < 500, (where, text, answer.text)

        send()


def test_the_document_names_everything(served):
    document = TestClient(served[0]).get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation["description"], path
            if method in ("put", "post"):
                content = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
                assert content.rpartition("/")[2] in document["components"]["schemas"]
            if path.startswith("/v1"):
                assert "application/problem+json" in operation["responses"]["422"]["content"]
    examples = [schema for schema in document["components"]["schemas"].values() if "examples" in schema]
    assert len(examples) >= 8


def test_the_reference_of_the_api_is_that_of_the_document():
    """`make api` writes it anew."""
    told = api_page.document()
    text = (Path(__file__).parents[2] / "docs" / "service-api.md").read_text(encoding="utf-8")
    assert api_page.page(told) == text
    for path, methods in told["paths"].items():
        for method in methods:
            assert f"### `{method.upper()} {path}`" in text

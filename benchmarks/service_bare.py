"""The least that a service could be: FastAPI handlers with models, one INSERT for each batch, nothing checked against anything.

python benchmarks/service_bare.py DATABASE PORT
"""

import sys
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from sqlalchemy import text

from cede.serve.store.database import Database

COLUMNS = ("team", "episode", "t", "state", "prev_agent", "agent", "action", "next_state")


class Question(BaseModel):
    t: int
    state: int
    prev_agent: int


class Step(BaseModel):
    team: str
    episode: int
    t: int
    state: int
    prev_agent: int
    agent: int
    action: int
    next_state: int


class Batch(BaseModel):
    steps: list[Step]


def bare(database: Database) -> FastAPI:
    """The application. Its database syncs every commit, as ours does."""
    app, places = FastAPI(), ", ".join("?" * len(COLUMNS))
    kinds = ("text", *["bigint"] * 7)
    columns = ", ".join(f"{name} {kind}" for name, kind in zip(COLUMNS, kinds, strict=True))
    database.write(lambda c: c.execute(text(f"CREATE TABLE bare ({columns}, PRIMARY KEY (team, episode, t))")))
    many = f"INSERT INTO bare VALUES ({places})"
    arrays = f"INSERT INTO bare SELECT * FROM unnest({', '.join(f'%s::{kind}[]' for kind in kinds)})"

    @app.post("/v1/teams/{name}/decide")
    async def decide(name: str, given: Question) -> dict[str, Any]:
        return {"agent": given.prev_agent, "name": name, "plan": "fresh", "version": 1, "age": 0.0}

    @app.post("/v1/steps")
    def steps(batch: Batch) -> dict[str, int]:
        rows = [tuple(one.__dict__.values()) for one in batch.steps]
        if database.kind == "sqlite":
            database.write(lambda c: c.exec_driver_sql(many, rows))
        else:
            database.write(lambda c: c.exec_driver_sql(arrays, tuple(list(column) for column in zip(*rows, strict=True))))
        return {"new": len(rows)}

    return app


if __name__ == "__main__":
    uvicorn.run(bare(Database(sys.argv[1], upgrade=False)), port=int(sys.argv[2]), log_config=None, access_log=False)

"""Steps of many simulated teams at once, as arrays, as bodies of requests, and as rows of the log."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Connection, text

import cede
from cede._base.arrays import Ints
from service_load import MARK

FIELDS = ("team", "episode", "t", "state", "prev_agent", "agent", "action", "next_state")
Steps = dict[str, Ints]  # one array (n,) for each of FIELDS


def river() -> cede.TwoLayerMDP:
    """RiverSwim with two agents: 6 states, 2 actions, 20 steps."""
    return cede.worlds.riverswim(agents=[0.3, 0.7], switch_cost=0.1)


def environment() -> dict[str, Any]:
    """The same, as a request."""
    task = river().task
    told = {"env_cost": task.env_cost.tolist(), "agents": ["left", "right"], "horizon": task.horizon, "switch_cost": 0.1}
    return {"task": told, "learner": {"algorithm": "recommended"}}


def play(n_teams: int, n_episodes: int, seed: int) -> Steps:
    """Play episodes of teams whose control changes at random, all at once; steps are in order of teams, episodes and time."""
    mdp, rng, n = river(), np.random.default_rng(seed), n_teams * n_episodes
    acts = np.stack([agent.policy for agent in mdp.team.agents]).cumsum(axis=-1)  # (D, S, A)
    moves = mdp.environment.transition.toarray().reshape(6, 2, 6).cumsum(axis=-1)
    state, before = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    found: dict[str, list[Ints]] = {name: [] for name in FIELDS[2:]}
    for t in range(mdp.task.plan_steps):
        agent = rng.integers(2, size=n)
        action = (rng.random(n)[:, None] > acts[agent, state]).sum(axis=1).clip(0, 1)
        following = (rng.random(n)[:, None] > moves[state, action]).sum(axis=1).clip(0, 5)
        step = (np.full(n, t), state, before, agent, action, following)
        for name, one in zip(FIELDS[2:], step, strict=True):
            found[name].append(one)
        state, before = following, agent
    length = mdp.task.plan_steps
    owner, number = np.divmod(np.arange(n), n_episodes)
    steps = {name: np.stack(arrays, axis=1).ravel() for name, arrays in found.items()}
    return {"team": owner.repeat(length), "episode": number.repeat(length), **steps}


def body(steps: Steps, chosen: Ints | slice, marked: bool = False) -> bytes:
    """Some steps as the body of a request; marked: in numbers of episodes stands what another number is put for in every round."""
    columns = [steps[name][chosen].tolist() for name in FIELDS]
    found = [dict(zip(FIELDS, row, strict=True)) for row in zip(*columns, strict=True)]
    for one in found:
        one["team"] = f"team-{one['team']}"
        if marked:
            one["episode"] = int(f"{MARK.decode()}{one['episode']:04d}")
    return json.dumps({"steps": found}, separators=(",", ":")).encode()


def rounds_file(path: Path, n_teams: int, batches: int, batch: int) -> Path:
    """Write bodies of whole episodes, as clients send them. Each batch has a part of the teams."""
    per = batch // 20
    steps = play(n_teams, -(-batches * per // n_teams), 1)
    order = np.argsort(steps["episode"] * n_teams + steps["team"], kind="stable")
    bodies = [body(steps, order[i * per * 20 : (i + 1) * per * 20], marked=True) for i in range(batches)]
    path.write_bytes(b"\n".join(bodies) + b"\n")
    return path


def decisions_file(path: Path) -> Path:
    """Write questions: who should act?"""
    rng = np.random.default_rng(2)
    asked = [{"t": int(rng.integers(20)), "state": int(rng.integers(6)), "prev_agent": int(rng.integers(2))} for _ in range(500)]
    path.write_text("\n".join(json.dumps(one) for one in asked) + "\n")
    return path


def shuffled_files(place: Path, steps: Steps, clients: int, batch: int, seed: int) -> list[Path]:
    """Write all steps, and a fifth of them twice, in any order, for some clients."""
    rng, n = np.random.default_rng(seed), len(steps["t"])
    order = rng.permutation(np.concatenate([np.arange(n), rng.choice(n, n // 5, replace=False)]))
    paths = []
    for client, part in enumerate(np.array_split(order, clients)):
        paths.append(place / f"client-{client}")
        with paths[-1].open("wb") as file:
            for begin in range(0, len(part), batch):
                file.write(body(steps, part[begin : begin + batch]) + b"\n")
    return paths


def run(connection: Connection, sql: str, values: tuple[Any, ...] = ()) -> Any:
    """Run SQL with ? for its values."""
    for i in range(len(values)):
        sql = sql.replace("?", f":v{i}", 1)
    return connection.execute(text(sql), {f"v{i}": value for i, value in enumerate(values)})

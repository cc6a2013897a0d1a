"""The client for asyncio: the same loop, many at once, through outages; cancelled and forked."""

import asyncio
import os
import sqlite3
import warnings

import numpy as np
import pytest

import cede
from cede.client.spool import Spool
from cede.serve.store import tokens
from cede.serve.store.database import Database
from serve_process import Server
from traffic import river

TASK = river().task


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('async')}/cede.db"
    database = Database(url)
    made = Server(url, plans=True)
    made.token = database.write(lambda c: tokens.create(c, "test", ["admin"], None, None))
    database.close()
    made.start()
    yield made
    made.stop()


async def play(team, episodes, seed):
    """The loop of a learner, with await."""
    mdp, rng = river(), np.random.default_rng(seed)
    for _ in range(episodes):
        state, agent = 0, team.start_agent
        for t in range(TASK.horizon):
            prev_agent, agent = agent, await team.choose(t, state, agent)
            action = int(rng.choice(2, p=mdp.team.agents[agent].policy[state]))
            next_state = int(rng.choice(6, p=mdp.environment.transition.toarray()[state * 2 + action]))
            await team.observe(t, state, prev_agent, agent, action, next_state)
            state = next_state
        await team.end_episode()


async def counted(client, name, n):
    """Wait until so many episodes were counted, and planned for."""
    for _ in range(30_000):
        found = (await client.ask("GET", f"/v1/teams/{name}")).json()
        if found["episodes"] == n and found["due"] is None:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(found)


def test_teams_at_once_in_one_loop(server, tmp_path):
    """Several teams in one event loop, with a spool, through an outage; the first one as a learner does it."""

    async def main():
        async with cede.AsyncClient(server.address, server.token, refresh=0.05, timeout=30, spool=tmp_path / "spool.db") as client:
            assert await client.put_environment("river", cede.recommended(TASK))
            for i in range(3):
                assert await client.put_team(f"a{i}", "river", seed=i)
            await counted(client, "a0", 0)
            teams = [await client.team(f"a{i}") for i in range(3)]
            assert teams[0].agents == TASK.agents
            assert await teams[0].refresh()
            await asyncio.gather(*(play(team, 2, i) for i, team in enumerate(teams)))
            await client.flush(600)
            await asyncio.to_thread(server.stop)
            try:
                before = teams[0].age
                await asyncio.gather(*(play(team, 1, i) for i, team in enumerate(teams)))
                assert teams[0].age > before
                with pytest.raises(TimeoutError, match="60 steps are not sent yet"):
                    await client.flush(0.2)
            finally:
                await asyncio.to_thread(server.start)
            await client.flush(600)
            await asyncio.gather(*(counted(client, f"a{i}", 3) for i in range(3)))
            assert await teams[0].begin() >= 0
            assert (await teams[0].decide(0, 0, 0))["plan"] in ("fresh", "stale", "fallback")
            with pytest.raises(ValueError, match="choose: state is 6, must be an integer from 0 to 5"):
                await teams[0].choose(0, 6, 0)
            with pytest.raises(ValueError, match="must be that of a team"):
                await client.team("nobody")

    asyncio.run(main())


def test_a_loop_with_await_is_a_loop_with_a_learner(server):
    async def main():
        async with cede.AsyncClient(server.address, server.token, refresh=0.05, timeout=30) as client:
            await client.put_environment("twins", cede.recommended(TASK))
            await client.put_team("twin", "twins", seed=4)
            learner, team = cede.recommended(TASK, seed=4), None
            for k in range(3):
                await counted(client, "twin", k)
                team = team or await client.team("twin")
                assert await team.refresh()
                assert team.version == k + 1
                rng, state, agent = np.random.default_rng(k), 0, team.start_agent
                for t in range(TASK.horizon):
                    prev_agent, agent = agent, await team.choose(t, state, agent)
                    assert agent == learner.choose(t, state, prev_agent)
                    action, following = int(rng.integers(2)), int(rng.integers(max(0, state - 1), min(5, state + 1) + 1))
                    await team.observe(t, state, prev_agent, agent, action, following)
                    learner.observe(t, state, prev_agent, agent, action, following)
                    state = following
                await team.end_episode()
                learner.end_episode()
                await client.flush(600)

    asyncio.run(main())


def test_whoever_is_cancelled_while_a_step_is_written_has_observed_it(tmp_path, server, monkeypatch):
    usual = Spool.put
    began = []

    def slowly(self, *given, **named):
        began.append(True)
        import time

        time.sleep(0.3)
        return usual(self, *given, **named)

    async def main():
        async with cede.AsyncClient(server.address, server.token, timeout=30, spool=tmp_path / "spool.db") as client:
            await client.put_environment("cancels", cede.recommended(TASK))
            await client.put_team("cancelled", "cancels")
            team = await client.team("cancelled")
            monkeypatch.setattr(Spool, "put", slowly)
            task = asyncio.create_task(team.observe(0, 0, 0, 0, 0, 0))
            while not began:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            with pytest.raises(ValueError, match="observe: t is 0, must be 1"):
                await team.observe(0, 0, 0, 0, 0, 0)
            await team.observe(1, 0, 0, 0, 0, 0)
            await team.end_episode()
            await client.flush(600)
            assert (await client.ask("GET", "/v1/teams/cancelled/episodes")).json()["episodes"][0]["received"] == 2

    asyncio.run(main())


def test_closing_that_is_cancelled_loses_nothing(server):
    """No spool: what waits is in memory only. Who gives up on closing while the server is away has a client that goes on."""

    async def main():
        client = cede.AsyncClient(server.address, server.token, timeout=30)
        await client.put_environment("closing", cede.recommended(TASK))
        await client.put_team("closing", "closing")
        team = await client.team("closing")
        await asyncio.to_thread(server.stop)
        try:
            for t in range(TASK.horizon):
                await team.observe(t, 0, team.start_agent, team.start_agent, 0, 0)
            await team.end_episode()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await client.close(600)
        finally:
            await asyncio.to_thread(server.start)
        await counted(client, "closing", 1)
        await client.close(600)
        with pytest.raises(ValueError, match="AsyncClient: it is closed, must be open"):
            await client.flush()

    asyncio.run(main())


def test_what_was_left_is_sent_by_the_next_one(server, tmp_path):
    path = tmp_path / "spool.db"

    async def leave():
        client = cede.AsyncClient(server.address, server.token, timeout=30, spool=path)
        await client.put_environment("left", cede.recommended(TASK))
        await client.put_team("left", "left")
        team = await client.team("left")
        await team.observe(0, 0, 0, 0, 0, 0)
        await client.close()

    async def send():
        async with cede.AsyncClient(server.address, server.token, timeout=30, spool=path) as client:
            await client.flush(600)
            return (await client.ask("GET", "/v1/teams/left/episodes")).json()["episodes"]

    asyncio.run(leave())
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT COUNT(*) FROM unsent").fetchone() == (1,)
    connection.close()
    (episode,) = asyncio.run(send())
    assert (episode["received"], episode["counted"]) == (1, 0)


def test_mistakes_are_named(server):
    with pytest.raises(ValueError, match="AsyncClient: url is 'x', must be the address of a service"):
        cede.AsyncClient("x", "y")

    async def main():
        client = cede.AsyncClient(server.address, server.token)
        assert server.token not in repr(client)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            try:
                client.ask("GET", "/livez").send(None)
            except ValueError as error:
                os._exit(0 if "AsyncClient: it is from another process, must be created in this one" in str(error) else 1)
            os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        await client.close()
        with pytest.raises(ValueError, match="AsyncClient: it is closed, must be open"):
            await client.flush()

    asyncio.run(main())

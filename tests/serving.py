"""A service that runs on a port of its own, for tests that need a real one."""

import threading
import time

import httpx2
import uvicorn

from cede.serve.http.app import create_app
from cede.serve.service import ServiceOptions
from cede.serve.store import tokens
from cede.serve.store.database import Database
from traffic import episodes, river


class Server:
    """A service on a port of its own, with a team that has told something."""

    def __init__(self, path, agents=("left", "right"), **more):
        self.database = Database(f"sqlite:///{path}/cede.db")
        self.app = create_app(self.database, ServiceOptions(pause=0.05))
        self.token = self.make(["admin"])
        config = uvicorn.Config(self.app, port=0, log_level="critical", lifespan="on", timeout_graceful_shutdown=1)
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        port = self.server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.client = httpx2.Client(base_url=self.url, timeout=600)
        self.mdp = river()
        costs = self.mdp.task.env_cost.tolist()
        task = {"env_cost": costs, "agents": list(agents), "horizon": 20, "switch_cost": 0.1, **more}
        assert self("PUT", "/v1/environments/river", {"task": task}).status_code == 201
        for name in ("boat", "canoe"):
            assert self("PUT", f"/v1/teams/{name}", {"environment": "river"}).status_code == 201
        self.settings = episodes(self.mdp, 4, 1)
        for number, episode in enumerate(self.settings):
            self.tell("boat", number, episode)
        while self("GET", "/v1/teams/boat").json()["due"] is not None:
            time.sleep(0.02)

    def make(self, scopes, teams=None):
        return self.database.write(lambda c: tokens.create(c, "test", scopes, teams, None))

    def tell(self, name, number, episode):
        fields = ("state", "prev_agent", "agent", "action", "next_state")
        columns = (episode.states[:-1], episode.prev_agents, episode.agents, episode.actions, episode.states[1:])
        steps = [
            {"episode": number, "t": t, **{f: int(c[t]) for f, c in zip(fields, columns, strict=True)}}
            for t in range(len(episode.actions))
        ]
        ends = [{"episode": number, "steps": len(steps)}]
        assert self("POST", f"/v1/teams/{name}/steps", {"steps": steps, "ends": ends}).status_code == 200

    def __call__(self, method, path, data=None, token=None, **headers):
        headers = {"authorization": f"Bearer {token or self.token}", **headers}
        return self.client.request(method, path, json=data, headers=headers)

    def hang_up(self):
        """Break all connections."""
        for connection in list(self.server.server_state.connections):
            self.server.servers[0].get_loop().call_soon_threadsafe(connection.transport.abort)

    def close(self):
        self.client.close()
        self.server.should_exit = True
        self.thread.join()
        self.database.close()

"""A server in a process of its own, which can be killed and started again quickly."""

import signal
import socket
import time

import httpx2

from forked import context

client = httpx2.Client(timeout=60)


def serve(url, port, plans):
    """Serve until killed."""
    import uvicorn

    from cede.serve.http.app import create_app
    from cede.serve.service import ServiceOptions
    from cede.serve.store.database import Database

    app = create_app(Database(url), ServiceOptions(plans=plans, pause=0.1))
    uvicorn.Server(uvicorn.Config(app, port=port, log_config=None, access_log=False)).run()


class Server:
    """A server of a database. `start` returns when it answers."""

    def __init__(self, url, *, plans):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url, self.plans, self.address = url, plans, f"http://127.0.0.1:{self.port}"

    def start(self):
        self.process = context.Process(target=serve, args=(self.url, self.port, self.plans), daemon=True)
        self.process.start()
        for _ in range(30_000):
            try:
                if client.get(f"{self.address}/readyz").status_code == 200:
                    return
            except httpx2.TransportError:
                time.sleep(0.02)
        raise AssertionError("it does not start")

    def stop(self, number=signal.SIGKILL):
        """Kill it, or end it by another signal."""
        (self.process.kill if number == signal.SIGKILL else self.process.terminate)()
        self.process.join()

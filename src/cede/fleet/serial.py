"""The engine "serial": shards one after the other in this process, with the messages that workers elsewhere would get."""

from typing import Any

from cede.fleet.workers import Server, Worker, WorkerEngine


class SerialWorker:
    """The handle of a shard in this process. server: what does the work, a class."""

    def __init__(self, server: type[Server]) -> None:
        self.server = server()
        self.message = b""

    def send(self, message: bytes) -> None:
        self.message = message

    def receive(self) -> Any:
        return self.server.do(self.message)

    def close(self) -> None:
        pass


class Serial(WorkerEngine):
    """Runs shards one after the other in this process, where a debugger sees them. jobs: the number of shards."""

    def launch(self, index: int) -> Worker:
        return SerialWorker(self.server)

"""Sends requests to a service, in a process of its own: only the standard library, so that it costs little beside the server.

    python benchmarks/service_load.py '{"port": 8000, "token": "...", "method": "POST", "path": "/v1/steps", "bodies": "FILE"}'

The file has one body in a line. Other settings: connections; rate, requests a second (an open loop: a late answer does not hold
back the next request, and its time counts from when it was due), without: as fast as answers come; seconds; rounds, through the
file, each with another number, from first on, in place of `MARK`; retry, until it is acknowledged; again, the part of acknowledged
bodies that is sent once more. SIGTERM ends the load once all that was begun is acknowledged. The result is printed as JSON.
"""

import asyncio
import json
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

MARK = b"7777777"  # in a body: replaced by the number of the round
FIRST_ROUND = 1_000_000
PATIENCE = 30.0  # seconds for an answer


class Connection(asyncio.Protocol):
    """One connection, on which one request at a time is under way."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[tuple[int, bytes]] | None = None
        self.got = b""
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.got += data
        head, found, rest = self.got.partition(b"\r\n\r\n")
        if not found or self.answer is None:
            return
        lower = head.lower()
        place = lower.find(b"content-length:")
        size = int(lower[place + 15 :].split(b"\r\n", 1)[0]) if place >= 0 else 0
        if len(rest) >= size:
            answer, self.answer, self.got = self.answer, None, b""
            if not answer.done():
                answer.set_result((int(head[9:12]), rest))

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(ConnectionError("lost"))

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Send a request, and return status and body of the answer."""
        if self.transport is None:
            raise ConnectionError("lost")
        self.answer, self.got = asyncio.get_running_loop().create_future(), b""
        self.transport.write(request)
        try:
            return await asyncio.wait_for(self.answer, PATIENCE)
        except TimeoutError:
            self.transport.abort()
            raise


class Load:
    """What is sent, and what became of it."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given
        self.bodies = Path(given["bodies"]).read_bytes().splitlines()
        self.next, self.stop, self.begin = 0, False, 0.0
        self.end = time.perf_counter() + given["seconds"] if given.get("seconds") else float("inf")
        self.most = given["rounds"] * len(self.bodies) if given.get("rounds") else float("inf")
        self.statuses: Counter[int] = Counter()
        self.times: list[float] = []
        self.broken = self.hung = self.lost = self.again = 0
        self.acknowledged: list[int] = []
        self.random = random.Random(given.get("seed", 0))

    def head(self, size: int) -> bytes:
        """The head of a request."""
        first = f"{self.given['method']} {self.given['path']} HTTP/1.1\r\nhost: 127.0.0.1\r\n"
        token = f"authorization: Bearer {self.given['token']}\r\n"
        return f"{first}{token}content-type: application/json\r\ncontent-length: {size}\r\n\r\n".encode()

    def request(self, i: int) -> bytes:
        """The i-th request."""
        rounds, place = divmod(i, len(self.bodies))
        body = self.bodies[place].replace(MARK, str(FIRST_ROUND + self.given.get("first", 0) + rounds).encode())
        return self.head(len(body)) + body

    def take(self) -> int | None:
        """The number of the next request; None: there is none."""
        if self.stop or self.next >= self.most or time.perf_counter() > self.end:
            return None
        self.next += 1
        return self.next - 1

    async def worker(self) -> None:
        """Send on one connection, one request after the other."""
        connection = None
        while (i := self.take()) is not None:
            due = time.perf_counter()
            if self.given.get("rate"):
                due = self.begin + i / self.given["rate"]
                if due > self.end:
                    return
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
            request, again = self.request(i), False
            while True:
                try:
                    if connection is None or connection.transport is None:
                        connection = await self.connect()
                    status, body = await connection.ask(request)
                except (OSError, TimeoutError) as error:
                    self.hung += isinstance(error, TimeoutError)
                    self.broken += 1
                    if not self.given.get("retry"):
                        break
                    await asyncio.sleep(0.02)
                    continue
                self.statuses[status] += 1
                if status in (429, 503) and self.given.get("retry"):
                    await asyncio.sleep(0.02)
                    continue
                if again:
                    self.lost += status != 200 or json.loads(body)["new"] > 0
                    break
                self.times.append(time.perf_counter() - due)
                if status == 200:
                    self.acknowledged.append(i)
                if self.random.random() >= self.given.get("again", 0.0):
                    break
                self.again, again = self.again + 1, True

    async def connect(self) -> Connection:
        """Open a connection."""
        return (await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", self.given["port"]))[1]

    async def run(self) -> dict[str, Any]:
        """Send all of it, and return what became of it."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: setattr(self, "stop", True))
        self.begin = time.perf_counter()
        if self.given.get("seconds"):
            self.end = self.begin + self.given["seconds"]
        await asyncio.gather(*(self.worker() for _ in range(self.given.get("connections", 8))))
        seconds, times = time.perf_counter() - self.begin, sorted(self.times)

        def part(p: float) -> float | None:
            return 1000 * times[min(len(times) - 1, int(p * len(times)))] if times else None

        numbers = {"requests": len(times), "acknowledged": len(self.acknowledged), "bodies": len(self.bodies), "seconds": seconds}
        wrong = {"broken": self.broken, "hung": self.hung, "lost": self.lost, "again": self.again}
        rounds = Counter(i % len(self.bodies) for i in self.acknowledged)
        each = [rounds[i] for i in range(len(self.bodies))]
        return {**numbers, **wrong, "p50": part(0.5), "p99": part(0.99), "most": part(1.0), "statuses": self.statuses, "each": each}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(Load(json.loads(sys.argv[1])).run())))

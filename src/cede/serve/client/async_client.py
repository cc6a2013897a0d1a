"""The client for programs that use asyncio: the same as `client.py`, with `await`."""

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, overload

from cede._base import check
from cede._base.extras import need
from cede.learning.learner import Learner
from cede.serve.client import flows
from cede.serve.client.flows import Denied, Flow, Options, Pause, Request, Result, Sender, Unreachable, Work
from cede.serve.client.running import Copy, Running
from cede.serve.client.spool import Spool


class AsyncClient:
    """A client of a service (`cede serve`) for asyncio. The arguments are those of `Client`, and so are the names.

    It is used in one event loop, and not after a fork. What a spool writes is written in a thread, so the loop goes on meanwhile.
    """

    def __init__(self, url: str, token: str, *, timeout: float = 5.0, refresh: float = 2.0, spool: Any = None) -> None:
        self._options = Options.checked("AsyncClient", url, token, timeout, refresh, spool)
        self._process, self._closed = os.getpid(), False
        self.unsent = self._options.unsent()
        self._sender = Sender(self.unsent)
        self._teams: dict[str, AsyncTeamClient] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._more = asyncio.Event()  # something may wait
        self._settled = asyncio.Condition()  # a round of the sender is over
        self._connection: Any = None

    def __repr__(self) -> str:
        return f"AsyncClient({self.url!r})"

    async def __aenter__(self) -> "AsyncClient":
        self.work()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    @property
    def url(self) -> str:
        """Return the address of the service."""
        return self._options.url

    @property
    def http(self) -> Any:
        """Return the connection."""
        if self._process != os.getpid():
            check.fail("AsyncClient", "it", "of another process", "made in this one: an event loop does not outlive a fork")
        if self._connection is None:
            self._connection = need("httpx2", "client").AsyncClient(**self._options.http())
        return self._connection

    async def ask(self, method: str, path: str, **more: Any) -> Any:
        """Send a request, and return the answer. What the service refuses is raised in its own words."""
        found = await self.http.request(method, path, **more)
        if found.status_code >= 400:
            raise ValueError(flows.detail_of(found))
        return found

    async def run(self, flow: Flow[Result]) -> Result:
        """Do what a flow asks for, and return its answer."""
        try:
            wanted = next(flow)
            while True:
                try:
                    found = await self._do(wanted)
                except Exception as error:
                    wanted = flow.throw(error)
                else:
                    wanted = flow.send(found)
        except StopIteration as end:
            result: Result = end.value
            return result

    async def _do(self, wanted: Request | Pause | Work) -> Any:
        """Do one thing that a flow asks for."""
        if isinstance(wanted, Work):
            return await self.written(wanted.call)
        if isinstance(wanted, Pause):
            return await asyncio.sleep(wanted.seconds)
        http = self.http
        timeout = self._options.timeout if wanted.timeout is None else min(wanted.timeout, self._options.timeout)
        more = {"json": wanted.json, "content": wanted.content, "headers": dict(wanted.headers), "timeout": timeout}
        try:
            return await http.request(wanted.method, wanted.path, **more)
        except need("httpx2", "client").HTTPError as error:
            return Unreachable(error)

    async def written(self, work: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Call a function that may write to the spool, in a thread. Whoever is cancelled meanwhile is so when it is over."""
        if not isinstance(self.unsent, Spool):
            return work(*given, **named)
        task = asyncio.ensure_future(asyncio.to_thread(work, *given, **named))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task])
            raise

    async def put_environment(self, name: str, learner: Learner) -> bool:
        """Make an environment with the task and settings of a learner that has not learned yet; False if it is there already."""
        return bool((await self.run(flows.environment_flow(name, learner)))["created"])

    async def put_team(self, name: str, environment: str, *, seed: int = 0, fallback: Any = None, own: Any = None) -> bool:
        """Make a team; False if it is there already. own: agents, costs and known policies of its own, as JSON can hold them."""
        return bool((await self.run(flows.team_flow(name, environment, seed, fallback, own)))["created"])

    async def team(self, name: str) -> "AsyncTeamClient":
        """Return a team, to be used like a learner, with its policy; without one if the token may not decide."""
        check.name("AsyncClient.team", "name", name)
        team = self._teams.setdefault(name, AsyncTeamClient(self, name))
        with suppress(Denied):
            await team.ready()
        return team

    # ------------------------------------------------------------------------------------------------- in the background

    def wake(self) -> None:
        """Send what waits, in the background, again and again until the service has it."""
        self._more.set()
        self.work()

    def work(self) -> None:
        """Start the tasks, once."""
        if self._closed:
            check.fail("AsyncClient", "it", "closed", "open")
        if not self._tasks:
            self._tasks = [asyncio.create_task(one(), name=f"cede-client{one.__name__}") for one in (self._send, self._look)]

    async def _send(self) -> None:
        """Tell what waits, until cancelled."""
        while True:
            self._more.clear()
            if not await self._pending():
                await self._more.wait()
            await asyncio.sleep(flows.GATHER)
            wait = await self.run(self._sender.round())
            async with self._settled:
                self._settled.notify_all()
            await asyncio.sleep(wait)

    async def _pending(self) -> bool:
        """Return whether something waits to be told. If that cannot be read, a round of the sender finds out why."""
        try:
            return bool(await self.written(lambda: self.unsent.pending))
        except Exception:
            return True

    async def _look(self) -> None:
        """Ask for policies that are used, and look for what others left in the spool, again and again, until cancelled."""
        looked = time.monotonic()
        while True:
            await asyncio.sleep(self._options.refresh)
            for team in list(self._teams.values()):
                if team.used:
                    with suppress(Exception):  # refused, as after a token was revoked: the age of the copy tells
                        await team.refresh()
            if isinstance(self.unsent, Spool) and time.monotonic() > looked + flows.LOOK:
                looked = time.monotonic()
                with suppress(Exception):
                    await self.written(self.unsent.adopt)
                self._more.set()

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until all that waits was told. What the service refused is raised as ValueError; too long a wait as TimeoutError."""
        rounds = self._sender.rounds
        until = None if timeout is None else time.monotonic() + check.number("flush", "timeout", timeout, least=0.0)
        self.work()
        while await self.written(lambda: self.unsent.pending):
            self._sender.check_problem(rounds)
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError(f"{await self.written(lambda: self.unsent.waiting)} steps wait to be told")
            async with self._settled:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._settled.wait(), 0.1 if left is None else min(left, 0.1))
        self._sender.check_refused()

    async def close(self, timeout: float = 5.0) -> None:
        """Tell what waits, for some seconds at most, and stop. What is in a spool then stays there, for the next client.

        If this is cancelled while something waits, it stays open, and goes on.
        """
        failure: Exception | None = None
        try:
            if not self._closed and self._tasks:
                await self.flush(timeout)
        except TimeoutError as error:
            failure = error if self._options.spool is None else None
        except Exception as error:
            failure = error
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._connection is not None:
            await self._connection.aclose()
        self.unsent.close()
        if failure is not None:
            raise failure


class AsyncTeamClient:
    """A team of a service, used like a `Learner`, with `await`. `AsyncClient.team` makes it. See `TeamClient`.

    One task at a time may use it.
    """

    def __init__(self, client: AsyncClient, name: str) -> None:
        self.client, self.name, self.used = client, name, False
        self._running = Running(name, client.unsent)

    async def ready(self) -> None:
        """Download the first policy, or take it from the spool."""
        self.used = True
        if self._running.newest is None:
            self._running.newest = await self.client.run(flows.first_copy(self.name, self.client.unsent))
        self.client.work()

    def _there(self) -> Copy:
        """Return the copy that decides."""
        if self._running.newest is None:
            check.fail("AsyncTeamClient", "policy", "missing", "downloaded first (await team.refresh()): the token must allow it")
        return self._running.copy

    @property
    def start_agent(self) -> int:
        """Return who is in control before the first step."""
        return int(self._there().about["start_agent"])

    @property
    def agents(self) -> tuple[str, ...]:
        """Return the names of the agents."""
        return tuple(self._there().about["agents"])

    @property
    def version(self) -> int:
        """Return the version of the policy by which it decides, 0: there is none, and the fallback agent acts."""
        return self._there().version

    @property
    def episode(self) -> int | None:
        """Return the number of the running episode, or run; None: none was begun."""
        return self._running.episode

    @property
    def age(self) -> float:
        """Return for how many seconds it is not known whether there is a newer policy. It grows while the service is away."""
        copy = self._running.newest
        return float("inf") if copy is None else time.monotonic() - copy.got

    async def refresh(self) -> bool:
        """Ask for the policy; return whether the service answered. A copy stays if it does not."""
        running = self._running
        try:
            running.newest = await self.client.run(flows.later_copy(self.name, self.client.unsent, running.newest))
        except need("httpx2", "client").HTTPError:
            return False
        return True

    @overload
    async def choose(self, t: int, state: int | str, prev_agent: int) -> int: ...
    @overload
    async def choose(self, t: int, state: int | str, prev_agent: str) -> str: ...
    @overload
    async def choose(self, state: int | str, prev_agent: int) -> int: ...
    @overload
    async def choose(self, state: int | str, prev_agent: str) -> str: ...
    async def choose(self, *where: Any, **named: Any) -> Any:
        """Return the agent to put in control; see `TeamClient.choose`."""
        await self.ready()
        return self._running.choose(*where, **named)

    async def observe(self, *step: Any, **named: Any) -> None:
        """Take note of one step; see `TeamClient.observe`."""
        await self.ready()
        await self.client.written(self._running.observe, *step, **named)
        if self._running.tells:
            self.client.wake()

    async def end_episode(self) -> None:
        """End the running episode: it is told in the background, and the next one uses the newest policy."""
        await self.client.written(self._running.end_episode)
        self.client.wake()

    async def drop_episode(self) -> None:
        """Drop the running episode: nobody is told of it. Where there is no horizon, the next step begins a new run."""
        await self.client.written(self._running.drop_episode)

    async def begin(self, *, patience: float = 30.0) -> int:
        """Begin an episode at the service; return the number that it gives to it. See `TeamClient.begin`."""
        self._running.check_between("begin")
        number = int((await self.client.run(flows.begin_flow(self.name, patience)))["episode"])
        self._running.begun(number)
        return number

    async def decide(self, t: int | None, state: int, prev_agent: int) -> dict[str, Any]:
        """Ask the service who should act; return its whole answer. See `TeamClient.decide`."""
        found: dict[str, Any] = await self.client.run(flows.decide_flow(self.name, t, state, prev_agent))
        return found

    async def report(self, steps: Any, ends: Any = (), *, patience: float = 30.0) -> dict[str, int]:
        """Tell the service steps, and ends of episodes, and return its answer. See `TeamClient.report`."""
        found: dict[str, int] = await self.client.run(flows.report_flow(self.name, steps, ends, patience))
        return found

"""The client for programs without asyncio: an `AsyncClient` in a thread with an event loop of its own."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from cede._base import check
from cede.client.async_client import AsyncClient, AsyncTeamClient, TeamProperties
from cede.client.connection import ClientOptions
from cede.client.policy import PolicyCopy
from cede.client.spool import Spool

Given = ParamSpec("Given")
Answer = TypeVar("Answer")


def blocking(method: Callable[Concatenate[Any, Given], Coroutine[Any, Any, Answer]]) -> Callable[Concatenate[Any, Given], Answer]:
    """Return a method that runs a method of the asynchronous client or team in the client's thread, and waits for its result."""

    @wraps(method)
    def call(self: Any, /, *args: Given.args, **kwargs: Given.kwargs) -> Answer:
        return self.run(method, self._here(), *args, **kwargs)  # type: ignore[no-any-return]

    return call


class Client:
    """A client of a service (`cede serve`). It may be used in several threads, and after a fork.

    url: the address of the service. token: one that allows decisions and reports for the teams that are used. timeout: seconds for
    a request. refresh: seconds between two downloads of a policy that is used, in the background.

    spool: the path of a file for unsent steps and the last policy of each team. It outlives the process: the next client with the
    same file sends what this one could not. Several processes may share it. It never contains the token.
    """

    def __init__(self, url: str, token: str, *, timeout: float = 5.0, refresh: float = 2.0, spool: Any = None) -> None:
        self._options = ClientOptions.checked("Client", url, token, timeout, refresh, spool)
        self._teams: dict[str, TeamClient] = {}
        self._begin()
        if self.unsent.pending:  # other clients left steps in the spool
            self.work()

    def _begin(self) -> None:
        """Begin without a thread: in a new client, and in the child after a fork."""
        self._process, self._closed, self._lock = os.getpid(), False, threading.RLock()
        self._thread: threading.Thread | None = None
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._stop = asyncio.Event()
        self._inner = AsyncClient(**vars(self._options))

    def _here(self) -> AsyncClient:
        """Return the asynchronous client of this process. After a fork, the child makes a new one."""
        if self._process != os.getpid():
            self._begin()
        return self._inner

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Return the address of the service."""
        return self._options.url

    @property
    def unsent(self) -> Spool:
        """Return the unsent steps."""
        return self._here().unsent

    ask = blocking(AsyncClient.ask)
    put_environment = blocking(AsyncClient.put_environment)
    put_team = blocking(AsyncClient.put_team)

    def team(self, name: str) -> "TeamClient":
        """Return a team, used like a learner: choose, observe, end_episode."""
        check.name("Client.team", "name", name)
        self._here()
        with self._lock:
            return self._teams.setdefault(name, TeamClient(self, name))

    # ------------------------------------------------------------------------------------------------- the thread

    def work(self) -> None:
        """Start the thread, which sends unsent steps and refreshes policies in the background."""
        self._here()
        with self._lock:
            if self._closed:
                check.fail("Client", "it", "closed", "open")
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="cede-client", daemon=True)
                self._runner.get_loop()  # so that calls can be scheduled before the thread runs
                self._thread.start()

    def _serve(self) -> None:
        """Run the event loop, until closed."""

        async def until_stopped() -> None:
            self._inner.work()
            await self._stop.wait()
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._inner._stop()

        with self._runner:
            self._runner.run(until_stopped())

    def run(self, call: Callable[Given, Coroutine[Any, Any, Answer]], *args: Given.args, **kwargs: Given.kwargs) -> Answer:
        """Run a coroutine function in the thread; return its result."""
        with self._lock:
            self.work()
            future = asyncio.run_coroutine_threadsafe(call(*args, **kwargs), self._runner.get_loop())
        try:
            return future.result()
        except CancelledError:
            check.fail("Client", "it", "closed", "open")
        except BaseException:  # such as KeyboardInterrupt
            future.cancel()
            raise

    def wake(self) -> None:
        """Send unsent steps in the background, with retries until the service has them."""
        inner = self._here()
        with self._lock:
            self.work()
            self._runner.get_loop().call_soon_threadsafe(inner.more.set)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all steps are sent. Raises ValueError for refused steps, TimeoutError after timeout seconds."""
        inner = self._here()
        if not self._closed:
            self.run(inner.flush, timeout)

    def close(self, timeout: float = 5.0) -> None:
        """Send unsent steps, for timeout seconds at most, and stop. Steps in a spool stay there for the next client."""
        inner = self._here()
        try:
            if self._thread is not None and not self._closed:
                self.run(inner.flush, timeout)
        except TimeoutError:
            if self._options.spool is None:
                raise
        finally:
            with self._lock:
                if self._thread is not None and not self._closed:
                    self._runner.get_loop().call_soon_threadsafe(self._stop.set)
                self._closed = True
            if self._thread is not None:
                self._thread.join()
            inner.unsent.close()


class TeamClient(TeamProperties):
    """A team of a service, used like a `Learner`: `choose`, `observe`, `end_episode`. `Client.team` makes it.

    `choose` decides by a copy of the policy, which does not change during an episode. Steps are sent when the episode ends. Without
    a horizon, `choose` uses the newest copy, and steps are sent in batches without waiting for an end. Only one thread at a time
    may use it.

    `begin`, `decide` and `report` ask the service itself, for programs that do not decide by a copy.
    """

    def __init__(self, client: Client, name: str) -> None:
        self.client, self.name = client, name
        self._inner = client._here()._team(name)

    def _here(self) -> AsyncTeamClient:
        """Return the asynchronous team of this process. After a fork it has the same policy, and no running episode."""
        if self._inner.client is not self.client._here():
            newest = self._inner._running.newest
            self._inner = self.client._here()._team(self.name)
            self._inner._running.newest = newest
        return self._inner

    def _ready(self) -> AsyncTeamClient:
        """Return the asynchronous team with a policy. The first policy is downloaded, or read from the spool."""
        inner = self._here()
        if inner._running.newest is None:
            self.client.run(inner.ready)
        inner.used = True
        self.client.work()
        return inner

    def _policy(self) -> PolicyCopy:
        self._ready()
        return super()._policy()

    @property
    def run(self) -> Callable[..., Any]:
        """Return `Client.run`."""
        return self.client.run

    refresh = blocking(AsyncTeamClient.refresh)
    begin = blocking(AsyncTeamClient.begin)
    decide = blocking(AsyncTeamClient.decide)
    report = blocking(AsyncTeamClient.report)

    @overload
    def choose(self, t: int, state: int | str, prev_agent: int) -> int: ...
    @overload
    def choose(self, t: int, state: int | str, prev_agent: str) -> str: ...
    @overload
    def choose(self, state: int | str, prev_agent: int) -> int: ...
    @overload
    def choose(self, state: int | str, prev_agent: str) -> str: ...
    def choose(self, *where: Any, **named: Any) -> Any:
        """Return the agent to put in control at time t in a state, if prev_agent was in control before, as `Learner.choose` does.

        Without a horizon there is no t. state, prev_agent: indices or names; the answer is a name if prev_agent is one.
        """
        return self._ready()._running.choose(*where, **named)

    def observe(self, *step: Any, **named: Any) -> None:
        """Record one step, as `Learner.observe` does: t, state, prev_agent, agent, action, next_state, cost, enter_cost.

        Without a horizon there is no t, and moved=True begins a new run: nothing is learned from the move. All but t and costs are
        indices or names. With a spool, the step survives the end of the process once this has returned.
        """
        running = self._ready()._running
        running.observe(*step, **named)
        if running.is_endless:
            self.client.wake()

    def end_episode(self) -> None:
        """End the running episode: it is sent in the background, and the next one uses the newest policy."""
        self._here()._running.end_episode()
        self.client.wake()

    def drop_episode(self) -> None:
        """Drop the running episode: its steps are not sent. Without a horizon, the next step begins a new run."""
        self._here()._running.drop_episode()

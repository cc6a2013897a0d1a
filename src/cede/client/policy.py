"""Copies of policies, and their download."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cede._base import check
from cede._base.arrays import Policy
from cede.client.connection import RETRY_STATUSES, Connection, error_of, team_path


@dataclass(frozen=True, eq=False)
class PolicyCopy:
    """A downloaded policy, and the description of its task."""

    policy: Policy | None  # (L, S, D), or (S, D) without a horizon; None: there is no plan yet
    about: Mapping[str, Any]  # the other fields of the response: agents, states, version, ...
    tag: str | None  # its ETag
    confirmed: float  # when the service last confirmed that it is the newest, by time.monotonic

    @property
    def version(self) -> int:
        """Return the version of the policy; 0 without a policy."""
        return 0 if self.policy is None else int(self.about["version"])

    def choice(self, where: tuple[int, ...]) -> int:
        """Return the agent to put in control. where: (t, state, prev_agent); (state, prev_agent) without a horizon.

        Without a policy this is the fallback agent, or the next agent on the way to it where hand-overs take time or are locked.
        """
        if self.policy is not None:
            return int(self.policy[where])
        towards = self.about.get("towards")
        if towards is None:
            return int(self.about["fallback"])
        *_, state, prev = where
        return int(towards[state][prev] if isinstance(towards[0], list) else towards[prev])  # by state where there are locks


def policy_shape(about: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the shape of a policy, from the description of its task."""
    sides = (about["n_states"], len(about["agents"]))
    return sides if about["horizon"] is None else (about["horizon"], *sides)


def read_policy(answer: Any) -> PolicyCopy:
    """Return the policy in a response."""
    try:
        about = answer.json()
        policy = np.array(about.pop("policy"), dtype=np.int16)
        if policy.shape != policy_shape(about):
            raise ValueError
        return PolicyCopy(policy, about, answer.headers["etag"], time.monotonic())
    except (ValueError, KeyError, TypeError, OverflowError):
        check.fail("service", "its response", "not a policy", "a policy: does a proxy answer instead?")


async def newest_copy(connection: Connection, team: str, old: PolicyCopy | None, timeout: float | None = None) -> PolicyCopy:
    """Return the newest copy of the policy of a team; the old copy if it is the newest or the service has an internal problem.

    timeout: seconds for each request; None: the client's. Raises ValueError if the service refuses, httpx2.HTTPError if it cannot
    be reached.
    """
    more = {} if timeout is None else {"timeout": timeout}
    headers = {} if old is None or old.tag is None else {"if-none-match": old.tag}
    answer = await connection.request("GET", f"{team_path(team)}/policy", headers=headers, **more)
    status = answer.status_code
    if status == 304 and old is not None:
        return replace(old, confirmed=time.monotonic())
    if status == 200:
        return read_policy(answer)
    if status == 404 and (old is None or old.policy is None):  # there is no plan yet, or no such team
        answer = await connection.request("GET", team_path(team), **more)
        if answer.status_code == 200:
            return PolicyCopy(None, answer.json(), None, time.monotonic())
    if old is None or status not in (*RETRY_STATUSES, 404):
        raise error_of(answer)
    return old

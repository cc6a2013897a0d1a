"""The calls of a learner by which agents join its team, leave it, or change."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from cede._base import check
from cede._base.interrupts import interrupts_later
from cede._base.turns import Assignments, Change
from cede.learners.control_loop import ControlLoop
from cede.learners.session import Session, check_no_sessions
from cede.learners.shared_agents import check_agents
from cede.learners.state import LearnerState
from cede.learners.team_changes import LIKE_WEIGHT, After, TeamChange, begun_again, changed, joined, left
from cede.rows.stored import own_layers

if TYPE_CHECKING:
    from cede.rows.working import SharedCounts


class ChangingTeam(ControlLoop):
    """A learner whose team may change between episodes. The public class is `Learner`."""

    _changes: tuple[TeamChange, ...] = ()
    _shared: "SharedCounts | None"  # counts that it shares with its fleet

    @abstractmethod
    def _packed(self) -> LearnerState:
        """Return the stored form, without the lock."""

    @property
    def team_changes(self) -> tuple[TeamChange, ...]:
        """Return when agents joined, left or changed: (episode, agent, change). Files keep it."""
        self.turn.settle()
        return self._changes

    def add_agent(
        self,
        name: str,
        *,
        control_cost: ArrayLike = 0.0,
        switch_cost: float | Mapping[tuple[str, str], Any] = 0.0,
        policy: ArrayLike | None = None,
        like: str | None = None,
        weight: float = LIKE_WEIGHT,
        varies_with: str | None = None,
        takeover_delay: int = 0,
    ) -> None:
        """Add an agent to the team, as the last of its members. What was counted of the others, and of the environment, stays.

        name: a new one. control_cost: of a step in control, one number or (S,). switch_cost: of hand-overs from and to the
        newcomer: one number, or by name as in {("robot", "new"): 0.3}, where those that are not named cost nothing. policy: if it
        is known, as in `known_agents`. varies_with, takeover_delay: as in `Task`.

        like: the name of a similar agent, from which the newcomer takes over counts, scaled to at most `weight` in each row, and
        declared structure, the rule to forget and varies_with. What it does differently is learned all the same, and the counts
        are soon few beside its own; but as long as they are there, guarantees do not hold for its rows.

        `task` is then another one, and a new plan is made. Known agents, rules to forget, limits and structure stay with the
        agents of their names; the newcomer has none of these, but a rule that all others have. A baseline of one agent alone stays.
        With trial episodes the next one is the newcomer's. It must not be called during an episode, or while steps are recorded: a
        record is of one team.
        """
        owner = "add_agent"
        options = {"control_cost": control_cost, "switch_cost": switch_cost, "policy": policy, "like": like}
        options |= {"weight": weight, "varies_with": varies_with, "takeover_delay": takeover_delay}
        change = Change(waits=True)
        with change.lock:
            self._claim(owner, change)
            after = joined(owner, self.task, self.settings, self._with_all_agents(), name, **options)
            change.after = self._with_team(after, TeamChange(self.episode, name, "joined"))
            change.finish()

    def remove_agent(self, name: str, *, start_agent: str | None = None) -> None:
        """Remove an agent from the team, with its counts. All others stay, and keep theirs.

        name: of a member. start_agent: who is in control before the first step of an episode from now on, by name; needed if it was
        the one who leaves. See `add_agent`.
        """
        owner = "remove_agent"
        change = Change(waits=True)
        with change.lock:
            self._claim(owner, change)
            after = left(owner, self.task, self.settings, self._with_all_agents(), name, start_agent)
            change.after = self._with_team(after, TeamChange(self.episode, name, "left"))
            change.finish()

    def agent_changed(self, name: str, *, keep: float = 0.0, most: float | None = None) -> None:
        """Note that an agent behaves differently from now on: a new person on shift, a model that was trained again.

        By default its counts begin again. keep: the fraction of them that stays. most: what stays is scaled to at most this many
        counts in each row (3 was best where a change is moderate); keep is then 1, unless it is given. Counts of others, and of the
        environment, stay. A baseline begins again, too: what was proven of its cost held for the agents before.

        It must not be called during an episode.
        """
        owner = "agent_changed"
        change = Change(waits=True)
        with change.lock:
            self._claim(owner, change, recorded=True)
            if self._shared is not None and name in self._shared.spans:
                expected = "one that the fleet does not share: fleet.agent_changed changes it for all teams"
                check.fail(owner, "name", repr(name), expected)
            state = changed(owner, self.task, self.settings, self._packed(), name, keep, most)
            with interrupts_later(), self._recording.together(None):
                change.after = self._changed(name, state)
            change.finish()

    def _changed(self, name: str, state: LearnerState | None = None) -> Assignments:
        """Note that an agent has changed in the record, and return the assignments for it. state: None if its counts are shared."""
        if self._recording.recorder is not None:
            self._recording.recorder.agent_changed(self.episode, name)
        noted = TeamChange(self.episode, name, "changed")
        after = begun_again(self._packed()) if state is None else state
        return (*self._with_counts(after), (self, "_changes", (*self._changes, noted)))

    def _claim(self, owner: str, change: Change, *, recorded: bool = False) -> None:
        """Claim the learner for a change of its team, between two episodes. recorded: whether it may be recorded."""
        change.claim(owner, [self])
        check_no_sessions(owner, "the learner", self)
        if self.observed:
            expected = "0: end it first (end_episode), or drop it (drop_episode)"
            check.fail(owner, "the number of steps of the running episode", self.observed, expected)
        if self.recorder is not None and not recorded:
            expected = "not recorded: close that recorder, and record to another file afterwards; a record is of one team"
            check.fail(owner, "the learner", f"recorded to {str(self.recorder.path)!r}", expected)

    def _with_all_agents(self) -> LearnerState:
        """Return the stored form with the counts of agents that it shares with its fleet."""
        state, shared = self._packed(), self._shared
        return state if shared is None else replace(state, counts=shared.with_shared_agents(state.counts, self.task))

    def _with_counts(self, state: LearnerState) -> Assignments:
        """Return the assignments that replace all state, but not the running episode."""
        return (self, "_state", state), (self, "_live", None)

    def _with_team(self, after: After, noted: TeamChange) -> Assignments:
        """Return the assignments that replace task, settings and state, and note the change."""
        task, settings, state = after
        if self._shared is not None:
            check_agents("Learner", "the learner", self._shared.spans, task, settings)
            state = replace(state, counts=replace(state.counts, layers=own_layers(state.counts, self._shared.layer_names)))
        new = {"_task": task, "_settings": settings, "_session": Session(self, None), "_changes": (*self._changes, noted)}
        still = (self._open, "awaited", self._open.awaited.of_team(self.task.agents, task.agents))
        return (*((self, name, value) for name, value in new.items()), *self._with_counts(state), still)

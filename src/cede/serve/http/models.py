"""Models of requests and answers. They validate requests strictly, and are the schemas of the OpenAPI document."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from cede.serve.names import BIG

Whole = Annotated[int, Field(ge=0, lt=BIG)]
Name = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._~:-]{0,127}$")]
AgentGiven = Annotated[str | Whole, Field(description="An agent, by index or by name.")]


class Strict(BaseModel):
    """A request: no conversions, no unknown entries."""

    model_config = ConfigDict(strict=True, extra="forbid")


def example(*values: Any) -> ConfigDict:
    """Return the part of a model's configuration that holds examples."""
    return ConfigDict(json_schema_extra={"examples": list(values)})


TASK = {
    "env_cost": [[0.0, 0.1], [1.0, None]],
    "cost_range": [0.0, 1.0],
    "agents": ["robot", "operator"],
    "control_cost": {"operator": 0.2},
    "switch_cost": 0.1,
    "horizon": 10,
}


class EnvironmentIn(Strict):
    """An environment: task and settings that its teams share."""

    model_config = example({"task": TASK, "learner": {"algorithm": "recommended"}, "fallback": "operator"})
    task: dict[str, Any] = Field(description="Arguments of cede.Task by name; null for an unknown cost.")
    learner: dict[str, Any] = Field(
        default_factory=dict, description="algorithm, the name of a function of cede, and its arguments."
    )
    fallback: AgentGiven | None = Field(None, description="The agent that acts while there is no plan; by default the start agent.")


class TeamIn(Strict):
    """A team of an environment. Agents and their costs are those of the environment unless given."""

    model_config = example({"environment": "road", "seed": 17})
    environment: Name
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    fallback: AgentGiven | None = None
    own: dict[str, Any] = Field(
        default_factory=dict,
        description="agents, control_cost, switch_cost, can_switch, grab_cost, start_agent, varies_with, takeover_delay, "
        "on_takeover as in cede.Task; known_agents, policies by name.",
    )


class BeginIn(Strict):
    """The beginning of an episode."""

    model_config = example({"episode": 12}, {})
    episode: Whole | None = Field(None, description="The client's number of it; without it, the server chooses one.")


class DecideIn(Strict):
    """A request for a decision: which agent should act?"""

    model_config = example({"t": 0, "state": 3, "prev_agent": 0}, {"state": 3, "prev_agent": 0})
    t: Whole | None = Field(None, description="The time step; left out where the task has no horizon.")
    state: Whole
    prev_agent: Whole


class DecideOneIn(DecideIn):
    """A request for a decision for one of several teams."""

    model_config = example({"team": "truck-17", "t": 0, "state": 3, "prev_agent": 0})
    team: Name


class DecideManyIn(Strict):
    """Requests for decisions for several teams."""

    decisions: Annotated[list[DecideOneIn], Field(max_length=10_000)]


class StepContent(Strict):
    """The content of a step. Indices count from 0."""

    state: Whole
    prev_agent: Whole
    agent: Whole = Field(description="The agent that acted.")
    action: Whole
    next_state: Whole
    cost: float | None = Field(None, description="Cost of the action; required if the task does not state it.")
    enter_cost: float | None = None
    chosen: Whole | None = Field(None, description="The agent that was chosen to act.")
    version: Whole | None = Field(None, description="Version of the plan that chose it.")
    reason: Literal["plan", "audition", "fallback"] | None = Field(None, description="Reason in the decision.")
    at: Whole | None = Field(None, description="Time of the step, in milliseconds since 1970.")
    meta: dict[str, Any] | None = Field(None, description="Free metadata, at most 4096 characters as JSON.")


STEP: dict[str, Any] = {"episode": 12, "t": 0, "state": 3, "prev_agent": 0, "agent": 1, "action": 0, "next_state": 4}


class StepIn(StepContent):
    """A step. Its key is episode and t; without a horizon, its run and its number in the run, from 0."""

    model_config = example(STEP)
    episode: Whole
    t: Whole


class TeamStepIn(StepIn):
    """A step of one of several teams."""

    model_config = example({"team": "truck-17", **STEP})
    team: Name


class EndIn(Strict):
    """The end of an episode."""

    model_config = example({"episode": 12, "steps": 1})
    episode: Whole
    steps: Annotated[int, Field(ge=1, lt=BIG, description="Number of steps of the episode, or run.")]


class TeamEndIn(EndIn):
    """The end of an episode of one of several teams."""

    model_config = example({"team": "truck-17", "episode": 12, "steps": 1})
    team: Name


class EndOneIn(Strict):
    """The end of the episode in the address."""

    model_config = example({"steps": 1})
    steps: Annotated[int, Field(ge=1, lt=BIG)]


class StepsIn(Strict):
    """Steps of one team, in any order, and ends of its episodes. They are accepted as a whole or not at all."""

    steps: list[StepIn] = Field(default_factory=list)
    ends: list[EndIn] = Field(default_factory=list)


class TeamStepsIn(Strict):
    """Steps of several teams, in any order, and ends of episodes. They are accepted as a whole or not at all."""

    steps: list[TeamStepIn] = Field(default_factory=list)
    ends: list[TeamEndIn] = Field(default_factory=list)


PolicyGiven = Annotated[
    str | Whole | list[Any],
    Field(description="'plan'; an agent that is always in control, by index or by name; or agents by t, state and previous agent."),
]


class EstimateIn(Strict):
    """A request for the expected cost of a policy. All but the policies are as in `cede.estimate`."""

    model_config = example({"policy": [[[0, 0], [1, 1]]], "against": "plan"}, {"policy": 1})
    policy: PolicyGiven = "plan"
    against: PolicyGiven | None = Field(None, description="Another policy, whose cost is subtracted.")
    start: list[float] | None = Field(None, description="Probabilities of the first state; by default the observed frequencies.")
    interval: Literal["draws", "sets"] | None = None
    level: float | None = None
    draws: Whole | None = None
    prior: float | None = None
    seed: Whole | None = None


class EstimateOut(BaseModel):
    """The expected cost of a policy, or its difference to another one, with an interval: a `cede.insight.Estimate`."""

    episodes: int = Field(description="Counted episodes of the team.")
    mean: float
    low: float
    high: float
    kind: str = Field(description="Kind of the interval: 'posterior draws' or 'confidence sets'.")
    level: float = Field(description="Fraction of the draws in the interval; for sets, the probability that they hold.")
    policy: str = Field(description="The policy.")
    against: str | None = Field(description="The policy whose cost is subtracted; null: none.")
    per: str = Field(description="Unit of the cost, as 'episode'.")
    starts: str = Field(description="Assumed first states.")
    draws: int | None
    prior: float | None
    warnings: list[str] = Field(description="Warnings, in sentences.")


class Problem(BaseModel):
    """An error (RFC 9457)."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str = Field(examples=["report: steps[3].state is 99, must be an integer from 0 to 5"])


class DecisionOut(BaseModel):
    """A decision."""

    agent: int
    name: str | None = Field(description="Name of the agent; null while the team's plan is not in memory.")
    plan: str = Field(
        description="fresh: made from all counted episodes of the team; stale: episodes were counted since; fallback: no plan."
    )
    version: int
    reason: str = Field(description="plan: the choice of the plan; audition: a trial episode of one member; fallback: no plan.")
    age: float | None = Field(description="Seconds since the plan was made.")


class DecisionsOut(BaseModel):
    """Decisions, in the order of the requests."""

    decisions: list[DecisionOut]


class AcceptedOut(BaseModel):
    """The outcome of a report. It is on disk."""

    new: int = Field(description="New steps.")
    duplicates: int = Field(description="Steps that were in the log already.")
    counted: int = Field(description="Episodes that this report completed; without a horizon, new steps.")


class BegunOut(BaseModel):
    """A new episode."""

    episode: int
    start_agent: int
    version: int

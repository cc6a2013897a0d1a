"""The support desk: a small model, a large model and a person answer tickets, and a ticket can be handed on."""

from itertools import product

import numpy as np

from cede.problem.model import Agent, Environment, Team, TwoLayerMDP

KINDS, TRIES, HORIZON = ("easy", "tricky", "nasty"), 3, 6
ACTIONS = ("right answer", "wrong answer", "question back")
WAITING = (0.02, 0.05, 0.1, 0.23)  # costs of a step while the customer waits, all equally likely
LOST_CUSTOMER = 4.0  # cost if the customer leaves, once
# For each agent: probability of a right answer to each kind of ticket, else of a question back, and the cost of a step.
SKILLS = {
    "small model": ((0.9, 0.45, 0.1), 0.0, 0.0),
    "large model": ((0.97, 0.75, 0.3), 0.1, 0.05),
    "person": ((0.97, 0.9, 0.85), 0.3, 0.15),
}
ESCALATION = ((0.0, 0.05, 0.1), (0.0, 0.0, 0.1), (0.0, 0.0, 0.0))  # upward only: the next agent must read the ticket again


def support_desk() -> TwoLayerMDP:
    """Return the problem: 6 steps for a ticket, 11 states, 3 actions, 3 agents.

    A ticket is easy, tricky or nasty and has had some wrong answers. After the third one the customer leaves, which costs 4. A
    question back makes the ticket easier, or annoys. While the customer waits, a step has a random cost of 0.1 in the mean.
    """
    opened = list(product(KINDS, range(TRIES)))
    n, solved, lost = len(opened) + 2, len(opened), len(opened) + 1
    transition, cost = np.zeros((n, len(ACTIONS), n)), np.zeros((n, len(ACTIONS), len(WAITING)))
    for s, (kind, tries) in enumerate(opened):
        easier = opened.index((KINDS[max(0, KINDS.index(kind) - 1)], tries))
        again = lost if tries == TRIES - 1 else opened.index((kind, tries + 1))
        transition[s, 0, [solved, s]] = 0.95, 0.05
        transition[s, 1, again] = 1.0
        np.add.at(transition[s, 2], [easier, s, lost], [0.55, 0.35, 0.1])
        cost[s] = WAITING
    transition[solved, :, solved] = transition[lost, :, lost] = 1.0
    start = np.zeros(n)
    start[[opened.index((kind, 0)) for kind in KINDS]] = 0.5, 0.3, 0.2
    environment = Environment(
        transition,
        cost,
        start,
        state_names=[*(f"{kind}, {tries} wrong answers" for kind, tries in opened), "solved", "lost"],
        action_names=ACTIONS,
        terminal=["solved", "lost"],
        enter_cost={"lost": LOST_CUSTOMER},
    )
    agents = []
    for name, (skill, asks, price) in SKILLS.items():
        policy = np.tile([1.0, 0.0, 0.0], (n, 1))
        for s, (kind, _) in enumerate(opened):
            right = skill[KINDS.index(kind)]
            policy[s] = right, (1 - right) * (1 - asks), (1 - right) * asks
        agents.append(Agent(name, policy, control_cost=price))
    return TwoLayerMDP(environment, Team(agents, ESCALATION), HORIZON, start_agent="small model")

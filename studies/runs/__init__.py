"""Functions that run learners and return what a figure needs; each can be named by a `Part`. Nothing here draws.

river, lane             the paper's two tasks: one team, a fleet, a newcomer, ways of planning
league, league_worlds   learners in ten worlds, told nothing; the worlds
rivals                  PPO and DQN in these worlds
promises                all learners in three worlds, with checks of their guarantees
unknown_costs           costs that are told, learned, or learned together in a fleet
people_change           a human whose driving changes
limits_and_baseline     limits of control; never much worse than a baseline
planning_ways, newcomer, curves    what the runs above share
frozen_lake             Gymnasium's FrozenLake with three walkers
methods                 learners by the names of the command line
"""

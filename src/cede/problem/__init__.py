"""The problem that is controlled: environment, agents and team, what a learner is told of them, and what may be declared of them.

model       Environment, Agent, Team and TwoLayerMDP, the whole truth
task        Task, what a learner is told: sizes, costs, horizon and names, no probabilities
takeover    hand-overs that take time, rewritten as hand-overs that do not
structure   Structure and Outcomes: which states or state-action pairs share one distribution
"""

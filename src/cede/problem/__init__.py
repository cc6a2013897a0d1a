"""The problem that is controlled: environment, agents and team; the input of a learner; declared structure.

model       Environment, Agent, Team and TwoLayerMDP: the true model
task        Task, the input of a learner: sizes, costs, horizon and names, no probabilities
takeover    slow hand-overs, rewritten as immediate hand-overs of a larger team
structure   Structure and Outcomes: which states or state-action pairs share one distribution
"""

"""The service: a controller that stays. It is asked over the network who should act, is told what happened, and learns from that.

A log of steps in a database is the truth; counts are kept beside it, in the same transactions; plans follow from counts.
"""

"""The service: answers over HTTP which agent should act, takes reports of steps, and plans from them.

The log of steps in the database is the source of truth. Counts are updated in the same transactions; plans follow from counts.
"""

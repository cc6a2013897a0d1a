"""Clients of the service: a team is used like a learner, over the network, through outages and kills.

`async_client` does all the work; `client` runs it in a thread, for programs without asyncio. `connection` sends requests,
`policy` downloads policies, `sender` sends steps. `episode` is the running episode of a team. `spool` stores unsent steps, in
memory or in a file. Nothing of the server is imported.
"""

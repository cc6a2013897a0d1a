"""The clients of the service: a team used like a learner, over the network, through outages and kills.

What a client does is written once, as flows that need no network of their own (`flows`); `client` drives them in threads,
`async_client` in tasks. `running` is the episode that a team is in; steps wait in memory (`unsent`) or on disk (`spool`).
"""

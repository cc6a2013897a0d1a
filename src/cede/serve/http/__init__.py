"""The HTTP interface: routes, request bodies, errors, events, and the files of the dashboard."""

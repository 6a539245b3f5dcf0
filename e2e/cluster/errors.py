"""What can go wrong for a reason that a person can act on."""


class ClusterError(Exception):
    """A sentence for the person at the terminal; printed without a traceback."""


class NotFound(ClusterError):
    """The API server knows no such object (any more)."""

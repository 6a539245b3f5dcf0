"""What can go wrong for a reason that a person can act on."""


class ClusterError(Exception):
    """A sentence for the person at the terminal; printed without a traceback."""

"""The work queue: which service is looked at next."""

from tandem_operator.queue.work_queue import WorkQueue

__all__ = ["WorkQueue"]

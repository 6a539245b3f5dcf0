"""The one error that a user sees."""


class Mistake(Exception):
    """Something the user can put right. The message is one line."""

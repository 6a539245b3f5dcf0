"""A busy machine must not fail a property: only what it finds counts, not how long it took."""

from hypothesis import settings

settings.register_profile("operator", deadline=None, print_blob=True)
settings.load_profile("operator")

"""Policies to compare. Each is a class with its own defaults; what is tuned for a trace is a constructor argument."""

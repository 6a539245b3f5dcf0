"""What to do: pure functions from `Observed` and the time to a `Plan`. No I/O, no clock, no chance."""

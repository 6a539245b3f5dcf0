"""What is: the watched World and the engines' own load, as the frozen `Observed` that the plan reads."""

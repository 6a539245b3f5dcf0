"""The autoscaler: signals -> model -> decide -> write."""

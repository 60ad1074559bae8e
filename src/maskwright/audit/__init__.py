"""Finds mask bugs in anybody's model, and says which module and why."""

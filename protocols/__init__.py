"""The plan: the protocol file, the units file, and the run order that follows from both."""

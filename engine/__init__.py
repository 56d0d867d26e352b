"""The doing: protocol files, plans, drivers, runs and looks; the bridge from record to numbers."""

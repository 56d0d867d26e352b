"""JSON Schemas of the events, one file for each kind and version, generated from `ledger.events`."""

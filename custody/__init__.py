"""The keeping: open a ledger, sign its head, have it vouched for, prove, redact, hand over."""

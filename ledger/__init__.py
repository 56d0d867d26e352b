"""The record: events, their bytes, their places in an append-only log, and what they add up to.

Imports nothing of the other packages. Nothing here runs a driver or computes a statistic.
"""

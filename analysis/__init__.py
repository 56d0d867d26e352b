"""The numbers: arrays and frozen values in, frozen values out.

Imports nothing of the other packages, and knows neither files nor clocks nor events.
"""

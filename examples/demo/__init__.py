"""The two recorded experiments that `ledger demo` runs: protocols, units and outcomes.

This package holds data and no code. It is a package so that an installed wheel has the files too:
`importlib.resources.files("fairtrial.examples.demo")` finds them.

Rules:
    * The outcomes are those of the sources named in README.md, unchanged.
    * `FILES` is everything that belongs in a copy of the example.
"""

__all__ = ("FILES",)

FILES = (
    "LICENSE-MIT.txt",
    "README.md",
    "pro-outcomes.csv",
    "pro-units.csv",
    "pro.yaml",
    "verified-outcomes.csv",
    "verified-units.csv",
    "verified.yaml",
)

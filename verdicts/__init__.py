"""The reading: outcomes become arrays, arrays become looks, results and their reasons. Pure."""

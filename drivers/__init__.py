"""The arms: a job goes in, an answer comes out; programs, callables and recorded outcomes."""

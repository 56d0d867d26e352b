"""The doing: register, freeze, run, take looks, conclude, replay; the facade for all of it."""

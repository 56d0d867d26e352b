"""The verbs of the command line, one module each: parse, call the facade, print text or JSON.

Leaves exit codes and errors to `cli.py`, every act to `engine/session.py`. `do_NAME.py` holds a
verb, `text_NAME.py` the text that people read: functions of values that return strings.

Rules:
- Nothing is imported here: a verb's module is imported when the verb is used.
- A verb prints through `output.py` only and returns how it ended, never an exit code.
"""

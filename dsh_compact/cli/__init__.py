'''The command line: parse, call the library, print. One file a command.

How to add a command, `dshc frobnicate`, say:

1. Write `cli/frobnicate.py`. It is imported only when the command runs or its own help is asked, so
   it may import what it needs at its top; what only some options need is imported inside functions.

       """`dshc frobnicate`: one sentence on what it answers."""

       EXAMPLES = """
       dshc frobnicate session.jsonl           what one would type first
       dshc frobnicate --json session.jsonl    for a script
       """

       def command(log: options.Log, json: options.Json = False) -> int:
           """Answer the question that this command exists for.

           What it reads, what it writes, when it exits with which code. Paragraphs are rewrapped.
           """
           result = library_function(log)
           if json:
               io.emit_json({"schema": 1, "command": "frobnicate", "log": str(log), …})
           else:
               io.emit_text(report.frobnicate.text(result, width=io.console_width()))
           return 0

   `command` is annotated as typer wants it; what several commands share is in `options`,
   `backend_options` and `wall_options`. It returns the exit code. It raises members of the
   `DshcError` family and translates nothing: `app.run` does, once. Where the words' order matters,
   a class `Command` in the module (see `append`) stands in for typer's own. What a shell may offer
   for an option stands in `completion.VALUES`, by the option's name.
2. Add its row to `COMMANDS` below: the one-line help of `dshc --help` and the completion.
3. Show it in the README in a `console` block (a test runs it), and run
   `python tests/readme.py` to write its help there.

The rules of output: stdout carries the result and nothing else, stderr notices and progress; `io`
is the only module that writes to either. Text from a log passes `report.terminal.safe` on its way
into a string.
'''

COMMANDS: dict[str, dict[str, str]] = {
    "Look": {
        "measure": "How full is the window: tokens, threshold, pressure.",
        "history": "Every replacement and failed attempt: what was folded, when, to how much.",
        "show": "The conversation as the model sees it, now or at an earlier generation.",
        "export": "Write the conversation for another client: openai, anthropic or markdown.",
        "config": "The policy in force for a log, and where each value comes from.",
    },
    "Change": {
        "compact": "Take the pressure path now: fold the conversation's head, provably.",
        "append": "Append messages to a log, or start a new one.",
        "undo": "Write a copy in which the newest compaction never happened.",
    },
    "Mend": {
        "verify": "Find damage, with stable codes and places.",
        "repair": "Mend what can be mended, never inventing an event.",
    },
    "Rehearse": {
        "recover": "Rehearse an overflow with any backend: may the request be sent again?",
        "conformance": "Run a backend through sessions and faults, and print its scorecard.",
        "backends": "What can stand behind --backend, honest and hostile.",
        "classify": "A provider's error as a normalised code with the numbers in it.",
        "serve-wall": "A provider with a wall, as a real server for your own agent to run into.",
    },
}
"""Section → command → its line in the help, in the order in which they are shown."""


def module_name(command: str) -> str:
    """Return the module of `command`: `serve-wall` lives in `dsh_compact.cli.serve_wall`."""
    return f"{__name__}.{command.replace('-', '_')}"


def names() -> list[str]:
    """Return the commands in the order of the table."""
    return [name for rows in COMMANDS.values() for name in rows]

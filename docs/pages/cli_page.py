"""The reference of the commands, from click."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from dpspark.cli.main import cli

HEAD = """\
# Commands

Every command and option, as `dpspark COMMAND --help` has them. `--debug`, anywhere in a line, shows where something
failed. All but `release`, `demo` and `audit --spark` work without Java.

| exit code | |
|---|---|
| 0 | done |
| 1 | anything that is not below, such as a lost cluster: run the same command again |
| 2 | bad usage, or a conf that is wrong by itself |
| 3 | the ledger refuses: no grant, not enough left, or a changed conf under a used name and version |
| 4 | the conf does not fit the source, the output cannot be written, or a release cannot be read |

An error is one or two lines on stderr: what is wrong, the value of the conf, what is allowed, what to do next. It never
quotes a data value.

| environment variable | |
|---|---|
| `DPSPARK_LEDGER` | the ledger's database, where neither `--url` nor the conf names one |
| `DPSPARK_SIGNING_KEY`, `DPSPARK_VERIFY_KEY` | keys for `sign` and `verify`: [Verify and sign](../verify.md#sign) |
| `DPSPARK_CLASS_ARCHIVE=off` | uses no archive of Java classes: [Speed](../speed.md#starting) |
| `JAVA_HOME`, `SPARK_REMOTE`, `SPARK_HOME` | as Spark uses them |
"""


def commands(command: click.Command, above: click.Context | None, name: str) -> Iterator[tuple[str, click.Context]]:
    """Every command that does something, with its full name."""
    context = click.Context(command, info_name=name, parent=above)
    if not isinstance(command, click.Group):
        yield context.command_path, context
        return
    for each in command.list_commands(context):
        found = command.get_command(context, each)
        if found is not None and not found.hidden:
            yield from commands(found, context, each)


def literal(text: str) -> str:
    """Text as it stands, in a cell of a table."""
    return re.sub(r"([|<*_\[])", r"\\\1", " ".join(text.split()))


def section(name: str, context: click.Context) -> str:
    usage = " ".join(context.command.collect_usage_pieces(context))
    about = "\n\n".join(" ".join(part.split()) for part in (context.command.help or "").split("\n\n"))
    if not about:
        raise ValueError(f"{name} has no help")
    lines = [f"## {name}", "", f"```text\n{name} {usage}\n```", "", literal_paragraphs(about), ""]
    options = [option for option in context.command.params if isinstance(option, click.Option)]
    records = [record for option in options if (record := option.get_help_record(context))]
    if records:
        lines += ["| option | |", "|---|---|"]
        lines += [f"| `{flag.replace('|', chr(92) + '|')}` | {literal(text)} |" for flag, text in records]
    return "\n".join(lines) + "\n"


def literal_paragraphs(text: str) -> str:
    return re.sub(r"([<*_\[])", r"\\\1", text)


def page() -> str:
    return "\n".join([HEAD, *(section(name, context) for name, context in commands(cli, None, "dpspark"))])

"""Commands that left the package, with what takes their place."""

from __future__ import annotations

import click

from dpspark.errors import ConfError

PLACES = {
    "bench": "python -m benchmarks gram, lines, scale or peers",
    "evaluate": "python -m experiments",
}


def _moved(name: str, place: str) -> click.Command:
    """Make a command that takes any arguments and says where it went."""

    @click.command(name, hidden=True, context_settings={"ignore_unknown_options": True, "help_option_names": []})
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def command(arguments: tuple[str, ...]) -> None:
        raise ConfError(f"`dpspark {name}` is not installed any more. In a clone of the repository run: {place}")

    return command


MOVED = tuple(_moved(name, place) for name, place in PLACES.items())

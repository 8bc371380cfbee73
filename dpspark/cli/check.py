"""`dpspark check`: what a conf would do, without reading a row."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from dpspark.cli.options import complete_files, json_option, set_option, terminal
from dpspark.errors import ConfError
from dpspark.show.progress import listening

if TYPE_CHECKING:
    from dpspark.cli.conf_text import SourceWords
    from dpspark.spec.spec import Spec


@click.command()
@click.argument("conf", required=False, shell_complete=complete_files)
@set_option
@click.option("--functions", is_flag=True, help="Instead: print what `where` and `expr` may use.")
@json_option
def check(conf: str | None, overrides: tuple[str, ...], functions: bool, as_json: bool) -> None:
    """Validate a conf; read no data."""
    if functions:
        if conf is not None or overrides:
            raise ConfError("--functions goes without a conf: the list is the same for all.")
        click.echo(list_functions(as_json))
        return
    if conf is None:
        raise click.MissingParameter(param_hint="'CONF'", param_type="argument")
    with listening(terminal):
        text = check_conf(conf, overrides, as_json)
    click.echo(text)


def check_conf(conf: str, overrides: tuple[str, ...], as_json: bool = False) -> str:
    """Validate a conf, and render what its release would be."""
    from dpspark.cli.conf_text import facts, lines
    from dpspark.planning.foresight import foresee
    from dpspark.spec.choose import choose
    from dpspark.spec.spec import load_spec

    spec = load_spec(conf, overrides)
    mechanism, source = choose(spec), _source(spec)
    foreseen = foresee(spec)
    if as_json:
        found = facts(spec, mechanism, source)
        found["warnings"] += [] if foreseen is None else [foreseen]
        return json.dumps({"valid": True, "foreseen": foreseen, **found}, ensure_ascii=False)
    warned = [] if foreseen is None else [f"warning    {foreseen}"]
    return "\n".join([*lines(spec, mechanism, source), *warned, "The conf is valid."])


def list_functions(as_json: bool = False) -> str:
    """List what `where` and `expr` may use, with an example of each."""
    from dpspark.source.compute.compile import compiled_functions
    from dpspark.spec.functions import FUNCTIONS, OPERATORS

    compiled = compiled_functions()
    if as_json:
        listed = {"operators": OPERATORS, "functions": FUNCTIONS, "compiled": sorted(compiled)}
        return json.dumps(listed, ensure_ascii=False)
    found = [f"operators: {OPERATORS}"]
    for kind, examples in FUNCTIONS.items():
        marked = ((name, "*" if name in compiled else "") for name in sorted(examples))
        found += ["", f"{kind}:", *(f"  {name + mark:15} {examples[name]}" for name, mark in marked)]
    return "\n".join(
        [*found, "", "* compiled, for most arguments: tasks that read Parquet themselves can evaluate it."]
    )


def _source(spec: Spec) -> SourceWords:
    """Describe the source; Parquet is checked by its footers if it can be seen from here."""
    from dpspark.cli.conf_text import SourceWords, describe_source, named_source
    from dpspark.releasing.opening import open_files
    from dpspark.source.listing import NothingThere

    try:
        return describe_source(spec, open_files(spec))
    except NothingThere:
        absent = f"{named_source(spec)} (not there as seen from here; a release would stop with exit code 4)"
        return SourceWords(absent, "nobody: there is nothing", False)

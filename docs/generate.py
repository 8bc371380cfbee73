"""Run the examples in docs/*.md and write what they print between their markers: `make docs-examples`.

A document holds what is run, this script only what comes out:

    ```yaml                          a conf; its first line names its file
    # gaussian.yaml
    ...
    ```text                          another file that examples read; likewise, but its name ends in .yml
    ```sh  or  ```python             the commands of an example, or a program
    <!-- example: NAME -->           whatever is between these two lines is replaced; a NAME that ends in -unseen
    <!-- /example -->                 is run for what comes after it, and nothing is shown

All examples of all documents run in their order, in one empty directory, on one local Spark session. Noise is new in
every run, so that numbers differ a little from one run to the next.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import shlex
import sys
import tempfile
import textwrap
from pathlib import Path

HERE = Path(__file__).parent
CONF = re.compile(r"```(?:yaml\n# (?=\S+\.yaml\n)|text\n# (?=\S+\.yml\n))(\S+)\n.*?```", re.S)
EXAMPLE = re.compile(
    r"```(?P<language>sh|python)\n(?P<code>(?:(?!```).)*)```\n\n"
    r"<!-- example: (?P<name>[\w-]+) -->\n.*?<!-- /example -->",
    re.S,
)
WIDTH = 120


def run_line(line: str) -> None:
    """One command of an sh block, in this process. It must end as its comment says: `# exit code 2`, by default 0."""
    from dpspark.cli.main import main

    program, *arguments = shlex.split(line, comments=True)
    expected = int((re.findall(r"# exit code (\d+)", line) or ["0"])[0])
    before = sys.argv
    code: object = 0
    try:
        if program == "dpspark":
            sys.argv = [program, *arguments]
            main(arguments)
        elif program == "python":
            sys.argv = arguments
            runpy.run_path(str(HERE.parent / arguments[0]), run_name="__main__")
        else:
            raise ValueError(f"cannot run {line!r}; expected dpspark or python")
    except SystemExit as done:
        code = done.code or 0
    finally:
        sys.argv = before
    if code != expected:
        raise RuntimeError(f"{line!r} ended with exit code {code}, not {expected}")


def run(language: str, code: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        if language == "python":
            exec(compile(code, "example", "exec"), {"__name__": "example"})
        else:
            for line in code.strip().splitlines():
                if out.getvalue():
                    print()
                try:
                    run_line(line)
                except RuntimeError as error:
                    raise RuntimeError(f"{error}:\n{out.getvalue()}") from None
    return out.getvalue().rstrip()


def shown(text: str, home: str) -> str:
    """As a document shows it: no paths of this machine, long lines folded, a table as a table."""
    text = text.replace(home, "...")
    if text.startswith("|"):
        return text
    indent = {"subsequent_indent": " " * 11, "break_long_words": False, "break_on_hyphens": False}
    lines = [
        line if len(line) <= WIDTH else textwrap.fill(line, WIDTH, drop_whitespace=True, **indent)  # type: ignore[arg-type]
        for line in text.splitlines()
    ]
    return "\n".join(["```", *lines, "```"])


def fill(document: str, home: str) -> str:
    def example(match: re.Match[str]) -> str:
        print(f"  {match['name']}", file=sys.stderr)
        out = shown(run(match["language"], match["code"]), home) + "\n"
        head = match[0][: match[0].index("<!-- example:")]
        return f"{head}<!-- example: {match['name']} -->\n{'' if match['name'].endswith('-unseen') else out}<!-- /example -->"

    return EXAMPLE.sub(example, document)


def main() -> None:
    from dpspark.spark.session import spark_session

    documents = sorted(
        HERE.glob("*.md"), key=lambda path: (path.name != "mechanisms.md", path.name)
    )  # it makes the data
    with tempfile.TemporaryDirectory() as home:
        os.chdir(home)
        for path in documents:
            for match in CONF.finditer(path.read_text(encoding="utf-8")):
                content = match[0].partition("\n")[2].removesuffix("```")
                Path(match[1]).write_text(content, encoding="utf-8")
        with spark_session("dpspark docs", {"spark.master": "local[2,4]", "spark.driver.memory": "1g"}):
            for path in documents:
                print(path.name, file=sys.stderr)
                path.write_text(fill(path.read_text(encoding="utf-8"), os.getcwd()), encoding="utf-8")
        os.chdir(HERE)


if __name__ == "__main__":
    main()

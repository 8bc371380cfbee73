"""Write docs/scaling.md and its pictures from docs/scaling.json, the results of `python -m benchmarks scale --json`.

`make docs-scaling` runs the benchmark first: a quarter of an hour, on a machine that does nothing else.
"""

from __future__ import annotations

import json
import re
import textwrap
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.scale.plot import plot_studies
from benchmarks.scale.text import KINDS, TITLES, exponent_text, machine_line

HERE = Path(__file__).parent
WIDTH = 118

HEAD = """# How cost grows

Everything on this page but the last section was measured, in one run of `{command}`:
{machine}.
{quick}
`make docs-scaling` runs it again and writes this page.

Seconds are the median of up to three runs, after a warm-up. Memory is resident, of the largest process of its kind, sampled
every 50 ms. The Java process of a local Spark is driver and executor in one; it, and the reused Python workers, keep some of
what earlier studies needed. An exponent is the slope of log seconds on log size, with its standard error; *larger* is of the
larger half of the points, where fixed costs matter less.
"""
QUICK = "The run was quick (`--quick`): sizes are small, so that fixed costs weigh more than they would.\n"
TEXTS = {
    "rows": """Rows cost in proportion to their number, and memory does not grow with them: a task holds a block of rows and
one partial sum. *Generated* rows are made inside the tasks, bounded and added up, so that the disk sets no limit; *Parquet* is
the whole path from files.""",
    "columns": """Reading grows with the columns, products of columns with their square. Noise is drawn for each entry of the
upper triangle, on the driver, with exact samplers: with 500 columns 125,751 draws.""",
    "files": """The same rows in more and more files. *Listing* finds the files and reads their footers, on the driver;
*planning* deals them out to tasks; *reading* opens each and adds up. The matrix was the same to the last bit for any number of
files.""",
    "cores": """Each in a process and a Spark session of its own; the matrix was the same to the last bit. *Starting Spark*
lasts until the first task is done.""",
    "tree": """Partial sums of random numbers, as large as those of real data, one a task, through the real tree.
A node takes as many as fit into 64 MB, at least 4 and at most 1,024: the larger a partial sum, the deeper the tree. So what a
process holds of them stays the same for any number of partitions; Java fills the heap that it is given, and keeps
buffers beside it. The sum was checked in Python's own integers.""",
}
MODEL = """## A cluster: a model, not a measurement

Nothing here was run. The model adds up what each part would take on {executors} executors of {cores_each} cores,
as fast as those measured above:

    seconds = start + listing · files + opening · files / cores + task · (tasks + nodes) / cores
              + rows · max(value · d + product · d², 8 · d / storage) / cores
              + payload · bytes · (tasks / cores + levels · fan_in) + draw · (d + 1)(d + 2) / 2

with d columns of doubles in files of {file_mb} MB, tasks of at most 1 GB, and levels of nodes as above. `bytes` is the size
of a partial sum, 8 · (d + 1)(d + 2). Storage is assumed to give each core {storage_mb:.0f} MB/s.

| parameter | seconds | |
|---|---|---|
{parameters}

| rows | columns | data | tasks | levels | computing, s | storage, s | tree, s | all else, s | total |
|---|---|---|---|---|---|---|---|---|---|
{predictions}

*Computing* and *storage* overlap: the longer counts. The model leaves out stragglers, lost executors, the
network, a file system that lists slowly, and waiting for the cluster. For {rows:,} rows of {columns} columns on the
{cores} cores above, a table that no parameter comes from, it gives {modelled:.2g} s; measured were {measured:.2g} s.
"""
DESIGN = """## What bounds memory

- A task holds a block of rows (at most 8,192), one batch of decoded rows (a row group of up to 128 MB, larger ones in pieces
of 65,536 rows)
and one partial sum.
- A task reads at most 1 GB, where the opening of a file counts as 4 MB: many small files are many tasks.
- Each task is sent the work lists of all tasks, compressed; it unpacks its own.
- A node of the tree takes 64 MB of partial sums, and adds them up as they come. The driver takes no more than a node;
of a release by group it takes all groups' sums.
- A frame (`table`, `sql`, a DataFrame) is read in at most 1,024 tasks, or 4 for each core, whatever its partitions: one task
reads several of them, one after the other, without a shuffle.
- Where people are protected and tasks read the files, about a million rows meet in a task, at about 190 bytes each;
  more if one person has more. Through Spark (`source.reader: spark`) what is sorted goes to disk.
- The driver holds the matrix, and about a kilobyte for each file.
"""
MEANINGS = {
    "start": "Spark, until the first task is done",
    "listing": "a file, on the driver",
    "opening": "a file, on a core",
    "task": "a task, on a core",
    "value": "to read and bound a value, on a core",
    "product": "a product of two values, on a core",
    "payload_byte": "a byte of a partial sum, made, shuffled and added, on a core",
    "draw": "noise of an entry, on the driver",
}


def page(results: dict[str, Any]) -> str:
    head = HEAD.format(
        command=results["command"], machine=machine_line(results["machine"]), quick=QUICK if results["quick"] else ""
    )
    parts = [head, *(section(name, study) for name, study in results["studies"].items()), DESIGN]
    if results["model"] is not None:
        parts.append(model_section(results["model"]))
    return "\n\n".join(map(wrapped, "\n".join(parts).strip().split("\n\n"))) + "\n"


def wrapped(block: str) -> str:
    """A paragraph in lines of one length; tables, titles, pictures and formulas as they are."""
    block = block.strip("\n")
    as_it_is = block.startswith(("|", "#", "!", "    "))
    lines = re.sub(r"\n(?!- )", " ", block).split("\n")
    fill = partial(textwrap.fill, width=WIDTH, break_long_words=False, break_on_hyphens=False)
    return block if as_it_is else "\n".join(fill(line, subsequent_indent="  " * line.startswith("-")) for line in lines)


def section(name: str, study: dict[str, Any]) -> str:
    lines = [
        f"## {TITLES[name]}",
        "",
        f"{study['fixed']}.",
        "",
        TEXTS[name],
        "",
        f"![{TITLES[name]}](scaling-{name}.png)",
        "",
    ]
    lines += [f"| | {study['x']} | seconds | driver, MB | Java, MB | worker, MB |", "|---|---|---|---|---|---|"]
    for point in study["points"]:
        memory = " | ".join(f"{point[f'{kind}_peak_bytes'] / 1e6:,.0f}" for kind in KINDS)
        lines.append(f"| {point['series']} | {point['x']:,} | {point['seconds']:.3g} | {memory} |")
    lines += [
        "",
        "| exponent | |",
        "|---|---|",
        *(f"| {fit['series']} | {exponent_text(fit)} |" for fit in study["fits"]),
    ]
    return "\n".join([*lines, *extra(study), ""])


def extra(study: dict[str, Any]) -> list[str]:
    """What a study knows beside seconds and memory."""
    sent = [p for p in study["points"] if "sent_bytes" in p]
    if not sent:
        return []
    last = sent[-1]
    size = f"{last['sent_bytes'] / 1e3:,.0f} kB"
    return [
        "",
        f"The work lists of all {last['tasks']} tasks for {last['x']:,} files are {size}; each task is sent them.",
    ]


def model_section(model: dict[str, Any]) -> str:
    parameters = "\n".join(f"| {key} | {value:.2g} | {MEANINGS[key]} |" for key, value in model["parameters"].items())
    return MODEL.format(
        **model["cluster"],
        **model["check"],
        file_mb=model["cluster"]["file_bytes"] >> 20,
        storage_mb=model["assumed"]["storage_bytes_per_second_and_core"] / 1e6,
        parameters=parameters,
        predictions="\n".join(map(prediction, model["predictions"])),
    )


def prediction(found: dict[str, Any]) -> str:
    parts = found["seconds"]
    rest = found["total"] - parts["reading"] - parts["tree"]
    numbers = (found["computing"], found["storage"], parts["tree"], rest)
    size = f"{found['bytes'] / 1e12:.3g} TB"
    shown = " | ".join(f"{number:,.0f}" for number in numbers)
    return (
        f"| {found['rows']:,} | {found['columns']} | {size} | {found['tasks']:,} | {found['levels']} | {shown} "
        f"| {duration(found['total'])} |"
    )


def duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def main() -> None:
    results = json.loads((HERE / "scaling.json").read_text(encoding="utf-8"))
    plot_studies(results, HERE)
    (HERE / "scaling.md").write_text(page(results), encoding="utf-8")


if __name__ == "__main__":
    main()

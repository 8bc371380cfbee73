"""Work without files: rows that are made inside the tasks, to be bounded and added up; and trees of made-up sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from dpspark.core.domain import Domain
from dpspark.errors import DpsparkError
from dpspark.exact.fixed_point import LOW_BITS, ExactGram, GramAccumulator, Wide, merge_partials, partial_bytes
from dpspark.spark.tree import fan_in_for, payload_batch, tree_reduce

ROWS_A_TASK = 8_000_000
BATCH_ROWS = 1 << 16
KINDS = 31  # of random partial sums


def generated_gram(spark: Any, domain: Domain, rows: int, cores: int) -> ExactGram:
    """The same rows for any number of cores and tasks: a batch's rows depend on its number alone."""
    batches = -(-rows // BATCH_ROWS)
    tasks = min(batches, max(cores, -(-rows // ROWS_A_TASK)))
    partials = spark.range(0, tasks, 1, tasks).mapInArrow(_maker(domain, rows, batches, tasks), "payload binary")
    merge = partial(merge_partials, width=domain.width)
    payloads = tree_reduce(partials, tasks, merge, fan_in_for(partial_bytes(domain.width)))
    return ExactGram.from_partials(domain, payloads)


def _maker(domain: Domain, rows: int, batches: int, tasks: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def make(numbers: Iterator[Any]) -> Iterator[Any]:
        total = GramAccumulator(domain)
        for task in (task for batch in numbers for task in batch.column(0).to_pylist()):
            for batch in range(task, batches, tasks):
                count = min(BATCH_ROWS, rows - batch * BATCH_ROWS)
                random = np.random.default_rng([rows, batch])
                total.add([c.lower + (c.upper - c.lower) * random.random(count) for c in domain.numeric], count)
        yield payload_batch(total.finish())

    return make


def synthetic_tree(spark: Any, width: int, partitions: int) -> list[bytes]:
    """The tree of sums over partial sums of random numbers, of the size that `width` gives."""
    partials = spark.range(0, partitions, 1, partitions).mapInArrow(_random_partials(width), "payload binary")
    merge = partial(merge_partials, width=width)
    return tree_reduce(partials, partitions, merge, fan_in_for(partial_bytes(width)))


def _random_partials(width: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def make(numbers: Iterator[Any]) -> Iterator[Any]:
        for number in (number for batch in numbers for number in batch.column(0).to_pylist()):
            yield payload_batch(random_partial(width, number % KINDS).to_bytes())

    return make


def random_partial(width: int, kind: int) -> Wide:
    """Numbers that no codec makes smaller: Spark compresses what it sends."""
    random, entries = np.random.default_rng([width, kind]), width * (width + 1) // 2
    return Wide(random.integers(-(2**62), 2**62, entries) >> 16, random.integers(0, 1 << LOW_BITS, entries))


def check_tree(width: int, partitions: int, payloads: list[bytes]) -> None:
    """The sum once more, in Python's own integers."""
    expected = np.zeros(width * (width + 1) // 2, dtype=object)
    for kind, count in enumerate(np.bincount(np.arange(partitions) % KINDS).tolist()):
        expected += count * np.array(random_partial(width, kind).to_integers(), dtype=object)
    if Wide.from_bytes(merge_partials(payloads, width)).to_integers() != expected.tolist():
        raise DpsparkError("The tree's sum is not the sum of its parts. Report it.")

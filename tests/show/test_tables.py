"""Tables as text."""

from __future__ import annotations

from dpspark.show.tables import Grid, as_text, folded, width


def test_names_of_any_script_line_up() -> None:
    """Kills: a place for each code point."""
    assert [width(name) for name in ("income", "収入", "ｱ", "e\u0301t\u00e9", "доход")] == [6, 4, 1, 3, 5]
    text = as_text([Grid([["", "Estimate"], ["収入", "12"], ["age", "3.5"]])])
    assert text.splitlines() == ["      Estimate", "収入        12", "age        3.5"]


def test_a_wide_table_is_folded() -> None:
    """Kills: a column left out or shown twice, a block wider than asked."""
    names = [f"column{i}" for i in range(7)]
    cells = [["", *names], *([name, *("1.25" for _ in names)] for name in names)]
    lines = folded(cells, 30)
    assert max(map(len, lines)) <= 30
    assert [word for line in lines if not line.startswith("c") for word in line.split()] == names
    assert lines.count("") == 3
    assert folded(cells, 20) == folded(cells, 3)  # a single column is not cut
    assert "" not in folded(cells, 200)

"""Reports: facts and tables, as a page, as Python values, as HTML and for pandas."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

from ._native import NoMemoryError, ffi, lib, text


def cell(value: Any) -> str:
    """A value as HTML text, four digits of a number."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (list, tuple)) and len(value) > 4:
        return html.escape(", ".join(cell(v) for v in value[:3])) + ", ..."
    return html.escape("" if value is None else str(value))


def page(columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "") -> str:
    """A table as HTML; of a long one the first 200 rows."""
    head = "".join(f"<th>{html.escape(c)}</th>" for c in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{cell(v)}</td>" for v in row) + "</tr>"
        for row in rows[:200]
    )
    more = f"<p>{len(rows) - 200} more rows</p>" if len(rows) > 200 else ""
    caption = f"<caption>{html.escape(title)}</caption>" if title else ""
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def frame(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Any:
    """A pandas.DataFrame."""
    import pandas

    return pandas.DataFrame([list(r) for r in rows], columns=list(columns))


class Table(Sequence["dict[str, Any]"]):
    """A table of a report: a sequence of rows, each a dict by column."""

    def __init__(self, name: str, rows: list[dict[str, Any]]) -> None:
        """Rows have the same columns."""
        self.name = name
        self._rows = rows

    @property
    def columns(self) -> list[str]:
        """The names of the columns; none of an empty table."""
        return list(self._rows[0]) if self._rows else []

    @overload
    def __getitem__(self, at: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, at: slice) -> list[dict[str, Any]]: ...

    def __getitem__(self, at: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        """Return a row, or a list of rows."""
        return self._rows[at]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._rows)

    def column(self, name: str) -> list[Any]:
        """One column as a list."""
        if self._rows and name not in self._rows[0]:
            raise KeyError(f"{self.name}: no column '{name}', expected one of {self.columns}")
        return [row[name] for row in self._rows]

    def to_pandas(self) -> Any:
        """Return the table as a pandas.DataFrame."""
        return frame(self.columns, [list(r.values()) for r in self._rows])

    def __repr__(self) -> str:
        """Return name and size."""
        return f"<Table {self.name}: {len(self)} rows, {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        return page(self.columns, [list(r.values()) for r in self._rows], self.name)


class Report(Mapping[str, Any]):
    """The answer of a verb: facts and tables by name.

    `str(report)` is the page that the command prints, `report.json` its --json.
    """

    def __init__(self, json_text: str, page_text: str) -> None:
        """Both texts are those of the library."""
        self.json = json_text
        self._page = page_text
        self._entries = {
            name: Table(name, value) if _is_table(value) else value
            for name, value in json.loads(json_text).items()
        }

    def __getitem__(self, name: str) -> Any:
        """Return a fact, or a Table."""
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, in the order of the page."""
        return iter(self._entries)

    def __len__(self) -> int:
        """Return the number of facts and tables."""
        return len(self._entries)

    @property
    def facts(self) -> dict[str, Any]:
        """What is not a table."""
        return {k: v for k, v in self._entries.items() if not isinstance(v, Table)}

    @property
    def tables(self) -> dict[str, Table]:
        """The tables by name."""
        return {k: v for k, v in self._entries.items() if isinstance(v, Table)}

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def __str__(self) -> str:
        """Return the page that the command prints."""
        return self._page

    __repr__ = __str__

    def _repr_html_(self) -> str:
        facts = page(["fact", "value"], list(self.facts.items()))
        return facts + "".join(t._repr_html_() for t in self.tables.values())


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) for row in value)


def take(report: Any) -> Report | None:
    """Copy a report of the library and free it; None for NULL."""
    if report == ffi.NULL:
        return None
    try:
        both = text(lib.qg_report_json(report)), text(lib.qg_report_text(report))
    finally:
        lib.qg_report_free(report)
    if not all(both):
        raise NoMemoryError("cannot write the report: out of memory")
    return Report(*both)

"""Rounds amounts that are shown with their sum, so that the shown amounts add up. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from service.domain.money import NANO_PLACES, NANOS, half_even

Cell = tuple[int, int]
"""A row and a column."""


def places_for(nanos: int) -> int:
    """The number of decimals to show after rounding: cents from a dollar up, else two significant
    digits."""
    size = abs(nanos)
    if size == 0 or size >= NANOS:
        return 2
    return min(NANO_PLACES, max(2, NANO_PLACES + 2 - len(str(size))))


def unit_for(places: int) -> int:
    """Nano-dollars in one unit of the last decimal that is displayed after rounding."""
    return int(10 ** (NANO_PLACES - places))


def in_units(parts: Sequence[int], unit: int, total: int | None = None) -> list[int]:
    """The parts of a displayed sum, each rounded down or up to whole units of `unit`.

    Their sum is the sum of the parts rounded half-even, or `total` units, which must be that sum
    rounded down or up. The method is largest remainder; of equal remainders the first goes up.
    """
    found = [part // unit for part in parts]
    shown = half_even(sum(parts), unit) if total is None else total
    by_rest = sorted(range(len(parts)), key=lambda number: -(parts[number] % unit))
    for number in by_rest[: shown - sum(found)]:
        found[number] += 1
    return found


def round_table(
    cells: Sequence[Sequence[int]], unit: int, row: int | None = None
) -> list[list[int]]:
    """The displayed table in units of `unit`, with cells, row sums and column sums rounded down or
    up.

    The sum of all cells is the total rounded half-even. The sum of `row`, and after it the sums of
    the columns, are rounded half-even too, unless an earlier sum rules that out.

    Largest remainder (`in_units`) cannot serve rows and columns at once. The method is controlled
    rounding (Cox, Journal of the American Statistical Association 82, 1987). One row and one column
    of slack make every sum whole. Then amounts are moved around cycles of cells that are not whole,
    until every cell is whole. Such a move changes no sum.
    """
    if not cells or not cells[0]:
        return [[] for _ in cells]
    rests = _Rests(_with_slack(cells, unit), unit)
    total = sum(map(sum, cells))
    corner = len(cells), len(cells[0])
    while corner in rests:
        rests.push_around_cycle(corner, up=half_even(total, unit) > total // unit)
    sums = {} if row is None else {(row, len(cells[0])): sum(cells[row])}
    sums |= {(len(cells), j): sum(column) for j, column in enumerate(zip(*cells, strict=True))}
    for slack, exact in sums.items():
        while slack in rests:  # the slack goes up if the sum goes down
            rests.push_around_cycle(slack, up=half_even(exact, unit) == exact // unit)
    while (cell := rests.first_open_cell()) is not None:
        rests.push_around_cycle(cell, up=2 * rests.of[cell] >= unit)
    return [
        [amount // unit + rests.of[i, j] // unit for j, amount in enumerate(row)]
        for i, row in enumerate(cells)
    ]


def _with_slack(cells: Sequence[Sequence[int]], unit: int) -> dict[Cell, int]:
    """The remainder of each cell, and the slack that makes the sums of rows and columns whole.

    The corner is then the remainder of the total.
    """
    rows, columns = len(cells), len(cells[0])
    rests = {(i, j): cells[i][j] % unit for i in range(rows) for j in range(columns)}
    for i, row in enumerate(cells):
        rests[i, columns] = -sum(row) % unit
    for j in range(columns):
        rests[rows, j] = -sum(row[j] for row in cells) % unit
    rests[rows, columns] = sum(map(sum, cells)) % unit
    return rests


class _Rests:
    """The cells that are not whole, as a graph: rows are `i`, columns `~j`, a cell is an edge.

    All sums are whole, so no cell is alone in its row or column, and each lies on a cycle.
    """

    def __init__(self, rests: dict[Cell, int], unit: int) -> None:
        self.of = rests
        self._unit = unit
        self._near: dict[int, dict[int, None]] = {}
        for (i, j), rest in rests.items():
            if rest:
                self._near.setdefault(i, {})[~j] = None
                self._near.setdefault(~j, {})[i] = None

    def __contains__(self, cell: Cell) -> bool:
        return ~cell[1] in self._near.get(cell[0], ())

    def first_open_cell(self) -> Cell | None:
        """The first cell that is not whole yet; None if all are whole."""
        for vertex, near in self._near.items():
            if vertex >= 0 and near:
                return vertex, ~next(iter(near))
        return None

    def push_around_cycle(self, cell: Cell, *, up: bool) -> None:
        """Move as much as possible around one cycle through the cell: one cell becomes whole."""
        gains: list[Cell] = []
        losses: list[Cell] = []
        for number, member in enumerate((cell, *self._path_back(cell))):
            (gains if (number % 2 == 0) == up else losses).append(member)
        room = [self._unit - self.of[member] for member in gains]
        step = min(*room, *(self.of[member] for member in losses))
        for members, change in ((gains, step), (losses, -step)):
            for member in members:
                self.of[member] += change
                if self.of[member] in (0, self._unit):
                    i, j = member
                    del self._near[i][~j]
                    del self._near[~j][i]

    def _path_back(self, cell: Cell) -> Iterator[Cell]:
        """The cells of a shortest path from the column of a cell to its row, without the cell."""
        goal, start = cell[0], ~cell[1]
        for row in self._near[start]:  # in most tables, a path of three cells is there at once
            for column in self._near[row] if row != goal else ():
                if column != start and goal in self._near[column]:
                    return iter(((row, ~start), (row, ~column), (goal, ~column)))
        came_from = {start: start}
        waiting = deque([start])
        while goal not in came_from:
            here = waiting.popleft()
            for there in self._near[here]:
                if there not in came_from and (here, there) != (start, goal):
                    came_from[there] = here
                    waiting.append(there)
        steps = []
        while goal != start:
            before = came_from[goal]
            steps.append((goal, ~before) if goal >= 0 else (before, ~goal))
            goal = before
        return reversed(steps)

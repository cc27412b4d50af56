"""Rounds amounts that are shown with their sum, so that all that is shown adds up. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from service.domain.money import NANO_PLACES, NANOS, half_even

Cell = tuple[int, int]
"""A row and a column."""


def places_for(nanos: int) -> int:
    """How many decimals an amount needs to be told truly: cents from a dollar up, and for less
    than that two digits that count."""
    size = abs(nanos)
    if size == 0 or size >= NANOS:
        return 2
    return min(NANO_PLACES, max(2, NANO_PLACES + 2 - len(str(size))))


def unit_for(places: int) -> int:
    """Nano-dollars in one unit of the last decimal."""
    return int(10 ** (NANO_PLACES - places))


def in_units(parts: Sequence[int], unit: int, total: int | None = None) -> list[int]:
    """The parts of a sum in whole units of `unit`, each of them the one below or above the truth;
    their sum is that of the parts, rounded half-even, or `total` units: one of the two beside it.

    This is done by largest remainder; of equal ones the first is the larger.
    """
    found = [part // unit for part in parts]
    shown = half_even(sum(parts), unit) if total is None else total
    by_rest = sorted(range(len(parts)), key=lambda number: -(parts[number] % unit))
    for number in by_rest[: shown - sum(found)]:
        found[number] += 1
    return found


def rounded(cells: Sequence[Sequence[int]], unit: int, row: int | None = None) -> list[list[int]]:
    """The cells in whole units of `unit`, each of them the one below or above the truth, and so
    is the sum of each row and column. The sum of all is the total, rounded half-even. So is the sum
    of that one `row`, and then those of the columns, unless those before rule that out.

    Largest remainder (`in_units`) cannot serve rows and columns at once: here it is controlled
    rounding (Cox, Journal of the American Statistical Association 82, 1987). One row and one column
    of slack make every sum whole. Then amounts are moved around cycles of cells that are not whole,
    which leaves all sums as they are, until every cell is.
    """
    if not cells or not cells[0]:
        return [[] for _ in cells]
    rests = _Rests(_with_slack(cells, unit), unit)
    total = sum(map(sum, cells))
    corner = len(cells), len(cells[0])
    while corner in rests:
        rests.push(corner, up=half_even(total, unit) > total // unit)
    sums = {} if row is None else {(row, len(cells[0])): sum(cells[row])}
    sums |= {(len(cells), j): sum(column) for j, column in enumerate(zip(*cells, strict=True))}
    for slack, truth in sums.items():
        while slack in rests:  # it goes up where the sum goes down
            rests.push(slack, up=half_even(truth, unit) == truth // unit)
    while (cell := rests.first()) is not None:
        rests.push(cell, up=2 * rests.of[cell] >= unit)
    return [
        [amount // unit + rests.of[i, j] // unit for j, amount in enumerate(row)]
        for i, row in enumerate(cells)
    ]


def _with_slack(cells: Sequence[Sequence[int]], unit: int) -> dict[Cell, int]:
    """What each cell is more than whole units, and what makes the sums of rows and columns whole;
    the corner is then what the total is more than whole units."""
    rows, columns = len(cells), len(cells[0])
    rests = {(i, j): cells[i][j] % unit for i in range(rows) for j in range(columns)}
    for i, row in enumerate(cells):
        rests[i, columns] = -sum(row) % unit
    for j in range(columns):
        rests[rows, j] = -sum(row[j] for row in cells) % unit
    rests[rows, columns] = sum(map(sum, cells)) % unit
    return rests


class _Rests:
    """The cells that are not whole, as a graph: rows are `i`, columns `~j`, a cell joins the two.

    As all sums are whole, no cell is alone in its row or column, and each lies on a cycle.
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

    def first(self) -> Cell | None:
        """Any cell that is not whole yet, always the same one."""
        for vertex, near in self._near.items():
            if vertex >= 0 and near:
                return vertex, ~next(iter(near))
        return None

    def push(self, cell: Cell, *, up: bool) -> None:
        """Move as much as can be moved around one cycle through the cell: one cell gets whole."""
        gains: list[Cell] = []
        losses: list[Cell] = []
        for number, member in enumerate((cell, *self._way_back(cell))):
            (gains if (number % 2 == 0) == up else losses).append(member)
        room = [self._unit - self.of[member] for member in gains]
        step = min(*room, *(self.of[member] for member in losses))
        for members, change in ((gains, step), (losses, -step)):
            for member in members:
                self.of[member] += change
                if self.of[member] in (0, self._unit):
                    self._drop(member)

    def _drop(self, cell: Cell) -> None:
        i, j = cell
        del self._near[i][~j]
        del self._near[~j][i]

    def _way_back(self, cell: Cell) -> Iterator[Cell]:
        """The cells of a shortest path from the column of a cell to its row, without itself."""
        goal, start = cell[0], ~cell[1]
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

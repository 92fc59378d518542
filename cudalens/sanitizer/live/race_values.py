"""Whether a race changes values: run other orders of the same program."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cudalens.errors import ExploreError
from cudalens.sanitizer.engine import Race

if TYPE_CHECKING:
    from cudalens.frames.exploration import Exploration, Shown


class RaceValues(ABC):
    """The methods of a sanitizer that try races in other orders, and the verdicts that they found.

    Args:
        explores: Whether the watched operators are recorded for `explore`.
        max_bytes: Memory that the recording and a trial may take.
    """

    def __init__(self, *, explores: bool, max_bytes: int) -> None:
        self._explores, self._explore_bytes = explores, max_bytes
        self._exploring: Any = None
        self._values: dict[tuple[object, ...], dict[str, Any]] = {}

    @property
    @abstractmethod
    def races(self) -> list[Race]:
        """The races found so far."""

    @property
    @abstractmethod
    def is_on(self) -> bool:
        """Whether the sanitizer is running."""

    def _begin_exploring(self) -> None:
        """Prepare the recording of a run.

        Raises:
            ExploreError: No virtual device is active.
        """
        if self._explores and self._exploring is None:
            from cudalens.api.explore import Exploring

            self._exploring = Exploring(self._explore_bytes)

    def explore(self, budget: int | None = None, *, seed: int = 0) -> Exploration:
        """Run the operators of the last watched block in other orders that its synchronisation allows; compare values.

        Requires ``explore=True``. No Python code of the user runs again: the operators that the block ran on the
        virtual device are computed again on separate memory, so decisions of the host (an ``if`` on a number that it
        read) do not change. The program's own order comes first, then for each race the orders that run its later
        access first, then random orders and orders that delay single tasks. If there are no more orders than `budget`,
        all of them are tried.

        Args:
            budget: Number of orders to try besides the program's own, by default 50.
            seed: The first seed of the random orders.

        Returns:
            The differences, and for each race whether it changes a value. Printable, and shown in a notebook.

        Raises:
            ExploreError: ``explore=True`` was not given, nothing ran on a virtual device, or an operator cannot be
                computed again.
        """
        found: Exploration
        found, values = self._explored().explore(self, budget=budget, seed=seed)
        self._keep(values)
        return found

    def replay_schedule(self, seed: str | int) -> Shown:
        """Run one order of the last watched block again.

        Args:
            seed: The order's name as `explore` gives it ("rush:9<4"), or the seed of a random order.

        Returns:
            The order and the values that differ in it.

        Raises:
            ExploreError: As for `explore`, or `seed` names no order of this block.
        """
        found: Shown = self._explored().replay(seed)
        return found

    def confirm(
        self,
        program: Callable[[], Any],
        *,
        runs: int | None = None,
        hold_ns: int | None = None,
        limit_s: float | None = None,
        races: Sequence[Race] | None = None,
        on_virtual: bool = False,
    ) -> Exploration:
        """Run a program again on a real GPU, with streams delayed so that its races can occur, and compare the values.

        The stream of a race's first access is delayed directly before the access, until the second access has run. The
        program runs twice in its own order with a synchronisation after each operator, up to `runs` times for each
        race, and once more in its own order if values differ. **All its side effects happen again**: files are written
        again, and changes of Python objects stay, except for lists, dictionaries and sets in the caller's variables.
        Tensors that existed before and that the program writes are restored before each run and at the end, as is the
        state of the random generators. Values that differ between runs in the program's own order are not compared.

        The comparison covers tensors and numbers that the program returns, and tensors that it writes and that the
        caller's variables hold. Each race becomes "confirmed", with the schedule that shows it, or "benign so far";
        `trace` includes these verdicts afterwards. A running sanitizer is paused for the duration.

        Args:
            program: A function without arguments, whose races this sanitizer has found.
            runs: Largest number of delayed runs for each race; by default 20.
            hold_ns: Longest delay of a stream, ns; by default a multiple of the time that the host took from one access
                to the other, at least 20 ms, and longer if that was not enough.
            limit_s: Time after which no further run starts, s; by default 600.
            races: The races to try; by default all of `races`.
            on_virtual: Allow a virtual device. There, delays change times only, because values are computed in the
                program's order; use `explore` instead.

        Returns:
            The verdict on each race.

        Raises:
            ExploreError: There is no GPU or no race, or the program raises when it runs again.
        """
        from cudalens.api.confirm import confirm

        exploration, values = confirm(
            self, program, runs=runs, hold_ns=hold_ns, limit_s=limit_s, races=races, on_virtual=on_virtual
        )
        self._keep(values)
        return exploration

    def _keep(self, values: Mapping[tuple[object, ...], dict[str, Any]]) -> None:
        """Keep verdicts on races. A confirmed race stays confirmed."""
        for key, columns in values.items():
            before = self._values.get(key)
            if before is None or before["value_verdict"] != "confirmed" or columns["value_verdict"] == "confirmed":
                self._values[key] = columns

    def end_block(self, names: Mapping[str, object]) -> None:
        """Start a new block for `explore`. Does nothing without ``explore=True``.

        Args:
            names: The variables of the block that ends, whose values are compared.
        """
        if self._exploring is not None:
            num_races = len(self.races)
            self._exploring.end(num_races, names)
            if self.is_on:
                self._exploring.begin(num_races)

    def _explored(self) -> Any:
        if self._exploring is None:
            raise ExploreError(
                "this sanitizer did not record what it watched. Enable the recording first: "
                "cudalens.sanitize(explore=True), in a notebook `%cudasan on --explore` or `%%cudasan --explore`."
            )
        if self.is_on:
            self.end_block(self._exploring.callers_names())
        return self._exploring

"""The content of a release of kind theil_sen: lines, one for each group."""

from __future__ import annotations

from dpspark.analysis.aims import aim, has_own_interval, target_of
from dpspark.analysis.content.table import TableContent
from dpspark.analysis.options import Asked
from dpspark.errors import ConfError

NO_INTERVAL = (
    "No interval was paid for (release.interval): a good line and noise look alike, and an empty group has one, too"
)


class LinesContent(TableContent):
    """Lines of one column along another, as predictions at a few cuts."""

    needed = "predictions"

    def _read(self) -> None:
        self.aim = f"Aims at {aim(self.manifest)}"  # which line it is, in a sentence

    @property
    def target(self) -> str | None:
        """The line that is aimed at: median or mean; None if its kernel is unknown here."""
        return target_of(self.manifest)

    @property
    def notes(self) -> list[str]:
        """A warning where noise may look like a line."""
        extras = {extra["stage"] for extra in self.manifest["privacy"].get("spending", ())}
        paid = "interval" in extras or has_own_interval(self.manifest)
        return [] if paid else [NO_INTERVAL]

    def check(self, asked: Asked) -> None:
        """Refuse a formula, too."""
        super().check(asked)
        if asked.formula is not None:
            raise ConfError(f"{str(self.path)!r} holds lines of {self.manifest['release']['y']}; it takes no formula.")

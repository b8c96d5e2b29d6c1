"""What a command answers: its JSON as attributes, its text, its picture."""

from __future__ import annotations

import base64
import csv
import difflib
import html
import io
import json
from functools import cached_property
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Sequence, Union

from ._errors import VramError
from ._library import FITS, TOO_LARGE, Result, Word, command

if TYPE_CHECKING:
    import pandas


class Fields(Mapping[str, Any]):
    """An object of JSON: r.phases.backward.requested_peak_bytes, r["phases"]["backward"]["requested_peak_bytes"]."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return fields(self._values[name])

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__.get("_values")
        if values is not None and name in values:
            return fields(values[name])
        near = difflib.get_close_matches(name, values or (), 1)
        raise AttributeError(f"there is no {name!r} in it" + (f": {near[0]!r}?" if near else ""))

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __dir__(self) -> List[str]:
        return [*super().__dir__(), *filter(str.isidentifier, self._values)]

    def __repr__(self) -> str:
        return repr(dict(self._values))


def fields(value: Any) -> Any:
    if isinstance(value, dict):
        return Fields(value)
    return [fields(v) for v in value] if isinstance(value, list) else value


def refused(answer: Result, args: Sequence[Word]) -> VramError:
    lines = answer.stderr.strip().splitlines()
    return VramError(lines[-1] if lines else f"vram {args[0]}: exit status {answer.status}", answer.status)


class Report(Fields):
    """The answer of a command. Attributes are the fields of its `--json`: `r.peak_requested_bytes`, `r.device_bytes.expected`,
    `r.phases.backward.allocated_peak_bytes`; of `vram.fit` `r.value`.

    fits    True, False, or None where no budget was given
    text    what the command prints for people
    json    its JSON as a text; dict(r) are its values
    notes   what the text of an exported module cannot say
    words   the words of the command
    """

    def __init__(
        self, args: Sequence[Word], given: Optional[str] = None, notes: Sequence[str] = (), data: Optional[bytes] = None
    ) -> None:
        self.words = [str(a) for a in args]
        self.notes = list(notes)
        self._given: Union[str, bytes, None] = given if data is None else data
        answer = self._run("--json")
        self.json = answer.stdout
        super().__init__(json.loads(self.json))
        self._status = answer.status

    def _run(self, *output: Word) -> Result:
        answer = command(*self.words, *output, input=self._given)
        if answer.status not in (FITS, TOO_LARGE) or not answer.stdout:
            raise refused(answer, self.words)
        return answer

    @property
    def fits(self) -> Optional[bool]:
        if self._status == TOO_LARGE:
            return False
        return None if self.get("budget_bytes", True) is None else True

    @cached_property
    def text(self) -> str:
        return self._run().stdout

    @cached_property
    def svg(self) -> str:
        """The picture: memory over the step, and what lives at its peak."""
        return self._run("--svg", "-").stdout

    @property
    def model_text(self) -> Optional[str]:
        """The model in the text form, where it was exported from a module or given so."""
        return self._given if isinstance(self._given, str) else None

    @cached_property
    def layers(self) -> List[Dict[str, Any]]:
        """A row for each layer: its name, type, shape, bytes."""
        rows = csv.DictReader(io.StringIO(self._run("--csv").stdout))
        return [{k: int(v) if v.isdigit() else v for k, v in row.items()} for row in rows]

    def to_pandas(self) -> "pandas.DataFrame":
        """The layers as a DataFrame (needs pandas)."""
        import pandas

        return pandas.DataFrame(self.layers)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        fits = {True: ", fits", False: ", does not fit", None: ""}[self.fits]
        return f"<vram.Report of {' '.join(self.words)}{fits}>"

    def _repr_html_(self) -> str:
        try:
            picture = base64.b64encode(self.svg.encode()).decode()
            shown = f'<img alt="memory over the step" style="max-width:640px" src="data:image/svg+xml;base64,{picture}">'
        except VramError:  # this command, or this kind of model, has none
            shown = ""
        return f'<div>{shown}<pre style="font-family:monospace">{html.escape(self.text)}</pre></div>'

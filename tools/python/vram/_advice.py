"""What `vram advise` answers: lines of changes, a table of them; messages of programs that had no memory."""

from __future__ import annotations

import html
import os
import shlex
import tempfile
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Union

from ._errors import VramError
from ._library import USAGE, Result, Word, command
from ._report import Report, refused

if TYPE_CHECKING:
    import pandas

Message = Union[str, "os.PathLike[str]", BaseException]
SHOWN = ("changes", "fits", "allocated_bytes", "saved_bytes", "device_bytes", "effect", "costs", "options")


def text_of(message: Message) -> Optional[str]:
    """the text of a message: an exception's, or what has spaces or lines; None: it is a path"""
    if isinstance(message, BaseException):
        return f"{type(message).__name__}: {message}"
    if isinstance(message, str) and (" " in message or "\n" in message) and not os.path.exists(message):
        return message
    return None


class Advice(Report):
    """What `vram advise` answers. `.lines` are its JSON's lines, `.rows` the same as a flat table, the cheapest first; `.now` the
    step as it is; with a message `.cause`, `.asked_bytes` and what else it says."""

    def __init__(
        self,
        args: Sequence[Word],
        message: Optional[Message] = None,
        given: Optional[str] = None,
        notes: Sequence[str] = (),
    ) -> None:
        self._message = None if message is None else text_of(message)
        if message is not None and self._message is None:
            args = [*args, "--message", os.fspath(message)]  # type: ignore[arg-type]
        super().__init__(args, given, notes)

    def _run(self, *output: Word) -> Result:
        if self._message is None:
            return super()._run(*output)
        words = [*self.words, *output]
        if self._given is None:
            answer = command(*words, "--message", "-", input=self._message)
        else:  # the standard input is the model's
            with tempfile.NamedTemporaryFile("w", prefix="vram_", suffix=".log") as f:
                f.write(self._message)
                f.flush()
                answer = command(*words, "--message", f.name, input=self._given)
        if not answer.stdout:
            raise refused(answer, self.words)
        return answer

    @property
    def fits(self) -> Optional[bool]:
        """Whether something that was tried fits; None without a budget."""
        return super().fits if self.get("budget_bytes") is not None else None

    @property
    def rows(self) -> List[Dict[str, Any]]:
        """A row for each line: the changes, what they save at the peak, what they cost, the options, the lines of PyTorch."""
        now = self._values.get("now", {})
        return [
            {
                "changes": ", ".join(c["name"] for c in line["changes"]),
                "fits": line["fits"],
                "pareto": line["pareto"],
                "allocated_bytes": line["peak_allocated_bytes"],
                "saved_bytes": now["peak_allocated_bytes"] - line["peak_allocated_bytes"],
                "device_bytes": line["device_bytes"],
                "effect": line["effect"],
                "costs": "; ".join(c["cost"] for c in line["changes"] if c["cost"]),
                "options": " ".join(c["options"] for c in line["changes"]),
                "command": line["command"],
                "torch": "\n".join(c["torch"] for c in line["changes"] if c["torch"]),
            }
            for line in self._values.get("lines", ())
        ]

    def estimate(self, line: int = 0) -> Report:
        """The report of the step with the changes of that line."""
        words = shlex.split(self.rows[line]["command"])[1:]
        return Report(words, self.model_text, self.notes)

    def to_pandas(self) -> "pandas.DataFrame":
        """The rows as a DataFrame (needs pandas)."""
        import pandas

        return pandas.DataFrame(self.rows)

    @property
    def layers(self) -> List[Dict[str, Any]]:
        raise VramError("advice has no layers: those of .estimate(line)", USAGE)

    def _repr_html_(self) -> str:
        def cell(row: Mapping[str, Any], name: str) -> str:
            value = row[name]
            if name.endswith("_bytes"):
                return f'<td style="text-align:right">{value / (1 << 20):,.1f}</td>'
            shown = {True: "yes", False: "no", None: ""}.get(value, value) if name == "fits" else value
            return f'<td style="text-align:left">{html.escape(str(shown))}</td>'

        names = "".join(f"<th>{n.replace('_bytes', ', MiB')}</th>" for n in SHOWN)
        body = "".join(f"<tr>{''.join(cell(row, n) for n in SHOWN)}</tr>" for row in self.rows if row["pareto"])
        table = f"<table><tr>{names}</tr>{body}</table>" if body else ""
        head, text = html.escape(self._said()), html.escape(self.text)
        shown = f'<summary>{head}</summary><pre style="font-family:monospace">{text}</pre>'
        return f"<div>{table}<details{'' if table else ' open'}>{shown}</details></div>"

    def _said(self) -> str:
        words = [self._values.get("mode", ""), f"cause: {self._values['cause']}" if "cause" in self._values else ""]
        return ", ".join(w for w in words if w) or "advice"

"""What the command says when it refuses."""


class VramError(Exception):
    """The command's line, and its exit status: 2 usage or bad input, 3 does not fit, 1 other."""

    def __init__(self, line: str, status: int = 2) -> None:
        super().__init__(line)
        self.line = line
        self.status = status

    def __reduce__(self) -> "tuple[type[VramError], tuple[str, int]]":
        return VramError, (self.line, self.status)

"""python -m vram: the command."""

from ._library import main

main()

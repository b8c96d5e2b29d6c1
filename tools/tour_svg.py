"""The picture of examples/tour.sh that moves: tour_svg.py OUT.svg (make tour.svg). Needs termtosvg, which draws the
frames; what is in them is the tour's own output, and when, is said here, so that the same output gives the same file."""

import re, subprocess, sys

from termtosvg.anim import CharacterCell, render_animation
from termtosvg.term import TimedFrame

PARTS = "estimate", "fit", "plan", "advise", "parallel", "gguf", "run", "emit", "gate"
FIRST = "estimate"  # its last frame stands still where motion is not wanted
COLUMNS, ROWS = 122, 33
READ, TYPE, RUN = 2400, 90, 200  # ms: a part's first words, a step of typing, until there is an answer
REST, LINE, LAST = 600, 90, 1500  # to read an answer, and each of its lines; a part's last one
STEPS = 6  # of typing, for each line of a command

# dark and light: both are a window of their own, which reads on any page
TEMPLATE = """<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" id="terminal"
 viewBox="0 0 676 345" width="676" version="1.1" role="img" aria-labelledby="title">
<title id="title">examples/tour.sh: what each part of vram does, with its output</title>
<defs>
<termtosvg:template_settings xmlns:termtosvg="https://github.com/nbedos/termtosvg">
<termtosvg:screen_geometry columns="82" rows="19"/><termtosvg:animation type="css"/>
</termtosvg:template_settings>
<style type="text/css" id="generated-style"></style>
<style type="text/css" id="user-style">
.foreground {fill: #c9d1d9} .background {fill: #0d1117} .color2 {fill: #7ee787} .color6 {fill: #79c0ff}
.color8 {fill: #8b949e} #edge {stroke: #484f58}
@media (prefers-color-scheme: light) {
.foreground {fill: #1f2328} .background {fill: #f6f8fa} .color2 {fill: #116329} .color6 {fill: #0550ae}
.color8 {fill: #59636e} #edge {stroke: #d1d9e0}
}
#screen {animation: gently MSms linear infinite}
@keyframes gently {0% {opacity: 0} FADE% {opacity: 1} UNFADE% {opacity: 1} 100% {opacity: 0}}
@media (prefers-reduced-motion: reduce), print {
#screen {animation: none} #screen_view {animation: none; transform: translateY(-STILLpx)}
}
</style>
</defs>
<rect id="edge" class="background" x="0.5" y="0.5" width="99.9%" height="99.8%" rx="7"/>
<svg id="screen" x="10" y="11" width="656" height="323" viewBox="0 0 656 323" preserveAspectRatio="xMidYMin slice"></svg>
</svg>"""


def tour(part):
    """the lines of a part, each with its kind: title, why, command, said"""
    text = subprocess.run(
        ["sh", "examples/tour.sh", "--part", part], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    # what every run, or every new change of advise, has another of
    for found, shown in ("after [\\d.]+ s$", "after ... s"), ("^process \\d+", "process ..."), ("^\\d+ ways", "... ways"):
        text = re.sub("(?m)" + found, shown, text)
    kind, lines = "title", []
    for line in text.rstrip("\n").split("\n"):
        if re.match(r"\$ ", line) or kind == "command" and line.startswith("> "):
            kind = "command"
        elif kind == "command":
            kind = "said"
        lines.append((kind, line))
        if kind == "title":
            kind = "why"
    return lines


def cells(kind, line):
    colour = {"title": "color6", "why": "color8"}.get(kind, "foreground")
    if kind == "said" and re.search(r"^fits|: fits$", line):
        colour = "color2"
    bold = kind in ("title", "command")
    row = {c: CharacterCell(text, colour, "background", bold) for c, text in enumerate(line)}
    if kind == "command":
        row.update({c: row[c]._replace(color="color2") for c in (0, 1) if c in row})
    return row


def folded(lines):
    """as a terminal does it with lines that are too long; of more than the screen holds the end"""
    rows = [(k, line[i : i + COLUMNS]) for k, line in lines for i in range(0, max(len(line), 1), COLUMNS)]
    return rows[-ROWS:]


class Film:
    def __init__(self):
        self.frames, self.time, self.still = [], 0, 0

    def show(self, lines, ms):
        buffer = {r: cells(*line) for r, line in enumerate(folded(lines)) if line[1]}
        self.frames.append(TimedFrame(self.time, ms, buffer))
        self.time += ms


def film():
    f = Film()
    for part in PARTS:
        lines = tour(part)
        done = next(i for i, line in enumerate(lines) if line[0] == "command")
        f.show(lines[:done], READ)
        while done < len(lines):
            while done < len(lines) and lines[done][0] == "command":
                line = lines[done][1]
                for step in range(1, STEPS):
                    f.show(lines[:done] + [("command", line[: 2 + (len(line) - 2) * step // STEPS])], TYPE)
                done += 1
            f.show(lines[:done], RUN)
            begin = done
            while done < len(lines) and lines[done][0] != "command":
                done += 1
            f.show(lines[:done], REST + LINE * (done - begin) + (LAST if done == len(lines) else 0))
        if part == FIRST:
            f.still = len(f.frames) - 1
    return f


f = film()
height = ROWS + 1  # of a frame in the strip that termtosvg makes of them: one row apart, an even number
height = (height + height % 2) * 17
template = (
    TEMPLATE.replace("UNFADE", f"{100 - 60000 / f.time:.2f}")
    .replace("FADE", f"{60000 / f.time:.2f}")
    .replace("MS", str(f.time))
    .replace("STILL", str(f.still * height))
)
render_animation(f.frames, (COLUMNS, ROWS), sys.argv[1], template.encode())
with open(sys.argv[1], encoding="ascii") as drawn:
    text = "".join(line.strip() + "\n" for line in drawn if line.strip())
with open(sys.argv[1], "w", encoding="ascii") as out:
    out.write(text)
print(f"{sys.argv[1]}: {len(f.frames)} frames, {f.time / 1000:.0f} s")

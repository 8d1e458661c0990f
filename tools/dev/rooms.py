#!/usr/bin/env python3
"""rooms.py [TREE] [--svg FILE | --check] -- measures the rooms of a checkout.

Text by default: files and lines per room, the includes between rooms, layers, circles,
lengths of functions and files.  TREE is the checkout of any commit, for comparisons;
default: the checkout of this script.

  --svg FILE   draws rooms on floors by layer, and the includes between them
  --check      fails when docs/rooms.svg is not the drawing of the tree, rooms or files
               go in a circle, a file uses a definition of a room that it may not
               include (tools/check_layers.py), or an external name lacks its qg_
               prefix

Layer     the longest path of includes down to a room that includes none
Circle    rooms and files that reach each other by includes; files (.c) that do so by
          the functions and tables they use, except through a registry (X.def), which
          may list the files built on it
Drawing   room names and includes only, so that it changes with the structure alone;
          an include that follows from others (A to B to C: A to C) is left out"""
import argparse
import collections
import html
import os
import pathlib
import re
import statistics
import sys

TOOLS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOOLS))
import check_layers  # noqa: E402
import check_source  # noqa: E402

DRAWING = "docs/rooms.svg"
WORD = re.compile(r"\bqg_\w+")
# An external function or variable: it begins in column 0 and is not static.
DEFINED = re.compile(r"^(?!static|typedef|extern|(?:struct|union|enum)\s+\w+\s*;)"
                     r"[a-zA-Z][\w \t*]*?\b(\w+)"
                     r"(?:\([^;{}]*?\)\s*\{|(?:\[[^\]]*\])*\s*[=;])", re.M)
TYPE = re.compile(r"^\} (qg_\w+);", re.M)  # may have the name of a function elsewhere
LONG_FILE = 600  # reported; check_budget.py allows more


class Tree:
    """The product's C files in the current folder, and their includes."""

    def __init__(self):
        self.text = {str(p): p.read_text() for p in check_source.files(*check_source.C)
                     if check_source.room(p)}
        self.rooms = sorted({check_source.room(p) for p in self.text})
        self.room_edges = collections.Counter()
        self.include_edges = {
            path: {h for _, _, name in check_source.includes(text)
                   if (h := check_source.included(path, name)) in self.text}
            for path, text in self.text.items()}
        for path, headers in self.include_edges.items():
            for header in headers:
                room, there = check_source.room(path), check_source.room(header)
                if room != there:
                    self.room_edges[room, there] += 1
        self.code = {p: check_source.only_code(t) for p, t in self.text.items()}
        self.owner = {}  # name: the file that defines it externally
        for path, code in self.code.items():
            if not path.endswith(".h"):
                for m in DEFINED.finditer(check_source.without_directives(code)):
                    self.owner[m[1]] = path

    def uses(self, path):
        """(name, file that defines it) of functions and tables of other files."""
        for name in sorted(set(WORD.findall(self.code[path])) & self.owner.keys()):
            if self.owner[name] != path:
                yield name, self.owner[name]

    def file_edges(self):
        """file: the files whose definitions it uses; .c files only."""
        return {p: {file for _, file in self.uses(p)}
                for p in self.text if p.endswith(".c")}

    def neighbours(self):
        """room: the rooms that it includes."""
        below = {room: set() for room in self.rooms}
        for room, there in self.room_edges:
            below[room].add(there)
        return below


def components(edges):
    """Strongly connected components of {node: nodes}, each after those that it reaches
    (Tarjan's algorithm, without recursion)."""
    index, low, stack, found = {}, {}, [], []

    def walk(start):
        todo = [(start, None, iter(sorted(edges.get(start, ()))))]
        index[start] = low[start] = len(index)
        stack.append(start)
        while todo:
            node, parent, rest = todo[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    todo.append((other, node, iter(sorted(edges.get(other, ())))))
                    break
                if other in stack:
                    low[node] = min(low[node], index[other])
            else:
                todo.pop()
                if low[node] == index[node]:
                    at = stack.index(node)
                    found.append(sorted(stack[at:]))
                    del stack[at:]
                if parent is not None:
                    low[parent] = min(low[parent], low[node])

    for node in sorted(edges):
        if node not in index:
            walk(node)
    return found


def circles(edges):
    return sorted(c for c in components(edges) if len(c) > 1)


def layers(below):
    """{room: layer}; the rooms of one circle are on one layer."""
    layer = {}
    for members in components(below):
        outside = set().union(*(below[m] for m in members)) - set(members)
        height = 1 + max((layer[o] for o in outside), default=-1)
        layer.update(dict.fromkeys(members, height))
    return layer


def reduced(below, layer):
    """The edges (upper, lower) between layers that do not follow from others."""
    reach = {}
    for room in sorted(below, key=lambda r: (layer[r], r)):
        lower = {o for o in below[room] if layer[o] < layer[room]}
        reach[room] = lower.union(*(reach[o] for o in lower))
    return sorted((room, to) for room in below for to in below[room]
                  if layer[to] < layer[room] and
                  not any(to in reach[o] for o in below[room] if layer[o] < layer[room]))


def plural(n, word):
    return f"{n} {word}" + ("" if n == 1 else "s")


def print_circles(what, found):
    print(f"circles between {what}: {len(found)}"
          + (f", of {', '.join(str(len(c)) for c in found)}" if found else ""))
    for members in found:
        print("  " + " ".join(members))


def print_rooms(tree):
    files = collections.Counter(check_source.room(p) for p in tree.text)
    lines = collections.Counter()
    for path, text in tree.text.items():
        lines[check_source.room(path)] += text.count("\n")
    below = tree.neighbours()
    layer = layers(below)
    biggest = max(tree.rooms, key=lambda r: (lines[r], r))
    print(f"{plural(len(tree.rooms), 'room')}, {plural(sum(files.values()), 'file')}, "
          f"{sum(lines.values())} lines; biggest: {biggest}, "
          f"{lines[biggest] / max(1, sum(lines.values())):.0%} of the lines")
    print(f"{'room':<18}{'layer':>6}{'files':>7}{'lines':>8}  includes")
    for room in sorted(tree.rooms, key=lambda r: (layer[r], r)):
        into = " ".join(f"{to.removeprefix('engine/')}:{tree.room_edges[room, to]}"
                        for to in sorted(below[room], key=lambda r: (layer[r], r)))
        print(f"{room:<18}{layer[room]:>6}{files[room]:>7}{lines[room]:>8}  {into}")
    print(f"{len(tree.room_edges)} edges between rooms, "
          f"{sum(tree.room_edges.values())} includes; "
          f"{plural(1 + max(layer.values(), default=-1), 'layer')}")
    print_circles("rooms", circles(below))
    print_circles("includes of files", circles(tree.include_edges))
    print_circles("files", circles(tree.file_edges()))


def print_lengths(tree):
    lengths, unread = [], []
    for path, text in tree.text.items():
        try:
            lengths += [f.length for f in check_source.functions(text)]
        except ValueError as e:
            unread.append(f"{path}: {e}")
    lengths = sorted(lengths) or [0]
    print(f"{plural(len(lengths), 'function')}: p50 {statistics.median_low(lengths)}, "
          f"p90 {lengths[len(lengths) * 9 // 10]}, longest {lengths[-1]} lines")
    long = sorted(((text.count("\n"), path) for path, text in tree.text.items()
                   if text.count("\n") > LONG_FILE), reverse=True)
    print(f"files above {LONG_FILE} lines: {len(long)}")
    for count, path in long:
        print(f"  {count} {path}")
    for line in unread:
        print(f"not understood: {line}")


# --- the drawing ----------------------------------------------------------------------

BOX, HEIGHT, GAP, FLOOR, MARGIN = 112, 34, 26, 84, 24
LOOP = 40    # height of the arrows of a cycle
BEND = 14    # width of an arrow on a floor that it crosses
SWEEPS = 24  # passes over the floors, up and down, to reduce crossings


def chains(edges, layer):
    """Each edge as its points from floor to floor: a room, bends, a room."""
    return [[upper, *((upper, lower, k) for k in range(layer[upper] - 1, layer[lower], -1)),
             lower] for upper, lower in edges]


def place(floors, links):
    """Orders every floor by the mean position of the neighbours on the other floors."""
    position = {}

    def number(floor):
        width = len(floor)
        for i, point in enumerate(floor):
            position[point] = (i + 0.5) / width

    for floor in floors:
        number(floor)
    for sweep in range(SWEEPS):
        for floor in floors if sweep % 2 else floors[::-1]:
            mean = {p: statistics.fmean([position[o] for o in links[p]] or [position[p]])
                    for p in floor}
            floor.sort(key=lambda p: (round(mean[p], 9), str(p)))
            number(floor)
    return floors


def width_of(point):
    return BOX if isinstance(point, str) else BEND


def coordinates(floors, links, above):
    """({point: (x of its middle, y of its middle)}, width), y downwards, layer 0 lowest,
    with `above` pixels free over the top floor."""
    x = {}
    widest = max(sum(width_of(p) + GAP for p in floor) for floor in floors) - GAP
    for floor in floors:
        free = widest - sum(width_of(p) for p in floor)
        at, gap = MARGIN + free / (2 * len(floor)), free / len(floor)
        for p in floor:
            x[p] = at + width_of(p) / 2
            at += width_of(p) + gap
    for sweep in range(SWEEPS):  # toward the neighbours, as far as the floor allows
        for floor in floors if sweep % 2 else floors[::-1]:
            for i in [*range(len(floor)), *range(len(floor) - 1, -1, -1)]:
                p = floor[i]
                if not links[p]:
                    continue
                least, most = MARGIN + width_of(p) / 2, MARGIN + widest - width_of(p) / 2
                if i > 0:
                    q = floor[i - 1]
                    least = x[q] + (width_of(p) + width_of(q)) / 2 + GAP
                if i + 1 < len(floor):
                    q = floor[i + 1]
                    most = x[q] - (width_of(p) + width_of(q)) / 2 - GAP
                x[p] = max(least, min(most, statistics.fmean(x[o] for o in links[p])))
    top = len(floors) - 1
    return {p: (round(x[p]), above + HEIGHT // 2 + (top - k) * FLOOR)
            for k, floor in enumerate(floors) for p in floor}, MARGIN * 2 + round(widest)


def arrow(points, at):
    """A path through the points: straight beside the boxes, curved between floors."""
    x, y = at[points[0]]
    d = [f"M{x},{y + HEIGHT // 2}"]
    y += HEIGHT // 2
    for p in points[1:]:
        to, floor = at[p]
        end = floor - HEIGHT // 2
        d.append(f"C{x},{(y + end) // 2} {to},{(y + end) // 2} {to},{end}")
        x, y = to, end
        if not isinstance(p, str):
            y = floor + HEIGHT // 2
            d.append(f"V{y}")
    return f'<path class="into" d="{" ".join(d)}"/>'


def draw(tree):
    below = tree.neighbours()
    layer = layers(below)
    paths = chains(reduced(below, layer), layer)
    floors = [[] for _ in range(1 + max(layer.values(), default=0))]
    links = collections.defaultdict(list)
    for room in tree.rooms:
        floors[layer[room]].append(room)
    for points in paths:
        for p in points[1:-1]:
            floors[p[2]].append(p)
        for a, b in zip(points, points[1:]):
            links[a].append(b)
            links[b].append(a)
    above = MARGIN + (LOOP if circles(below) else 0)
    at, width = coordinates(place(floors, links), links, above)
    height = above + MARGIN + (len(floors) - 1) * FLOOR + HEIGHT + 20
    body = [arrow(points, at) for points in paths]
    for room in tree.rooms:
        x, y = at[room]
        body.append(f'<rect x="{x - BOX // 2}" y="{y - HEIGHT // 2}" width="{BOX}" '
                    f'height="{HEIGHT}" rx="5"/>')
        body.append(f'<text x="{x}" y="{y + 5}">{html.escape(room)}</text>')
    for room, to in sorted(tree.room_edges):  # only a circle has edges on one floor
        if layer[room] == layer[to]:
            (x, y), (there, _) = at[room], at[to]
            y -= HEIGHT // 2
            body.append(f'<path class="circle" d="M{x},{y} C{x},{y - LOOP} {there},{y - LOOP} '
                        f'{there},{y}"/>')
    return SVG.format(width=width, height=height, foot=height - 12, body="\n".join(body))


SVG = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" \
viewBox="0 0 {width} {height}">
<title>The rooms of the project, and what includes what</title>
<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" \
markerHeight="7" markerUnits="userSpaceOnUse" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#555"/></marker></defs>
<style>
  text {{ font: 13px sans-serif; text-anchor: middle; fill: #222 }}
  rect {{ fill: #eef3fa; stroke: #4a6a95 }}
  .into {{ fill: none; stroke: #777; marker-end: url(#head) }}
  .circle {{ fill: none; stroke: #c00; stroke-width: 2; marker-end: url(#head) }}
  .foot {{ font-size: 11px; text-anchor: start; fill: #555 }}
</style>
<rect x="0" y="0" width="{width}" height="{height}" style="fill:#fff;stroke:none"/>
{body}
<text class="foot" x="24" y="{foot}">An arrow: the upper room includes the lower one. \
What follows from other arrows is left out.</text>
</svg>
"""


def use_complaints(tree):
    """Declaring a function instead of including its header opens no room.  The public
    headers, and those that they include, declare definitions of other rooms for
    tools."""
    public = {p for p in tree.text if check_layers.short(p) == "api"}
    while (more := set().union(*(tree.include_edges[p] for p in public)) - public):
        public |= more
    public = {name for p in public for name in WORD.findall(tree.code[p])}
    types = {name for code in tree.code.values() for name in TYPE.findall(code)}
    for path in tree.text:
        me = check_layers.short(path)
        may = [me, *check_layers.MAY.get(me, ())]
        for name, file in tree.uses(path):
            there = check_layers.short(file)
            if there not in may and name not in types and me != "api" and \
                    not (me == "tools" and name in public):
                yield f"{path}: uses {name} of {file}: {me} may not include {there}"


def name_complaints(tree):
    for name, path in tree.owner.items():
        if not name.startswith("qg_") and not path.startswith("tools/"):
            yield f"{path}: {name} is seen by other files: static, or a name with qg_"


def check(tree):
    drawn = pathlib.Path(DRAWING)
    stale = not drawn.exists() or drawn.read_text() != draw(tree)
    if stale:
        print(f"{DRAWING}: not as tools/dev/rooms.py --svg {DRAWING} draws it")
    found = [f"{members[0]}: in a circle with {' '.join(members[1:])}"
             for edges in (tree.neighbours(), tree.include_edges, tree.file_edges())
             for members in circles(edges)]
    found += [*use_complaints(tree), *name_complaints(tree)]
    for line in found:
        print(line)
    return bool(stale or found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tree", nargs="?", help="a checkout; default: this one")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--svg", metavar="FILE", help="draw")
    what.add_argument("--check", action="store_true", help=f"is {DRAWING} up to date?")
    args = parser.parse_args()
    here = pathlib.Path.cwd()
    os.chdir(args.tree or TOOLS.parent)
    tree = Tree()
    if args.svg:
        (here / args.svg).write_text(draw(tree))
    elif args.check:
        return check(tree)
    else:
        print_rooms(tree)
        print_lengths(tree)
    return 0


sys.exit(main())

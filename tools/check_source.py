"""check_source.py -- what the checks share: the project's files and a scanner for C.

Run as a program it prints the C files, for clang-format.  Every check works on the
folder it is started in, so that tests can run it on a throw-away tree."""
import dataclasses
import functools
import pathlib
import re
import subprocess


C = (".c", ".h", ".def", ".inc")  # what holds C; .def and .inc are included ones


def files(*suffixes):
    """Tracked and new files, sorted; all of them when no suffix is given."""
    try:
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"],
                                capture_output=True, text=True, check=True).stdout
        names = listed.splitlines()
    except (OSError, subprocess.CalledProcessError):  # an unpacked archive
        names = [str(p) for p in pathlib.Path(".").rglob("*")
                 if not re.match(r"build|\.venv|\.git/", str(p))]
    return [p for p in map(pathlib.Path, sorted(set(names)))
            if (not suffixes or p.suffix in suffixes) and p.is_file()]


def slug(title):
    """The anchor of a heading, as forges make it."""
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", title.strip().lower()))


@functools.cache
def anchors(path):
    """Of every heading of a page."""
    return {slug(t) for t in re.findall(r"^#+\s+(.*)$", path.read_text(), re.M)}


TOKEN = re.compile(r'''/\*.*?\*/ | //[^\n]* | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' ''',
                   re.S | re.X)


def blank(match):
    """Spaces of the same shape, so that lines and columns stay."""
    return re.sub(r"[^\n]", " ", match.group())


def without_comments(text):
    return TOKEN.sub(lambda m: m.group() if m.group()[0] in "\"'" else blank(m), text)


def only_code(text):
    """Without comments and the contents of literals."""
    return TOKEN.sub(lambda m: '"' + blank(m)[1:-1] + '"' if m.group()[0] in "\"'"
                     else blank(m), text)


def without_directives(code):
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, code, flags=re.M)


def room(path):
    """The room that a file stands in: "engine/ir", "ops", "passes/vendor", "tools", ...;
    None outside the product.  Folders below a room of engine/ belong to it; a file of
    engine/ itself stands in "engine", which is no room of any table."""
    parts = pathlib.PurePosixPath(path).parts[:-1]
    if parts[:1] == ("engine",):
        return "/".join(parts[:2])
    if parts[:2] == ("passes", "vendor"):
        return "passes/vendor"
    return parts[0] if parts and parts[0] in ("ops", "passes", "tools") else None


def includes(text):
    """(line, quote or angle bracket, header) of every include; "" for a macro."""
    for number, line in enumerate(without_comments(text).splitlines(), 1):
        if (m := re.match(r'\s*#\s*include(?:_next)?\b\s*([<"]?)([^>"]+)', line)):
            yield number, m[1], m[2].strip()


def included(path, header):
    """The file of the tree that an include of this file means, or the header as it is.
    Tools have only their own folder and the installed headers on their include path."""
    if room(path) == "tools" and "/" not in header:
        for folder in ("tools", "engine/api"):
            if pathlib.Path(folder, header).is_file():
                return f"{folder}/{header}"
    return header


def operators():
    """(file, name): quoted after '.name =' or before the opset, as rows are written."""
    for path in files(".c"):
        if path.parts[0] == "ops":
            code = without_comments(path.read_text())
            rows = re.findall(r'\.name = "([A-Z]\w*)"|"([A-Z]\w*)",\s*\d', code)
            for name in sorted({a or b for a, b in rows}):
                yield path, name


@dataclasses.dataclass
class Function:
    name: str
    line: int        # of the name
    length: int      # from there to the closing brace
    parameters: int
    pointers: frozenset  # names of the parameters that are pointers or arrays
    body: tuple      # offsets of its opening brace and behind the closing one


def closing(code, at):
    """Index after the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(code)):
        depth += (code[i] in "({[") - (code[i] in ")}]")
        if depth == 0:
            return i + 1
    return len(code)


def signature(head):
    """(name, offset of the name, text of the parameters) or None.  head is what stands
    before a brace at file level and must end in brackets, that hold the parameters;
    attributes aside.  NAME(f)(int x), a name made by a macro, counts as one."""
    found, i = None, 0
    while (m := re.compile(r"\b([A-Za-z_]\w*)\s*\(").search(head, i)):
        begin, i = m.end(), closing(head, m.end() - 1)
        if (again := re.match(r"\s*\(", head[i:])):
            begin, i = i + again.end(), closing(head, i + again.end() - 1)
        if not re.match(r"QG_[A-Z]+$|__attribute__$|_Static_assert$", m[1]):
            found = (m[1], m.start(1), head[begin:i - 1])
    if not found or "=" in head[:found[1]] or head[i:].strip():
        return None
    return found


def parameters(text):
    """(number, names of those that are pointers or arrays)."""
    flat = re.sub(r"\(\s*\*\s*(\w+)\s*\)\s*\(", r"* \1 (", text)  # (*f)(int): * f (int)
    flat = re.sub(r"\([^()]*\)", "", re.sub(r"\([^()]*\)", "", flat)).strip()
    if flat in ("", "void"):
        return 0, frozenset()
    each = [p.strip() for p in flat.split(",")]
    names = (re.search(r"(\w+)\s*(?:\[[^]]*\]\s*)*$", p)
             for p in each if "*" in p or "[" in p)
    return len(each), frozenset(m[1] for m in names if m)


def functions(text):
    """Every function defined in a C file.  Raises ValueError when the braces of the
    file do not balance, which means that this scanner does not understand it."""
    code = without_directives(only_code(text))
    found, start, i = [], 0, 0
    while i < len(code):
        c = code[i]
        if c in "([":
            i = closing(code, i)
        elif c == "{":
            end = closing(code, i)
            if (s := signature(code[start:i])):
                line = code.count("\n", 0, start + s[1]) + 1
                found.append(Function(s[0], line, code.count("\n", 0, end) + 2 - line,
                                      *parameters(s[2]), (i, end)))
                start = end
            i = end
        else:
            if c == "}":
                raise ValueError(f"line {code.count(chr(10), 0, i) + 1}: unmatched brace")
            i += 1
            if c == ";":
                start = i
    return found


if __name__ == "__main__":
    for path in files(*C):
        print(path)

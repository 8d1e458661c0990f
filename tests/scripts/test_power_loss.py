#!/usr/bin/env python3
"""Snapshots and files survive power loss: the calls of `qg quantize`, and of verbs that
write files, that change folders are recorded, and after every one of them each state is
built that a disk may be left in: a target is the old one or the new one.  Of files that
belong together some may be missing, but never is an old one there with a new one.

The model of the disk: an operation on a folder is atomic.  Of the operations on a folder
since its last fsync any first few may have reached the disk, independently of those on
other folders.  A file that was not synced since it was made may be empty."""
import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

QG = str(pathlib.Path(os.environ.get("QG", "build/qg")).resolve())
ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "configs/models/digits.onnx"
EMPTY = b""
BACKEND = {"minmax": "openvino-int8", "percentile": "trt-int8"}  # other files of exports
complaints = []


def quantize(folder, observer, **environment):
    subprocess.run([QG, "quantize", str(MODEL), "-b", BACKEND[observer], "-d", "random:1",
                    "-j", "1", "--kernels", "reference", "--observer", observer, "-o",
                    str(folder)], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, **environment})


def content(folder):
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}


class Disk:
    """Inodes: a folder is a dict of names, a file the bytes that it will have."""

    def __init__(self, files):
        self.inode = {"/": {}}           # what programs see
        self.durable = {"/": {}}         # folders as of their last fsync
        self.pending = {"/": []}         # changes since: functions on a folder
        self.synced = set()
        for path, data in files.items():
            *folders, name = path.split("/")
            at = "/"
            for f in folders:
                if f not in self.inode[at]:
                    self.new_folder(at, f)
                at = self.inode[at][f]
            self.inode[at][name] = self.new_file(data)
        for n, entries in self.inode.items():
            if isinstance(entries, dict):
                self.durable[n], self.pending[n] = dict(entries), []
        self.synced = {n for n, e in self.inode.items() if isinstance(e, bytes)}

    def new_folder(self, at, name):
        n = len(self.inode)
        self.inode[n], self.durable[n], self.pending[n] = {}, {}, []
        self.inode[at][name] = n
        return n

    def new_file(self, data):
        n = len(self.inode)
        self.inode[n] = data
        return n

    def find(self, path):
        """(folder, name) of a path."""
        *folders, name = path.split("/")
        at = "/"
        for f in folders:
            at = self.inode[at][f]
        return at, name

    def change(self, folder, edit):
        edit(self.inode[folder])
        self.pending[folder].append(edit)

    def apply(self, what, a, b, final):
        """One recorded call; final: bytes of files by name."""
        folder, name = self.find(a) if a != "/" else ("/", "")
        n = self.inode[folder].get(name) if name else "/"
        if what == "mkdir":
            n = self.new_folder(folder, name)
            self.change(folder, lambda d: d.update({name: n}))
        elif what == "create":
            n = self.new_file(None)
            self.change(folder, lambda d: d.update({name: n}))
        elif what in ("unlink", "rmdir"):
            self.change(folder, lambda d: d.pop(name, None))
        elif what == "linkat":
            to, new = self.find(b)
            self.change(to, lambda d: d.update({new: n}))
        elif what == "fsync" and isinstance(self.inode[n], dict):
            self.durable[n], self.pending[n] = dict(self.inode[n]), []
        elif what == "fsync":
            self.synced.add(n)
        elif what in ("rename", "exchange"):
            to, new = self.find(b)
            other = self.inode[to].get(new)
            assert to == folder, "a rename between folders is not modelled"
            def move(d):
                d.pop(name, None)
                if what == "exchange":
                    d[name] = other
                d[new] = n
            self.change(folder, move)
            if new in final and self.inode[n] is None:
                self.inode[n] = final[new]
        else:
            raise AssertionError(what)

    def states(self):
        """Folders as dicts, for every choice of what reached the disk."""
        folders = list(self.durable)
        for k in itertools.product(*(range(len(self.pending[f]) + 1) for f in folders)):
            tree = {}
            for f, n in zip(folders, k):
                tree[f] = dict(self.durable[f])
                for edit in self.pending[f][:n]:
                    edit(tree[f])
            yield tree

    def read(self, tree, target):
        """Every content of the target: each file that is not synced, whole and empty."""
        n = tree["/"].get(target)
        if n is None:
            yield None
            return
        files = tree.get(n, {})
        loose = [f for f, i in files.items() if i not in self.synced]
        for lost in itertools.product((False, True), repeat=len(loose)):
            gone = {f for f, l in zip(loose, lost) if l}
            yield {f: EMPTY if f in gone else self.inode[i] for f, i in files.items()}


    def read_file(self, tree, target):
        """The same for a target that is one file, in a folder or not."""
        at, name = "/", target
        while "/" in name:
            first, name = name.split("/", 1)
            if first not in tree[at]:
                yield None
                return
            at = tree[at][first]
        n = tree[at].get(name)
        if n is None:
            yield None
            return
        yield self.inode[n]
        if n not in self.synced:
            yield EMPTY


def is_whole(have, old, new):
    """have: bytes or None by name; old, new: bytes by name, or no names."""
    if have in ({n: old.get(n) for n in new}, new):
        return True
    there = {n: data for n, data in have.items() if data is not None}
    return len(new) > 1 and any(all(kind.get(n) == data for n, data in there.items())
                                for kind in (old, new))


def replay_files(record, old, new):
    """The number of states, and of those in which a file is neither old nor new, or old
    ones are with new ones; the last state, with all calls made, must be new."""
    disk, states, lost = Disk(old), 0, []
    for number, (what, a, b) in enumerate([("", "", "")] + record):
        if what:
            disk.apply(what, a, b, {os.path.basename(n): data for n, data in new.items()})
        last = number == len(record)
        for tree in disk.states():
            for data in itertools.product(*(list(disk.read_file(tree, n)) for n in new)):
                have = dict(zip(new, data))
                states += 1
                if not (have == new if last else is_whole(have, old, new)):
                    lost.append(f"after call {number} ({what} {a} {b}): " + str(
                        {n: x if x is None else len(x) for n, x in have.items()}))
    return states, lost


# Verbs that write files: words, and the files below the stage; SNAP is a snapshot.
WRITERS = {
    "export": ["export", "SNAP", "--format", "onnx-qdq", "-o", "out.onnx"],
    "export-ir": ["export", "SNAP", "--format", "openvino-ir", "-o", "out.xml"],
    "export-aimet": ["export", "SNAP", "--format", "aimet", "-o", "out.encodings"],
    "export-ncnn": ["export", "SNAP", "--format", "ncnn-table", "-o", "out.table"],
    "export-views": ["export", "SNAP", "--format", "model-explorer", "-o", "out.json"],
    "run": ["run", "SNAP", "-d", "random:1", "-j", "1", "-o", "out"],
    "trace": ["trace", "SNAP", "-d", "random:1", "-j", "1", "-o", "out.npz"],
    "collect": ["stats", "collect", str(MODEL), "-d", "random:1", "-j", "1", "-o",
                "out.qgs"],
}


def write(words, snapshot, stage, **environment):
    """Runs a verb on a snapshot; the bytes of all files of the stage, by name."""
    words = [str(snapshot) if w == "SNAP" else
             str(stage / w) if w.startswith("out") else w for w in words]
    subprocess.run([QG, *words], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, **environment})
    return {str(p.relative_to(stage)): p.read_bytes() for p in sorted(stage.rglob("*"))
            if p.is_file()}


def writers(work, library):
    """Each verb over old files and where there are none."""
    for verb, words in WRITERS.items():
        for kind in "fresh", "replaced":
            stage = work / f"{verb}-{kind}"
            stage.mkdir()
            old = write(words, work / "old", stage) if kind == "replaced" else {}
            log = work / f"{verb}-{kind}.log"
            new = write(words, work / "new", stage, LD_PRELOAD=library, QG_RECORD=str(log))
            calls = [(w, *(("/" if p == "." else p) for p in ab))
                     for w, *ab in recorded(log, stage)]
            states, lost = replay_files(calls, old, new)
            complaints.extend(f"{verb}, {kind}: {line}" for line in lost[:5])
            print(f"{verb}, {kind}: {len(calls)} calls, {states} states tried, "
                  f"{states - len(lost)} survived, {len(lost)} lost")


def replay(record, files, target, allowed, final):
    """The number of states, and of those in which the target is a mixture."""
    disk, states, lost = Disk(files), 0, []
    for number, (what, a, b) in enumerate([("", "", "")] + record):
        if what:
            disk.apply(what, a, b, final)
        for tree in disk.states():
            for have in disk.read(tree, target):
                states += 1
                if have not in allowed:
                    lost.append(f"after call {number} ({what} {a} {b}): "
                                f"{ {k: v and len(v) for k, v in have.items()} if have else have}")
    return states, lost


def recorded(path, work):
    """Calls below `work`, with paths relative to it."""
    calls = []
    for line in path.read_text().splitlines():
        what, a, b = line.split("\t")
        a, b = (os.path.relpath(p, work) if p else "" for p in (a, b))
        if not a.startswith("..") and a != "record":
            calls.append((what, "." if a == "." else a, b))
    return calls


def main():
    work = pathlib.Path(tempfile.mkdtemp()).resolve()
    try:
        library = work / "record.so"
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", "-o",
                        str(library), str(ROOT / "tests/support/preload/record.c"),
                        "-ldl"], check=True)
        for name, observer in ("old", "minmax"), ("new", "percentile"):
            quantize(work / name, observer)
        old, new = content(work / "old"), content(work / "new")
        mine = {"notes.txt": b"mine"}
        (work / "old/notes.txt").write_bytes(b"mine")
        total = 0
        for kind in "replaced", "fresh":
            stage = work / kind
            stage.mkdir()
            if kind == "replaced":
                shutil.copytree(work / "old", stage / "target")
            log = work / f"{kind}.log"
            quantize(stage / "target", "percentile", LD_PRELOAD=str(library),
                     QG_RECORD=str(log))
            calls = recorded(log, stage)
            if kind == "replaced":
                files = {f"target/{n}": b for n, b in {**old, **mine}.items()}
                allowed = [{**old, **mine}, {**new, **mine}]
            else:
                files, allowed = {}, [None, new]
            calls = [(w, *(("/" if p == "." else p) for p in ab)) for w, *ab in calls]
            states, lost = replay(calls, files, "target", allowed, new)
            complaints.extend(f"{kind}: {line}" for line in lost[:5])
            total += states
            print(f"{kind}: {len(calls)} calls, {states} states tried, "
                  f"{states - len(lost)} survived, {len(lost)} lost")
            none = [c for c in calls if c[0] != "fsync"]
            if not replay(none, files, "target", allowed, new)[1]:
                complaints.append(f"{kind}: without syncs nothing is lost either: this "
                                  f"test cannot fail")
        writers(work, str(library))
    finally:
        shutil.rmtree(work)
    for line in complaints:
        print("FAILED:", line)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())

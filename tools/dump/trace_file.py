"""trace_file -- writes a trace (docs/trace.md) and reads samples, for the scripts beside
it.  Needs numpy only: copy it to where the device is."""
import io
import json
import pathlib
import zipfile

import numpy as np


def samples(path, inputs):
    """Yields one dict per sample: name -> array of the input's shape.  inputs: (name,
    shape) in order.  path: an .npy for one input, or an .npz with an array per input."""
    data = np.load(path)
    if isinstance(data, np.ndarray):
        data = {inputs[0][0]: data}
    stacked = {}
    for name, shape in inputs:
        x, rank = data[name], len(shape)
        stacked[name] = x if x.ndim == rank + 1 else x[:, None] if shape[0] == 1 else x[None]
    for k in range(len(next(iter(stacked.values())))):
        yield {name: x[k] for name, x in stacked.items()}


class Trace:
    """Tensors, sample by sample; every tensor has one shape and type in all samples."""

    def __init__(self, producer):
        self.producer, self.arrays, self.grids, self.layouts = producer, {}, {}, {}

    def add(self, name, array, grid=None, layout=None):
        """One sample of one tensor.  grid: (scale, zero point) of its codes.  layout: model,
        nchw or nhwc; None: found from dims and elements."""
        self.arrays.setdefault(name, []).append(np.array(array))
        self.layouts[name] = layout
        if grid:
            self.grids[name] = {"scale": float(grid[0]), "zero": int(grid[1])}

    def write(self, path):
        names = list(self.arrays)
        files = {name: f"{i:04d}.npy" for i, name in enumerate(names)}
        about = {"format": "quantgraph-trace", "version": 1, "producer": self.producer,
                 "arrays": [{"value": name, "file": files[name], "layout": self.layouts[name],
                             "grid": self.grids.get(name)} for name in names]}
        with zipfile.ZipFile(pathlib.Path(path), "w", allowZip64=True) as archive:
            archive.writestr("trace.json", json.dumps(about, indent=1))
            for name in names:
                data = io.BytesIO()
                np.save(data, np.stack(self.arrays[name]))
                archive.writestr(files[name], data.getvalue())

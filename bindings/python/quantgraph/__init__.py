"""quantgraph: what a network computes, tensor by tensor, when a backend quantizes it.

    import quantgraph as qg
    m = qg.load("model.onnx")
    s = m.quantize("trt-int8", data=feeds)     # a list of arrays, or "calib.npy"
    s.run(x)                                   # {"output": array}
    s.analyse(data=feeds, by="layer")          # every verb of the command `qg`
    s["Conv_0.out0"].why()

See docs/python.md.
"""

from . import _model
from ._extend import At as At
from ._extend import Extension as Extension
from ._extend import PassGraph as PassGraph
from ._extend import forget as forget
from ._extend import hook as hook
from ._extend import observer as observer
from ._extend import operator as operator
from ._extend import pass_ as pass_
from ._extend import quantizer as quantizer
from ._grid import fake_quantize as fake_quantize
from ._grid import lsq as lsq
from ._grid import nncf as nncf
from ._model import Model as Model
from ._model import Snapshot as Snapshot
from ._model import load as load
from ._model import load_text as load_text
from ._native import CONFIGS as CONFIGS
from ._native import CanceledError as CanceledError
from ._native import ConfigError as ConfigError
from ._native import DataError as DataError
from ._native import Error as Error
from ._native import FileError as FileError
from ._native import MemoryLimitError as MemoryLimitError
from ._native import ModelError as ModelError
from ._native import NoMemoryError as NoMemoryError
from ._native import NumericError as NumericError
from ._native import ParseError as ParseError
from ._native import StateError as StateError
from ._native import UnsupportedError as UnsupportedError
from ._native import Warning as Warning
from ._native import lib as _lib
from ._native import text as _text
from ._records import Change as Change
from ._records import Endpoint as Endpoint
from ._records import Graph as Graph
from ._records import Group as Group
from ._records import Node as Node
from ._records import Records as Records
from ._records import Scheme as Scheme
from ._records import Value as Value
from ._report import Report as Report
from ._report import Table as Table
from ._verbs import *  # noqa: F403
from ._verbs import Verbs as _Generated

for _name, _function in vars(_Generated).items():
    if not _name.startswith("_"):
        setattr(_model.Model.__mro__[1], _name, _function)

__version__ = _text(_lib.qg_version())

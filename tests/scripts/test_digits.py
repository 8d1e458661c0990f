"""The demo model matches its documentation: structure, data and float accuracy, as
computed by ONNX Runtime."""
import collections
import sys

try:
    import numpy as np
    import onnx
    import onnxruntime
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

model = onnx.load("configs/models/digits.onnx")
onnx.checker.check_model(model, full_check=True)
ops = collections.Counter(node.op_type for node in model.graph.node)
for op in ("Conv", "BatchNormalization", "Relu", "Add", "Concat", "MaxPool",
           "AveragePool", "Gemm"):
    assert ops[op] > 0, f"no {op}"
assert [i.name for i in model.graph.input] == ["image"]
assert [o.name for o in model.graph.output] == ["logits"]

calib, test, labels = (np.load(f"configs/data/digits_{name}.npy")
                       for name in ("calib", "test", "labels"))
assert calib.shape == (64, 1, 8, 8) and calib.dtype == np.float32
assert test.shape == (599, 1, 8, 8) and labels.shape == (599,)
for data in (calib, test):
    assert data.min() == 0 and data.max() == 1
overlap = {s.tobytes() for s in calib} & {s.tobytes() for s in test}
assert not overlap, f"{len(overlap)} calibration samples are in the test set"

session = onnxruntime.InferenceSession("configs/models/digits.onnx")
logits = session.run(None, {"image": test})[0]
right = int((logits.argmax(1) == labels).sum())
print(f"float accuracy {right} of 599, {right / 599:.2%}")
assert right / 599 >= 0.98

#!/usr/bin/env python3
"""What people pass by mistake, or in the form that their tools have: each is taken as meant,
or refused with the package's own exception and a text that names it."""
import copy
import io
import pathlib
import pickle
import sys
import types

from package import DIGITS, main, np, qg, samples, unittest

CALIB = "configs/data/digits_calib.npy"
CLASS = {"name": "mine", "title": "narrow weights", "extends": "trt-int8",
         "rules": [{"id": "narrow", "match": {"op": "Gemm", "slot": "weight"},
                    "set": {"bits": 4, "range": [-7, 7]}, "why": "it is narrow",
                    "source": "this test"}]}


def pair():
    """A model of two inputs."""
    return qg.load_text("graph {\n a = input f32[1,4]\n b = input f32[1,4]\n"
                        " c = Add(a, b)\n output c\n}\n")


class Load(unittest.TestCase):
    def test_sources(self):
        content = pathlib.Path(DIGITS).read_bytes()
        with open(DIGITS, "rb") as f:
            self.assertEqual(len(qg.load(f).nodes), 26)
        for source in (io.BytesIO(content), bytearray(content), pathlib.Path(DIGITS),
                       DIGITS.encode() and content):
            self.assertEqual(len(qg.load(source).nodes), 26)

    def test_refused(self):
        with open(DIGITS, encoding="latin-1") as f, self.assertRaisesRegex(
                qg.ConfigError, "expected a path, bytes, a file opened with 'rb'"):
            qg.load(f)
        with self.assertRaisesRegex(qg.ConfigError, "NUL character"):
            qg.load(DIGITS + "\0.onnx")
        with self.assertRaises(qg.FileError):
            qg.load("no\udcffname.onnx")  # a name that is not UTF-8

        class Large:
            def SerializeToString(self):
                raise ValueError("exceeds maximum protobuf size of 2GB")
        with self.assertRaisesRegex(qg.ConfigError, "2GB, expected a path.*external_data"):
            qg.load(Large())

    def test_shapes(self):
        for shape in ({"image": (1, 1, 8, 8)}, "image=1x1x8x8", ["image=1x1x8x8"]):
            self.assertEqual(qg.load(DIGITS, shape=shape).inputs[0].dims, (1, 1, 8, 8))
        for shape in (5, [1, 1, 8, 8]):
            with self.assertRaisesRegex(qg.ConfigError, "expected a dict"):
                qg.load(DIGITS, shape=shape)
        with self.assertRaisesRegex(qg.ConfigError, "NAME=DIMxDIM"):
            qg.load(DIGITS, shape="image=wide")

    def test_exporter_with_weights_beside(self):
        """Newer exporters of torch take a path only, and write weights into a second file."""
        try:
            import onnx
        except ImportError:
            self.skipTest("onnx is missing")

        beside = False

        def export(module, example, path):
            assert isinstance(path, str) and example == "example"
            onnx.save(onnx.load(DIGITS), path, save_as_external_data=beside,
                      location="weights.data", size_threshold=0)

        def export_newer(module, example, path, external_data=True):
            assert not external_data  # one file, which bytes can hold
            export(module, example, path)

        torch = types.ModuleType("torch")
        real = sys.modules.get("torch")
        sys.modules["torch"] = torch
        try:
            for beside, used in ((False, export), (True, export), (False, export_newer)):
                torch.onnx = types.SimpleNamespace(export=used)
                m = qg.load(types.SimpleNamespace(state_dict=dict), "example")
                s = m.quantize("trt-int8", data=samples())
                self.assertEqual(s.run(samples(2))["logits"].shape, (2, 10))
        finally:
            del sys.modules["torch"]
            if real:
                sys.modules["torch"] = real


class Run(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = qg.load(DIGITS)
        cls.snapshot = cls.model.quantize("trt-int8", data=CALIB)

    def test_same_numbers(self):
        x = samples(4)
        plain = self.snapshot.run(x)["logits"]
        ways = [x.astype(np.float64), np.asfortranarray(x), x.astype(">f4"), x.tolist(), [x],
                (x,), {"image": x}, np.broadcast_to(x, x.shape), x[..., ::-1][..., ::-1]]
        for way in ways:
            np.testing.assert_array_equal(self.snapshot.run(way)["logits"], plain)

    def test_refused(self):
        x = samples(4)
        wrong = {
            r"int64\[1,1,8,8\], expected float32": (x * 9).astype(np.int64),
            r"uint8\[1,1,8,8\], expected .*astype\('float32'\)": x.astype(np.uint8),
            "'image': array of complex64, expected float32": x.astype(np.complex64),
            "'image': NoneType, expected float32": None,
            "'image': array of <U1, expected float32": np.array(["a"]),
            "'image': setting an array element": [[1, 2], [3]],
            "9 dims": np.zeros((1,) * 9, np.float32),
            "no input 'img', expected": {"img": x},
            "'image' is missing": {},
            "'samples.npy' as one feed, expected arrays": "samples.npy",
            "a tuple of 2 as one feed.*give the data": (x, np.zeros(4)),
        }
        for text, given in wrong.items():
            with self.assertRaisesRegex(qg.DataError, text):
                self.snapshot.run(given)

    def test_options(self):
        x = samples(1)
        kept = self.snapshot.run(x, keep="relu0_out")
        self.assertEqual(list(kept), ["logits", "relu0_out"])
        self.assertEqual(list(self.snapshot.run(x, keep=None, hooks=None)), ["logits"])
        seen = []
        one = qg.hook("relu0.out0", writes=False)(lambda x: seen.append(x.shape))
        self.snapshot.run(x, hooks=one)
        self.assertEqual(len(seen), 1)
        for text, how in {"hooks: .*expected what @qg.hook": {"hooks": [len]},
                          "kernels 'slow', expected fast or reference": {"kernels": "slow"},
                          "jobs -1": {"jobs": -1}, "jobs '2'": {"jobs": "2"}}.items():
            with self.assertRaisesRegex(qg.ConfigError, text):
                self.snapshot.run(x, **how)

    def test_several_inputs(self):
        m, x = pair(), np.ones((1, 4), np.float32)
        for feed in ({"a": x, "b": 2 * x}, [x, 2 * x], (x, 2 * x)):
            np.testing.assert_array_equal(m.run(feed)["c"], 3 * x)
        with self.assertRaisesRegex(qg.DataError, r"input 'b' is missing, expected \['a', 'b'\]"):
            m.run({"a": x})
        with self.assertRaisesRegex(qg.DataError, "an array for 2 inputs, expected a dict"):
            m.run(x)


class Data(unittest.TestCase):
    def test_batches_of_a_loader(self):
        """A loader of one tensor gives lists of one."""
        m, x = qg.load(DIGITS), samples(8)
        of_array = m.quantize("trt-int8", data=x)["conv0.in0"].scale
        for data in ([[x[:4]], [x[4:]]], ([x[i:i + 2]] for i in range(0, 8, 2))):
            self.assertEqual(m.quantize("trt-int8", data=data)["conv0.in0"].scale, of_array)

    def test_refused(self):
        m, x = qg.load(DIGITS), samples(8)
        used = iter([x])
        m.quantize("trt-int8", data=used)
        for text, data in {
                "^data: sample 0: a tuple of 2 as one feed": zip(x, range(8)),
                "expected at least one": used,
                "^data: 'a.npy' as one feed": ["a.npy"],
                "no samples, expected at least one": [],
                "ZeroDivisionError": (1 / 0 for _ in range(2)),
                r"'image' is float32\[1,8,8\], expected float32\[1,1,8,8\], or with samples "
                r"along a first axis: of one item x\[0\]\[None\]": list(x)}.items():
            with self.assertRaisesRegex(qg.DataError, text):
                m.quantize("trt-int8", data=data)
        with self.assertRaisesRegex(qg.DataError, r"^data: the array .* x\[0\]\[None\]"):
            m.quantize("trt-int8", data=x[0])
        with self.assertRaisesRegex(qg.DataError, r"^data: holdout: the array for input"):
            m.quantize("trt-int8", data=x).tune(data=x, holdout=x[..., :3])

    def test_policies(self):
        """As a dict, as YAML, and as words: fusions are removed, bits change."""
        m = qg.load(DIGITS)
        policy = {"-fusions": ["compute-activation", "any-relu"],
                  "rules": [{"id": "wide", "match": {"op": "Gemm"}, "set": {"bits": 16}}]}
        written = ("-fusions: [compute-activation, any-relu]\n"
                   "rules:\n  - {id: wide, match: {op: Gemm}, set: {bits: 16}}\n")
        for given in (policy, written):
            s = m.quantize("trt-int8", data=CALIB, policy=given)
            self.assertEqual((s["conv0.out0"].state, s["gemm1.in0"].bits), ("ACTIVATED", 16))
        s = m.quantize("trt-int8", data=CALIB, set=["op=conv0 slot=in1 bits=4", "op=gemm1 bits=16"])
        self.assertEqual((s["conv0.in1"].bits, s["gemm1.in1"].bits), (4, 16))
        odd = {"rules": [{"id": "wide", "match": {"op": np.array(["Gemm"])},
                          "set": {"bits": np.int64(16)}}]}
        self.assertEqual(m.quantize("trt-int8", data=CALIB, policy=odd)["gemm1.in0"].bits, 16)
        with self.assertRaisesRegex(qg.ConfigError, "expected what YAML has"):
            m.quantize("trt-int8", data=CALIB, policy={"rules": [object()]})
        for text, wrong in {"'rulez', did you mean 'rules'": {"rulez": []},
                            "unknown id 'nope'": {"-fusions": ["nope"]},
                            "unknown key 'when', expected one of id, ": {
                                "rules": [{"id": "a", "when": 1}]},
                            "^policy: passes: gptq: the text 'yes', expected a number, yes "
                            r"or no \(true or false\)$": {"passes": {"gptq": "yes"}},
                            "^policy:2: passes: gptq: 'on'": "passes:\n  gptq: on\n",
                            "^policy 'p': passes: gptq: the": {
                                "name": "p", "passes": {"gptq": "no"}}}.items():
            with self.assertRaisesRegex(qg.ConfigError, text):
                m.quantize("trt-int8", data=CALIB, policy=wrong)

    def test_a_path_and_arrays(self):
        """A function is given the name of a file, and samples in memory."""
        x, m = samples(4), qg.load(DIGITS)
        s = m.quantize("trt-int8", data=x)
        folder = pathlib.Path(self.enterContext(temporary()))
        s.save(folder / "snap")
        for name in (folder / "snap", str(folder / "snap")):
            self.assertEqual(qg.analyse(name, data=x).json, s.analyse(data=x).json)
        made = qg.quantize(DIGITS, backend="trt-int8", data=x)
        self.assertEqual(made["conv0.in0"].scale, s["conv0.in0"].scale)
        with self.assertRaises(qg.FileError):
            qg.analyse("no such file", data=x)

    def test_floats_of_other_sizes(self):
        """A network of float16 is float32 for verbs that quantize: its samples too."""
        try:
            import onnx
        except ImportError:
            self.skipTest("onnx is missing")
        model = onnx.load(DIGITS)
        for t in model.graph.initializer:
            if t.data_type == onnx.TensorProto.FLOAT:
                t.CopyFrom(onnx.numpy_helper.from_array(
                    onnx.numpy_helper.to_array(t).astype("f2"), t.name))
        for v in *model.graph.input, *model.graph.output:
            v.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
        del model.graph.value_info[:]
        folder = pathlib.Path(self.enterContext(temporary()))
        onnx.save(model, folder / "half.onnx")
        x = samples(4).astype("f2").astype("f4")
        for path in DIGITS, folder / "half.onnx":
            m = qg.load(path)
            made = [m.quantize("trt-int8", data=x.astype(t)) for t in ("f4", "f2", "f8")]
            self.assertEqual(len({s["conv0.in0"].scale.tobytes() for s in made}), 1)
            for t in "f2", "f4", "f8":
                given = x.astype(t)
                for net in m, made[0]:
                    self.assertEqual(net.run(given)["logits"].tobytes(),
                                     net.run(x)["logits"].tobytes())
                self.assertEqual(made[0].analyse(data=given).json,
                                 made[0].analyse(data=x).json)
                self.assertEqual(made[0].analyse(data={"image": given}).json,
                                 made[0].analyse(data=list(given[:, None])).json)

    def test_labels(self):
        s = qg.load(DIGITS).quantize("trt-int8", data=CALIB)
        told = s.evaluate(data="configs/data/digits_test.npy",
                          labels="configs/data/digits_labels.npy").json
        labels = np.load("configs/data/digits_labels.npy")
        for given in (labels, labels.tolist()):
            self.assertEqual(s.evaluate(data="configs/data/digits_test.npy", labels=given).json,
                             told)
        with self.assertRaisesRegex(qg.DataError, r"^labels: the array: is int64\[5\], "
                                    "expected one integer"):
            s.evaluate(data="configs/data/digits_test.npy", labels=labels[:5].astype(np.int64))

    def test_encodings_of_a_model_in_memory(self):
        """An export of encodings comes back, with the model that is open."""
        m = qg.load(pathlib.Path(DIGITS).read_bytes())
        s = m.quantize("trt-int8", data=CALIB)
        folder = pathlib.Path(self.enterContext(temporary()))
        s.export(format="aimet", output=folder / "e.json")
        for model in (m, DIGITS):
            back = qg.import_(folder / "e.json", format="aimet", model=model)
            self.assertEqual(back["conv0.in0"].scale, s["conv0.in0"].scale)


def temporary():
    import tempfile
    return tempfile.TemporaryDirectory()


class Records(unittest.TestCase):
    def setUp(self):
        self.s = qg.load(DIGITS).quantize("trt-int8", data=CALIB)

    def test_names(self):
        s = self.s
        self.assertEqual(s["conv0"], s["conv0"])
        self.assertEqual(len({s["conv0"], s["conv0"], s.nodes[0], s["conv1"]}), 2)
        self.assertNotEqual(s["conv0"], s["conv1"])
        self.assertNotEqual(s["conv0"], qg.load(DIGITS)["conv0"])
        self.assertNotIn(3, s)
        with self.assertRaisesRegex(TypeError, "expected the name"):
            s[0]
        with self.assertRaises(TypeError):
            list(s)
        keys = s._ipython_key_completions_()
        for name in ("conv0.in0", "conv0", "group:relu1.out0", "relu0_out"):
            self.assertIn(name, keys)
        self.assertIn("conv0", s.nodes._ipython_key_completions_())

    def test_setters(self):
        s = self.s
        for text, call in {
                "set bits: 0": lambda: s.set_bits("conv0.in0", 0),
                "set bits: 99": lambda: s.set_bits("conv0.in0", 99),
                "set bits: 4.5": lambda: s.set_bits("conv0.in0", 4.5),
                "no state '3'": lambda: s.set_state("conv0.in0", 3),
                "scale 'a'": lambda: s.set_param("conv0.in0", "a"),
                "offset 0.5, expected integers": lambda: s.set_param("conv0.in0", 0.1, 0.5)}.items():
            with self.assertRaisesRegex(qg.ConfigError, text):
                call()

    def test_pickle(self):
        x = samples(3)
        mine = qg.load(DIGITS).quantize(CLASS, data=CALIB)
        self.assertEqual(mine["gemm1.in1"].bits, 4)
        for made in (self.s, mine):
            for back in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
                np.testing.assert_array_equal(back.run(x)["logits"], made.run(x)["logits"])
                self.assertEqual(back.report.json, made.report.json)
                self.assertEqual(back.analyse(data=x).json, made.analyse(data=x).json)
                back.set_state("conv0.in0", "DEQUANTIZED")
                self.assertEqual(made["conv0.in0"].state, "ACTIVATED")
        for m in (qg.load(DIGITS), qg.load(pathlib.Path(DIGITS).read_bytes()), pair()):
            back = pickle.loads(pickle.dumps(m))
            self.assertEqual([n.name for n in back.nodes], [n.name for n in m.nodes])


class Extensions(unittest.TestCase):
    def test_refused_where_it_is_defined(self):
        class Empty:
            def see(self, state, x):
                """Nothing."""

        with self.assertRaisesRegex(qg.ConfigError, "'o': has no method finish"):
            qg.observer("o", state="f8")(Empty)

        class Whole(Empty):
            def merge(self, into, other):
                """Nothing."""

            def finish(self, state, scheme):
                return 0, 1

        with self.assertRaisesRegex(qg.ConfigError, "state 'O', expected plain numbers"):
            qg.observer("o", state="O")(Whole)
        with self.assertRaisesRegex(qg.ConfigError, "'minmax': the name is in use"):
            qg.observer("minmax", state="f8")(Whole)
        self.assertEqual(len(qg.load(DIGITS).nodes), 26)  # later models do not suffer
        with self.assertRaisesRegex(qg.ConfigError, "expected endpoints: @qg.hook"):
            qg.hook(len)
        with self.assertRaisesRegex(qg.ConfigError, "expected what qg.pass_"):
            qg.load(DIGITS).quantize("trt-int8", data=CALIB, extend=[len])

    def test_one_alone(self):
        seen = []

        @qg.pass_(after="rules")
        def look(graph):
            """Count."""
            seen.append(len(graph.nodes))

        qg.load(DIGITS).quantize("trt-int8", data=CALIB, extend=look)
        self.assertEqual(len(seen), 1)


class Grids(unittest.TestCase):
    def test_refused(self):
        x = samples(8)[:, 0, 0]
        for text, call in {
                "axis 7, expected one of 2": lambda: qg.fake_quantize(x, 0.1, axis=7),
                "bits 0": lambda: qg.fake_quantize(x, 0.1, bits=0),
                "bits -1": lambda: qg.lsq(x, 0.1, bits=-1),
                "bits 2.5": lambda: qg.lsq(x, 0.1, bits=2.5),
                "8 parameters, expected 1, or axis": lambda: qg.lsq(x, np.ones(8))}.items():
            with self.assertRaisesRegex(ValueError, text):
                call()
        self.assertIn("fake_quantize", repr(qg.fake_quantize))


main()

#!/usr/bin/env python3
"""Hooks, passes, observers, operators and quantization functions in Python."""
import unittest

from package import DIGITS, main, np, qg, samples


class Extend(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.x = samples()
        cls.m = qg.load(DIGITS)
        cls.s = cls.m.quantize("trt-int8", data=cls.x)

    # --- hooks ---

    def test_a_hook_sees_what_keep_returns(self):
        seen = {}

        @qg.hook("conv*.out0", writes=False, rounded=None)  # the last call counts
        def see(x, at):
            self.assertFalse(x.flags.writeable)
            seen[at.value.name] = x.copy()
            self.assertEqual(at.endpoint.name, at.name)

        plain = self.s.run(self.x[0:1])
        watched = self.s.run(self.x[0:1], hooks=[see])
        self.assertEqual(plain["logits"].tobytes(), watched["logits"].tobytes())
        self.assertEqual(len(seen), 6)
        kept = self.s.run(self.x[0:1], keep=list(seen))
        for name, a in seen.items():
            self.assertEqual(a.tobytes(), kept[name].tobytes(), name)

    def test_a_hook_replaces_a_tensor(self):
        @qg.hook("relu0.out0")
        def zero(x):
            return np.zeros_like(x)

        @qg.hook("relu0.out0")
        def zero_in_place(x):
            x[...] = 0

        a = self.m.run(self.x[:1], hooks=[zero])["logits"]
        b = self.m.run(self.x[:1], hooks=[zero_in_place])["logits"]
        self.assertEqual(a.tobytes(), b.tobytes())
        self.assertNotEqual(a.tobytes(), self.m.run(self.x[:1])["logits"].tobytes())

    def test_rounded_and_not(self):
        seen = []

        @qg.hook("conv2.out0", writes=False, rounded=None)
        def see(x, at):
            seen.append((at.rounded, x.copy()))

        self.s.run(self.x[:1], hooks=[see])
        self.assertEqual([r for r, _ in seen], [False, True])
        e = self.s["conv2.out0"]
        codes = seen[1][1] / e.scale[0]
        self.assertLess(np.abs(codes - np.rint(codes)).max(), 1e-3)

    def test_a_failing_hook(self):
        @qg.hook("relu0.out0", writes=False)
        def fails(x):
            raise RuntimeError("no")

        @qg.hook("relu0.out0")
        def wrong(x):
            return x[0]

        with self.assertRaisesRegex(qg.DataError, "RuntimeError: no") as failed:
            self.s.run(self.x[:1], hooks=[fails])
        self.assertIsInstance(failed.exception.__cause__, RuntimeError)
        with self.assertRaisesRegex(qg.Error, "expected"):
            self.s.run(self.x[:1], hooks=[wrong])
        self.s.run(self.x[:1])

    # --- passes ---

    def test_a_pass(self):
        @qg.pass_(after="rules")
        def wide_first(graph):
            """The first convolution has 16 bits."""
            for n in graph.nodes:
                if n.has_trait("compute"):
                    for e in (*n.input_endpoints[:2], *n.output_endpoints):
                        graph.set_bits(e, 16)
                    graph.count()
                    graph.match("first")
                    return

        s = self.m.quantize("trt-int8", data=self.x, extend=[wide_first])
        self.assertEqual((s["conv0.in0"].bits, s["conv1.in0"].bits), (16, 8))
        self.assertIn("wide-first/first", s.report["coverage"].column("pattern"))
        self.assertEqual(s["conv0.in0"].history[-4].by.split("/")[0], "wide-first")
        self.assertEqual(self.m.quantize("trt-int8", data=self.x)["conv0.in0"].bits, 8)

    def test_a_pass_that_edits(self):
        @qg.pass_(before="dispatch", edits=True)
        def double_output(graph):
            """Appends x + x."""
            name = graph.outputs[0].producer.inputs[0].name
            before = graph[name]
            twos = graph.add_constant("two", np.float32(2).reshape(1))
            graph.add_node("Mul", [name, twos.name], ["doubled"], "double")
            graph.replace_value(before, graph["doubled"])
            graph.count()

        s = self.m.quantize("trt-int8", data=self.x, extend=[double_output])
        a, b = s.run(self.x, mode="float"), self.m.run(self.x)
        self.assertIn("double", [n.name for n in s.nodes])
        self.assertGreater(np.abs(a["logits"] - b["logits"]).max(), 0.1)

    def test_a_failing_pass(self):
        @qg.pass_(after="rules")
        def fails(graph):
            raise ValueError("bad luck")

        with self.assertRaisesRegex(qg.Error, "bad luck"):
            self.m.quantize("trt-int8", data=self.x, extend=[fails])

    # --- observers and quantization functions ---

    def test_an_observer(self):
        @qg.observer("py-minmax", state=[("low", "f8"), ("high", "f8")])
        class MinMax:
            """The range of all elements."""

            def see(self, state, x):
                state["low"] = min(state["low"][0], x.min())
                state["high"] = max(state["high"][0], x.max())

            def merge(self, into, other):
                into["low"] = min(into["low"][0], other["low"][0])
                into["high"] = max(into["high"][0], other["high"][0])

            def finish(self, state, scheme):
                assert scheme.bits == 8
                return state["low"][0], state["high"][0]

        self.addCleanup(qg.forget, "py-minmax")
        ours = self.m.quantize("trt-int8", data=self.x, observer="py-minmax")
        theirs = self.m.quantize("trt-int8", data=self.x, observer="minmax")
        named = self.m.quantize("trt-int8", data=self.x, observer=MinMax)
        for a, b, c in zip(ours.endpoints, theirs.endpoints, named.endpoints):
            self.assertEqual(a.scale.tobytes(), b.scale.tobytes(), a.name)
            self.assertEqual(a.scale.tobytes(), c.scale.tobytes(), a.name)
        self.assertEqual(ours["conv1.out0"].observer, "py-minmax")

    def test_a_failing_merge_is_no_success(self):
        @qg.observer("py-fails", state="f8")
        class Fails:
            def see(self, state, x):
                pass

            def merge(self, into, other):
                raise RuntimeError("merge")

            def finish(self, state, scheme):
                return -1, 1

        self.addCleanup(qg.forget, "py-fails")
        with self.assertRaisesRegex(qg.Error, "RuntimeError: merge"):
            self.m.quantize("trt-int8", data=self.x, observer="py-fails")

    def test_a_quantizer(self):
        @qg.quantizer("py-round")
        def half_even(x, scale, offset, scheme):
            q = np.clip(np.rint(x / scale[0]) + offset[0], scheme.qmin, scheme.qmax)
            return (q - offset[0]) * scale[0]

        @qg.quantizer("py-floor")
        def floor(x, scale, offset, scheme):
            return np.floor(x / scale[0]) * scale[0]

        self.addCleanup(qg.forget, "py-round")
        self.addCleanup(qg.forget, "py-floor")
        s = self.m.quantize("trt-int8", data=self.x)
        s.set_quantizer("conv0.in0", "py-round")
        self.assertEqual(s["conv0.in0"].quantizer, "py-round")
        self.assertEqual(s.run(self.x)["logits"].tobytes(),
                         self.s.run(self.x)["logits"].tobytes())
        s.set_quantizer("conv0.in0", floor.name)
        self.assertNotEqual(s.run(self.x)["logits"].tobytes(),
                            self.s.run(self.x)["logits"].tobytes())

    # --- operators ---

    def test_an_operator(self):
        try:
            import onnx
        except ImportError:
            self.skipTest("onnx is not installed")
        helper = onnx.helper

        @qg.operator("PyLeaky", domain="com.test", attributes={"slope": 0.5, "k": 1, "pads": [0]},
                     traits="activation pure", infer=lambda dims, **_: dims)
        def leaky(x, slope, k, pads):
            self.assertEqual((k, pads), (3, [1, 2]))
            return np.where(x > 0, x, np.float32(slope) * x)

        self.addCleanup(qg.forget, "PyLeaky")
        node = helper.make_node("PyLeaky", ["x"], ["y"], domain="com.test", slope=0.25, k=3,
                                pads=[1, 2])
        info = [helper.make_tensor_value_info(n, 1, [1, 4]) for n in "xy"]
        model = helper.make_model(
            helper.make_graph([node], "g", info[:1], info[1:]),
            opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.test", 1)])
        x = np.float32([[-4, -1, 0, 2]])
        self.assertEqual(qg.load(model).run(x)["y"].tolist(), [[-1, -0.25, 0, 2]])
        qg.forget("PyLeaky")
        with self.assertRaises(qg.UnsupportedError):
            qg.load(model)
        self.assertEqual(qg.load(model, extend=[leaky]).run(x)["y"].shape, (1, 4))


if __name__ == "__main__":
    main()

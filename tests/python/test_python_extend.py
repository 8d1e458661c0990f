#!/usr/bin/env python3
"""Hooks, passes, observers, operators and quantization functions in Python."""
import faulthandler
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

    def test_tune_rounds_by_functions(self):
        @qg.quantizer("py-floor")
        def floor(x, scale, offset, scheme):
            return np.clip(np.floor(x / scale[0]), scheme.qmin, scheme.qmax) * scale[0]

        self.addCleanup(qg.forget, "py-floor")
        s = self.m.quantize("trt-int8", data=self.x)
        s.set_quantizer("conv2.in1", "py-floor")
        judges = self.x[3::4]
        for method in ("lsq", "adaround"):
            report = s.tune(data=self.x, method=method, steps=20).report
            noise = s.analyse(data=judges)["errors"][0]["error"]
            self.assertAlmostEqual(report["before"] / noise, 1, 4)

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
        with self.assertRaisesRegex(qg.UnsupportedError, "PyLeaky"):
            qg.load(model).run(x)
        self.assertEqual(qg.load(model, extend=[leaky]).run(x)["y"].shape, (1, 4))


class Inside(unittest.TestCase):
    """Callbacks that call models: none waits for ever."""

    def setUp(self):
        faulthandler.dump_traceback_later(120, exit=True)
        self.x = samples(4)
        self.m = qg.load(DIGITS)
        self.s = self.m.quantize("trt-int8", data=self.x)

    def tearDown(self):
        faulthandler.cancel_dump_traceback_later()

    def refused(self, what):
        return self.assertRaisesRegex(qg.Error, f"{what}.*a model that is at work")

    def test_a_pass_and_an_observer_call_the_model_that_is_quantized(self):
        want, seen = self.m.run(self.x)["logits"], []

        @qg.pass_(after="fuse", name="py-nested")
        def nested(_g):
            seen.append(self.m.run(self.x)["logits"])
            seen.append(self.m.quantize("trt-int8", data=self.x).run(self.x)["logits"])

        @qg.observer("py-nested-observer", state="f8")
        class Nested:
            @staticmethod
            def begin(state):
                pass

            @staticmethod
            def see(_state, _x):
                seen.append(self.m.run(self.x)["logits"])

            @staticmethod
            def finish(_state, _scheme):
                return 0, 1

            @staticmethod
            def merge(_into, _other):
                pass

        self.m.quantize("trt-int8", data=self.x, extend=[nested])
        self.assertEqual(seen[0].tobytes(), want.tobytes())
        self.assertEqual(seen[1].tobytes(), self.s.run(self.x)["logits"].tobytes())
        self.m.quantize("trt-int8", data=self.x, observer="py-nested-observer",
                        extend=[Nested])
        self.assertGreater(len(seen), 8)
        self.assertTrue(all(y.tobytes() == want.tobytes() for y in seen[2:]))
        for name in ("py-nested", "py-nested-observer"):
            qg.forget(name)

    def test_samples_that_the_model_at_work_makes(self):
        for call in (lambda: self.s.run(self.x), self.s.to_bytes,
                     lambda: self.s.explain("conv0.out0"),
                     lambda: self.s.set_state("conv0.out0", "FP32")):
            def made():
                for x in self.x:
                    call()
                    yield x[None]

            with self.refused("data: sample 0"):
                self.s.analyse(data=made())
        self.assertTrue(self.s.analyse(data=(x[None] for x in self.x)))

    def test_callbacks_of_the_model_at_work(self):
        @qg.quantizer("py-nested-quantizer")
        def nested(x, *_grid):
            self.inner.run(self.x)
            return x

        self.inner = qg.load(self.s.to_bytes(), extend=[nested])
        self.inner.set_quantizer("conv0.in0", "py-nested-quantizer")
        with self.refused("py-nested-quantizer"):
            self.inner.analyse(data=self.x)
        qg.forget("py-nested-quantizer")

    def test_another_model_in_a_pass(self):
        other, seen = qg.load(DIGITS), []

        @qg.pass_(after="fuse", name="py-other")
        def another(_g):
            seen.append(other.run(self.x[:1])["logits"].tobytes())

        self.m.quantize("trt-int8", data=self.x, extend=[another])
        qg.forget("py-other")
        self.assertEqual(seen, [other.run(self.x[:1])["logits"].tobytes()])

    def test_a_hook_runs_the_float_model(self):
        want, seen = self.m.run(self.x[:1])["logits"], []

        @qg.hook("conv0.out0", writes=False, rounded=None)
        def beside(_x):
            for mode in ("float", "simulate"):
                seen.append(self.s.run(self.x[:1], mode=mode)["logits"])
            seen.append(self.m.run(self.x[:1])["logits"])

        plain = self.s.run(self.x[:1])["logits"]
        watched = self.s.run(self.x[:1], hooks=[beside])["logits"]
        self.assertEqual(plain.tobytes(), watched.tobytes())
        self.assertEqual(seen[1].tobytes(), plain.tobytes())
        self.assertEqual(seen[2].tobytes(), want.tobytes())

    def test_a_hook_calls_its_own_run_a_verb_or_a_setter(self):
        for call in (lambda h: self.s.run(self.x[:1], hooks=[h]),
                     lambda _: self.s.analyse(data=self.x),
                     lambda _: self.s.set_state("conv0.out0", "FP32")):
            @qg.hook("conv0.out0", writes=False, rounded=None)
            def nested(_x):
                call(nested)

            with self.assertRaisesRegex(qg.Error, "at work|the run that it is in"):
                self.s.run(self.x[:1], hooks=[nested])
        self.assertEqual(self.s.run(self.x[:1])["logits"].shape, (1, 10))


if __name__ == "__main__":
    main()

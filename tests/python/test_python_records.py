#!/usr/bin/env python3
"""Records of the Python package: fields, journals, groups, changes, tables, HTML."""
import unittest

from package import DIGITS, main, np, qg, samples


class Records(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.m = qg.load(DIGITS)
        cls.s = cls.m.quantize("trt-int8", data=samples())

    def test_a_record(self):
        e = self.s["conv0.in0"]
        self.assertEqual((e.state, e.bits, e.scheme.qmin, e.scheme.qmax, e.scheme.axis),
                         ("ACTIVATED", 8, -128, 127, -1))
        self.assertEqual((e.scale.dtype, e.scale.shape, e.offset.dtype),
                         (np.float32, (1,), np.int32))
        self.assertEqual((e.node.name, e.node.op, e.value.name), ("conv0", "Conv", "image"))
        self.assertEqual([c.field for c in e.history][:1], ["state"])
        self.assertEqual(e.history[-1].new, "ACTIVATED")
        self.assertIn("conv0.in0", str(e.why()))
        self.assertEqual(self.s["conv0.in1"].scale.shape, (16,))

    def test_names_index_the_snapshot(self):
        for records in (self.s.endpoints, self.s.nodes, self.s.groups):
            self.assertGreater(len(records), 0)
            for r in records:
                again = self.s[r.name]
                self.assertEqual((type(again), again.name), (type(r), r.name))
                self.assertEqual(records[r.name].name, r.name)
        self.assertEqual(self.s.endpoints[-1].name, self.s.endpoints[len(self.s.endpoints) - 1].name)
        self.assertEqual(len(self.s.endpoints[2:5]), 3)
        with self.assertRaises(IndexError):
            self.s.nodes[1000]

    def test_a_wrong_name_has_the_nearest(self):
        with self.assertRaisesRegex(KeyError, "did you mean 'conv0.in0'"):
            self.s["cnv0.in0"]

    def test_groups(self):
        g = self.s["conv0.out0"].dominator
        members = [e.name for e in g.group]
        self.assertIn("conv0.out0", members)
        self.assertEqual(self.s[f"group:{g.name}"].dominator.name, g.name)
        for e in g.group:
            self.assertEqual(e.scale.tobytes(), g.scale.tobytes())

    def test_the_graph(self):
        conv = self.s["conv0"]
        self.assertTrue(conv.has_trait("compute"))
        w = conv.inputs[1]
        self.assertTrue(w.is_constant)
        self.assertEqual(w.constant.shape, (16, 1, 3, 3))
        self.assertFalse(w.constant.flags.writeable)
        self.assertEqual(conv.outputs[0].consumers[0][0].inputs[0].name, conv.outputs[0].name)
        self.assertEqual([v.name for v in self.s.outputs], ["logits"])

    def test_constants_keep_their_model(self):
        w = qg.load(DIGITS)["conv0"].inputs[1].constant
        self.assertEqual(np.asarray(w).sum(), self.m["conv0"].inputs[1].constant.sum())

    def test_changes(self):
        s = self.m.quantize("trt-int8", data=samples())
        x = samples(1, seed=1)
        before = s.run(x)["logits"]
        s.set_param("conv0.in0", [0.1])
        self.assertAlmostEqual(float(s["conv0.in0"].scale[0]), 0.1)
        self.assertEqual(s["conv0.in0"].history[-1].by, "host")
        self.assertNotEqual(before.tobytes(), s.run(x)["logits"].tobytes())
        with self.assertRaises(qg.StateError):
            s.set_state("conv0.in2", "ACTIVATED")
        with self.assertRaises(qg.ConfigError):
            s.set_state("conv0.in0", "HAPPY")
        s.set_bits("conv0.in1", 4)
        self.assertEqual(s["conv0.in1"].bits, 4)

    def test_tables(self):
        try:
            import pandas
        except ImportError:
            self.skipTest("pandas is not installed")
        frame = self.s.endpoints.to_pandas()
        self.assertIsInstance(frame, pandas.DataFrame)
        self.assertEqual(list(frame.name), [e.name for e in self.s.endpoints])
        self.assertEqual(len(self.s.groups.to_pandas()), len(self.s.groups))
        self.assertEqual(len(self.s.nodes.to_pandas()), len(self.s.nodes))
        self.assertEqual(len(self.s.analyse(data=samples(), by="layer")["errors"].to_pandas()), 8)

    def test_html_is_escaped(self):
        table = qg.Table("<script>", [{"a<b": "<img src=x>", "c": 1.25}])
        text = table._repr_html_()
        self.assertNotIn("<script>", text)
        self.assertNotIn("<img", text)
        for shown in (self.s, self.m, self.s.endpoints, self.s["conv0.in0"], self.s["conv0"],
                      self.s.report, self.s.groups[0]):
            self.assertTrue(shown._repr_html_().startswith("<table>"), shown)


if __name__ == "__main__":
    main()

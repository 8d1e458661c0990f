#!/usr/bin/env python3
"""fake_quantize, lsq and nncf: formulas, gradients against central differences, and as
functions of torch where torch is installed."""
import unittest

from package import main, np, qg

try:
    import torch
except ImportError:
    torch = None


def numbers(shape, seed=0):
    return np.random.default_rng(seed).uniform(-1.5, 1.5, shape).astype(np.float32)


class Grid(unittest.TestCase):
    def test_fake_quantize(self):
        x = numbers((4, 6))
        y = qg.fake_quantize(x, 0.01)
        np.testing.assert_array_equal(
            y, np.clip(np.rint(x / np.float32(0.01)), -128, 127) * np.float32(0.01))
        y = qg.fake_quantize(x, [0.1, 0.2, 0.3, 0.4], 3, signed=False, bits=4, axis=0)
        s = np.float32([[0.1], [0.2], [0.3], [0.4]])
        np.testing.assert_allclose(y, (np.clip(np.rint(x / s) + 3, 0, 15) - 3) * s, rtol=1e-6)
        with self.assertRaises(qg.NumericError):
            qg.fake_quantize(x, -1)
        with self.assertRaises(ValueError):
            qg.fake_quantize(x, 1, rounding="up and away")
        g = np.ones_like(x)
        (dx,) = qg.fake_quantize.gradients(x, 0.01, g=g)
        np.testing.assert_array_equal(dx, (np.abs(np.rint(x / 0.01) + 0.5) <= 128).astype("f4"))

    def test_lsq_against_central_differences(self):
        """The definition with the rounding residual kept: straight-through."""
        x, g, step = numbers((3, 40)), numbers((3, 40), 1), np.float32([0.1, 0.2, 0.3])
        dx, ds = qg.lsq.gradients(x, step, g=g, bits=4, axis=0, scaled=False)
        s = step[:, None].astype(float)
        v = np.clip(x / s, -8, 7)
        residual = np.rint(v) - v

        def loss(s):
            return (g * s * (np.clip(x / s, -8, 7) + residual)).sum(1)

        h = 1e-6
        np.testing.assert_allclose(ds, (loss(s + h) - loss(s - h)) / (2 * h), rtol=1e-4)
        np.testing.assert_array_equal(dx, np.where(np.abs(x / s + 0.5) <= 7.5, g, 0))
        np.testing.assert_allclose(
            qg.lsq.gradients(x, step, g=g, bits=4, axis=0)[1], ds / np.sqrt(40 * 7), rtol=1e-6)

    def test_nncf_has_both_gradients(self):
        x, g = numbers(500), numbers(500, 1)
        inside = (np.abs(x) < 1)
        exact = qg.nncf.gradients(x[inside], 1.0, g=g[inside])[1]
        theirs = qg.nncf.gradients(x[inside], 1.0, g=g[inside], gradient="nncf")[1]
        self.assertAlmostEqual(float(exact / theirs), 1 + 128 / 127, 4)
        self.assertEqual(qg.nncf(x, 1.0).dtype, np.float32)

    @unittest.skipUnless(torch, "torch is not installed")
    def test_torch(self):
        x = torch.tensor(numbers((3, 40)), requires_grad=True)
        step = torch.tensor([0.1, 0.2, 0.3], requires_grad=True)
        offset = torch.zeros(3, requires_grad=True)
        g = numbers((3, 40), 1)
        cases = [(qg.lsq, (step,), {"bits": 4, "axis": 0}),
                 (qg.lsq, (step, offset), {"bits": 4, "axis": 0}),
                 (qg.nncf, (step,), {"bits": 4, "axis": 0}),
                 (qg.nncf, (step,), {"bits": 4, "axis": 0, "gradient": "nncf"})]
        for f, parameters, how in cases:
            for p in (x, *parameters):
                p.grad = None
            y = f(x, *parameters, **how)
            y.backward(torch.tensor(g))
            bare = [p.detach().numpy() for p in (x, *parameters)]
            np.testing.assert_array_equal(y.detach().numpy(), f(*bare, **how))
            for p, expected in zip((x, *parameters), f.gradients(*bare, g=g, **how)):
                np.testing.assert_array_equal(p.grad.numpy(), expected)
        x.grad = None
        y = qg.fake_quantize(x, 0.01)
        y.backward(torch.tensor(g))
        np.testing.assert_array_equal(
            x.grad.numpy(), qg.fake_quantize.gradients(x.detach().numpy(), 0.01, g=g)[0])

    @unittest.skipUnless(torch, "torch is not installed")
    def test_torch_module(self):
        module = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU())
        x = torch.rand(1, 1, 8, 8)
        m = qg.load(module.eval(), x)
        np.testing.assert_allclose(next(iter(m.run(x).values())), module(x).detach().numpy(),
                                   atol=1e-5)


if __name__ == "__main__":
    main()

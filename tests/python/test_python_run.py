#!/usr/bin/env python3
"""Running from Python: overhead, copies, threads, Ctrl-C, progress, open handles."""
import gc
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from package import DIGITS, ULTRAFACE, main, needs_shared, not_sanitized, np, qg, samples
from quantgraph._model import Session
from quantgraph._native import lib

MOST = 0.03  # of a forward


def inside(address, a):
    """Whether an address is in an array's memory."""
    return a.ctypes.data <= address < a.ctypes.data + a.nbytes


class Run(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.x = samples()
        cls.m = qg.load(DIGITS)
        cls.s = cls.m.quantize("trt-int8", data=cls.x)

    def test_forms_of_inputs(self):
        one = self.s.run(self.x[:1])["logits"]
        self.assertEqual(one.shape, (1, 10))
        self.assertEqual(self.s.run(self.x)["logits"].shape, (16, 10))
        self.assertEqual(self.s.run(self.x[:, None])["logits"].shape, (16, 1, 10))
        self.assertEqual(self.s.run({"image": self.x[:1]})["logits"].tobytes(), one.tobytes())
        self.assertEqual(self.s.run(self.x)["logits"][:1].tobytes(), one.tobytes())
        read_only = self.x.copy()
        read_only.flags.writeable = False
        self.assertEqual(self.s.run(read_only)["logits"][:1].tobytes(), one.tobytes())
        kept = self.s.run(self.x[:1], keep=["relu0_out"])
        self.assertEqual(kept["relu0_out"].shape, (1, 16, 8, 8))

    @needs_shared
    def test_jobs_do_not_show(self):
        m, x = qg.load(ULTRAFACE), samples(1, (3, 240, 320))
        one = m.run(x, jobs=1)
        for jobs in 0, 2, 5:
            for name, y in m.run(x, jobs=jobs).items():
                self.assertEqual(y.tobytes(), one[name].tobytes())

    def test_outputs_are_the_callers(self):
        first = self.s.run(self.x[:1])["logits"]
        before = first.copy()
        self.s.run(self.x[1:2])
        self.assertEqual(first.tobytes(), before.tobytes())

    def test_wrong_inputs(self):
        with self.assertRaises(qg.DataError):
            self.s.run(np.zeros((1, 1, 9, 9), np.float32))
        with self.assertRaises(qg.DataError):
            self.s.run(np.zeros((1, 1, 8, 8), np.int32))
        with self.assertRaises(qg.ConfigError):
            self.s.run(self.x[:1], mode="fast")
        with self.assertRaises(qg.StateError):
            self.m.run(self.x[:1], mode="simulate")

    def test_inputs_are_not_copied(self):
        """The memory that the first node, and an observer, read is that of the arrays."""
        addresses = []

        @qg.hook("conv0.in0", writes=False)
        def where(x):
            addresses.append(x.ctypes.data)

        # The fast kernels read an image channels-last: the reference ones as it is.
        self.m.run(self.x, hooks=[where], kernels="reference")
        self.assertEqual(addresses, [a.ctypes.data for a in self.x])

        seen = []

        @qg.observer("py-where", state="f8", ordered=True)
        class Where:
            def see(self, state, x):
                seen.append(x.ctypes.data)

            def finish(self, state, scheme):
                return -1, 1

        self.addCleanup(qg.forget, "py-where")
        self.m.quantize("trt-int8", data=self.x, observer="py-where", kernels="reference")
        self.assertEqual({a for a in seen if inside(a, self.x)},
                         {a.ctypes.data for a in self.x})

    @staticmethod
    def times(m, x, n):
        """The least time of `run`, and of the C function with arrays at hand."""
        into = list(m.run(x).values())
        session = Session(m, next(iter(m._sessions)), ())
        session.sample([x], into)

        def bare():
            lib.qg_session_run(session.handle, session._in, 1, session._out, len(into))

        least = [np.inf, np.inf]
        for _ in range(n):
            for k, f in enumerate((lambda: m.run(x), bare)):
                start = time.perf_counter()
                f()
                least[k] = min(least[k], time.perf_counter() - start)
        return least

    @needs_shared
    @not_sanitized
    def test_overhead(self):
        """Python's part of a call, measured where the network takes no time, as a share of a
        forward of Ultraface: directly, the difference drowns in the noise of the forward."""
        run, bare = self.times(qg.load(DIGITS), self.x[:1], 3000)
        _, forward = self.times(qg.load(ULTRAFACE), samples(1, (3, 240, 320)), 100)
        share = (run - bare) / forward
        print(f"overhead of run: {(run - bare) * 1e6:.1f} us, {share:.2%} of a forward of "
              f"Ultraface, {forward * 1e3:.2f} ms")
        self.assertLess(share, MOST)

    def test_models_in_threads(self):
        expected = self.s.run(self.x)["logits"].tobytes()
        results, errors = [], []

        def work(seed):
            try:
                s = qg.load(DIGITS).quantize("trt-int8", data=self.x, jobs=1)
                results.append(s.run(self.x)["logits"].tobytes())
                results.append(self.s.run(self.x)["logits"].tobytes())
                s.analyse(data=self.x)
            except BaseException as e:
                errors.append(e)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(errors, [])
        self.assertEqual(set(results), {expected})

    def test_the_interpreter_runs_while_c_works(self):
        """Another thread advances during a verb: the lock of the interpreter is free."""
        steps, done = 0, threading.Event()

        def work():
            self.m.quantize("trt-int8", data="random:2000", jobs=1)
            done.set()

        thread = threading.Thread(target=work)
        thread.start()
        while not done.is_set():
            time.sleep(0.001)
            steps += 1
        thread.join()
        self.assertGreater(steps, 10)

    def test_ctrl_c_ends_the_work(self):
        program = (
            "import quantgraph as qg, signal\n"
            # Shells start what runs in the background with SIGINT ignored.
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            f"m = qg.load({DIGITS!r})\n"
            "print('begins', flush=True)\n"
            "try:\n"
            "    m.quantize('trt-int8', data='random:2000000', jobs=1)\n"
            "except KeyboardInterrupt:\n"
            "    print('interrupted', len(m.nodes), m.quantize('trt-int8', data='random:4'))\n"
        )
        run = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        self.assertEqual(run.stdout.readline(), "begins\n")
        time.sleep(1)
        start = time.monotonic()
        run.send_signal(signal.SIGINT)
        out, _ = run.communicate(timeout=60)
        print(f"Ctrl-C: {time.monotonic() - start:.2f} s until the end of the process")
        self.assertIn("interrupted 26 <Snapshot", out)
        self.assertEqual(run.returncode, 0)

    def test_progress(self):
        """tqdm gets the samples of each stage, and is closed."""
        from quantgraph._native import Progress
        events = []

        class Bar:
            def __init__(self, total, desc, **_):
                self.total, self.n = total, 0
                events.append((desc, total))

            def update(self, n):
                self.n += n
                events.append(self.n)

            def close(self):
                events.append("close")

        progress = Progress()
        progress._tqdm = Bar
        stage = progress.c.step
        for done, total in ((0, 8), (3, 8), (8, 8)):
            self.assertEqual(stage(progress.c.ud, b"run", done, total), 0)
        progress.canceled = True
        self.assertEqual(stage(progress.c.ud, b"save", 1, 0), 1)
        progress.close()
        self.assertEqual(events, [("run", 8), 3, 8, "close", ("save", None), 1, "close"])

    @not_sanitized
    def test_handles_are_closed(self):
        """Models, sessions and contexts go with their Python objects."""
        def memory():
            gc.collect()
            with open("/proc/self/statm") as f:
                return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")

        other = qg.load(DIGITS).quantize("ncnn-int8", data=self.x)

        def once():
            s = qg.load(DIGITS).quantize("trt-int8", data=self.x)
            s.run(self.x)
            s.endpoints[0].why()
            other.diff(s)
            other.run(self.x, hooks=[qg.hook("conv*", writes=False)(lambda x: None)])

        for _ in range(5):
            once()
        before = memory()
        for _ in range(40):
            once()
        self.assertLess(memory() - before, 8e6)

    def test_records_keep_their_model(self):
        e = qg.load(DIGITS).quantize("trt-int8", data=self.x)["conv0.in0"]
        gc.collect()
        self.assertEqual(e.node.name, "conv0")
        self.assertEqual(e.dominator.name, "conv0.in0")

    def test_a_snapshot_without_its_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            self.s.save(folder)
            self.assertTrue((pathlib.Path(folder) / "quant.json").exists())
            t = qg.load(folder)
        self.assertEqual(t.run(self.x)["logits"].tobytes(), self.s.run(self.x)["logits"].tobytes())


if __name__ == "__main__":
    main()

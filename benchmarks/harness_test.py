"""What the harness makes of runs that a machine spoils. `tools/dev/bench --smoke` runs it."""
import contextlib
import io
import types
import unittest

from harness import Suite, Unavailable, accounted


def result(operations, cpu_us):
    return {"operations": operations, "server_cpu_us": cpu_us}


class Accounted(unittest.TestCase):
    def setUp(self):
        said = contextlib.redirect_stderr(io.StringIO())
        said.__enter__()
        self.addCleanup(said.__exit__, None, None, None)

    def test_a_run_that_cost_nothing_is_made_again(self):
        runs = [result(16, 0.0), result(0, 10.0), result(16, 10.0), result(16, 20.0)]
        self.assertEqual(accounted(lambda: runs.pop(0)), result(16, 10.0))
        self.assertEqual(len(runs), 1)

    def test_a_machine_that_accounts_nothing_is_unavailable(self):
        runs = []
        with self.assertRaises(Unavailable):
            accounted(lambda: runs.append(1) or result(16, 0.0), attempts=3)
        self.assertEqual(len(runs), 3)

    def test_every_client_run_is_accounted(self):
        suite = Suite(types.SimpleNamespace(binaries="/"))
        runs = [result(1, 0), result(1, 1)]
        suite.run_client = lambda *_, **__: runs.pop(0)
        self.assertEqual(suite.client("echo_client", None), result(1, 1))


if __name__ == "__main__":
    unittest.main()

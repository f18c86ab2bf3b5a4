"""Limits across runs: pools, concurrency keys and rates, as people meet them."""
import signal

import harness
from harness import NOT_FOUND, OK, REFUSED, USAGE, gate

TRAIN = """
version: 1
tasks:
  train: {pool: gpu, weight: 2, run: '%s'}
"""


class PoolTest(harness.Case):
    def test_pool_is_declared_shown_and_deleted(self):
        self.assertIn("no pools", self.hw("pool", "list").stderr)
        self.hw("pool", "set", "gpu", 2)
        self.hw("pool", "set", "gpu", 3)
        self.assertEqual(self.json("pool", "list"),
                         [{"pool": "gpu", "limit": 3, "held": 0, "declared_by": "pool set",
                           "holders": []}])
        for limit in ("-1", "1000001", "many"):
            self.hw("pool", "set", "gpu", limit, code=USAGE)
        self.hw("pool", "set", "g pu", 1, code=USAGE)
        self.hw("pool", "show", "gpus", code=NOT_FOUND)
        self.hw("pool", "delete", "gpu")
        self.hw("pool", "delete", "gpu", code=NOT_FOUND)

    def test_unknown_pool_and_heavy_task_are_refused_where_pools_are_known(self):
        file = self.write("train.yaml", TRAIN % "true")
        for command in (["workflow", "validate"], ["workflow", "register"], ["run"]):
            said = self.hw(*command, file, code=USAGE)
            self.assertIn("HW1118", said.stderr, command)
            self.assertIn("declared are: none", said.stderr)
        self.hw("pool", "set", "gpu", 1)
        said = self.hw("workflow", "validate", file, code=USAGE).stderr
        self.assertRegex(said, r"train.yaml:4:\d+: HW1119 .*declared are: gpu \(1\)")
        self.hw("pool", "set", "gpu", 2)
        self.hw("workflow", "validate", file)
        self.hw("run", file)

    def test_configured_pool_is_the_configurations(self):
        file = self.write("train.yaml", TRAIN % "true")
        self.env["HEADWORKS_POOLS"] = "gpu=2"
        self.hw("workflow", "validate", file)
        self.hw("run", file)
        self.assertEqual(self.json("pool", "list")[0]["declared_by"], "configuration")
        self.assertIn("configuration", self.hw("pool", "set", "gpu", 5, code=REFUSED).stderr)
        self.hw("pool", "delete", "gpu", code=REFUSED)

    def test_why_names_the_pool_and_who_holds_it(self):
        self.hw("pool", "set", "gpu", 3)
        file = self.write("train.yaml", TRAIN % gate("train"))
        engine = self.engine_up()
        self.hw("run", file, "--detach")
        self.until_exists("train.here")
        self.hw("run", file, "--detach")
        why = lambda: "\n".join(self.json("runs", "why", "2", "train")["why"])
        self.until(lambda: "waits for 2 permits of pool gpu" in why(), "why says so")
        self.assertIn("2 of 3 are held", why())
        self.assertIn("run 1 holds 2 for task train", why())
        self.assertIn("permits are held", self.hw("pool", "show", "gpu").stdout)
        self.hw("pool", "delete", "gpu", code=REFUSED)
        self.hw("pool", "set", "gpu", 1)
        self.assertIn("has only 1 in all", why())
        self.hw("pool", "set", "gpu", 2)
        self.write("train.go", "")
        self.until(lambda: self.run_state("2") == "succeeded", "the second run ends")
        self.assertEqual(self.json("pool", "show", "gpu")["held"], 0)
        engine.send_signal(signal.SIGTERM)
        self.ends(engine, OK)

    def test_permits_survive_a_killed_engine_and_none_leaks(self):
        self.hw("pool", "set", "gpu", 2)
        file = self.write("train.yaml", TRAIN % ("echo x >> ran; " + gate("train")))
        engine = self.engine_up()
        for _ in range(3):
            self.hw("run", file, "--detach")
        self.until(lambda: len(self.lines("ran")) == 1, "one task runs")
        held = self.json("pool", "show", "gpu")
        self.assertEqual(held["held"], 2)
        engine.kill()
        engine.wait()
        self.assertEqual(self.json("pool", "show", "gpu"), held)
        engine = self.engine_up()
        # The killed attempt is lost, provably; its task runs again, alone.
        self.until(lambda: len(self.lines("ran")) == 2, "one runs after the restart")
        self.assertEqual(self.json("pool", "show", "gpu")["held"], 2)
        self.write("train.go", "")
        self.until(lambda: all(run["state"] == "succeeded" for run in self.json("runs", "list")),
                   "all runs end")
        self.assertEqual(len(self.lines("ran")), 4)
        self.assertEqual(self.json("pool", "show", "gpu")["held"], 0)
        self.hw("pool", "delete", "gpu")


class ConcurrencyTest(harness.Case):
    FILE = """
version: 1
name: deploy
params: {to: test}
concurrency: {key: params.to, limit: 1, on_conflict: %s}
tasks:
  go: {run: '%s'}
"""

    def test_skip_is_refused_and_names_the_holder(self):
        file = self.write("deploy.yaml", self.FILE % ("skip", gate("go")))
        engine = self.engine_up()
        self.hw("run", file, "--detach")
        self.until_exists("go.here")
        said = self.hw("run", file, "--detach", code=REFUSED).stderr
        self.assertIn("run 1 (running) has the place of concurrency key 'test'", said)
        self.hw("run", file, "--detach", "-p", "to=prod")
        self.assertEqual(len(self.json("runs", "list")), 2)
        self.write("go.go", "")
        self.until(lambda: self.run_state("1") == "succeeded", "the first run ends")
        self.hw("run", file, "--detach")

    def test_queue_waits_and_why_names_the_holder(self):
        file = self.write("deploy.yaml", self.FILE % ("queue", gate("go")))
        self.engine_up()
        self.hw("run", file, "--detach")
        self.until_exists("go.here")
        self.hw("run", file, "--detach")
        why = "\n".join(self.json("runs", "why", "2", "go")["why"])
        self.assertIn("concurrency key 'test'", why)
        self.assertIn("run 1 (running)", why)
        self.write("go.go", "")
        self.until(lambda: self.run_state("2") == "succeeded", "the second run ends")

    def test_cancel_previous_replaces_the_older_run(self):
        file = self.write("deploy.yaml", self.FILE % ("cancel_previous", gate("go")))
        self.engine_up()
        self.hw("run", file, "--detach")
        self.until_exists("go.here")
        self.hw("run", file, "--detach")
        self.until(lambda: self.run_state("1") == "cancelled", "the older run is cancelled")
        self.until(lambda: self.run_state("2") == "running", "the newer one starts")
        self.write("go.go", "")
        self.until(lambda: self.run_state("2") == "succeeded", "and ends")

    def test_rate_holds_back_what_is_too_early(self):
        file = self.write("often.yaml", """
version: 1
concurrency: {rate: {limit: 2, per: 1h}, on_conflict: skip}
tasks:
  go: {run: 'true'}
""")
        self.hw("run", file)
        self.hw("run", file)
        said = self.hw("run", file, code=REFUSED).stderr
        self.assertIn("2 runs of the same workflow have started within 1h", said)

    def test_key_is_checked_with_the_file(self):
        for key, code in (("params.wher", "HW1302"), ("[1]", "HW1303"), ("${{ params.to }}",
                          "HW1301"), ("params.to ==", "HW1301"), ("params.day", "HW1302")):
            file = self.write("bad.yaml", f"""
version: 1
params: {{to: test, day: '${{{{ run.date }}}}'}}
concurrency: {{key: "{key}", limit: 1}}
tasks:
  go: {{run: 'true'}}
""")
            said = self.hw("workflow", "validate", file, code=USAGE).stderr
            self.assertRegex(said, rf"bad.yaml:4:\d+: {code}", key)


if __name__ == "__main__":
    harness.main()

"""Limits across runs: pools, concurrency keys and rates, as people meet them."""
import datetime
import signal

import harness
from harness import NOT_FOUND, OK, REFUSED, UNAVAILABLE, USAGE, gate

PLACED = """
version: 1
tasks:
  train: {queue: gpu, requires: [a100, region=eu], run: 'true'}
"""

TRAIN = """
version: 1
tasks:
  train: {pool: gpu, weight: 2, run: '%s'}
"""


class QueueKeyTest(harness.Case):
    def test_where_no_workers_run_tasks_run_warns_and_up_refuses(self):
        file = self.write("placed.yaml", PLACED)
        said = self.hw("run", file).stderr
        self.assertRegex(said, "warning: task train names a queue, .* command_executor is process")
        self.write("flows/placed.yaml", PLACED)
        engine = self.engine_up("flows")
        self.until_said(engine, "flows/placed.yaml: task train names a queue")
        self.assertNotIn("workflow placed registered", self.text(engine))

    def test_run_is_no_engine_for_workers(self):
        file = self.write("placed.yaml", PLACED)
        said = self.hw("run", file, "--command-executor", "queue", code=UNAVAILABLE).stderr
        self.assertIn("tasks of placed go to workers, who do not reach this command", said)
        self.assertEqual(self.json("runs", "list"), [])

    def test_what_waits_for_a_worker_says_for_which_and_is_withdrawn_at_once(self):
        self.write("flows/placed.yaml", PLACED)
        engine = self.engine_up("flows", "--command-executor", "queue")
        self.until_said(engine, "workflow placed registered")
        self.hw("run", "flows/placed.yaml", "--detach")
        self.until(lambda: "waits for a worker of queue 'gpu' that has a100, region=eu since"
                   in self.hw("runs", "why", "1", "train").stdout, "why names the worker")
        self.hw("runs", "cancel", "1")
        self.until(lambda: self.run_state("1") == "cancelled", "it is withdrawn")


class PoolTest(harness.Case):
    def test_pool_is_declared_shown_and_deleted(self):
        self.hw("queue", "push", "mail", "1")
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

    def test_faults_of_limits_have_a_place_and_say_what_to_do(self):
        self.hw("pool", "set", "gpu", 1)
        self.hw("pool", "set", "none", 0)
        self.env["HEADWORKS_MAX_TASK_RESOURCES"] = f"cpu=2,memory={2**30 - 1}"
        # 1,000 instances of a matrix are written once.
        file = self.write("train.yaml", """
version: 1
tasks:
  a:
    pool: gpus
    matrix: {n: [%s]}
    run: 'true'
  b: {pool: gpu, weight: 2, run: 'true'}
  c: {pool: none, run: 'true'}
  d: {resources: {cpu: 3, memory: 1GiB}, run: 'true'}
""" % ", ".join(map(str, range(1000))))
        engine = self.engine_up()
        faults = [
            r"train.yaml:5:11: HW1118 there is no pool \"gpus\", did you mean 'gpu'\?; declared "
            r"are: gpu \(1\), none \(0\); declare it with `headworks pool set gpus N`, or under "
            r"`pools` in the configuration",
            r"train.yaml:8:26: HW1119 2 is above the limit of pool \"gpu\", which is 1; .*"
            r"`headworks pool set gpu N`",
            r"train.yaml:9:13: HW1119 pool \"none\" has 0 permits.*`headworks pool set none N`",
            r"train.yaml:10:24: HW1121 it asks for 3 processors, and at most 2 are .*max_task_res",
            r"train.yaml:10:35: HW1121 it asks for 1GiB \(1073741824 bytes\) of memory, and at "
            r"most 1073741823 bytes is allowed here \(max_task_resources\)"]
        for command in (["workflow", "validate"], ["workflow", "register"], ["run"],
                        ["run", "--dry-run"], ["run", "--detach"]):
            said = self.hw(*command, file, code=USAGE).stderr
            self.assertEqual(said.count("HW11"), len(faults), said)
            for fault in faults:
                self.assertRegex(said, fault, command)
        self.assertEqual(self.json("runs", "list"), [])
        engine.kill()

    def test_dry_run_checks_the_concurrency_key(self):
        for key, why in (("1 / params.n", "divi"), ("input.customer", "customer")):
            file = self.write("keyed.yaml", f"""
version: 1
params: {{n: 0}}
concurrency: {{key: {key}, limit: 1}}
tasks:
  go: {{run: 'true'}}
""")
            for command in (["run"], ["run", "--dry-run"]):
                said = self.hw(*command, file, code=USAGE).stderr
                self.assertRegex(said, f"concurrency.key `{key}` of workflow keyed: .*{why}")
        self.assertFalse(self.store.exists())

    def test_up_goes_on_when_files_ask_for_what_there_is_not(self):
        self.hw("pool", "set", "gpu", 1)
        pool = "version: 1\ntasks:\n  t: {pool: %s, weight: %s, run: 'true'}\n"
        heavy = "version: 1\ntasks:\n  t: {resources: {cpu: 9}, run: 'true'}\n"
        self.write("flows/a.yaml", pool % ("tpu", 1))
        self.write("flows/b.yaml", pool % ("gpu", 2))
        self.write("flows/c.yaml", heavy)
        self.write("flows/d.yaml", pool % ("gpu", 1))
        running = self.write("running.yaml", f"version: 1\ntasks:\n  t: {{run: '{gate('t')}'}}\n")
        engine = self.engine_up("flows", "--max-task-resources", "cpu=8")
        self.until_said(engine, "workflow d registered")
        self.hw("run", running, "--detach")
        for fault in ("a.yaml:3:13: HW1118", "b.yaml:3:26: HW1119", "c.yaml:3:24: HW1121"):
            self.assertIn(f"flows/{fault}", self.text(engine))
        # While watching: a new file, an edit of a registered one, and a pool that went down.
        self.write("flows/e.yaml", pool % ("dpu", 1))
        self.until_said(engine, "flows/e.yaml:3:13: HW1118")
        self.write("flows/d.yaml", pool % ("gpu", 3))
        self.until_said(engine, "flows/d.yaml:3:26: HW1119 3 is above")
        self.hw("pool", "set", "gpu", 0)
        self.write("flows/d.yaml", pool % ("gpu", 1))
        self.until_said(engine, 'flows/d.yaml:3:13: HW1119 pool "gpu" has 0 permits')
        self.hw("pool", "set", "gpu", 4)
        self.write("flows/d.yaml", pool % ("gpu", 4))
        self.until_said(engine, "workflow d updated")
        self.write("t.go", "")
        self.until(lambda: self.run_state("1") == "succeeded", "what runs keeps its engine")
        self.assertEqual([w["workflow"] for w in self.json("workflow", "list")], ["d", "running"])

    def test_pools_option_is_refused_where_it_would_do_nothing(self):
        self.hw("pool", "set", "gpu", 1)
        for args in (["list"], ["show", "gpu"], ["set", "gpu", 2], ["delete", "gpu"]):
            said = self.hw("pool", *args, "--pools", "gpu=7", code=USAGE).stderr
            self.assertIn("--pools declares pools for the engine that starts with it", said)
        self.assertEqual(self.json("pool", "list")[0]["limit"], 1)

    def test_pools_are_of_a_tenant(self):
        file = self.write("train.yaml", TRAIN % "true")
        self.env["HEADWORKS_TENANT"] = "acme"
        self.hw("pool", "set", "gpu", 2)
        self.hw("workflow", "validate", file)
        del self.env["HEADWORKS_TENANT"]
        self.assertIn("HW1118", self.hw("workflow", "validate", file, code=USAGE).stderr)
        engine = self.engine_up("--pools", "gpu=3")
        limit = lambda *args: self.json("pool", "show", "gpu", *args)["limit"]
        self.assertEqual((limit(), limit("--tenant", "acme")), (3, 2))
        engine.send_signal(signal.SIGTERM)
        self.ends(engine, OK)

    def test_configured_pool_is_the_configurations(self):
        file = self.write("train.yaml", TRAIN % "true")
        self.env["HEADWORKS_POOLS"] = "gpu=2"
        self.hw("workflow", "validate", file)
        self.hw("run", file)
        self.assertEqual(self.json("pool", "list")[0]["declared_by"], "configuration")
        self.assertIn("configuration", self.hw("pool", "set", "gpu", 5, code=REFUSED).stderr)
        self.hw("pool", "delete", "gpu", code=REFUSED)
        del self.env["HEADWORKS_POOLS"]
        other = self.write("other.yaml", "version: 1\nname: other\ntasks:\n  a: {run: 'true'}\n")
        self.assertNotIn("pool", self.hw("run", other).stderr)
        self.assertEqual(self.json("pool", "list")[0]["declared_by"], "configuration")
        self.env["HEADWORKS_POOLS"] = "db=1"
        self.assertIn("pool is no longer declared", self.hw("run", other).stderr)
        self.assertEqual([(pool["pool"], pool["declared_by"]) for pool in self.json("pool", "list")],
                         [("db", "configuration"), ("gpu", "pool set")])
        self.hw("run", file)
        self.hw("pool", "delete", "gpu")

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

    def pooled(self, name, weight=1, script=None):
        """A file with one task of a pool, gated by the name of the run's parameter."""
        return self.write(f"{name}.yaml", f"""
version: 1
params: {{as: one}}
tasks:
  train:
    pool: gpu
    weight: {weight}
    env: {{AS: "${{{{ params.as }}}}"}}
    run: '{script or gate("$AS")}'
""")

    def begin(self, file, *names):
        for name in names:
            self.hw("run", file, "--detach", "-p", f"as={name}")

    def until_waits(self, run):
        self.until(lambda: "waits for 1 permit of pool gpu" in
                   "\n".join(self.json("runs", "why", run, "train")["why"]), f"run {run} waits")

    def until_state(self, run, state):
        self.until(lambda: self.run_state(run) == state, f"run {run} is {state}")

    def holders(self):
        return [holder["run"] for holder in self.json("pool", "show", "gpu")["holders"]]

    def test_pools_of_the_configuration_limit_the_engine_that_is_up(self):
        config = "config/headworks/config.yaml"
        self.write(config, "pools: gpu=1\n")
        file = self.pooled("configured")
        engine = self.engine_up()
        self.begin(file, "one", "two", "three")
        self.until_exists("one.here")
        self.until_waits("2")
        self.until_waits("3")
        self.assertEqual(self.holders(), [1])
        engine.kill()
        engine.wait()
        self.assertEqual(self.holders(), [1])
        self.write(config, "pools: gpu=2\n")
        self.engine_up()
        # The lost attempt of the first one asks anew, behind those that have waited.
        self.until_exists("two.here")
        self.until_exists("three.here")
        self.until_waits("1")
        self.assertEqual(self.json("pool", "show", "gpu")["limit"], 2)
        self.assertEqual(self.holders(), [2, 3])
        for name in ("one", "two", "three"):
            self.write(f"{name}.go", "")
        for run in ("1", "2", "3"):
            self.until_state(run, "succeeded")
        self.assertEqual(self.holders(), [])

    def test_cancel_of_who_waits_and_of_who_holds_lets_the_next_go_on(self):
        self.hw("pool", "set", "gpu", 1)
        file = self.pooled("cancelled")
        self.engine_up()
        self.begin(file, "one")
        self.until_exists("one.here")
        self.begin(file, "two", "three")
        self.until_waits("2")
        self.until_waits("3")
        self.hw("runs", "cancel", "2")
        self.until_state("2", "cancelled")
        self.assertEqual(self.holders(), [1])
        self.hw("runs", "cancel", "1")
        self.until_exists("three.here")
        self.until_state("1", "cancelled")
        self.assertFalse((self.dir / "two.here").exists())
        self.assertEqual(self.holders(), [3])
        self.write("three.go", "")
        self.until_state("3", "succeeded")
        self.assertEqual(self.holders(), [])

    def test_mark_ends_the_waiting_and_never_takes_permits(self):
        self.hw("pool", "set", "gpu", 1)
        file = self.pooled("marked")
        self.engine_up()
        self.begin(file, "one")
        self.until_exists("one.here")
        self.begin(file, "two", "three")
        self.until_waits("2")
        self.until_waits("3")
        self.hw("runs", "mark", "1", "train", "success", code=REFUSED)
        self.hw("runs", "mark", "2", "train", "success")
        self.until_state("2", "succeeded")
        self.assertEqual(self.holders(), [1])
        self.write("one.go", "")
        self.until_exists("three.here")
        self.assertEqual(self.holders(), [3])
        self.assertFalse((self.dir / "two.here").exists())
        self.write("three.go", "")
        self.until_state("3", "succeeded")

    def test_rerun_asks_anew_and_delete_takes_no_permits_of_others(self):
        self.hw("pool", "set", "gpu", 1)
        file = self.pooled("again")
        self.engine_up()
        self.write("one.go", "")
        self.begin(file, "one")
        self.until_state("1", "succeeded")
        self.begin(file, "two")
        self.until_exists("two.here")
        (self.dir / "one.here").unlink()
        self.hw("runs", "rerun", "1", "--all", "--detach")
        self.until_waits("1")
        self.assertEqual(self.holders(), [2])
        for run in ("1", "2"):  # neither who waits nor who holds is forgotten
            self.hw("runs", "delete", run, code=REFUSED)
        self.write("two.go", "")
        self.until_exists("one.here")
        self.until_state("1", "succeeded")
        self.until_state("2", "succeeded")
        self.begin(file, "three")
        self.until_exists("three.here")
        self.hw("runs", "delete", "1")
        self.hw("runs", "delete", "2")
        self.assertEqual(self.holders(), [3])
        # A rerun of one that failed holds its permits again, once.
        self.hw("runs", "cancel", "3")
        self.until_state("3", "cancelled")
        self.assertEqual(self.holders(), [])
        (self.dir / "three.here").unlink()
        self.hw("runs", "rerun", "3", "--all", "--detach")
        self.until_exists("three.here")
        self.assertEqual(self.holders(), [3])
        self.write("three.go", "")
        self.until_state("3", "succeeded")
        self.assertEqual(self.holders(), [])

    def test_killed_engines_leak_no_permits_and_grant_none_twice(self):
        limit = 3
        self.hw("pool", "set", "gpu", limit)
        for weight in (1, 2, 3):
            self.pooled(f"w{weight}", weight)
        engine = self.engine_up()
        runs = [f"r{n}" for n in range(9)]
        for n, name in enumerate(runs):
            self.begin(self.dir / f"w{n % 3 + 1}.yaml", name)

        def pool():
            shown = self.json("pool", "show", "gpu")
            self.assertLessEqual(shown["held"], limit)
            self.assertEqual(shown["held"], sum(h["permits"] for h in shown["holders"]))
            return shown

        for kill in range(3):
            # Not all of them may be: what is free is saved up if the first in line needs more.
            self.until(lambda: pool()["held"] > 0, "permits are held")
            engine.kill()
            engine.wait()
            pool()
            for name in runs[kill * 2:kill * 2 + 2]:
                self.write(f"{name}.go", "")
            engine = self.engine_up()
        for name in runs:
            self.write(f"{name}.go", "")
        self.until(lambda: pool() and
                   all(run["state"] == "succeeded" for run in self.json("runs", "list")),
                   "all runs end")
        self.assertEqual(pool()["held"], 0)
        engine.send_signal(signal.SIGTERM)
        self.ends(engine, OK)
        self.hw("db", "check")
        self.hw("pool", "delete", "gpu")


class BesideTest(harness.Case):
    """`run` where others have what it needs."""

    def test_older_run_that_goes_on_is_told_and_waited_for_no_longer_than_a_drain(self):
        self.hw("pool", "set", "gpu", 1)
        old = self.write("old.yaml", "version: 1\ntasks:\n  t: {pool: gpu, run: '%s; %s'}\n"
                         % (gate("old"), gate("again")))
        new = self.write("new.yaml", "version: 1\ntasks:\n  t: {pool: gpu, run: 'true'}\n"
                         "  u: {needs: [t], run: '%s'}\n" % gate("u"))
        killed = self.start("run", old)
        self.until_exists("old.here")
        killed.kill()
        killed.wait()
        self.write("old.go", "")
        process = self.start("run", new, "--drain-timeout", "100ms")
        self.until_said(process, "run 1 of old goes on in this process too, because it holds or "
                        "held what run 2 needs; once run 2 is over, its tasks have up to 100ms to "
                        "end, and `headworks up` continues it")
        self.until_exists("again.here")
        self.write("u.go", "")
        out = self.ends(process, OK)
        self.assertIn("run 2 of new succeeded", out)
        self.assertIn("tasks of run 1 of old are at work in this process: waiting up to 100ms for "
                      "them; what is left then is stopped, and `headworks up` continues it", out)
        self.assertEqual(self.run_state("1"), "running")
        # Nothing but its own run: nothing to tell.
        self.write("again.go", "")
        self.ends(self.start("run", old, "--resume"), OK)
        out = self.hw("run", new).stdout
        self.assertNotIn("in this process", out)

    def test_run_says_what_it_waits_for(self):
        self.hw("pool", "set", "gpu", 1)
        pooled = self.write("pooled.yaml",
                            "version: 1\ntasks:\n  t: {pool: gpu, run: '%s'}\n" % gate("t"))
        placed = self.write("placed.yaml", "version: 1\nmax_active_runs: 1\ntasks:\n"
                            "  t: {run: '%s'}\n" % gate("p"))
        rated = self.write("rated.yaml", "version: 1\nconcurrency: {rate: {limit: 1, per: 1h}}\n"
                           "tasks:\n  t: {run: 'true'}\n")
        self.engine_up()
        for file in (pooled, placed, rated):
            self.hw("run", file, "--detach")
        self.until_exists("t.here")
        self.until_exists("p.here")
        waiting = [(self.start("run", file), why) for file, why in (
            (pooled, "waits for 1 permit of pool gpu"),
            (placed, "at most 1 runs are under way at a time (max_active_runs): run 2"),
            (rated, "at most 1 runs start within 1h"))]
        for process, why in waiting:
            self.until_said(process, why)
            self.assertRegex(self.text(process), r"run \d waits: ")
        for name in ("t.go", "p.go"):
            self.write(name, "")
        for process, _ in waiting[:2]:
            out = self.ends(process, OK)
            self.assertEqual(out.count(" waits: "), 1, out)


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

    def test_cancel_previous_cancels_those_that_wait_too_and_no_other_key(self):
        text = self.FILE % ("cancel_previous", 'trap "" TERM; ' + gate("go"))
        file = self.write("deploy.yaml", text.replace("{run:", "{grace: 3s, run:"))
        self.engine_up()
        self.hw("run", file, "--detach", "-p", "to=prod")
        self.until(lambda: self.states("1")["go"] == "running", "the other key runs")
        self.hw("run", file, "--detach")
        self.until(lambda: self.states("2")["go"] == "running", "the first of its key runs")
        self.hw("run", file, "--detach")
        self.until(lambda: self.json("runs", "show", "2")["cancel_requested"], "it is cancelled")
        # It has its place until its task is over, and that takes its grace: the second one waits.
        self.assertEqual(self.run_state("3"), "pending")
        self.hw("run", file, "--detach")
        self.until(lambda: self.run_state("3") == "cancelled", "the one that waits is cancelled")
        self.until(lambda: self.run_state("4") == "running", "the newest one starts")
        self.assertEqual([self.run_state(run) for run in "123"],
                         ["running", "cancelled", "cancelled"])
        self.write("go.go", "")
        self.until(lambda: self.run_state("1") == self.run_state("4") == "succeeded", "both end")

    def test_queue_goes_by_priority_then_by_age(self):
        text = self.FILE % ("queue", 'echo "$N" >> order; ' + gate("go"))
        file = self.write("deploy.yaml", text.replace("{to: test}", "{to: test, n: 0}") +
                          "env: {N: '${{ params.n }}'}\n")
        self.engine_up()
        for n, priority in ((1, 0), (2, 0), (3, 5), (4, 0)):
            self.hw("run", file, "--detach", "-p", f"n={n}", "--priority", priority)
            self.until(lambda: self.lines("order"), "the first one runs")
        self.write("go.go", "")
        self.until(lambda: len(self.lines("order")) == 4, "all run")
        self.assertEqual(self.lines("order"), ["1", "3", "2", "4"])

    def test_skip_counts_what_a_killed_engine_left(self):
        file = self.write("deploy.yaml", self.FILE % ("skip", gate("go")))
        engine = self.engine_up()
        self.hw("run", file, "--detach")
        self.until_exists("go.here")
        engine.kill()
        engine.wait()
        said = self.hw("run", file, code=REFUSED).stderr
        self.assertIn("run 1 (running) has the place of concurrency key 'test'", said)
        self.write("go.go", "")
        self.engine_up()
        self.until(lambda: self.run_state("1") == "succeeded", "it goes on")
        self.hw("run", file)

    def test_rate_delays_starts_and_is_kept_by_a_restart(self):
        file = self.write("often.yaml", """
version: 1
concurrency: {rate: {limit: 2, per: 4s}}
tasks:
  go: {run: 'true'}
""")
        engine = self.engine_up()
        for _ in range(5):
            self.hw("run", file, "--detach")
        self.until(lambda: self.run_state("2") == "succeeded", "two start at once")
        self.assertEqual(self.run_state("3"), "pending")
        self.assertRegex("\n".join(self.json("runs", "why", "3", "go")["why"]),
                         r"at most 2 runs start within 4\.0s \(concurrency\.rate\); the next one may "
                         r"at \S+ \(in ")
        engine.kill()
        engine.wait()
        self.engine_up()
        self.until(lambda: self.run_state("5") == "succeeded", "all of them start")
        starts = sorted(datetime.datetime.fromisoformat(run["started_at"].replace("Z", "+00:00"))
                        for run in self.json("runs", "list"))
        for first, third in zip(starts, starts[2:]):
            # The wall clock, which is shown, may be set a little meanwhile.
            self.assertGreater((third - first).total_seconds(), 3.9, starts)

    def test_key_is_checked_with_the_file(self):
        for key, code in (("params.wher", "HW1302"), ("params.day", "HW1302 the default of day is "
                          "computed once the run is made"), ("[1]", "HW1303"), ("${{ params.to }}",
                          "HW1301"), ("params.to ==", "HW1301")):
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

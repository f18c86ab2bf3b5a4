"""Looking after workers: who is there, from another process, and what becomes of whom."""
import signal
import time

import harness
from harness import NOT_FOUND, OK, REFUSED
from workers_test import WorkersCase, gated


class WorkersOpsCase(WorkersCase):
    def shown(self, name, *args):
        """Its incarnation that came last."""
        return self.json("workers", "show", name, *args)["incarnations"][-1]

    def listed(self, *args):
        return {each["worker"]: each for each in self.json("workers", "list", *args)}

    def until_state(self, name, state):
        self.until(lambda: name in self.listed() and self.shown(name)["state"] == state,
                   f"{name} is {state}")


class RosterTest(WorkersOpsCase):
    def test_who_is_there_is_seen_from_another_process(self):
        self.up()
        self.worker("w", "--queue", "default=2", "--queue", "mail=1", "--label", "gpu")
        self.until_state("w", "connected")
        self.begin(("a", gated("a")))
        self.until_exists("a.here")

        def loads():
            return [(each["queue"], each["held"], each["running"], each["slots"])
                    for each in self.shown("w")["queues"]]
        self.until(lambda: loads() == [("default", 1, 1, 2), ("mail", 0, 0, 1)], "it is counted")
        worker = self.shown("w")
        self.assertEqual(worker["labels"], ["gpu"])
        self.assertEqual(worker["tenant"], "public")
        self.assertEqual(worker["protocol"], 1)
        self.assertRegex(worker["version"], r"^\d+\.\d+\.\d+")
        self.assertLessEqual(worker["connected_at"], worker["heard_at"])
        table = self.hw("workers", "list").stdout
        self.assertRegex(table, r"w +connected +default 1/2, mail 0/1 +gpu ")
        self.assertIn("queue default: 2 slots, 1 held, 1 running",
                      self.hw("workers", "show", "w").stdout)
        self.assertEqual(list(self.listed("--queue", "mail")), ["w"])
        self.assertEqual(self.listed("--queue", "other"), {})
        self.write("a.go", "")
        self.ended()

    def test_who_is_killed_is_silent_and_then_gone(self):
        self.lease(6)
        self.up()
        worker = self.worker("w")
        self.until_state("w", "connected")
        self.kill(worker)
        self.until_state("w", "silent")
        self.until_state("w", "gone")
        self.assertIn("nothing was heard of it", self.shown("w")["gone_reason"])
        # It comes back as another one, and is no longer shown as gone.
        self.worker("w")
        self.until_state("w", "connected")
        self.assertEqual(len(self.json("workers", "show", "w")["incarnations"]), 2)
        self.assertEqual([each["state"] for each in self.json("workers", "list")], ["connected"])

    def test_who_leaves_is_gone(self):
        self.up()
        worker = self.worker("w")
        self.until_state("w", "connected")
        worker.terminate()
        self.ends(worker, OK)
        self.until_state("w", "gone")
        self.assertEqual(self.shown("w")["gone_reason"], "it left")

    def test_without_an_engine_nobody_knows(self):
        self.up()
        self.worker("stays")
        leaves = self.worker("leaves")
        self.until_state("stays", "connected")
        self.until_state("leaves", "connected")
        self.kill(self.engine)
        self.assertEqual([each["state"] for each in self.listed().values()], ["unknown"] * 2)
        self.kill(leaves)
        self.up()
        self.until_state("stays", "connected")
        self.until_state("leaves", "gone")
        self.kill(self.engine, signal.SIGTERM)
        self.assertEqual(self.shown("stays")["state"], "unknown")

    def test_a_name_that_nobody_has(self):
        self.up()
        said = self.hw("workers", "show", "nobody", code=NOT_FOUND).stderr
        self.assertIn("no worker 'nobody' of tenant 'public' is known", said)
        self.assertIn("headworks workers list", said)
        self.assertIn("no workers in", self.hw("workers", "list").stderr)

    def test_tenants_do_not_see_each_others(self):
        self.up()
        self.worker("ours")
        self.worker("theirs", "--tenant", "other", token=self.token("--tenant", "other"))
        self.until_state("ours", "connected")
        self.until(lambda: "theirs" in self.listed("--tenant", "other"), "the other sees its own")
        self.assertEqual(list(self.listed()), ["ours"])
        self.assertEqual(list(self.listed("--tenant", "other")), ["theirs"])
        self.hw("workers", "show", "theirs", code=NOT_FOUND)
        self.hw("workers", "show", "ours", "--tenant", "other", code=NOT_FOUND)


class OrdersTest(WorkersOpsCase):
    def flows(self, count):
        """So many runs of a task that says which worker ran it."""
        for n in range(count):
            self.begin((f"t{n}", f"echo $PPID >> {self.dir}/ran"), name=f"flow{n}")

    def until_ran(self, count):
        self.until(lambda: len(self.lines("ran")) == count, f"{count} tasks ran")

    def ran(self, worker):
        return self.text(worker).count(" started\n")

    def test_who_is_cordoned_gets_nothing_new_also_after_restarts(self):
        self.up()
        one = self.worker("one", "--queue", "default=4")
        two = self.worker("two", "--queue", "default=4")
        for name in ("one", "two"):
            self.until_state(name, "connected")
        self.begin(("long", gated("long")))
        self.until_exists("long.here")
        first, other = (one, two) if self.ran(one) else (two, one)
        name, others = ("one", "two") if first is one else ("two", "one")
        self.assertEqual(self.hw("workers", "cordon", name).stdout, f"cordoned {name}\n")
        self.until_state(name, "cordoned")
        self.flows(6)
        self.until_ran(6)
        self.assertEqual((self.ran(first), self.ran(other)), (1, 6))
        # What it ran goes on.
        self.write("long.go", "")
        self.until_said(first, "flow/long of run 1, try 1 succeeded")

        self.kill(self.engine)
        self.up()
        self.kill(first, signal.SIGTERM)
        first = self.worker(name, "--queue", "default=4")
        self.until_state(name, "cordoned")
        self.until_state(others, "connected")
        self.flows(6)
        self.until_ran(12)
        self.assertEqual((self.ran(first), self.ran(other)), (0, 12))
        order = self.shown(name)["cordoned"]
        self.assertRegex(order["by"], r".+@.+")
        self.assertTrue(order["taken"])
        self.assertIn(f"{name} was cordoned by {order['by']}",
                      self.hw("workers", "show", name).stdout)

        self.kill(other, signal.SIGTERM)
        self.begin(("last", f"echo x >> {self.dir}/ran"))
        self.hw("workers", "uncordon", name)
        self.until_ran(13)
        self.assertEqual(self.ran(first), 1)
        self.until_state(name, "connected")
        self.assertIn(f"{name} was uncordoned by", self.hw("workers", "show", name).stdout)

    def test_who_drains_ends_what_it_runs_and_leaves(self):
        self.up()
        worker = self.worker("w", "--queue", "default=1", "--drain-timeout", "10m")
        self.until_state("w", "connected")
        self.begin(("a", gated("a")), ("b", "echo x >> b.here"))
        self.until(lambda: self.lines("a.here") or self.lines("b.here"), "one begins")
        self.until_exists("a.here")
        self.assertEqual(self.json("workers", "drain", "w"),
                         {"command": "drain", "workers": ["w"], "taken": True})
        # All of its slots are taken: it hears so by its heartbeat.
        self.until_said(worker, "an operator drains this worker, for up to 10m00s")
        self.until_state("w", "draining")
        self.assertRegex(self.shown("w")["drained"]["by"], r".+@.+")
        self.write("a.go", "")
        self.assertIn("flow/a of run 1, try 1 succeeded", self.ends(worker, OK))
        self.until_state("w", "gone")
        self.assertEqual(self.shown("w")["gone_reason"], "it left")
        self.hw("workers", "drain", "w", code=REFUSED)
        self.worker("w")  # another incarnation, which nobody drains
        self.ended()
        self.until_state("w", "connected")

    def test_who_drains_with_nothing_to_do_leaves_at_once(self):
        self.lease(600)  # its poll waits for 30 s
        self.up()
        worker = self.worker("w")
        self.until_state("w", "connected")
        began = time.monotonic()
        self.hw("workers", "drain", "w")
        self.ends(worker, OK)
        self.assertLess(time.monotonic() - began, 10)

    def test_many_at_a_time(self):
        self.up()
        for name in ("gpu-1", "gpu-2", "cpu-1"):
            self.worker(name)
            self.until_state(name, "connected")
        self.assertEqual(self.json("workers", "cordon", "gpu-*")["workers"], ["gpu-1", "gpu-2"])
        self.until(lambda: {name: each["state"] for name, each in self.listed().items()} ==
                   {"cpu-1": "connected", "gpu-1": "cordoned", "gpu-2": "cordoned"},
                   "two of them are cordoned")
        self.hw("workers", "uncordon", "*")
        self.until(lambda: {each["state"] for each in self.listed().values()} == {"connected"},
                   "none of them is")

    def test_names_that_nobody_has(self):
        self.up()
        for command in ("cordon", "uncordon", "drain"):
            for name in ("nobody", "gpu-*"):
                said = self.hw("workers", command, name, code=NOT_FOUND).stderr
                self.assertIn(f"no worker '{name}' of tenant 'public' is known", said)

    def test_an_order_waits_for_the_next_engine(self):
        self.up()
        self.worker("w")
        self.until_state("w", "connected")
        self.kill(self.engine)
        said = self.hw("workers", "cordon", "w")
        self.assertEqual(said.stdout, "cordoned w\n")
        self.assertIn("no engine goes by that yet", said.stderr)
        self.up()
        self.until_state("w", "cordoned")
        self.assertTrue(self.shown("w")["cordoned"]["taken"])

    def test_tenants_do_not_command_each_others(self):
        self.up()
        self.worker("same", "--tenant", "other", token=self.token("--tenant", "other"))
        self.until(lambda: "same" in self.listed("--tenant", "other"), "the other sees its own")
        self.hw("workers", "cordon", "same", code=NOT_FOUND)
        self.hw("workers", "drain", "*", code=NOT_FOUND)
        ours = self.worker("same", folder="ours")
        self.until_state("same", "connected")
        self.hw("workers", "cordon", "same", "--tenant", "other")
        self.begin(("a", f"echo x >> {self.dir}/ran"))
        self.until_ran(1)
        self.assertEqual(self.ran(ours), 1)


if __name__ == "__main__":
    harness.main()

"""Items of queues over gRPC: an engine, programs that handle its items, and what goes wrong between.

remote_jobs_test.py PROGRAM SHELL_JOBS
"""
import json
import os
import re
import signal
import sys

import harness
from fault_proxy import FaultProxy

LEASE = 4.0  # seconds
SHELL_JOBS = None  # set by main()


def gated(name):
    """Shell that says that it is there (NAME.here, a line for each time) and waits for NAME.go."""
    return (f"echo here >> {name}.here; i=0; while [ ! -e {name}.go ] && "
            f"[ $i -lt {int(harness.PATIENCE * 20)} ]; do i=$((i+1)); sleep 0.05; done")


class RemoteJobsTest(harness.Case):
    def setUp(self):
        super().setUp()
        self.server = None

    def up(self, *args):
        """The engine, which runs all tasks itself; again where it was."""
        self.engine = self.start("up", "--rpc-listen", self.server or "127.0.0.1:0", *args)
        self.until_said(self.engine, "workers connect to ")
        self.server = re.search(r"workers connect to (\S+)", self.text(self.engine))[1]

    def kill(self, process, how=signal.SIGKILL):
        process.send_signal(how)
        process.wait()

    def token(self, *args):
        return self.hw("worker", "token", "create", *args).stdout.strip()

    def jobs(self, name="w", queue="q", server=None, token=None):
        self.env["HEADWORKS_WORKER_TOKEN"] = token or self.token()
        process = self.start(server or self.server, name, queue, int(LEASE * 1000),
                             program=SHELL_JOBS)
        del self.env["HEADWORKS_WORKER_TOKEN"]
        return process

    def push(self, name, command, queue="q"):
        self.hw("queue", "push", queue, json.dumps(command), "--id", name)

    def item(self, name, queue="q"):
        return self.json("queue", "show", queue, name)

    def until_is(self, name, state, queue="q"):
        self.until(lambda: self.item(name, queue)["state"] == state, f"{name} is {state}")

    def test_items_are_handled_and_failures_come_again(self):
        self.up()
        first, second = self.jobs("first"), self.jobs("second")
        self.hw("queue", "set", "q", "--backoff", "1ms")
        for i in range(20):
            self.push(f"i{i}", f"echo {i} >> done; sleep 0.1")
        self.push("again", "test -e again.here || { : > again.here; exit 1; }")
        for i in range(20):
            self.until_is(f"i{i}", "completed")
        self.until_is("again", "completed")
        self.assertEqual(self.item("again")["attempts"], 2)
        self.assertEqual(sorted(map(int, self.lines("done"))), list(range(20)))
        for each in (first, second):
            self.assertIn(" ended 0", self.text(each))
            each.send_signal(signal.SIGTERM)
            self.assertEqual(each.wait(harness.PATIENCE), 0, self.text(each))
            self.assertIn("left", self.text(each))

    def test_what_a_killed_program_had_goes_to_another_when_its_lease_ends(self):
        self.up()
        first = self.jobs("first")
        self.push("a", gated("a"))
        self.until_exists("a.here")
        self.assertEqual(self.item("a")["holder"], "first")
        self.kill(first)
        self.jobs("second")
        self.until(lambda: len(self.lines("a.here")) == 2, "the other one begins it")
        self.write("a.go", "")
        self.until_is("a", "completed")
        self.assertEqual((self.item("a")["attempts"], self.item("a")["holder"]), (2, "second"))

    def test_a_killed_engine_costs_nothing(self):
        self.up()
        worker = self.jobs()
        self.push("a", gated("a"))
        self.until_exists("a.here")
        self.kill(self.engine)
        self.until_said(worker, "a queue does not answer")
        self.write("a.go", "")
        self.until_said(worker, "a ended 0")
        self.up()
        self.until_is("a", "completed")
        self.assertEqual(self.item("a")["attempts"], 1)
        self.assertEqual(len(self.lines("a.here")), 1)
        self.push("b", "true")
        self.until_is("b", "completed")

    def test_an_engine_that_is_killed_while_a_handler_runs_hears_of_its_lease_again(self):
        self.up()
        self.jobs()
        self.push("a", gated("a"))
        self.until_exists("a.here")
        for i in range(3):
            self.kill(self.engine)
            self.up()
            self.push(f"n{i}", "true")
            self.until_is(f"n{i}", "completed")
        self.write("a.go", "")
        self.until_is("a", "completed")
        self.assertEqual(self.item("a")["attempts"], 1)

    def test_a_cut_network_fences_whoever_is_too_late(self):
        self.up()
        proxy = FaultProxy(self.server)
        self.addCleanup(proxy.close)
        cut = self.jobs("cut", server=proxy.address)
        self.push("a", gated("a"))
        self.until_exists("a.here")
        proxy.cut()
        self.until_said(cut, "the lease of an item is lost")
        other = self.jobs("other")
        self.until(lambda: len(self.lines("a.here")) == 2, "the other one begins it")
        self.write("a.go", "")
        self.until_is("a", "completed")
        self.until_said(cut, "what its handler says of it is dropped")
        proxy.join()
        # What waited for items on the cut connection may have been given it once more: an answer
        # that is lost costs an attempt.
        self.assertEqual(self.item("a")["holder"], "other")
        self.assertIn(self.item("a")["attempts"], (2, 3))
        self.assertIn("a ended 0", self.text(other))

    def test_who_drains_hands_back_and_uses_no_attempt(self):
        self.up()
        worker = self.jobs()
        self.push("a", gated("a"))
        self.until_exists("a.here")
        worker.send_signal(signal.SIGTERM)
        self.push("b", "true")
        self.write("a.go", "")
        self.assertEqual(worker.wait(harness.PATIENCE), 0, self.text(worker))
        self.assertEqual(self.item("a")["state"], "completed")
        self.assertEqual((self.item("b")["state"], self.item("b")["attempts"]), ("pending", 0))

    def test_a_token_is_for_its_queues_and_the_engines_are_nobodys(self):
        self.up()
        narrow = self.token("--queues", "mail")
        for queue, token, why in (("q", narrow, "wrong_queue"), ("q", "none", "worker token"),
                                  ("headworks-alerts", None, "the engine's own")):
            refused = self.jobs(queue=queue, token=token)
            self.assertEqual(refused.wait(harness.PATIENCE), 1, self.text(refused))
            self.assertIn(why, self.text(refused))
        self.jobs(queue="mail", token=narrow)
        self.push("m", "true", queue="mail")
        self.until_is("m", "completed", queue="mail")

    def test_a_whole_run_is_no_plain_item(self):
        self.up()
        flow = self.write("f.yaml", "version: 1\nname: f\ntasks:\n  a:\n    run: 'true'\n")
        self.hw("run", flow.name, "--to-queue", "q", "--start-key", "r")
        worker = self.jobs()
        self.assertEqual(worker.wait(harness.PATIENCE), 1, self.text(worker))
        self.assertIn("holds whole runs, as item 'r'", self.text(worker))
        self.assertEqual((self.item("r")["state"], self.item("r")["attempts"]), ("pending", 0))

    def test_a_worker_of_tasks_is_told_that_there_are_none(self):
        self.up()
        self.env["HEADWORKS_WORKER_TOKEN"] = self.token()
        refused = self.hw("worker", "--server", self.server, "--state-dir", self.dir / "w",
                          code=harness.REFUSED)
        self.assertIn("runs all tasks itself", refused.stderr)


def main():
    global SHELL_JOBS
    SHELL_JOBS = os.path.abspath(sys.argv.pop(2))
    harness.main()


if __name__ == "__main__":
    main()

"""Whole runs out of a queue: real runners, killed, stopped and drained."""
import os
import signal
import time

import harness
from harness import NOT_FOUND, OK, REFUSED, USAGE
from workers_test import gated


class RunnerTest(harness.Case):
    def flow(self, script):
        indented = "\n".join("      " + line for line in script.splitlines())
        return self.write("flow.yaml", f"version: 1\nname: flow\nparams: {{n: 1}}\ntasks:\n"
                          f"  first: {{run: 'echo ${{{{ params.n }}}} >> {self.dir}/first'}}\n"
                          f"  a:\n    needs: [first]\n    grace: 0s\n"
                          f"    run: |\n      cd {self.dir}\n{indented}\n")

    def push(self, script, key="k"):
        return self.hw("run", self.flow(script), "--to-queue", "q", "--start-key", key,
                       "-p", "n=2").stdout

    def runner(self, name, *args, lease="3s"):
        process = self.start("runner", "--queue", "q", "--name", name, "--state-dir", name,
                             "--lease", lease, *args)
        self.until_said(process, "takes runs from")
        return process

    def item(self, key="k"):
        return next(item for item in self.json("queue", "list", "q") if item["id"] == key)

    def completed(self):
        self.until(lambda: self.item()["state"] == "completed", "the item is acknowledged")

    def test_a_runner_that_is_killed_goes_on_where_it_was(self):
        self.assertIn("inserted", self.push(gated("a")))
        self.assertIn("duplicate", self.push(gated("a")))
        first = self.runner("one", lease="30s")
        self.until_exists("a.here")
        first.kill()
        first.wait()
        self.runner("one", lease="30s")
        self.until(lambda: len(self.lines("a.here")) == 2, "its task runs again")
        self.assertFalse(os.path.exists(f"/proc/{self.lines('a.here')[0]}"))
        self.write("a.go", "")
        self.completed()
        self.assertEqual(self.lines("first"), ["2"])
        self.assertEqual(self.item()["attempts"], 1, "under the same claim")

    def test_a_runner_that_is_stopped_leaves_nothing_running(self):
        self.push(f"trap '' TERM; {gated('a')}")
        stopped = self.runner("one")
        self.until_exists("a.here")
        task = self.lines("a.here")[0]
        stopped.send_signal(signal.SIGSTOP)
        self.runner("two")
        self.until(lambda: len(self.lines("a.here")) == 2, "another takes it up")
        self.assertFalse(os.path.exists(f"/proc/{task}"), "two run at once")
        stopped.send_signal(signal.SIGCONT)
        self.until_said(stopped, "stopped: ")
        self.write("a.go", "")
        self.completed()
        self.assertEqual(len(self.lines("a.here")), 2)
        self.assertIsNone(stopped.poll())

    def test_signals_are_heard_while_nobody_reads_the_output(self):
        self.push("echo hi")
        runner = self.start_unread("runner", "--queue", "q", "--name", "one", "--state-dir", "one")
        self.completed()
        self.leaves(runner, OK)

    def test_a_second_signal_hands_back_at_no_cost(self):
        self.push(gated("a"))
        runner = self.runner("one", lease="60s")
        self.until_exists("a.here")
        runner.terminate()
        self.until_said(runner, "takes nothing more")
        runner.terminate()
        self.assertIn("stopped: this runner leaves", self.ends(runner, OK))
        self.assertEqual((self.item()["state"], self.item()["attempts"]), ("pending", 0))
        self.write("a.go", "")
        self.runner("two")
        self.completed()

    def test_a_runner_without_room_leaves_its_items_to_others(self):
        disk = self.mount_disk("8m")
        poor = self.runner("disk/poor")
        self.fill_disk(disk)
        self.push("echo x >> done")
        self.until_said(poor, "stopped: ")
        self.runner("well")
        self.completed()
        self.assertEqual(self.item()["attempts"], 1)
        self.assertEqual(self.lines("done"), ["x"])

    def test_a_queue_without_room_is_told_once_it_has_some(self):
        disk = self.mount_disk("16m")
        self.env["HEADWORKS_STORE"] = str(disk / "headworks.db")
        self.push(gated("a"))
        runner = self.runner("one", lease="60s")
        self.until_exists("a.here")
        self.fill_disk(disk)
        self.until_said(runner, "a claim was not extended")
        self.write("a.go", "")
        self.until_said(runner, "run succeeded")
        time.sleep(1)  # tidy-allow(sleep): so long it has no room, at least
        (disk / "filler").unlink()
        self.completed()
        self.assertEqual(self.item()["attempts"], 1)
        self.assertEqual(len(self.lines("a.here")), 1)
        self.assertNotIn("was not heard", self.text(runner))

    def test_a_runner_needs_a_supervisor(self):
        said = self.hw("runner", "--queue", "q", "--name", "r", "--state-dir", "r",
                       "--supervisor-path", "/nonexistent", code=USAGE).stderr
        self.assertIn("supervisor_path /nonexistent is not an executable file", said)

    def test_an_item_that_is_cancelled_cancels_its_run(self):
        self.push(gated("a"))
        runner = self.runner("one")
        self.until_exists("a.here")
        self.hw("queue", "cancel", "q", "k")
        self.until_said(runner, "run cancelled")
        self.until(lambda: self.item()["state"] == "cancelled", "the item is cancelled")

    def test_what_is_wrong_is_said(self):
        flow = self.flow("true")
        for args, part in ((["--queue", "q=0"], "not a number from 1 to 64"),
                           (["--queue", "q=65"], "not a number from 1 to 64"),
                           (["--queue", "a b"], "a b"), (["--lease", "2999ms"], "give 3.0s to"),
                           (["--lease", "x"], "--lease"), (["--keep", "59m"], "give 1h00m"),
                           (["--drain-timeout", "x"], "--drain-timeout"),
                           (["--command-executor", "queue"], "by executor process")):
            self.assertIn(part, self.hw("runner", *args, code=USAGE).stderr, args)
        self.runner("one")
        again = self.hw("runner", "--state-dir", "one", code=REFUSED)
        self.assertIn("another runner uses", again.stderr)
        self.hw("run", flow, "--to-queue", "q", "-p", "m=1", code=USAGE)
        for name in ("a b", ""):
            self.hw("run", flow, "--to-queue", name, code=USAGE)
        self.hw("run", flow, "--to-queue", "q", "--detach", code=USAGE)
        self.hw("run", "none.yaml", "--to-queue", "q", code=NOT_FOUND)
        self.write("near.yaml", "version: 1\ntasks:\n  a: {run: 'true', cwd: here}\n")
        self.assertIn("give absolute paths",
                      self.hw("run", "near.yaml", "--to-queue", "q", code=USAGE).stderr)


if __name__ == "__main__":
    harness.main()

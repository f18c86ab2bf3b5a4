"""Several processes on one store, signals, kill -9."""
import os
import signal

import harness
from harness import (FAILED, INTERRUPTED, NOT_FOUND, OK, TERMINATED, Case, gate)


def flow(name, *tasks):
    """Tasks in a row; each leaves a line "task epoch" behind, then does what it is given."""
    text = f"version: 1\nname: {name}\ntasks:\n"
    before = None
    for task, script in tasks:
        text += f"  {task}:\n    run: |\n      echo {task}:$HEADWORKS_EPOCH >> ran\n      {script}\n"
        text += f"    needs: [{before}]\n" if before else ""
        before = task
    return text


class SeveralProcessesTest(Case):
    def test_second_run_follows_the_owner(self):
        self.write("slow.yaml", flow("slow", ("a", gate("a"))))
        self.write("quick.yaml", flow("quick", ("q", "echo from quick")))
        owner = self.start("run", "slow.yaml")
        self.until_exists("a.here")
        done = self.hw("run", "quick.yaml")
        self.assertIn("another process is the engine", done.stderr)
        self.assertIn("q | from quick", done.stdout)
        self.assertRegex(done.stdout, r"run \d+ of quick succeeded")
        self.assertIsNone(owner.poll())
        self.write("a.go", "")
        self.ends(owner, OK)

    def test_follower_takes_over_when_the_owner_is_killed(self):
        self.write("slow.yaml", flow("slow", ("a", gate("a"))))
        self.write("other.yaml", flow("other", ("b", gate("b")), ("c", "echo end")))
        owner = self.start("run", "slow.yaml")
        self.until_exists("a.here")
        follower = self.start("run", "other.yaml")
        self.until_exists("b.here")
        owner.kill()
        owner.wait()
        self.until_said(follower, "takes over")
        self.write("a.go", "")
        self.write("b.go", "")
        self.assertRegex(self.ends(follower, OK), r"run \d+ of other succeeded")

    def test_start_is_taken_over_when_the_owner_never_answers(self):
        self.write("slow.yaml", flow("slow", ("a", gate("a"))))
        self.write("quick.yaml", flow("quick", ("q", "echo from quick")))
        owner = self.start("run", "slow.yaml")
        self.until_exists("a.here")
        owner.send_signal(signal.SIGSTOP)
        asked = self.start("run", "quick.yaml")
        self.until_said(asked, "another process is the engine")
        owner.kill()
        owner.wait()
        self.assertRegex(self.ends(asked, OK), r"run \d+ of quick succeeded")
        self.assertEqual(len(self.json("runs", "list", "--workflow", "quick")), 1)

    def test_file_that_is_edited_while_it_runs_changes_later_runs_only(self):
        self.write("w.yaml", flow("w", ("a", gate("a")), ("b", "echo old")))
        runner = self.start("run", "w.yaml")
        self.until_exists("a.here")
        self.write("w.yaml", flow("w", ("a", "echo quick"), ("b", "echo new")))
        self.hw("run", "w.yaml")
        self.write("a.go", "")
        self.assertIn("b | old", self.ends(runner, OK))
        self.assertEqual(self.hw("runs", "logs", "@last", "b").stdout, "new\n")
        versions = [run["version"] for run in self.json("runs", "list")]
        self.assertNotEqual(versions[0], versions[1])


class SignalTest(Case):
    def test_interrupt_cancels_cleanly(self):
        self.write("slow.yaml", flow("slow", ("a", gate("a")), ("b", "true")))
        runner = self.start("run", "slow.yaml")
        self.until_exists("a.here")
        runner.send_signal(signal.SIGINT)
        text = self.ends(runner, FAILED)
        self.assertIn("cancelling run 1 (Ctrl-C again leaves at once)", text)
        self.assertIn("run 1 of slow cancelled", text)
        self.assertEqual(self.states(), {"a": "cancelled", "b": "cancelled"})

    def test_second_interrupt_leaves_at_once_and_says_how_to_go_on(self):
        # TERM does not end it, so that only leaving can.
        self.write("slow.yaml", flow("slow", ("a", f"trap '' TERM; {gate('a')}"), ("b", "true")))
        runner = self.start("run", "slow.yaml")
        self.until_exists("a.here")
        runner.send_signal(signal.SIGINT)
        self.until_said(runner, "cancelling")
        runner.send_signal(signal.SIGINT)
        text = self.ends(runner, INTERRUPTED)
        self.assertIn("headworks up", text)
        self.assertIn("headworks runs rerun 1 --failed", text)
        self.write("a.go", "")
        self.assertIn("cancelled", self.hw("run", "slow.yaml", "--resume", code=FAILED).stdout)
        self.assertIn("run 1 of slow succeeded", self.hw("runs", "rerun", "1", "--failed").stdout)

    def test_terminate_drains_and_the_run_goes_on_later(self):
        self.write("slow.yaml", flow("slow", ("a", gate("a")), ("b", "echo end")))
        runner = self.start("run", "slow.yaml")
        self.until_exists("a.here")
        runner.send_signal(signal.SIGTERM)
        self.until_said(runner, "terminated: waiting up to")
        self.write("a.go", "")
        self.assertIn("headworks up", self.ends(runner, TERMINATED))
        self.assertEqual(self.states()["a"], "succeeded")
        self.assertNotIn(self.run_state(), ("succeeded", "failed", "cancelled"))
        self.hw("run", "slow.yaml", "--resume")
        self.assertEqual([line.split(":")[0] for line in self.lines("ran")], ["a", "b"],
                         "what ended while draining is not repeated")

    def test_terminated_follower_leaves_the_run_to_the_engine(self):
        self.write("slow.yaml", flow("slow", ("a", gate("a"))))
        self.engine_up()
        follower = self.start("run", "slow.yaml")
        self.until_exists("a.here")
        follower.send_signal(signal.SIGTERM)
        self.assertIn("the engine goes on", self.ends(follower, TERMINATED))
        self.write("a.go", "")
        self.until(lambda: self.run_state() == "succeeded", "the engine finishes it")


class KillTest(Case):
    """Each task is effective once: it succeeded in one attempt, and no epoch ran twice."""

    def setUp(self):
        super().setUp()
        self.write("w.yaml", flow("w", ("a", "true"), ("b", gate("b")), ("c", "true")))

    def kill_in_the_middle(self, *args):
        runner = self.start("run", "w.yaml", *args)
        self.until_exists("b.here")
        runner.kill()
        runner.wait()
        self.write("b.go", "")

    def check(self):
        run = self.json("runs", "show", "1")
        self.assertEqual({task["state"] for task in run["tasks"]}, {"succeeded"})
        succeeded = [attempt["task"] for attempt in run["attempts"]
                     if attempt["verdict"] == "succeeded"]
        self.assertEqual(sorted(succeeded), ["a", "b", "c"])
        ran = self.lines("ran")
        self.assertEqual(len(ran), len(set(ran)), f"an epoch ran twice: {ran}")
        self.assertEqual([line.split(":")[0] for line in ran], ["a", "b", "b", "c"])
        self.assertEqual(next(t for t in run["tasks"] if t["task"] == "b")["tries"], 1,
                         "a crash costs a loss, not a try")

    def test_resume_finishes_the_run(self):
        self.kill_in_the_middle()
        self.assertIn("run 1 of w succeeded", self.hw("run", "w.yaml", "--resume").stdout)
        self.check()
        self.hw("run", "w.yaml", "--resume", code=NOT_FOUND)

    def test_up_finishes_the_run(self):
        self.kill_in_the_middle()
        engine = self.engine_up()
        self.until(lambda: self.run_state() == "succeeded", "the engine finishes it")
        self.check()
        engine.send_signal(signal.SIGTERM)
        self.ends(engine, OK)

    def test_lost_attempt_that_printed_had_started(self):
        self.write("p.yaml", flow("p", ("b", "echo hello; " + gate("b"))))
        runner = self.start("run", "p.yaml")
        self.until_exists("b.here")
        self.until(lambda: self.hw("runs", "logs", "1").stdout == "b | hello\n", "its line is kept")
        runner.kill()
        runner.wait()
        self.write("b.go", "")
        self.hw("run", "p.yaml", "--resume")
        lost, done = self.json("runs", "show", "1")["attempts"]
        self.assertEqual((lost["verdict"], done["verdict"]), ("lost", "succeeded"))
        for attempt in (lost, done):
            self.assertTrue(attempt["queued_at"] <= attempt["started_at"] <= attempt["ended_at"],
                            attempt)
        self.assertLessEqual(lost["ended_at"], done["queued_at"])

    def test_same_start_key_goes_on_with_the_run(self):
        self.kill_in_the_middle("--start-key", "k")
        done = self.hw("run", "w.yaml", "--start-key", "k")
        self.assertIn("run 1 of w succeeded", done.stdout)
        self.check()

    def test_new_run_leaves_the_old_one_alone_and_says_so(self):
        self.kill_in_the_middle()
        done = self.hw("run", "w.yaml")
        self.assertIn("1 unfinished run in this store is left alone, ", done.stderr)
        self.assertEqual(self.run_state("1"), "running")
        self.assertEqual(self.run_state("@last"), "succeeded")

    def test_cancel_without_an_engine_is_applied(self):
        self.kill_in_the_middle()
        self.hw("runs", "cancel", "1")
        self.until(lambda: self.run_state("1") == "cancelled" or self.cancelled_by_up(),
                   "the run ends cancelled")
        self.assertEqual(self.states("1")["c"], "cancelled")

    def cancelled_by_up(self):
        self.hw("run", "w.yaml", "--resume", code=FAILED)
        return self.run_state("1") == "cancelled"


if __name__ == "__main__":
    harness.main()

"""Alerts: the command and the queue that hear of dead letters, failed tasks and stuck runs."""
import json
import os
import signal
import sqlite3
import time

import harness
from harness import FAILED, OK, PATIENCE, ROOT, UNAVAILABLE, USAGE

# Appends the alert as one line, at once; so much for what an operator's script would send.
HEAR = 'printf "%s\\n" "$(cat)" >> heard; echo "$ALERT_KIND $ALERT_TENANT" >> kinds'


class AlertsTest(harness.Case):
    def up(self, command=HEAR, *args):
        return self.engine_up("--alert-command", command, *args)

    def heard(self):
        path = self.dir / "heard"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def until_heard(self, count):
        self.until(lambda: len(self.heard()) >= count, f"{count} alerts; there are {self.heard()}")
        return self.heard()

    def kill_item(self, queue="mail", reason="smtp password=hunter2 refused"):
        """An item whose one delivery fails."""
        self.hw("queue", "push", queue, '{"to": "ann"}', "--max-attempts", "1")
        item, = self.json("queue", "pull", queue)
        self.hw("queue", "nack", queue, item["claim"], "--reason", reason)
        return item["id"]

    def first(self):
        """The oldest alert, as far as there is one."""
        return (self.json("alerts", "list") or [{"state": "", "reason": ""}])[0]

    def leave(self, engine):
        engine.send_signal(signal.SIGTERM)
        self.ends(engine, OK)

    def workflow(self, body):
        return self.write("job.yaml", f"version: 1\nname: job\ntasks:\n{body}")

    def test_dead_letter_is_told_to_the_command(self):
        self.up()
        item = self.kill_item()
        told, = self.until_heard(1)
        self.assertEqual({key: told[key] for key in ("alert", "tenant", "queue", "item", "attempts",
                                                     "reason")},
                         {"alert": "dead_letter", "tenant": "public", "queue": "mail", "item": item,
                          "attempts": 1, "reason": "smtp password=*** refused"})
        self.assertEqual(self.lines("kinds"), ["dead_letter", "public"])
        self.until(lambda: self.first()["state"] == "completed", "it is done")

    def test_lease_that_ends_the_last_time_is_told(self):
        self.up()
        self.hw("queue", "push", "mail", "1", "--id", "m1", "--max-attempts", "1")
        self.json("queue", "pull", "mail", "--visibility", "100ms")
        self.assertEqual(self.until_heard(1)[0]["item"], "m1")

    def test_task_out_of_tries_is_told_at_once_and_others_are_not(self):
        self.workflow("""\
  bad: {run: "echo oh >&2; exit 3", retry: {max_attempts: 2, initial: 10ms}}
  after_bad: {run: "true", needs: bad}
  may: {run: "exit 1", allow_failure: true}
  never: {run: "true", when: "1 > 2"}
  slow: {run: "while [ ! -e go ]; do sleep 0.05; done"}
""")
        engine = self.up()
        run = self.start("run", "job.yaml")
        told, = self.until_heard(1)  # while the run goes on
        (self.dir / "go").touch()
        self.ends(run, FAILED)
        shown = self.json("runs", "show", "@last")
        self.assertEqual({key: told[key] for key in told if key not in ("id", "at")},
                         {"alert": "task_failed", "tenant": "public", "package": "local",
                          "workflow": "job", "run": 1, "run_id": shown["id"], "task": "bad",
                          "map_index": -1, "try": 2, "budget": "tries", "reason": "exit_code",
                          "error": "exit code 3"} | {"package": told["package"]})
        self.leave(engine)
        self.assertEqual(len(self.heard()), 1)

    def test_lost_budget_is_told(self):
        self.workflow("""\
  t: {run: "touch here; sleep 600", retry: {max_losses: 1}}
""")
        engine = self.up()
        self.hw("run", "job.yaml", "--detach")
        self.until_exists("here")
        os.kill(engine.pid, signal.SIGKILL)
        engine.wait()
        self.up()
        told, = self.until_heard(1)
        self.assertEqual((told["task"], told["budget"], told["reason"]), ("t", "losses", "lost"))

    def test_what_died_without_an_engine_is_told_by_the_next_one_and_only_once(self):
        item = self.kill_item()
        engine = self.up()
        self.assertEqual(self.until_heard(1)[0]["item"], item)
        self.leave(engine)
        engine = self.up()
        other = self.kill_item()
        self.assertEqual(self.until_heard(2)[1]["item"], other)
        self.leave(engine)
        self.assertEqual(len(self.heard()), 2)

    def test_kill_9_loses_no_alert(self):
        """Engines are killed at any point between the failure and the end of its command."""
        self.workflow('  t: {run: "exit 1"}\n')
        slow = 'cat > now; sleep 0.1; ' + HEAR.replace("$(cat)", "$(cat now)")
        expected = set()
        for turn in range(6):
            engine = self.up(slow)
            self.hw("run", "job.yaml", "--detach", "--start-key", f"k{turn}")
            expected.add(self.kill_item(f"q{turn}"))
            run = turn + 1
            self.until(lambda: self.json("runs", "show", str(run))["state"] == "failed",
                       f"run {run} fails")
            time.sleep(0.05 * turn)  # tidy-allow(sleep): when the kill comes is what differs
            os.kill(engine.pid, signal.SIGKILL)
            engine.wait()
        self.up(slow)

        def all_told():
            told = self.heard()
            return (expected <= {a.get("item") for a in told} and
                    set(range(1, 7)) <= {a.get("run") for a in told})
        self.until(all_told, "every failure is told")
        self.until(lambda: not [a for a in self.json("alerts", "list")
                                if a["state"] != "completed"], "every alert is done")

    def test_hanging_command_is_ended_with_all_its_processes(self):
        # It ignores TERM, and leaves a child.
        self.up('trap "" TERM; echo x >> begun; sleep 600 & echo $! >> children; wait; wait',
                "--alert-timeout", "300ms")
        self.kill_item()
        self.until(lambda: self.first()["reason"], "it has failed once")
        alert, = self.json("alerts", "list")
        self.assertIn("timed out after 300ms", alert["reason"])
        child = int(self.lines("children")[0])
        with self.assertRaises(ProcessLookupError):
            os.kill(child, 0)

    def test_nothing_of_a_command_outlives_its_engine(self):
        engine = self.up("echo $$ >> begun; exec sleep 600")
        self.kill_item()
        self.until_exists("begun")
        pid = int(self.until(lambda: self.lines("begun"), "it says its pid")[0])
        os.kill(engine.pid, signal.SIGKILL)
        engine.wait()

        def gone():
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return True
            return False
        self.until(gone, "the command is gone")

    def test_leaving_stops_a_hanging_command_and_the_next_engine_runs_it_again(self):
        engine = self.up("echo x >> begun; exec sleep 600", "--drain-timeout", "200ms")
        self.kill_item()
        self.until_exists("begun")
        self.leave(engine)
        self.up()
        self.until_heard(1)
        self.until(lambda: self.first()["state"] == "completed", "it is done")
        self.assertEqual(self.json("alerts", "list")[0]["attempts"], 1)

    def test_failing_command_is_tried_again_and_says_why(self):
        self.up('echo x >> tries; echo "no route, token=abc" >&2; [ $(wc -l < tries) -gt 2 ]')
        self.kill_item()
        self.until(lambda: self.first()["reason"] == "exit code 1\nno route, token=***",
                   "it says why")
        self.until(lambda: self.first()["state"] == "completed", "it succeeds")
        alert, = self.json("alerts", "list")
        self.assertEqual((len(self.lines("tries")), alert["attempts"]), (3, 3))

    def test_storm_is_told_in_sums_by_one_command_at_a_time(self):
        self.hw("queue", "set", "mail", "--max-attempts", "1")
        self.hw("queue", "push", "mail", "-", "--lines", input="1\n" * 5_000)
        while items := self.json("queue", "pull", "mail", "--max", "1000"):
            self.hw("queue", "nack", "mail", *(item["claim"] for item in items))
        self.up('mkdir busy || echo two at once >> heard; ' + HEAR + '; rmdir busy')

        def told():
            return sum(a["count"] if a["alert"] == "summary" else 1 for a in self.heard())
        self.until(lambda: told() == 5_000, "all are told")
        self.assertLess(len(self.heard()), 40)
        self.assertLessEqual(max(len(a.get("alerts", [])) for a in self.heard()), 10)
        self.assertEqual(self.heard()[0]["kinds"].keys(), {"dead_letter"})

    def test_alerts_are_items_of_a_queue_and_never_about_themselves(self):
        self.hw("queue", "set", "ops", "--max-attempts", "1")
        self.env["HEADWORKS_ALERT_QUEUE"] = "ops"
        engine = self.engine_up()
        item = self.kill_item()
        pulled, = self.until(lambda: self.json("queue", "pull", "ops"), "the alert comes")
        self.assertEqual((pulled["payload"]["alert"], pulled["payload"]["item"]),
                         ("dead_letter", item))
        self.hw("queue", "nack", "ops", pulled["claim"])  # the alert dies
        second = self.kill_item()
        pulled, = self.until(lambda: self.json("queue", "pull", "ops"), "the next alert comes")
        self.assertEqual(pulled["payload"]["item"], second)
        self.leave(engine)
        self.assertEqual(self.json("queue", "stats", "ops")["enqueued"], 2)
        self.assertEqual([(a["queue"], a["state"]) for a in self.json("alerts", "list")],
                         [("ops", "dead"), ("ops", "processing")])

    def test_command_and_queue_both_hear(self):
        self.up(HEAR, "--alert-queue", "ops")
        self.kill_item()
        self.until_heard(1)
        self.assertEqual(len(self.until(lambda: self.json("queue", "pull", "ops"), "it comes")), 1)

    def test_every_tenant_is_told_of_its_own(self):
        engine = self.up(HEAR, "--alert-queue", "ops")
        self.env["HEADWORKS_TENANT"] = "acme"
        self.kill_item()
        self.assertEqual(self.until_heard(1)[0]["tenant"], "acme")
        self.assertEqual(self.lines("kinds"), ["dead_letter", "acme"])
        pulled, = self.until(lambda: self.json("queue", "pull", "ops"), "the alert is acme's")
        self.assertEqual(pulled["payload"]["tenant"], "acme")
        del self.env["HEADWORKS_TENANT"]
        self.assertEqual(self.json("queue", "list"), [])
        self.leave(engine)

    def test_run_of_its_own_tells_before_it_leaves(self):
        self.workflow('  t: {run: "exit 1"}\n')
        self.hw("run", "job.yaml", "--alert-command", HEAR, code=FAILED)
        self.assertEqual([a["task"] for a in self.heard()], ["t"])

    def test_stuck_run_is_told(self):
        self.workflow(f"  t: {{run: '{harness.gate('t')}'}}\n")
        engine = self.up()
        self.hw("run", "job.yaml", "--detach")
        self.until_exists("t.here")
        self.leave_stuck()
        (self.dir / "t.go").touch()
        told, = self.until_heard(1)
        self.assertEqual((told["alert"], told["run"], told["workflow"]), ("run_stuck", 1, "job"))
        self.assertTrue(told["reason"])
        self.leave(engine)

    def leave_stuck(self):
        """Makes the rows of the run such that its next round cannot be committed."""
        db = sqlite3.connect(self.store)
        db.execute("DELETE FROM task")
        db.commit()
        db.close()

    def test_test_alert_says_what_came_of_it(self):
        said = self.hw("alerts", "test", code=USAGE)
        self.assertIn("set alert_command or alert_queue", said.stderr)
        self.env["HEADWORKS_ALERT_COMMAND"] = HEAR
        self.env["HEADWORKS_ALERT_QUEUE"] = "ops"
        said = self.hw("alerts", "test", code=UNAVAILABLE)
        self.assertIn("no engine is running", said.stdout)
        self.assertIn("the test alert is in queue ops (pending)", said.stdout)
        engine = self.engine_up()
        self.assertEqual(self.until_heard(1)[0]["alert"], "test")
        self.assertIn("the alert command succeeded", self.hw("alerts", "test").stdout)
        told = self.heard()[1]
        self.assertRegex(told["by"], ".+@.+")
        self.leave(engine)
        self.env["HEADWORKS_ALERT_COMMAND"] = "cat; exit 7"
        self.engine_up()
        ways = self.json("alerts", "test", code=FAILED)
        self.assertEqual([(w["way"], w["state"]) for w in ways],
                         [("command", "dead"), ("queue", "pending")])
        self.assertTrue(ways[0]["reason"].startswith("exit code 7"), ways)
        shown = self.hw("alerts", "list", "--limit", "2").stdout
        self.assertRegex(shown, r"test:\S+ +headworks-alerts +dead +1 ")
        self.assertEqual(len(shown.splitlines()), 3)

    def test_alerts_list_is_empty_where_there_are_none(self):
        self.hw("queue", "push", "mail", "1")
        self.assertIn("no alerts", self.hw("alerts", "list").stderr)
        self.assertEqual(self.json("alerts", "list"), [])

    def test_where_none_are_wanted_there_are_none(self):
        self.workflow('  t: {run: "exit 1"}\n')
        engine = self.engine_up()
        self.kill_item()
        self.hw("run", "job.yaml", code=FAILED)
        children = open(f"/proc/{engine.pid}/task/{engine.pid}/children").read().split()
        self.leave(engine)
        self.assertEqual([q["queue"] for q in self.json("queue", "list")], ["mail"])
        self.assertEqual(len(children), 1)  # the supervisor of tasks
        self.assertFalse((self.dir / "state" / "headworks.db-state" / "alerts").exists())

    def test_settings_are_checked(self):
        for flag, bad, says in (("--alert-queue", "headworks-alerts", "wait for the command"),
                                ("--alert-queue", "two words", "cannot name a queue"),
                                ("--alert-timeout", "99ms", "at least 100ms"),
                                ("--alert-timeout", "61m", "at most 1h")):
            self.assertIn(says, self.hw("up", flag, bad, code=USAGE).stderr)


if __name__ == "__main__":
    harness.main()

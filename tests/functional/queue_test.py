"""Durable queues from the command line, as people and scripts use them."""
import json
import pathlib
import signal
import sqlite3
import subprocess
import threading
import time

import harness
from harness import NOT_FOUND, OK, REFUSED, UNAVAILABLE, USAGE


class QueueTest(harness.Case):
    def queue(self, *args, **keywords):
        return self.json("queue", *args, **keywords)

    def pull(self, queue="mail", *args):
        return self.queue("pull", queue, *args)

    def test_item_is_pushed_pulled_and_acknowledged(self):
        self.hw("pool", "set", "gpu", "1")
        self.assertIn("no queues", self.hw("queue", "list").stderr)
        self.assertEqual(self.queue("push", "mail", '{"to": "ann"}', "--id", "m1"),
                         [{"id": "m1", "state": "inserted"}])
        self.assertEqual(self.hw("queue", "push", "mail", '{"to": "ann"}', "--id", "m1").stdout,
                         "m1 duplicate\n")
        said = self.hw("queue", "push", "mail", '{"to": "bob"}', "--id", "m1")
        self.assertEqual(said.stdout, "m1 duplicate_differs\n")
        self.assertIn("another payload was dropped", said.stderr)
        item, = self.pull("mail", "--visibility", "1m", "--holder", "me")
        self.assertEqual((item["id"], item["payload"], item["attempt"], item["lease"]),
                         ("m1", {"to": "ann"}, 1, 60.0))
        self.assertEqual(self.queue("show", "mail", "m1")["holder"], "me")
        self.assertIn("nothing to pull", self.hw("queue", "pull", "mail").stderr)
        self.assertEqual(self.queue("ack", "mail", item["claim"]),
                         [{"claim": item["claim"], "state": "completed"}])
        self.hw("queue", "ack", "mail", item["claim"])
        said = self.hw("queue", "nack", "mail", item["claim"], code=REFUSED)
        self.assertIn("settled already", said.stderr)
        stats = self.queue("stats", "mail")
        self.assertEqual((stats["enqueued"], stats["completed"], stats["differing"]), (1, 1, 1))
        self.assertEqual(self.queue("push", "mail", "1", "--id", "m1")[0]["state"],
                         "duplicate_differs")

    def test_payload_comes_from_a_file_or_standard_input_and_lines_are_items(self):
        self.write("mail.json", '{"n": 1}')
        self.hw("queue", "push", "mail", "@mail.json", "--id", "file")
        self.hw("queue", "push", "mail", "-", "--id", "stdin", input="[1, 2]\n")
        said = self.hw("queue", "push", "mail", "-", "--lines", "--priority", "5",
                       input="".join(f'{{"n": {n}}}\n' for n in range(1_500)) + "\n")
        self.assertEqual(len(said.stdout.splitlines()), 1_500)
        self.assertEqual(self.queue("stats", "mail")["pending"], 1_502)
        items = self.pull("mail", "--max", "1000") + self.pull("mail", "--max", "1000")
        self.assertEqual([i["payload"] for i in items],
                         [{"n": n} for n in range(1_500)] + [{"n": 1}, [1, 2]])
        for bad in ("{", "nul", ""):
            self.assertIn("payload", self.hw("queue", "push", "mail", bad, code=USAGE).stderr)
        self.hw("queue", "push", "mail", "@none.json", code=NOT_FOUND)
        self.hw("queue", "push", "mail", "-", "--lines", "--id", "x", code=USAGE, input="1")

    def test_item_of_8_mib_is_taken_and_a_byte_more_is_refused(self):
        largest = '"' + "x" * ((8 << 20) - 2) + '"'
        self.hw("queue", "push", "mail", "-", input=largest)
        self.assertEqual(len(self.pull()[0]["payload"]), (8 << 20) - 2)
        said = self.hw("queue", "push", "mail", "-", input=largest + " ", code=USAGE)
        self.assertIn("8388608 bytes", said.stderr)

    def test_failed_items_come_again_and_end_as_dead_letters(self):
        self.hw("queue", "set", "mail", "--max-attempts", "2", "--backoff", "0s")
        self.hw("queue", "push", "mail", "1", "--id", "a")
        self.hw("queue", "push", "mail", "2", "--id", "b", "--max-attempts", "1")
        a, b = self.pull("mail", "--max", "2")
        self.assertEqual(self.queue("nack", "mail", a["claim"], b["claim"], "--reason",
                                    "smtp password=hunter2 refused"),
                         [{"claim": a["claim"], "state": "pending"},
                          {"claim": b["claim"], "state": "dead"}])
        dead, = self.queue("dead", "mail")
        self.assertEqual((dead["id"], dead["reason"]), ("b", "smtp password=*** refused"))
        self.assertEqual(self.queue("list", "mail", "--state", "dead,pending")[0]["id"], "a")
        self.hw("queue", "redrive", "mail", code=USAGE)
        self.assertEqual(self.queue("redrive", "mail", "b")["items"], 1)
        self.assertEqual(self.queue("redrive", "mail", "b")["items"], 0)
        self.assertEqual(self.queue("redrive", "mail", "--all")["items"], 0)
        a, b = self.pull("mail", "--max", "2")
        self.assertEqual((a["attempt"], b["attempt"]), (2, 1))
        self.hw("queue", "nack", "mail", a["claim"], "--hand-back")
        self.hw("queue", "nack", "mail", b["claim"], "--delay", "1h")
        self.assertEqual([i["attempt"] for i in self.pull("mail", "--max", "2")], [2])
        self.hw("queue", "nack", "mail", a["claim"], "--hand-back", "--reason", "x", code=USAGE)
        for flags in (["--hand-back"], ["--delay", "1s"]):
            self.hw("queue", "nack", "mail", a["claim"], "--reject", *flags, code=USAGE)

    def test_a_reject_is_dead_with_attempts_left(self):
        self.hw("queue", "push", "mail", "1", "--id", "a", "--max-attempts", "9")
        claim = self.pull()[0]["claim"]
        self.assertEqual(self.queue("nack", "mail", claim, "--reject", "--reason", "no mailbox"),
                         [{"claim": claim, "state": "dead"}])
        dead, = self.queue("dead", "mail")
        self.assertEqual((dead["id"], dead["reason"]), ("a", "no mailbox"))

    def test_dead_letters_are_found_by_reason_and_age(self):
        self.hw("queue", "set", "mail", "--max-attempts", "1")
        for reason in ("timeout of db", "timeout of http", "bad input"):
            self.hw("queue", "push", "mail", "1")
            self.hw("queue", "nack", "mail", self.pull()[0]["claim"], "--reason", reason)
        self.assertEqual(len(self.queue("dead", "mail", "--reason", "timeout")), 2)
        self.assertEqual(len(self.queue("dead", "mail", "--older-than", "1h")), 0)
        page = self.queue("dead", "mail", "--limit", "2")
        self.assertEqual(len(page), 2)
        self.assertEqual(len(self.queue("dead", "mail", "--after", page[-1]["item"])), 1)
        self.assertEqual(self.queue("redrive", "mail", "--reason", "http")["items"], 1)
        # Any age is no filter.
        for command in ("purge", "redrive"):
            said = self.hw("queue", command, "mail", "--older-than", "0s", code=USAGE).stderr
            self.assertIn("say --all if that is meant", said)
        self.assertEqual(self.queue("purge", "mail", "--state", "dead")["items"], 2)
        self.hw("queue", "purge", "mail", "--state", "processing", code=USAGE)
        self.hw("queue", "list", "mail", "--state", "lost", code=USAGE)

    def test_claims_are_fenced(self):
        self.hw("queue", "push", "mail", "1")
        first = self.pull("mail", "--visibility", "50ms")[0]["claim"]
        self.until(lambda: self.pull("mail", "--visibility", "1h"), "the lease ends")
        for command in (["ack"], ["nack"], ["extend"]):
            said = self.hw("queue", *command, "mail", first, code=REFUSED)
            self.assertIn("holds it no more", said.stderr)
        second = self.queue("list", "mail", "--state", "processing")[0]
        self.assertEqual(second["attempts"], 2)
        self.hw("queue", "ack", "mail", "nonsense", code=USAGE)
        self.hw("queue", "ack", "mail", "999-1", code=NOT_FOUND)
        self.hw("queue", "ack", "none", first, code=NOT_FOUND)

    def test_lease_is_extended_and_cancel_is_told_by_it(self):
        for name in ("a", "b"):
            self.hw("queue", "push", "mail", "1", "--id", name)
        item, = self.pull("mail", "--visibility", "10m")
        self.assertEqual(self.queue("extend", "mail", item["claim"], "--visibility", "20m"),
                         [{"claim": item["claim"], "state": "processing"}])
        self.assertEqual(self.queue("cancel", "mail", "a", "b"),
                         [{"id": "a", "state": "processing"}, {"id": "b", "state": "cancelled"}])
        said = self.hw("queue", "extend", "mail", item["claim"], code=REFUSED)
        self.assertIn("shall be cancelled", said.stderr)
        self.assertEqual(self.queue("nack", "mail", item["claim"])[0]["state"], "cancelled")
        self.hw("queue", "cancel", "mail", "c", code=NOT_FOUND)

    def test_paused_queue_gives_nothing_until_it_is_resumed(self):
        self.hw("queue", "pause", "mail", code=NOT_FOUND)
        self.hw("queue", "push", "mail", "1")
        self.hw("queue", "pause", "mail")
        self.assertIn("is paused", self.hw("queue", "pull", "mail").stderr)
        self.assertEqual(self.queue("list")[0]["paused"], True)
        waiting = self.start("queue", "pull", "mail", "--wait", "1m")
        self.hw("queue", "resume", "mail")
        self.assertIn("1/3", self.ends(waiting, OK))

    def test_id_in_brackets_is_one_id(self):
        for name in ("a", "b", "[a,b]"):
            self.hw("queue", "push", "mail", "1", "--id", name)
        self.assertEqual(self.queue("cancel", "mail", "[a,b]"),
                         [{"id": "[a,b]", "state": "cancelled"}])
        self.assertEqual(self.queue("purge", "mail", "[a,b]", "b")["items"], 1)
        self.assertEqual(self.queue("show", "mail", "a")["state"], "pending")

    def test_what_was_pulled_and_not_read_is_handed_back(self):
        self.hw("queue", "push", "mail", "1", "--id", "a")
        with open("/dev/full", "w") as full:
            done = subprocess.run([self.program, "queue", "pull", "mail"], env=self.env,
                                  stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, UNAVAILABLE)
        self.assertIn("1 items were handed back to queue mail", done.stderr)
        self.assertEqual(self.pull("mail")[0]["attempt"], 1)

    def test_lines_are_checked_before_the_first_is_stored(self):
        lines = self.dir / "lines"
        lines.write_text("1\n" * 1_000 + "  \r\n" + "{\n")
        said = self.hw("queue", "push", "mail", f"@{lines}", "--lines", code=USAGE).stderr
        self.assertIn("line 1002: ", said)
        self.hw("queue", "list", code=NOT_FOUND)
        lines.write_text("1\n" * 1_500)
        self.hw("queue", "set", "mail", "--max-depth", "1200")
        done = self.hw("queue", "push", "mail", f"@{lines}", "--lines", code=UNAVAILABLE)
        self.assertEqual(len(done.stdout.splitlines()), 1_000)
        for nothing in ("", "\n \n"):
            lines.write_text(nothing)
            self.hw("queue", "push", "mail", f"@{lines}", "--lines", code=USAGE)
        self.hw("queue", "push", "mail", f"@{self.dir}", "--lines", code=UNAVAILABLE)

    def test_many_processes_may_be_the_first_to_use_a_store(self):
        pushes = [self.start("queue", "push", "mail", "1", "--id", n) for n in range(12)]
        for push in pushes:
            self.ends(push, OK)
        self.assertEqual(self.queue("stats", "mail")["pending"], 12)

    def test_name_of_the_user_may_be_anything(self):
        self.hw("queue", "push", "mail", "1", "--id", "a")
        self.env["USER"] = "\x1b[1m\udcff" + "x" * 300
        self.assertEqual(self.pull("mail")[0]["id"], "a")
        self.assertTrue(self.queue("show", "mail", "a")["holder"].startswith("?[1m\ufffdxxx"))

    def test_payload_does_nothing_to_a_screen(self):
        payload = '"\u009b31m\u202e red"'
        self.hw("queue", "push", "mail", payload, "--id", "a")
        self.assertIn('"\ufffd31m\ufffd red"\n', self.hw("queue", "show", "mail", "a").stdout)
        self.assertEqual(self.queue("show", "mail", "a")["payload"], json.loads(payload))

    def test_empty_id_and_empty_lease_are_refused(self):
        self.hw("queue", "push", "mail", "1", "--id", "", code=USAGE)
        self.hw("queue", "push", "mail", "1")
        self.hw("queue", "pull", "mail", "--visibility", "0s", code=USAGE)
        self.hw("queue", "list", "--limit", "5", code=USAGE)
        self.hw("queue", "purge", "mail", "a", "--all", code=USAGE)

    def test_empty_queue_is_deleted_and_one_in_use_is_not(self):
        self.hw("queue", "delete", "mail", code=NOT_FOUND)
        self.hw("queue", "push", "mail", "1", "--id", "a")
        said = self.hw("queue", "delete", "mail", code=REFUSED).stderr
        self.assertIn("1 items pending, 0 processing and 0 dead", said)
        self.hw("queue", "purge", "mail", "--all")
        self.assertEqual(self.queue("delete", "mail"), {"queue": "mail", "deleted": True})
        self.assertEqual(self.queue("list"), [])
        self.assertEqual(self.queue("push", "mail", "1", "--id", "a"),
                         [{"id": "a", "state": "inserted"}])

    def test_waiting_pull_outlives_engines(self):
        engine = self.engine_up()
        waiting = self.start("queue", "pull", "mail", "--wait", "1m", "-o", "json")
        for _ in range(2):
            engine.kill()
            engine.wait()
            engine = self.engine_up()
        self.assertIsNone(waiting.poll(), self.text(waiting))
        self.hw("queue", "push", "mail", '"hello"')
        self.assertEqual(json.loads(self.ends(waiting, OK))[0]["payload"], "hello")

    def test_waiting_pull_gets_what_another_process_pushes(self):
        self.hw("queue", "set", "mail", "--max-depth", "9")
        waiting = self.start("queue", "pull", "mail", "--wait", "1m", "-o", "json")
        self.until(lambda: str(self.store) in pathlib.Path(f"/proc/{waiting.pid}/maps").read_text(),
                   "it has the store open")
        self.hw("queue", "push", "mail", '"hello"')
        self.assertEqual(json.loads(self.ends(waiting, OK))[0]["payload"], "hello")
        self.assertIn("nothing to pull", self.hw("queue", "pull", "mail", "--wait", "50ms").stderr)

    def test_waiting_pull_outlasts_a_locked_store(self):
        self.hw("queue", "push", "mail", "1", "--id", "first")
        self.hw("queue", "ack", "mail", self.pull()[0]["claim"])
        lock = sqlite3.connect(self.store, isolation_level=None)
        self.addCleanup(lock.close)
        lock.execute("BEGIN EXCLUSIVE")
        waiting = self.start("queue", "pull", "mail", "--wait", "50s", "-o", "json")
        self.until_said(waiting, "locked")
        self.assertIsNone(waiting.poll())
        lock.execute("ROLLBACK")
        self.hw("queue", "push", "mail", "2", "--id", "late")
        said = self.ends(waiting, OK)
        self.assertIn("waiting on, as --wait says", said)
        self.assertEqual(json.loads(said.splitlines()[-1])[0]["id"], "late")
        lock.execute("BEGIN EXCLUSIVE")
        said = self.hw("queue", "pull", "mail", "--wait", "1ms", code=UNAVAILABLE).stderr
        self.assertIn("locked", said, "its wait is over")

    def test_text_without_quotes_is_told_about_them(self):
        said = self.hw("queue", "push", "mail", "hello", code=USAGE).stderr
        self.assertIn("a text has quotes of its own in JSON: '\"hello\"'", said)
        self.assertNotIn("quotes", self.hw("queue", "push", "mail", '{"a"', code=USAGE).stderr)

    def test_queue_that_is_not_there_is_said_so(self):
        self.hw("queue", "push", "mail", "1")
        for command in (["ack", "mial", "1-1"], ["nack", "mial", "1-1"], ["extend", "mial", "1-1"],
                        ["cancel", "mial", "x"]):
            said = self.hw("queue", *command, code=NOT_FOUND).stderr
            self.assertEqual(said, "headworks: there is no queue 'mial'; see 'headworks queue list'\n")
        said = self.hw("queue", "pull", "mial").stderr
        self.assertEqual(said, "nothing to pull: there is no queue mial yet; the first push makes it\n")
        self.assertIn("has no item", self.hw("queue", "ack", "mail", "9-1", code=NOT_FOUND).stderr)

    def test_everything_is_purged_only_where_that_is_said(self):
        self.hw("queue", "push", "mail", "1")
        said = self.hw("queue", "purge", "mail", "--older-than", "0s", code=USAGE).stderr
        self.assertIn("--older-than 0s leaves out nothing: say --all if that is meant", said)
        self.assertIn("say which", self.hw("queue", "purge", "mail", code=USAGE).stderr)
        self.assertEqual(self.queue("stats", "mail")["pending"], 1)
        self.assertIn("purged 1 item", self.hw("queue", "purge", "mail", "--all").stdout)

    def test_settings_hold_and_bad_ones_are_refused(self):
        settings = self.queue("set", "mail", "--visibility", "2m", "--max-attempts", "7",
                              "--backoff", "3s", "--max-backoff", "1h", "--rate", "2/1h",
                              "--max-depth", "3", "--dedup-window", "0s", "--dead-retention", "1d")
        self.assertEqual(settings, {"visibility": 120.0, "max_attempts": 7, "backoff": 3.0,
                                    "max_backoff": 3600.0, "rate": {"count": 2, "per": 3600.0},
                                    "max_depth": 3, "dedup_window": 0.0,
                                    "dead_retention": 86400.0})
        self.assertEqual(self.queue("stats", "mail")["settings"], settings)
        for n in range(3):
            self.hw("queue", "push", "mail", n)
        said = self.hw("queue", "push", "mail", 3, code=UNAVAILABLE)
        self.assertIn("more than 3 items", said.stderr)
        pulled = self.pull("mail", "--max", "9")
        self.assertEqual([(i["lease"], i["max_attempts"]) for i in pulled], [(120.0, 7)] * 2)
        self.hw("queue", "set", "mail", "--rate", "none")
        self.assertEqual(len(self.pull("mail", "--max", "9")), 1)
        for bad in (["--rate", "fast"], ["--rate", "0/1m"], ["--rate", "010/1m"], ["--rate", "5"], ["--rate", "1/0s"], ["--rate", ""],
                    ["--visibility", "5"], ["--visibility", ""], ["--max-depth", "0"],
                    ["--max-attempts", "1001"], ["--max-attempts", "0x2"], ["--backoff", "2h"]):
            self.hw("queue", "set", "mail", *bad, code=USAGE)
        self.hw("queue", "stats", "none", code=NOT_FOUND)
        self.hw("queue", "push", "no such queue", "1", code=USAGE)

    def test_delayed_item_waits_and_priority_goes_first(self):
        self.hw("queue", "push", "mail", "1", "--id", "later", "--delay", "1h", "--priority", "9")
        self.hw("queue", "push", "mail", "1", "--id", "low")
        self.hw("queue", "push", "mail", "1", "--id", "high", "--priority", "8")
        self.assertEqual([i["id"] for i in self.pull("mail", "--max", "9")], ["high", "low"])

    def test_other_tenant_sees_nothing(self):
        self.hw("queue", "push", "mail", "1")
        self.env["HEADWORKS_TENANT"] = "other"
        self.assertEqual(self.queue("list"), [])
        self.hw("queue", "stats", "mail", code=NOT_FOUND)

    def test_engine_sweeps_queues_that_nobody_uses(self):
        self.hw("queue", "set", "mail", "--dedup-window", "0s", "--max-attempts", "1")
        self.hw("queue", "push", "mail", "1", "--id", "lost")
        self.hw("queue", "push", "mail", "1", "--id", "done")
        self.pull("mail", "--visibility", "10ms")
        self.hw("queue", "ack", "mail", self.pull()[0]["claim"])
        self.assertEqual(len(self.queue("list", "mail")), 2)
        self.engine_up()
        self.until(lambda: [i["state"] for i in self.queue("list", "mail")] == ["dead"],
                   "lease ended, id forgotten")
        self.assertIn("ended without a word", self.queue("dead", "mail")[0]["reason"])

    def test_killed_consumers_lose_nothing_and_finish_nothing_twice(self):
        total = 60
        self.hw("queue", "set", "mail", "--visibility", "400ms", "--max-attempts", "1000")
        self.hw("queue", "push", "mail", "-", "--lines", input="1\n" * total)
        workers = ("while :; do c=$(%s queue pull mail --wait 1s -o json | sed -n "
                   "'s/.*\"claim\":\"\\([0-9-]*\\)\".*/\\1/p'); "
                   "[ -z \"$c\" ] || %s queue ack mail $c; done" % (self.program, self.program))
        started = []

        def start():
            process = subprocess.Popen(["sh", "-c", workers], cwd=self.dir, env=self.env,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       start_new_session=True)
            started.append(process)
            return process

        def kill(process):
            import os
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

        self.addCleanup(lambda: [kill(p) for p in started if p.poll() is None])
        alive = [start(), start()]
        deadline = time.monotonic() + harness.PATIENCE * 3
        while self.queue("stats", "mail")["completed"] < total:
            self.assertLess(time.monotonic(), deadline)
            kill(alive.pop(0))
            alive.append(start())
        stats = self.queue("stats", "mail")
        self.assertEqual((stats["completed"], stats["pending"], stats["processing"], stats["dead"]),
                         (total, 0, 0, 0))
        self.assertEqual(self.hw("db", "check").returncode, 0)


if __name__ == "__main__":
    harness.main()

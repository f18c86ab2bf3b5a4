"""Bad days, as users have them: full and read-only disks, signals at the wrong moment, pauses."""
import contextlib
import datetime
import os
import pathlib
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

import chaos
import harness
from harness import FAILED, OK, REFUSED, TERMINATED, UNAVAILABLE, gate

# Tasks of the run that is cancelled on its way; tools/soak cancel-large takes more, and half of them.
LARGE = int(os.environ.get("HEADWORKS_TEST_LARGE", "5000"))
DONE = LARGE // 2 if LARGE > 5000 else LARGE // 10
harness.PATIENCE = max(harness.PATIENCE, LARGE // 50)
SLOW = ("version: 1\nname: slow\ntasks:\n"
        f"  a:\n    run: |\n      echo a:$HEADWORKS_EPOCH:$HEADWORKS_TRY >> ran\n      {gate('a')}\n"
        "  b: {run: 'echo b:$HEADWORKS_EPOCH:$HEADWORKS_TRY >> ran', needs: [a]}\n")


class DiskTest(chaos.ChaosCase):
    def mount(self, size):
        """A small disk of its own, where the store lies."""
        disk = self.mount_disk(size)
        self.store = disk / "headworks.db"
        self.env["HEADWORKS_STORE"] = str(self.store)
        return disk

    def test_full_disk_is_said_loses_nothing_and_heals(self):
        disk = self.mount("32m")
        tasks = {"a": [], **{f"t{i}": ["a"] for i in range(200)}}
        text = chaos.workflow("w", tasks, random.Random(1))
        first = next(line for line in text.splitlines() if line.startswith("  a:"))
        self.write("w.yaml", text.replace(first, f"  a:\n    run: |\n      {gate('a')}\n"))
        engine = self.engine_up()
        run = self.json("run", "w.yaml", "--detach")["run"]
        self.until_exists("a.here")
        self.fill_disk(disk)
        self.write("a.go", "")
        self.until_said(engine, "has trouble")
        self.assertIn(str(self.store), self.text(engine))
        self.assertIn("full", self.text(engine))
        done = self.hw("run", "w.yaml", "--detach", code=UNAVAILABLE)
        self.assertIn(str(self.store), done.stderr)
        self.assertIsNone(engine.poll(), "it waits for room")
        os.unlink(disk / "filler")
        self.until(lambda: self.run_state(run) == "succeeded", "it goes on")
        self.until_said(engine, "works again")
        self.read_what_ran()
        shown = self.json("runs", "show", run)
        self.assertEqual(len(self.ends), 200)
        for task in shown["tasks"]:
            self.assertEqual((task["state"], task["tries"], task["losses"]),
                             ("succeeded", 1, 0), task)
        self.hw("db", "check")

    def test_start_on_a_full_disk_names_it(self):
        disk = self.mount("32m")
        self.write("slow.yaml", SLOW)
        self.fill_disk(disk)
        done = self.hw("run", "slow.yaml", code=UNAVAILABLE)
        self.assertIn(str(self.store), done.stderr)
        self.assertIn("full", done.stderr)
        os.unlink(disk / "filler")
        self.write("a.go", "")
        self.hw("run", "slow.yaml")

    def test_read_only_disk_is_named_and_used_again_later(self):
        disk = self.mount("32m")
        self.write("slow.yaml", SLOW)
        self.write("a.go", "")
        self.hw("run", "slow.yaml")
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        for command in (["run", "slow.yaml"], ["up"], ["runs", "cancel", "1"]):
            done = self.hw(*command, code=REFUSED)
            self.assertIn(str(self.store), done.stderr, command)
            self.assertIn("read-only", done.stderr.lower(), command)
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
        self.hw("run", "slow.yaml")
        self.assertEqual(len(self.json("runs", "list")), 2)

    def test_file_and_folder_of_somebody_else_are_named(self):
        self.write("slow.yaml", SLOW)
        self.write("a.go", "")
        self.hw("run", "slow.yaml")
        self.store.parent.chmod(0o755)
        for path in self.store.parent.glob("headworks.db*"):
            if path.is_file():
                path.chmod(0o444)
        as_other = {}
        if os.geteuid() == 0:
            as_other = {"user": 65534, "group": 65534, "extra_groups": []}
        else:
            self.store.parent.chmod(0o555)
            self.addCleanup(self.store.parent.chmod, 0o755)
        done = subprocess.run([self.program_of_others(), "run", "slow.yaml"], cwd=self.dir,
                              env=self.env, text=True, capture_output=True,
                              timeout=harness.PATIENCE, **as_other)
        self.assertEqual(done.returncode, REFUSED, done.stderr)
        self.assertIn(str(self.store), done.stderr)
        self.assertIn("writable", done.stderr)


class SignalTest(chaos.ChaosCase):
    def test_terminate_at_any_moment_costs_nothing(self):
        seed = random.SystemRandom().randrange(2**32)
        rng = random.Random(seed)
        print(f"seed {seed}", file=sys.stderr)
        self.write("w.yaml", chaos.workflow("w", chaos.layers(rng, 24, 5), rng))
        left = 0
        engine = self.start("run", "w.yaml", "--start-key", "k")
        for _ in range(20):
            # While it opens, while it works, while it commits, while it drains.
            if self.let_live(engine, rng.uniform(0, 0.5)):
                engine.send_signal(signal.SIGTERM)
            code = engine.wait(timeout=harness.PATIENCE)
            self.assertIn(code, (OK, TERMINATED, -signal.SIGTERM), self.text(engine))
            left += code == TERMINATED
            engine = self.start("run", "w.yaml", "--start-key", "k")
        self.ends(engine, OK)
        self.assertGreater(left, 0)
        self.nothing_is_left()
        self.read_what_ran()
        self.assertEqual(self.check_run(self.json("runs", "show", "1"), kills=0), 0)

    def test_second_terminate_leaves_at_once_and_costs_a_loss(self):
        self.write("slow.yaml", SLOW)
        engine = self.start("run", "slow.yaml")
        self.until_exists("a.here")
        engine.send_signal(signal.SIGTERM)
        self.until_said(engine, "terminated: waiting up to")
        engine.send_signal(signal.SIGTERM)
        self.ends(engine, -signal.SIGTERM)
        self.write("a.go", "")
        self.hw("run", "slow.yaml", "--resume")
        self.assertEqual(self.lines("ran"), ["a:1:1", "a:2:1", "b:3:1"])
        a = self.json("runs", "show", "1")["tasks"][0]
        self.assertEqual((a["tries"], a["losses"]), (1, 1), a)
        self.nothing_is_left()

    def test_pause_of_three_leases_loses_nothing(self):
        self.write("slow.yaml", SLOW)
        engine = self.engine_up("--lease-ttl", "1s")
        run = self.json("run", "slow.yaml", "--detach", "--lease-ttl", "1s")["run"]
        self.until_exists("a.here")
        engine.send_signal(signal.SIGSTOP)
        self.let_live(engine, 3.1)
        self.hw("up", "--lease-ttl", "1s", code=REFUSED)
        self.write("a.go", "")
        engine.send_signal(signal.SIGCONT)
        self.until(lambda: self.run_state(run) == "succeeded", "it goes on")
        self.assertEqual(self.lines("ran"), ["a:1:1", "b:2:1"])
        self.assertIsNone(engine.poll())
        for task in self.json("runs", "show", run)["tasks"]:
            self.assertEqual((task["tries"], task["losses"]), (1, 0), task)

    def test_killed_supervisor_costs_a_loss_and_is_replaced(self):
        self.write("slow.yaml", SLOW)
        engine = self.start("run", "slow.yaml")
        self.until_exists("a.here")
        first = self.supervisor_of(engine)
        self.kill_pid(first)
        self.until(lambda: len(self.lines("ran")) == 2, "a runs again")
        self.assertNotIn(self.supervisor_of(engine), (None, first))
        self.write("a.go", "")
        self.ends(engine, OK)
        self.assertEqual(self.lines("ran"), ["a:1:1", "a:2:1", "b:3:1"])
        a = self.json("runs", "show", "1")["tasks"][0]
        self.assertEqual((a["tries"], a["losses"]), (1, 1), a)
        self.nothing_is_left()


class OwnerTest(chaos.ChaosCase):
    """Who holds the store is the kernel's affair, as long as nobody removes the file of the lock."""

    def term(self):
        with contextlib.closing(sqlite3.connect(self.store)) as store:
            return store.execute("SELECT max(term) FROM guard").fetchone()[0]

    def taken_over(self, *command):
        """Has an engine stopped for three leases and its store taken: (it, its successor)."""
        self.write("slow.yaml", SLOW)
        old = self.start(*command, "--lease-ttl", "1s")
        if command[0] == "up":
            self.until_said(old, "engine is up")
            self.hw("run", "slow.yaml", "--detach")
        self.until_exists("a.here")
        old.send_signal(signal.SIGSTOP)
        self.let_live(old, 3.1)
        os.unlink(f"{self.store}.lock")
        term = self.term()
        new = self.start("up", "--lease-ttl", "1s")
        self.until(lambda: self.term() > term, "another engine owns the store")
        old.send_signal(signal.SIGCONT)
        return old, new

    def goes_on(self, new):
        self.until_said(new, "engine is up")
        self.write("a.go", "")
        self.until(lambda: self.run_state() == "succeeded", "the run goes on")
        self.assertEqual(self.lines("ran"), ["a:1:1", "a:2:1", "b:3:1"])
        a = self.json("runs", "show", "1")["tasks"][0]
        self.assertEqual((a["tries"], a["losses"]), (1, 1), a)
        new.send_signal(signal.SIGTERM)
        self.ends(new, OK)
        self.nothing_is_left()

    def test_engine_whose_store_was_taken_stops_and_is_unavailable(self):
        old, new = self.taken_over("up")
        said = self.ends(old, UNAVAILABLE)
        self.assertIn(f"headworks: {self.store}: this process may not write here any more", said)
        self.assertIn("another engine took over", said)
        self.goes_on(new)

    def test_run_whose_store_was_taken_says_where_it_goes_on(self):
        old, new = self.taken_over("run", "slow.yaml")
        said = self.ends(old, UNAVAILABLE)
        self.assertIn(f"headworks: {self.store}: this process may not write here any more", said)
        self.assertIn("`headworks runs show 1`", said)
        self.goes_on(new)


class UnreadableTest(chaos.ChaosCase):
    def change(self, sql, *values):
        with contextlib.closing(sqlite3.connect(self.store)) as store, store:
            store.execute(sql, values)

    def test_run_whose_version_cannot_be_read_is_parked_and_others_go_on(self):
        self.write("slow.yaml", SLOW)
        self.write("other.yaml", SLOW.replace("name: slow", "name: other"))
        engine = self.engine_up()
        self.hw("run", "slow.yaml", "--detach")
        self.hw("run", "other.yaml", "--detach")
        self.until(lambda: len(self.lines("ran")) == 2, "both are under way")
        engine.kill()
        engine.wait()
        with contextlib.closing(sqlite3.connect(self.store)) as store:
            version, text = store.execute(
                "SELECT v.version, v.canonical_json FROM workflow_version AS v JOIN run AS r "
                "ON r.version = v.version WHERE r.run_no = 1").fetchone()
        damaged = text[:len(text) // 2]
        self.change("UPDATE workflow_version SET canonical_json = ? WHERE version = ?", damaged,
                    version)
        engine = self.engine_up()
        self.until(lambda: self.json("runs", "list", "--state", "stuck"), "it is parked")
        self.write("a.go", "")
        self.until(lambda: self.run_state("2") == "succeeded", "the other goes on")
        stuck, = self.json("runs", "list", "--state", "stuck")
        self.assertEqual(stuck["run"], 1)
        self.assertIn("cannot be read", stuck["stuck"])
        for command in (["runs", "why", "1"], ["runs", "why", "1", "a"], ["runs", "show", "1"]):
            said = self.hw(*command).stdout
            self.assertIn("run 1: the run is stuck since", said)
            self.assertIn("`headworks runs unstick 1` tries again", said)
        self.assertIn("cannot be read", self.json("runs", "show", "1")["stuck"])
        done = self.hw("runs", "unstick", "1", code=REFUSED)
        self.assertIn("stuck", done.stderr)
        self.change("UPDATE workflow_version SET canonical_json = ? WHERE version = ?", text, version)
        self.hw("runs", "unstick", "1")
        self.until(lambda: self.run_state("1") == "succeeded", "it goes on")
        kinds = [event["kind"] for event in self.json("runs", "show", "1")["events"]]
        self.assertEqual([kind for kind in kinds if "st" in kind and "uck" in kind],
                         ["stuck", "stuck", "unstuck"])
        engine.send_signal(signal.SIGTERM)
        self.ends(engine, OK)
        self.nothing_is_left()


# Preloaded into a program, it adds a number of seconds, which lies in a file, to the wall clock.
CLOCK = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static volatile long* offset;
__attribute__((constructor)) static void Map(void) {
  int fd = open(getenv("FAKE_CLOCK"), O_RDONLY);
  void* at = mmap(0, 4096, PROT_READ, MAP_SHARED, fd, 0);
  if (fd < 0 || at == MAP_FAILED) abort();
  offset = at;
}
int clock_gettime(clockid_t id, struct timespec* time) {
  int rc = (int)syscall(SYS_clock_gettime, id, time);
  if (rc == 0 && id == CLOCK_REALTIME && offset) time->tv_sec += *offset;
  return rc;
}
"""


class ClockTest(chaos.ChaosCase):
    def setUp(self):
        super().setUp()
        compiler = shutil.which("clang-19") or shutil.which("cc")
        self.assertTrue(compiler, "no C compiler")
        self.write("clock.c", CLOCK)
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", "clock.so", "clock.c"],
                       cwd=self.dir, check=True)
        (self.dir / "offset").write_bytes(bytes(4096))
        self.env.update(LD_PRELOAD=str(self.dir / "clock.so"), FAKE_CLOCK=str(self.dir / "offset"))

    def jump(self, seconds):
        with open(self.dir / "offset", "r+b") as file:
            file.write(seconds.to_bytes(8, sys.byteorder, signed=True))

    def shown_time(self):
        """By the clock of the program."""
        clock, = [check for check in self.json("doctor") if check["check"] == "clock"]
        return datetime.datetime.fromisoformat(clock["detail"]).timestamp()

    def test_clock_that_jumps_an_hour_both_ways_ends_nothing_and_delays_nothing(self):
        self.write("clock.yaml", f"""
version: 1
name: clock
timeout: 50m
tasks:
  long:
    run: "{gate('long')}; date +%s > long.at"
    timeout: 50m
    deadline: 55m
  again:
    run: |
      date +%s%N >> again.at
      test $HEADWORKS_TRY -ge 4
    retry: {{max_attempts: 4, initial: 1s, max: 1s, jitter: 0}}
  short:
    needs: [again]
    run: "sleep 300"
    timeout: 2s
    allow_failure: true
""")
        engine = self.engine_up("--lease-ttl", "1s")
        run = self.json("run", "clock.yaml", "--detach")["run"]
        self.until_exists("long.here")
        began = time.monotonic()
        for delay in ("1s", "4s"):
            self.hw("queue", "push", "q", "1", "--id", delay, "--delay", delay)
        claims = self.json("queue", "pull", "q", "--wait", "10s", "--visibility", "30m")
        for hours in (1, -1, 0):
            self.jump(hours * 3600)
            self.assertAlmostEqual(self.shown_time(), time.time() + hours * 3600, delta=300)
            self.let_live(engine, 1.2)
        self.until(lambda: self.states(run)["short"] == "failed", "the short one is at its timeout")
        took = time.monotonic() - began
        # Three delays and a timeout, and what it takes to run five commands.
        self.assertGreater(took, 4.5)
        self.assertLess(took, 30)
        tries = [int(line) / 1e9 for line in self.lines("again.at")]
        self.assertEqual(len(tries), 4)
        for before, after in zip(tries, tries[1:]):
            self.assertGreater(after - before, 0.95, tries)
        self.assertEqual(self.states(run)["long"], "running", "nothing ended it")
        self.assertEqual([item["id"] for item in claims], ["1s"])
        late = self.json("queue", "pull", "q", "--wait", "10s", "--visibility", "30m")
        self.assertEqual([item["id"] for item in late], ["4s"], "neither lost, nor given out twice")
        self.write("long.go", "")
        self.until(lambda: self.run_state(run) == "succeeded", "it ends")
        for task in self.json("runs", "show", run)["tasks"]:
            self.assertEqual(task["losses"], 0, task)
        engine.send_signal(signal.SIGTERM)
        self.ends(engine, OK)


class CommandTest(chaos.ChaosCase):
    def test_many_that_start_at_once_are_one_engine_and_its_followers(self):
        rng = random.Random(1)
        self.write("w.yaml", chaos.workflow("w", chaos.diamond(), rng))
        clients = [self.start("run", "w.yaml") for _ in range(6)]
        for client in clients:
            self.assertIn("of w succeeded", self.ends(client, OK))
        self.read_what_ran()
        runs = self.json("runs", "list")
        self.assertEqual(len(runs), len(clients))
        for run in runs:
            self.assertEqual(self.check_run(self.json("runs", "show", run["run"]), kills=0), 0)

    def test_cancel_while_retrying_ends_at_once(self):
        self.write("retry.yaml", "version: 1\nname: retry\ntasks:\n  a:\n    run: echo x >> ran; "
                                 "exit 7\n    retry: {max_attempts: 5, initial: 1h, max: 1h}\n")
        engine = self.start("run", "retry.yaml")
        self.until(lambda: self.lines("ran") and self.states()["a"] == "parked", "a waits")
        self.hw("runs", "cancel", "1")
        self.assertIn("run 1 of retry cancelled", self.ends(engine, FAILED))
        self.assertEqual(self.states(), {"a": "cancelled"})
        self.assertEqual(self.lines("ran"), ["x"])

    def test_rerun_while_an_old_attempt_lives_is_a_conflict(self):
        self.write("slow.yaml", SLOW)
        engine = self.start("run", "slow.yaml")
        self.until_exists("a.here")
        for what in (["--all"], ["--from", "a"]):
            done = self.hw("runs", "rerun", "1", *what, "--detach", code=REFUSED)
            self.assertIn("a", done.stderr)
        self.write("a.go", "")
        self.ends(engine, OK)
        self.assertEqual(self.lines("ran"), ["a:1:1", "b:2:1"], "the refused left no trace")

    def test_wrong_output_fails_the_task_and_says_why(self):
        wrong = {
            "list": ("echo '[1]'", "no object"),
            "text": ("echo hello", "line 1 is not key=value"),
            "broken": ("echo '{\"a\": '", "HEADWORKS_OUTPUT"),
            "nan": ("echo '{\"a\": NaN}'", "HEADWORKS_OUTPUT"),
            "nul": ("printf 'a=\\000'", "NUL"),
            "large": ("printf '{\"a\":\"'; head -c 1048576 /dev/zero | tr '\\0' x; printf '\"}'",
                      "1048576 bytes"),
        }
        tasks = "".join(f"  {name}:\n    run: |\n      {{ {script}; }} > \"$HEADWORKS_OUTPUT\"\n"
                        for name, (script, _) in wrong.items())
        self.write("wrong.yaml", f"version: 1\nname: wrong\ntasks:\n{tasks}"
                                 "  after: {run: 'true', needs: [list]}\n")
        self.hw("run", "wrong.yaml", code=FAILED)
        states = self.states()
        self.assertEqual(states.pop("after"), "upstream_failed")
        self.assertEqual(set(states.values()), {"failed"})
        for name, (_, why) in wrong.items():
            self.assertIn(why, self.hw("runs", "why", "1", name).stdout, name)

    def test_large_run_that_is_cancelled_half_way_ends_cancelled(self):
        lines = ["version: 1", "name: large", "tasks:", "  first: {exec: ['true']}"]
        lines += [f"  t{i}: {{exec: ['true'], needs: [first]}}" for i in range(LARGE - 2)]
        lines.append("  last: {exec: ['true'], needs: [" +
                     ", ".join(f"t{i}" for i in range(LARGE - 2)) + "]}")
        self.write("large.yaml", "\n".join(lines) + "\n")
        engine = self.start("run", "large.yaml")

        def counts():
            runs = self.runs()
            return runs[0]["counts"] if runs else {}
        self.until(lambda: counts().get("succeeded", 0) >= DONE, "it is under way")
        peak = self.peak_memory(engine)
        began = time.monotonic()
        self.hw("runs", "cancel", "1")
        self.ends(engine, FAILED)
        took = time.monotonic() - began
        ended = counts()
        began = time.monotonic()
        self.assertEqual(self.run_state(), "cancelled")
        shown = time.monotonic() - began
        self.assertEqual(set(ended), {"succeeded", "cancelled"})
        self.assertEqual(sum(ended.values()), LARGE)
        self.nothing_is_left()
        print(f"\n{LARGE} tasks, {ended['succeeded']} done: cancelled in {took:.2f} s, "
              f"shown in {shown:.2f} s; the engine had {peak} when it was cancelled", file=sys.stderr)

    def peak_memory(self, process):
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        return re.search(r"VmHWM:\s*(.*)", status)[1]


if __name__ == "__main__":
    harness.main()

"""kill -9 of engine and supervisor at random moments: no task is lost, none is done twice.

kill_test.py PROGRAM [--kills N | --seconds S] [--stores N] [--interval S] [--seed N]: N kills, or as
many as fit, of engines that live up to S seconds each, in one store or several side by side.  The runs
have shapes made up here; with HEADWORKS_DAGS they have those recorded in that folder.
"""
import argparse
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time

import chaos
import harness
from harness import FAILED, OK

OPTIONS = None  # set by main()
# Runs that the engine has to work on at once, so that no kill meets an idle one.
BUSY = 3


class KillTest(chaos.ChaosCase):
    def setUp(self):
        super().setUp()
        self.rng = random.Random(OPTIONS.seed)
        self.started, self.kills = {}, 0  # start key → file
        folder = os.environ.get("HEADWORKS_DAGS")
        shapes = chaos.recorded(folder) if folder else {
            "chain": chaos.chain(12), "diamond": chaos.diamond(), "fan": chaos.fan(16),
            "layers": chaos.layers(self.rng, 5, 6)}
        self.assertTrue(shapes, f"no DAGs in {folder}")
        self.files = [self.write(f"{name}.yaml", chaos.workflow(name, needs, self.rng)).name
                      for name, needs in shapes.items()]

    def next_start(self):
        """Arguments that start one more run, once however often they are given."""
        key = f"key-{len(self.started)}"
        self.started[key] = self.rng.choice(self.files)
        return ["run", self.started[key], "--start-key", key]

    def unfinished(self):
        return len(self.runs("--state", "pending,running", "--limit", "1000"))

    def start_engine(self):
        """Any of the commands that make an engine."""
        if self.unfinished() < BUSY:
            return self.start(*self.next_start())
        way = self.rng.randrange(4)
        if way == 0:
            return self.start(*self.next_start())
        if way == 1:
            return self.start("run", self.rng.choice(self.files), "--resume")
        return self.start("up")

    def kill(self, engine):
        """In one of several ways."""
        supervisor = self.supervisor_of(engine)
        way = self.rng.choice(["engine", "engine", "both", "supervisor first", "stopped",
                               "supervisor stopped"])
        if supervisor is None or way == "engine":
            engine.kill()
        elif way == "both":
            self.kill_pid(supervisor)
            engine.kill()
        elif way == "supervisor first":
            # The engine lives on for a while and has to notice.
            self.kill_pid(supervisor)
            self.kills += 1
            self.let_live(engine, self.rng.uniform(0, 0.2))
            engine.kill()
        elif way == "supervisor stopped":
            # It learns of the engine's end, and acts on it, only when it goes on.
            self.kill_pid(supervisor, signal.SIGSTOP)
            self.let_live(engine, self.rng.uniform(0, 0.2))
            engine.kill()
            self.after(self.rng.uniform(0, 0.5), supervisor, signal.SIGCONT)
        else:
            engine.send_signal(signal.SIGSTOP)
            self.let_live(engine, self.rng.uniform(0, 0.2))
            engine.kill()
        self.kills += engine.wait() == -signal.SIGKILL

    def after(self, seconds, pid, number):
        """Sends a signal while the next engine starts already."""
        timer = threading.Timer(seconds, self.kill_pid, (pid, number))
        timer.start()
        self.addCleanup(timer.join)

    def finish(self):
        """Starts what no killed client has started, and lets one engine finish everything."""
        engine = self.engine_up()
        for key, file in self.started.items():
            self.hw("run", file, "--start-key", key, "--detach")
        # Recorded runs may have thousands of tasks: as long as tasks begin, it goes on.
        ran = self.dir / "ran"
        while self.unfinished():
            size = ran.stat().st_size
            self.until(lambda: ran.stat().st_size > size or not self.unfinished(),
                       "a task begins, or all runs end")
        engine.send_signal(signal.SIGTERM)
        self.ends_with(engine)

    def ends_with(self, engine):
        self.assertEqual(engine.wait(timeout=harness.PATIENCE), OK, self.text(engine))

    def side_by_side(self):
        """This test in so many stores at a time, each with its share of the kills."""
        began = time.monotonic()
        share = ["--kills", str(-(-OPTIONS.kills // OPTIONS.stores))] if OPTIONS.kills else [
            "--seconds", str(OPTIONS.seconds)]
        stores = [subprocess.Popen(
            [sys.executable, "-B", __file__, self.program, *share, "--interval",
             str(OPTIONS.interval), "--seed", str(OPTIONS.seed + number), self.id().partition(".")[2]],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            for number in range(OPTIONS.stores)]
        said = [store.communicate()[1] for store in stores]
        for store, text in zip(stores, said):
            self.assertEqual(store.returncode, 0, text)
        kills = sum(int(re.search(r"(\d+) kills,", text)[1]) for text in said)
        print("".join(f"\n{line}" for text in said for line in text.splitlines() if " kills," in line)
              + f"\n{kills} kills in {OPTIONS.stores} stores in {time.monotonic() - began:.0f} s",
              file=sys.stderr)
        self.assertGreaterEqual(kills, OPTIONS.kills or 1)

    def test_every_task_is_effective_and_none_twice_in_one_epoch(self):
        if OPTIONS.stores > 1:
            return self.side_by_side()
        over = chaos.deadline(OPTIONS.seconds)
        while self.kills < OPTIONS.kills if OPTIONS.kills else not over():
            engine = self.start_engine()
            # From before it has opened its store to the middle of its work.
            if self.let_live(engine, self.rng.uniform(0, OPTIONS.interval)):
                self.kill(engine)
        self.finish()
        self.nothing_is_left()
        self.hw("db", "check")
        self.read_what_ran()
        runs = self.json("runs", "list", "--limit", "1000")
        self.assertEqual(sorted(run["start_key"] for run in runs), sorted(self.started))
        losses = sum(self.check_run(self.json("runs", "show", run["run"]), self.kills)
                     for run in runs)
        print(f"\nseed {OPTIONS.seed}: {self.kills} kills, {len(runs)} runs, "
              f"{len(self.begins)} attempts began, {len(self.ends)} ended, {losses} losses",
              file=sys.stderr)
        self.assertGreater(losses, 0, "no kill met a task")

    # The parent of a task is the supervisor, whose parent is the engine.
    POISON = ("version: 1\nname: poison\ntasks:\n  good: {{run: 'true'}}\n"
              "  bad:\n    needs: [good]\n    run: |\n"
              "      echo $HEADWORKS_EPOCH:$HEADWORKS_TRY >> ran\n"
              "      set -- $(cat /proc/$PPID/stat)\n      kill -9 ${field}\n      sleep 60\n"
              "  after: {{run: 'true', needs: [bad]}}\n")

    def check_poisoned(self):
        run = self.json("runs", "show", "@last")
        self.assertEqual(run["state"], "failed")
        bad = next(task for task in run["tasks"] if task["task"] == "bad")
        self.assertEqual((bad["state"], bad["reason"], bad["losses"], bad["tries"]),
                         ("failed", "lost", 6, 0), bad)
        self.assertRegex(self.hw("runs", "show", "@last").stdout, r"bad +failed.* lost")
        self.assertEqual(self.states()["after"], "upstream_failed")
        ran = self.lines("ran")
        self.assertEqual(len(ran), 6, ran)
        self.assertEqual(len(set(ran)), 6, f"an epoch ran twice: {ran}")
        self.assertEqual({line.split(":")[1] for line in ran}, {"1"})
        self.nothing_is_left()

    def test_task_that_kills_its_engine_ends_as_lost(self):
        self.write("poison.yaml", self.POISON.format(field=4))
        engine = self.start("run", "poison.yaml")
        for _ in range(6):
            self.ends(engine, -signal.SIGKILL)
            engine = self.start("run", "poison.yaml", "--resume")
        self.assertIn("lost", self.ends(engine, FAILED))
        self.check_poisoned()

    def test_task_that_kills_its_supervisor_ends_as_lost(self):
        self.write("poison.yaml", self.POISON.format(field=1))
        self.assertIn("lost", self.hw("run", "poison.yaml", code=FAILED).stdout)
        self.check_poisoned()


def main():
    global OPTIONS
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--kills", type=int)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--stores", type=int, default=1)
    parser.add_argument("--interval", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=None)
    OPTIONS, rest = parser.parse_known_args()
    if OPTIONS.seed is None:
        OPTIONS.seed = random.SystemRandom().randrange(2**32)
    print(f"kill_test: --seed {OPTIONS.seed}", file=sys.stderr)
    sys.argv = [sys.argv[0], OPTIONS.program, *rest]
    harness.main()


if __name__ == "__main__":
    main()

"""Kills real engines at random moments, and checks afterwards what must hold all the same."""
import collections
import json
import os
import pathlib
import signal
import subprocess
import time

from harness import Case

# What a task of these workflows does: it says that it begins, works, and says that it ends.  Every
# third leaves a process behind that nobody waits for.
# HEADWORKS_ATTEMPT names store, run and epoch: no two attempts of a store share it.
WORK = ('echo "begin $HEADWORKS_ATTEMPT $HEADWORKS_TRY $1" >> ran; echo "said by $1"; '
        'if [ $(($2 % 3)) = 0 ]; then setsid sleep 1000 & fi; sleep "0.0$2"; '
        'echo "by=$1" >> "$HEADWORKS_OUTPUT"; '
        'echo "end $HEADWORKS_ATTEMPT $HEADWORKS_TRY $1" >> ran')


def workflow(name, needs, rng, retry="{max_losses: 1000}"):
    """A workflow file; `needs` maps each task to those before it; each works 20 to 80 ms."""
    lines = ["version: 1", f"name: {name}", "tasks:"]
    for task, before in needs.items():
        arguments = ["/bin/sh", "-ec", WORK, "sh", task, str(rng.randint(20, 80))]
        lines.append(f"  {task}: {{exec: {arguments!r}, needs: {before!r}, retry: {retry}}}")
    return "\n".join(lines) + "\n"


def chain(size):
    return {f"c{i}": [f"c{i - 1}"] if i else [] for i in range(size)}


def diamond():
    return {"top": [], "left": ["top"], "right": ["top"], "bottom": ["left", "right"]}


def fan(size):
    middle = [f"f{i}" for i in range(size)]
    return {"out": [], **{task: ["out"] for task in middle}, "in": middle}


def layers(rng, depth, width):
    """Each task needs one to three of the layer before."""
    needs, before = {}, []
    for depth_no in range(depth):
        layer = [f"l{depth_no}x{i}" for i in range(width)]
        for task in layer:
            needs[task] = sorted(rng.sample(before, rng.randint(1, 3))) if before else []
        before = layer
    return needs


def recorded(folder):
    """The DAGs in `folder`: JSON files of {"tasks": [{"id": ..., "needs": [...]}]}."""
    shapes = {}
    for path in sorted(pathlib.Path(folder).glob("*.json")):
        tasks = json.loads(path.read_text())["tasks"]
        shapes[f"dag-{path.stem}"] = {task["id"]: task["needs"] for task in tasks}
    return shapes


def processes():
    """pid → (parent, command name) of all that live."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
        except OSError:
            continue  # it ended meanwhile
        state, parent = stat.rpartition(")")[2].split()[:2]
        if state != "Z":
            found[int(entry.name)] = (int(parent), stat[stat.index("(") + 1:stat.rindex(")")])
    return found


def environment(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


class ChaosCase(Case):
    """A store of short tasks in `ran`, and ways to be unkind to its engine."""

    def supervisor_of(self, engine):
        """The pid of the engine's supervisor, or None."""
        return next((pid for pid, (parent, name) in processes().items()
                     if parent == engine.pid and name.startswith("headworks-super")), None)

    def kill_pid(self, pid, number=signal.SIGKILL):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass  # it was quicker

    def let_live(self, process, seconds):
        """True if the process still runs after that time: a moment chosen at random, not a wait
        for anything."""
        try:
            process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return True
        return False

    def left_over(self):
        """Live processes of attempts of this store, whose scratch folders lie beside it."""
        scratch = f"HEADWORKS_SCRATCH={self.store}".encode()
        found = []
        for pid in processes():
            words = environment(pid)
            if (any(word.startswith(b"HEADWORKS_ATTEMPT=") for word in words)
                    and any(word.startswith(scratch) for word in words)):
                found.append(pid)
        return found

    def nothing_is_left(self):
        self.until(lambda: not self.left_over(), "all processes of tasks are gone")

    def check_run(self, run, kills):
        """Every task is effective, in one try, and nothing was done twice.  Returns the losses."""
        self.assertEqual(run["state"], "succeeded", run)
        effective = collections.Counter()
        for attempt in run["attempts"]:
            self.assertIn(attempt["verdict"], ("succeeded", "lost", "interrupted"), attempt)
            if attempt["verdict"] == "succeeded":
                effective[attempt["task"]] += 1
                self.assertIn((run["run"], attempt["epoch"]), self.ends, attempt)
        said = {(line["task"], line["epoch"]): line["text"] for line in self.log(run["run"])
                if line["stream"] == "stdout"}
        losses = 0
        for task in run["tasks"]:
            self.assertEqual(task["state"], "succeeded", task)
            self.assertEqual(task["tries"], 1, f"a crash costs a loss, never a try: {task}")
            self.assertEqual(effective[task["task"]], 1, task)
            self.assertEqual(task["output"], {"by": task["task"]}, "output precedes the verdict")
            self.assertEqual(said.get((task["task"], task["epoch"])), f"said by {task['task']}",
                             "lines precede the verdict")
            self.assertLessEqual(task["losses"], kills, task)
            losses += task["losses"]
        return losses

    def log(self, run):
        return [json.loads(line)
                for line in self.hw("runs", "logs", run, "-o", "json").stdout.splitlines()]

    def read_what_ran(self):
        """Fills `begins` and `ends`; checks the order of what each task did."""
        self.begins, self.ends = set(), set()
        latest = {}
        for line in (self.dir / "ran").read_text().splitlines():
            what, mark, tried, task = line.split()
            _, run, epoch = mark.split(":")
            key, epoch = (int(run), int(epoch)), int(epoch)
            self.assertEqual(tried, "1", line)
            self.assertGreaterEqual(epoch, latest.get((run, task), 0),
                                    f"an earlier attempt still worked beside a later one: {line}")
            latest[run, task] = epoch
            seen = self.begins if what == "begin" else self.ends
            self.assertNotIn(key, seen, f"an epoch did its work twice: {line}")
            seen.add(key)
        self.assertLessEqual(self.ends, self.begins)


def deadline(seconds):
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end

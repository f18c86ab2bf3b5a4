"""Runs the real program: each test has a folder and a store of its own."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Sanitized programs on a busy machine are slow; nothing waits this long unless it is broken.
PATIENCE = 60

OK, FAILED, USAGE, NOT_FOUND, REFUSED, UNAVAILABLE = range(6)
INTERRUPTED, READER_LEFT, TERMINATED = 130, 141, 143


def may_mount():
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.split("CapEff:")[1].split()[0], 16) >> 21 & 1 == 1


class Case(unittest.TestCase):
    program = None  # set by main()

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="headworks-test-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.store = self.dir / "state" / "headworks.db"
        self.env = {name: value for name, value in os.environ.items()
                    if not name.startswith("HEADWORKS_") and name != "NO_COLOR"}
        self.env.update(HEADWORKS_STORE=str(self.store), XDG_CONFIG_HOME=str(self.dir / "config"),
                        HOME=str(self.dir), LANG="C.UTF-8", TERM="xterm")

    def program_of_others(self):
        """Where other users may run it, whatever folder the tree lies in."""
        self.dir.chmod(0o755)
        return shutil.copy(self.program, self.dir / "headworks")

    def write(self, name, text):
        path = self.dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # In one step, so that whoever watches the folder sees whole files only.
        scratch = path.with_name(f".{path.name}.new")
        scratch.write_text(text)
        scratch.rename(path)
        return path

    def hw(self, *args, code=OK, input=None):
        """Runs a command to its end and checks its exit code; several: it is one of them."""
        done = subprocess.run([self.program, *map(str, args)], cwd=self.dir, env=self.env,
                              text=True, capture_output=True, timeout=PATIENCE, input=input)
        self.assertIn(done.returncode, code if isinstance(code, tuple) else (code,),
                      f"headworks {' '.join(map(str, args))}\n{done.stdout}\n{done.stderr}")
        return done

    def json(self, *args, code=OK):
        return json.loads(self.hw(*args, "-o", "json", code=code).stdout)

    def runs(self, *args):
        """What `runs list` lists; nothing as long as no engine has lived to make the store."""
        done = self.hw("runs", "list", *args, "-o", "json", code=(OK, NOT_FOUND))
        return json.loads(done.stdout) if done.returncode == OK else []

    def start(self, *args, program=None):
        """Starts a command that goes on, away from the test's own signals."""
        output = open(self.dir / f"output-{time.monotonic_ns()}", "w+")
        process = subprocess.Popen([program or self.program, *map(str, args)], cwd=self.dir,
                                   env=self.env, stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        process.output = output
        self.addCleanup(self._end, process)
        return process

    def start_unread(self, *args):
        """With an output that nobody reads, into a pipe that is full already."""
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        os.set_blocking(writer, False)
        try:
            while True:
                os.write(writer, bytes(1))
        except BlockingIOError:
            os.set_blocking(writer, True)
        process = subprocess.Popen([self.program, *map(str, args)], cwd=self.dir, env=self.env,
                                   stdin=subprocess.DEVNULL, stdout=writer, stderr=writer,
                                   start_new_session=True)
        process.output = os.fdopen(writer, "wb")
        self.addCleanup(self._end, process)
        return process

    def leaves(self, process, code):
        """Ends on SIGTERM, though nobody reads what it says."""
        process.terminate()
        try:
            self.assertEqual(process.wait(timeout=PATIENCE), code)
        except subprocess.TimeoutExpired:
            self.fail("SIGTERM is not heard while the reader of its output stalls")

    def _end(self, process):
        if process.poll() is None:
            process.kill()
        process.wait()
        process.output.close()

    def text(self, process):
        return pathlib.Path(process.output.name).read_text()

    def ends(self, process, code):
        try:
            ended = process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.fail(f"still running:\n{self.text(process)}")
        self.assertEqual(ended, code, self.text(process))
        return self.text(process)

    def until(self, condition, what):
        """Waits for a condition of another process, which sends no signal."""
        deadline = time.monotonic() + PATIENCE
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > deadline:
                self.fail(f"in {PATIENCE} s never: {what}")
            threading.Event().wait(0.03)

    def until_exists(self, name):
        self.until((self.dir / name).exists, f"{name} appears")

    def until_said(self, process, text):
        self.until(lambda: text in self.text(process) or self._gone(process, text),
                   f"'{text}' in\n{self.text(process)}")

    def _gone(self, process, text):
        if process.poll() is not None and text not in self.text(process):
            self.fail(f"ended with {process.returncode} and never said '{text}':\n"
                      f"{self.text(process)}")

    def engine_up(self, *args):
        """A long-lived engine on the test's store."""
        process = self.start("up", *args)
        self.until_said(process, "engine is up")
        return process

    def mount_disk(self, size):
        """A small disk of the test's own; skipped only where nobody could have one."""
        if not may_mount():
            self.skipTest("this process may not mount a small disk (CAP_SYS_ADMIN)")
        disk = self.dir / "disk"
        disk.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, f"no disk can be mounted: {done.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "--lazy", disk], check=True)
        return disk

    def fill_disk(self, disk):
        """Leaves not one block; `disk`/filler is what takes them."""
        with open(disk / "filler", "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1 << 16))
            except OSError:
                pass  # full, as it should be
        self.assertEqual(os.statvfs(disk).f_bavail, 0)

    def run_state(self, run="@last"):
        return self.json("runs", "show", run)["state"]

    def states(self, run="@last"):
        return {task["task"]: task["state"] for task in self.json("runs", "show", run)["tasks"]}

    def lines(self, name):
        path = self.dir / name
        return path.read_text().split() if path.exists() else []


def gate(name):
    """Shell for a task that says it is there (NAME.here) and waits for NAME.go, up to a minute."""
    return (f": > {name}.here; i=0; while [ ! -e {name}.go ] && [ $i -lt 1200 ]; "
            f"do i=$((i+1)); sleep 0.05; done")


def main():
    Case.program = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)

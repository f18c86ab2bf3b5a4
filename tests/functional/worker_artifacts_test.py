"""Artifacts over workers: files that go from one host by the engine to another, and bad days."""
import contextlib
import hashlib
import os
import pathlib
import re

import harness
import workers_test
from fault_proxy import FaultProxy

LARGE = 256 << 20
# Of a process with sanitizers, in KiB; the file is larger than that.
MOST = 160 << 10
harness.PATIENCE = 3 * harness.PATIENCE  # large files on a busy machine


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class WorkerArtifactsCase(workers_test.WorkersCase):
    def setUp(self):
        super().setUp()
        self.folder = self.store.with_name("headworks.db-artifacts")

    def sizes(self, folder, pattern):
        """By name; what is renamed or removed meanwhile is none."""
        files, sizes = [], {}
        with contextlib.suppress(FileNotFoundError):  # of a folder
            files = list(folder.glob(pattern))
        for file in files:
            with contextlib.suppress(FileNotFoundError):
                sizes[file.name] = file.stat().st_size
        return sizes

    def blobs(self):
        return self.sizes(self.folder, "runs/*/*/*")

    def incoming(self):
        return sum(self.sizes(self.folder, "incoming/*").values())

    def attempts(self, task):
        return [a for a in self.json("runs", "show", "@last")["attempts"] if a["task"] == task]

    def peak(self, process):
        """The most memory that it has had, in KiB."""
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1])

    def large(self):
        """`make` (of queue one) leaves LARGE bytes and some, `use` (of two) reads them."""
        self.write("large.yaml", f"""version: 1
name: large
tasks:
  make:
    queue: one
    cwd: {self.dir}
    run: |
      truncate -s {LARGE} big
      echo done >> big
      echo ran >> ran
    artifacts: {{big: big}}
  use:
    queue: two
    cwd: {self.dir}
    needs: [make]
    run: sha256sum < ${{{{ needs.make.artifacts.big }}}}
""")
        self.hw("run", "large.yaml", "--detach")
        digest = hashlib.sha256()
        for _ in range(LARGE >> 20):
            digest.update(bytes(1 << 20))
        digest.update(b"done\n")
        return digest.hexdigest()

    def is_used(self, digest):
        self.assertEqual(self.hw("runs", "logs", "@last", "use").stdout.split()[0], digest)
        self.assertEqual(self.blobs(), {digest: LARGE + 5})
        self.until(lambda: not self.incoming(), "nothing is left on the way")


class FilesTest(WorkerArtifactsCase):
    def test_files_go_from_one_worker_to_another(self):
        self.up()
        self.worker("one", "--queue", "one=1")
        self.worker("two", "--queue", "two=1")
        self.write("w.yaml", f"""version: 1
tasks:
  build:
    queue: one
    cwd: {self.dir}
    run: |
      mkdir -p out
      printf 'report of %s\\n' "$HEADWORKS_RUN_ID" > out/report.txt
      printf '#!/bin/sh\\necho tool says $1\\n' > out/tool.sh
      chmod +x out/tool.sh
      : > out/nothing
      echo rows=2 > "$HEADWORKS_OUTPUT"
    artifacts: {{report: out/report.txt, tool: 'out/${{{{ "tool" }}}}.sh', nothing: out/nothing}}
  use:
    queue: two
    cwd: {self.dir}
    needs: [build]
    env: {{TOOL: '${{{{ needs.build.artifacts.tool }}}}'}}
    run: |
      cat ${{{{ needs.build.artifacts.report }}}} ${{{{ needs.build.artifacts.nothing }}}}
      "$TOOL" ${{{{ needs.build.output.rows }}}}
      grep -o '"report":"[^"]*"' "$HEADWORKS_INPUT" > input
      echo ${{{{ needs.build.artifacts.report }}}} > path
""")
        self.hw("run", "w.yaml", "--detach")
        self.ended()
        text = f"report of {self.json('runs', 'show', '@last')['id']}\n"
        self.assertEqual(self.hw("runs", "logs", "@last", "use").stdout, text + "tool says 2\n")
        path = (self.dir / "path").read_text().strip()
        self.assertEqual((self.dir / "input").read_text(), f'"report":"{path}"\n')
        self.assertTrue(path.startswith(str(self.dir / "worker-two")), path)
        self.until(lambda: not os.path.exists(path), "the copy goes with its attempt")
        self.assertEqual(self.blobs().keys(),
                         {sha256(text.encode()), sha256(b""),
                          sha256(b"#!/bin/sh\necho tool says $1\n")})
        self.assertEqual(
            self.hw("runs", "artifacts", "@last", "build", "report", "--to", "-").stdout, text)

    def test_one_that_is_an_env_file_is_read_once_it_is_there(self):
        self.up()
        self.worker("one")
        self.begin(("a", "echo COLOUR=blue > colours", "artifacts: {colours: colours}"),
                   ("b", "echo it is $COLOUR", "needs: [a]",
                    "env_file: ${{ needs.a.artifacts.colours }}"))
        self.ended()
        self.assertEqual(self.hw("runs", "logs", "@last", "b").stdout, "it is blue\n")

    def test_a_file_that_is_missing_or_too_large_fails_the_task(self):
        self.env["HEADWORKS_MAX_ARTIFACT_BYTES"] = "1KiB"
        self.up()
        self.worker("w", "--queue", "default=2")
        self.begin(("none", "true", "artifacts: {f: none.txt}"),
                   ("fits", "head -c 1024 /dev/zero > fits", "artifacts: {f: fits}"),
                   ("large", "head -c 1025 /dev/zero > large", "artifacts: {f: large}"))
        self.ended("failed")
        self.assertEqual(self.states(), {"none": "failed", "fits": "succeeded", "large": "failed"})
        none, = self.attempts("none")
        self.assertEqual(none["reason"], "artifact")
        self.assertIn("artifact f (none.txt) is not there", none["error"])
        large, = self.attempts("large")
        self.assertEqual(large["reason"], "artifact")
        self.assertIn("artifact f (large) has more than 1024 bytes", large["error"])
        self.assertEqual(self.incoming(), 0)


class BadDaysTest(WorkerArtifactsCase):
    def test_a_large_file_takes_no_memory(self):
        # What a sanitizer keeps of what was freed is not the program's.
        self.env["ASAN_OPTIONS"] = "quarantine_size_mb=4"
        self.up()
        one = self.worker("one", "--queue", "one=1")
        two = self.worker("two", "--queue", "two=1")
        digest = self.large()
        self.ended()
        self.is_used(digest)
        for process in (self.engine, one, two):
            self.assertLess(self.peak(process), MOST)

    def test_a_worker_that_is_killed_while_it_passes_a_file_on(self):
        self.up()
        self.worker("two", "--queue", "two=1")
        one = self.worker("one", "--queue", "one=1")
        digest = self.large()
        self.until(lambda: self.incoming() > 1 << 20, "a part of it is there")
        self.kill(one)
        self.assertEqual(self.blobs(), {}, "no half file has a name")
        self.worker("one", "--queue", "one=1")
        self.ended()
        self.is_used(digest)
        self.assertEqual([a["verdict"] for a in self.attempts("make")], ["lost", "succeeded"])

    def test_an_engine_that_restarts_while_a_file_is_passed_on(self):
        self.lease(60)  # restarts take long on a busy machine
        self.up()
        self.worker("one", "--queue", "one=1")
        self.worker("two", "--queue", "two=1")
        digest = self.large()
        for _ in range(2):
            self.until(lambda: self.incoming() > 1 << 20, "a part of it is there")
            self.kill(self.engine)
            for left in self.folder.glob("incoming/*"):
                left.unlink()  # so that what is seen next is new
            self.up()
        self.ended()
        self.is_used(digest)
        self.assertEqual(self.lines("ran"), ["ran"], "that costs the task nothing")

    def test_a_network_that_breaks_while_files_pass(self):
        self.lease(60)
        self.up()
        proxy = FaultProxy(self.server)
        self.addCleanup(proxy.close)
        self.worker("one", "--queue", "one=1", server=proxy.address)
        self.worker("two", "--queue", "two=1", server=proxy.address)
        digest = self.large()
        self.until(lambda: self.incoming() > 1 << 20, "a part of it is there")
        proxy.drop()
        seen = self.incoming()
        self.until(lambda: self.incoming() > seen + (1 << 20) or self.blobs(), "it goes on")
        needs = self.dir / "worker-two" / "attempts" / "needs"
        self.until(lambda: self.sizes(needs, "**/big").get("big", 0) > 1 << 20,
                   "the other fetches it")
        proxy.drop()
        self.ended()
        self.is_used(digest)
        self.assertEqual(self.lines("ran"), ["ran"])
        for task in ("make", "use"):
            self.assertEqual([a["verdict"] for a in self.attempts(task)], ["succeeded"])

    def test_a_cancel_stops_what_is_passed_on(self):
        self.up()
        self.worker("one", "--queue", "one=1")
        self.large()
        self.until(lambda: self.incoming() > 1 << 20, "a part of it is there")
        self.hw("runs", "cancel", "@last")
        self.ended("cancelled")
        self.assertEqual(self.blobs(), {})
        self.until(lambda: not self.incoming(), "what had come is gone")

    def test_a_full_disk_of_the_engine_is_said_and_heals(self):
        disk = self.mount_disk("2m")
        self.folder = disk / "artifacts"
        self.env["HEADWORKS_ARTIFACT_DIR"] = str(self.folder)
        self.up()
        self.worker("w")
        (disk / "filler").write_bytes(bytes(1_700_000))
        self.begin(("a", "head -c 500000 /dev/zero > big", "artifacts: {big: big}"),
                   ("b", "true", "needs: [a]"))
        self.ended("failed")
        attempt, = self.attempts("a")
        self.assertEqual(attempt["reason"], "artifact")
        self.assertIn("artifact big cannot be stored", attempt["error"])
        self.assertIn("No space left on device", attempt["error"])
        self.assertEqual((self.incoming(), self.blobs()), (0, {}))
        (disk / "filler").unlink()
        self.hw("runs", "rerun", "@last", "--failed", "--detach")
        self.ended()

    def test_a_full_disk_of_a_worker_waits_for_room(self):
        disk = self.mount_disk("4m")
        self.up()
        self.worker("one", "--queue", "one=1")
        self.worker("two", "--queue", "two=1", folder="disk/two")
        (disk / "filler").write_bytes(bytes(3_600_000))
        self.begin(("a", "head -c 1000000 /dev/zero > big", "queue: one", "artifacts: {big: big}"),
                   ("b", "wc -c < ${{ needs.a.artifacts.big }}", "queue: two", "needs: [a]"))
        self.until(lambda: [a for a in self.attempts("b") if a["verdict"] == "snoozed"],
                   "it cannot be put there")
        self.assertIn("No space left on device", self.attempts("b")[0]["error"])
        (disk / "filler").unlink()
        self.ended()
        self.assertEqual(self.hw("runs", "logs", "@last", "b").stdout.split(), ["1000000"])


if __name__ == "__main__":
    harness.main()

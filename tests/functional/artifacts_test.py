"""Artifacts: files that tasks leave and others get, with kills, full disks and damage in between."""
import hashlib
import json
import os
import stat
import subprocess

import harness
from harness import FAILED, NOT_FOUND, OK, UNAVAILABLE, USAGE

BUILD = """version: 1
name: build
tasks:
  build:
    run: |
      mkdir -p out
      printf 'report of %s\\n' "$HEADWORKS_RUN_ID" > out/report.txt
      printf '#!/bin/sh\\necho tool says $1\\n' > "$HEADWORKS_SCRATCH/tool.sh"
      chmod +x "$HEADWORKS_SCRATCH/tool.sh"
      echo rows=2 > "$HEADWORKS_OUTPUT"
    artifacts: {report: out/report.txt, tool: $HEADWORKS_SCRATCH/tool.sh}
  use:
    needs: [build]
    env: {TOOL: '${{ needs.build.artifacts.tool }}'}
    run: |
      cat ${{ needs.build.artifacts.report }}
      "$TOOL" ${{ needs.build.output.rows }}
      cp "$HEADWORKS_INPUT" input.json
      echo ${{ needs.build.artifacts.report }} > path
"""


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class ArtifactCase(harness.Case):
    def setUp(self):
        super().setUp()
        self.folder = self.store.with_name("headworks.db-artifacts")

    def blobs(self, run):
        """What is kept of a run, each by its name; all of it is whole."""
        folder = self.folder / "runs" / "public" / self.json("runs", "show", run)["id"]
        found = {}
        for file in folder.iterdir() if folder.exists() else ():
            data = file.read_bytes()
            self.assertEqual(sha256(data), file.name)
            found[file.name] = data
        return found

    def incoming(self):
        folder = self.folder / "incoming"
        return sorted(folder.iterdir()) if folder.exists() else []

    def attempts(self, task, run="@last"):
        return [a for a in self.json("runs", "show", run)["attempts"] if a["task"] == task]

    def log(self, task, run="@last"):
        return self.hw("runs", "logs", run, task).stdout


class FilesTest(ArtifactCase):
    def test_files_reach_successors_and_people(self):
        self.write("build.yaml", BUILD)
        self.hw("run", "build.yaml")
        run = self.json("runs", "show", "@last")
        text = f"report of {run['id']}\n"
        self.assertEqual(self.log("use"), text + "tool says 2\n")
        self.assertEqual({t["task"]: t["output"] for t in run["tasks"]},
                         {"build": {"rows": "2"}, "use": None})

        seen = json.loads((self.dir / "input.json").read_text())["needs"]["build"]
        path = (self.dir / "path").read_text().strip()
        self.assertEqual(seen["artifacts"]["report"], path)
        self.assertTrue(path.endswith("/build/report/report.txt"), path)
        self.assertEqual(set(seen), {"state", "output", "artifacts"})
        self.assertFalse(os.path.exists(path), "the copy goes with its attempt")

        listed = self.json("runs", "artifacts", "@last")
        self.assertEqual([(a["task"], a["name"], a["file"], a["executable"]) for a in listed],
                         [("build", "report", "report.txt", False), ("build", "tool", "tool.sh", True)])
        self.assertEqual((listed[0]["size"], listed[0]["sha256"]),
                         (len(text), sha256(text.encode())))
        self.assertIn("report.txt", self.hw("runs", "artifacts", "@last", "build").stdout)
        self.assertEqual(self.json("runs", "artifacts", "@last", "use"), [])

        self.assertEqual(self.hw("runs", "artifacts", "@last", "build", "report", "--to", "-").stdout,
                         text)
        self.hw("runs", "artifacts", "@last", "build", "report", "--to", "copy.txt")
        self.assertEqual((self.dir / "copy.txt").read_text(), text)
        (self.dir / "into").mkdir()
        self.hw("runs", "artifacts", "@last", "build", "tool", "--to", "into")
        tool = self.dir / "into" / "tool.sh"
        self.assertEqual(subprocess.run([tool, "hello"], capture_output=True, text=True).stdout,
                         "tool says hello\n")
        self.assertEqual(sorted(os.listdir(self.dir / "into")), ["tool.sh"])

        done = self.hw("runs", "artifacts", "@last", "build", "reprot", "--to", "x", code=NOT_FOUND)
        self.assertIn("did you mean 'report'", done.stderr)
        self.hw("runs", "artifacts", "@last", "build", "report", code=USAGE)
        os.mkfifo(self.dir / "fifo")
        done = self.hw("runs", "artifacts", "@last", "build", "report", "--to", "fifo", code=USAGE)
        self.assertIn("fifo is no regular file", done.stderr)
        with open("/dev/full", "w") as full:
            done = subprocess.run([self.program, "runs", "artifacts", "@last", "build", "report",
                                   "--to", "-"], env=self.env, cwd=self.dir, stdout=full,
                                  stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, UNAVAILABLE)
        self.assertIn("No space left on device", done.stderr)
        self.hw("runs", "artifacts", "@last", "build", "--to", "x", code=USAGE)
        self.assertFalse((self.dir / "x").exists())

    def test_one_that_is_an_env_file_is_read_once_it_is_there(self):
        self.write("env.yaml", """version: 1
tasks:
  build:
    run: echo COLOUR=blue > colours
    artifacts: {colours: colours}
  use:
    needs: [build]
    env_file: ${{ needs.build.artifacts.colours }}
    run: echo "it is $COLOUR"
""")
        self.hw("run", "env.yaml")
        self.assertEqual(self.log("use"), "it is blue\n")

    def test_a_matrix_of_which_one_is_needed_here_and_several_there_is_read_by_its_lists(self):
        self.write("m.yaml", """version: 1
tasks:
  build:
    matrix: {include: [{cc: gcc, v: 1}, {cc: gcc, v: 2}, {cc: clang, v: 3}]}
    run: |
      echo ${{ matrix.v }} > bin${{ matrix.v }}
      echo n=${{ matrix.v }} > "$HEADWORKS_OUTPUT"
    artifacts: {bin: 'bin${{ matrix.v }}'}
  test:
    needs: [build]
    matrix: {cc: [gcc, clang]}
    env:
      BINS: "${{ needs.build.all_artifacts.map(a, a.bin).join(' ') }}"
      ONE: "${{ has(needs.build.output) ? needs.build.output.n : 'several' }}"
    run: |
      echo ${{ needs.build.outputs.map(o, o.n).join("+") }} "$ONE" ${{ needs.build.states[0] }} \\
        ${{ needs.build.matrices.map(m, string(m.v)).join("+") }} $(cat $BINS)
      cp "$HEADWORKS_INPUT" input-${{ matrix.cc }}.json
""")
        self.hw("run", "m.yaml")
        self.assertEqual(self.log("test[gcc]"), "1+2 several succeeded 1+2 1 2\n")
        self.assertEqual(self.log("test[clang]"), "3 3 succeeded 3 3\n")
        lists = {"states", "outputs", "matrices", "all_artifacts", "artifacts"}
        for cc, more in (("gcc", set()), ("clang", {"state", "output", "matrix"})):
            seen = json.loads((self.dir / f"input-{cc}.json").read_text())["needs"]["build"]
            self.assertEqual(set(seen), lists | more)
            self.assertEqual(type(seen["artifacts"]), dict if more else list)

    def test_one_that_is_missing_fails_the_task_and_those_that_may_do_without_go_on(self):
        self.write("w.yaml", """version: 1
tasks:
  lint:
    run: 'true'
    allow_failure: true
    retry: {max_attempts: 3, initial: 0s}
    artifacts: {report: lint.txt}
  tell:
    needs: [lint]
    run: |
      echo ${{ has(needs.lint.artifacts.report) ? needs.lint.artifacts.report : "no report" }}
  insist:
    needs: [lint]
    run: cat ${{ needs.lint.artifacts.report }}
""")
        self.hw("run", "w.yaml", code=FAILED)
        self.assertEqual(self.states(), {"lint": "failed", "tell": "succeeded", "insist": "failed"})
        self.assertEqual(self.log("tell"), "no report\n")
        lint, = self.attempts("lint")
        self.assertEqual(lint["reason"], "artifact")
        self.assertIn("artifact report (lint.txt) is not there", lint["error"])
        self.assertIn(str(self.dir / "lint.txt"), lint["error"])
        self.assertEqual(self.attempts("insist")[0]["reason"], "expression")
        self.assertIn("lint.txt", self.hw("runs", "why", "@last", "lint").stdout)

    def test_a_retry_and_a_rerun_leave_their_own_files_and_keep_those_of_others(self):
        self.write("w.yaml", """version: 1
tasks:
  flaky:
    run: |
      echo try $HEADWORKS_TRY > file
      test $HEADWORKS_TRY = 2
    retry: {max_attempts: 2, initial: 0s}
    artifacts: {file: file}
  use: {needs: [flaky], run: 'test -e go && cat ${{ needs.flaky.artifacts.file }}'}
""")
        self.hw("run", "w.yaml", code=FAILED)
        self.assertEqual(self.blobs("@last").keys(), {sha256(b"try 2\n")}, "a failure leaves none")
        (self.dir / "file").unlink()
        self.write("go", "")
        self.hw("runs", "rerun", "@last", "--failed")
        self.assertEqual(self.log("use"), "try 2\n")
        self.assertEqual(len(self.attempts("flaky")), 2)

        self.hw("runs", "rerun", "@last", "--from", "flaky")
        listed, = self.json("runs", "artifacts", "@last")
        self.assertEqual(listed["sha256"], sha256(b"try 2\n"))

    def test_of_a_matrix_each_task_has_its_own(self):
        self.write("w.yaml", """version: 1
name: w
tasks:
  build:
    matrix: {os: [linux, "a/b c"]}
    env: {OS: '${{ matrix.os }}', FILE: '${{ matrix.os == "linux" ? "1" : "2" }}'}
    run: echo "built for $OS" > "$HEADWORKS_SCRATCH/$FILE"
    artifacts: {binary: '$HEADWORKS_SCRATCH/${{ matrix.os == "linux" ? "1" : "2" }}'}
  use:
    needs: [build]
    exec: [cat, '${{ needs.build.artifacts[0].binary }}', '${{ needs.build.artifacts[1].binary }}']
""")
        self.hw("run", "w.yaml")
        self.assertEqual(self.log("use"), "built for linux\nbuilt for a/b c\n")
        done = self.hw("runs", "artifacts", "@last", "build", "binary", "--to", "-", code=USAGE)
        self.assertIn("name one of them, such as build[linux]", done.stderr)
        self.assertEqual(
            self.hw("runs", "artifacts", "@last", "build[linux]", "binary", "--to", "-").stdout,
            "built for linux\n")

    def test_the_largest_is_a_setting(self):
        self.write("w.yaml", "version: 1\ntasks:\n  a:\n    run: head -c $SIZE /dev/zero > big\n"
                             "    inherit_env: [SIZE]\n    artifacts: {big: big}\n")
        self.env["HEADWORKS_MAX_ARTIFACT_BYTES"] = "1KiB"
        self.env["SIZE"] = "1024"
        self.hw("run", "w.yaml")
        self.env["SIZE"] = "1025"
        self.hw("run", "w.yaml", code=FAILED)
        self.assertIn("more than 1024 bytes", self.attempts("a")[0]["error"])
        self.assertEqual(self.incoming(), [])

    def test_what_a_file_says_of_them_is_checked(self):
        self.write("w.yaml", "version: 1\ntasks:\n  a: {run: x, artifacts: {report: ../r}}\n"
                             "  b: {needs: [a], run: 'cat ${{ needs.a.artifacts.reprot }}'}\n")
        done = self.hw("workflow", "validate", "w.yaml", code=USAGE)
        self.assertIn("w.yaml:3:35: HW1124", done.stdout + done.stderr)
        self.write("w.yaml", "version: 1\ntasks:\n  a: {run: x, artifacts: {report: r}}\n"
                             "  b: {needs: [a], run: 'cat ${{ needs.a.artifacts.reprot }}'}\n")
        done = self.hw("workflow", "validate", "w.yaml", code=USAGE)
        self.assertIn("HW1302", done.stdout + done.stderr)
        self.assertIn("report", done.stdout + done.stderr)
        for code in ("HW1123", "HW1124"):
            self.assertIn("artifact", self.hw("explain", code).stdout)


class LifeTest(ArtifactCase):
    def test_they_go_with_their_run(self):
        self.write("build.yaml", BUILD)
        self.hw("run", "build.yaml")
        self.hw("run", "build.yaml")
        runs = [run["run"] for run in self.json("runs", "list")]
        kept = self.blobs(runs[0])
        self.assertEqual(len(kept), 2)
        self.assertEqual(len(self.blobs(runs[1])), 2)
        self.hw("runs", "delete", runs[1])
        self.assertEqual(len(list((self.folder / "runs" / "public").iterdir())), 1)
        self.assertEqual(self.blobs(runs[0]), kept)

    def test_what_nobody_has_any_more_is_swept(self):
        self.write("build.yaml", BUILD)
        self.hw("run", "build.yaml")
        kept = self.blobs("@last")
        # As a crash leaves them: of a run that is deleted, and half of a file.
        lost = self.folder / "runs" / "public" / "01900000-0000-7000-8000-000000000000"
        lost.mkdir()
        (lost / sha256(b"lost")).write_bytes(b"lost")
        (self.folder / "incoming" / "abcdef").write_bytes(b"half")
        self.engine_up()
        self.until(lambda: not lost.exists() and not self.incoming(), "both are gone")
        self.assertEqual(self.blobs("@last"), kept)

    def test_a_folder_of_its_own(self):
        self.folder = self.dir / "elsewhere"
        self.env["HEADWORKS_ARTIFACT_DIR"] = str(self.folder)
        self.write("build.yaml", BUILD)
        self.hw("run", "build.yaml")
        self.assertEqual(len(self.blobs("@last")), 2)
        self.assertEqual(stat.S_IMODE(self.folder.stat().st_mode), 0o700)


class BadDaysTest(ArtifactCase):
    def test_kill_while_a_file_is_stored(self):
        """The first is stored, the second is on its way, and no verdict is given."""
        size = 256 << 20
        self.write("w.yaml", f"""version: 1
tasks:
  make:
    run: |
      echo small > a
      truncate -s {size} b
      echo done >> b
      echo ran >> ran
    artifacts: {{a: a, b: b}}
  use:
    needs: [make]
    run: |
      cat ${{{{ needs.make.artifacts.a }}}}
      tail -c 5 ${{{{ needs.make.artifacts.b }}}}
""")
        engine = self.engine_up()
        run = self.json("run", "w.yaml", "--detach")["run"]
        first = sha256(b"small\n")
        self.until(lambda: first in {f.name for f in self.folder.glob("runs/*/*/*")},
                   "the first is stored")
        engine.kill()
        engine.wait()
        self.assertEqual(self.blobs(run), {first: b"small\n"}, "no half file has a name")

        self.engine_up()
        self.until(lambda: self.run_state(run) == "succeeded", "it runs again")
        self.assertEqual(self.lines("ran"), ["ran", "ran"])
        self.assertEqual([a["verdict"] for a in self.attempts("make", run)], ["lost", "succeeded"])
        self.assertEqual(self.log("use", run), "small\ndone\n")
        self.assertEqual({len(data) for data in self.blobs(run).values()}, {6, size + 5})
        self.until(lambda: not self.incoming(), "what the kill left is swept")

    def test_damage_is_found_before_anybody_reads_it(self):
        self.write("w.yaml", "version: 1\ntasks:\n"
                             "  a: {run: echo good > file, artifacts: {file: file}}\n"
                             "  b: {needs: [a], run: 'test -e go'}\n")
        self.hw("run", "w.yaml", code=FAILED)
        blob, = self.folder.glob("runs/*/*/*")
        blob.chmod(0o600)
        blob.write_text("evil\n")
        self.write("go", "")
        self.hw("runs", "rerun", "@last", "--failed", code=FAILED)
        last = self.attempts("b")[-1]
        self.assertEqual((last["reason"], last["verdict"]), ("artifact", "failed"))
        self.assertIn("artifact a.file: ", last["error"])
        self.assertIn("damaged", last["error"])
        done = self.hw("runs", "artifacts", "@last", "a", "file", "--to", "copy",
                       code=harness.UNAVAILABLE)
        self.assertIn("damaged", done.stderr)
        self.assertFalse((self.dir / "copy").exists())
        self.assertEqual([f for f in os.listdir(self.dir) if f.startswith("copy")], [])
        # The remedy is to make it anew.
        self.hw("runs", "rerun", "@last", "--from", "a")

    def test_a_full_disk_is_said_and_heals(self):
        if os.geteuid() != 0:
            self.skipTest("only root can mount a small disk")
        disk = self.dir / "disk"
        disk.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk],
                              capture_output=True, text=True)
        if done.returncode != 0:
            self.skipTest(f"no disk can be mounted here: {done.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "--lazy", disk], check=True)
        self.folder = disk / "artifacts"
        self.env["HEADWORKS_ARTIFACT_DIR"] = str(self.folder)
        self.write("w.yaml", "version: 1\ntasks:\n  a:\n    run: head -c 500000 /dev/zero > big\n"
                             "    artifacts: {big: big}\n  b: {needs: [a], run: 'true'}\n")
        (disk / "filler").write_bytes(bytes(700_000))
        self.hw("run", "w.yaml", code=FAILED)
        attempt, = self.attempts("a")
        self.assertEqual(attempt["reason"], "artifact")
        self.assertIn("artifact big cannot be stored", attempt["error"])
        self.assertIn("No space left on device", attempt["error"])
        self.assertEqual(self.incoming(), [])
        self.assertEqual(self.blobs("@last"), {})
        (disk / "filler").unlink()
        self.hw("runs", "rerun", "@last", "--failed")
        self.assertEqual(self.states(), {"a": "succeeded", "b": "succeeded"})


if __name__ == "__main__":
    harness.main()

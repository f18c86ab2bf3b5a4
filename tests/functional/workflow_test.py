"""`headworks workflow validate|show|fmt|new`: files, before they run."""
import json
import os
import re
import stat
from xml.etree import ElementTree

import harness
from harness import FAILED, NOT_FOUND, REFUSED, ROOT, USAGE, Case

GOOD = "version: 1\nname: good\ntasks:\n  a: {run: 'true'}\n  b: {run: 'true', needs: [a]}\n"
BAD = "version: 1\nname: bad\ntasks:\n  a: {run: x, need: [b]}\n  c: {run: x, needs: [d]}\n"

EVERYTHING = """
version: 1
name: everything
description: All keys once.
params: {n: 1, who: nobody, list: [1, 2]}
env: {A: "1"}
timeout: 1h30m
max_parallel: 3
on_failure: cancel_rest
finally_timeout: 90s
tasks:
  a:
    description: The first.
    run: |
      echo one
      echo two
    env: {B: "x: y"}
    inherit_env: [TERM]
    cwd: sub
    timeout: 1500ms
    grace: 3s
    priority: 7
    allow_failure: true
    retry: {max_attempts: 4, backoff: linear, initial: 250ms, max: 1m, jitter: 0.5, max_losses: 2}
  b:
    exec: [/bin/echo, "yes", "010", "it's"]
    needs: [a]
    trigger_rule: all_done
on_cancel:
  undo: {run: echo undo}
finally:
  last: {run: echo last}
"""


class ValidateTest(Case):
    def test_all_faults_of_all_files_with_places_and_the_number_of_good_ones(self):
        self.write("flows/good.yaml", GOOD)
        self.write("flows/bad.yaml", BAD)
        done = self.hw("workflow", "validate", "flows", code=USAGE)
        self.assertIn("bad.yaml:4:", done.stderr)
        self.assertIn("bad.yaml:5:", done.stderr)
        self.assertRegex(done.stdout, r"1 of 2 files good, \d faults\n$")
        self.write("flows/one.yaml", GOOD + "  x: {rn: x, run: x}\n")
        self.assertIn("0 of 1 files good, 1 fault\n",
                      self.hw("workflow", "validate", "flows/one.yaml", code=USAGE).stdout)
        for word, meant in (("validate", "`headworks workflow validate`"),
                            ("logs", "`headworks runs logs`"),
                            ("show", "`headworks workflow show`"),
                            ("show", "`headworks runs show`")):
            self.assertRegex(self.hw(word, "x.yaml", code=USAGE).stderr,
                             f"no command '{word}', did you mean .*{meant}")
        self.assertEqual(self.hw("workflow", "validate", "flows/good.yaml").stdout,
                         "1 of 1 files good\n")
        self.assertFalse(self.store.exists())

    def test_json_names_code_file_line_column_and_message(self):
        self.write("good.yaml", GOOD)
        self.write("bad.yaml", BAD)
        bad, good = self.json("workflow", "validate", "bad.yaml", "good.yaml", code=USAGE)
        self.assertEqual((bad["valid"], good["valid"], good["tasks"]), (False, True, 2))
        self.assertEqual(good["faults"], [])
        fault = bad["faults"][0]
        self.assertRegex(fault["code"], r"^HW\d{4}$")
        self.assertEqual((fault["file"], fault["line"], fault["column"]), ("bad.yaml", 4, 15))
        self.assertIn("needs", fault["message"])

    def test_function_that_this_program_lacks_is_a_warning(self):
        file = self.write("calls.yaml", "version: 1\nname: calls\ntasks: {a: {function: resize}}\n")
        done = self.hw("workflow", "validate", file)
        self.assertIn("1 of 1 files good", done.stdout)
        self.assertRegex(done.stderr, r"warning: .*calls.yaml: task a calls the function resize, which "
                                      r"this program does not have\nit has none; .*HEADWORKS_TASK")
        checked = self.json("workflow", "validate", file)[0]
        self.assertTrue(checked["valid"])
        self.assertIn("resize", checked["warnings"][0])
        self.assertEqual(checked["faults"], [])
        self.assertIn("warning: ", self.hw("workflow", "register", file).stderr)

    def test_what_may_be_misspelt_in_a_matrix_is_a_warning(self):
        file = self.write("m.yaml", "version: 1\ntasks:\n"
                          "  a: {run: 'true', matrix: {os: [linux, mac]}}\n"
                          "  b: {run: 'true', needs: a, matrix: {os: [linx]}}\n")
        said = ("warning: m.yaml:4:38: HW1017 b[linx] needs all of a, for none of it agrees in os, "
                "did you mean 'linux'?\n")
        done = self.hw("workflow", "validate", "m.yaml")
        self.assertIn(said, done.stderr)
        self.assertEqual(done.stdout, "1 of 1 files good\n")
        checked, = self.json("workflow", "validate", "m.yaml")
        self.assertTrue(checked["valid"])
        self.assertIn("HW1017", checked["warnings"][0])
        for command in ("run", "m.yaml", "--dry-run"), ("run", "m.yaml"), ("workflow", "register", file):
            self.assertIn("HW1017 b[linx]", self.hw(*command).stderr)

    def test_up_looks_at_the_same_files_and_says_so(self):
        self.write("flows/good.yaml", GOOD)
        self.write("flows/sub/other.yaml", GOOD)
        engine = self.start("up", "flows")
        self.until_said(engine, "workflow good registered")
        self.assertIn("sub-folders of flows are not looked at; there are files called like workflows "
                      "in flows/sub\n", self.text(engine))

    def test_name_that_two_files_have_is_a_warning(self):
        self.write("flows/a.yaml", GOOD)
        self.write("flows/b.yaml", GOOD)
        done = self.hw("workflow", "validate", "flows")
        self.assertEqual(done.stdout, "2 of 2 files good\n")
        self.assertIn("warning: workflow good is defined by flows/a.yaml as well", done.stderr)
        first, second = self.json("workflow", "validate", "flows")
        self.assertEqual((first["warnings"], len(second["warnings"])), ([], 1))
        self.assertEqual(self.hw("workflow", "validate", "flows/a.yaml", "flows/a.yaml").stderr, "")

    def test_standard_input(self):
        self.assertIn("1 of 1", self.hw("workflow", "validate", "-", input=GOOD).stdout)
        done = self.hw("workflow", "validate", "-", input=BAD, code=USAGE)
        self.assertIn("stdin.yaml:4:", done.stderr)

    def test_missing_file_or_folder(self):
        self.write("good.yaml", GOOD)
        self.hw("workflow", "validate", "missing.yaml", code=NOT_FOUND)
        out = self.hw("workflow", "validate", "missing.yaml", "good.yaml", code=NOT_FOUND).stdout
        self.assertIn("1 of 2 files good", out)
        (self.dir / "empty").mkdir()
        for flags in ((), ("-o", "json")):
            done = self.hw("workflow", "validate", "empty", *flags, code=NOT_FOUND)
            self.assertIn("no workflow files (.yaml, .yml, .json) in empty\n", done.stderr)

    def test_sub_folders_that_are_not_looked_at_are_named(self):
        self.write("flows/good.yaml", GOOD)
        self.write("flows/notes/readme.txt", "x")
        self.write("flows/.hidden/bad.yaml", BAD)
        self.assertEqual(self.hw("workflow", "validate", "flows").stderr, "")
        self.write("flows/deep/er/bad.yaml", BAD)
        self.write("flows/sub/bad.json", "{}")
        said = ("warning: sub-folders of flows are not looked at; there are files of that kind in "
                "flows/deep/er, flows/sub: name these folders, too\n")
        done = self.hw("workflow", "validate", "flows")
        self.assertEqual((done.stdout, done.stderr), ("1 of 1 files good\n", said))
        self.assertIn(said, self.hw("workflow", "validate", "flows", "-o", "json").stderr)
        self.assertIn(said, self.hw("workflow", "fmt", "--check", "flows").stderr)
        done = self.hw("workflow", "validate", "flows", "flows/sub/", "flows/deep/er", code=USAGE)
        self.assertNotIn("warning", done.stderr)
        self.assertIn("bad.json:1:1: ", done.stderr)
        done = self.hw("workflow", "validate", "flows/deep", code=NOT_FOUND)
        self.assertIn("no workflow files (.yaml, .yml, .json) in flows/deep; there are files of that "
                      "kind in flows/deep/er: name the folder\n", done.stderr)
        for number in range(7):
            self.write(f"many/{number}/a.yaml", GOOD)
        self.assertIn("many/3, many/4 and 2 more",
                      self.hw("workflow", "validate", "many", code=NOT_FOUND).stderr)


class ShowTest(Case):
    def version(self, file):
        return self.json("workflow", "validate", file)[0]["version"]

    def test_definition_has_the_defaults_of_the_language(self):
        task = self.json("workflow", "show", self.write("good.yaml", GOOD))["tasks"]["a"]
        self.assertEqual((task["trigger_rule"], task["grace"], task["priority"]),
                         ("all_success", "10s", 0))
        self.assertNotIn("retry", task)  # the platform may have a word in it

    def test_effective_definition_has_those_of_the_platform_too(self):
        file = self.write("good.yaml", GOOD.replace(
            "needs: [a]", "needs: [a], timeout: 0s, retry: {max_attempts: 1}, "
            "resources: {cpu: 2}"))
        show = ("workflow", "show", file, "--effective")
        tasks = self.json(*show)["tasks"]
        self.assertEqual(tasks["a"]["retry"], {"max_attempts": 1, "backoff": "exponential",
                                               "initial": "1s", "max": "5m", "jitter": 0.2,
                                               "max_losses": 6})
        self.assertEqual((tasks["a"]["timeout"], tasks["a"]["start_timeout"]), ("0s", "10m"))
        tasks = self.json(*show, "--task-timeout", "5m", "--task-retry", "max_attempts=3,max=1m",
                          "--task-start-timeout", "2m", "--task-resources",
                          "cpu=0.5,memory=1GiB")["tasks"]
        self.assertEqual((tasks["a"]["timeout"], tasks["a"]["start_timeout"],
                          tasks["a"]["retry"]["max_attempts"], tasks["a"]["retry"]["max"],
                          tasks["a"]["resources"]),
                         ("5m", "2m", 3, "1m", {"cpu": 0.5, "memory": "1GiB"}))
        self.assertEqual((tasks["b"]["timeout"], tasks["b"]["retry"]["max_attempts"],
                          tasks["b"]["retry"]["max"], tasks["b"]["resources"]),
                         ("0s", 1, "1m", {"cpu": 2, "memory": "1GiB"}))

    def test_definition_is_a_file_of_the_same_version(self):
        for name, text in [("good", GOOD), ("everything", EVERYTHING)]:
            file = self.write(f"{name}.yaml", text)
            for kind in ("yaml", "json"):
                shown = self.hw("workflow", "show", file, "-o", kind).stdout
                again = self.write(f"again.{kind}", shown)
                self.assertEqual(self.version(again), self.version(file), shown)
        self.assertIn("run: |\n      echo one\n      echo two\n",
                      self.hw("workflow", "show", self.dir / "everything.yaml", "-o", "yaml").stdout)

    def test_texts_come_back_whatever_characters_they_have(self):
        text = "".join(map(chr, [*range(1, 0x180), 0x2028, 0x2029, 0xFDD0, 0xFEFF, 0xFFFD, 0xFFFE,
                                 0xFFFF, 0x1F600, 0x1FFFE, 0x10FFFF]))
        # As Python writes JSON: characters beyond U+FFFF in two escapes.
        file = self.write("odd.json", json.dumps({
            "version": 1, "description": text, "params": {"p": text},
            "tasks": {"t": {"run": "true", "labels": {text[-60:]: "x", "a": text}}}}))
        shown = self.hw("workflow", "show", file, "-o", "yaml").stdout
        again = self.write("again.yaml", shown)
        self.assertEqual(self.version(again), self.version(file), shown)
        self.assertEqual(self.json("workflow", "show", again)["description"], text)

    GRIDS = """
version: 1
name: grids
tasks:
  build:
    run: echo ${{ matrix.os }}
    matrix: {os: [linux, mac], size: [1, 2.5], exclude: [{os: linux, size: 1}]}
  test:
    run: echo ${{ needs.build.states.join(" ") }}
    needs: [build]
    matrix: {os: [mac, linux, bsd], include: [{os: bsd, slow: true}, {os: aix, slow: false}]}
  pack:
    run: echo ${{ needs.test.state }}
    needs: [first, test]
    matrix: {include: [{os: linux, kind: deb}, {os: mac, kind: "010"}]}
  odd:
    run: echo ${{ matrix.os }}
    needs: [test]
    matrix: {include: [{kind: deb}, {kind: pkg, os: mac}]}
    when: has(matrix.os)
  first: {run: 'true'}
"""

    def test_effective_definition_of_every_example_and_matrix_is_of_the_same_version(self):
        files = [*(ROOT / "examples").rglob("*.yaml"), *(ROOT / "src/cli/templates").glob("*.yaml")]
        self.assertGreater(len(files), 20)
        copies = [self.write(f"flows/{number}-{file.name}", file.read_text())
                  for number, file in enumerate(files)]
        copies.append(self.write("flows/grids.yaml", self.GRIDS))
        for file in copies:
            for kind in ("yaml", "json"):
                shown = self.hw("workflow", "show", file, "-o", kind).stdout
                again = self.write(f"flows/again.{kind}", shown)
                self.assertEqual(self.version(again), self.version(file), shown)

    def test_registered_name_as_well_as_file(self):
        file = self.write("good.yaml", GOOD)
        self.hw("workflow", "register", file)
        by_name = self.json("workflow", "show", "good")
        self.assertEqual(by_name["definition"], self.json("workflow", "show", "good.yaml"))
        self.assertEqual(by_name["source"], str(file))
        self.assertRegex(self.hw("workflow", "show", "good").stdout, r"source .*enabled\n")
        self.assertRegex(self.hw("workflow", "show", "-", input=GOOD).stdout, r"1 +b +a +")
        self.hw("workflow", "show", "god", code=NOT_FOUND)
        self.assertIn(f"{self.dir} is a folder; name one of the files in it",
                      self.hw("workflow", "show", self.dir, code=USAGE).stderr)

    def test_graphs(self):
        file = self.write("everything.yaml", EVERYTHING)

        def graph(kind):
            return self.hw("workflow", "show", file, "--graph", kind).stdout

        self.assertEqual(graph("text"),
                         "├─ a\n│  └─ b\n├─ undo (on_cancel)\n└─ last (finally)\n")
        self.assertIn("t0 --> t1\n", graph("mermaid"))
        self.assertIn("t0 -> t1;\n", graph("dot"))
        svg = ElementTree.fromstring(graph("svg"))
        space = "{http://www.w3.org/2000/svg}"
        self.assertEqual([text.text for text in svg.iter(space + "text")],
                         ["everything", "a", "b", "undo (on_cancel)", "last (finally)"])
        self.assertEqual(len(svg.findall(f".//{space}g/{space}path")), 1)
        self.assertRegex(self.hw("workflow", "show", file).stdout, r"2 +last \(finally\) +all_success")
        self.hw("workflow", "show", file, "--graph", "png", code=USAGE)

    def test_large_graph_is_drawn_by_level(self):
        tasks = "".join(f"  t{n}: {{exec: [/bin/true], needs: [root]}}\n" for n in range(1200))
        file = self.write("wide.yaml", "version: 1\nname: wide\ntasks:\n  root: {run: x}\n" + tasks)
        self.assertEqual(self.hw("workflow", "show", file, "--graph", "text").stdout,
                         "level 0: root\nlevel 1: 1200 tasks: t0 …\n")
        self.assertLess(len(self.hw("workflow", "show", file, "--graph", "svg").stdout), 5000)


class RunFolderTest(Case):
    TEXT = """
version: 1
name: folder
env: {OUT: '${{ run.dir }}/out put'}
tasks:
  make:
    run: |
      mkdir "$OUT" && cd ${{ run.dir }} && echo 7 > n && echo N=8 > "$OUT/n.env"
      test ${{ run.dir }} = "$HEADWORKS_SCRATCH"
      grep -q '"dir":"'"$HEADWORKS_SCRATCH"'"' "$HEADWORKS_INPUT"
    artifacts: {n: '${{ run.dir }}/n'}
  read:
    needs: [make]
    cwd: ${{ run.dir }}
    exec: [cat, n, '${{ run.dir }}/n', '${{ needs.make.artifacts.n }}', '${{ env.OUT }}/n.env']
  file:
    needs: [make]
    env_file: '${{ run.dir }}/out put/n.env'
    run: echo "file has $N in $PWD"
finally:
  last: {run: 'ls ${{ run.dir }}'}
"""

    def test_templates_know_the_scratch_folder(self):
        file = self.write("folder.yaml", self.TEXT)
        out = self.hw("run", file).stdout
        self.assertEqual(out.count("read | 7\n"), 3, out)
        for line in ("read | N=8\n", "file | file has 8 in ", "last | n\n", "last | out put\n"):
            self.assertIn(line, out)

    def test_where_there_is_none_the_fault_says_what_to_do(self):
        for bad, says in (
                ("params: {p: '${{ run.dir }}'}\ntasks: {a: {run: x}}", "texts of a command only"),
                ("tasks: {a: {run: x, when: run.dir != ''}}", "texts of a command only"),
                ("tasks: {a: {function: f, idempotency_key: '${{ run.dir }}'}}",
                 "texts of a command only"),
                ("tasks: {a: {run: 'ls ${{ run.scratch }}'}}", "the scratch folder is run.dir")):
            file = self.write("bad.yaml", f"version: 1\n{bad}\n")
            done = self.hw("workflow", "validate", file, code=USAGE)
            self.assertIn("HW1302 ", done.stderr)
            self.assertIn(says, done.stderr)
            self.assertIn(", 1 fault\n", done.stdout)


class FormatTest(Case):
    UGLY = ("# Says hello.\n\ntasks:\n    # the only one\n    a:\n        run: |\n"
            "            echo a\n\n\n            echo b   # said\n        description: d\n\n\n\n"
            "name: ugly\nversion: 1\n")
    TIDY = ("# Says hello.\n\nversion: 1\nname: ugly\n\ntasks:\n  # the only one\n  a:\n"
            "    description: d\n    run: |\n      echo a\n\n\n      echo b   # said\n")

    def test_prints_checks_and_writes(self):
        file = self.write("ugly.yaml", self.UGLY)
        os.chmod(file, 0o640)
        before = self.json("workflow", "validate", file)[0]["version"]
        self.assertEqual(self.hw("workflow", "fmt", file).stdout, self.TIDY)
        self.assertEqual(self.hw("workflow", "fmt", "-", input=self.UGLY).stdout, self.TIDY)
        self.assertEqual(file.read_text(), self.UGLY)
        self.assertIn("would change", self.hw("workflow", "fmt", "--check", file, code=FAILED).stdout)
        self.assertEqual(self.json("workflow", "fmt", "--write", self.dir), [str(file)])
        self.assertEqual(file.read_text(), self.TIDY)
        self.assertEqual(stat.S_IMODE(file.stat().st_mode), 0o640)
        self.assertEqual(self.json("workflow", "validate", file)[0]["version"], before)
        self.assertEqual(self.hw("workflow", "fmt", "--check", file).stdout, "")

    def test_what_is_not_valid_is_left_alone(self):
        bad = self.write("bad.yaml", BAD)
        self.assertIn("bad.yaml:4:", self.hw("workflow", "fmt", "--write", bad, code=USAGE).stderr)
        self.assertEqual(bad.read_text(), BAD)

    def test_keys_stay_where_an_alias_needs_them(self):
        text = ("version: 1\nname: alias\ntasks:\n  a: &a\n    run: x\n    retry: &r\n"
                "      max_attempts: 2\n    needs: []\n  b:\n    run: y\n    retry: *r\n")
        file = self.write("alias.yaml", text)
        before = self.json("workflow", "validate", file)[0]["version"]
        self.hw("workflow", "fmt", "--write", file)
        self.assertEqual(self.json("workflow", "validate", file)[0]["version"], before)

    def test_examples_are_formatted(self):
        files = sorted((ROOT / "examples").rglob("*.yaml"))
        files += sorted((ROOT / "src/cli/templates").glob("*.yaml"))
        self.assertGreater(len(files), 5)
        self.hw("workflow", "fmt", "--check", *files)


class NewTest(Case):
    def test_every_template_validates_is_formatted_and_runs(self):
        names = re.search(r"--template ([a-z|]+)", self.hw("workflow", "new", "--help").stdout)
        names = names.group(1).split("|")
        self.assertIn("minimal", names)
        self.assertIn("etl", names)
        for name in names:
            with self.subTest(template=name):
                file = self.dir / f"my-{name}.yaml"
                self.hw("workflow", "new", file, "--template", name)
                self.assertGreater(file.read_text().count("#"), 2, "commented")
                self.hw("workflow", "validate", file)
                self.hw("workflow", "fmt", "--check", file)
                run = self.json("run", file)
                self.assertEqual((run["workflow"], run["state"]), (f"my-{name}", "succeeded"))

    def test_file_that_is_there_and_bad_names_are_refused(self):
        self.hw("workflow", "new", "a.yaml")
        self.assertIn("File exists", self.hw("workflow", "new", "a.yaml", code=REFUSED).stderr)
        self.assertIn("did you mean 'etl'?",
                      self.hw("workflow", "new", "b.yaml", "--template", "elt", code=USAGE).stderr)
        self.hw("workflow", "new", "a b.yaml", code=USAGE)
        for name in ("a", "a.json", "-", ".yaml", ".a.yaml"):
            self.assertIn("ends in .yaml or .yml", self.hw("workflow", "new", name, code=USAGE).stderr)
        done = self.hw("workflow", "new", "no/a.yaml", code=NOT_FOUND)
        self.assertEqual(done.stderr, "headworks: cannot make no/a.yaml: No such file or directory\n")
        self.assertFalse((self.dir / "a b.yaml").exists())


class ExpressionTest(Case):
    def test_value_and_type(self):
        variables = '{"params": {"n": 21, "tags": ["a", "b"]}}'
        self.assertEqual(self.hw("expr", "params.n * 2", "--with", variables).stdout, "42\n")
        self.assertEqual(self.json("expr", "params.tags.join('+')", "--with",
                                   "@" + str(self.write("with.json", variables))),
                         {"type": "string", "value": "a+b"})
        for text, value in (("1 + 1", "2"), ("1.0 / 2.0", "0.5"), ("2.5 * 3.0", "7.5"),
                            ("0.1 + 0.2", "0.30000000000000004"), ("{'b': 1.0, 'a': 1}", '{"b":1,"a":1}')):
            self.assertEqual(self.hw("expr", text).stdout, value + "\n")

    def test_faults_are_pointed_at(self):
        done = self.hw("expr", "parms.n > 1", "--with", '{"params": {}}', code=USAGE)
        self.assertIn("did you mean 'params'", done.stderr)
        self.assertIn("\n  parms.n > 1\n  ^^^^^\n", done.stderr)
        done = self.hw("expr", "needs.a-b.x", "--with", '{"needs": {"a-b": {"x": 1}}}', code=USAGE)
        self.assertIn("no variable 'b'; ", done.stderr)
        self.assertIn("; '-' means minus here: a name that has one goes into brackets, x[\"a-b\"]\n",
                      done.stderr)
        done = self.hw("expr", "[" + "1, " * 15_000 + "nope" + ", 1" * 1_000 + "]", code=USAGE)
        self.assertLess(len(done.stderr), 500)
        self.assertRegex(done.stderr, r"\n  \.\.\.[1, ]+nope[1, ]+\.\.\.\n {55}\^{4}\n")
        ten = "[1,2,3,4,5,6,7,8,9,10]"  # and ten to the seventh steps
        costly = "".join(f"{ten}.all({name}, " for name in "abcdefg") + "true" + ")" * 7
        self.assertNotIn("store", self.hw("expr", costly, code=USAGE).stderr)
        for args in (["1 +"], ["1 / 0"], ["x", "--with", "[1]"], ["x", "--with", "{"]):
            self.assertTrue(self.hw("expr", *args, code=USAGE).stderr.startswith("headworks: "))
        self.hw("expr", "1", "--with", "@missing.json", code=NOT_FOUND)


class SchemaTest(Case):
    def test_schema_has_every_key_with_its_meaning(self):
        schema = json.loads(self.hw("workflow", "schema").stdout)
        self.assertEqual(schema["$schema"], "http://json-schema.org/draft-07/schema#")
        self.assertIn("description", schema["definitions"]["task"]["properties"]["retry"])


if __name__ == "__main__":
    harness.main()
